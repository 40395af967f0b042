#!/usr/bin/env python3
"""The lead among the managers of `conclave redis-failover`: how long a leading manager acts by its reports.

Promise: a fail-over happens on an ensemble that answers late; a manager whose reports are not confirmed stops its fencing methods
while its session lives, and goes on later; a lead that may not be removed is told once.
Limits: Debian's Redis; one server of the ensemble, behind a proxy that delays or holds its answers. Leaders that die are in
redis_test.py and sentinel_test.py, the arithmetic is in test/unit/redis/planner/lead_proof.c.

usage: redis_lead_test.py [CASE...]
"""

import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import conclave  # noqa: E402
import redis  # noqa: E402
import zkwire as zk  # noqa: E402
from proxy import Proxy  # noqa: E402
from redis_cluster import Cluster, eventually  # noqa: E402

ENSEMBLE = None    # the server that all clusters share


def test_E189_a_fail_over_on_an_ensemble_that_answers_700_ms_late():
    """It becomes so slow while the manager leads; then the leader and the master die together."""
    with Proxy(ENSEMBLE.port) as proxy, \
            Cluster(ENSEMBLE, "late", servers=proxy.host, options=["--session", "60s", "--period", "1s"]) as cluster:
        cluster.start()
        first = cluster.nodes[0]
        proxy.do("delay 350")  # each way
        first.kill()
        began = time.monotonic()
        second = cluster.wait_master(but=first)
        took = time.monotonic() - began
        leader = cluster.leader()
        stated = cluster.reports()[leader.id]["lead_ms"]
        assert 1900 < stated <= 40000, stated
        leader.process.kill()
        second.kill()
        proxy.do("pass")  # its last report counts all the same
        cluster.wait_master(but=second)
        assert leader.id in cluster.reports(), "its session has ended"
        assert any(" lead-removed: " in manager.text() for manager in cluster.managers if manager is not leader), cluster.told()
        return f"{took:.1f} s, and {time.monotonic() - began - took:.1f} s without the leader, whose reports counted for {stated} ms"


def test_E190_fencing_stops_when_the_lead_is_not_confirmed():
    """The session lives, and the method would go on. When the manager may act again, it fences and names the other one."""
    with Proxy(ENSEMBLE.port) as proxy, \
            Cluster(ENSEMBLE, "unconfirmed", redis=2, managers=1, servers=proxy.host,
                    options=["--session", "40s", "--fence-timeout", "60s"]) as cluster:
        path = os.path.join(cluster.folder.name, "fence")
        begun, hang = path + "-begun", path + "-hang"
        with open(path, encoding="ascii") as file:
            script = file.read()
        with open(path, "w", encoding="ascii") as file:
            file.write(script.replace("#!/bin/sh\n", f"#!/bin/sh\n[ ! -e {hang} ] || {{ echo $$ > {begun}; sleep 600; }}\n"))
        with open(hang, "w", encoding="ascii"):
            pass
        cluster.start()
        first, manager = cluster.nodes[0], cluster.managers[0]
        first.freeze()
        eventually(cluster.told, lambda: os.path.exists(begun) and os.path.getsize(begun))
        with open(begun, encoding="ascii") as file:
            method = int(file.read())
        proxy.do("hold both")
        eventually(manager.tail, lambda: " fencing-stopped " in manager.text())
        eventually("the method is dead", lambda: not os.path.exists(f"/proc/{method}"))
        eventually(manager.tail, lambda: " lead-unconfirmed: " in manager.text())
        os.remove(hang)
        proxy.do("pass")
        cluster.wait_master(but=first)
        assert " lead-confirmed: " in manager.text() and first.host in cluster.fenced(), cluster.told()


def test_a_lead_that_may_not_be_removed_is_told_once():
    all_but_delete, everything = 0b10111, 0b11111
    with Cluster(ENSEMBLE, "kept", redis=2, options=["--session", "30s"]) as cluster:
        cluster.start()
        first, leader = cluster.nodes[0], cluster.leader()

        def allow(what):
            err, _ = cluster.tree.call(zk.set_acl(f"{cluster.root}/election", ((what, "world", "anyone"),)))
            assert err == 0, err

        def told():
            return [manager.text().count(" lead-not-removed: ") for manager in cluster.managers if manager is not leader]
        allow(all_but_delete)
        leader.send(signal.SIGSTOP)
        first.kill()
        eventually(cluster.told, lambda: told() == [1, 1])
        cluster.stays(lambda: told() == [1, 1] and cluster.current()["master"] == first.host, 1, "told again, or removed")
        allow(everything)
        cluster.wait_master(but=first)
        assert leader.id in cluster.reports(), "its session has ended"
        assert told() == [1, 1], cluster.told()


def main():
    global ENSEMBLE
    why = conclave.why_missing() or redis.why_missing()
    if why:
        return cases.skip_all(why)
    ENSEMBLE = conclave.Conclave(tick_ms=200, options=["--maxSessionTimeout", "60000"])
    with ENSEMBLE:
        return cases.run_beside(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
