#!/usr/bin/env python3
"""`conclave switch`: one active, the others on standby, with fencing.

Promise: real servers, wrappers, guardians and children. no_two_are_active has two members fail over --rounds times
(default 12) in twelve ways and compares their daemons' own stamps (switch_duel.py). The statements E97 to E107 of the
elector and the commands are cases of that name.
Limits: as cli_test.py, whose tools these are.

usage: switch_test.py [--rounds N] [--seed N] [--zookeeper] [NAME...]
--zookeeper: on Apache ZooKeeper.
"""

import argparse
import concurrent.futures
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import cli_test as cli  # noqa: E402
import conclave  # noqa: E402
import switch_duel  # noqa: E402
import zookeeper  # noqa: E402

LOCK, CRUMB = "/ActiveStandbyElectorLock", "/ActiveBreadCrumb"
AT_ONCE = 4
FOLDERS = []
OPTIONS = None


class Switch(cli.Elect):
    """`conclave switch DIR words`; its name is the id; `lines` is what it printed."""

    def __init__(self, path, name, *words, **more):
        self.lines = []
        self.rest = b""
        if not any(key in more for key in ("child", "command")) and "--on-active" not in words:
            more["child"] = []
        super().__init__(path, "--id", name, *words, verb="switch", **more)
        output = self.process.stdout.fileno()
        fcntl.fcntl(output, fcntl.F_SETFL, fcntl.fcntl(output, fcntl.F_GETFL) | os.O_NONBLOCK)

    def read(self):
        try:
            while part := os.read(self.process.stdout.fileno(), 65536):
                self.rest += part
        except BlockingIOError:
            pass
        *whole, self.rest = self.rest.split(b"\n")
        self.lines += [line.decode() for line in whole]
        return self.lines

    def said(self, pattern):
        """The first line that matches."""
        return next((line for line in self.read() if re.search(pattern, line)), None)

    def waits_for(self, pattern, limit_s=cli.WAIT_S):
        return cli.until(lambda: self.said(pattern), f"{pattern} of {self.path}: {self.lines}", limit_s)

    def active(self, count=1):
        """Waits until it is active for the count-th time, and ready; its token then."""
        cli.until(lambda: len([line for line in self.read() if line.startswith("ready\t")]) >= count,
                  f"to be active: {self.lines}")
        return int([line for line in self.lines if line.startswith("ready\t")][-1].split("\t")[1])

    def standby(self):
        self.waits_for("^state\tSTANDBY")

    def stop(self, code=143):
        self.signal(signal.SIGTERM)
        return self.end(code)


def node(path):
    code, out, _ = cli.run("get", path)
    return out if code == 0 else None


def pair(path, *words, **more):
    """One active, one on standby."""
    first = Switch(path, "a", *words, **more)
    token = first.active()
    second = Switch(path, "b", *words, **more)
    second.standby()
    return first, second, token


def folder_of_ours():
    """A folder that goes with the suite."""
    FOLDERS.append(tempfile.mkdtemp(prefix="conclave-test-switch-"))
    return FOLDERS[-1]


def marker():
    """A file that a command may touch."""
    return os.path.join(folder_of_ours(), "mark")


def listed(path):
    return cli.okj("switch", path, "--list")


# --- arguments, environment, output ---------------------------------------------------------------------------------


