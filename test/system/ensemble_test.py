"""Three servers under load while a nemesis kills, stops, pauses and wipes them; then everything promised is looked up.

Promise, checked after every round, on every member: each acknowledged write is there and none of the deleted ones, a
counter's version equals its value and lies between what was acknowledged and what was sent, what a session has read
never goes back from server to server, all members have the same tree with the same zxids, a session that kept in
touch still owns its ephemeral, and one that stayed away is gone with it.
Limits: kill -9 keeps what the kernel was given; one machine, so no network that loses anything (see
partition_test.py).

usage: ensemble_test.py [--rounds N] [--seed N] [--only FAULT] [--apache]
"""

import argparse
import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import zkwire as zk  # noqa: E402
from conclave import why_missing  # noqa: E402
from ensemble import ConclaveMember, Ensemble, ZooKeeperMember, mode_of  # noqa: E402

TICK_MS = 500
TIMEOUT_MS = 6000   # of sessions that come back
SHORT_MS = 1000     # of sessions that stay away
WRITERS = 4
PATIENCE_S = 3.0    # for an answer, before another server is tried
RECOVERY_S = 20.0   # until all members serve again after a round
SYNC_US = 200000    # of a slow disk
NODES_MAX = 150     # of a writer: many rounds must not look up more and more
CONFIG = "/zookeeper/config"
OK, NO_NODE, NODE_EXISTS, BAD_VERSION = 0, -101, -110, -103


class Violation(Exception):
    """A promise was broken; the text says which."""


def expect(condition, text):
    if not condition:
        raise Violation(text)


class Writer(threading.Thread):
    """A session that writes, reads its own writes, and moves on to another member when one fails."""

    def __init__(self, ensemble, number, seed):
        super().__init__(daemon=True)
        self.ensemble = ensemble
        self.number = number
        self.rng = random.Random(seed * 1000 + number)
        self.root = f"/w{number}"
        self.session_id, self.passwd, self.last_zxid = 0, bytes(16), 0
        self.connection = None
        self.there = {}          # acknowledged: path -> data
        self.gone = set()        # acknowledged deletions
        self.unknown = set()     # on its way when the link broke: there or not
        self.value_acked = 0     # of the counter
        self.value_sent = 0
        self.value_read = 0
        self.next_node = 0
        self.acknowledged = 0
        self.expired = 0
        self.longest_s = 0.0     # without an acknowledged write
        self.last_ack = time.monotonic()
        self.ending = threading.Event()
        self.pausing = threading.Event()
        self.paused = threading.Event()
        self.violation = None

    def connect(self):
        """Takes the session up at a random member; a new one when it has expired."""
        while not self.ending.is_set():
            member = self.rng.choice(self.ensemble.members)
            try:
                link = zk.Connection(member.address, TIMEOUT_MS, self.session_id, self.passwd, self.last_zxid,
                                     patience_s=PATIENCE_S)
            except (OSError, zk.Closed):
                if self.pausing.is_set():
                    return False
                time.sleep(0.02)
                continue
            if link.session_id == 0:
                link.drop()
                expect(self.session_id != 0, f"{self.root}: a new session was refused")
                self.session_id, self.passwd = 0, bytes(16)
                self.expired += 1
                continue
            expect(self.session_id in (0, link.session_id), f"{self.root}: got another session")
            self.session_id, self.passwd, self.connection = link.session_id, link.passwd, link
            return True
        return False

    def drop(self):
        if self.connection is not None:
            self.last_zxid = max(self.last_zxid, self.connection.last_zxid)
            self.connection.drop()
            self.connection = None

    def acked(self):
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self.last_ack)
        self.last_ack = now
        self.acknowledged += 1

    def call(self, request):
        before = self.connection.last_zxid
        err, fields = self.connection.call(request)
        expect(self.connection.last_zxid >= before, f"{self.root}: the zxid went back")
        return err, fields

    def step(self):
        kind = self.rng.random()
        if kind < 0.5 and len(self.there) > NODES_MAX:
            kind = 0.85
        if kind < 0.5:
            path = f"{self.root}/n{self.next_node}"
            self.next_node += 1
            data = b"%d" % self.next_node
            self.unknown.add(path)
            err, _ = self.call(zk.create(path, data))
            expect(err == OK, f"create {path}: error {err}, but nobody else makes it")
            self.unknown.discard(path)
            self.there[path] = data
        elif kind < 0.8:
            self.value_sent += 1
            err, _ = self.call(zk.set_data(self.root, b"%d" % self.value_sent))
            expect(err == OK, f"set {self.root}: error {err}")
            self.value_acked = self.value_sent
        elif kind < 0.9 and self.there:
            path = self.rng.choice(list(self.there))
            del self.there[path]
            self.unknown.add(path)
            err, _ = self.call(zk.delete(path))
            expect(err == OK, f"delete {path}: error {err}, but it was acknowledged")
            self.unknown.discard(path)
            self.gone.add(path)
        else:
            err, fields = self.call(zk.get_data(self.root))
            expect(err == OK, f"get {self.root}: error {err}")
            value = int(fields["data"] or b"0")
            expect(self.value_read <= value <= self.value_sent, f"{self.root}: read {value} after {self.value_read}")
            expect(value >= self.value_acked, f"{self.root}: read {value}, acknowledged was {self.value_acked}")
            self.value_read = value
            return
        self.acked()

    def work(self):
        while not self.ending.is_set():
            if self.pausing.is_set():
                self.paused.set()
                time.sleep(0.01)
                continue
            self.paused.clear()
            if self.connection is None and not self.connect():
                continue
            try:
                self.step()
            except (OSError, zk.Closed):
                self.drop()

    def run(self):
        try:
            self.work()
        except Exception as error:  # reported by the main thread
            self.violation = error if isinstance(error, Violation) else Violation(f"{self.root}: {error!r}")
            self.paused.set()

    def rest(self):
        """Waits until nothing of this writer is on its way."""
        self.pausing.set()
        self.paused.wait(3 * PATIENCE_S + 5)
        if self.violation:
            raise self.violation

    def go_on(self):
        self.last_ack = time.monotonic()
        self.paused.clear()
        self.pausing.clear()


