"""`conclave server` as a process: the ready line, errors and exit codes, recovery after kill -9, sessions over a restart,
expiry in time, and clients that send rubbish or nothing while a good one goes on.

Promise: each case starts its own server on a free loopback port and ends it; the last line counts the cases.
Limits: standalone only; deadlines are generous, because test machines stall.

usage: server_test.py [CASE]...
"""

import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402

CASES = []
MUTATED_FRAMES = 10_000


def case(function):
    CASES.append(function)
    return function


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def run(arguments, folder, timeout=20):
    """Runs `conclave server` to its end: (exit code, stdout, stderr)."""
    done = subprocess.run([program(), "server", "--admin", "off", *arguments], cwd=folder, capture_output=True, text=True,
                          timeout=timeout, check=False)
    return done.returncode, done.stdout, done.stderr


@case
def the_session_must_be_asked_for_in_time():
    """nio.sessionlessCnxnTimeout, as a key and as ZooKeeper's system property is named."""
    for key in ("nio.sessionlessCnxnTimeout", "zookeeper.nio.sessionlessCnxnTimeout"):
        with Conclave([f"--{key}", "300"]) as server:
            with zk.Connection(server.address, 10000) as asked:
                began = time.monotonic()
                with socket.create_connection(server.address, timeout=20) as silent:
                    expect(silent.recv(1) == b"", "the connection ends")
                expect(0.2 < time.monotonic() - began < 8, "in time, not after the ten seconds of the default")
                expect(asked.call(zk.exists("/"))[0] == 0, "a connection with a session stays")


@case
def ready_line_and_term():
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([program(), "server", "--listen", "127.0.0.1:0", "--data", "d",
                                   "--admin", "127.0.0.1:0"], cwd=folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            line = server.stdout.readline()
            expect(re.fullmatch(r"conclave: ready client=127\.0\.0\.1:\d+ admin=127\.0\.0\.1:\d+ "
                               r"mode=standalone id=1\n", line),
                   f"ready line: {line!r}")
            began = time.monotonic()
            server.send_signal(signal.SIGTERM)
            out, err = server.communicate(timeout=10)
            expect(server.returncode == 0, f"exit code {server.returncode}: {err}")
            expect(time.monotonic() - began < 2, "SIGTERM took more than 2 s")
            expect(out == "", f"more than one line on stdout: {out!r}")
        finally:
            if server.poll() is None:
                server.kill()
                server.communicate()


@case
def wrong_arguments():
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "many.cfg"), "w", encoding="ascii") as file:
            file.write("server.1=a:2888:3888\nserver.2=b:2888:3888\n")
        with open(os.path.join(folder, "tls.cfg"), "w", encoding="ascii") as file:
            file.write("secureClientPort=2281\n")
        for arguments, word in [
                (["--tickTime", "soon"], "tickTime"), (["--tickTime", "1"], "tickTime"), (["--noSuchKey", "1"], "noSuchKey"),
                (["--listen", "nowhere"], "--listen"), (["--listen", "127.0.0.1:99999"], "--listen"),
                (["--admin", "nonsense"], "--admin"), (["--data"], "--data"), (["missing.cfg"], "missing.cfg"),
                (["many.cfg"], "myid"), (["tls.cfg"], "secureClientPort"), (["a.cfg", "b.cfg"], "more than one"),
                (["--minSessionTimeout", "9000", "--maxSessionTimeout", "8000"], "minSessionTimeout"),
                (["--forceSync", "maybe"], "forceSync")]:
            code, out, err = run(arguments, folder)
            expect(code == 64, f"{arguments}: exit code {code}: {err}")
            expect(out == "" and err.count("\n") == 1 and word in err, f"{arguments}: {out!r} {err!r}")
        code, out, err = run(["--help-all"], folder)
        expect(code == 0 and "--listen" in out and "tickTime" in out and err == "", "--help-all")