def test_arguments():
    cli.refused(64, "give a command behind", "switch", "/x")
    cli.refused(64, "give a command behind", "switch", "/x", "--on-active", "true")
    cli.refused(64, "give a command, or", "switch", "/x", "--on-active", "a", "--on-standby", "b", "--", "true")
    cli.refused(64, "not both", "switch", "/x", "--once", "--forever", "--", "true")
    cli.refused(64, "one of --list", "switch", "/x", "--list", "--cede")
    cli.refused(64, "runs no command", "switch", "/x", "--list", "--", "true")
    cli.refused(64, "a node of its own", "switch", "/", "--", "true")
    cli.refused(64, "the URL has to", "switch", "/x", "--fence-http", "power", "--", "true")
    cli.refused(64, "NAME=VALUE", "switch", "/x", "--fence-ssh-option", "-v", "--", "true")
    cli.refused(64, "1 or more", "switch", "/x", "--health-failures", "0", "--", "true")
    cli.refused(64, "more than 0", "switch", "/x", "--health-timeout", "0", "--", "true")
    cli.refused(64, "port is from", "switch", "/x", "--port", "70000", "--", "true")
    cli.refused(64, "no place for --data", "switch", "/x", "--hadoop", "--data", "x", "--", "true")
    cli.refused(64, "not both", "switch", "/x", "--hadoop", "--yarn", "--", "true")
    cli.refused(64, "go with --reset", "switch", "/x", "--force", "--", "true")
    cli.refused(64, "--set-acl goes with", "switch", "/x", "--set-acl", "--list")
    cli.refused(64, "wants --acl", "switch", "/x", "--make-parent", "--set-acl")
    cli.refused(64, "one of --list", "switch", "/x", "--reset", "--make-parent")
    cli.refused(64, "runs no command", "switch", "/x", "--reset", "--", "true")
    cli.refused(64, 'no "/"', "switch", "/x", "--id", "a/b", "--", "true")
    cli.refused(64, "--acl wants", "switch", "/x", "--acl", "nonsense", "--", "true")
    cli.refused(64, "give one of --list", "switch", "/x", "--hand-over", "a", "--state", "b")
    cli.refused(64, "wants the token", "switch", "/x", "--override", "x")
    cli.refused(1, "nobody was active", "switch", "/x", "--override", "5")
    cli.refused(1, "nobody is active", "switch", "/x", "--cede")
    cli.refused(69, "cannot connect", "switch", "/x", "--timeout", "300ms", "--", "true", where="127.0.0.1:1")
    assert cli.ok("switch", "/x", "--list") == "none\n"


def test_environment_and_events():
    e = Switch("/env", "me", "--json", "--host", "h1", "--port", "77", "--data", "more", command=["env"])
    e.end(0)
    lines = e.read()
    env = dict(line.split("=", 1) for line in lines if line.startswith("CONCLAVE_") and "=" in line)
    assert env["CONCLAVE_PATH"] == "/env" and env["CONCLAVE_ROLE"] == "active" and env["CONCLAVE_ID"] == "me", env
    assert env["CONCLAVE_NODE"] == "/env" + CRUMB and env["CONCLAVE_SESSION_TIMEOUT_MS"] == str(cli.T_MS), env
    events = [json.loads(line) for line in lines if line.startswith("{")]
    token = int(env["CONCLAVE_TOKEN"])
    assert {"event": "state", "state": "ACTIVE", "token": token, "reason": ""} in events, events
    assert {"event": "ready", "token": token} in events, events
    assert e.status() == [{"reason": "exited", "exit_code": 0, "child_status": 0, "token": token}]
    shown = listed("/env")
    assert not shown["active"] and shown["lock"] is None and shown["members"] == [], shown
    crumb = shown["breadcrumb"]
    assert (crumb["id"], crumb["token"], crumb["clean"], crumb["host"], crumb["port"], crumb["data"]) == \
        ("me", token, True, "h1", 77, "more"), crumb


def test_ready_is_what_the_child_says():
    mark = marker()
    script = f"until test -e {mark}; do sleep 0.02; done; echo READY=1 >/proc/self/fd/$CONCLAVE_READY_FD; exec sleep 100"
    first = Switch("/ready", "a", "--ready-fd", command=["sh", "-c", script])
    first.waits_for("^state\tACTIVE")
    time.sleep(0.2)
    assert first.said("^ready") is None and not listed("/ready")["members"][0]["ready"]
    with open(mark, "w", encoding="ascii"):
        token = first.active()
    shown = listed("/ready")
    assert shown["active"] and shown["members"][0]["ready"] and shown["members"][0]["token"] == token, shown
    text = cli.ok("switch", "/ready", "--list")
    assert text.startswith("ROLE\tID\tTOKEN\tADDRESS\tSTATE\n"), text
    assert re.search(rf"^active\ta\t{token}\t\S+:0\tserving$", text, re.M) and "member\ta" in text, text
    first.stop()


# --- E97 to E102 --------------------------------------------------------------------------------------------------------


def test_E97_unfenceable_blocks_until_an_operator_speaks():
    """Fenced before it is activated; when that fails nobody is active, the breadcrumb stands, it is tried again."""
    first, second, token = pair("/e97", "--fence-cmd", "exit 1")
    first.signal(signal.SIGKILL)
    second.waits_for(f"^fence\ta\t{token}\texec\tfailed\texit code 1")
    crumb = node("/e97" + CRUMB)
    second.waits_for("^state\tNEUTRAL\t-\tfencing failed")
    cli.until(lambda: len([line for line in second.read() if line.startswith("fence\t")]) >= 2, "a second try")
    assert second.starts() == [] and node("/e97" + CRUMB) == crumb and not listed("/e97")["active"]
    cli.refused(1, "nobody with token", "switch", "/e97", "--override", str(token + 1))
    cli.ok("switch", "/e97", "--override", str(token))
    assert second.active() > token and cli.run("stat", "/e97/FenceOverride")[0] == 1
    err = second.stop()
    assert f"--override {token}" in err, err
    third = Switch("/e97", "c")  # without a method: after an orderly end none is needed
    third.active()
    third.signal(signal.SIGKILL)
    fourth = Switch("/e97", "d")
    fourth.waits_for("^state\tNEUTRAL\t-\tfencing failed")
    assert fourth.starts() == []
    fourth.stop()


