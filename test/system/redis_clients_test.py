#!/usr/bin/env python3
"""Programs that use conclave/redis.h, beside real managers and Redis servers.

Promise: a fail-over that a program asks for is carried out, and its result is right; the replicas that the library lists are
those of the cluster, with a lag that grows while a replica stands still and with its link when it is down.
Limits: one server of the ensemble.

usage: redis_clients_test.py [CASE...]
"""

import argparse
import contextlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import conclave  # noqa: E402
import redis  # noqa: E402
from redis_cluster import BUILD, Cluster, eventually  # noqa: E402

PROGRAM = os.path.join(BUILD, "test", "system", "redis_asker")
ENSEMBLE = None
CALM = ["--op-timeout", "2s", "--min-down", "60s"]  # no fail-over because a server was slow


def ask(cluster, *words):
    """Runs the program: (exit code, its lines as lists of words)."""
    done = subprocess.run([PROGRAM, cluster.servers, cluster.root, *words], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, [line.split("\t") for line in done.stdout.splitlines()], done.stderr


def replicas(cluster):
    """By address: (usable, lag, link_down_ms), and the address picked for each of two turns."""
    code, lines, errors = ask(cluster, "replicas")
    assert code == 0, errors
    found = {line[1]: (line[2] == "1", int(line[3]), int(line[4])) for line in lines if line[0] == "replica"}
    return found, [line[1] for line in lines if line[0] == "pick"]


def test_E118_a_program_asks_for_a_fail_over():
    with Cluster(ENSEMBLE, "ask", options=CALM) as cluster:
        cluster.start()
        first, second, _ = cluster.nodes
        cluster.wait_whole()
        code, lines, errors = ask(cluster, "failover", second.host)
        assert code == 0 and lines[0][:3] == ["1", second.host, "2"], f"{lines} {errors}\n{cluster.told()}"
        assert cluster.wait_whole() is second
        code, lines, errors = ask(cluster, "failover", "-")
        after = cluster.wait_whole()
        assert code == 0 and lines[0][:3] == ["1", after.host, "3"] and after is not second, f"{lines} {errors}\n{cluster.told()}"
        code, lines, errors = ask(cluster, "failover", "127.0.0.1:1")
        assert code == 0 and lines[0][0] == "0" and "not one of the servers" in lines[0][3], f"{lines} {errors}"
        assert cluster.tree.children(f"{cluster.root}/requests") == []
        assert first.alive()


def test_replicas_are_chosen_by_lag_and_link():
    with Cluster(ENSEMBLE, "pick", managers=2, options=CALM) as cluster:
        cluster.start()
        first, second, third = cluster.nodes
        cluster.wait_whole()
        both = sorted([second.host, third.host])
        found, picked = eventually(cluster.told, lambda: (lambda r: r if sorted(r[1]) == both else None)(replicas(cluster)))
        assert sorted(found) == both and all(usable and lag >= 0 and down == -1 for usable, lag, down in found.values()), found

        def astray():
            """A replica without a link to its master, again before each look: the managers mend it."""
            with contextlib.suppress(redis.Refused, OSError), third.client(10) as link:
                link.call("REPLICAOF", "127.0.0.1", "1")
            return replicas(cluster)[1] == [second.host, second.host]
        eventually(cluster.told, astray)
        cluster.wait_whole()  # the managers mend it
        eventually(cluster.told, lambda: sorted(replicas(cluster)[1]) == both)
        assert first.alive()


def main():
    global ENSEMBLE
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    why = conclave.why_missing() or redis.why_missing()
    if why:
        return cases.skip_all(why)
    ENSEMBLE = conclave.Conclave(tick_ms=200, options=["--maxSessionTimeout", "60000"])
    with ENSEMBLE:
        return cases.run_beside(cases.named("test_", globals()), options.cases, 4)


if __name__ == "__main__":
    sys.exit(main())
