"""The operators' view of an ensemble, and their commands: status, sessions, members, words, AdminServer, metrics.

Promise: real servers on loopback, killed and stopped; every command's output, JSON and exit code.
Limits: no secret between the servers; times are bounded generously, not measured.

usage: members_test.py [NAME...]
"""

import base64
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import ROOT, Conclave, program, why_missing  # noqa: E402
from ensemble import ConclaveMember, Ensemble, four_letters  # noqa: E402
from server import free_port  # noqa: E402
from zookeeper import ZooKeeper  # noqa: E402
import zookeeper  # noqa: E402

WAIT_S = 60
AUTH = "digest:super:secret"
SUPER = ["--DigestAuthenticationProvider.superDigest",
         "super:" + base64.b64encode(hashlib.sha1(b"super:secret").digest()).decode(), "--reconfigEnabled", "true"]


def run(*words, timeout=60):
    """Runs one command to its end: (exit code, output, errors)."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("CONCLAVE_") or key == "CONCLAVE_BIN"}
    done = subprocess.run([program(), *words], capture_output=True, env=env, timeout=timeout, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def status(where, *more):
    code, out, err = run("status", "--server", where, "--json", *more)
    assert out, (code, err)
    return code, json.loads(out)


def wait_status(where, good, *more):
    """Asks until good(exit code, answer); returns the answer."""
    deadline = time.monotonic() + WAIT_S
    while True:
        code, answer = status(where, *more)
        if good(code, answer):
            return answer
        assert time.monotonic() < deadline, (code, answer)
        time.sleep(0.1)


def wait_for(good, what):
    deadline = time.monotonic() + WAIT_S
    while not good():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def fetch(member, path, method="GET", auth=None):
    request = urllib.request.Request(f"http://127.0.0.1:{member.admin_port}{path}", method=method,
                                     headers={"Authorization": auth} if auth else {})
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_status_names_every_member():
    with Ensemble(3) as ensemble:
        leader, _ = ensemble.roles()
        code, answer = status(ensemble.members[0].host)  # one is given, the others are named by it
        assert code == 0 and answer["verdict"] == "ok" and answer["wrong"] == [], answer
        assert answer["voters"] == answer["voters_serving"] == 3 and answer["leader"] == leader.number, answer
        rows = {row["id"]: row for row in answer["servers"]}
        assert sorted(rows) == [1, 2, 3], answer
        for member in ensemble.members:
            row = rows[member.number]
            assert row["address"] == member.host and row["role"] == "voter" and row["state"] == "ok", row
            assert row["mode"] == ("leader" if member is leader else "follower"), row
            assert row["term"] == rows[leader.number]["term"] > 0 and row["connections"] >= 1, row
            assert row["version"].startswith("conclave "), row
        code, out, _ = run("status", "--server", ensemble.hosts)
        assert code == 0 and len(re.findall(r"^[123] +127\.0\.0\.1:\d+ +(?:leader|follower) ", out, re.M)) == 3, out
        assert f"ok: 3 of 3 voters serve, {leader.number} leads" in out, out
        double = ",".join(f"localhost:{member.port},127.0.0.1:{member.port}" for member in ensemble.members)
        assert len(status(double)[1]["servers"]) == 3, "one server under two names is one row"


def test_status_says_what_is_wrong():
    with Ensemble(3) as ensemble:
        last, (first, second) = ensemble.roles()
        first.kill()
        answer = wait_status(ensemble.hosts, lambda code, a: code == 0 and a["verdict"] == "degraded")
        assert answer["voters_serving"] == 2 and answer["leader"] == last.number, answer
        assert len(answer["wrong"]) == 1 and answer["wrong"][0].startswith(f"voter {first.number}: "), answer
        row = [row for row in answer["servers"] if row["id"] == first.number][0]
        assert row["mode"] is None and row["zxid"] is None and "refused" in row["state"], row
        ensemble.pause(second)  # it holds its port, and says nothing
        brief = ("--timeout", "2s")
        answer = wait_status(last.host, lambda code, a: code == 1 and a["verdict"] == "no quorum", *brief)
        states = {row["id"]: row["state"] for row in answer["servers"]}
        assert states[last.number] == "no leader with a quorum", states
        assert states[second.number] == "no answer in time", states
        wait_for(lambda: "\n\nno quorum: 0 of 3 voters serve\n" in run("status", "--server", last.host, *brief)[1], "the same as text")
        ensemble.resume(second)
        wait_status(ensemble.hosts, lambda code, a: code == 0 and a["voters_serving"] == 2)
        first.start()
        wait_status(ensemble.hosts, lambda code, a: a["verdict"] == "ok")
        for member in ensemble.members:
            member.kill()
        code, answer = status(ensemble.hosts)
        assert code == 69 and answer["verdict"] == "unreachable" and len(answer["servers"]) == 3, (code, answer)


def test_status_of_one_server():
    with Conclave() as server:
        code, answer = status(server.host)
        assert code == 0 and answer["verdict"] == "ok" and answer["servers"][0]["mode"] == "standalone", answer
        code, out, err = run("members", "list", "--server", server.host)
        assert code == 0 and re.search(r"^1 +voter ", out, re.M), (out, err)
    if zookeeper.why_missing():
        return "without Apache ZooKeeper"
    with ZooKeeper() as server:
        code, answer = status(server.host)
        row = answer["servers"][0]
        assert code == 0 and row["mode"] == "standalone" and row["version"].startswith("zookeeper 3."), answer
        assert row["term"] is None and row["zxid"] == "0x0", row
        code, _, err = run("members", "list", "--server", server.host)
        assert code == 69 and "no Conclave server" in err, err
    return None


def figures(member):
    return dict(line.split("\t", 1) for line in four_letters(member.address, b"mntr", WAIT_S).splitlines())


def test_words_and_commands():
    with Ensemble(3, admin=True) as ensemble:
        leader, (follower, _) = ensemble.roles()
        wait_for(lambda: figures(leader).get("zk_synced_followers") == "2", "both follow")
        # Their sessions must not end meanwhile: that would be another proposal.
        with zk.Connection(follower.address, 40000) as link:
            assert link.call(zk.create("/a", b"x" * 1000))[0] == 0
        with zk.Connection(leader.address, 40000) as link:
            assert link.call(zk.create("/b", b"y" * 100))[0] == 0
        led = figures(leader)
        assert led["zk_server_state"] == "leader" and led["zk_peer_state"] == "leading - broadcast", led
        assert led["zk_quorum_size"] == "3" and led["zk_learners"] == led["zk_synced_followers"] == "2", led
        assert led["zk_synced_observers"] == "0" and led["zk_pending_syncs"] == "0" and int(led["zk_leader_uptime"]) > 0
        sizes = [int(led[f"zk_{name}_proposal_size"]) for name in ("min", "last", "max")]
        assert 0 < sizes[0] <= sizes[1] <= sizes[2] < 1000, sizes
        text = four_letters(leader.address, b"srvr")
        assert f"Proposal sizes last/min/max: {sizes[1]}/{sizes[0]}/{sizes[2]}\n" in text, text
        followed = figures(follower)
        assert followed["zk_server_state"] == "follower" and followed["zk_peer_state"] == "following - broadcast"
        assert followed["zk_quorum_size"] == "3" and "zk_learners" not in followed, followed
        assert "Proposal" not in four_letters(follower.address, b"stat")
        assert not any(key.startswith("zk_conclave_") for key in led), led
        four_letters(leader.address, b"srst")
        assert "Proposal sizes last/min/max: -1/-1/-1\n" in four_letters(leader.address, b"srvr")
        conf = four_letters(follower.address, b"conf")
        assert "membership: \n" + "\n".join(line.replace(";", ":participant;") for line in ensemble.members[0].lines) in conf, conf
        check_admin(ensemble, leader, follower)


def check_admin(ensemble, leader, follower):
    def ask(member, name):
        return json.loads(fetch(member, f"/commands/{name}")[1])

    assert ask(leader, "leader") == {"is_leader": True, "leader_id": leader.number, "leader_ip": "127.0.0.1",
                                     "command": "leader", "error": None}
    assert ask(follower, "leader")["is_leader"] is False and ask(follower, "leader")["leader_id"] == leader.number
    view = ask(follower, "voting_view")["current_config"]
    assert sorted(view) == ["1", "2", "3"] and set(view["1"]) == {"server_addresses", "election_addresses",
                                                                 "client_address", "learner_type"}, view
    assert view["2"]["client_address"] == ensemble.members[1].host and view["2"]["learner_type"] == "participant"
    zab = ask(leader, "zabstate")
    assert list(zab) == ["myid", "is_leader", "quorum_address", "election_address", "client_address", "voting",
                         "last_zxid", "zab_epoch", "zab_counter", "zabstate", "command", "error"], zab
    assert zab["voting"] and zab["zabstate"] == "broadcast" and zab["myid"] == leader.number, zab
    assert view[str(leader.number)]["server_addresses"] == zab["quorum_address"]["all_addresses"], zab
    stats = ask(leader, "stats")
    assert set(stats["proposal_stats"]) == {"last_buffer_size", "min_buffer_size", "max_buffer_size"}, stats
    assert "proposal_stats" not in ask(follower, "stats")
    assert ask(leader, "observers")["observers"] == []


def test_metrics_are_documented():
    with Ensemble(3, admin=True) as ensemble:
        leader, (follower, _) = ensemble.roles()
        with open(os.path.join(ROOT, "docs", "metrics.md"), encoding="utf-8") as file:
            text = file.read()

        def documented(*kinds):
            return set(re.findall(rf"^\| `(\w+)` \| (?:{'|'.join(kinds)}) \|", text, re.M))

        def told(member):
            return set(re.findall(r"^# TYPE (\w+) ", fetch(member, "/metrics")[1], re.M))

        alone = documented("counter", "gauge", "summary", "histogram")
        assert told(follower) == alone | documented("member"), told(follower) ^ (alone | documented("member"))
        everything = alone | documented("member", "leader")
        assert told(leader) == everything, told(leader) ^ everything
        wait_for(lambda: "\nconclave_links 2\n" in fetch(leader, "/metrics")[1], "both links")
        lines = fetch(leader, "/metrics")[1]
        for member in ensemble.members:
            assert f'conclave_member_linked{{member="{member.number}"}} 1\n' in lines, lines
        assert re.search(r"^conclave_elections_won_total [1-9]", lines, re.M), lines
        with zk.Connection(follower.address, 10000) as link:
            assert link.call(zk.create("/m", b""))[0] == 0
        forwarded = int(re.search(r"^conclave_batches_forwarded_total (\d+)$", fetch(follower, "/metrics")[1], re.M).group(1))
        taken = int(re.search(r"^conclave_batches_taken_total (\d+)$", fetch(leader, "/metrics")[1], re.M).group(1))
        assert forwarded >= 2 and taken >= forwarded - 1, (forwarded, taken)


def test_sessions():
    with Ensemble(3, options=["--4lw.commands.whitelist", "srvr,sess"], admin=True) as ensemble:
        first, _, third = ensemble.members
        with zk.Connection(first.address, 30000) as a, zk.Connection(third.address, 40000) as b:
            assert a.call(zk.create("/a", b"", flags=1))[0] == 0 and a.call(zk.create("/b", b"", flags=1))[0] == 0
            code, out, err = run("sessions", "--server", first.host, "--json")
            assert code == 0, err
            rows = {int(row["id"], 16): row for row in json.loads(out)["sessions"]}
            ids = [link.session_id & (2**64 - 1) for link in (a, b)]
            assert set(rows) == set(ids), (rows, ids)
            one, two = rows[ids[0]], rows[ids[1]]
            assert one["server"] == 1 and two["server"] == 3, rows
            assert one["ephemerals"] == 2 and two["ephemerals"] == 0, rows
            assert one["timeout_ms"] == 30000 and two["timeout_ms"] == 40000 and 0 <= one["idle_ms"] <= 30000, rows
            assert one["client"].startswith("127.0.0.1:") and two["client"].startswith("127.0.0.1:"), rows
            out = run("sessions", "--admin", f"127.0.0.1:{third.admin_port}")[1]
            assert re.search(rf"^0x{ids[1]:x} +3 +40000ms .* 127\.0\.0\.1:\d+$", out, re.M), out
            assert re.search(rf"^0x{ids[0]:x} +1 +30000ms .* -$", out, re.M), out
    with Conclave() as server:
        code, _, err = run("sessions", "--server", server.host)
        assert code == 77 and "4lw.commands.whitelist=srvr,sess" in err, (code, err)


def test_transfer():
    with Ensemble(3, options=SUPER, admin=True) as ensemble:
        leader, (other, third) = ensemble.roles()
        asked = f"127.0.0.1:{third.admin_port}"  # does not lead: it tells the leader
        code, _, err = run("members", "transfer", "--server", ensemble.hosts, "--admin", asked)
        assert code == 77 and "HTTP 401" in err and "give credentials with --auth" in err, (code, err)
        code, _, err = run("members", "transfer", "--server", ensemble.hosts, "--admin", asked, "--auth", "digest:super:no")
        assert code == 77 and "HTTP 403" in err and "superDigest" in err and "give" not in err, (code, err)
        assert ensemble.wait_leader() is leader
        code, _, err = run("members", "transfer", "9", "--server", ensemble.hosts, "--admin", asked, "--auth", AUTH)
        assert code == 1 and "There is no such voter" in err, (code, err)
        assert fetch(leader, "/members/transfer")[0] == 405
        with zk.Connection(leader.address, 40000) as link:
            code, out, err = run("members", "transfer", str(other.number), "--server", ensemble.hosts, "--admin", asked,
                                 "--auth", AUTH)
            assert code == 0 and out == f"{other.number} leads\n", (code, out, err)
            assert link.call(zk.create("/after", b""))[0] == 0, "the session and its connection go on"
        assert ensemble.wait_leader() is other
        code, _, err = run("members", "transfer", str(other.number), "--server", ensemble.hosts, "--admin",
                           f"127.0.0.1:{other.admin_port}", "--auth", AUTH)
        assert code == 1 and "already leads" in err, (code, err)
        code, out, err = run("members", "transfer", str(third.number), "--server", third.host, "--auth", AUTH)
        assert code == 0 and out == f"{third.number} leads\n", ("the leader says where its HTTP port is", code, out, err)


def test_transfer_finds_a_port():
    """The leader has no HTTP port: another server's is asked. None has one: each is named, with what to do."""
    with Ensemble(3, options=SUPER, admin=True) as ensemble:
        leader, _ = ensemble.roles()
        leader.admin = False
        leader.stop()
        leader.start()
        first = ensemble.wait_leader()
        if first is not leader:
            code, _, err = run("members", "transfer", str(leader.number), "--server", ensemble.hosts, "--auth", AUTH)
            assert code == 0, (code, err)
        now, (to, _) = ensemble.roles()
        assert now is leader
        code, out, err = run("members", "transfer", str(to.number), "--server", leader.host, "--auth", AUTH)
        assert code == 0 and out == f"{to.number} leads\n", (code, out, err)
    with Ensemble(3, options=SUPER) as ensemble:
        code, _, err = run("members", "transfer", "--server", ensemble.members[0].host, "--auth", AUTH)
        assert code == 69 and all(f"  {member.host}: it has no HTTP port" in err for member in ensemble.members), (code, err)
        assert "--admin HOST:PORT" in err, err