def test_E98_lock_lost_while_it_fences():
    """Not activated, the breadcrumb not overwritten, the method that hangs is ended."""
    mark = marker()
    first = Switch("/e98", "a", "--fence-cmd", "true")
    token = first.active()
    slow = Switch("/e98", "b", "--fence-cmd", f"echo $$ >>{mark}; until test -e {mark}.go; do sleep 0.05; done")
    slow.standby()

    def methods():
        """Process ids of the methods that were begun."""
        if not os.path.exists(mark):
            return []
        with open(mark, encoding="ascii") as file:
            return [int(line) for line in file]
    first.signal(signal.SIGKILL)
    slow.waits_for("^state\tFENCING")
    crumb = cli.until(lambda: methods() and node("/e98" + CRUMB), "the method to run")
    cli.ok("rm", "/e98" + LOCK)
    cli.until(lambda: len(methods()) == 2 and cli.gone(methods()[0]), "end of the method, and another one")
    assert slow.said("^state\tACTIVE") is None and node("/e98" + CRUMB) == crumb
    with open(mark + ".go", "w", encoding="ascii"):
        assert slow.active() > token
    assert slow.said(f"^fence\ta\t{token}\texec\tconfirmed")
    slow.stop()


def test_E99_the_same_name_in_another_life_is_fenced():
    first = Switch("/e99", "same", "--fence-cmd", "true")
    token = first.active()
    first.signal(signal.SIGKILL)
    again = Switch("/e99", "same", "--fence-cmd", "true")
    again.waits_for(f"^fence\tsame\t{token}\texec\tconfirmed")
    assert again.active() > token
    again.stop()


def test_E100_after_an_orderly_end_nobody_is_fenced():
    first, second, token = pair("/e100", "--fence-cmd", "true")
    first.stop()
    assert second.active() > token and second.said("^fence") is None
    second.stop()


# --- E103 to E107 --------------------------------------------------------------------------------------------------------


def test_E103_stubborn_child():
    """SIGKILL to the whole group, and to what left it, before last_ack + T; 76 with --once, else it stands by again."""
    once = Switch("/e103", "a", "--once", "--fence-cmd", "true", child=["stubborn", "family"])
    lasting = Switch("/e103b", "a", "--fence-cmd", "true")
    once.active()
    lasting.active()
    pids = [once.started()[2]] + [int(cli.until(lambda n=n: once.file("pid." + n), n)) for n in ("sibling", "daemon")]
    try:
        stopped = cli.lose_server(once)
        once.end(76)
        cli.until(lambda: cli.gone(lasting.started()[2]), "end of the child")
    finally:
        os.kill(cli.server.process.pid, signal.SIGCONT)
    assert all(map(cli.gone, pids))
    ms = cli.dead_in_time(once, ["child", "sibling", "daemon"], stopped)
    assert once.status()[0]["reason"] == "lost"
    lasting.active(2)
    lasting.stop()
    assert [status["reason"] for status in lasting.status()] == ["lost", "signaled"]
    return f"dead {ms:.0f} ms after the server stopped answering"


def test_E104_wrapper_killed_or_stopped():
    """The guardian ends the group; the next one's child starts only afterwards."""
    for number in (signal.SIGKILL, signal.SIGSTOP):
        path = f"/e104-{int(number)}"
        first, second, token = pair(path, "--fence-cmd", "true", child=["stubborn", "family"])
        cli.until(lambda f=first: f.file("pid.sibling") and f.file("pid.daemon"), "the family")
        first.signal(number)
        assert second.active() > token
        assert second.started()[1] > max(map(first.alive_ns, ["child", "sibling", "daemon"])), "two at once"
        if number == signal.SIGSTOP:
            first.signal(signal.SIGCONT)
            cli.until(lambda f=first: len([x for x in f.read() if "STANDBY" in x]) >= 1, "to stand by again")
            first.stop(128 + 15)
        second.signal(signal.SIGKILL)


