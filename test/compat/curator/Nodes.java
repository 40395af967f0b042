import java.nio.charset.StandardCharsets;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/** Nodes that stay, members that leave, and numbers that two clients count up. */
final class Nodes {
    private Nodes() {
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    private static PersistentNode persistent(Scene scene, CuratorFramework client, String path) throws Exception {
        PersistentNode node = scene.keep(new PersistentNode(client, CreateMode.EPHEMERAL, false, path, bytes("mine")));
        node.start();
        Scene.check(node.waitForInitialCreate(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS), "the node is there");
        return node;
    }

    static void persistentNode(Scene scene) throws Exception {
        CuratorFramework owner = scene.client();
        CuratorFramework other = scene.client();
        PersistentNode node = persistent(scene, owner, "/persistent/one");
        long first = other.checkExists().forPath("/persistent/one").getCzxid();
        other.delete().forPath("/persistent/one");
        Scene.await(() -> {
            Stat stat = other.checkExists().forPath("/persistent/one");
            return stat != null && stat.getCzxid() > first;
        }, "the node is back after a stranger deleted it");
        node.setData(bytes("new"));
        Scene.await(() -> new String(other.getData().forPath("/persistent/one"), StandardCharsets.US_ASCII)
            .equals("new"), "the new data");
        scene.expire(owner);
        long session = owner.getZookeeperClient().getZooKeeper().getSessionId();
        Scene.await(() -> {
            Stat stat = other.checkExists().forPath("/persistent/one");
            return stat != null && stat.getEphemeralOwner() == session;
        }, "the node is back in the new session");
        scene.say(new String(other.getData().forPath("/persistent/one"), StandardCharsets.US_ASCII));
        node.close();
        scene.say("after close: " + other.checkExists().forPath("/persistent/one"));
    }

    static void persistentNodeRestart(Scene scene) throws Exception {
        CuratorFramework owner = scene.client();
        persistent(scene, owner, "/persistent-restart");
        scene.restart();
        CuratorFramework other = scene.client();
        Scene.await(() -> {
            Stat stat = other.checkExists().forPath("/persistent-restart");
            return stat != null
                && stat.getEphemeralOwner() == owner.getZookeeperClient().getZooKeeper().getSessionId();
        }, "the owner has its node");
        scene.say(new String(other.getData().forPath("/persistent-restart"), StandardCharsets.US_ASCII));
    }

    static void persistentTtlNode(Scene scene) throws Exception {
        CuratorFramework owner = scene.client();
        CuratorFramework other = scene.client();
        PersistentTtlNode node = new PersistentTtlNode(owner, "/ttl-node", 1000, bytes("mine"));
        node.start();
        Scene.check(node.waitForInitialCreate(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS), "the node is there");
        Scene.await(() -> other.checkExists().forPath("/ttl-node/" + PersistentTtlNode.DEFAULT_CHILD_NODE_NAME) != null,
            "the child that keeps it");
        Thread.sleep(1500);
        scene.say("kept: " + (other.checkExists().forPath("/ttl-node") != null));
        node.close();
        Scene.await(() -> other.checkExists().forPath("/ttl-node") == null, "the container goes");
    }

    static void groupMember(Scene scene) throws Exception {
        CuratorFramework owner = scene.client();
        GroupMember one = scene.keep(new GroupMember(owner, "/group", "one", bytes("1")));
        one.start();
        GroupMember two = new GroupMember(scene.client(), "/group", "two", bytes("2"));
        two.start();
        Scene.await(() -> one.getCurrentMembers().size() == 2 && two.getCurrentMembers().size() == 2, "both");
        scene.say(new TreeMap<>(two.getCurrentMembers()).keySet().toString());
        scene.expire(owner);
        Scene.await(() -> one.getCurrentMembers().size() == 2 && two.getCurrentMembers().size() == 2,
            "both, after an expiry");
        two.close();
        Scene.await(() -> one.getCurrentMembers().size() == 1, "the other has left");
        scene.say(one.getCurrentMembers().keySet().toString());
    }

    static void sharedCount(Scene scene) throws Exception {
        SharedCount one = scene.keep(new SharedCount(scene.client(), "/shared-count", 5));
        SharedCount two = scene.keep(new SharedCount(scene.client(), "/shared-count", 7));
        one.start();
        two.start();
        scene.say("seeded " + one.getCount() + " " + two.getCount());
        AtomicInteger heard = new AtomicInteger();
        two.addListener(new SharedCountListener() {
            @Override
            public void countHasChanged(SharedCountReader count, int value) {
                heard.set(value);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {
            }
        });
        one.setCount(10);
        Scene.await(() -> heard.get() == 10 && two.getCount() == 10, "the other hears of it");
        AtomicInteger next = new AtomicInteger();
        SharedCount[] counts = {one, two};
        scene.together(2, () -> {
            SharedCount count = counts[next.getAndIncrement()];
            for (int done = 0; done < 20;) {
                done += count.trySetCount(count.getVersionedValue(), count.getCount() + 1) ? 1 : 0;
            }
            return null;
        });
        Scene.await(() -> heard.get() == 50 && one.getCount() == 50, "forty more, not " + heard.get());
        scene.say("count " + one.getCount());
    }

    private static void countUp(Scene scene, DistributedAtomicLong[] values) throws Exception {
        AtomicInteger next = new AtomicInteger();
        scene.together(values.length, () -> {
            DistributedAtomicLong value = values[next.getAndIncrement()];
            for (int i = 0; i < 25; i++) {
                AtomicValue<Long> result = value.increment();
                Scene.check(result.succeeded(), "an increment");
            }
            return null;
        });
        scene.say("value " + values[0].get().postValue());
    }

    static void atomicLong(Scene scene) throws Exception {
        RetryNTimes often = new RetryNTimes(1000, 1);
        countUp(scene, new DistributedAtomicLong[] {
            new DistributedAtomicLong(scene.client(), "/atomic", often),
            new DistributedAtomicLong(scene.client(), "/atomic", often)});
    }

    static void atomicLongUnderLock(Scene scene) throws Exception {
        // The lock does not keep out the other one's first try, which takes none: a holder may lose to it any number of times.
        PromotedToLock lock = PromotedToLock.builder().lockPath("/atomic-lock")
            .retryPolicy(new RetryNTimes(1000, 1)).timeout(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS).build();
        RetryNTimes never = new RetryNTimes(0, 0);
        countUp(scene, new DistributedAtomicLong[] {
            new DistributedAtomicLong(scene.client(), "/atomic-locked", never, lock),
            new DistributedAtomicLong(scene.client(), "/atomic-locked", never, lock)});
    }
}
