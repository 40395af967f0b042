#!/usr/bin/env python3
"""Clients that make the server keep as much as they can: watches on long paths, answers that nobody reads, requests that
never end, ids, ephemerals with long paths; and data up to their limit.

    memory_test.py [CASE]...

Promise: in each case the server's memory grows by less than GROWTH_KB, most of it is given back when the clients have
gone, the server works less than CPU_S on it, another client is served meanwhile, and the server starts again.
Limits: standalone, loopback, limits set low, so that the test needs little memory. The other client's longest wait is
printed and no more than its session allows: on a busy machine it says more about the machine than about the server.
"""

import os
import socket
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import zkwire as zk  # noqa: E402
from conclave import Conclave, why_missing  # noqa: E402

MIB = 1 << 20
GROWTH_KB = 80 * 1024
KEPT_KB = 48 * 1024   # what the allocator may keep once the clients have gone
WAIT_S = 30.0
CPU_S = 8.0
SETTLE_S = 15
OPTIONS = ["--maxWatchBytesPerConnection", str(16 * MIB), "--maxBufferBytes", str(64 * MIB),
           "--maxBufferBytesPerAddress", str(24 * MIB), "--maxDataBytes", str(64 * MIB)]
QUOTA_EXCEEDED, THROTTLED = -125, -127
CASES = []


def case(function):
    CASES.append(function)
    return function


