"""Three servers whose network is cut in every way, under load; clients on both sides of the cut.

Promise, beside what ensemble_test.py looks up after every round (nothing acknowledged lost, one history, members
alike): a leader without a quorum stops leading, the others have a new one and take writes; who is cut off answers no
sync, serves no read once it missed a tick, answers no ping beyond that and drops its clients; a session that moved to
the majority keeps its ephemeral, one that could not loses it, in time and everywhere; a follower that was away
deposes nobody when it comes back.
Limits: skipped, with the reason, without network namespaces and tun devices. Servers are not paused or killed here:
see ensemble_test.py.

usage: partition_test.py [--rounds N] [--seed N] [--only CUT]
"""

import argparse
import os
import random
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import ensemble_test  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import why_missing  # noqa: E402
from ensemble import mode_of  # noqa: E402
from ensemble_test import NO_NODE, OK, RECOVERY_S, TICK_MS, TIMEOUT_MS, Violation, expect  # noqa: E402
from split_net import SplitEnsemble, enter_own_network  # noqa: E402

WRITERS = 3
TICK_S = TICK_MS / 1000
SLACK_S = 1.5       # for a machine that is busy
FAIL_OVER_S = 4.0   # until the majority takes writes
SHORT_MS = 1500     # of the session that cannot move
LONG_GAP_S = 2.5    # for writes that go on, as nothing they need is cut


def others(ensemble, member):
    return [other for other in ensemble.members if other is not member]


def numbers(members):
    return [member.number for member in members]


def connect(member, patience_s=1.0, timeout_ms=TIMEOUT_MS, session=None):
    """A connection to this member; session: an earlier connection whose session it takes up."""
    if session is None:
        return zk.Connection(member.address, timeout_ms, patience_s=patience_s)
    return zk.Connection(member.address, timeout_ms, session.session_id, session.passwd, session.last_zxid,
                         patience_s=patience_s)


