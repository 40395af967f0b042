#!/usr/bin/env python3
"""`conclave elect` on Apache ZooKeeper as on our own server: hand-over after kill -9, clean hand-over, a server's restart.

Promise: real processes; the token of each leader is larger than the one before it, and the command of a leader that was
killed is gone before the next leader's command starts.
Limits: one server each; test/system tests three servers under faults.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import conclave  # noqa: E402
import pair  # noqa: E402

TICK_MS = 500
SESSION_S = 3
PATIENCE_S = 20
LEADER = 'echo "$$ $CONCLAVE_TOKEN"; exec sleep 600'


class Candidate:
    """A `conclave elect` process whose command tells its process id and token and then waits."""

    def __init__(self, server, path, name):
        self.name = name
        self.process = subprocess.Popen(
            [conclave.program(), "elect", path, "--server", server.host, "--session", f"{SESSION_S}s", "--id", name,
             "--", "sh", "-c", LEADER], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.split())

    def wait_to_lead(self):
        """(process id, token) of its command."""
        try:
            pid, token = self.lines.get(timeout=PATIENCE_S)
        except queue.Empty:
            self.process.kill()
            raise AssertionError(f"{self.name} did not lead: {self.process.stderr.read()}") from None
        return int(pid), int(token)

    def leads(self):
        return not self.lines.empty()

    def end(self, number=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


class Candidates:
    """Candidates of a case; all are ended with it."""

    def __init__(self, server, path):
        self.server = server
        self.path = path
        self.all = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for candidate in reversed(self.all):
            candidate.end(signal.SIGTERM)
            candidate.process.stdout.close()
            candidate.process.stderr.close()

    def stand(self, name):
        """Starts a candidate and waits until it is in the queue."""
        self.all.append(Candidate(self.server, self.path, name))
        deadline = time.monotonic() + PATIENCE_S
        while name not in self.listed():
            assert time.monotonic() < deadline, f"{name} does not stand: {self.listed()}"
            time.sleep(0.05)
        return self.all[-1]

    def listed(self):
        done = subprocess.run([conclave.program(), "elect", "--list", self.path, "--server", self.server.host],
                              capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        return done.stdout


def running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def hand_over_after_kill(server):
    with Candidates(server, "/elect-kill") as candidates:
        first = candidates.stand("first")
        pid, token = first.wait_to_lead()
        second = candidates.stand("second")
        third = candidates.stand("third")
        assert not second.leads() and not third.leads()
        listed = candidates.listed()
        assert listed.index("first") < listed.index("second") < listed.index("third"), listed
        began = time.monotonic()
        first.end(signal.SIGKILL)
        second_pid, second_token = second.wait_to_lead()
        took = time.monotonic() - began
        assert not running(pid), "the killed leader's command is still running"
        assert second_token > token, (token, second_token)
        assert took < SESSION_S + 4 * TICK_MS / 1000 + 2, f"hand-over took {took:.1f} s"
        assert running(second_pid) and not third.leads()
        return ["second leads"]


def clean_hand_over(server):
    with Candidates(server, "/elect-clean") as candidates:
        first = candidates.stand("first")
        pid, token = first.wait_to_lead()
        second = candidates.stand("second")
        began = time.monotonic()
        code = first.end(signal.SIGTERM)
        _, second_token = second.wait_to_lead()
        took = time.monotonic() - began
        assert not running(pid) and second_token > token
        assert took < SESSION_S, f"hand-over took {took:.1f} s, as long as after a kill"
        return [f"exit code {code}"]


def withdrawal(server):
    """A waiter that leaves wakes no other candidate; the ones behind it move up."""
    with Candidates(server, "/elect-withdraw") as candidates:
        first = candidates.stand("first")
        first.wait_to_lead()
        second, third = candidates.stand("second"), candidates.stand("third")
        second.end(signal.SIGTERM)
        assert not third.leads()
        first.end(signal.SIGTERM)
        third.wait_to_lead()
        return ["third leads", "second" in candidates.listed()]


def server_restart(server):
    """A restart shorter than the lease changes nothing; one way or the other there is one leader afterwards."""
    with Candidates(server, "/elect-restart") as candidates:
        first = candidates.stand("first")
        pid, token = first.wait_to_lead()
        second = candidates.stand("second")
        server.restart()
        end = time.monotonic() + 1  # on a busy machine the restart may take as long as the lease
        while running(pid) and time.monotonic() < end:
            assert not second.leads() or not running(pid)
            time.sleep(0.02)
        if running(pid):
            first.end(signal.SIGTERM)
        assert second.wait_to_lead()[1] > token
        assert not running(pid)
        return []


if __name__ == "__main__":
    pair.main((hand_over_after_kill, clean_hand_over, withdrawal, server_restart), tick_ms=TICK_MS)
