// Curator's InterProcessMutex as bench/locks.c measures our lock: CuratorLocks HOST:PORT CONTENDERS SECONDS WARM_UP_SECONDS.
// So many threads, each with a session and a mutex of its own, acquire and release one lock. One line of JSON on stdout.

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

public class CuratorLocks {
    private static final int SESSION_MS = 40000;
    private static final int CONNECT_MS = 15000;
    private static volatile boolean counting;
    private static volatile boolean ending;

    private static final class Contender extends Thread {
        private final CuratorFramework client;
        private final InterProcessMutex mutex;
        private long pairs;
        private Exception failure;

        private Contender(String host, String path) throws Exception {
            client = CuratorFrameworkFactory.newClient(host, SESSION_MS, CONNECT_MS, new RetryForever(200));
            client.start();
            client.blockUntilConnected();
            mutex = new InterProcessMutex(client, path);
        }

        @Override
        public void run() {
            try {
                while (!ending) {
                    mutex.acquire();
                    mutex.release();
                    if (counting) {
                        pairs++;
                    }
                }
            } catch (Exception error) {
                failure = error;
            }
        }
    }

    public static void main(String[] args) throws Exception {
        List<Contender> all = new ArrayList<>();
        String path = "/bench-curator-" + ProcessHandle.current().pid();
        for (int i = 0; i < Integer.parseInt(args[1]); i++) {
            all.add(new Contender(args[0], path));
        }
        all.forEach(Thread::start);
        Thread.sleep((long) (Double.parseDouble(args[3]) * 1000));
        long began = System.nanoTime();
        counting = true;
        Thread.sleep((long) (Double.parseDouble(args[2]) * 1000));
        counting = false;
        double took = (System.nanoTime() - began) / 1e9;
        ending = true;
        long total = 0;
        long least = Long.MAX_VALUE;
        long most = 0;
        for (Contender c : all) {
            c.join();
            if (c.failure != null) {
                throw c.failure;
            }
            total += c.pairs;
            least = Math.min(least, c.pairs);
            most = Math.max(most, c.pairs);
        }
        System.out.printf(Locale.ROOT,
                "{\"pairs\": %d, \"seconds\": %.3f, \"pairs_per_s\": %.1f, \"least\": %d, \"most\": %d}%n", total, took,
                total / took, least, most);
        System.out.flush();
        for (Contender c : all) {
            c.client.close();
        }
        System.exit(0);
    }
}