def test_E105_exit_codes():
    """The child's code, and the lock is given up, in order, before it is seen."""
    for command, code, reason in ((["sh", "-c", "exit 7"], 7, "exited"), (["sh", "-c", "kill -9 $$"], 137, "signaled"),
                                  (["/no/such/command"], 127, "exec-failed")):
        e = Switch("/codes", "a", command=command)
        e.end(code)
        shown = listed("/codes")
        assert shown["lock"] is None and shown["breadcrumb"]["clean"], shown
        assert e.status()[0]["reason"] == reason


def test_E106_signals():
    first, _, _ = pair("/signals", child=["signals"])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        waiter = Switch("/signals", f"w{int(number)}")
        waiter.standby()
        waiter.signal(number)
        waiter.end(128 + number)
        assert waiter.starts() == [] and waiter.status()[0]["reason"] == "signal"
    first.signal(signal.SIGUSR1)
    first.end(40)
    assert first.file("signal") == str(int(signal.SIGUSR1))


def test_E107_not_in_time():
    first = Switch("/time", "a")
    first.active()
    second = Switch("/time", "b", "--timeout", "300ms")
    assert "--list" in second.end(75) and second.starts() == []
    first.stop()


def test_forever_stands_by_again():
    e = Switch("/forever", "a", "--forever", command=["sh", "-c", "exit 3"])
    first = e.active()
    assert e.active(2) > first
    e.signal(signal.SIGTERM)
    e.process.wait(cli.WAIT_S)
    assert {"reason": "exited", "exit_code": 3, "child_status": 3, "token": first} == e.status()[0]


# --- ceding ----------------------------------------------------------------------------------------------------------------


def test_cede():
    first, second, token = pair("/cede", "--fence-cmd", "true")
    first.started()
    second.standby()
    answer = cli.okj("switch", "/cede", "--cede", "--stay-out", "700ms")
    assert answer["from"] == "a" and answer["active"] == "b" and answer["token"] == second.active() > token, answer
    assert first.said("^request\tcede\tcede-") and first.starts()[-1][0] == token
    assert second.said("^fence") is None, "it was an orderly end"
    first.waits_for("^state\tNEUTRAL\t-\tceded")
    assert cli.gone(first.started()[2]) and second.started()[1] > first.alive_ns()
    first.standby()
    second.started()
    assert cli.ok("ls", "/cede/requests") == "", "the request went with whoever asked"
    assert cli.ok("switch", "/cede", "--cede", "--stay-out", "300ms").startswith("active\ta\t")
    second.stop()
    first.active(2)
    cli.refused(1, "nobody else took over", "switch", "/cede", "--cede", "--stay-out", "100ms")
    first.active(3)
    code, _, err = cli.run("switch", "/cede", "--cede", "--stay-out", "30s", "--timeout", "500ms")
    assert code == 75 and "has stepped down, and nobody has become active" in err, (code, err)
    first.stop(143)


# --- named members ---------------------------------------------------------------------------------------------------------


def test_hand_over():
    """To a named one of three; refused where it cannot be, and then the old one goes on."""
    mark = marker()
    first = Switch("/hand", "a", "--hadoop")
    first.active()
    first.started()
    others = {name: Switch("/hand", name, "--hadoop", "--health-interval", "20ms", "--health-cmd",
                           f"! test -e {mark}.{name}") for name in "bc"}
    for one in others.values():
        one.standby()
    answer = cli.okj("switch", "/hand", "--hand-over", "c")
    assert answer["active"] == "c" and answer["token"] == others["c"].active(), answer
    assert listed("/hand")["active"] and others["b"].said("^ready") is None
    assert cli.gone(first.started()[2]) and others["c"].started()[1] > first.alive_ns()
    assert node("/hand/HandOver") is None
    assert cli.ok("switch", "/hand", "--hand-over", "a").startswith("active\ta\t")
    first.active(2)
    assert cli.okj("switch", "/hand", "--cede", "--stay-out", "300ms")["from"] == "a"
    cli.ok("switch", "/hand", "--hand-over", "a")
    cli.refused(1, "z is not there; a is active", "switch", "/hand", "--hand-over", "z")
    with open(mark + ".b", "w", encoding="ascii"):
        others["b"].waits_for("^health\tUNHEALTHY")
    cli.until(lambda: cli.run("switch", "/hand", "--check-health", "b")[:2] == (1, b"UNHEALTHY\n"), "b's health")
    cli.refused(1, "b is not healthy; a is active", "switch", "/hand", "--hand-over", "b")
    for one in (first, *others.values()):
        one.signal(signal.SIGTERM)
        one.process.wait(cli.WAIT_S)
    cli.refused(1, "a is not there; nobody is active", "switch", "/hand", "--hand-over", "a")


