#!/usr/bin/env python3
"""`conclave queue` and `conclave barrier` with real processes: order, claims, dead letters, signals, kill -9.

Promise: with producers and consumers that are killed at random nothing that was put is lost (at least once), nothing is
seen twice (at most once), on one server and on three of which one is restarted. With --apache the same on Apache
ZooKeeper, alone.
Limits: loopback; kills are of the commands and of one server, not of links.

usage: queue_test.py [--apache] [--seed N] [NAME...]
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import acls  # noqa: E402
import cases  # noqa: E402
import cli_test as cli  # noqa: E402
import conclave  # noqa: E402
import ensemble  # noqa: E402
import zkwire  # noqa: E402
import zookeeper  # noqa: E402

TICK_MS = 500
SESSION_S = 2
CLAIM_MS = 3000  # session of those whose claim is watched: room for a machine that stalls
PATIENCE_S = 60
SESSION_MOVED = -118
PRODUCERS = CONSUMERS = 4
PUTS = 12  # of each producer


class Bench:
    """Commands against one server, or the servers of an ensemble."""

    def __init__(self, hosts):
        self.environment = {**os.environ, "CONCLAVE_SERVER": hosts}
        self.processes = []
        self.folders = []
        self.server = None  # the one, where there is one

    def start(self, *words, **more):
        """A command that runs on; more: as subprocess.Popen takes it."""
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        process = subprocess.Popen([conclave.program(), *words], env=self.environment, text=True, **more)
        self.processes.append(process)
        return process

    def run(self, *words, text=None, code=0):
        """Its output; its exit code must be this one."""
        done = subprocess.run([conclave.program(), *words], env=self.environment, input=text or "", text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE_S)
        assert done.returncode == code, f"{words}: exit {done.returncode}, not {code}\n{done.stdout}{done.stderr}"
        return done.stdout

    def folder(self):
        """One of a command's own, until the end."""
        self.folders.append(tempfile.TemporaryDirectory(prefix="conclave-queue-"))
        return self.folders[-1].name

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for folder in self.folders:
            folder.cleanup()


def wait_until(function, what):
    deadline = time.monotonic() + PATIENCE_S
    while not function():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)


def takes(pid, number):
    """Whether the process handles the signal, or has it blocked until it reads it."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        masks = [int(line.split()[1], 16) for line in status if line.startswith(("SigCgt:", "SigBlk:"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


def path_of(name):
    """A node of the case's own."""
    return f"/{name}-{os.getpid()}"


# --- the queue -----------------------------------------------------------------------------------------------------------

def test_order_and_views(bench):
    path = path_of("order")
    names = [bench.run("queue", "put", path, "second").strip(), bench.run("queue", "put", path, text="third").strip()]
    names.insert(0, json.loads(bench.run("queue", "put", path, "first", "--priority", "1", "--json"))["name"])
    assert [line.split("\t")[0] for line in bench.run("queue", "list", path).splitlines()] == ["NAME", *names]
    assert bench.run("queue", "peek", path) == "first"
    taken = json.loads(bench.run("queue", "take", path, "--json"))
    assert (taken["name"], taken["priority"], taken["attempt"], taken["data"]) == (names[0], 1, 1, "first"), taken
    assert bench.run("queue", "take", path) == "second"
    assert bench.run("queue", "take", path, "--", "cat") == "third"
    bench.run("queue", "take", path, "--timeout", "0", code=75)
    bench.run("queue", "take", path, "--timeout", "200ms", code=75)
    bench.run("queue", "put", path, "x", "--priority", "1000", code=64)
    bench.run("queue", "put", path, "x")
    bench.run("queue", "put", path, "y", "--max-items", "1", "--timeout", "0", code=75)


