// Curator's part of the load of takeover_test.py: TakeoverPeer HOSTS COUNT PERIOD_MS SESSION_MS FILE.
// What it does, its commands and its lines in FILE: test/support/takeover_load.py.
// The writes go through the ZooKeeper object of each Curator client, which repeats none of them by itself.

import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.framework.state.SessionConnectionStateErrorPolicy;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

public class TakeoverPeer {
    private static final String KIND = "j";
    private static final int GROUP = 4;
    private static final int CONNECT_MS = 10000;
    private static final int RETRY_MS = 200;
    private static final byte[] EMPTY = new byte[0];

    private static FileOutputStream file;
    private static volatile boolean ending;
    private static volatile boolean paused;
    private static final CountDownLatch released = new CountDownLatch(1);
    private static final Set<String> holders = ConcurrentHashMap.newKeySet();

    private static boolean connectionLost(Exception error) {
        return error instanceof KeeperException.ConnectionLossException || error instanceof KeeperException.OperationTimeoutException
                || error instanceof KeeperException.RequestTimeoutException;
    }

    // One session: writes, watches one node, and takes its turn in its group.
    private static class Client extends Thread {
        private final int number;
        private final int periodMs;
        private final String label;
        private final CuratorFramework client;
        private final Thread waiter = new Thread(this::takeTurn);
        private volatile boolean armed;
        private volatile boolean rests;
        private boolean uncertain; // the counter's version is not known
        private int counter;
        private int value;

        Client(String hosts, int number, int periodMs, int sessionMs) {
            this.number = number;
            this.periodMs = periodMs;
            label = KIND + number;
            // By its other policy a LeaderLatch gives up its place at each lost connection.
            // With the tracker it only goes to the servers that /zookeeper/config names, once it has seen them there.
            client = CuratorFrameworkFactory.builder().ensembleTracker(!Boolean.getBoolean("takeover.keep"))
                    .connectString(hosts).sessionTimeoutMs(sessionMs)
                    .connectionTimeoutMs(CONNECT_MS).retryPolicy(new RetryForever(RETRY_MS))
                    .connectionStateErrorPolicy(new SessionConnectionStateErrorPolicy()).build();
            client.getConnectionStateListenable().addListener((curator, state) -> {
                if (state == ConnectionState.LOST && !ending) {
                    note("expired");
                } else if (state.isConnected()) {
                    note("connected");
                }
            });
            setDaemon(true);
            waiter.setDaemon(true);
        }