def test_no_quorum_is_reported_as_such():
    with Ensemble(3) as ensemble:
        leader, others = ensemble.roles()
        for member in others:
            member.kill()
        wait_status(leader.host, lambda code, a: a["verdict"] == "no quorum")
        code, _, err = run("get", "/", "--server", leader.host, "--timeout", "5s")
        assert code == 69 and "do not serve clients now" in err and "no leader with a quorum" in err, (code, err)
        assert "TLS" not in err, err


def newcomer(ensemble, number):
    """A server with an empty folder that lists all members and itself, and its own line."""
    lines = list(ensemble.members[0].lines)
    member = ConclaveMember(number, lines, SUPER)
    line = f"127.0.0.1:{free_port()}:{free_port()};127.0.0.1:{member.port}"
    lines.append(f"server.{number}={line}")
    return member, line


def member_rows(where):
    code, out, err = run("members", "list", "--server", where, "--json")
    assert code == 0, err
    return {row["id"]: row for row in json.loads(out)["members"]}


def test_members_come_and_go():
    with Ensemble(3, options=SUPER) as ensemble:
        with zk.Connection(ensemble.members[0].address, 10000) as link:
            for i in range(200):
                assert link.call(zk.create(f"/n{i}", b"d" * 500))[0] == 0
        leader, _ = ensemble.roles()
        member, line = newcomer(ensemble, 4)
        try:
            code, _, err = run("members", "add", f"4={line}", "--server", ensemble.hosts)
            assert code == 77 and "--auth" in err, (code, err)
            member.start()
            code, out, err = run("members", "add", f"4={line}", "--observer", "--server", ensemble.hosts, "--auth", AUTH)
            assert code == 0 and f"server.4={line.replace(';', ':observer;')}" in out, (code, out, err)
            assert "server 4: " in err, "progress"
            assert member_rows(ensemble.hosts)[4]["role"] == "observer"
            code, out, err = run("members", "promote", "4", "--server", ensemble.hosts, "--auth", AUTH)
            assert code == 0 and f"server.4={line.replace(';', ':participant;')}" in out, (code, out, err)
            wait_for(lambda: member_rows(member.host).get(4, {}).get("role") == "voter", "it knows that it has a vote")
            rows = member_rows(member.host)
            assert len(rows) == 4 and [row["leads"] for row in rows.values()].count(True) == 1, rows
            wait_status(ensemble.hosts, lambda code, a: a["verdict"] == "ok" and a["voters"] == 4)
            with zk.Connection(member.address, 10000) as link:
                assert link.call(zk.get_data("/n199"))[0] == 0
            version = re.search(r"^version=(\w+)$", out, re.M).group(1)
            code, _, err = run("members", "remove", "4", "--version", f"{int(version, 16) + 1:x}", "--server",
                               ensemble.hosts, "--auth", AUTH)
            assert code == 1 and "has changed meanwhile" in err, (code, err)
            code, out, err = run("members", "remove", "4", "--version", version, "--server", ensemble.hosts, "--auth", AUTH)
            assert code == 0 and "server.4=" not in out, (code, out, err)
            assert sorted(member_rows(ensemble.hosts)) == [1, 2, 3]
            wait_status(f"{ensemble.hosts},{member.host}",  # it learns last that it is none of them
                        lambda code, a: all(row["id"] != 4 or row["state"] != "ok" for row in a["servers"]))
            code, _, err = run("members", "remove", "4", "--server", ensemble.hosts, "--auth", AUTH)
            assert code == 1 and "there is no member 4" in err, (code, err)
        finally:
            member.destroy()


