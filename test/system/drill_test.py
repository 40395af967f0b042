"""The split-brain drill: who holds an election, a lock and a semaphore of one on three servers, while all is done to make
two of them hold at once.

Promise: four holders (drill_actor.c, on the library), each in a time namespace of its own, three of them on one server
each, the fourth on all. The holder's server is cut off from the quorum, both ways or one way, while it answers the
holder; the holder is stopped for two timeouts; machines seem to sleep; wall clocks of holders and servers jump by hours;
leaders are killed with -9; links are cut, hang, lose answers; nodes are reaped and made again. By the test's
CLOCK_MONOTONIC no two terms of a kind overlap, tokens grow from term to term, what is written in the tree and to a
resource behind a token gate never goes back to an older token.
Limits: a term lasts until its holder was told, or its lease was over, whichever comes first; who runs (no gap of 60 ms)
must have been told, and have had the time it was promised, before the next term begins. Skipped without network
namespaces. Without time namespaces all share the clock that counts suspend.

usage: drill_test.py [--handovers N] [--rounds N] [--seed N] [CASE...]
"""

import argparse
import collections
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import why_missing  # noqa: E402
from split_net import SplitEnsemble, SplitMember, enter_own_network, host_of  # noqa: E402

BUILD = os.path.abspath(os.environ.get("CONCLAVE_BUILD", "build"))
ACTOR = os.path.join(BUILD, "test", "system", "drill_actor")
RACER = os.path.join(BUILD, "test", "system", "deadline_actor")
PROXY = os.path.join(BUILD, "test", "system", "fault_proxy")
PRELOAD = os.path.join(BUILD, "test", "system", "clock_step.so")
KINDS = ("election", "lock", "semaphore")
TICK_MS = 300
SESSION_MS = 1000
SESSION_S = SESSION_MS / 1000
NEXT_S = 15         # until somebody holds again, whatever was done
FORCED_S = 8        # ... when the holder cannot have kept it
PATIENCE_S = 30
NS = 1_000_000_000
HOUR_NS = 3600 * NS
GAP_NS = 60_000_000  # as in drill_actor.c
EFENCED, ECANCELED, NO_NODE = -1007, -1003, -101
PAGE = struct.Struct("<qqq64s")
CLAIM = struct.Struct("<9q")
GAP = struct.Struct("<2q")
CLAIMS_MAX = GAPS_MAX = 16384
OFFSETS = ((3600, 50), (0, 30 * 86400), (7, 7), (1000 * 86400, 0))  # (boottime, monotonic) of time namespaces, s

Claim = collections.namedtuple("Claim", "kind token first last lease_until granted told within_ms why")


def expect(good, what):
    if not good:
        raise AssertionError(what() if callable(what) else what)


def now_ns():
    return time.monotonic_ns()


class TimeSpace:
    """A time namespace with these offsets; `words` in front of a command put it there."""

    def __init__(self, boot_s, monotonic_s):
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--time", "--boottime", str(boot_s), "--monotonic", str(monotonic_s),
             "sh", "-c", "echo ready; exec sleep infinity"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        ready = self.process.stdout.readline() == b"ready\n"
        self.words = ["nsenter", f"--time=/proc/{self.process.pid}/ns/time_for_children"] if ready else []

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Steps:
    """The offset of a program's clocks (clock_step.c)."""

    def __init__(self, folder, name):
        self.path = os.path.join(folder, name)
        with open(self.path, "wb") as file:
            file.write(bytes(16))
        with open(self.path, "r+b") as file:
            self.view = mmap.mmap(file.fileno(), 16)

    def environment(self):
        return {**os.environ, "LD_PRELOAD": PRELOAD, "CLOCK_STEP_FILE": self.path}

    def wall(self, ns):
        self.view[0:8] = struct.pack("<q", ns)

    def sleep(self, ns):
        """The clock that counts suspend goes on by so much."""
        self.view[8:16] = struct.pack("<q", struct.unpack("<q", self.view[8:16])[0] + ns)


