#!/usr/bin/env python3
"""Fail-over of real Redis servers by `conclave redis-failover`: killed, stopped, cut off, emptied; managers killed at
every step.

Promise: a case per row of the tables of edge cases (E108 to E121), by name; three managers of which one dies, stands still
or loses its lease before and after each step; random fail-overs under writers of the client library, some with WAIT 1:
what was acknowledged by a replica is never lost, what else is lost is counted and compared with what the managers tell, and
no two servers take writes of clients that follow the record.
Limits: Debian's Redis; the cases with partitions are skipped, with the reason, without network namespaces. A few random
fail-overs and one way to die at each step unless asked for more.

usage: redis_test.py [--rounds N] [--all-steps] [--seed N] [--beside N] [--apache] [CASE...]
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import acls  # noqa: E402
import cases  # noqa: E402
import certs  # noqa: E402
import conclave  # noqa: E402
import redis  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from redis import RedisServer  # noqa: E402
from redis_cluster import Cluster, Watcher, eventually, overlaps  # noqa: E402
from split_net import CLIENTS, SplitNet, enter_own_network, host_of  # noqa: E402

BEYOND_SOCKETS = 30_000_000  # bytes
QUIET_S = 2.5      # time in which a fail-over with QUICK options would have been done twice
STEP_DEATHS = ("exit", "exit-after", "stop", "drop-lease")
OPTIONS = None     # of the command line
ENSEMBLE = None    # the server that all clusters but those on the split network share


def addresses(nodes):
    return [node.host for node in nodes]


def fill(node, count=100, prefix="k", size=100, replicas=0):
    """Writes, and waits until this number of replicas acknowledges."""
    with node.client(10) as link:  # longer than WAIT may take
        for number in range(count):
            link.call("SET", f"{prefix}:{number}", "x" * size)
        assert not replicas or link.call("WAIT", replicas, 5000) >= replicas


def offset(node):
    info = node.info()
    return int(info["master_repl_offset" if info["role"] == "master" else "slave_repl_offset"])


def stays_replica(cluster, seconds, what, unchanged=lambda: True):
    """The second server is not promoted for so long. One that does not answer in time is asked again, to the end."""
    cluster.stays(lambda: unchanged() and cluster.nodes[1].role() != "master", seconds, what)
    eventually(lambda: f"{what}\n{cluster.told()}", lambda: cluster.nodes[1].role() == "slave")


def come_back_empty(cluster):
    """The master is killed, and starts without its data when its replicas have just tried in vain to reach it. They try once
    a second, so what is left of that second is what the managers have."""
    first, *others = cluster.nodes

    def refused():
        return [node.log_tail(1 << 30).count("Error condition on socket for SYNC") for node in others]
    before = refused()
    first.kill()  # they try at once, then by their clocks
    eventually(lambda: f"the replicas do not try\n{cluster.told()}",
               lambda: all(now >= then + 2 for now, then in zip(refused(), before)), step_s=0.005)
    first.restart_empty()
    cluster.note_pid(first)
    return first


# --- who decides -----------------------------------------------------------------------------------------------------------


def test_E109_one_manager_of_three_decides_nothing():
    with Cluster(ENSEMBLE, "E109", redis=2) as cluster:
        cluster.start(managers=1, wait=False)
        eventually(cluster.told, lambda: cluster.current().get("master"))
        first = cluster.nodes[0]
        first.kill()
        stays_replica(cluster, QUIET_S, "one of three configured managers has failed over",
                      lambda: cluster.current()["master"] == first.host)
        cluster.manager(2)
        cluster.wait_master(but=first)


# --- who is chosen -----------------------------------------------------------------------------------------------------------


def lagging(cluster, node, writes=300):
    """What is written now comes to this replica only as far as sockets hold it; with the others in step."""
    node.freeze()
    fill(cluster.nodes[0], writes, "late", BEYOND_SOCKETS // 300)
    others = [other for other in cluster.nodes[1:] if other is not node and other.of is cluster.nodes[0]]
    with cluster.nodes[0].client(10) as link:
        link.call("SET", "last", "1")
        assert not others or link.call("WAIT", len(others), 3000) >= len(others)


def test_E111_the_furthest_replica_is_chosen():
    with Cluster(ENSEMBLE, "E111a") as cluster:
        cluster.start()
        first, behind, ahead = cluster.nodes
        lagging(cluster, behind)
        first.kill()
        behind.thaw()
        assert cluster.wait_master(but=first) is ahead, cluster.told()
        assert ahead.call("GET", "last") == b"1"
        cluster.restart(first)
        assert cluster.wait_whole() is ahead


def test_E111_priority_0_is_never_chosen():
    with Cluster(ENSEMBLE, "E111b", options=["--allow-data-loss"]) as cluster:
        cluster.start_nodes()
        first, behind, never = cluster.nodes
        never.call("CONFIG", "SET", "replica-priority", "0")
        for number in (1, 2, 3):
            cluster.manager(number)
        cluster.wait_state("ok")
        lagging(cluster, behind)
        first.kill()
        behind.thaw()
        assert cluster.wait_master(but=first) is behind, cluster.told()


def test_E111_another_history_is_never_chosen():
    with RedisServer() as foreign, Cluster(ENSEMBLE, "E111c", options=["--allow-data-loss"]) as cluster:
        cluster.start()
        first, good, astray = cluster.nodes
        fill(foreign, 2000, "foreign", 1000)
        assert cluster.command("pause")[0] == 0  # until the copy is there
        cluster.wait_state("paused")
        first.kill()
        astray.kill()  # and comes back as the replica of somebody else, with far more behind it
        astray.of = foreign
        astray.write_settings()
        astray.start()
        cluster.note_pid(astray)
        astray.wait_synced()
        assert astray.call("EXISTS", "foreign:1") == 1
        assert cluster.command("resume")[0] == 0
        assert cluster.wait_master(but=first) is good, cluster.told()
        assert good.call("EXISTS", "foreign:1") == 0


def test_E111_nobody_who_lags_too_far():
    with Cluster(ENSEMBLE, "E111d", redis=2, options=["--max-lag-bytes", "1000"]) as cluster:
        cluster.start()
        first, behind = cluster.nodes
        time.sleep(0.5)
        behind.freeze()
        fill(first, 300, "late", BEYOND_SOCKETS // 300)
        eventually(cluster.told, lambda: any(
            report["nodes"].get(first.host, {}).get("offset", 0) >= offset(first) - 100
            for report in cluster.reports().values()))
        first.kill()
        behind.thaw()
        cluster.stays(lambda: behind.role() != "master" and cluster.current().get("master") == first.host, QUIET_S,
                      "a replica that lags too far was promoted")
        code, text = cluster.command("failover", "--force", "--wait", "--timeout", "10s")
        assert code == 0, text
        assert cluster.wait_master(but=first) is behind


def test_E117_without_a_candidate_the_record_stays():
    # kept as RDB, as servers of these versions forget by their AOF whose history they have
    with Cluster(ENSEMBLE, "E117", settings=["appendonly no", "save 3600 1"]) as cluster:
        cluster.start()
        first, second, third = cluster.nodes
        fill(first, replicas=2)
        watcher = Watcher(ENSEMBLE.address, f"{cluster.root}/current")
        second.kill()
        third.stop()
        time.sleep(0.6)
        first.kill()
        cluster.wait_state("no_candidate")
        assert cluster.current()["master"] == first.host, cluster.told()
        third.start()
        cluster.note_pid(third)
        assert cluster.wait_master(but=first) is third, cluster.told()  # tried again by itself
        watcher.close()
        assert all(record and record["master"] in addresses(cluster.nodes) for _, record in watcher.seen), watcher.seen


def test_E116_a_candidate_that_dies_is_followed_by_the_next():
    with Cluster(ENSEMBLE, "E116", redis=4) as cluster:
        cluster.start_nodes()
        first = cluster.nodes[0]
        held = cluster.manager(1, stop_at="publish:stop")
        cluster.manager(2)
        cluster.manager(3)
        cluster.wait_state("ok")
        first.kill()
        eventually(cluster.told, held.stopped)
        chosen = next(node for node in cluster.nodes[1:] if node.role() == "master")  # promoted, not published
        chosen.kill()
        held.send(signal.SIGCONT)
        # it may publish the dead one, which was well when it looked last; then that is replaced as any other
        after = eventually(cluster.told, lambda: next((node for node in (cluster.wait_master(but=first),)
                                                       if node not in (first, chosen)), None))
        for node in (first, chosen):
            cluster.restart(node)
        assert cluster.wait_whole() is after


# --- returning servers --------------------------------------------------------------------------------------------------------


def test_E113_a_master_that_returns_is_demoted_before_it_is_listed():
    with Cluster(ENSEMBLE, "E113") as cluster:
        cluster.start()
        first, *others = cluster.nodes
        fill(first)
        for node in others:
            node.freeze()
        fill(first, 300, "alone", BEYOND_SOCKETS // 300)  # of which nobody else will ever have the last
        time.sleep(1.2)  # everysec: on its disk
        eventually(cluster.told, lambda: any(
            report["nodes"].get(first.host, {}).get("offset", 0) >= offset(first) - 100
            for report in cluster.reports().values()))
        first.kill()
        for node in others:
            node.thaw()
        second = cluster.wait_master(but=first)
        listed = []

        def told(record):
            if record and first.host in record.get("replicas", []):
                listed.append(first.role())
            if record and record.get("master") == first.host:
                listed.append("master in the record")
        watcher = Watcher(ENSEMBLE.address, f"{cluster.root}/current", told)
        cluster.restart(first)
        assert cluster.wait_whole() is second
        watcher.close()
        assert set(listed) <= {"slave"} and listed, listed
        lost = 300 - second.call("EXISTS", *[f"alone:{n}" for n in range(300)])
        assert lost > 0 and first.call("EXISTS", "alone:299") == 0
        bytes_lost = lost * (BEYOND_SOCKETS // 300)
        told_lost = max((event.get("bytes") or 0 for event in cluster.events()), default=0)
        assert told_lost >= bytes_lost, f"told of {told_lost} bytes of {bytes_lost}: {cluster.events()}"
        return f"{lost} writes of {bytes_lost} bytes lost, told of {told_lost}"


def test_E115_a_master_that_comes_back_empty_empties_nobody():
    with Cluster(ENSEMBLE, "E115", options=["--min-down", "10s"]) as cluster:
        cluster.start()
        fill(cluster.nodes[0], 100, replicas=2)
        eventually(cluster.told, lambda: all(len(r["nodes"]) == 3 for r in cluster.reports().values()))
        first = come_back_empty(cluster)
        after = cluster.wait_master(but=first)
        assert after.call("DBSIZE") == 100, f"{after.host} was emptied\n{cluster.told()}"
        assert cluster.wait_whole() is after
        assert [node.call("DBSIZE") for node in cluster.nodes] == [100, 100, 100], cluster.told()


def test_E115_what_was_written_since_the_last_look_counts():
    """When the managers looked last all were empty; since then clients have written."""
    with Cluster(ENSEMBLE, "E115c", options=["--period", "3s", "--min-down", "10s"]) as cluster:
        cluster.start()
        fill(cluster.nodes[0], 100, replicas=2)
        first = come_back_empty(cluster)
        cluster.wait_master(but=first)
        assert cluster.wait_whole().call("DBSIZE") == 100, cluster.told()


def test_E115_a_master_that_starts_as_a_replica_of_nobody_empties_nobody():
    """As docs/redis-failover.md advises: then it does not matter who is faster."""
    with Cluster(ENSEMBLE, "E115b") as cluster:
        cluster.start()
        first, *others = cluster.nodes
        fill(first, 100, replicas=2)
        first.settings.append("replicaof 192.0.2.1 6379")
        for manager in cluster.managers:
            manager.send(signal.SIGSTOP)  # far too slow
        first.restart_empty()
        cluster.note_pid(first)
        time.sleep(2.5)
        assert [node.call("DBSIZE") for node in others] == [100, 100], others[0].log_tail()
        for manager in cluster.managers:
            manager.send(signal.SIGCONT)
        after = cluster.wait_master(but=first)
        assert cluster.wait_whole() is after
        assert [node.call("DBSIZE") for node in cluster.nodes] == [100, 100, 100], cluster.told()


def test_a_master_that_comes_back_with_its_data_stays():
    with Cluster(ENSEMBLE, "restart", redis=2, options=["--min-down", "5s"]) as cluster:
        cluster.start()
        first = cluster.nodes[0]
        fill(first)
        first.stop()  # in order: all is on its disk
        first.start()
        cluster.note_pid(first)
        run_id = first.info()["run_id"]
        writer = cluster.writer("r")
        eventually(cluster.told, lambda: cluster.current().get("run_id") == run_id or cluster.current()["master"] != first.host)
        writer.wait_acks(20)
        assert cluster.wait_whole().call("EXISTS", "k:99") == 1


def test_a_master_that_is_copied_again_during_its_plan_leaves_a_master():
    """A candidate is chosen, and the old master is back from its AOF: all copy the history that it begins."""
    # "everysec" keeps writes in memory while the disk is busy with an earlier fsync: kill -9 would lose them
    with Cluster(ENSEMBLE, "copied", managers=1, settings=["appendfsync always"]) as cluster:
        cluster.start(first_stop_at="choose:stop")
        held = cluster.managers[0]
        first, *others = cluster.nodes
        fill(first, 100, replicas=2)
        first.kill()
        eventually(cluster.told, held.stopped)
        first.start()
        cluster.note_pid(first)
        eventually("a full copy", lambda: {node.info()["master_replid"] for node in others} == {first.info()["master_replid"]})
        held.send(signal.SIGCONT)
        assert cluster.wait_whole().call("DBSIZE") == 100, cluster.told()
        assert [node.call("DBSIZE") for node in cluster.nodes] == [100, 100, 100], cluster.told()


# --- manual ---------------------------------------------------------------------------------------------------------------------


def test_E118_a_hand_over_loses_nothing():
    with Cluster(ENSEMBLE, "E118") as cluster:
        cluster.start()
        writers = [cluster.writer(f"w{n}", interval_ms=1) for n in range(3)]
        for writer in writers:
            writer.wait_acks(50)
        for _ in range(3):
            before = cluster.wait_whole()
            target = next(node for node in cluster.nodes if node is not before)
            code, text = cluster.command("failover", "--to", target.host, "--wait", "--timeout", "15s")
            assert code == 0, f"{text}\n{cluster.told()}"
            assert cluster.wait_master(node=target)
            for writer in writers:
                writer.wait_acks(20, by=target.host)
        assert cluster.tree.children(f"{cluster.root}/requests") == []
        lost = lost_writes(cluster, writers)
        assert not lost, f"{len(lost)} acknowledged writes lost: {lost[:5]}"
        assert not overlaps(writers)
        return f"{sum(len(w.acks()) for w in writers)} writes, 3 hand-overs"


def test_E118_to_an_unknown_host_is_refused():
    with Cluster(ENSEMBLE, "E118b", redis=2) as cluster:
        cluster.start()
        code, text = cluster.command("failover", "--to", "127.0.0.1:1", "--wait", "--timeout", "10s")
        assert code == 1, (code, text)
        assert cluster.current()["master"] == cluster.nodes[0].host
        code, text = cluster.command("failover", "--to", cluster.nodes[0].host, "--wait", "--timeout", "10s")
        assert code in (0, 1), (code, text)  # it is the master already
        assert cluster.wait_state("ok")["master"] == cluster.nodes[0].host


def test_E118_a_request_waits_for_a_manager_or_expires():
    with Cluster(ENSEMBLE, "E118c", redis=2) as cluster:
        cluster.start()
        for manager in cluster.managers:
            code = manager.end()
            assert code == 128 + signal.SIGTERM, f"exit {code}\n{manager.tail()}"
        code, text = cluster.command("failover", "--timeout", "1s", "--wait")
        assert code == 75, (code, text)  # nobody there, and given up
        time.sleep(1)
        for number in (1, 2, 3):
            cluster.manager(number)
        cluster.stays(lambda: cluster.current()["master"] == cluster.nodes[0].host, 1.5, "an expired request was carried out")
        for manager in cluster.managers[3:]:
            manager.end()
        code, text = cluster.command("failover", "--timeout", "60s")
        assert code == 0, (code, text)
        for number in (4, 5, 6):
            cluster.manager(number)
        cluster.wait_master(node=cluster.nodes[1])


def test_paused_means_paused():
    with Cluster(ENSEMBLE, "paused", redis=2) as cluster:
        cluster.start()
        assert cluster.command("pause")[0] == 0
        cluster.wait_state("paused")
        cluster.nodes[0].kill()
        stays_replica(cluster, QUIET_S, "failed over though paused")
        assert cluster.command("resume")[0] == 0
        cluster.wait_master(node=cluster.nodes[1])


# --- when not --------------------------------------------------------------------------------------------------------------------


def test_E119_a_server_that_stutters_is_not_down():
    with Cluster(ENSEMBLE, "E119", redis=2, options=["--op-timeout", "600ms", "--min-down", "300ms"]) as cluster:
        cluster.start()
        first = cluster.nodes[0]
        began = time.monotonic()
        while time.monotonic() - began < 10:  # fails one or two probes of each three; three take 1.8 s
            first.freeze()
            time.sleep(1.05)
            first.thaw()
            time.sleep(1)
        assert cluster.current()["master"] == first.host and cluster.current()["epoch"] == 1, cluster.told()
        assert not cluster.fenced(), cluster.fenced()


def test_E120_a_second_fail_over_in_short_time_is_held():
    with Cluster(ENSEMBLE, "E120", options=["--cooldown", "60s"]) as cluster:
        cluster.start()
        first = cluster.nodes[0]
        first.kill()
        second = cluster.wait_master(but=first)
        cluster.restart(first)
        cluster.wait_whole()
        second.kill()
        cluster.stays(lambda: cluster.current()["master"] == second.host, QUIET_S, "failed over within the cooldown")
        code, text = cluster.command("failover", "--wait", "--timeout", "15s")
        assert code == 0, f"{text}\n{cluster.told()}"
        assert cluster.wait_master(but=second)


# --- clients ------------------------------------------------------------------------------------------------------------------------


def test_E121_a_client_writes_to_no_old_master():
    """The old master is alive and takes writes: it was only replaced. A follower does not write there, linked or not."""
    with Cluster(ENSEMBLE, "E121") as cluster:
        cluster.start()
        writers = [cluster.writer("a"), cluster.writer("b", wait=True)]
        for writer in writers:
            writer.wait_acks(20)
        writers[0].send(signal.SIGSTOP)  # sleeps through the change, the lease and all news of it
        first = cluster.nodes[0]
        assert cluster.command("failover", "--wait")[0] == 0, cluster.told()
        second = cluster.wait_master(but=first)
        writers[1].wait_acks(20, by=second.host)
        time.sleep(2.5)
        for manager in cluster.managers:  # nobody looks after the old one any more
            manager.end(signal.SIGKILL)
        first.call("REPLICAOF", "NO", "ONE")
        writers[0].send(signal.SIGCONT)
        writers[0].wait_acks(20, by=second.host)
        assert not overlaps(writers), overlaps(writers)[:3]


def test_the_gems_layout():
    with Cluster(ENSEMBLE, "gem", options=["--gem-layout", "--gem-path", "/redis_failover/gem"]) as cluster:
        cluster.start()
        eventually(cluster.told, lambda: len((cluster.tree.json(f"{cluster.root}/nodes") or {}).get("slaves", [])) == 2)
        nodes = cluster.tree.json(f"{cluster.root}/nodes")
        assert nodes["master"] == cluster.nodes[0].host and set(nodes) == {"master", "slaves", "unavailable"}, nodes
        assert sorted(nodes["slaves"]) == sorted(addresses(cluster.nodes[1:])) and nodes["unavailable"] == [], nodes
        writer = cluster.writer("g", layout="gem")
        writer.wait_acks(20)
        first = cluster.nodes[0]
        first.kill()
        second = cluster.wait_master(but=first)
        writer.wait_acks(20, by=second.host)
        eventually(cluster.told, lambda: first.host in cluster.tree.json(f"{cluster.root}/nodes")["unavailable"])
        cluster.restart(first)
        cluster.wait_whole()
        third = next(node for node in cluster.nodes if node not in (first, second))
        wish = f"{cluster.root}/manual_failover"
        for target in (third, first):  # the gem makes the node, then says whom it wants; each node has the same versions
            err, _ = cluster.tree.call(zk.create(wish))
            assert err == 0, err
            if target is third:
                cluster.stays(lambda: cluster.tree.get(wish) == b"", 0.5, "an empty node was taken for a wish")
            err, _ = cluster.tree.call(zk.set_data(wish, target.host.encode()))
            assert err == 0, err
            cluster.wait_master(node=target)
            writer.wait_acks(20, by=target.host)
            cluster.wait_whole()
        assert not overlaps([writer])


def test_a_result_that_exists_holds_nobody_up():
    read_only = 1
    with Cluster(ENSEMBLE, "results", redis=1, managers=1) as cluster:
        cluster.start()
        err, _ = cluster.tree.call(zk.create(f"{cluster.root}/results/req-0000000000", b"{}"))
        assert err == 0, err
        code, text = cluster.command("pause")
        assert code == 0, text
        eventually(cluster.told, lambda: cluster.current()["state"] == "paused")
        eventually(cluster.told, lambda: cluster.tree.json(f"{cluster.root}/results/req-0000000000").get("ok"))
        assert cluster.tree.children(f"{cluster.root}/requests") == [], cluster.told()
        err, _ = cluster.tree.call(zk.set_acl(f"{cluster.root}/results", ((read_only, "world", "anyone"),)))
        assert err == 0, err
        code, text = cluster.command("resume")
        assert code == 0, text
        eventually(cluster.told, lambda: cluster.current()["state"] == "ok")
        eventually(cluster.told, lambda: cluster.tree.children(f"{cluster.root}/requests") == [])


def test_acl_of_the_records():
    """The records have the ACL given; a fail-over and requests work under it, a stranger's request does not."""
    with Cluster(ENSEMBLE, "acl", redis=2, managers=1, options=acls.WORDS, root="/acl/cluster") as cluster:
        cluster.options += ["--znode-path", cluster.root]
        cluster.tree.call(zk.auth("digest", acls.CREDENTIALS.encode()))
        cluster.start()
        first, second = cluster.nodes
        code, text = cluster.command("pause", "--znode-path", cluster.root)
        assert code == 77 and "NO_AUTH" in text, (code, text)
        code, text = cluster.command("failover", "--wait", "--znode-path", cluster.root, *acls.WORDS)
        assert code == 0, text
        assert cluster.wait_master(but=first) is second
        assert acls.foreign(ENSEMBLE.address, "/acl", 8) == []


