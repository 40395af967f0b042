"""The server for users' tests: `conclave server --test --until-eof`.

Promise: it writes no file, several run at once, it ends with its standard input and with its parent, however that ends.
Limits: loopback only; no case asserts how fast anything is.

usage: test_server_test.py [CASE...]
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import READY_LINE, program, why_missing  # noqa: E402

PATIENCE_S = 60

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
            target = os.readlink(f"/proc/{server.process.pid}/fd/{name}")
            assert not target.startswith("/") or target.startswith("/dev/") or target == server.log_path, target
        link.close_session()


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


def main():
    why = why_missing()
    if why:
        return cases.skip_all(why)
    return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
