"""The server for users' tests: `conclave server --test --until-eof`.

Promise: it writes no file, several run at once, it ends with its standard input and with its parent, however that ends.
Each order of its admin port does to plain connections and to kazoo what docs/testing.md says. Apache's C library
prints the same on it as on an ordinary server.
Limits: loopback only; no case asserts that anything is fast. The C library's part is tested by the suite examples.

usage: test_server_test.py [CASE...]
"""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder) for folder in ("support", "compat")]

import c_client_test  # noqa: E402
import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import READY_LINE, Conclave, program, why_missing  # noqa: E402

try:
    from kazoo import exceptions
    from kazoo.client import KazooClient, KazooState
except ImportError:
    KazooClient = None

PATIENCE_S = 60
SANITIZED = "san" in os.path.basename(os.path.abspath(os.environ.get("CONCLAVE_BUILD", "build")))
STARTS = 15
START_TRUES = 16  # with all libraries loaded at the start it would be 20 or more

# Starts a server as a test program does, tells its process id, and waits to be killed. argv: PROGRAM.
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.argv[1], "server", "--test", "--until-eof"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"still not after {PATIENCE_S} s: {what}"
        time.sleep(0.01)


class TestServer:
    """`with TestServer() as server:`."""

    def __init__(self, *options):
        self.folder = tempfile.mkdtemp(prefix="conclave-test-server-")
        self.log_path = self.folder + ".log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([program(), "server", "--test", "--until-eof", *options], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=log, cwd=self.folder)
        line = self.process.stdout.readline()
        match = READY_LINE.match(line)
        if not match:
            self.end()
            raise AssertionError(f"not ready: {line!r}, {self.log()}")
        self.port, self.admin_port = int(match.group(1)), int(match.group(2) or 0)
        self.host = f"127.0.0.1:{self.port}"

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def ask(self, order, method="POST", **arguments):
        """Status and answer of an order."""
        url = f"http://127.0.0.1:{self.admin_port}/test/{order}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=PATIENCE_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def order(self, name, **arguments):
        """The answer of an order that must succeed."""
        status, answer = self.ask(name, **arguments)
        assert status == 200 and answer["error"] is None and answer["command"] == name, (status, answer)
        return answer

    def connect(self, timeout_ms=30000, **again):
        return zk.Connection(("127.0.0.1", self.port), timeout_ms, **again)

    def resume(self, link):
        """The same session on a new connection."""
        return self.connect(session_id=link.session_id, passwd=link.passwd)

    def end(self):
        """Ends it as a test does; its exit code."""
        self.process.stdin.close()
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *error):
        code = self.end()
        left = os.listdir(self.folder)
        os.rmdir(self.folder) if not left else None
        os.unlink(self.log_path)
        if error[0] is None:
            assert code == 0, f"exit code {code}"
            assert not left, f"it wrote files: {left}"


def test_nothing_on_disk():
    with TestServer() as server:
        link = zk.Connection(("127.0.0.1", server.port), 10000)
        for i in range(100):
            link.call(zk.create(f"/n{i}", b"x" * 1000))
        assert link.call(zk.get_data("/n7"))[1]["data"] == b"x" * 1000
        files = os.listdir(f"/proc/{server.process.pid}/fd")
        for name in files:
            try:
                target = os.readlink(f"/proc/{server.process.pid}/fd/{name}")
            except FileNotFoundError:
                continue  # closed meanwhile
            assert not target.startswith("/") or target.startswith("/dev/") or target == server.log_path, target
        link.close_session()


def cpu_ms(*words):
    """What one run takes of a processor until it ends; its standard input ends at once."""
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process.stdin.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return (used.ru_utime + used.ru_stime) * 1000


def test_a_start_takes_little():
    """Start and end together, in units of a program that does nothing: the clock on the wall would measure the machine's other work."""
    if SANITIZED:
        raise cases.Skip("a sanitizer starts slowly")
    best = {name: min(cpu_ms(*words) for _ in range(STARTS))
            for name, words in (("true", ["true"]), ("server", [program(), "server", "--test", "--until-eof"]))}
    assert best["server"] < START_TRUES * best["true"], best
    return f"{best['server']:.1f} ms, true {best['true']:.1f} ms"