def test_folders_above_that_others_own():
    root = "/owned/shop"
    with Cluster(ENSEMBLE, "owned", redis=1, managers=1, root=root, options=["--znode-path", root + "/"]) as cluster:
        for path in ("/owned", root):
            err, _ = cluster.tree.call(zk.create(path))
            assert err == 0, err
        read_only = 1
        err, _ = cluster.tree.call(zk.set_acl("/owned", ((read_only, "world", "anyone"),)))
        assert err == 0, err
        err, _ = cluster.tree.call(zk.create("/owned/other"))
        assert err == zk.ERRORS["NOAUTH"], err
        cluster.start()
        assert set(cluster.tree.children(root)) >= {"current", "requests", "results", "events"}, cluster.told()


def test_tls_and_passwords():
    if certs.why_missing():
        raise cases.Skip(certs.why_missing())
    made = certs.Certificates(os.path.join(ENSEMBLE.folder, "certificates"))
    ca = made.make("ca", "/O=tests/CN=ca")
    mine = made.make("redis", "/O=tests/CN=localhost", ca)
    options = ["--redis-tls", "--redis-ca", ca.cert, "--redis-cert", mine.cert, "--redis-key", mine.key, "--redis-user", "boss"]
    with Cluster(ENSEMBLE, "tls", options=options, user="boss", password="s3cret!", certificate=mine, ca=ca) as cluster:
        cluster.start()
        first = cluster.nodes[0]
        fill(first, replicas=2)
        first.kill()
        second = cluster.wait_master(but=first)
        assert second.call("DBSIZE") == 100
        cluster.restart(first)
        cluster.wait_whole()
        for manager in cluster.managers:
            assert "s3cret!" not in manager.text() + manager.errors()
            with open(f"/proc/{manager.process.pid}/cmdline", "rb") as file:
                assert b"s3cret!" not in file.read()
        assert not any("s3cret!" in json.dumps(cluster.tree.json(f"{cluster.root}/{name}") or "")
                       for name in ("current", "config", "plan"))


