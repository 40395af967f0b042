#!/usr/bin/env python3
"""An entry of the log that ends every server that applies it: the way past it.

    poison_test.py [CASE]...

Promise: a server with a planted fault dies while it applies a write, and again at each start; the next start names the
entry; --skip-entry, given to a majority, leads all past it to one and the same state, those too that know of it only
from the others or the log, and one server alone of several cannot do it.
Limits: loopback; the fault is a program of the tests, build/test/system/conclave_poisoned.
"""

import os
import re
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import zkwire as zk  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402
from ensemble import ConclaveMember, Ensemble  # noqa: E402

POISON = b"the poison of the test"
BUILD = os.environ.get("CONCLAVE_BUILD") or os.path.dirname(program())
POISONED = os.path.abspath(os.path.join(BUILD, "test", "system", "conclave_poisoned"))
SUSPECTED = re.compile(r"entry_suspected index=(\d+) deaths=(\d+)")
WAIT_S = 40
ALONE_S = 5  # more than an election takes
CASES = []


def case(function):
    CASES.append(function)
    return function


class PoisonedServer(Conclave):
    """Alone; `extra` are options of the next start."""

    extra = ()

    def command(self):
        return [POISONED, *super().command()[1:], *self.extra]


class PoisonedMember(ConclaveMember):
    extra = ()

    def command(self):
        return [POISONED, *super().command()[1:], *self.extra]


def wait_for(what, happened, seconds=WAIT_S):
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen in {seconds} s")
        time.sleep(0.05)


def log_of(server):
    with open(server.log_path, "r", encoding="utf-8", errors="replace") as log:
        return log.read()


def call(server, request):
    with zk.Connection(server.address, 10000) as client:
        return client.call(request)


def poison(server):
    """The write is never answered."""
    try:
        call(server, zk.set_data("/a", POISON))
    except (zk.Closed, OSError):
        return
    raise AssertionError("the poison was answered")


def die(server):
    """Waits until the server's process has ended without a signal from here."""
    wait_for("the server's end", lambda: server.process.poll() is not None)
    server._end(9)


def launch(server):
    """Starts it. It may die before it is ready, and its folder stays."""
    server.destroy = lambda: None
    try:
        server.start()
    except RuntimeError:
        pass
    finally:
        del server.destroy


def start_and_die(server):
    launch(server)
    die(server)


def start_and_die_both(one, two):
    """Starts two members of three until each has died. Who leads may die before it has told the other what is committed:
    then the other lives on, alone, until they are a majority again."""
    launch(one)
    launch(two)
    living = [one, two]
    again = deadline = time.monotonic()
    while living:
        now = time.monotonic()
        if now > deadline + 2 * WAIT_S:
            raise AssertionError("not both of two members died of the poison")
        for member in (one, two):
            if not member.alive():
                member._end(9)
                if member in living:
                    living.remove(member)
                    again = now + ALONE_S
                elif living and now > again:
                    launch(member)
        time.sleep(0.05)
    for member in (one, two):
        if member.process is not None:
            die(member)


def read(server, path):
    err, fields = call(server, zk.get_data(path))
    return fields["data"] if err == 0 else err


@case
def a_server_alone():
    with PoisonedServer() as server:
        call(server, zk.create("/a", b"good"))
        poison(server)
        die(server)
        for _ in range(3):
            start_and_die(server)
        named = SUSPECTED.findall(log_of(server))
        if [deaths for _, deaths in named] != ["1", "2"] or len({index for index, _ in named}) != 1:
            raise AssertionError(f"named were {named}\n{server.log_tail()}")
        server.extra = ("--skip-entry", named[0][0])
        server.start()
        if read(server, "/a") != b"good":
            raise AssertionError("the state is another one")
        call(server, zk.create("/b", b"behind"))
        server.extra = ()
        server.restart(hard=True)  # the decision is in the log
        if (read(server, "/a"), read(server, "/b")) != (b"good", b"behind"):
            raise AssertionError("the state is another one after a restart")
        if log_of(server).count("entry_skipped ") < 2:
            raise AssertionError(server.log_tail())


@case
def a_majority_of_three():
    with Ensemble(3, PoisonedMember, tick_ms=500) as ensemble:
        leader = ensemble.wait_leader()
        call(leader, zk.create("/a", b"good"))
        poison(leader)
        # The last one has no majority that could tell it to apply the entry.
        wait_for("the end of two", lambda: sum(member.alive() for member in ensemble.members) == 1)
        for member in ensemble.members:
            member.kill()
        one, two, three = ensemble.members
        # A member notes what it applies only up to where its log ended when it started. One that got the entry from
        # the others during that run dies of it without a note: then the next death is the first that is noted.
        named = []
        for _ in range(2):
            if not named:
                start_and_die_both(one, two)
                one.start()
                named = SUSPECTED.findall(log_of(one))
                one.stop()
        if len(named) != 1:
            raise AssertionError(f"named were {named}\n{one.log_tail()}")
        index = named[0][0]
        # One member waits, and nothing more: two have no majority with the same word.
        one.extra = ("--skip-entry", index)
        one.start()
        two.start()
        die(two)
        if "entry_skip_decided" in log_of(one) + log_of(two):
            raise AssertionError("one member decided it")
        two.extra = one.extra
        two.start()
        ensemble.wait_leader(WAIT_S, serving=2)
        three.start()
        ensemble.wait_leader(WAIT_S, serving=3)
        for member in ensemble.members:
            wait_for("the good state", lambda member=member: read(member, "/a") == b"good")
        one.extra = two.extra = ()
        for member in ensemble.members:
            member.restart(hard=True)
        ensemble.wait_leader(WAIT_S, serving=3)
        call(one, zk.create("/b", b"behind"))
        for member in ensemble.members:
            call(member, zk.sync("/"))
            if (read(member, "/a"), read(member, "/b")) != (b"good", b"behind"):
                raise AssertionError(f"member {member.number} has another state")


def main():
    missing = why_missing() or (None if os.access(POISONED, os.X_OK) else f"no program {POISONED}: run 'make'")
    if missing:
        print(f"skipped: {missing}")
        return 77
    passed = failed = 0
    for function in CASES:
        if sys.argv[1:] and function.__name__ not in sys.argv[1:]:
            continue
        try:
            function()
            passed += 1
            print(f"ok      {function.__name__}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED  {function.__name__}\n{traceback.format_exc()}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
