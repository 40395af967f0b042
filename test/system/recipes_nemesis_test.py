"""Every recipe on three servers while servers and users of the recipes are killed, stopped and cut off.

Promise: three processes (recipes_actor.c), each with an election, a mutex, a read/write lock, a semaphore, two queues, a
double barrier, a group, a configuration, a counter and a registry on one session; meanwhile servers are killed with -9
and started again, the leader is moved, stopped, cut off, and a process is killed or stopped now and then. Then: one
holder at a time (two of the semaphore, no writer beside anybody), tokens that grow; no item of the queue lost that was
put, none handed out twice where that is promised, none that was said not to be put; nobody enters or leaves a barrier
before all have come; views, registry and readers of the configuration end at what is there, and never go back; the
counter has the additions that were acknowledged, and at most those of unknown outcome beside; in the end of nobody a
node is left.
Limits: skipped without network namespaces. A term counts from the first to the last moment at which the library said
that it lasts.

usage: recipes_nemesis_test.py [--seconds N] [--seed N] [--keep FOLDER] [--only FAULT]
--keep: notes of the processes and logs of the servers are left there.
"""

import argparse
import collections
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import why_missing  # noqa: E402
from split_net import SplitEnsemble, enter_own_network  # noqa: E402

ACTOR = os.path.join(os.path.abspath(os.environ.get("CONCLAVE_BUILD", "build")), "test", "system", "recipes_actor")
NAMES = ("a", "b", "c")     # as many as the barrier waits for
MARKERS = ("/n/config.writers/", "/n/counter.writers/")
LASTING = {"/n/config", "/n/counter", "/n/election.leader/last"}
TICK_MS = 400
SESSION_MS = 2000
SESSION_S = SESSION_MS / 1000
SETTLE_S = 40
RECOVERY_S = 40
OK = 0
TIMED_OUT, ELOST, EXPIRED, CONFLICT = -1002, -1006, -112, -1010
# The permitted answers under these faults, per request; any other answer is a fault of the library.
GRIP_ERRORS = {TIMED_OUT, EXPIRED, ELOST}
PUT_ERRORS = {OK, TIMED_OUT, EXPIRED}
BARRIER_ERRORS = {OK, TIMED_OUT, EXPIRED}


def expect(good, what):
    if not good:
        raise AssertionError(what() if callable(what) else what)


