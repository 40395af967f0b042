#!/usr/bin/env python3
"""Latency of writes with and without a backup at the same time, in pairs.

    bench/backup_bench.py [--pairs N] [--seconds N] [--load PART | --rate N] [--nodes N]

Promise: one server that syncs; the highest rate of writes is measured first, then pairs of runs at a part of it (--load, 0.7), or
at --rate: one without, one with backups one after the other all the time, in changing order. Latencies count from when a write was due.
Prints each run and the medians. Limits: server, load and backup's reader share the machine, so the rest of what runs on it
counts, too; the reader has the lowest priority.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "support"))

from conclave import Conclave, program  # noqa: E402

SUPER = ["--DigestAuthenticationProvider.superDigest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="]  # of super:test


class Backups:
    """Backups all the time, while it is entered."""

    def __init__(self, server):
        self.words = ["nice", "-n", "19", program(), "backup", "-", "--admin", f"127.0.0.1:{server.admin_port}", "--auth",
                      "digest:super:test", "--json"]
        self.count = self.bytes = 0
        self.ending = False
        self.thread = threading.Thread(target=self._run)
        self.process = None

    def _run(self):
        while not self.ending:
            self.process = subprocess.Popen(self.words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            told = self.process.communicate()[1]
            if self.process.returncode == 0:
                self.count += 1
                self.bytes += json.loads(told)["bytes"]
            elif "HTTP 429" in told:
                time.sleep(0.1)  # the server has not yet seen that the last one ended
            elif not self.ending:
                raise RuntimeError(told)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ending = True
        if self.process:
            self.process.terminate()
        self.thread.join()


def bench(server, *more):
    words = [program(), "bench", server.host, "--mix", "set=100", "--sessions", "16", "--data", "200", "--warm-up", "1s", "--json", *more]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr}{done.stdout}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--rate", type=int)
    parser.add_argument("--nodes", type=int, default=100000)
    options = parser.parse_args()
    p99s = {False: [], True: []}
    with Conclave(SUPER, admin=True) as server:
        bench(server, "--nodes", str(options.nodes), "--data", "1000", "--keep", "--duration", "1s")
        most = bench(server, "--outstanding", "64", "--duration", "5s")["total"]["per_second"]
        rate = options.rate or int(most * options.load)
        print(f"at most {most:.0f} writes/s; measured at {rate}", flush=True)
        for i in range(options.pairs):
            for with_backup in (False, True) if i % 2 == 0 else (True, False):
                backups = Backups(server)
                words = ["--rate", str(rate), "--outstanding", "512", "--duration", f"{options.seconds}s"]
                if with_backup:
                    with backups:
                        total = bench(server, *words)["total"]
                else:
                    total = bench(server, *words)["total"]
                p99s[with_backup].append(total["p99_us"])
                print(f"{'with   ' if with_backup else 'without'} {total['per_second']:.0f}/s p50 {total['p50_us']} us p99 {total['p99_us']} us"
                      f" max {total['max_us']} us" + (f"; {backups.count} backups, {backups.bytes >> 20} MiB" if with_backup else ""),
                      flush=True)
    without, during = statistics.median(p99s[False]), statistics.median(p99s[True])
    print(f"median p99 without {without:.0f} us, with {during:.0f} us: {100 * (during / without - 1):+.0f} %")


if __name__ == "__main__":
    main()
