// Curator's locks as a contender of test/compat/mixed_lock_test.py: LockContender KIND HOST PATH NAME FILE.
// KIND is mutex, read, write, or semaphore (of 2 permits). Holds for a moment each time it gets the lock, then asks again, until its input ends.
// Appends one line to FILE at the begin and the end of each turn: name, "begin" or "end", nanoseconds of CLOCK_MONOTONIC.

import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryForever;

public class LockContender {
    private static final int TURN_MS = 150;
    private static final int SESSION_MS = 3000;
    private static final int CONNECT_MS = 2000;
    private static volatile boolean ending;

    // One write: with O_APPEND lines of several programs do not mix. nanoTime is CLOCK_MONOTONIC on Linux.
    private static void note(FileOutputStream file, String name, String what) throws Exception {
        file.write((name + " " + what + " " + System.nanoTime() + "\n").getBytes(StandardCharsets.US_ASCII));
    }

    private static void takeTurn(InterProcessLock lock, String name, FileOutputStream file) throws Exception {
        if (!lock.acquire(3, TimeUnit.SECONDS)) {
            return;
        }
        try {
            note(file, name, "begin");
            Thread.sleep(TURN_MS);
            note(file, name, "end");
        } finally {
            lock.release();
        }
    }

    private static void takePermit(InterProcessSemaphoreV2 semaphore, String name, FileOutputStream file) throws Exception {
        Lease lease = semaphore.acquire(3, TimeUnit.SECONDS);
        if (lease == null) {
            return;
        }
        try {
            note(file, name, "begin");
            Thread.sleep(TURN_MS);
            note(file, name, "end");
        } finally {
            semaphore.returnLease(lease);
        }
    }

    private static InterProcessLock make(CuratorFramework client, String kind, String path) {
        if (kind.equals("mutex")) {
            return new InterProcessMutex(client, path);
        }
        InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
        return kind.equals("read") ? both.readLock() : both.writeLock();
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
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(args[1], SESSION_MS, CONNECT_MS,
                new RetryForever(200)); FileOutputStream file = new FileOutputStream(args[4], true)) {
            client.start();
            if (args[0].equals("semaphore")) {
                InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, args[2], 2);
                while (!ending) {
                    takePermit(semaphore, args[3], file);
                }
                return;
            }
            InterProcessLock lock = make(client, args[0], args[2]);
            while (!ending) {
                takeTurn(lock, args[3], file);
            }
        }
    }
}
