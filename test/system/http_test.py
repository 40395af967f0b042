"""The HTTP port as a protocol: connections that stay open, requests one behind the other, uploads, answers that go on for
long to slow readers, requests that mean two things, over plain sockets.

Promise: each case starts its own server on free loopback ports and ends it; the last line counts the cases.
Limits: what the routes answer is tested by test/system/admin_test.py, HTTPS by test/system/tls_test.py; every form that the
parser refuses by test/unit/admin/http/http_parser.c.

usage: http_test.py [CASE]...
"""

import os
import re
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402

CASES = []
SUPER = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="  # of super:test
ADMIN = b"Authorization: digest super:test\r\n"
BACKUP = ("--DigestAuthenticationProvider.superDigest", SUPER, "--admin.rateLimiterIntervalInMS", "0",
          "--admin.snapshot.enabled", "true", "--admin.restore.enabled", "true")


def case(function):
    CASES.append(function)
    return function


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def connect(server, receive_buffer=None):
    s = socket.socket()
    if receive_buffer:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    s.settimeout(20)
    s.connect(("127.0.0.1", server.admin_port))
    return s


class Reader:
    """The answers on one connection."""

    def __init__(self, s):
        self.socket = s
        self.bytes = bytearray()

    def more(self):
        part = self.socket.recv(65536)
        expect(part, f"the connection ended behind {bytes(self.bytes[-100:])}")
        self.bytes += part

    def answer(self):
        """(status, {name: value}, body) of the next one."""
        while b"\r\n\r\n" not in self.bytes:
            self.more()
        head, self.bytes = self.bytes.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:])
        status = int(lines[0].split()[1])
        length = int(fields.get("content-length", 0))
        while len(self.bytes) < length:
            self.more()
        body, self.bytes = self.bytes[:length], self.bytes[length:]
        return status, fields, body

    def ended(self):
        return not self.bytes and self.socket.recv(1) == b""


def statuses(server, data):
    """The statuses of all answers to these bytes, up to the end of the connection."""
    with connect(server) as s:
        s.sendall(data)
        got = b""
        try:
            while part := s.recv(65536):
                got += part
        except ConnectionResetError:
            pass
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d+) ", got)]


@case
def connections_stay_open():
    with Conclave(admin=True) as server, connect(server) as s:
        reader = Reader(s)
        for number in range(50):
            s.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" if number % 2 else
                      b"HEAD /metrics HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            status, fields, _ = reader.answer() if number % 2 else head_answer(reader)
            expect(status == 200, f"{status}")
            expect(fields.get("connection") == (None if number % 2 else "keep-alive"), str(fields))
        s.sendall(b"GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n")
        status, fields, _ = reader.answer()
        expect(status == 200 and fields["connection"] == "close" and reader.ended(), str(fields))


def head_answer(reader):
    """The same for HEAD: Content-Length tells of a body that does not come."""
    while not reader.bytes.endswith(b"\r\n\r\n"):
        reader.more()
    expect(int(re.search(rb"Content-Length: (\d+)", reader.bytes).group(1)) > 1000, "the length of the body")
    reader.bytes = bytearray(re.sub(rb"Content-Length: \d+", b"X: y", reader.bytes))
    return reader.answer()


@case
def many_requests_at_once():
    """A burst of requests on one connection delays nobody else, and each gets its answer, in order."""
    count = 3000
    with Conclave(admin=True) as server, connect(server) as s, zk.Connection(server.address) as client:
        longest = 0.0
        s.sendall(b"".join(b"GET /%s HTTP/1.1\r\n\r\n" % (b"livez" if i % 3 else b"nosuch") for i in range(count)) +
                  b"GET /metrics HTTP/1.0\r\n\r\n")
        s.shutdown(socket.SHUT_WR)
        reader = Reader(s)
        for number in range(count):
            if number % 30 == 0:
                began = time.monotonic()
                expect(client.call(zk.exists("/"))[0] == 0, "clients are served")
                longest = max(longest, time.monotonic() - began)
            expect(reader.answer()[0] == (200 if number % 3 else 404), f"answer {number}")
        expect(b"process_resident_memory_bytes" in reader.answer()[2], "the last one")
        expect(reader.ended(), "the end")
        expect(longest < 1, f"another client waited {longest:.2f} s")
        # Long answers that nobody reads: the server makes no more of them than it can send.
        before = server.memory_kb()[0]
        with connect(server, 4096) as deaf:
            deaf.settimeout(1)
            try:
                deaf.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 20000)
            except socket.timeout:
                pass
            expect(client.call(zk.exists("/"))[0] == 0, "clients are served")
            grown = server.memory_kb()[0] - before
        expect(grown < 2048 or "asan" in program(), f"memory grew by {grown} kB")


