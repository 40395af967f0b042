"""Sessions of clients of the followers, beside whatever happens to these: none ends before its timeout.

Promise: an ephemeral is there for the session timeout after the last answer that its client got, also when the client
disconnects right after it, when its server is killed, stands still or is cut off in either direction, and when the
leader changes at the same moment; without such a fault it is gone half a second after the timeout, plus the time for which
the machine gave the servers nothing (and the timeout once more per election that this made), with one it is gone in the end, also when its server is killed and started again all the
time.
How: many sessions, each with an ephemeral, ping at random; each notes when it sent the last ping that was answered, which
is before the answer was sent, so no delay of the test itself can make a session look as if it had ended early. An observer
at the leader notes when each ephemeral is gone. Writes through each member, all the time, show how long a member that is not
harmed takes at most on this machine.
Limits: the cases that cut are skipped, with the reason, without network namespaces and tun devices.

usage: sessions_test.py [--sessions N] [--rounds N] [--ensembles N] [CASE...]
--ensembles: each case is divided among as many, side by side, as most of its time is waiting.
"""

import argparse
import itertools
import os
import random
import re
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import why_missing  # noqa: E402
from ensemble import Ensemble  # noqa: E402
from split_net import SplitEnsemble, enter_own_network  # noqa: E402

TICK_MS = 1000
LATE_S = 0.5         # beyond the timeout, without faults
CONTACT_S = 2.0      # a server without its leader for as long drops its clients
DRIFT = 0.002        # two clocks of one machine
OPEN_S = 60.0        # a busy machine opens a session in
FAULT_LATE_S = 20.0  # "in the end": one tick more, new leaders, and other suites on the same cores
AT_ONCE = 40         # sessions that are open at a time
ROUND_SESSIONS = 24  # for a fault


class Sitter:
    """A session with an ephemeral node; sit() keeps it alive with pings."""

    def __init__(self, member, path, timeout_ms):
        self.path = path
        self.link = zk.Connection(member.address, timeout_ms, patience_s=10)
        self.timeout_s = self.link.timeout_ms / 1000
        self.asked = self.answered = time.monotonic()
        self.broken = None  # why the connection ended before this left it
        err, _ = self.call(zk.create(path, flags=zk.EPHEMERAL))
        if err != 0:
            raise AssertionError(f"create {path}: error {err}")

    def call(self, request):
        asked = time.monotonic()
        reply = self.link.call(request)
        self.answered = time.monotonic()
        self.asked = asked
        return reply

    def sit(self, seconds=None, gaps=(0.05, 0.3)):
        """Pings for `seconds`, or until the connection ends; then leaves without closing the session."""
        end = time.monotonic() + (seconds if seconds is not None else 3600)
        try:
            while time.monotonic() < end:
                time.sleep(random.uniform(*gaps))
                self.call(zk.ping())
        except (OSError, zk.Closed) as error:
            self.broken = repr(error)
            self.answered = time.monotonic()  # the server may have got the last ping
        self.link.drop()


def opened(member, path):
    """A sitter of the member, tried again while a machine that stalls ends connections before their first answer."""
    end = time.monotonic() + OPEN_S
    for attempt in itertools.count():
        try:
            return Sitter(member, f"{path}.{attempt}", random.randint(2000, 3900))
        except (OSError, zk.Closed):
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


class Stalls:
    """The longest time that a write through each member took, from one answer to the next."""

    def __init__(self, members, path):
        self.path = path
        self.longest_s = [0.0] * len(members)
        self.ending = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(place, member), daemon=True)
                        for place, member in enumerate(members)]

    def _run(self, place, member):
        link, last = None, time.monotonic()
        while not self.ending.wait(0.05):
            begun = time.monotonic() if link is not None else last
            try:
                if link is None:
                    link = zk.Connection(member.address, 30000, patience_s=10)
                link.call(zk.set_data(self.path, b""))
            except (OSError, zk.Closed):
                link = None
                continue
            last = time.monotonic()
            self.longest_s[place] = max(self.longest_s[place], last - begun)
        if link is not None:
            link.drop()

    def total_s(self):
        """What they can add to the end of a session: its server's report, the leader, and the quorum may each be late."""
        return sum(self.longest_s)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        for thread in self.threads:
            thread.join()


