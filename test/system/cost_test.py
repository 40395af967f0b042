#!/usr/bin/env python3
"""Small requests that once cost everything: what they cost the server, a bystander, and the start after them.

    cost_test.py [CASE]...

Promise: each attack is sent whole, as an anonymous client can. For each the server's own processor seconds
(/proc/PID/stat), the growth of its peak of memory (VmHWM), the longest wait of a bystander who calls all the while, and
both seconds of the start after kill -9, with the attack in the log, stay below bounds: those of processor time and memory
are passed several times by a server without limits. Clients that keep the server's memory: memory_test.py. What the
admin port does for health probes and forged requests: admin_test.py. Misbehaviour on the wire: hostile_test.py.
Limits: standalone, loopback; figures of the server, not of the machine, so another load does not change them much,
save for the bystander's wait and the start, whose bounds allow for that.
"""

import os
import sys
import time
import traceback
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import zkwire as zk  # noqa: E402
from bystander import Bystander, cpu_s  # noqa: E402
from conclave import Conclave, why_missing  # noqa: E402
from server import free_port  # noqa: E402

CPU_S = 0.5
MEMORY_KB = 48 * 1024
WAIT_S = 10.0
START_S = 20.0
SYSTEM_ERROR = -1
EPHEMERAL_SEQUENTIAL = 3
CASES = []


def case(*options, admin=False):
    """A case with what its server is started with: a function (server, client, other)."""
    def register(function):
        CASES.append((function, options, admin))
        return function
    return register


def expect(reply, *wanted):
    if reply[0] not in wanted:
        raise AssertionError(f"error {reply[0]}, wanted one of {wanted}")


def authenticate(client, count, size=40):
    """Authenticates as count made-up users, one after the other; a refusal ends the connection."""
    for number in range(count):
        if client.call(zk.auth("digest", b"%0*d:p" % (size, number)))[0] != 0:
            raise AssertionError(f"user {number} was refused")


def in_multis(client, requests, parts=5000):
    """Sends the requests in transactions of parts requests each."""
    requests = list(requests)
    for at in range(0, len(requests), parts):
        expect(client.call(zk.multi(requests[at:at + parts])), 0)


@case()
def auth_in_an_acl_does_not_multiply(_server, client, _other):
    authenticate(client, 30)
    acl = tuple((perms, "auth", "") for perms in range(20000))
    expect(client.call(zk.create("/s1", b"", acl)), zk.ERRORS["INVALIDACL"])
    expect(client.call(zk.create("/s1", b"", acl[1:4])), 0)


@case()
def more_ids_than_anybody_has(_server, _client, other):
    try:
        authenticate(other, 60)
    except (AssertionError, zk.Closed, OSError):
        return
    raise AssertionError("60 ids were taken")


@case()
def long_ids_in_each_write(_server, _client, other):
    """A write takes its client's ids into the log: more than 4 KiB of them are not taken."""
    try:
        authenticate(other, 30, 400)
    except (AssertionError, zk.Closed, OSError):
        return
    raise AssertionError("12 KB of ids were taken")


@case()
def lists_times_ids_times_parts(_server, client, _other):
    authenticate(client, 30)
    acl = tuple((31, "digest", f"u{number:06d}:x") for number in range(255)) + ((31, "world", "anyone"),)
    expect(client.call(zk.create("/s2", b"", acl)), 0)
    long = tuple((31, "digest", f"u{number:06d}:x") for number in range(20000))
    expect(client.call(zk.create("/s2-long", b"", long)), zk.ERRORS["INVALIDACL"])
    expect(client.call(zk.multi([zk.check("/s2")] * 10000)), 0)
    expect(client.call(zk.multi([zk.check("/s2")] * 10001)), zk.ERRORS["BADARGUMENTS"])
    expect(client.call(zk.multi([zk.get_children("/s2")] * 10001, zk.MULTI_READ)), zk.ERRORS["BADARGUMENTS"])


@case()
def counts_of_quotas_walk_over_nothing(_server, client, _other):
    in_multis(client, (zk.create(f"/n{number}") for number in range(50000)))
    pair = [zk.create("/zookeeper/quota/q/zookeeper_stats"), zk.delete("/zookeeper/quota/q/zookeeper_stats")]
    expect(client.call(zk.create("/q")), 0)
    expect(client.call(zk.create("/zookeeper/quota/q")), 0)
    expect(client.call(zk.multi(pair * 5000)), 0)
    err, fields = client.call(zk.multi([zk.create("/zookeeper/quota/zookeeper_stats")]))
    if err == 0 and fields["results"][0][1] == 0:
        raise AssertionError("counts that belong to no subtree were made")


@case()
def deep_paths_below_a_recursive_watch(_server, client, other):
    expect(other.call(zk.add_watch("/", 1)), 0)
    path = ""
    for _ in range(256):
        path += "/x"
        expect(client.call(zk.create(path)), 0)
    expect(client.call(zk.create(path + "/x")), zk.ERRORS["BADARGUMENTS"])
    expect(client.call(zk.create("/" + "p" * 8192)), zk.ERRORS["BADARGUMENTS"])
    expect(client.call(zk.multi([zk.set_data(path, b"x")] * 500)), 0)


@case(admin=True)
def long_watches_listed_by_the_admin_port(server, client, _other):
    for number in range(30):
        expect(client.call(zk.exists(f"/{number:03}" + "x" * 500_000, True)), zk.ERRORS["NONODE"])
    for _ in range(8):
        with urllib.request.urlopen(f"http://127.0.0.1:{server.admin_port}/commands/watches", timeout=60) as answer:
            length = len(answer.read())
        if length > 2 << 20:
            raise AssertionError(f"an answer of {length} bytes")