def test_hand_over_that_fails():
    """The named member cannot become active: the one before is active again, not the third."""
    folder = folder_of_ours()
    first = hooks("/hand-back", "a", folder)
    first.active()
    second = hooks("/hand-back", "b", folder, "false")
    third = hooks("/hand-back", "c", folder)
    second.standby()
    third.standby()
    cli.refused(75, "b has not become active in time; a is active", "switch", "/hand-back", "--hand-over", "b",
                "--timeout", "2s")
    assert listed("/hand-back")["lock"]["id"] == "a" and third.said("^state\tACTIVE") is None


def test_state_health_and_role():
    first = Switch("/role", "a")
    token = first.active()
    first.started()
    second = Switch("/role", "b", "--observer")
    second.waits_for("^state\tOBSERVER")
    cli.until(lambda: cli.ok("switch", "/role", "--state", "a") == "active\n", "the active member's card")
    assert cli.ok("switch", "/role", "--check-health", "a") == "HEALTHY\n"
    cli.until(lambda: cli.ok("switch", "/role", "--state", "b") == "observer\n", "the observer")
    cli.until(lambda: cli.okj("switch", "/role", "--state", "a")["ready"], "the active member is ready")
    shown = cli.okj("switch", "/role", "--state", "a")
    assert shown == {"id": "a", "role": "participant", "state": "ACTIVE", "health": "HEALTHY", "ready": True,
                     "token": token}, shown
    assert [(m["id"], m["role"]) for m in listed("/role")["members"]] == [("a", "participant"), ("b", "observer")]
    for form in ("--state", "--check-health", "--to-observer", "--to-standby"):
        cli.refused(1, 'no member "z"', "switch", "/role", form, "z")
    cli.refused(1, "b is an observer; a is active", "switch", "/role", "--hand-over", "b")
    assert cli.ok("switch", "/role", "--to-standby", "b") in ("standby\n", "neutral\n")
    second.standby()
    assert second.said("^request\tstandby\trole-")
    assert cli.okj("switch", "/role", "--to-observer", "a")["state"] == "OBSERVER"
    assert second.active() > token and second.said("^fence") is None
    assert cli.gone(first.started()[2]) and cli.ok("ls", "/role/requests") == ""
    second.stop()
    cli.until(lambda: listed("/role")["lock"] is None, "nobody to take over")
    assert first.starts()[-1][0] == token


# --- health -----------------------------------------------------------------------------------------------------------------


def test_health_flapping_and_what_is_unwell():
    mark = marker()
    words = ["--health-interval", "20ms", "--health-timeout", "700ms", "--health-failures", "3", "--fence-cmd", "true",
             "--health-cmd"]
    # fails every second time: never three in a row
    flapping = f"n=$(cat {mark} 2>/dev/null || echo 0); echo $((n + 1)) >{mark}; test $((n % 2)) = 0"
    first = Switch("/health", "a", *words, f"test -e {mark}.hangs && sleep 60; test -e {mark}.calm || {{ {flapping}; }}")
    token = first.active()
    assert first.said("^health\tHEALTHY")
    second = Switch("/health", "b", *words, f"test -e {mark}.b")
    second.waits_for("^health\tUNHEALTHY")
    assert second.said("^state\tSTANDBY") is None, "only who is well takes part"
    with open(mark + ".b", "w", encoding="ascii"):
        second.standby()
    cli.until(lambda: int(open(mark, encoding="ascii").read() or 0) > 20, "twenty checks")
    assert first.said("^health\t[^H]") is None and listed("/health")["breadcrumb"]["token"] == token
    with open(mark + ".hangs", "w", encoding="ascii"):
        first.waits_for("^health\tNOT_RESPONDING")
    second.waits_for(f"^fence\ta\t{token}\texec\tconfirmed")  # whatever it says of itself
    assert second.active() > token and cli.gone(first.started()[2])
    first.waits_for("^state\tNEUTRAL\t-\tnot healthy")
    os.rename(mark + ".hangs", mark + ".calm")
    first.standby()
    third = Switch("/health", "c", *words, "/no/such/check")
    third.waits_for("^health\tMONITOR_FAILED")
    assert [m["health"] for m in listed("/health")["members"]] == ["HEALTHY", "HEALTHY", "MONITOR_FAILED"]


