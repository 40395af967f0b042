#!/usr/bin/env python3
"""Hostile clients of all kinds, beside one good client who must hardly notice them.

    hostile_test.py [CASE]...

Promise: each case is one kind of attack by a process of its own, on the client port and where it fits on the admin
port, while a good client makes 1,000 calls, get and set in turn, at a steady pace. Another does the same at the same
moments on a twin, a server that nobody attacks: what the machine does to one it does to the other. The p99 of the
first, counted from when each call was due so that a stall counts for every call in it, stays within twice the twin's
and SLACK_MS: below that the two processes differ by what the scheduler does to them.
As a delay of the scheduler's may hit only one of them, a slow case has TRIES tries; an attack that slows the server
does so in each. The server lives, its memory grows by less than RSS_GROWTH_KB over all cases, and its descriptors
return to what they were. The data is in memory where there is /dev/shm: a busy disk would hide what is measured.
Limits: standalone, loopback; peers that vanish without a FIN are those who fall silent: their sessions end in time.
"""

import ctypes
import multiprocessing
import os
import random
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import zkwire as zk  # noqa: E402
from conclave import Conclave, why_missing  # noqa: E402

CALLS = 1000
CALLS_BEFORE = 300       # until both servers have come to rest
PACE_S = 0.002
TRIES = 3
SLACK_MS = 2.0
MEMORY_FOLDER = "/dev/shm"
RSS_GROWTH_KB = 96 * 1024
DESCRIPTORS_S = 10       # until those of a finished attack are closed: sessions of the silent end in 4 s
ATTEMPTS_S = 60
WORK_S = 0.002           # pause between attempts: the attacker is no contest for the processor
HOSTILE_SESSION_MS = 4000
CASES = []


def case(least):
    """An attack: a function (address, admin address, random, ended, count) that tries at least so often."""
    def register(function):
        CASES.append((function, least))
        return function
    return register


# --- the requests -------------------------------------------------------------------------------------------------

def valid_requests():
    """One request at least of every operation, by its number."""
    return [
        zk.create("/h/a", b"data"), zk.create("/h/e", flags=zk.EPHEMERAL), zk.create("/h/s-", flags=2),
        zk.create("/h/b", b"x" * 300, op=zk.CREATE2), zk.create("/h/c", flags=zk.CONTAINER, op=zk.CREATE_CONTAINER),
        zk.create_ttl("/h/t"), zk.delete("/h/a"), zk.exists("/h/a", True), zk.get_data("/h", True),
        zk.set_data("/h/b", b"new", 0), zk.get_acl("/h/b"), zk.set_acl("/h/b", ((31, "digest", "a:b"),)),
        zk.get_children("/h", True), zk.get_children("/h", True, zk.GET_CHILDREN2), zk.sync("/h"), zk.ping(),
        zk.check("/h/b", 1),
        zk.multi([zk.create("/h/m"), zk.set_data("/h/b", b"z"), zk.check("/h/b"), zk.delete("/h/m")]),
        zk.multi([zk.create("/h/x"), zk.delete("/h/missing")]),
        zk.multi([zk.get_data("/h"), zk.get_children("/h")], zk.MULTI_READ),
        zk.Request(zk.RECONFIG, zk.string("s") + zk.string(None) + zk.string("x") + zk.i64(-1)),
        zk.check_watches("/h", 3), zk.check_watches("/h", 3, zk.REMOVE_WATCHES),
        zk.Request(zk.DELETE_CONTAINER, zk.string("/h/c")),
        zk.set_watches(0, ("/h/a",), ("/h/b",), ("/h",)),
        zk.set_watches(1, ("/h/a",), ("/h/b",), ("/h",), ("/h/p",), ("/h/r",)),
        zk.auth("digest", b"u:p"), zk.auth("ip", b""), zk.Request(zk.SASL, zk.buffer(b"\0user\0pass")),
        zk.Request(zk.SASL, zk.buffer(b"")), zk.get_ephemerals("/h"), zk.get_all_children_number("/h"),
        zk.add_watch("/h", 0), zk.add_watch("/h/r", 1), zk.who_am_i(), zk.close_session(),
        zk.Request(zk.CREATE_SESSION, bytes(28)), zk.Request(zk.ERROR, zk.i32(-1)),
        zk.Request(zk.NOTIFICATION, bytes(12)),
    ]


NUMBERS = (0, 1, -1, -2, 4, 0x7fffffff, -0x80000000, 0x00ffffff, 1 << 20, 1 << 28)


