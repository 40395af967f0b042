"""Why sessions end: each cause is produced on purpose, and `conclave sessions why` must name it.

Promise: clients that are paused, do not read, leave, close, are killed by an operator, are cut off in either direction,
whose server is stopped, whose server's disk or whose ensemble's disks hang, or whose leader is killed get that cause, from
the records of three servers; and no session ends because its server, alone or with others, was stopped or waited for a disk.
Limits: the cuts are skipped, with the reason, without network namespaces and tun devices. The words of the causes are
tested by test/unit/session/cause.c.

usage: session_why_test.py [--rounds N] [CASE...]
"""

import argparse
import concurrent.futures
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import slow_disk  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402
from ensemble import ConclaveMember, Ensemble  # noqa: E402
from server import free_port  # noqa: E402
from split_net import SplitEnsemble, SplitMember, enter_own_network, host_of  # noqa: E402

TICK_MS = 2000
TIMEOUT_MS = 6000
PATIENCE_S = 60
SUPER = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="  # of super:test
SUPER_AUTH = "digest:super:test"
SHORT = "1500ms"  # for servers of which one cannot answer
LARGE, LARGE_READS = 900_000, 30  # bytes, and how many times: more than sockets take, less than a server keeps
BESIDE = 6  # commands at once
PART = 0.95  # of the sessions of a cause must have it

# Holds sessions from a process of its own, and pings: argv is HOST PORT COUNT PING_S SUPPORT_FOLDER TIMEOUT_MS.
HOLDER = """
import sys, time
host, port, count, ping_s, support, timeout_ms = sys.argv[1:]
sys.path.insert(0, support)
import zkwire as zk
links = [zk.Connection((host, int(port)), int(timeout_ms)) for _ in range(int(count))]
print(" ".join(hex(link.session_id) for link in links), flush=True)
while True:
    time.sleep(float(ping_s))
    for link in links:
        link.call(zk.ping())
"""


def with_disk(server, words):
    """The command of a server whose disk the test can make slow."""
    if slow_disk.why_missing():
        server.disk = None
        return words
    server.disk = slow_disk.SlowDisk(server.folder)
    at = words.index(program())
    return [*words[:at], *server.disk.words(), *words[at:]]


class WhyMember(SplitMember):
    """A member in its own namespace, with an admin port that the test program reaches, and a disk that can be slow."""

    def command(self):
        words = super().command()
        words[words.index("--admin") + 1] = f"{host_of(self.number)}:{self.admin_port}"
        return with_disk(self, words)


class SlowMember(ConclaveMember):
    """A member with a disk that can be slow."""

    def command(self):
        return with_disk(self, super().command())


class SlowServer(Conclave):
    """A server alone with a disk that can be slow."""

    def command(self):
        return with_disk(self, super().command())


class HungDisks:
    """The disks of these servers hang: one sync of each takes so long. A write must come soon."""

    def __init__(self, servers, hang_s):
        if missing := slow_disk.why_missing():
            raise cases.Skip(missing)
        self.disks = [server.disk for server in servers]
        self.hang_s = hang_s

    def __enter__(self):
        for disk in self.disks:
            disk.set(int(self.hang_s * 1000))
        self.began = time.monotonic()
        return self

    def hold(self):
        """The syncs have begun; the next ones are fast. Returns when these are over."""
        for disk in self.disks:
            disk.set(0)
        time.sleep(max(0, self.began + self.hang_s - time.monotonic()))

    def __exit__(self, *_):
        for disk in self.disks:
            disk.set(0)


