#!/usr/bin/env python3
"""Sentinel's protocol on the managers of `conclave redis-failover`: answers beside a real Sentinel's, events, HTTP probes, users,
TLS, limits, loss of contact, and fail-overs under clients that support only Sentinel (redis-py, ioredis).

Promise: the answers have the fields and types of Redis' own Sentinel, in versions 2 and 3 of the protocol; no manager without contact
to the ensemble names a master; in the fail-overs, beside real sentinels with the same clients, no write that a replica had
acknowledged is lost, and no fail-over comes unasked. It prints how long each client could not write.
Limits: loopback; ioredis comes from npm, as in test/compat/node_test.py.

usage: sentinel_test.py [--rounds N] [--beside N] [CASE...]
"""

import argparse
import concurrent.futures
import contextlib
import glob
import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import cases  # noqa: E402
import certs  # noqa: E402
import conclave  # noqa: E402
import npm  # noqa: E402
import redis  # noqa: E402
from redis import Client, RedisServer, Refused  # noqa: E402
from redis_cluster import Cluster, Process, Tree, eventually  # noqa: E402
from redis_sentinel import NAME, Sentinel, bring_back, master_of, pairs  # noqa: E402
from server import free_port  # noqa: E402

OPTIONS = None   # of the command line
ENSEMBLE = None  # the server that most clusters share
STALE_MS = 1000
IOREDIS = "5.4.1"


class SentinelCluster(Cluster):
    """Managers with ports for Sentinel's protocol, which listen at these addresses by turns; "": --sentinel-address is not set."""

    def __init__(self, name, *words, ensemble=None, listen_at=("127.0.0.1",), **more):
        super().__init__(ensemble or ENSEMBLE, name, **more)
        self.options += ["--sentinel-stale", f"{STALE_MS}ms", *words]
        self.listen_at = listen_at
        self.ports = []

    def manager(self, number, *options, **more):
        self.ports.append(free_port())
        address = self.listen_at[(number - 1) % len(self.listen_at)]
        at = ["--sentinel-address", address] if address else []
        return super().manager(number, "--sentinel-port", str(self.ports[-1]), *at, *options, **more)

    @property
    def sentinels(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def ask(self, *words, place=0):
        with Client(("127.0.0.1", self.ports[place])) as link:
            return link.call(*words)

    def named(self, place=0):
        """The master by this manager, as HOST:PORT; an error's code."""
        try:
            found = self.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name, place=place)
        except Refused as why:
            return why.code
        return f"{found[0].decode()}:{found[1].decode()}"

    def flags(self):
        return pairs(self.ask("SENTINEL", "MASTER", self.name))["flags"]

    def settle(self):
        """Every manager names the master, and sees the other managers and the replicas as well."""
        master = self.wait_whole()

        def knows(place):
            try:
                facts = pairs(self.ask("SENTINEL", "MASTER", self.name, place=place))
                rows = [pairs(row)["flags"] for row in self.ask("SENTINEL", "REPLICAS", self.name, place=place)]
            except Refused:
                return None
            return int(facts["num-other-sentinels"]), rows, facts["flags"], self.named(place)
        wanted = (len(self.ports) - 1, ["slave"] * (len(self.nodes) - 1), "master", master.host)
        for place in range(len(self.ports)):
            eventually(lambda place=place: f"{self.name}: manager {place + 1} knows {knows(place)}, not {wanted}\n{self.told()}",
                       lambda place=place: knows(place) == wanted)
        return master


class Subscriber:
    """Subscribes to all events of a port, and collects them."""

    def __init__(self, port):
        self.link = Client(("127.0.0.1", port), 30)
        self.link.call("PSUBSCRIBE", "*")
        self.seen = []

    def wait(self, *channels):
        """Reads until each of these was seen; the messages by channel."""
        while not set(channels) <= {channel for channel, _ in self.seen}:
            kind, _, channel, message = (word.decode() for word in self.link.receive())
            assert kind == "pmessage"
            self.seen.append((channel, message))
        return {channel: message for channel, message in self.seen}

    def close(self):
        self.link.close()