def test_two_at_once():
    with TestServer() as one, TestServer() as other:
        assert one.port != other.port and one.admin_port != other.admin_port
        a, b = (zk.Connection(("127.0.0.1", server.port), 10000) for server in (one, other))
        a.call(zk.create("/only-here", b""))
        names = [link.call(zk.get_children("/")) for link in (a, b)]
        assert "only-here" in str(names[0]) and "only-here" not in str(names[1]), names
        a.close_session()
        b.close_session()


def test_killed_parent_leaves_no_server():
    parent = subprocess.Popen([sys.executable, "-c", PARENT, program()], stdout=subprocess.PIPE)
    pid = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()

    def gone():
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                return file.read().rsplit(")", 1)[1].split()[0] == "Z"
        except FileNotFoundError:
            return True
    wait_for(gone, f"the end of server {pid}")


def test_input_that_never_ends_is_refused():
    result = subprocess.run([program(), "server", "--test", "--until-eof"], stdin=subprocess.DEVNULL, capture_output=True,
                            timeout=PATIENCE_S)
    assert result.returncode == 64 and b"--until-eof" in result.stderr, result


def test_many_writes_keep_the_log_small():
    """The log in memory is cut like one on disk: after 256 MB of writes, the process is far smaller than that."""
    with TestServer() as server:
        link = zk.Connection(("127.0.0.1", server.port), 10000)
        link.call(zk.create("/big", b""))
        for _ in range(8000):
            link.call(zk.set_data("/big", b"x" * 32768))
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
            kib = int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))
        assert kib < 160 << 10, f"{kib} KiB"
        link.close_session()


def expect_closed(call):
    try:
        call()
    except (zk.Closed, OSError):
        return
    raise AssertionError("the connection did not end")


def test_expire():
    with TestServer() as server:
        link, other = server.connect(), server.connect()
        link.call(zk.create("/mine", b"", flags=zk.EPHEMERAL))
        server.order("expire", session=hex(link.session_id))
        assert other.call(zk.exists("/mine"))[0] == zk_error("NO_NODE"), "the ephemeral node stayed"
        expect_closed(link.read_frame)
        assert server.resume(link).session_id == 0, "the session lived"
        report = server.order("report")["sessions"]
        assert (report["created"], report["expired"], report["closed"], report["open"]) == (2, 1, 0, 1), report
        status, answer = server.ask("expire", session=hex(link.session_id))
        assert status == 404 and "no such session" in answer["error"], answer


def zk_error(name):
    return {"NO_NODE": -101, "NODE_EXISTS": -110}[name]


def test_drop_after_commit():
    """The write is there, its answer is not; the session goes on with a new connection."""
    with TestServer() as server:
        link = server.connect()
        server.order("drop", session=hex(link.session_id), when="after", op="create")
        assert link.call(zk.exists("/a"))[0] == zk_error("NO_NODE")  # another request is answered
        expect_closed(lambda: link.call(zk.create("/a", b"there")))
        again = server.resume(link)
        assert again.session_id == link.session_id
        assert again.call(zk.get_data("/a"))[1]["data"] == b"there"
        assert again.call(zk.create("/b", b""))[0] == 0  # one drop, one request
        assert server.order("report")["connections"]["dropped"] == 1


def test_drop_before_and_now():
    with TestServer() as server:
        link = server.connect()
        server.order("drop", when="before", op="write")
        expect_closed(lambda: link.call(zk.create("/a", b"")))
        link = server.resume(link)
        assert link.call(zk.exists("/a"))[0] == zk_error("NO_NODE"), "it was carried out"
        server.order("drop", session=hex(link.session_id), when="now")
        expect_closed(link.read_frame)
        status, answer = server.ask("drop", session=hex(link.session_id), when="now")
        assert status == 404 and "connected" in answer["error"], answer


