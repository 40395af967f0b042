"""Queries of operators: four-letter words, AdminServer commands, metrics and probes, by raw sockets and HTTP; the parsers
of known tools on the answers; strangers, slow clients and many requests.

Promise: each case starts its own server on free loopback ports and ends it; the last line counts the cases.
Limits: the shape of the words beside Apache ZooKeeper's is compared in test/compat/fourletter_test.py.

usage: admin_test.py [CASE]...
"""

import base64
import contextlib
import ctypes
import hashlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import prometheus as metrics  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402
from server import free_port  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CASES = []
WORDS = ("ruok srvr stat cons conf envi isro dirs wchs wchc wchp dump mntr hash gtmk srst crst").split()
COMMANDS = {
    "connection_stat_reset": ["crst"], "configuration": ["conf", "config"], "connections": ["cons"], "dirs": [],
    "dump": [], "environment": ["env", "envi"], "get_trace_mask": ["gtmk"], "hash": [], "is_read_only": ["isro"],
    "initial_configuration": ["icfg"], "last_snapshot": ["lsnp"], "restore": ["rest"], "snapshot": ["snap"],
    "system_properties": ["sysp"], "leader": ["lead"], "monitor": ["mntr"], "observer_connection_stat_reset": ["orst"], "observers": ["obsr"],
    "ruok": [], "server_stats": ["srvr"], "set_trace_mask": ["stmk"], "stat_reset": ["srst"], "stats": ["stat"],
    "voting_view": [], "watch_summary": ["wchs"], "watches": ["wchc"], "watches_by_path": ["wchp"], "zabstate": []}


def case(function):
    CASES.append(function)
    return function


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def everything(options=(), **more):
    return Conclave(["--4lw.commands.whitelist", "*", *options], admin=True, **more)


def word(server, data, pieces=False, half_close=False):
    """The whole answer to the first bytes of a connection."""
    with socket.create_connection(server.address, timeout=10) as s:
        for i in range(len(data) if pieces else 1):
            s.sendall(data[i:i + 1] if pieces else data)
            time.sleep(0.01 if pieces else 0)
        if half_close:
            s.shutdown(socket.SHUT_WR)
        got = b""
        while part := s.recv(65536):
            got += part
        return got.decode()


