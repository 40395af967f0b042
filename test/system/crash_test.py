"""kill -9 of the server at random moments under load, many times over; then everything promised is looked up.

Promise, checked after every kill: each acknowledged write is there, each write is there once or not at all (a
counter's version equals its value), a closed session left no ephemeral, a session that re-attaches keeps its id and
its ephemerals, and one that stays away is gone with its ephemerals within timeout + tick of the restart.
Snapshots and log trimming happen all the time (a small snapCount).
Limits: kill -9 keeps what the kernel was given, so this shows recovery, not fsync; the power cuts of
test/unit/replication show that.

usage: crash_test.py [--rounds N] [--seed N]
"""

import argparse
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import zkwire as zk  # noqa: E402
from conclave import Conclave, why_missing  # noqa: E402

TICK_MS = 200
TIMEOUT_MS = 4000        # of the sessions that come back
SHORT_TIMEOUT_MS = 600   # of those that stay away
WINDOW = 16              # requests in flight per writer
WRITERS = 3


class Violation(Exception):
    """A promise was broken; the text says which."""


def expect(condition, text):
    if not condition:
        raise Violation(text)


class Writer:
    """A session that writes until the server dies, and knows what was acknowledged and what was on its way."""

    def __init__(self, number):
        self.number = number
        self.root = f"/w{number}"
        self.session_id, self.passwd, self.last_zxid = 0, bytes(16), 0
        self.next_node = 0
        self.nodes = {}        # acknowledged and not deleted: path -> True when ephemeral
        self.unknown = set()   # created or deleted without an answer: may be there or not
        self.counter_acked = 0
        self.counter_sent = 0
        self.connection = None

    def connect(self, address, timeout_ms=TIMEOUT_MS):
        connection = zk.Connection(address, timeout_ms, self.session_id, self.passwd, self.last_zxid)
        expect(connection.session_id != 0, f"{self.root}: session 0x{self.session_id:x} could not re-attach")
        expect(self.session_id in (0, connection.session_id), f"{self.root}: got another session")
        self.session_id, self.passwd = connection.session_id, connection.passwd
        self.connection = connection

    def prepare(self):
        """The nodes that every writer has; at the very first start only."""
        for path in (self.root, self.root + "/counter"):
            err, _ = self.connection.call(zk.create(path))
            expect(err == 0, f"create {path}: error {err}")

    def request(self, rng):
        kind = rng.random()
        if kind < 0.4:
            self.counter_sent += 1
            return zk.set_data(self.root + "/counter", b"%d" % self.counter_sent), ("set", self.counter_sent)
        path = f"{self.root}/n{self.next_node}"
        if kind < 0.5 and self.nodes:
            path = rng.choice(list(self.nodes))
            del self.nodes[path]
            self.unknown.add(path)
            return zk.delete(path), ("delete", path)
        self.next_node += 1
        self.unknown.add(path)
        if kind < 0.7:
            return zk.create(path, path.encode(), flags=zk.EPHEMERAL), ("create", path, True)
        if kind < 0.8:
            parts = [zk.create(path, path.encode()), zk.set_data(path, path.encode())]
            return zk.multi(parts), ("create", path, False)
        return zk.create(path, path.encode()), ("create", path, False)

    def acknowledge(self, what, err):
        expect(err == 0, f"{self.root}: {what} was answered with error {err}")
        if what[0] == "set":
            self.counter_acked = what[1]
        else:
            self.unknown.discard(what[1])
            if what[0] == "create":
                self.nodes[what[1]] = what[2]

    def run(self, seed, failures):
        """Writes until the link breaks."""
        rng = random.Random(seed)
        flying = {}
        try:
            while True:
                while len(flying) < WINDOW:
                    request, what = self.request(rng)
                    flying[self.connection.send(request)] = what
                reply = self.connection.read_reply()
                self.acknowledge(flying.pop(reply.xid), reply.err)
                self.last_zxid = reply.zxid
        except (zk.Closed, ConnectionError):
            self.connection.drop()
        except Exception as error:  # reported to the main thread, which fails the round
            failures.append(error)

    def verify(self):
        """Everything acknowledged is there, nothing happened twice; unknown outcomes are known afterwards."""
        call = self.connection.call
        err, fields = call(zk.get_data(self.root + "/counter"))
        expect(err == 0, f"{self.root}/counter is gone: error {err}")
        value = int(fields["data"] or b"0")
        expect(self.counter_acked <= value <= self.counter_sent,
               f"{self.root}: counter is {value}, acknowledged {self.counter_acked}, sent {self.counter_sent}")
        expect(fields["stat"]["version"] == value,
               f"{self.root}: counter {value} has version {fields['stat']['version']}: a write was applied twice")
        self.counter_acked = self.counter_sent = value
        err, fields = call(zk.get_children(self.root))
        there = {f"{self.root}/{name}" for name in fields["children"]} - {self.root + "/counter"}
        lost = set(self.nodes) - there
        expect(not lost, f"acknowledged and lost: {sorted(lost)[:5]}")
        strange = there - set(self.nodes) - self.unknown
        expect(not strange, f"deleted (acknowledged) or never written, and there: {sorted(strange)[:5]}")
        for path in there & self.unknown:
            err, fields = call(zk.exists(path))
            self.nodes[path] = fields["stat"]["ephemeralOwner"] != 0
        self.unknown.clear()
        for path in random.sample(sorted(self.nodes), min(20, len(self.nodes))):
            err, fields = call(zk.get_data(path))
            expect(err == 0 and fields["data"] == path.encode(), f"{path}: error {err}, data {fields}")
            owner = self.session_id if self.nodes[path] else 0
            expect(fields["stat"]["ephemeralOwner"] == owner, f"{path}: owner {fields['stat']['ephemeralOwner']:x}")


