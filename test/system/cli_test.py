"""The commands as users see them: output, JSON, exit codes; and what `conclave elect` promises about its child.

Promise: real servers, wrappers, guardians and children; the promises of spec E103 to E107 are measured on the child's
own clock stamps against the end of its lease. Every process is ended by its id.
Limits: one server; short sessions, so a machine that stalls for half a second can fail the measured tests.

usage: cli_test.py [NAME...]
"""

import base64
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402

CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cli_child.py")
PYTHON = sys.executable
TICK_MS = 200
T_MS = 1500                    # session timeout of the elections
LEASE_NS = T_MS * 1_000_000 * 2 // 3
T_NS = T_MS * 1_000_000
WAIT_S = 60

server = None
live = []                      # wrappers to be ended after a test


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def run(*words, stdin=b"", where=None, timeout=WAIT_S, stdout=subprocess.PIPE):
    """Runs one command to its end: (exit code, output, errors)."""
    env = dict(os.environ, CONCLAVE_SERVER=where or server.host)
    done = subprocess.run([program(), *words], input=stdin, stdout=stdout, stderr=subprocess.PIPE, env=env,
                          timeout=timeout, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def ok(*words, **more):
    code, out, err = run(*words, **more)
    assert code == 0, (words, code, err)
    return out.decode()


def okj(*words, **more):
    return json.loads(ok(*words, "--json", **more))


def refused(code, pattern, *words, **more):
    got, _, err = run(*words, **more)
    assert got == code, (words, got, err)
    assert re.search(pattern, err), (words, err)
    assert err.count("\n") == 1, err


def until(condition, what, limit_s=WAIT_S):
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("not in time: " + what)


def gone(pid):
    """Ended, a zombie included."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Elect:
    """`conclave elect PATH words`, in the background; verb: another command that takes the same words."""

    def __init__(self, path, *words, command=None, child=None, stdin=subprocess.DEVNULL, session=T_MS, prefix=(),
                 verb="elect"):
        self.path = path
        self.folder = tempfile.mkdtemp(prefix="conclave-test-elect-")
        if child is not None:
            command = [PYTHON, "-B", CHILD, self.folder, *child]
        self.status_read, status_write = os.pipe()
        self.err_path = os.path.join(self.folder, "err")
        with open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(
                [*prefix, program(), verb, path, "--server", server.host, "--session", f"{session}ms", "--status-fd",
                 str(status_write), *words, *(["--", *command] if command else [])],
                stdin=stdin, stdout=subprocess.PIPE, stderr=err, pass_fds=[status_write])
        os.close(status_write)
        self.pid = self.process.pid
        self.t_ns = session * 1_000_000
        live.append(self)

    def file(self, name):
        try:
            with open(os.path.join(self.folder, name), encoding="ascii") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def starts(self):
        """[(token, time, pid)] of the child."""
        return [tuple(map(int, line.split())) for line in self.file("started").splitlines()]

    def started(self, count=1):
        return until(lambda: len(self.starts()) >= count and self.starts(), f"start {count} of the child")[-1]

    def alive_ns(self, name="child"):
        return int(self.file("alive." + name) or 0)

    def lease_ns(self):
        return int((self.file("lease") or "0 0").split()[0])

    def guardian(self):
        """The guardian's pid: the child's parent."""
        with open(f"/proc/{self.started()[2]}/stat", encoding="ascii") as file:
            return int(file.read().rpartition(")")[2].split()[1])

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, code, timeout=WAIT_S):
        got = self.process.wait(timeout)
        with open(self.err_path, encoding="utf-8") as file:
            err = file.read()
        assert got == code, (got, err)
        return err

    def status(self):
        """The lines of --status-fd, after the end."""
        with os.fdopen(self.status_read, "rb") as file:
            self.status_read = -1
            return [json.loads(line) for line in file.read().splitlines()]

    def destroy(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(4)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        if self.status_read >= 0:
            os.close(self.status_read)
        shutil.rmtree(self.folder, ignore_errors=True)


def participants(path):
    return okj("elect", "--list", path)["participants"]


def waits(path, count):
    until(lambda: len(participants(path)) == count, f"{count} candidates on {path}")


# --- help, arguments, connection ---------------------------------------------------------------


def test_help():
    out = ok("--help")
    commands = re.findall(r"^  (\w+) +[A-Z]", out, re.M)
    assert {"server", "demo", "elect", "ls", "get", "set", "create", "rm", "stat", "watch"} <= set(commands), commands
    assert ok("help") == out and ok("help", "ls") == ok("ls", "--help-all")
    assert "--sasl-mechanism" in ok("help", "connection") and "--sasl-mechanism" not in ok("help", "ls")
    refused(64, 'no command "lss"', "help", "lss")
    assert re.fullmatch(r"conclave \d+\.\d+\.\d+\n", ok("--version"))
    assert ok("version") == ok("-V") == ok("--version")
    for command in commands:
        text = ok(command, "--help")
        assert text.startswith(f"usage: conclave {command}"), text
        assert len(text.splitlines()) <= 40, command
        full = ok(command, "--help-all")
        assert max(map(len, (text + full).splitlines())) <= 80, command
        named = set(re.findall(r" --([a-z][\w-]*)", full.partition("Options:")[2].partition("\n\n")[0]))
        assert all(f"--{name}" in text for name in named), (command, named)
        assert "--help" in text and (command == "server" or "Options:" in text), command


def test_wrong_arguments():
    refused(64, 'no command "lss", did you mean "ls"', "lss")
    refused(64, 'no command "zzzzzz"; see', "zzzzzz")
    refused(64, "no command given")
    refused(64, "no option --recursiv, did you mean --recursive", "ls", "/", "--recursiv")
    refused(64, "no option -x", "ls", "/", "-x")
    refused(64, "too few arguments", "get")
    refused(64, 'too many, "/b"', "get", "/a", "/b")
    refused(64, "--timeout wants a duration", "get", "/", "--timeout", "10")
    refused(64, "--timeout needs a value", "get", "/", "--timeout")
    refused(64, "--json takes no value", "get", "/", "--json=yes")
    refused(64, "--version wants a whole number", "rm", "/a", "--version", "x")
    refused(64, 'begins with "/"', "get", "a")
    refused(64, "the root always stays", "rm", "/")
    refused(64, "DIGEST-MD5 or GSSAPI", "get", "/", "--sasl-mechanism", "PLAIN")
    refused(64, "needs a user and a password", "get", "/", "--sasl-user", "anna")
    refused(64, "No such file", "get", "/", "--sasl-user", "anna", "--sasl-password-file", "/none")
    refused(64, "from Kerberos", "get", "/", "--sasl-user", "anna", "--sasl-mechanism", "GSSAPI")
    refused(64, "empty part", "get", "/a//b")
    refused(64, "empty part or ends", "get", "/a/")
    refused(64, 'part "." or', "get", "/a/../b")
    refused(64, "host:port", "get", "/", "--server", "127.0.0.1:999999")
    refused(64, "not both", "set", "/a", "x", "--file", "y")
    refused(64, "neither DATA", "set", "/a")
    refused(64, "--container goes with neither", "create", "/a", "--container", "--ephemeral")
    refused(64, "there is no command behind", "elect", "/e", "--")
    refused(64, "put the command to run behind", "elect", "/e", "true")
    refused(64, "a node of its own", "elect", "/", "--", "true")
    refused(64, "--kill-signal wants a signal", "elect", "/e", "--kill-signal", "NONE", "--", "true")
    refused(64, "--ack-on wants exec|fd", "elect", "/e", "--ack-on", "cmd", "--", "true")
    refused(64, "--id wants", "elect", "/e", "--id", "a\nb", "--", "true")
    refused(64, "--status-fd is not open", "elect", "/e", "--status-fd", "77", "--", "true")


def test_unreachable():
    began = time.monotonic()
    refused(69, "cannot connect: 127.0.0.1:1: .*; start a server", "get", "/", "--timeout", "300ms",
            where="127.0.0.1:1")
    refused(69, "127.0.0.1:1: Connection refused; 127.0.0.1:2: Connection refused|"
            "127.0.0.1:2: Connection refused; 127.0.0.1:1: Connection refused", "get", "/", "--timeout", "300ms",
            where="127.0.0.1:1,127.0.0.1:2")
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        refused(69, "no answer in time; is it a client port", "get", "/", "--timeout", "300ms",
                where="127.0.0.1:%d" % deaf.getsockname()[1])
    refused(69, "cannot connect", "elect", "/e", "--connect-timeout", "300ms", "--", "true", where="127.0.0.1:1")
    refused(69, "cannot connect", "elect", "/e", "--timeout", "300ms", "--", "true", where="127.0.0.1:1")
    assert time.monotonic() - began < 30  # without these options each would take 10 s


# One call of each command that connects; it ends by itself, with a server and without one.
CLIENT_CALLS = """
status | sessions | slow | reload | members list | elect --list /e | lock --list /l | semaphore --list /s | switch /x --list
queue list /q --connect-timeout 300ms | barrier set /b --connect-timeout 300ms | group list /g | config get /c
lease list | lease grant 5s
redis-failover status | ls / | get / | set /none x | create /none/x | rm /none | stat / | tree / | count /
watch /none --count 1 | acl get / | quota get / | fence list | sync / | whoami | shell
"""


def start_without_network(words, **environment):
    space = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    env = {name: value for name, value in os.environ.items() if name != "CONCLAVE_SERVER"}
    return subprocess.Popen([*space, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env=env | environment)


def test_server_list():
    calls = re.split(r" \| |\n", CLIENT_CALLS.strip())
    commands = set(re.findall(r"^  ([\w-]+) +[A-Z]", ok("--help"), re.M))
    commands -= {"doctor", "bench"}  # doctor_test.py: without --server it looks at this machine; bench_command_test.py
    assert {call.split()[0] for call in calls} == commands - {"server", "demo", "users", "secret", "inspect", "export", "migrate", "certs", "backup",
                                                          "restore", "history", "undelete"}, commands
    for call in calls:
        usage = f'wants host:port,host:port[/chroot]; see "conclave {call.split()[0]} --help"\n'
        refused(64, re.escape(f"conclave {call.split()[0]}: --server {usage}"), *call.split(), "--server", "")
        refused(64, re.escape(f"conclave {call.split()[0]}: $CONCLAVE_SERVER {usage}"), *call.split(), where="a:b")
    if start_without_network(["true"]).wait(WAIT_S) != 0:
        return "no network namespace: an empty $CONCLAVE_SERVER was not tried"
    runs = []
    for call in calls:
        words = [program(), *call.split(), "--timeout", "300ms"]
        runs.append((call, start_without_network(words), start_without_network(words, CONCLAVE_SERVER="")))
    for call, *both in runs:
        unset, empty = [(run.communicate(timeout=WAIT_S)[0].decode(), run.returncode) for run in both]
        assert unset[1] == empty[1] == 69 and "host:port" not in unset[0] + empty[0], (call, unset, empty)


# --- the tree ---------------------------------------------------------------------------------


def test_tree_text():
    assert ok("create", "/text", "one") == "/text\n"
    assert ok("get", "/text") == "one"
    assert ok("set", "/text", "two") == ""
    assert ok("get", "/text") == "two"
    assert ok("create", "/text/b") == "/text/b\n"
    assert ok("create", "/text/a", "--") == "/text/a\n"
    assert ok("ls", "/text") == "a\nb\n"
    stat = dict(line.split() for line in ok("stat", "/text").splitlines())
    assert (stat["version"], stat["num_children"], stat["data_length"]) == ("1", "2", "3"), stat
    assert re.fullmatch(r"0x[0-9a-f]+", stat["czxid"]) and stat["ephemeral_owner"] == "0x0", stat
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stat["mtime"]), stat
    assert ok("rm", "/text/a") == ""
    assert ok("ls", "/text") == "b\n"


def test_tree_json():
    assert okj("create", "/json", 'a "b"\n\u00e9') == {"path": "/json"}
    got = okj("get", "/json")
    assert got["data"] == 'a "b"\n\u00e9' and got["path"] == "/json" and got["stat"]["version"] == 0, got
    assert got["stat"]["ephemeral_owner"] is None and int(got["stat"]["czxid"], 16) > 0, got
    assert okj("set", "/json", "x")["stat"]["version"] == 1
    assert okj("stat", "/json")["stat"]["data_length"] == 1
    ok("create", "/json/k\u00fcche")
    listed = okj("ls", "/json")
    assert listed["children"] == ["k\u00fcche"] and listed["stat"]["num_children"] == 1, listed
    assert okj("rm", "/json/k\u00fcche") == {"path": "/json/k\u00fcche", "removed": 1}


def test_binary_data():
    data = bytes(range(256)) * 300
    ok("create", "/binary", "--file", "-", stdin=data)
    code, out, _ = run("get", "/binary")
    assert code == 0 and out == data
    assert base64.b64decode(okj("get", "/binary")["data_base64"]) == data
    for length in (1, 2):
        ok("set", "/binary", "-", stdin=b"\xff" * length)
        assert base64.b64decode(okj("get", "/binary")["data_base64"]) == b"\xff" * length
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"from a file")
        file.flush()
        ok("set", "/binary", "--file", file.name)
    assert okj("get", "/binary")["data"] == "from a file"
    refused(74, "cannot open /no/such/file", "set", "/binary", "--file", "/no/such/file")


def test_server_errors():
    ok("create", "/errors", "x")
    refused(1, r"conclave get: /none: no node at this path \(NO_NODE\); ", "get", "/none")
    refused(1, r"NO_NODE", "stat", "/none", "--json")
    refused(1, r"/errors: .* \(NODE_EXISTS\); .*set", "create", "/errors")
    refused(1, r"\(BAD_VERSION\)", "set", "/errors", "y", "--version", "7")
    refused(1, r"\(BAD_VERSION\)", "rm", "/errors", "--version", "7")
    ok("set", "/errors", "y", "--version", "0")
    ok("create", "/errors/child")
    refused(1, r"\(NOT_EMPTY\); .*--recursive", "rm", "/errors")
    ok("rm", "/errors/child")
    ok("rm", "/errors", "--version", "1")


def test_branches():
    refused(1, "NO_NODE", "create", "/branch/a/b")
    assert ok("create", "/branch/a/b", "leaf", "--parents") == "/branch/a/b\n"
    ok("create", "/branch/c")
    assert ok("ls", "-r", "/branch") == "/branch/a\n/branch/a/b\n/branch/c\n"
    assert okj("ls", "--recursive", "/branch")["nodes"] == ["/branch/a", "/branch/a/b", "/branch/c"]
    assert okj("rm", "--recursive", "/branch") == {"path": "/branch", "removed": 4}
    refused(1, "NO_NODE", "ls", "/branch")


def test_create_modes():
    ok("create", "/modes")
    first = ok("create", "/modes/n-", "--sequential").strip()
    second = ok("create", "/modes/n-", "--sequential").strip()
    assert re.fullmatch(r"/modes/n-\d{10}", first) and second > first
    ok("create", "/modes/container", "--container")
    with subprocess.Popen([program(), "create", "/modes/held", "mine", "--ephemeral", "--server", server.host],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"/modes/held\n"
        assert int(okj("stat", "/modes/held")["stat"]["ephemeral_owner"], 16) != 0
        holder.stdin.close()
        assert holder.wait(WAIT_S) == 0
    refused(1, "NO_NODE", "stat", "/modes/held")


def test_output_trouble():
    ok("create", "/trouble", "x")
    with open("/dev/full", "wb") as full:
        for words in (["get", "/trouble"], ["ls", "/", "--json"], ["stat", "/trouble"]):
            code, _, err = run(*words, stdout=full)
            assert code == 74 and err.count("\n") == 1 and "cannot write" in err, (words, code, err)
    for words in (["tree", "/", "--json"], ["ls", "/", "-r"]):  # a reader that has seen enough
        read_end, write_end = os.pipe()
        os.close(read_end)
        with os.fdopen(write_end, "wb") as gone_reader:
            assert run(*words, stdout=gone_reader) == (74, None, ""), words


def test_watch():
    with subprocess.Popen([program(), "watch", "/watched", "--count", "5", "--server", server.host],
                          stdout=subprocess.PIPE) as text, \
         subprocess.Popen([program(), "watch", "/watched", "--json", "--server", server.host],
                          stdout=subprocess.PIPE) as lines:
        assert text.stdout.readline() == b"WATCHING /watched\n"
        assert json.loads(lines.stdout.readline()) == {"event": "WATCHING", "path": "/watched", "exists": False}
        for event, words in (("CREATED", ["create", "/watched"]), ("DATA_CHANGED", ["set", "/watched", "x"]),
                             ("CHILDREN_CHANGED", ["create", "/watched/c"]),
                             ("CHILDREN_CHANGED", ["rm", "/watched/c"]), ("DELETED", ["rm", "/watched"])):
            ok(*words)
            assert json.loads(lines.stdout.readline()) == {"event": event, "path": "/watched"}
            assert text.stdout.readline().decode() == f"{event} /watched\n"
            time.sleep(0.5)  # the watch is set again by then, on a busy machine, too
        assert text.wait(WAIT_S) == 0
        lines.send_signal(signal.SIGTERM)
        assert lines.wait(WAIT_S) == 143


# --- elect: the child's life ---------------------------------------------------------------------


def test_environment():
    e = Elect("/env", "--id", "me", command=["env"])
    out = e.process.stdout.read().decode()
    e.end(0)
    env = dict(line.split("=", 1) for line in out.splitlines() if line.startswith("CONCLAVE_"))
    assert env["CONCLAVE_PATH"] == "/env" and env["CONCLAVE_ID"] == "me" and env["CONCLAVE_ROLE"] == "leader", env
    assert re.fullmatch(r"/env/[0-9a-f]{32}-n_\d{10}", env["CONCLAVE_NODE"]), env
    assert int(env["CONCLAVE_TOKEN"]) > 0 and env["CONCLAVE_SESSION_TIMEOUT_MS"] == str(T_MS), env
    assert re.fullmatch(r"0x[0-9a-f]+", env["CONCLAVE_SESSION"]), env
    assert int(env["CONCLAVE_LEASE_FD"]) > 2 and int(env["CONCLAVE_LEASE_SHM_FD"]) > 2, env
    assert "CONCLAVE_READY_FD" not in env and "CONCLAVE_TOKEN_ENSEMBLE" not in env, env
    status = e.status()
    assert status == [{"reason": "exited", "exit_code": 0, "child_status": 0, "token": int(env["CONCLAVE_TOKEN"])}]


def test_credentials_stay_with_the_wrapper():
    """A program that a command starts inherits no credentials, unless it is asked for; /proc shows none either."""
    secrets = {"CONCLAVE_AUTH": "digest:me:not-for-you", "CONCLAVE_TLS_PASSWORD": "not-for-you", "CONCLAVE_SASL_PASSWORD": "not-for-you",
               "CONCLAVE_REDIS_PASSWORD": "not-for-you"}
    show = ["--", "sh", "-c", "env; tr '\\0' '\\n' </proc/$PPID/environ"]
    def shown(*words, **more):
        env = dict(os.environ, CONCLAVE_SERVER=server.host, **secrets, **more)
        done = subprocess.run([program(), *words, *show], capture_output=True, env=env, timeout=WAIT_S, check=True)
        return done.stdout.decode()
    for words in (["elect", "/hush"], ["lock", "/hush-lock"], ["semaphore", "/hush-place", "-n", "1"]):
        assert "not-for-you\n" not in shown(*words), words
    assert "CONCLAVE_AUTH=digest:me:not-for-you\n" in shown("elect", "/hush", CONCLAVE_KEEP_CREDENTIALS="1")


def test_exit_codes():
    """E105: the child's code, and the leadership is given up before it is seen."""
    for command, code, reason in ((["sh", "-c", "exit 7"], 7, "exited"), (["sh", "-c", "kill -9 $$"], 137, "signaled"),
                                  (["sh", "-c", "exit 75"], 75, "exited"), (["/no/such/command"], 127, "exec-failed"),
                                  (["/"], 126, "exec-failed")):
        e = Elect("/codes", command=command)
        err = e.end(code)
        assert participants("/codes") == []
        status = e.status()[0]
        assert status["reason"] == reason and status["exit_code"] == code, status
        assert status["child_status"] == (None if reason == "exec-failed" else code), status
        assert ("cannot execute" in err) == (reason == "exec-failed"), err


def test_the_status_descriptor_is_not_for_the_command():
    """CMD does not inherit --status-fd: its reader sees the end when this process ends, whatever CMD leaves running."""
    e = Elect("/status", command=["sh", "-c", "ls -l /proc/self/fd; exec sleep 0.1"])
    e.end(0)
    shown = e.process.stdout.read().decode()
    assert "->" in shown and f"pipe:[{os.fstat(e.status_read).st_ino}]" not in shown, shown


def test_the_command_keeps_its_output_as_status_descriptor():
    """--status-fd 1 and 2 are also the output and the error output of CMD, which it keeps."""
    for fd in ("1", "2"):
        code, out, err = run("elect", "/status-output", "--status-fd", fd, "--", "sh", "-c", "echo out; echo err >&2")
        status = (out.decode() if fd == "1" else err).splitlines()[-1]
        assert code == 0 and out.startswith(b"out\n") and err.startswith("err\n"), (code, out, err)
        assert json.loads(status)["reason"] == "exited", status


def test_timeout():
    """E107: 75, and the child was never started."""
    first = Elect("/timeout", child=[])
    first.started()
    began = time.monotonic()
    second = Elect("/timeout", "--timeout", "400ms", child=[])
    err = second.end(75)
    assert 0.35 < time.monotonic() - began and "not elected within 400ms" in err, err
    assert second.starts() == [] and second.status()[0] == {"reason": "timeout", "exit_code": 75,
                                                           "child_status": None, "token": None}
    assert len(participants("/timeout")) == 1


def test_signal_while_connecting():
    """A command that waits for its first server ends at once, not when it gives up on the servers."""
    for words in (("barrier", "wait", "/b"), ("group", "watch", "/g"), ("elect", "--watch", "/e"), ("config", "watch", "/c")):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen([program(), *words, "--server", "127.0.0.1:1"], stderr=subprocess.PIPE)
            until(lambda pid=process.pid: blocks(pid, number), f"{words} to read signals")
            process.send_signal(number)
            assert process.communicate(timeout=WAIT_S)[1] == b"" and process.returncode == 128 + number, words


def blocks(pid, number):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"SigBlk:\s*(\w+)", file.read()).group(1), 16) >> (number - 1) & 1


