#!/usr/bin/env python3
"""Our candidates among other clients' on one path: kazoo's Lock and Election, Curator's LeaderLatch and LeaderSelector, and
plain clients that race for one node.

Promise: on our server and on Apache ZooKeeper, for SECONDS each, while contenders of both sides are killed and started
anew: one holder at a time, and everybody gets its turns. Each contender writes down when its turns begin and end; ours
also that they last, so that a turn that was ended by force ends, for what is compared, at its last line. Each case runs
on both servers at once.
Limits: theirs do not prove their lease, so they are killed only, never stopped or cut off. Needs Debian's
python3-kazoo; for Curator libcurator-recipes-java, libcurator-framework-java and javac.

usage: mixed_election_test.py [--seconds N] [--on conclave|zookeeper|ensemble] [CASE...]
--on: on that one alone; ensemble: three of ours, one of which is killed and started again every few seconds.
"""

import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import cases  # noqa: E402
import conclave  # noqa: E402
import pair  # noqa: E402
import zookeeper  # noqa: E402
from ensemble import ConclaveMember  # noqa: E402
from nemesis import RestartedEnsemble  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
TICK_MS = 500
SECONDS = 12.0  # --seconds
KILL_EVERY_S = 4
SECONDS_MAX = 100  # ... until each had TURNS_MIN turns: a contender that is killed has to start again
TURNS_MIN = 3
REST_S = 0.5  # of our racers
RESTARTS_S = (3, 8)  # between two of a member's restarts, with --on ensemble
PATIENCE_S = 60
JAVA = "/usr/share/java"
JARS = ("curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "slf4j-api",
        "slf4j-nop", "metrics-core", "snappy-java", "netty-*")
# The command of `conclave elect`: a turn of NAME, written to FILE.
TURN = """
import os, sys, time
output = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
for what in ["begin"] + 15 * ["lasts"] + ["end"]:
    os.write(output, f"{sys.argv[1]} {what} {time.monotonic_ns()}\\n".encode())
    time.sleep(0.01)
"""


class Theirs:
    """A contender of another client, or ours: a process that takes turns until its input ends."""

    def __init__(self, name, command):
        self.name = name
        self.command = command
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)

    def kill(self):
        """kill -9, and a new one in its place."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.start()

    def end(self):
        self.process.stdin.close()
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.name} did not end") from None
        assert code == 0, f"{self.name} ended with {code}"


class Ours:
    """A contender of ours: `conclave elect` for a turn, again and again, with a rest between two turns."""

    def __init__(self, name, command, rest_s=0.0):
        self.name = name
        self.command = command
        self.rest_s = rest_s
        self.process = None
        self.ending = False
        self.wrong = []
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while not self.ending:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                            stderr=subprocess.PIPE)
            if self.ending:
                self.process.terminate()
            said = self.process.communicate()[1]
            if self.process.returncode not in (0, -9, -15, 76, 128 + 15):  # -15: ended before it took signals
                self.wrong.append(f"exit code {self.process.returncode}: {said.decode()}")
            time.sleep(self.rest_s)

    def kill(self):
        self.process.kill()

    def end(self):
        self.ending = True
        self.process.terminate()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive(), f"{self.name} did not end"
        assert not self.wrong, (self.name, self.wrong)


def our_command(server, path, naming, name, file):
    return [conclave.program(), "elect", path, "--server", server.host, "--session", "3s", "--id", name, "--naming",
            naming, "--", "/usr/bin/python3", "-SEc", TURN, name, file]


def turns_of(file):
    """(begin, end, name) of each turn, in the order in which they began."""
    turns = {}
    done = []
    if not os.path.exists(file):
        return done
    with open(file, encoding="ascii") as lines:
        for line in lines:
            name, what, at = line.split()
            if what == "begin":
                turns[name] = [int(at), int(at), name]
                done.append(turns[name])
            else:
                turns[name][1] = int(at)
    return sorted(done)


def one_at_a_time(turns):
    for before, after in zip(turns, turns[1:]):
        assert before[1] < after[0], f"two at once: {before} and {after}"


def counts_of(turns, names):
    return {name: sum(turn[2] == name for turn in turns) for name in names}


def check(file, names, rule):
    turns = turns_of(file)
    rule(turns)
    counts = counts_of(turns, names)
    assert min(counts.values()) >= TURNS_MIN, counts
    return len(turns), counts


def run(contenders, file, rule=one_at_a_time):
    """Lets them take turns, killing one after the other, and ends them when each had enough."""
    failures = []
    kills = 0
    names = [contender.name for contender in contenders]
    try:
        began = time.monotonic()
        while time.monotonic() + KILL_EVERY_S < began + SECONDS:
            time.sleep(KILL_EVERY_S + 0.037 * kills)
            contenders[kills % len(contenders)].kill()
            kills += 1
        time.sleep(max(began + SECONDS - time.monotonic(), 0))
        while min(counts_of(turns_of(file), names).values()) < TURNS_MIN and time.monotonic() < began + SECONDS_MAX:
            time.sleep(0.2)
    finally:
        for contender in contenders:
            try:
                contender.end()
            except AssertionError as error:
                failures.append(str(error))
    assert not failures, failures
    count, counts = check(file, [contender.name for contender in contenders], rule)
    print(f"    {count} turns, {kills} kills: {counts}", flush=True)


def among_kazoo(server):
    try:
        __import__("kazoo.client")
    except ImportError:
        raise pair.Skip("no module kazoo (Debian: python3-kazoo)") from None
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "turns")
        program = ["/usr/bin/python3", "-B", os.path.join(HERE, "kazoo_contender.py")]
        run([Theirs("lock", [*program, "lock", server.host, "/mixed-kazoo", "lock", file]),
             Ours("our1", our_command(server, "/mixed-kazoo", "kazoo", "our1", file)),
             Theirs("election", [*program, "election", server.host, "/mixed-kazoo", "election", file]),
             Ours("our2", our_command(server, "/mixed-kazoo", "kazoo", "our2", file))], file)
        return []


def among_racers(server):
    """
    One fixed node, which plain clients of kazoo create as soon as they can; its data is the leader's name. There is no
    line, and ours are faster: they rest between two turns.
    """
    try:
        __import__("kazoo.client")
    except ImportError:
        raise pair.Skip("no module kazoo (Debian: python3-kazoo)") from None
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "turns")
        program = ["/usr/bin/python3", "-B", os.path.join(HERE, "kazoo_contender.py")]
        run([Theirs("race1", [*program, "race", server.host, "/mixed-leader", "race1", file]),
             Ours("our1", our_command(server, "/mixed-leader", "fixed", "our1", file), REST_S),
             Theirs("race2", [*program, "race", server.host, "/mixed-leader", "race2", file]),
             Ours("our2", our_command(server, "/mixed-leader", "fixed", "our2", file), REST_S)], file)
        return []


def class_path():
    """Curator's jars with what they need, or a reason for skipping."""
    found = []
    for name in JARS:
        jars = glob.glob(f"{JAVA}/{name}.jar")
        if not jars and name in JARS[:7]:
            raise pair.Skip(f"no {JAVA}/{name}.jar (Debian: libcurator-recipes-java)")
        found += jars
    if not shutil.which("javac"):
        raise pair.Skip("no javac (Debian: default-jdk-headless)")
    return ":".join(found)