@contextlib.contextmanager
def real_sentinels(nodes):
    """Three of Redis' own, which know each other and the replicas."""
    sentinels = [Sentinel(nodes[0]).start() for _ in range(3)]
    try:
        yield sentinels
    finally:
        for sentinel in sentinels:
            sentinel.destroy()


def settle_real(sentinels, replicas):
    eventually(lambda: f"all sentinels know each other and the replicas: {[s.knows() for s in sentinels]}",
               lambda: all(s.knows() == (2, replicas, "master") for s in sentinels))


@contextlib.contextmanager
def redis_set(count):
    first = RedisServer()
    nodes = [first, *[RedisServer(of=first) for _ in range(count - 1)]]
    try:
        for node in nodes:
            node.start()
        yield nodes
    finally:
        for node in nodes:
            node.destroy()


# --- answers


def shape_of(port, *words, hello):
    """An answer as text in which values are replaced by what they are; the names of fields stay."""
    with socket.create_connection(("127.0.0.1", port), 5) as link, link.makefile("rb") as lines:
        for words_sent in ([["HELLO", hello]] if hello else []) + [words]:
            link.sendall(b"*%d\r\n" % len(words_sent) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w.encode()) for w in words_sent))
            parts = []
            left = 1
            while left:
                line = lines.readline().decode().rstrip("\r\n")
                left -= 1
                kind, rest = line[0], line[1:]
                if kind == "$" and rest != "-1":
                    line = "$" + lines.read(int(rest) + 2)[:-2].decode()
                elif kind in "*%" and rest != "-1":
                    left += int(rest) * (2 if kind == "%" else 1)
                parts.append(line)
    return [re.sub(r"\b\d+\b", "N", re.sub(r"\b[0-9a-f]{40}\b", "ID", part)) for part in parts]


def same_shape(theirs, ours, theirs_name, ours_name):
    ours = [part.replace(ours_name, theirs_name) for part in ours]
    return theirs == ours, f"\ntheirs {theirs}\nours   {ours}"


def test_answers_have_the_shape_of_sentinels():
    if RedisServer().version() < 7:
        raise cases.Skip("sentinels before 7.0 have fewer fields")
    with redis_set(2) as nodes, real_sentinels(nodes) as sentinels, SentinelCluster("shape", redis=2, managers=3) as cluster:
        cluster.start()
        cluster.settle()
        settle_real(sentinels, 1)
        commands = [["PING"], ["ROLE"], ["SENTINEL", "MYID"], ["SENTINEL", "MASTERS"], ["SENTINEL", "MASTER", "*"], ["SENTINEL", "REPLICAS", "*"],
                    ["SENTINEL", "SLAVES", "*"], ["SENTINEL", "SENTINELS", "*"], ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "*"],
                    ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "other"], ["SENTINEL", "MASTER", "other"], ["SENTINEL", "CKQUORUM", "*"],
                    ["SENTINEL", "CKQUORUM", "other"], ["SENTINEL", "FAILOVER", "other"], ["SENTINEL", "BOGUS"], ["SENTINEL"],
                    ["BOGUS", "a", "b"], ["AUTH", "a"], ["AUTH", "a", "b"], ["HELLO", "9"], ["HELLO", "2"], ["HELLO", "3"],
                    ["CLIENT", "SETNAME", "x"], ["CLIENT", "GETNAME"], ["SUBSCRIBE", "a"], ["PSUBSCRIBE", "a"], ["UNSUBSCRIBE"]]
        version = "$" + RedisServerVersion.of(sentinels[0])

        def differs(hello, command):
            """Both answers, or "" if they have one shape."""
            theirs = shape_of(sentinels[0].port, *[NAME if word == "*" else word for word in command], hello=hello)
            ours = shape_of(cluster.ports[0], *[cluster.name if word == "*" else word for word in command], hello=hello)
            theirs = [{version: "$VERSION", "$valkey": "$redis"}.get(part, part) for part in theirs]
            ours = ["$VERSION" if part == "$N.N.N" and "HELLO" in command else part for part in ours]
            good, why = same_shape(theirs, ours, NAME, cluster.name)
            return "" if good else why
        checked = 0
        for hello in (None, "3"):
            for command in commands:  # flags such as "disconnected" come and go on a busy machine
                eventually(lambda: f"{command} in version {hello or 2}{differs(hello, command)}",  # noqa: B023
                           lambda: not differs(hello, command))  # noqa: B023
                checked += 1
        return f"{checked} answers"


