"""Exactly-once writes: no write of a client that asks for it is in doubt or done twice, whatever breaks.

Promise: sequential creates, sets and transactions, many at a time, are each carried out once and answered once with the
answer of that once, while the leader and the client's server are killed with -9 and come back, while links are cut at
random, and when they are cut after each byte of a request or an answer in turn. The commands that write do not fail for a
lost link. Apache ZooKeeper does not grant it, and all works as without.
Limits: loopback; the session lives through everything (its end is for the unit tests).

usage: once_test.py [NAME...] [--seconds N] [--seed N]
"""

import argparse
import os
import random
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zookeeper  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402
from ensemble import Ensemble, four_letters  # noqa: E402
from proxy import Proxy  # noqa: E402
from zookeeper import ZooKeeper  # noqa: E402

BUILD = os.environ.get("CONCLAVE_BUILD", "build")
ACTOR = os.path.join(BUILD, "test", "system", "once_test")
WAIT_S = 120
SWEEPERS = 16
seconds = 20
rng = random.Random(1)


class Writer:
    """The actor writing for a while; `end` checks that all was as it must."""

    def __init__(self, hosts, duration_s):
        self.process = subprocess.Popen([ACTOR, "write", hosts, str(int(duration_s * 1000))], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout.readline() == "begun\n", self.process.communicate()

    def runs(self):
        return self.process.poll() is None

    def end(self):
        out, err = self.process.communicate(timeout=WAIT_S)
        counts = re.fullmatch(r"(\d+) writes, (\d+) links lost\n", out)
        assert self.process.returncode == 0 and counts, (self.process.returncode, out, err)
        return int(counts[1]), int(counts[2])


def server_of_the_client(ensemble):
    """The member that has a connection beside the one that asks, or None."""
    for member in ensemble.members:
        found = re.search(r"^Connections: (\d+)$", four_letters(member.address, b"srvr"), re.M)
        if found and int(found[1]) > 1:
            return member
    return None


def test_servers_are_killed():
    with Ensemble() as ensemble:
        writer = Writer(ensemble.hosts, seconds)
        kills = 0
        while writer.runs():
            time.sleep(rng.uniform(0.2, 1.0))
            victim = ensemble.leader() if kills % 2 == 0 else server_of_the_client(ensemble)
            if victim is None or not writer.runs():
                continue
            victim.kill()
            kills += 1
            time.sleep(rng.uniform(0.0, 0.5))
            victim.start()
            ensemble.wait_leader()
        writes, lost = writer.end()
    assert kills >= 2 and lost >= max(kills // 4, 1), (kills, lost)
    return f"{writes} writes, {kills} kills, {lost} links lost"


def test_the_server_alone_is_killed():
    with Conclave() as server:
        writer = Writer(server.host, seconds / 2)
        kills = 0
        while writer.runs():
            time.sleep(rng.uniform(0.2, 0.8))
            server.restart(hard=True)
            kills += 1
        writes, lost = writer.end()
    assert lost >= 1, lost
    return f"{writes} writes, {kills} kills, {lost} links lost"


def test_links_are_cut():
    with Ensemble() as ensemble:
        proxies = [Proxy(member.port) for member in ensemble.members]
        try:
            writer = Writer(",".join(proxy.host for proxy in proxies), seconds)
            while writer.runs():
                command = rng.choice(["cut", f"cut-at up {rng.randrange(5000)}", f"cut-at down {rng.randrange(5000)}"])
                for proxy in proxies:
                    proxy.do(command)
                time.sleep(rng.uniform(0.02, 0.3))
            writes, lost = writer.end()
        finally:
            for proxy in proxies:
                proxy.end()
    assert lost >= 10, lost
    return f"{writes} writes, {lost} links lost"


def test_a_link_is_cut_after_every_byte():
    """Side by side, as each cut costs a client its back-off."""
    with Conclave() as server:
        actors = []
        for first in range(1, SWEEPERS + 1):
            subprocess.run([program(), "create", f"/s{first}", "--server", server.host], check=True, timeout=WAIT_S,
                           stdout=subprocess.DEVNULL)
            actors.append(subprocess.Popen([ACTOR, "sweep", str(server.port), f"/s{first}", str(first), str(SWEEPERS)],
                                           text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        writes, lost = 0, 0
        for actor in actors:
            out, err = actor.communicate(timeout=WAIT_S)
            counts = re.fullmatch(r"(\d+) writes, (\d+) links lost\n", out)
            assert actor.returncode == 0 and counts, (actor.returncode, out, err)
            writes, lost = writes + int(counts[1]), lost + int(counts[2])
    assert lost > 200, lost
    return f"{writes} writes, {lost} links lost"


def test_commands_do_not_fail_for_a_lost_link():
    with Conclave() as server, Proxy(server.port) as proxy:
        def run(fault, *words):
            proxy.do(fault)
            done = subprocess.run([program(), *words, "--server", proxy.host], capture_output=True, text=True,
                                  timeout=WAIT_S, check=False)
            proxy.do("pass")
            assert done.returncode == 0 and done.stderr == "", (fault, words, done)
            return done.stdout

        # The second frame up is the write, the second down its answer: lost before and after it was carried out.
        for number, fault in enumerate(("swallow up 2", "swallow down 2")):
            assert run(fault, "create", "/n-", "--sequential") == f"/n-{number:010d}\n"
        run("swallow down 2", "create", "/v", "0")
        for fault in ("swallow up 2", "swallow down 2", "cut-frame down 1"):
            run(fault, "set", "/v", "1")
        assert re.search(r"^version +3$", run("pass", "stat", "/v"), re.M)
        for number, fault in enumerate(("swallow up 2", "swallow down 2")):
            run(fault, "rm", f"/n-{number:010d}")


def test_nothing_is_granted_where_nothing_is_remembered():
    with Conclave(["--maxResultsPerSession", "0"]) as server:
        done = subprocess.run([ACTOR, "plain", server.host], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (done.returncode, done.stdout) == (0, "not granted\n"), done


def test_apache_passes_over_the_question():
    missing = zookeeper.why_missing()
    if missing:
        raise cases.Skip(missing)
    with ZooKeeper() as server:
        done = subprocess.run([ACTOR, "plain", server.host], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (done.returncode, done.stdout) == (0, "not granted\n"), done


def main():
    global seconds, rng
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=seconds, help="of the parts with faults at random")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    seconds, rng = args.seconds, random.Random(args.seed)
    missing = why_missing()
    return cases.skip_all(missing) if missing else cases.run(cases.named("test_", globals()), args.names)


if __name__ == "__main__":
    sys.exit(main())
