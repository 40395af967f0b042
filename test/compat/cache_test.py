#!/usr/bin/env python3
"""Our cache beside Curator's CuratorCache and TreeCache (Debian's Curator 5.4) on one path.

Promise: while a client creates, changes and deletes nodes at random, and servers are killed and stopped, ours comes to the
ensemble's content again and again, to the zxid of each node, and its events applied in order are a tree at every
moment and that content in the end; so do both of Curator's. On three servers of ours of which one is always about to be
restarted, and on one Apache ZooKeeper that is killed between the rounds.
Limits: skipped without javac, Debian's jars or a C compiler. Curator's caches may stay incomplete after a kill (they drop
an error of a read): then they are told, not failed, if a new one of the same kind shows the content.

usage: cache_test.py [CASE...] [--seconds N] [--seed N]
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, HERE)
import cases  # noqa: E402
import conclave  # noqa: E402
import curator_test  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from ensemble import ConclaveMember  # noqa: E402
from nemesis import RestartedEnsemble  # noqa: E402

BASE = "/app/cache"
NAMES = "abc"
ROUND_S = 4
PATIENCE_S = 90


def why_missing():
    missing = conclave.why_missing() or zookeeper.why_missing() or curator_test.why_missing()
    return missing or (None if shutil.which("cc") else "no C compiler")


class Peers:
    """The programs, compiled."""

    def __init__(self, folder):
        build = os.environ.get("CONCLAVE_BUILD") or os.path.join(ROOT, "build")
        self.ours = os.path.join(folder, "cache_peer")
        self.log = os.path.join(folder, "java.log")
        self.class_path = ":".join([folder, *map(curator_test.jar, curator_test.NEEDED)])
        subprocess.run(["cc", "-I", os.path.join(ROOT, "include"), "-I", os.path.join(build, "include"),
                        os.path.join(HERE, "cache_peer.c"), "-o", self.ours, "-L", build, "-lconclave", "-lpthread",
                        f"-Wl,-rpath,{build}"], check=True)
        subprocess.run(["javac", "-nowarn", "-d", folder, "-cp", self.class_path, os.path.join(HERE, "CachePeer.java")],
                       check=True, stderr=subprocess.DEVNULL)  # TreeCache is deprecated

    def start(self, kind, server):
        words = [self.ours] if kind == "ours" else ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", self.class_path,
                                                    "CachePeer"]
        peer = subprocess.Popen([*words, server.host, BASE], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=open(self.log, "ab"))
        assert peer.stdout.readline() == "ready\n"
        return peer


def ask(peer, zxid, lines):
    peer.stdin.write(f"{zxid}\n")
    peer.stdin.flush()
    return [peer.stdout.readline().rstrip("\n") for _ in range(lines)]


# --- the tree ---------------------------------------------------------------------------------------------------------

class Writer:
    """Random changes, by whichever server can be reached."""

    def __init__(self, server, rng):
        self.server, self.rng, self.link, self.done = server, rng, None, 0

    def call(self, request):
        """A request that may be lost with its link: the reply's error, or None."""
        try:
            if self.link is None:
                self.link = zk.Connection(self.server.address, patience_s=10)
            return self.link.call(request)[0]
        except (OSError, zk.Closed):
            self.drop()
            return None

    def drop(self):
        if self.link is not None:
            self.link.drop()
        self.link = None

    def children(self, path):
        try:
            err, fields = self.link.call(zk.get_children(path))
        except (OSError, zk.Closed, AttributeError):
            self.drop()
            return []
        return fields["children"] if err == 0 else []

    def remove(self, path):
        for name in self.children(path):
            self.remove(f"{path}/{name}")
        self.call(zk.delete(path))

    def change(self):
        path = BASE + "".join("/" + self.rng.choice(NAMES) for _ in range(self.rng.randrange(5)))
        data = b"%d" % self.rng.randrange(1 << 30)
        what = self.rng.random()
        if what < 0.45:
            self.call(zk.create(path, data))
        elif what < 0.85:
            self.call(zk.set_data(path, data))
        elif path != BASE or what > 0.98:
            self.remove(path)
            if what > 0.92:
                self.call(zk.create(path, data))
        self.done += 1


