"""Slow requests: each part of a request's way is made slow on purpose, and `conclave slow` must name that part.

Promise: a slow disk, stopped followers, a stopped leader, a large transaction, a read behind a slow write and a client
that does not read are told apart, with session, client, operation and path, by the route, by the command and in the
histograms; fast requests are not shown, and threshold 0 keeps nothing.

usage: slow_test.py [CASE...]
"""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import slow_disk  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402
from ensemble import Ensemble  # noqa: E402

PATIENCE_S = 60
SLOW_MS = 700
PARTS = ("queue", "forward", "disk", "quorum", "apply", "send")


class SlowServer(Conclave):
    """A server whose syncs take as long as the test says."""

    def __init__(self, options=(), admin=False):
        super().__init__(options, admin=admin)
        self.disk = slow_disk.SlowDisk(self.folder)

    def command(self):
        return [*self.disk.words(), *super().command()]


def fetch(server, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.admin_port}{path}", timeout=PATIENCE_S) as answer:
        return answer.read().decode()


def slow(server):
    return json.loads(fetch(server, "/slow"))


def metric(server, name):
    return float(re.search(rf"^{re.escape(name)} (\S+)$", fetch(server, "/metrics"), re.M).group(1))


def find(server, path, operation=None):
    """The row with this path, once it is there."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = slow(server)
        for row in answer["requests"]:
            if row["path"] == path and operation in (None, row["operation"]):
                return row
        assert time.monotonic() < deadline, f"no row with {path}: {answer}"
        time.sleep(0.05)


def check(row, part, link, least_ms=SLOW_MS * 0.7):
    """The row names this part, and adds up."""
    assert row["slowest"] == part and row["parts_ms"][part] >= least_ms, row
    assert set(row["parts_ms"]) == set(PARTS) and all(ms >= 0 for ms in row["parts_ms"].values()), row
    assert abs(sum(row["parts_ms"].values()) - row["ms"]) < 0.1, row
    assert int(row["session"], 16) == link.session_id & (2**64 - 1), row
    assert row["client"] == "%s:%d" % link.socket.getsockname()[:2], (row, link.socket.getsockname())
    assert abs(row["at_ms"] / 1000 - time.time()) < PATIENCE_S * 2, row


def command(*words):
    done = subprocess.run([program(), "slow", *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.returncode, done.stdout, done.stderr


def test_disk():
    with SlowServer(["--slowlog.threshold", "300"], admin=True) as server, zk.Connection(server.address, 30000) as link:
        before = metric(server, 'conclave_request_part_seconds_sum{part="disk"}')
        server.disk.set(SLOW_MS)
        assert link.call(zk.create("/disk", b"x"))[0] == 0
        server.disk.set(0)
        row = find(server, "/disk")
        check(row, "disk", link)
        assert row["operation"] == "create" and row["count"] == 1 and not row["path_cut"], row
        assert metric(server, 'conclave_request_part_seconds_sum{part="disk"}') - before >= SLOW_MS * 0.0007
        assert metric(server, "conclave_fsync_duration_seconds_sum") >= SLOW_MS * 0.0007
        assert metric(server, "conclave_slow_requests_total") >= 1
        long = "/" + "long" * 100
        server.disk.set(SLOW_MS)
        assert link.call(zk.create(long))[0] == 0
        server.disk.set(0)
        row = find(server, long[:159])
        assert row["path_cut"], row


def test_queue():
    """A read behind a slow write of its connection."""
    with SlowServer(["--slowlog.threshold", "300"], admin=True) as server, zk.Connection(server.address, 30000) as link:
        server.disk.set(SLOW_MS)
        link.send(zk.create("/first", b""))
        link.send(zk.exists("/behind"))
        link.read_reply()
        link.read_reply()
        server.disk.set(0)
        check(find(server, "/behind", "exists"), "queue", link)
        check(find(server, "/first"), "disk", link)


def test_quorum():
    with Ensemble(3, admin=True) as ensemble:
        leader, followers = ensemble.roles()
        with zk.Connection(leader.address, 30000, patience_s=PATIENCE_S) as link:
            assert link.call(zk.create("/fast", b""))[0] == 0
            for follower in followers:
                ensemble.pause(follower)
            link.send(zk.create("/quorum", b""))
            time.sleep(SLOW_MS / 1000)
            for follower in followers:
                ensemble.resume(follower)
            link.read_reply()
            check(find(leader, "/quorum"), "quorum", link)
            assert all(row["path"] != "/fast" or row["ms"] >= 100 for row in slow(leader)["requests"])


def test_forward():
    with Ensemble(3, admin=True) as ensemble:
        leader, (follower, _) = ensemble.roles()
        with zk.Connection(follower.address, 30000, patience_s=PATIENCE_S) as link:
            ensemble.pause(leader)
            link.send(zk.create("/forward", b""))
            time.sleep(SLOW_MS / 1000)
            ensemble.resume(leader)
            link.read_reply()
            check(find(follower, "/forward"), "forward", link)
            ensemble.wait_leader(PATIENCE_S)
            code, out, err = command("--server", follower.host, "--json")
            assert code == 0, err
            servers = json.loads(out)["servers"]
            assert sorted(row["server"] for row in servers) == [1, 2, 3], servers
            mine = [row for row in servers if row["server"] == follower.number][0]
            assert any(row["path"] == "/forward" for row in mine["requests"]), mine
            code, out, err = command("--server", follower.host)
            assert code == 0, err
            assert re.search(rf"^\S+ \S+ +{follower.number} +\S+ +forward +create +0x\S+ +127\.0\.0\.1:\d+  /forward  "
                             r"\(.*forward \d+\.\d.*\)$", out, re.M), out


def test_apply():
    """A transaction of many creates, without syncs."""
    words = ["--slowlog.threshold", "1", "--forceSync", "no", "--maxOperationsPerMulti", "40000", "--jute.maxbuffer", "8388608"]
    with Conclave(words, admin=True) as server, zk.Connection(server.address, 30000, patience_s=PATIENCE_S) as link:
        for turn in range(PATIENCE_S):  # another process may delay one of the other parts
            path = f"/apply{turn}-"
            assert link.call(zk.multi([zk.create(f"{path}{i}", b"") for i in range(30000)]))[0] == 0
            row = find(server, path + "0")
            assert row["operation"] == "multi", row
            if row["slowest"] == "apply":
                check(row, "apply", link, 1)
                return
        raise AssertionError(row)


def test_send():
    """A client that does not read its answers."""
    with Conclave(["--slowlog.threshold", "300"], admin=True) as server:
        with zk.Connection(server.address, 30000, patience_s=PATIENCE_S) as link:
            count = 40
            assert link.call(zk.create("/large", bytes(900000)))[0] == 0
            for _ in range(count):
                link.send(zk.get_data("/large"))
            time.sleep(SLOW_MS / 1000)
            for _ in range(count):
                link.read_reply()
            deadline = time.monotonic() + PATIENCE_S
            while not (rows := [row for row in slow(server)["requests"] if row["parts_ms"]["send"] >= 300]):
                assert time.monotonic() < deadline, slow(server)
                time.sleep(0.1)
            check(rows[-1], "send", link, 300)
            assert rows[-1]["operation"] == "getData", rows
            assert metric(server, 'conclave_request_part_seconds_sum{part="send"}') >= 0.3


def test_bounds():
    """Threshold 0 keeps nothing; a stall adds few rows; the ring is bounded; the command says where nothing answers."""
    with SlowServer(["--slowlog.threshold", "0"], admin=True) as server, zk.Connection(server.address, 30000) as link:
        server.disk.set(200)
        assert link.call(zk.create("/off", b""))[0] == 0
        answer = slow(server)
        assert answer["threshold_ms"] == 0 and answer["requests"] == [] and answer["total"] == 0, answer
        code, out, err = command("--admin", f"127.0.0.1:{server.admin_port}")
        assert code == 0 and out == "no slow requests\n" and "slowlog.threshold=0" in err, (code, out, err)
    with SlowServer(["--slowlog.threshold", "100", "--slowlog.max", "10"], admin=True) as server:
        with zk.Connection(server.address, 30000) as link:
            for turn in range(4):
                server.disk.set(200)
                for i in range(100):
                    link.send(zk.create(f"/n{turn}-{i}", b""))
                for _ in range(100):
                    link.read_reply()
                server.disk.set(0)
            answer = slow(server)
            assert len(answer["requests"]) == 10 and answer["total"] >= 16, answer
            assert metric(server, "conclave_slow_requests_total") >= 300, "all are counted"
            times = [row["at_ms"] for row in answer["requests"]]
            assert times == sorted(times, reverse=True), times
        port = server.admin_port
    code, _, err = command("--admin", f"127.0.0.1:{port}", "--timeout", "2s")
    assert code == 69 and str(port) in err, (code, err)
    assert command("--count", "0")[0] == 64


def main():
    reason = why_missing()
    if reason:
        return cases.skip_all(reason)
    if missing := slow_disk.why_missing():
        return cases.skip_all(missing)
    return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
