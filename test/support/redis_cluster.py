"""A set of Redis servers with its managers, its writers, and the contents of its znodes.

Promise: closing the cluster ends all its processes by their ids; the output of managers is kept line by
line, the records of writers are read as numbers. `Watcher` sees every version of a node that lasts longer than
a round trip.
Limits: one ensemble server for many clusters, which differ by their names; managers, writers and servers may be put into
network namespaces (test/support/split_net.py).
"""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import threading
import time

import zkwire as zk
from conclave import ROOT, program
from redis import Refused, RedisServer
from server import LIVE

READY = re.compile(rb'^(conclave: redis-failover ready |\{"event":"ready").*$', re.M)
BUILD = os.path.abspath(os.environ.get("CONCLAVE_BUILD", os.path.join(ROOT, "build")))
ACTOR = os.path.join(BUILD, "test", "system", "redis_actor")
STOPPING = os.path.join(BUILD, "test", "system", "conclave_redis_stop")  # test/support/redis_stop.c
WAIT_S = 60
QUICK = ["--period", "200ms", "--min-down", "400ms", "--op-timeout", "500ms", "--session", "2s", "--cooldown", "0s"]


def eventually(what, condition, seconds=WAIT_S, step_s=0.02):
    """Waits until condition() is true, and gives its value; fails with `what` (a text, or a function that makes one)."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(step_s)


def merged(options, others):
    """Words of options, each with its value where it has one; what others say of the same counts."""
    names = [word for word in others if word.startswith("--")]
    kept, skip = [], False
    for word in options:
        skip = word in names if word.startswith("--") else skip
        kept += [] if skip else [word]
    return [*kept, *others]


class Tree:
    """A session on the ensemble's server, for tests: reads and writes of nodes."""

    def __init__(self, address):
        self.link = zk.Connection(address, 60000)
        self.lock = threading.Lock()

    def call(self, request):
        with self.lock:
            return self.link.call(request)

    def get(self, path):
        """Its data, or None."""
        err, fields = self.call(zk.get_data(path))
        return fields["data"] if err == 0 else None

    def json(self, path):
        data = self.get(path)
        return json.loads(data) if data else None

    def children(self, path):
        err, fields = self.call(zk.get_children(path))
        return sorted(fields["children"]) if err == 0 else []

    def close(self):
        self.link.drop()


class Watcher:
    """Every version of a node's JSON, in a thread: read again as soon as its watch goes off."""

    def __init__(self, address, path, told=None):
        self.link = zk.Connection(address, 60000)
        self.path, self.told = path, told
        self.seen = []  # (time, record or None)
        self.ending = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _read(self):
        err, fields = self.link.call(zk.get_data(self.path, True))
        if err == zk.ERRORS["NONODE"]:
            self.link.call(zk.exists(self.path, True))
            return None
        return json.loads(fields["data"]) if fields["data"] else None

    def _run(self):
        with contextlib.suppress(zk.Closed):  # the ensemble has ended
            self._follow()

    def _follow(self):
        while not self.ending:
            record = self._read()
            if not self.seen or self.seen[-1][1] != record:
                self.seen.append((time.monotonic(), record))
                if self.told:
                    self.told(record)
            while not self.ending and not self.link.events:
                if self.link.buffered or select.select([self.link.socket], [], [], 0.2)[0]:
                    self.link.events.append(zk.decode_event(self.link.read_any()))
            self.link.events.clear()

    def close(self):
        self.ending = True
        self.thread.join()
        self.link.drop()