class RedisServerVersion:
    """The version that a server tells, as shape_of shows it."""

    @staticmethod
    def of(server):
        return re.sub(r"\b\d+\b", "N", server.info()["redis_version"])


def test_events_of_a_fail_over():
    with SentinelCluster("events", "--sentinel-failover") as cluster:
        cluster.start()
        master = cluster.settle()
        subscriber = Subscriber(cluster.ports[-1])  # not the leader's
        master.kill()
        seen = subscriber.wait("+sdown", "+odown", "+new-epoch", "+try-failover", "+selected-slave", "+switch-master", "+slave")
        old = f"127.0.0.1 {master.port}"
        new = cluster.wait_master(but=master)
        assert seen["+switch-master"] == f"events {old} 127.0.0.1 {new.port}", seen
        assert ("+sdown", f"master events {old}") in subscriber.seen, subscriber.seen
        assert re.fullmatch(rf"master events {old} #quorum \d/2", seen["+odown"]), seen
        assert re.fullmatch(rf"slave 127.0.0.1:\d+ 127.0.0.1 \d+ @ events 127.0.0.1 {new.port}", seen["+slave"]), seen
        order = [channel for channel, _ in subscriber.seen]
        assert order.index("+try-failover") < order.index("+selected-slave") < order.index("+switch-master"), order
        assert cluster.named() == new.host
        cluster.restart(master)
        subscriber.wait("-sdown", "+failover-end")
        cluster.settle()
        # The same on request: the commands of the protocol, and no +odown.
        subscriber.close()
        subscriber = Subscriber(cluster.ports[-1])
        if tuple(map(int, master.info()["redis_version"].split(".")[:2])) < (6, 2):
            subscriber.close()
            return "without a hand-over, which Redis has from 6.2 on"
        assert cluster.ask("SENTINEL", "FAILOVER", cluster.name) == "OK"
        try:
            seen = subscriber.wait("+switch-master", "+failover-end")
        except OSError as late:
            raise AssertionError(f"{subscriber.seen}\n{cluster.told()}") from late
        assert "+odown" not in seen and "+sdown" not in seen, seen
        subscriber.close()


def test_without_contact_no_master_is_named():
    with conclave.Conclave(tick_ms=200, options=["--maxSessionTimeout", "60000"]) as ensemble, \
            SentinelCluster("contact", ensemble=ensemble, managers=2, redis=2) as cluster:
        cluster.start()
        master = cluster.settle()
        subscriber = Subscriber(cluster.ports[0])
        link = Client(("127.0.0.1", cluster.ports[0]))
        ensemble.process.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        try:
            while cluster.named() == master.host:
                assert time.monotonic() - stopped < 30
                time.sleep(0.01)
            took = time.monotonic() - stopped
            eventually("no manager names one", lambda: cluster.named() == cluster.named(1) == "LOADING")
            for words in (("MASTER", cluster.name), ("MASTERS",), ("REPLICAS", cluster.name), ("SENTINELS", cluster.name)):
                try:
                    found = link.call("SENTINEL", *words)
                    raise AssertionError(f"{words}: {found}")
                except Refused as why:
                    assert why.code == "LOADING", why
            with contextlib.suppress(Refused):
                raise AssertionError(link.call("SENTINEL", "CKQUORUM", cluster.name))
            assert link.call("PING") == "PONG"
            assert probe(cluster.ports[0], cluster.name, "master", master.host) == 503
            assert "+tilt" in subscriber.wait("+tilt")
        finally:
            ensemble.process.send_signal(signal.SIGCONT)
        subscriber.wait("-tilt")
        cluster.tree.close()  # the server may have ended the session of the test's own client
        cluster.tree = Tree(ensemble.address)
        assert cluster.settle() is master
        link.close()
        subscriber.close()
        return f"silent after {took * 1000:.0f} ms"