def until_synced(member, seconds=RECOVERY_S):
    """Waits until the member answers a sync: one that fell far behind drops its clients once more, for a snapshot."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with connect(member, patience_s=5) as link:
                err, _ = link.call(zk.sync("/"))
                link.close_session()
                expect(err == OK, f"sync on {member.number}: error {err}")
                return
        except (OSError, zk.Closed) as error:
            expect(time.monotonic() < deadline, f"no sync on member {member.number} after {seconds} s: {error!r}")
            time.sleep(0.05)


def try_write(members, path, seconds):
    """A create acknowledged by one of these members within the time: seconds it took."""
    began = time.monotonic()
    attempt = 0
    while time.monotonic() - began < seconds:
        for member in members:
            attempt += 1
            try:
                with connect(member) as link:
                    err, _ = link.call(zk.create(f"{path}-{attempt}", b"x"))
                    link.close_session()
                    expect(err == OK, f"create {path}: error {err}")
                    return time.monotonic() - began
            except (OSError, zk.Closed):
                time.sleep(0.02)
    raise Violation(f"no write on {numbers(members)} within {seconds} s")


class CutOff:
    """Clients of a member that will be cut off, connected before: what they may see then."""

    def __init__(self, ensemble, member, tag):
        self.ensemble = ensemble
        self.member = member
        self.tag = tag
        self.reader = connect(member)
        self.stays = connect(member, timeout_ms=SHORT_MS)   # has nowhere to go
        self.moves = connect(member)                        # goes to another member
        for link, name in ((self.reader, "value"), (self.stays, "stays"), (self.moves, "moves")):
            flags = zk.PERSISTENT if name == "value" else zk.EPHEMERAL
            err, _ = link.call(zk.create(f"{tag}-{name}", b"old", flags=flags))
            expect(err == OK, f"create {tag}-{name}: error {err}")

    def watch(self, began):
        """Reads and pings on the side without a quorum until its connections are dropped; nothing stale after a tick."""
        for link in (self.reader, self.stays):
            link.socket.settimeout(0.2)
        dropped = {}
        answered = {}
        limit = began + 2 * TICK_S + SLACK_S + ensemble_test.PATIENCE_S
        links = {"reader": self.reader, "stays": self.stays}
        while len(dropped) < len(links) and time.monotonic() < limit:
            for name, link in links.items():
                if name in dropped:
                    continue
                try:
                    link.send(zk.ping() if name == "stays" else zk.get_data(f"{self.tag}-value"))
                    link.read_reply()
                    answered[name] = time.monotonic() - began
                except TimeoutError:
                    pass
                except (OSError, zk.Closed):
                    dropped[name] = time.monotonic() - began
            time.sleep(0.02)
        for name in links:
            expect(name in dropped, f"member {self.member.number} is cut off and kept its client ({name}) for "
                                    f"{time.monotonic() - began:.1f} s")
            expect(answered.get(name, 0) < TICK_S + SLACK_S,
                   f"member {self.member.number} is cut off and answered ({name}) after {answered.get(name, 0):.2f} s")
        return max(dropped.values())

    def never_synced(self):
        """Whoever asks the cut-off member now gets no session, and certainly no answer to a sync."""
        try:
            with connect(self.member, patience_s=0.6) as link:
                if link.session_id != 0:
                    link.call(zk.sync("/"))
                    raise Violation(f"member {self.member.number} is cut off and answered a sync")
        except (OSError, zk.Closed):
            pass

    def move(self, members):
        """The session that can move is taken up by the others, its ephemeral is there."""
        deadline = time.monotonic() + FAIL_OVER_S
        while True:
            member = random.choice(members)
            try:
                link = connect(member, session=self.moves)
                expect(link.session_id == self.moves.session_id, "a session that moved in time had expired")
                err, _ = link.call(zk.exists(f"{self.tag}-moves"))
                expect(err == OK, f"the ephemeral of a session that moved is gone: error {err}")
                self.moves.drop()
                self.moves = link
                return
            except (OSError, zk.Closed):
                expect(time.monotonic() < deadline, "no member of the majority took the session up")
                time.sleep(0.05)

    def stays_is_gone(self, members, began):
        """The session that was left behind expires in time. A change of leader gives it its whole timeout again."""
        limit = began + self.stays.timeout_ms / 1000 + FAIL_OVER_S + TICK_S + SLACK_S
        with connect(random.choice(members), patience_s=5) as link:
            while True:
                err, _ = link.call(zk.exists(f"{self.tag}-stays"))
                now = time.monotonic()
                if err == NO_NODE:
                    expect(now - began > self.stays.timeout_ms / 1000 - 0.2,
                           f"a session ended {now - began:.2f} s after the cut, before its timeout")
                    break
                expect(now < limit, f"a session that was left behind is there after {now - began:.1f} s")
                self.moves.call(zk.ping())
                time.sleep(0.05)
            link.close_session()

    def settle(self):
        """After healing: gone is gone, on the member that was cut off, too."""
        until_synced(self.member)
        with connect(self.member, patience_s=5) as link:
            expect(link.call(zk.sync("/"))[0] == OK, "sync after healing")
            expect(link.call(zk.exists(f"{self.tag}-stays"))[0] == NO_NODE, "an expired session's ephemeral came back")
            expect(link.call(zk.exists(f"{self.tag}-moves"))[0] == OK, "the ephemeral of a live session is gone")
            err, fields = link.call(zk.get_data(f"{self.tag}-value"))
            expect((err, fields["data"]) == (OK, b"new"), f"{self.tag}-value: {err} {fields.get('data')}")
            link.close_session()
        self.reader.drop()
        self.stays.drop()
        self.moves.close_session()


def set_value(members, path, data):
    """A set that one of these members acknowledges."""
    deadline = time.monotonic() + FAIL_OVER_S
    while True:
        try:
            with connect(random.choice(members)) as link:
                err, _ = link.call(zk.set_data(path, data))
                link.close_session()
                expect(err == OK, f"set {path}: error {err}")
                return
        except (OSError, zk.Closed):
            expect(time.monotonic() < deadline, f"no write on {numbers(members)}")


def until_silent(member):
    """It says that it has no part. One that is heard by nobody may hear a new leader until the silence ends the link."""
    deadline = time.monotonic() + 2 * TICK_S + SLACK_S
    while (mode := mode_of(member)) != "":
        expect(time.monotonic() < deadline, f"member {member.number} has no quorum and says it is {mode}")
        time.sleep(0.05)


def cut_off(ensemble, tag, member, cut):
    """The whole story of one member that has no quorum any more, with `cut` making it so."""
    rest = others(ensemble, member)
    clients = CutOff(ensemble, member, tag)
    began = time.monotonic()
    cut()
    took = try_write(rest, f"{tag}-during", FAIL_OVER_S)
    set_value(rest, f"{tag}-value", b"new")
    dropped = clients.watch(began)
    clients.move(rest)
    until_silent(member)
    clients.never_synced()
    leader = ensemble.wait_leader(FAIL_OVER_S, 2)
    expect(leader is not member, "who has no quorum leads")
    clients.stays_is_gone(rest, began)
    ensemble.net.heal()
    ensemble.wait_leader(RECOVERY_S)
    clients.settle()
    return f"first write of the others after {took:.2f} s, clients dropped after {dropped:.2f} s"


# The cuts; each leaves the network healed and says something about it.

def leader_alone(ensemble, tag):
    leader = ensemble.wait_leader(RECOVERY_S)
    rest = numbers(others(ensemble, leader))
    return cut_off(ensemble, tag, leader, lambda: ensemble.net.cut([leader.number], rest))


def leader_mute(ensemble, tag):
    """The leader's messages are lost; it receives those of the others."""
    leader = ensemble.wait_leader(RECOVERY_S)
    rest = numbers(others(ensemble, leader))
    return cut_off(ensemble, tag, leader, lambda: ensemble.net.cut_one_way([leader.number], rest))


