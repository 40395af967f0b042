import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.retry.RetryForever;

/**
 * Curator's node with a TTL beside ours: TtlNodePeer HOST PATH TTL_MS DATA keeps it, prints "ready" when it is there, and
 * closes it at the end of its input.
 */
public final class TtlNodePeer {
    private TtlNodePeer() {
    }

    public static void main(String[] arguments) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[0], 10000, 10000, new RetryForever(100))) {
            client.start();
            client.blockUntilConnected();
            try (PersistentTtlNode node = new PersistentTtlNode(client, arguments[1], Long.parseLong(arguments[2]),
                arguments[3].getBytes(StandardCharsets.US_ASCII))) {
                node.start();
                if (!node.waitForInitialCreate(60, TimeUnit.SECONDS)) {
                    System.exit(1);
                }
                System.out.println("ready");
                while (System.in.read() >= 0) {
                    continue;
                }
            }
        }
        System.exit(0);
    }
}