def fetch(server, path, method="GET", port=None, headers=None):
    """(status, headers, body) of an HTTP request."""
    request = urllib.request.Request(f"http://127.0.0.1:{port or server.admin_port}{path}", method=method,
                                     headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.headers, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()


def command(server, name, method="GET"):
    status, headers, body = fetch(server, f"/commands/{name}", method)
    expect(status == 200, f"{name}: status {status}")
    expect(headers["Content-Type"].startswith("application/json"), f"{name}: {headers['Content-Type']}")
    return json.loads(body)


def mntr(server):
    return dict(line.split("\t") for line in word(server, b"mntr").splitlines())


@case
def whitelist():
    with Conclave() as server:
        expect(word(server, b"srvr").startswith("Zookeeper version: "), "srvr is always answered")
        for name in WORDS:
            if name != "srvr":
                expect(word(server, name.encode()) ==
                       f"{name} is not executed because it is not in the whitelist.\n", name)
    with Conclave(["--4lw.commands.whitelist", "ruok, isro"]) as server:
        expect(word(server, b"ruok") == "imok", "ruok")
        expect(word(server, b"isro") == "rw", "isro")
        expect("whitelist" in word(server, b"mntr"), "mntr")


@case
def words_in_any_wrapping():
    with everything() as server:
        for name in WORDS:
            text = word(server, name.encode())
            expect(name == "hash" or text, f"{name}: no answer")
            expect("not currently serving" not in text, f"{name}: {text}")
        for data in (b"ruok\n", b"ruok\r\n", b"ruok" + b"x" * 5000):
            expect(word(server, data) == "imok", repr(data[:8]))
        expect(word(server, b"ruok", pieces=True) == "imok", "byte by byte")
        expect(word(server, b"ruok", half_close=True) == "imok", "as nc does")
        expect(word(server, b"stmk\0\0\0\0\0\0\1\0", pieces=True) == "256", "stmk")
        expect(word(server, b"gtmk") == "256", "gtmk")
        with zk.Connection(server.address) as client:
            expect(client.call(zk.exists("/"))[0] == 0, "served")
            client.socket.sendall(b"ruok")
            expect(client.socket.recv(100) == b"", "no word in a session")


@case
def figures_follow():
    with everything() as server, zk.Connection(server.address) as client:
        for i in range(10):
            expect(client.call(zk.create(f"/n{i}", b"12345", flags=1))[0] == 0, "create")
            expect(client.call(zk.get_data(f"/n{i}", True))[0] == 0, "get")
        before = mntr(server)
        expect(before["zk_znode_count"] == "15", before["zk_znode_count"])
        expect(before["zk_ephemerals_count"] == "10", "ephemerals")
        expect(before["zk_watch_count"] == "10", "watches")
        expect(before["zk_server_state"] == "standalone", "state")
        expect(int(before["zk_cnt_updatelatency"]) == 11, before["zk_cnt_updatelatency"])
        expect(int(before["zk_cnt_readlatency"]) == 10, before["zk_cnt_readlatency"])
        expect(int(before["zk_cnt_fsynctime"]) >= 11 and before["zk_num_alive_connections"] == "2", "fsync")
        expect(float(before["zk_avg_updatelatency"]) > 0, "latency")
        line = next(line for line in word(server, b"cons").splitlines() if "sid=" in line)
        match = re.fullmatch(r" /127\.0\.0\.1:\d+\[1\]\(queued=0,recved=21,sent=21,sid=0x[0-9a-f]+,lop=GETD,est=(\d+),"
                             r"to=\d+,lcxid=0x[0-9a-f]+,lzxid=0xb,lresp=\d+,llat=\d+,minlat=\d+,avglat=\d+,maxlat=\d+\)",
                             line)
        expect(match, line)
        expect(abs(int(match.group(1)) / 1000 - time.time()) < 60, "established")
        expect(word(server, b"wchs") == "1 connections watching 10 paths\nTotal watches:10\n", "wchs")
        session = f"0x{client.session_id:x}"
        expect(word(server, b"wchc") == session + "\n" + "".join(
            f"\t/n{i}\n" for i in range(10)) + "\n", "wchc")
        dump = word(server, b"dump")
        for text in (f"\t{session}\n", "Session Sets (1)/(1):\n", "Sessions with Ephemerals (1):\n", f"{session}:\n",
                     "\t/n9\n", f" sessionId: {session}\n", "Connections Sets ("):
            expect(text in dump, f"{text!r} in {dump}")
        expect(word(server, b"crst") == "Connection stats reset.\n", "crst")
        expect("lop=NA" in word(server, b"cons"), "reset")
        expect(word(server, b"srst") == "Server stats reset.\n", "srst")
        expect(mntr(server)["zk_cnt_updatelatency"] == "0", "reset")


@case
def http_commands():
    with everything() as server, zk.Connection(server.address) as client:
        expect(client.call(zk.create("/e", b"", flags=1))[0] == 0, "create")
        expect(client.call(zk.exists("/e", True))[0] == 0, "exists")
        for name, others in COMMANDS.items():
            if name in ("connection_stat_reset", "observer_connection_stat_reset", "stat_reset", "set_trace_mask", "leader",
                        "restore", "snapshot"):
                continue
            for alias in [name, *others]:
                answer = command(server, alias)
                expect(answer["command"] == name and answer["error"] is None, f"{alias}: {answer}")
        expect(command(server, "nosuch") == {"command": "nosuch", "error": "Unknown command: nosuch"}, "unknown")
        expect(command(server, "leader")["error"] == "server is not initialized", "leader")
        expect(command(server, "stmk?traceMask=7", "POST")["tracemask"] == 7, "stmk")
        expect(command(server, "gtmk")["tracemask"] == 7, "gtmk")
        expect("requires" in command(server, "stmk", "POST")["error"], "stmk without its argument")
        expect(command(server, "wchp")["path_to_session_ids"] == {"/e": [client.session_id]}, "wchp")
        dump = command(server, "dump")
        expect(dump["session_id_to_ephemeral_paths"] == {str(client.session_id): ["/e"]}, "dump")
        expect(list(dump["expiry_time_to_session_ids"].values()) == [[client.session_id]], "dump")
        connection, = command(server, "cons")["connections"]
        expect(connection["session_id"] == client.session_id and connection["last_operation"] == "EXIS", "cons")
        expect(command(server, "srvr")["server_stats"]["num_alive_client_connections"] == 1, "srvr")
        expect(command(server, "conf")["client_port"] == server.port, "conf")
        figures = command(server, "monitor")
        expect(figures["znode_count"] == 6 and isinstance(figures["avg_latency"], float), "monitor")
        _, _, links = fetch(server, "/commands")
        expect([f'"/commands/{name}"' in links for name in COMMANDS].count(False) == 0, links)


@case
def what_it_was_told():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "zoo.cfg")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"# ours\ninitLimit=5\nDigestAuthenticationProvider.superDigest={SUPER}\n")
        with everything([path, "--zookeeper.SASLAuthenticationProvider.superPassword", "sesame"]) as server:
            text = command(server, "icfg")["initial_configuration"]
            expect(text == "# ours\ninitLimit=5\nDigestAuthenticationProvider.superDigest=***\n", text)
            told = command(server, "sysp")
            expect(told["zookeeper.initLimit"] == "5" and told["zookeeper.tickTime"] == "2000", str(told))
            expect(told["os.name"] == "Linux" and told["user.dir"] == server.folder, str(told))
            expect(told["zookeeper.SASLAuthenticationProvider.superPassword"] == "***", str(told))
            expect("sesame" not in json.dumps(told) + text and "InIHSb7" not in json.dumps(told) + text, "a secret is told")
            expect([key for key in told if key not in ("command", "error")] ==
                   sorted(key for key in told if key not in ("command", "error")), "sorted")
    with everything() as server:
        expect(command(server, "icfg")["initial_configuration"] is None, "there is no file")


SUPER = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="  # of super:test
ADMIN = "digest super:test"


