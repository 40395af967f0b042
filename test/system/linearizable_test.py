"""Linearizable reads per call on three servers: what was written through one member is read through another at once.

Promise: for each pair of members, thousands of reads of every kind with the library's flag (linearizable_test.c) and some
with the commands' are never stale. How many plain reads were is told, not judged: it depends on the machine. Against
Apache ZooKeeper's ensemble the same calls are understood; its leader answers the sync of a client of its own from what
it has applied, and so those reads may be stale, which is told, too.
Limits: loopback, no failures: those are for ensemble_test.py.

usage: linearizable_test.py [NAME...] [--rounds N]
"""

import argparse
import itertools
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zookeeper  # noqa: E402
from conclave import program, why_missing  # noqa: E402
from ensemble import Ensemble, ZooKeeperMember  # noqa: E402

ACTOR = os.path.join(os.environ.get("CONCLAVE_BUILD", "build"), "test", "system", "linearizable_test")
WAIT_S = 120
COMMAND_ROUNDS = 8
rounds = 1000


def read_all_pairs(ensemble, count):
    """What was read over all pairs of members: as many linearizable reads as plain ones."""
    total = {"stale": 0, "stale through the leader": 0, "plain stale": 0, "reads": 0}
    for writer, reader in itertools.permutations(ensemble.members, 2):
        leads = reader is ensemble.leader()
        done = subprocess.run([ACTOR, writer.host, reader.host, str(count)], capture_output=True, text=True,
                              timeout=WAIT_S, check=False)
        counts = re.fullmatch(r"(\d+) stale of (\d+), (\d+) stale of \d+\n", done.stdout)
        assert done.returncode == 0 and counts, (done.returncode, done.stdout, done.stderr)
        total["stale"] += int(counts[1])
        total["stale through the leader"] += int(counts[1]) if leads else 0
        total["plain stale"] += int(counts[3])
        total["reads"] += int(counts[2])
    return total


def test_reads_through_another_member():
    with Ensemble() as ensemble:
        total = read_all_pairs(ensemble, rounds)
    assert total["reads"] == 6 * rounds and total["stale"] == 0, total
    return f"{total}"


def test_understood_by_apache():
    missing = zookeeper.why_missing()
    if missing:
        raise cases.Skip(missing)
    with Ensemble(kind=ZooKeeperMember) as ensemble:
        count = max(rounds // 10, 10)
        total = read_all_pairs(ensemble, count)
    assert total["reads"] == 6 * count, total
    return f"{total}"


def conclave(member, *words):
    done = subprocess.run([program(), *words, "--server", member.host], capture_output=True, text=True, timeout=WAIT_S,
                          check=False)
    assert done.returncode == 0 and done.stderr == "", (words, done)
    return done.stdout


def test_commands():
    with Ensemble() as ensemble:
        conclave(ensemble.members[0], "create", "/a", "0")
        pairs = itertools.cycle(itertools.permutations(ensemble.members, 2))
        for number, (writer, reader) in zip(range(1, COMMAND_ROUNDS + 1), pairs):
            conclave(writer, "set", "/a", str(number))
            assert conclave(reader, "get", "/a", "--linearizable") == str(number)
            conclave(writer, "set", "/a", str(number))
            stat = conclave(reader, "stat", "/a", "--linearizable")
            assert re.search(rf"^version +{2 * number}$", stat, re.M), stat
            names = [f"n{i}" for i in range(1, number + 1)]
            conclave(writer, "create", f"/a/n{number}")
            assert conclave(reader, "ls", "/a", "--linearizable").split() == names
            conclave(writer, "create", f"/a/n{number}/below")
            assert conclave(reader, "ls", "/a", "--recursive", "--linearizable").count("/below\n") == number
            assert conclave(reader, "count", "/a", "--linearizable") == f"{3 * number - 1}\n"
            conclave(writer, "create", f"/a/n{number}/below/leaf")
            assert conclave(reader, "tree", "/a", "--linearizable").count("leaf\n") == number


def main():
    global rounds
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=rounds, help="for each of the six pairs of members")
    args = parser.parse_args()
    rounds = args.rounds
    missing = why_missing()
    return cases.skip_all(missing) if missing else cases.run(cases.named("test_", globals()), args.names)


if __name__ == "__main__":
    sys.exit(main())
