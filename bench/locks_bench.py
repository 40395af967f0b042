"""bench/run's part about locks: pairs of lock and unlock per second beside Curator and etcd, what a hand-over costs, memory.

Promise: one server of each on this machine, data on the same disk, made durable as they come; whoever contends takes turns
on the same servers. Each contender has a session of its own (with etcd: a lease). For etcd there are two: its lock service
asked over one lasting connection for each contender (its HTTP gateway; Debian has no client library but Go's source), and
`etcdctl lock`, which is a process for each lock, beside `conclave lock`, which is one, too (and has a guardian besides).
Limits: contenders and servers share the machine's cores. Curator's program begins with a warm-up that is long enough for
most of the JVM's compiling. The gateway costs etcd some CPU; its contenders are threads of this program.
"""

import base64
import glob
import json
import os
import shutil
import socket
import statistics
import subprocess
import threading
import time

import conclave
import ensemble_bench
import zookeeper

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONTENDERS = (1, 10, 100)
WAITERS = (10, 100, 1000, 10000)
RECIPES = ("lock", "semaphore", "election")
HAND_OVERS = 200
WARM_UP_S, JAVA_WARM_UP_S = 0.5, 4.0
LEASE_S = 120
JAVA = "/usr/share/java"
JARS = ("curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "slf4j-api",
        "slf4j-nop", "metrics-core", "snappy-java", "netty-*")


# --- programs -----------------------------------------------------------------------------------------------------

def build(folder, name):
    """Compiles bench/NAME.c with our library; the program."""
    builds = os.environ.get("CONCLAVE_BUILD") or os.path.join(ROOT, "build")
    binary = os.path.join(folder, name)
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-I", os.path.join(ROOT, "include"),
                    "-I", os.path.join(builds, "include"), "-o", binary, os.path.join(ROOT, "bench", f"{name}.c"),
                    "-L", builds, "-lconclave", "-lpthread", f"-Wl,-rpath,{builds}"], check=True)
    return binary


def build_curator(folder):
    """The command's first words, or None with a line that says why."""
    jars = [jar for name in JARS for jar in glob.glob(f"{JAVA}/{name}.jar")]
    if not any("curator-recipes" in jar for jar in jars) or not shutil.which("javac"):
        print("locks: without Curator (Debian: libcurator-recipes-java, default-jdk-headless)", flush=True)
        return None
    path = ":".join(jars)
    subprocess.run(["javac", "-cp", path, "-d", folder, os.path.join(ROOT, "bench", "CuratorLocks.java")], check=True)
    return ["java", "-cp", f"{path}:{folder}", "CuratorLocks"]


def etcdctl_program():
    return shutil.which("etcdctl") or os.path.join(ROOT, ".deps", "etcd", "usr", "bin", "etcdctl")


def ask(command, timeout=600):
    """What a program of ours prints as its last line, in JSON."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} failed: {done.stderr.strip()}")
    return json.loads(done.stdout.strip().split("\n")[-1])


# --- contenders that are threads here -------------------------------------------------------------------------------

def contend(count, seconds, warm_up, make):
    """`make(number)` gives a function that locks and unlocks once. The same figures as bench/locks.c's."""
    pairs = [0] * count
    counting, ending = threading.Event(), threading.Event()
    failures = []

    def work(number):
        try:
            turn = make(number)
            while not ending.is_set():
                turn()
                if counting.is_set():
                    pairs[number] += 1
        except Exception as error:  # told below; the others' figures would be worth nothing
            failures.append(error)
    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    time.sleep(warm_up)
    began = time.monotonic()
    counting.set()
    time.sleep(seconds)
    counting.clear()
    took = time.monotonic() - began
    total = list(pairs)
    ending.set()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return {"pairs": sum(total), "seconds": round(took, 3), "pairs_per_s": round(sum(total) / took, 1),
            "least": min(total), "most": max(total)}


