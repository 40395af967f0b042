"""bench/run's part about caches: how long one takes to load, and how soon a change is in all of many.

Promise: one server of each kind, in turn; the same program (bench/cache.c, our library) on both.
Limits: program and server share the machine's cores, and so does whatever else runs: `load` is the machine's load average
before each measurement.
"""

import os

import conclave
import zookeeper
from locks_bench import ask, build

NODES, LOADS = 100000, 5
CACHES, CHANGES = 1000, 50


def measure(folder):
    """{server: {"load": {...}, "reach": {...}, "reach_one_client": {...}}}"""
    binary = build(folder, "cache")
    results = {}
    for kind in (zookeeper.ZooKeeper, conclave.Conclave):
        with kind() as server:
            cases = {"load": (NODES, LOADS), "reach": (CACHES, CACHES, CHANGES), "reach_one_client": (CACHES, 1, CHANGES)}
            for name, words in cases.items():
                before = round(os.getloadavg()[0], 1)
                figures = ask([binary, name.split("_")[0], server.host, *words])
                results.setdefault(server.name, {})[name] = {"load_average": before, **figures}
                print(f"cache {server.name} {name}: {results[server.name][name]}", flush=True)
    return results
