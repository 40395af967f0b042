import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;

/** LeaderLatch and LeaderSelector: one leads, the next follows when it goes, expires, or the server was away. */
final class Elections {
    private Elections() {
    }

    private static LeaderLatch latch(Scene scene, CuratorFramework client, String path, String id) throws Exception {
        LeaderLatch latch = new LeaderLatch(client, path, id, LeaderLatch.CloseMode.NOTIFY_LEADER);
        scene.keep(() -> {
            if (latch.getState() == LeaderLatch.State.STARTED) {
                latch.close();
            }
        });
        latch.start();
        return latch;
    }

    private static void awaitLead(LeaderLatch latch) throws Exception {
        Scene.check(latch.await(Scene.PATIENCE_MS, TimeUnit.MILLISECONDS), latch.getId() + " leads");
    }

    static void latch(Scene scene) throws Exception {
        LeaderLatch first = latch(scene, scene.client(), "/latch", "first");
        awaitLead(first);
        LeaderLatch second = latch(scene, scene.client(), "/latch", "second");
        Scene.await(() -> second.getParticipants().size() == 2, "both take part");
        scene.say(second.getParticipants().stream().map(Participant::toString).sorted()
            .collect(Collectors.joining(" ")));
        scene.say("leader " + second.getLeader().getId() + ", second leads: " + second.hasLeadership());
        first.close();
        awaitLead(second);
        scene.say("leader " + second.getLeader().getId() + ", first leads: " + first.hasLeadership());
    }

    static void latchExpiry(Scene scene) throws Exception {
        CuratorFramework holder = scene.client();
        LeaderLatch first = latch(scene, holder, "/latch-expiry", "first");
        AtomicInteger lost = new AtomicInteger();
        first.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
            }

            @Override
            public void notLeader() {
                lost.incrementAndGet();
            }
        });
        awaitLead(first);
        LeaderLatch second = latch(scene, scene.client(), "/latch-expiry", "second");
        Scene.await(() -> second.getParticipants().size() == 2, "both take part");
        scene.expire(holder);
        awaitLead(second);
        Scene.await(() -> second.getParticipants().size() == 2, "the expired one stands again");
        Scene.await(() -> second.hasLeadership() && !first.hasLeadership(), "the second leads, and nobody else");
        // Together with its session the holder lost its connection, and with each connection a latch loses the lead.
        Scene.check(lost.get() >= 1 && lost.get() <= scene.losses(),
            "the first lost the lead " + lost.get() + " times, and " + scene.losses() + " connections were lost");
        scene.say("leader " + first.getLeader().getId());
    }

    static void latchRestart(Scene scene) throws Exception {
        LeaderLatch first = latch(scene, scene.client(), "/latch-restart", "first");
        awaitLead(first);
        LeaderLatch second = latch(scene, scene.client(), "/latch-restart", "second");
        Scene.await(() -> second.getParticipants().size() == 2, "both take part");
        scene.restart();
        // Which of the two stands first after that is up to their reconnecting.
        Scene.await(() -> first.hasLeadership() != second.hasLeadership() && first.getParticipants().size() == 2,
            "one leads, two take part");
        // A latch stands anew with each connection, so for a moment both may stand twice, and the first in line be another.
        Scene.await(() -> {
            LeaderLatch leader = first.hasLeadership() ? first : second;
            LeaderLatch other = first.hasLeadership() ? second : first;
            return leader.hasLeadership() && !other.hasLeadership()
                && other.getLeader().getId().equals(leader.getId());
        }, "the server names the leader");
        LeaderLatch leader = first.hasLeadership() ? first : second;
        LeaderLatch other = first.hasLeadership() ? second : first;
        leader.close();
        awaitLead(other);
        Scene.await(() -> other.getParticipants().size() == 1, "who left has no node any more");
        scene.say("left: " + other.getParticipants().size());
    }

    /** Leads for a moment; counts its turns and whether anyone else led at the same time. */
    private static final class Turn extends LeaderSelectorListenerAdapter {
        private final String id;
        private final AtomicInteger leading;
        private final ConcurrentLinkedQueue<String> turns;

        Turn(String id, AtomicInteger leading, ConcurrentLinkedQueue<String> turns) {
            this.id = id;
            this.leading = leading;
            this.turns = turns;
        }

        @Override
        public void takeLeadership(CuratorFramework client) throws Exception {
            boolean alone = leading.incrementAndGet() == 1;
            Thread.sleep(10);
            turns.add(id + (alone ? "" : " with another"));
            leading.decrementAndGet();
        }
    }

    static void selector(Scene scene) throws Exception {
        AtomicInteger leading = new AtomicInteger();
        ConcurrentLinkedQueue<String> turns = new ConcurrentLinkedQueue<>();
        for (String id : new String[] {"first", "second"}) {
            LeaderSelector selector = new LeaderSelector(scene.client(), "/selector", new Turn(id, leading, turns));
            selector.setId(id);
            selector.autoRequeue();
            scene.keep(selector);
            selector.start();
        }
        Scene.await(() -> turns.size() >= 12 && turns.contains("first") && turns.contains("second"), "twelve turns, each has one");
        scene.say("turns of " + turns.stream().distinct().sorted().collect(Collectors.joining(", ")));
    }

    static void selectorInterrupted(Scene scene) throws Exception {
        AtomicInteger terms = new AtomicInteger();
        LeaderSelector selector = new LeaderSelector(scene.client(), "/selector-stop",
            new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) throws Exception {
                    terms.incrementAndGet();
                    Thread.sleep(Scene.PATIENCE_MS);
                }
            });
        scene.keep(selector);
        selector.start();
        Scene.await(() -> terms.get() == 1, "the first term");
        LeaderSelector waiting = new LeaderSelector(scene.client(), "/selector-stop",
            new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) {
                    terms.addAndGet(10);
                }
            });
        scene.keep(waiting);
        waiting.start();
        Scene.await(() -> waiting.getParticipants().size() == 2, "both take part");
        scene.say("terms " + terms.get());
        selector.interruptLeadership();
        Scene.await(() -> terms.get() == 11, "the second's term");
    }
}