def test_a_wrong_password_is_no_death():
    with Cluster(ENSEMBLE, "noauth", redis=2, password="right") as cluster:
        cluster.start()
        for node in cluster.nodes:
            node.call("CONFIG", "SET", "requirepass", "another")
            node.password = "another"
            with node.client() as link:
                link.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        stays_replica(cluster, QUIET_S, "a password that is wrong was taken for a death",
                      lambda: cluster.current()["master"] == cluster.nodes[0].host)
        assert not cluster.fenced()


# --- managers that end at each step ------------------------------------------------------------------------------------------------


# Steps that a fail-over after a death goes through, the return of the old master included, and those of a hand-over.
AFTER_DEATH = ("plan", "failing-over", "fenced", "choose", "promote", "publish", "repoint", "finish", "update",
               "demote-returned")
BY_HAND = ("plan", "failing-over", "handover", "publish", "repoint", "finish", "answer")


def stopped_at(step, death, fault):
    """The leading manager ends so at this step of a fail-over; another goes on with it."""
    with Cluster(ENSEMBLE, f"stop-{step}-{death}-{fault}") as cluster:
        cluster.start(first_stop_at=f"{step}:{death}")
        leader = cluster.managers[0]
        first = cluster.nodes[0]
        masters = []

        def told(record):
            if record and record.get("master") and (record["epoch"], record["master"]) not in masters:
                masters.append((record["epoch"], record["master"]))
        watcher = Watcher(ENSEMBLE.address, f"{cluster.root}/current", told)
        writers = [cluster.writer("w", wait=True), cluster.writer("n")]
        for writer in writers:
            writer.wait_acks(20)
        if step == "fenced":
            cluster.hang_for_ever(first)
        elif fault == "kill":
            first.kill()
        else:
            code, text = cluster.command("failover", "--timeout", "30s")
            assert code == 0, text
        second = cluster.wait_master(but=first)
        if fault == "kill":
            cluster.restart(first)
        with contextlib.suppress(AssertionError):  # drop-lease leaves no trace but the next one's term
            eventually("it ended or stands still", lambda: not leader.alive() or leader.stopped(), 0.1 if death == "drop-lease" else 30)
        met = death == "drop-lease" or not leader.alive() or leader.stopped()
        if leader.alive() and leader.stopped():
            writers[0].wait_acks(20, by=second.host)
            time.sleep(2.2)  # its session has ended
            leader.send(signal.SIGCONT)  # it must change nothing any more
            time.sleep(0.5)
        assert cluster.wait_whole() is second, f"changed once more\n{cluster.told()}"
        for writer in writers:
            writer.wait_acks(20, by=second.host)
        watcher.close()
        assert len({epoch for epoch, _ in masters}) == len(masters), f"two masters for one epoch: {masters}"
        assert [epoch for epoch, _ in masters] == sorted(epoch for epoch, _ in masters), masters
        assert cluster.plan() is None
        assert not overlaps(writers)
        lost = lost_writes(cluster, writers[:1])
        assert not lost, f"lost {lost[:3]}"
        if not met and " revoked: " in leader.text():
            raise cases.Skip(f"the machine stood still: the first manager lost its lead before the step {step}")
        assert met, f"it never came to {step}\n{cluster.told()}"
        return f"epochs {[epoch for epoch, _ in masters]}"