class Observer:
    """When each child of a node was first seen to be gone, and last seen to be there."""

    def __init__(self, ensemble, parent):
        self.ensemble = ensemble
        self.parent = parent
        self.gone = {}
        self.seen = set()
        self.gaps = 0.0  # the longest time between two looks
        self.term = ensemble.term()
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        link, last = None, time.monotonic()
        while not self.ending.is_set():
            try:
                if link is None:
                    member = self.ensemble.leader()
                    if member is None:
                        continue
                    link = zk.Connection(member.address, 30000, patience_s=1)
                err, fields = link.call(zk.get_children(self.parent))
            except (OSError, zk.Closed):
                link = None
                continue
            now = time.monotonic()
            if err == 0:
                names = {f"{self.parent}/{name}" for name in fields["children"]}
                for path in self.seen - names:
                    self.gone.setdefault(path, now)
                self.seen |= names
                self.gaps, last = max(self.gaps, now - last), now
            time.sleep(0.01)
        if link is not None:
            link.drop()

    def elections(self):
        return self.ensemble.term() - self.term

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.thread.join()


def make_node(ensemble, path):
    with zk.Connection(ensemble.leader().address, 10000, patience_s=10) as link:
        err, _ = link.call(zk.create(path))
        link.close_session()
        assert err == 0, f"create {path}: error {err}"


def judge(observer, sitters, late_s, stalls=None):
    """Waits until all ephemeral nodes are gone; fails if one went too early or too late. Returns how late the last one was."""
    end = max(sitter.answered + sitter.timeout_s for sitter in sitters) + late_s + 5
    while len(observer.gone.keys() & {s.path for s in sitters}) < len(sitters) and time.monotonic() < end:
        time.sleep(0.05)
    wrong, worst = [], 0.0
    stalled_s = observer.gaps + (stalls.total_s() if stalls else 0.0)
    elections = observer.elections()  # each begins every timeout anew
    for sitter in sitters:
        gone = observer.gone.get(sitter.path)
        if gone is None:
            wrong.append(f"{sitter.path} is still there")
            continue
        if stalls and sitter.broken and stalled_s < CONTACT_S:
            wrong.append(f"{sitter.path}: its connection ended, without a fault, by {sitter.broken}")
        lived = gone - sitter.asked
        over = gone - sitter.answered - sitter.timeout_s
        worst = max(worst, over)
        if lived < sitter.timeout_s * (1 - DRIFT):
            wrong.append(f"{sitter.path} ended {lived:.3f} s after its client had asked for something that was answered; "
                         f"its timeout is {sitter.timeout_s:.3f} s")
        elif over > late_s + stalled_s + elections * (sitter.timeout_s + TICK_MS / 1000):
            wrong.append(f"{sitter.path} was there {over:.3f} s after its timeout of {sitter.timeout_s:.3f} s; "
                         f"the machine accounts for {stalled_s:.3f} s and {elections} elections")
    assert not wrong, f"{len(wrong)} of {len(sitters)} sessions: " + "; ".join(wrong[:8])
    return worst


