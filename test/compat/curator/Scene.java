import java.io.BufferedReader;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;

/**
 * What one case works with: clients, threads, lines to say, and a server that can be killed in the middle.
 *
 * <p>Promise: `close` ends everything that the case opened, the last first. Nothing waits longer than PATIENCE_MS.
 */
final class Scene implements AutoCloseable {
    static final long PATIENCE_MS = 20_000;
    private static final int SESSION_MS = 10_000;

    /** A condition that may throw what Curator throws. */
    interface Condition {
        boolean holds() throws Exception;
    }

    private final String host;
    private final BufferedReader commands;
    private final Deque<AutoCloseable> opened = new ArrayDeque<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final AtomicInteger losses = new AtomicInteger();

    Scene(String host, BufferedReader commands) {
        this.host = host;
        this.commands = commands;
    }

    /** A line of what the case saw; must be the same on both servers. */
    void say(String line) {
        synchronized (System.out) {
            System.out.println("= " + line);
            System.out.flush();
        }
    }

    /** Fails the case unless it holds. */
    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void await(Condition condition, String what) throws Exception {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
        while (!condition.holds()) {
            check(System.nanoTime() < end, "waited " + PATIENCE_MS + " ms for: " + what);
            Thread.sleep(5);
        }
    }

    /**
     * As await, for events of watches that last. No server tells those what changed while their client had no connection:
     * a loss so far ends the case.
     */
    void awaitEvents(Condition condition, String what) throws Exception {
        await(() -> {
            if (!condition.holds() && losses() > 0) {
                throw new KeeperException.ConnectionLossException();
            }
            return condition.holds();
        }, what);
    }

    /**
     * As await, for what a client of Curator never gets done once a connection was lost at the wrong moment: when the time
     * is over, a connection was lost and the client is stuck, the loss ends the case.
     */
    void awaitUnlessLost(Condition condition, Condition stuck, String what) throws Exception {
        try {
            await(condition, what);
        } catch (AssertionError late) {
            if (losses() > 0 && stuck.holds()) {
                throw new KeeperException.ConnectionLossException();
            }
            throw late;
        }
    }

    /** Closed at the end of the case, before what was opened earlier. */
    <T extends AutoCloseable> T keep(T thing) {
        opened.push(thing);
        return thing;
    }

    /** A client's settings. Parents that it creates are empty; Curator would write its address into them. */
    CuratorFrameworkFactory.Builder builder() {
        return CuratorFrameworkFactory.builder().connectString(host).sessionTimeoutMs(SESSION_MS)
            .connectionTimeoutMs(SESSION_MS).retryPolicy(new RetryNTimes(200, 100))
            .defaultData(new byte[0]);
    }

    CuratorFramework started(CuratorFramework client) throws Exception {
        keep(client);
        client.getConnectionStateListenable().addListener((which, state) -> {
            if (state == ConnectionState.SUSPENDED) {
                losses.incrementAndGet();
            }
        });
        client.start();
        check(client.blockUntilConnected((int) PATIENCE_MS, TimeUnit.MILLISECONDS), "a client connects");
        return client;
    }

    /** A connected client with a session of its own. */
    CuratorFramework client() throws Exception {
        return started(builder().build());
    }

    /** How many connections the case's clients have lost so far. */
    int losses() {
        return losses.get();
    }

    /**
     * Ends a client's session on the server, from a second connection that takes it over. Its close may be lost with its
     * connection, which ZooKeeper's client does not tell: then once more.
     */
    void expire(CuratorFramework client) throws Exception {
        ZooKeeper handle = client.getZookeeperClient().getZooKeeper();
        long old = handle.getSessionId();
        byte[] password = handle.getSessionPasswd();
        AtomicLong next = new AtomicLong(System.nanoTime());
        await(() -> {
            if (client.getZookeeperClient().isConnected()
                    && client.getZookeeperClient().getZooKeeper().getSessionId() != old) {
                return true;
            }
            if (System.nanoTime() >= next.get()) {
                takeOver(old, password).close();
                next.set(System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(SESSION_MS / 2));
            }
            return false;
        }, "a new session after expiry");
    }

    /** A second client of a session, once it is connected or told that the session is no more. */
    private ZooKeeper takeOver(long session, byte[] password) throws Exception {
        ZooKeeper thief = new ZooKeeper(host, SESSION_MS, event -> { }, session, password);
        await(() -> thief.getState() == ZooKeeper.States.CONNECTED || !thief.getState().isAlive(),
            "the session is taken over");
        return thief;
    }

    /** Has the server killed (as by kill -9) and started again on its port, with its data. */
    void restart() throws Exception {
        synchronized (System.out) {
            System.out.println("! restart");
            System.out.flush();
        }
        check("restarted".equals(commands.readLine()), "the test restarts the server");
    }

    <T> Future<T> spawn(Callable<T> work) {
        return threads.submit(work);
    }

    static <T> T join(Future<T> work) throws Exception {
        return work.get(PATIENCE_MS, TimeUnit.MILLISECONDS);
    }

    /** Runs the work `count` times at once, and returns when all are done. */
    void together(int count, Callable<?> work) throws Exception {
        List<Future<?>> running = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            running.add(threads.submit(work));
        }
        for (Future<?> one : running) {
            join(one);
        }
    }

    @Override
    public void close() throws Exception {
        while (!opened.isEmpty()) {
            opened.pop().close();
        }
        threads.shutdownNow();
        check(threads.awaitTermination(PATIENCE_MS, TimeUnit.MILLISECONDS), "the threads of the case end");
    }
}
