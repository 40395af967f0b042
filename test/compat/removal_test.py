"""A reconfig that removes the member which the client is connected to, ours and Apache's: who is answered, and what then.

Promise: real ensembles on loopback. The answer comes on the removed member, too. Ours then sends its clients away one
by one: the connection ends cleanly, the session goes on at another member. The removed member begins no election.
Limits: Apache's removed member keeps its clients; that is the one difference, and it is asserted on both sides.

usage: removal_test.py [NAME...]
"""

import os
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import prometheus  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from conclave import program, why_missing  # noqa: E402
from ensemble import ConclaveMember, Ensemble, ZooKeeperMember, four_letters, mode_of  # noqa: E402

WAIT_S = 30
OURS = {"options": ["--reconfigEnabled", "true", "--skipACL", "yes", "--standaloneEnabled", "false"],
        "admin": True}
APACHE = {"kind": ZooKeeperMember, "settings": {"reconfigEnabled": "true", "standaloneEnabled": "false"},
          "properties": {"zookeeper.skipACL": "yes"}}


def wait_for(what, seconds=WAIT_S):
    """Asks until the answer is true, and returns it."""
    deadline = time.monotonic() + seconds
    while True:
        answer = what()
        if answer:
            return answer
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def others(ensemble, member):
    return [other for other in ensemble.members if other is not member]


def remove(link, member):
    """Asks for the member's removal; the configuration that the answer names."""
    err, fields = link.call(zk.reconfig(leaving=str(member.number)))
    assert err == 0, (err, member.number)
    text = fields["data"].decode()
    assert f"server.{member.number}=" not in text, text
    return text


def ends_cleanly(link):
    """The server ends the connection, not by a reset."""
    link.socket.settimeout(WAIT_S)
    return link.socket.recv(1) == b""


def removed_by_its_own_client(ensemble, member, apache=False):
    """One client of the member removes it, another one is idle there and has an ephemeral node."""
    rest = others(ensemble, member)
    path = f"/held-{member.number}"
    idle = zk.Connection(member.address, 10000)
    assert idle.call(zk.create(path, flags=zk.EPHEMERAL))[0] == 0
    with zk.Connection(member.address, 10000) as link:
        text = remove(link, member)
        assert text.count("server.") == len(rest), text
        if apache:
            assert link.call(zk.get_data("/zookeeper/config"))[1]["data"].decode() == text
            idle.drop()
            return
        assert ends_cleanly(link) and ends_cleanly(idle)
    again = wait_for(lambda: reattached(rest[0], idle))
    with again:
        assert again.call(zk.exists(path))[1]["stat"]["ephemeralOwner"] == idle.session_id
        assert again.call(zk.get_data("/zookeeper/config"))[1]["data"].decode() == text
    try:  # nobody is let in any more
        zk.Connection(member.address, 10000).drop()
        raise AssertionError("a removed member let a client in")
    except zk.Closed:
        pass


def reattached(member, link):
    try:
        return zk.Connection(member.address, 10000, link.session_id, link.passwd)
    except zk.Closed:  # an election is under way
        return None


def each_role(**more):
    apache = "kind" in more
    for role in ("follower", "leader"):
        with Ensemble(3, **more) as ensemble:
            leader = ensemble.leader()
            member = leader if role == "leader" else ensemble.followers()[0]
            removed_by_its_own_client(ensemble, member, apache)
            wait_for(lambda: [mode_of(other) for other in others(ensemble, member)].count("leader") == 1)  # noqa: B023


def test_follower_and_leader():
    each_role(**OURS)


def test_follower_and_leader_of_apache():
    if zookeeper.why_missing():
        raise cases.Skip(zookeeper.why_missing())
    each_role(**APACHE)


def test_observer():
    with Ensemble(3, **OURS) as ensemble:
        member = ensemble.followers()[0]
        line = [line for line in ensemble.members[0].lines if line.startswith(f"server.{member.number}=")][0]
        with zk.Connection(ensemble.leader().address, 10000) as link:
            assert link.call(zk.reconfig(joining=line.replace(";", ":observer;")))[0] == 0
        wait_for(lambda: mode_of(member) == "observer")
        removed_by_its_own_client(ensemble, member)
        back(ensemble, member, line)