def tree_of(link, path="/"):
    """Everything below path: path -> (data, czxid, mzxid, version, owner)."""
    found = {}
    err, fields = link.call(zk.get_data(path))
    if err == NO_NODE:
        return found
    expect(err == OK, f"get {path}: error {err}")
    stat = fields["stat"]
    found[path] = (fields["data"], stat["czxid"], stat["mzxid"], stat["version"], stat["ephemeralOwner"])
    err, fields = link.call(zk.get_children(path))
    if err == OK:
        for name in sorted(fields["children"]):
            found.update(tree_of(link, path.rstrip("/") + "/" + name))
    return found


def check_writer(writer, tree):
    for path, data in writer.there.items():
        expect(path in tree, f"{path}: acknowledged and not there")
        expect(tree[path][0] == data, f"{path}: has {tree[path][0]!r}, acknowledged {data!r}")
    for path in writer.gone:
        expect(path not in tree, f"{path}: deleted, acknowledged, and there again")
    prefix = writer.root + "/n"
    for path in tree:
        if path.startswith(prefix):
            expect(path in writer.there or path in writer.unknown, f"{path}: nobody asked for it")
    data, _, _, version, _ = tree[writer.root]
    value = int(data or b"0")
    expect(writer.value_acked <= value <= writer.value_sent,
           f"{writer.root}: is {value}, acknowledged {writer.value_acked}, sent {writer.value_sent}")
    expect(version == writer.applied_sets(value), f"{writer.root}: version {version} with value {value}")


def dump(member):
    """The member's tree as of a sync, tried again while it loses its leader once more."""
    deadline = time.monotonic() + RECOVERY_S
    while True:
        try:
            with zk.Connection(member.address, TIMEOUT_MS, patience_s=RECOVERY_S) as link:
                err, _ = link.call(zk.sync("/"))
                expect(err == OK, f"sync on {member.number}: error {err}")
                tree = tree_of(link)
                link.close_session()
                return tree
        except (OSError, zk.Closed) as error:
            expect(time.monotonic() < deadline, f"member {member.number} answers nobody: {error!r}")
            time.sleep(0.1)


def config_zxid(tree):
    return tree[CONFIG][2]


def dump_all(ensemble):
    """All members' trees with the same configuration: a member that healed, or joined, gets its vote when it has caught
    up, which may be while the trees are read. Who synced after another member had a configuration has it, too."""
    trees = [dump(member) for member in ensemble.members]
    deadline = time.monotonic() + RECOVERY_S
    while len({config_zxid(tree) for tree in trees}) > 1:
        expect(time.monotonic() < deadline, f"the configuration changes all the time: {[t[CONFIG] for t in trees]}")
        newest = max(config_zxid(tree) for tree in trees)
        for i, member in enumerate(ensemble.members):
            if config_zxid(trees[i]) < newest:
                trees[i] = dump(member)
                expect(config_zxid(trees[i]) >= newest, f"member {member.number} synced, and has an old configuration: "
                                                        f"{trees[i][CONFIG]}, another has 0x{newest:x}")
    return trees


