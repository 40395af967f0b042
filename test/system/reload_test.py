"""conclave reload, POST /commands/reload and SIGHUP: a running server reads its configuration again.

Promise: every key that is marked [reload] changes what the server does, and not only what it answers, and does so back when the
key is removed; a faulty file changes nothing and names its line, whoever asks; clients under load notice no reload; of three
members each reads its own file; only administrators may ask, and the audit log says who did.
Limits: clusterSecret and clusterSecretFile are tested by secret_test.py. The keys of TLS are left out without openssl.

usage: reload_test.py [CASE...]
"""

import base64
import hashlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import certs  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import ROOT, Conclave, program, why_missing  # noqa: E402
from ensemble import Ensemble, four_letters  # noqa: E402

WAIT_S = 60
AUTH = ["--auth", "digest:super:secret"]
SUPER = "super:" + base64.b64encode(hashlib.sha1(b"super:secret").digest()).decode()
BAD_ARGUMENTS, QUOTA_EXCEEDED, THROTTLED = -8, -125, -127
ELSEWHERE = {"clusterSecret", "clusterSecretFile"}
TLS_KEYS = {"maxTlsHandshakes", "maxTlsHandshakesPerSecondPerAddress"}
# Wide enough for the test itself; a case overrides what it is about.
BASE = {"maxClientCnxns": 0, "slowlog.threshold": 3600000, "DigestAuthenticationProvider.superDigest": SUPER,
        "admin.rateLimiterIntervalInMS": 0, "audit.enable": "yes", "audit.file": "audit"}


def wait_for(good, what, seconds=WAIT_S):
    deadline = time.monotonic() + seconds
    while not good():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Reloaded(Conclave):
    """A server with a zoo.cfg; `write` replaces the keys, `reload` makes it read them."""

    def __init__(self, **keys):
        super().__init__(admin=True)
        self.path = os.path.join(self.folder, "zoo.cfg")
        self.base = {**BASE, **keys}
        self.options = [self.path]
        self.write()

    def write(self, more=None, text=""):
        with open(self.path, "w", encoding="ascii") as file:
            file.write("".join(f"{key}={value}\n" for key, value in {**self.base, **(more or {})}.items()) + text)

    def reload(self, *words):
        code, out, err = command("--admin", f"127.0.0.1:{self.admin_port}", *AUTH, "--json", *words)
        assert code == 0, err
        return json.loads(out)["servers"][0]

    def hang_up(self):
        before = self.log_tail(1 << 22).count("by=SIGHUP")
        self.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.log_tail(1 << 22).count("by=SIGHUP") > before, "no line about SIGHUP")

    def metric(self, name):
        return float(re.search(rf"^{name} (\S+)$", self.fetch("/metrics")[1], re.M).group(1))

    def fetch(self, path, data=None, method=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin_port}{path}", data=data, method=method,
                                         headers={"Authorization": "digest super:secret"})
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                return answer.status, answer.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode("utf-8", "replace")


def command(*words):
    done = subprocess.run([program(), "reload", *words], capture_output=True, text=True, timeout=WAIT_S * 2, check=False)
    return done.returncode, done.stdout, done.stderr


def results(answer):
    return {row["key"]: row["result"] for row in answer["keys"]}


# --- what each key does -------------------------------------------------------------------------------------------------
# A probe returns what it sees of a server: something else with the key than without it. `changed` says which is expected, for
# what takes some time to show.

PROBES = {}


def probe(key, value):
    def keep(function):
        PROBES[key] = (value, function)
        return function
    return keep


def connect(server, timeout_ms=30000):
    return zk.Connection(server.address, timeout_ms, patience_s=WAIT_S)


def is_refused(server):
    """Whether one more client is sent away."""
    try:
        with connect(server) as link:
            refused = link.session_id == 0
            link.close_session()
            return refused
    except (zk.Closed, ConnectionError):
        return True


def ask(server, *requests):
    """The errors of these requests, sent at once on one connection."""
    with connect(server) as link:
        for request in requests:
            link.send(request)
        errors = [link.read_reply().err for _ in requests]
        link.close_session()
        return errors


@probe("minSessionTimeout", 35000)
@probe("maxSessionTimeout", 8000)
def timeout_given(server, _):
    with connect(server) as link:
        timeout_ms = link.timeout_ms
        link.close_session()
        return timeout_ms