class Process:
    """A program whose output is kept line by line; it ends with the test program."""

    def __init__(self, words, environment=None, holder=None):
        self.folder = None
        if holder is not None:
            words = ["nsenter", "-t", str(holder.pid), "--net", *words]
        self.words = words
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log,
                                        env={**os.environ, **(environment or {})})
        self.output = bytearray()
        self.lock = threading.Lock()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        LIVE.add(self)

    def _read(self):
        fd = self.process.stdout.fileno()
        while True:
            part = os.read(fd, 65536)
            if not part:
                return
            with self.lock:
                self.output += part

    def text(self):
        with self.lock:
            return self.output.decode("utf-8", "replace")

    def lines(self):
        return self.text().splitlines()

    def errors(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode("utf-8", "replace")

    def alive(self):
        return self.process.poll() is None

    def stopped(self):
        """Stops it (SIGSTOP)."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"

    def send(self, number):
        self.process.send_signal(number)

    def end(self, number=signal.SIGTERM, seconds=20):
        """Ends it and returns the exit code. Its output can still be read."""
        LIVE.discard(self)
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.send_signal(signal.SIGCONT)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"{self.words[:4]} did not end by signal {number}\n{self.tail()}") from None
        self.reader.join()
        return self.process.returncode

    def tail(self, length=3000):
        return f"--- output\n{self.text()[-length:]}\n--- stderr\n{self.errors()[-length:]}"

    def destroy(self):
        LIVE.discard(self)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Manager(Process):
    """One `conclave redis-failover`."""

    def __init__(self, cluster, number, options=(), stop_at=None, holder=None, ready=True):
        self.id = f"m{number}"
        environment = {"CONCLAVE_SERVER": cluster.servers}
        if stop_at:
            environment["CONCLAVE_TEST_REDIS_STOP_AT"] = stop_at
        if cluster.password is not None:
            environment["CONCLAVE_REDIS_PASSWORD"] = cluster.password
        super().__init__([STOPPING if stop_at else program(), "redis-failover", "run", cluster.name, "--nodes", cluster.addresses, "--id", self.id,
                          *cluster.options, *options], environment, holder)
        if ready:
            self.wait_ready()

    def wait_ready(self):
        eventually(lambda: f"{self.id} is not ready\n{self.tail()}",
                   lambda: READY.search(self.output) or self._dead())
        return self

    def _dead(self):
        if not self.alive():
            raise AssertionError(f"{self.id} ended, exit {self.process.returncode}\n{self.tail()}")


Ack = tuple  # (seq, sent_ns, acked_ns, address, epoch, replicas)


class Writer(Process):
    """redis_actor: writes through the client library, and notes what was acknowledged."""

    def __init__(self, cluster, tag, wait=False, interval_ms=2.0, layout="znode", holder=None, servers=None):
        self.cluster, self.tag = cluster, tag
        super().__init__([ACTOR, layout, servers or cluster.servers, cluster.root, tag, "wait" if wait else "nowait",
                          str(int(interval_ms * 1000))], holder=holder)

    def acks(self):
        rows = (line.split() for line in self.text().splitlines(keepends=True) if line.endswith("\n"))
        return [(int(r[1]), int(r[2]), int(r[3]), r[4], int(r[5]), int(r[6])) for r in rows if r[0] == "ack"]

    def wait_acks(self, more=20, seconds=WAIT_S, by=None):
        """Waits until this number of further writes is acknowledged (by this address)."""
        before = len(self.acks())
        eventually(lambda: f"{self.tag} does not write{f' to {by}' if by else ''}\n{self.tail(1500)}\n"
                   f"{self.cluster.told()}",
                   lambda: len([a for a in self.acks()[before:] if by is None or a[3] == by]) >= more, seconds)


def overlaps(writers):
    """Writes of an epoch that were sent after a write of a later epoch was acknowledged: there must be none."""
    acks = [ack for writer in writers for ack in writer.acks()]
    first_acked = {}
    for ack in acks:
        first_acked[ack[4]] = min(first_acked.get(ack[4], ack[2]), ack[2])
    return [ack for ack in acks for epoch, at in first_acked.items() if epoch > ack[4] and ack[1] > at]


class Cluster:
    """Redis servers (the first one the master at the start) and managers. A context manager."""

    def __init__(self, ensemble, name, redis=3, managers=3, options=(), settings=(), servers=None, nodes=None, user=None,
                 password=None, fence=True, root=None, certificate=None, ca=None):
        self.ensemble, self.name = ensemble, name
        self.servers = servers or ensemble.host
        self.password = password
        self.root = root or f"/redis_failover/{name}"
        self.configured = managers
        self.writers = []
        self.lookers = []
        self.managers = []
        self.tree = Tree(ensemble.address)
        if nodes is None:
            first = RedisServer(settings=settings, user=user, password=password, certificate=certificate, ca=ca)
            nodes = [first] + [RedisServer(of=first, settings=settings, user=user, password=password,
                                           certificate=certificate, ca=ca) for _ in range(redis - 1)]
        self.nodes = nodes
        self.options = merged(["--managers", str(managers), *QUICK], options)
        self.folder = tempfile.TemporaryDirectory(prefix="conclave-test-fence-")
        if fence:
            self.options += ["--fence-cmd", self._fence_script()]

    def _fence_script(self):
        """Fencing by kill -9, as an operator's switch of the power would be: by the port's process id."""
        path = os.path.join(self.folder.name, "fence")
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n"
                       f"echo \"$CONCLAVE_TARGET_HOST:$CONCLAVE_TARGET_PORT\" >> {self.folder.name}/fenced\n"
                       f"[ ! -e {self.folder.name}/$CONCLAVE_TARGET_PORT ] || "
                       f"kill -9 $(cat {self.folder.name}/$CONCLAVE_TARGET_PORT) 2>/dev/null\nexit 0\n")
        os.chmod(path, 0o755)
        return path

    def note_pid(self, node):
        with open(os.path.join(self.folder.name, str(node.port)), "w", encoding="ascii") as file:
            file.write(str(node.process.pid))

    def hang_for_ever(self, node):
        """The fencing method confirms its death without killing it: a refused connection could show that first."""
        os.remove(os.path.join(self.folder.name, str(node.port)))
        node.freeze()

    def fenced(self):
        """Addresses the fencing command was run for."""
        try:
            with open(os.path.join(self.folder.name, "fenced"), encoding="ascii") as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    @property
    def addresses(self):
        return ",".join(node.host for node in self.nodes)

    def node(self, address):
        return next(node for node in self.nodes if node.host == address)

    def start_nodes(self):
        for node in self.nodes:
            node.start()
            self.note_pid(node)
        for node in self.nodes:
            if node.of:
                node.wait_synced()
        eventually(self.told, lambda: self.counts_all(self.nodes[0]))
        return self

    def counts_all(self, master):
        """Whether the master says that all others are online. They say so earlier, and it hands over to none before."""
        try:
            info = master.info()
        except (OSError, Refused):
            return False
        others = len(self.nodes) - 1
        return sum("state=online" in info.get(f"slave{number}", "") for number in range(others)) == others

    def restart(self, node):
        node.restart(hard=True)
        self.note_pid(node)

    def manager(self, number, *options, **more):
        """Starts a manager."""
        made = Manager(self, number, options, **more)
        self.managers.append(made)
        return made

    def start(self, managers=None, wait=True, first_stop_at=None):
        """Servers and managers; the first manager leads. Waits until the record names the master."""
        self.start_nodes()
        for number in range(1, (self.configured if managers is None else managers) + 1):
            self.manager(number, stop_at=first_stop_at if number == 1 else None, ready=number == 1)
        for manager in self.managers:
            manager.wait_ready()
        if wait:
            self.wait_state("ok")
        return self

    def leader(self):
        """The first manager that has led."""
        return next(manager for manager in self.managers if " elected: this manager leads" in manager.text())

    def current(self):
        return self.tree.json(f"{self.root}/current") or {}

    def plan(self):
        return self.tree.json(f"{self.root}/plan")

    def events(self):
        path = f"{self.root}/events"
        return [record for record in (self.tree.json(f"{path}/{name}") for name in self.tree.children(path)) if record]

    def reports(self):
        """The managers' reports by id."""
        found = {}
        for name in self.tree.children(f"{self.root}/managers"):
            data = self.tree.get(f"{self.root}/managers/{name}")
            if data:
                found[name] = json.loads(data.partition(b"\n")[2] if data.startswith(b"conclave-member") else data)
        return found

    def told(self):
        """The output of all processes, for the message of a failure."""
        managers = "\n".join(f"== {m.id} {'' if m.alive() else 'dead'}\n{m.tail(2500)}" for m in self.managers)
        return f"current {self.current()}\nplan {self.plan()}\nroles {[n.role() for n in self.nodes]}\n{managers}"

    def wait_state(self, state, seconds=WAIT_S):
        return eventually(lambda: f"{self.name}: state {state}\n{self.told()}",
                          lambda: (lambda c: c if c.get("state") == state else None)(self.current()), seconds)

    def wait_master(self, but=None, node=None, seconds=WAIT_S):
        """Waits until the record names a serving master other than `but` (or this node); returns the node."""
        def named():
            current = self.current()
            if current.get("state") not in ("ok", "degraded") or not current.get("master"):
                return None
            found = self.node(current["master"])
            return found if found is not but and node in (None, found) else None
        return eventually(lambda: f"{self.name}: another master\n{self.told()}", named, seconds)

    def wait_whole(self, seconds=WAIT_S):
        """Until every server is listed as a replica of the master and is in step with it."""
        def whole():
            current = self.current()
            if current.get("state") != "ok" or len(current["replicas"]) != len(self.nodes) - 1:
                return False
            for address in current["replicas"]:
                try:
                    info = self.node(address).info()
                except (OSError, Refused):
                    return False
                if info.get("master_link_status") != "up" or info["master_port"] != current["master"].rpartition(":")[2]:
                    return False
            return self.counts_all(self.node(current["master"]))
        eventually(lambda: f"{self.name}: whole again\n{self.told()}", whole, seconds)
        return self.node(self.current()["master"])

    def stays(self, condition, seconds, what):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert condition(), f"{self.name}: {what}\n{self.told()}"
            time.sleep(0.03)

    def writer(self, tag, **more):
        made = Writer(self, tag, **more)
        self.writers.append(made)
        return made

    def look(self, *words):
        """One of the commands for operators that go on until a signal."""
        made = Process([program(), "redis-failover", words[0], self.name, *words[1:]], {"CONCLAVE_SERVER": self.servers})
        self.lookers.append(made)
        return made

    def command(self, *words, timeout=60):
        """One of the commands for operators: (exit code, output and errors)."""
        done = subprocess.run([program(), "redis-failover", words[0], self.name, *words[1:]], capture_output=True, text=True,
                              timeout=timeout, check=False, env={**os.environ, "CONCLAVE_SERVER": self.servers})
        return done.returncode, done.stdout + done.stderr

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (*self.writers, *self.lookers, *self.managers):
            process.destroy()
        for node in self.nodes:
            node.destroy()
        self.tree.close()
        self.folder.cleanup()
