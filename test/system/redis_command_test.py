#!/usr/bin/env python3
"""The output of `conclave redis-failover` for operators, and its file of options.

Promise: `status` and `watch`, as text and as JSON, agree with the records, the managers' reports and the events; a file of
options is read whole or refused.
Limits: Debian's Redis; the other commands and all fail-overs are in redis_test.py.

usage: redis_command_test.py [CASE...]
"""

import json
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import conclave  # noqa: E402
import redis  # noqa: E402
import zkwire as zk  # noqa: E402
from redis_cluster import Cluster, Process, eventually  # noqa: E402

ENSEMBLE = None    # the server that all clusters share


def test_operators_see_the_cluster():
    """status and watch: the published record, the managers' reports, the events."""
    with Cluster(ENSEMBLE, "seen", options=["--max-failures", "2"]) as cluster:
        code, text = cluster.command("status")
        assert (code, "there is no cluster at /redis_failover/seen" in text) == (1, True), (code, text)
        cluster.start()
        master, second, third = cluster.nodes
        watch = cluster.look("watch")
        watch_json = cluster.look("watch", "--json")
        eventually(lambda: f"nothing shown\n{watch.tail()}\n{watch_json.tail()}", lambda: watch.lines() and watch_json.lines())
        assert watch.lines() == [f"CURRENT\t{master.host}\tepoch {cluster.current()['epoch']}\tok"], watch.tail()
        assert json.loads(watch_json.lines()[0]) == {"event": "current", "current": cluster.current()}, watch_json.tail()

        def status(*words):
            code, text = cluster.command("status", *words)
            return code, text, {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip()}

        def all_reported():
            _, _, rows = status()
            return all(rows.get(node.host, ["", "", ""])[1:3] == ["up", "3/3"] for node in cluster.nodes)
        eventually(lambda: f"not all are reported up\n{status()[1]}", all_reported)
        code, text, rows = status()
        assert code == 0, text
        assert rows["cluster"] == ["seen", "(/redis_failover/seen)"] and rows["state"] == ["ok"], text
        assert rows["master"][:3] == [f"{master.host},", "epoch", f"{cluster.current()['epoch']},"], text
        assert sorted(word for word in " ".join(rows["managers"]).replace(",", "").split() if word != "(leads)") == \
            ["m1", "m2", "m3"] and text.count("(leads)") == 1, text
        assert [rows[node.host][0] for node in cluster.nodes] == ["master", "replica", "replica"], text
        assert rows[second.host][3] == "up" and rows[master.host][3] == "-", text

        code, text = cluster.command("failover", "--to", second.host, "--wait", "--timeout", "15s", "--json")
        assert code == 0 and json.loads(text)["result"]["master"] == second.host, text
        cluster.wait_whole()
        code, text = cluster.command("pause", "--wait", "--timeout", "15s")
        assert code == 0, text
        third.kill()
        found = eventually(lambda: f"nobody reports {third.host} down\n{cluster.told()}",
                           lambda: (lambda s: s if s[2].get(third.host, [""] * 3)[1:3] == ["down", "3/3"] else None)(status()))
        code, text, rows = found
        assert code == 0 and "paused" in " ".join(rows["state"]), text
        assert rows["master"][0] == f"{second.host},", text

        def same():
            seen = json.loads(cluster.command("status", "--json", "--events", "3")[1])
            good = seen["current"] == cluster.current() and seen["events"] == cluster.events()[-3:] and \
                third.host in seen["current"]["unavailable"]
            return seen if good else None
        seen = eventually(lambda: f"{same()} {cluster.told()}", same)
        assert seen["watched"] is True and seen["requests"] == 0 and len(seen["events"]) == 3, seen
        assert sorted(manager["id"] for manager in seen["managers"]) == ["m1", "m2", "m3"], seen
        assert [manager["id"] for manager in seen["managers"] if manager["leads"]] == [seen["leader"]], seen
        assert {row["server"]: row["role"] for row in seen["servers"]} == \
            {second.host: "master", master.host: "replica", third.host: "unavailable"}, seen
        assert cluster.command("status", "--events", "0")[1].count("ago") < cluster.command("status")[1].count("ago")

        eventually(lambda: f"the change is not shown\n{watch.tail()}",
                   lambda: any(line.startswith(f"CURRENT\t{second.host}\t") for line in watch.lines()))

        def all_shown():
            events = [line for line in watch.lines() if line.startswith("EVENT\t")]
            shown = [json.loads(line) for line in watch_json.lines()]
            shown = [line for line in shown if line.get("event") != "current"]
            return events if events and len(events) == len(shown) and shown == cluster.events()[-len(shown):] else None
        events = eventually(lambda: f"not all events are shown\n{watch.tail()}\n{watch_json.tail()}", all_shown)
        assert all(line.split("\t")[1].endswith("Z") for line in events), watch.tail()
        assert watch.end() == 128 + signal.SIGTERM and watch_json.end(signal.SIGINT) == 128 + signal.SIGINT
        for manager in cluster.managers:
            manager.end()
        code, text, rows = status()
        assert code == 1 and rows["state"][0] == "unwatched:" and rows["managers"] == ["none"], (code, text)
        assert json.loads(cluster.command("status", "--json")[1])["watched"] is False
        return f"{len(events)} events"