@case
def uploads_in_any_form():
    with Conclave(BACKUP, admin=True) as server:
        with connect(server) as s:
            s.sendall(b"GET /commands/snapshot HTTP/1.1\r\n" + ADMIN + b"\r\n")
            status, _, data = Reader(s).answer()
            expect(status == 200 and len(data) > 50, f"{status}")
        with connect(server) as s:
            reader = Reader(s)
            head = b"POST /commands/restore HTTP/1.1\r\nHost: localhost\r\n" + ADMIN
            s.sendall(head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(data))
            expect(reader.answer()[0] == 100, "continue")
            s.sendall(data)
            expect(reader.answer()[0] == 200, "with a length")
            s.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
            for at in range(0, len(data), 7):
                part = data[at:at + 7]
                s.sendall(b"%x;x=y\r\n%s\r\n" % (len(part), part))
            s.sendall(b"0\r\nTrailer: x\r\n\r\n")
            expect(reader.answer()[0] == 200, "in chunks")
            s.sendall(head + b"Content-Length: %d\r\n\r\n" % len(data) + data + b"GET /livez HTTP/1.1\r\n\r\n")
            expect(reader.answer()[0] == 200 and reader.answer()[0] == 200, "a request behind it")
            # Not admitted: refused before the body comes.
            s.sendall(b"POST /commands/restore HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
            expect(reader.answer()[0] == 401 and reader.ended(), "refused")


@case
def slow_readers_of_a_snapshot():
    """A long answer is never whole in memory, and a reader may take as long as it likes while it goes on reading."""
    with Conclave([*BACKUP, "--admin.idleTimeout", "4000"], admin=True) as server:
        with zk.Connection(server.address) as client:
            for number in range(60):
                client.send(zk.create(f"/n{number}", os.urandom(500_000)))
            for _ in range(60):
                expect(client.read_reply().err == 0, "create")
        ask = b"GET /commands/snapshot HTTP/1.1\r\nConnection: close\r\n" + ADMIN + b"\r\n"
        with connect(server) as s:
            s.sendall(ask)
            status, fields, whole = Reader(s).answer()
            expect(status == 200 and len(whole) > 30_000_000, f"{status} {fields}")
        before = server.memory_kb()[0]
        slow, deaf = connect(server, 65536), connect(server, 4096)
        slow.sendall(ask)
        got = bytearray(slow.recv(1000))
        deaf.sendall(ask)
        began = time.monotonic()
        while part := slow.recv(300_000):
            got += part
            if time.monotonic() - began < 4:
                time.sleep(0.05)
                grown = server.memory_kb()[0] - before
                expect(grown < 4096 or "asan" in program(), f"memory grew by {grown} kB")
        expect(got.endswith(whole), f"{len(got)} bytes")
        # The one that reads nothing is cut off.
        time.sleep(max(0, began + 6 - time.monotonic()))
        left = 0
        try:
            while part := deaf.recv(65536):
                left += len(part)
        except ConnectionResetError:
            pass
        expect(left < len(whole), "a connection on which nothing moves ends")
        slow.close()
        deaf.close()


@case
def requests_that_mean_two_things():
    hidden = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    post = b"POST /commands/srst HTTP/1.1\r\nHost: localhost\r\n"
    with Conclave(admin=True) as server:
        for data, wanted in (
                (post + b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, [400]),
                (post + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(hidden) + hidden, [400]),
                (post + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden, [501]),
                (post + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden, [400]),
                (post + b"X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, [400]),
                (post + b"X: y\nContent-Length: %d\r\n\r\n" % len(hidden) + hidden, [400]),
                (post + b"X: y\rContent-Length: %d\r\n\r\n" % len(hidden) + hidden, [400]),
                (post + b"X: y\0\r\n\r\n" + hidden, [400]),
                (post + b"Host: other\r\n\r\n" + hidden, [400]),
                (b"GET /%00livez HTTP/1.1\r\n\r\n" + hidden, [400]),
                # A body that nobody reads is no request.
                (post + b"Content-Length: %d\r\n\r\n" % len(hidden) + hidden, [200]),
                (b"GET /livez HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + hidden, [200])):
            got = statuses(server, data)
            expect(got == wanted, f"{data}: {got}")


def main():
    missing = why_missing()
    return cases.skip_all(missing) if missing else cases.run(CASES, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