def open_sitters(members, parent, count, first=0):
    sitters = [None] * count

    def one(place):
        member = members[place % len(members)]
        sitters[place] = opened(member, f"{parent}/{first + place}")
    threads = [threading.Thread(target=one, args=(place,)) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(sitters), "not every session could be opened"
    return sitters


class Suite:
    def __init__(self, options, split):
        self.options = options
        self.split = split  # None, or why the network cannot be split
        self.ensemble = None
        self.number = 0

    def open(self):
        kind = Ensemble if self.split else SplitEnsemble
        self.ensemble = kind(3, tick_ms=TICK_MS, options=["--maxSessionsPerAddress", "100000"]).start()

    def parent(self, name):
        self.number += 1
        path = f"/{name}-{self.number}"
        make_node(self.ensemble, path)
        return path

    def disconnects(self):
        """Clients that leave right after an answer: neither early nor late."""
        self.ensemble.wait_leader()
        time.sleep(2 * TICK_MS / 1000)  # the extra time that a new leader gives is over
        parent = self.parent("quiet")
        left, lock, done = list(range(self.options.sessions)), threading.Lock(), []
        followers = self.ensemble.followers()

        def work():
            while True:
                with lock:
                    if not left:
                        return
                    place = left.pop()
                sitter = opened(followers[place % 2], f"{parent}/{place}")
                sitter.sit(random.uniform(0, 2.5), gaps=(0.3, 1.2))
                with lock:
                    done.append(sitter)
        with Observer(self.ensemble, parent) as observer, Stalls(self.ensemble.members, parent) as stalls:
            threads = [threading.Thread(target=work) for _ in range(AT_ONCE)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(done) == self.options.sessions, f"only {len(done)} sessions could be opened"
            worst = judge(observer, done, LATE_S, stalls)
        return f"{len(done)} sessions, the last one {worst:.2f} s after its timeout; writes took at most " \
               f"{max(stalls.longest_s):.2f} s"

    def rounds(self, name, harm, mend):
        """Sessions of one follower, to which something happens while they ping."""
        worst = 0.0
        for _ in range(self.options.rounds):
            leader = self.ensemble.wait_leader(30)
            parent = self.parent(name)
            victim = random.choice(self.ensemble.followers())
            with Observer(self.ensemble, parent) as observer:
                sitters = open_sitters([victim], parent, ROUND_SESSIONS)
                threads = [threading.Thread(target=sitter.sit) for sitter in sitters]
                for thread in threads:
                    thread.start()
                time.sleep(random.uniform(0.5, 1.5))
                try:
                    harm(leader, victim)
                    for thread in threads:
                        thread.join()
                    worst = max(worst, judge(observer, sitters, FAULT_LATE_S))
                finally:
                    mend(leader, victim)
        return f"{self.options.rounds} rounds, the last session {worst:.2f} s after its timeout"

    def killed_followers(self):
        return self.rounds("killed", lambda _, victim: victim.kill(), lambda _, victim: victim.start())

    def killed_with_the_leader(self):
        """The leader and the sessions' follower are killed; the follower comes back as part of the new majority."""
        def harm(leader, victim):
            both = [leader, victim]
            random.shuffle(both)
            for member in both:
                member.kill()
            victim.start()
        return self.rounds("both", harm, lambda leader, _: leader.start())

    def killed_leaders(self):
        return self.rounds("leader", self._kill_leader, lambda leader, _: leader.start())

    @staticmethod
    def _kill_leader(leader, victim):
        leader.kill()
        time.sleep(random.uniform(0, 1))
        victim.kill()
        victim.start()

    def restarted_followers(self):
        def harm(_, victim):
            victim.kill()
            victim.start()
        return self.rounds("restarted", harm, lambda *_: None)

    def flapping_followers(self):
        """A follower that is killed and started again and again keeps no session of a client that is gone."""
        over = threading.Event()

        def flap(victim):
            while not over.wait(random.uniform(0.3, 2.5)):
                victim.kill()
                victim.start()
        flapping = []

        def harm(_, victim):
            victim.kill()
            victim.start()
            over.clear()
            flapping.append(threading.Thread(target=flap, args=(victim,)))
            flapping[-1].start()

        def mend(*_):
            over.set()
            flapping[-1].join()
        return self.rounds("flapping", harm, mend)

    def paused_followers(self):
        def harm(_, victim):
            self.ensemble.pause(victim)
            time.sleep(random.uniform(0.2, 6))
            self.ensemble.resume(victim)
            time.sleep(random.uniform(0, 2))
            victim.kill()
        return self.rounds("paused", harm, lambda _, victim: victim.start())

    def partitions(self):
        if self.split:
            raise cases.Skip(self.split)
        net = self.ensemble.net

        def harm(_, victim):
            rest = [member.number for member in self.ensemble.members if member is not victim]
            random.choice([lambda: net.cut([victim.number], rest),
                           lambda: net.cut_one_way([victim.number], rest),
                           lambda: net.cut_one_way(rest, [victim.number])])()
        return self.rounds("cut", harm, lambda *_: net.heal())


def divided(name, options):
    """A case as one that has its sessions and rounds divided among processes, each with an ensemble of its own."""
    def share(whole, place):
        return str(whole * (place + 1) // options.ensembles - whole * place // options.ensembles)

    def case():
        processes = [subprocess.Popen([sys.executable, "-B", os.path.abspath(__file__), "--seed", str(options.seed + place),
                                       "--sessions", share(options.sessions, place),
                                       "--rounds", share(options.rounds, place), name],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                     for place in range(options.ensembles)]
        outputs = [process.communicate()[0] for process in processes]
        for output in outputs:
            if match := re.search(r"^skipped(?: \w+)?: (.+)", output, re.M):
                raise cases.Skip(match[1])
        failed = [output for output, process in zip(outputs, processes) if process.returncode != 0]
        assert not failed, "\n" + "\n".join(failed)
        return "; ".join(re.search(rf"^ok +{name} .*?\)  (.*)", output, re.M)[1] for output in outputs)
    case.__name__ = name
    return case


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=160)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ensembles", type=int, default=1)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big") >> 2)
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    if why := why_missing():
        return cases.skip_all(why)
    names = ("disconnects", "killed_followers", "partitions", "restarted_followers", "flapping_followers", "paused_followers",
             "killed_leaders", "killed_with_the_leader")
    if options.ensembles > 1:
        return cases.run([divided(name, options) for name in names], options.only)
    split = enter_own_network()
    print(f"seed {options.seed}")
    random.seed(options.seed)
    suite = Suite(options, split)
    suite.open()
    try:
        return cases.run([getattr(suite, name) for name in names], options.only)
    finally:
        suite.ensemble.stop()


if __name__ == "__main__":
    sys.exit(main())