class Actor:
    """A process under a name; the one that follows a killed one is another life of it."""

    def __init__(self, ensemble, name):
        self.ensemble, self.name = ensemble, name
        self.life = 0
        self.files = []
        self.killed_at = []     # monotonic, ns; by life
        self.pauses = []
        self.process = None

    def start(self):
        self.life += 1
        self.files.append(os.path.join(self.ensemble.members[0].folder, f"notes-{self.name}-{self.life}"))
        writer = ["writer"] if self.name == NAMES[0] else []
        self.process = subprocess.Popen([ACTOR, self.ensemble.hosts, self.files[-1], self.name, str(self.life),
                                         str(SESSION_MS), *writer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        expect(self.process.stdout.readline() == "ready\n", f"{self.name} did not start")

    def end(self):
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def kill(self):
        self.process.kill()
        self.end()

    def do(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def notes(self):
        """(life, time, words) of all lines that are whole."""
        for life, path in enumerate(self.files, 1):
            with open(path, encoding="ascii") as lines:
                for line in lines:
                    if line.endswith("\n"):
                        at, *words = line.split()
                        yield life, int(at), words


# --- the actions

def members_but(ensemble, member):
    return [other.number for other in ensemble.members if other is not member]


def kill_any(world):
    member = world.rng.choice(world.ensemble.members)
    member.kill()
    time.sleep(world.rng.uniform(0, 1.5 * SESSION_S))
    member.start()


def kill_leader(world):
    leader = world.ensemble.wait_leader(RECOVERY_S)
    leader.kill()
    time.sleep(world.rng.uniform(0, SESSION_S))
    leader.start()


def move_leader(world):
    world.ensemble.wait_leader(RECOVERY_S).restart()


def kill_all(world):
    for member in world.ensemble.members:
        member.kill()
    for member in world.ensemble.members:
        member.start()


def stop_leader(world):
    leader = world.ensemble.wait_leader(RECOVERY_S)
    world.ensemble.pause(leader)
    time.sleep(world.rng.uniform(0.3, 1.5) * SESSION_S)
    world.ensemble.resume(leader)


def cut_any(world):
    member = world.rng.choice(world.ensemble.members)
    rest = members_but(world.ensemble, member)
    how = world.rng.choice(("both", "mute", "deaf"))
    if how == "both":
        world.ensemble.net.cut([member.number], rest)
    elif how == "mute":
        world.ensemble.net.cut_one_way([member.number], rest)
    else:
        world.ensemble.net.cut_one_way(rest, [member.number])
    time.sleep(world.rng.uniform(0.2, 1.5) * SESSION_S)
    world.ensemble.net.heal()


def cut_clients(world):
    """Nobody reaches one of the servers, or any."""
    count = world.rng.choice((1, 3))
    world.ensemble.net.cut([0], [member.number for member in world.rng.sample(world.ensemble.members, count)])
    time.sleep(world.rng.uniform(0.2, 1.5 if count == 1 else 0.8) * SESSION_S)
    world.ensemble.net.heal()


def lose_packets(world):
    world.ensemble.net.lose(0.05)
    time.sleep(SESSION_S)
    world.ensemble.net.heal()


def kill_actor(world):
    actor = world.rng.choice(world.actors)
    actor.kill()
    time.sleep(world.rng.uniform(0, 1.2 * SESSION_S))
    actor.start()


def stop_actor(world):
    actor = world.rng.choice(world.actors)
    actor.process.send_signal(signal.SIGSTOP)
    time.sleep(world.rng.uniform(0.1, 1.5) * SESSION_S)
    actor.process.send_signal(signal.SIGCONT)


FAULTS = {kill_any: 3, kill_leader: 3, move_leader: 2, kill_all: 1, stop_leader: 2, cut_any: 4, cut_clients: 3, lose_packets: 1,
          kill_actor: 3, stop_actor: 2}


class World:
    def __init__(self, options):
        self.options = options
        self.rng = random.Random(options.seed)
        self.ensemble = SplitEnsemble(3, tick_ms=TICK_MS, options=[
            "--minSessionTimeout", "500", "--snapCount", "5000", "--znode.container.checkIntervalMs", "500",
            "--znode.container.maxPerMinute", "100000", "--znode.container.maxNeverUsedIntervalMs", "3000"])
        self.actors = [Actor(self.ensemble, name) for name in NAMES]
        self.done = collections.Counter()
        self.noted = collections.defaultdict(list)

    def __enter__(self):
        self.ensemble.start()
        for actor in self.actors:
            actor.start()
        return self

    def __exit__(self, *_):
        for actor in self.actors:
            if actor.process and actor.process.poll() is None:
                actor.process.send_signal(signal.SIGCONT)
                actor.kill()
        self.ensemble.stop()

    def connect(self):
        return zk.Connection(self.ensemble.wait_leader(RECOVERY_S).address, 10000, patience_s=10)

    def disturb(self):
        """Faults of all kinds in turn, then at random, until the time is up."""
        faults = {fault: weight for fault, weight in FAULTS.items() if self.options.only in ("", fault.__name__)}
        names = list(faults)
        self.rng.shuffle(names)
        end = time.monotonic() + self.options.seconds
        while time.monotonic() < end:
            fault = names.pop() if names else self.rng.choices(list(faults), list(faults.values()))[0]
            fault(self)
            self.done[fault.__name__] += 1
            for actor in self.actors:
                expect(actor.process.poll() is None, f"{actor.name} ended by itself, {actor.process.poll()}, after {fault.__name__}")
            time.sleep(self.rng.uniform(0.2, 1.2))

    def of(self, *kinds):
        """(actor, life, time, words) of the notes that begin so; to be asked for when all have ended."""
        if not self.noted:
            for actor in self.actors:
                for life, at, words in actor.notes():
                    self.noted[words[0]].append((actor.name, life, at, words))
        return [row for kind in kinds for row in self.noted[kind]]

    def keep(self, folder):
        os.makedirs(folder, exist_ok=True)
        for member in self.ensemble.members:
            shutil.copy(member.log_path, os.path.join(folder, f"log-{member.number}"))
        for actor in self.actors:
            for path in actor.files:
                shutil.copy(path, folder)


WORLD = None


# --- what must hold: first while all still run, then of what was noted

def children(link, path):
    err, fields = link.call(zk.get_children(path))
    return fields["children"] if err == OK else []


def until(what, good, seconds=SETTLE_S):
    deadline = time.monotonic() + seconds
    while not (value := good()):
        expect(time.monotonic() < deadline, lambda: f"{what()} after {seconds} s")
        time.sleep(0.05)
    return value


def last_of(actor, kind):
    """The words of the last such note of an actor's life of now."""
    found = [words for life, _, words in actor.notes() if life == actor.life and words[0] == kind]
    return found[-1] if found else None


def test_all_settles():
    """After the faults: queues run empty, views show the living, readers have the last configuration."""
    WORLD.disturb()
    WORLD.ensemble.wait_leader(RECOVERY_S)
    for actor in WORLD.actors:
        expect(actor.do("calm") == "calm", f"{actor.name}: calm")
    everybody = "".join(f"{name}," for name in NAMES)
    for actor in WORLD.actors:
        until(lambda: f"{actor.name}'s view is {last_of(actor, 'V')}",
              lambda: (last_of(actor, "V") or ["", "", "", ""])[2:] == ["0", everybody])
        until(lambda: f"{actor.name}'s registry is {last_of(actor, 'S')}",
              lambda: (last_of(actor, "S") or ["", "", ""])[1:] == ["0", everybody])
    with WORLD.connect() as link:
        for queue in ("/n/queue0", "/n/queue1"):
            until(lambda: f"{queue} holds {children(link, queue)[:5]}, claims {children(link, queue + '.claims')[:5]}",
                  lambda: not children(link, queue))
        time.sleep(0.5)
        value = link.call(zk.get_data("/n/config"))[1]["data"].decode()
        WORLD.counter = int(link.call(zk.get_data("/n/counter"))[1]["data"])
        link.close_session()
    for actor in WORLD.actors:
        until(lambda: f"{actor.name}'s configuration is {last_of(actor, 'C')}, not {value}",
              lambda: (last_of(actor, "C") or [""])[-1] == value)
    return ", ".join(f"{name} {count}" for name, count in sorted(WORLD.done.items()))


def leaves(link, path):
    """Paths of all nodes below that have no children, with owners of ephemerals."""
    err, fields = link.call(zk.exists(path))
    if err != OK:
        return []
    names = children(link, path)
    if names:
        return [leaf for name in names for leaf in leaves(link, f"{path}/{name}")]
    owner = fields["stat"]["ephemeralOwner"]
    return [path if owner in (0, -1 << 63) else f"{path} of 0x{owner:x}"]


def crashed_rounds():
    """The barrier's mark in each round that no member has left, as all died or lost their sessions before: if it was open, nobody
    is there to remove the mark."""
    begun = {words[1] for _, _, _, words in WORLD.of("B")}
    left = {words[1] for _, _, _, words in WORLD.of("l") if int(words[2]) not in (EXPIRED, ELOST)}
    return {f"/n/barrier/{number}/ready" for number in begun - left}


def test_nothing_is_left():
    """But values, the election's mark of who led last, markers of writers that were killed or gave up, which are removed after
    a day, and crashed rounds of the barrier: the containers are reaped."""
    for actor in WORLD.actors:
        said = actor.do("quit")
        expect(said == "ended" and actor.process.wait(SETTLE_S) == 0, f"{actor.name}: {said!r}, {actor.process.poll()}")
    lasting = LASTING | crashed_rounds()
    with WORLD.connect() as link:
        def left():
            return [path for path in leaves(link, "/n") if path not in lasting and not path.startswith(MARKERS)]

        until(lambda: f"left: {left()}", lambda: not left())
        markers = [path for path in leaves(link, "/n") if path.startswith(MARKERS)]
        gave_up = sum(int(words[2]) != OK for _, _, _, words in WORLD.of("W"))
        expect(len(markers) <= 2 * sum(actor.life - 1 for actor in WORLD.actors) + gave_up, f"left: {markers}")
        link.close_session()


def spans(tag):
    """(first, last, token, actor) of all terms, by their begin."""
    terms = {}
    for name, _, at, words in WORLD.of("H"):
        if words[1] == tag:
            key = (int(words[2]), name)
            first = terms.get(key, (at, at))[0]
            terms[key] = (first, at)
    return sorted((first, last, token, name) for (token, name), (first, last) in terms.items())


def one_at_a_time(tag, permits=1):
    rows = spans(tag)
    ends = []
    for row in rows:
        ends = [end for end in ends if end[1] >= row[0]]
        expect(len(ends) < permits, lambda: f"{tag}: beside {ends}: {row}")
        ends.append(row)
    if permits == 1:
        for before, after in zip(rows, rows[1:]):
            expect(before[2] < after[2], f"{tag}: tokens do not grow: {before} {after}")
    names = collections.Counter(row[3] for row in rows)
    expect(set(names) == set(NAMES), f"{tag}: not everybody held it: {names}")
    return len(rows)


def test_one_holder():
    counts = [f"{what} {one_at_a_time(tag, permits)}" for what, tag, permits in
              (("election", "e", 1), ("mutex", "m", 1), ("writers", "w", 1), ("semaphore", "s", 2))]
    writers, readers = spans("w"), spans("r")
    for first, last, token, name in readers:
        for row in writers:
            expect(row[1] < first or last < row[0], f"a reader {(first, last, token, name)} beside a writer {row}")
    for name, _, _, words in WORLD.of("E"):
        expect(int(words[2]) in (GRIP_ERRORS if words[1] != "q" else {TIMED_OUT}), f"{name}: {words}")
    return f"terms: {', '.join(counts)}, readers {len(readers)}"


def test_E74_queues():
    """Nothing that was put is lost, but where a consumer took it and was killed; nothing is handed out twice of the second."""
    tried, put, not_put, unknown = (collections.defaultdict(set) for _ in range(4))
    taken, acked = collections.defaultdict(list), collections.Counter()
    for name, life, at, words in WORLD.of("P", "p", "G", "A"):
        if words[0] == "P":
            tried[int(words[1])].add(words[2])
        elif words[0] == "p":
            code = int(words[3])
            expect(code in PUT_ERRORS, f"{name}: {words}")
            {OK: put, TIMED_OUT: not_put, EXPIRED: unknown}[code][int(words[1])].add(words[2])
        elif words[0] == "G":
            taken[int(words[1]), words[2]].append((name, life, int(words[3]), words[4], at))
        elif int(words[2]) == OK:
            acked[words[1]] += 1
        else:
            expect(int(words[2]) in (ELOST, EXPIRED), f"{name}: {words}")
    for queue in (0, 1):
        names = {item for where, item in taken if where == queue}
        expect(names <= tried[queue], f"never put: {names - tried[queue]}")
        expect(not names & not_put[queue], f"put after all: {names & not_put[queue]}")
    doubled = [(item, rows) for item, rows in taken.items() if len({row[3] for row in rows}) > 1]
    expect(not doubled, f"put twice: {doubled}")
    lost = put[0] - {item for queue, item in taken if queue == 0}
    expect(not lost, f"lost: {sorted(lost)}")
    twice = [item for item, count in acked.items() if count > 1]
    expect(not twice, f"acknowledged twice: {twice}")
    twice = [(item, rows) for (queue, item), rows in taken.items() if queue == 1 and len(rows) > 1]
    expect(not twice, f"handed out twice: {twice}")
    gone = put[1] - {item for queue, item in taken if queue == 1}
    again = sum(len(rows) > 1 for (queue, _), rows in taken.items() if queue == 0)
    expect(len(gone) <= max(0.05 * len(put[1]), 5), f"at most once lost {len(gone)} of {len(put[1])}")
    return (f"at least once: {len(put[0])} put, {again} handed out again; at most once: {len(put[1])} put, {len(gone)} lost; "
            f"{sum(map(len, unknown.values()))} unknown")


def test_barriers():
    """E82, E84, E85: all have come before anybody enters, all leave or are gone before anybody is let go."""
    rounds = collections.defaultdict(lambda: collections.defaultdict(dict))
    for name, life, at, words in WORLD.of("B", "b", "L", "l"):
        row = rounds[int(words[1])][name, life]
        row[words[0]] = at
        if len(words) > 2:
            row[words[0] + "code"] = int(words[2])
            expect(int(words[2]) in BARRIER_ERRORS | {CONFLICT, ELOST}, f"round {words[1]}: {name} {words}")
    whole = 0
    for number, rows in rounds.items():
        entered = [row for row in rows.values() if row.get("bcode") == OK]
        if not entered:
            continue
        first = min(row["b"] for row in entered)
        there = [row for row in rows.values() if row["B"] < first]  # later ones had been killed in this round
        expect(len(there) >= len(NAMES), lambda: f"round {number}: somebody entered before all had come: {dict(rows)}")
        expect(len(there) > len(NAMES) or not any(row.get("bcode") == TIMED_OUT for row in there),
               lambda: f"round {number}: one gave up, and others entered: {dict(rows)}")
        left = [row for row in entered if row.get("lcode") == OK]
        if len(left) == len(NAMES):
            whole += 1
            expect(min(row["l"] for row in left) >= max(row["L"] for row in left),
                   lambda: f"round {number}: somebody left before all wanted to: {dict(rows)}")
    expect(whole > 0, "no round was whole")
    return f"{len(rounds)} rounds, {whole} of them whole"


def test_counter():
    rows = [(int(words[1]), int(words[2])) for _, _, _, words in WORLD.of("+")]
    good = [value for code, value in rows if code == OK]
    # A process that was killed may have had one on its way.
    open_ones = sum(code == TIMED_OUT for code, _ in rows) + sum(actor.life - 1 for actor in WORLD.actors)
    expect({code for code, _ in rows} <= {OK, TIMED_OUT}, f"answers {collections.Counter(code for code, _ in rows)}")
    expect(len(set(good)) == len(good), "two additions made the same value")
    expect(len(good) <= WORLD.counter <= len(good) + open_ones, f"{len(good)} added, {open_ones} open, value {WORLD.counter}")
    return f"{len(good)} added, {open_ones} of unknown outcome, value {WORLD.counter}"


def test_configuration():
    """E94: readers never go back, and see only what was written."""
    written = {words[1]: int(words[2]) for _, _, _, words in WORLD.of("W")}
    expect(set(written.values()) <= {OK, TIMED_OUT}, f"answers {collections.Counter(written.values())}")
    latest = collections.defaultdict(lambda: (0, 0))
    for name, life, _, words in WORLD.of("C"):
        mzxid, value = int(words[1]), int(words[3])
        expect(latest[name, life] < (mzxid, value) and latest[name, life][1] < value, f"{name} went back from {latest[name, life]}: {words}")
        latest[name, life] = mzxid, value
    return f"{len(written)} written, {len(WORLD.of('C'))} told"


def test_views():
    """E90: no view is older than the one before it."""
    latest = collections.defaultdict(int)
    for name, life, _, words in WORLD.of("V"):
        expect(int(words[1]) >= latest[name, life], f"{name}'s view went back: {words}")
        latest[name, life] = int(words[1])
    return f"{len(WORLD.of('V'))} views"


def main():
    global WORLD
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20, help="of faults")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big") >> 2)
    parser.add_argument("--keep", metavar="FOLDER")
    parser.add_argument("--only", default="", choices=["", *(fault.__name__ for fault in FAULTS)])
    options = parser.parse_args()
    why = why_missing() or enter_own_network()
    if why:
        return cases.skip_all(why)
    print(f"seed {options.seed}", flush=True)
    with World(options) as WORLD:
        try:
            return cases.run(cases.named("test_", globals()))
        finally:
            if options.keep:
                WORLD.keep(options.keep)


if __name__ == "__main__":
    sys.exit(main())