class DrillMember(SplitMember):
    """A server whose clocks the test has in its hand."""

    def __init__(self, number, lines, **more):
        super().__init__(number, lines, **more)
        self.space = TimeSpace(*OFFSETS[-number])
        self.steps = Steps(self.folder, "steps")

    def command(self):
        return [*self.space.words, *super().command()]

    def environment(self):
        return self.steps.environment()

    def destroy(self):
        super().destroy()
        self.space.close()


class Talker:
    """A program that answers each line with a line."""

    def __init__(self, words, environment=None):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def read(self):
        return self.process.stdout.readline().rstrip("\n")

    def do(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.read()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Holder(Talker):
    """One holder, its page, and proxies to the servers it knows."""

    def __init__(self, folder, number, members, gate):
        self.number = number
        self.proxies = []
        for member in members:
            proxy = Talker([PROXY, "0", f"{host_of(member.number)}:{member.port}"])
            proxy.member, proxy.port = member, int(proxy.read().split()[1])
            self.proxies.append(proxy)
        self.space = TimeSpace(*OFFSETS[number])
        self.steps = Steps(folder, f"steps-{number}")
        self.page_path, self.log_path = (os.path.join(folder, f"{what}-{number}") for what in ("page", "log"))
        super().__init__([*self.space.words, ACTOR, "hold", self.page_path, self.log_path, gate,
                          ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.proxies), str(SESSION_MS), f"h{number}"],
                         self.steps.environment())
        expect(self.read() == "ready", f"holder {number} did not start")
        with open(self.page_path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), 0)
        self.stopped = False

    def head(self):
        claims, gaps, seen, server = PAGE.unpack_from(self.page)
        return claims, gaps, seen, server.rstrip(b"\0").decode()

    def claims(self, last=None):
        """All claims, or the last `count` ones."""
        count = self.head()[0]
        return [Claim(*CLAIM.unpack_from(self.page, PAGE.size + i * CLAIM.size))
                for i in range(max(count - last, 0) if last else 0, count)]

    def gaps(self):
        start = PAGE.size + CLAIMS_MAX * CLAIM.size
        return [GAP.unpack_from(self.page, start + i * GAP.size) for i in range(self.head()[1])]

    def server(self):
        """The member that its link goes to; None: no link."""
        port = self.head()[3].rpartition(":")[2]
        return next((proxy.member for proxy in self.proxies if str(proxy.port) == port), None)

    def links(self, *commands):
        for proxy in self.proxies:
            for command in commands:
                answer = proxy.do(command)
                expect(answer == "ok", f"{command}: {answer}")

    def signal(self, number):
        """Stops it, or lets it go on and waits until it has noted the gap."""
        self.process.send_signal(number)
        self.stopped = number == signal.SIGSTOP
        began = now_ns()
        while not self.stopped and self.head()[2] < began:
            expect(now_ns() - began < PATIENCE_S * NS, f"holder {self.number} does not go on")
            time.sleep(0.001)

    def quit(self):
        """Ends it in order; its exit code."""
        last = self.do("quit")
        code = self.process.wait(PATIENCE_S)
        return code if last == "ended" else f"{last!r}, exit code {code}"

    def destroy(self):
        self.kill()
        for proxy in self.proxies:
            proxy.kill()
        self.space.close()


def span(claim):
    """(begin, end) of a term: from when it may have been acted on, until it was told or its lease was over."""
    begin = min(at for at in (claim.first, claim.granted) if at)
    lease = max(claim.lease_until, claim.last)
    return begin, min(claim.told, lease) if claim.told and lease else claim.told or lease or begin