def leader_deaf(ensemble, tag):
    """Messages to the leader are lost; the others receive its messages, as far as TCP goes."""
    leader = ensemble.wait_leader(RECOVERY_S)
    rest = numbers(others(ensemble, leader))
    return cut_off(ensemble, tag, leader, lambda: ensemble.net.cut_one_way(rest, [leader.number]))


def follower_story(ensemble, tag, cut):
    leader = ensemble.wait_leader(RECOVERY_S)
    follower = random.choice(ensemble.followers())
    note = cut_off(ensemble, tag, follower, lambda: cut(follower, numbers(others(ensemble, follower))))
    expect(ensemble.wait_leader(RECOVERY_S) is leader, "a follower that was away deposed the leader")
    return note


def follower_alone(ensemble, tag):
    return follower_story(ensemble, tag, lambda follower, rest: ensemble.net.cut([follower.number], rest))


def follower_mute(ensemble, tag):
    return follower_story(ensemble, tag, lambda follower, rest: ensemble.net.cut_one_way([follower.number], rest))


def follower_deaf(ensemble, tag):
    return follower_story(ensemble, tag, lambda follower, rest: ensemble.net.cut_one_way(rest, [follower.number]))


def leader_from_one(ensemble, tag):
    """The leader and one follower do not hear each other; both hear the third. Whoever leads then, writes go on."""
    leader = ensemble.wait_leader(RECOVERY_S)
    away, middle = ensemble.followers()
    ensemble.net.cut([leader.number], [away.number])
    took = []
    began = time.monotonic()
    while time.monotonic() - began < 3 * TICK_S + SLACK_S:
        took.append(try_write([middle], f"{tag}-{len(took)}", FAIL_OVER_S))
        time.sleep(0.05)
    expect(max(took) < LONG_GAP_S, f"a write through the member that hears both took {max(took):.2f} s")
    ensemble.net.heal()
    return f"longest write {max(took):.2f} s"