def step_cases():
    """A case for each step and way to end there; one way for each unless all are asked for."""
    made = []
    for fault, steps in (("kill", AFTER_DEATH), ("manual", BY_HAND)):
        for number, step in enumerate(steps):
            for death in STEP_DEATHS if OPTIONS.all_steps else [STEP_DEATHS[number % len(STEP_DEATHS)]]:
                case = cases.bound(stopped_at, step, death, fault)
                case.__name__ = f"E112_{fault}_{step}_{death}".replace("-", "_")
                made.append(case)
    return made


# --- partitions --------------------------------------------------------------------------------------------------------------------


class SplitRedis(RedisServer):
    """A server in a network namespace of its own."""

    def __init__(self, net, place, **more):
        self.net, self.place = net, place
        super().__init__(**more)

    @property
    def bind(self):
        return host_of(self.place)

    @property
    def host(self):
        return f"{self.bind}:{self.port}"

    @property
    def address(self):
        return self.bind, self.port

    def command(self):
        return ["nsenter", "-t", str(self.net.holders[self.place].pid), "--net", *super().command()]


class SplitServer(conclave.Conclave):
    """The ensemble, where the test program is on the split network."""

    @property
    def host(self):
        return f"{host_of(CLIENTS)}:{self.port}"

    @property
    def address(self):
        return host_of(CLIENTS), self.port

    def command(self):
        words = super().command()
        words[words.index("--listen") + 1] = self.host
        return words