@case
def zoo_cfg():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "zoo.cfg")
        with open(path, "w", encoding="ascii") as file:
            file.write("# a comment\n! another\ntickTime = 500\ninitLimit=10\n  syncLimit: 5\nfooBar=1\n"
                       f"dataDir={folder}/da\\\n   ta\nclientPort=0\nserver.3=localhost:2888:3888\n"
                       "admin.serverPort=0\n")
        server = subprocess.Popen([program(), "server", path, "--clientPortAddress", "127.0.0.1"], cwd=folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            line = server.stdout.readline()
            expect(line.endswith(" id=3\n"), f"ready line: {line!r}")
            port = int(re.search(r":(\d+) ", line).group(1))
            with zk.Connection(("127.0.0.1", port), timeout_ms=1) as client:
                expect(client.timeout_ms == 1000, f"two ticks: {client.timeout_ms}")
        finally:
            server.send_signal(signal.SIGTERM)
            _, err = server.communicate(timeout=10)
        for key in ("initLimit", "syncLimit", "fooBar"):
            expect(f"conclave: {key}: " in err, f"{key} is not named: {err}")
        expect(os.path.isdir(os.path.join(folder, "data")), "the joined line's folder")


@case
def port_and_folder_in_use():
    with Conclave() as server, tempfile.TemporaryDirectory() as folder:
        code, _, err = run(["--listen", f"127.0.0.1:{server.port}", "--data", "d"], folder)
        expect(code == 69 and "in use" in err, f"port in use: {code} {err}")
        code, _, err = run(["--listen", "192.0.2.1:0", "--data", "d"], folder)
        expect(code == 69, f"address not ours: {code} {err}")
        code, _, err = run(["--listen", "127.0.0.1:0", "--data", os.path.join(server.folder, "data")], folder)
        expect(code == 74 and "data" in err, f"folder locked: {code} {err}")
        os.makedirs(os.path.join(folder, "apache", "version-2"))
        with open(os.path.join(folder, "apache", "version-2", "log.1"), "wb"):
            pass
        code, _, err = run(["--listen", "127.0.0.1:0", "--data", "apache"], folder)
        expect(code == 74 and "version-2" in err, f"folder of another: {code} {err}")
        with open(os.path.join(folder, "file"), "wb"):
            pass
        code, _, err = run(["--listen", "127.0.0.1:0", "--data", "file"], folder)
        expect(code == 74 and "file" in err, f"no folder: {code} {err}")


@case
def kill_keeps_acknowledged():
    with Conclave() as server:
        acknowledged = []
        for _ in range(5):
            with zk.Connection(server.address) as client:
                first = len(acknowledged)
                xids = [client.send(zk.create(f"/n{first + i}", b"x")) for i in range(200)]
                for i in range(random.randrange(1, 200)):
                    reply = client.read_reply()
                    expect((reply.xid, reply.err) == (xids[i], 0), f"reply {reply}")
                    acknowledged.append(f"/n{first + i}")
            server.restart(hard=True)
            with zk.Connection(server.address) as client:
                err, fields = client.call(zk.get_children("/"))
                names = {"/" + name for name in fields["children"]}
                missing = [path for path in acknowledged if path not in names]
                expect(err == 0 and not missing, f"lost: {missing[:5]}")
                # Writes without an answer may have been carried out: continue after them.
                while f"/n{len(acknowledged)}" in names:
                    acknowledged.append(f"/n{len(acknowledged)}")


@case
def sessions_survive_restart():
    with Conclave() as server:
        old = zk.Connection(server.address)
        expect(old.call(zk.create("/e", flags=zk.EPHEMERAL))[0] == 0, "create")
        for hard in (True, False):
            server.restart(hard=hard)
            again = zk.Connection(server.address, session_id=old.session_id, passwd=old.passwd, last_zxid=old.last_zxid)
            expect(again.session_id == old.session_id and again.passwd == old.passwd, "session taken up again")
            err, fields = again.call(zk.exists("/e"))
            expect(err == 0 and fields["stat"]["ephemeralOwner"] == old.session_id, "ephemeral kept")
            old.drop()
            old = again
        old.close_session()
        with zk.Connection(server.address) as client:
            expect(client.call(zk.exists("/e"))[0] == zk.ERRORS["NONODE"], "ephemeral goes with its session")


@case
def expiry_in_time():
    tick_s, timeout_s = 0.5, 1.5
    # Without syncs: the disk of a busy test machine is not what is measured here.
    with Conclave(tick_ms=500, options=["--forceSync", "no"]) as server:
        watcher = zk.Connection(server.address, timeout_ms=10000)
        for _ in range(3):
            lost = zk.Connection(server.address, timeout_ms=1500)
            expect(lost.timeout_ms == 1500, f"timeout {lost.timeout_ms}")
            expect(lost.call(zk.create("/e", flags=zk.EPHEMERAL))[0] == 0, "create")
            heard = time.monotonic()
            expect(watcher.call(zk.exists("/e", watch=True))[0] == 0, "exists")
            lost.drop()
            event = zk.decode_event(watcher.read_any())
            gone = time.monotonic() - heard
            expect(event.type == zk.NODE_DELETED, f"event {event}")
            expect(timeout_s - 0.05 < gone < timeout_s + tick_s + 0.3, f"gone after {gone:.3f} s\n{server.log_tail()}")
        watcher.drop()


@case
def pause_is_not_held_against_sessions():
    with Conclave(tick_ms=500) as server, zk.Connection(server.address, timeout_ms=1500) as client:
        expect(client.call(zk.create("/e", flags=zk.EPHEMERAL))[0] == 0, "create")
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(4)
        server.process.send_signal(signal.SIGCONT)
        time.sleep(0.3)
        expect(client.call(zk.exists("/e"))[0] == 0, "the session lived through the server's pause")


@case
def wrong_password_disturbs_nobody():
    with Conclave() as server, zk.Connection(server.address) as owner:
        for passwd in (bytes(16), b"\1" * 16, owner.passwd[:15] + bytes([owner.passwd[15] ^ 1]), b"", owner.passwd + b"x"):
            with zk.Connection(server.address, session_id=owner.session_id, passwd=passwd) as thief:
                expect((thief.session_id, thief.timeout_ms, thief.passwd) == (0, 0, bytes(16)), "refused")
                try:
                    thief.read_frame()
                    raise AssertionError("the refused connection stays open")
                except zk.Closed:
                    pass
        expect(owner.call(zk.exists("/"))[0] == 0, "the owner is still served")
        with zk.Connection(server.address, session_id=owner.session_id, passwd=owner.passwd) as newer:
            expect(newer.session_id == owner.session_id, "right password")
            try:
                owner.read_frame()
                raise AssertionError("the older connection stays open")
            except zk.Closed:
                pass


@case
def client_ahead_gets_no_reply():
    with Conclave() as server:
        try:
            zk.Connection(server.address, last_zxid=1 << 40)
            raise AssertionError("a client that has seen more than the server was let in")
        except zk.Closed:
            pass


def raw(server, data, patience=5):
    """Sends bytes on a new connection and returns what comes until the server closes it."""
    with socket.create_connection(server.address, timeout=patience) as s:
        s.sendall(data)
        got = b""
        try:
            while part := s.recv(65536):
                got += part
        except ConnectionResetError:
            pass
        return got


@case
def strangers():
    with Conclave() as server:
        for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"okru", b"\x16\x03\x01\x02\x00\x01", b"\xff" * 64,
                     b"\x7f\xff\xff\xff", zk.i32(0), zk.i32(5) + b"12345", zk.i32(1 << 20)):
            expect(raw(server, data) == b"", f"an answer to {data[:12]!r}")
        log = server.log_tail(20000)
        expect("HTTP on the client port" in log and "four-letter word" in log, "strangers are named in the log")
        with zk.Connection(server.address) as client:
            expect(client.call(zk.exists("/"))[0] == 0, "served")


