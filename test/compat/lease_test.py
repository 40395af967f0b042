#!/usr/bin/env python3
"""Leases on our server and on Apache ZooKeeper: examples/lease.c as several processes, killed, stopped and revoked.

Promise: the nodes of a lease go when its holder is killed or stopped for its time to live, and not before; another process that
knows the id keeps it alive or ends it; a value of the behaviour "stay" survives its holder and can be acquired by another.
Limits: one server; skipped without a C compiler, and on ZooKeeper without its jars.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import cases  # noqa: E402
import conclave  # noqa: E402
import zookeeper  # noqa: E402

PATIENCE_S = 60
TTL_MS = 4000


class Leases:
    """The example, compiled, on one server."""

    def __init__(self, folder, server):
        build = os.environ.get("CONCLAVE_BUILD") or os.path.join(ROOT, "build")
        self.program = os.path.join(folder, "lease")
        self.environment = {**os.environ, "CONCLAVE_SERVER": server.host}
        self.holders = []
        subprocess.run(["cc", "-I", os.path.join(ROOT, "include"), "-I", os.path.join(build, "include"),
                        os.path.join(ROOT, "examples", "lease.c"), "-o", self.program, "-L", build, "-lconclave",
                        f"-Wl,-rpath,{build}"], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.holders:
            if process.poll() is None:
                process.kill()
                process.wait()

    def hold(self, path, data, behaviour, ttl_ms=TTL_MS):
        """A holder and the id of its lease; the id is None when another holds the value."""
        process = subprocess.Popen([self.program, "hold", str(ttl_ms), path, data, behaviour], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment)
        self.holders.append(process)
        name = process.stdout.readline().strip()
        if not name:
            assert "held by another" in process.stderr.read()
            return process, None
        assert "holds for" in process.stdout.readline()
        return process, name

    def run(self, *words):
        run = subprocess.run([self.program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                             env=self.environment, timeout=PATIENCE_S)
        return run.returncode, run.stdout + run.stderr

    def get(self, path):
        run = subprocess.run([conclave.program(), "get", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             check=False, env=self.environment, timeout=PATIENCE_S)
        return run.stdout.strip() if run.returncode == 0 else None


def until(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def killed_and_stopped(leases):
    """Each ends its own lease alone; the servers end it, so a stopped holder does not keep it."""
    for number in (signal.SIGKILL, signal.SIGSTOP):
        first, _ = leases.hold("/app/first", "one", "delete")
        second, _ = leases.hold("/app/second", "two", "delete")
        begin = time.monotonic()
        first.send_signal(number)
        assert leases.hold("/app/first", "again", "delete")[1] is None
        until(lambda: leases.get("/app/first") is None, "the node of a dead holder stayed")
        took = time.monotonic() - begin
        assert took > TTL_MS / 1000 / 3, took
        assert leases.get("/app/second") == "two"
        if number == signal.SIGSTOP:
            first.send_signal(signal.SIGCONT)
            assert "ended" in first.stdout.readline()
        second.send_signal(signal.SIGTERM)
        assert second.wait(PATIENCE_S) == 0
        assert leases.get("/app/second") is None


def kept_alive_from_elsewhere(leases):
    holder, name = leases.hold("/app/kept", "kept", "delete")
    holder.kill()
    holder.wait()
    end = time.monotonic() + 3 * TTL_MS / 1000
    while time.monotonic() < end:
        code, text = leases.run("keep-alive", name)
        assert code == 0 and f"of {TTL_MS} ms" in text, text
        time.sleep(TTL_MS / 1000 / 8)
    assert leases.get("/app/kept") == "kept"
    until(lambda: leases.get("/app/kept") is None, "a lease that nobody renews stayed")
    code, text = leases.run("keep-alive", name)
    assert code == 1 and "expired" in text, text


def revoked_from_elsewhere(leases):
    holder, name = leases.hold("/app/revoked", "x", "delete", ttl_ms=8000)
    assert leases.run("keep-alive", name)[0] == 0  # beside a holder that lives
    assert leases.run("revoke", name) == (0, "")
    assert leases.get("/app/revoked") is None
    assert "ended" in holder.stdout.readline()
    assert holder.wait(PATIENCE_S) == 0


def value_stays(leases):
    tokens = []
    for turn in range(3):
        until(lambda: leases.get("/app/value.holder") is None, "the holder's node stayed")
        holder, _ = leases.hold("/app/value", f"of {turn}", "stay")
        assert leases.hold("/app/value", "another", "stay")[1] is None
        tokens.append(leases.get("/app/value"))
        holder.kill()
        holder.wait()
        assert leases.get("/app/value") == f"of {turn}"
    assert tokens == ["of 0", "of 1", "of 2"], tokens


def main():
    missing = conclave.why_missing() or (None if shutil.which("cc") else "no C compiler")
    if missing:
        return cases.skip_all(missing)

    def on(server):
        def play():
            with tempfile.TemporaryDirectory() as folder, server() as running, Leases(folder, running) as leases:
                for case in (killed_and_stopped, kept_alive_from_elsewhere, revoked_from_elsewhere, value_stays):
                    case(leases)
        return play

    on_conclave = on(lambda: conclave.Conclave(tick_ms=500))
    on_zookeeper = on(lambda: zookeeper.ZooKeeper(tick_ms=500))
    on_conclave.__name__, on_zookeeper.__name__ = "on_conclave", "on_zookeeper"
    return cases.run([on_conclave] if zookeeper.why_missing() else [on_conclave, on_zookeeper], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