class Split:
    """The network that can be split: servers in 1 to 3, managers in 4 to 6, one case at a time; in 7 to 9 the servers of
    the random fail-overs, which go on beside."""

    lock = threading.Lock()
    why_not = None
    net = server = None

    @classmethod
    def open(cls):
        """Before there are threads: the switch is a fork."""
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        cls.net = SplitNet(9)
        cls.server = SplitServer(tick_ms=200, options=["--maxSessionTimeout", "60000"]).start()

    @classmethod
    @contextlib.contextmanager
    def use(cls):
        with cls.lock:
            if cls.why_not:
                raise cases.Skip(cls.why_not)
            try:
                yield cls
            finally:
                cls.net.mend(range(7), range(7))

    @classmethod
    def cluster(cls, name, redis_count=2, first_place=1, **more):
        first = SplitRedis(cls.net, first_place)
        nodes = [first] + [SplitRedis(cls.net, first_place + number, of=first) for number in range(1, redis_count)]
        return Cluster(cls.server, name, nodes=nodes, **more)

    @classmethod
    def start(cls, cluster, places=(4, 5, 6)):
        """With managers in these places, the first one leading."""
        cluster.start_nodes()
        for number, place in enumerate(places):
            cluster.manager(place, holder=cls.net.holders[place], ready=number == 0)
        for manager in cluster.managers:
            manager.wait_ready()
        eventually(cluster.told, lambda: cluster.current().get("master"))

    @classmethod
    def close(cls):
        if cls.net:
            cls.server.destroy()
            cls.net.close()