def mutate(rng, good):
    """A frame that is wrong in one of the ways frames can be wrong; sometimes by chance a right one."""
    request = rng.choice(good)
    body = bytearray(zk.i32(rng.randrange(1 << 30)) + zk.i32(request.op) + request.body)
    kind = rng.randrange(7)
    if kind == 0:
        del body[rng.randrange(len(body)):]
    elif kind == 1:
        body += rng.randbytes(rng.randrange(1, 50))
    elif kind == 2:
        body[4:8] = zk.i32(rng.choice([0, 10, 13, 20, -1, -10, 99, 102, 1 << 30, -1 << 31]))
    elif kind == 3:
        return zk.i32(rng.choice([-1, -1 << 31, 1 << 20, (1 << 31) - 1])) + bytes(body)
    elif kind == 4 and len(body) >= 12:
        body[8:12] = zk.i32(rng.choice([-1, -2, -1 << 31, 1 << 30, len(body), 0]))
    else:
        for _ in range(rng.randrange(1, 5)):
            body[rng.randrange(8 if kind == 5 and len(body) > 8 else 0, len(body))] = rng.randrange(256)
    return zk.i32(len(body)) + bytes(body)


@case
def mutated_frames():
    rng = random.Random(7)
    bad_paths = ["", "/", "a", "//", "/a/", "/a//b", "/.", "/..", "/\0", "/\x01", b"/\xff\xfe", b"/\xed\xa0\x80", None]
    good = [zk.create(path, b"d") for path in ["/m", *bad_paths]]
    good += [zk.set_data("/m", b"e"), zk.delete("/m"), zk.get_data("/m", True), zk.exists("/m", True),
             zk.get_children("/", True), zk.get_acl("/"), zk.set_acl("/m"), zk.sync("/"), zk.ping(), zk.close_session(),
             zk.multi([zk.create("/x"), zk.delete("/x")]), zk.set_watches(0, ["/m"], ["/n"], ["/"]), zk.auth("digest", b"u:p"),
             zk.Request(zk.RECONFIG, b""), zk.create_ttl("/t"), zk.create("/c", op=zk.CREATE_CONTAINER, flags=zk.CONTAINER)]
    with Conclave() as server:
        latencies = []
        stop = threading.Event()

        def good_client():
            with zk.Connection(server.address) as client:
                while not stop.is_set():
                    began = time.monotonic()
                    expect(client.call(zk.get_data("/zookeeper"))[0] == 0, "the good client is served")
                    latencies.append(time.monotonic() - began)
                    time.sleep(0.001)

        watcher = threading.Thread(target=good_client)
        watcher.daemon = True
        watcher.start()
        sent = 0
        while sent < MUTATED_FRAMES:
            try:
                client = zk.Connection(server.address, timeout_ms=4000)
            except (OSError, zk.Closed) as error:
                time.sleep(0.5)  # for the last words in the log
                raise AssertionError(f"a new client was refused:\n{server.log_tail(9000)}") from error
            count = rng.randrange(1, 6)  # one bad frame may end a connection
            try:
                client.socket.sendall(b"".join(mutate(rng, good) for _ in range(count)))
                client.socket.shutdown(socket.SHUT_WR)
                while client.socket.recv(65536):
                    pass
            except OSError:
                pass
            client.drop()
            sent += count
        stop.set()
        watcher.join()
        expect(server.alive(), f"the server died:\n{server.log_tail()}")
        latencies.sort()
        p99 = latencies[int(len(latencies) * 0.99)]
        expect(len(latencies) > 50 and p99 < 0.25, f"good client: {len(latencies)} calls, p99 {p99 * 1000:.1f} ms")
        with zk.Connection(server.address) as client:
            expect(client.call(zk.create("/after"))[0] == 0, "writes go on")


