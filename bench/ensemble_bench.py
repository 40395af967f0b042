"""bench/run's part about three servers: throughput beside Apache ZooKeeper and etcd, and the pause when a leader goes.

Promise: all ensembles are of three members on this machine with data on the same disk, made durable as they come, and
take turns. Apache's and ours get the same tickTime. The load is bench/load.c, its sessions spread over the members;
for etcd it is h2load (nghttp2) with as many connections and streams, a third of them to each member.
Limits: all members and the load share the machine's cores. h2load sends one fixed request: for etcd all puts
are to one key (its store appends a revision for each, so a put of a new key is the same work) and all gets
(serializable, answered by the member itself, as ZooKeeper's) read it. That the puts were carried out is proved by
etcd's revision. The pause is measured by clients in Python; what they add is below a millisecond.
"""

import json
import os
import re
import shutil
import signal
import statistics
import struct
import subprocess
import threading
import time
import urllib.request

import zkwire as zk
from ensemble import ConclaveMember, Ensemble, ZooKeeperMember
from server import READY_S, Server, free_port

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TICK_MS = 2000
SHAPES = ((1, 1), (16, 32))  # sessions, requests in flight of each
OPS = ("get", "set", "create")
FIRST_WARM_UP_S = 4
WARM_UP_S = 0.4
FAIL_OVERS = 50
GAP_LIMIT_S = 60
SESSION_MS = 20000
ETCD_KEY, ETCD_VALUE = b"/bench/key-0000", b"x" * 100


# --- etcd ---------------------------------------------------------------------------------------------------------

def etcd_program():
    """Debian's etcd: installed, or unpacked by tools/install-deps --bench (its package would start a service)."""
    return shutil.which("etcd") or os.path.join(ROOT, ".deps", "etcd", "usr", "bin", "etcd")


def why_no_etcd():
    if not os.access(etcd_program(), os.X_OK):
        return "no etcd (tools/install-deps --bench)"
    return None if shutil.which("h2load") else "no h2load (Debian: nghttp2-client)"


class EtcdMember(Server):
    """One etcd; `cluster` is its flag initial-cluster, shared by all."""

    name = "etcd"

    def __init__(self, number, cluster):
        super().__init__()
        self.number, self.cluster = number, cluster
        self.port, self.peer_port = free_port(), free_port()

    def command(self):
        client, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer_port}"
        return [etcd_program(), "--name", f"m{self.number}", "--data-dir", os.path.join(self.folder, "data"),
                "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                "--initial-advertise-peer-urls", peer, "--initial-cluster", ",".join(self.cluster), "--log-level", "error",
                "--quota-backend-bytes", str(6 << 30)]

    def wait_ready(self):
        """The process runs; whether it serves depends on the others."""

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", data, timeout=5) as reply:
            return json.load(reply)

    def revision(self):
        return int(self.ask("/v3/kv/range", {"key": "Lw=="})["header"].get("revision", 0))


class Etcd:
    """Three of them, with Ensemble's few methods that are used here."""

    name = "etcd"

    def __init__(self):
        cluster = []
        self.members = [EtcdMember(number, cluster) for number in (1, 2, 3)]
        cluster.extend(f"m{m.number}=http://127.0.0.1:{m.peer_port}" for m in self.members)

    def start(self):
        for member in self.members:
            member.start()
        for member in self.members:
            deadline = time.monotonic() + READY_S
            while True:
                try:
                    if str(member.ask("/health")["health"]).lower() == "true":
                        break
                except OSError:
                    pass
                if time.monotonic() > deadline:
                    member.fail(f"not healthy after {READY_S} s")
                time.sleep(0.1)
        return self

    def stop(self):
        for member in self.members:
            member.destroy()


def _field(number, value):
    return bytes([number << 3 | 2, len(value)]) + value


def _grpc(message):
    return b"\0" + struct.pack(">I", len(message)) + message


def etcd_request(folder, op):
    """The URL's path and the file with the request's body."""
    body = _field(1, ETCD_KEY) + (b"\x38\x01" if op == "get" else _field(2, ETCD_VALUE))  # range's field 7: serializable
    path = os.path.join(folder, f"etcd-{op}")
    with open(path, "wb") as file:
        file.write(_grpc(body))
    return "/etcdserverpb.KV/" + ("Range" if op == "get" else "Put"), path


