"""The commands for the tree that cli_test.py leaves out: ACLs, quotas, persistent watches, TTLs, credentials, the shell.

Promise: one server of ours, real processes; the shell is driven through a pipe and through a terminal (pty). Every
process is ended by its id. Limits: test/compat tests the server's ACLs and quotas.

usage: cli_tree_test.py [NAME...]
"""

import base64
import hashlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import acls  # noqa: E402
import cases  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402

WAIT_S = 60
server = None
home = None                    # of the shell: its history is there


def environment(**more):
    env = {key: value for key, value in os.environ.items() if not key.startswith("CONCLAVE_AUTH")}
    return dict(env, CONCLAVE_SERVER=server.host, HOME=home, TERM="dumb", **more)


def run(*words, stdin=b"", timeout=WAIT_S, **env):
    """Runs one command to its end: (exit code, output, errors)."""
    done = subprocess.run([program(), *words], input=stdin, capture_output=True, env=environment(**env),
                          timeout=timeout, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace")


def ok(*words, **more):
    code, out, err = run(*words, **more)
    assert code == 0 and err == "", (words, code, err)
    return out


def okj(*words, **more):
    return json.loads(ok(*words, "--json", **more))


def refused(code, pattern, *words, **more):
    got, _, err = run(*words, **more)
    assert got == code, (words, got, err)
    assert re.search(pattern, err), (words, err)
    assert err.count("\n") == 1, err
    return err


def digest(credentials):
    user = credentials.split(":")[0]
    return user + ":" + base64.b64encode(hashlib.sha1(credentials.encode()).digest()).decode()


# --- ACLs and credentials ------------------------------------------------------------------------


def test_acl():
    ok("create", "/acl", "x")
    assert ok("acl", "get", "/acl") == "world:anyone:cdrwa\n"
    assert ok("acl", "set", "/acl", "world:anyone:ra,ip:127.0.0.1:cdrwa") == ""
    assert ok("acl", "get", "/acl") == "world:anyone:ra\nip:127.0.0.1:cdrwa\n"
    got = okj("acl", "get", "/acl")
    assert got["acl"] == [{"scheme": "world", "id": "anyone", "perms": "ra"},
                          {"scheme": "ip", "id": "127.0.0.1", "perms": "cdrwa"}], got
    assert got["path"] == "/acl" and got["stat"]["aversion"] == 1, got
    assert okj("acl", "set", "/acl", "world:anyone:cdrwa", "--version", "1") == {"path": "/acl", "changed": 1}
    refused(1, "BAD_VERSION", "acl", "set", "/acl", "world:anyone:r", "--version", "1")
    ok("create", "/acl/b/c", "--parents")
    assert okj("acl", "set", "--recursive", "/acl", "world:anyone:cdra") == {"path": "/acl", "changed": 3}
    assert ok("acl", "get", "/acl/b/c") == "world:anyone:cdra\n"
    refused(77, "NO_AUTH", "set", "/acl/b/c", "y")
    refused(1, "INVALID_ACL", "acl", "set", "/acl", "nobody:x:r")


def test_branch_with_a_closed_node():
    ok("create", "/half/closed/below", "--parents")
    ok("acl", "set", "/half/closed", "world:anyone:a")
    refused(77, "ls: /half/closed: .*NO_AUTH", "ls", "--recursive", "/half")
    refused(77, "rm: /half/closed: .*NO_AUTH", "rm", "--recursive", "/half")
    refused(77, "acl: /half/closed: .*NO_AUTH", "acl", "set", "--recursive", "/half", "world:anyone:cdrwa")


def test_acl_arguments():
    refused(64, '"put" is none of get and set', "acl", "put", "/acl")
    refused(64, "too few arguments: conclave acl set PATH ACL", "acl", "set", "/acl")
    refused(64, "argument too many", "acl", "get", "/acl", "world:anyone:r")
    refused(64, "go with set", "acl", "get", "/acl", "--recursive")
    refused(64, 'begins with "/"', "acl", "get", "acl")
    for wrong in ("world", "world:anyone", "world:anyone:", "world:anyone:x", ":a:r", "world:anyone:r,", "a:b:r,c"):
        refused(64, "is not SCHEME:ID:PERMS", "acl", "set", "/acl", wrong)


def test_acl_of_new_nodes():
    """--acl and $CONCLAVE_ACL of the commands for the tree: parents, quotas and a shell's nodes included."""
    who = ("--auth", "digest:" + acls.CREDENTIALS)
    ok("create", "/new/a/b", "x", "--parents", *acls.WORDS)
    ok("create", "/new/env", *who, CONCLAVE_ACL="auth::cdrwa")
    ok("create", "/new/own", *acls.WORDS, CONCLAVE_ACL="world:anyone:r")
    assert acls.foreign(server.address, "/new", 5) == []
    refused(77, "NO_AUTH", "rm", "/new/own")
    ok("rm", "/new/own", *who)
    ok("quota", "set", "/new", "--count", "100", *acls.WORDS)
    assert acls.foreign(server.address, "/zookeeper/quota/new", 2) == []
    refused(77, "NO_AUTH", "quota", "set", "/new", "--count", "1")
    ok("quota", "set", "/new", "--count", "200", *who)
    ok("quota", "rm", "/new", *who)
    lines = "create /new/e x --ephemeral --acl auth\nacl get /new/e\ncreate /new/open --acl world:anyone:cdrwa\ncreate /new/s\n"
    code, out, err = shell(lines, *acls.WORDS)
    assert (code, err) == (0, "") and out.startswith("/new/e\ndigest:op:"), (code, out, err)
    refused(1, "NO_NODE", "get", "/new/e", *who)
    assert ok("acl", "get", "/new/open", *who) == "world:anyone:cdrwa\n"
    assert [path for path, *_ in acls.foreign(server.address, "/new", 6)] == ["/new/open"]
    assert ok("acl", "get", ok("create", "/several", "--acl", "world:anyone:r", "--acl", "auth,ip:127.0.0.1:rw", *who).strip(),
              *who).splitlines()[::2] == ["world:anyone:r", "ip:127.0.0.1:rw"]


def test_wrong_acl_of_new_nodes():
    for wrong in ("", "me", "world:anyone:xyz", "auth,", "authentic"):
        refused(64, "--acl wants \"auth\" or SCHEME:ID:PERMS", "create", "/wrong", "--acl", wrong)
    refused(64, "CONCLAVE_ACL wants .*, not \"nonsense\"", "create", "/wrong", CONCLAVE_ACL="nonsense")
    refused(64, "--acl wants", "queue", "put", "/wrong", "x", "--acl", "nonsense")
    refused(64, "there is no option --acl", "get", "/", "--acl", "auth")
    refused(1, "INVALID_ACL.*needs credentials", "create", "/wrong", "--acl", "auth")
    refused(1, "INVALID_ACL", "create", "/wrong", "--acl", "nobody:x:r")
    refused(1, "NO_NODE", "get", "/wrong")


def test_auth():
    secret = "digest:anna:very-secret"
    mine = "digest:" + digest("anna:very-secret")
    ok("create", "/auth", "x")
    ok("acl", "set", "/auth", "auth::cdrwa", "--auth", secret)
    refused(77, "NO_AUTH", "get", "/auth")
    assert ok("get", "/auth", "--auth", secret) == "x"
    assert ok("get", "/auth", f"--auth={secret}") == "x"
    assert ok("get", "/auth", CONCLAVE_AUTH=secret) == "x"
    assert ok("get", "/auth", CONCLAVE_AUTH="digest:otto:one\n" + secret) == "x"
    assert ok("acl", "get", "/auth", "--auth", secret) == mine + ":cdrwa\n"
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(f"# who I am\n\n{secret}\n")
        file.flush()
        assert ok("get", "/auth", "--auth-file", file.name) == "x"
        os.chmod(file.name, 0o644)
        code, out, err = run("get", "/auth", "--auth-file", file.name)
        assert (code, out) == (0, "x") and "chmod 600" in err and "very-secret" not in err, err
    for words in (["--auth", "anna"], ["--auth", ":x"]):
        assert "anna" not in refused(64, "--auth wants SCHEME:CREDENTIALS", "get", "/auth", *words)
    refused(64, "CONCLAVE_AUTH wants", "get", "/auth", CONCLAVE_AUTH="nonsense")
    refused(74, "cannot read the credentials in /no/such", "get", "/auth", "--auth-file", "/no/such")
    identities = okj("whoami", "--auth", secret)["identities"]
    assert {"scheme": "digest", "id": "anna"} in identities and len(identities) == 2, identities
    assert sorted(ok("whoami").split()) == ["ip:127.0.0.1"]


def test_auth_is_not_listed():
    """The arguments of a command that goes on do not show the password."""
    for words in (["watch", "/auth-hidden", "--auth", "digest:a:hidden-word"],
                  ["elect", "/auth-hidden-elect", "--auth=digest:a:hidden-word", "--", "sleep", "60"]):
        with subprocess.Popen([program(), *words], env=environment(), stdout=subprocess.PIPE, text=True,
                              start_new_session=True) as process:
            try:
                if words[0] == "watch":
                    assert process.stdout.readline() == "WATCHING /auth-hidden\n"
                else:
                    deadline = time.monotonic() + WAIT_S
                    while len(family(process.pid)) < 3 and time.monotonic() < deadline:
                        time.sleep(0.02)
                lines = [command_line(pid) for pid in family(process.pid)]
                assert len(lines) >= (1 if words[0] == "watch" else 3), lines
                assert not [line for line in lines if "hidden-word" in line], lines
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(WAIT_S)


def command_line(pid):
    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
        return file.read()


def family(pid):
    """The process and all below it."""
    found = [pid]
    for parent in found:
        try:
            with open(f"/proc/{parent}/task/{parent}/children", encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
        except OSError:
            pass
    return found


# --- nodes ------------------------------------------------------------------------------------------


def test_tree():
    ok("create", "/tree/b/d", "--parents")
    ok("create", "/tree/a")
    assert ok("tree", "/tree") == "/tree\n  a\n  b\n    d\n"
    assert ok("tree", "/tree", "--depth", "1") == "/tree\n  a\n  b (1)\n"
    assert ok("tree", "/tree", "--depth", "0") == "/tree (2)\n"
    assert ok("tree", "/tree/a") == "/tree/a\n"
    nodes = [json.loads(line) for line in ok("tree", "/tree", "--json").splitlines()]
    assert [(node["path"], node["depth"]) for node in nodes] == [("/tree", 0), ("/tree/a", 1), ("/tree/b", 1),
                                                                 ("/tree/b/d", 2)], nodes
    assert nodes[0]["stat"]["num_children"] == 2
    assert ok("tree").startswith("/\n  ") and "\n    quota\n" in ok("tree")
    refused(1, "NO_NODE", "tree", "/none")
    assert ok("count", "/tree") == "3\n" and okj("count", "/tree") == {"path": "/tree", "count": 3}
    refused(1, "NO_NODE", "count", "/none")


def test_sync():
    assert ok("sync", "/") == ""
    got = okj("sync", "/none")
    assert got["path"] == "/none" and int(got["zxid"], 16) > 0, got


def test_create_ttl():
    assert ok("create", "/ttl", "x", "--ttl", "1h") == "/ttl\n"
    refused(64, "--ttl goes with neither", "create", "/t", "--ttl", "1s", "--container")
    refused(64, "--ttl goes with neither", "create", "/t", "--ttl", "1s", "--ephemeral")
    refused(64, "keep nothing", "create", "/t", "--ttl", "0")
    assert re.fullmatch(r"/ttl-s\d{10}\n", ok("create", "/ttl-s", "--ttl", "1h", "--sequential"))


def watching(*words):
    process = subprocess.Popen([program(), "watch", *words], env=environment(), stdout=subprocess.PIPE, text=True)
    return process


def test_watch_recursive():
    with watching("/wr", "--recursive", "--count", "5") as text, watching("/wr", "--recursive", "--json") as lines:
        assert text.stdout.readline() == "WATCHING /wr\n"
        assert json.loads(lines.stdout.readline()) == {"event": "WATCHING", "path": "/wr"}
        ok("create", "/wr")
        ok("create", "/wr/a")
        ok("set", "/wr/a", "x")
        ok("rm", "--recursive", "/wr")
        assert text.stdout.read() == "CREATED /wr\nCREATED /wr/a\nDATA_CHANGED /wr/a\nDELETED /wr/a\nDELETED /wr\n"
        assert text.wait(WAIT_S) == 0
        assert json.loads(lines.stdout.readline()) == {"event": "CREATED", "path": "/wr"}
        lines.send_signal(signal.SIGINT)
        assert lines.wait(WAIT_S) == 130


def test_watch_persistent():
    """Every change shows, however quick; and the watch goes on after the server was away."""
    ok("create", "/wp")
    with watching("/wp", "--persistent") as text:
        assert text.stdout.readline() == "WATCHING /wp\n"
        script = "".join(f"set /wp {i}\n" for i in range(50)) + "create /wp/c\nrm /wp/c\n"
        ok("shell", stdin=script.encode())
        got = [text.stdout.readline() for _ in range(52)]
        assert got == ["DATA_CHANGED /wp\n"] * 50 + ["CHILDREN_CHANGED /wp\n"] * 2, got
        server.restart()
        assert text.stdout.readline() == "RESUMED /wp\n"
        ok("set", "/wp", "x")
        assert text.stdout.readline() == "DATA_CHANGED /wp\n"
        text.send_signal(signal.SIGTERM)
        assert text.wait(WAIT_S) == 143
    refused(64, "give one of the two", "watch", "/wp", "--persistent", "--recursive")


def test_quota():
    ok("create", "/q/a/b", "--parents")
    refused(1, "/q/a: has no quota", "quota", "get", "/q/a")
    refused(1, "/q/a: has no quota", "quota", "rm", "/q/a")
    refused(1, "NO_NODE", "quota", "set", "/none", "--count", "1")
    assert ok("quota", "set", "/q/a", "--count", "5", "--hard-bytes", "100000000000") == ""
    assert ok("get", "/zookeeper/quota/q/a/zookeeper_limits") == \
        "count=5,bytes=-1=;byteHardLimit=100000000000;countHardLimit=-1"
    assert ok("quota", "get", "/q/a") == ("count            2\ncount_limit      5\ncount_hard_limit none\n"
                                          "bytes            0\nbytes_limit      none\nbytes_hard_limit 100000000000\n")
    ok("create", "/q/a/c", "four")
    got = okj("quota", "set", "/q/a", "--count", "-1", "--bytes", "7")
    assert got == {"path": "/q/a", "count": {"used": 3, "limit": None, "hard_limit": None},
                   "bytes": {"used": 4, "limit": 7, "hard_limit": 100000000000}}, got
    refused(1, "above or below", "quota", "set", "/q", "--count", "1")
    refused(1, "above or below", "quota", "set", "/", "--count", "1")
    refused(1, "above or below", "quota", "set", "/q/a/b", "--count", "1")
    assert okj("quota", "rm", "/q/a") == {"path": "/q/a"}
    refused(1, "NO_NODE", "stat", "/zookeeper/quota/q")
    assert ok("quota", "set", "/q", "--count", "9") == ""
    assert okj("quota", "get", "/q")["count"] == {"used": 4, "limit": 9, "hard_limit": None}
    ok("quota", "rm", "/q")


def test_quota_arguments():
    refused(64, '"put" is none of', "quota", "put", "/q")
    refused(64, "set needs a limit", "quota", "set", "/q")
    refused(64, "limits go with set", "quota", "get", "/q", "--count", "1")
    refused(64, "a limit is a whole number", "quota", "set", "/q", "--count", "many")
    refused(64, "have no quota", "quota", "set", "/zookeeper/quota", "--count", "1")


# --- the shell, by a script --------------------------------------------------------------------------


def shell(script, *words, **env):
    code, out, err = run("shell", *words, stdin=script.encode(), **env)
    return code, out, err


def test_script():
    code, out, err = shell("create /sh one\n"
                           "# a comment\n\n"
                           "create \"/sh/a b\" 'two words'   # another\n"
                           "get /sh/a\\ b\n"
                           "ls /sh\n"
                           "set /sh \"x\\ty\\n\\x41\"\n"
                           "get /sh --json\n"
                           "rm -r /sh\n")
    assert code == 0 and err == "", (code, out, err)
    assert out.startswith("/sh\n/sh/a b\ntwo wordsa b\n{"), out
    assert json.loads(out.splitlines()[-1])["data"] == "x\ty\nA", out


def test_script_goes_on():
    code, out, err = shell("get /none\nnonsense\nget /\nset / 'open\ncount /none\nls /zookeeper\n")
    assert code == 1 and out == "config\nquota\n", (code, out, err)
    lines = err.splitlines()
    assert len(lines) == 4 and "NO_NODE" in lines[0] and "nonsense: there is no such command" in lines[1], err
    assert "one is not closed" in lines[2] and "NO_NODE" in lines[3], err
    assert shell("nonsense\nget /none\n")[0] == 64
    code, out, err = shell("ls /zookeeper\nget /none\nls /zookeeper\n", "--stop-on-error")
    assert code == 1 and out == "config\nquota\n", (code, out, err)
    code, out, _ = shell("exit\nls /zookeeper\n")
    assert (code, out) == (0, "")
    _, _, err = shell("elect /x -- true\nserver\n")
    assert err.count("no such command in the shell") == 2, err
    assert 'did you mean "create"' in shell("craete /x\n")[2]
    assert "no option --recursiv, did you mean" in shell("ls / --recursiv\n")[2]


def test_script_session():
    """Ephemeral nodes live as long as the shell, and credentials hold for all lines behind them."""
    secret = "digest:sue:" + "pw"
    code, out, err = shell(f"create /sess/e --ephemeral --parents\nephemerals\nephemerals /none\nexit\n")
    assert code == 0 and out == "/sess/e\n/sess/e\n" and err == "", (out, err)
    refused(1, "NO_NODE", "stat", "/sess/e")
    code, out, err = shell(f"auth {secret}\ncreate /sess/mine x\nacl set /sess/mine auth::cdrwa\nget /sess/mine\n"
                           "whoami\nget /sess/mine --timeout 4s\n")
    assert code == 0 and err == "" and out.startswith("/sess/mine\nx") and out.endswith("x"), (out, err)
    assert "digest:sue\n" in out, out
    refused(77, "NO_AUTH", "get", "/sess/mine")
    assert shell("get /sess/mine\n", "--auth", secret)[:2] == (0, "x")
    assert shell(f"get /sess/mine --auth {secret}\nget /sess/mine\n")[:2] == (77, "x")
    code, out, err = shell("get /sess/mine --session 5s\n", "--auth", secret)
    assert (code, out, err) == (0, "x", ""), err
    assert "wants SCHEME:CREDENTIALS" in shell("auth\n")[2] and "auth wants" in shell("auth nothing\n")[2]


def test_zookeeper_names():
    code, out, err = shell("create /zkn/a --parents\naddauth digest a:b\nsetAcl /zkn/a world:anyone:cdrwa\n"
                           "getAcl /zkn/a\ngetAllChildrenNumber /zkn\ndelete /zkn/a\ncreate /zkn/c/d -p\n"
                           "listquota /zkn\ndeleteall /zkn\ngetEphemerals\nquit\nls /\n")
    assert out == "/zkn/a\nworld:anyone:cdrwa\n1\n/zkn/c/d\n" and err.count("\n") == 1 and code == 1, (out, err)


def test_script_input():
    """Lines as long as a node can be, and longer; bytes that are no text."""
    path = "/" + "x" * 1_000_000
    for line in (f"create {path}", f"get {path}x", "y" * 3_000_000, "'" * 1_000_001, "a " * 500_000,
                 "create /long '" + "z" * 900_000 + "'"):
        code, out, err = shell(line + "\nls /zookeeper\n")
        assert out.endswith("config\nquota\n") and "Sanitizer" not in err, (line[:40], code, out[-80:], err[:200])
    assert okj("stat", "/long")["stat"]["data_length"] == 900_000
    code, _, err = run("shell", stdin=b"ls /\x00\nls /zookeeper\n")
    assert code == 64 and "NUL" in err
    code, out, _ = run("shell", stdin=b"get /\xff\xfe\nls /zookeeper")
    assert code != 0 and out == "config\nquota\n", out
    _, _, err = shell("set / -\nset / --file -\n")
    assert err.count("the input has the lines of the shell") == 2, err


def test_script_unreachable():
    code, _, err = run("shell", "--timeout", "300ms", "--server", "127.0.0.1:1", stdin=b"ls /\n")
    assert code == 69 and "cannot connect" in err


def test_script_watch_ends():
    ok("create", "/shw")
    with subprocess.Popen([program(), "shell"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(),
                          text=True) as process:
        process.stdin.write("watch /shw --count 1\nwatch /shw -r\nget /shw\n")
        process.stdin.flush()
        assert process.stdout.readline() == "WATCHING /shw\n"
        ok("set", "/shw", "x")
        assert process.stdout.readline() == "DATA_CHANGED /shw\n"
        assert process.stdout.readline() == "WATCHING /shw\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 143
        process.stdin.close()


# --- the shell, by hand --------------------------------------------------------------------------------


class Terminal:
    """`conclave shell` on a terminal of its own."""

    def __init__(self, *words):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(program(), [program(), "shell", *words], environment())
        self.seen = ""
        self.prompt()

    def until(self, text, limit_s=WAIT_S):
        """Reads up to a text; returns the output before it."""
        deadline = time.monotonic() + limit_s
        while text not in self.seen:
            if not select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"no {text!r} in {self.seen!r}")
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            assert data, f"ended without {text!r}: {self.seen!r}"
            self.seen += data.decode("utf-8", "replace").replace("\r", "")
        before, _, self.seen = self.seen.partition(text)
        return before

    def prompt(self):
        """The output before the prompt. The editor takes the terminal over just after it has shown it."""
        before = self.until("conclave> ")
        deadline = time.monotonic() + WAIT_S
        while termios.tcgetattr(self.fd)[3] & termios.ICANON:
            assert time.monotonic() < deadline, "the terminal stays in its line mode"
            time.sleep(0.001)
        return before

    def type(self, text):
        data = text.encode()
        while data:
            data = data[os.write(self.fd, data[:1024]):]

    def line(self, text):
        """Types a line; returns the output up to the next prompt."""
        self.type(text + "\n")
        self.until("\n")
        return self.prompt()

    def end(self, text="\x04"):
        self.type(text)
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    os.read(self.fd, 65536)
                except OSError:
                    pass
        raise AssertionError("the shell does not end")


def history():
    with open(os.path.join(home, ".conclave_history"), encoding="utf-8") as file:
        return [line.replace("\\040", " ").rstrip("\n") for line in file][1:]


def test_terminal():
    terminal = Terminal()
    assert terminal.line("create /term hello") == "/term\n"
    assert terminal.line("get /term --json").startswith('{"path":"/term","data":"hello"')
    assert "NO_NODE" in terminal.line("get /none")
    assert "  watch " in terminal.line("help")
    assert "usage: conclave watch" in terminal.line("help watch")
    terminal.type("nonsense\x03")
    terminal.prompt()
    assert terminal.line("ls /zookeeper") == "config\nquota\n"
    assert terminal.end() == 0


def test_terminal_completion():
    ok("create", "/compl/alpha/deep", "--parents")
    ok("create", "/compl/alpine")
    ok("create", "/compl/b c")
    ok("create", "/compl/k\u00fc1")
    ok("create", "/compl/k\u00fc2")
    terminal = Terminal()
    terminal.type("cou\t/compl/alpi\t")  # one choice: a blank behind it
    terminal.until("count /compl/alpine ")
    terminal.type("\n")
    terminal.until("\n0\n")
    terminal.prompt()
    terminal.type("ls /compl/al\t")  # the common prefix, then the list
    terminal.until("ls /compl/alp")
    terminal.type("\t")
    terminal.until("alpha\nalpine\n")
    terminal.until("ls /compl/alp")
    terminal.type("h\t")  # has children: goes on
    terminal.until("/compl/alpha/")
    terminal.type("\t\n")
    terminal.until("\n")
    terminal.prompt()
    terminal.type("stat /compl/b\t\n")
    terminal.until("b\\ c")
    terminal.until("num_children     0\n")
    terminal.prompt()
    terminal.type("count /compl/k\t")
    terminal.until("k\u00fc")
    terminal.type("2\n")
    terminal.until("\n0\n")
    terminal.prompt()
    terminal.type("ls /none/\t\x03")  # nothing there, nothing breaks
    terminal.prompt()
    assert terminal.end("exit\n") == 0


def test_terminal_history():
    path = os.path.join(home, ".conclave_history")
    if os.path.exists(path):
        os.unlink(path)
    terminal = Terminal()
    terminal.line("create /hist one")
    terminal.line("auth digest:joe:hidden-one")
    terminal.line("  addauth digest joe:hidden-two")
    terminal.line("get /hist --auth digest:joe:hidden-three")
    terminal.line("get /hist")
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert history() == ["create /hist one", "get /hist"], history()
    with open(path, encoding="utf-8") as file:
        assert "hidden" not in file.read()
    os.kill(terminal.pid, signal.SIGKILL)  # nothing is lost: each line was saved
    os.waitpid(terminal.pid, 0)
    os.close(terminal.fd)
    terminal = Terminal()
    terminal.type("\x10\x10\n")  # twice back
    terminal.until("create /hist one")
    terminal.until("NODE_EXISTS")
    terminal.prompt()
    assert terminal.end() == 0


def test_terminal_watch():
    """Ctrl-C ends the watch, not the shell; again and again."""
    ok("create", "/termw")
    terminal = Terminal()
    for _ in range(2):
        terminal.type("watch /termw -r\n")
        terminal.until("WATCHING /termw\n")
        ok("set", "/termw", "x")
        terminal.until("DATA_CHANGED /termw\n")
        terminal.type("\x03")
        terminal.prompt()
    got = terminal.line("get /zookeeper")
    assert got == "", got
    assert terminal.end() == 0


def test_terminal_reconnects():
    terminal = Terminal("--timeout", "2s")
    got = terminal.line("create /termr x --ephemeral")
    assert got == "/termr\n", got
    server.restart()
    deadline = time.monotonic() + WAIT_S
    while "x\n" != (got := terminal_get(terminal)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert got == "x\n", got  # on a terminal the line is ended
    assert terminal.end() == 0


def terminal_get(terminal):
    terminal.type("get /termr\n")
    terminal.until("\n")
    shown = terminal.until("> ").rpartition("conclave")[0]
    time.sleep(0.05)  # the editor takes the terminal over
    return shown


def test_terminal_long_line():
    terminal = Terminal()
    assert "/" + "n" * 20 in terminal.line("create /" + "n" * 20_000)
    assert terminal.end() == 0


def main():
    global server, home
    if why_missing():
        return cases.skip_all(why_missing())
    with Conclave(["--extendedTypesEnabled", "true"], tick_ms=500) as server, \
            tempfile.TemporaryDirectory(prefix="conclave-test-home-") as home:
        return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