@case
def limits_of_connections():
    with Conclave(options=["--maxClientCnxns", "5"]) as server:
        kept = [zk.Connection(server.address) for _ in range(5)]
        try:
            zk.Connection(server.address)
            raise AssertionError("a sixth connection of one address was served")
        except zk.Closed:
            pass
        kept.pop().drop()
        time.sleep(0.2)
        kept.append(zk.Connection(server.address))
        for client in kept:
            expect(client.call(zk.exists("/"))[0] == 0, "served")
            client.drop()


@case
def slow_reader_holds_little():
    with Conclave() as server, zk.Connection(server.address) as writer:
        expect(writer.call(zk.create("/big", b"x" * 100_000))[0] == 0, "create")
        before = server.memory_kb()[0]
        slow = zk.Connection(server.address)
        slow.socket.settimeout(2)
        frame = zk.i32(1) + zk.i32(zk.GET_DATA) + zk.get_data("/big").body
        try:
            slow.socket.sendall((zk.i32(len(frame)) + frame) * 20_000)
        except (TimeoutError, OSError):
            pass
        expect(writer.call(zk.exists("/"))[0] == 0, "others are served")
        grown = server.memory_kb()[0] - before
        expect(grown < 32 * 1024, f"a client that does not read holds {grown} kB")
        slow.drop()