@probe("maxClientCnxns", 1)
@probe("maxCnxns", 1)
@probe("maxSessions", 1)
@probe("maxSessionsPerAddress", 1)
def second_client_refused(server, _):
    with connect(server) as link:
        refused = is_refused(server)
        link.close_session()
    wait_for(lambda: not is_refused(server), "nobody comes in any longer")
    return refused


@probe("maxTlsHandshakesPerSecondPerAddress", 1)
def handshakes_refused(server, _):
    links = [socket.create_connection(("127.0.0.1", server.secure_port), timeout=WAIT_S) for _ in range(12)]
    time.sleep(0.5)
    count = sum(is_ended(link) for link in links)
    for link in links:
        link.close()
    return count > 0


@probe("maxTlsHandshakes", 1)
def slow_handshake_dropped(server, changed):
    links = [socket.create_connection(("127.0.0.1", server.secure_port), timeout=WAIT_S) for _ in range(3)]
    if changed:
        wait_for(lambda: is_ended(links[0]), "the slowest client stays")
    ended = is_ended(links[0])
    for link in links:
        link.close()
    return ended


def is_ended(link):
    link.setblocking(False)
    try:
        return link.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@probe("globalOutstandingLimit", 1)
def waits_for_a_share(server, _):
    before = server.metric("request_throttle_wait_count")
    assert set(ask(server, *[zk.set_data("/large", b"x" * 300000) for _ in range(20)])) == {0}
    return server.metric("request_throttle_wait_count") > before


@probe("maxBytesInFlightPerAddress", 1024)
def waits_for_bytes(server, _):
    before = server.metric("conclave_waits_address_total")
    assert set(ask(server, *[zk.set_data("/large", b"x" * 300000) for _ in range(20)])) == {0}
    return server.metric("conclave_waits_address_total") > before


@probe("maxWatchesPerConnection", 2)
@probe("maxWatches", 2)
@probe("maxWatchBytesPerConnection", 1024)
@probe("maxWatchBytes", 1024)
def watches_refused(server, _):
    return QUOTA_EXCEEDED in ask(server, *[zk.exists(f"/{i}" + "w" * 600, True) for i in range(3)])


@probe("maxBufferBytes", 100000)
@probe("maxBufferBytesPerAddress", 100000)
def large_answer_refused(server, _):
    try:
        return ask(server, zk.get_data("/large")) != [0]
    except zk.Closed:
        return True


@probe("maxDataBytes", 1)
def growth_refused(server, _):
    return QUOTA_EXCEEDED in ask(server, zk.create("/grown", b"x"), zk.delete("/grown"))


@probe("maxRequestsPerSecondPerAddress", 1)
def requests_refused(server, _):
    return THROTTLED in ask(server, *[zk.exists("/")] * 5)


@probe("maxOperationsPerMulti", 1)
def large_multi(server, _):
    return ask(server, zk.multi([zk.check("/"), zk.check("/")]))


@probe("maxAclEntries", 1)
@probe("maxAclBytes", 256)
def large_acl(server, _):
    acl = [(zk.ALL, "digest", "u" * 200 + str(i) + ":" + "A" * 27 + "=") for i in range(2)]
    return ask(server, zk.create("/acl", b"", acl), zk.delete("/acl"))


@probe("maxPathBytes", 64)
def long_path(server, _):
    return ask(server, zk.create("/none/" + "p" * 100))


@probe("maxPathDepth", 4)
def deep_path(server, _):
    return ask(server, zk.create("/none/b/c/d/e/f"))


@probe("maxReplyBytes", 1000)
def long_answer(server, _):
    return ask(server, zk.get_data("/large"))


def takes_long(server):
    """Whether the slow log counts a transaction that takes some milliseconds."""
    before = server.metric("conclave_slow_requests_total")
    assert ask(server, zk.multi([zk.set_data("/", b"x" * 20)] * 9000)) == [0]
    return server.metric("conclave_slow_requests_total") > before


@probe("slowlog.threshold", 1)
def shows_slow_ones(server, changed):
    if changed:  # a fast machine may need less than 1 ms
        wait_for(lambda: takes_long(server), "nothing is slow")
    return changed or all(takes_long(server) for _ in range(5))  # by default, only a stall of the machine is that slow


