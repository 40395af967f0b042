"""Two members of `conclave switch` that are made to fail over again and again, and what their toy daemons recorded.

Promise: each round breaks the active one in one of the ways of FAULTS, waits until another term has begun, and mends what was
broken. `overlaps()` compares the daemons' own stamps: a term that began before the one before it was last seen active.
Fencing kills the daemon of the target by its number and confirms when it is gone, nothing else: so a test that passes says that
it was called whenever it was needed.
Limits: one machine, so one clock; a stamp every 3 ms.
"""

import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

import conclave
from proxy import Proxy

HERE = os.path.dirname(os.path.abspath(__file__))
CHILD = os.path.join(HERE, "switch_child.py")
DIR = "/duel"
PATIENCE_S = 40
FENCE_TIMEOUT_MS = 1000  # starting the shell that fences takes a while on a busy machine

# What fences: hangs while ROOT/hang is there, refuses while ROOT/refuse is there; else the daemon is killed and seen to be gone.
FENCE = """
test -e "$ROOT/hang" && sleep 600
test -e "$ROOT/refuse" && rm -f "$ROOT/refuse" && exit 1
echo "$CONCLAVE_TARGET_ID $CONCLAVE_OLD_TOKEN" >>"$ROOT/fenced"
pid=$(cat "$CONCLAVE_TARGET_DATA/pid" 2>/dev/null) || exit 0
kill -9 "$pid" 2>/dev/null
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    state=$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -c 1)
    test -z "$state" && exit 0
    test "$state" = Z && exit 0
    sleep 0.01
done
exit 1
"""


