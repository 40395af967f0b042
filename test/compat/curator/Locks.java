import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.zookeeper.KeeperException;

/** Curator's locks, contended by two clients with several threads each. */
final class Locks {
    private static final int ROUNDS = 15;
    private static final int THREADS = 4;
    private static final int BRIEF_MS = 100;

    private Locks() {
    }

    private static void release(InterProcessMutex lock) throws Exception {
        lock.release();
    }

    private static int number(CuratorFramework client, String path) throws Exception {
        return Integer.parseInt(new String(client.getData().forPath(path), StandardCharsets.US_ASCII));
    }

    /** Reads, and writes one more: only right for one at a time. */
    private static void increment(CuratorFramework client, String path) throws Exception {
        String next = Integer.toString(number(client, path) + 1);
        client.setData().forPath(path, next.getBytes(StandardCharsets.US_ASCII));
    }

    static void mutex(Scene scene) throws Exception {
        CuratorFramework[] clients = {scene.client(), scene.client()};
        clients[0].create().forPath("/mutex-count", "0".getBytes(StandardCharsets.US_ASCII));
        AtomicInteger next = new AtomicInteger();
        scene.together(THREADS, () -> {
            CuratorFramework client = clients[next.getAndIncrement() % 2];
            InterProcessMutex lock = new InterProcessMutex(client, "/mutex");
            for (int i = 0; i < ROUNDS; i++) {
                lock.acquire();
                lock.acquire();
                increment(client, "/mutex-count");
                release(lock);
                release(lock);
            }
            return null;
        });
        scene.say("count " + number(clients[0], "/mutex-count"));
        try {
            scene.say("left " + clients[0].getChildren().forPath("/mutex"));
        } catch (KeeperException.NoNodeException gone) {
            scene.say("left []"); // a container, and empty: the servers may have removed it
        }
    }

    static void mutexTimeout(Scene scene) throws Exception {
        InterProcessMutex held = new InterProcessMutex(scene.client(), "/mutex-timeout");
        InterProcessMutex wanted = new InterProcessMutex(scene.client(), "/mutex-timeout");
        held.acquire();
        scene.say("acquired: " + wanted.acquire(BRIEF_MS, TimeUnit.MILLISECONDS));
        scene.say("participants " + held.getParticipantNodes().size());
        Future<Boolean> waiting = scene.spawn(() -> wanted.acquire(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS));
        Scene.await(() -> held.getParticipantNodes().size() == 2, "the second waits");
        held.release();
        scene.say("acquired: " + Scene.join(waiting));
    }

    static void mutexExpiry(Scene scene) throws Exception {
        CuratorFramework holder = scene.client();
        InterProcessMutex held = new InterProcessMutex(holder, "/mutex-expiry");
        InterProcessMutex wanted = new InterProcessMutex(scene.client(), "/mutex-expiry");
        held.acquire();
        Future<Boolean> waiting = scene.spawn(() -> wanted.acquire(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS));
        Scene.await(() -> held.getParticipantNodes().size() == 2, "the second waits");
        scene.expire(holder);
        scene.say("acquired: " + Scene.join(waiting));
    }

    static void revocation(Scene scene) throws Exception {
        InterProcessMutex held = new InterProcessMutex(scene.client(), "/revocable");
        CountDownLatch asked = new CountDownLatch(1);
        held.makeRevocable(lock -> asked.countDown());
        held.acquire();
        CuratorFramework other = scene.client();
        Revoker.attemptRevoke(other, held.getParticipantNodes().iterator().next());
        scene.say("asked: " + asked.await(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS));
        held.release();
    }

    static void readWrite(Scene scene) throws Exception {
        InterProcessReadWriteLock one = new InterProcessReadWriteLock(scene.client(), "/rw");
        InterProcessReadWriteLock two = new InterProcessReadWriteLock(scene.client(), "/rw");
        one.readLock().acquire();
        scene.say("two readers: " + two.readLock().acquire(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS));
        two.readLock().release();
        scene.say("a writer beside a reader: " + two.writeLock().acquire(BRIEF_MS, TimeUnit.MILLISECONDS));
        Future<Boolean> writer = scene.spawn(() -> {
            boolean acquired = two.writeLock().acquire(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS);
            // Downgraded: the reader's lock under the writer's, which then goes.
            two.readLock().acquire();
            two.writeLock().release();
            return acquired;
        });
        Scene.await(() -> one.writeLock().getParticipantNodes().size() == 1, "the writer waits");
        scene.say("the writer waits: " + !writer.isDone());
        one.readLock().release();
        scene.say("the writer's turn: " + Scene.join(writer));
        scene.say("beside the downgraded: " + one.writeLock().acquire(BRIEF_MS, TimeUnit.MILLISECONDS) + " "
            + one.readLock().acquire(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS));
        one.readLock().release();
    }

    static void semaphore(Scene scene) throws Exception {
        InterProcessSemaphoreV2[] seats = {
            new InterProcessSemaphoreV2(scene.client(), "/semaphore", 2),
            new InterProcessSemaphoreV2(scene.client(), "/semaphore", 2)};
        AtomicInteger next = new AtomicInteger();
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        scene.together(2 * THREADS, () -> {
            InterProcessSemaphoreV2 seat = seats[next.getAndIncrement() % 2];
            for (int i = 0; i < 3; i++) {
                Lease lease = seat.acquire();
                most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                // The first stays until a second one is inside, which there is a seat for.
                for (long end = System.currentTimeMillis() + Scene.PATIENCE_MS;
                        most.get() < 2 && System.currentTimeMillis() < end;) {
                    Thread.sleep(5);
                }
                Thread.sleep(20);
                inside.decrementAndGet();
                seat.returnLease(lease);
            }
            return null;
        });
        scene.say("most at once " + most.get());
        Lease first = seats[0].acquire();
        Lease second = seats[1].acquire();
        scene.say("a third: " + (seats[0].acquire(BRIEF_MS, TimeUnit.MILLISECONDS) != null));
        first.close();
        second.close();
    }

    static void semaphoreMutex(Scene scene) throws Exception {
        InterProcessSemaphoreMutex one = new InterProcessSemaphoreMutex(scene.client(), "/semaphore-mutex");
        InterProcessSemaphoreMutex two = new InterProcessSemaphoreMutex(scene.client(), "/semaphore-mutex");
        one.acquire();
        scene.say("the other: " + two.acquire(BRIEF_MS, TimeUnit.MILLISECONDS));
        one.release();
        scene.say("the other: " + two.acquire(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS));
        two.release();
    }

    static void multiLock(Scene scene) throws Exception {
        InterProcessMultiLock all = new InterProcessMultiLock(scene.client(), Arrays.asList("/multi-a", "/multi-b"));
        InterProcessMutex other = new InterProcessMutex(scene.client(), "/multi-b");
        other.acquire();
        scene.say("all: " + all.acquire(BRIEF_MS, TimeUnit.MILLISECONDS));
        other.release();
        scene.say("all: " + all.acquire(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS));
        all.release();
    }
}