class Bystander(threading.Thread):
    """Somebody who reads a small node all the time; remembers the longest wait."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.client = zk.Connection(address, 30000)
        self.ended = threading.Event()
        self.longest = 0.0
        self.error = None

    def run(self):
        try:
            while not self.ended.is_set():
                began = time.monotonic()
                err, _ = self.client.call(zk.exists("/"))
                if err != 0:
                    raise AssertionError(f"the bystander's call: error {err}")
                self.longest = max(self.longest, time.monotonic() - began)
                self.ended.wait(0.005)
        except Exception as error:  # told by the main thread
            self.error = error

    def finish(self):
        self.ended.set()
        self.join()
        self.client.drop()
        if self.error:
            raise self.error
        if self.longest > WAIT_S:
            raise AssertionError(f"the bystander waited {self.longest:.1f} s")


def expect(what, wanted):
    if not wanted:
        raise AssertionError(what)


# --- the cases: each returns what it found; connections that are still open are the clients' ------------------------

@case
def watches_on_long_paths(address, held):
    """400 watches on absent paths of 500 KB: 200 MB of paths."""
    client = zk.Connection(address, 30000, patience_s=60)
    held.append(client)
    errors = {}
    for number in range(400):
        err, _ = client.call(zk.exists(f"/{number:03}" + "x" * 500_000, True))
        errors[err] = errors.get(err, 0) + 1
    expect(f"no watch was refused: {errors}", sum(n for err, n in errors.items() if err != -101) > 300)
    return errors


@case
def answers_that_nobody_reads(address, held):
    """100 who ask for 3 MB, as much as an answer may have, four times each, and take nothing. The kernel takes the first."""
    with zk.Connection(address, 30000, patience_s=60) as client:
        expect("no large node", client.call(zk.create("/large", b"x" * 1_000_000))[0] == 0)
    for _ in range(100):
        client = zk.Connection(address, 30000)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(4):
            client.send(zk.multi([zk.get_data("/large")] * 3, zk.MULTI_READ))
        held.append(client)
    with zk.Connection(address, 30000) as client:  # served behind all of them
        expect("a small read was refused", client.call(zk.exists("/large"))[0] == 0)
    return ""


@case
def requests_that_never_end(address, held):
    """150 who send 900 kB of a request of 1 MB."""
    for _ in range(150):
        client = zk.Connection(address, 30000)
        client.socket.setblocking(False)
        data = zk.i32(1_000_000) + b"x" * 900_000
        for _ in range(20):
            try:
                data = data[client.socket.send(data):]
            except BlockingIOError:
                time.sleep(0.002)
            if not data:
                break
        held.append(client)
    return ""


@case
def first_frames_that_are_long(address, held):
    """200 who are nobody yet and send as much as a request may have."""
    for _ in range(200):
        target = socket.create_connection(address, timeout=5)
        target.setblocking(False)
        try:
            target.send(zk.i32(1_000_000) + b"x" * 500_000)
        except OSError:
            pass
        held.append(target)
    return ""


@case
def thousands_of_ids(address, held):
    """5,000 made-up ids of one client."""
    client = zk.Connection(address, 30000)
    held.append(client)
    number = 0
    try:
        while number < 5000:
            client.call(zk.auth("digest", b"user%d:%s" % (number, b"p" * 200)))
            number += 1
    except (zk.Closed, OSError):
        pass
    expect(f"{number} ids were taken", number < 5000)
    return f"{number} ids"


@case
def ephemerals_with_long_paths(address, held):
    """200 ephemerals below a node with a long name; their session ends."""
    client = zk.Connection(address, 30000, patience_s=60)
    held.append(client)
    for length in (500_000, 8_000):
        top = "/" + "n" * length
        if client.call(zk.create(top))[0] == 0:
            break
    for number in range(200):
        expect("no ephemeral", client.call(zk.create(f"{top}/{number}", flags=zk.EPHEMERAL))[0] == 0)
    expect("no end of the session", client.call(zk.close_session())[0] == 0)
    with zk.Connection(address, 30000, patience_s=60) as other:
        expect("no deletion", other.call(zk.delete(top))[0] == 0)
    return f"names of {length} bytes"


@case
def data_up_to_the_limit(address, held):
    """Fills until writes are refused, deletes, and goes on, several times."""
    client = zk.Connection(address, 30000, patience_s=60)
    held.append(client)
    counts = []
    for _ in range(4):
        count = 0
        while True:
            err, _ = client.call(zk.create(f"/data-{count}", b"d" * 1_000_000))
            if err != 0:
                break
            count += 1
            expect("there is no limit", count < 200)
        expect(f"refused with {err}", err == QUOTA_EXCEEDED)
        expect("larger data were taken", client.call(zk.set_data("/", b"x" * 100))[0] == QUOTA_EXCEEDED)
        expect("smaller data were refused", client.call(zk.set_data("/data-0", b"d"))[0] == 0)
        with zk.Connection(address, 30000) as other:
            expect("no read at the limit", other.call(zk.get_data("/data-1"))[0] == 0)
        for number in range(count):
            expect("a deletion was refused", client.call(zk.delete(f"/data-{number}"))[0] == 0)
        counts.append(count)
    expect(f"room got lost: {counts}", counts[-1] == counts[0])
    return f"{counts[0]} nodes of 1 MB each time"


def rss_kb(server):
    return server.memory_kb()[0]


def cpu_s(server):
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(function):
    """One case with a server of its own; returns a line of figures."""
    held = []
    with Conclave(OPTIONS) as server:
        bystander = Bystander(server.address)
        bystander.start()
        start = rss_kb(server)
        peak = [start]
        watching = threading.Event()

        def watch():
            while not watching.wait(0.02):
                peak[0] = max(peak[0], rss_kb(server))
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            found = function(server.address, held)
        finally:
            watching.set()
            watcher.join()
        peak[0] = max(peak[0], rss_kb(server))
        for client in held:
            (client.drop if isinstance(client, zk.Connection) else client.close)()
        deadline = time.monotonic() + SETTLE_S
        while rss_kb(server) - start > KEPT_KB and time.monotonic() < deadline:
            time.sleep(0.1)
        after = rss_kb(server)
        worked = cpu_s(server)
        bystander.finish()
        figures = (f"RSS {start >> 10} -> {peak[0] >> 10} -> {after >> 10} MB, {worked:.1f} s of CPU, the bystander "
                   f"waited {bystander.longest * 1000:.0f} ms; {found}")
        expect(f"too much work: {figures}", worked < CPU_S)
        expect(f"memory grew: {figures}", peak[0] - start < GROWTH_KB)
        expect(f"memory was kept: {figures}", after - start < KEPT_KB)
        expect(f"the server's end\n{server.log_tail()}", server.stop() == 0)
        server.start()
        with zk.Connection(server.address) as client:
            expect("no answer after the restart", client.call(zk.exists("/"))[0] == 0)
    return figures


def main():
    missing = why_missing()
    if missing:
        print(f"skipped: {missing}")
        return 77
    passed = failed = 0
    for function in CASES:
        if sys.argv[1:] and function.__name__ not in sys.argv[1:]:
            continue
        try:
            print(f"ok      {function.__name__}: {run(function)}", flush=True)
            passed += 1
        except Exception:
            print(f"FAILED  {function.__name__}\n{traceback.format_exc()}", flush=True)
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
