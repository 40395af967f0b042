// Curator's barriers in test/compat/mixed_barrier_test.py: BarrierPeer HOST. Commands on the input, one per line:
// "double PATH COUNT MS" enters, stays, leaves; "set PATH", "remove PATH", "wait PATH". Each step is a line on the output: a word
// and nanoseconds of CLOCK_MONOTONIC.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.retry.RetryForever;

public class BarrierPeer {
    private static final int SESSION_MS = 4000;
    private static final int CONNECT_MS = 10000;

    private static void say(String what) {
        System.out.println(what + " " + System.nanoTime());
        System.out.flush();
    }

    private static void meet(CuratorFramework client, String path, int count, long stayMs) throws Exception {
        DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, path, count);
        say("enter");
        barrier.enter();
        say("in");
        Thread.sleep(stayMs);
        say("out");
        barrier.leave();
        say("left");
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], SESSION_MS, CONNECT_MS, new RetryForever(200));
        client.start();
        client.blockUntilConnected();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        say("ready");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            DistributedBarrier gate = new DistributedBarrier(client, words[1]);
            if (words[0].equals("double")) {
                meet(client, words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]));
            } else if (words[0].equals("set")) {
                gate.setBarrier();
                say("set");
            } else if (words[0].equals("remove")) {
                gate.removeBarrier();
                say("removed");
            } else {
                say("waits");
                gate.waitOnBarrier();
                say("through");
            }
        }
        client.close();
        System.exit(0);
    }
}