def leave_short_session(address, path):
    """A session that makes an ephemeral node and is then never heard of again."""
    connection = zk.Connection(address, SHORT_TIMEOUT_MS)
    err, _ = connection.call(zk.create(path, flags=zk.EPHEMERAL))
    expect(err == 0, f"create {path}: error {err}")
    timeout_ms = connection.timeout_ms
    connection.drop()
    return timeout_ms


def close_a_session(address, path):
    connection = zk.Connection(address, TIMEOUT_MS)
    connection.call(zk.create(path, flags=zk.EPHEMERAL))
    connection.close_session()


def expect_gone(connection, path, deadline, ready):
    """The node goes by the deadline; a node that a dead session left may not outlive timeout + tick."""
    while True:
        now = time.monotonic()
        err, _ = connection.call(zk.exists(path))
        if err == zk.ERRORS["NONODE"]:
            return
        expect(now < deadline, f"{path}: its session is dead, and it is there {now - ready:.3f} s after the restart")
        time.sleep(0.02)


def round_of(server, writers, number, rng):
    """One start of the server: verify the last kill, write, kill."""
    server.start()
    ready = time.monotonic()
    address = server.address
    for writer in writers:
        writer.connect(address)
        if number == 0:
            writer.prepare()
        writer.verify()
    first = writers[0].connection
    if number > 0:
        err, _ = first.call(zk.exists(f"/closed{number - 1}"))
        expect(err == zk.ERRORS["NONODE"], f"/closed{number - 1}: the session was closed, its node is there")
    if number % 10 == 1:  # waiting takes a second: every tenth round
        slack_s = 0.5     # for a busy machine
        deadline = ready + (SHORT_TIMEOUT_MS + TICK_MS) / 1000 + slack_s
        expect_gone(first, f"/short{number - 1}", deadline, ready)
    close_a_session(address, f"/closed{number}")
    leave_short_session(address, f"/short{number}")
    failures = []
    threads = [threading.Thread(target=writer.run, args=(rng.random(), failures)) for writer in writers]
    for thread in threads:
        thread.start()
    time.sleep(rng.uniform(0.0, 0.15))
    server.kill()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def run_rounds(server, rounds, seed, rng, what):
    """Rounds on the server until one fails; returns how many passed. `what` are the ends that server.kill() brings."""
    writers = [Writer(number) for number in range(WRITERS)]
    passed = 0
    try:
        for number in range(rounds):
            round_of(server, writers, number, rng)
            passed += 1
    except (Violation, zk.Closed, RuntimeError) as violation:  # refused, or it did not start
        print(f"round {passed} of seed {seed}: {violation!r}\n{server.log_tail()}")
    acknowledged = sum(len(writer.nodes) + writer.counter_acked for writer in writers)
    print(f"{passed} {what} survived, {acknowledged} acknowledged writes looked up, seed {seed}")
    server.destroy()
    return passed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    arguments = parser.parse_args()
    if why_missing():
        print(f"skipped: {why_missing()}")
        return 77
    server = Conclave(["--snapCount", "300", "--preAllocSize", "256", "--minSessionTimeout", "400",
                       "--maxSessionTimeout", "20000"], tick_ms=TICK_MS)
    passed = run_rounds(server, arguments.rounds, arguments.seed, random.Random(arguments.seed), "kills")
    print(f"{passed} passed, {arguments.rounds - passed} failed")
    return 0 if passed == arguments.rounds else 1


if __name__ == "__main__":
    sys.exit(main())