def content(server):
    """Of the ensemble, by path, and the newest zxid in it."""
    with zk.Connection(server.address) as link:
        link.call(zk.sync(BASE))
        names, found, newest = [BASE], {}, 0
        for name in names:
            err, fields = link.call(zk.get_data(name))
            if err == 0:
                stat = fields["stat"]
                found[name] = f"{name} {stat['mzxid']} {fields['data'].decode()}"
                newest = max(newest, stat["mzxid"], stat["pzxid"])
                names += [f"{name}/{child}" for child in link.call(zk.get_children(name))[1]["children"]]
        link.close_session()
    return ";".join(found[name] for name in sorted(found)), newest


def compare(peers, server, ours, theirs, told):
    wanted, zxid = content(server)
    line = ask(ours, zxid, 1)[0]
    assert line == wanted, f"ours shows\n{line}\nthe ensemble has\n{wanted}"
    deadline = time.monotonic() + ROUND_S
    while (lines := ask(theirs, zxid, 2)) != [wanted, wanted] and time.monotonic() < deadline:
        time.sleep(0.1)
    if lines == [wanted, wanted]:
        return theirs
    told.append(" and ".join(name for name, line in zip(("CuratorCache", "TreeCache"), lines) if line != wanted))
    end(theirs)
    fresh = peers.start("curator", server)
    deadline = time.monotonic() + PATIENCE_S
    while (lines := ask(fresh, zxid, 2)) != [wanted, wanted]:
        assert time.monotonic() < deadline, f"Curator's show\n{lines}\nthe ensemble has\n{wanted}"
        time.sleep(0.1)
    return fresh


def end(peer):
    peer.stdin.close()
    if peer.wait(PATIENCE_S) != 0:
        raise AssertionError(f"{peer.args[0]}: exit {peer.returncode}")


def follow(peers, server, options, calm):
    rng = random.Random(options.seed)
    writer, told, rounds = Writer(server, rng), [], 0
    for path in ("/app", BASE):
        while writer.call(zk.create(path, b"first")) not in (0, zk.ERRORS["NODEEXISTS"]):
            time.sleep(0.05)
    ours, theirs = peers.start("ours", server), peers.start("curator", server)
    try:
        finish = time.monotonic() + options.seconds
        while time.monotonic() < finish or rounds < 2:
            until = time.monotonic() + ROUND_S
            while time.monotonic() < until:
                writer.change()
                time.sleep(0.002)
            with calm():
                theirs = compare(peers, server, ours, theirs, told)
            rounds += 1
        end(ours)
        end(theirs)
    finally:
        writer.drop()
        for peer in (ours, theirs):
            if peer.poll() is None:
                peer.kill()
                peer.wait()
    print(f"        seed {options.seed}: {writer.done} changes, {rounds} comparisons; Curator's had to be made again: "
          f"{', '.join(told) or 'never'}", flush=True)


def beside_curator_on_ours(peers, options):
    ours = RestartedEnsemble(ConclaveMember, options.seed, tick_ms=500)
    ours.start()
    try:
        follow(peers, ours, options, ours.calm)
        print(f"        {ours.nemesis.restarts} restarts, {ours.nemesis.leaders} of them of the leader", flush=True)
        assert ours.alive(), ours.log_tail()
    finally:
        ours.destroy()


def beside_curator_on_zookeeper(peers, options):
    with zookeeper.ZooKeeper(tick_ms=500) as apache:
        class Killed:
            """Killed just before each comparison."""

            def __enter__(self):
                apache.restart(hard=True)

            def __exit__(self, *_):
                pass
        follow(peers, apache, options, Killed)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("only", nargs="*", metavar="CASE")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    options = parser.parse_args()
    missing = why_missing()
    if missing:
        return cases.skip_all(missing)
    with tempfile.TemporaryDirectory(prefix="conclave-test-cache-") as folder:
        peers = Peers(folder)
        return cases.run([cases.bound(case, peers, options) for case in (beside_curator_on_ours, beside_curator_on_zookeeper)],
                         options.only)


if __name__ == "__main__":
    sys.exit(main())
