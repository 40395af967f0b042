"""Local sessions, ours and Apache's: sessions that only the server knows that made them.

Promise: the same requests to real ensembles of both kinds have the same outcome, with and without upgrading.
Limits: where ours does more than Apache's (a local session outlives an election) only ours is asked.

usage: local_sessions_test.py [NAME...]
"""

import contextlib
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from conclave import Conclave, why_missing  # noqa: E402
from ensemble import ConclaveMember, Ensemble, ZooKeeperMember, four_letters, mode_of  # noqa: E402

WAIT_S = 30
TICK_MS = 500
NO_EPHEMERAL = zk.ERRORS["EPHEMERALONLOCALSESSION"]


def ours(upgrading):
    return {"kind": ConclaveMember, "tick_ms": TICK_MS,
            "options": ["--localSessionsEnabled", "true", "--localSessionsUpgradingEnabled", str(upgrading).lower()]}


def apaches(upgrading):
    return {"kind": ZooKeeperMember, "tick_ms": TICK_MS,
            "settings": {"localSessionsEnabled": "true", "localSessionsUpgradingEnabled": str(upgrading).lower()}}


def wait_for(what, seconds=WAIT_S):
    deadline = time.monotonic() + seconds
    while True:
        answer = what()
        if answer:
            return answer
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def figures(member):
    rows = dict(line.split("\t", 1) for line in four_letters(member.address, b"mntr").splitlines() if "\t" in line)
    return rows["zk_local_sessions"], rows["zk_global_sessions"]


def reattach(member, link):
    """Whether another member takes the session up. A server that is busy with an election closes the connection: no answer."""
    def answers():
        with contextlib.suppress(zk.Closed, ConnectionResetError):
            with zk.Connection(member.address, 10000, link.session_id, link.passwd) as again:
                return "yes" if again.session_id == link.session_id else "no"
        return None
    return wait_for(answers) == "yes"


def outcomes(ensemble, member, other):
    """The life of a local session at one member; the keys are the questions."""
    said = {}
    with zk.Connection(member.address, 10000) as link:
        said["figures"] = figures(member)
        said["figures elsewhere"] = figures(other)
        said["write"] = link.call(zk.create("/w", b"1"))[0]
        said["sequential"] = link.call(zk.create("/s-", flags=zk.PERSISTENT_SEQUENTIAL))[1]["path"][-3:]
        said["set"] = link.call(zk.set_data("/w", b"2"))[0]
        said["multi"] = link.call(zk.multi([zk.create("/m"), zk.check("/w", 1), zk.delete("/m")]))[0]
        said["ephemerals"] = link.call(zk.get_ephemerals("/"))[1]
        said["sync"] = link.call(zk.sync("/"))[0]
        assert link.call(zk.get_data("/w", watch=True))[1]["data"] == b"2"
        with zk.Connection(other.address, 10000) as writer:
            assert writer.call(zk.set_data("/w", b"3"))[0] == 0
        wait_for(lambda: link.call(zk.ping()) and link.events)
        said["event"] = link.events[0].type
        said["elsewhere"] = reattach(other, link)
        said["here"] = reattach(member, link)
    with zk.Connection(member.address, 10000) as link:
        said["multi with an ephemeral"] = link.call(zk.multi([zk.create("/e1", flags=zk.EPHEMERAL)]))[0]
        err, fields = link.call(zk.create("/e2", flags=zk.EPHEMERAL_SEQUENTIAL))
        said["ephemeral"] = err
        if err == 0:
            stat = link.call(zk.exists(fields["path"]))[1]["stat"]
            said["owner"] = stat["ephemeralOwner"] == link.session_id
            said["figures upgraded"] = wait_for(lambda: figures(member)[1] != "0") and figures(other)[1]
            said["upgraded, elsewhere"] = reattach(other, link)
            with zk.Connection(member.address, 10000, link.session_id, link.passwd) as back:
                said["upgraded, back"] = back.session_id == link.session_id
                said["closed"] = back.call(zk.close_session())[0]
            with zk.Connection(other.address, 10000) as look:
                look.call(zk.sync("/"))
                said["gone"] = look.call(zk.exists(fields["path"]))[0]
    with zk.Connection(member.address, 10000) as link:
        said["close"] = link.call(zk.close_session())[0]
        said["after close"] = reattach(member, link)
    silent = zk.Connection(member.address, 2 * TICK_MS)
    silent.socket.settimeout(WAIT_S)
    said["expired"] = silent.socket.recv(1)
    said["after expiry"] = reattach(member, silent)
    return said