class Gateway:
    """One lasting connection to etcd's HTTP gateway."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def post(self, path, body):
        data = json.dumps(body).encode()
        self.socket.sendall(b"POST %s HTTP/1.1\r\nHost: etcd\r\nContent-Length: %d\r\n\r\n%s"
                            % (path.encode(), len(data), data))
        status = int(self.file.readline().split()[1])
        length = 0
        while True:
            line = self.file.readline().strip().lower()
            if not line:
                break
            name, _, value = line.partition(b":")
            if name == b"content-length":
                length = int(value)
        answer = self.file.read(length)
        if status != 200 or length == 0:
            raise RuntimeError(f"etcd's gateway: {path}: {status} {answer!r}")
        return json.loads(answer)


def etcd_contender(port, name):
    gateway = Gateway(port)
    lease = gateway.post("/v3/lease/grant", {"TTL": LEASE_S})["ID"]
    encoded = base64.b64encode(name.encode()).decode()

    def turn():
        key = gateway.post("/v3/lock/lock", {"name": encoded, "lease": lease})["key"]
        gateway.post("/v3/lock/unlock", {"key": key})
    return turn


def process_turn(command):
    def turn():
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return turn


# --- pairs per second ---------------------------------------------------------------------------------------------

class Race:
    """Who contends on what; `run(count, seconds)` of each gives one run's figures."""

    def __init__(self, folder, servers):
        self.ours, self.apache, self.etcd = servers
        self.rows = {}
        locks, curator = [build(folder, "locks")], build_curator(folder)
        for server in (self.ours, self.apache):
            self.add(f"libconclave on {server.name}", [*locks, "pairs", server.host], WARM_UP_S)
            if curator:
                self.add(f"curator on {server.name}", [*curator, server.host], JAVA_WARM_UP_S)
        if self.etcd:
            self.rows["etcd's lock service"] = lambda count, seconds, name: contend(
                count, seconds, WARM_UP_S, lambda _: etcd_contender(self.etcd.port, name))
        self.rows["process: conclave lock"] = lambda count, seconds, name: contend(count, seconds, WARM_UP_S, lambda _:
            process_turn([conclave.program(), "lock", f"/{name}", "--server", self.ours.host, "--", "true"]))
        if self.etcd and os.access(etcdctl_program(), os.X_OK):
            self.rows["process: etcdctl lock"] = lambda count, seconds, name: contend(
                count, seconds, WARM_UP_S, lambda _: process_turn(
                    [etcdctl_program(), "--endpoints", f"http://127.0.0.1:{self.etcd.port}", "lock", name, "true"]))

    def add(self, name, command, warm_up):
        self.rows[name] = lambda count, seconds, _: ask([*command, count, seconds, warm_up])


def measure_pairs(race, seconds, rounds):
    """{contenders: {who: {pairs_per_s: median, runs}}}, taking turns."""
    runs = {}
    for number in range(rounds):
        for count in CONTENDERS:
            for who, run in race.rows.items():
                one = run(count, seconds, f"bench-{number}-{count}")
                runs.setdefault(str(count), {}).setdefault(who, []).append(one)
    return {count: {who: {"pairs_per_s": statistics.median(one["pairs_per_s"] for one in all_runs), "runs": all_runs}
                    for who, all_runs in rows.items()} for count, rows in runs.items()}


def print_pairs(pairs):
    whos = list(pairs[str(CONTENDERS[0])])
    base = "curator on zookeeper"
    print(f"{'lock/unlock pairs per second':32}" + "".join(f"{count + ' contending':>26}" for count in pairs))
    for who in whos:
        cells = ""
        for rows in pairs.values():
            value = rows[who]["pairs_per_s"]
            against = base if not who.startswith("process") else "process: etcdctl lock"
            ratio = f"{value / rows[against]['pairs_per_s']:.2f}x" if rows.get(against, {}).get("pairs_per_s") else ""
            cells += f"{value:>17.1f}{ratio:>9}"
        print(f"{who:32}{cells}")
    print(f"(ratios: to {base}; of processes: to etcdctl lock)", flush=True)


# --- hand-overs and memory ------------------------------------------------------------------------------------------

def measure_hand_overs(locks, servers):
    """{server: {recipe: {waiters: figures}}}"""
    results = {}
    print(f"{'requests per hand-over (and us)':32}" + "".join(f"{str(n) + ' waiting':>20}" for n in WAITERS))
    for server in servers:
        for recipe in RECIPES:
            row = {str(n): ask([*locks, "handover", server.host, recipe, n, HAND_OVERS]) for n in WAITERS}
            results.setdefault(server.name, {})[recipe] = row
            cells = "".join(f"{one['requests_per_hand_over']:>10.2f} {one['hand_over_us']:>8.0f} " for one in row.values())
            print(f"{recipe + ' on ' + server.name:32}{cells}", flush=True)
    return results


def measure_memory(locks, server):
    results = {}
    for kind, count in (("handles", 1000), ("handles", 10000), ("clients", 1000)):
        one = ask([*locks, "memory", server.host, kind, count])
        before = server.memory_kb()[0]
        results[f"{count} {kind}"] = one
        what = "in one client" if kind == "handles" else "each with a client of its own"
        print(f"memory of a waiting handle, {count} {what}: {one['bytes_per_handle']:.0f} bytes "
              f"(server's RSS then: {before} kB)", flush=True)
    return results


def measure(folder, seconds, rounds):
    ours = conclave.Conclave()
    apache = zookeeper.ZooKeeper()
    etcd = None
    if ensemble_bench.why_no_etcd() is None:
        cluster = []
        etcd = ensemble_bench.EtcdMember(1, cluster)
        cluster.append(f"m1=http://127.0.0.1:{etcd.peer_port}")
    else:
        print(f"locks: without etcd: {ensemble_bench.why_no_etcd()}", flush=True)
    try:
        for server in filter(None, (ours, apache, etcd)):
            server.start()
        if etcd:
            time.sleep(2)  # it elects itself
        race = Race(folder, (ours, apache, etcd))
        pairs = measure_pairs(race, seconds, rounds)
        print_pairs(pairs)
        locks = [os.path.join(folder, "locks")]
        return {"pairs": pairs, "hand_overs": measure_hand_overs(locks, (ours, apache)),
                "memory": measure_memory(locks, ours)}
    finally:
        for server in filter(None, (ours, apache, etcd)):
            server.destroy()
