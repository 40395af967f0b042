#!/usr/bin/env python3
"""Leases on our server and on Apache ZooKeeper: examples/lease.c as several processes, killed, stopped and revoked.

Promise: the nodes of a lease go when its holder is killed or stopped for its time to live, and not before; another process that
knows the id keeps it alive or ends it; a value of the behaviour "stay" survives its holder and can be acquired by another.
`conclave lease` does the same from the shell.
Limits: one server; skipped without a C compiler, and on ZooKeeper without its jars.
"""

import json
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

    def start(self, *words):
        """`conclave lease`, running on."""
        process = subprocess.Popen([conclave.program(), "lease", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment)
        self.holders.append(process)
        return process

    def lease(self, *words, code=0, text=""):
        """What `conclave lease` prints; its exit code must be this one."""
        run = subprocess.run([conclave.program(), "lease", *words], input=text, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, check=False, env=self.environment, timeout=PATIENCE_S)
        assert run.returncode == code, f"{words}: exit {run.returncode}, not {code}\n{run.stdout}{run.stderr}"
        return run.stdout if code == 0 else run.stderr


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


def command_uses_a_lease_by_its_id(leases):
    name = leases.lease("grant", "9s", "--name", "batch").strip()
    other = json.loads(leases.lease("grant", "9s", "--list", "", "--json"))
    session = f"0x{name.split('-')[0]}"
    assert other["ttl_ms"] == 9000 and other["session"] == f"0x{other['id'].split('-')[0]}", other
    keeps = [leases.start("keep", one) for one in (name, other["id"])]
    for process in keeps:
        assert process.stdout.readline().split()[-1] == "9000"
    assert int(leases.lease("acquire", name, "/cmd/value", "one")) > 0
    assert leases.lease("acquire", name, "/cmd/deleted", "--behaviour", "delete", "--json", text="from the input")
    assert leases.get("/cmd/deleted") == "from the input"
    subprocess.run([conclave.program(), "create", "/cmd/plain", "x"], check=True, env=leases.environment,
                   stdout=subprocess.DEVNULL)
    leases.lease("attach", name, "/cmd/plain")
    info = json.loads(leases.lease("info", name, "--json"))
    assert info["session"] == session and info["ttl_ms"] == 9000 and 0 < info["left_ms"] <= 9000, info
    listed = f"/leases/{int(session, 16):016x}"
    assert info["nodes"] == ["/cmd/deleted", "/cmd/plain", "/cmd/value.holder", listed], info
    assert leases.lease("info", name).splitlines()[2:] == info["nodes"]
    entries = json.loads(leases.lease("list", "--json"))["leases"]
    assert [(entry["session"], entry["name"], entry["ttl_ms"]) for entry in entries] == [(session, "batch", 9000)], entries
    assert leases.lease("list").splitlines()[0] == "SESSION\tTTL_MS\tSINCE\tNAME"
    assert "another lease holds it" in leases.lease("acquire", other["id"], "/cmd/value", "two", code=75)
    assert "does not belong" in leases.lease("release", other["id"], "/cmd/value", code=1)
    assert "--behaviour" in leases.lease("acquire", name, "/cmd/value", "x", "--behaviour", "delete", code=78)
    leases.lease("release", name, "/cmd/value")
    assert leases.get("/cmd/value") == "one"  # it stays
    leases.lease("acquire", other["id"], "/cmd/value", "two")
    leases.lease("release", name, "/cmd/deleted", "--behaviour", "delete")
    assert leases.get("/cmd/deleted") is None
    leases.lease("revoke", name)
    assert leases.get("/cmd/plain") is None
    assert leases.lease("list") == ""
    assert keeps[0].wait(PATIENCE_S) == 76
    assert "the lease is over" in leases.lease("info", name, code=76)
    leases.lease("revoke", name, code=76)
    keeps[1].send_signal(signal.SIGTERM)
    assert keeps[1].wait(PATIENCE_S) == 128 + signal.SIGTERM
    leases.lease("keep", other["id"], "--once")  # it has lived on
    leases.lease("revoke", other["id"])
    assert leases.get("/cmd/value") == "two" and leases.get("/cmd/value.holder") is None


def command_keeps_a_lease(leases):
    name = leases.lease("grant", "9s").strip()
    keep = leases.start("keep", name)
    assert keep.stdout.readline() != ""
    leases.lease("acquire", name, "/kept", "x", "--behaviour", "delete")
    time.sleep(11)
    assert leases.get("/kept") == "x"
    keep.kill()
    until(lambda: leases.get("/kept") is None, "a lease whose keeper was killed stayed")


def command_runs_with_a_lease(leases):
    script = (f"{conclave.program()} lease acquire - /active up --behaviour delete >&2 && {conclave.program()} get /active; "
              "echo; echo $CONCLAVE_LEASE_ID; exit 3")
    run = leases.start("run", "5s", "--", "sh", "-c", script)
    data, name = run.communicate(timeout=PATIENCE_S)[0].split()
    assert data == "up" and run.returncode == 3, (data, run.returncode)
    assert leases.get("/active") is None
    leases.lease("info", name, code=76)
    lost = leases.start("run", "5s", "--", "sh", "-c", "echo $CONCLAVE_LEASE_ID; exec sleep 600")
    leases.lease("revoke", lost.stdout.readline().strip())
    assert lost.wait(PATIENCE_S) == 76
    assert "the lease is over" in lost.stderr.read()
    stopped = leases.start("run", "5s", "--", "sh", "-c", "echo in; exec sleep 600")
    assert stopped.stdout.readline() == "in\n"
    stopped.send_signal(signal.SIGTERM)
    assert stopped.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert leases.lease("list") == ""


def command_refuses_wrong_words(leases):
    for words in (("grant", "0"), ("grant", "5"), ("run", "5s"), ("info", "1-2-3"), ("keep", "-"), ("list", "--list", ""),
                  ("attach", "1-2-3", "x"), ("grant", "5s", "--once"), ("info", "1-2-3", "--behaviour", "delete"),
                  ("list", "--name", "x"), ("renew", "x")):
        leases.lease(*words, code=64)
    assert "cannot connect" in leases.lease("grant", "5s", "--server", "127.0.0.1:1", "--timeout", "300ms", code=69)


def main():
    missing = conclave.why_missing() or (None if shutil.which("cc") else "no C compiler")
    if missing:
        return cases.skip_all(missing)

    def on(server):
        def play():
            with tempfile.TemporaryDirectory() as folder, server() as running, Leases(folder, running) as leases:
                for case in (killed_and_stopped, kept_alive_from_elsewhere, revoked_from_elsewhere, value_stays,
                             command_uses_a_lease_by_its_id, command_keeps_a_lease, command_runs_with_a_lease,
                             command_refuses_wrong_words):
                    case(leases)
        return play

    on_conclave = on(lambda: conclave.Conclave(tick_ms=500))
    on_zookeeper = on(lambda: zookeeper.ZooKeeper(tick_ms=500))
    on_conclave.__name__, on_zookeeper.__name__ = "on_conclave", "on_zookeeper"
    return cases.run_beside([on_conclave] if zookeeper.why_missing() else [on_conclave, on_zookeeper], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