def refused_add(ensemble, number, line, *texts):
    """An add that fails says why, and leaves the members as they were."""
    code, _, err = run("members", "add", f"{number}={line}", "--server", ensemble.hosts, "--auth", AUTH)
    assert code == 1 and "the members are as before" in err, (code, err)
    for text in texts:
        assert text in err, (text, err)
    assert sorted(member_rows(ensemble.hosts)) == [1, 2, 3]


def fourth(before, lines, options):
    """Server 4 with an empty folder, started in the place of another one."""
    before.destroy()
    member = ConclaveMember(4, lines, options)
    member.port = before.port
    member.start()
    return member


def test_a_failed_add_is_explained():
    """Not running; another secret; data of another ensemble; then it works, and a dead server gets no vote again."""
    with tempfile.TemporaryDirectory() as folder:
        secrets = [os.path.join(folder, name) for name in ("members", "other")]
        for i, path in enumerate(secrets):
            with open(path, "w", encoding="ascii") as file:
                file.write(f"the secret of ensemble number {i}\n")
            os.chmod(path, 0o600)
        secret = ["--clusterSecretFile", secrets[0]]
        with Ensemble(3, options=[*SUPER, *secret]) as ensemble:
            member, line = newcomer(ensemble, 4)
            try:
                refused_add(ensemble, 4, line, f"nothing answers at {member.host}", "connection refused", "nothing listens")
                member = fourth(member, member.lines, [*SUPER, "--clusterSecretFile", secrets[1]])
                refused_add(ensemble, 4, line, "another secret", "clusterSecretFile differs")
                member = fourth(member, [f"server.4={line}"], [*SUPER, *secret])
                with zk.Connection(member.address, 10000) as link:
                    assert link.call(zk.create("/own"))[0] == 0
                refused_add(ensemble, 4, line, "another cluster", "belongs to another ensemble")
                member = fourth(member, [*ensemble.members[0].lines, f"server.4={line}"], [*SUPER, *secret])
                code, out, err = run("members", "add", f"4={line}", "--server", ensemble.hosts, "--auth", AUTH)
                assert code == 0 and f"server.4={line.replace(';', ':participant;')}" in out, (code, out, err)
                assert run("members", "remove", "4", "--server", ensemble.hosts, "--auth", AUTH)[0] == 0
                member.kill()
                refused_add(ensemble, 4, line, "the leader has no link to server 4")
                assert all(row["role"] == "voter" for row in member_rows(ensemble.hosts).values())
            finally:
                member.destroy()