class Drill:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.ensemble = SplitEnsemble(3, DrillMember, tick_ms=TICK_MS, options=[
            "--minSessionTimeout", "500", "--znode.container.checkIntervalMs", "200", "--znode.container.maxPerMinute", "100000"])
        self.holders, self.gate = [], None
        self.kinds_done = collections.Counter()

    def __enter__(self):
        self.ensemble.start()
        members = self.ensemble.members
        self.folder = members[0].folder
        with self.connect() as link:
            for path in ("/drill", *(f"/drill/value-{kind}" for kind in KINDS)):
                expect(link.call(zk.create(path, b"0"))[0] == 0, f"create {path}")
            link.close_session()
        gate = os.path.join(self.folder, "gate")
        self.gate = Talker([ACTOR, "gate", gate, gate + ".log"])
        expect(self.gate.read() == "ready", "no gate")
        for number in range(4):
            self.holders.append(Holder(self.folder, number, members[number:number + 1] or members, gate))
        return self

    def __exit__(self, *_):
        for talker in (*self.holders, *([self.gate] if self.gate else [])):
            if talker.process.poll() is None:
                talker.process.send_signal(signal.SIGCONT)
            talker.destroy() if isinstance(talker, Holder) else talker.kill()
        self.ensemble.stop()

    def connect(self):
        return zk.Connection(self.ensemble.wait_leader(PATIENCE_S).address, 10000, patience_s=10)

    # --- who holds

    def newest(self, kind):
        """(holder, claim) of the largest token of a kind that was granted, or None."""
        found = [(claim.token, holder.number, claim) for holder in self.holders for claim in holder.claims(32)
                 if claim.kind == kind and claim.granted]
        return (self.holders[max(found)[1]], max(found)[2]) if found else None

    def live(self, kind, beyond=0, seconds=NEXT_S):
        """Waits for a term beyond this token that goes on."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.newest(kind)
            if found and found[1].token > beyond and not found[1].told and found[1].lease_until > now_ns() and found[1].last:
                return found
            if time.monotonic() > deadline:
                modes = "\n".join(f"--- member {m.number}\n{m.log_tail(1200)}" for m in self.ensemble.members)
                raise AssertionError(f"nobody holds the {KINDS[kind]} beyond {beyond} after {seconds} s; {found}; at "
                                     f"{now_ns()}: {[h.head() for h in self.holders]}\n{modes}")
            time.sleep(0.005)

    def passed_on(self, kind, beyond, seconds):
        """Whether a later term than this token's begins in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.newest(kind)[1].token > beyond:
                return True
            time.sleep(0.005)
        return False

    def claim(self, holder, kind, token):
        return next(claim for claim in reversed(holder.claims()) if claim.kind == kind and claim.token == token)

    # --- the invariants

    def spans(self, kind):
        """(begin, end, holder, claim) of all terms of a kind, by token."""
        return sorted(((*span(claim), holder, claim) for holder in self.holders for claim in holder.claims()
                       if claim.kind == kind and (claim.first or claim.granted)), key=lambda row: row[3].token)

    def check(self):
        """Terms, tokens and writes so far; (terms, the shortest time between two, in ms)."""
        count, least = 0, None
        for kind, name in enumerate(KINDS):
            rows = self.spans(kind)
            for before, after in zip(rows, rows[1:]):
                expect(before[3].token < after[3].token, lambda: f"{name}: two terms with one token: {before}, {after}")
                expect(before[1] <= after[0], lambda: f"{name}: two holders for {(before[1] - after[0]) / 1e6:.3f} ms: "
                       f"h{before[2].number} {before[3]}, h{after[2].number} {after[3]}")
                self.check_told(name, before, after)
                least = min(x for x in (least, (after[0] - before[1]) / 1e6) if x is not None)
            count += len(rows)
        self.check_writes()
        return count, least

    def check_told(self, name, before, after):
        """Each running holder learned of the loss in time, and had the promised time to stop."""
        claim, holder = before[3], before[2]
        # A gap that ended just before: it was stopped before its call returned.
        if any(gap[1] > claim.granted - GAP_NS and gap[0] < after[0] for gap in holder.gaps()) or not claim.granted:
            return
        expect(claim.told and claim.told <= after[0], lambda: f"{name}: h{holder.number} was not told before the next term: "
               f"{claim}, {after[3]}")
        if claim.kind == 0 or claim.why == ECANCELED:
            return  # it has stopped when its callback returns, or when it lets go
        expect(claim.told + claim.within_ms * 1_000_000 <= after[0],
               lambda: f"{name}: h{holder.number} was given {claim.within_ms} ms and had {(after[0] - claim.told) / 1e6} ms: "
               f"{claim}, {after[3]}")

    def check_writes(self):
        """In the tree: tokens by zxid. At the resource: tokens in the order in which it took them."""
        tree = collections.defaultdict(list)
        for holder in self.holders:
            with open(holder.log_path, encoding="ascii") as lines:
                for line in lines:
                    if line.endswith("\n"):
                        kind, token, zxid = map(int, line.split())
                        tree[kind].append((zxid, token))
        for kind, rows in tree.items():
            rows.sort()
            for before, after in zip(rows, rows[1:]):
                expect(before[1] <= after[1], lambda: f"the tree took an older token: {KINDS[kind]} {before} {after}")
        self.tree_writes = sum(map(len, tree.values()))
        newest = collections.defaultdict(int)
        self.refused = collections.Counter()
        for kind, token, error in self.gate_lines():
            if error == 0:
                expect(token > newest[kind], lambda: f"the resource took {token} after {newest[kind]}")
                newest[kind] = token
            else:
                expect(error == EFENCED and token < newest[kind], lambda: f"the resource refused {token} with {error}")
                self.refused[kind] += 1

    def gate_lines(self):
        with open(os.path.join(self.folder, "gate.log"), encoding="ascii") as lines:
            return [tuple(map(int, line.split()[:3])) for line in lines if line.endswith("\n")]

    def fenced(self, kind, token):
        """Waits until the resource has seen this token."""
        deadline = time.monotonic() + PATIENCE_S
        while (kind, token, 0) not in self.gate_lines()[-200:]:
            expect(time.monotonic() < deadline, f"the resource never saw {KINDS[kind]} {token}")
            time.sleep(0.01)

    def handovers(self):
        return sum(max(len({claim.token for h in self.holders for claim in h.claims() if claim.kind == kind}) - 1, 0)
                   for kind in range(len(KINDS)))

    def settle(self):
        self.ensemble.net.heal()
        for member in self.ensemble.members:
            if not member.alive():
                member.start()
        for holder in self.holders:
            holder.links("pass", "accept")
            if holder.stopped:
                holder.signal(signal.SIGCONT)


