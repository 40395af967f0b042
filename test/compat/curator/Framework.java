import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.CuratorEvent;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** Curator's own calls: what it builds on the client, each with its refusals. */
final class Framework {
    private Framework() {
    }

    /** A call that shall be refused, or not. */
    private interface Call {
        Object make() throws Exception;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    private static String outcome(Call call) throws Exception {
        try {
            call.make();
            return "OK";
        } catch (KeeperException refused) {
            return refused.code().name();
        }
    }

    static void creations(Scene scene) throws Exception {
        CuratorFramework client = scene.client();
        String guarded = client.create().creatingParentContainersIfNeeded().withProtection()
            .withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/made/in/container-", bytes("x"));
        scene.say(guarded.replaceAll("_c_[0-9a-f-]{36}-", "GUARD-"));
        Stat stat = new Stat();
        client.create().storingStatIn(stat).forPath("/made/plain", bytes("data"));
        scene.say("version " + stat.getVersion() + " length " + stat.getDataLength());
        scene.say("again " + outcome(() -> client.create().forPath("/made/plain")));
        scene.say("or set " + outcome(() -> client.create().orSetData().forPath("/made/plain", bytes("more"))));
        client.create().compressed().forPath("/made/packed", bytes("0123456789".repeat(50)));
        scene.say("unpacked " + client.getData().decompressed().forPath("/made/packed").length);
        scene.say("not empty " + outcome(() -> client.delete().forPath("/made")));
        client.delete().guaranteed().deletingChildrenIfNeeded().forPath("/made");
        scene.say("left " + client.checkExists().forPath("/made"));
        scene.say("quietly " + outcome(() -> client.delete().quietly().forPath("/made")));
        scene.say("bad version " + outcome(() -> {
            client.create().forPath("/versioned");
            return client.setData().withVersion(7).forPath("/versioned", bytes("x"));
        }));
    }

    static void containers(Scene scene) throws Exception {
        CuratorFramework client = scene.client();
        client.create().withMode(CreateMode.CONTAINER).forPath("/container");
        client.create().withMode(CreateMode.EPHEMERAL).forPath("/container/child");
        client.create().withTtl(500).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/short-lived");
        client.create().withTtl(500).withMode(CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL).forPath("/short-lived-");
        scene.say("there: " + (client.checkExists().forPath("/short-lived") != null));
        client.delete().forPath("/container/child");
        Scene.await(() -> client.checkExists().forPath("/container") == null, "the container goes");
        Scene.await(() -> client.checkExists().forPath("/short-lived") == null, "the node with a TTL goes");
    }

    static void transactions(Scene scene) throws Exception {
        CuratorFramework client = scene.client();
        List<CuratorTransactionResult> done = client.transaction().forOperations(
            client.transactionOp().create().forPath("/transaction", bytes("1")),
            client.transactionOp().setData().withVersion(0).forPath("/transaction", bytes("2")),
            client.transactionOp().create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/transaction/e-"),
            client.transactionOp().check().withVersion(1).forPath("/transaction"),
            client.transactionOp().delete().forPath("/transaction/e-0000000000"));
        for (CuratorTransactionResult one : done) {
            scene.say(one.getType() + " " + one.getForPath() + " " + one.getResultPath() + " " + one.getError());
        }
        try {
            client.transaction().forOperations(
                client.transactionOp().create().forPath("/transaction/a"),
                client.transactionOp().delete().forPath("/transaction/none"),
                client.transactionOp().create().forPath("/transaction/b"));
        } catch (KeeperException refused) {
            scene.say(refused.code() + " " + refused.getResults().stream()
                .map(result -> result instanceof org.apache.zookeeper.OpResult.ErrorResult
                    ? Integer.toString(((org.apache.zookeeper.OpResult.ErrorResult) result).getErr()) : "?")
                .collect(Collectors.joining(" ")));
        }
        scene.say("nothing made: " + client.getChildren().forPath("/transaction"));
    }

    static void accessControl(Scene scene) throws Exception {
        CuratorFramework ann = scene.started(scene.builder().authorization("digest", bytes("ann:secret")).build());
        CuratorFramework ben = scene.started(scene.builder().authorization("digest", bytes("ben:other")).build());
        ann.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath("/hers", bytes("x"));
        scene.say("hers " + outcome(() -> ann.getData().forPath("/hers")));
        scene.say("his get " + outcome(() -> ben.getData().forPath("/hers")));
        scene.say("his set " + outcome(() -> ben.setData().forPath("/hers", bytes("y"))));
        scene.say("his ACL " + outcome(() -> ben.setACL().withACL(ZooDefs.Ids.OPEN_ACL_UNSAFE).forPath("/hers")));
        for (ACL entry : ann.getACL().forPath("/hers")) {
            scene.say(entry.getPerms() + " " + entry.getId().getScheme() + " " + entry.getId().getId());
        }
        ann.setACL().withACL(Collections.singletonList(
            new ACL(ZooDefs.Perms.READ, ZooDefs.Ids.ANYONE_ID_UNSAFE))).forPath("/hers");
        scene.say("his get " + outcome(() -> ben.getData().forPath("/hers")));
        scene.say("her set " + outcome(() -> ann.setData().forPath("/hers", bytes("y"))));
    }

    static void watches(Scene scene) throws Exception {
        CuratorFramework client = scene.client();
        CuratorFramework writer = scene.client();
        ConcurrentLinkedQueue<String> events = new ConcurrentLinkedQueue<>();
        Watcher watcher = event -> {
            if (event.getPath() != null) {
                events.add(event.getType() + ":" + event.getPath());
            }
        };
        writer.create().forPath("/watches");
        client.watchers().add().withMode(AddWatchMode.PERSISTENT).usingWatcher(watcher).forPath("/watches");
        writer.setData().forPath("/watches", bytes("1"));
        writer.create().forPath("/watches/a");
        writer.create().forPath("/watches/a/b");
        scene.awaitEvents(() -> events.size() == 2, "two events, not " + events);
        client.watchers().remove(watcher).forPath("/watches");
        client.watchers().add().withMode(AddWatchMode.PERSISTENT_RECURSIVE).usingWatcher(watcher)
            .forPath("/watches/a");
        writer.setData().forPath("/watches/a/b", bytes("2"));
        scene.awaitEvents(() -> events.stream().anyMatch(event -> event.endsWith("a/b")), "an event, not " + events);
        scene.say(String.join(" ", events));
        scene.say("none set " + outcome(() -> client.watchers().remove(watcher).forPath("/watches/none")));
    }

    static void namespaces(Scene scene) throws Exception {
        CuratorFramework plain = scene.client();
        CuratorFramework spaced = scene.started(scene.builder().namespace("space").build());
        ConcurrentLinkedQueue<CuratorEvent> events = new ConcurrentLinkedQueue<>();
        spaced.create().creatingParentsIfNeeded().inBackground((client, event) -> events.add(event))
            .forPath("/a/b", bytes("x"));
        Scene.await(() -> !events.isEmpty(), "the answer");
        scene.say(events.peek().getType() + " " + events.peek().getPath() + " " + events.peek().getResultCode());
        scene.say(new String(plain.getData().forPath("/space/a/b"), StandardCharsets.US_ASCII));
        spaced.sync().forPath("/a");
        // Who the servers are differs; how many there are is no client's business.
        String config = new String(plain.getConfig().forEnsemble(), StandardCharsets.US_ASCII);
        scene.say("config " + config.replaceAll("(server\\.\\d+=127\\.0\\.0\\.1:|version=)\\S+\n?", ""));
    }
}