class Pinger:
    """Keeps sessions of this process alive until it is told to end, or until a connection ends."""

    def __init__(self, links, period_s=0.5):
        self.links = links
        self.period_s = period_s
        self.ending = threading.Event()
        self.broken = []
        self.threads = [threading.Thread(target=self._run, args=(link,), daemon=True) for link in links]

    def _run(self, link):
        try:
            while not self.ending.wait(self.period_s):
                link.call(zk.ping())
        except (OSError, zk.Closed) as error:
            self.broken.append(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        for thread in self.threads:
            thread.join()


class Keeper:
    """A client with a session that it resumes on the same server whenever the connection ends. With `request` it sends that
    instead of pings."""

    def __init__(self, member, timeout_ms, request=None, patience_s=PATIENCE_S):
        self.member = member
        self.patience_s = patience_s
        self.link = zk.Connection(member.address, timeout_ms, patience_s=patience_s)
        self.timeout_ms = timeout_ms
        self.request = request or zk.ping()
        self.lost = False
        self.pings = 0
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.lost and not self.ending.wait(0.2):
            try:
                self.link.call(self.request)
                self.pings += 1
            except (OSError, zk.Closed):
                self._resume()

    def _resume(self):
        old = self.link
        try:
            self.link = zk.Connection(self.member.address, self.timeout_ms, old.session_id, old.passwd, old.last_zxid,
                                      patience_s=self.patience_s)
            self.lost = self.link.session_id == 0
        except (OSError, zk.Closed):
            pass  # the server has no leader yet
        old.drop()

    def wait_ping(self):
        before, deadline = self.pings, time.monotonic() + PATIENCE_S
        while self.pings < before + 2 and not self.lost:
            assert time.monotonic() < deadline, f"no answer from server {self.member.number}"
            time.sleep(0.05)
        assert not self.lost, f"a session of server {self.member.number} ended"

    def end(self):
        self.ending.set()
        self.thread.join()
        self.link.drop()


def connect(member, count, patience_s=PATIENCE_S, timeout_ms=TIMEOUT_MS):
    return [zk.Connection(member.address, timeout_ms, patience_s=patience_s) for _ in range(count)]


def ids(links):
    return [hex(link.session_id) for link in links]


def hold(member, count, ping_s=0.5):
    """A process with sessions that it keeps alive: the process and their ids."""
    support = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support")
    process = subprocess.Popen([sys.executable, "-B", "-c", HOLDER, member.address[0], str(member.address[1]), str(count),
                                str(ping_s), support, str(TIMEOUT_MS)], stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().split()


def end(process):
    process.kill()
    process.wait()
    process.stdout.close()


def sessions(ensemble, *words, code=0, timeout="20s"):
    done = subprocess.run([program(), "sessions", *words, "--server", ensemble.hosts, "--timeout", timeout],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=PATIENCE_S)
    assert code is None or done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def why(ensemble, session, timeout="20s"):
    return json.loads(sessions(ensemble, "why", session, "--json", code=None, timeout=timeout))


def why_each(ensemble, wanted, timeout="20s"):
    """The answers about these sessions. The command waits for servers that do not answer, so several run side by side."""
    with concurrent.futures.ThreadPoolExecutor(BESIDE) as pool:
        return dict(zip(wanted, pool.map(lambda session: why(ensemble, session, timeout), wanted)))


def until_gone(servers, wanted):
    """Waits until one of these servers says of each session that it is over. Others of the ensemble may not answer."""
    deadline, left = time.monotonic() + PATIENCE_S, list(wanted)
    while left:
        assert time.monotonic() < deadline, f"the sessions {left} do not end"
        left = [session for session, answer in why_each(servers, left, SHORT).items()
                if not any(server.get("lives") is False for server in answer["servers"])]
        time.sleep(0.2)


def wait_ended(ensemble, wanted, timeout="20s", late=0):
    """Waits until no server that answers, except the one with the number `late`, knows any of these sessions as alive; the
    answers."""
    answers, deadline = {}, time.monotonic() + PATIENCE_S
    while len(answers) < len(wanted):
        for session, answer in why_each(ensemble, [s for s in wanted if s not in answers], timeout).items():
            known = [server for server in answer["servers"] if server.get("server") != late]
            if not answer["lives"] and any(server.get("record") for server in known) and not any(
                    server.get("lives") for server in known):
                answers[session] = answer
        assert time.monotonic() < deadline, f"alive, or without a record: {[s for s in wanted if s not in answers]}"
        time.sleep(0.2)
    return answers


def judge(answers, cause):
    """The share of the answers that name the cause; fails below PART, and shows what the wrong ones say."""
    wrong = {session: answer for session, answer in answers.items() if answer["cause"] != cause}
    text = "\n".join(f"{session}: {json.dumps(answer)}" for session, answer in list(wrong.items())[:2])
    assert len(wrong) <= len(answers) * (1 - PART), f"{len(wrong)} of {len(answers)} are not {cause}:\n{text}"
    return f"{len(answers) - len(wrong)} of {len(answers)} {cause}"


class Suite:
    def __init__(self, rounds, split):
        self.rounds = rounds
        self.split = split  # None, or why the network cannot be split
        self.ensemble = None

    def open(self):
        kind, member = (Ensemble, SlowMember) if self.split else (SplitEnsemble, WhyMember)
        self.ensemble = kind(3, member, tick_ms=TICK_MS, admin=True, options=[
            "--DigestAuthenticationProvider.superDigest", SUPER, "--audit.enable", "yes", "--electionTimeout", "1500", "--audit.file", "audit"])
        for each in self.ensemble.members:
            each.admin_port = free_port()
        self.ensemble.start()

    def others(self, member):
        return [other for other in self.ensemble.members if other is not member]

    def paused_clients(self):
        """Processes that are stopped: their kernel still answers."""
        holders = [hold(member, self.rounds) for member in self.ensemble.members]
        wanted = [session for _, held in holders for session in held]
        time.sleep(1)
        for process, _ in holders:
            process.send_signal(signal.SIGSTOP)
        note = judge(wait_ended(self.ensemble, wanted), "client_paused")
        for process, _ in holders:
            end(process)
        return note

    def clients_that_leave(self):
        """Processes that are killed, without a word."""
        holders = [hold(member, self.rounds) for member in self.ensemble.members]
        for process, _ in holders:
            end(process)
        return judge(wait_ended(self.ensemble, [s for _, held in holders for s in held]), "client_left")

    def closed_sessions(self):
        links = [link for member in self.ensemble.members for link in connect(member, self.rounds)]
        wanted = ids(links)
        for link in links:
            link.close_session()
        return judge(wait_ended(self.ensemble, wanted), "closed")

    def killed_sessions(self):
        """By the command, with and without the right to it; the audit log names who did it."""
        links = [link for member in self.ensemble.members for link in connect(member, self.rounds)]
        wanted = ids(links)
        with Pinger(links):
            sessions(self.ensemble, "kill", wanted[0], code=77)
            sessions(self.ensemble, "kill", wanted[0], "--auth", "digest:super:wrong", code=77)
            assert why(self.ensemble, wanted[0])["lives"], "a refused kill ended the session"
            for session in wanted:
                assert sessions(self.ensemble, "kill", session, "--auth", SUPER_AUTH) == f"{session} ended\n"
            answers = wait_ended(self.ensemble, wanted)
        note = judge(answers, "killed")
        for session, answer in answers.items():
            assert "digest:super from " in answer["verdict"], answer["verdict"]
            assert all(server["record"]["cause"] == "killed" for server in answer["servers"]), answer
            assert self.audited(session), f"no audit line about {session}"
        sessions(self.ensemble, "kill", wanted[0], "--auth", SUPER_AUTH, code=1)
        return note

    def audited(self, session):
        found = 0
        for member in self.ensemble.members:
            with open(os.path.join(member.folder, "audit"), encoding="utf-8") as file:
                found += len(re.findall(rf"session={session}\tuser=super,.*\toperation=killSession\tresult=success\n",
                                        file.read()))
        return found == 1

    def moved_sessions(self):
        """The old server knows where not to look; the session lives, and ends elsewhere."""
        first, second = self.ensemble.members[:2]
        links = connect(first, self.rounds)
        wanted = ids(links)
        moved = [zk.Connection(second.address, TIMEOUT_MS, link.session_id, link.passwd, link.last_zxid) for link in links]
        deadline = time.monotonic() + PATIENCE_S
        for link in moved:
            link.call(zk.ping())
            answer = why(self.ensemble, hex(link.session_id))
            while self.record(answer, first) is None and time.monotonic() < deadline:
                answer = why(self.ensemble, hex(link.session_id))
            assert answer["cause"] == "lives" and self.record(answer, first)["cause"] == "moved", answer
            link.close_session()
        return judge(wait_ended(self.ensemble, wanted), "closed")

    @staticmethod
    def record(answer, member):
        return next(server.get("record") for server in answer["servers"] if server["server"] == member.number)

    def cut(self, cut, give_up=False):
        """Sessions of a follower that is cut off from its clients. give_up: these close their sockets then, as clients do
        that get no answer."""
        if self.split:
            raise cases.Skip(self.split)
        self.ensemble.wait_leader(PATIENCE_S)
        member = random.choice(self.ensemble.followers())
        links = connect(member, self.rounds, patience_s=TIMEOUT_MS / 1000 * 2 / 3)
        pinger = Pinger(links)
        with pinger:
            time.sleep(1)
            cut(member.number)
            for thread in pinger.threads:  # each ends at the first ping without an answer
                thread.join(PATIENCE_S)
            assert len(pinger.broken) == len(links), "a ping was answered despite the cut"
        if give_up:
            for link in links:
                link.drop()
        # Other servers are reached all the while; the member's record can be read when the network is whole.
        rest = argparse.Namespace(hosts=",".join(other.host for other in self.others(member)))
        until_gone(rest, ids(links))
        self.ensemble.net.heal()
        deadline = time.monotonic() + PATIENCE_S
        answers = wait_ended(self.ensemble, ids(links))
        while any(not self.answered(answer) for answer in answers.values()) and time.monotonic() < deadline:
            answers = wait_ended(self.ensemble, ids(links))
        for link in links:
            link.drop()
        return judge(answers, "network")

    @staticmethod
    def answered(answer):
        return all("error" not in server for server in answer["servers"])

    def cut_in_both_directions(self):
        return self.cut(lambda number: self.ensemble.net.cut([0], [number]))

    def cut_from_the_client(self):
        return self.cut(lambda number: self.ensemble.net.cut_one_way([0], [number]))

    def cut_to_the_client(self):
        return self.cut(lambda number: self.ensemble.net.cut_one_way([number], [0]), give_up=True)

    def stopped_servers(self):
        """A follower and a leader that do not run for longer than the timeout of their clients, who do not go elsewhere.
        The sessions of the other servers live on."""
        notes = []
        for pick in (lambda: self.ensemble.followers()[0], lambda: self.ensemble.wait_leader(PATIENCE_S)):
            self.ensemble.wait_leader(PATIENCE_S)
            member = pick()
            links = connect(member, self.rounds)
            safe = [Keeper(other, 2 * TIMEOUT_MS) for other in self.others(member) for _ in range(self.rounds)]
            with Pinger(links):
                time.sleep(1)
                self.ensemble.pause(member)
                rest = argparse.Namespace(hosts=",".join(other.host for other in self.others(member)))
                until_gone(rest, ids(links))
                self.ensemble.resume(member)
                self.ensemble.wait_leader(PATIENCE_S)
                answers = wait_ended(self.ensemble, ids(links))
                deadline = time.monotonic() + PATIENCE_S
                while any(self.record(answer, member) is None or self.record(answer, member)["cause"] == "lives"
                          for answer in answers.values()) and time.monotonic() < deadline:
                    answers = wait_ended(self.ensemble, ids(links))
                notes.append(judge(answers, "server_stall"))
            for keeper in safe:
                keeper.wait_ping()
                keeper.end()
            for link in links:
                link.drop()
        return ", ".join(notes)

    def cut_from_the_members(self):
        """Sessions of a follower that the other members do not reach, but the command does. It believes that they live."""
        if self.split:
            raise cases.Skip(self.split)
        self.ensemble.wait_leader(PATIENCE_S)
        member = random.choice(self.ensemble.followers())
        links = connect(member, self.rounds)
        with Pinger(links):
            time.sleep(1)
            self.ensemble.net.cut([member.number], [other.number for other in self.others(member)])
            answers = wait_ended(self.ensemble, ids(links), late=member.number)
        said = [server.get("lives") for answer in answers.values() for server in answer["servers"]]
        self.ensemble.net.heal()
        self.wait_serving(member)
        assert True in said, f"the member that was cut off knew of the end: {answers}"
        for link in links:
            link.drop()
        return judge(answers, "server_lost")

    @staticmethod
    def wait_serving(member):
        """Until the member has contact to a leader again."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with zk.Connection(member.address, TIMEOUT_MS) as link:
                    return link.close_session()
            except (OSError, zk.Closed):
                assert time.monotonic() < deadline, f"server {member.number} serves nobody"
                time.sleep(0.1)

    def clients_that_do_not_read(self):
        """They ask for more than the sockets take, read nothing of it, and say no more."""
        member = random.choice(self.ensemble.members)
        with zk.Connection(member.address, 4 * TIMEOUT_MS) as link:
            link.call(zk.create("/large", bytes(LARGE)))
        links = connect(member, self.rounds)
        for link in links:
            for _ in range(LARGE_READS):
                link.send(zk.get_data("/large"))
        note = judge(wait_ended(self.ensemble, ids(links)), "client_not_reading")
        for link in links:
            link.drop()
        return note

    def give_up_writing(self, member, servers, cause):
        """Clients of this member write while the disks of these servers hang, give up as clients do that get no answer, and
        do not come back."""
        links = connect(member, self.rounds)
        with HungDisks(servers, 1.7 * TIMEOUT_MS / 1000) as disks:
            time.sleep(0.2)
            for link in links:
                link.send(zk.set_data("/", b""))
            time.sleep(0.5)
            threading.Timer(TIMEOUT_MS / 1000 * 2 / 3 - 0.5, lambda: [link.drop() for link in links]).start()
            disks.hold()
            answers = wait_ended(self.ensemble, ids(links))
            while self.record_missing(answers, member):
                answers = wait_ended(self.ensemble, ids(links))
        return judge(answers, cause)

    def record_missing(self, answers, member):
        """Whether this member, which was late, has not noted the end of each of these sessions."""
        return any(self.record(answer, member) is None or self.record(answer, member)["cause"] == "lives"
                   for answer in answers.values())

    def stalled_disks(self):
        """Of a majority: with the clients' follower in it, and then without their leader. One alone delays nobody."""
        leader = self.ensemble.wait_leader(PATIENCE_S)
        follower = self.others(leader)[0]
        notes = [self.give_up_writing(follower, [leader, follower], "disk_stall"),
                 self.give_up_writing(leader, self.others(leader), "commit_stall")]
        return ", ".join(notes)

    def writers_outlive_stalled_disks(self):
        """Clients that write, give up without an answer, and resume their sessions: the disks of a majority, or of the leader,
        hang for longer than their timeouts, and no session ends."""
        leader = self.ensemble.wait_leader(PATIENCE_S)
        hung_disks = [self.others(leader), [leader, self.others(leader)[0]], [leader]]
        for hung in hung_disks if self.rounds > 5 else hung_disks[:1]:
            keepers = [Keeper(member, TIMEOUT_MS, zk.set_data("/", b""), TIMEOUT_MS / 1000 * 2 / 3)
                       for member in self.ensemble.members for _ in range(min(self.rounds, 5))]
            with HungDisks(hung, 2 * TIMEOUT_MS / 1000) as disks:
                time.sleep(1)
                disks.hold()
            for keeper in keepers:
                keeper.wait_ping()
                keeper.end()

    def killed_leader(self):
        """Its clients do not come back."""
        leader = self.ensemble.wait_leader(PATIENCE_S)
        links = connect(leader, self.rounds)
        wanted = ids(links)
        leader.kill()
        rest = argparse.Namespace(hosts=",".join(other.host for other in self.others(leader)))
        try:
            answers = wait_ended(rest, wanted, SHORT)
            assert not self.answered(answers[wanted[0]]), "a killed server answers"
            return judge(answers, "leader_change")
        finally:
            leader.start()
            self.ensemble.wait_leader(PATIENCE_S)

    def killed_follower(self):
        """Its clients do not come back; it is started at once, but remembers nothing."""
        self.ensemble.wait_leader(PATIENCE_S)
        follower = self.ensemble.followers()[0]
        links = connect(follower, self.rounds)
        wanted = ids(links)
        follower.kill()
        follower.start()
        return judge(wait_ended(self.ensemble, wanted), "server_lost")

    def text(self):
        """The command's text, and what it says about servers and sessions that it does not know."""
        link = connect(self.ensemble.members[0], 1)[0]
        wanted = hex(link.session_id)
        assert "is alive" in sessions(self.ensemble, "why", wanted)
        link.close_session()
        wait_ended(self.ensemble, [wanted])
        text = sessions(self.ensemble, "why", wanted)
        assert text.startswith(f"{wanted}: closed\nThe client closed the session.\n"), text
        assert re.search(r"^Server 1 \((leader|follower)\), \S+ \S+ UTC: closed\n", text, re.M), text
        assert "Server 2" in text and "remembers nothing" in text, text
        assert "unknown" in sessions(self.ensemble, "why", "0x123", code=1)


def stalls_are_the_servers(rounds):
    """A server alone that is stopped for several timeouts, again and again: its sessions, which ping, all live on."""
    with Conclave(tick_ms=1000) as server:
        links = [link for timeout in (2000, 3000, TIMEOUT_MS) for link in connect(server, 4, timeout_ms=timeout)]
        with Pinger(links) as pinger:
            for _ in range(rounds):
                time.sleep(random.uniform(0, 0.6))
                server.process.send_signal(signal.SIGSTOP)
                time.sleep(random.uniform(0.2, 6))
                server.process.send_signal(signal.SIGCONT)
            time.sleep(1)
            assert not pinger.broken, f"a session ended: {pinger.broken[0]!r}"
        for link in links:
            assert link.call(zk.exists("/"))[0] == 0


def a_disk_alone(rounds):
    """The disk of a server alone hangs: clients that come back keep their sessions, those that do not lose them for that
    reason."""
    with SlowServer(tick_ms=TICK_MS, admin=True) as server:
        keepers = [Keeper(server, TIMEOUT_MS, zk.set_data("/", b""), TIMEOUT_MS / 1000 * 2 / 3) for _ in range(5)]
        links = connect(server, rounds)
        with HungDisks([server], 2 * TIMEOUT_MS / 1000) as disks:
            for link in links:
                link.send(zk.set_data("/", b""))
            time.sleep(TIMEOUT_MS / 1000 * 2 / 3)
            for link in links:
                link.drop()
            disks.hold()
        for keeper in keepers:
            keeper.wait_ping()
            keeper.end()
        answers, deadline = {}, time.monotonic() + PATIENCE_S
        for session in ids(links):
            while (answer := json.loads(fetch(server, f"/sessions/why?id={session}")[1]))["lives"]:
                assert time.monotonic() < deadline, f"{session} does not end"
                time.sleep(0.2)
            answers[session] = answer["record"]
        return judge(answers, "disk_stall")


def a_stopped_leader_comes_back(rounds):
    """The only voter is stopped for longer than the sessions' timeout. No other can lead meanwhile, so the observers drop
    their clients. When it continues, all sessions are alive, its own and those of the observers."""
    timeout_ms = 8000
    with Observed(3, tick_ms=1000) as ensemble:
        keepers = [Keeper(member, timeout_ms) for member in ensemble.members for _ in range(2)]
        for _ in range(rounds):
            for keeper in keepers:
                keeper.wait_ping()
            ensemble.pause(ensemble.members[0])
            time.sleep(random.uniform(1.1, 1.3) * timeout_ms / 1000)
            ensemble.resume(ensemble.members[0])
        for keeper in keepers:
            keeper.wait_ping()
            keeper.end()


class Observed(Ensemble):
    """One voter; the others are observers."""

    def start(self):
        lines = self.members[0].lines
        lines[1:] = [line.replace(";", ":observer;") for line in lines[1:]]
        return super().start()


def fetch(server, path, method="GET", auth=None):
    """(status, body) of the admin port."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.admin_port}{path}", method=method)
    if auth:
        request.add_header("Authorization", auth)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def routes():
    """What the admin port answers, and refuses."""
    auth = "digest super:test"
    with Conclave(["--DigestAuthenticationProvider.superDigest", SUPER, "--maxEndedSessions", "2"], admin=True) as server:
        links = connect(server, 4)
        for link in links[1:]:
            link.close_session()
        closed = [hex(link.session_id) for link in links[1:]]
        assert fetch(server, f"/sessions/kill?id={hex(links[0].session_id)}", "POST", auth)[0] == 200
        deadline = time.monotonic() + PATIENCE_S
        while not (ended := json.loads(fetch(server, "/sessions/ended")[1]))["lost"]:
            assert time.monotonic() < deadline, "the killed session has no record"
            time.sleep(0.05)
        assert [item["session"] for item in ended["orderly"]] == closed[:0:-1], ended  # the first one made room
        assert [(item["session"], item["cause"]) for item in ended["lost"]] == [(hex(links[0].session_id), "killed")], ended
        assert json.loads(fetch(server, f"/sessions/why?id={closed[0]}")[1])["record"] is None
        assert fetch(server, f"/sessions/why?id={closed[1]}", "HEAD")[0] == 200
        for method, path, status in (("GET", "/sessions/why", 400), ("GET", "/sessions/why?id=0x", 400),
                                     ("GET", "/sessions/why?id=12345678901234567", 400), ("POST", "/sessions/why?id=1", 405),
                                     ("GET", "/sessions/kill?id=1", 405), ("POST", "/sessions/ended", 405),
                                     ("POST", "/sessions/kill?id=1", 404), ("POST", "/sessions/kill?id=x", 400)):
            assert fetch(server, path, method, auth)[0] == status, (method, path)
        assert fetch(server, "/sessions/kill?id=1", "POST")[0] == 401
    with Conclave(["--maxEndedSessions", "0"], admin=True) as server:
        link = connect(server, 1)[0]
        link.close_session()
        answer = json.loads(fetch(server, f"/sessions/why?id={hex(link.session_id)}")[1])
        assert (answer["recording"], answer["lives"], answer["record"]) == (False, False, None), answer
        assert json.loads(fetch(server, "/sessions/ended")[1])["lost"] == []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    if missing := why_missing():
        return cases.skip_all(missing)
    suite = Suite(options.rounds, enter_own_network())
    suite.open()
    try:
        ensemble = [suite.text, suite.closed_sessions, suite.killed_sessions, suite.moved_sessions, suite.clients_that_leave,
                    suite.paused_clients, suite.cut_in_both_directions, suite.cut_from_the_client, suite.cut_to_the_client,
                    suite.cut_from_the_members,
                    suite.clients_that_do_not_read, suite.stalled_disks, suite.writers_outlive_stalled_disks,
                    suite.stopped_servers, suite.killed_follower, suite.killed_leader]
        others = [routes, cases.bound(a_disk_alone, options.rounds), cases.bound(stalls_are_the_servers, options.rounds),
                  cases.bound(a_stopped_leader_comes_back, min(options.rounds, 5))]
        return cases.run_rows([ensemble, others], options.only)
    finally:
        suite.ensemble.stop()


if __name__ == "__main__":
    sys.exit(main())