def back(ensemble, member, line):
    """The removed member, still running, is taken in again and serves."""
    with zk.Connection(ensemble.leader().address, 10000) as link:
        err, fields = link.call(zk.reconfig(joining=line))
        assert err == 0 and f"server.{member.number}=" in fields["data"].decode(), (err, fields)
    wait_for(lambda: mode_of(member) == "follower")

    def serves():
        try:
            return zk.Connection(member.address, 10000)
        except zk.Closed:
            return None
    with wait_for(serves) as link:
        assert link.call(zk.create("/back"))[0] == 0


def elections(member):
    """How often this member has begun to lead, and the term that it knows."""
    with urllib.request.urlopen(f"http://127.0.0.1:{member.admin_port}/metrics", timeout=10) as reply:
        rows = prometheus.samples(reply.read().decode())
    return rows.get("conclave_elections_won_total"), rows["conclave_log_term"]


def test_three_two_one():
    """The removed members stay up and do not disturb: no new term among those that are left."""
    with Ensemble(3, **OURS) as ensemble:
        first = ensemble.followers()[0]
        removed_by_its_own_client(ensemble, first)
        second = [member for member in others(ensemble, first) if mode_of(member) == "follower"][0]
        removed_by_its_own_client_of_two(ensemble, first, second)
        last = [member for member in ensemble.members if member not in (first, second)][0]
        wait_for(lambda: mode_of(last) == "standalone")
        before = elections(last)
        deadline = time.monotonic() + 4  # longer than any election timeout: something that must not happen
        while time.monotonic() < deadline:
            with zk.Connection(last.address, 10000) as link:
                assert link.call(zk.set_data("/alone", b"x"))[0] == 0
            time.sleep(0.2)
        assert elections(last) == before, (before, elections(last))
        assert mode_of(first) != "leader" and mode_of(second) != "leader"


def removed_by_its_own_client_of_two(ensemble, gone, member):
    last = [other for other in ensemble.members if other not in (gone, member)][0]
    with zk.Connection(member.address, 10000) as link:
        assert remove(link, member).count("server.") == 1
        assert ends_cleanly(link)
    with zk.Connection(last.address, 10000) as link:
        assert link.call(zk.create("/alone"))[0] == 0


def test_our_command():
    """`conclave members remove N --server N` is answered, also when N leads."""
    with Ensemble(3, **OURS) as ensemble:
        for member in (ensemble.followers()[0], ensemble.leader()):
            done = subprocess.run([program(), "members", "remove", str(member.number), "--server", member.host],
                                  capture_output=True, timeout=60, check=False)
            assert done.returncode == 0 and f"server.{member.number}=".encode() not in done.stdout, done
            wait_for(lambda: any(mode_of(other) in ("leader", "standalone")
                                 for other in others(ensemble, member)))  # noqa: B023


def test_kazoo():
    """A client of the removed member goes on with its session, and its own reconfig is answered."""
    from kazoo.client import KazooClient  # pylint: disable=import-outside-toplevel
    with Ensemble(3, **OURS) as ensemble:
        member = ensemble.followers()[0]
        hosts = ",".join([member.host, *(other.host for other in others(ensemble, member))])
        client = KazooClient(hosts, timeout=10, randomize_hosts=False)
        lost = threading.Event()
        client.add_listener(lambda state: lost.set() if state == "LOST" else None)
        client.start()
        try:
            session = client.client_id[0]
            client.create("/mine", ephemeral=True)
            data, _ = client.reconfig(joining=None, leaving=str(member.number), new_members=None)
            assert f"server.{member.number}=".encode() not in data, data
            wait_for(lambda: client.connected and client.retry(client.exists, "/mine"))
            assert client.client_id[0] == session and not lost.is_set()
        finally:
            client.stop()
            client.close()


def main():
    if why_missing():
        return cases.skip_all(why_missing())
    return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
