#!/usr/bin/env python3
"""Apache ZooKeeper is replaced by ours, and ours by Apache ZooKeeper, under clients that hold locks, lead, watch and write.

Promise: no session expires or changes, no acknowledged write is lost or done twice, holders keep their nodes and czxids, every
watch fires; also when servers of either side are killed or lose their folders meanwhile. The same clients go through all rounds.
Prints the pauses. Limits: see test/support/takeover_load.py; sessions of 120 s, which a busy machine does not end.

usage: takeover_test.py [--rounds N] [--sessions N] [--writes N] [--seed N] [NAME...]
"""

import argparse
import json
import os
import random
import shutil
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import takeover_load  # noqa: E402
import zookeeper  # noqa: E402
from apache_ensemble_import_test import DIGEST, Takeover, any_leader, without_folder  # noqa: E402
from apache_nodes import PROPERTIES, SUPER, WAIT_S, run  # noqa: E402
from conclave import why_missing  # noqa: E402
from ensemble import ConclaveMember, Ensemble, ZooKeeperMember  # noqa: E402

SETTINGS = {"maxSessionTimeout": takeover_load.SESSION_MS, "snapCount": 3000}
OPTIONS = None
WRITING_S = (1.0, 2.0)
CUTS_MAX = 4
TROUBLE_S = 1.5  # within this time a server is killed


# --- what happens to a server meanwhile ----------------------------------------------------------------------------

def nothing(t, rng):
    t.end_apache()
    t.start()


def all_killed(t, rng):
    """In the middle of writes: unequal logs."""
    for member in rng.sample(t.apache.members, 3):
        member.kill()
    t.start()


def one_killed_before(t, rng):
    """Its folder is older than those of the others."""
    rng.choice(t.apache.members).kill()
    time.sleep(rng.uniform(0, TROUBLE_S))
    t.end_apache(hard=True)
    t.start()


def leader_killed_before(t, rng):
    """The others may be in the middle of an election when they end."""
    any_leader(t.apache).kill()
    time.sleep(rng.uniform(0, TROUBLE_S))
    t.end_apache(hard=True)
    t.start()


def one_folder_deleted(t, rng):
    t.end_apache(hard=True)
    without_folder(t, rng.randrange(3))
    t.start()


def one_of_ours_killed(t, rng):
    t.end_apache(hard=True)
    t.start()
    time.sleep(rng.uniform(0, TROUBLE_S))
    rng.choice(t.ours).restart(hard=True)


def folder_of_ours_deleted(t, rng):
    t.end_apache()
    t.start()
    leader = t.leader()
    lost = rng.choice([server for server in t.ours if server is not leader])
    lost.kill()
    empty(lost.apache)
    lost.start()


def three_times_killed(t, rng):
    t.end_apache(hard=True)
    t.start()
    for _ in range(3):
        time.sleep(rng.uniform(0, TROUBLE_S))
        rng.choice(t.ours).restart(hard=True)


TROUBLES = (nothing, all_killed, one_folder_deleted, one_of_ours_killed, one_killed_before, folder_of_ours_deleted,
            leader_killed_before, three_times_killed)


# --- rounds --------------------------------------------------------------------------------------------------------

def empty(member):
    """Its data folder, but for myid."""
    folder = os.path.join(member.folder, "data")
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name != "myid":
            (shutil.rmtree if os.path.isdir(path) else os.remove)(path)