# --- what is done to a holder; each returns whether the term must have ended, and leaves all healed

def cut_off(drill, holder, kind, token, one_way=None):
    """Its server is cut off from the others, and answers the holder as long as it believes in a quorum."""
    member = holder.server() or holder.proxies[0].member
    rest = [other.number for other in drill.ensemble.members if other is not member]
    pinned = len(holder.proxies) == 1
    if one_way == "mute":
        drill.ensemble.net.cut_one_way([member.number], rest)
    elif one_way == "deaf":
        drill.ensemble.net.cut_one_way(rest, [member.number])
    else:
        drill.ensemble.net.cut([member.number], rest)
    drill.passed_on(kind, token, FORCED_S if pinned else 2 * SESSION_S)
    drill.ensemble.net.heal()
    return pinned


def mute(drill, holder, kind, token):
    return cut_off(drill, holder, kind, token, "mute")


def deaf(drill, holder, kind, token):
    return cut_off(drill, holder, kind, token, "deaf")


def stopped(drill, holder, kind, token):
    holder.signal(signal.SIGSTOP)
    began = time.monotonic()
    drill.passed_on(kind, token, FORCED_S)
    time.sleep(max(began + 2 * SESSION_S + 0.05 - time.monotonic(), 0))
    holder.signal(signal.SIGCONT)
    return True


def slept(drill, holder, kind, token):
    """As after a suspend: its clock went on by two timeouts, and nothing else did."""
    holder.steps.sleep(2 * SESSION_MS * 1_000_000)
    drill.passed_on(kind, token, FORCED_S)
    return True


