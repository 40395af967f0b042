"""conclave bench against our server and Apache ZooKeeper: counts, a server that stalls, and what it leaves behind.

Promise: its counts are compared with the versions of the nodes it wrote and with the server's counter of requests; a server
that SIGSTOP stops for a second shows it at a given rate.
Limits: no upper bound on any time: only what a stall must at least show is judged.

usage: bench_command_test.py [NAME...]
"""

import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402
from ensemble import Ensemble, four_letters  # noqa: E402

WAIT_S = 120
MIX = "get=4,exists,set=2,create,children,multi,watch,lock"
ALL = {"get", "exists", "set", "create", "children", "multi", "watch", "lock", "delete", "unlock"}
SHORT = ("--warm-up", "300ms", "--nodes", "50", "--timeout", "30s")


def start(*words):
    return subprocess.Popen([program(), "bench", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def end(process, codes=(0,)):
    out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode in codes, (process.returncode, out, err)
    return out, err


def bench(*words, duration="1500ms"):
    out, err = end(start("--json", *SHORT, *words, "--duration", duration))
    assert err == "", err
    answer = json.loads(out)
    rows = {row["name"]: row for row in answer["operations"]}
    assert sum(row["count"] for row in rows.values()) == answer["total"]["count"], answer
    for row in [*rows.values(), answer["total"]]:
        assert row["p50_us"] <= row["p90_us"] <= row["p99_us"] <= row["p999_us"] <= row["max_us"], row
        assert row["errors"] == 0 and row["count"] > 0, row
    return answer, rows


def children(server, path="/"):
    with zk.Connection(server.address, 30000) as client:
        err, fields = client.call(zk.get_children(path))
        client.close_session()
        assert err == 0, err
        return sorted(fields["children"])


def counter(server, name):
    text = four_letters(server.address, b"mntr", WAIT_S)
    found = re.search(rf"^zk_{name}\t(\d+)", text, re.M)
    assert found, text
    return int(found[1])


def everything(server):
    before = children(server)
    for duration in ("1500ms", "6s", "24s"):  # a slow machine gets to each kind of operation later
        answer, rows = bench(server.host, "--mix", MIX, "--sessions", "3", "--outstanding", "4", duration=duration)
        if set(rows) == ALL:
            break
    assert set(rows) == ALL, rows
    assert answer["loop"] == "closed" and answer["errors"] == {} and answer["unfinished"] == 0, answer
    assert children(server) == before, "it left nodes behind"


def test_all_operations():
    with Conclave() as server:
        everything(server)


def test_apache():
    if zookeeper.why_missing():
        raise cases.Skip(zookeeper.why_missing())
    with zookeeper.ZooKeeper() as server:
        everything(server)
        answer, _ = bench(server.host, "--rate", "200")
        assert answer["total"]["count"] == 300, answer


def test_counts():
    """What it says it sent is what the server got; at a rate exactly what was due counts."""
    with Conclave(["--4lw.commands.whitelist", "*"]) as server:
        before = counter(server, "packets_received")
        answer, rows = bench(server.host, "--rate", "1000", "--mix", "get=1,set=1", "--keep", "--parent", "/mine")
        got = counter(server, "packets_received") - before
        assert rows["get"]["count"] + rows["set"]["count"] == 1500, answer  # 1.5 s
        assert answer["requests"] == 1800, answer  # and 0.3 s to warm up
        # Beside them come the begin and the end of each of 9 sessions, and pings.
        sent = answer["requests"] + answer["set_up_requests"]
        assert sent <= got <= sent + 9 * 2 + 9 * 12, (got, answer)
        versions = 0
        with zk.Connection(server.address, 30000) as client:
            for i in range(50):
                err, fields = client.call(zk.exists(f"/mine/nodes/{i}"))
                assert err == 0, err
                versions += fields["stat"]["version"]
        assert versions >= rows["set"]["count"], (versions, rows)
        assert versions <= rows["set"]["count"] + 300, (versions, rows)  # those of the warm-up
        assert children(server, "/mine") == ["locks", "made", "nodes", "watched"]
        out, err = end(start(server.host, *SHORT, "--duration", "1500ms", "--parent", "/mine"), (1,))
        assert "/mine" in err and children(server, "/mine/nodes"), "what it did not make must stay"


def wait_measuring(process):
    """Waits until a second behind the warm-up is over; the process was started with --progress."""
    line = " "
    while line and not re.search(r"^ +[1-9]\d* s +\d+/s +p50", line):
        line = process.stderr.readline()
    assert line, process.communicate(timeout=WAIT_S)
    return line


def stalled(*words):
    with Conclave() as server:
        process = start("--json", server.host, "--warm-up", "500ms", "--duration", "6s", "--nodes", "20", "--timeout", "60s",
                        "--session", "60s", "--sessions", "2", "--progress", *words)
        wait_measuring(process)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        server.process.send_signal(signal.SIGCONT)
        return json.loads(end(process)[0])


def test_a_stall_is_not_hidden():
    """Of 6 s at a rate, one is a stall: a sixth of all operations wait for up to a second. Without a rate only two do."""
    paced = stalled("--rate", "500")["total"]
    free = stalled()["total"]
    assert paced["max_us"] >= 900000 and paced["p999_us"] >= 800000, paced
    assert paced["p99_us"] >= 600000, paced
    assert free["max_us"] >= 500000, free  # less than the stall by the time until the bench runs again
    assert free["p90_us"] < paced["p99_us"], (free, paced)
    return f"p99 at a rate {paced['p99_us'] / 1000:.0f} ms, without {free['p99_us'] / 1000:.1f} ms"


def test_too_slow():
    """More than the server can do: what was due and did not get its answer is an error, not left out."""
    with Conclave() as server:
        process = start("--json", server.host, "--rate", "2000000", "--sessions", "1", "--warm-up", "0", "--duration", "1s",
                        "--nodes", "10", "--timeout", "1s")
        answer = json.loads(end(process, (1,))[0])
        assert answer["unfinished"] > 0 and answer["errors"].get("CONCLAVE_OPERATION_TIMEOUT", 0) + answer["errors"].get(
            "OPERATION_TIMEOUT", 0) > 0, answer


def test_interrupted():
    with Conclave() as server:
        before = children(server)
        process = start(server.host, "--mix", MIX, "--warm-up", "0", "--duration", "10m", "--progress")
        wait_measuring(process)
        assert children(server) != before, "no nodes"
        process.send_signal(signal.SIGINT)
        out, err = end(process, (130,))
        assert "total" in out, (out, err)
        assert children(server) == before, "it left nodes behind"


def test_ensemble():
    """Sessions are spread over all servers."""
    with Ensemble(3, options=["--4lw.commands.whitelist", "*"]) as ensemble:
        process = start("--json", "--server", ensemble.hosts, "--sessions", "6", "--warm-up", "0", "--duration", "10m",
                        "--nodes", "10")
        deadline = time.monotonic() + 60
        while not all(counter(member, "num_alive_connections") >= 3 for member in ensemble.members):
            assert time.monotonic() < deadline and process.poll() is None, "two sessions for each, and this question"
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        answer = json.loads(end(process, (130,))[0])
        assert answer["servers"] == 3 and answer["total"]["count"] > 0, answer


def test_words():
    for words, text in ((("--mix", "gett=1"), "--mix"), (("--sessions", "0"), "--sessions"), (("--mix", "get=0"), "no operation"),
                        (("--data", "2000000"), "--data"), (("--parent", "/"), "--parent"), (("--parent", "a"), "a")):
        _, err = end(start(*words), (64,))
        assert text in err, (words, err)
    _, err = end(start("127.0.0.1:1", "--timeout", "1s"), (69,))
    assert "cannot connect" in err, err


def main():
    if why_missing():
        return cases.skip_all(why_missing())
    return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
