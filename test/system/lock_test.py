#!/usr/bin/env python3
"""`conclave lock` and `conclave semaphore`: what they promise about their child, exit codes, order, several at a time.

Promise: real servers, wrappers, guardians and children, as in cli_test.py, whose tools these are: the child of a lock that is
lost is dead before the end of the session, measured on its own clock stamps.
Limits: as cli_test.py.

usage: lock_test.py [NAME...]
"""

import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import acls  # noqa: E402
import cases  # noqa: E402
import cli_test as cli  # noqa: E402
from conclave import Conclave, why_missing  # noqa: E402


def lock(path, *words, **more):
    return cli.Elect(path, *words, verb="lock", **more)


def semaphore(path, permits, *words, **more):
    return cli.Elect(path, "-n", str(permits), *words, verb="semaphore", **more)


def contenders(path):
    code, out, _ = cli.run("ls", path)
    return out.decode().split() if code == 0 else []


def waits(path, count):
    cli.until(lambda: len(contenders(path)) == count, f"{count} contenders on {path}")


def test_arguments():
    cli.refused(64, "not both", "lock", "/l", "--read", "--write", "--", "true")
    cli.refused(64, "not both", "lock", "/l", "--try", "--timeout", "1s", "--", "true")
    cli.refused(64, "no readers and writers", "lock", "/l", "--read", "--naming", "latch", "--", "true")
    cli.refused(64, "a node of its own", "lock", "/", "--", "true")
    cli.refused(64, "exit code", "lock", "/l", "-E", "300", "--", "true")
    cli.refused(64, "-n wants the number of places", "semaphore", "/s", "--", "true")
    cli.refused(64, "one line", "semaphore", "/s", "-n", "2", "--id", "", "--", "true")
    cli.refused(69, "cannot connect", "lock", "/l", "--timeout", "300ms", "--", "true", where="127.0.0.1:1")


def test_environment():
    for words, verb, role, part in (((), "lock", "holder", "n_"), (("--read",), "lock", "reader", "__READ__"),
                                    (("--write",), "lock", "writer", "__WRIT__"),
                                    (("-n", "2"), "semaphore", "holder", "n_")):
        e = cli.Elect("/env" + role + verb, *words, "--id", "me", verb=verb, command=["env"])
        out = e.process.stdout.read().decode()
        e.end(0)
        env = dict(line.split("=", 1) for line in out.splitlines() if line.startswith("CONCLAVE_"))
        assert env["CONCLAVE_PATH"] == e.path and env["CONCLAVE_ID"] == "me" and env["CONCLAVE_ROLE"] == role, env
        assert re.fullmatch(rf"{e.path}/[0-9a-f]{{32}}-{part}\d{{10}}", env["CONCLAVE_NODE"]), env
        assert int(env["CONCLAVE_TOKEN"]) > 0 and env["CONCLAVE_SESSION_TIMEOUT_MS"] == str(cli.T_MS), env
        assert int(env["CONCLAVE_LEASE_FD"]) > 2 and "CONCLAVE_READY_FD" not in env, env
        assert e.status()[0]["token"] == int(env["CONCLAVE_TOKEN"])


def test_E105_exit_codes():
    """The child's code, and the lock is released before it is seen."""
    for command, code, reason in ((["sh", "-c", "exit 7"], 7, "exited"), (["sh", "-c", "kill -9 $$"], 137, "signaled"),
                                  (["/no/such/command"], 127, "exec-failed"), (["/"], 126, "exec-failed")):
        e = lock("/codes", command=command)
        e.end(code)
        assert contenders("/codes") == []
        assert e.status()[0]["reason"] == reason


def test_E107_not_in_time():
    """75 or what -E says, and the child was never started."""
    first = lock("/time", child=[])
    first.started()
    for words, code, text in ((("--timeout", "300ms"), 75, "not acquired within 300ms"), (("--try",), 75, "held by another"),
                              (("--timeout", "0"), 75, "not acquired within 0ms"),
                              (("--try", "-E", "9"), 9, "held by another"), (("--timeout", "300ms", "-E", "0"), 0, "")):
        second = lock("/time", *words, child=[])
        err = second.end(code)
        assert text in err and err.count("\n") == 1, err
        assert second.starts() == [] and second.status()[0] == {"reason": "timeout", "exit_code": code,
                                                               "child_status": None, "token": None}
        waits("/time", 1)
    first.signal(signal.SIGTERM)
    first.end(143)
    lock("/time", "--try", command=["true"]).end(0)


def test_E106_signals():
    """While waiting: clean withdrawal, 128+n. While running: passed on."""
    holder = lock("/signals", child=["signals"])
    holder.started()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        waiter = lock("/signals", child=[])
        waits("/signals", 2)
        waiter.signal(number)
        waiter.end(128 + number)
        waits("/signals", 1)
        assert waiter.starts() == [] and waiter.status()[0]["reason"] == "signal"
    holder.signal(signal.SIGUSR1)
    holder.end(40)
    assert holder.file("signal") == str(int(signal.SIGUSR1))