def add_until_it_is_there(ensemble, line):
    """Repeats the add while the servers say that an earlier one goes on."""
    deadline = time.monotonic() + WAIT_S
    while True:
        code, out, err = run("members", "add", f"4={line}", "--server", ensemble.hosts, "--auth", AUTH, "--timeout", "50s")
        if code == 0:
            return out
        assert "another change of the members is under way" in err and "members list" in err, (code, err)
        assert time.monotonic() < deadline, err
        time.sleep(0.5)


def test_an_interrupted_add():
    """The command is killed, and its add cannot be completed; the leader is killed at any moment. What is left is said, and
    the next add works."""
    with Ensemble(3, options=SUPER) as ensemble:
        member, line = newcomer(ensemble, 4)
        words = [program(), "members", "add", f"4={line}", "--server", ensemble.hosts, "--auth", AUTH, "--timeout", "50s"]
        try:
            add = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            while "no link to it" not in (told := add.stderr.readline()):
                assert told, "it ended before it was killed"
            add.kill()
            add.communicate()
            wait_for(lambda: sorted(member_rows(ensemble.hosts)) == [1, 2, 3], "the change is taken back")
            member.start()
            add_until_it_is_there(ensemble, line)
            for _ in range(2):
                assert run("members", "remove", "4", "--server", ensemble.hosts, "--auth", AUTH)[0] == 0
                member = fourth(member, member.lines, SUPER)
                add = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                time.sleep(random.uniform(0, 0.4))
                leader = ensemble.roles()[0]
                leader.kill()
                _, err = add.communicate(timeout=WAIT_S)
                assert add.returncode == 0 or "members list" in err or "the members are as before" in err, (add.returncode, err)
                leader.start()
                ensemble.wait_leader(WAIT_S, serving=3)
                assert f"server.4={line.replace(';', ':participant;')}" in add_until_it_is_there(ensemble, line)
                with zk.Connection(member.address, 10000) as link:
                    assert link.call(zk.sync("/"))[0] == 0
        finally:
            member.destroy()