@probe("log.level", "debug")
def debug_lines(server, changed):
    before = server.log_tail(1 << 22).count("connection-broken")
    with connect(server) as link:  # ends with a reset
        link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if changed:
        wait_for(lambda: server.log_tail(1 << 22).count("connection-broken") > before, "no debug line")
    return server.log_tail(1 << 22).count("connection-broken") > before


@probe("log.format", "json")
def last_line_is_json(server, _):
    return server.log_tail().splitlines()[-1].startswith('{"time":')


@probe("4lw.commands.whitelist", "ruok")
def may_ruok(server, _):
    return four_letters(server.address, b"ruok")


@probe("admin.maxAnswerBytes", 65536)
def list_is_cut(server, _):
    with connect(server) as link:
        for i in range(1500):
            link.send(zk.exists(f"/{i}" + "w" * 100, True))
        for i in range(1500):
            link.read_reply()
        cut = "left_out" in json.loads(server.fetch("/commands/watches_by_path")[1])
        link.close_session()
        return cut


@probe("admin.snapshot.enabled", "yes")
def may_take_a_snapshot(server, _):
    return server.fetch("/commands/snapshot?streaming=true")[0]


@probe("admin.restore.enabled", "yes")
def may_restore(server, _):
    return server.fetch("/commands/restore", b"rubbish", "POST")[0]


def may_take_two(server):
    return [server.fetch("/commands/snapshot?streaming=true")[0] for _ in range(2)]


def check_key(server, key):
    value, see = PROBES[key]
    before = see(server, False)
    server.write({key: value})
    answer = server.reload()
    assert results(answer)[key] == "applied", (key, answer)
    assert sum(row["result"] != "unchanged" for row in answer["keys"]) == 1, (key, answer)
    after = see(server, True)
    assert after != before, f"{key}={value} changes nothing: {before}"
    server.write()
    assert results(server.reload())[key] == "applied", key
    again = see(server, False)
    assert again == before, f"{key}: {again} after it was removed, and {before} before it was given"


def test_every_key():
    with Reloaded() as server:
        assert ask(server, zk.create("/large", b"x" * 300000)) == [0]
        for key in PROBES:
            if key not in TLS_KEYS:
                check_key(server, key)


def test_keys_of_tls():
    missing = certs.why_missing()
    if missing:
        raise cases.Skip(missing)
    with tempfile.TemporaryDirectory() as folder:
        made = certs.Certificates(folder)
        ca = made.make("ca", "/CN=ca")
        own = made.make("own", "/CN=own", ca)
        keys = {"secureClientPort": 0, "ssl.certFile": own.cert, "ssl.keyFile": own.key, "ssl.clientAuth": "none"}
        with Reloaded(**keys) as server:
            for key in TLS_KEYS:
                check_key(server, key)
            with open(own.cert, "a", encoding="ascii") as file:
                file.write("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n")
            files = server.reload()["files"]
            assert [row["result"] for row in files] == ["kept"] and files[0]["reason"], files


def test_keys_that_need_others():
    with Reloaded(**{"slowlog.threshold": 1, "admin.snapshot.enabled": "yes"}) as server:
        wait_for(lambda: takes_long(server) and len(json.loads(server.fetch("/slow")[1])["requests"]) > 1, "too few are slow")
        server.write({"slowlog.max": 1})
        assert results(server.reload())["slowlog.max"] == "applied"
        assert len(json.loads(server.fetch("/slow")[1])["requests"]) == 1
        assert may_take_two(server) == [200, 200]
        server.write({"admin.rateLimiterIntervalInMS": 3600000})
        assert results(server.reload())["admin.rateLimiterIntervalInMS"] == "applied"
        first, second = may_take_two(server)
        assert first == 200 and second != 200, (first, second)


def test_the_table():
    """The keys of this test, those that the server marks, and those in the man page are the same."""
    text = subprocess.run([program(), "server", "--help-all"], capture_output=True, text=True, check=True).stdout
    rows = re.split(r"\n  (?=\S)", text[text.index("Keys with effect"):])
    marked = {row.split()[0] for row in rows if "[reload]" in row}
    assert marked == set(PROBES) | ELSEWHERE | {"slowlog.max", "admin.rateLimiterIntervalInMS"}, marked
    with open(os.path.join(ROOT, "docs", "man", "conclave-server.1.scd"), encoding="utf-8") as file:
        part = re.search(r"^# RELOAD\n(.*?)^A change of another", file.read(), re.M | re.S).group(1)
    assert set(re.findall(r"\*([\w.]+)\*", part)) == marked