def roles(kind):
    """The outcomes at a follower and at the leader."""
    said = {}
    for role in ("follower", "leader"):
        with Ensemble(3, **kind) as ensemble:
            leader = ensemble.leader()
            follower, other = [member for member in ensemble.members if member is not leader]
            said[role] = outcomes(ensemble, follower if role == "follower" else leader, other)
    return said


def compare(upgrading):
    mine = roles(ours(upgrading))
    for role, said in mine.items():
        assert said["write"] == 0 and said["here"] and not said["elsewhere"], (role, said)
        assert said["ephemeral"] == (0 if upgrading else NO_EPHEMERAL), (role, said)
        assert said["figures"] == ("1", "0"), (role, said)
    if zookeeper.why_missing():
        return "without Apache ZooKeeper"
    theirs = roles(apaches(upgrading))
    for said in () if upgrading else theirs.values():
        # 3.8 lets the transaction go on, whose create then fails with SESSIONEXPIRED
        assert said.pop("multi with an ephemeral") == 0
    differing = {(role, name): (mine[role].get(name), theirs[role][name]) for role in theirs for name in theirs[role]
                 if mine[role].get(name) != theirs[role][name]}
    assert not differing, differing
    return f"{sum(len(said) for said in theirs.values())} outcomes"


def test_with_upgrading():
    return compare(True)


def test_without_upgrading():
    return compare(False)


def test_a_lost_server_loses_them():
    with Ensemble(3, **ours(True)) as ensemble:
        member = ensemble.followers()[0]
        link = zk.Connection(member.address, 30000)
        assert link.call(zk.create("/x"))[0] == 0
        member.kill()
        member.start()
        ensemble.wait_leader(serving=3)
        assert not reattach(member, link)


def test_an_election_does_not_end_them():
    with Ensemble(3, **ours(True)) as ensemble:
        member = ensemble.followers()[0]
        with zk.Connection(member.address, 30000) as link:
            ensemble.leader().kill()
            ensemble.wait_leader(serving=2)

            def written():
                try:
                    with zk.Connection(member.address, 30000, link.session_id, link.passwd) as again:
                        return again.session_id == link.session_id and again.call(zk.create("/after"))[0] in (0, -110)
                except zk.Closed:
                    return False
            wait_for(written)


def test_an_upgrade_survives_the_server():
    """Ephemerals of an upgraded session are all servers' affair: they outlive the server, and go with the session."""
    with Ensemble(3, **ours(True)) as ensemble:
        member = ensemble.followers()[0]
        other = ensemble.leader()
        link = zk.Connection(member.address, 3000)
        assert link.call(zk.create("/e", flags=zk.EPHEMERAL))[0] == 0
        member.kill()
        with zk.Connection(other.address, 3000, link.session_id, link.passwd) as again:
            assert again.session_id == link.session_id
            assert again.call(zk.exists("/e"))[0] == 0
        with zk.Connection(other.address, 20000) as look:
            wait_for(lambda: look.call(zk.exists("/e"))[0] == -101)


def test_standalone_has_none():
    with Conclave(["--localSessionsEnabled", "true", "--4lw.commands.whitelist", "*"]) as server:
        with zk.Connection(server.address, 10000) as link:
            assert figures(server) == ("0", "1"), figures(server)
            assert link.call(zk.create("/e", flags=zk.EPHEMERAL))[0] == 0


def test_pipelined():
    """Writes around an upgrade keep their order, and are answered once."""
    with Ensemble(3, **ours(True)) as ensemble:
        with zk.Connection(ensemble.followers()[0].address, 10000) as link:
            requests = [zk.create("/p")]
            requests += [zk.set_data("/p", b"%d" % i) for i in range(50)]
            requests += [zk.create("/p-e", flags=zk.EPHEMERAL)]
            requests += [zk.set_data("/p", b"%d" % i) for i in range(50, 100)]
            requests += [zk.get_data("/p"), zk.close_session()]
            xids = [link.send(request) for request in requests]
            replies = [link.read_reply() for _ in xids]
            assert [reply.xid for reply in replies] == xids
            assert [reply.err for reply in replies] == [0] * len(xids)
            assert zk.decode_reply(zk.GET_DATA, replies[-2])["data"] == b"99"
        with zk.Connection(ensemble.leader().address, 10000) as look:
            assert look.call(zk.exists("/p-e"))[0] == -101


def main():
    if why_missing():
        return cases.skip_all(why_missing())
    assert mode_of is not None
    return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