def test_an_add_beside_another():
    """While one add waits for its server, a second one reports that, with advice."""
    with Ensemble(3, options=SUPER) as ensemble:
        member, line = newcomer(ensemble, 4)
        words = ["members", "add", f"4={line}", "--server", ensemble.hosts, "--auth", AUTH]
        try:
            first = subprocess.Popen([program(), *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            while "no link to it" not in (told := first.stderr.readline()):
                assert told, "it ended before the other began"
            code, _, err = run(*words)
            assert code == 1 and "is under way" in err and "conclave members list" in err, (code, err)
            assert "the members are as before" in first.communicate()[1]
        finally:
            member.destroy()


def test_one_grows_to_three():
    """As docs/ensemble.md says: server 1 is started again with the lines of all, the empty ones join by themselves."""
    lines = []
    members = [ConclaveMember(number, lines, SUPER) for number in (1, 2, 3)]
    try:
        members[0].start()
        with zk.Connection(members[0].address, 10000) as link:
            for i in range(100):
                assert link.call(zk.create(f"/g{i}", b"kept"))[0] == 0
        members[0].stop()
        lines += [f"server.{member.number}=127.0.0.1:{free_port()}:{free_port()};127.0.0.1:{member.port}"
                  for member in members]
        for member in members:
            member.start()
        answer = wait_status(members[0].host, lambda code, a: a["verdict"] == "ok" and a["voters"] == 3)
        assert answer["voters_serving"] == 3, answer
        with zk.Connection(members[2].address, 10000) as link:
            assert link.call(zk.get_data("/g99"))[1]["data"] == b"kept"
            members[0].kill()
            wait_status(members[1].host, lambda code, a: code == 0 and a["leader"] in (2, 3))
            assert link.call(zk.create("/after", b""))[0] == 0, "two of three go on"
    finally:
        for member in members:
            member.destroy()


def test_dead_member_is_replaced():
    """The same number at another address, on an empty folder; and a member whose folder was lost at its own."""
    with Ensemble(3, options=SUPER) as ensemble:
        with zk.Connection(ensemble.members[0].address, 10000) as link:
            assert link.call(zk.create("/r", b"kept"))[0] == 0
        dead = ensemble.roles()[1][0]
        dead.kill()
        member, line = newcomer(ensemble, dead.number)
        own = f"server.{dead.number}="
        member.lines[:] = [text for text in member.lines[:-1] if not text.startswith(own)] + [own + line]
        others = ",".join(m.host for m in ensemble.members if m is not dead)
        try:
            member.start()
            code, out, err = run("members", "add", f"{dead.number}={line}", "--server", others, "--auth", AUTH)
            assert code == 0 and own + line.replace(";", ":participant;") in out, (code, out, err)
            answer = wait_status(others, lambda code, a: a["verdict"] == "ok")
            assert answer["voters"] == 3 and member.host in [row["address"] for row in answer["servers"]], answer
            member.kill()
            shutil.rmtree(os.path.join(member.folder, "data"))
            member.start()
            wait_status(others, lambda code, a: a["verdict"] == "ok" and a["voters_serving"] == 3)
            with zk.Connection(member.address, 10000) as link:
                assert link.call(zk.get_data("/r"))[1]["data"] == b"kept"
        finally:
            member.destroy()


def test_numbers_from_0_to_255():
    """ZooKeeper's own limits. Clients of each have sessions, ephemerals and all the rest; 0 comes and goes."""
    lines = []
    members = [ConclaveMember(number, lines, SUPER) for number in (0, 7, 255)]
    lines += [f"server.{member.number}=127.0.0.1:{free_port()}:{free_port()};127.0.0.1:{member.port}"
              for member in members]
    try:
        for member in members:
            member.start()
        hosts = ",".join(member.host for member in members)
        wait_status(hosts, lambda code, a: a["verdict"] == "ok" and a["voters"] == 3)
        assert sorted(member_rows(hosts)) == [0, 7, 255]
        sessions = set()
        for member in members:
            with zk.Connection(member.address, 10000) as link:
                path = f"/of-{member.number}"
                sessions.add(link.session_id)
                assert link.session_id >> 56 & 0xff == member.number, hex(link.session_id)
                assert link.call(zk.create(path, flags=zk.EPHEMERAL))[0] == 0
                stat = link.call(zk.exists(path))[1]["stat"]
                assert stat["ephemeralOwner"] == link.session_id
                assert link.call(zk.create(path + "/below"))[0] == -108
                link.close_session()
            with zk.Connection(members[1].address, 10000) as link:
                assert link.call(zk.sync("/"))[0] == 0 and link.call(zk.exists(path))[0] == -101
        assert len(sessions) == 3
        zero = members[0]
        code, out, err = run("members", "remove", "0", "--server", members[2].host, "--auth", AUTH)
        assert code == 0 and "server.0=" not in out and "server.255=" in out, (code, out, err)
        code, out, err = run("members", "add", lines[0], "--server", members[2].host, "--auth", AUTH)
        assert code == 0 and "server.0=" in out, (code, out, err)
        wait_status(zero.host, lambda code, a: a["verdict"] == "ok" and a["voters"] == 3)
        data = os.path.join(zero.folder, "data", "myid")
        assert open(data, encoding="ascii").read() == "0\n"
    finally:
        for member in members:
            member.destroy()


def test_usage():
    for words, text in ((["add", "4"], "add wants ID=HOST"), (["remove", "x"], "no id from 0 to 255"),
                        (["promote"], "too few arguments: conclave members promote ID"), (["grow"], "is none of list, add"),
                        (["transfer", "-x"], "")):
        code, _, err = run("members", *words)
        assert code == 64 and text in err, (words, code, err)
    code, _, err = run("status", "--server", "a b")
    assert code in (64, 69), err
    code, _, err = run("sessions", "--admin", "nowhere")
    assert code == 64 and "HOST:PORT" in err, err


if __name__ == "__main__":
    missing = why_missing()
    sys.exit(cases.skip_all(missing) if missing else cases.run(cases.named("test_", globals()), sys.argv[1:]))