# --- the whole ----------------------------------------------------------------------------------------------------------


def test_a_faulty_file_changes_nothing():
    with Reloaded() as server:
        before = server.fetch("/commands/system_properties")[1]
        for text, why in (("maxSessions=1\nmaxClientCnxns=x\n", r"zoo.cfg line 8: maxClientCnxns: 'x' is not a number"),
                          ("maxSessions=1\nlog.level=loud\n", r"zoo.cfg line 8: log.level: 'loud'"),
                          ("maxSessions=1\nssl.ocsp=true\n", r"zoo.cfg line 8: ssl.ocsp: OCSP is not supported"),
                          ("maxSessions=1\nminSessionTimeout=50000\n", "minSessionTimeout 50000 ms is greater")):
            server.write(text=text)
            code, out, err = command("--admin", f"127.0.0.1:{server.admin_port}", *AUTH)
            assert code == 1 and out == "" and re.search(why, err), (code, out, err)
            server.hang_up()
            line = [line for line in server.log_tail().splitlines() if "by=SIGHUP" in line][-1]
            assert "reload-refused" in line and re.search(why, line) and "advice=" in line, line
            assert not second_client_refused(server, False)
        os.unlink(server.path)
        code, _, err = command("--admin", f"127.0.0.1:{server.admin_port}", *AUTH)
        assert code == 1 and "cannot read" in err, (code, err)
        assert server.fetch("/commands/system_properties")[1] == before
        server.write({"maxSessions": 1})
        server.hang_up()
        assert second_client_refused(server, True)


def test_what_waits_for_a_restart():
    with Reloaded() as server:
        server.write({"snapCount": 77, "log.level": "notice", "no.such.key": 1})
        code, out, err = command("--admin", f"127.0.0.1:{server.admin_port}", *AUTH)
        assert code == 0, err
        assert re.search(r"^  snapCount +default +77 +needs a restart$", out, re.M), out
        assert re.search(r"^  log.level +default +notice +applied$", out, re.M), out
        assert re.search(r"^  no.such.key +default +1 +no-effect$", out, re.M), out
        assert "superDigest" not in out and SUPER not in server.log_tail(1 << 20)
        answer = results(server.reload())
        assert answer["snapCount"] == "needs-restart" and answer["log.level"] == "unchanged", answer
        assert "snapCount=77" in json.loads(server.fetch("/commands/initial_configuration")[1])["initial_configuration"]
        server.restart()
        assert results(server.reload())["snapCount"] == "unchanged"


def test_set():
    with Reloaded() as server:
        server.write({"maxOperationsPerMulti": 1})
        code, out, err = command("--admin", f"127.0.0.1:{server.admin_port}", *AUTH, "--set", "log.level=debug")
        assert code == 0 and "Until the next reload or restart" in out and "maxOperations" not in out, (code, out, err)
        assert debug_lines(server, True) and large_multi(server, False) == [0]
        for words, code, why in (("log.level", 64, "KEY=VALUE"), ("log.level=loud", 1, "'loud' is not one of"),
                                 ("snapCount=5", 1, "cannot change at run time"), ("no.such=%41&set=a\n", 1, "'no.such' is not"),
                                 ("clusterSecret=0123456789abcdefg", 1, "into its file")):
            done = command("--admin", f"127.0.0.1:{server.admin_port}", *AUTH, "--set", words)
            assert done[0] == code and why in done[2], done
        answer = results(server.reload())
        assert answer["log.level"] == "applied" and answer["maxOperationsPerMulti"] == "applied", answer
        assert not debug_lines(server, False) and large_multi(server, True) == [BAD_ARGUMENTS]