# --- hooks, layouts, ACL -------------------------------------------------------------------------------------------------------


def hooks(path, name, folder, active="true", *words):
    note = f'echo "{name} $CONCLAVE_ROLE $CONCLAVE_TOKEN $CONCLAVE_REASON" >>{folder}/log'
    return Switch(path, name, "--on-active", f"{note}; {active}", "--on-standby", note, "--fence-cmd", "true", *words)


def test_hooks():
    folder = folder_of_ours()

    def log():
        with open(folder + "/log", encoding="ascii") as file:
            return file.read().splitlines()
    first = hooks("/hooks", "a", folder)
    token = first.active()
    assert log() == ["a standby 0 ", f"a active {token} "], log()
    second = hooks("/hooks", "b", folder, f"test -e {folder}/may")
    second.standby()
    first.signal(signal.SIGTERM)
    first.end(0)
    assert f"a standby {token} ECLOSED" in log(), log()
    # b cannot: it steps down, waits, tries again
    second.waits_for("^state\tNEUTRAL\t-\tactivation failed")
    assert second.said("^ready") is None
    with open(folder + "/may", "w", encoding="ascii"):
        last = second.active()
    assert [line for line in log() if line.startswith("b active")][-1] == f"b active {last} ", log()
    second.signal(signal.SIGTERM)
    assert "--on-active: exit code 1" in second.end(0)
    third = Switch("/hooks", "c", "--on-active", "true", "--on-standby", "exit 4")
    assert "not sure" in third.end(78)


def test_a_daemon_of_a_hook_is_not_ours():
    """What --on-active leaves running is a child of init, which reaps it, and not of the wrapper, which would not."""
    mark = marker()
    daemon = f"setsid sh -c 'echo $$ >{mark}; exec sleep 30' & while [ ! -s {mark} ]; do sleep 0.01; done"
    first = hooks("/hooks-daemon", "a", folder_of_ours(), daemon)
    first.active()
    with open(mark, encoding="ascii") as file:
        daemon = int(file.read())
    with open(f"/proc/{daemon}/stat", encoding="ascii") as file:
        parent = int(file.read().rsplit(")", 1)[1].split()[1])
    os.kill(daemon, signal.SIGKILL)
    assert parent != first.pid
    first.signal(signal.SIGTERM)
    first.end(0)


def test_ended_while_it_becomes_active():
    """SIGTERM at any moment of --on-active: an orderly end all the same, and soon."""
    for delay_ms in range(0, 120, 12):
        one = hooks("/hooks-end", "a", folder_of_ours(), "sleep 0.05")
        one.waits_for("^state\tACTIVE")
        time.sleep(delay_ms / 1000)
        one.signal(signal.SIGTERM)
        code = one.process.wait(cli.WAIT_S)
        assert code in (0, 143), code  # it was active already, or not yet
        error = one.end(code)
        assert "no server confirmed" not in error, error
    assert node("/hooks-end" + LOCK) is None


def fields(message):
    """A protobuf message, read as its specification says: {number: value}."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(message):
        key = varint()
        if key & 7 == 0:
            found[key >> 3] = varint()
        else:
            assert key & 7 == 2, key
            size = varint()
            assert at + size <= len(message)
            found[key >> 3] = message[at:at + size]
            at += size
    return found


def test_hadoop_layout():
    """ActiveNodeInfo of HDFS, with a field more; an orderly end deletes the breadcrumb; others' breadcrumbs are fenced."""
    words = ["--hadoop", "--host", "nn.example.org", "--port", "8020", "--fence-cmd",
             'test "$CONCLAVE_TARGET_HOST:$CONCLAVE_TARGET_PORT" = nn.example.org:8020']
    first, second, token = pair("/hadoop-ha/ns1", *words)
    for name in (LOCK, CRUMB):
        info = fields(node("/hadoop-ha/ns1" + name))
        assert {n: info[n] for n in range(1, 6)} == {1: b"ns1", 2: b"a", 3: b"nn.example.org", 4: 8020, 5: 8019}, info
        assert set(info) == {1, 2, 3, 4, 5, 2047}, info
    first.signal(signal.SIGKILL)
    second.waits_for(f"^fence\ta\t{token}\texec\tconfirmed")
    second.active()
    assert fields(node("/hadoop-ha/ns1" + CRUMB))[2] == b"b"
    second.stop()
    assert node("/hadoop-ha/ns1" + CRUMB) is None
    # one of Hadoop's own, dead: its message has no field of ours
    message = b"\x0a\x03ns1\x12\x03nn7\x1a\x0enn.example.org\x20\xd4\x3e\x28\xd3\x3e"
    cli.ok("create", "/hadoop-ha/ns1" + CRUMB, "--file", "-", stdin=message)
    third = Switch("/hadoop-ha/ns1", "c", *words)
    third.waits_for("^fence\tnn7\t.*\tconfirmed")
    third.active()
    third.stop()


