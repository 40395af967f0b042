// Curator's LeaderLatch as a contender of test/compat/mixed_election_test.py: LatchContender HOST PATH NAME FILE.
// Leads for a moment each time it is elected, then leaves the queue and joins it again, until its input ends. Appends
// one line to FILE at the begin and the end of each of its turns: name, "begin" or "end", nanoseconds of CLOCK_MONOTONIC.

import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.retry.RetryForever;

public class LatchContender {
    private static final int TURN_MS = 150;
    private static final int SESSION_MS = 3000;
    private static final int CONNECT_MS = 2000;
    private static volatile boolean ending;

    // One write: with O_APPEND lines of several programs do not mix. nanoTime is CLOCK_MONOTONIC on Linux.
    private static void note(FileOutputStream file, String name, String what) throws Exception {
        file.write((name + " " + what + " " + System.nanoTime() + "\n").getBytes(StandardCharsets.US_ASCII));
    }

    private static void takeTurn(CuratorFramework client, String path, String name, FileOutputStream file)
            throws Exception {
        try (LeaderLatch latch = new LeaderLatch(client, path, name)) {
            latch.start();
            while (!latch.await(100, TimeUnit.MILLISECONDS)) {
                if (ending) {
                    return;
                }
            }
            note(file, name, "begin");
            Thread.sleep(TURN_MS);
            note(file, name, "end");
        }
    }

    public static void main(String[] args) throws Exception {
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (java.io.IOException error) {
                System.err.println(error);
            }
            ending = true;
        });
        input.setDaemon(true);
        input.start();
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], SESSION_MS, CONNECT_MS,
                new RetryForever(200)); FileOutputStream file = new FileOutputStream(args[3], true)) {
            client.start();
            while (!ending) {
                takeTurn(client, args[1], args[2], file);
            }
        }
    }
}
