import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.cache.TreeCacheEvent;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;

/** Curator's caches: one client writes, another's caches follow, also over a kill of the server. */
@SuppressWarnings("deprecation")
final class Caches {
    private Caches() {
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    private static String text(ChildData node) {
        return node.getPath() + "=" + new String(node.getData(), StandardCharsets.US_ASCII);
    }

    private static void put(CuratorFramework client, String path, String data) throws Exception {
        client.create().orSetData().creatingParentsIfNeeded().forPath(path, bytes(data));
    }

    private static String lines(Collection<String> texts) {
        return texts.stream().sorted().collect(Collectors.joining(" "));
    }

    private static String content(CuratorCache cache) {
        return cache.stream().sorted().map(Caches::text).collect(Collectors.joining(" "));
    }

    /** What a TreeCache holds below and at a path. */
    private static void gather(TreeCache cache, String path, Map<String, ChildData> into) {
        ChildData data = cache.getCurrentData(path);
        Map<String, ChildData> children = cache.getCurrentChildren(path);
        if (data == null || children == null) {
            return;
        }
        into.put(path, data);
        for (String child : children.keySet()) {
            gather(cache, path + "/" + child, into);
        }
    }

    private static String content(TreeCache cache, String path) {
        Map<String, ChildData> nodes = new TreeMap<>();
        gather(cache, path, nodes);
        return nodes.values().stream().map(Caches::text).collect(Collectors.joining(" "));
    }

    static void curatorCache(Scene scene) throws Exception {
        CuratorFramework writer = scene.client();
        put(writer, "/cache/a", "1");
        put(writer, "/cache/a/b", "2");
        ConcurrentLinkedQueue<String> events = new ConcurrentLinkedQueue<>();
        CountDownLatch ready = new CountDownLatch(1);
        CuratorCache cache = scene.keep(CuratorCache.build(scene.client(), "/cache"));
        cache.listenable().addListener(CuratorCacheListener.builder().forInitialized(ready::countDown)
            .forAll((type, before, after) -> events.add(type + ":" + text(after != null ? after : before))).build());
        cache.start();
        Scene.check(ready.await(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS), "the cache is filled");
        scene.say("at start " + content(cache));
        Scene.await(() -> events.size() == 3, "the events of the start");
        put(writer, "/cache/a/c", "3");
        Scene.await(() -> events.size() == 4, "the new node's event");
        put(writer, "/cache/a/b", "4");
        Scene.await(() -> events.size() == 5, "the changed node's event");
        writer.delete().deletingChildrenIfNeeded().forPath("/cache/a");
        Scene.await(() -> events.size() == 8, "the events of the deleted, not " + events);
        scene.say(lines(events));
        scene.say("at end " + content(cache));
    }

    static void curatorCacheSingle(Scene scene) throws Exception {
        CuratorFramework writer = scene.client();
        put(writer, "/cache-single", "1");
        CuratorCache cache = scene.keep(
            CuratorCache.build(scene.client(), "/cache-single", CuratorCache.Options.SINGLE_NODE_CACHE));
        cache.start();
        Scene.await(() -> content(cache).equals("/cache-single=1"), "the node");
        put(writer, "/cache-single/child", "x");
        put(writer, "/cache-single", "2");
        Scene.await(() -> content(cache).equals("/cache-single=2"), "the change");
        scene.say(content(cache));
    }

    static void treeCache(Scene scene) throws Exception {
        CuratorFramework writer = scene.client();
        put(writer, "/tree/a", "1");
        ConcurrentLinkedQueue<String> events = new ConcurrentLinkedQueue<>();
        TreeCache cache = scene.keep(new TreeCache(scene.client(), "/tree"));
        cache.getListenable().addListener((client, event) -> {
            if (event.getType() != TreeCacheEvent.Type.INITIALIZED) {
                events.add(event.getType() + ":" + event.getData().getPath());
            }
        });
        cache.start();
        Scene.await(() -> content(cache, "/tree").equals("/tree= /tree/a=1"), "the start");
        put(writer, "/tree/a/b/c", "2");
        Scene.await(() -> cache.getCurrentData("/tree/a/b/c") != null, "the new nodes");
        writer.delete().forPath("/tree/a/b/c");
        Scene.await(() -> cache.getCurrentData("/tree/a/b/c") == null, "the deleted");
        put(writer, "/tree", "root");
        Scene.await(() -> content(cache, "/tree").equals("/tree=root /tree/a=1 /tree/a/b="), "the change");
        Scene.await(() -> events.size() == 6, "its events, not " + events);
        scene.say(lines(events));
        scene.say(content(cache, "/tree"));
    }

    static void nodeCache(Scene scene) throws Exception {
        CuratorFramework writer = scene.client();
        NodeCache cache = scene.keep(new NodeCache(scene.client(), "/node-cache"));
        cache.start(true);
        scene.say("before: " + cache.getCurrentData());
        put(writer, "/node-cache", "1");
        Scene.await(() -> cache.getCurrentData() != null, "the node");
        scene.say(text(cache.getCurrentData()));
        put(writer, "/node-cache", "2");
        Scene.await(() -> text(cache.getCurrentData()).endsWith("=2"), "the change");
        writer.delete().forPath("/node-cache");
        Scene.await(() -> cache.getCurrentData() == null, "the end");
    }

    static void pathChildrenCache(Scene scene) throws Exception {
        CuratorFramework writer = scene.client();
        put(writer, "/children/a", "1");
        ConcurrentLinkedQueue<String> events = new ConcurrentLinkedQueue<>();
        PathChildrenCache cache = scene.keep(new PathChildrenCache(scene.client(), "/children", true));
        // It reads its start twice, and may tell of the first child or not.
        cache.getListenable().addListener((client, event) -> {
            String told = event.getData() == null ? "" : event.getType() + ":" + text(event.getData());
            if (!told.isEmpty() && !told.equals("CHILD_ADDED:/children/a=1")) {
                events.add(told);
            }
        });
        cache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
        put(writer, "/children/b", "2");
        Scene.await(() -> events.size() == 1, "the new child");
        put(writer, "/children/a", "3");
        Scene.await(() -> events.size() == 2, "the change");
        writer.delete().forPath("/children/a");
        Scene.await(() -> events.size() == 3, "the end of a child");
        scene.say(String.join(" ", events));
        scene.say(cache.getCurrentData().stream().map(Caches::text).collect(Collectors.joining(" ")));
    }

    static void persistentWatcher(Scene scene) throws Exception {
        CuratorFramework writer = scene.client();
        put(writer, "/watched/a", "1");
        ConcurrentLinkedQueue<String> events = new ConcurrentLinkedQueue<>();
        PersistentWatcher watcher = scene.keep(new PersistentWatcher(scene.client(), "/watched", true));
        CountDownLatch set = new CountDownLatch(1);
        watcher.getResetListenable().addListener(set::countDown);
        watcher.getListenable().addListener(event -> {
            if (event.getPath() != null) {
                events.add(event.getType() + ":" + event.getPath());
            }
        });
        watcher.start();
        Scene.check(set.await(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS), "the watch is set");
        put(writer, "/watched/a", "2");
        put(writer, "/watched/b/c", "3");
        writer.delete().forPath("/watched/b/c");
        scene.awaitEvents(() -> events.size() == 4, "four events, not " + events);
        scene.restart();
        // The writer may be back before the watcher: what changed meanwhile is not told, so it changes again.
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Scene.PATIENCE_MS);
        for (int i = 4; events.size() < 5 && System.nanoTime() < deadline; i++) {
            put(writer, "/watched/a", Integer.toString(i));
            Thread.sleep(200);
        }
        Scene.check(events.size() >= 5, "an event after the restart, not " + events);
        scene.say(String.join(" ", new java.util.ArrayList<>(events).subList(0, 5)));
    }

