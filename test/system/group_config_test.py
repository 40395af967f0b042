#!/usr/bin/env python3
"""`conclave group` and `conclave config`: real processes on a server of ours, or with --zookeeper on Apache ZooKeeper.

Promise: members come, go, are killed and come back; a command that runs as a member gets its signals and its exit code
is kept; configuration is put, watched, refused, acknowledged and rolled out, and served from a file while no server is there.
Limits: one server; test/unit/recipes tests faults of servers and of the network.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import acls  # noqa: E402
import cases  # noqa: E402
import conclave  # noqa: E402
import zookeeper  # noqa: E402

PATIENCE_S = 30
SESSION = "3s"


class Process:
    """A command of ours, its output read by whoever waits for it."""

    def __init__(self, server, *words, **more):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([conclave.program(), *words[:2], "--server", server, "--session", SESSION,
                                         *words[2:]], stdin=subprocess.PIPE, stdout=self.log,
                                        stderr=subprocess.STDOUT, **more)
        self.seen = 0

    def text(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode()

    def expect(self, part):
        deadline = time.monotonic() + PATIENCE_S
        while self.text().find(part, self.seen) < 0:
            assert time.monotonic() < deadline, f"{self.process.args} did not write {part!r}:\n{self.text()}"
            time.sleep(0.02)
        self.seen = self.text().find(part, self.seen) + len(part)

    def end(self, number=signal.SIGTERM):
        if number:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


def run(server, *words, code=0, text=""):
    """The output of a command, whose exit code must be the expected one."""
    done = subprocess.run([conclave.program(), *words[:2], "--server", server, *words[2:]], input=text,
                          capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def eventually(function, *words):
    """Waits for a function to return something."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        value = function(*words)
        if value or time.monotonic() > deadline:
            assert value, f"{function} {words}"
            return value
        time.sleep(0.05)


def group_members(server):
    """Members come and go, and are killed; everybody hears of it."""
    host = server.host
    watch = Process(host, "group", "watch", "/app/group")
    watch.expect("FRESH")
    alice = Process(host, "group", "join", "/app/group", "--id", "alice", "--data", "one\ttwo")
    alice.expect("IN\talice")
    watch.expect("JOINED\talice\t")
    bob = Process(host, "group", "join", "/app/group", "--id", "bob", "--", "sleep", "600")
    watch.expect("JOINED\tbob")
    titles, *lines = [line.split("\t") for line in run(host, "group", "list", "/app/group").splitlines()]
    assert titles == ["ID", "TOKEN", "DATA"] and [(line[0], line[2]) for line in lines] == [("alice", "one?two"), ("bob", "")], lines
    listed = [json.loads(line) for line in run(host, "group", "list", "/app/group", "--json").splitlines()]
    assert listed[0]["id"] == "alice" and listed[0]["data"] == "one\ttwo", listed
    run(host, "group", "join", "/app/group", "--id", "alice", "--timeout", "300ms", code=75)
    bob.end(signal.SIGKILL)
    watch.expect("LEFT\tbob")
    alice.process.stdin.close()
    assert alice.end(0) == 0
    watch.expect("LEFT\talice")
    assert run(host, "group", "list", "/app/group") == ""
    assert run(host, "group", "list", "/nowhere") == ""
    assert watch.end() == 128 + signal.SIGTERM


def group_command(server):
    """The member is in while CMD runs; signals reach CMD, and its exit code is ours."""
    host = server.host
    script = 'echo "$CONCLAVE_ID of $CONCLAVE_PATH"; trap "echo got it; exit 7" TERM; while :; do sleep 0.05; done'
    member = Process(host, "group", "join", "/app/cmd", "--id", "c", "--", "sh", "-c", script)
    member.expect("c of /app/cmd")
    assert run(host, "group", "list", "/app/cmd").startswith("ID\tTOKEN\tDATA\nc\t")
    assert member.end() == 7
    assert "got it" in member.text()
    assert run(host, "group", "list", "/app/cmd") == ""
    run(host, "group", "join", "/app/cmd", "--id", "c", "--", "/nonexistent/command", code=127)
    run(host, "group", "join", "/app/cmd", "--id", "c", "--", "sh", "-c", "kill -9 $$", code=137)
    run(host, "group", "join", "/app/cmd", "--id", "a/b", code=64)
    run(host, "group", "dance", "/app/cmd", code=64)


def group_restart(server):
    """A member that was killed and kept its incarnation is in at once; one that did not waits for its ghost to go."""
    host = server.host
    for words, soon in ((("--incarnation", "kept"), True), ((), False)):
        path = f"/app/restart{len(words)}"
        first = Process(host, "group", "join", path, "--id", "x", *words)
        first.expect("IN\tx")
        first.end(signal.SIGKILL)
        began = time.monotonic()
        second = Process(host, "group", "join", path, "--id", "x", *words)
        second.expect("IN\tx")
        took = time.monotonic() - began
        assert soon == (took < 1.5) or took > 1, f"{took} s"
        second.end()