def test_pause_and_delay():
    with TestServer() as server:
        link = server.connect(timeout_ms=30000)
        link.call(zk.create("/a", b""))
        began = time.monotonic()
        server.order("pause", session=hex(link.session_id), ms=1000)
        assert link.call(zk.exists("/a"))[0] == 0
        assert time.monotonic() - began > 0.8, "it was not paused"
        short = server.connect(timeout_ms=4000)
        server.order("pause")  # all, until told
        xid = link.send(zk.exists("/a"))
        time.sleep(6)  # longer than its timeout: nobody's session ends, because nobody can be heard
        assert server.order("report")["sessions"]["expired"] == 0
        server.order("resume")
        assert server.order("report")["sessions"]["expired"] == 0
        assert link.read_reply().xid == xid
        short.drop()
        server.order("delay", ms=600)
        for _ in range(2):
            began = time.monotonic()
            link.call(zk.exists("/a"))
            assert time.monotonic() - began > 0.4, "it was not delayed"
        server.order("clear")
        link.call(zk.exists("/a"))
        status, answer = server.ask("pause", session="0x77")
        assert status == 404, answer


def test_a_paused_session_alone_ends():
    with TestServer() as server:
        link, other = server.connect(timeout_ms=500), server.connect(timeout_ms=60000)
        link.call(zk.create("/mine", b"", flags=zk.EPHEMERAL))
        server.order("pause", session=hex(link.session_id))
        wait_for(lambda: other.call(zk.exists("/mine"))[0] != 0, "the end of a session that cannot be heard")


def test_advance_ends_silent_sessions_only():
    with TestServer() as server:
        live, silent, longer = server.connect(30000), server.connect(30000), server.connect(90000)
        silent.drop()
        longer.drop()
        assert live.call(zk.ping())[0] == 0
        assert server.order("advance", ms=20000)["expired"] == 0
        assert live.call(zk.ping())[0] == 0
        assert server.order("advance", ms=20000)["expired"] == 1
        assert live.call(zk.exists("/"))[0] == 0
        left = {entry["id"] for entry in server.order("report")["sessions"]["list"]}
        assert left == {hex(live.session_id), hex(longer.session_id)}, left
        assert server.order("advance", ms=60000)["expired"] == 1
        assert live.call(zk.exists("/"))[0] == 0


def test_freeze():
    with TestServer() as server:
        server.order("freeze")
        link = server.connect(timeout_ms=400)
        link.drop()
        time.sleep(2)
        assert server.order("report")["sessions"]["open"] == 1
        server.order("unfreeze")
        wait_for(lambda: server.order("report")["sessions"]["expired"] == 1, "the end of a silent session")


def test_refuse():
    with TestServer() as server:
        link = server.connect()
        server.order("refuse")
        expect_closed(server.connect)
        assert link.call(zk.exists("/"))[0] == 0  # who is in stays
        server.order("accept")
        later = server.connect()
        counts = server.order("report")["connections"]
        assert (counts["accepted"], counts["refused"], counts["open"]) == (2, 1, 2), counts
        later.close_session()


def test_report_counts_exactly():
    with TestServer() as server:
        link = server.connect()
        for i in range(7):
            link.call(zk.create(f"/n{i}", b""))
        server.order("mark")
        for i in range(5):
            link.call(zk.get_data(f"/n{i}", watch=True))
        link.call(zk.set_data("/n0", b"1"))
        link.call(zk.multi([zk.set_data("/n1", b"1"), zk.delete("/n2")]))
        link.call(zk.ping())
        report = server.order("report")
        assert report["requests"] == {"getData": 5, "setData": 1, "multi": 1, "ping": 1, "total": 8}, report["requests"]
        assert report["watches"] == {"set": 2, "told": 3}, report["watches"]
        assert report["connections"]["accepted"] == 0 and report["connections"]["open"] == 1
        link.close_session()
        assert server.order("report")["sessions"]["closed"] == 1


