#!/usr/bin/env python3
"""Programs that use conclave/redis.h and conclave/redis_client.h, beside real managers and Redis servers.

Promise: a fail-over that a program asks for is carried out, and its result is right; the replicas that the library lists are
those of the cluster, with a lag that grows while a replica stands still and with its link when it is down. Through fail-overs under load the client loses no write that a replica had, and executes none twice that
was not declared idempotent; it reads from replicas; with TLS and a log-in, too.
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
import certs  # noqa: E402
import conclave  # noqa: E402
import redis  # noqa: E402
from redis_cluster import BUILD, Cluster, Process, eventually  # noqa: E402

PROGRAM = os.path.join(BUILD, "test", "system", "redis_asker")
LOAD = os.path.join(BUILD, "test", "system", "redis_load")
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


class Load(Process):
    """redis_load: its rows as lists of words."""

    def __init__(self, cluster, tag, *login):
        self.cluster, self.tag = cluster, tag
        super().__init__([LOAD, cluster.servers, cluster.root, tag, *login])
        cluster.lookers.append(self)

    def rows(self, kind):
        words = (line.split() for line in self.text().splitlines(keepends=True) if line.endswith("\n"))
        return [row[1:] for row in words if row[0] == kind]

    def wait_rows(self, more, fits):
        """Waits until this number of further rows fits, of each kind."""
        before = {kind: len(self.rows(kind)) for kind in ("incr", "add", "read")}
        for kind, seen in before.items():
            eventually(lambda kind=kind, seen=seen: f"too few rows of {kind} since {seen}\n{self.tail()}\n{self.cluster.told()}",
                       lambda kind=kind, seen=seen: len([row for row in self.rows(kind)[seen:] if fits(kind, row)]) >= more)

    def wait_served(self, master):
        """Writes by this master, on a replica; reads by replicas."""
        self.wait_rows(20, lambda kind, row: row[1:] == ["0"] if kind == "read" else
                       len(row) == 4 and int(row[1]) >= 1 and row[2] == master.host)

    def check(self, master):
        """After its end, with what the master has. Returns a line."""
        increments, adds = self.rows("incr"), self.rows("add")
        assert not [row for row in increments + adds if row[0] == "wrong"], self.tail()
        lost = len([row for row in increments if row[0] == "lost"])
        counted = [row for row in increments if len(row) == 4]
        safe = [int(row[0]) for row in counted if int(row[1]) >= 1]
        value = int(master.call("GET", f"{self.tag}:count"))
        assert len(set(safe)) == len(safe) and max(safe) <= value, f"{value}: an acknowledged increment is lost\n{self.tail()}"
        most = len(counted) + lost
        assert len(safe) <= value <= most, f"{len(safe)} <= {value} <= {most}: lost, or executed twice\n{self.tail()}"
        members = {int(member) for member in master.call("SMEMBERS", f"{self.tag}:set")}
        gone = [row for row in adds if len(row) == 4 and int(row[1]) >= 1 and int(row[0]) not in members]
        assert not gone, f"lost though a replica had it: {gone[:5]}\n{self.tail()}"
        reads = [row for row in self.rows("read") if row[0] != "refused"]
        replicas = len([row for row in reads if row[1] == "0"])
        assert replicas >= 20, f"{replicas} of {len(reads)} reads at replicas"
        return f"{len(safe)} of {value} increments acknowledged with a replica, {lost} unknown; {replicas} of {len(reads)} reads at replicas"


def test_E195_the_client_loses_nothing_and_repeats_nothing():
    with Cluster(ENSEMBLE, "load", options=["--op-timeout", "2s", "--min-down", "1s"]) as cluster:
        cluster.start()
        load = Load(cluster, "load")
        for kind in ("kill", "freeze", "hand over"):
            before = cluster.wait_whole()
            load.wait_served(before)
            if kind == "hand over":
                code, text = cluster.command("failover", "--wait")
                assert code == 0, text
            else:
                getattr(before, kind)()
            after = cluster.wait_master(but=before)
            load.wait_rows(10, lambda row_kind, row, host=after.host: row_kind == "read" or host in row)
            if kind != "hand over":
                cluster.restart(before)
        last = cluster.wait_whole()
        load.wait_served(last)
        assert load.end() == 0, load.tail()
        assert not [row for row in load.rows("incr") + load.rows("add") if row[0] == "refused"], load.tail()
        return load.check(last)


def test_E191_the_client_with_tls_and_a_log_in():
    if certs.why_missing():
        raise cases.Skip(certs.why_missing())
    made = certs.Certificates(os.path.join(ENSEMBLE.folder, "certificates"))
    ca = made.make("ca", "/O=tests/CN=ca")
    mine = made.make("redis", "/O=tests/CN=localhost", ca)
    options = [*CALM, "--redis-tls", "--redis-ca", ca.cert, "--redis-cert", mine.cert, "--redis-key", mine.key, "--redis-user", "boss"]
    with Cluster(ENSEMBLE, "secure", managers=1, options=options, user="boss", password="s3cret!", certificate=mine, ca=ca) as cluster:
        cluster.start()
        load = Load(cluster, "secure", "boss", "s3cret!", ca.cert, mine.cert, mine.key)
        before = cluster.wait_whole()
        load.wait_served(before)
        code, text = cluster.command("failover", "--wait")
        assert code == 0, text
        load.wait_served(cluster.wait_master(but=before))
        assert load.end() == 0, load.tail()
        result = load.check(cluster.wait_whole())
        refused = Load(cluster, "wrong", "boss", "another", ca.cert, mine.cert, mine.key)
        eventually(refused.tail, lambda: ["refused", "AUTH_FAILED"] in refused.rows("incr"))
        assert refused.end() == 0, refused.tail()
        return result


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