def leader_killed(drill, holder, kind, token):
    leader = drill.ensemble.wait_leader(PATIENCE_S)
    leader.kill()
    time.sleep(drill.rng.uniform(0, 2 * SESSION_S))
    leader.start()
    return False


def server_killed(drill, holder, kind, token):
    member = holder.server() or holder.proxies[0].member
    member.kill()
    drill.passed_on(kind, token, drill.rng.uniform(0, 3 * SESSION_S))
    member.start()
    return False


def link_cut(drill, holder, kind, token):
    holder.links("refuse", "cut")
    drill.passed_on(kind, token, drill.rng.choice((0.3, 2, 2)) * SESSION_S)
    holder.links("accept")
    return False


def link_hangs(drill, holder, kind, token):
    holder.links(f"hold {drill.rng.choice(('up', 'down', 'both'))}")
    drill.passed_on(kind, token, FORCED_S)
    holder.links("pass", "cut")
    return True


def reply_lost(drill, holder, kind, token):
    """It lets go, and one of the next answers is lost together with the link."""
    holder.links(f"swallow down {drill.rng.randint(1, 3)}")
    holder.do(f"let-go {kind}")
    drill.passed_on(kind, token, FORCED_S)
    holder.links("pass")
    return True


def heartbeat_lost(drill, holder, kind, token):
    """The answer to a heartbeat, or to the tree's writes, is lost."""
    holder.links(f"swallow down {drill.rng.randint(1, 8)}")
    time.sleep(0.3 * SESSION_S)
    holder.links("pass")
    return False


def let_go(drill, holder, kind, token):
    holder.do(f"let-go {kind}")
    return True


def reaped(drill, holder, kind, token):
    """All leave; the nodes are gone, and numbers start at 0 again."""
    for each in drill.holders:
        expect(each.do("leave") == "OK", "leave")
    with drill.connect() as link:
        for name in KINDS:
            deadline = time.monotonic() + PATIENCE_S
            while link.call(zk.exists(f"/drill/{name}"))[0] == 0:
                expect(time.monotonic() < deadline, lambda: f"/drill/{name} is not reaped: "
                       f"{link.call(zk.get_children(f'/drill/{name}'))}")
                time.sleep(0.05)
        link.close_session()
    for each in drill.holders:
        expect(each.do("join") == "OK", "join")
    return True


FAULTS = {cut_off: 4, mute: 3, deaf: 3, stopped: 5, slept: 2, leader_killed: 3, server_killed: 2, link_cut: 4, link_hangs: 3,
          reply_lost: 5, heartbeat_lost: 2, let_go: 2, reaped: 1}


def step_a_wall_clock(drill):
    """Of anybody, by hours, forward or back."""
    drill.rng.choice([*drill.holders, *drill.ensemble.members]).steps.wall(drill.rng.randint(-9, 9) * HOUR_NS)


def hand_over(drill, fault, kind):
    holder, claim = drill.live(kind)
    step_a_wall_clock(drill)
    forced = fault(drill, holder, kind, claim.token)
    drill.kinds_done[fault.__name__] += 1
    drill.live(kind, claim.token if forced else 0)
    return holder, claim


# --- the cases

DRILL = None
OPTIONS = None


def test_the_clocks_are_different():
    """That the faults are there: each holder has a clock of its own, and the preloaded one is stepped."""
    if not DRILL.holders[0].space.words:
        raise cases.Skip("no time namespaces")
    boots = set()
    for each in (*DRILL.holders, *DRILL.ensemble.members):
        with open(f"/proc/{each.process.pid}/timens_offsets", encoding="ascii") as file:
            boots.add(file.read())
        with open(f"/proc/{each.process.pid}/maps", encoding="ascii") as file:
            expect("clock_step" in file.read(), "the clocks are not in the test's hand")
    expect(len(boots) == len(OFFSETS), f"time namespaces: {boots}")