def test_E108_strategies():
    """One, then two, then all three managers see no master any more, which is well and has its replica."""
    with Split.use() as split, contextlib.ExitStack() as stack:
        made = {name: stack.enter_context(split.cluster(f"E108-{name}", options=["--node-strategy", name]))
                for name in ("majority", "consensus", "single")}
        for cluster in made.values():
            split.start(cluster)

        def moved():
            return sorted(name for name, cluster in made.items() if cluster.current()["master"] != cluster.nodes[0].host)
        split.net.cut([4], [1])
        eventually(made["single"].told, lambda: moved() == ["single"])
        made["majority"].stays(lambda: moved() == ["single"], QUIET_S, "one of three has decided")
        split.net.cut([5], [1])
        eventually(made["majority"].told, lambda: moved() == ["majority", "single"])
        made["consensus"].stays(lambda: moved() == ["majority", "single"], QUIET_S, "two of three are no consensus")
        split.net.cut([6], [1])
        eventually(made["consensus"].told, lambda: moved() == ["consensus", "majority", "single"])


def test_E110_a_manager_that_hangs_has_no_vote():
    with Split.use() as split, split.cluster("E110", options=["--session", "20s"]) as cluster:
        split.start(cluster, places=(4, 5))  # two of three: both are needed
        leader, other = cluster.managers
        first = cluster.nodes[0]
        split.net.cut([5], [1])
        eventually(cluster.told, lambda: cluster.reports()[other.id]["nodes"][first.host]["state"] == "down")
        other.send(signal.SIGSTOP)
        time.sleep(1)  # five periods
        split.net.cut([4], [1])
        cluster.stays(lambda: cluster.current()["master"] == first.host, QUIET_S, "the vote of one that hangs has counted")
        assert other.id in cluster.reports()
        other.send(signal.SIGCONT)
        cluster.wait_master(but=first)
        assert leader.alive()