def test_signal_while_waiting():
    """E106: clean withdrawal, 128+n."""
    leader = Elect("/waiting", child=[])
    leader.started()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        waiter = Elect("/waiting", child=[])
        waits("/waiting", 2)
        waiter.signal(signal.SIGWINCH)
        waiter.signal(number)
        waiter.end(128 + number)
        assert len(participants("/waiting")) == 1 and waiter.starts() == []
        assert waiter.status()[0]["reason"] == "signal"
    assert len(leader.starts()) == 1 and leader.process.poll() is None


def test_signal_while_running():
    """E106: forwarded; the exit code follows the child."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        e = Elect("/running", child=["signals"])
        e.started()
        if number == signal.SIGINT:
            e.signal(signal.SIGWINCH)
            until(lambda: e.file("signal") == str(int(signal.SIGWINCH)), "SIGWINCH at the child")
        e.signal(number)
        e.end(40)
        assert e.file("signal") == str(int(number))
    e = Elect("/running", child=[])
    e.started()
    e.signal(signal.SIGTERM)
    e.end(143)
    assert e.status()[0]["reason"] == "signaled"


def test_leftovers_are_ended():
    """Processes that the child leaves running, in its group or not, end before the leadership is given up."""
    e = Elect("/leftovers", child=["family", "exit=3", "after=0.3"])
    e.started()
    pids = [int(until(lambda n=name: e.file("pid." + n), name)) for name in ("sibling", "daemon")]
    e.end(3)
    assert all(map(gone, pids))


def test_hand_over():
    """In the order of coming; tokens rise; nothing overlaps; the list and the stream show it."""
    with subprocess.Popen([program(), "elect", "--watch", "/over", "--json", "--server", server.host],
                          stdout=subprocess.PIPE) as stream:
        es = []
        for number in range(3):
            es.append(Elect("/over", "--id", f"c{number}", "--data", "at home", child=[]))
            waits("/over", number + 1)
        listed = participants("/over")
        assert [p["id"] for p in listed] == ["c0", "c1", "c2"] and listed[0]["data"] == "at home", listed
        assert [p["role"] for p in listed] == ["leader", "waiting", "waiting"], listed
        titles, first = (line.split("\t") for line in ok("elect", "--list", "/over").splitlines()[:2])
        assert titles == ["ROLE", "NODE", "TOKEN", "ID"] and first[0::3] == ["leader", "c0"], (titles, first)
        tokens = []
        last_ns = 0
        for e in es:
            token, began_ns, _ = e.started()
            assert began_ns > last_ns, "a child began while the one before it was alive"
            tokens.append(token)
            e.signal(signal.SIGTERM)
            e.end(143)
            last_ns = e.alive_ns()
        assert tokens == sorted(tokens) and len(set(tokens)) == 3, tokens
        assert [p["token"] for p in listed] == tokens, (listed, tokens)
        time.sleep(0.3)
        stream.send_signal(signal.SIGINT)
        events = [json.loads(line) for line in stream.stdout.read().splitlines()]
        assert stream.wait(WAIT_S) == 130
    seen = [event["token"] for event in events if event["event"] == "ready"]
    assert seen == sorted(seen) and set(tokens) >= set(seen) and len(seen) >= 2, (events, tokens)


def test_list_of_nobody():
    assert ok("elect", "--list", "/nobody") == ""
    assert okj("elect", "--list", "/nobody") == {"path": "/nobody", "participants": []}


def test_ack_on_fd():
    with subprocess.Popen([program(), "elect", "--watch", "/acked", "--server", server.host],
                          stdout=subprocess.PIPE) as stream:
        e = Elect("/acked", "--ack-on", "fd", child=["ready=0.6"])
        began_ns = e.started()[1]
        while True:
            words = stream.stdout.readline().decode().split("\t")
            if words[0] == "ready":
                break
        assert boot_ns() - began_ns > 500_000_000, "announced before it said so"
        stream.terminate()
        stream.wait(WAIT_S)


def test_forever():
    e = Elect("/forever", "--forever", command=["sh", "-c", "echo $CONCLAVE_TOKEN; exit 5"])
    tokens = [int(e.process.stdout.readline()) for _ in range(2)]
    assert tokens[1] > tokens[0]
    e.signal(signal.SIGTERM)
    code = e.process.wait(WAIT_S)
    assert code in (5, 143), code
    status = e.status()
    assert status[0]["reason"] == "exited" and status[0]["token"] == tokens[0], status
    # The signal may reach the second command between its line and its end, or the wait for the third.
    assert status[1]["reason"] in ("exited", "signaled"), (code, status)
    assert participants("/forever") == []


def test_hold():
    e = Elect("/hold", stdin=subprocess.PIPE)
    node, token = e.process.stdout.readline().decode().split()
    assert node == "/hold/" + participants("/hold")[0]["node"]
    assert int(token) == participants("/hold")[0]["token"]
    e.process.stdin.close()
    e.end(0)
    assert e.status()[0]["reason"] == "released" and participants("/hold") == []
    e = Elect("/hold", "--json", stdin=subprocess.PIPE)
    held = json.loads(e.process.stdout.readline())
    assert held["path"] == "/hold" and held["token"] > int(token), held
    e.signal(signal.SIGINT)
    e.end(0)
    e.process.stdin.close()


def test_grace_bounds():
    e = Elect("/grace", "--grace", "2s", command=["true"])
    err = e.end(64)
    assert "it may be 250ms" in err and err.count("\n") == 1, err
    Elect("/grace", "--grace", "250ms", command=["true"]).end(0)


def test_takeover_delay():
    first = Elect("/delay", child=[])
    first.started()
    second = Elect("/delay", "--takeover-delay", "700ms", child=[])
    waits("/delay", 2)
    os.kill(first.pid, signal.SIGKILL)
    token, began_ns, _ = second.started()
    assert token > first.starts()[0][0]
    third = Elect("/delay", "--takeover-delay", "10s", child=[])
    waits("/delay", 2)
    second.signal(signal.SIGTERM)
    second.end(143)
    assert third.started()[1] - second.alive_ns() < 9_000_000_000, "waited after a clean stop"
    assert began_ns > first.alive_ns() + 700_000_000


# --- elect: loss ---------------------------------------------------------------------------------


def dead_in_time(e, names, lost_at_ns):
    """All were seen alive for the last time before last_ack + T, the end of the lease being last_ack + 2T/3."""
    last = e.lease_ns() + e.t_ns // 3
    for name in names:
        alive = e.alive_ns(name)
        assert 0 < alive < last, f"{name} lived {(alive - last) / 1e6:.0f} ms beyond last_ack + T"
    return (max(map(e.alive_ns, names)) - lost_at_ns) / 1e6


def lose_server(e):
    """Stops the server for long enough; returns when it was stopped."""
    os.kill(server.process.pid, signal.SIGSTOP)
    return boot_ns()


def test_stubborn_child():
    """E103: SIGKILL to the whole group, and to what left it, before last_ack + T; 76."""
    e = Elect("/stubborn", child=["stubborn", "family"])
    e.started()
    pids = [e.started()[2]] + [int(until(lambda n=n: e.file("pid." + n), n)) for n in ("sibling", "daemon")]
    try:
        stopped = lose_server(e)
        e.end(76)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    assert all(map(gone, pids))
    ms = dead_in_time(e, ["child", "sibling", "daemon"], stopped)
    status = e.status()[0]
    assert status["reason"] == "lost" and status["child_status"] == 137, status
    return f"dead {ms:.0f} ms after the server stopped answering"


def test_wrapper_killed():
    """E104: the guardian ends the group."""
    e = Elect("/killed", child=["stubborn", "family"])
    e.started()
    pids = [e.started()[2]] + [int(until(lambda n=n: e.file("pid." + n), n)) for n in ("sibling", "daemon")]
    guardian = e.guardian()
    killed = boot_ns()
    os.kill(e.pid, signal.SIGKILL)
    until(lambda: all(map(gone, pids)) and gone(guardian), "end of the group")
    return f"dead {dead_in_time(e, ['child', 'sibling', 'daemon'], killed):.0f} ms after the kill"


def test_wrapper_stopped():
    """E104: likewise, and the next one leads only afterwards; the stopped one learns of it when it wakes."""
    e = Elect("/stopped", child=["stubborn", "family"])
    e.started()
    pids = [e.started()[2]] + [int(until(lambda n=n: e.file("pid." + n), n)) for n in ("sibling", "daemon")]
    after = Elect("/stopped", child=[])
    waits("/stopped", 2)
    stopped = boot_ns()
    os.kill(e.pid, signal.SIGSTOP)
    until(lambda: all(map(gone, pids)), "end of the group")
    ms = dead_in_time(e, ["child", "sibling", "daemon"], stopped)
    token, began_ns, _ = after.started()
    assert began_ns > max(map(e.alive_ns, ["child", "sibling", "daemon"])), "two at once"
    assert token > e.starts()[0][0]
    os.kill(e.pid, signal.SIGCONT)
    e.end(76)
    assert len(e.starts()) == 1
    return f"dead {ms:.0f} ms after the stop"


def test_guardian_killed():
    e = Elect("/guardian", child=["stubborn"])
    pid = e.started()[2]
    os.kill(e.guardian(), signal.SIGKILL)
    err = e.end(73)
    assert gone(pid) and "guardian" in err, err
    assert participants("/guardian") == []


def test_guardian_stopped():
    """The wrapper does it alone."""
    e = Elect("/lazy", child=["stubborn"])
    pid, guardian = e.started()[2], e.guardian()
    os.kill(guardian, signal.SIGSTOP)
    ok("rm", "/lazy/" + participants("/lazy")[0]["node"])
    e.end(76)
    assert gone(pid)


def test_no_guardian():
    e = Elect("/alone", "--no-guardian", child=["stubborn", "family"])
    pid = e.started()[2]
    assert e.guardian() == e.pid
    sibling = int(until(lambda: e.file("pid.sibling"), "sibling"))
    try:
        stopped = lose_server(e)
        e.end(76)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
        daemon = int(e.file("pid.daemon") or 0)
        if daemon:
            os.kill(daemon, signal.SIGKILL)  # it left the group: the limit of doing without
    assert gone(pid) and gone(sibling)
    dead_in_time(e, ["child", "sibling"], stopped)
    e = Elect("/alone", "--no-guardian", command=["sh", "-c", "exit 9"])
    e.end(9)
    e = Elect("/alone", "--no-guardian", child=["stubborn"])
    pid = e.started()[2]
    os.kill(e.pid, signal.SIGKILL)
    until(lambda: gone(pid), "end of the child with its wrapper")


NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")


def setuid_python(folder, owner):
    """A copy of Python that a setuid bit makes run as owner."""
    if os.geteuid() != 0:
        raise cases.Skip("only root makes setuid files of others")
    path = os.path.join(folder, "python")
    os.chmod(folder, 0o755)
    shutil.copy(os.path.realpath("/usr/bin/python3"), path)
    os.chown(path, owner, 0)
    os.chmod(path, 0o4755)
    return path


def test_child_gains_no_privileges():
    words = ["grep", "NoNewPrivs", "/proc/self/status"]
    for extra, value in (((), "1"), (("--allow-setuid",), "0")):
        e = Elect("/privileges", *extra, command=words)
        assert e.process.stdout.read().decode().split()[-1] == value
        e.end(0)
        ok("queue", "put", "/privileges-queue", "x")
        assert ok("queue", "take", "/privileges-queue", *extra, "--", *words).split()[-1] == value
        assert ok("barrier", "enter", "/privileges-barrier", "-n", "1", *extra, "--", *words).split()[-1] == value
        assert ok("lease", "run", "5s", *extra, "--", *words).split()[-1] == value


def test_setuid_file_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        python = setuid_python(folder, 65534)
        for words in (("elect", "/setuid"), ("lock", "/setuid"), ("semaphore", "/setuid", "-n", "1"),
                      ("switch", "/setuid"), ("queue", "take", "/setuid"), ("barrier", "enter", "/setuid", "-n", "1"),
                      ("lease", "run", "5s")):
            refused(126, "setuid or setgid file.*--allow-setuid", *words, "--", python, "-c", "")
        env = dict(os.environ, CONCLAVE_SERVER=server.host, PATH=folder + ":" + os.environ["PATH"])
        found = subprocess.run([program(), "elect", "/setuid", "--", "python", "-c", ""], env=env, capture_output=True,
                               timeout=WAIT_S, check=False)
        assert found.returncode == 126 and python.encode() in found.stderr, found
        ok("elect", "/setuid", "--allow-setuid", "--", python, "-c", "")


def undying(folder, path, *words):
    """A wrapper that is not root, whose child has become root."""
    python = setuid_python(folder, 0)
    if subprocess.run([*NOBODY, python, "-c", "import os; os.setuid(0)"], capture_output=True, check=False).returncode:
        raise cases.Skip("setuid files have no effect here")
    if subprocess.run([*NOBODY, program(), "elect", "--help"], capture_output=True, check=False).returncode:
        raise cases.Skip("another user cannot run the program here")
    started = os.path.join(folder, "started")
    e = Elect(path, "--allow-setuid", *words, prefix=NOBODY, command=[
        python, "-c", "import os, sys, time; os.setuid(0); os.umask(0o22);"
        "open(sys.argv[1] + '.new', 'w').write(f'1 1 {os.getpid()}'); os.rename(sys.argv[1] + '.new', sys.argv[1]);"
        "time.sleep(600)", started])
    until(lambda: os.path.exists(started), "start of the child")
    shutil.copy(started, os.path.join(e.folder, "started"))
    return e


def ends_when_the_child_does(e):
    pid = e.started()[2]
    until(lambda: f"cannot end process {pid}" in e.file("err"), "the error")
    assert e.process.poll() is None and not gone(pid)
    return pid


def test_child_that_cannot_be_killed():
    """The term is over: the wrapper says what it cannot end, stays until the child has ended, and ends with 71."""
    for extra in ((), ("--no-guardian",)):
        with tempfile.TemporaryDirectory() as folder:
            e = undying(folder, "/undying", *extra)
            ok("rm", "/undying/" + participants("/undying")[0]["node"])
            pid = ends_when_the_child_does(e)
            os.kill(pid, signal.SIGKILL)
            e.end(71)
            assert e.status()[-1]["reason"] == "denied"


def test_node_is_kept_while_the_child_cannot_be_killed():
    """The guardian was killed: the kernel does not kill a child that changed its user, and nobody else is elected."""
    with tempfile.TemporaryDirectory() as folder:
        e = undying(folder, "/undying-alone")
        os.kill(e.guardian(), signal.SIGKILL)
        pid = ends_when_the_child_does(e)
        assert run("elect", "/undying-alone", "--timeout", f"{2 * T_MS}ms", "--", "true")[0] == 75
        assert e.process.poll() is None and not gone(pid)
        os.kill(pid, signal.SIGKILL)
        e.end(71)
        ok("elect", "/undying-alone", "--", "true")


def test_lease_descriptor():
    """The lease's pipe speaks and the page says so, at the end of the lease."""
    e = Elect("/lease", child=["stubborn", "lease"])
    token = e.started()[0]
    until(lambda: e.lease_ns() > 0, "the page")
    first = e.lease_ns()
    until(lambda: e.lease_ns() > first, "a longer lease")
    assert int(e.file("lease").split()[1]) == token
    assert first - boot_ns() < LEASE_NS
    try:
        lose_server(e)
        e.end(76)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    text, at, _ = e.file("lost").split()
    assert text == "b'L'" and e.lease_ns() - 50_000_000 < int(at) < e.lease_ns() - LEASE_NS + T_NS, (at, e.lease_ns())


