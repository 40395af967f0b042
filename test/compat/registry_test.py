#!/usr/bin/env python3
"""The service registry beside Curator's x-discovery (Debian's Curator 5.4), on our server and on Apache ZooKeeper.

Promise: Curator finds what examples/registry.c registers, with address, port, type and URI; that program finds what Curator
registers; both notice when the other's goes.
Limits: skipped without javac, Debian's jars or a C compiler.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, HERE)
import cases  # noqa: E402
import conclave  # noqa: E402
import curator_test  # noqa: E402
import zookeeper  # noqa: E402

PATIENCE_S = 60
BASE = "/app/services"


def why_missing():
    missing = conclave.why_missing() or zookeeper.why_missing() or curator_test.why_missing()
    if not missing and not os.path.exists(curator_test.jar(curator_test.DISCOVERY)):
        missing = "no Curator discovery (Debian: libcurator-discovery-java)"
    if not missing and not shutil.which("cc"):
        missing = "no C compiler"
    return missing


class Peers:
    """The example and the Java program, compiled."""

    def __init__(self, folder):
        build = os.environ.get("CONCLAVE_BUILD") or os.path.join(ROOT, "build")
        self.folder = folder
        self.example = os.path.join(folder, "registry")
        self.class_path = ":".join([folder, *map(curator_test.jar, (*curator_test.NEEDED, curator_test.DISCOVERY))])
        subprocess.run(["cc", "-I", os.path.join(ROOT, "include"), "-I", os.path.join(build, "include"),
                        os.path.join(ROOT, "examples", "registry.c"), "-o",
                        self.example, "-L", build, "-lconclave", f"-Wl,-rpath,{build}"], check=True)
        subprocess.run(["javac", "-nowarn", "-d", folder, "-cp", self.class_path, os.path.join(HERE, "RegistryPeer.java")],
                       check=True)

    def ours(self, server, port, *more):
        log = tempfile.TemporaryFile()
        process = subprocess.Popen([self.example, BASE, "shop", str(port), server.host, *more], stdout=log,
                                   stderr=subprocess.STDOUT)
        return process, log

    def curator(self, server):
        return subprocess.Popen(["java", "-cp", self.class_path, "RegistryPeer", server.host, BASE], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=open(os.path.join(self.folder, "java.log"), "ab"))


def ask(peer, line):
    peer.stdin.write(line + "\n")
    peer.stdin.flush()
    return peer.stdout.readline().strip()


def until(function, wanted):
    """Waits until the function's text matches."""
    deadline = time.monotonic() + PATIENCE_S
    while not re.search(wanted, text := function()):
        assert time.monotonic() < deadline, f"never {wanted!r}: {text}"
        time.sleep(0.1)


def both_ways(peers, server):
    peer = peers.curator(server)
    process, log = peers.ours(server, 8001)
    try:
        def told():
            return re.findall(r".* instances.*", os.pread(log.fileno(), 1 << 20, 0).decode())[-1:]

        def last():
            return "".join(told())
        until(lambda: ask(peer, "list shop"), r"^\[127\.0\.0\.1:8001:null:DYNAMIC:true:true:http://127\.0\.0\.1:8001/shop\]$")
        assert ask(peer, "register java 8002 hello") == "registered"
        until(last, r"2 instances:.*127\.0\.0\.2:8002")
        until(lambda: ask(peer, "list shop"),
              r"^\[127\.0\.0\.1:8001:null:DYNAMIC:true:true:http://127\.0\.0\.1:8001/shop 127\.0\.0\.2:8002:hello:DYNAMIC:true:true:http://127\.0\.0\.2:8002/of/java\]$")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        until(lambda: ask(peer, "list shop"), r"^\[127\.0\.0\.2:8002:hello:DYNAMIC:true:true:http://127\.0\.0\.2:8002/of/java\]$")
        process, log = peers.ours(server, 8003)
        until(last, r"2 instances")
        peer.stdin.write("end\n")
        peer.stdin.close()
        assert peer.wait(PATIENCE_S) == 0
        until(last, r"1 instances: 127\.0\.0\.1:8003")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    finally:
        for each in (peer, process):
            if each.poll() is None:
                each.kill()
                each.wait()


def lasting(peers, server):
    """STATIC and PERMANENT instances: each finds those of the other, also when their programs were killed."""
    peer = peers.curator(server)
    processes = [peer]
    try:
        assert ask(peer, "register kept 8002 hello PERMANENT") == "registered"
        assert ask(peer, "names") == "shop"
        for _ in range(3):
            process, log = peers.ours(server, 8001, "static")
            processes.append(process)
            until(lambda: os.pread(log.fileno(), 1 << 20, 0).decode(), r"(?s)services: shop\n.*2 instances:|2 instances:.*services: shop\n")
            process.kill()
            process.wait()
            assert ask(peer, "query shop 8001") == "8001 STATIC"
        peer.kill()
        peer.wait()
        process, log = peers.ours(server, 8001, "static")
        processes.append(process)
        until(lambda: os.pread(log.fileno(), 1 << 20, 0).decode(), r"2 instances:.* 127\.0\.0\.2:8002")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        peer = peers.curator(server)
        processes.append(peer)
        assert ask(peer, "query shop 8001") == "none"
        assert ask(peer, "query shop kept") == "8002 PERMANENT"
    finally:
        for each in processes:
            if each.poll() is None:
                each.kill()
                each.wait()


def main():
    missing = why_missing()
    if missing:
        return cases.skip_all(missing)
    with tempfile.TemporaryDirectory() as folder:
        peers = Peers(folder)

        def on_conclave():
            with conclave.Conclave(tick_ms=500) as server:
                both_ways(peers, server)
                lasting(peers, server)

        def on_zookeeper():
            with zookeeper.ZooKeeper(tick_ms=500) as server:
                both_ways(peers, server)
                lasting(peers, server)
        return cases.run([on_conclave, on_zookeeper], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