def test_E103_stubborn_child():
    """SIGKILL to the whole group, and to what left it, before last_ack + T; 76."""
    e = lock("/stubborn", child=["stubborn", "family"])
    e.started()
    pids = [e.started()[2]] + [int(cli.until(lambda n=n: e.file("pid." + n), n)) for n in ("sibling", "daemon")]
    try:
        stopped = cli.lose_server(e)
        err = e.end(76)
    finally:
        os.kill(cli.server.process.pid, signal.SIGCONT)
    assert "lock lost" in err and all(map(cli.gone, pids)), err
    ms = cli.dead_in_time(e, ["child", "sibling", "daemon"], stopped)
    assert e.status()[0]["reason"] == "lost"
    return f"dead {ms:.0f} ms after the server stopped answering"


def test_E104_wrapper_killed_or_stopped():
    """The guardian ends the group; the next one's child starts only afterwards."""
    for number in (signal.SIGKILL, signal.SIGSTOP):
        e = lock(f"/wrapper{int(number)}", child=["stubborn", "family"])
        e.started()
        pids = [e.started()[2]] + [int(cli.until(lambda n=n: e.file("pid." + n), n)) for n in ("sibling", "daemon")]
        after = lock(e.path, child=[])
        waits(e.path, 2)
        at = cli.boot_ns()
        os.kill(e.pid, number)
        cli.until(lambda: all(map(cli.gone, pids)), "end of the group")
        cli.dead_in_time(e, ["child", "sibling", "daemon"], at)
        token, began_ns, _ = after.started()
        assert began_ns > max(map(e.alive_ns, ["child", "sibling", "daemon"])), "two at once"
        assert token > e.starts()[0][0]
        if number == signal.SIGSTOP:
            os.kill(e.pid, signal.SIGCONT)
            e.end(76)


def test_node_removed_by_operator():
    e = lock("/removed", child=[])
    pid = e.started()[2]
    cli.ok("rm", "/removed/" + contenders("/removed")[0])
    e.end(76)
    assert cli.gone(pid)


def test_place_lost_while_waiting():
    """It queues up again by itself."""
    first = lock("/again", child=[])
    first.started()
    second = lock("/again", child=[])
    waits("/again", 2)
    before = contenders("/again")
    cli.ok("rm", "/again/" + max(before, key=lambda name: name[-10:]))
    cli.until(lambda: len(contenders("/again")) == 2 and set(contenders("/again")) != set(before), "a new node")
    first.signal(signal.SIGTERM)
    first.end(143)
    second.started()


def test_hold():
    e = lock("/hold", "--write", stdin=subprocess.PIPE)
    node, token = e.process.stdout.readline().decode().split()
    assert node == "/hold/" + contenders("/hold")[0] and int(token) > 0
    cli.refused(75, "held by another", "lock", "/hold", "--read", "--try", "--", "true")
    e.process.stdin.close()
    e.end(0)
    assert e.status()[0]["reason"] == "released" and contenders("/hold") == []
    e = lock("/hold", "--json", stdin=subprocess.PIPE)
    held = json.loads(e.process.stdout.readline())
    assert held["path"] == "/hold" and held["token"] > int(token), held
    e.process.stdin.close()
    e.end(0)


def test_in_the_order_of_coming():
    es = []
    for number in range(3):
        es.append(lock("/order", "--id", f"c{number}", child=[]))
        waits("/order", number + 1)
    tokens, last_ns = [], 0
    for e in es:
        token, began_ns, _ = e.started()
        assert began_ns > last_ns, "a child began while the one before it was alive"
        tokens.append(token)
        e.signal(signal.SIGTERM)
        e.end(143)
        last_ns = e.alive_ns()
    assert tokens == sorted(tokens) and len(set(tokens)) == 3, tokens


def test_readers_together():
    readers = [lock("/rw", "--read", child=[]) for _ in range(2)]
    for reader in readers:
        reader.started()
    writer = lock("/rw", "--write", child=[])
    waits("/rw", 3)
    late = lock("/rw", "--read", child=[])
    waits("/rw", 4)
    assert writer.starts() == [] and late.starts() == []
    for reader in readers:
        reader.signal(signal.SIGTERM)
        reader.end(143)
    _, began_ns, _ = writer.started()
    assert began_ns > max(reader.alive_ns() for reader in readers) and late.starts() == []
    writer.signal(signal.SIGTERM)
    writer.end(143)
    assert late.started()[1] > writer.alive_ns()