def test_node_removed_by_operator():
    e = Elect("/removed", child=[])
    pid = e.started()[2]
    ok("rm", "/removed/" + participants("/removed")[0]["node"])
    began = time.monotonic()
    e.end(76)
    assert gone(pid) and time.monotonic() - began < 30


def test_server_killed():
    """The child is ended by the end of the lease; with --forever it leads again, with a larger token, afterwards."""
    once = Elect("/crash1", child=["stubborn"])
    forever = Elect("/crash2", "--forever", child=["stubborn"])
    once.started()
    token = forever.started()[0]
    killed = boot_ns()
    server.kill()
    err = once.end(76)
    assert "leadership lost" in err, err
    dead_in_time(once, ["child"], killed)
    until(lambda: gone(forever.starts()[0][2]), "end of the child")
    dead_in_time(forever, ["child"], killed)
    server.start()
    assert forever.started(2)[0] > token
    forever.signal(signal.SIGKILL)
    return "exit 76 and a new term"


# --- terminal, demo --------------------------------------------------------------------------------


def test_terminal():
    """The child has the terminal: Ctrl-C and Ctrl-Z reach it; the stopped job is stopped as a whole."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["CONCLAVE_SERVER"] = server.host
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored in what a shell has put into the background
        os.execv(program(), [program(), "elect", "/tty", "--session", f"{T_MS}ms", "--", PYTHON, "-c",
                             "import os,time; print('own', os.tcgetpgrp(0) == os.getpgrp(), flush=True); "
                             "time.sleep(60)"])
    try:
        out = b""
        while b"own" not in out or b"\n" not in out:
            out += os.read(terminal, 1000)
        assert b"own True" in out, out
        os.write(terminal, b"\x1a")
        _, status = os.waitpid(pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), status
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.2)
        assert os.waitpid(pid, os.WNOHANG)[0] == 0
        os.write(terminal, b"\x03")
        until(lambda: ended_by_interrupt(pid), "end after Ctrl-C")
    finally:
        os.close(terminal)


def ended_by_interrupt(pid):
    done, status = os.waitpid(pid, os.WNOHANG)
    if done == 0:
        return False
    assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 130, status
    return True


def test_demo():
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, TMPDIR=folder)
        began = time.monotonic()
        done = subprocess.run([program(), "demo"], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=2 * WAIT_S,
                              check=False)
        assert done.returncode == 0, done
        lines = done.stdout.decode().splitlines()
        assert all(re.match(r" *\d+\.\d{3}s  \S", line) for line in lines), lines
        assert re.search(r"server ready on 127\.0\.0\.1:\d+$", lines[0]), lines
        rising = [tuple(map(int, pair)) for pair in re.findall(r"token (\d+) > (\d+)", done.stdout.decode())]
        assert len(rising) == 4 and all(new > old for new, old in rising), lines
        assert max(map(len, lines)) <= 110, lines
        told = re.findall(r"s  (lock|queue|config): ", done.stdout.decode())
        assert told == sorted(told, key=("lock", "queue", "config").index) and len(told) == 13, lines
        assert sorted(re.findall(r"lock: (worker-\d) is done", done.stdout.decode())) == \
            ["worker-1", "worker-2", "worker-3"], lines
        assert "job-1 at attempt 2" in done.stdout.decode() and "both run with it" in lines[-3], lines
        assert os.listdir(folder) == [] and done.stderr == b"", (os.listdir(folder), done.stderr)
    return f"{time.monotonic() - began:.1f} s"


def end_live():
    for e in live:
        e.destroy()
    live.clear()


def main():
    global server
    if why_missing():
        return cases.skip_all(why_missing())
    with Conclave(["--minSessionTimeout", "400"], tick_ms=TICK_MS) as server:
        return cases.run(cases.named("test_", globals()), sys.argv[1:], end_live)


if __name__ == "__main__":
    sys.exit(main())
