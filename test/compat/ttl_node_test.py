#!/usr/bin/env python3
"""Our persistent node with a TTL beside Curator's PersistentTtlNode (Debian's Curator 5.4) on one path.

Promise: on our server and on Apache ZooKeeper, whichever comes second keeps the node that is there; both write the one node
"touch", and either keeps the node for more than its TTL after the other was killed; when one is closed, the other goes on;
when both are gone, so is the node once the TTL is over.
Limits: skipped without javac, Debian's jars or a C compiler.
"""

import os
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

TTL_MS = 1500
COLLECT_MS = "100"
PATIENCE_S = 90


def why_missing():
    missing = conclave.why_missing() or zookeeper.why_missing() or curator_test.why_missing()
    return missing or (None if shutil.which("cc") else "no C compiler")


class Peers:
    """The programs, compiled."""

    def __init__(self, folder):
        build = os.environ.get("CONCLAVE_BUILD") or os.path.join(ROOT, "build")
        ours = os.path.join(folder, "ttl_node_peer")
        self.log = os.path.join(folder, "peers.log")
        class_path = ":".join([folder, *map(curator_test.jar, curator_test.NEEDED)])
        subprocess.run(["cc", "-I", os.path.join(ROOT, "include"), "-I", os.path.join(build, "include"),
                        os.path.join(HERE, "ttl_node_peer.c"), "-o", ours, "-L", build, "-lconclave", f"-Wl,-rpath,{build}"],
                       check=True)
        subprocess.run(["javac", "-nowarn", "-d", folder, "-cp", class_path, os.path.join(HERE, "TtlNodePeer.java")], check=True)
        self.commands = {"ours": [ours], "curator": ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", class_path,
                                                     "TtlNodePeer"]}

    def start(self, kind, server, path):
        """One that has the node, by its own account."""
        with open(self.log, "ab") as log:
            peer = subprocess.Popen([*self.commands[kind], server.host, path, str(TTL_MS), kind], text=True,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        if peer.stdout.readline() != "ready\n":
            kill(peer)
            with open(self.log, encoding="utf-8", errors="replace") as log:
                raise AssertionError(f"{kind} is not there: {log.read()[-2000:]}")
        return peer


def end(peer):
    peer.stdin.close()
    assert peer.wait(PATIENCE_S) == 0


def kill(peer):
    if peer.poll() is None:
        peer.kill()
        peer.wait()


def await_that(what, ready):
    deadline = time.monotonic() + PATIENCE_S
    while not ready():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Node:
    """What the server has at the path."""

    def __init__(self, server, path):
        self.address = server.address
        self.path = path

    def call(self, request):
        with zk.Connection(self.address) as connection:
            answer = connection.call(request)
            connection.close_session()
            return answer

    def data(self):
        err, fields = self.call(zk.get_data(self.path))
        return fields["data"] if err == 0 else None

    def children(self):
        err, fields = self.call(zk.get_children(self.path))
        return fields["children"] if err == 0 else None

    def touched(self):
        """The zxid of the newest touch."""
        err, fields = self.call(zk.exists(self.path + "/touch"))
        return fields["stat"]["mzxid"] if err == 0 else 0

    def is_kept(self, by):
        """For longer than a TTL; a busy machine may touch it late, then it is made again."""
        began = time.monotonic()
        newest = touches = 0
        while touches < 4 or time.monotonic() - began < 1.25 * TTL_MS / 1000:
            assert time.monotonic() - began < PATIENCE_S, f"{by} touched it {touches} times"
            touched = self.touched()
            touches += touched > newest
            newest = max(newest, touched)
            time.sleep(0.05)
        await_that(f"{by} has the node, and its touch", lambda: self.data() is not None and self.children() == ["touch"])


def beside_curator(peers, server):
    node = Node(server, "/app/ttl")
    running = []

    def start(kind):
        running.append(peers.start(kind, server, node.path))
        return running[-1]
    try:
        theirs = start("curator")
        ours = start("ours")
        await_that("our data", lambda: node.data() == b"ours")
        kill(theirs)
        node.is_kept("ours")
        theirs = start("curator")
        kill(ours)
        node.is_kept("curator")
        ours = start("ours")
        end(ours)  # removes the node, which Curator's makes again
        node.is_kept("curator")
        ours = start("ours")
        end(theirs)  # leaves it to the TTL
        node.is_kept("ours")
        kill(ours)
        await_that("the end of the TTL", lambda: node.data() is None)
    finally:
        for peer in running:
            kill(peer)


def main():
    missing = why_missing()
    if missing:
        return cases.skip_all(missing)
    with tempfile.TemporaryDirectory() as folder, \
            conclave.Conclave(["--extendedTypesEnabled", "yes", "--znode.container.checkIntervalMs", COLLECT_MS]) as ours, \
            zookeeper.ZooKeeper(properties={"zookeeper.extendedTypesEnabled": "true",
                                            "znode.container.checkIntervalMs": COLLECT_MS}) as apache:
        peers = Peers(folder)

        def on(server):
            def beside_curator_on():
                return beside_curator(peers, server)
            beside_curator_on.__name__ = f"beside_curator_on_{server.name}"
            return beside_curator_on
        return cases.run_beside([on(ours), on(apache)], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
