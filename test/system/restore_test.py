"""POST /commands/restore in an ensemble: a state larger than any entry of the log, in pieces.

Promise: all members get the whole state, or all keep the old one, whoever is killed meanwhile; a snapshot that falls due meanwhile
does no harm, and the next restore succeeds.

usage: restore_test.py [--rounds N] [NAME...]
"""

import argparse
import json
import os
import random
import socket
import sys
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import Conclave, why_missing  # noqa: E402
from ensemble import ConclaveMember, Ensemble  # noqa: E402

SUPER = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="  # super:test
OPTIONS = ["--superDigest", SUPER, "--admin.rateLimiterIntervalInMS", "0", "--admin.snapshot.enabled", "true",
           "--admin.restore.enabled", "true", "--snapCount", "200", "--maxDataBytes", "4000000000"]
NODES, NODE_BYTES = 100, 500_000  # some 50 MB: more than an entry of the log can have
MANY = 500_000
WAIT_S = 60
ROUNDS = 4


def ask(server, name, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{server.admin_port}/commands/{name}", data=body,
                                     headers={"Authorization": "digest super:test"})
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except OSError as error:
        return 0, str(error).encode()


def fill(server, name, count, data):
    with zk.Connection(server.address, 20000) as client:
        for i in range(count):
            client.send(zk.create(f"/{name}{i}", data))
            err = client.read_reply().err
            assert err == 0, err


def large_state():
    with Conclave(OPTIONS, admin=True) as source:
        fill(source, "new", NODES, os.urandom(NODE_BYTES))
        status, data = ask(source, "snapshot")
        assert status == 200 and len(data) > 40_000_000, (status, len(data))
        return data


def names_at(member):
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            with zk.Connection(member.address, 20000) as client:
                client.call(zk.sync("/"))
                err, fields = client.call(zk.get_children("/"))
                assert err == 0, err
                return set(fields["children"]) - {"zookeeper"}
        except (zk.Closed, OSError, AssertionError):
            assert time.monotonic() < deadline, member.log_tail()
            time.sleep(0.2)


def wait_new(ensemble):
    want = {f"new{i}" for i in range(NODES)}
    deadline = time.monotonic() + WAIT_S
    for member in ensemble.members:
        while names_at(member) != want:
            assert time.monotonic() < deadline, (len(names_at(member)), member.log_tail())
            time.sleep(0.2)


def test_all_members_get_a_large_state():
    data = large_state()
    with Ensemble(3, ConclaveMember, options=OPTIONS, admin=True) as ensemble:
        leader = ensemble.wait_leader()
        fill(leader, "old", 300, b"x")
        began = time.monotonic()
        status, body = ask(leader, "restore", data)
        took = time.monotonic() - began
        assert status == 200, (status, body, *(member.log_tail(3000) for member in ensemble.members))
        wait_new(ensemble)
        for member in ensemble.members:
            member.restart(hard=True)
        ensemble.wait_leader()
        wait_new(ensemble)
        # A follower cannot propose it, and says so before it is sent.
        follower = ensemble.followers()[0]
        head = (f"POST /commands/restore HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: digest super:test\r\n"
                f"Content-Length: {len(data)}\r\n\r\n")
        with socket.create_connection(("127.0.0.1", follower.admin_port), WAIT_S) as link:
            link.sendall(head.encode())
            answer = link.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 409") and b"does not lead" in answer, answer
        return f"{len(data) >> 20} MiB in {took:.1f} s"


def many_nodes():
    with Conclave(OPTIONS, admin=True) as source, zk.Connection(source.address, 60000) as client:
        for first in range(0, MANY, 1000):
            client.send(zk.multi([zk.create(f"/n{i}", b"x" * 20) for i in range(first, first + 1000)]))
            err = client.read_reply().err
            assert err == 0, err
        status, data = ask(source, "snapshot")
        assert status == 200, status
        return data


def test_the_leader_leads_while_it_reads_the_file():
    """A file of many nodes takes longer than an election: on the thread of consensus, it would cost the lead each time."""
    data = many_nodes()
    with Ensemble(3, ConclaveMember, options=OPTIONS, admin=True) as ensemble:
        answers = []
        while answers.count(200) < 2:
            answers.append(ask(ensemble.wait_leader(), "restore", data)[0])
            assert len(answers) - answers.count(200) < 2, (answers, *(member.log_tail(1500) for member in ensemble.members))
        return f"{len(data) >> 20} MiB, {answers}"


def test_killed_meanwhile():
    data = large_state()
    outcomes = []
    with Ensemble(3, ConclaveMember, options=OPTIONS, admin=True) as ensemble:
        for _ in range(ROUNDS):
            leader, others = ensemble.roles()
            for member in ensemble.members:
                with zk.Connection(leader.address, 20000) as client:
                    err, fields = client.call(zk.get_children("/"))
                    for name in fields["children"]:
                        if name != "zookeeper":
                            client.call(zk.delete("/" + name))
                break
            fill(leader, "old", 300, b"x")  # a snapshot is due meanwhile
            answers = []
            asking = threading.Thread(target=lambda leader=leader: answers.append(ask(leader, "restore", data)[0]))
            asking.start()
            time.sleep(random.uniform(0, 1.5))
            victim = random.choice([leader, random.choice(others)])
            victim.kill()
            asking.join()
            victim.start()
            ensemble.wait_leader()
            found = [names_at(member) for member in ensemble.members]
            old = {f"old{i}" for i in range(300)}
            new = {f"new{i}" for i in range(NODES)}
            assert found[0] == found[1] == found[2] and found[0] in (old, new), [len(names) for names in found]
            assert found[0] == new or answers != [200], "a restore that was answered is gone"
            outcomes.append("new" if found[0] == new else "old")
        # Whatever was left of pieces: the next one goes through, and the log takes snapshots again.
        deadline = time.monotonic() + WAIT_S
        while ask(ensemble.wait_leader(), "restore", data)[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.5)
        wait_new(ensemble)
        leader = ensemble.wait_leader()
        status, _ = ask(leader, "snapshot?streaming=false")
        assert status == 200, status
    return ", ".join(outcomes)


def main():
    global ROUNDS
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    ROUNDS = options.rounds
    missing = why_missing()
    if missing:
        return cases.skip_all(missing)
    return cases.run(cases.named("test_", globals()), options.names)


if __name__ == "__main__":
    sys.exit(main())