    /**
     * All kinds of caches over a kill of the server, with changes before and after. The TreeCache has a client that it
     * shares with no CuratorCache: in Apache ZooKeeper 3.8 a persistent watch takes the place of a child watch of the same
     * client at the same path.
     */
    static void restart(Scene scene) throws Exception {
        CuratorFramework writer = scene.client();
        CuratorFramework reader = scene.client();
        put(writer, "/away/a", "1");
        put(writer, "/away/b", "1");
        CuratorCache cache = scene.keep(CuratorCache.build(reader, "/away"));
        cache.start();
        TreeCache tree = scene.keep(new TreeCache(scene.client(), "/away"));
        tree.start();
        NodeCache node = scene.keep(new NodeCache(reader, "/away/a"));
        node.start(true);
        PathChildrenCache children = scene.keep(new PathChildrenCache(reader, "/away", true));
        children.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
        String before = "/away= /away/a=1 /away/b=1";
        Scene.await(() -> content(cache).equals(before) && content(tree, "/away").equals(before), "the start");
        scene.restart();
        put(writer, "/away/a", "2");
        writer.delete().forPath("/away/b");
        put(writer, "/away/c/d", "3");
        String after = "/away= /away/a=2 /away/c= /away/c/d=3";
        Scene.await(() -> content(cache).equals(after), "CuratorCache follows, not " + content(cache));
        Scene.await(() -> content(tree, "/away").equals(after), "TreeCache follows, not " + content(tree, "/away"));
        Scene.await(() -> text(node.getCurrentData()).endsWith("=2"), "NodeCache follows");
        Scene.await(() -> children.getCurrentData().stream().map(Caches::text).collect(Collectors.joining(" "))
            .equals("/away/a=2 /away/c="), "PathChildrenCache follows");
        scene.say(content(cache));
    }

    /** A reader whose session ended has caches that follow again. */
    static void expiry(Scene scene) throws Exception {
        CuratorFramework writer = scene.client();
        CuratorFramework reader = scene.client();
        put(writer, "/expired/a", "1");
        CuratorCache cache = scene.keep(CuratorCache.build(reader, "/expired"));
        cache.start();
        CuratorFramework other = scene.client(); // not the reader, see restart
        TreeCache tree = scene.keep(new TreeCache(other, "/expired"));
        tree.start();
        String before = "/expired= /expired/a=1";
        Scene.await(() -> content(cache).equals(before) && content(tree, "/expired").equals(before), "the start");
        scene.expire(reader);
        scene.expire(other);
        String after = "/expired= /expired/a=1 /expired/b=2";
        // Curator sets its persistent watch anew some time after it reconnects, and misses what comes before that.
        Scene.await(() -> {
            put(writer, "/expired/b", "2");
            return content(cache).equals(after);
        }, "CuratorCache follows, not " + content(cache));
        Scene.await(() -> content(tree, "/expired").equals(after), "TreeCache follows");
        scene.say(content(cache));
    }
}
