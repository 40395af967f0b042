#!/usr/bin/env python3
"""Clients that make the server keep as much as they can: watches on long paths, answers that nobody reads, requests that
never end, ids, ephemerals with long paths; and data up to their limit.

    memory_test.py [CASE]...

Promise: in each case the server's peak of memory (VmHWM) grows by less than GROWTH_KB, most of it is given back when the
clients have gone, the server works less than CPU_S on it, another client is served meanwhile, and the server starts again
after kill -9 with less than CPU_S of work.
Limits: standalone, loopback, limits set low, so that the test needs little memory. The other client's longest wait is
printed and no more than its session allows: on a busy machine it says more about the machine than about the server.
"""

import os
import socket
import sys
import time
import traceback
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import zkwire as zk  # noqa: E402
from bystander import Bystander, cpu_s  # noqa: E402
from conclave import Conclave, why_missing  # noqa: E402

MIB = 1 << 20
GROWTH_KB = 80 * 1024
KEPT_KB = 48 * 1024   # memory that the allocator may keep once the clients have gone
WAIT_S = 30.0
CPU_S = 8.0
SETTLE_S = 15
OPTIONS = ["--maxWatchBytesPerConnection", str(16 * MIB), "--maxBufferBytes", str(64 * MIB),
           "--maxBufferBytesPerAddress", str(24 * MIB), "--maxDataBytes", str(64 * MIB)]
QUOTA_EXCEEDED, THROTTLED = -125, -127
CASES = []


def case(*options, admin=False):
    """A case with what its server is started with beside OPTIONS: a function (server, held)."""
    def register(function):
        CASES.append((function, options, admin))
        return function
    return register


def expect(what, wanted):
    if not wanted:
        raise AssertionError(what)


# --- the cases: each returns what it found; connections that are still open are the clients' ------------------------

@case()
def watches_on_long_paths(server, held):
    """400 watches on absent paths of 500 KB: 200 MB of paths."""
    client = zk.Connection(server.address, 30000, patience_s=60)
    held.append(client)
    errors = {}
    for number in range(400):
        err, _ = client.call(zk.exists(f"/{number:03}" + "x" * 500_000, True))
        errors[err] = errors.get(err, 0) + 1
    expect(f"no watch was refused: {errors}", sum(n for err, n in errors.items() if err != -101) > 300)
    return errors


@case()
def answers_that_nobody_reads(server, held):
    """100 who ask for 3 MB, as much as an answer may have, four times each, and take nothing. The kernel takes the first."""
    with zk.Connection(server.address, 30000, patience_s=60) as client:
        expect("no large node", client.call(zk.create("/large", b"x" * 1_000_000))[0] == 0)
    for _ in range(100):
        client = zk.Connection(server.address, 30000)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(4):
            client.send(zk.multi([zk.get_data("/large")] * 3, zk.MULTI_READ))
        held.append(client)
    with zk.Connection(server.address, 30000) as client:  # served behind all of them
        expect("a small read was refused", client.call(zk.exists("/large"))[0] == 0)
    return ""


@case()
def requests_that_never_end(server, held):
    """150 who send 900 kB of a request of 1 MB."""
    for _ in range(150):
        client = zk.Connection(server.address, 30000)
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


@case()
def first_frames_that_are_long(server, held):
    """200 connections without a session each send as much as a request may have."""
    for _ in range(200):
        target = socket.create_connection(server.address, timeout=5)
        target.setblocking(False)
        try:
            target.send(zk.i32(1_000_000) + b"x" * 500_000)
        except OSError:
            pass
        held.append(target)
    return ""


@case()
def thousands_of_ids(server, held):
    """5,000 made-up ids of one client."""
    client = zk.Connection(server.address, 30000)
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


@case()
def ephemerals_with_long_paths(server, held):
    """200 ephemerals below a node with a long name; their session ends."""
    client = zk.Connection(server.address, 30000, patience_s=60)
    held.append(client)
    for length in (500_000, 8_000):
        top = "/" + "n" * length
        if client.call(zk.create(top))[0] == 0:
            break
    for number in range(200):
        expect("no ephemeral", client.call(zk.create(f"{top}/{number}", flags=zk.EPHEMERAL))[0] == 0)
    expect("no end of the session", client.call(zk.close_session())[0] == 0)
    with zk.Connection(server.address, 30000, patience_s=60) as other:
        expect("no deletion", other.call(zk.delete(top))[0] == 0)
    return f"names of {length} bytes"


@case()
def data_up_to_the_limit(server, held):
    """Fills until writes are refused, deletes, and goes on, several times."""
    client = zk.Connection(server.address, 30000, patience_s=60)
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
        with zk.Connection(server.address, 30000) as other:
            expect("no read at the limit", other.call(zk.get_data("/data-1"))[0] == 0)
        for number in range(count):
            expect("a deletion was refused", client.call(zk.delete(f"/data-{number}"))[0] == 0)
        counts.append(count)
    expect(f"room got lost: {counts}", counts[-1] == counts[0])
    return f"{counts[0]} nodes of 1 MB each time"


