// Curator's LeaderSelector as a contender of test/compat/mixed_election_test.py: SelectorContender HOST PATH NAME FILE.
// Leads for a moment each time it is elected and queues again (autoRequeue), until its input ends. Appends one line to FILE
// at the begin and the end of each of its turns: name, "begin" or "end", nanoseconds of CLOCK_MONOTONIC.

import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.retry.RetryForever;

public class SelectorContender {
    private static final int TURN_MS = 150;
    private static final int SESSION_MS = 3000;
    private static final int CONNECT_MS = 2000;

    // One write: with O_APPEND lines of several programs do not mix. nanoTime is CLOCK_MONOTONIC on Linux.
    private static void note(FileOutputStream file, String name, String what) throws Exception {
        file.write((name + " " + what + " " + System.nanoTime() + "\n").getBytes(StandardCharsets.US_ASCII));
    }

    public static void main(String[] args) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], SESSION_MS, CONNECT_MS,
                new RetryForever(200)); FileOutputStream file = new FileOutputStream(args[3], true)) {
            client.start();
            LeaderSelector selector = new LeaderSelector(client, args[1], new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework leader) throws Exception {
                    note(file, args[2], "begin");
                    Thread.sleep(TURN_MS);
                    note(file, args[2], "end");
                }
            });
            selector.autoRequeue();
            selector.start();
            while (System.in.read() >= 0) {
                continue;
            }
            selector.close();
        }
    }
}