def test_E142_delayed_items_and_E143_ids(bench):
    path = path_of("later")
    bench.run("queue", "put", path, "soon", "--delay", "1500ms")
    bench.run("queue", "put", path, "never", "--delay", "1h", "--item", "alice")
    bench.run("queue", "put", path, "now", "--item", "bob", "-p", "1")
    began = time.time()
    entries = [json.loads(line) for line in bench.run("queue", "list", path, "--json").splitlines()]
    assert [entry.get("id") for entry in entries if "id" in entry] in (["bob", "alice"],), entries
    assert entries[-1]["not_before_ms"] > (began + 3000) * 1000, entries
    assert bench.run("queue", "take", path) == "now"
    assert bench.run("queue", "take", path) == "soon"
    bench.run("queue", "take", path, "--timeout", "0", code=75)
    assert json.loads(bench.run("queue", "remove", path, "bob", "--json")) == {"removed": 0}
    assert bench.run("queue", "remove", path, "alice") == "1\n"
    assert bench.run("queue", "list", path) == ""


def test_E140_layouts_of_others(bench):
    path = path_of("layouts")
    for layout, more, name in (("plain", (), "qn-0000000000"), ("plain", ("--prefix", "queue_"), "queue_0000000001"),
                               ("kazoo", (), "entry-500-0000000002"), ("curator", (), "queue-0000000003"),
                               ("curator", ("--item", "a"), "queue-|a|0000000004"),
                               ("curator-priority", ("-p", "7"), "queue-1000000070000000005")):
        assert bench.run("queue", "put", path, layout, "--layout", layout, *more).strip() == name
    bench.run("create", f"{path}/queue-", "no item of Curator", "--sequential")
    taken = {"plain": 2, "kazoo": 1, "curator": 3, "curator-priority": 1}
    for layout in ("curator", "curator-priority", "kazoo", "plain"):
        locks = ("--claims", path_of("locks")) if layout.startswith("curator") else ()
        for _ in range(taken[layout]):
            said = bench.run("queue", "take", path, "--layout", layout, *locks, "--timeout", "5s", "--", "sh", "-c",
                             "cat; echo \" $CONCLAVE_CLAIM\"")
            data, claim = said.strip().rsplit(" ", 1)
            assert data in (layout, "no item of Curator"), said
            assert claim.rsplit("/", 1)[0] == (path_of("locks") if locks else path + ".claims"), said
    bench.run("queue", "put", path, "x", "--layout", "kazoo-locking")
    assert bench.run("queue", "take", path, "--layout", "kazoo-locking", "--", "sh", "-c",
                     "cat; echo \" $CONCLAVE_CLAIM\"") == f"x {path}/taken/entry-500-0000000000\n"
    for words in (("--layout", "curator", "-p", "3"), ("--layout", "kazoo", "--item", "a"), ("--prefix", "q"),
                  ("--claims", "/locks"), ("--layout", "plain", "--delay", "1s"), ("--layout", "none")):
        bench.run("queue", "put", path, "x", *words, code=64)


def test_failures_and_dead_letters(bench):
    path = path_of("dead")
    name = bench.run("queue", "put", path, "poison").strip()
    bench.run("queue", "take", path, "--max-attempts", "2", "--", "sh", "-c", "exit 7", code=7)
    assert json.loads(bench.run("queue", "list", path, "--json"))["attempts"] == 1
    bench.run("queue", "take", path, "--max-attempts", "2", "--", "sh", "-c", "kill -9 $$", code=137)
    assert bench.run("queue", "list", path) == ""
    assert bench.run("queue", "dead", path).splitlines()[1].split("\t")[0] == name
    bench.run("queue", "requeue", path, name)
    bench.run("queue", "requeue", path, name, code=1)
    assert bench.run("queue", "take", path, "--", "sh", "-c", "cat; echo -n \" $CONCLAVE_ATTEMPT\"") == "poison 1"
    bench.run("queue", "put", path, "z")
    bench.run("queue", "take", path, "--", "/no/such/program", code=127)