def check(ensemble, writers):
    """Looks everything up on every member."""
    for writer in writers:
        writer.rest()
    trees = dump_all(ensemble)
    for writer in writers:
        # A set whose answer was lost may have been carried out: what the tree has now counts from now on.
        writer.settle(trees[0])
        check_writer(writer, trees[0])
    for member, tree in zip(ensemble.members[1:], trees[1:]):
        differ = [path for path in set(trees[0]) | set(tree) if trees[0].get(path) != tree.get(path)]
        expect(not differ, f"member {member.number} differs from {ensemble.members[0].number} in {sorted(differ)[:5]}: "
                           f"{[(trees[0].get(p), tree.get(p)) for p in sorted(differ)[:2]]}")
    for writer in writers:
        writer.go_on()


def settle(writer, tree):
    for path in list(writer.unknown):
        writer.unknown.discard(path)
        if path in tree:
            writer.there[path] = tree[path][0]
        else:
            writer.gone.add(path)
    value = int(tree[writer.root][0] or b"0")
    expect(writer.value_acked <= value <= writer.value_sent,
           f"{writer.root}: is {value}, acknowledged {writer.value_acked}, sent {writer.value_sent}")
    writer.value_acked = value
    writer.version_base = tree[writer.root][3]


Writer.settle = settle
Writer.applied_sets = lambda self, value: self.version_base if value == self.value_acked else -1


# The nemesis' actions: each leaves the ensemble as it found it, all members running.

def kill(victims):
    for member in victims:
        member.kill()
    time.sleep(random.uniform(0.1, 1.0))
    for member in victims:
        member.start()


def kill_leader(ensemble):
    kill([ensemble.wait_leader(RECOVERY_S, 2)])


def kill_follower(ensemble):
    ensemble.wait_leader(RECOVERY_S, 2)
    kill(ensemble.followers()[:1])


def kill_two(ensemble):
    leader = ensemble.wait_leader(RECOVERY_S, 2)
    kill([leader, next(member for member in ensemble.members if member is not leader)])


def kill_all(ensemble):
    kill(list(ensemble.members))


def stop_leader(ensemble):
    leader = ensemble.wait_leader(RECOVERY_S, 2)
    code = leader.stop()
    expect(code == 0 or leader.name == "zookeeper", f"SIGTERM did not end the leader cleanly: exit {code}")
    leader.start()


def rolling_restart(ensemble):
    for member in ensemble.members:
        ensemble.wait_leader(RECOVERY_S)
        member.restart()


def pause_leader(ensemble):
    leader = ensemble.wait_leader(RECOVERY_S, 2)
    ensemble.pause(leader)
    time.sleep(random.uniform(0.5, 3.0))
    ensemble.resume(leader)


def pause_follower(ensemble):
    ensemble.wait_leader(RECOVERY_S, 2)
    for member in ensemble.followers()[:1]:
        ensemble.pause(member)
        time.sleep(random.uniform(0.5, 3.0))
        ensemble.resume(member)


def pause(ensemble, victims):
    for member in victims:
        ensemble.pause(member)
    time.sleep(random.uniform(0.5, 3.0))
    for member in victims:
        ensemble.resume(member)


def pause_two(ensemble):
    leader = ensemble.wait_leader(RECOVERY_S, 2)
    pause(ensemble, [leader, next(member for member in ensemble.members if member is not leader)])


def pause_all(ensemble):
    ensemble.wait_leader(RECOVERY_S, 2)
    pause(ensemble, ensemble.members)


# Differences of a new version or configuration on one server while the others still have the old: (key, values).
CHANGES = (("--electionTimeout", ("300", "400", "700")), ("--heartbeatTimeout", ("40", "80")),
           ("--snapCount", ("500", "2000", "5000")), ("--preAllocSize", ("256", "4096", "16384")),
           ("--maxClientCnxns", ("0", "500")), ("--linearizableReads", ("true", "false")),
           ("--autopurge.snapRetainCount", ("3", "5")), ("--globalOutstandingLimit", ("100", "1000")),
           ("--damage.heal", ("true", "false")), ("--jute.maxbuffer", ("1048575", "2097152")))
TICKS_MS = ("400", "500", "800")


def with_option(words, key, value):
    """The words with that option as the only one of its key."""
    at = words.index(key) if key in words else len(words)
    return [*words[:at], key, value, *words[at + 2:]]


