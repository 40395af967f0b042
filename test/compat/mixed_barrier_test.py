#!/usr/bin/env python3
"""Our barriers and other clients' on one path: Curator's DistributedBarrier and DistributedDoubleBarrier, kazoo's Barrier and
DoubleBarrier.

Promise: on our server and on Apache ZooKeeper, for SECONDS, round after round of four members, two of ours and two of theirs:
nobody is in before all have come, nobody of ours has left before all that live are out, and every round ends, also when a member is
killed or (one of ours) stopped inside. A plain barrier of either side holds both sides, and lets all go on when it is removed.
Limits: theirs are killed only, never stopped. Their members can leave early when a member dies: this is counted and printed.

usage: mixed_barrier_test.py [--seconds N] [--on conclave|zookeeper|ensemble] [CASE...]
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import conclave  # noqa: E402
import mixed_election_test as mixed  # noqa: E402
from mixed_lock_test import kazoo_program  # noqa: E402

STOPPED_S = 4.5  # longer than the sessions of ours
PATIENCE_S = 60
STAY_MS = (0, 300)
COMMAND = """
import sys, time
def say(what):
    print(what, time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True)
say("in")
time.sleep(int(sys.argv[1]) / 1000)
say("out")
"""


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Member:
    """A member of the rounds: what it did in this one, by word, in nanoseconds."""

    def __init__(self, name):
        self.name = name
        self.times = {}
        self.changed = threading.Condition()
        self.hurt = None  # "killed", "stopped" in this round

    def note(self, what, at):
        with self.changed:
            self.times[what] = at
            self.changed.notify_all()

    def await_word(self, what):
        with self.changed:
            assert self.changed.wait_for(lambda: what in self.times, PATIENCE_S), \
                f"{self.name} waits for ever for {what}: {self.times}"

    def clear(self):
        self.times = {}
        self.hurt = None

    def read(self, process):
        for line in process.stdout:
            what, at = line.split()
            self.note(what.decode(), int(at))


class Theirs(Member):
    """A program of another library that takes commands."""

    def __init__(self, name, command):
        super().__init__(name)
        self.command = command
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.reader = threading.Thread(target=self.read, args=(self.process,))
        self.reader.start()
        self.await_word("ready")

    def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def meet(self, path, count, stay_ms, _layout):
        self.say(f"double {path} {count} {stay_ms}")

    def kill(self):
        self.process.kill()

    def end_round(self):
        if self.hurt:
            self.end()
            self.start()
        else:
            self.await_word("left")

    def end(self):
        self.process.stdin.close()
        if self.hurt:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        self.reader.join(PATIENCE_S)
        self.process.stdout.close()


class Ours(Member):
    """`conclave barrier enter`, one process per round."""

    def __init__(self, name, server):
        super().__init__(name)
        self.server = server
        self.process = None
        self.follower = None

    def meet(self, path, count, stay_ms, layout):
        self.note("enter", now_ns())
        self.process = subprocess.Popen(
            [conclave.program(), "barrier", "enter", path, "--server", self.server.host, "--session", "3s", "--count",
             str(count), "--layout", layout, "--", "/usr/bin/python3", "-SEc", COMMAND, str(stay_ms)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.follower = threading.Thread(target=self.follow, args=(self.process,))
        self.follower.start()

    def follow(self, process):
        self.read(process)
        process.wait()
        self.note("left" if process.returncode == 0 else "failed", now_ns())

    def kill(self):
        self.process.kill()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED_S)
        self.process.send_signal(signal.SIGCONT)

    def end_round(self):
        self.follower.join(PATIENCE_S)
        assert not self.follower.is_alive(), f"{self.name} does not leave: {self.times}"
        said = self.process.stderr.read().decode()
        assert self.hurt or "left" in self.times, f"{self.name} failed with {self.process.returncode}: {said}"

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def run_ours(server, *words):
    subprocess.run([conclave.program(), "barrier", *words, "--server", server.host, "--session", "3s"], check=True,
                   timeout=PATIENCE_S, stdin=subprocess.DEVNULL)


def hurt_one(members, rng):
    """Ends or stops one that is inside, or leaves just now."""
    member = rng.choice(members)
    time.sleep(rng.random() * STAY_MS[1] / 1000)
    member.hurt = "killed" if isinstance(member, Theirs) or rng.random() < 0.5 else "stopped"
    if member.hurt == "killed":
        member.kill()
    else:
        member.stop()


def check(members):
    """The number of theirs that left early."""
    last = max(member.times["enter"] for member in members)
    for member in members:
        assert member.times["in"] >= last, f"{member.name} was in before all had come: {[m.times for m in members]}"
    early = 0
    for member in members:
        others = [other.times.get("out", 0) for other in members if other is not member and not other.hurt]
        if member.hurt or not others or member.times["left"] >= max(others):
            continue
        assert isinstance(member, Theirs), f"{member.name} left early: {[m.times for m in members]}"
        early += 1
    return early


def plain(server, theirs, number):
    """A barrier of ours, then of theirs, holds one of each."""
    for ours_sets in (True, False):
        path = f"/mixed-gate-{number}-{ours_sets}"
        waiter, setter = theirs
        for member in theirs:
            member.clear()
        if ours_sets:
            run_ours(server, "set", path)
        else:
            setter.say(f"set {path}")
            setter.await_word("set")
        ours = subprocess.Popen([conclave.program(), "barrier", "wait", path, "--server", server.host, "--session", "3s"],
                                stdin=subprocess.DEVNULL)
        waiter.say(f"wait {path}")
        waiter.await_word("waits")
        time.sleep(0.3)
        assert ours.poll() is None and "through" not in waiter.times, "the barrier does not hold"
        if ours_sets:
            run_ours(server, "remove", path)
        else:
            setter.say(f"remove {path}")
        waiter.await_word("through")
        assert ours.wait(PATIENCE_S) == 0


def rounds(server, theirs, layout):
    rng = random.Random(os.getpid())
    members = [*theirs, Ours("our1", server), Ours("our2", server)]
    number = early = hurt = 0
    try:
        plain(server, theirs, number)
        end = time.monotonic() + mixed.SECONDS
        while time.monotonic() < end:
            number += 1
            for member in members:
                member.clear()
            for member in rng.sample(members, len(members)):
                member.meet(f"/mixed-barrier/{layout}/{number}", len(members), rng.randint(*STAY_MS), layout)
                time.sleep(rng.random() / 20)
            for member in members:
                member.await_word("in")
            if number % 3 == 0:
                hurt_one(members, rng)
                hurt += 1
            for member in members:
                member.end_round()
            early += check(members)
    finally:
        for member in members:
            member.end()
    print(f"    {number} rounds, {hurt} with a member killed or stopped; theirs left early: {early}", flush=True)
    assert number > 2
    return []


def among_kazoo(server):
    kazoo_program()
    command = ["/usr/bin/python3", "-B", os.path.join(mixed.HERE, "kazoo_barrier_peer.py"), server.host]
    return rounds(server, [Theirs("kazoo1", command), Theirs("kazoo2", command)], "kazoo")


def among_curator(server):
    path = mixed.class_path()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["javac", "-nowarn", "-cp", path, "-d", folder, os.path.join(mixed.HERE, "BarrierPeer.java")],
                       check=True)
        command = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{path}:{folder}", "BarrierPeer", server.host]
        return rounds(server, [Theirs("curator1", command), Theirs("curator2", command)], "curator")


if __name__ == "__main__":
    sys.exit(mixed.main((among_kazoo, among_curator), at_once=True))