def jump_wall_clocks():
    """Of each holder and each server, one after the other and all at once. The terms before and after, and the jumps."""
    def terms():
        return [DRILL.live(kind)[1].token for kind in range(len(KINDS))]

    def still_held(since):
        return all(DRILL.newest(kind)[1].last > since for kind in range(len(KINDS)))

    before = terms()
    jumps = 0
    for each in (*DRILL.holders, *DRILL.ensemble.members):
        for hours in (5, -7, 0):
            each.steps.wall(hours * HOUR_NS)
            jumps += 1
            time.sleep(0.1)
            since = now_ns()
            while not still_held(since):
                expect(now_ns() - since < PATIENCE_S * NS, lambda: f"not held after a jump by {hours} h: {terms()}")
                time.sleep(0.005)
    for number, each in enumerate((*DRILL.holders, *DRILL.ensemble.members)):
        each.steps.wall((number - 3) * 4 * HOUR_NS)
    time.sleep(1.5 * SESSION_S)
    return before, terms(), jumps


def test_E33_wall_clocks_that_jump_change_nothing():
    """Hours forward and back: all terms go on. A machine that stood still may end one; a wall clock would end one each time."""
    for _ in range(4):
        before, after, jumps = jump_wall_clocks()
        if after == before:
            return f"{jumps} jumps"
    raise AssertionError(f"terms ended by wall clocks: {before}, {after}")