BLIND = """
import sys, time
sys.path.insert(0, sys.argv[1])
import redis
link = redis.Client((sys.argv[2], int(sys.argv[3])), 5)
while True:
    sent = time.monotonic_ns()
    try:
        link.call("SET", "blind", sent)
        print("ack", sent, time.monotonic_ns(), flush=True)
    except redis.Refused as error:
        print("refused", sent, str(error).split()[0], flush=True)
    time.sleep(0.01)
"""


def test_E114_a_master_that_is_cut_off_with_its_clients_stops():
    """Nobody can fence it. It stops by itself, as it has no replica any more; only then there is another."""
    options = ["--min-replicas", "1", "--min-replicas-max-lag", "2"]
    with Split.use() as split, split.cluster("E114", 3, options=options, fence=False) as cluster:
        split.start(cluster)
        first = cluster.nodes[0]
        holder = split.net.holders[1]
        eventually(cluster.told, lambda: first.call("CONFIG", "GET", "min-replicas-to-write")[1] == b"1")
        eventually(cluster.told, lambda: cluster.current()["lease_ms"] > 0)  # the managers know, too
        follower = cluster.writer("inside", holder=holder)
        outside = cluster.writer("outside")
        for writer in (follower, outside):
            writer.wait_acks(20)
        support = os.path.join(conclave.ROOT, "test", "support")
        blind = subprocess.Popen(["nsenter", "-t", str(holder.pid), "--net", sys.executable, "-c", BLIND, support,
                                  first.bind, str(first.port)], stdout=subprocess.PIPE, text=True)
        try:
            lines = [blind.stdout.readline().split()]  # it is at work
            cut_at = time.monotonic_ns()
            split.net.cut([1], [0, 2, 3, 4, 5, 6])
            second = cluster.wait_master(but=first)
            outside.wait_acks(50, by=second.host)
            time.sleep(0.5)
        finally:
            blind.kill()
            lines += [line.split() for line in blind.communicate()[0].splitlines()]
        last = max(int(line[2]) for line in lines if line[0] == "ack")
        begin = min(ack[2] for ack in outside.acks() if ack[3] == second.host)
        alone = [line for line in lines if line[0] == "ack" and int(line[1]) > cut_at]
        assert last < begin, f"the old one took a write {(last - begin) / 1e6:.0f} ms after the new one's first"
        assert any(line[0] == "refused" and line[2] == "NOREPLICAS" for line in lines), lines[-3:]
        assert not overlaps([follower, outside])
        split.net.mend(range(7), range(7))
        follower.wait_acks(20, by=second.host)
        assert cluster.wait_whole() is second
        demoted = [event for event in cluster.events() if first.host in json.dumps(event) and (event.get("bytes") or 0) > 0]
        assert demoted and demoted[-1]["bytes"] >= 50 * len(alone), f"{len(alone)} writes lost: {cluster.told()}"
        return f"took its last write {(last - cut_at) / 1e9:.1f} s after the cut, the new one its first after " \
            f"{(begin - cut_at) / 1e9:.1f} s"


def test_a_hung_master_is_fenced_before_another_is_named():
    """It stands still with clients' writes in its buffers; woken up late it would carry them out."""
    with Cluster(ENSEMBLE, "hung") as cluster:
        cluster.start()
        first = cluster.nodes[0]
        writer = cluster.writer("h")
        writer.wait_acks(20)
        first.freeze()
        second = cluster.wait_master(but=first)
        assert first.host in cluster.fenced() and first.process.poll() is not None, cluster.told()
        writer.wait_acks(20, by=second.host)
        assert not overlaps([writer])


def test_what_cannot_be_fenced_blocks():
    with Cluster(ENSEMBLE, "block", redis=2, fence=False, options=["--unfenceable", "block"]) as cluster:
        cluster.start()
        first = cluster.nodes[0]
        first.freeze()
        stays_replica(cluster, QUIET_S, "another was promoted beside one that may live",
                      lambda: cluster.current()["master"] == first.host)
        first.thaw()
        cluster.wait_state("ok", 20)


# --- many ---------------------------------------------------------------------------------------------------------------------------


def lost_writes(cluster, writers):
    """Writes that were acknowledged, and that the master does not have: (tag, ack)."""
    master = cluster.node(cluster.current()["master"])
    lost = []
    with master.client(10) as link:
        for writer in writers:
            acks = writer.acks()
            for at in range(0, len(acks), 500):
                part = acks[at:at + 500]
                values = link.call("MGET", *[f"{writer.tag}:{ack[0]}" for ack in part])
                lost += [(writer.tag, ack) for ack, value in zip(part, values) if value is None]
    return lost


FAULTS = ("kill", "stop", "end", "manual", "kill with manager", "kill behind a cut", "cut")