def test_leader_and_master_that_die_together():
    with SentinelCluster("both", "--period", "1s", "--min-down", "500ms", "--op-timeout", "1s", "--session", "6s") as cluster:
        cluster.start()
        master = cluster.settle()
        leader = cluster.leader()
        place = next(i for i, manager in enumerate(cluster.managers) if manager is not leader)
        stalls = Stalls()
        died = time.monotonic()
        leader.process.kill()
        master.kill()
        eventually("another master is named", lambda: cluster.named(place) not in (master.host, "LOADING"), step_s=0.005)
        took = time.monotonic() - died
        stalled = stalls.finish()
        assert took < 4 + 4 * stalled, f"{took:.2f} s, the machine stalled for {stalled:.2f} s\n{cluster.told()}"
        return f"{took * 1000:.0f} ms; the machine stalled for {stalled * 1000:.0f} ms"


def test_E112_a_leader_that_stops_with_the_master_loses_its_lead():
    """Long before its session ends; and when it goes on, it changes nothing."""
    with SentinelCluster("stops", "--session", "20s", "--min-down", "2s", "--op-timeout", "2s") as cluster:
        cluster.start()
        first = cluster.settle()
        leader = cluster.leader()
        writer = cluster.writer("b", wait=True)
        writer.wait_acks(20)
        leader.send(signal.SIGSTOP)
        first.kill()
        second = cluster.wait_master(but=first)
        assert leader.id in cluster.reports(), "its session has ended"
        writer.wait_acks(20, by=second.host)
        leader.send(signal.SIGCONT)
        eventually(cluster.told, lambda: " revoked: " in leader.text())
        cluster.restart(first)
        assert cluster.wait_whole() is second, cluster.told()
        assert cluster.current()["epoch"] == 2, cluster.told()
        assert any(" lead-removed: " in manager.text() for manager in cluster.managers if manager is not leader), cluster.told()
        writer.end()
        kept = [ack for ack in writer.acks() if ack[5] >= 1]
        with second.client(10) as link:
            assert link.call("EXISTS", *[f"b:{ack[0]}" for ack in kept]) == len(kept)


class Stalls(threading.Thread):
    """The time by which short sleeps were late, in all: how busy the machine is."""

    def __init__(self):
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self.late = 0.0
        self.start()

    def run(self):
        while not self.ended.is_set():
            began = time.monotonic()
            time.sleep(0.01)
            self.late += max(0.0, time.monotonic() - began - 0.012)

    def finish(self):
        self.ended.set()
        self.join()
        return self.late


# --- HTTP


def probe(port, name, role, server, method="GET", tls=None):
    link = http.client.HTTPSConnection("localhost", port, timeout=10, context=tls) if tls else \
        http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    link.request(method, f"/redis/{name}/{role}" + (f"?server={server}" if server else ""))
    status = link.getresponse().status
    link.close()
    return status


