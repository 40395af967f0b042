#!/usr/bin/env python3
"""Our lock's contenders among other clients' on one path: kazoo's Lock, ReadLock, WriteLock; Curator's InterProcessMutex
and InterProcessReadWriteLock; those of gozk-recipes and go-zookeeper, as kazoo_contender.py makes their nodes.

Promise: on our server and on Apache ZooKeeper, for SECONDS each, while contenders of both sides are killed and started
anew: one holder at a time, or no writer beside anybody; and everybody gets turns.
Each case runs on both servers at once: turns of locks are many, and waiting is most of it.
Limits and usage: as mixed_election_test.py, whose tools these are.
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import conclave  # noqa: E402
import pair  # noqa: E402
import mixed_election_test as mixed  # noqa: E402


def our_command(server, path, naming, name, file, *words):
    return [conclave.program(), "lock", path, "--server", server.host, "--session", "3s", "--id", name, "--naming",
            naming, *words, "--", "/usr/bin/python3", "-SEc", mixed.TURN, name, file]


def no_writer_beside_anybody(turns):
    """Names of readers begin with r. turns are in the order of their begins."""
    latest, latest_writer = None, None
    for turn in turns:
        beside = latest_writer if turn[2].startswith("r") else latest
        assert beside is None or beside[1] < turn[0], f"a writer beside another: {beside} and {turn}"
        if latest is None or turn[1] > latest[1]:
            latest = turn
        if not turn[2].startswith("r"):
            latest_writer = turn


def kazoo_program():
    try:
        __import__("kazoo.client")
    except ImportError:
        raise pair.Skip("no module kazoo (Debian: python3-kazoo)") from None
    return ["/usr/bin/python3", "-B", os.path.join(mixed.HERE, "kazoo_contender.py")]


def mutex_among_kazoo(server):
    program = kazoo_program()
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "turns")
        path = "/mixed-lock-kazoo"
        mixed.run([mixed.Theirs("kazoo1", [*program, "lock", server.host, path, "kazoo1", file]),
                   mixed.Ours("our1", our_command(server, path, "kazoo", "our1", file)),
                   mixed.Theirs("kazoo2", [*program, "lock", server.host, path, "kazoo2", file]),
                   mixed.Ours("our2", our_command(server, path, "kazoo", "our2", file))], file)
        return []


def readers_and_writers_among_kazoo(server):
    """Before 2.9 kazoo's ReadLock waits for writers behind it, too, which wait for it: then only its writers take part."""
    program = kazoo_program()
    import kazoo.version
    reads = tuple(map(int, kazoo.version.__version__.split(".")[:2])) >= (2, 9)
    first = ("rkazoo", "read") if reads else ("wkazoo1", "write")
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "turns")
        path = "/mixed-rw-kazoo"
        mixed.run([mixed.Theirs(first[0], [*program, first[1], server.host, path, first[0], file]),
                   mixed.Ours("rour", our_command(server, path, "kazoo", "rour", file, "--read")),
                   mixed.Theirs("wkazoo", [*program, "write", server.host, path, "wkazoo", file]),
                   mixed.Ours("wour", our_command(server, path, "kazoo", "wour", file, "--write"))], file,
                  no_writer_beside_anybody)
        return []


def mutex_among_gozk(server):
    program = kazoo_program()
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "turns")
        path = "/mixed-lock-gozk"
        mixed.run([mixed.Theirs("gozk1", [*program, "gozk", server.host, path, "gozk1", file]),
                   mixed.Ours("our1", our_command(server, path, "plain", "our1", file)),
                   mixed.Theirs("gozk2", [*program, "gozk", server.host, path, "gozk2", file]),
                   mixed.Ours("our2", our_command(server, path, "plain", "our2", file))], file)
        return []


def mutex_among_go_zookeeper(server):
    program = kazoo_program()
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "turns")
        path = "/mixed-lock-go"
        mixed.run([mixed.Theirs("go1", [*program, "go-zookeeper", server.host, path, "go1", file]),
                   mixed.Ours("our1", our_command(server, path, "lock", "our1", file))], file)
        return []


def curator_program(folder):
    path = mixed.class_path()
    subprocess.run(["javac", "-cp", path, "-d", folder, os.path.join(mixed.HERE, "LockContender.java")], check=True)
    return ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{path}:{folder}", "LockContender"]


def mutex_among_curator(server):
    with tempfile.TemporaryDirectory() as folder:
        program = curator_program(folder)
        file = os.path.join(folder, "turns")
        path = "/mixed-lock-curator"
        mixed.run([mixed.Theirs("mutex1", [*program, "mutex", server.host, path, "mutex1", file]),
                   mixed.Ours("our1", our_command(server, path, "lock", "our1", file)),
                   mixed.Theirs("mutex2", [*program, "mutex", server.host, path, "mutex2", file]),
                   mixed.Ours("our2", our_command(server, path, "lock", "our2", file))], file)
        return []


def readers_and_writers_among_curator(server):
    with tempfile.TemporaryDirectory() as folder:
        program = curator_program(folder)
        file = os.path.join(folder, "turns")
        path = "/mixed-rw-curator"
        mixed.run([mixed.Theirs("rcurator", [*program, "read", server.host, path, "rcurator", file]),
                   mixed.Ours("rour", our_command(server, path, "lock", "rour", file, "--read")),
                   mixed.Theirs("wcurator", [*program, "write", server.host, path, "wcurator", file]),
                   mixed.Ours("wour", our_command(server, path, "lock", "wour", file, "--write"))], file,
                  no_writer_beside_anybody)
        return []


if __name__ == "__main__":
    sys.exit(mixed.main((mutex_among_kazoo, readers_and_writers_among_kazoo, mutex_among_curator,
                         readers_and_writers_among_curator, mutex_among_gozk, mutex_among_go_zookeeper), at_once=True))
