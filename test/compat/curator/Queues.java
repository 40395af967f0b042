import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;

/** Queues and barriers between two clients: each element once, everybody waits for everybody. */
final class Queues {
    private static final int ELEMENTS = 40;

    private Queues() {
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

    private static final class Gather implements QueueConsumer<String> {
        private final Collection<String> taken;

        Gather(Collection<String> taken) {
            this.taken = taken;
        }

        @Override
        public void consumeMessage(String message) {
            taken.add(message);
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {
        }
    }

    private static QueueBuilder<String> builder(CuratorFramework client, Collection<String> taken, String path) {
        return QueueBuilder.builder(client, taken == null ? null : new Gather(taken), new Text(), path);
    }

    private static String sorted(Collection<String> items) {
        return items.stream().sorted().collect(Collectors.joining(" "));
    }

    static void simpleQueue(Scene scene) throws Exception {
        CuratorFramework[] clients = {scene.client(), scene.client()};
        SimpleDistributedQueue one = new SimpleDistributedQueue(clients[0], "/simple-queue");
        for (int i = 0; i < 5; i++) {
            one.offer(new byte[] {(byte) ('a' + i)});
        }
        scene.say("peek " + new String(one.peek(), StandardCharsets.US_ASCII));
        StringBuilder order = new StringBuilder();
        for (byte[] item = one.poll(); item != null; item = one.poll()) {
            order.append((char) item[0]);
        }
        scene.say("in order " + order);
        AtomicInteger next = new AtomicInteger();
        ConcurrentLinkedQueue<String> taken = new ConcurrentLinkedQueue<>();
        Future<?> consumers = scene.spawn(() -> {
            scene.together(2, () -> {
                SimpleDistributedQueue queue =
                    new SimpleDistributedQueue(clients[next.getAndIncrement() % 2], "/simple-queue");
                for (byte[] item = queue.take(); item[0] != '.'; item = queue.take()) {
                    taken.add(new String(item, StandardCharsets.US_ASCII));
                }
                return null;
            });
            return null;
        });
        for (int i = 0; i < ELEMENTS; i++) {
            one.offer(Integer.toString(10 + i).getBytes(StandardCharsets.US_ASCII));
        }
        one.offer(".".getBytes(StandardCharsets.US_ASCII));
        one.offer(".".getBytes(StandardCharsets.US_ASCII));
        Scene.join(consumers);
        scene.say(sorted(taken));
    }

    static void queue(Scene scene) throws Exception {
        ConcurrentLinkedQueue<String> taken = new ConcurrentLinkedQueue<>();
        for (int i = 0; i < 2; i++) {
            scene.keep(builder(scene.client(), taken, "/queue").lockPath("/queue-locks").buildQueue()).start();
        }
        DistributedQueue<String> producer = scene.keep(builder(scene.client(), null, "/queue").buildQueue());
        producer.start();
        for (int i = 0; i < ELEMENTS; i++) {
            producer.put(Integer.toString(10 + i));
        }
        Scene.check(producer.flushPuts(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS), "all are put");
        CuratorFramework look = scene.client();
        scene.awaitUnlessLost(() -> taken.size() >= ELEMENTS, () -> isStuck(look), "all are taken");
        scene.say(sorted(taken));
    }

    /**
     * Whether each element that is left has a lock. Curator asks for the lock of an element again when the answer was lost
     * with a connection, finds the node that it has made, and takes it for another consumer's, until its session ends.
     */
    private static boolean isStuck(CuratorFramework client) throws Exception {
        return client.getChildren().forPath("/queue-locks").containsAll(client.getChildren().forPath("/queue"));
    }

    static void priorityQueue(Scene scene) throws Exception {
        CuratorFramework client = scene.client();
        DistributedPriorityQueue<String> producer =
            scene.keep(builder(client, null, "/priority-queue").buildPriorityQueue(0));
        producer.start();
        producer.put("last", 30);
        producer.put("first", -10);
        producer.put("middle", 20);
        Scene.check(producer.flushPuts(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS), "all are put");
        ConcurrentLinkedQueue<String> taken = new ConcurrentLinkedQueue<>();
        scene.keep(builder(scene.client(), taken, "/priority-queue").buildPriorityQueue(0)).start();
        Scene.await(() -> taken.size() == 3, "all are taken");
        scene.say(String.join(" ", taken));
    }

    static void delayQueue(Scene scene) throws Exception {
        ConcurrentLinkedQueue<String> taken = new ConcurrentLinkedQueue<>();
        scene.keep(builder(scene.client(), taken, "/delay-queue").buildDelayQueue()).start();
        DistributedDelayQueue<String> producer = scene.keep(builder(scene.client(), null, "/delay-queue")
            .buildDelayQueue());
        producer.start();
        long now = System.currentTimeMillis();
        producer.put("later", now + 1200);
        producer.put("sooner", now + 600);
        Scene.check(producer.flushPuts(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS), "all are put");
        Scene.await(() -> taken.size() == 2, "all are taken");
        Scene.check(System.currentTimeMillis() >= now + 1200, "not before their time");
        scene.say(String.join(" ", taken));
    }

    static void barrier(Scene scene) throws Exception {
        CuratorFramework[] clients = {scene.client(), scene.client()};
        DistributedBarrier gate = new DistributedBarrier(clients[0], "/barrier");
        gate.setBarrier();
        scene.say("closed: " + !gate.waitOnBarrier(100, TimeUnit.MILLISECONDS));
        AtomicInteger next = new AtomicInteger();
        AtomicInteger through = new AtomicInteger();
        Future<?> waiting = scene.spawn(() -> {
            scene.together(4, () -> {
                DistributedBarrier mine = new DistributedBarrier(clients[next.getAndIncrement() % 2], "/barrier");
                boolean open = mine.waitOnBarrier(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS);
                through.addAndGet(open ? 1 : 100);
                return null;
            });
            return null;
        });
        Thread.sleep(100);
        scene.say("through " + through.get());
        gate.removeBarrier();
        Scene.join(waiting);
        scene.say("through " + through.get());
    }

    static void doubleBarrier(Scene scene) throws Exception {
        CuratorFramework[] clients = {scene.client(), scene.client()};
        AtomicInteger next = new AtomicInteger();
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        scene.together(4, () -> {
            DistributedDoubleBarrier barrier =
                new DistributedDoubleBarrier(clients[next.getAndIncrement() % 2], "/double-barrier", 4);
            boolean entered = barrier.enter(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS);
            Scene.check(entered, "all enter");
            most.accumulateAndGet(inside.incrementAndGet(), Math::max);
            Scene.await(() -> most.get() == 4, "all are inside");
            boolean left = barrier.leave(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS);
            Scene.check(left, "all leave");
            inside.decrementAndGet();
            return null;
        });
        DistributedDoubleBarrier alone = new DistributedDoubleBarrier(clients[0], "/double-barrier-2", 2);
        scene.say("alone: " + alone.enter(200, TimeUnit.MILLISECONDS));
    }
}