def test_acl(bench):
    """Of items, claims, dead letters and barriers; taking, giving back and putting back work under it."""
    path, address = path_of("acl"), bench.server.address
    name = bench.run("queue", "put", path, "poison", *acls.WORDS).strip()
    held = bench.start("queue", "take", path, *acls.WORDS, "--", "sh", "-c", "echo in; sleep 600")
    assert held.stdout.readline() == "in\n"
    assert acls.foreign(address, path, 2) == [] and acls.foreign(address, path + ".claims", 2) == []
    bench.run("queue", "put", path, "x", code=77)
    bench.run("queue", "take", path, "--timeout", "2s", code=77)
    held.send_signal(signal.SIGTERM)
    held.wait(PATIENCE_S)
    bench.run("queue", "take", path, "--max-attempts", "2", *acls.WORDS, "--", "sh", "-c", "exit 7", code=7)
    assert bench.run("queue", "dead", path, *acls.WORDS[:2]).splitlines()[1].split("\t")[0] == name
    assert acls.foreign(address, path + ".dead", 2) == []
    bench.run("queue", "requeue", path, name, code=77)
    bench.run("queue", "requeue", path, name, *acls.WORDS)
    assert acls.foreign(address, path, 2) == []
    assert bench.run("queue", "take", path, *acls.WORDS) == "poison"
    barrier = path_of("acl-barrier")
    bench.run("barrier", "set", barrier, *acls.WORDS)
    assert acls.foreign(address, barrier, 1) == []
    bench.run("barrier", "remove", barrier, *acls.WORDS)
    inside = bench.start("barrier", "enter", barrier, "-n", "1", *acls.WORDS, "--", "sh", "-c", "echo in; sleep 600")
    assert inside.stdout.readline() == "in\n"
    assert acls.foreign(address, barrier, 3) == []
    bench.run("barrier", "enter", barrier, "-n", "1", "--timeout", "5s", "--", "true", code=77)
    inside.send_signal(signal.SIGTERM)
    inside.wait(PATIENCE_S)


def test_signals(bench):
    path = path_of("signals")
    waiting = bench.start("queue", "take", path, "--follow", "--", "cat")
    wait_until(lambda: takes(waiting.pid, signal.SIGTERM), "a command that takes signals")
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait(PATIENCE_S) == 128 + signal.SIGTERM
    bench.run("queue", "put", path, "a")
    running = bench.start("queue", "take", path, "--", "sh", "-c", "trap 'exit 5' TERM; echo in; while :; do sleep 0.1; done")
    assert running.stdout.readline() == "in\n"
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE_S) == 5
    assert bench.run("queue", "take", path) == "a", "it was given back"


def test_a_killed_consumer_s_item_is_handed_to_another(bench):
    path = path_of("killed")
    bench.run("queue", "put", path, "a")
    first = bench.start("queue", "take", path, "--session", f"{SESSION_S}s", "--", "sh", "-c", "echo $$; exec sleep 600")
    child = int(first.stdout.readline())
    first.kill()
    second = json.loads(bench.run("queue", "take", path, "--json"))
    assert (second["data"], second["attempt"]) == ("a", 2), second
    wait_until(lambda: not os.path.exists(f"/proc/{child}"), "the killed one's command ends")


