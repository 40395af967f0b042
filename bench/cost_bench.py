"""bench/run's part watched: what console, slow log, ended sessions and traces cost, all on beside all off.

    bench/cost_bench.py     this part alone, printed only
    bench/run --part watched

Promise: two of our servers. One has the console with its actions, the slow log, records of ended sessions and traces of one
request in 100, with a collector that takes them, and somebody looks at the console's first page all the while; the other has
no admin port, no slow log, no records and no traces. `instructions` are those of the server per request, counted by valgrind
at the same number of requests while nobody looks: neither the machine's load nor its memory changes them much. `looking` are
those per second while somebody looks and nothing is asked. `throughput` and `cpu_us`, the server's processor time per request
with that of the kernel, come from runs in turn, A B B A, with the ratio of each pair. `memory_kb` is the peak of fresh servers
after the same requests.
Limits: instructions are not time: what waits for memory costs more than is seen. The collector runs in this program, on the
same cores: a part of the throughput's difference is its own. Where other programs use the cores, throughput and processor time
of a pair differ by more than is looked for: read the instructions there.
"""

import contextlib
import http.server
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "support"))
import conclave  # noqa: E402
from bystander import cpu_s  # noqa: E402

OPS = ("get", "set")
SESSIONS, IN_FLIGHT = 16, 16
PAIRS, SECONDS = 16, 2
COUNTS = (20000, 60000)   # instructions are told by the difference of two runs
COUNT_PAIRS = 3
LOOKS_S = (3, 9)
MEMORY_REQUESTS = 200000
OFF = ["--slowlog.threshold", "0", "--maxEndedSessions", "0", "--admin.console", "off"]


class Counted(conclave.Conclave):
    """A server whose instructions valgrind counts."""

    def command(self):
        self.counts = os.path.join(self.folder, "counts")
        return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self.counts}", *super().command()]

    def instructions(self):
        """Stops the server."""
        self.stop()
        with open(self.counts, encoding="ascii") as file:
            return int(re.search(r"^(?:totals|summary): (\d+)", file.read(), re.M)[1])


class Sink(http.server.ThreadingHTTPServer):
    """A collector of traces that only counts bytes, so that it takes little of the cores."""

    daemon_threads = True

    def __init__(self):
        sink = self
        self.bytes = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                sink.bytes += len(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1/traces"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Looker(threading.Thread):
    """Somebody who looks at the console's first page."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.stream = urllib.request.urlopen(f"http://127.0.0.1:{server.admin_port}/console/events", timeout=60)
        self.lines = 0
        self.start()

    def run(self):
        with contextlib.suppress(OSError, ValueError):
            for _ in self.stream:
                self.lines += 1


@contextlib.contextmanager
def everything(on, collector, kind=conclave.Conclave, looks=True):
    if not on:
        with kind(OFF) as server:
            yield server
        return
    words = ["--admin.console", "on", "--trace.endpoint", collector.url, "--trace.sample", "100"]
    with kind(words, admin=True) as server:
        looker = Looker(server) if looks else None
        yield server
        if looks and looker.lines == 0:
            sys.exit("bench: nobody looked at the console")


def load(binary, server, op, *more):
    words = [binary, server.host, op, str(SESSIONS), str(IN_FLIGHT), *map(str, more)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(words)} failed: {done.stderr.strip()}\n{server.log_tail()}")
    return re.search(r'"ops_per_s": (\d+)', done.stdout)[1]


def instructions(binary, collector):
    """{op: {"off": per request, "on": per request, "ratios": [...]}}"""
    found = {}
    for op in OPS:
        figures = {"off": [], "on": []}
        for _ in range(COUNT_PAIRS):
            for on in (False, True):
                totals = []
                for count in COUNTS:
                    with everything(on, collector, Counted, looks=False) as server:
                        load(binary, server, op, "--count", count)
                        totals.append(server.instructions())
                figures["on" if on else "off"].append(round((totals[1] - totals[0]) / (COUNTS[1] - COUNTS[0]), 1))
        found[op] = judged(figures)
        print(f"instructions of the server per {op}: {found[op]}", flush=True)
    return found


def looking(collector):
    totals = []
    for seconds in LOOKS_S:
        with everything(True, collector, Counted) as server:
            time.sleep(seconds)
            totals.append(server.instructions())
    found = round((totals[1] - totals[0]) / (LOOKS_S[1] - LOOKS_S[0]))
    print(f"instructions of the server per second while somebody looks: {found}", flush=True)
    return found


def judged(figures):
    ratios = [round(on / off, 4) for off, on in zip(figures["off"], figures["on"])]
    return {"off": statistics.median(figures["off"]), "on": statistics.median(figures["on"]),
            "ratio": statistics.median(ratios), "ratios": ratios}


def throughput(binary, collector):
    """{"throughput": {op: ...}, "cpu_us": {op: ...}}, as judged returns them"""
    found = {"throughput": {}, "cpu_us": {}}
    with everything(False, collector) as off, everything(True, collector) as on:
        for op in OPS:
            rates, times = {"off": [], "on": []}, {"off": [], "on": []}
            for number in range(-1, PAIRS):
                for name, server in (("off", off), ("on", on))[::-1 if number % 2 else 1]:
                    before_s = cpu_s(server)
                    rate = int(load(binary, server, op, "--seconds", SECONDS, "--warm-up", 0))
                    if number >= 0:
                        rates[name].append(rate)
                        times[name].append(round((cpu_s(server) - before_s) * 1e6 / (rate * SECONDS), 3))
            found["throughput"][op], found["cpu_us"][op] = judged(rates), judged(times)
            print(f"{op} per second: {found['throughput'][op]}\nmicroseconds of the server per {op}: {found['cpu_us'][op]}", flush=True)
    return found


def memory(binary, collector):
    peaks = {}
    for on in (False, True):
        with everything(on, collector) as server:
            for op in OPS:
                load(binary, server, op, "--count", MEMORY_REQUESTS)
            peaks["on" if on else "off"] = server.memory_kb()[1]
    print(f"peak of memory in kB: {peaks}", flush=True)
    return peaks


def measure(binary):
    """What results.json keeps; without valgrind no instructions."""
    with Sink() as collector:
        results = {"load_average": round(os.getloadavg()[0], 1)}
        if shutil.which("valgrind"):
            results["instructions"] = instructions(binary, collector)
            results["looking"] = looking(collector)
        else:
            print("no valgrind (Debian: valgrind): no instructions are counted; results.json gets only throughput, time and memory",
                  flush=True)
        results.update({**throughput(binary, collector), "memory_kb": memory(binary, collector)})
        results["bytes_of_traces"] = collector.bytes
    return results


def main():
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        binary = os.path.join(folder, "load")
        subprocess.run(["cc", "-O2", "-std=gnu11", "-o", binary, os.path.join(ROOT, "bench", "load.c")], check=True)
        print(measure(binary))


if __name__ == "__main__":
    main()