def test_who_may():
    with Reloaded() as server:
        where = ["--admin", f"127.0.0.1:{server.admin_port}"]
        for words, advice in (([], "give credentials"), (["--auth", "digest:super:wrong"], "all permissions on /"),
                              (["--auth", "digest:other:secret"], "the superuser")):
            code, out, err = command(*where, *words)
            assert code == 77 and out == "" and advice in err, (words, code, out, err)
        assert server.fetch("/commands/reload", method="GET")[0] == 405
        server.reload()
        server.write(text="maxSessions=x\n")
        assert command(*where, *AUTH)[0] == 1
        server.hang_up()
        with open(os.path.join(server.folder, "audit"), encoding="utf-8") as file:
            lines = [line for line in file if "operation=configReload" in line]
        assert [re.search(r"result=(\w+)", line).group(1) for line in lines] == ["success", "failure", "failure"], lines
        assert "super" in lines[0] and "super" not in lines[2], lines
        server.destroy()
        code, _, err = command(*where, *AUTH, "--timeout", "2s")
        assert code == 69 and str(server.admin_port) in err, (code, err)


class Writer(threading.Thread):
    """Writes and reads as fast as it may."""

    def __init__(self, address, number):
        super().__init__()
        self.address, self.number, self.count, self.error, self.ended = address, number, 0, None, False

    def run(self):
        try:
            with zk.Connection(self.address, 30000, patience_s=WAIT_S) as link:
                assert link.call(zk.create(f"/load{self.number}", flags=zk.EPHEMERAL))[0] == 0
                while not self.ended:
                    data = str(self.count).encode()
                    assert link.call(zk.set_data(f"/load{self.number}", data))[0] == 0
                    error, fields = link.call(zk.get_data(f"/load{self.number}"))
                    assert error == 0 and data in str(fields).encode(), (error, fields)
                    self.count += 1
        except Exception as error:  # noqa: BLE001: told by the main thread
            self.error = error


def test_under_load():
    with Reloaded(**{"log.level": "warn"}) as server:
        writers = [Writer(server.address, i) for i in range(4)]
        for writer in writers:
            writer.start()
        try:
            for turn in range(20):
                server.write({"globalOutstandingLimit": (2, 1000)[turn % 2], "slowlog.max": 10 + turn, "slowlog.threshold": 1 + turn % 3,
                              "maxBytesInFlightPerAddress": (1024, 33554432)[turn % 2], "maxWatches": turn + 1})
                server.hang_up()
                counts = [writer.count for writer in writers]
                wait_for(lambda: all(w.count > c or w.error for w, c in zip(writers, counts)), "a writer stands")
        finally:
            for writer in writers:
                writer.ended = True
            for writer in writers:
                writer.join(WAIT_S)
        assert [writer.error for writer in writers] == [None] * 4
        assert server.log_tail(1 << 22).count("reloaded by=SIGHUP") == 20


def test_three_members():
    options = ["--DigestAuthenticationProvider.superDigest", SUPER, "--electionTimeout", "2000"]
    with Ensemble(3, admin=True, options=options) as ensemble:
        ensemble.wait_leader(WAIT_S, serving=3)
        hosts = ",".join(member.host for member in ensemble.members)
        for member, more in zip(ensemble.members, ("maxSessionTimeout=9000\n", "maxSessionTimeout=8000\nsnapCount=50\n", "maxSessions=x\n")):
            with open(os.path.join(member.folder, "zoo.cfg"), "a", encoding="ascii") as file:
                file.write(more)
        code, out, err = command("--server", hosts, *AUTH, "--json")
        assert code == 1, (code, out, err)
        answers = {row.get("server", 3): row for row in json.loads(out)["servers"]}
        assert results(answers[1])["maxSessionTimeout"] == "applied", answers
        assert results(answers[2]) == {**results(answers[2]), "maxSessionTimeout": "applied", "snapCount": "needs-restart"}, answers
        assert "maxSessions: 'x'" in answers[3]["error"] and not any(key.startswith("server.") for key in results(answers[1])), answers
        timeouts = []
        for member in ensemble.members:
            with connect(member, 30000) as link:
                timeouts.append(link.timeout_ms)
        assert timeouts == [9000, 8000, 30000], timeouts
        code, out, err = command("--server", ensemble.members[0].host, *AUTH, "--set", "log.level=debug")
        assert code == 1 and out.count("log.level") == 2 and "maxSessions: 'x'" in err, (code, out, err)
        assert all(debug_lines(member, True) for member in ensemble.members[:2])


if __name__ == "__main__":
    absent = why_missing()
    sys.exit(cases.skip_all(absent) if absent else cases.run(cases.named("test_", globals()), sys.argv[1:]))