        // One write: with O_APPEND lines do not mix. nanoTime is CLOCK_MONOTONIC on Linux.
        private void note(Object... words) {
            StringBuilder line = new StringBuilder().append(System.nanoTime()).append(' ').append(label);
            for (Object word : words) {
                line.append(' ').append(word);
            }
            try {
                file.write(line.append('\n').toString().getBytes(StandardCharsets.UTF_8));
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        }

        private ZooKeeper zookeeper() throws Exception {
            return client.getZookeeperClient().getZooKeeper();
        }

        private void noteSession() throws Exception {
            note("session", "0x" + Long.toHexString(zookeeper().getSessionId()));
        }

        void begin() throws Exception {
            client.start();
            client.blockUntilConnected();
            noteSession();
            client.create().withMode(CreateMode.EPHEMERAL).forPath("/load/ephemeral/" + label, EMPTY);
            client.create().forPath("/load/appended/" + label, EMPTY);
            client.create().forPath("/load/counters/" + label, "0".getBytes(StandardCharsets.US_ASCII));
            client.create().forPath("/load/changing/" + label, EMPTY);
            waiter.start();
            start();
        }

        // One watch on a node that does not exist yet.
        void arm(String round) throws Exception {
            client.checkExists().usingWatcher((org.apache.curator.framework.api.CuratorWatcher) event -> {
                if (event.getType() != EventType.None) {
                    note("fired", round);
                }
            }).forPath("/load/once/" + round + "-" + label);
            note("armed", round);
        }

        private void append() throws Exception {
            value++;
            try {
                String path = zookeeper().create("/load/appended/" + label + "/" + value + "-", EMPTY, Ids.OPEN_ACL_UNSAFE,
                        CreateMode.PERSISTENT_SEQUENTIAL);
                note("appended", value, path.substring(path.lastIndexOf('/') + 1));
            } catch (KeeperException error) {
                if (!connectionLost(error)) {
                    throw error;
                }
                note("append-unknown", value);
            }
        }

        private void count() throws Exception {
            String path = "/load/counters/" + label;
            try {
                if (uncertain) {
                    client.sync().forPath(path);
                    counter = client.checkExists().forPath(path).getVersion();
                    uncertain = false;
                    note("counter-read", counter);
                }
                counter = zookeeper().setData(path, Integer.toString(counter + 1).getBytes(StandardCharsets.US_ASCII), counter)
                        .getVersion();
                note("counted", counter);
            } catch (KeeperException error) {
                if (!connectionLost(error)) {
                    throw error;
                }
                if (!uncertain) {
                    note("count-unknown", counter + 1);
                }
                uncertain = true;
            }
        }

        private void watch() throws Exception {
            armed = true;
            Stat stat = new Stat();
            try {
                zookeeper().getData("/load/changing/" + label, event -> {
                    if (event.getType() != EventType.None) {
                        armed = false;
                    }
                }, stat);
                note("seen", stat.getVersion());
            } catch (KeeperException error) {
                if (!connectionLost(error)) {
                    throw error;
                }
                armed = false;
            }
        }

        private void step(int turn) throws Exception {
            if (!armed) {
                watch();
            }
            if (paused && !uncertain) {
                if (!rests) {
                    noteSession();
                    rests = true;
                }
            } else if (turn % 2 == 1 || uncertain) {
                count();
            } else {
                append();
            }
        }

        @Override
        public void run() {
            try {
                Thread.sleep((long) (Math.random() * periodMs));
                for (int turn = 0; !ending; turn++) {
                    step(turn);
                    Thread.sleep(periodMs);
                }
            } catch (Exception error) {
                if (!ending) {
                    note("problem", error);
                }
            }
        }

        // Groups of even numbers have a lock, the others elect a leader.
        private void takeTurn() {
            String path = "/load/groups/" + KIND + number / GROUP;
            try {
                if (number / GROUP % 2 == 0) {
                    InterProcessMutex mutex = new InterProcessMutex(client, path);
                    mutex.acquire();
                    hold(path);
                    mutex.release();
                } else {
                    LeaderLatch latch = new LeaderLatch(client, path, label);
                    latch.start();
                    latch.await();
                    hold(path);
                    latch.close();
                }
            } catch (Exception error) {
                if (!ending) {
                    note("problem", error);
                }
            }
        }

        // Both recipes: the child with the lowest number at the end of its name holds.
        private void hold(String path) throws Exception {
            List<String> children = client.getChildren().forPath(path);
            String name = children.stream().min(Comparator.comparing(child -> child.substring(child.length() - 10))).get();
            Stat stat = client.checkExists().forPath(path + "/" + name);
            note("holds", path, name, "0x" + Long.toHexString(stat.getCzxid()));
            holders.add(path);
            released.await();
            note("released", path);
        }
    }

    private static void command(String[] words, List<Client> clients) throws Exception {
        switch (words[0]) {
            case "arm":
                for (Client client : clients) {
                    client.arm(words[1]);
                }
                break;
            case "pause":
                paused = true;
                for (Client client : clients) {
                    while (!client.rests && client.isAlive()) {
                        Thread.sleep(20);
                    }
                }
                break;
            case "resume":
                for (Client client : clients) {
                    client.rests = false;
                }
                paused = false;
                break;
            case "release":
                released.countDown();
                for (Client client : clients) {
                    client.waiter.join();
                }
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    public static void main(String[] args) throws Exception {
        file = new FileOutputStream(args[4], true);
        int count = Integer.parseInt(args[1]);
        List<Client> clients = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Client client = new Client(args[0], number, Integer.parseInt(args[2]), Integer.parseInt(args[3]));
            clients.add(client);
            client.begin();
        }
        while (holders.size() < (count + GROUP - 1) / GROUP) {
            Thread.sleep(20);
        }
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            command(words, clients);
            System.out.println("done " + words[0]);
        }
        ending = true;
        System.exit(0);
    }
}