def ask_backup(server, name, who=ADMIN, body=None, method=None):
    """(status, headers, bytes) of a command with the header Authorization."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.admin_port}/commands/{name}", data=body,
                                     method=method, headers={"Authorization": who} if who else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.headers, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def status_from(server, source, path, who):
    """The status of a request from one of the addresses of loopback."""
    connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=30, source_address=(source, 0))
    connection.request("GET", path, headers={"Authorization": who})
    with contextlib.closing(connection), connection.getresponse() as reply:
        return reply.status


@case
def failures_count_per_address():
    with backup_server() as server:
        got = [status_from(server, "127.0.0.2", "/commands/snapshot", "digest super:wrong") for _ in range(11)]
        expect(got == [403] * 10 + [429], str(got))
        expect(status_from(server, "127.0.0.2", "/commands/snapshot", ADMIN) == 429, "not even with the password")
        got = status_from(server, "127.0.0.1", "/commands/snapshot", ADMIN)
        expect(got == 200, f"another address: {got}")


@case
def pages_of_other_sites():
    """Requests that a browser makes for a page of another site, by its name for our address or as they are."""
    port = free_port()
    with (everything(["--admin.allowedHosts", "zk1.example.com, Ops"]) as server, zk.Connection(server.address) as client):
        expect(client.call(zk.exists("/"))[0] == 0, "exists")
        for host in ("evil.example.com", "evil.example.com:8080", "zk1.example.com.evil", "127.0.0.1.nip.io", "[evil]:1",
                     "localhost.evil:80", "1.2.3"):
            for path in ("/", "/commands/connections", "/metrics", "/members", "/sessions"):
                status, _, body = fetch(server, path, headers={"Host": host})
                expect(status == 403 and "admin.allowedHosts" in body, f"{host} {path}: {status} {body[:80]}")
            expect(fetch(server, "/livez", headers={"Host": host})[0] == 200, "a probe")
        for host in ("127.0.0.1", "localhost:8080", "LOCALHOST", "[::1]:8080", "10.0.0.1:1", "zk1.example.com:8080", "ops"):
            expect(fetch(server, "/commands/connections", headers={"Host": host})[0] == 200, host)
        own = f"127.0.0.1:{server.admin_port}"
        for headers, status in (({"Sec-Fetch-Site": "cross-site"}, 403), ({"Origin": "https://evil.example.com"}, 403),
                                ({"Origin": "null"}, 403), ({"Origin": f"http://{own}.evil"}, 403),
                                ({"Origin": "http://127.0.0.1:1"}, 403),
                                ({"Sec-Fetch-Site": "same-origin"}, 200), ({"Sec-Fetch-Site": "none"}, 200),
                                ({"Origin": f"http://{own}"}, 200)):
            for method, path in (("GET", "/commands/cons"), ("POST", "/commands/srst")):
                got = fetch(server, path, method, headers=headers)[0]
                expect(got == status, f"{method} {headers}: {got}")
    with Conclave(["--metricsProvider.className",
                   "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
                   "--metricsProvider.httpHost", "127.0.0.1", "--metricsProvider.httpPort", str(port)]) as server:
        expect(fetch(server, "/metrics", port=port, headers={"Host": "zk1.example.com"})[0] == 200, "a scraper by name")


@case
def state_changes_by_post():
    names = ("stat_reset", "srst", "connection_stat_reset", "crst", "observer_connection_stat_reset", "orst",
             "set_trace_mask?traceMask=5", "stmk?traceMask=5")
    with everything() as server, zk.Connection(server.address) as client:
        expect(client.call(zk.create("/a"))[0] == 0, "create")
        for name in names:
            for method in ("GET", "HEAD", "PUT", "DELETE"):
                status, headers, body = fetch(server, f"/commands/{name}", method)
                expect(status == 405 and headers["Allow"] == "POST", f"{method} {name}: {status}")
                expect(method == "HEAD" or "stateChangeByGet" in json.loads(body)["error"], body)
        expect(int(mntr(server)["zk_cnt_updatelatency"]) > 0 and command(server, "gtmk")["tracemask"] != 5, "nothing changed")
        for name in names:
            expect(command(server, name, "POST")["error"] is None, name)
        expect(mntr(server)["zk_cnt_updatelatency"] == "0" and command(server, "gtmk")["tracemask"] == 5, "changed")
        expect(fetch(server, "/commands/cons", "POST")[0] == 405, "what only reads")
    with everything(["--admin.stateChangeByGet", "yes"]) as server:
        for name in names:
            expect(command(server, name)["error"] is None and command(server, name, "POST")["error"] is None, name)
        expect(fetch(server, "/commands/srst", "HEAD")[0] == 405, "HEAD changes nothing")
        expect(fetch(server, "/commands/srst", headers={"Sec-Fetch-Site": "cross-site"})[0] == 403, "another site")


@case
def memb_can_be_off():
    refused = "memb is not executed because it is not in the whitelist.\n"
    with Conclave() as server:
        expect(word(server, b"memb").startswith("id\t"), "on by itself")
    with Conclave(["--4lw.memb.enabled", "no"]) as server:
        expect(word(server, b"memb") == refused, "off")
        done = subprocess.run([program(), "status", "-s", f"127.0.0.1:{server.port}"], capture_output=True, text=True,
                              timeout=20, check=False)
        expect(done.returncode == 0 and "standalone" in done.stdout, f"status by srvr: {done.returncode} {done.stdout} {done.stderr}")
    with Conclave(["--4lw.memb.enabled", "no", "--4lw.commands.whitelist", "memb"]) as server:
        expect(word(server, b"memb").startswith("id\t"), "listed")


def backup_server(*more, enabled=True, **keywords):
    words = ["--DigestAuthenticationProvider.superDigest", SUPER, "--admin.rateLimiterIntervalInMS", "0", *more]
    if enabled:
        words += ["--admin.snapshot.enabled", "true", "--admin.restore.enabled", "true"]
    return everything(words, **keywords)


@case
def who_may_take_a_snapshot():
    def refused(server, name, who, status, text, **more):
        got, _, body = ask_backup(server, name, who, **more)
        expect(got == status, f"{name} by {who}: {got} {body}")
        answer = json.loads(body)
        expect(set(answer) == {"command", "error"} and text in answer["error"], str(answer))

    with backup_server(enabled=False) as server:
        for name, more in (("snapshot", {}), ("snap", {}), ("restore", {"body": b"x"}), ("rest", {"body": b"x"})):
            refused(server, name, ADMIN, 503, "is off", **more)
    with backup_server() as server:
        for name, more in (("snapshot", {}), ("restore", {"body": b"x"})):
            refused(server, name, None, 401, "Auth info is missing", **more)
            refused(server, name, "digest", 403, "Not authorized", **more)
            refused(server, name, "sasl super", 401, "Not authenticated", **more)
            refused(server, name, "Basic c3VwZXI6dGVzdA==", 401, "Not authenticated", **more)
            refused(server, name, "digest super:wrong", 403, "Not authorized", **more)
        refused(server, "snapshot", "ip", 403, "Not authorized")
        refused(server, "snapshot", "x509", 401, "Not authenticated")
        refused(server, "snapshot", ADMIN, 429, "Too many failed")  # the right one, too: nobody guesses on
    # An open root is no admission, one permission too few neither.
    acl = [(31, "world", "anyone"), (30, "digest", "ann:" + digest("ann:pw")), (31, "ip", "10.0.0.1")]
    with backup_server() as server, zk.Connection(server.address) as client:
        expect(client.call(zk.set_acl("/", acl))[0] == 0, "setACL")
        refused(server, "snapshot", "digest ann:pw", 403, "Not authorized")
        acl = [(1, "world", "anyone"), (31, "digest", "ann:" + digest("ann:pw")), (31, "ip", "127.0.0.1")]
        with zk.Connection(server.address) as root:
            expect(root.call(zk.auth("digest", b"super:test"))[0] == 0, "auth")
            expect(root.call(zk.set_acl("/", acl))[0] == 0, "setACL")
        for who in ("digest ann:pw", "ip", ADMIN):
            status, headers, body = ask_backup(server, "snapshot", who)
            expect(status == 200 and len(body) == int(headers["snapshot_size"]), f"{who}: {status}")
        expect(ask_backup(server, "snapshot", method="POST", body=b"")[0] == 405, "POST")
        expect(ask_backup(server, "restore")[0] == 405, "GET")


def digest(text):
    return base64.b64encode(hashlib.sha1(text.encode()).digest()).decode()


@case
def snapshot_and_restore():
    with backup_server() as server, backup_server() as other:
        with zk.Connection(server.address) as client:
            for i in range(2000):
                client.send(zk.create(f"/n{i}", b"x" * 500))
            for _ in range(2000):
                expect(client.read_reply().err == 0, "create")
            err, fields = client.call(zk.create("/last", b"", op=zk.CREATE2))
            expect(err == 0, "create")
            status, headers, data = ask_backup(server, "snapshot?streaming=true")
            expect(status == 200 and headers["Content-Type"] == "application/octet-stream", f"{status}")
            expect(int(headers["last_zxid"], 16) >= fields["stat"]["czxid"], headers["last_zxid"])
            expect(int(headers["snapshot_size"]) == len(data) > 1000000, "size")
            told = command(server, "lsnp")
            expect(int(told["zxid"], 16) == int(headers["last_zxid"], 16), str(told))
            expect(abs(told["timestamp"] - time.time()) < 60, str(told))
            status, headers, body = ask_backup(server, "snapshot?streaming=false")
            expect(status == 200 and json.loads(body) == {"command": "snapshot", "error": None}, str(body))
            expect(headers["snapshot_size"] is not None, "size")
            # Into another server, which has gone further.
        with zk.Connection(other.address) as guest:
            for i in range(3000):
                guest.send(zk.create(f"/other{i}"))
            for _ in range(3000):
                expect(guest.read_reply().err == 0, "create")
            err, fields = guest.call(zk.create("/newest", b"", op=zk.CREATE2))
            status, _, body = ask_backup(other, "restore", body=data)
            expect(status == 200, f"{status} {body}")
            answer = json.loads(body)
            expect(answer["last_zxid"] > fields["stat"]["czxid"] and answer["command"] == "restore", str(answer))
            try:
                guest.call(zk.exists("/"))
                raise AssertionError("a session of the old state goes on")
            except (zk.Closed, OSError):
                pass
        for _ in range(2):
            with zk.Connection(other.address) as client:
                expect(client.call(zk.exists("/newest"))[0] == -101, "the old state is gone")
                err, fields = client.call(zk.get_data("/n1999"))
                expect(err == 0 and fields["data"] == b"x" * 500, "the state came back")
                err, fields = client.call(zk.create("/token-", b"", flags=2, op=zk.CREATE2))
                expect(err == 0 and fields["stat"]["czxid"] > answer["last_zxid"], "zxids go on")
            other.restart(hard=True)
        expect(metric(other, "restore_error_count") == 0, "errors")


@case
def restore_of_what_is_none():
    with backup_server() as server, zk.Connection(server.address) as client:
        expect(client.call(zk.create("/a", b"x"))[0] == 0, "create")
        _, _, data = ask_backup(server, "snapshot")
        zeros = bytes(len(data))
        cut = data[:-1]
        flipped = data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1:]
        for wrong in (b"", b"x", zeros, cut, flipped, data + b"x", b"<html>" * 10000):
            status, _, body = ask_backup(server, "restore", body=wrong)
            expect(status == 400 and "not a complete snapshot" in json.loads(body)["error"], f"{status} {body}")
        expect(client.call(zk.exists("/a"))[0] == 0, "the session and its state live")
        # Announced too long, announced and never sent, cut off in the middle.
        for head in (f"Content-Length: {1 << 40}\r\n\r\n", f"Content-Length: {len(data)}\r\n\r\n",
                     "Transfer-Encoding: chunked\r\n\r\nffff\r\n"):
            with socket.create_connection(("127.0.0.1", server.admin_port), timeout=5) as s:
                s.sendall(f"POST /commands/restore HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {ADMIN}\r\n{head}".encode() +
                          data[:100])
                if "1099511627776" in head:
                    expect(b" 413 " in s.recv(1000), "too long")
        deadline = time.monotonic() + 10
        status = 503
        while status == 503 and time.monotonic() < deadline:  # until the one that was cut off is seen as such
            status, _, body = ask_backup(server, "restore", body=data)
            time.sleep(0.1)
        expect(status == 200, f"{status} {body}")


@case
def backups_are_rate_limited():
    with backup_server("--admin.rateLimiterIntervalInMS", "2000") as server:
        _, _, data = ask_backup(server, "snapshot")
        status, _, body = ask_backup(server, "snapshot")
        expect(status == 429 and "rateLimiterIntervalInMS" in json.loads(body)["error"], f"{status} {body}")
        expect(ask_backup(server, "restore", body=data)[0] == 200, "an interval of its own")
        expect(ask_backup(server, "restore", body=data)[0] == 429, "too soon")
        expect(metric(server, "snapshot_rate_limited_count") == 1, "counted")
        expect(metric(server, "restore_rate_limited_count") == 1, "counted")
        time.sleep(2.1)
        expect(ask_backup(server, "snapshot")[0] == 200, "again")


@case
def killed_while_restoring():
    """kill -9 at any moment of a restore: the next start has the old state or the new one, whole."""
    outcomes = set()
    delays = [i * 0.004 for i in range(15)]
    with backup_server("--snapCount", "300") as source, zk.Connection(source.address) as client:
        for i in range(1000):
            client.send(zk.create(f"/new{i}", b"n" * 2000))
        for _ in range(1000):
            expect(client.read_reply().err == 0, "create")
        _, _, data = ask_backup(source, "snapshot")
    with backup_server("--snapCount", "300") as server:
        for delay in delays:
            with zk.Connection(server.address) as client:
                _, fields = client.call(zk.get_children("/"))
                for name in fields["children"]:
                    if name != "zookeeper":
                        client.send(zk.delete(f"/{name}"))
                for name in fields["children"][1:]:
                    client.read_reply()
                for i in range(400):
                    client.send(zk.create(f"/old{i}"))
                for _ in range(400):
                    expect(client.read_reply().err == 0, "create")
            status = []

            def restore():
                with contextlib.suppress(OSError, http.client.HTTPException):
                    status.append(ask_backup(server, "restore", body=data)[0])
            thread = threading.Thread(target=restore)
            thread.start()
            time.sleep(delay)
            server.kill()
            thread.join()
            server.start()
            with zk.Connection(server.address) as client:
                _, fields = client.call(zk.get_children("/"))
                names = set(fields["children"]) - {"zookeeper"}
            old = names == {f"old{i}" for i in range(400)}
            new = names == {f"new{i}" for i in range(1000)}
            expect(old or new, f"after {delay:.3f} s: {len(names)} nodes")
            expect(new or status != [200], "a restore that was answered is gone")
            outcomes.add("new" if new else "old")
    print(f"        outcomes: {outcomes}")


@case
def http_forms():
    with everything() as server:
        for path in ("/livez", "/readyz"):
            expect(fetch(server, path)[0::2] == (200, "ok\n"), path)
        expect(fetch(server, "/nosuch")[0] == 404, "404")
        expect(fetch(server, "/commandsx")[0] == 404, "404")
        for method in ("POST", "PUT", "DELETE"):
            status, headers, _ = fetch(server, "/commands/stats", method)
            expect(status == 405 and headers["Allow"] == "GET, HEAD", f"{method}: {status}")
        status, headers, body = fetch(server, "/metrics", "HEAD")
        expect(status == 200 and body == "" and int(headers["Content-Length"]) > 1000, "HEAD")
        expect("/metrics" in fetch(server, "/")[2], "/")
    with Conclave(["--admin.commandURL", "/zk"], admin=True) as server:
        expect(fetch(server, "/zk/ruok")[0] == 200 and fetch(server, "/commands/ruok")[0] == 404, "commandURL")


@case
def known_parsers():
    with everything() as server:
        for line in word(server, b"mntr").splitlines():  # telegraf: one odd line fails the whole scrape
            expect(re.match(r"^zk_(\w+)\s+([\w\.\-]+)", line) and line.count("\t") == 1, line)
        expect(re.search(r"^Mode: standalone$", word(server, b"srvr"), re.M), "zkServer.sh status greps Mode")
        lines = word(server, b"stat").splitlines()  # Datadog's zk check
        expect(re.search(r"\d+\.\d+\.\d+", lines[0]), lines[0])
        expect(lines[1] == "Clients:", lines[1])
        after = lines[lines.index("") + 1:]
        expect(re.match(r"Latency min/avg/max: [\d\.]+/[\d\.]+/[\d\.]+$", after[0]), after[0])
        expect([line.split(":")[0] for line in after[1:]] ==
               ["Received", "Sent", "Connections", "Outstanding", "Zxid", "Mode", "Node count"], str(after))
        expect(all(re.match(r" /127\.0\.0\.1:\d+\[\d+\]\(queued=\d+,recved=\d+,sent=\d+\)$", line)
                   for line in lines[2:lines.index("")]), "clients")
        first = word(server, b"envi")[:8192]  # kazoo
        expect(re.search(r"^zookeeper\.version=(\d+\.\d+\.\d+)[^\d]", first, re.M), first)
        try:
            from kazoo.client import KazooClient
        except ImportError:
            print("        no kazoo: its own parser was not asked")
            return
        client = KazooClient(server.host)
        client.start()
        expect(client.command(b"ruok") == "imok", "kazoo's ruok")
        expect(client.server_version()[:2] == (3, 9), str(client.server_version()))
        client.stop()
        client.close()


def check_prometheus(text):
    """Every line is of the format, and our own names keep Prometheus' rules; returns the samples."""
    faults = metrics.name_faults(text)
    expect(not faults, "\n".join(faults))
    metrics.check_histograms(text)
    return metrics.samples(text)