def test_http_probes():
    with SentinelCluster("http") as cluster:
        cluster.start()
        master = cluster.settle()
        for place, port in enumerate(cluster.ports):
            for node in cluster.nodes:
                for method in ("GET", "HEAD", "OPTIONS"):
                    assert probe(port, "http", "master", node.host, method) == (200 if node is master else 503), place
                    assert probe(port, "http", "replica", node.host, method) == (503 if node is master else 200), place
            assert probe(port, "http", "master", "") == 200
            assert probe(port, "http", "master", master.host.replace(":", "%3A")) == 200
            assert probe(port, "http", "master", "unknown:1") == 404
            assert probe(port, "other", "master", master.host) == 404
            assert probe(port, "http", "master", master.host, "PUT") == 405
            with socket.create_connection(("127.0.0.1", port), 10) as browser:
                browser.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSENTINEL FAILOVER http\r\n")
                assert browser.recv(100) == b""
        for manager in cluster.managers:
            eventually("it tells of the browsers once", lambda manager=manager: manager.text().count(" sentinel-refused: ") == 1)
        master.kill()
        new = cluster.wait_master(but=master)
        for port in cluster.ports:
            eventually("the probes follow", lambda port=port: [probe(port, "http", "master", node.host) for node in cluster.nodes] ==
                       [200 if node is new else 503 for node in cluster.nodes])


HAPROXY = """
global
    maxconn 100
defaults
    mode tcp
    timeout connect 2s
    timeout client 60s
    timeout server 60s
listen redis
    bind 127.0.0.1:{front}
    option httpchk
    http-check send meth GET uri-lf "/redis/{name}/master?server=%[srv_name]"
    http-check expect status 200
    default-server check inter 100ms fall 1 rise 1 addr 127.0.0.1 port {port} on-marked-down shutdown-sessions
{servers}
"""