def rolling_upgrade(ensemble):
    """One server after the other gets other keys, and a longer tick, followers first, as docs/ensemble.md says."""
    key, values = random.choice(CHANGES)
    value = random.choice(values)
    tick = random.choice(TICKS_MS)
    leader = ensemble.wait_leader(RECOVERY_S)
    for member in [*(m for m in ensemble.members if m is not leader), leader]:
        code = member.stop()
        expect(code == 0, f"SIGTERM did not end member {member.number} cleanly: exit {code}")
        member.options = with_option(with_option(member.options, key, value), "--tickTime", tick)
        member.start()
        ensemble.wait_leader(RECOVERY_S)


def wipe_one(ensemble):
    ensemble.wait_leader(RECOVERY_S)
    member = random.choice(ensemble.members)
    member.kill()
    shutil.rmtree(os.path.join(member.folder, "data"))
    member.start()
    ensemble.wait_leader(RECOVERY_S)


def segments(member):
    folder = os.path.join(member.folder, "data", "log")
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".log"))


def cut_tail(ensemble):
    """The log of one member ends somewhere in its last kilobytes, as after a power cut without syncs."""
    ensemble.wait_leader(RECOVERY_S)
    member = random.choice(ensemble.members)
    member.kill()
    path = segments(member)[-1]
    with open(path, "rb") as file:
        content = file.read()
    end = len(content.rstrip(b"\0"))
    with open(path, "r+b") as file:
        start = max(4096, end - random.randrange(1, 2048))
        file.seek(start)
        file.write(b"\0" * (end - start) if end > start else b"")
    member.start()  # damaged data are healed from the others
    ensemble.wait_leader(RECOVERY_S)


FAULTS = {
    "kill-leader": kill_leader,
    "kill-follower": kill_follower,
    "pause-leader": pause_leader,
    "stop-leader": stop_leader,
    "kill-two": kill_two,
    "wipe-one": wipe_one,
    "pause-follower": pause_follower,
    "kill-all": kill_all,
    "rolling-restart": rolling_restart,
    "pause-two": pause_two,
    "pause-all": pause_all,
    "cut-tail": cut_tail,
    "rolling-upgrade": rolling_upgrade,
}
OURS_ONLY = ("wipe-one", "cut-tail", "rolling-upgrade")


def check_ephemerals(ensemble):
    """A session that stays away is gone with its ephemeral, everywhere, in time; one that pings keeps it."""
    ensemble.wait_leader(RECOVERY_S)
    first, second = ensemble.members[0], ensemble.members[1]
    lost = zk.Connection(first.address, SHORT_MS)
    kept = zk.Connection(second.address, SHORT_MS)
    for link, path in ((lost, "/lost"), (kept, "/kept")):
        err, _ = link.call(zk.create(path, flags=zk.EPHEMERAL))
        expect(err == OK, f"create {path}: error {err}")
    lost.drop()
    began = time.monotonic()
    limit = (lost.timeout_ms + int(TICKS_MS[-1])) / 1000 + 0.5
    with zk.Connection(ensemble.members[2].address, TIMEOUT_MS) as watcher:
        while True:
            kept.call(zk.ping())
            watcher.call(zk.sync("/"))
            err, _ = watcher.call(zk.exists("/lost"))
            age = time.monotonic() - began
            if err == NO_NODE:
                break
            expect(age < limit, f"/lost is still there {age:.2f} s after its session fell silent")
            time.sleep(0.05)
        expect(age >= lost.timeout_ms / 1000 - 0.1, f"/lost went after {age:.2f} s, before its timeout")
        for _ in range(10):
            kept.call(zk.ping())
            time.sleep(kept.timeout_ms / 5000)
        err, _ = watcher.call(zk.exists("/kept"))
        expect(err == OK, "/kept is gone although its session pinged")
        watcher.close_session()
    kept.close_session()


def ends_at_start(member, *more):
    """(exit code, stderr) of a start that is to be refused."""
    said = subprocess.run([*member.command(), *more], capture_output=True, text=True, timeout=20, check=False)
    return said.returncode, said.stderr


def last_index(member):
    """What a start says that is told to go on alone from nowhere: the way that docs/ensemble.md tells operators."""
    code, text = ends_at_start(member, "--ensemble.alone", "0")
    found = re.search(r"once with --ensemble.alone (\d+)", text)
    expect(code == 64 and found, f"ensemble.alone 0: exit {code}: {text}")
    return int(found[1])


@contextlib.contextmanager
def slow_syncs(member):
    """The member, started within, waits SYNC_US for each sync, if strace is there."""
    plain = member.command
    if shutil.which("strace"):
        member.command = lambda: ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e",
                                  f"inject=fsync,fdatasync:delay_enter={SYNC_US}", *plain()]
    try:
        yield
    finally:
        member.command = plain