@case
def slow_reader_keeps_its_session():
    """Its pings wait behind answers that take longer than its timeout; reading those is a sign of life."""
    with Conclave(tick_ms=200) as server, zk.Connection(server.address) as writer:
        parts = [zk.get_data("/big")] * 4
        expect(writer.call(zk.create("/big", b"x" * 900_000))[0] == 0, "create")
        slow = zk.Connection(server.address, 2000)
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.call(zk.create("/slow", flags=zk.EPHEMERAL))
        for _ in range(3):
            slow.send(zk.multi(parts, op=zk.MULTI_READ))
        began = time.monotonic()
        while time.monotonic() - began < 4.0:
            slow.buffered += slow.socket.recv(100_000)
            slow.send(zk.ping())
            expect(writer.call(zk.exists("/slow"))[0] == 0, "the session is alive while it takes its answer")
            time.sleep(0.05)
        for _ in range(3):
            reply = slow.read_any()
            expect(len(reply.body) > 4 * 900_000, f"the answer has {len(reply.body)} bytes")
        expect(writer.call(zk.exists("/slow"))[0] == 0, "and after it")


class Careful(Conclave):
    """A server whose freed memory is overwritten (glibc)."""

    def environment(self):
        return super().environment() | {"MALLOC_PERTURB_": "165"}


@case
def slow_reader_does_not_keep_the_server():
    """Neither when it closes its session with answers unread nor when the server gets SIGTERM.

    Clients are cut after the log is closed: freed memory is overwritten, so that whoever still reads it is found.
    """
    with Careful() as server, zk.Connection(server.address, 40000) as writer:
        expect(writer.call(zk.create("/big", b"x" * 100_000))[0] == 0, "create")
        slow = []
        for reads in range(20, 60, 4):
            client = zk.Connection(server.address, 40000)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(reads):
                client.send(zk.get_data("/big"))
            client.send(zk.close_session())
            slow.append(client)
        time.sleep(0.3)
        began = time.monotonic()
        code = server.stop()
        expect(code == 0, f"exit code {code}: {server.log_tail()}")
        expect(time.monotonic() - began < 5, f"SIGTERM took {time.monotonic() - began:.1f} s")
        for client in slow:
            client.drop()


@case
def pipelined_order():
    with Conclave() as server, zk.Connection(server.address) as client:
        wanted = []
        for i in range(3000):
            request = zk.set_data("/", struct.pack(">i", i)) if i % 3 == 0 else zk.get_data("/")
            wanted.append((client.send(request), request.op, i - i % 3))
        for xid, op, value in wanted:
            reply = client.read_reply()
            expect(reply.xid == xid and reply.err == 0, f"reply {reply.xid}, wanted {xid}")
            if op == zk.GET_DATA:
                data = zk.decode_reply(op, reply)["data"]
                expect(data == struct.pack(">i", value), f"read {data!r} behind the write of {value}")


