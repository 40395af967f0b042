#!/usr/bin/env python3
"""Our counter and shared value beside kazoo's Counter and Curator's DistributedAtomicLong and SharedCount on one node.

Promise: on our server and on Apache ZooKeeper, two programs of ours and two of the other side add to one node at the same
time, and no addition is lost or done twice; each can go on from what the others have left.
Limits: cases whose other side is not installed are skipped.
"""

import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, HERE)
import cases  # noqa: E402
import conclave  # noqa: E402
import curator_test  # noqa: E402
import zookeeper  # noqa: E402

TIMES = 60
PATIENCE_S = 100
KAZOO = """
import sys
from kazoo.client import KazooClient
client = KazooClient(sys.argv[1])
client.start()
counter = client.Counter(sys.argv[2])
for _ in range(int(sys.argv[3])):
    counter += 1
client.stop()
"""


def why_missing():
    missing = conclave.why_missing() or zookeeper.why_missing() or curator_test.why_missing()
    return missing or (None if shutil.which("cc") else "no C compiler")


class Peers:
    """The programs, compiled."""

    def __init__(self, folder):
        build = os.environ.get("CONCLAVE_BUILD") or os.path.join(ROOT, "build")
        self.ours = os.path.join(folder, "counter_peer")
        self.class_path = ":".join([folder, *map(curator_test.jar, curator_test.NEEDED)])
        subprocess.run(["cc", "-I", os.path.join(ROOT, "include"), "-I", os.path.join(build, "include"),
                        os.path.join(HERE, "counter_peer.c"), "-o", self.ours,
                        "-L", build, "-lconclave", f"-Wl,-rpath,{build}"], check=True)
        subprocess.run(["javac", "-nowarn", "-d", folder, "-cp", self.class_path, os.path.join(HERE, "CounterPeer.java")],
                       check=True)

    def curator(self, kind, server, path):
        return ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", self.class_path, "CounterPeer", kind, server.host,
                path, str(TIMES)]

    def our(self, kind, server, path):
        return [self.ours, kind, server.host, path, str(TIMES)]


def side_by_side(*commands):
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for command in commands]
    try:
        for process in running:
            _, err = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, err.decode()
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()


def value(server, path):
    return subprocess.run([conclave.program(), "get", path, "--server", server.host], capture_output=True, check=True).stdout


def together(server, path, ours, theirs, number):
    """Both sides at once; then either goes on from what is there."""
    side_by_side(ours, theirs, ours, theirs)
    assert number(value(server, path)) == 4 * TIMES, value(server, path)
    side_by_side(theirs)
    side_by_side(ours)
    assert number(value(server, path)) == 6 * TIMES, value(server, path)


def big_endian(length):
    def number(data):
        assert len(data) == length, data
        return int.from_bytes(data, "big")
    return number


def beside_kazoo(peers, server):
    theirs = ["/usr/bin/python3", "-c", KAZOO, server.host, "/app/kazoo", str(TIMES)]
    together(server, "/app/kazoo", peers.our("text", server, "/app/kazoo"), theirs, int)


def beside_curators_atomic_long(peers, server):
    together(server, "/app/long", peers.our("binary", server, "/app/long"), peers.curator("long", server, "/app/long"),
             big_endian(8))


def beside_curators_shared_count(peers, server):
    together(server, "/app/count", peers.our("count", server, "/app/count"), peers.curator("count", server, "/app/count"),
             big_endian(4))


def main():
    missing = why_missing()
    if missing:
        return cases.skip_all(missing)
    with tempfile.TemporaryDirectory() as folder, conclave.Conclave() as ours, zookeeper.ZooKeeper() as apache:
        peers = Peers(folder)

        def on(server, case):
            def run():
                return case(peers, server)
            run.__name__ = f"{case.__name__}_on_{server.name}"
            return run
        return cases.run([on(server, case) for case in (beside_kazoo, beside_curators_atomic_long,
                                                        beside_curators_shared_count) for server in (ours, apache)],
                         sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