class Faults:
    """Things that happen to a master, and to managers now and then."""

    def __init__(self, cluster, rng):
        self.cluster, self.rng = cluster, rng
        self.gone = []  # managers
        self.done = []
        self.cut = None

    def kill_manager(self):
        victim = self.rng.choice(self.cluster.managers)
        victim.end(signal.SIGKILL)
        self.cluster.managers.remove(victim)
        self.gone.append(victim)

    def happen(self, master):
        kind = self.rng.choice(FAULTS if Split.net else FAULTS[:5])
        self.done.append(kind)
        if kind.endswith("cut"):
            everybody = kind == "cut"
            others = [node.place for node in self.cluster.nodes if node is not master] + [CLIENTS] * everybody
            self.cut = [master.place], others
            Split.net.cut(*self.cut)
            time.sleep(self.rng.uniform(0.1, 0.5))
        if kind == "kill with manager":
            self.kill_manager()
        if kind.startswith("kill"):
            master.kill()
        elif kind == "stop":
            master.freeze()
        elif kind == "end":
            master.stop()
        elif kind == "manual":
            code, text = self.cluster.command("failover", "--wait", "--timeout", "20s")
            assert code == 0, f"{text}\n{self.cluster.told()}"

    def repair(self, master):
        """The replicas' links must be over: data in the master's sockets would reach the replicas late."""
        if self.cut:
            Split.net.mend(*self.cut)
            self.cut = None
        if not master.alive():
            self.cluster.restart(master)
        while len(self.cluster.managers) < 3:
            self.cluster.manager(10 + len(self.done))

    def bytes_told(self):
        """What the managers said was lost: of each fail-over, what the new master lacked of what was known."""
        events = [json.loads(line) for manager in (*self.cluster.managers, *self.gone) for line in manager.lines()
                  if line.startswith("{")]
        return sum(max(event.get("bytes", 0), 0) for event in events if event["event"] == "failover")


def written_size(ack, tag):
    """Of a write in the stream of replication."""
    key, value = f"{tag}:{ack[0]}", str(ack[0])
    return sum(len(f"${len(word)}\r\n{word}\r\n") for word in ("SET", key, value)) + len("*3\r\n")


def test_random_fail_overs():
    name = f"random-{OPTIONS.seed}"
    made = Split.cluster(name, 3, 7, options=["--json"]) if Split.net else Cluster(ENSEMBLE, name, options=["--json"])
    with made as cluster:
        cluster.start()
        with_wait = [cluster.writer(f"w{n}", wait=True, interval_ms=3) for n in range(2)]
        without = [cluster.writer(f"n{n}", interval_ms=3) for n in range(2)]
        writers = with_wait + without
        faults = Faults(cluster, random.Random(OPTIONS.seed))
        for _ in range(OPTIONS.rounds):
            before = cluster.wait_whole()
            for writer in writers:
                writer.wait_acks(10, by=before.host)
            faults.happen(before)
            after = cluster.wait_master(but=before)
            for writer in writers:
                writer.wait_acks(5, by=after.host)
            faults.repair(before)
        last = cluster.wait_whole()
        for writer in writers:
            writer.wait_acks(5, by=last.host)
            assert writer.end() == 0, writer.tail()
        lost = lost_writes(cluster, writers)
        replicated = [entry for entry in lost if entry[1][5] >= 1]
        assert not replicated, f"lost though a replica had it: {replicated[:5]}\n{faults.done}\n{cluster.told()}"
        assert not overlaps(writers), f"{overlaps(writers)[:5]}\n{faults.done}"
        bytes_lost = sum(written_size(ack, tag) for tag, ack in lost)
        bytes_told = faults.bytes_told()
        # nobody can tell of what was written since the last look at the master, a period ago
        assert len(lost) < 200 or bytes_told > 0, f"{len(lost)} lost, and nobody was told\n{cluster.told()}"
        total = sum(len(writer.acks()) for writer in writers)
        return f"{len(faults.done)} fail-overs, {total} writes acknowledged, none lost that a replica had acknowledged; lost of " \
            f"the others: {len(lost)}, {bytes_lost} bytes; told as lost: at least {bytes_told} bytes; {faults.done}"


def main():
    global OPTIONS, ENSEMBLE
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=4, help="random fail-overs")
    parser.add_argument("--all-steps", action="store_true", help="each way to end at each step")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--beside", type=int, default=6, help="cases at once")
    parser.add_argument("--apache", action="store_true", help="on Apache ZooKeeper, what needs no network to be split")
    parser.add_argument("cases", nargs="*")
    OPTIONS = parser.parse_args()
    why = conclave.why_missing() or redis.why_missing() or OPTIONS.apache and zookeeper.why_missing()
    if why:
        return cases.skip_all(why)
    Split.why_not = "one ensemble is enough" if OPTIONS.apache else enter_own_network()
    if not Split.why_not:
        Split.open()
    print(f"seed {OPTIONS.seed}")
    ENSEMBLE = zookeeper.ZooKeeper({"maxSessionTimeout": 60000}, tick_ms=200) if OPTIONS.apache else \
        conclave.Conclave(tick_ms=200, options=["--maxSessionTimeout", "60000"])
    with ENSEMBLE:
        try:
            # the longest first; those on the split network one at a time, so not together
            return cases.run_beside([test_random_fail_overs, *cases.named("test_E", globals()), *step_cases(),
                                     *[case for case in cases.named("test_", globals())
                                       if not case.__name__.startswith("test_E") and case is not test_random_fail_overs]],
                                    OPTIONS.cases, OPTIONS.beside)
        finally:
            Split.close()


if __name__ == "__main__":
    sys.exit(main())