def picture(bench, path):
    """The nodes of a queue, with each node's owner: for a case that waits in vain."""
    lines = []
    for part in ("", ".claims", ".line"):
        listed = subprocess.run([conclave.program(), "ls", path + part], env=bench.environment, text=True, timeout=PATIENCE_S,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        lines.append(f"{path}{part}:" + (" no node" if listed.returncode else ""))
        for name in listed.stdout.split():
            stat = subprocess.run([conclave.program(), "stat", f"{path}{part}/{name}", "--json"], env=bench.environment,
                                  text=True, timeout=PATIENCE_S, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
            lines.append(f"  {name} {stat.stdout.strip() or 'has gone'}")
    return "\n".join(lines)


# --- the command and its claim -------------------------------------------------------------------------------------------

class Taker(cli.Elect):
    """`conclave queue take` with the child of cli_test.py."""

    def __init__(self, bench, path, *child):
        self.path = path
        self.folder = bench.folder()
        self.err_path = os.path.join(self.folder, "err")
        self.status_read = -1
        with open(self.err_path, "wb") as err:
            self.process = bench.start("queue", "take", path, "--session", f"{CLAIM_MS}ms", "--", cli.PYTHON, "-B", cli.CHILD,
                                       self.folder, *child, stdout=subprocess.DEVNULL, stderr=err)
        self.pid = self.process.pid
        self.t_ns = CLAIM_MS * 1_000_000

    def family(self):
        """Pids of the child and of what it has started."""
        pids = [self.started()[2]]
        return pids + [int(cli.until(lambda n=n: self.file("pid." + n), n)) for n in ("sibling", "daemon")]


FAMILY = ["child", "sibling", "daemon"]


def test_E103_a_stubborn_command_is_killed_before_its_claim_ends(bench):
    path = path_of("stubborn")
    bench.run("queue", "put", path, "a")
    taker = Taker(bench, path, "stubborn", "family")
    pids = taker.family()
    stopped = cli.boot_ns()
    os.kill(bench.server.process.pid, signal.SIGSTOP)
    try:
        cli.until(lambda: all(map(cli.gone, pids)), "end of the group")
    finally:
        os.kill(bench.server.process.pid, signal.SIGCONT)
    assert "the claim was lost" in taker.end(76, PATIENCE_S)
    ms = cli.dead_in_time(taker, FAMILY, stopped)
    assert bench.run("queue", "take", path) == "a", "it stays in the queue"
    return f"dead {ms:.0f} ms after the server stopped answering"


def test_E104_the_command_ends_with_its_claim_when_the_wrapper_is_killed_or_stopped(bench):
    for number in (signal.SIGKILL, signal.SIGSTOP):
        path = path_of(f"wrapper{int(number)}")
        bench.run("queue", "put", path, "a")
        taker = Taker(bench, path, "stubborn", "family")
        pids = taker.family()
        heir = Taker(bench, path)
        at = cli.boot_ns()
        os.kill(taker.pid, number)
        cli.until(lambda: all(map(cli.gone, pids)), "end of the group")
        cli.dead_in_time(taker, FAMILY, at)
        _, began_ns, _ = heir.started()
        assert began_ns > max(map(taker.alive_ns, FAMILY)), "two at once"
        if number == signal.SIGSTOP:
            os.kill(taker.pid, signal.SIGCONT)
            assert "the claim was lost" in taker.end(76, PATIENCE_S)
        heir.signal(signal.SIGTERM)
        heir.end(128 + signal.SIGTERM, PATIENCE_S)


def test_a_guardian_that_is_killed_takes_the_command_with_it(bench):
    path = path_of("guardian")
    bench.run("queue", "put", path, "a")
    taker = Taker(bench, path)
    child = taker.started()[2]
    os.kill(taker.guardian(), signal.SIGKILL)
    assert "the guardian process is gone" in taker.end(73, PATIENCE_S)
    assert cli.gone(child) and bench.run("queue", "take", path) == "a"


def test_what_the_command_leaves_running_is_ended_before_the_ack(bench):
    path = path_of("left")
    bench.run("queue", "put", path, "a")
    out = bench.run("queue", "take", path, "--", "sh", "-c", "setsid sleep 600 & echo $!")
    assert cli.gone(int(out)), out
    for words, code in ((("--grace", "5s"), 64), (("--grace", "5s", "--at-most-once"), 0)):
        bench.run("queue", "put", path, "b")
        bench.run("queue", "take", path, "--session", f"{CLAIM_MS}ms", *words, "--", "true", code=code)


# --- many, with kills -------------------------------------------------------------------------------------------------

class Crowd:
    """Producers that put one item after the other and consumers that write down what they get; some are killed."""

    def __init__(self, bench, path, once, seed):
        self.bench = bench
        self.path = path
        self.once = once
        self.random = random.Random(seed)
        self.log = tempfile.NamedTemporaryFile()
        self.sure = []  # put and acknowledged
        self.failures = []
        self.consumers = []
        self.ending = threading.Event()

    def consumer(self):
        words = ["queue", "take", self.path, "--follow", "--session", f"{SESSION_S}s"]
        words += ["--at-most-once"] if self.once else []
        return self.bench.start(*words, "--", "sh", "-c", f"cat >> {self.log.name}", stderr=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL)

    def produce(self, number):
        chance = random.Random(f"{number}-{self.random.random()}")
        for i in range(PUTS):
            text = f"{number}.{i}\n"
            process = self.bench.start("queue", "put", self.path, text, "--session", f"{SESSION_S}s")
            if chance.random() < 0.2:
                time.sleep(chance.random() * 0.1)
                process.kill()
            if process.wait(PATIENCE_S) == 0:
                self.sure.append(text.strip())
            elif process.returncode > 0:
                self.failures.append((text.strip(), process.stderr.read()))

    def kill_some(self):
        while not self.ending.wait(0.4):
            at = self.random.randrange(CONSUMERS)
            self.consumers[at].kill()
            self.consumers[at] = self.consumer()

    def seen(self):
        with open(self.log.name, encoding="ascii") as file:
            return file.read().split()

    def run(self, meanwhile=None):
        self.consumers += [self.consumer() for _ in range(CONSUMERS)]
        killer = threading.Thread(target=self.kill_some)
        producers = [threading.Thread(target=self.produce, args=(i,)) for i in range(PRODUCERS)]
        for thread in (killer, *producers):
            thread.start()
        if meanwhile:
            meanwhile()
        for thread in producers:
            thread.join()
        self.ending.set()
        killer.join()
        try:
            wait_until(lambda: self.bench.run("queue", "list", self.path) == "", "all items are taken")
        except AssertionError as why:
            consumers = [(consumer.pid, consumer.poll()) for consumer in self.consumers]
            raise AssertionError(f"{why}\nconsumers: {consumers}\n{picture(self.bench, self.path)}") from None
        for consumer in self.consumers:
            consumer.send_signal(signal.SIGTERM)
            consumer.wait(PATIENCE_S)
        seen = self.seen()
        lost = set(self.sure) - set(seen)
        twice = sorted(text for text in set(seen) if seen.count(text) > 1)
        assert self.sure and not self.failures, self.failures
        assert self.once or not lost, f"lost: {sorted(lost)}"
        assert not self.once or not twice, f"twice: {twice}"
        return f"{len(self.sure)} put for sure, {len(seen)} seen, {len(twice)} twice, {len(lost)} lost"


def test_E74_at_least_once_loses_nothing(bench):
    return Crowd(bench, path_of("least"), False, bench.seed).run()


def test_E74_at_most_once_gives_nothing_twice(bench):
    return Crowd(bench, path_of("most"), True, bench.seed).run()


# --- barriers -----------------------------------------------------------------------------------------------------------

def test_plain_barrier(bench):
    path = path_of("barrier")
    bench.run("barrier", "wait", path)
    bench.run("barrier", "set", path)
    bench.run("barrier", "set", path)
    bench.run("barrier", "wait", path, "--timeout", "200ms", code=75)
    waiting = [bench.start("barrier", "wait", path) for _ in range(3)]
    time.sleep(0.5)
    assert all(process.poll() is None for process in waiting)
    bench.run("barrier", "remove", path)
    assert [process.wait(PATIENCE_S) for process in waiting] == [0, 0, 0]
    bench.run("barrier", "remove", path)


def members_of(bench, path):
    """How many have come to a double barrier; 0 before its node is there."""
    done = subprocess.run([conclave.program(), "ls", path + "/round"], env=bench.environment, text=True,
                          capture_output=True, timeout=PATIENCE_S, check=False)
    return len([name for name in done.stdout.split() if name.startswith("m-")])


def test_double_barrier(bench):
    path = path_of("double")
    words = ["barrier", "enter", path, "--count", "3", "--session", f"{SESSION_S}s", "--", "sh", "-c"]
    first = [bench.start(*words, f"echo in; sleep 0.{i}; exit {i}") for i in (1, 2)]
    wait_until(lambda: members_of(bench, path) == 2, "two members before the barrier")
    time.sleep(0.3)
    assert all(process.poll() is None for process in first)
    bench.run("barrier", "enter", path, "--count", "4", code=78)
    last = bench.start(*words, "echo in; exit 3")
    assert [process.wait(PATIENCE_S) for process in (*first, last)] == [1, 2, 3]
    assert all(process.stdout.read() == "in\n" for process in (*first, last))
    bench.run("barrier", "enter", path, "--count", "2", "--timeout", "300ms", code=75)


def test_E144_double_barriers_of_others(bench):
    for layout in ("curator", "kazoo"):
        path = path_of(f"double-{layout}")
        words = ["barrier", "enter", path, "--count", "2", "--layout", layout, "--", "sh", "-c"]
        members = [bench.start(*words, f"echo in; exit {i}") for i in (1, 2)]
        assert [process.wait(PATIENCE_S) for process in members] == [1, 2]
        assert all(process.stdout.read() == "in\n" for process in members)
        assert bench.run("ls", path) == ""
        bench.run("barrier", "enter", path, "--count", "2", "--layout", layout, "--timeout", "300ms", code=75)
        assert bench.run("ls", path) == ""


def test_E85_a_member_killed_inside_is_not_waited_for(bench):
    path = path_of("inside")
    words = ["barrier", "enter", path, "--count", "2", "--session", f"{SESSION_S}s"]
    dies = bench.start(*words, "--", "sh", "-c", "setsid sleep 600 & echo $!; echo in; exec sleep 600")
    stays = bench.start(*words, "--", "sh", "-c", "echo in")
    left = int(dies.stdout.readline())
    assert dies.stdout.readline() == stays.stdout.readline() == "in\n"
    time.sleep(0.3)
    assert stays.poll() is None, "it waits for the other to end"
    dies.kill()
    assert stays.wait(PATIENCE_S) == 0
    wait_until(lambda: cli.gone(left), "what its command has started ends, too")


# --- three servers -------------------------------------------------------------------------------------------------------

def test_E04_a_put_left_behind_on_the_old_server_never_appears(_seed):
    """The transaction of a put waits unread at one server while its session moves to another."""
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(ensemble.Ensemble(3, tick_ms=TICK_MS))
        bench = Bench(servers.hosts)
        stack.callback(bench.end)
        path = path_of("moved")
        kept = bench.run("queue", "put", path, "kept").strip()
        old, new = servers.followers()
        left = stack.enter_context(zkwire.Connection(old.address))
        servers.pause(old)
        left.send(zkwire.multi([zkwire.create(f"{path}/500-{'0' * 32}-q_", b"left", flags=zkwire.PERSISTENT_SEQUENTIAL)]))
        moved = stack.enter_context(zkwire.Connection(new.address, session_id=left.session_id, passwd=left.passwd))
        assert moved.session_id == left.session_id, "it was not moved"
        servers.resume(old)
        name = f"{path}/500-{'1' * 32}-q_"
        error, _ = moved.call(zkwire.multi([zkwire.create(name, b"moved", flags=zkwire.PERSISTENT_SEQUENTIAL)]))
        assert error == 0, error
        with contextlib.suppress(zkwire.Closed):
            error = left.read_reply().err
            assert error == SESSION_MOVED, error
        time.sleep(1)
        names = [line.split("\t")[0] for line in bench.run("queue", "list", path).splitlines()[1:]]
        assert len(names) == 2 and names[0] == kept and "1" * 32 in names[1], names


def test_E74_on_three_servers_of_which_one_is_restarted(seed):
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(ensemble.Ensemble(3, tick_ms=TICK_MS))
        bench = Bench(servers.hosts)
        bench.seed = seed
        stack.callback(bench.end)

        def restart():
            time.sleep(1)
            victim = servers.leader() or servers.members[0]
            victim.kill()
            time.sleep(1)
            victim.start()
        return Crowd(bench, path_of("three"), False, seed).run(restart)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--apache", action="store_true")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    why = conclave.why_missing() or (zookeeper.why_missing() if options.apache else None)
    if why:
        return cases.skip_all(why)
    seed = options.seed if options.seed is not None else random.randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    three = [test_E04_a_put_left_behind_on_the_old_server_never_appears, test_E74_on_three_servers_of_which_one_is_restarted]
    server = zookeeper.ZooKeeper(tick_ms=TICK_MS) if options.apache else conclave.Conclave(tick_ms=TICK_MS)
    with server:
        bench = Bench(server.host)
        bench.server = server
        bench.seed = seed
        try:
            listed = [cases.bound(function, bench) for function in cases.named("test_", globals()) if function not in three]
            listed += [] if options.apache else [cases.bound(function, seed) for function in three]
            return cases.run(listed, options.only)
        finally:
            bench.end()


if __name__ == "__main__":
    sys.exit(main())
