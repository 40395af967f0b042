#!/usr/bin/env python3
"""The partitioner beside kazoo's SetPartitioner on one path, on our server and on Apache ZooKeeper.

Promise: members of both kinds divide one set; members are killed and come back; each item has a lock with one holder, no
two members claim one item in the same settled state, and in the end all items are handled.
Limits: one server; skipped without kazoo or a C compiler. Members that were killed keep their items until their session ends.
"""

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import cases  # noqa: E402
import conclave  # noqa: E402
import zookeeper  # noqa: E402

PATIENCE_S = 90
ITEMS = [f"item{i}" for i in range(7)]
ROUNDS = 6

PEER = r"""
import sys, time
from kazoo.client import KazooClient
client = KazooClient(hosts=sys.argv[1], timeout=4.0)
client.start()
while True:
    partitioner = client.SetPartitioner(path=sys.argv[2], set=sys.argv[4:], identifier=sys.argv[3], time_boundary=0.5)
    told = None
    while not partitioner.failed:
        if partitioner.release:
            print("releases:", flush=True)
            told = None
            partitioner.release_set()
        elif partitioner.acquired:
            if told is None:
                told = sorted(partitioner)
                print("has:", *told, flush=True)
            time.sleep(0.02)
        else:
            partitioner.wait_for_acquire(timeout=0.2)
    print("releases:", flush=True)
    time.sleep(0.2)
"""


def why_missing():
    missing = conclave.why_missing() or (None if shutil.which("cc") else "no C compiler")
    try:
        import kazoo  # noqa: F401  pylint: disable=unused-import,import-outside-toplevel
    except ImportError:
        missing = missing or "no module kazoo (Debian: python3-kazoo)"
    return missing


class Member:
    """A process of one kind, and what it said last."""

    def __init__(self, words, environment):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, stdout=self.log, stderr=subprocess.STDOUT, env=environment)

    def text(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode()

    def items(self):
        """None while it has not acquired."""
        said = re.findall(r"^(has:.*|releases:.*)$", self.text(), re.M)[-1:]
        return said[0].split()[1:] if said and said[0].startswith("has:") else None

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Party:
    """Members of both kinds on one server."""

    def __init__(self, folder, server):
        build = os.environ.get("CONCLAVE_BUILD") or os.path.join(ROOT, "build")
        self.host = server.host
        self.program = os.path.join(folder, "partitioner")
        self.environment = {**os.environ, "CONCLAVE_SERVER": server.host}
        self.members = {}
        subprocess.run(["cc", "-I", os.path.join(ROOT, "include"), "-I", os.path.join(build, "include"),
                        os.path.join(ROOT, "examples", "partitioner.c"), "-o", self.program, "-L", build, "-lconclave",
                        f"-Wl,-rpath,{build}"], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for member in self.members.values():
            member.kill()

    def start(self, name):
        words = [self.program, "/app/set", name, *ITEMS] if name.startswith("our") else \
            ["/usr/bin/python3", "-c", PEER, self.host, "/app/set", name, *ITEMS]
        self.members[name] = Member(words, self.environment)

    def settled(self):
        """Waits until the members have all items, each once, divided evenly in the order of their names."""
        names = sorted(self.members)
        wanted = {name: ITEMS[place::len(names)] for place, name in enumerate(names)}
        deadline = time.monotonic() + PATIENCE_S
        while {name: member.items() for name, member in self.members.items()} != wanted:
            assert time.monotonic() < deadline, {name: member.text()[-500:] for name, member in self.members.items()}
            time.sleep(0.05)


def divide(party):
    chance = random.Random(4)
    for name in ("our1", "kazoo1", "our2", "kazoo2"):
        party.start(name)
    party.settled()
    for _ in range(ROUNDS):
        name = chance.choice(sorted(party.members))
        party.members.pop(name).kill()
        party.settled()
        party.start(name)
        party.settled()


def main():
    missing = why_missing()
    if missing:
        return cases.skip_all(missing)

    def on(server):
        def play():
            with tempfile.TemporaryDirectory() as folder, server() as running, Party(folder, running) as party:
                divide(party)
        return play

    on_conclave = on(lambda: conclave.Conclave(tick_ms=500))
    on_zookeeper = on(lambda: zookeeper.ZooKeeper(tick_ms=500))
    on_conclave.__name__, on_zookeeper.__name__ = "on_conclave", "on_zookeeper"
    return cases.run([on_conclave] if zookeeper.why_missing() else [on_conclave, on_zookeeper], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
