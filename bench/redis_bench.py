"""bench/run's part about Redis: how long writes stand still when the master is killed, under our managers and under Redis
Sentinel.

Promise: the same three Redis servers, in turns, a block of fail-overs for each; three managers or three sentinels of which
two must agree; kill -9; the old master comes back as a replica before the next. The figure is the time from the last
acknowledged write on the old master to the first one on the new, seen by one client (test/system/redis_actor.c) that
writes every millisecond and follows each system in its own way: the record's watch, or the sentinels asked by turns
every 10 ms from the moment the link breaks, and the role checked in both cases.
Limits: all on one machine with few cores. Sentinel's down-after-milliseconds is 1000, the least its documentation
speaks of for a fast network; ours is measured with what it comes with, and with the same patience (--min-down 1s).
"""

import statistics
import subprocess
import time

from ensemble import ConclaveMember, Ensemble
from redis import RedisServer
from redis_cluster import ACTOR, Cluster, Process, eventually
from redis_sentinel import NAME, SENTINEL_MS, Sentinel, bring_back, master_of
from server import free_port

BLOCK = 10  # fail-overs before the other one's turn
SIDE = 20   # at most, with the other's patience


def pause(writer, old):
    """Kills the master; milliseconds between the last write on it and the first one on another."""
    old.kill()
    eventually(f"a write on another\n{writer.tail()}", lambda: [a for a in acks(writer) if a[1] != old.host][-1:]
               and acks(writer)[-1][1] != old.host, 60)
    rows = acks(writer)
    last = max(at for at, where in rows if where == old.host)
    first = min(at for at, where in rows if where != old.host and at > last)
    return (first - last) / 1e6


def acks(writer):
    rows = (line.split() for line in writer.text().splitlines(keepends=True) if line.endswith("\n"))
    return [(int(r[3]), r[4]) for r in rows if r[0] == "ack"]


def one(nodes, words, settle):
    """One fail-over with a fresh client: milliseconds; None: there was one that nobody had asked for, on a busy machine."""
    old = master_of(nodes)
    settle(old)
    writer = Process([ACTOR, *words, "nowait", "1000"])
    try:
        eventually(lambda: f"the client writes\n{writer.tail()}", lambda: len(acks(writer)) > 200)
        found = pause(writer, old) if {where for _, where in acks(writer)} == {old.host} else None
    finally:
        writer.destroy()
    bring_back(nodes, old, eventually("a master", lambda: master_of([node for node in nodes if node is not old])))
    return found


def several(nodes, words, settle, count):
    """So many, and how many came unasked."""
    found = []
    unasked = 0
    while len(found) < count:
        pause_ms = one(nodes, words, settle)
        unasked += pause_ms is None
        found += [] if pause_ms is None else [pause_ms]
    return found, unasked


def sentinel_block(nodes, count):
    master = master_of(nodes)
    sentinels = [Sentinel(master).start() for _ in range(3)]

    def settle(_old):
        eventually("all sentinels know each other and the replicas",
                   lambda: all(sentinel.knows() == (2, 2, "master") for sentinel in sentinels))
        time.sleep(1)
    try:
        words = ["sentinel", ",".join(sentinel.host for sentinel in sentinels), NAME, f"s{free_port()}"]
        return several(nodes, words, settle, count)
    finally:
        for sentinel in sentinels:
            sentinel.destroy()


class BenchCluster(Cluster):
    """Managers with what they come with, on servers that are there already. A record of its own for each block: what the
    other system did meanwhile would be a stranger's doing."""

    def __init__(self, ensemble, nodes, more):
        super().__init__(ensemble.members[0], f"{NAME}-{time.monotonic_ns()}", nodes=nodes, servers=ensemble.hosts, fence=False)
        self.options = ["--managers", "3", "--cooldown", "0s", *more]  # one fail-over comes right after the other

    def end(self):
        for manager in self.managers:
            manager.end()
        self.tree.close()


def conclave_block(ensemble, nodes, count, more):
    cluster = BenchCluster(ensemble, nodes, more)

    def settle(old):
        eventually(cluster.told, lambda: cluster.current().get("master") == old.host and cluster.current()["state"] == "ok"
                   and len(cluster.current()["replicas"]) == len(nodes) - 1)
        time.sleep(1)
    try:
        for number in (1, 2, 3):
            cluster.manager(number)
        words = ["znode", ensemble.hosts, cluster.root, f"c{free_port()}"]
        return several(nodes, words, settle, count)
    finally:
        cluster.end()


def summary(pauses, unasked):
    return {"rounds": len(pauses), "unasked": unasked, "p50_ms": round(statistics.median(pauses), 1), "worst_ms": round(max(pauses), 1),
            "all_ms": sorted(round(found, 1) for found in pauses)}


def measure(fail_overs):
    """Measures, prints, and returns what goes to results.json."""
    ours = {"conclave": [], "conclave_min_down_1s": ["--min-down", "1s"]}
    pauses = {who: [] for who in ("sentinel", *ours)}
    unasked = {who: 0 for who in pauses}

    def add(who, found):
        pauses[who] += found[0]
        unasked[who] += found[1]
        print(f"{who}: {' '.join(f'{pause_ms:.0f}' for pause_ms in found[0])} ms", flush=True)
    first = RedisServer()
    nodes = [first, RedisServer(of=first), RedisServer(of=first)]
    with Ensemble(3, ConclaveMember) as ensemble:
        try:
            for node in nodes:
                node.start()
            while len(pauses["conclave"]) < fail_overs:
                count = min(BLOCK, fail_overs - len(pauses["conclave"]))
                add("sentinel", sentinel_block(nodes, count))
                for who, more in list(ours.items())[:2 if len(pauses["conclave_min_down_1s"]) < SIDE else 1]:
                    add(who, conclave_block(ensemble, nodes, count, more))
        finally:
            for node in nodes:
                node.destroy()
    found = {who: summary(values, unasked[who]) for who, values in pauses.items()}
    print("\nRedis' master killed: time without an acknowledged write")
    for who, figures in found.items():
        print(f"{who:22} p50 {figures['p50_ms']:>7.0f} ms, worst {figures['worst_ms']:>7.0f} ms ({figures['rounds']} times)")
    return {"redis": subprocess.run(["redis-cli", "--version"], capture_output=True, text=True, check=True).stdout.strip(),
            "sentinel": {"down-after-milliseconds": SENTINEL_MS, "quorum": 2, "sentinels": 3},
            "conclave": {"period": "1s", "min-down": "500ms", "max-failures": 3, "managers": 3}, "fail_over": found}