def test_a_file_of_options():
    """Its options count as if given before those of the command line; one that cannot be read whole is refused."""
    with Cluster(ENSEMBLE, "file", redis=2) as cluster, tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        def write(text):
            file.seek(0)
            file.truncate()
            file.write(text)
            file.flush()
        cluster.start()
        write("# who to ask\n\n   znode-path = /wrong\n".replace(" = ", "=") + "events=1  \njson\n")
        code, text = cluster.command("status", "--config", file.name, "--znode-path", cluster.root)
        assert code == 0 and len(json.loads(text)["events"]) <= 1 and json.loads(text)["path"] == cluster.root, (code, text)
        for words in (["--config=" + file.name], ["-C", file.name]):
            code, text = cluster.command("status", *words)
            assert code == 1 and "there is no cluster at /wrong" in text, (words, code, text)
        write("no-such-option=1\n")
        code, text = cluster.command("status", "-C", file.name)
        assert code == 64 and "no-such-option" in text, (code, text)
        write("".join(f"events={n}\n" for n in range(200)) + "znode-path=/wrong\n")
        code, text = cluster.command("status", "-C", file.name)
        assert code == 64 and file.name in text, (code, text)
        write("id=" + "x" * 3000 + "\n")
        code, text = cluster.command("status", "-C", file.name)
        assert code == 64 and file.name in text, (code, text)
        for path in ("/nowhere/at/all", os.path.dirname(file.name)):
            code, text = cluster.command("status", "-C", path)
            assert code == 64 and f"cannot read {path}" in text, (code, text)


def test_a_file_of_options_from_a_pipe():
    for text in ("no-such-option=1\n", "---\nno-such-option: 1\n"):
        done = subprocess.run([conclave.program(), "redis-failover", "status", "-C", "/dev/stdin"], input=text, capture_output=True,
                              text=True, timeout=20, check=False)
        assert done.returncode == 64 and "no-such-option" in done.stderr, done


