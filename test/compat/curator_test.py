#!/usr/bin/env python3
"""Debian's Curator 5.4 (Java) on Apache ZooKeeper and on ours: its recipes, caches and discovery.

Promise: each case of test/compat/curator/ has clients that really contend, some over expiry or a kill -9 of the
server; it asserts what must hold, and what it says must be the same on both servers.
Limits: skipped without javac or Debian's jars; ServiceDiscovery alone without its jar. One JVM for each server.
"""

import atexit
import glob
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import pair  # noqa: E402

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "curator")
JARS = "/usr/share/java"
NEEDED = ("curator-recipes", "curator-framework", "curator-client", "zookeeper", "guava", "slf4j-simple",
          "jackson-databind", "jackson-core", "jackson-annotations")
DISCOVERY = "curator-x-discovery"
PATIENCE_S = 90

CASES = (
    "Elections latch", "Elections latchExpiry", "Elections latchRestart", "Elections selector",
    "Elections selectorInterrupted",
    "Locks mutex", "Locks mutexTimeout", "Locks mutexExpiry", "Locks revocation", "Locks readWrite",
    "Locks semaphore", "Locks semaphoreMutex", "Locks multiLock",
    "Queues simpleQueue", "Queues queue", "Queues priorityQueue", "Queues delayQueue", "Queues barrier",
    "Queues doubleBarrier",
    "Caches curatorCache", "Caches curatorCacheSingle", "Caches treeCache", "Caches nodeCache",
    "Caches pathChildrenCache", "Caches persistentWatcher", "Caches restart", "Caches expiry",
    "Nodes persistentNode", "Nodes persistentNodeRestart", "Nodes persistentTtlNode", "Nodes groupMember",
    "Nodes sharedCount", "Nodes atomicLong", "Nodes atomicLongUnderLock",
    "Framework creations", "Framework containers", "Framework transactions", "Framework accessControl",
    "Framework watches", "Framework namespaces",
    "Discovery services", "Discovery restart",
)


def jar(name):
    return os.path.join(JARS, name + ".jar")


def why_missing():
    """Why Curator cannot run here, or None."""
    if not shutil.which("javac") or not shutil.which("java"):
        return "no javac (Debian: default-jdk-headless)"
    missing = [jar(name) for name in NEEDED if not os.path.exists(jar(name))]
    return f"no {' '.join(missing)} (Debian: libcurator-recipes-java)" if missing else None


class Program:
    """The compiled cases, and one JVM for each server that runs them."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="conclave-test-curator-")
        atexit.register(self.close)
        self.discovery = os.path.exists(jar(DISCOVERY))
        self.class_path = ":".join([self.folder, *map(jar, NEEDED), *([jar(DISCOVERY)] if self.discovery else [])])
        self.machines = {}
        self.losses = 0  # of a connection, by the clients of all cases

    def compile(self):
        sources = [path for path in sorted(glob.glob(os.path.join(SOURCE, "*.java")))
                   if self.discovery or os.path.basename(path) != "Discovery.java"]
        done = subprocess.run(["javac", "-nowarn", "-d", self.folder, "-cp", self.class_path, *sources],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"javac failed:\n{done.stderr}")

    def machine(self, server):
        """The server's JVM, and the file its error stream goes to."""
        if server.host not in self.machines:
            errors = open(os.path.join(self.folder, f"{server.name}.log"), "w+b")
            process = subprocess.Popen(
                ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
                 "-cp", self.class_path, "Main", server.host],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
            self.machines[server.host] = process, errors
        return self.machines[server.host]

    def drop(self, server):
        process, errors = self.machines.pop(server.host)
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
        errors.close()

    def run(self, case, server):
        """The lines that the case said; an exception with its stack when it failed."""
        process, errors = self.machine(server)
        begin = errors.seek(0, os.SEEK_END)
        process.stdin.write(case.encode() + b"\n")
        process.stdin.flush()
        said = []
        text = b""
        deadline = time.monotonic() + PATIENCE_S
        verdict = "took too long"
        while time.monotonic() < deadline and verdict == "took too long":
            if not select.select([process.stdout], [], [], 1)[0]:
                continue
            part = os.read(process.stdout.fileno(), 65536)
            if not part:
                verdict = "its JVM ended"
            *lines, text = (text + part).split(b"\n")
            for line in lines:
                if line.startswith(b"= "):
                    said.append(line[2:].decode())
                elif line == b"! restart":
                    server.restart(hard=True)
                    process.stdin.write(b"restarted\n")
                    process.stdin.flush()
                elif line.startswith(b"! lost "):
                    self.losses += int(line.split()[2])
                else:
                    verdict = line.decode()
        if verdict == "! ok":
            return said
        errors.flush()
        errors.seek(begin)
        stack = errors.read().decode("utf-8", "replace")
        if verdict != "! failed":
            self.drop(server)
        raise AssertionError("\n".join([verdict, *said, stack]))

    def close(self):
        for process, errors in self.machines.values():
            process.kill()
            process.wait()
            errors.close()
        self.machines.clear()
        shutil.rmtree(self.folder, ignore_errors=True)


def cases_of(program):
    def make(name):
        def case(server):
            if name.startswith("Discovery") and not program.discovery:
                raise pair.Skip(f"no {jar(DISCOVERY)} (Debian: libcurator-discovery-java)")
            return program.run(name, server)
        case.__name__ = name.replace(" ", ".")
        return case
    return [make(name) for name in CASES]


def main():
    missing = why_missing()
    if missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    program = Program()
    program.compile()
    pair.main(cases_of(program), tick_ms=500, at_once=True, theirs_only={"properties": {
        "zookeeper.extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "200",
    }}, ours_only={"options": ["--extendedTypesEnabled", "yes", "--znode.container.checkIntervalMs", "200"]})


if __name__ == "__main__":
    main()
