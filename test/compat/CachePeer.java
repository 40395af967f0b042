import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.TreeMap;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.retry.RetryForever;

/** Curator's caches beside ours: CachePeer HOST PATH; after each line read, two lines "PATH MZXID DATA;..." by path:
 * CuratorCache's content and TreeCache's. */
public final class CachePeer {
    private CachePeer() {
    }

    private static void add(Map<String, String> nodes, ChildData data) {
        nodes.put(data.getPath(), data.getPath() + " " + data.getStat().getMzxid() + " " + new String(data.getData()));
    }

    private static void addBelow(Map<String, String> nodes, TreeCache cache, String path) {
        ChildData data = cache.getCurrentData(path);
        Map<String, ChildData> children = cache.getCurrentChildren(path);
        if (data != null) {
            add(nodes, data);
        }
        if (children != null) {
            children.keySet().forEach(name -> addBelow(nodes, cache, path + "/" + name));
        }
    }

    public static void main(String[] arguments) throws Exception {
        String path = arguments[1];
        var lines = new BufferedReader(new InputStreamReader(System.in));
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[0], 10000, 10000, new RetryForever(100))) {
            client.start();
            client.blockUntilConnected();
            try (CuratorCache cache = CuratorCache.build(client, path);
                 TreeCache tree = TreeCache.newBuilder(client, path).build()) {
                cache.start();
                tree.start();
                System.out.println("ready");
                while (lines.readLine() != null) {
                    Map<String, String> nodes = new TreeMap<>();
                    cache.stream().forEach(data -> add(nodes, data));
                    System.out.println(String.join(";", nodes.values()));
                    nodes.clear();
                    addBelow(nodes, tree, path);
                    System.out.println(String.join(";", nodes.values()));
                }
            }
        }
        System.exit(0);
    }
}
