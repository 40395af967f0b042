"""Links between servers as processes (peer_actor.c): killed, stopped, strange ones, and what a million frames cost.

Promise: loopback only; what it starts it ends by pid. Times are upper bounds with room for a busy machine; the figures
that it prints are what was measured.
"""

import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from server import free_port  # noqa: E402

BUILD = os.environ.get("CONCLAVE_BUILD", "build")
PROGRAM = os.path.join(BUILD, "test", "system", "peer_actor")
SANITIZED = "san" in os.path.basename(os.path.abspath(BUILD))
WAIT_S = 60
PATIENT_MS = 20000  # where the load is the point, and not how soon silence is noticed
CASES = []


def case(function):
    CASES.append(function)
    return function


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


class Actor:
    """One process; its lines come with the time of their arrival."""

    def __init__(self, number, ports, secret=None, silence_ms=0, prefix=()):
        words = [*prefix, PROGRAM, str(number), *map(str, ports), "--silence", str(silence_ms),
                 *(["--secret", secret] if secret else [])]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put((time.monotonic(), line.rstrip("\n")))

    def next(self, pattern, seconds=10.0):
        """The first line that fits, and when it came; those before it are dropped."""
        end = time.monotonic() + seconds
        while True:
            try:
                at, line = self.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no line '{pattern}' within {seconds} s") from None
            if re.fullmatch(pattern, line):
                return line, at

    def wait(self, pattern, seconds=10.0):
        """When the first line came that fits."""
        return self.next(pattern, seconds)[1]

    def never(self, pattern, seconds):
        """No line of this kind comes."""
        try:
            self.wait(pattern, seconds)
        except AssertionError:
            return
        raise AssertionError(f"a line '{pattern}'")

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def signal(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()


class Group:
    """Servers 1 to n on free ports; `with` ends them."""

    def __init__(self, n, secret=None, silence_ms=0):
        self.ports = [free_port() for _ in range(n)]
        self.secret = secret
        self.silence_ms = silence_ms
        self.actors = {}

    def start(self, number, prefix=(), secret=None):
        self.actors[number] = Actor(number, self.ports, secret or self.secret, self.silence_ms, prefix)
        return self.actors[number]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for actor in self.actors.values():
            actor.kill()


def write_secret(folder, name="secret", text="what the servers of this cluster share"):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    return path


def linked(group, *numbers):
    for number in numbers:
        group.start(number)
    for number in numbers:
        missing = {str(other) for other in numbers if other != number}
        while missing:
            line, _ = group.actors[number].next("up (" + "|".join(missing) + ")")
            missing.remove(line.split()[1])


@case
def killed_and_back():
    """kill -9: known at once, linked again at once."""
    downs, ups = [], []
    with Group(3, silence_ms=PATIENT_MS) as group:
        linked(group, 1, 2, 3)
        for _ in range(10):
            before = time.monotonic()
            group.actors[3].kill()
            downs.append(max(group.actors[n].wait("down 3", WAIT_S) for n in (1, 2)) - before)
            time.sleep(0.3)
            before = time.monotonic()
            group.start(3)
            ups.append(max(group.actors[n].wait("up 3", WAIT_S) for n in (1, 2)) - before)
        group.actors[1].never("down 2", 0.1)
    print(f"  killed: known after {1000 * max(downs):.0f} ms at most, linked again after {1000 * max(ups):.0f} ms at most")
    expect(max(downs) < PATIENT_MS / 4000, f"known after {downs}")  # less than what silence takes
    expect(max(ups) < 10, f"linked again after {ups}")


@case
def stopped_and_continued():
    """SIGSTOP: the kernel still answers, so that only silence tells."""
    with Group(2, silence_ms=2000) as group:
        linked(group, 1, 2)
        took = []
        for _ in range(3):
            before = time.monotonic()
            group.actors[2].signal(signal.SIGSTOP)
            took.append(group.actors[1].wait("down 2", WAIT_S) - before)
            time.sleep(0.5)
            group.actors[2].signal(signal.SIGCONT)
            group.actors[1].wait("up 2", WAIT_S)
            group.actors[2].wait("up 1", WAIT_S)
        print(f"  stopped: known after {1000 * min(took):.0f} to {1000 * max(took):.0f} ms")
        expect(1 < min(took) and max(took) < 10, f"known after {took}")


@case
def short_stop_is_forgiven():
    with Group(2, silence_ms=3000) as group:
        linked(group, 1, 2)
        group.actors[2].signal(signal.SIGSTOP)
        time.sleep(1.1)
        group.actors[2].signal(signal.SIGCONT)
        group.actors[1].never("down 2", 3)


@case
def wrong_secret():
    with tempfile.TemporaryDirectory() as folder:
        with Group(2, write_secret(folder)) as group:
            group.start(1)
            group.start(2, secret=write_secret(folder, "other", "what another cluster shares"))
            for actor in group.actors.values():  # once as who was called, once as who called, though both go on trying
                actor.wait("refused .*another secret.*")
                actor.wait("refused .*another secret.*")
            group.actors[1].never("up 2|refused.*", 1.5)


@case
def stranger_with_a_real_tls_client():
    """openssl s_client, with a secret of its own and without: no byte of the stream."""
    if not shutil.which("openssl"):
        return
    with tempfile.TemporaryDirectory() as folder:
        with Group(1, write_secret(folder)) as group:
            group.start(1).wait("listening")
            where = ["openssl", "s_client", "-connect", f"127.0.0.1:{group.ports[0]}"]
            for words in ([], ["-tls1_2"], ["-psk", "00" * 32, "-psk_identity", "conclave 1"],
                          ["-psk", "00" * 32, "-psk_identity", "x"]):
                done = subprocess.run(where + words, input=b"hello\n", capture_output=True, timeout=10, check=False)
                said = done.stdout + done.stderr
                expect(done.returncode != 0 and b"alert" in said.lower(), f"{words}: {said[-300:]}")
                expect(b"Verification: OK" not in said or b"Cipher is (NONE)" in said, f"{words}: {said[-300:]}")
            group.actors[1].wait("refused .*proves no secret|refused .*another secret")


def processor_seconds(group):
    """The CPU time of a group's processes so far."""
    ticks = 0
    for actor in group.actors.values():
        with open(f"/proc/{actor.process.pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def burst(group, count, size):
    """Seconds from the first frame to the last, of server 1 to server 2; and of processor, of both."""
    before, used = time.monotonic(), processor_seconds(group)
    group.actors[1].say(f"burst 2 {count} {size}")
    took = group.actors[2].wait(f"got {count} {count * size}", 120) - before
    return took, max(0.01, processor_seconds(group) - used)


@case
def bursts():
    """Small and large frames, plain and encrypted."""
    scale = 10 if SANITIZED else 1
    with tempfile.TemporaryDirectory() as folder:
        for name, secret in (("plain", None), ("encrypted", write_secret(folder))):
            with Group(2, secret, silence_ms=PATIENT_MS) as group:
                linked(group, 1, 2)
                small, small_cpu = burst(group, 1000000 // scale, 100)
                large, large_cpu = burst(group, 1000 // scale, 1 << 20)
                print(f"  {name}: {1000 / scale / small:.0f} k frames/s of 100 bytes ({1000 / scale / small_cpu:.0f} per "
                      f"second of processor), {1000 / scale / large:.0f} MiB/s in frames of 1 MiB "
                      f"({1000 / scale / large_cpu:.0f})")


def calls_of(path, names):
    """Number of the system calls in a summary of strace."""
    with open(path, encoding="utf-8") as file:
        rows = [line.split() for line in file]
    return sum(int(row[3]) for row in rows if len(row) > 4 and row[-1] in names)


@case
def few_system_calls():
    """A million frames: all frames of one turn leave in one call, and come in large pieces."""
    if not shutil.which("strace") or SANITIZED:
        print("  skipped: no strace, or it does not go with a sanitizer")
        return
    count, size = 1000000, 100
    with tempfile.TemporaryDirectory() as folder:
        with Group(2, silence_ms=PATIENT_MS) as group:
            for n in (1, 2):
                group.start(n, prefix=["strace", "-f", "-c", "-o", os.path.join(folder, str(n))])
            for n in (1, 2):
                group.actors[n].wait(f"up {3 - n}")
            took, _ = burst(group, count, size)
            for n in (1, 2):
                group.actors[n].say("quit")
                group.actors[n].process.wait(timeout=20)
            writes = calls_of(os.path.join(folder, "1"), ("write", "writev", "sendmsg", "sendto"))
            reads = calls_of(os.path.join(folder, "2"), ("read", "readv", "recvmsg", "recvfrom"))
    print(f"  {count} frames under strace in {took:.1f} s: {writes} writes, {reads} reads")
    expect(writes < count // 200, f"{writes} writes for {count} frames")
    expect(reads < count // 200, f"{reads} reads for {count} frames")


def main():
    wanted = sys.argv[1:]
    failed = 0
    cases = [c for c in CASES if not wanted or c.__name__ in wanted]
    for function in cases:
        try:
            function()
            print(f"ok      {function.__name__}")
        except (AssertionError, OSError, subprocess.TimeoutExpired) as problem:
            failed += 1
            print(f"FAILED  {function.__name__}: {problem}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