def config_values(server):
    """get and put, by version; a put never overwrites a state by accident."""
    host = server.host
    run(host, "config", "get", "/app/cfg/none", code=1)
    version, mzxid = run(host, "config", "put", "/app/cfg/a", "one", "--create").split()
    assert version == "0" and int(mzxid) > 0
    assert run(host, "config", "get", "/app/cfg/a") == "one"
    run(host, "config", "put", "/app/cfg/a", "two", "--create", code=1)
    run(host, "config", "put", "/app/cfg/a", "two", "--version", "4", code=1)
    assert run(host, "config", "put", "/app/cfg/a", "two", "--version", "0").split()[0] == "1"
    written = json.loads(run(host, "config", "put", "/app/cfg/a", "--data-file", "-", "--json", text="three\n"))
    assert written["version"] == 2 and written["mzxid"] > int(mzxid)
    assert run(host, "config", "get", "/app/cfg/a") == "three\n"
    run(host, "config", "put", "/app/cfg/b", "B")
    assert run(host, "config", "get", "/app/cfg", "--tree").splitlines() == ["/\t", "/a\tthree", "", "/b\tB"]
    run(host, "config", "put", "/app/cfg/a", code=64)
    run(host, "config", "ack", "/app/cfg/a", "x", code=64)


def config_of_several_files(server):
    """put --tree: all files in one change, which a reader of the tree sees whole."""
    host = server.host
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("a.conf", "A1"), ("b.conf", "B1\n")):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text)
        first, second = (os.path.join(folder, name) for name in ("a.conf", "b.conf"))
        mzxid = run(host, "config", "put", "--tree", "/app/many", first, f"deep/b={second}", "--create").strip()
        stats = [json.loads(run(host, "stat", f"/app/many/{name}", "--json"))["stat"]["mzxid"] for name in ("a.conf", "deep/b")]
        assert stats == [hex(int(mzxid))] * 2, (mzxid, stats)
        assert run(host, "config", "get", "/app/many/a.conf") == "A1"
        assert run(host, "config", "get", "/app/many/deep/b") == "B1\n"
        run(host, "config", "put", "--tree", "/app/many", f"new={first}", first, "--create", code=1)
        run(host, "config", "get", "/app/many/new", code=1)
        later = json.loads(run(host, "config", "put", "--tree", "/app/many", f"new={first}", first, "--json"))
        assert later["mzxid"] > int(mzxid) and "version" not in later, later
        run(host, "config", "put", "--tree", "/app/many", code=64)
        run(host, "config", "put", "--tree", "/app/many", first, "--version", "1", code=64)
        run(host, "config", "put", "--tree", "/app/many", os.path.join(folder, "none"), code=74)
        run(host, "config", "put", "--tree", "/app/many", f"a//b={first}", code=64)


def config_watch(server):
    """Each state is put into a file and a command run for it; a refusal is acknowledged as one."""
    host = server.host
    with tempfile.TemporaryDirectory() as folder:
        file, cache, log = (os.path.join(folder, name) for name in ("value", "cache", "log"))
        with open(file, "w", encoding="utf-8") as secret:
            os.fchmod(secret.fileno(), 0o600)
        script = f'printf "%s:%s\\n" "$(cat $CONCLAVE_FILE)" "$CONCLAVE_STALE" >>{log}; ! grep -q bad $CONCLAVE_FILE'
        run(host, "config", "put", "/app/live", "one")
        watch = Process(host, "config", "watch", "/app/live", "--file", file, "--cache", cache, "--ack", "web1", "--",
                        "sh", "-c", script)
        watch.expect("CHANGED\tone")
        mzxid = run(host, "config", "put", "/app/live", "two").split()[1]
        assert run(host, "config", "ack", "/app/live", mzxid, "--at-least", "1").splitlines()[1].startswith("web1\tOK\t")
        with open(file, encoding="utf-8") as value, open(cache, encoding="utf-8") as kept:
            assert value.read() == "two" and kept.read() == "two"
        assert os.stat(file).st_mode & 0o777 == 0o600, "the mode it had"
        mzxid = run(host, "config", "put", "/app/live", "bad").split()[1]
        refused = run(host, "config", "ack", "/app/live", mzxid, "--at-least", "1", code=1)
        assert refused.startswith("ID\tRESULT\tZXID\tMZXID\tWHY\nweb1\tECANCELED\t"), refused
        with open(cache, encoding="utf-8") as kept:
            assert kept.read() == "two"
        run(host, "config", "ack", "/app/live", mzxid, "--at-least", "2", code=1)
        mzxid = run(host, "config", "put", "/app/live", "three").split()[1]
        run(host, "config", "ack", "/app/live", mzxid, "--at-least", "2", "--timeout", "1s", code=75)
        status = json.loads(run(host, "config", "status", "/app/live", "--json"))
        assert status["id"] == "web1" and status["error"] == "OK" and status["mzxid"] == int(mzxid), status
        assert watch.end() == 128 + signal.SIGTERM
        assert run(host, "config", "status", "/app/live") == ""
        with open(log, encoding="utf-8") as told:
            assert told.read().splitlines() == ["one:0", "two:0", "bad:0", "three:0"]

        # No server: the file serves.
        assert run("127.0.0.1:1", "config", "get", "/app/live", "--cache", cache, "--timeout", "300ms") == "three"
        away = Process("127.0.0.1:1", "config", "watch", "/app/live", "--cache", cache, "--file", file)
        away.expect("CACHED\tthree")
        away.end()
        run("127.0.0.1:1", "config", "get", "/app/live", "--timeout", "300ms", code=69)


