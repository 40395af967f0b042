#!/usr/bin/env python3
"""Our producers and consumers among other clients' on one path: kazoo's Queue and LockingQueue; Curator's SimpleDistributedQueue,
DistributedQueue with and without lockPath, DistributedIdQueue, DistributedPriorityQueue and DistributedDelayQueue.

Promise: on our server and on Apache ZooKeeper, for SECONDS, while producers and consumers of both sides are killed, and
consumers of ours are stopped until their session is over: where all consumers respect claims no item is lost, and items are
taken twice only for a kill or a stop; elsewhere no item is taken twice, and items are lost only for a kill or a stop. No delayed
item is taken before its time; an item that was removed by its id is not taken. Both sides take items of both sides.
Limits: theirs do not prove their claims, so they are killed only, never stopped. Skips a side that is not installed.

usage: mixed_queue_test.py [--seconds N] [--on conclave|zookeeper|ensemble] [CASE...]
"""

import collections
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import mixed_election_test as mixed  # noqa: E402
from mixed_lock_test import kazoo_program  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(mixed.HERE))
EVERY_S = 2.5  # between two kills or stops
STOPPED_S = 4.5  # longer than the sessions of ours
PATIENCE_S = 90
QUIET_S = 25  # longer than the sessions of theirs
CLAIMED = ("kazoo-locking", "curator-locks")
Line = collections.namedtuple("Line", "name kind what item at")


class Peer(mixed.Theirs):
    """A producer or consumer, of whichever side. Errors of those that were not killed count."""

    def __init__(self, name, command, ours):
        self.ours = ours
        self.before = 0  # its lines when it was killed
        super().__init__(name, command)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED_S)
        self.process.send_signal(signal.SIGCONT)


def our_program(folder):
    build = os.environ.get("CONCLAVE_BUILD") or os.path.join(ROOT, "build")
    program = os.path.join(folder, "queue_peer")
    subprocess.run(["cc", "-D_GNU_SOURCE", "-pthread", "-I", os.path.join(ROOT, "include"), "-I", os.path.join(build, "include"),
                    os.path.join(mixed.HERE, "queue_peer.c"), "-o", program, "-L", build, "-lconclave",
                    f"-Wl,-rpath,{build}"], check=True)
    return program


def lines_of(file):
    with open(file, encoding="ascii") as lines:
        return [Line(name, kind, what, item, int(at)) for name, kind, what, item, at in map(str.split, lines)]


def by_item(lines, kind, what):
    found = collections.defaultdict(list)
    for line in lines:
        if line.kind == kind and line.what == what:
            found[line.item].append(line)
    return found


def missing(lines, kind):
    """The items that are put and neither removed nor done. A consumer that is killed while it acknowledges may have done it."""
    put = set(by_item(lines, kind, "put"))
    return put - set(by_item(lines, kind, "acks")) - set(by_item(lines, kind, "done")) - set(by_item(lines, kind, "removed"))


def crossed(lines, kind):
    """Pairs that were seen: the producer is ours, the consumer is ours."""
    return {(each.item.startswith("our"), each.name.startswith("our")) for each in lines
            if each.kind == kind and each.what == "take"}


