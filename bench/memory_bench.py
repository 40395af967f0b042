#!/usr/bin/env python3
"""Measures what a znode costs in memory: the same tree on Debian's Apache ZooKeeper and on ours, in one run.

    bench/memory_bench.py [--nodes N] [--data BYTES] [--heap SIZE] [--only zookeeper|conclave]

Promise: N persistent nodes (names of ten characters, a thousand to a parent) of a few bytes of data are created by
multis over one connection; the resident memory of the process before and after gives the bytes of a node, all told:
tree, names, log in memory, allocator. Java's is shown also after a full collection, which leaves what it needs.
Limits: resident memory is no heap profile: what a server keeps for later counts as used. The heap that the JVM may
take is set by --heap, so that it does not run short.
"""

import argparse
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "test", "support"))
import conclave  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402

CHILDREN = 1000  # of each parent
PARTS = 500      # creates of one multi
AHEAD = 4        # multis in flight
SETTLE_S = 3     # snapshots that are under way end


class BigZooKeeper(zookeeper.ZooKeeper):
    """Apache ZooKeeper with a heap of a given size."""

    heap = "4g"

    def command(self):
        words = super().command()
        return [words[0], f"-Xmx{self.heap}", *words[1:]]


def take_reply(client):
    reply = client.read_reply()
    results = zk.decode_reply(zk.MULTI, reply).get("results", ())
    if reply.err != 0 or any(err != 0 for _, err, _ in results[:-1]):
        sys.exit(f"memory: a multi failed: {reply.err} {results[:3]}")


def requests(nodes, data):
    """Multis that make the tree: parents first, each with its children behind it."""
    parents = (nodes + CHILDREN - 1) // CHILDREN
    made = [zk.create(f"/p{parent:09d}") for parent in range(parents)]
    for at in range(0, parents, PARTS):
        yield zk.multi(made[at:at + PARTS])
    for first in range(0, nodes, PARTS):
        yield zk.multi([zk.create(f"/p{number // CHILDREN:09d}/n{number:09d}", data)
                        for number in range(first, min(first + PARTS, nodes))])


def fill(server, nodes, data):
    """Seconds that creating the tree took."""
    began = time.monotonic()
    with zk.Connection(server.address, 40000, patience_s=120) as client:
        flying = 0
        for request in requests(nodes, data):
            client.send(request)
            flying += 1
            if flying == AHEAD:
                take_reply(client)
                flying -= 1
        for _ in range(flying):
            take_reply(client)
        _, fields = client.call(zk.get_all_children_number("/"))
        if fields["number"] < nodes:
            sys.exit(f"memory: {server.name} has {fields['number']} nodes, not {nodes}")
    return time.monotonic() - began


def collect(server):
    """RSS in kB after a full collection of the JVM's heap, or None where there is no jcmd."""
    try:
        done = subprocess.run(["jcmd", str(server.process.pid), "GC.run"], capture_output=True, check=False, timeout=120)
    except OSError:
        return None
    time.sleep(SETTLE_S)
    return server.memory_kb()[0] if done.returncode == 0 else None


def row(name, base_kb, rss_kb, nodes):
    return f"{name:28}{base_kb / 1024:12.1f}{rss_kb / 1024:12.1f}{(rss_kb - base_kb) * 1024 / nodes:16.0f}"


def measure(kind, options):
    """The lines of one server."""
    data = b"x" * options.data
    with kind() as server:
        idle = server.memory_kb()[0]
        seconds = fill(server, options.nodes, data)
        time.sleep(SETTLE_S)
        rss, peak = server.memory_kb()
        lines = [row(server.name, idle, rss, options.nodes), row(server.name + " (peak)", idle, peak, options.nodes)]
        collected = collect(server) if kind is BigZooKeeper else None
        if collected:
            lines.append(row(server.name + " (collected)", idle, collected, options.nodes))
        print(f"# {server.name}: {options.nodes} nodes in {seconds:.1f} s", flush=True)
        return lines


def main():
    parser = argparse.ArgumentParser(prog="memory_bench.py", description="Bytes of memory for a znode, beside Apache ZooKeeper.")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--data", type=int, default=100, help="bytes of data of each node")
    parser.add_argument("--heap", default="4g", help="the JVM's -Xmx")
    parser.add_argument("--only", choices=("zookeeper", "conclave"))
    options = parser.parse_args()
    BigZooKeeper.heap = options.heap
    missing = zookeeper.why_missing() or conclave.why_missing()
    if missing and not options.only:
        sys.exit(f"memory: {missing}")
    kinds = [kind for kind in (BigZooKeeper, conclave.Conclave) if options.only in (None, kind.name)]
    lines = [line for kind in kinds for line in measure(kind, options)]
    print(f"{'':28}{'idle MB':>12}{'RSS MB':>12}{'bytes a znode':>16}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