def config_from_a_file(server):
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("from a file")
        file.flush()
        for number, option in enumerate(("--file", "--data-file")):
            run(server.host, "config", "put", f"/app/file{number}", option, file.name)
            assert run(server.host, "config", "get", f"/app/file{number}") == "from a file"
            run(server.host, "config", "put", f"/app/file{number}", "data", option, file.name, code=64)


def roll_out(server):
    """Two readers, one of them slow: the stage is over when both have applied it."""
    host = server.host
    readers = [Process(host, "config", "watch", "/app/roll", "--ack", name, "--", "sh", "-c", f"sleep {pause}")
               for name, pause in (("fast", 0), ("slow", 1))]
    eventually(lambda: len(run(host, "config", "status", "/app/roll").splitlines()) == 3)
    mzxid = run(host, "config", "put", "/app/roll", "next").split()[1]
    began = time.monotonic()
    done = run(host, "config", "ack", "/app/roll", mzxid, "--at-least", "2", "--timeout", "20s")
    assert time.monotonic() - began > 0.5 and done.count("\tOK\t") == 2, done
    for reader in readers:
        reader.end()


def restart(server):
    """A server that is killed and comes back: no member counts as gone, and changes are reported."""
    host = server.host
    watch = Process(host, "group", "watch", "/app/outage")
    watch.expect("FRESH")
    member = Process(host, "group", "join", "/app/outage", "--id", "m")
    watch.expect("JOINED\tm")
    server.kill()
    watch.expect("STALE")
    time.sleep(1)
    assert "LEFT" not in watch.text()
    server.start()
    watch.expect("FRESH")
    eventually(lambda: run(host, "group", "list", "/app/outage").startswith("ID\tTOKEN\tDATA\nm\t"))
    assert member.process.poll() is None
    member.end()
    watch.expect("LEFT\tm")
    watch.end()


def acl_of_all_nodes(server):
    """Members, values, acknowledgements and their parents have the ACL given, and are written again under it."""
    host = server.host
    member = Process(host, "group", "join", "/secret/group", "--id", "m", *acls.WORDS)
    member.expect("IN\tm")
    run(host, "config", "put", "/secret/value", "one", *acls.WORDS)
    reader = Process(host, "config", "watch", "/secret/value", "--ack", "r", *acls.WORDS, "--", "true")
    eventually(lambda: "OK" in run(host, "config", "status", "/secret/value", *acls.WORDS[:2]))
    mzxid = run(host, "config", "put", "/secret/value", "two", *acls.WORDS).split()[1]
    run(host, "config", "ack", "/secret/value", mzxid, "--at-least", "1", "--timeout", "20s", *acls.WORDS[:2])
    assert acls.foreign(server.address, "/secret", 6) == []
    run(host, "config", "put", "/secret/value", "three", code=77)
    run(host, "group", "join", "/secret/group", "--id", "stranger", "--timeout", "5s", code=77)
    run(host, "group", "join", "/secret/group", "--acl", "nonsense", code=64)
    reader.end()
    member.end()


def main():
    on_zookeeper = "--zookeeper" in sys.argv
    kind = zookeeper if on_zookeeper else conclave
    missing = conclave.why_missing() or kind.why_missing()
    if missing:
        return cases.skip_all(missing)
    tests = [group_members, group_command, group_restart, config_values, config_of_several_files, config_watch, config_from_a_file, roll_out, acl_of_all_nodes,
             restart]
    only = [word for word in sys.argv[1:] if not word.startswith("-")]
    with (zookeeper.ZooKeeper(tick_ms=500) if on_zookeeper else conclave.Conclave(tick_ms=500)) as server:
        return cases.run([cases.bound(test, server) for test in tests], only)


if __name__ == "__main__":
    sys.exit(main())