def there(t, load, rng, number):
    """Apache's end, ours begin with the same files. Returns what was measured; the clients rest."""
    trouble = TROUBLES[number // 2 % len(TROUBLES)]
    load.arm(number)
    time.sleep(rng.uniform(*WRITING_S))
    begin = time.monotonic_ns()
    trouble(t, rng)
    leader = t.leader()
    serves_ms = (time.monotonic_ns() - begin) // 10**6
    load.change(leader, number)
    time.sleep(rng.uniform(*WRITING_S))
    load.pause()
    end = time.monotonic_ns()
    load.verify(leader)
    return f"{trouble.__name__}: all serve after {serves_ms} ms, {load.measured(begin, end)}"


def back(t, load, rng, number):
    """Ours end, Apache's begin with what was exported from a backup. The clients rest meanwhile."""
    load.arm(number)
    leader = t.leader()
    backup = os.path.join(leader.folder, f"full{number}")
    made = run("backup", backup, "--admin", f"127.0.0.1:{leader.admin_port}", "--auth", f"digest:{SUPER.decode()}")
    assert made.returncode == 0, made
    begin = time.monotonic_ns()
    for server in t.ours:
        server.stop() if rng.random() < 0.5 else server.kill()
    for member in t.apache.members:
        empty(member)
        done = run("export", backup, os.path.join(member.folder, "data"))
        assert done.returncode == 0, done
    os.remove(backup)
    t.apache.start()
    leader = t.apache.wait_leader()
    load.resume()
    load.change(leader, number)
    if rng.random() < 0.5:
        rng.choice(t.apache.members).restart(hard=True)
    time.sleep(rng.uniform(*WRITING_S))
    load.pause()
    end = time.monotonic_ns()
    load.verify(t.apache.wait_leader())
    load.resume()
    return f"back: {load.measured(begin, end)}"


# --- live ----------------------------------------------------------------------------------------------------------

class Live:
    """Three of Apache's that run, and beside them three of ours, or one, that mirror them and take over."""

    def __init__(self, count=3):
        self.apache = Ensemble(3, ZooKeeperMember, settings=SETTINGS, properties=PROPERTIES)
        self.mirror = Ensemble(count, ConclaveMember, admin=True, options=[
            "--superDigest", DIGEST, "--maxSessionTimeout", str(takeover_load.SESSION_MS)])
        self.ours = self.mirror.members

    def __enter__(self):
        self.apache.start()
        return self

    def __exit__(self, *_):
        self.mirror.stop()
        self.apache.stop()

    @property
    def hosts(self):
        """An odd number: Apache's C client skips every second server (ZOOKEEPER-2466), and of six it may try the three that are dead only."""
        return f"{self.apache.hosts},{self.mirror.hosts},{self.apache.members[0].host}"

    def leader(self):
        return self.mirror.wait_leader() if len(self.ours) > 1 else self.ours[0]

    def migrate(self, *words):
        admins = ",".join(f"127.0.0.1:{server.admin_port}" for server in self.ours if server.alive())
        return run("migrate", *words, "--admin", admins, "--auth", f"digest:{SUPER.decode()}")

    def follow(self):
        for server in self.ours:
            if os.path.exists(os.path.join(server.folder, "data")):
                empty(server)
            server.start()
        self.leader()
        done = self.migrate("follow", "--from", self.source(), "--reads", "readonly")
        assert done.returncode == 0, done

    def source(self):
        ports = [line.partition("=")[2].rsplit(":", 1)[0] for line in self.apache.members[0].lines]
        return ",".join(ports)

    def wait_following(self):
        deadline = time.monotonic() + WAIT_S
        while True:
            done = self.migrate("status", "--json")
            if done.returncode == 0 and json.loads(done.stdout).get("stage") == "following":
                return
            assert time.monotonic() < deadline, (done, self.ours[0].log_tail())
            time.sleep(0.1)

    def cut(self, rng):
        """The pause in ms that the command prints."""
        pids = " ".join(str(member.process.pid) for member in self.apache.members if member.alive())
        stop = (f"kill -{rng.choice(('9', 'TERM'))} {pids}; for p in {pids}; do "
                "while grep -qs '^State:.[^Z]' /proc/$p/status; do sleep 0.002; done; done")
        folders = rng.sample(self.apache.members, rng.choice((2, 3)))
        words = [word for member in folders for word in ("--folder", os.path.join(member.folder, "data"))]
        return self.migrate("cut", "--yes", "--json", "--stop-cmd", stop, *words)


def undisturbed(live, rng):
    pass


def apache_leader_killed(live, rng):
    any_leader(live.apache).restart(hard=True)


def apache_member_killed(live, rng):
    rng.choice(live.apache.members).restart(hard=True)


def mirror_leader_killed(live, rng):
    live.leader().restart(hard=True)


def mirror_folder_deleted(live, rng):
    leader = live.leader()
    lost = rng.choice([server for server in live.ours if server is not leader])
    lost.kill()
    empty(lost)
    lost.start()


def killed_during_cut(live, rng):
    """One of ours: before, while or after the mirror ends."""
    def later():
        time.sleep(rng.uniform(0, TROUBLE_S))
        victim.restart(hard=True)
    victim = rng.choice(live.ours)
    thread = threading.Thread(target=later)
    thread.start()
    return thread


LIVE_TROUBLES = (undisturbed, apache_leader_killed, mirror_leader_killed, killed_during_cut, mirror_folder_deleted,
                 apache_member_killed)


def take_over(live, rng):
    """Cuts; after a cut that did not end well, the operator looks, starts ZooKeeper again and cuts again."""
    for _ in range(CUTS_MAX):
        done = live.cut(rng)
        if done.returncode == 0:
            return json.loads(done.stdout.splitlines()[-1])["pause_ms"]
        live.leader()
        status = live.migrate("status", "--json")
        if status.returncode == 0 and not json.loads(status.stdout)["mirror"]:
            return -1  # it took over, although the command could not tell
        print(f"  cut failed: {done.stdout[-300:]} {done.stderr[-300:]}", flush=True)
        for member in live.apache.members:
            if not member.alive():
                member.kill()
                member.start()
        live.apache.wait_leader()
        live.wait_following()
    raise AssertionError(f"not taken over: {done}")


def there_live(live, load, rng, number):
    troubles = [trouble for trouble in LIVE_TROUBLES if len(live.ours) > 1 or trouble is not mirror_folder_deleted]
    trouble = troubles[number // 2 % len(troubles)]
    live.follow()
    load.arm(number)
    time.sleep(rng.uniform(*WRITING_S))
    thread = trouble(live, rng)
    live.wait_following()
    if number % 4 == 0:
        done = live.migrate("verify", "--from", live.source())
        assert done.returncode == 0, done
    begin = time.monotonic_ns()
    pause = take_over(live, rng)
    if thread:
        thread.join()
    leader = live.leader()
    load.change(leader, number)
    time.sleep(rng.uniform(*WRITING_S))
    load.pause()
    end = time.monotonic_ns()
    load.verify(leader)
    for member in live.apache.members:
        member.kill()  # its process has ended already
    return f"{trouble.__name__}: cut {pause} ms, {load.measured(begin, end)}"


# --- both ----------------------------------------------------------------------------------------------------------

def rounds(t, hosts, ways, keep=False):
    rng = random.Random(OPTIONS.seed)
    programs = takeover_load.Programs()
    try:
        with t, takeover_load.Load(programs, hosts, any_leader(t.apache), OPTIONS.sessions,
                                   OPTIONS.writes, keep) as load:
            for number in range(OPTIONS.rounds):
                for step, way in enumerate(ways):
                    print(f"  round {number + 1} seed {OPTIONS.seed} {way(t, load, rng, 2 * number + step)}", flush=True)
            load.release()
            load.pause()
            load.verify(any_leader(t.apache))
            return f"{OPTIONS.rounds} rounds, {OPTIONS.sessions} sessions, {load.check.writes()} writes, {load.check.unknown()} unknown"
    finally:
        programs.close()


def test_in_place():
    t = Takeover(admin=True, settings=SETTINGS)
    return rounds(t, t.apache.hosts, (there, back))


def test_live():
    live = Live()
    return rounds(live, live.hosts, (there_live, back), keep=True)  # also to the way back, at the old addresses


def test_alone():
    """Live, by a server without others."""
    live = Live(1)
    return rounds(live, live.hosts, (there_live, back), keep=True)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--sessions", type=int, default=48)
    parser.add_argument("--writes", type=int, default=120, help="a second")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("names", nargs="*")
    OPTIONS = parser.parse_args()
    missing = why_missing() or zookeeper.why_missing() or takeover_load.why_missing()
    if missing:
        return cases.skip_all(missing)
    return cases.run(cases.named("test_", globals()), OPTIONS.names)


if __name__ == "__main__":
    sys.exit(main())