def one_of_two_is_wiped(options):
    """The steps of docs/ensemble.md, "One of two": nothing that was acknowledged is lost, and both serve again."""
    with Ensemble(2, tick_ms=TICK_MS, options=["--snapCount", "200"]) as ensemble:
        writers = start_writers(ensemble, options.seed)
        time.sleep(1)
        survivor, lost = ensemble.members
        lost.kill()
        shutil.rmtree(os.path.join(lost.folder, "data"))
        lost.start()
        time.sleep(2)
        expect(not ensemble.leader(), "who lost its folder was let in without a majority")
        lost.stop()
        survivor.stop()
        shutil.rmtree(os.path.join(lost.folder, "data"))
        index = last_index(survivor)
        survivor.options += ["--ensemble.alone", str(index)]
        with slow_syncs(survivor):  # clients come before it leads: that takes a sync of the log
            survivor.start()
        wait_mode(survivor, ("leader", "standalone"))
        lost.start()
        ensemble.wait_leader(RECOVERY_S, 2)
        check(ensemble, writers)
        survivor.stop()
        expect(ends_at_start(survivor)[0] == 64, "left where it is, the key was taken once more")
        del survivor.options[-2:]
        survivor.start()
        ensemble.wait_leader(RECOVERY_S, 2)
        check(ensemble, writers)
        end_writers(writers)


def wait_mode(member, modes):
    deadline = time.monotonic() + RECOVERY_S
    while mode_of(member) not in modes:
        expect(time.monotonic() < deadline, f"member {member.number} is {mode_of(member)!r}: {member.log_tail()}")
        time.sleep(0.05)


def start_writers(ensemble, seed):
    with zk.Connection(ensemble.members[0].address, TIMEOUT_MS) as link:
        for number in range(WRITERS):
            err, _ = link.call(zk.create(f"/w{number}"))
            expect(err == OK, f"create /w{number}: error {err}")
        link.close_session()
    writers = [Writer(ensemble, number, seed) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    return writers


def end_writers(writers):
    for writer in writers:
        writer.ending.set()
    for writer in writers:
        writer.join(10)


def run(options):
    kind = ZooKeeperMember if options.apache else ConclaveMember
    more = {} if options.apache else {"options": ["--snapCount", "2000"]}
    rng = random.Random(options.seed)
    random.seed(options.seed)
    names = [options.only] if options.only else [n for n in FAULTS if not options.apache or n not in OURS_ONLY]
    rounds = options.rounds or len(names)
    with Ensemble(3, kind, tick_ms=TICK_MS, **more) as ensemble:
        writers = start_writers(ensemble, options.seed)
        for number in range(rounds):
            name = names[number] if number < len(names) else rng.choice(names)
            began = time.monotonic()
            try:
                time.sleep(rng.uniform(0.2, 0.6))
                FAULTS[name](ensemble)
                ensemble.wait_leader(RECOVERY_S)
                check(ensemble, writers)
            except (Violation, OSError, zk.Closed) as error:
                folders = "\n".join(f"--- {m.number} ({mode_of(m)}) {m.folder}\n{m.log_tail(2000)}"
                                    for m in ensemble.members)
                raise Violation(f"round {number} ({name}, seed {options.seed}): {error!r}\n{folders}") from error
            gap = max(writer.longest_s for writer in writers)
            for writer in writers:
                writer.longest_s = 0.0
            print(f"ok      {name:<16} {time.monotonic() - began:5.1f} s, longest wait of a writer {gap:.2f} s", flush=True)
        check_ephemerals(ensemble)
        for writer in writers:
            writer.ending.set()
        print("ok      ephemerals")
        print(f"        {sum(w.acknowledged for w in writers)} acknowledged writes looked up, "
              f"{sum(w.expired for w in writers)} sessions expired")
    return rounds + 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=0, help="default: each fault once")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--only", choices=sorted(FAULTS))
    parser.add_argument("--apache", action="store_true", help="the same against Apache ZooKeeper")
    options = parser.parse_args()
    why = why_missing()
    if why:
        print(f"skipped: {why}")
        return 77
    print(f"seed {options.seed}")
    try:
        count = run(options)
        if not options.only and not options.apache:
            one_of_two_is_wiped(options)
            print("ok      one of two is wiped")
            count += 1
    except (Violation, RuntimeError, OSError, zk.Closed) as error:
        print(f"FAILED  {error}\n0 passed, 1 failed")
        return 1
    print(f"{count} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