def check(file, kinds, kills, stops):
    lines = lines_of(file)
    told = []
    for kind in kinds:
        removed = set(by_item(lines, kind, "removed"))
        tried = set(by_item(lines, kind, "try"))
        takes = by_item(lines, kind, "take")
        lost = missing(lines, kind)
        twice = sum(len(each) - 1 for each in takes.values())
        given_up = sum(map(len, by_item(lines, kind, "lost").values()))
        assert set(takes) <= tried, f"{kind}: items that nobody put: {set(takes) - tried}"
        if kind in CLAIMED:
            assert not lost, f"{kind}: lost: {sorted(lost)[:5]}"
            assert twice <= kills + stops + given_up, f"{kind}: {twice} items were taken once too often"
        else:
            assert not twice, f"{kind}: taken twice: {[each for each in takes.values() if len(each) > 1][:3]}"
            assert len(lost) <= kills + stops, f"{kind}: {len(lost)} items were lost: {sorted(lost)[:5]}"
            assert not removed & set(takes), f"{kind}: removed and taken: {removed & set(takes)}"
        if kind == "curator-delay":
            early = [each[0] for item, each in takes.items() if each[0].at // 10**6 < int(item.rsplit(".", 1)[1])]
            assert not early, f"taken before their time: {early[:3]}"
        told.append(f"{kind} {len(by_item(lines, kind, 'put'))}" + (f" twice {twice}" if twice else "") + (f" lost {len(lost)}" if lost else ""))
    print("    items: " + ", ".join(told), flush=True)


def lines_by(file, name):
    return sum(line.name == name for line in lines_of(file))


def disturb(peers, file, rng):
    """Kills one after the other, and stops consumers of ours in between. The counts of consumers killed and stopped."""
    kills = stops = turn = 0
    end = time.monotonic() + mixed.SECONDS
    order = []
    while time.monotonic() + EVERY_S < end:
        time.sleep(EVERY_S + rng.random() / 10)
        order = order or rng.sample(peers, len(peers))
        peer = order.pop()
        if lines_by(file, peer.name) <= peer.before:
            continue  # it has only begun: on a busy machine a program of Java needs longer than the time between two kills
        if peer.ours and "take" in peer.name and rng.random() < 0.5 and time.monotonic() + STOPPED_S < end:
            peer.stop()
            stops += 1
        else:
            peer.before = lines_by(file, peer.name)
            peer.kill()
            kills += "take" in peer.name
        turn += 1
    time.sleep(max(end - time.monotonic(), 0))
    print(f"    {turn} times disturbed: {kills} consumers killed, {stops} stopped", flush=True)
    return kills, stops


def run(server, theirs, kinds):
    """theirs: a function of a role and a name, the command of another library's program."""
    rng = random.Random(os.getpid())
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "lines")
        ours = our_program(folder)
        peers = []

        def begin(name, is_ours):
            role = "put" if "put" in name else "take"
            command = [ours, role, server.host, name, file, *kinds] if is_ours else theirs(role, name, file)
            peers.append(Peer(name, command, is_ours))
        try:
            for name in ("our-put", "their-put", "our-take", "their-take"):
                begin(name, name.startswith("our"))
            wait_for(lambda: len({line.name for line in lines_of(file)} if os.path.exists(file) else ()) == 4,
                     lambda: "not all have begun")
            kills, stops = disturb(peers, file, rng)
            wait_for(lambda: all(len(crossed(lines_of(file), kind)) == 4 for kind in kinds),
                     lambda: {kind: crossed(lines_of(file), kind) for kind in kinds})
            for peer in peers[:2]:
                end(peer, failures)
            drain(file, kinds, kills + stops)
        finally:
            for peer in peers:
                end(peer, failures)
        assert not failures, failures
        check(file, kinds, kills, stops)
    return []


def drain(file, kinds, permitted):
    """Until all items are taken but those that a kill or a stop may have lost, or none more for a while."""
    before, since = None, time.monotonic()
    while time.monotonic() < since + QUIET_S:
        lines = lines_of(file)
        left = [max(len(missing(lines, kind)) - (0 if kind in CLAIMED else permitted), 0) for kind in kinds]
        if not any(left):
            return
        if left != before:
            before, since = left, time.monotonic()
        time.sleep(0.5)


def end(peer, failures):
    if peer.process.stdin.closed:
        return
    try:
        peer.end()
    except AssertionError as error:
        failures.append(str(error))


def wait_for(condition, say):
    """Until the condition holds; fails with what is said."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited too long: {say()}"
        time.sleep(0.2)


def among_kazoo(server):
    kazoo_program()
    program = ["/usr/bin/python3", "-B", os.path.join(mixed.HERE, "kazoo_queue_peer.py")]
    kinds = ("kazoo", "kazoo-locking")
    return run(server, lambda role, name, file: [*program, role, server.host, name, file, *kinds], kinds)


def among_curator(server):
    path = mixed.class_path()
    kinds = ("simple", "curator", "curator-locks", "curator-id", "curator-priority", "curator-delay")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["javac", "-nowarn", "-cp", path, "-d", folder, os.path.join(mixed.HERE, "QueuePeer.java")], check=True)
        program = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{path}:{folder}", "QueuePeer"]
        return run(server, lambda role, name, file: [*program, role, server.host, name, file, *kinds], kinds)


if __name__ == "__main__":
    sys.exit(mixed.main((among_kazoo, among_curator), at_once=True))