def _time_us(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def run_etcd(folder, cluster, op, shape, seconds, warm_up):
    """As load.c's result, as far as h2load measures it."""
    path, body = etcd_request(folder, op)
    sessions = [shape[0] // 3 + (1 if i < shape[0] % 3 else 0) for i in range(3)]
    before = cluster.members[0].revision()
    running = [subprocess.Popen(
        ["h2load", "-t", "1", "-c", str(count), "-m", str(shape[1]), "-D", f"{seconds * 1000:.0f}ms",
         "--warm-up-time", f"{warm_up * 1000:.0f}ms", "-d", body, "-H", "content-type: application/grpc",
         "-H", "te: trailers", f"http://127.0.0.1:{member.port}{path}"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for member, count in zip(cluster.members, sessions) if count]
    rate = count = 0
    means, worst = [], []
    for process in running:
        output, _ = process.communicate(timeout=seconds * 3 + 60)
        found = re.search(r"finished in [^,]+, ([\d.]+) req/s", output)
        good = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", output)
        spans = re.search(r"time for request:\s+(\S+)\s+(\S+)\s+(\S+)", output)
        if process.returncode or not found or not good or not spans or any(int(n) for n in good.groups()[1:]):
            raise RuntimeError(f"h2load: {output}")
        rate += float(found.group(1))
        count += int(good.group(1))
        worst.append(_time_us(spans.group(2)))
        means.append(_time_us(spans.group(3)))
    moved = cluster.members[0].revision() - before
    if op != "get" and moved < count:
        raise RuntimeError(f"etcd: {count} puts were answered, its revision moved by {moved}")
    return {"op": op, "sessions": shape[0], "in_flight": shape[1], "seconds": seconds, "count": count,
            "ops_per_s": round(rate), "mean_us": statistics.mean(means), "max_us": max(worst)}


# --- throughput ---------------------------------------------------------------------------------------------------

def run_load(binary, ensemble, op, shape, seconds, warm_up):
    command = [binary, ensemble.hosts, op, *map(str, shape), "--seconds", str(seconds), "--warm-up", str(warm_up)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}\n" +
                           "\n".join(member.log_tail(1500) for member in ensemble.members))
    return json.loads(done.stdout)


def measure_load(binary, folder, seconds, rounds, ops):
    """{case: {who: [run, ...]}}."""
    contestants = {}
    cases = {}
    runners = {}
    try:
        for kind in (ZooKeeperMember, ConclaveMember):
            contestants[kind.name] = Ensemble(3, kind, tick_ms=TICK_MS).start()
            runners[kind.name] = lambda *words, who=kind.name: run_load(binary, contestants[who], *words)
        if why_no_etcd() is None:
            contestants["etcd"] = Etcd().start()
            runners["etcd"] = lambda *words: run_etcd(folder, contestants["etcd"], *words)
        else:
            print(f"without etcd: {why_no_etcd()}")
        for run in runners.values():
            for op in ops:
                run(op, (16, 32), FIRST_WARM_UP_S / 2, FIRST_WARM_UP_S / 2)
        for _ in range(rounds):
            for shape in SHAPES:
                for op in ops:
                    for who, run in runners.items():
                        result = run(op, shape, seconds, WARM_UP_S)
                        cases.setdefault(f"{op} {shape[0]}x{shape[1]}", {}).setdefault(who, []).append(result)
    finally:
        for ensemble in contestants.values():
            ensemble.stop()
    return cases


# --- the pause ----------------------------------------------------------------------------------------------------

class Beat(threading.Thread):
    """A client that sets a node as often as it can, at one member while that answers, else at the next."""

    def __init__(self, members, first):
        super().__init__(daemon=True)
        self.members, self.at = members, first
        self.path = f"/beat-{first}"
        self.ending = False
        self.acks = [time.monotonic()]
        self.session = (0, bytes(16), 0)

    def beat(self, link):
        while not self.ending:
            err, _ = link.call(zk.set_data(self.path, b"x"))
            if err == zk.ERRORS["NONODE"]:
                link.call(zk.create(self.path))
                continue
            if err != 0:
                raise zk.Closed(f"error {err}")
            self.acks.append(time.monotonic())
            self.session = (link.session_id, link.passwd, link.last_zxid)
            time.sleep(0.001)

    def run(self):
        while not self.ending:
            try:
                with zk.Connection(self.members[self.at].address, SESSION_MS, *self.session, patience_s=1) as link:
                    if link.session_id == 0:
                        self.session = (0, bytes(16), 0)
                        continue
                    self.beat(link)
            except (OSError, zk.Closed):
                self.at = (self.at + 1) % len(self.members)
                time.sleep(0.002)


def pause_of(beats, began):
    """The longest time in ms that one of the clients was without an acknowledged write."""
    deadline = began + GAP_LIMIT_S
    while any(beat.acks[-1] < began + 0.001 or time.monotonic() - began < 0.3 for beat in beats):
        if time.monotonic() > deadline:
            raise RuntimeError(f"no write within {GAP_LIMIT_S} s of the leader's end")
        time.sleep(0.01)
    time.sleep(0.2)
    longest = 0
    for beat in beats:
        times = [t for t in beat.acks if t >= began - 0.5]
        longest = max([longest, *(b - a for a, b in zip(times, times[1:]))])
    return longest * 1000


def fail_over(ensemble, number):
    leader = ensemble.wait_leader()
    time.sleep(0.5)
    beats = [Beat(ensemble.members, first) for first in range(3)]
    for beat in beats:
        beat.start()
    time.sleep(0.5)
    began = time.monotonic()
    leader.process.send_signal(number)
    try:
        return pause_of(beats, began)
    finally:
        for beat in beats:
            beat.ending = True
        leader.stop()
        for beat in beats:
            beat.join()
        leader.start()


def summary(pauses):
    return {"rounds": len(pauses), "p50_ms": round(statistics.median(pauses), 1), "worst_ms": round(max(pauses), 1),
            "all_ms": sorted(round(pause, 1) for pause in pauses)}


def measure_fail_over(rounds):
    """{"kill": {who: figures}, "stop": ...}, the two ensembles taking turns."""
    ensembles = {}
    pauses = {"kill": {}, "stop": {}}
    try:
        for kind in (ZooKeeperMember, ConclaveMember):
            ensembles[kind.name] = Ensemble(3, kind, tick_ms=TICK_MS).start()
        for _ in range(rounds):
            for how, number in (("kill", signal.SIGKILL), ("stop", signal.SIGTERM)):
                for who, ensemble in ensembles.items():
                    pauses[how].setdefault(who, []).append(fail_over(ensemble, number))
    finally:
        for ensemble in ensembles.values():
            ensemble.stop()
    return {how: {who: summary(values) for who, values in those.items()} for how, those in pauses.items()}


# --- bench/run ----------------------------------------------------------------------------------------------------

def print_tables(cases, pauses):
    names = ("zookeeper", "etcd", "conclave")
    print(f"\n{'three servers':16}" + "".join(f"{name:>12}" for name in names) + f"{'ratios':>16}")
    for case, contestants in cases.items():
        rates = {who: statistics.median(run["ops_per_s"] for run in runs) for who, runs in contestants.items()}
        ratios = [f"{rates['conclave'] / rates[who]:.1f}x" if who in rates else "-" for who in names[:2]]
        print(f"{case + ' op/s':16}" + "".join(f"{rates[who]:>12.0f}" if who in rates else f"{'-':>12}" for who in names)
              + f"{' '.join(ratios):>16}")
    for how, text in (("kill", "leader killed"), ("stop", "leader stopped")):
        for who, figures in pauses.get(how, {}).items():
            print(f"{text:16}{who:>12}: writes pause p50 {figures['p50_ms']:.0f} ms, worst {figures['worst_ms']:.0f} ms "
                  f"(for the one of three clients that waits longest, {figures['rounds']} times)")


def measure(binary, folder, seconds, rounds, fail_overs, ops=OPS):
    """Measures, prints, and returns what goes to results.json."""
    cases = measure_load(binary, folder, seconds, rounds, ops) if rounds else {}
    pauses = measure_fail_over(fail_overs) if fail_overs else {}
    print_tables(cases, pauses)
    return {"members": 3, "tick_ms": TICK_MS, "fail_over": pauses,
            "etcd_load": "h2load -c CONNECTIONS -m STREAMS -D SECONDS, a third of the connections to each member",
            "cases": {case: {who: {"ops_per_s": statistics.median(run["ops_per_s"] for run in runs), "runs": runs}
                             for who, runs in contestants.items()} for case, contestants in cases.items()}}