def test_semaphore():
    """Two at a time; the place of whoever leaves goes to the one that waits longest."""
    holders = [semaphore("/sem", 2, child=[]) for _ in range(2)]
    for holder in holders:
        holder.started()
    assert cli.ok("get", "/sem") == "2"
    cli.refused(75, "no place is free", "semaphore", "/sem", "-n", "2", "--try", "--", "true")
    cli.refused(78, "it has 2 places, not 3 .*CONFLICT", "semaphore", "/sem", "-n", "3", "--", "true")
    cli.ok("create", "/no-sem", "text")
    cli.refused(78, "no semaphore.* -n 3 .*CONFLICT", "semaphore", "/no-sem", "-n", "3", "--", "true")
    third = semaphore("/sem", 2, child=[])
    waits("/sem", 3)
    fourth = semaphore("/sem", 2, child=[])
    waits("/sem", 4)
    assert third.starts() == []
    holders[1].signal(signal.SIGKILL)
    third.started()
    time.sleep(0.2)
    assert fourth.starts() == []
    holders[0].signal(signal.SIGTERM)
    holders[0].end(143)
    fourth.started()


# --- hand-over by an operator: of locks, and of elections, which obey by themselves ------------------------------------------


BOTH = (("lock", "holder"), ("elect", "leader"))


def in_line(verb, path, *words, names="abc"):
    """Named ones in this order; the first holds and runs its child."""
    line = {}
    for name in names:
        line[name] = cli.Elect(path, "--id", name, *words, verb=verb, child=[])
        waits(path, len(line))
    line[names[0]].started()
    return line


def end_line(line):
    """The last first: each that ends runs nothing any more."""
    for one in line.values():
        if one.process.poll() is None:
            one.signal(signal.SIGTERM)
    for one in line.values():
        one.process.wait(cli.WAIT_S)


def test_E197_hand_over():
    """The named one runs after the child of the holder has gone, with a larger token; no other runs in between."""
    for verb, role in BOTH:
        path = "/hand-" + verb
        line = in_line(verb, path)
        token, _, pid = line["a"].started()
        answer = cli.okj(verb, path, "--hand-over", "c")
        assert answer[role] == "c" and answer["token"] > token, answer
        assert cli.gone(pid)
        assert line["c"].started()[0] == answer["token"] and line["c"].started()[1] > line["a"].alive_ns()
        assert "handed over, as an operator asked, the command was ended" in line["a"].end(76)
        assert line["b"].starts() == [] and line["a"].status()[0]["reason"] == "lost"
        waits(path, 2)
        assert cli.ok(verb, path, "--hand-over", "c") == f"{role}\tc\t{answer['token']}\n"
        node = cli.okj(verb, "--list", path)["contenders" if verb == "lock" else "participants"][1]["node"]
        assert cli.okj(verb, path, "--hand-over", node)[role] == "b"
        assert line["b"].started()[1] > line["c"].alive_ns()
        end_line(line)
        assert contenders(path) == []


def test_E198_hand_over_refused():
    """With a reason and without harm: the holder goes on, and no request is left."""
    for verb, role in BOTH:
        path = "/hand-refused-" + verb
        cli.refused(1, "z cannot take over: nobody is in line; .*: nobody", verb, path, "--hand-over", "z")
        cli.refused(64, "without a command", verb, path, "--hand-over", "z", "--", "true")
        line = in_line(verb, path)
        cli.refused(1, f"z is not in line, or has left it; {role}: a; see .*--list", verb, path, "--hand-over", "z")
        twin = cli.Elect(path, "--id", "b", verb=verb, child=[])
        waits(path, 4)
        cli.refused(1, "b is the id of several contenders: give the name of a node", verb, path, "--hand-over", "b")
        assert not cli.gone(line["a"].started()[2]) and len(contenders(path)) == 4
        end_line({**line, "twin": twin})
        foreign = in_line(verb, path + "-foreign", "--naming", "lock", names="ab")
        cli.refused(1, "b cannot take over: the nodes there are those of another library's", verb, path + "-foreign",
                    "--hand-over", "b")
        assert not cli.gone(foreign["a"].started()[2])
        end_line(foreign)