def among_curator(server):
    path = class_path()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["javac", "-cp", path, "-d", folder, os.path.join(HERE, "LatchContender.java")], check=True)
        file = os.path.join(folder, "turns")
        program = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{path}:{folder}", "LatchContender"]
        run([Theirs("latch1", [*program, server.host, "/mixed-curator", "latch1", file]),
             Ours("our1", our_command(server, "/mixed-curator", "latch", "our1", file)),
             Theirs("latch2", [*program, server.host, "/mixed-curator", "latch2", file]),
             Ours("our2", our_command(server, "/mixed-curator", "latch", "our2", file))], file)
        return []


def among_selectors(server):
    """LeaderSelector with autoRequeue, and programs of ours that call conclave_election_take_turn in a loop."""
    path = class_path()
    build = os.path.abspath(os.environ.get("CONCLAVE_BUILD") or os.path.join(conclave.ROOT, "build"))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["javac", "-cp", path, "-d", folder, os.path.join(HERE, "SelectorContender.java")], check=True)
        ours = os.path.join(folder, "turn_peer")
        subprocess.run(["cc", "-D_GNU_SOURCE", "-pthread", "-I", os.path.join(conclave.ROOT, "include"), "-I",
                        os.path.join(build, "include"), os.path.join(HERE, "turn_peer.c"), "-o", ours, "-L", build,
                        "-lconclave", f"-Wl,-rpath,{build}"], check=True)
        file = os.path.join(folder, "turns")
        program = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{path}:{folder}", "SelectorContender"]
        run([Theirs("selector1", [*program, server.host, "/mixed-selector", "selector1", file]),
             Theirs("our1", [ours, server.host, "/mixed-selector", "our1", file]),
             Theirs("selector2", [*program, server.host, "/mixed-selector", "selector2", file]),
             Theirs("our2", [ours, server.host, "/mixed-selector", "our2", file])], file)
        return []


def run_on(name, chosen):
    """The cases on one of the servers alone; the exit code."""
    missing = zookeeper.why_missing() if name == "zookeeper" else conclave.why_missing()
    if missing:
        return cases.skip_all(missing)
    server = {"conclave": lambda: conclave.Conclave(tick_ms=TICK_MS),
              "zookeeper": lambda: zookeeper.ZooKeeper(tick_ms=TICK_MS),
              "ensemble": lambda: RestartedEnsemble(ConclaveMember, 1, RESTARTS_S, tick_ms=TICK_MS)}[name]()
    server.start()
    try:
        code = cases.run([cases.bound(case, server) for case in chosen])
        if name == "ensemble":
            print(f"        {server.nemesis.restarts} restarts, {server.leaders_ended()} of the leader")
        if not server.alive():
            print(server.log_tail())
            return 1
        return code
    finally:
        server.destroy()


def main(every, at_once=False):
    global SECONDS
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each case on each server")
    parser.add_argument("--on", choices=("conclave", "zookeeper", "ensemble"))
    parser.add_argument("only", nargs="*", choices=[[], *(case.__name__ for case in every)])
    options = parser.parse_args()
    SECONDS = options.seconds
    chosen = [case for case in every if not options.only or case.__name__ in options.only]
    return run_on(options.on, chosen) if options.on else pair.run_cases(chosen, at_once=at_once, tick_ms=TICK_MS)


if __name__ == "__main__":
    sys.exit(main((among_kazoo, among_racers, among_curator, among_selectors), at_once=True))