def stat_field(pid, index):
    """A field behind the name in /proc/PID/stat, None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[index]
    except (FileNotFoundError, ProcessLookupError):
        return None


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Member:
    """One `conclave switch`, started again when it has ended."""

    def __init__(self, duel, name):
        self.duel = duel
        self.name = name
        self.folder = os.path.join(duel.root, name)
        os.mkdir(self.folder)
        self.proxy = Proxy(duel.server.port)
        self.process = None
        self.start()

    def start(self):
        d = self.duel
        with open(os.path.join(self.folder, "out"), "ab") as out:
            self.process = subprocess.Popen(
                [conclave.program(), "switch", DIR, "--server", self.proxy.host, "--session", f"{d.session_ms}ms", "--id",
                 self.name, "--data", self.folder, *d.words, "--health-cmd", f"test ! -e {self.folder}/sick",
                 "--health-interval", "30ms", "--health-failures", "2", "--fence-timeout", f"{FENCE_TIMEOUT_MS}ms",
                 "--fence-cmd", FENCE, "--", sys.executable, "-S", "-E", "-B", CHILD, self.folder],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=dict(os.environ, ROOT=d.root))

    def terms(self):
        """[(token, began, last seen, member, pid)], of what its daemons recorded."""
        found = []
        for name in os.listdir(self.folder):
            if name.startswith("term.") and not name.endswith(".tmp"):
                with open(os.path.join(self.folder, name), "rb") as file:
                    began, last = struct.unpack("=qq", file.read(16))
                _, token, pid = name.split(".")
                found.append((int(token), began, last, self, int(pid)))
        return found

    def output(self):
        with open(os.path.join(self.folder, "out"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def mend(self):
        """As if nothing had happened."""
        self.proxy.do("pass")
        sick = os.path.join(self.folder, "sick")
        if os.path.exists(sick):
            os.unlink(sick)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
        else:
            self.start()

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(6)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.proxy.end()


class Duel:
    """Two members on one server; a context manager."""

    def __init__(self, server, session_ms, seed, words=()):
        self.server = server
        self.session_ms = session_ms
        self.words = words
        self.random = random.Random(seed)
        self.root = tempfile.mkdtemp(prefix="conclave-test-duel-")
        self.members = []
        self.count = {}
        self.took_ms = {}
        self.guardians = {}  # stopped ones, by the member's name

    def __enter__(self):
        self.members = [Member(self, name) for name in ("a", "b")]
        return self

    def __exit__(self, kind, *_):
        for member in self.members:
            member.end()
        for member in self.members:
            for term in member.terms():
                send(term[4], signal.SIGKILL)
        if kind is None:
            subprocess.run(["rm", "-rf", self.root], check=True)

    def path(self, name):
        return os.path.join(self.root, name)

    def touch(self, name):
        with open(self.path(name), "w", encoding="ascii"):
            pass

    def terms(self):
        return sorted(term for member in self.members for term in member.terms())

    def fail(self, why):
        raise AssertionError(why + "".join(f"\n--- {m.name} ({self.root})\n{m.output()[-2500:]}" for m in self.members))

    def wait(self, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.01)
        return self.fail("not in time: " + what)

    def settled(self):
        """The newest term, when its daemon is active and ready and the other stands by; else None."""
        terms = self.terms()
        for member in self.members:
            if member.process.poll() is not None:
                member.start()  # as whatever supervises it would
        if not terms:
            return None
        newest = terms[-1]
        active = newest[3]
        other = next(m for m in self.members if m is not active)
        fresh = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - newest[2] < 100_000_000
        states = [line for line in other.output().splitlines() if line.startswith("state\t")]
        waits = bool(states) and states[-1].startswith("state\tSTANDBY")
        return newest if fresh and waits and f"ready\t{newest[0]}\n" in active.output() else None

    def round(self, fault):
        """One fail-over by a fault; the time without an active one, in ms."""
        token, _, _, active, pid = self.wait(self.settled, "one active, one on standby, before " + fault.__name__)
        fault(self, active, pid)
        self.wait(lambda: self.terms()[-1][0] > token, f"the next one after {fault.__name__} of {token}")
        for name in ("hang", "refuse"):
            if os.path.exists(self.path(name)):
                os.unlink(self.path(name))
        for child in {term[4] for term in active.terms()}:
            send(child, signal.SIGCONT)
        guardian = self.guardians.pop(active.name, None)
        if guardian:
            send(guardian, signal.SIGCONT)
        active.mend()
        terms = self.terms()
        last = max(term[2] for term in terms if term[0] == token)
        began = min(term[1] for term in terms if term[0] > token)
        took = (began - last) / 1e6
        self.count[fault.__name__] = self.count.get(fault.__name__, 0) + 1
        self.took_ms.setdefault(fault.__name__, []).append(took)
        return took

    def overlaps(self):
        """Pairs of terms of which the later began before the earlier was last seen."""
        terms = self.terms()
        return [(one[:3], two[:3]) for one, two in zip(terms, terms[1:]) if two[1] <= one[2]] + \
               [(one[:3], two[:3]) for one, two in zip(terms, terms[1:]) if two[0] == one[0]]

    def run(self, rounds, faults=None):
        faults = faults or FAULTS
        order = []
        for number in range(rounds):
            if number % len(faults) == 0:
                order = self.random.sample(faults, len(faults))
            self.round(order[number % len(faults)])
        self.wait(self.settled, "one active, one on standby, at the end")
        found = self.overlaps()
        if found:
            self.fail(f"two were active at once: {found}")
        gaps = sorted(took for list_ms in self.took_ms.values() for took in list_ms)
        return f"{rounds} fail-overs, {len(self.terms())} terms, nobody active for {gaps[0]:.0f} to {gaps[-1]:.0f} ms, " \
               f"p50 {gaps[len(gaps) // 2]:.0f} ms"


# --- faults of the active one --------------------------------------------------------------------------------------


def ceded(duel, active, _pid):
    done = subprocess.run([conclave.program(), "switch", DIR, "--server", duel.server.host, "--cede", "--stay-out", "1s"],
                          capture_output=True, text=True, timeout=PATIENCE_S + 30, check=False)
    assert done.returncode == 0 and done.stdout.startswith("active\t") and f"\t{active.name}\t" not in done.stdout, done


def terminated(_duel, active, _pid):
    active.process.terminate()


def wrapper_killed(_duel, active, _pid):
    active.process.kill()


def wrapper_stopped(_duel, active, _pid):
    active.process.send_signal(signal.SIGSTOP)


def guardian_killed(_duel, _active, pid):
    send(int(stat_field(pid, 1)), signal.SIGKILL)


def daemon_killed(_duel, _active, pid):
    send(pid, signal.SIGKILL)


def all_stopped(duel, active, pid):
    """As a machine that hangs: when it goes on, its daemon would be active late. Fencing is all that helps."""
    guardian = int(stat_field(pid, 1))
    duel.guardians[active.name] = guardian
    for one in (guardian, active.process.pid, pid):
        send(one, signal.SIGSTOP)


def unwell(_duel, active, _pid):
    with open(os.path.join(active.folder, "sick"), "w", encoding="ascii"):
        pass


def cut_off(_duel, active, _pid):
    active.proxy.do("hold both")


def replies_lost(duel, active, pid):
    """The answers to what it sends next: to the end in order, or to a later try to join; the other's, too."""
    for member in duel.members:
        member.proxy.do(f"swallow down {duel.random.randint(1, 4)}")
    ceded_or_killed = duel.random.choice((terminated, wrapper_killed, unwell))
    ceded_or_killed(duel, active, pid)
    for member in duel.members:
        member.proxy.do(f"swallow down {duel.random.randint(1, 6)}")


def fencing_hangs(duel, active, pid):
    """The other is cut off from fencing for a while: nobody may be active before it works."""
    duel.touch("hang")
    token = duel.terms()[-1][0]
    all_stopped(duel, active, pid)
    time.sleep(duel.session_ms / 1000 * 1.6 + FENCE_TIMEOUT_MS / 1000)
    assert duel.terms()[-1][0] == token, "active though fencing hung"
    os.unlink(duel.path("hang"))


def fencing_fails(duel, active, pid):
    duel.touch("refuse")
    wrapper_killed(duel, active, pid)


FAULTS = [ceded, terminated, wrapper_killed, wrapper_stopped, guardian_killed, daemon_killed, all_stopped, unwell, cut_off,
          replies_lost, fencing_hangs, fencing_fails]