def test_yarn_layout():
    """ActiveRMInfoProto of YARN; the breadcrumb of a ResourceManager that died is read, and fenced by its id."""
    words = ["--yarn", "--fence-cmd", 'test "$CONCLAVE_TARGET_ID" = rm7 -o "$CONCLAVE_TARGET_ID" = a']
    first, second, token = pair("/yarn-leader-election/cluster1", *words)
    for name in (LOCK, CRUMB):
        info = fields(node("/yarn-leader-election/cluster1" + name))
        assert info[1] == b"cluster1" and info[2] == b"a" and set(info) == {1, 2, 2047}, info
    assert listed("/yarn-leader-election/cluster1")["breadcrumb"]["id"] == "a"
    first.signal(signal.SIGKILL)
    second.waits_for(f"^fence\ta\t{token}\texec\tconfirmed")
    second.active()
    second.stop()
    assert node("/yarn-leader-election/cluster1" + CRUMB) is None
    # a ResourceManager's own: fields 1 and 2, strings
    message = b"".join(bytes([n << 3 | 2, len(text)]) + text for n, text in ((1, b"cluster1"), (2, b"rm7")))
    cli.ok("create", "/yarn-leader-election/cluster1" + CRUMB, "--file", "-", stdin=message)
    assert listed("/yarn-leader-election/cluster1")["breadcrumb"]["id"] == "rm7"
    third = Switch("/yarn-leader-election/cluster1", "c", *words)
    third.waits_for("^fence\trm7\t.*\tconfirmed")
    third.active()
    third.stop()


def test_reset():
    """DIR is deleted and made; refused while one is or may be active, and when nobody can be asked."""
    words = ["--auth", "digest:op:secret", "--acl", "auth::cdrwa"]
    cli.ok("switch", "/reset/a", "--make-parent")
    assert "world:anyone" in cli.ok("acl", "get", "/reset") and cli.ok("ls", "/reset/a") == ""
    cli.ok("switch", "/reset/a", "--make-parent", "--set-acl", *words)
    for path in ("/reset", "/reset/a"):
        cli.refused(77, "NO_AUTH", "create", path + "/x")
        assert "digest:op:" in cli.ok("acl", "get", path, "--auth", "digest:op:secret")
    cli.ok("switch", "/reset2", "--reset")  # it is made
    for more in ([], ["--non-interactive"]):
        cli.refused(1, "/reset2 exists; give --force", "switch", "/reset2", "--reset", *more)
    first = Switch("/reset2", "a", "--fence-cmd", "true")
    first.active()
    assert reset_on_terminal("/reset2", b"y\n") == (1, "a member is active")
    first.signal(signal.SIGKILL)
    cli.until(lambda: listed("/reset2")["lock"] is None, "the end of its session")
    assert reset_on_terminal("/reset2", b"y\n") == (1, "has not stopped cleanly")
    assert reset_on_terminal("/reset2", b"n\n") == (1, "stays as it is") and node("/reset2" + CRUMB) is not None
    cli.ok("switch", "/reset2", "--reset", "--force", "--non-interactive")
    assert cli.ok("ls", "/reset2") == ""
    cli.ok("create", "/reset2/more")
    assert reset_on_terminal("/reset2", b"y\n") == (0, "")
    assert cli.ok("ls", "/reset2") == ""
    second = Switch("/reset2", "b")
    second.active()
    second.stop()


def reset_on_terminal(path, answer):
    """Runs --reset with a terminal as its input: the exit code, and the reason it gave of those known."""
    terminal, line = pty.openpty()
    try:
        os.write(terminal, answer)
        done = subprocess.run([conclave.program(), "switch", path, "--reset"], stdin=line, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, env={**os.environ, "CONCLAVE_SERVER": cli.server.host},
                              timeout=cli.WAIT_S, check=False)
    finally:
        os.close(line)
        os.close(terminal)
    known = ("a member is active", "has not stopped cleanly", "stays as it is")
    return done.returncode, next((text for text in known if text in done.stderr.decode()), "")


