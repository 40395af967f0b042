#!/usr/bin/env python3
"""Debian's zktop, which draws the four-letter word `stat`, on Apache ZooKeeper and on ours: the same screens.

Promise: zktop runs in a terminal of a fixed size, as an operator runs it; the screen is read, not the bytes. Compared
are all of its fields but ports, latencies and what counts zktop's own questions.
Limits: needs Debian's zktop and python3-pyte.
"""

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import pair  # noqa: E402
import zkwire as zk  # noqa: E402

LINES, COLUMNS = 24, 100
PATIENCE_S = 20
REFRESH_S = 0.5
OWN_FIELDS = re.compile(r"^(\S+) +\d+ (\d) (\d) +(\d+) +(\d+) +(\d+)$")  # host, port, server, interest, queued, in, out


class Top:
    """A zktop in a terminal of its own."""

    def __init__(self, server):
        if not shutil.which("zktop"):
            raise pair.Skip("no zktop (Debian: zktop)")
        try:
            import pyte
        except ImportError:
            raise pair.Skip("no module pyte (Debian: python3-pyte)") from None
        self.screen = pyte.Screen(COLUMNS, LINES)
        self.stream = pyte.ByteStream(self.screen)
        self.master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.process = subprocess.Popen(["zktop", "--servers", server.host, "--timeout", "5"], stdin=terminal,
                                        stdout=terminal, stderr=subprocess.DEVNULL, env=dict(os.environ, TERM="linux"))
        os.close(terminal)

    def press(self, key):
        os.write(self.master, key.encode())

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def wait(self, wanted, what):
        """The screen's lines as soon as wanted(lines) holds; asks zktop to look again meanwhile."""
        deadline = time.monotonic() + PATIENCE_S
        asked = time.monotonic()
        while not wanted(self.lines()):
            if select.select([self.master], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):  # the terminal's end, when zktop has ended
                    self.stream.feed(os.read(self.master, 65536))
            if time.monotonic() - asked > REFRESH_S:
                self.press(" ")
                asked = time.monotonic()
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("\n".join([f"waited for: {what}; exit code {self.process.poll()}", *self.lines()]))
        return self.lines()

    def quit(self):
        """Ends it with its own key; the exit code."""
        self.press("q")
        return self.process.wait(PATIENCE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


def server_line(lines):
    """The fields of the server's line: ID SERVER PORT M OUTST RECVD SENT CONNS MINLAT AVGLAT MAXLAT."""
    return lines[3].split()


def sessions(lines):
    """(host, server, interest, queued, received, sent) of each client, without those who only ask by words."""
    found = [OWN_FIELDS.match(line) for line in lines[6:]]
    return sorted(match.groups() for match in found if match and match.group(6) != "0")


def ensemble(lines):
    match = re.fullmatch(r"Ensemble -- nodecount:(\d+) zxid:0x([0-9a-f]+) sessions:(\d+)", lines[0])
    return [int(match.group(1)), int(match.group(2), 16), int(match.group(3))] if match else [0, 0, 0]


def overview(server):
    """The ensemble's line, the server's and the clients', as nodes and clients come and go."""
    seen = []
    with Top(server) as top:
        first = ensemble(top.wait(lambda lines: server_line(lines)[3:4] == ["S"] and lines[2] and lines[5],
                                  "the server's line and both headers"))
        seen += [*top.lines()[2:3], *top.lines()[5:6], f"nodes {first[0]} clients {first[2]}"]
        with zk.Connection(server.address) as one, zk.Connection(server.address) as two:
            for name in "abc":
                one.call(zk.create(f"/top-{name}"))
            two.call(zk.get_data("/top-a"))
            lines = top.wait(lambda lines: len(sessions(lines)) == 2 and ensemble(lines)[2] == 3
                             and ensemble(lines)[0] == first[0] + 3, "two clients and three nodes")
            zxids = ensemble(lines)[1] - first[1]
            seen += [f"zxids {zxids}", f"connections {server_line(lines)[7]}", *sessions(lines)]
            fractions = [bool(re.fullmatch(form, word))
                         for form, word in zip((r"\d+", r"\d+\.\d+", r"\d+"), server_line(lines)[8:])]
            seen.append(f"latencies {fractions}")
            for name in "abc":
                one.call(zk.delete(f"/top-{name}"))
            one.close_session()
            two.close_session()
        # A server may count a session as ended before it has closed the socket, so the list is waited for, too.
        top.wait(lambda lines: ensemble(lines)[2] == 1 and ensemble(lines)[0] == first[0] and not sessions(lines),
                 "all gone again")
        seen.append(f"exit code {top.quit()}")
    return seen


def reset(server):
    """The server's counters show, and are small again after srst (zktop's own key for it sends nothing)."""
    with zk.Connection(server.address) as client, Top(server) as top:
        for _ in range(2000):
            client.call(zk.exists("/"))
        top.wait(lambda lines: len(server_line(lines)) > 6 and min(map(int, server_line(lines)[5:7])) >= 2000, "2000 requests")
        with socket.create_connection(server.address) as word:
            word.sendall(b"srst")
            answer = word.recv(100)
        top.wait(lambda lines: max(map(int, server_line(lines)[5:7])) < 1000, "few requests")
        client.close_session()
        return [answer, top.quit()]


def away(server):
    """A server that is killed shows as unavailable, and as it was when it is there again."""
    with Top(server) as top:
        top.wait(lambda lines: server_line(lines)[3:4] == ["S"], "the server's line")
        server.kill()
        seen = [top.wait(lambda lines: server_line(lines)[3:4] == ["U"], "unavailable")[0]]
        server.start()
        top.wait(lambda lines: server_line(lines)[3:4] == ["S"], "the server again")
        return [*seen, top.quit()]


if __name__ == "__main__":
    pair.main((overview, reset, away), ours_only={"options": ["--4lw.commands.whitelist", "stat,srst"]})