@case()
def ephemerals_with_long_names_asked_for(_server, client, other):
    """16 MB of paths in the answer to a request of 20 bytes, which is refused; then their end."""
    top = "/" + "e" * 8000
    expect(other.call(zk.create(top)), 0)
    in_multis(client, (zk.create(f"{top}/{number}", flags=zk.EPHEMERAL) for number in range(2000)), 100)
    for _ in range(30):
        client.send(zk.get_ephemerals("/"))
    for _ in range(30):
        reply = client.read_reply()
        if reply.err != SYSTEM_ERROR or len(reply.body) > 1 << 20:
            raise AssertionError(f"error {reply.err}, {len(reply.body)} bytes")
    expect(client.call(zk.get_ephemerals(top + "/99")), SYSTEM_ERROR, 0)
    expect(client.call(zk.close_session()), 0)
    expect(other.call(zk.delete(top)), 0)


@case("--reconfigEnabled", "yes", "--standaloneEnabled", "no", "--server-id", "1", "--server.1",
      f"127.0.0.1:{free_port()}:{free_port()}")
def reconfig_by_a_stranger(_server, _client, other):
    """1 MB of servers, each compared with all others; the permission is missing whatever they are."""
    names = ",".join(f"server.{2 + number % 250}=127.0.0.1:{1000 + number}:{31000 + number};1" for number in range(27000))
    few = ",".join(f"server.{number}=127.0.0.1:{1000 + number}:{2000 + number};{3000 + number}" for number in range(2, 250))
    for joining, members in ((names, None), (None, names)):
        for _ in range(4):
            expect(other.call(zk.reconfig(joining=joining, members=members)), zk.ERRORS["BADARGUMENTS"])
    for _ in range(50):
        expect(other.call(zk.reconfig(joining=few)), zk.ERRORS["NOAUTH"])


@case("--enforceQuota", "yes")
def limits_of_quotas_as_long_as_a_request(_server, client, _other):
    """Each write below a quota reads its limits and its counts."""
    for path in ("/zookeeper/quota/q", "/q", "/q/a"):
        expect(client.call(zk.create(path)), 0)
    long = b"x=1," * 250_000
    for name in ("zookeeper_limits", "zookeeper_stats"):
        path = f"/zookeeper/quota/q/{name}"
        expect(client.call(zk.create(path, long)), zk.ERRORS["BADARGUMENTS"])
        expect(client.call(zk.create(path, long[:1000])), 0)
        expect(client.call(zk.set_data(path, long)), zk.ERRORS["BADARGUMENTS"])
    in_multis(client, (zk.set_data("/q/a", b"%d" % number) for number in range(5000)))


@case("--fencing.enabled", "yes")
def transactions_that_fail_on_a_bound_lock(_server, client, other):
    """The server keeps its memo of a lock's first contender, and does not look at the lock's many children again."""
    deadline = time.monotonic() + START_S
    while other.call(zk.exists("/zookeeper/fence"))[0] != 0:
        if time.monotonic() > deadline:
            raise AssertionError("/zookeeper/fence does not come")
        time.sleep(0.02)
    for path in ("/app", "/lock", "/zookeeper/fence/app"):
        expect(other.call(zk.create(path)), 0)
    expect(other.call(zk.create("/zookeeper/fence/app/conclave_fence", b"lock=/lock")), 0)
    in_multis(other, (zk.create("/lock/c-", flags=EPHEMERAL_SEQUENTIAL) for _ in range(50000)), 10000)
    failing = zk.multi([zk.create("/lock/x"), zk.delete("/lock/x"), zk.check("/missing")])
    for _ in range(60):
        for _ in range(50):
            client.send(failing)
            client.send(zk.set_data("/app", b"late"))
        for _ in range(50):
            expect((client.read_reply().err,), 0)
            expect((client.read_reply().err,), zk.ERRORS["NOAUTH"])


def attack(server, function):
    """The cost of the attack while the server runs: (CPU seconds, kB of its peak, the bystander's longest wait)."""
    with zk.Connection(server.address, 30000, patience_s=60) as client, \
            zk.Connection(server.address, 30000, patience_s=60) as other:
        bystander = Bystander(server.address)
        expect(other.call(zk.exists("/")), 0)
        cpu, peak = cpu_s(server), server.memory_kb()[1]
        bystander.start()
        try:
            function(server, client, other)
        finally:
            waited = bystander.finish(WAIT_S)
        return cpu_s(server) - cpu, server.memory_kb()[1] - peak, waited


def run(function, options, admin):
    with Conclave(list(options), admin=admin) as server:
        spent, grown, waited = attack(server, function)
        server.restart(hard=True)
        again, peak = cpu_s(server), server.memory_kb()[1]
        figures = (f"{spent:.2f} CPU s, +{grown // 1024} MB, a bystander waited {waited * 1000:.0f} ms, the start after "
                   f"kill -9 {again:.2f} CPU s, {server.start_s:.2f} s, {peak // 1024} MB")
        if spent > CPU_S or grown > MEMORY_KB or again > CPU_S or server.start_s > START_S:
            raise AssertionError(figures)
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
            failed += 1
            print(f"FAILED  {function.__name__}\n{traceback.format_exc()}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