def dump(client, path="/"):
    """All of the tree below a path as its clients see it: data, stat and ACL by path."""
    tree = {}
    err, fields = client.call(zk.get_children(path, op=zk.GET_CHILDREN2))
    expect(err == 0, f"getChildren2 {path}: error {err}")
    tree[path] = (client.call(zk.get_data(path))[1], client.call(zk.get_acl(path))[1])
    for name in fields["children"]:
        tree.update(dump(client, path.rstrip("/") + "/" + name))
    return tree


def stir(address, number, rng, ends):
    """Writes of all kinds until a time, pipelined, from sessions that are taken over, closed and left in the middle of it."""
    session_id, passwd = 0, bytes(16)
    while time.monotonic() < ends:
        try:
            client = zk.Connection(address, 20000, session_id, passwd)
            session_id, passwd = client.session_id, client.passwd
            if session_id == 0:
                passwd = bytes(16)
                client.drop()
                continue
            sent = 0
            for _ in range(rng.randrange(1, 120)):
                path = f"/s{number}/{rng.randrange(30)}"
                child = path + f"/{rng.randrange(4)}"
                flags = rng.choice((zk.PERSISTENT, zk.EPHEMERAL))
                client.send(rng.choice((
                    zk.create(path), zk.create(child, b"x" * rng.randrange(2000), flags=flags), zk.delete(child),
                    zk.delete(path), zk.set_data(path, os.urandom(rng.randrange(500))),
                    zk.set_acl(path, ((zk.ALL, "world", "anyone"), (zk.READ, "ip", f"10.0.0.{rng.randrange(9)}"))),
                    zk.multi([zk.create(child + "m", flags=flags), zk.set_data(path, b"m"), zk.delete(child)]),
                    zk.multi([zk.delete(child), zk.create(child, flags=flags), zk.check(path, 77)]))))
                sent += 1
            end = rng.random()
            if end < 0.3:  # closed with writes in flight, and perhaps taken over before that is done
                client.send(zk.close_session())
                sent = rng.randrange(sent)
            elif end < 0.6:
                sent = rng.randrange(sent)
            for _ in range(sent):
                client.read_reply()
            client.drop()
        except (zk.Closed, ConnectionError):
            pass


@case
def restart_brings_the_same_tree():
    """Snapshots run all the time below writes, failing multis and sessions that come and go."""
    with Conclave(["--snapCount", "100", "--preAllocSize", "64"]) as server:
        keeper = zk.Connection(server.address, 40000)
        for number in range(4):
            expect(keeper.call(zk.create(f"/s{number}"))[0] == 0, "create")
        for rounds in range(4):
            ends = time.monotonic() + 0.7
            threads = [threading.Thread(target=stir, args=(server.address, number, random.Random(rounds * 4 + number),
                                                           ends)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            time.sleep(0.2)  # the last connections' requests are read, and written before this
            keeper.call(zk.set_data("/s0"))
            before = dump(keeper)
            expect(len(before) > 30, f"{len(before)} nodes")
            server.restart(hard=rounds % 2 == 1)
            keeper = zk.Connection(server.address, 40000, keeper.session_id, keeper.passwd)
            after = dump(keeper)
            differing = [path for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]
            expect(not differing, f"{len(differing)} of {len(before)} nodes differ, {differing[0] if differing else ''}: "
                   f"{before.get(differing[0]) if differing else ''} {after.get(differing[0]) if differing else ''}")
        expect("snapshot_written" in server.log_tail(1 << 20), "no snapshot was taken")
        keeper.drop()


def main():
    missing = why_missing()
    return cases.skip_all(missing) if missing else cases.run(CASES, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