@case
def prometheus():
    with everything(tick_ms=500) as server, zk.Connection(server.address) as client:
        for i in range(20):
            expect(client.call(zk.create(f"/n{i}", b""))[0] == 0, "create")
        _, headers, text = fetch(server, "/metrics")
        expect(headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", headers["Content-Type"])
        samples = check_prometheus(text)
        for name in ("znode_count", "watch_count", "ephemerals_count", "approximate_data_size", "num_alive_connections",
                     "outstanding_requests", "avg_latency", "max_latency", "connection_rejected", "uptime",
                     "connection_drop_count", "stale_sessions_expired", "bytes_received_count", "response_bytes",
                     "fsynctime_count", "snapshottime_count", "readlatency_sum", 'updatelatency{quantile="0.99"}',
                     "node_created_watch_count_count", "open_file_descriptor_count", "process_resident_memory_bytes",
                     "unrecoverable_error_count"):
            expect(name in samples, name)
        written = samples['conclave_request_duration_seconds_count{type="write"}']
        expect(written == samples["updatelatency_count"], f"histogram of writes: {written}")
        for part in ("queue", "forward", "disk", "quorum", "apply"):
            key = f'conclave_request_part_seconds_count{{part="{part}"}}'
            expect(samples[key] == 21, f"{key} {samples[key]}")
        expect(samples['conclave_request_part_seconds_count{part="send"}'] >= 20, "answers sent")
        expect(abs(samples["conclave_fsync_duration_seconds_sum"] - samples["fsynctime_sum"] / 1000) < 1e-5, "syncs")
        expect(samples["updatelatency_count"] == 21 and samples["znode_count"] == 25, "counts")
        expect(0 < samples["updatelatency_sum"] < 60000, "fractions of milliseconds")
        expect(samples["conclave_ready"] == 1, "ready")
        expect(abs(samples["process_start_time_seconds"] - time.time()) < 60, "start")
        expect(samples["process_resident_memory_bytes"] > 1 << 20, "memory")
        with open(os.path.join(ROOT, "docs", "metrics.md"), encoding="utf-8") as file:
            documented = set(re.findall(r"^\| `(\w+)` \| (?:counter|gauge|summary|histogram) \|", file.read(), re.M))
        told = set(re.findall(r"^# TYPE (\w+) ", text, re.M))
        expect(documented == told, f"docs/metrics.md differs: {documented ^ told}")
        for cause in ("closed", "client_silent", "killed"):
            expect(samples[f'conclave_sessions_ended_total{{cause="{cause}"}}'] == 0, f"nobody's session ended: {cause}")
        expect(0 < samples["conclave_disk_free_bytes"] <= samples["conclave_disk_size_bytes"], "room on the disk")
        client.close_session()
        expect(metric(server, 'conclave_sessions_ended_total{cause="closed"}') == 1, "the end is counted")
    port = free_port()
    with Conclave(["--metricsProvider.className",
                   "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
                   "--metricsProvider.httpHost", "127.0.0.1", "--metricsProvider.httpPort", str(port)]) as server:
        check_prometheus(fetch(server, "/metrics", port=port)[2])
        expect(fetch(server, "/commands", port=port)[0] == 404, "nothing else on that port")


def metric(server, name):
    return check_prometheus(fetch(server, "/metrics")[2])[name]


@case
def limits_are_counted():
    with everything(["--maxClientCnxns", "3", "--maxBytesInFlightPerAddress", "4096", "--maxSessions", "77"]) as server:
        held = [zk.Connection(server.address) for _ in range(3)]
        try:
            zk.Connection(server.address)
            raise AssertionError("the fourth connection of an address was served")
        except (zk.Closed, OSError):
            pass
        expect(metric(server, "conclave_refused_connections_address_total") == 1, "refused by address")
        expect(metric(server, "conclave_refused_connections_total") == 0, "refused in all")
        expect(metric(server, "conclave_sessions_max") == 77, "limit of sessions")
        before = metric(server, "conclave_waits_address_total")
        for i in range(200):
            held[0].send(zk.create(f"/w{i}", b"x" * 2000))
        for _ in range(200):
            expect(held[0].read_reply().err == 0, "create")
        expect(metric(server, "conclave_waits_address_total") > before, "waits for bytes in flight")
        expect(metric(server, "conclave_reading_paused_total") > 0, "pauses")
        expect(metric(server, "conclave_outstanding_bytes") == 0, "nothing in flight")
        for client in held:
            client.drop()
    with everything(["--maxCnxns", "2"]) as server, zk.Connection(server.address), zk.Connection(server.address):
        expect(metric(server, "conclave_connections_max") == 2, "limit of connections")
        try:
            zk.Connection(server.address)
            raise AssertionError("the third connection was served")
        except (zk.Closed, OSError):
            pass
        expect(metric(server, "conclave_refused_connections_total") == 1, "refused in all")


PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17


@contextlib.contextmanager
def disk_threads_stopped(server):
    """All threads of the server except the loop's are stopped: as if the disk did not answer."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    pid = server.process.pid
    stopped = [int(tid) for tid in os.listdir(f"/proc/{pid}/task") if int(tid) != pid]
    expect(stopped, "there is a thread for the disk")
    for tid in stopped:
        for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
            if libc.ptrace(request, tid, None, None) != 0:
                raise OSError(ctypes.get_errno(), f"ptrace {tid}")
        os.waitpid(tid, 0x40000000)  # __WALL
    try:
        yield
    finally:
        for tid in stopped:
            libc.ptrace(PTRACE_DETACH, tid, None, None)


@case
def not_ready_while_the_disk_stalls():
    with everything() as server, zk.Connection(server.address, 40000) as client:
        expect(client.call(zk.create("/a"))[0] == 0, "create")
        expect(fetch(server, "/readyz")[0] == 200, "ready")
        with disk_threads_stopped(server):
            client.send(zk.create("/b"))
            began = time.monotonic()
            status = 200
            while status == 200 and time.monotonic() - began < 20:
                time.sleep(0.2)
                status, _, text = fetch(server, "/readyz")
            took = time.monotonic() - began
            expect(status == 503 and text == "not ready: writes are not answered in time\n", f"{status} {text}")
            expect(took > 9, f"not ready after {took:.1f} s")
            expect(metric(server, "conclave_ready") == 0, "the metric says it, too")
            expect(metric(server, "conclave_oldest_write_seconds") > 9, "age of the write")
            expect(word(server, b"ruok") == "This ZooKeeper instance is not currently serving requests\n", "ruok")
            expect(fetch(server, "/livez")[0] == 200, "the process lives")
        expect(client.read_reply().err == 0, "the write is done when the disk answers")
        expect(fetch(server, "/readyz")[0] == 200, "ready again")


def ready_answers_while_stopping():
    """The answers of /readyz from the signal to the end; a client that does not close keeps the server a moment."""
    answers = []
    with everything() as server:
        client = zk.Connection(server.address)
        connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=10)
        connection.connect()
        server.process.terminate()
        with contextlib.suppress(OSError, http.client.HTTPException):
            while True:
                connection.request("GET", "/readyz")
                reply = connection.getresponse()
                answers.append((reply.status, reply.read().decode()))
        expect(server.process.wait(10) == 0, "ended cleanly")
        client.drop()
        connection.close()
    return answers


@case
def not_ready_while_stopping():
    for _ in range(3):  # the moment is a fifth of a second
        answers = ready_answers_while_stopping()
        expect(set(answers) <= {(200, "ok\n"), (503, "not ready: stopping\n")}, str(set(answers)))
        expect(answers == sorted(answers), "not ready, then ready again")
        if answers and answers[-1][0] == 503:
            return
    raise AssertionError("a server that stops said that it is ready, to its end")


@case
def port_in_use():
    with everything() as server, tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program(), "server", "--listen", "127.0.0.1:0", "--data", "d", "--admin",
                               f"127.0.0.1:{server.admin_port}"], cwd=folder, capture_output=True, text=True,
                              timeout=20, check=False)
        expect(done.returncode == 69 and done.stderr.count("\n") == 1, f"{done.returncode} {done.stderr}")
        expect("in use" in done.stderr and "--admin" in done.stderr, done.stderr)


@case
def http_garbage():
    with everything() as server:
        for data in (b"\0" * 100, b"\xff" * 70000, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"ruok",
                     b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20000,
                     b"POST /commands/srst HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
                     b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
                     b"GET /%00%zz/../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"):
            with socket.create_connection(("127.0.0.1", server.admin_port), timeout=2) as s:
                try:
                    s.sendall(data)
                    s.shutdown(socket.SHUT_WR)
                    while s.recv(65536):
                        pass
                except OSError:
                    pass  # cut off while we sent
            expect(fetch(server, "/livez")[0] == 200, f"after {data[:20]!r}")
        expect(server.alive(), "the server lives")


@case
def every_place_taken():
    """As many connections as the port has places, and more, given up together: others are served at once."""
    with everything() as server:
        for number in range(20):
            held = [socket.create_connection(("127.0.0.1", server.admin_port), timeout=5) for _ in range(64 + number)]
            for s in held:
                with contextlib.suppress(OSError):
                    s.sendall(b"GET" if number % 2 else b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            time.sleep(0.05)
            for s in held:
                s.close()
            began = time.monotonic()
            expect(fetch(server, "/livez")[0] == 200, "served")
            expect(time.monotonic() - began < 5, f"served after {time.monotonic() - began:.1f} s")


@case
def nothing_is_left_behind():
    """Peers that go while the library leaves bytes of theirs unread: their descriptors go soon, too."""
    def descriptors():
        return len(os.listdir(f"/proc/{server.process.pid}/fd"))

    with everything() as server:
        before = descriptors()
        for number in range(600):
            size = 1500 + 13 * number
            data = (b"GET /?" + b"a=b&" * (size // 4) + b" HTTP/1.1\r\nHost: x\r\n\r\n",
                    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (size // 6),
                    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n" + b"x" * size,
                    b"\r\n" * size)[number % 4]
            with socket.create_connection(("127.0.0.1", server.admin_port), timeout=5) as s:
                with contextlib.suppress(OSError):
                    s.sendall(data)
        began = time.monotonic()
        while descriptors() > before:
            expect(time.monotonic() - began < 6, f"{descriptors() - before} descriptors are left")
            time.sleep(0.05)


@case
def slow_http():
    with everything(["--admin.idleTimeout", "60000"]) as server:
        slow = [socket.create_connection(("127.0.0.1", server.admin_port)) for _ in range(10)]
        began = time.monotonic()
        ended = None
        with zk.Connection(server.address) as client:
            while ended is None and time.monotonic() - began < 40:
                for s in slow:
                    try:
                        s.send(b"G")
                    except OSError:
                        ended = time.monotonic() - began
                at = time.monotonic()
                expect(fetch(server, "/livez")[0] == 200, "served beside the slow ones")
                expect(client.call(zk.exists("/"))[0] == 0, "clients are served")
                expect(time.monotonic() - at < 2, "in time")
                time.sleep(1)
        for s in slow:
            s.close()
        expect(ended is not None and ended < 15, "a request that never ends is cut off")
    with everything(["--admin.idleTimeout", "1000"]) as server:
        with socket.create_connection(("127.0.0.1", server.admin_port), timeout=10) as s:
            expect(s.recv(10) == b"", "idle connections are closed")


def ask_ready(server, context=None):
    """(answered, seconds) of one probe."""
    began = time.monotonic()
    try:
        with socket.create_connection(("127.0.0.1", server.admin_port), timeout=5) as plain:
            s = context.wrap_socket(plain) if context else plain
            s.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            got = b""
            while part := s.recv(4096):
                got += part
    except OSError:
        got = b""
    return got.startswith(b"HTTP/1.1 200") and got.endswith(b"ok\n"), time.monotonic() - began


def probes_beside(server, data, count=40, context=None):
    """16 probes while many connections have sent only a part of what they have to."""
    held = []
    try:
        for _ in range(count):
            held.append(socket.create_connection(("127.0.0.1", server.admin_port), timeout=5))
            held[-1].sendall(data)
        for number in range(16):
            good, took = ask_ready(server, context)
            expect(good, f"probe {number} was not answered in {took:.1f} s")
            expect(took < 2, f"probe {number} was answered after {took:.1f} s")
    finally:
        for s in held:
            s.close()


@case
def probes_are_answered_beside_slow_ones():
    half = b"GET /readyz HTTP/1.1\r\nHost: loc"
    whole = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with everything() as server:
        for data in (half, b"", whole, whole + half):  # the last two stay after an answer
            for count in (40, 150):
                probes_beside(server, data, count)
        # Of one address few connections without a request stay, and none for long.
        held = [socket.create_connection(("127.0.0.1", server.admin_port), timeout=10) for _ in range(12)]
        began = time.monotonic()
        for s in held:
            s.sendall(half)
        for number, s in enumerate(held):
            expect(s.recv(10) == b"", "no answer to half a request")
            if number == 7:
                early = time.monotonic() - began
            s.close()
        expect(early < 4, f"the eighth of twelve stayed {early:.1f} s")
        expect(time.monotonic() - began < 12, "the last one stayed long")
        # Many at once with whole requests: each has its answer.
        held = [socket.create_connection(("127.0.0.1", server.admin_port), timeout=10) for _ in range(40)]
        for s in held:
            s.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        for s in held:
            expect(s.recv(100).startswith(b"HTTP/1"), "a whole request is answered")
            s.close()

@case
def many_requests():
    with everything() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=10)
        paths = ["/metrics", "/commands/monitor", "/readyz", "/commands/cons", "/nosuch"]

        def ask(count):
            for i in range(count):
                connection.request("GET", paths[i % len(paths)])
                connection.getresponse().read()
            for _ in range(count // 10):
                word(server, b"mntr")

        ask(1000)
        first = server.memory_kb()[0]
        ask(10000)
        last = server.memory_kb()[0]
        connection.close()
        expect(last < first + 1024 or "asan" in program(), f"memory grew from {first} to {last} kB")
        expect(int(mntr(server)["zk_num_alive_connections"]) == 1, "words leave nothing behind")


@case
def long_lists_are_cut():
    count = 60000
    with (everything(["--admin.maxAnswerBytes", "16777216"]) as server, zk.Connection(server.address, 40000) as client,
          zk.Connection(server.address, 40000) as other):
        for start in range(0, count, 500):
            for i in range(start, start + 500):
                client.send(zk.exists(f"/watched/by/somebody/{i:08}", True))
            for _ in range(500):
                client.read_reply()
        expect(word(server, b"wchs").endswith(f"Total watches:{count}\n"), "all were set")
        for name in (b"wchp", b"wchc"):
            with socket.create_connection(server.address, timeout=30) as s:
                s.sendall(name)
                at = time.monotonic()
                expect(other.call(zk.exists("/"))[0] == 0, "others are served")
                expect(time.monotonic() - at < 2, f"{name}: others waited {time.monotonic() - at:.3f} s")
                time.sleep(2.5)  # a reader slower than the linger of a closing connection
                got = b""
                while part := s.recv(65536):
                    got += part
            expect(got.endswith(b"... and 10000 more, left out so that this answer stalls no client\n\n"), got[-200:])
            expect(got.count(b"/watched/by") == 50000, name)
        answer = command(server, "wchp")
        expect(answer["left_out"] == 10000 and len(answer["path_to_session_ids"]) == 50000, "JSON")


def set_watches(server, clients, path, each):
    """Clients that each watch `each` absent nodes; path(number) names them."""
    held = [zk.Connection(server.address, 40000) for _ in range(clients)]
    for number, client in enumerate(held):
        for start in range(0, each, 25):
            for i in range(start, min(start + 25, each)):
                client.send(zk.exists(path(number * each + i), True))
            for _ in range(start, min(start + 25, each)):
                client.read_reply()
    return held


@case
def long_paths_are_cut():
    """Watches and ephemerals with paths as long as a packet allows: an answer stays small, and delays nobody."""
    length = 500_000
    with everything() as server, zk.Connection(server.address, 40000) as other:
        probe = zk.Connection(server.address)
        accepted = probe.call(zk.exists("/" + "x" * length, True))[0] in (0, -101)
        probe.drop()
        if not accepted:
            length = 8000  # a server that limits the length of paths
        held = set_watches(server, 4, lambda i: f"/{i:06}" + "y" * (length - 7), 50 if accepted else 1000)
        total = 4 * (50 if accepted else 1000)
        before = server.memory_kb()[0]
        for path in ("/commands/watches", "/commands/watches_by_path"):
            asker = threading.Thread(target=fetch, args=(server, path))
            asker.start()
            while asker.is_alive():
                began = time.monotonic()
                expect(other.call(zk.exists("/"))[0] == 0, "others are served")
                expect(time.monotonic() - began < 1, f"another client waited {time.monotonic() - began:.1f} s")
        body = fetch(server, "/commands/watches")[2]
        expect(len(body) < 1_200_000, f"{len(body)} bytes")
        answer = json.loads(body)
        shown = [path for paths in answer["session_id_to_watched_paths"].values() for path in paths]
        expect(all(path.startswith("/0") and path.endswith(f"... ({length} bytes)") and len(path) < 1100 for path in shown),
               shown[0][-40:])
        expect(len(shown) + answer.get("left_out", 0) == total, f"{len(shown)} shown, {answer.get('left_out')} left out")
        for words in (b"wchc", b"wchp", b"dump", b"cons"):
            expect(len(word(server, words)) < 1_200_000, words)
        grown = server.memory_kb()[0] - before
        expect(grown < 20 * 1024 or "asan" in program(), f"memory grew by {grown} kB")
        for client in held:
            client.drop()


@case
def lists_have_a_budget():
    with everything(["--admin.maxAnswerBytes", "65536"]) as server, zk.Connection(server.address) as client:
        for i in range(1000):
            client.send(zk.create(f"/{'e' * 500}{i:04}", b"", flags=1))
        for _ in range(1000):
            expect(client.read_reply().err == 0, "create")
        for i in range(1000):
            client.send(zk.exists(f"/{'w' * 200}\u00e9{i:04}", True))
        for _ in range(1000):
            client.read_reply()
        for name, key in (("dump", "session_id_to_ephemeral_paths"), ("wchc", "session_id_to_watched_paths"),
                          ("wchp", "path_to_session_ids")):
            answer = command(server, name)
            listed = answer[key] if name == "wchp" else answer[key][str(client.session_id)]
            expect(0 < len(listed) < 1000 and len(listed) + answer["left_out"] == 1000, f"{name}: {len(listed)}")
            text = word(server, name.encode())
            left = int(re.search(r"^\.\.\. and (\d+) more", text, re.M).group(1))
            shown = len(re.findall(r"^\t?/[ew]{200}", text, re.M))
            expect(len(text) < 80000 and shown > 0 and shown + left == 1000, f"{name}: {len(text)} {shown} {left}")
    with everything(["--admin.maxAnswerBytes", "65536"]) as server:
        held = [zk.Connection(server.address, timeout_ms=40000) for _ in range(400)]  # none pings
        for name in ("cons", "stat"):
            answer = command(server, name)
            expect(0 < len(answer["connections"]) and len(answer["connections"]) + answer.get("left_out", 0) == 400, name)
        expect(command(server, "cons")["left_out"] > 100, "cons is cut")
        expect(re.search(r"^\.\.\. and \d+ more", word(server, b"cons"), re.M), "cons")
        expect(len(re.findall("^0x", fetch(server, "/sessions")[2], re.M)) == 400, "sessions")
        for client in held:
            client.drop()


def main():
    missing = why_missing()
    return cases.skip_all(missing) if missing else cases.run(CASES, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