def test_yaml_of_the_gem():
    """A manager and a command run by the gem's file, with an environment; a wrong key is named with its place."""
    with Cluster(ENSEMBLE, "default", redis=2, managers=1, root="/yaml/default", password="s3cret") as cluster, \
            tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        nodes = "".join(f"    - {node.host}\n" for node in cluster.nodes)
        file.write(f"base: &base\n  :znode_path: /yaml\n  :password: s3cret\n:staging:\n  <<: *base\n  :nodes:\n{nodes}"
                   f"  :zkservers:\n    - {cluster.servers}\n  period: 200ms\n  max_failures: 2\n"
                   "wrong:\n  <<: *base\n  period: 1s\n  peroid: 1s\n")
        file.flush()
        cluster.start_nodes()
        words = ["--config", file.name, "--environment", "staging"]
        run = Process([conclave.program(), "redis-failover", "run", *words])
        try:
            eventually(lambda: f"no master is named\n{run.tail()}", lambda: cluster.current().get("master") == cluster.nodes[0].host)
            eventually(run.tail, lambda: (cluster.tree.json("/yaml/nodes") or {}).get("slaves") == [cluster.nodes[1].host])
            done = subprocess.run([conclave.program(), "redis-failover", "status", "-C", file.name, "-E", "staging"],
                                  capture_output=True, text=True, timeout=20, check=False)
            assert done.returncode == 0 and cluster.nodes[0].host in done.stdout, done
        finally:
            run.end()
        for words, part in ((["-C", file.name, "-E", "wrong"], f"{file.name}: line {14 + len(cluster.nodes)}: \"peroid\" is no key"),
                            (["-C", file.name, "-E", "none"], "there is no environment \"none\""),
                            (["-E", "staging"], "--environment is for a file")):
            done = subprocess.run([conclave.program(), "redis-failover", "status", *words], capture_output=True, text=True, timeout=20,
                                  check=False)
            assert done.returncode == 64 and part in done.stderr and done.stderr.count("\n") == 1, (words, done)


def test_wrong_arguments():
    """Refused before anything is asked."""
    for words, part in (("status a/b", "CLUSTER wants"), ("status nodes", "CLUSTER wants"), ("status .x", "CLUSTER wants"),
                        ("status a b", "one word too many"), ("nonsense", "is no verb"), ("forget", "wants a server"),
                        ("status --znode-path /", "--znode-path wants"), ("status --gem-path /", "--gem-path wants"),
                        ("pause --to h:1", "are for failover"), ("status --force", "are for failover"),
                        ("failover c --to a:b", "is no server"),
                        ("status --with-chroot x --server h:1/y", "not both"),
                        ("run c", "run wants the servers"), ("run c --nodes a:1,a:1", "different servers"),
                        ("run c --nodes a:1 --managers 0", "--managers wants"),
                        ("run c --nodes a:1 --required-node-managers 5", "at most --managers"),
                        ("run c --nodes a:1 --node-strategy none", "majority|consensus|single"),
                        ("run c --nodes a:1 --max-failures 0", "1 or more"), ("run c --nodes a:1 --period 0", "100ms or more"),
                        ("run c --nodes a:1 --min-replicas 1", "--min-replicas wants"),
                        ("run c --nodes a:1 --id x/y", "--id wants"),
                        ("run c --nodes a:1 --redis-password-file /nope", "cannot read the password in /nope"),
                        ("run c --nodes a:1 --redis-tls --redis-ca /nope", "cannot read /nope")):
        done = subprocess.run([conclave.program(), "redis-failover", *words.split()], capture_output=True, text=True, timeout=20,
                              check=False, env=dict(os.environ, CONCLAVE_SERVER="127.0.0.1:1"))
        assert done.returncode == 64 and part in done.stderr and done.stderr.count("\n") == 1, (words, done)


def test_an_election_that_ends_is_reported():
    """The manager may not create its node: it says so, still reports what it sees, and ends in order."""
    read_only = 1
    with Cluster(ENSEMBLE, "barred", redis=1, managers=1) as cluster:
        for path, acl in (("/redis_failover", None), (cluster.root, None), (f"{cluster.root}/election", read_only)):
            cluster.tree.call(zk.create(path))
            if acl:
                assert cluster.tree.call(zk.set_acl(path, ((acl, "world", "anyone"),)))[0] == 0
        cluster.start_nodes()
        manager = cluster.manager(1)
        eventually(lambda: f"it says nothing\n{manager.tail()}", lambda: "election-failed: the election has ended" in manager.text())
        assert "node-up" in manager.text(), manager.tail()
        manager.send(signal.SIGTERM)
        assert manager.process.wait(timeout=20) == 128 + signal.SIGTERM, manager.tail()


def main():
    global ENSEMBLE
    why = conclave.why_missing() or redis.why_missing()
    if why:
        return cases.skip_all(why)
    ENSEMBLE = conclave.Conclave(tick_ms=200, options=["--maxSessionTimeout", "60000"])
    with ENSEMBLE:
        return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