def test_E199_hand_over_in_trouble():
    """The holder hangs: it is late, and nothing is left; it is killed meanwhile: the named one still comes next; the named one is
    killed meanwhile: the next in line takes over."""
    for verb, role in BOTH:
        path = "/hand-trouble-" + verb
        line = in_line(verb, path, "--no-guardian", "--session", "20s")
        line["a"].signal(signal.SIGSTOP)
        cli.refused(75, f"c has not taken over in time: .*; {role}: a", verb, path, "--hand-over", "c", "--timeout", "1s")
        assert len(contenders(path)) == 3
        line["a"].signal(signal.SIGCONT)
        assert line["b"].starts() == line["c"].starts() == []
        end_line(line)
        line = in_line(verb, path)
        line["a"].signal(signal.SIGSTOP)
        with subprocess.Popen([cli.program(), verb, path, "--hand-over", "c", "--server", cli.server.host],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as operator:
            waits(path, 4)  # the request is there
            cli.refused(1, "another hand-over is in progress", verb, path, "--hand-over", "b")
            line["a"].signal(signal.SIGKILL)
            out, err = operator.communicate(timeout=cli.WAIT_S)
            assert out.decode().startswith(f"{role}\tc\t"), (out, err)
        line["c"].started()
        assert line["b"].starts() == []
        end_line(line)
        line = in_line(verb, path)
        line["a"].signal(signal.SIGSTOP)
        with subprocess.Popen([cli.program(), verb, path, "--hand-over", "c", "--server", cli.server.host],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as operator:
            waits(path, 4)
            line["c"].signal(signal.SIGKILL)
            line["a"].signal(signal.SIGCONT)
            out, err = operator.communicate(timeout=cli.WAIT_S)
        # a may be gone, and c first, before the session of c ends.
        assert b"is not in line, or has left it" in err or out.decode().startswith(f"{role}\tc\t"), (out, err)
        line["b"].started()
        end_line(line)


def test_list():
    """The holders and the waiters: lines and JSON, of a lock with readers and writers and of a semaphore."""
    assert cli.ok("lock", "--list", "/listed") == "" and cli.ok("semaphore", "--list", "/listed") == ""
    held = [lock("/listed", "--read", "--id", name, child=[]) for name in ("r1", "r2")]
    tokens = [e.started()[0] for e in held]
    waiting = lock("/listed", "--write", "--id", "w3")
    waits("/listed", 3)
    titles, *lines = [line.split("\t") for line in cli.ok("lock", "--list", "/listed").splitlines()]
    assert titles == ["ROLE", "NODE", "TOKEN", "SINCE", "ID"], titles
    assert [line[0] for line in lines] == ["reader", "reader", "waiting"], lines
    assert sorted(line[4] for line in lines[:2]) == ["r1", "r2"] and lines[2][4] == "w3", lines
    assert sorted(int(line[2]) for line in lines[:2]) == sorted(tokens), (lines, tokens)
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line[3]) for line in lines), lines
    entries = cli.okj("lock", "--list", "/listed")["contenders"]
    assert [e["kind"] for e in entries] == ["read", "read", "write"] and entries[2]["role"] == "waiting", entries
    assert all(e["session"].startswith("0x") and e["node"] in contenders("/listed") for e in entries), entries
    place = semaphore("/places", 1, "--id", "s1", child=[])
    place.started()
    other = semaphore("/places", 1, "--id", "s2")
    waits("/places", 2)
    listed = cli.okj("semaphore", "--list", "/places")
    assert listed["permits"] == 1 and [e["role"] for e in listed["contenders"]] == ["holder", "waiting"], listed
    assert [e["id"] for e in listed["contenders"]] == ["s1", "s2"] and "kind" not in listed["contenders"][0], listed
    cli.refused(64, "runs no command", "lock", "--list", "/listed", "--", "true")
    cli.refused(78, "no semaphore", "semaphore", "--list", "/listed")
    for e in (*held, waiting, place, other):
        e.signal(signal.SIGKILL)


def test_acl():
    """All nodes have the ACL given; the next one gets its turn under it, a stranger does not."""
    for verb, words in (("lock", ()), ("lock", ("--read",)), ("semaphore", ("-n", "1")), ("elect", ())):
        path = f"/acl/{verb}{len(words)}"
        first = cli.Elect(path, *words, *acls.WORDS, verb=verb, child=[])
        first.started()
        second = cli.Elect(path, *(() if words == ("--read",) else words), *acls.WORDS, verb=verb, child=[])
        cli.until(lambda at=path: len(cli.ok("ls", at, *acls.WORDS[:2]).split()) == 2, "two contenders")
        assert acls.foreign(cli.server.address, "/acl", 4) == []
        cli.refused(77, "NO_AUTH", verb, path, *words, "--timeout", "5s", "--", "true")
        first.signal(signal.SIGTERM)
        first.end(143)
        second.started()
        assert acls.foreign(cli.server.address, "/acl", 3) == []
        second.signal(signal.SIGTERM)
        second.end(143)
    cli.refused(64, "--acl wants", "lock", "/acl/x", "--acl", "nonsense", "--", "true")
    cli.refused(1, "INVALID_ACL.*needs credentials", "lock", "/nobody", "--acl", "auth", "--", "true")


def main():
    if why_missing():
        return cases.skip_all(why_missing())
    with Conclave(["--minSessionTimeout", "400"], tick_ms=cli.TICK_MS) as cli.server:
        return cases.run(cases.named("test_", globals()), sys.argv[1:], cli.end_live)


if __name__ == "__main__":
    sys.exit(main())
