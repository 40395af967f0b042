#!/usr/bin/env python3
"""Our semaphore's contenders among other clients' on one path: kazoo's Semaphore, Curator's InterProcessSemaphoreV2.

Promise: on our server and on Apache ZooKeeper, for SECONDS each, while contenders of both sides are killed and started
anew: never more than two permits are held, one of ours takes both at once, and everybody gets turns.
Limits and usage: as mixed_election_test.py, whose tools these are.
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import conclave  # noqa: E402
import mixed_election_test as mixed  # noqa: E402
import mixed_lock_test as mixed_lock  # noqa: E402

PERMITS = 2


def our_command(server, path, naming, name, file, *words):
    return [conclave.program(), "semaphore", path, "--permits", str(PERMITS), "--server", server.host, "--session", "3s",
            "--id", name, "--naming", naming, *words, "--", "/usr/bin/python3", "-SEc", mixed.TURN, name, file]


def never_too_many(turns):
    """turns are in the order of their begins; who is called "both" takes all permits."""
    holding = []
    for turn in turns:
        holding = [other for other in holding if other[1] >= turn[0]] + [turn]
        permits = sum(PERMITS if other[2] == "both" else 1 for other in holding)
        assert permits <= PERMITS, f"too many at once: {holding}"


def among(server, path, naming, program):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "turns")
        command = program(folder)
        mixed.run([mixed.Theirs("theirs1", [*command, "semaphore", server.host, path, "theirs1", file]),
                   mixed.Ours("our1", our_command(server, path, naming, "our1", file)),
                   mixed.Theirs("theirs2", [*command, "semaphore", server.host, path, "theirs2", file]),
                   mixed.Ours("both", our_command(server, path, naming, "both", file, "--take", str(PERMITS)))], file,
                  never_too_many)
        return []


def among_kazoo(server):
    return among(server, "/mixed-semaphore-kazoo", "kazoo", lambda folder: mixed_lock.kazoo_program())


def among_curator(server):
    return among(server, "/mixed-semaphore-curator", "curator", mixed_lock.curator_program)


if __name__ == "__main__":
    sys.exit(mixed.main((among_kazoo, among_curator), at_once=True))
