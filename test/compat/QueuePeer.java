// Curator's queues in test/compat/mixed_queue_test.py: QueuePeer put|take HOST NAME FILE KIND...
// KIND is simple, curator, curator-locks, curator-id, curator-priority or curator-delay. Lines of FILE as of queue_peer.c.

import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBase;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;

public class QueuePeer {
    private static final int SESSION_MS = 10000;
    private static final int CONNECT_MS = 10000;
    private static final int PAUSE_MS = 100;
    private static final int DELAY_MS = 400;
    private static final int REMOVED_EACH = 4;
    private static volatile boolean ending;
    private static String name;
    private static FileOutputStream file;

    private interface Put {
        void put(String item, int number) throws Exception;
    }

    private interface Run {
        void run() throws Exception;
    }

    // One write: with O_APPEND lines of several programs do not mix.
    private static void note(String kind, String what, String item) throws Exception {
        long nanos = System.currentTimeMillis() * 1000000L;
        file.write((name + " " + kind + " " + what + " " + item + " " + nanos + "\n").getBytes(StandardCharsets.US_ASCII));
    }

    private static final class Text implements QueueSerializer<String> {
        @Override
        public byte[] serialize(String item) {
            return item.getBytes(StandardCharsets.US_ASCII);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes, StandardCharsets.US_ASCII);
        }
    }

    private static final class Taker implements QueueConsumer<String> {
        private final String kind;

        Taker(String kind) {
            this.kind = kind;
        }

        @Override
        public void consumeMessage(String item) throws Exception {
            note(kind, "take", item);
            note(kind, "done", item);
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {
        }
    }

    private static Thread start(Run run) {
        Thread thread = new Thread(() -> {
            try {
                run.run();
            } catch (Exception error) {
                error.printStackTrace();
                System.exit(1);
            }
        });
        thread.start();
        return thread;
    }

    private static void putAll(String kind, Put put) throws Exception {
        for (int number = 0; !ending; number++) {
            String item = name + "." + ProcessHandle.current().pid() + "." + number;
            if (kind.equals("curator-delay")) {
                item += "." + (System.currentTimeMillis() + DELAY_MS);
            }
            note(kind, "try", item);
            put.put(item, number);
            note(kind, "put", item);
            Thread.sleep(PAUSE_MS);
        }
    }

    private static Thread simple(CuratorFramework client, boolean puts, String path) {
        SimpleDistributedQueue queue = new SimpleDistributedQueue(client, path);
        if (puts) {
            return start(() -> putAll("simple", (item, number) -> queue.offer(item.getBytes(StandardCharsets.US_ASCII))));
        }
        return start(() -> {
            while (!ending) {
                byte[] item = queue.poll(200, TimeUnit.MILLISECONDS);
                if (item != null) {
                    note("simple", "take", new String(item, StandardCharsets.US_ASCII));
                    note("simple", "done", new String(item, StandardCharsets.US_ASCII));
                }
            }
        });
    }

    private static QueueBase<String> open(QueueBuilder<String> builder, String kind, List<Thread> threads, boolean puts)
            throws Exception {
        QueueBase<String> queue;
        Put put;
        if (kind.equals("curator-id")) {
            DistributedIdQueue<String> ids = builder.buildIdQueue();
            queue = ids;
            put = (item, number) -> {
                ids.put(item, item);
                if (number % REMOVED_EACH == 0 && ids.remove(item) > 0) {
                    note(kind, "removed", item);
                }
            };
        } else if (kind.equals("curator-priority")) {
            DistributedPriorityQueue<String> priorities = builder.buildPriorityQueue(0);
            queue = priorities;
            put = (item, number) -> priorities.put(item, number % 3);
        } else if (kind.equals("curator-delay")) {
            DistributedDelayQueue<String> delays = builder.buildDelayQueue();
            queue = delays;
            put = (item, number) -> delays.put(item, Long.parseLong(item.substring(item.lastIndexOf('.') + 1)));
        } else {
            DistributedQueue<String> plain = builder.buildQueue();
            queue = plain;
            put = (item, number) -> plain.put(item);
        }
        queue.start();
        if (puts) {
            threads.add(start(() -> putAll(kind, put)));
        }
        return queue;
    }

    public static void main(String[] args) throws Exception {
        boolean puts = args[0].equals("put");
        List<Thread> threads = new ArrayList<>();
        List<QueueBase<String>> queues = new ArrayList<>();
        name = args[2];
        file = new FileOutputStream(args[3], true);
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[1], SESSION_MS, CONNECT_MS, new RetryForever(200));
        client.start();
        for (int i = 4; i < args.length; i++) {
            String kind = args[i];
            String path = "/mixed/" + kind;
            if (kind.equals("simple")) {
                threads.add(simple(client, puts, path));
                continue;
            }
            QueueBuilder<String> builder = QueueBuilder.builder(client, puts ? null : new Taker(kind), new Text(), path)
                .putInBackground(false);
            queues.add(open(kind.equals("curator-locks") ? builder.lockPath("/mixed/locks") : builder, kind, threads, puts));
        }
        while (System.in.read() >= 0) {
            continue;
        }
        ending = true;
        for (Thread thread : threads) {
            thread.join();
        }
        for (QueueBase<String> queue : queues) {
            queue.close();
        }
        client.close();
        System.exit(0);
    }
}