def haproxy():
    """HAProxy's program and its environment; raises Skip."""
    unpacked = os.path.join(conclave.ROOT, ".deps", "haproxy")
    folders = glob.glob(os.path.join(unpacked, "usr/lib/*-linux-gnu"))
    for path, more in ((shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin"), {}),
                       (os.path.join(unpacked, "usr/sbin/haproxy"), {"LD_LIBRARY_PATH": ":".join(folders)})):
        environment = {**os.environ, **more}
        if path and os.access(path, os.X_OK) and \
                subprocess.run([path, "-v"], env=environment, capture_output=True, check=False).returncode == 0:
            return path, environment
    raise cases.Skip("no haproxy (Debian: haproxy; tools/install-deps --test unpacks it into .deps)")


def test_haproxy_follows_the_master():
    path, environment = haproxy()
    with SentinelCluster("haproxy") as cluster, tempfile.TemporaryDirectory(prefix="conclave-test-haproxy-") as folder:
        cluster.start()
        master = cluster.settle()
        front = free_port()
        with open(os.path.join(folder, "haproxy.cfg"), "w", encoding="ascii") as file:
            file.write(HAPROXY.format(front=front, name="haproxy", port=cluster.ports[-1],
                                      servers="\n".join(f"    server {node.host} {node.host}" for node in cluster.nodes)))
        process = Process([path, "-db", "-f", file.name], environment)
        cluster.lookers.append(process)

        def behind():
            try:
                with Client(("127.0.0.1", front), 1) as link:
                    found = {"port": link.call("CONFIG", "GET", "port")[1].decode(), "role": link.call("ROLE")[0].decode()}
                    return found
            except (OSError, Refused):
                return None
        eventually(lambda: f"HAProxy leads to the master: {behind()}\n{process.tail()}", lambda: behind() == {"port": str(master.port), "role": "master"})
        master.kill()
        new = cluster.wait_master(but=master)
        eventually(lambda: f"HAProxy leads to the new master: {behind()}\n{process.tail()}", lambda: behind() == {"port": str(new.port), "role": "master"})


# --- users, TLS, limits


def test_users_and_tls():
    with tempfile.TemporaryDirectory(prefix="conclave-test-sentinel-") as folder:
        made = certs.Certificates(os.path.join(folder, "certs"))
        ca = made.make("ca", "/O=test/CN=ca")
        own = made.make("server", "/O=test/CN=localhost", ca)
        users = os.path.join(folder, "users")
        with open(users, "w", encoding="ascii") as file:
            file.write("# users\ndefault pass word\n\nshop  other\n")
        os.chmod(users, 0o600)
        words = ["--sentinel-users", users, "--sentinel-cert", own.cert, "--sentinel-key", own.key, "--sentinel-ca", ca.cert]
        with SentinelCluster("users", *words, redis=2, managers=1) as cluster:
            cluster.start()
            cluster.wait_whole()
            tls = ssl.create_default_context(cafile=ca.cert)
            tls.load_cert_chain(own.cert, own.key)
            address = ("localhost", cluster.ports[0])

            def refused(code, *words, login=None):
                with Client(("127.0.0.1", address[1]), tls=tls) as link:
                    if login:
                        link.call(*login)
                    try:
                        raise AssertionError(link.call(*words))
                    except Refused as why:
                        assert why.code == code, why
            refused("NOAUTH", "PING")
            refused("NOAUTH", "SENTINEL", "MASTERS")
            refused("NOAUTH", "BOGUS")
            refused("NOAUTH", "HELLO", "3")
            for wrong in (("AUTH", "word"), ("AUTH", "shop", "pass word"), ("AUTH", "shop", "othe"), ("AUTH", "shop", ""), ("AUTH", "", "")):
                refused("WRONGPASS", *wrong)
            refused("NOPERM", "SENTINEL", "FAILOVER", "users", login=("AUTH", "shop", "other"))
            for login in (("AUTH", "pass word"), ("AUTH", "default", "pass word"), ("AUTH", "shop", "other")):
                with Client(("127.0.0.1", address[1]), tls=tls) as link:
                    link.call(*login)
                    assert eventually("the master is named", lambda link=link: link.call("SENTINEL", "MASTERS"))
                    assert link.call("RESET") == "RESET"
                    with contextlib.suppress(Refused):
                        raise AssertionError(link.call("PING"))
            assert probe(address[1], "users", "master", cluster.nodes[0].host, tls=tls) == 200
            bare = ssl.create_default_context(cafile=ca.cert)
            with contextlib.suppress(OSError):  # a client without a certificate
                with Client(("127.0.0.1", address[1]), tls=bare) as link:
                    raise AssertionError(link.call("AUTH", "shop", "other"))
            with contextlib.suppress(OSError):  # plain text
                with Client(("127.0.0.1", address[1])) as link:
                    raise AssertionError(link.call("AUTH", "shop", "other"))


def test_a_manager_at_every_interface_announces_an_address():
    with SentinelCluster("announce", listen_at=("0.0.0.0", "::", ""), redis=2) as cluster:
        cluster.start()
        cluster.settle()
        for place, port in enumerate(cluster.ports):
            rows = [pairs(row) for row in cluster.ask("SENTINEL", "SENTINELS", cluster.name, place=place)]
            found = sorted((row["ip"], int(row["port"])) for row in rows)
            assert found == sorted(("127.0.0.1", other) for other in cluster.ports if other != port), found
        for wrong in ("0.0.0.0:1", "[::]:1"):
            done = subprocess.run([conclave.program(), "redis-failover", "--nodes", "a:1,b:1", "--sentinel-port", "1", "--sentinel-announce", wrong],
                                  capture_output=True, text=True, check=False, timeout=30)
            assert done.returncode == 64 and "that clients can reach" in done.stderr, done


def test_limits():
    with SentinelCluster("limits", redis=2, managers=1) as cluster:
        cluster.start()
        cluster.settle()
        address = ("127.0.0.1", cluster.ports[0])
        # A length that announces too much is an error before the bytes come.
        for sent in (b"*100000\r\n", b"*1\r\n$100000\r\n", b"x" * 8192, b"*1\r\n:5\r\n", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 2000):
            with socket.create_connection(address, 10) as link:
                with contextlib.suppress(ConnectionError):
                    link.sendall(sent)
                    answer = link.recv(1000)
                    assert answer.startswith(b"-ERR Protocol error") or answer == b"", answer
        # A client that does not read its answers is disconnected or held back, and disturbs no other.
        with socket.create_connection(address, 10) as deaf:
            deaf.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                for _ in range(2000):
                    deaf.send(b"SENTINEL MASTERS\r\n" * 1000)
            assert cluster.ask("PING") == "PONG"
        # The connection that was silent longest makes room; a subscriber stays.
        with contextlib.ExitStack() as stack:
            subscriber = Subscriber(address[1])
            stack.callback(subscriber.close)
            idle = [stack.enter_context(socket.create_connection(address, 10)) for _ in range(1100)]
            eventually("the newest connection is served", lambda: cluster.ask("PING") == "PONG")
            idle[0].settimeout(10)
            assert idle[0].recv(1) == b""
            subscriber.link.send("PING")
            while (answer := subscriber.link.receive()) != [b"pong", b""]:
                assert answer[0] == b"pmessage", answer


# --- fail-overs under clients


class SentinelWriter(Process):
    """A client program; its acknowledgements."""

    def __init__(self, kind, sentinels, name, tag):
        self.tag = tag
        words = ["node", os.path.join(HERE, "sentinel_client.js"), npm.installed("ioredis", IOREDIS, "package.json")] if kind == "ioredis" \
            else ["/usr/bin/python3", "-B", os.path.join(HERE, "sentinel_client.py")]
        super().__init__([*words, sentinels, name, tag])

    def acks(self):
        rows = (line.split() for line in self.text().splitlines(keepends=True) if line.endswith("\n"))
        return [(int(r[1]), int(r[2]), int(r[3])) for r in rows if r[0] == "ack"]

    def wait_more(self, count=20):
        """Waits for this number of further acknowledgements."""
        before = len(self.acks())
        eventually(lambda: f"{self.tag} does not write\n{self.tail(1500)}", lambda: len(self.acks()) >= before + count, 60)


def gap_ms(acks, at_ns):
    """The longest time without an acknowledgement that includes or follows this moment."""
    times = [at for _, at, _ in acks]
    return max((after - before) / 1e6 for before, after in zip(times, times[1:]) if after > at_ns)


def lost(writer, master):
    """Writes that a replica had acknowledged, which the master does not have."""
    with master.client(30) as link:
        return [number for number, _, replicas in writer.acks() if replicas >= 1 and link.call("GET", f"{writer.tag}:{number}") is None]


class Side:
    """One of the two systems: its servers, clients and figures."""

    def __init__(self, name, nodes, sentinels, master_name, settle, epoch, kinds):
        self.name, self.nodes, self.settle, self.epoch = name, nodes, settle, epoch
        self.writers = [SentinelWriter(kind, sentinels, master_name, kind) for kind in kinds]
        self.gaps = {kind: [] for kind in kinds}
        self.begun = None

    def round(self, note_pid=None):
        """The master is killed under load and comes back as a replica."""
        self.settle()
        self.begun = self.epoch() if self.begun is None else self.begun
        for writer in self.writers:
            writer.wait_more()
        old = master_of(self.nodes)
        killed = time.monotonic_ns()
        old.kill()
        new = eventually(f"{self.name}: another master", lambda: master_of([node for node in self.nodes if node is not old]))
        for writer in self.writers:
            eventually(lambda: f"{self.name}: {writer.tag} writes again\n{writer.tail(1500)}",  # noqa: B023
                       lambda: writer.acks()[-1][1] > killed + 100_000_000)  # noqa: B023
            writer.wait_more()
            self.gaps[writer.tag].append(gap_ms(writer.acks(), killed))
        bring_back(self.nodes, old, new)
        if note_pid:
            note_pid(old)

    def rounds_until(self, over):
        """Rounds until the event is set, at least one: how many, and why they ended before, or "". For the system that is only compared
        with, trouble is no failure."""
        done = 0
        try:
            while done == 0 or not over.is_set():
                self.round()
                done += 1
        except AssertionError as trouble:
            return done, f"{self.name}: {self.figures()}; ended: {str(trouble).splitlines()[0]}"
        return done, ""

    def figures(self):
        return ", ".join(f"{kind} p50 {statistics.median(gaps):.0f} worst {max(gaps):.0f} ms" for kind, gaps in self.gaps.items() if gaps)

    def finish(self, rounds):
        """Unasked fail-overs, lost writes, and all figures as a text."""
        self.settle()
        unasked = self.epoch() - self.begun - rounds
        for writer in self.writers:
            writer.end()
        master = master_of(self.nodes)
        losses = {writer.tag: len(lost(writer, master)) for writer in self.writers}
        written = sum(len(writer.acks()) for writer in self.writers)
        return unasked, losses, f"{self.name}: {self.figures()}; {written} writes, lost after WAIT 1: {sum(losses.values())}, unasked: {unasked}"

    def close(self):
        for writer in self.writers:
            writer.destroy()


def test_fail_overs_beside_sentinel():
    kinds = ["redis-py"]
    why = ""
    try:
        npm.installed("ioredis", IOREDIS, "package.json")
        kinds.append("ioredis")
    except cases.Skip as reason:
        why = f"; without ioredis: {reason}"
    with redis_set(3) as nodes, real_sentinels(nodes) as sentinels, SentinelCluster("clients") as cluster, contextlib.ExitStack() as stack:
        cluster.start()
        cluster.settle()
        settle_real(sentinels, 2)
        theirs = Side("Sentinel", nodes, ",".join(s.host for s in sentinels), NAME, lambda: settle_real(sentinels, 2),
                      lambda: max(int(pairs(s.call("SENTINEL", "MASTER", NAME))["config-epoch"]) for s in sentinels), kinds)
        stack.callback(theirs.close)
        ours = Side("Conclave", cluster.nodes, cluster.sentinels, cluster.name, cluster.settle, lambda: cluster.current()["epoch"], kinds)
        stack.callback(ours.close)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            over = threading.Event()
            beside = pool.submit(theirs.rounds_until, over)
            try:
                for _ in range(OPTIONS.rounds):
                    ours.round(cluster.note_pid)
                unasked, losses, told = ours.finish(OPTIONS.rounds)
            finally:
                over.set()
            done, trouble = beside.result()
        theirs_told = trouble or theirs.finish(done)[2]
        assert unasked == 0 and not any(losses.values()), f"{told}\n{cluster.told()}"
        return f"{OPTIONS.rounds} fail-overs, {done} of Sentinel meanwhile{why}\n    {told}\n    {theirs_told}"


def main():
    global OPTIONS, ENSEMBLE
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3, help="fail-overs under clients")
    parser.add_argument("--beside", type=int, default=3, help="cases at once")
    parser.add_argument("cases", nargs="*")
    OPTIONS = parser.parse_args()
    why = conclave.why_missing() or redis.why_missing() or certs.why_missing()
    if not why and subprocess.run(["/usr/bin/python3", "-c", "import redis.sentinel"], capture_output=True, check=False, cwd="/").returncode:
        why = "no redis-py (Debian: python3-redis)"
    if why:
        return cases.skip_all(why)
    ENSEMBLE = conclave.Conclave(tick_ms=200, options=["--maxSessionTimeout", "60000"])
    with ENSEMBLE:
        return cases.run_beside([test_fail_overs_beside_sentinel, *[case for case in cases.named("test_", globals())
                                                                  if case is not test_fail_overs_beside_sentinel]],
                                OPTIONS.cases, OPTIONS.beside)


if __name__ == "__main__":
    sys.exit(main())