def test_E34_granted_when_the_time_is_up():
    """A lock and a semaphore between two servers: granted with a node, or not and without one."""
    first, second, _ = DRILL.ensemble.members
    done = subprocess.run([RACER, first.host, second.host, str(OPTIONS.rounds)], capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    counts = [int(word.rstrip(",;")) for word in done.stdout.split() if word.rstrip(",;").isdigit()]
    expect(all(OPTIONS.rounds / 20 < count < OPTIONS.rounds / 2 * 0.9 for count in counts[1:]), f"no race: {done.stdout}")
    return done.stdout.strip()


def test_E39_cut_off_while_its_server_answers():
    notes = []
    for kind, fault in enumerate((cut_off, mute, deaf)):
        while True:  # one that cannot go elsewhere
            holder, claim = DRILL.live(kind)
            if len(holder.proxies) == 1:
                break
            holder.do(f"let-go {kind}")
            DRILL.live(kind, claim.token)
        began = now_ns()
        expect(fault(DRILL, holder, kind, claim.token), "it can go elsewhere")
        _, after = DRILL.live(kind, claim.token)
        ended = span(DRILL.claim(holder, kind, claim.token))[1]
        expect(ended <= span(after)[0], f"two holders: {ended} {after}")
        notes.append(f"{fault.__name__}: over after {(ended - began) / 1e6:.0f} ms, next after {(span(after)[0] - began) / 1e6:.0f}")
    DRILL.check()
    return "; ".join(notes)


def test_E40_stopped_for_two_timeouts():
    """The next one holds meanwhile; whoever wakes up does not believe to hold; tree and resource take nothing of it."""
    for kind in range(len(KINDS)):
        holder, claim = DRILL.live(kind)
        expect(holder.do(f"arm {kind}") == f"armed {claim.token}", "armed")
        holder.signal(signal.SIGSTOP)
        began = time.monotonic()
        _, after = DRILL.live(kind, claim.token)
        DRILL.fenced(kind, after.token)
        time.sleep(max(began + 2 * SESSION_S + 0.05 - time.monotonic(), 0))
        woken = now_ns()
        holder.signal(signal.SIGCONT)
        answer = holder.do(f"late {kind}")
        expect(answer == f"late {EFENCED} {NO_NODE}", f"late writes of {claim}: {answer}")
        old = DRILL.claim(holder, kind, claim.token)
        expect(old.last < woken, f"believed to hold when it woke up: {old}, {woken}")
        expect(old.told, f"was never told: {old}")
    DRILL.check()


def test_E41_a_clock_that_went_on_in_its_sleep():
    for kind in range(len(KINDS)):
        holder, claim = DRILL.live(kind)
        began = now_ns()
        slept(DRILL, holder, kind, claim.token)
        DRILL.live(kind, claim.token)
        old = DRILL.claim(holder, kind, claim.token)
        expect(old.last < began + 5_000_000, f"believed to hold after its sleep: {old}, {began}")
        if all(gap[1] < began for gap in holder.gaps()):
            expect(old.told - began < 2 * SESSION_MS * 1_000_000, f"told late: {old}, {began}")
    DRILL.check()


def test_E49_writes_that_come_late():
    """The old holder let go and lives; a write of its, under way since, comes after the next holder's first."""
    for kind in range(len(KINDS)):
        holder, claim = DRILL.live(kind)
        expect(holder.do(f"arm {kind}") == f"armed {claim.token}", "armed")
        expect(holder.do(f"let-go {kind}") == "OK", "let-go")
        _, after = DRILL.live(kind, claim.token)
        DRILL.fenced(kind, after.token)  # a new holder reads only after that
        answer = holder.do(f"late {kind}")
        expect(answer == f"late {EFENCED} {NO_NODE}", f"late writes of {claim}: {answer}")
    DRILL.check()


def test_E48_tokens_grow_over_all_hand_overs():
    """All faults in turn, then at random, until there were as many hand-overs as asked for."""
    began = time.monotonic()
    wanted = DRILL.handovers() + OPTIONS.handovers
    names = list(FAULTS)
    DRILL.rng.shuffle(names)
    rounds = 0
    told = time.monotonic()
    while DRILL.handovers() < wanted:
        fault = names.pop() if names else DRILL.rng.choices(list(FAULTS), list(FAULTS.values()))[0]
        hand_over(DRILL, fault, rounds % len(KINDS))
        rounds += 1
        if rounds % 50 == 0:
            DRILL.check()
        if time.monotonic() - told > 60:
            told = time.monotonic()
            print(f"        {DRILL.handovers()} hand-overs in {told - began:.0f} s", flush=True)
    terms, least = DRILL.check()
    counts = ", ".join(f"{name} {count}" for name, count in sorted(DRILL.kinds_done.items()))
    return (f"{DRILL.handovers()} hand-overs, {terms} terms in all, {rounds} rounds ({counts}), at least {least:.1f} ms between "
            f"two terms; {DRILL.tree_writes} writes in the tree, {sum(DRILL.refused.values())} refused at the resource")


def test_nothing_is_left():
    """All end in order; the contenders leave no node."""
    DRILL.settle()
    codes = [holder.quit() for holder in DRILL.holders]
    expect(codes == [0] * len(codes), f"exit codes {codes}")
    with DRILL.connect() as link:
        for name in KINDS:
            deadline = time.monotonic() + PATIENCE_S  # a session that its holder gave up ends in time
            while True:
                err, fields = link.call(zk.get_children(f"/drill/{name}"))
                if err == NO_NODE or (err == 0 and not fields["children"]):
                    break
                expect(err == 0 and time.monotonic() < deadline, f"{name}: {err} {fields}")
                time.sleep(0.1)
        err, _ = link.call(zk.exists("/drill/election.leader/current"))
        expect(err == NO_NODE, "an acknowledgement is left")
        link.close_session()
    DRILL.check()


def main():
    global DRILL, OPTIONS
    parser = argparse.ArgumentParser()
    parser.add_argument("--handovers", type=int, default=20, help="of E48, beside those of the other cases")
    parser.add_argument("--rounds", type=int, default=100, help="of E34")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big") >> 2)
    parser.add_argument("only", nargs="*")
    OPTIONS = parser.parse_args()
    why = why_missing() or enter_own_network()
    if why:
        return cases.skip_all(why)
    print(f"seed {OPTIONS.seed}", flush=True)
    random.seed(OPTIONS.seed)
    with Drill(OPTIONS.seed) as DRILL:
        return cases.run(cases.named("test_", globals()), OPTIONS.only, lambda: DRILL.settle())


if __name__ == "__main__":
    sys.exit(main())