def mutate(rng, body):
    """Bytes that were a request: flipped, cut, longer, with wrong numbers, or with parts of themselves."""
    body = bytearray(body)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(body)) if body else 0
        kind = rng.randrange(6)
        if kind == 0 and body:
            body[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del body[at:]
        elif kind == 2:
            body += rng.randbytes(rng.choice((1, 4, 40, 3000)))
        elif kind == 3 and len(body) >= 4:
            at = rng.randrange(len(body) - 3)
            body[at:at + 4] = struct.pack(">i", rng.choice(NUMBERS))
        elif kind == 4:
            del body[at:at + rng.randrange(1, 9)]
        else:
            body[at:at] = body[rng.randrange(len(body) + 1):][:rng.choice((4, 16, 64))]
    return bytes(body)


def shake_hands(address):
    """A connection with a session; None where the server refused."""
    try:
        return zk.Connection(address, HOSTILE_SESSION_MS, patience_s=2)
    except (zk.Closed, OSError, struct.error):
        return None


def throw(address, data, read_s=0.0):
    """Sends bytes to a port, perhaps takes what comes, and leaves: the bytes that came."""
    came = b""
    try:
        with socket.create_connection(address, timeout=2) as target:
            if read_s:
                target.settimeout(read_s)
            target.sendall(data)
            if read_s:
                came = target.recv(65536)
    except OSError:
        pass
    return came


# --- attacks ------------------------------------------------------------------------------------------------------

@case(1000)
def malformed_frames(address, _admin, rng, ended, count):
    """Mutations of a request of every operation; also of the handshake, and frames whose length is a lie."""
    requests = valid_requests()
    missing = set(zk.OP_NAMES) - {request.op for request in requests}
    if missing:
        raise AssertionError(f"no request for the operations {missing}")
    turn = 0
    handshake = zk.i32(0) + zk.i64(0) + zk.i32(HOSTILE_SESSION_MS) + zk.i64(0) + zk.buffer(bytes(16)) + b"\0"
    while not ended.is_set():
        body = mutate(rng, handshake)
        throw(address, zk.i32(len(body)) + body)
        client = shake_hands(address)
        if client is None:
            continue
        frames = b""
        for _ in range(12):
            request = requests[turn % len(requests)]
            body = zk.i32(rng.choice((1, 2, 0, -1, -2, -4, -8, 1 << 30))) + zk.i32(request.op) + request.body
            body = body[:8] + mutate(rng, body[8:]) if rng.random() < 0.8 else mutate(rng, body)
            lie = rng.choice((-1, 1, 1 << 20, -(1 << 31) + 5)) if rng.random() < 0.02 else 0
            frames += struct.pack(">I", (len(body) + lie) & 0xffffffff) + body
            turn += 1
            count.value += 1
        try:
            client.socket.sendall(frames)
            client.socket.settimeout(0.005)
            client.socket.recv(65536)
        except OSError:
            pass
        client.drop()
        time.sleep(WORK_S)


WORDS = (b"ruok", b"srvr", b"stat", b"mntr", b"conf", b"cons", b"dump", b"envi", b"wchs", b"wchc", b"wchp", b"dirs",
         b"isro", b"crst", b"srst", b"gtmk", b"stmk", b"hash", b"kill", b"zzzz", b"\0\0\0\0", b"\xff\xff\xff\xff")


@case(100)
def four_letter_words(address, _admin, rng, ended, count):
    """Whole, cut, too long, byte by byte, unknown, not on the whitelist, with rubbish behind."""
    while not ended.is_set():
        word = rng.choice(WORDS)
        kind = rng.randrange(5)
        if kind == 0:
            throw(address, word, 0.05)
        elif kind == 1:
            throw(address, word[:rng.randrange(4)])
        elif kind == 2:
            throw(address, word * rng.choice((2, 10, 5000)), 0.01)
        elif kind == 3:
            throw(address, word + rng.randbytes(rng.choice((1, 2, 4096))), 0.01)
        else:
            try:
                with socket.create_connection(address, timeout=1) as target:
                    for byte in word:
                        target.send(bytes((byte,)))
                        time.sleep(0.001)
            except OSError:
                pass
        count.value += 1
        time.sleep(WORK_S)


HTTP = (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /commands/stat HTTP/1.0\r\n\r\n", b"POST /commands HTTP/1.1\r\n"
        b"Host: x\r\nContent-Length: -5\r\n\r\nabc", b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"ffffffffffffffff\r\n", b"GET " + b"/.." * 3000 + b" HTTP/1.1\r\n\r\n", b"BREW /pot HTTP/9.9\r\n\r\n",
        b"GET /commands/%00%ff%2e%2e HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: " + b"b" * 70000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000, b"\r\n" * 2000, b"GET", b"PUT / HTTP/1.1\r\nContent-Length: "
        b"99999999999999999999\r\n\r\n", b"GET /?" + b"a=b&" * 4000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")


@case(100)
def http_garbage(address, admin, rng, ended, count):
    """Requests and what is none, to the client port and to the admin port."""
    while not ended.is_set():
        data = rng.choice(HTTP)
        if rng.random() < 0.4:
            data = mutate(rng, data)
        throw(rng.choice((address, admin)), data, rng.choice((0, 0.01)))
        count.value += 1
        time.sleep(WORK_S)


def hello():
    """A real client's first flight of TLS."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    talk = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(into, out, server_hostname="localhost")
    try:
        talk.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


@case(100)
def tls_hellos(address, admin, rng, ended, count):
    """TLS to ports that speak none: whole, cut, changed, and followed by rubbish."""
    first = hello()
    while not ended.is_set():
        data = first if rng.random() < 0.4 else mutate(rng, first)
        throw(rng.choice((address, address, admin)), data, rng.choice((0, 0.01)))
        count.value += 1
        time.sleep(WORK_S)


@case(60)
def slow_clients(address, admin, _rng, ended, count):
    """Sixty who send one byte a second: of the handshake, of a request, of a word, of HTTP."""
    handshake = zk.i32(45) + zk.i32(0) + zk.i64(0) + zk.i32(30000) + zk.i64(0) + zk.buffer(bytes(16)) + b"\0"
    request = zk.create("/h/slow", b"x" * 500)
    frame = zk.i32(8 + len(request.body)) + zk.i32(1) + zk.i32(request.op) + request.body
    held = []
    for number in range(60):
        client = shake_hands(address) if number % 4 == 0 else None
        target = client.socket if client else socket.create_connection(admin if number % 4 == 3 else address, timeout=2)
        held.append((target, (frame, handshake, b"mntr", HTTP[0])[number % 4]))
    at = 0
    while not ended.is_set():
        for target, data in held:
            try:
                target.send(data[at:at + 1])
                count.value += 1
            except OSError:
                pass
        at += 1
        ended.wait(1.0)


@case(40)
def never_readers(address, _admin, _rng, ended, count):
    """Twenty who ask for 100 kB again and again and never take an answer; then for events, too."""
    held = []
    asked = b""
    wanted = [zk.get_data("/big", True), zk.get_children("/h", True), zk.add_watch("/good", 1)] * 40
    for xid, request in enumerate(wanted):
        asked += zk.i32(8 + len(request.body)) + zk.i32(xid + 1) + zk.i32(request.op) + request.body
    while not ended.is_set():
        if len(held) < 20:
            client = shake_hands(address)
            if client:
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.socket.setblocking(False)
                held.append(client)
        for client in list(held):
            try:
                client.socket.send(asked)
                count.value += 1
            except BlockingIOError:
                pass
            except OSError:
                client.drop()
                held.remove(client)
        time.sleep(0.05)


@case(100)
def half_open(address, admin, rng, ended, count):
    """Who connects and says nothing, resets, shuts one side, or falls silent with a session and an ephemeral node."""
    held = []
    while not ended.is_set():
        kind = rng.randrange(5)
        try:
            if kind < 2 and len(held) < 200:
                held.append(socket.create_connection(rng.choice((address, admin)), timeout=2))
            elif kind == 2:
                with socket.create_connection(address, timeout=2) as target:
                    target.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    target.send(rng.randbytes(rng.randrange(1, 40)))
            elif kind == 3:
                target = socket.create_connection(address, timeout=2)
                target.shutdown(socket.SHUT_WR)
                held.append(target)
            else:
                client = shake_hands(address)
                if client:
                    client.send(zk.create(f"/h/silent-{count.value}", flags=zk.EPHEMERAL))
                    held.append(client.socket)
            count.value += 1
        except (OSError, zk.Closed):
            pass
        time.sleep(WORK_S * 2)


# --- the good client ----------------------------------------------------------------------------------------------

def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def p99_ms(client, calls):
    """The p99 of `count` calls at a steady pace, from when each was due."""
    took = []
    due = time.monotonic()
    for number in range(calls):
        time.sleep(max(0.0, due - time.monotonic()))
        request = zk.get_data("/good") if number % 2 else zk.set_data("/good", b"%d" % number)
        err, fields = client.call(request)
        if err != 0 or number % 2 and fields["data"] != b"%d" % (number - 1):
            raise AssertionError(f"the good client's call {number}: error {err}, {fields}")
        took.append((time.monotonic() - due) * 1000)
        due += PACE_S
    took.sort()
    return took[calls * 99 // 100]


def p99_of_both(clients):
    """The p99 of each client, measured at the same time."""
    results = [None, None]

    def measure(place):
        try:
            results[place] = p99_ms(clients[place], CALLS)
        except Exception as error:  # reported by the main thread
            results[place] = error
    threads = [threading.Thread(target=measure, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def attacker(function, address, admin, seed, ended, count):
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: does not outlive the test
    os.nice(10)
    function(address, admin, random.Random(seed), ended, count)


class Attempt:
    """One attack and what was measured."""

    def __init__(self, server, clients, function, least):
        client = clients[0]
        self.start = descriptors(server)
        ended, count = multiprocessing.Event(), multiprocessing.Value("q", 0)
        process = multiprocessing.Process(target=attacker,
                                          args=(function, server.address, server.admin_address, 1, ended, count))
        process.start()
        try:
            while count.value == 0 and process.is_alive():
                time.sleep(0.01)
            self.during, self.twin = p99_of_both(clients)
            self.peak = descriptors(server)
            deadline = time.monotonic() + ATTEMPTS_S  # the attacker is slow where others take the processors
            while count.value < least and process.is_alive() and time.monotonic() < deadline:
                for each in clients:
                    each.call(zk.ping())
                time.sleep(0.02)
        finally:
            ended.set()
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()
        deadline = time.monotonic() + DESCRIPTORS_S
        while descriptors(server) > self.start and time.monotonic() < deadline:
            for each in clients:
                each.call(zk.ping())
            time.sleep(0.05)
        self.count, self.exit_code = count.value, process.exitcode
        self.left, self.rss = descriptors(server), server.memory_kb()[0]

    def slowed(self):
        return self.during > 2 * self.twin + SLACK_MS

    def figures(self):
        return (f"p99 {self.during:.2f} ms, the twin's {self.twin:.2f} ms, {self.count} attempts, "
                f"descriptors {self.start} -> {self.peak} -> {self.left}, RSS {self.rss // 1024} MB")


def attack(server, clients, function, least):
    """One case; returns a line of figures."""
    tries = 0
    while True:
        found = Attempt(server, clients, function, least)
        tries += 1
        wrong = [text for failed, text in (
            (found.exit_code != 0, f"the attacker ended with {found.exit_code}"),
            (found.count < least, f"only {found.count} attempts, wanted {least}"),
            (found.left > found.start, "descriptors are left"),
            (found.rss - server.rss_at_start > RSS_GROWTH_KB, f"memory grew from {server.rss_at_start // 1024} MB"),
            (found.slowed() and tries == TRIES, f"the good client was slowed in each of {TRIES} tries")) if failed]
        if wrong:
            raise AssertionError(f"{'; '.join(wrong)}: {found.figures()}\n{server.log_tail()}")
        if not found.slowed():
            return found.figures() + (f", {tries} tries" if tries > 1 else "")
        print(f"slow    {function.__name__}: {found.figures()}", flush=True)


class HostileServer(Conclave):
    """Ours with the admin port on."""

    def __init__(self):
        super().__init__(["--extendedTypesEnabled", "true"], tick_ms=500, admin=True)

    @property
    def admin_address(self):
        return "127.0.0.1", self.admin_port


def main():
    missing = why_missing()
    if missing:
        print(f"skipped: {missing}")
        return 77
    passed = failed = 0
    if os.access(MEMORY_FOLDER, os.W_OK):
        tempfile.tempdir = MEMORY_FOLDER
    with HostileServer() as server, HostileServer() as twin, zk.Connection(server.address, 10000) as client, \
            zk.Connection(twin.address, 10000) as other:
        for path, data in (("/good", b""), ("/h", b""), ("/big", b"x" * 100_000)):
            for each in (client, other):
                each.call(zk.create(path, data))
        for each in (client, other):
            p99_ms(each, CALLS_BEFORE)
        server.rss_at_start = server.memory_kb()[0]
        for function, least in CASES:
            if sys.argv[1:] and function.__name__ not in sys.argv[1:]:
                continue
            try:
                figures = attack(server, (client, other), function, least)
                passed += 1
                print(f"ok      {function.__name__}: {figures}", flush=True)
            except Exception:
                failed += 1
                print(f"FAILED  {function.__name__}\n{traceback.format_exc()}", flush=True)
                if not server.alive():
                    break
        if server.stop() != 0:
            failed += 1
            print(f"FAILED  the server's end\n{server.log_tail()}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
