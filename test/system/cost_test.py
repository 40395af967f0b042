#!/usr/bin/env python3
"""Small requests that once cost everything: what they cost the server, a bystander, and the start after them.

    cost_test.py [CASE]...

Promise: each attack is sent whole, as an anonymous client can. The server's own processor seconds (/proc/PID/stat) and
the growth of its memory stay below bounds that the unbounded server passed by ten times and more, a bystander's call is
answered, and after kill -9 the server is back without paying again.
Limits: standalone, loopback; figures of the server, not of the machine, so another load does not change them much.
"""

import os
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import zkwire as zk  # noqa: E402
from conclave import Conclave, why_missing  # noqa: E402

CPU_S = 0.5
MEMORY_KB = 48 * 1024
CASES = []
TICK = os.sysconf("SC_CLK_TCK")


def case(function):
    CASES.append(function)
    return function


def cpu_s(server):
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def expect(reply, *wanted):
    if reply[0] not in wanted:
        raise AssertionError(f"error {reply[0]}, wanted one of {wanted}")


def authenticate(client, count, size=40):
    """As so many made-up users, as far as the server lets one; a refusal ends the connection."""
    for number in range(count):
        if client.call(zk.auth("digest", b"%0*d:p" % (size, number)))[0] != 0:
            raise AssertionError(f"user {number} was refused")


@case
def auth_in_an_acl_does_not_multiply(client, _other):
    authenticate(client, 30)
    acl = tuple((perms, "auth", "") for perms in range(20000))
    expect(client.call(zk.create("/s1", b"", acl)), zk.ERRORS["INVALIDACL"])
    expect(client.call(zk.create("/s1", b"", acl[1:4])), 0)


@case
def more_ids_than_anybody_has(_client, other):
    try:
        authenticate(other, 60)
    except (AssertionError, zk.Closed, OSError):
        return
    raise AssertionError("60 ids were taken")


@case
def long_ids_in_each_write(_client, other):
    """A write takes its client's ids into the log: more than 4 KiB of them are not taken."""
    try:
        authenticate(other, 30, 400)
    except (AssertionError, zk.Closed, OSError):
        return
    raise AssertionError("12 KB of ids were taken")


@case
def lists_times_ids_times_parts(client, _other):
    authenticate(client, 30)
    acl = tuple((31, "digest", f"u{number:06d}:x") for number in range(255)) + ((31, "world", "anyone"),)
    expect(client.call(zk.create("/s2", b"", acl)), 0)
    long = tuple((31, "digest", f"u{number:06d}:x") for number in range(20000))
    expect(client.call(zk.create("/s2-long", b"", long)), zk.ERRORS["INVALIDACL"])
    expect(client.call(zk.multi([zk.check("/s2")] * 10000)), 0)
    expect(client.call(zk.multi([zk.check("/s2")] * 10001)), zk.ERRORS["BADARGUMENTS"])
    expect(client.call(zk.multi([zk.get_children("/s2")] * 10001, zk.MULTI_READ)), zk.ERRORS["BADARGUMENTS"])


@case
def counts_of_quotas_walk_over_nothing(client, _other):
    for part in range(10):
        expect(client.call(zk.multi([zk.create(f"/n{part}-{number}") for number in range(5000)])), 0)
    pair = [zk.create("/zookeeper/quota/q/zookeeper_stats"), zk.delete("/zookeeper/quota/q/zookeeper_stats")]
    expect(client.call(zk.create("/q")), 0)
    expect(client.call(zk.create("/zookeeper/quota/q")), 0)
    expect(client.call(zk.multi(pair * 5000)), 0)
    err, fields = client.call(zk.multi([zk.create("/zookeeper/quota/zookeeper_stats")]))
    if err == 0 and fields["results"][0][1] == 0:
        raise AssertionError("counts that belong to no subtree were made")


@case
def deep_paths_below_a_recursive_watch(client, other):
    expect(other.call(zk.add_watch("/", 1)), 0)
    path = ""
    for _ in range(256):
        path += "/x"
        expect(client.call(zk.create(path)), 0)
    expect(client.call(zk.create(path + "/x")), zk.ERRORS["BADARGUMENTS"])
    expect(client.call(zk.create("/" + "p" * 8192)), zk.ERRORS["BADARGUMENTS"])
    expect(client.call(zk.multi([zk.set_data(path, b"x")] * 500)), 0)


def run(function):
    with Conclave() as server:
        with zk.Connection(server.address, 30000) as client, zk.Connection(server.address, 30000) as other, \
                zk.Connection(server.address, 30000) as bystander:
            cpu, rss = cpu_s(server), server.memory_kb()[0]
            function(client, other)
            began = time.monotonic()
            expect(bystander.call(zk.get_data("/")), 0)
            waited = time.monotonic() - began
            spent, grown = cpu_s(server) - cpu, server.memory_kb()[0] - rss
        server.restart(hard=True)
        again = cpu_s(server)
        figures = (f"{spent:.2f} CPU s, +{grown // 1024} MB, a bystander waited {waited * 1000:.0f} ms, "
                   f"the start after it {again:.2f} CPU s")
        if spent > CPU_S or grown > MEMORY_KB or again > CPU_S:
            raise AssertionError(figures)
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
            failed += 1
            print(f"FAILED  {function.__name__}\n{traceback.format_exc()}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