def test_reset():
    with TestServer() as server:
        link = server.connect()
        for path in ("/a", "/a/b", "/a/b/c", "/a/d", "/zookeeper/quota/a"):
            link.call(zk.create(path, b""))
        link.call(zk.create("/locked", b"", acl=[(0, "world", "anyone")]))
        link.call(zk.create("/mine", b"", flags=zk.EPHEMERAL))
        server.order("refuse")
        server.order("reset")
        expect_closed(link.read_frame)
        fresh = server.connect()
        assert fresh.call(zk.get_children("/"))[1]["children"] == ["zookeeper"]
        assert fresh.call(zk.get_children("/zookeeper"))[1]["children"] in (["config", "quota"], ["quota", "config"])
        assert fresh.call(zk.get_children("/zookeeper/quota"))[1]["children"] == []
        assert server.order("report")["sessions"]["open"] == 1


def test_bad_orders():
    with TestServer() as server:
        link = server.connect()
        mine = hex(link.session_id)
        for name, arguments, word in (
                ("nonsense", {}, "no such order"), ("expire", {}, "missing"), ("expire", {"session": "7"}, "session"),
                ("expire", {"session": "0x0"}, "session"), ("expire", {"session": "0x1" + "0" * 16}, "session"),
                ("delay", {}, "missing"), ("delay", {"ms": "-1"}, "ms"), ("delay", {"ms": "86400001"}, "ms"),
                ("advance", {"ms": "1e3"}, "ms"), ("advance", {"ms": ""}, "ms"), ("drop", {}, "when"),
                ("drop", {"when": "now"}, "session"), ("drop", {"when": "never"}, "when"),
                ("drop", {"when": "after", "op": "getChild"}, "op")):
            status, answer = server.ask(name, **arguments)
            assert status == 400 and word in answer["error"], (name, arguments, status, answer)
        assert server.ask("report", method="GET")[0] == 405
        for _ in range(64):
            server.order("drop", session=mine, when="after")
        assert server.ask("drop", session=mine, when="after")[0] == 409
        server.order("clear")
        server.order("drop", session=mine, when="after")


def test_ordinary_server_takes_no_orders():
    with Conclave(admin=True) as server:
        url = f"http://127.0.0.1:{server.admin_port}/test/clear"
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=PATIENCE_S)
        except urllib.error.HTTPError as error:
            with error:
                assert error.code == 404 and "--test" in json.load(error)["error"]
            return
        raise AssertionError("an ordinary server took an order")


def test_apaches_c_client_is_served_as_by_an_ordinary_server():
    with TestServer() as server, Conclave() as ordinary:
        seen = [c_client_test.library(each) for each in (server, ordinary)]
        assert len(seen[0]) > 10 and seen[0] == seen[1], seen


def kazoo_client(server, **options):
    if KazooClient is None:
        raise cases.Skip("no module kazoo (Debian: python3-kazoo)")
    client = KazooClient(hosts=server.host, timeout=options.pop("timeout", 20), **options)
    states = queue.Queue()
    client.add_listener(lambda state: states.put(state) and None)
    client.start(timeout=PATIENCE_S)
    assert states.get(timeout=PATIENCE_S) == KazooState.CONNECTED
    return client, states


def test_kazoo_learns_that_its_session_expired():
    with TestServer() as server:
        client, states = kazoo_client(server)
        server.order("expire", session=hex(client.client_id[0]))
        told = []
        while KazooState.LOST not in told:
            told.append(states.get(timeout=PATIENCE_S))
        client.stop()
        client.close()


def test_kazoo_repeats_a_create_whose_answer_was_lost():
    with TestServer() as server:
        client, _ = kazoo_client(server)
        server.order("drop", session=hex(client.client_id[0]), when="after", op="create")
        try:
            client.retry(client.create, "/once", b"1")
        except exceptions.NodeExistsError:
            pass  # what a program must expect here, and what this order is for
        assert client.retry(client.get, "/once")[0] == b"1"
        client.stop()
        client.close()


def test_kazoo_is_suspended_while_its_server_is_paused():
    with TestServer() as server:
        client, states = kazoo_client(server, timeout=2)
        server.order("pause")
        assert states.get(timeout=PATIENCE_S) == KazooState.SUSPENDED
        server.order("resume")
        assert states.get(timeout=PATIENCE_S) in (KazooState.CONNECTED, KazooState.LOST)
        client.stop()
        client.close()


def main():
    why = why_missing()
    if why:
        return cases.skip_all(why)
    return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
