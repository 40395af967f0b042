#!/usr/bin/env python3
"""Commands whose session ends while they wait: they say so, go on where they can, and end where they must.

Promise: one server of ours, real processes. A process is stopped until the server has ended its session, and then goes on:
what it shows afterwards is complete. Then what the same commands do with a wrong argument or an output that is full.
Limits: cli_test.py tests how the wrapper of a lost lock or election ends its command.

usage: cli_lost_test.py [CASE...]
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import conclave  # noqa: E402

PATIENCE_S = 30
SESSION = "1s"
SERVER = None


class Process:
    """A command of ours whose output is read when it is asked for."""

    def __init__(self, *words, out=None):
        self.log = tempfile.TemporaryFile()
        cut = next((n for n, word in enumerate(words) if word == "--"), len(words))
        words = [*words[:cut], "--session", SESSION, *words[cut:]]
        self.process = subprocess.Popen([conclave.program(), *words], stdin=subprocess.PIPE, stdout=out or self.log,
                                        stderr=subprocess.STDOUT if out is None else self.log, env=environment())

    def text(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode()

    def lines(self):
        return self.text().splitlines()

    def wait(self):
        return self.process.wait(PATIENCE_S)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.wait()

    def expect(self, lines):
        eventually(lambda: self.lines() == lines, lambda: f"{self.process.args}:\n{self.text()}\nwanted:\n{lines}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Ends it in order: a session that was left behind would expire while lose_session counts."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def environment():
    return dict(os.environ, CONCLAVE_SERVER=SERVER.host)


def eventually(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.02)


def run(*words, code=0, text=None):
    done = subprocess.run([conclave.program(), *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                          env=environment(), input=text)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def sessions():
    return json.loads(run("sessions", "--json"))["sessions"]


def lose_session(*processes):
    """Stops them until their sessions have ended."""
    before = len(sessions())
    for process in processes:
        process.process.send_signal(signal.SIGSTOP)
    eventually(lambda: len(sessions()) <= before - len(processes), lambda: f"{before} sessions before, now {sessions()}")
    for process in processes:
        process.process.send_signal(signal.SIGCONT)


# --- watches --------------------------------------------------------------------------------------------------------------------


def test_a_watch_says_when_it_may_have_missed_something():
    run("create", "/w/below", "--parents")
    with Process("watch", "/w") as plain, Process("watch", "/w", "--json") as shown, \
            Process("watch", "/w", "--persistent") as persistent, Process("watch", "/w", "--recursive") as recursive, \
            Process("watch", "/absent") as absent:
        for process in (plain, persistent, recursive):
            process.expect(["WATCHING /w"])
        absent.expect(["WATCHING /absent"])
        eventually(lambda: shown.lines(), "nothing shown")
        lose_session(plain, shown, persistent, recursive, absent)
        for process in (plain, persistent, recursive):
            process.expect(["WATCHING /w", "LOST /w", "WATCHING /w"])
        absent.expect(["WATCHING /absent", "LOST /absent", "WATCHING /absent"])
        run("set", "/w", "x")
        run("create", "/w/new")
        run("create", "/absent")
        plain.expect(["WATCHING /w", "LOST /w", "WATCHING /w", "DATA_CHANGED /w", "CHILDREN_CHANGED /w"])
        persistent.expect(["WATCHING /w", "LOST /w", "WATCHING /w", "DATA_CHANGED /w", "CHILDREN_CHANGED /w"])
        recursive.expect(["WATCHING /w", "LOST /w", "WATCHING /w", "DATA_CHANGED /w", "CREATED /w/new"])
        absent.expect(["WATCHING /absent", "LOST /absent", "WATCHING /absent", "CREATED /absent"])
        eventually(lambda: len(shown.lines()) == 5, shown.text)
        got = [json.loads(line) for line in shown.lines()]
        assert [line["event"] for line in got] == ["WATCHING", "LOST", "WATCHING", "DATA_CHANGED", "CHILDREN_CHANGED"], got
        assert got[0]["exists"] is True and got[0]["version"] == 0 and "exists" not in got[3], got
        assert plain.end() == 128 + signal.SIGTERM


def test_a_watch_ends_when_it_cannot_write():
    run("create", "/full")
    with open("/dev/full", "wb") as full, Process("watch", "/full", out=full) as text, \
            Process("watch", "/full", "--json", out=full) as shown:
        assert text.wait() == shown.wait() == 74, (text.text(), shown.text())


AGE = ("STALE", "FRESH")  # whether the server was reached


def changes(process):
    return [line for line in process.lines() if line not in AGE]


def test_watch_of_a_configuration_goes_on():
    run("create", "/conf", "one")
    run("create", "/tree/a", "1", "--parents")
    with Process("config", "watch", "/conf") as value, Process("config", "watch", "/tree", "--tree", "--json") as tree, \
            Process("config", "watch", "/late") as late:
        value.expect(["CHANGED\tone"])
        eventually(lambda: tree.lines(), "nothing shown")
        eventually(lambda: late.lines() == ["MISSING"], late.text)
        lose_session(value, tree, late)
        run("set", "/conf", "two")
        run("create", "/tree/b", "2")
        run("create", "/late", "there")
        eventually(lambda: changes(value) == ["CHANGED\tone", "CHANGED\ttwo"], value.text)
        eventually(lambda: changes(late) == ["MISSING", "CHANGED\tthere"], late.text)
        eventually(lambda: "b" in [json.loads(line).get("path") for line in tree.lines()], tree.text)
        eventually(lambda: [line for line in value.lines() if line in AGE][-1:] != ["STALE"], value.text)
        run("rm", "/conf")
        eventually(lambda: changes(value)[-1] == "MISSING", value.text)
        assert value.end(signal.SIGINT) == 128 + signal.SIGINT


# --- barriers -------------------------------------------------------------------------------------------------------------------


def test_a_barrier_is_waited_for_over_a_lost_session():
    run("barrier", "set", "/plain")
    with Process("barrier", "wait", "/plain") as waits, Process("barrier", "wait", "/plain") as signalled:
        eventually(lambda: len(sessions()) == 2, lambda: f"{sessions()}")
        time.sleep(0.3)
        lose_session(waits, signalled)
        time.sleep(0.3)
        assert waits.process.poll() is None, waits.text()
        assert signalled.end(signal.SIGINT) == 128 + signal.SIGINT, signalled.text()
        run("barrier", "remove", "/plain")
        assert waits.wait() == 0, waits.text()


def test_a_member_without_a_session_is_no_member():
    words = ("barrier", "enter", "/lost", "-n", "2")
    with tempfile.NamedTemporaryFile() as started, Process(*words) as idle, \
            Process(*words, "--", "sh", "-c", f"echo in > {started.name}; exec sleep 600") as busy:
        idle.expect(["entered"])
        eventually(lambda: os.stat(started.name).st_size > 0, "the command has not begun")
        lose_session(idle, busy)
        assert busy.wait() == 76, busy.text()
        assert idle.wait() == 76, idle.text()


def test_a_member_leaves_at_the_end_of_its_input_or_by_a_signal():
    with Process("barrier", "enter", "/leave", "-n", "1") as reads:
        reads.expect(["entered"])
        reads.process.stdin.close()
        assert reads.wait() == 0, reads.text()
    with Process("barrier", "enter", "/leave", "-n", "1", "--late-pass") as signalled:
        signalled.expect(["entered"])
        assert signalled.end(signal.SIGINT) == 128 + signal.SIGINT, signalled.text()
    assert "NO_NODE" in run("ls", "/leave/round", code=1)  # nobody is left inside
    with Process("barrier", "enter", "/never", "-n", "2") as waits:
        eventually(lambda: len(sessions()) == 1, lambda: f"{sessions()}")
        time.sleep(0.3)
        assert waits.end() == 128 + signal.SIGTERM, waits.text()
    assert "/no/such/program" in run("barrier", "enter", "/leave2", "-n", "1", "--", "/no/such/program", code=127)


def test_barrier_arguments():
    for words, part in ((["put", "/b"], '"put" is none of set, wait, remove and enter'),
                        (["enter", "/b"], "--count"),
                        (["enter", "/b", "-n", "0"], "--count"),
                        (["wait", "/b", "-n", "1"], "wait and remove want PATH alone"),
                        (["set", "/b", "--round", "x"], "set, wait and remove want PATH alone"),
                        (["enter", "/b", "-n", "1", "--round", "a/b"], "--round"),
                        (["set", "/"], "a node of its own"),
                        (["set", "b"], 'begins with "/"')):
        text = run("barrier", *words, code=64)
        assert part in text, (words, text)


# --- what the client saw ----------------------------------------------------------------------------------------------------------


def test_a_paused_client_says_that_it_was_paused():
    with Process("create", "/held", "--ephemeral") as holds, Process("lock", "/locked", "--", "sleep", "600") as locks:
        eventually(lambda: len(sessions()) == 2, lambda: f"{sessions()}")
        eventually(lambda: "/held" in holds.text(), holds.text)
        time.sleep(0.3)
        lose_session(holds, locks)
        assert holds.wait() == 76, holds.text()
        assert locks.wait() == 76, locks.text()
        for process, name in ((holds, "create"), (locks, "lock")):
            assert f"conclave {name}: what this client saw: this client did not run for " in process.text(), process.text()
        assert "conclave sessions why 0x" in holds.text(), holds.text()


# --- groups and queues ----------------------------------------------------------------------------------------------------------


def test_a_member_of_a_group_comes_back():
    with Process("group", "watch", "/group") as watch, Process("group", "join", "/group", "--id", "one") as member:
        eventually(lambda: any(line.startswith("JOINED\tone") for line in watch.lines()), watch.text)
        lose_session(member)
        eventually(lambda: [line.split("\t")[0] for line in watch.lines() if "\tone" in line] == ["JOINED", "LEFT", "JOINED"],
                   lambda: watch.text() + member.text())
        member.end()


def test_an_item_is_handed_on_when_its_consumer_loses_its_session():
    run("queue", "put", "/queue", "work")
    with tempfile.NamedTemporaryFile() as started, \
            Process("queue", "take", "/queue", "--", "sh", "-c", f"echo in > {started.name}; exec sleep 600") as first:
        eventually(lambda: os.stat(started.name).st_size > 0, "the command has not begun")
        lose_session(first)
        assert run("queue", "take", "/queue", "--", "cat") == "work"
        assert first.process.poll() is None or first.process.returncode != 0, first.text()


def main():
    global SERVER
    if conclave.why_missing():
        return cases.skip_all(conclave.why_missing())
    with conclave.Conclave(["--4lw.commands.whitelist", "srvr,sess"], tick_ms=200) as SERVER:
        return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