def test_herd_free():
    first, second, token = pair("/line", "--herd-free", "--fence-cmd", "true")
    assert len(cli.ok("ls", "/line/line").split()) == 2
    assert listed("/line")["active"] and listed("/line")["lock"]["id"] == "a"
    assert cli.okj("switch", "/line", "--cede", "--stay-out", "200ms")["active"] == "b"
    second.signal(signal.SIGKILL)
    first.waits_for("^fence\tb\t")
    assert first.active(2) > token
    first.stop()


def test_acl():
    """All that it makes has the ACL that was given, an override, too."""
    words = ["--auth", "digest:op:secret", "--acl", "auth::cdrwa"]
    first = Switch("/acl", "a", "--fence-cmd", "exit 1", *words)
    token = first.active()
    second = Switch("/acl", "b", "--fence-cmd", "exit 1", *words)
    second.standby()
    first.signal(signal.SIGKILL)
    second.waits_for("^fence\ta\t.*failed")
    second.signal(signal.SIGSTOP)  # so that the override stands long enough to be looked at
    cli.ok("switch", "/acl", "--override", str(token), *words)
    cli.refused(77, "NO_AUTH", "get", "/acl/FenceOverride")
    assert "digest:op:" in cli.ok("acl", "get", "/acl/FenceOverride", "--auth", "digest:op:secret")
    for name in (CRUMB, "/members"):
        cli.refused(77, "NO_AUTH", "set", "/acl" + name, "x")
    second.signal(signal.SIGCONT)
    assert second.active() > token
    second.stop()


def test_only_known_hosts_are_fenced():
    """The host comes from a node that others may write: one that is not in the list is fenced by no method."""
    first = Switch("/hosts", "a", "--host", "db9", "--fence-cmd", "true")
    token = first.active()
    second = Switch("/hosts", "b", "--host", "db2", "--fence-cmd", "true", "--fence-host", "db1", "--fence-host", "db2")
    second.standby()
    first.signal(signal.SIGKILL)
    second.waits_for(f"^fence\ta\t{token}\texec\tfailed\tthe host is not one of those that may be fenced")
    assert second.said("^ready") is None
    second.signal(signal.SIGKILL)
    third = Switch("/hosts", "c", "--fence-cmd", "true", "--fence-host", "db9")
    third.waits_for(f"^fence\ta\t{token}\texec\tconfirmed")
    assert third.active() > token
    third.stop()
    cli.refused(64, "--fence-host wants", "switch", "/x", "--fence-host", "", "--", "true")


# --- two daemons -----------------------------------------------------------------------------------------------------------------


def test_no_two_are_active():
    with switch_duel.Duel(cli.server, 1200, OPTIONS.seed) as duel:
        return duel.run(OPTIONS.rounds) + f", seed {OPTIONS.seed}"


def at_once_later(functions):
    """The functions as cases; the first that is asked for begins them all, a few at a time."""
    pool = concurrent.futures.ThreadPoolExecutor(AT_ONCE)
    futures = {}

    def timed(function):
        began = time.monotonic()
        note = function()
        return f"took {time.monotonic() - began:.1f} s  {note or ''}"

    def case_of(function):
        def case():
            if not futures:
                futures.update({one: pool.submit(timed, one) for one in functions})
            return futures[function].result()
        case.__name__ = function.__name__
        return case
    return [case_of(function) for function in functions]


def main():
    global OPTIONS  # noqa: PLW0603: what the command line says
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    parser.add_argument("--zookeeper", action="store_true")
    parser.add_argument("only", nargs="*")
    OPTIONS = parser.parse_args()
    missing = conclave.why_missing() or (zookeeper.why_missing() if OPTIONS.zookeeper else None)
    if missing:
        return cases.skip_all(missing)
    server = zookeeper.ZooKeeper({"minSessionTimeout": 400}, tick_ms=cli.TICK_MS) if OPTIONS.zookeeper else \
        conclave.Conclave(["--minSessionTimeout", "400"], tick_ms=cli.TICK_MS)
    with server as cli.server:
        alone = [test_E103_stubborn_child]  # it stops the server
        rest = [case for case in cases.named("test_", globals()) if case not in alone]
        rest = [case for case in rest if not OPTIONS.only or case.__name__.removeprefix("test_") in OPTIONS.only]
        rest.sort(key=lambda case: case is not test_no_two_are_active)  # the longest first
        try:
            return cases.run([*alone, *at_once_later(rest)], OPTIONS.only)
        finally:
            cli.end_live()
            for folder in FOLDERS:
                shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
