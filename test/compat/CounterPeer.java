import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryForever;
import org.apache.curator.retry.RetryNTimes;

/** Curator's counters beside ours: CounterPeer long|count HOST PATH TIMES adds 1 so often. */
public final class CounterPeer {
    private CounterPeer() {
    }

    private static void byLong(CuratorFramework client, String path, int times) throws Exception {
        DistributedAtomicLong counter = new DistributedAtomicLong(client, path, new RetryNTimes(10, 2));
        for (int done = 0; done < times;) {
            done += counter.increment().succeeded() ? 1 : 0;
        }
    }

    private static void byCount(CuratorFramework client, String path, int times) throws Exception {
        try (SharedCount counter = new SharedCount(client, path, 0)) {
            counter.start();
            for (int done = 0; done < times;) {
                var value = counter.getVersionedValue();
                done += counter.trySetCount(value, value.getValue() + 1) ? 1 : 0;
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[1], 10000, 10000, new RetryForever(100))) {
            client.start();
            client.blockUntilConnected();
            if (arguments[0].equals("long")) {
                byLong(client, arguments[2], Integer.parseInt(arguments[3]));
            } else {
                byCount(client, arguments[2], Integer.parseInt(arguments[3]));
            }
        }
        System.exit(0);
    }
}
