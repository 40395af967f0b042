"""bench/run's part folder: import, export and inspect of a folder of Apache ZooKeeper with a million nodes.

    bench/folder_bench.py [--nodes N]     this part alone, printed only

Promise: Debian's Apache ZooKeeper writes the folder: a snapshot of all nodes, and behind it a log of writes. Then each works on
copies of the same folder, in turn: ZooKeeper starts from it, our server starts from it (`import`), `conclave inspect` reads it,
`conclave export` writes it again. At the end ZooKeeper starts from what was exported, and shows as many nodes. `seconds` end with
the first answer of a server, or with the command; `cpu_s` is the processor time until then. `peak_kb` is the process's highest
resident memory, `ratio` that divided by `tree_kb`: what the tree takes in our server, as the smallest resident memory of a server
that started again from its own folder.
Limits: ZooKeeper's start writes a snapshot, ours does, too. Files that were just copied are in the page cache. What else runs on the
machine counts: `load_average` before each round; `cpu_s` changes least with it.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "support"))
import conclave  # noqa: E402
import memory_bench  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from bystander import cpu_s  # noqa: E402
from ensemble import four_letters  # noqa: E402

NODES, DATA_BYTES = 1_000_000, 100
TAIL = 50_000  # writes behind the snapshot
AHEAD = 1000
ROUNDS = 3
SETTLE_S = 3
GOAL = 1.3


def data_of(server):
    return os.path.join(server.folder, "data")


def write_tail(server):
    """Writes that only the log has, to nodes that memory_bench made."""
    def read():
        reply = client.read_reply()
        if reply.err != 0:
            sys.exit(f"bench: a write failed: {reply.err}")
    with zk.Connection(server.address, 40000, patience_s=120) as client:
        for number in range(TAIL):
            client.send(zk.set_data(f"/p{number // memory_bench.CHILDREN:09d}/n{number:09d}", b"y" * DATA_BYTES))
            if number >= AHEAD:
                read()
        for _ in range(min(AHEAD, TAIL)):
            read()


def fill(server, nodes):
    """Writes the folder; the server is stopped then."""
    with server:
        memory_bench.fill(server, nodes, b"x" * DATA_BYTES)
        server.restart()  # it writes a snapshot when it starts
        write_tail(server)
        server.stop()
        target = tempfile.mkdtemp(prefix="apache-")
        os.rename(data_of(server), os.path.join(target, "data"))
    return os.path.join(target, "data")


def copied(folder, server):
    shutil.copytree(folder, data_of(server))
    os.sync()
    return server


def command(*words):
    """(seconds, processor seconds, peak in kB), and what it printed"""
    began = time.monotonic()
    process = subprocess.Popen([conclave.program(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    with process.stdout:
        text = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"bench: conclave {' '.join(words)} failed: {process.returncode} {text}")
    return (time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss), text


def cost(server):
    """(seconds, processor seconds, peak in kB) of a server that has just started."""
    return server.start_s, cpu_s(server), server.memory_kb()[1]


def started(server):
    with server:
        return cost(server)


def nodes_of(server):
    with server:
        return int(re.search(r"zk_znode_count\s+(\d+)", four_letters(server.address, b"mntr", timeout=60))[1])


def take_over(folder):
    """Its cost, and the resident memory in kB when it started again."""
    with copied(folder, conclave.Conclave()) as server:
        found = cost(server)
        server.restart()
        resident = []
        for _ in range(SETTLE_S * 10):
            time.sleep(0.1)
            resident.append(server.memory_kb()[0])
        return found, min(resident)


def files_of(folder):
    """{kind: bytes}"""
    sizes = {"snapshot": 0, "log": 0}
    inside = os.path.join(folder, "version-2")
    for name in os.listdir(inside):
        kind = name.partition(".")[0]
        if kind in sizes:
            sizes[kind] += os.stat(os.path.join(inside, name)).st_blocks * 512
    return sizes


def measure(nodes=NODES):
    """Measures, prints, and returns what goes to results.json."""
    folder = fill(zookeeper.ZooKeeper(), nodes)
    runs = {name: [] for name in ("zookeeper", "import", "inspect", "export")}
    trees, loads = [], []
    exported = os.path.join(os.path.dirname(folder), "exported")
    for _ in range(ROUNDS):
        loads.append(round(os.getloadavg()[0], 1))
        runs["zookeeper"].append(started(copied(folder, zookeeper.ZooKeeper())))
        found, tree_kb = take_over(folder)
        runs["import"].append(found)
        trees.append(tree_kb)
        found, text = command("inspect", "--json", folder)
        runs["inspect"].append(found)
        shutil.rmtree(exported, ignore_errors=True)
        runs["export"].append(command("export", "--from", folder, exported)[0])
    held = json.loads(text)["nodes"]
    given = nodes_of(copied(exported, zookeeper.ZooKeeper()))
    if given != held:
        sys.exit(f"bench: ZooKeeper shows {given} nodes of the folder that was exported, not {held}")
    tree_kb = min(trees)
    results = {"nodes": held, "data_bytes": DATA_BYTES, "log_writes": TAIL, "files": files_of(folder), "tree_kb": tree_kb,
               "load_average": loads}
    print(f"{held} nodes, {tree_kb / 1024:.0f} MB in our server")
    for name, costs in runs.items():
        seconds, busy_s = (statistics.median(found[i] for found in costs) for i in (0, 1))
        peak_kb = max(found[2] for found in costs)
        results[name] = {"seconds": round(seconds, 2), "cpu_s": round(busy_s, 2), "peak_kb": peak_kb,
                         "ratio": round(peak_kb / tree_kb, 2), "runs": [round(found[0], 2) for found in costs]}
        print(f"{name:10} {seconds:6.2f} s, {busy_s:6.2f} s of processor, peak {peak_kb / 1024:6.0f} MB, "
              f"{peak_kb / tree_kb:.2f} times the tree", flush=True)
    if results["import"]["ratio"] >= GOAL:
        print(f"the import's peak is not below {GOAL} times the tree")
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--nodes", type=int, default=NODES)
    print(json.dumps(measure(parser.parse_args().nodes)))


if __name__ == "__main__":
    main()