def all_apart(ensemble, tag):
    """Nobody hears anybody: nobody serves."""
    ensemble.wait_leader(RECOVERY_S)
    every = numbers(ensemble.members)
    for number in every:
        ensemble.net.cut([number], [other for other in every if other != number])
    time.sleep(2 * TICK_S + SLACK_S)
    for member in ensemble.members:
        expect(mode_of(member) == "", f"member {member.number} is alone and says it is {mode_of(member)}")
        CutOff.never_synced(argparse.Namespace(member=member))
    ensemble.net.heal()
    return f"write {try_write(ensemble.members, tag, RECOVERY_S):.2f} s after healing"


def flapping(ensemble, tag):
    """The leader's links come and go."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        leader = ensemble.leader() or random.choice(ensemble.members)
        ensemble.net.cut([leader.number], numbers(others(ensemble, leader)))
        time.sleep(random.uniform(0.05, 0.9))
        ensemble.net.heal()
        time.sleep(random.uniform(0.05, 0.5))
    return f"write {try_write(ensemble.members, tag, RECOVERY_S):.2f} s after healing"


def lossy(ensemble, tag):
    """One packet in twenty is lost, between all."""
    ensemble.net.lose(0.05)
    took = []
    end = time.monotonic() + 5
    while time.monotonic() < end:
        took.append(try_write(ensemble.members, f"{tag}-{len(took)}", RECOVERY_S))
    ensemble.net.heal()
    return f"{len(took)} writes, longest {max(took):.2f} s"


CUTS = {"leader-alone": leader_alone, "follower-alone": follower_alone, "leader-mute": leader_mute,
        "leader-deaf": leader_deaf, "follower-mute": follower_mute, "follower-deaf": follower_deaf,
        "leader-from-one": leader_from_one, "all-apart": all_apart, "flapping": flapping, "lossy": lossy}


def run_round(ensemble, writers, number, name):
    began = time.monotonic()
    try:
        note = CUTS[name](ensemble, f"/cut-{number}")
        ensemble.wait_leader(RECOVERY_S)
        for member in ensemble.members:
            until_synced(member)
        ensemble_test.check(ensemble, writers)
        print(f"ok      {name:<16} {time.monotonic() - began:5.1f} s, {note}", flush=True)
        return True
    except (Violation, RuntimeError, OSError, zk.Closed) as error:
        logs = "\n".join(f"--- {m.number} ({mode_of(m)})\n{m.log_tail(2500)}" for m in ensemble.members)
        print(f"FAILED  {name}: {error!r}\n{traceback.format_exc()}{logs}", flush=True)
        return False


def run(options):
    random.seed(options.seed)
    rng = random.Random(options.seed)
    names = [options.only] if options.only else list(CUTS)
    rounds = options.rounds or len(names)
    passed = 0
    with SplitEnsemble(3, tick_ms=TICK_MS, options=["--snapCount", "2000", "--minSessionTimeout", "500"]) as ensemble:
        with connect(ensemble.members[0], patience_s=10) as link:
            for number in range(WRITERS):
                expect(link.call(zk.create(f"/w{number}"))[0] == OK, f"create /w{number}")
            link.close_session()
        writers = [ensemble_test.Writer(ensemble, number, options.seed) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        for number in range(rounds):
            if not run_round(ensemble, writers, number, names[number] if number < len(names) else rng.choice(names)):
                break  # a fault seen once stays one
            passed += 1
        for writer in writers:
            writer.ending.set()
    print(f"        {sum(w.acknowledged for w in writers)} acknowledged writes looked up, "
          f"{sum(w.expired for w in writers)} sessions expired")
    return passed, rounds - passed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=0, help="default: each cut once")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big") >> 2)
    parser.add_argument("--only", choices=sorted(CUTS))
    options = parser.parse_args()
    why = why_missing() or enter_own_network()
    if why:
        print(f"skipped: {why}")
        return 77
    print(f"seed {options.seed}")
    passed, failed = run(options)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