@case("--maxBufferBytes", "14300000")
def one_large_holder_among_many_small(server, held):
    """It keeps 1 MB of answers at least, 230 others 60 kB each of unfinished requests: more than all together may have."""
    with zk.Connection(server.address, 30000, patience_s=60) as client:
        expect("no large node", client.call(zk.create("/large", b"x" * 1_000_000))[0] == 0)
        expect("no small node", client.call(zk.create("/small"))[0] == 0)
    large = zk.Connection(server.address, 30000, patience_s=60)
    held.append(large)
    large.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    for _ in range(4):
        large.send(zk.multi([zk.get_data("/large")] * 3, zk.MULTI_READ))
    body = zk.i32(1) + zk.i32(zk.SET_DATA) + zk.set_data("/small", b"y" * 65_000).body
    request = zk.i32(len(body)) + body
    small = [zk.Connection(server.address, 30000, patience_s=60) for _ in range(230)]
    held.extend(small)
    for client in small:
        client.socket.sendall(request[:60_000])
    deadline = time.monotonic() + SETTLE_S
    while "it kept the most" not in server.log_tail(1 << 20):
        expect("nobody was cut off", time.monotonic() < deadline)
        time.sleep(0.02)
    for client in small:
        client.socket.sendall(request[60_000:])
    for client in small:
        expect("a small one was refused", client.read_reply().err == 0)
    cut = [line for line in server.log_tail(1 << 20).splitlines() if "it kept the most" in line]
    expect(f"cut off were {cut}", len(cut) == 1 and f"session=0x{large.session_id:x} " in cut[0])
    return "the large one was cut off, 230 small ones went on"


def told(server, what):
    """The second line of /readyz: the alarm, or nothing."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.admin_port}/readyz", timeout=30) as answer:
        text = answer.read().decode()
    expect(f"/readyz says {text!r}", what in text if what else "maxDataBytes" not in text)


def fill(client, until):
    """Adds `until` nodes of 1 MB, or fewer if the server refuses one. Returns their number."""
    count = 0
    while count < until and client.call(zk.create(f"/data-{count}", b"d" * 1_000_000))[0] == 0:
        count += 1
    return count


@case(admin=True)
def alarm_and_return(server, held):
    """Near the limit the server warns; at the limit it refuses only writes that add data; after deletions it recovers."""
    client = zk.Connection(server.address, 30000, patience_s=60)
    held.append(client)
    told(server, None)
    expect("no room", fill(client, 56) == 56)
    told(server, "more than 4/5 of maxDataBytes")
    expect("there is no limit", fill(client, 200) == 0)  # /data-0 is there
    count = 56
    while client.call(zk.create(f"/data-{count}", b"d" * 1_000_000))[0] == 0:
        count += 1
        expect("there is no limit", count < 200)
    told(server, "the data reached maxDataBytes")
    with zk.Connection(server.address, 30000) as other:
        for request in (zk.create("/more"), zk.multi([zk.create("/more")]), zk.set_data("/data-0", b"x" * 1_000_001),
                        zk.create("/e", flags=zk.EPHEMERAL)):
            expect(f"{request} was carried out", other.call(request)[0] == QUOTA_EXCEEDED)
        expect("no read", other.call(zk.get_data("/data-3"))[0] == 0)
        expect("no smaller data", other.call(zk.set_data("/data-0", b"x"))[0] == 0)
        for number in range(count):
            expect("no deletion", other.call(zk.delete(f"/data-{number}"))[0] == 0)
        told(server, None)
        expect("refused for ever", other.call(zk.create("/more"))[0] == 0)
    log = server.log_tail(1 << 20)
    for event in ("data-limit-near", "data-limit-reached", "data-limit-left"):
        expect(f"the log lacks {event}", event in log)
    return f"{count} nodes of 1 MB"


def rss_kb(server):
    return server.memory_kb()[0]


def run(function, options, admin):
    """One case with a server of its own; returns a line of figures."""
    held = []
    with Conclave([*OPTIONS, *options], admin=admin) as server:
        bystander = Bystander(server.address)
        bystander.start()
        start = rss_kb(server)
        found = function(server, held)
        peak = server.memory_kb()[1]
        for client in held:
            (client.drop if isinstance(client, zk.Connection) else client.close)()
        deadline = time.monotonic() + SETTLE_S
        while rss_kb(server) - start > KEPT_KB and time.monotonic() < deadline:
            time.sleep(0.1)
        after = rss_kb(server)
        worked = cpu_s(server)
        waited = bystander.finish(WAIT_S)
        server.restart(hard=True)
        again = cpu_s(server)
        figures = (f"RSS {start >> 10} -> {peak >> 10} -> {after >> 10} MB, {worked:.1f} s of CPU, the bystander "
                   f"waited {waited * 1000:.0f} ms, the start after kill -9 {again:.1f} s of CPU, {server.start_s:.2f} s; "
                   f"{found}")
        expect(f"too much work: {figures}", worked < CPU_S)
        expect(f"memory grew: {figures}", peak - start < GROWTH_KB)
        expect(f"memory was kept: {figures}", after - start < KEPT_KB)
        expect(f"much work at the start: {figures}", again < CPU_S)
        with zk.Connection(server.address) as client:
            expect("no answer after the restart", client.call(zk.exists("/"))[0] == 0)
        expect(f"the server's end\n{server.log_tail()}", server.stop() == 0)
    return figures


def main():
    missing = why_missing()
    if missing:
        print(f"skipped: {missing}")
        return 77
    passed = failed = 0
    for function, options, admin in CASES:
        if sys.argv[1:] and function.__name__ not in sys.argv[1:]:
            continue
        try:
            print(f"ok      {function.__name__}: {run(function, options, admin)}", flush=True)
            passed += 1
        except Exception:
            print(f"FAILED  {function.__name__}\n{traceback.format_exc()}", flush=True)
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
