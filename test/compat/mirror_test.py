"""`conclave migrate`: an ensemble of ours follows three running servers of Apache ZooKeeper, and takes over from them.

Promise: the mirror has the source's tree and sessions, field for field, through breaks and elections on both sides; it serves reads and
refuses writes; the cut happens only when nothing is missing, also after kill -9; clients keep sessions, locks and ephemeral
nodes, and no acknowledged write is lost; when the proof fails, the mirror goes on following; and the way back works.

usage: mirror_test.py [--rounds N] [NAME...]
"""

import argparse
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from apache_nodes import PROPERTIES, SUPER, WAIT_S, data_of, differences, every_kind, link_to, must, run, tree_of, version_2  # noqa: E402
from conclave import program, why_missing  # noqa: E402
from ensemble import ConclaveMember, Ensemble, ZooKeeperMember  # noqa: E402

try:
    from kazoo.client import KazooClient, KazooState
    from kazoo.exceptions import KazooException
except ImportError:
    KazooClient = None

logging.getLogger("kazoo").setLevel(logging.CRITICAL)

DIGEST = PROPERTIES["zookeeper.DigestAuthenticationProvider.superDigest"]
AUTH = ["--auth", f"digest:{SUPER.decode()}"]
NOT_READ_ONLY = -119
ROUNDS = 1


class Migration:
    """`with Migration() as m:` m.apache runs, m.ours runs and is empty."""

    def __init__(self, settings=None, properties=None, options=()):
        self.apache = Ensemble(3, ZooKeeperMember, settings={"snapCount": 100000, **(settings or {})},
                               properties={**PROPERTIES, **(properties or {})})
        self.ours = Ensemble(3, ConclaveMember, admin=True, options=["--superDigest", DIGEST, *options])
        self.source = ",".join("127.0.0.1:" + line.split(":")[1] for line in self.apache.members[0].lines)

    def __enter__(self):
        self.apache.start()
        self.ours.start()
        return self

    def __exit__(self, *_):
        self.ours.stop()
        self.apache.stop()

    @property
    def admin(self):
        return ",".join(f"127.0.0.1:{member.admin_port}" for member in self.ours.members if member.alive())

    def command(self, *words, code=0):
        done = subprocess.run([program(), "migrate", *words, "--admin", self.admin, *AUTH], capture_output=True, text=True,
                              timeout=300, check=False)
        assert code is None or done.returncode == code, (words, done.returncode, done.stdout, done.stderr,
                                                         *(member.log_tail(1500) for member in self.ours.members))
        return done

    def follow(self, *more):
        return self.command("follow", "--from", self.source, *more)

    def verify_words(self):
        return []

    def status(self):
        return json.loads(self.command("status", "--json", code=None).stdout)

    def wait_equal(self):
        """Until the mirror follows, and has everything that an own write came after; then that it is equal."""
        link = link_to(self.apache.wait_leader())
        must(link, zk.create("/mark-", b"", flags=zk.PERSISTENT_SEQUENTIAL))
        link.close_session()
        deadline = time.monotonic() + WAIT_S
        while True:
            done = self.command("verify", "--from", self.source, "--json", "--wait", "10s", *self.verify_words(), code=None)
            found = json.loads(done.stdout) if done.returncode in (0, 1) and done.stdout else None
            if found and found["equal"]:
                return found
            assert time.monotonic() < deadline, (done, *(member.log_tail(2000) for member in self.ours.members))
            time.sleep(0.2)

    def kill_apache(self):
        """A command for --stop-cmd."""
        pids = " ".join(str(member.process.pid) for member in self.apache.members if member.alive())
        # A process that is killed has closed its ports when it is reaped, or a moment before.
        return f"kill -9 {pids}; for i in 1 2 3 4 5 6 7 8 9; do kill -0 {pids} 2>/dev/null || break; sleep 0.02; done"

    def folders(self, count=2):
        return [word for member in self.apache.members[:count] for word in ("--folder", data_of(member))]


def test_follows_and_verifies():
    with Migration() as m:
        link = every_kind(m.apache.wait_leader())
        m.follow()
        found = m.wait_equal()
        assert found["nodes"] > 25 and found["sessions"] >= 1, found
        # Each kind of node again, now as transactions.
        more = link_to(m.apache.wait_leader())
        must(more, zk.create("/live", b""))
        must(more, zk.create("/live/e", b"", flags=zk.EPHEMERAL))
        must(more, zk.create("/live/c", b"", flags=zk.CONTAINER, op=zk.CREATE_CONTAINER))
        must(more, zk.create_ttl("/live/t", b"t", ttl_ms=3600000))
        for _ in range(3):
            must(more, zk.create("/live/s-", b"", flags=zk.PERSISTENT_SEQUENTIAL))
        must(more, zk.multi([zk.create("/m8", b"1"), zk.set_data("/m8", b"2"), zk.delete("/live/s-0000000004"), zk.check("/m8", 1)]))
        more.call(zk.multi([zk.create("/m9", b"1"), zk.delete("/none")]))
        must(more, zk.set_acl("/live", [(31, "world", "anyone"), (1, "ip", "127.0.0.1")]))
        m.wait_equal()
        more.close_session()
        m.wait_equal()
        status = m.status()
        assert status["stage"] == "following" and status["breaks"] <= 3, status
        assert status["digest"] is None or status["digest"] == status["source_digest"], status
        link.close_session()
        # A stranger gets no data, and the command says in its own name why.
        refused = subprocess.run([program(), "migrate", "verify", "--from", m.source, "--admin", m.admin], capture_output=True,
                                 text=True, timeout=300, check=False)
        assert refused.returncode != 0 and refused.stderr.startswith("conclave migrate: "), refused


def cpu_s(member):
    with open(f"/proc/{member.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def view_of(member):
    with urllib.request.urlopen(f"http://127.0.0.1:{member.admin_port}/mirror") as reply:
        return json.load(reply)


def test_questions_of_strangers_are_cheap():
    """GET /mirror is for everybody, and shows a digest of all nodes: computed again only when it may be another one."""
    with Migration() as m:
        link = link_to(m.apache.wait_leader())
        for first in range(0, 60000, 1000):
            must(link, zk.multi([zk.create(f"/node-{i}", b"x" * 50) for i in range(first, first + 1000)]))
        m.follow()
        must(link, zk.create("/last", b""))  # the source tells digests with its transactions
        leader = m.ours.wait_leader()
        deadline = time.monotonic() + WAIT_S
        while view_of(leader)["digest"] is None:
            assert time.monotonic() < deadline, leader.log_tail(2000)
            time.sleep(0.1)
        before = cpu_s(leader)
        for _ in range(100):
            assert view_of(leader)["digest"] is not None
        used = cpu_s(leader) - before
        assert used < 1, used
        link.close_session()
        return f"{used:.2f} s of CPU for 100 questions"


def test_reads_are_served_and_writes_refused():
    with Migration() as m:
        link = link_to(m.apache.wait_leader())
        must(link, zk.create("/seen", b"one"))
        m.follow()
        m.wait_equal()
        for member in m.ours.members:
            reader = link_to(member)
            assert "one" in str(must(reader, zk.get_data("/seen")))
            for request in (zk.create("/no", b""), zk.set_data("/seen", b"two"), zk.delete("/seen"),
                            zk.multi([zk.create("/no", b"")])):
                err, _ = reader.call(request)
                assert err == NOT_READ_ONLY, (request, err)
            reader.drop()
        shown = subprocess.run([program(), "get", "--read-only", "--server", m.ours.hosts, "/seen"], capture_output=True, text=True,
                               timeout=60, check=False)
        assert (shown.returncode, shown.stdout.strip()) == (0, "one"), shown
        for words in (["get", "/seen"], ["set", "/seen", "two"]):
            sent_away = subprocess.run([program(), *words, "--server", m.ours.hosts], capture_output=True, text=True, timeout=60,
                                       check=False)
            assert sent_away.returncode == 69 and "--read-only" in sent_away.stderr, sent_away
        # A client of the source that comes here is sent away without an answer, and its session lives.
        try:
            lost = zk.Connection(m.ours.members[0].address, 40000, patience_s=5, session_id=link.session_id, passwd=link.passwd)
            assert lost.session_id == -1, "the mirror answered a session of the source"
        except (zk.Closed, OSError):
            pass
        must(link, zk.set_data("/seen", b"three"))
        m.wait_equal()
        link.close_session()
        refused = m.command("follow", "--from", m.source, code=None)
        assert refused.returncode != 0 and "has nodes already" in refused.stderr, refused


def test_only_readers_that_ask_for_it():
    with Migration() as m:
        m.follow("--reads", "readonly")
        try:
            link = zk.Connection(m.ours.members[0].address, 10000, patience_s=3)
            assert not link.session_id, "a client got a session that it did not ask for"
        except (zk.Closed, OSError):
            pass
        assert m.status()["reads"] == "readonly"


def test_elections_and_kills_on_both_sides():
    with Migration() as m:
        link = every_kind(m.apache.wait_leader())
        m.follow()
        for _ in range(ROUNDS):
            leader = m.ours.wait_leader()
            leader.kill()
            m.wait_equal()
            leader.start()
            m.ours.wait_leader()
            leader = m.apache.wait_leader()
            leader.kill()
            m.wait_equal()
            leader.start()
            m.apache.wait_leader()
            m.wait_equal()
        # A member of ours with an empty folder gets everything from the others.
        follower = m.ours.followers()[0]
        follower.kill()
        shutil.rmtree(os.path.join(follower.folder, "data"))
        follower.start()
        m.wait_equal()
        for member in m.ours.members:
            member.restart(hard=True)
        m.ours.wait_leader()
        m.wait_equal()
        link.drop()


def test_another_history_replaces_the_tree():
    """The source's folders are replaced by older ones: what the mirror has and the source lacks goes."""
    with Migration() as m:
        link = link_to(m.apache.wait_leader())
        must(link, zk.create("/old", b""))
        link.close_session()
        for member in m.apache.members:
            member.stop()
            shutil.copytree(data_of(member), data_of(member) + "-kept")
            member.start()
        m.apache.wait_leader()
        m.follow()
        link = link_to(m.apache.wait_leader())
        for number in range(50):
            must(link, zk.create(f"/gone{number}", b""))
        link.close_session()
        m.wait_equal()
        for member in m.apache.members:
            member.kill()
        for member in m.apache.members:
            shutil.rmtree(data_of(member))
            shutil.move(data_of(member) + "-kept", data_of(member))
            member.start()
        m.apache.wait_leader()
        m.wait_equal()
        link = link_to(m.ours.members[0])
        assert link.call(zk.get_data("/gone3"))[0] != 0
        must(link, zk.get_data("/old"))
        link.drop()


class Client(threading.Thread):
    """A client of kazoo that knows both ensembles, with an ephemeral node; it makes nodes of ever new names."""

    def __init__(self, hosts, number):
        super().__init__(daemon=True)
        self.client = KazooClient(hosts=hosts, timeout=30, randomize_hosts=True, connection_retry={"max_tries": -1, "max_delay": 0.1},
                                  command_retry={"max_tries": 0})
        self.number = number
        self.acknowledged = []
        self.last = time.monotonic()
        self.gap = 0.0
        self.states = []
        self.problem = None
        self.ended = threading.Event()
        self.client.add_listener(self.states.append)
        self.client.start(timeout=WAIT_S)
        self.session = self.client.client_id[0]
        self.client.create(f"/alive{number}", b"", ephemeral=True)

    def run(self):
        count = 0
        while not self.ended.is_set():
            path = f"/c{self.number}-{count}"
            count += 1
            try:
                self.client.create(path, b"")
                self.acknowledged.append(path)
                now = time.monotonic()
                self.gap = max(self.gap, now - self.last)
                self.last = now
            except KazooException as error:
                if type(error).__name__ not in ("ConnectionLoss", "OperationTimeoutError", "NotReadOnlyCallError"):
                    self.problem = repr(error)
                    return
                time.sleep(0.01)
            time.sleep(0.01)


def cut_under_load(stop_words, **more):
    if KazooClient is None:
        raise cases.Skip("no kazoo (Debian: python3-kazoo)")
    with Migration(**more) as m:
        m.follow("--reads", "readonly")
        hosts = m.apache.hosts + "," + m.ours.hosts
        clients = [Client(hosts, number) for number in range(8)]
        holder = clients[0].client.Lock("/lock", "first")
        assert holder.acquire(timeout=WAIT_S)
        token = clients[1].client.exists("/lock/" + holder.node).czxid
        seen = threading.Event()
        clients[2].client.exists("/watched", watch=lambda event: seen.set())
        for client in clients:
            client.start()
        time.sleep(2)
        done = m.command("cut", "--yes", "--json", *stop_words(m))
        report = json.loads(done.stdout.splitlines()[-1])
        before = [len(client.acknowledged) for client in clients]
        deadline = time.monotonic() + WAIT_S
        while any(len(c.acknowledged) <= old and c.problem is None for c, old in zip(clients, before)):
            assert time.monotonic() < deadline, "no further writes"
            time.sleep(0.05)
        for client in clients:
            client.ended.set()
            client.join()
        have = set(clients[0].client.get_children("/"))
        for client in clients:
            assert client.problem is None, client.problem
            lost = [path for path in client.acknowledged if path[1:] not in have]
            assert not lost, (len(lost), lost[:3])
            assert KazooState.LOST not in client.states and client.client.client_id[0] == client.session, client.states
            assert client.client.exists(f"/alive{client.number}").ephemeralOwner == client.session
        assert holder.is_acquired and clients[3].client.exists("/lock/" + holder.node).czxid == token
        clients[3].client.create("/watched", b"")
        assert seen.wait(WAIT_S)
        assert m.status()["mirror"] is False
        writes = sum(len(client.acknowledged) for client in clients)
        gaps = sorted(client.gap for client in clients)
        for client in clients:
            client.client.stop()
            client.client.close()
        return f"{writes} writes; pause {report['pause_ms']} ms, clients {gaps[0] * 1000:.0f} to {gaps[-1] * 1000:.0f} ms"


def test_cut_after_kill():
    """kill -9 of all three: what the mirror did not get is in the folders."""
    return cut_under_load(lambda m: ["--stop-cmd", m.kill_apache(), *m.folders()])


def test_cut_after_stop():
    def words(m):
        pids = " ".join(str(member.process.pid) for member in m.apache.members)
        return ["--stop-cmd", f"kill {pids}", *m.folders(3)]
    # A stopped process that is not reaped still answers kill -0: reap it beside.
    return cut_under_load(lambda m: (reaper(m), words(m))[1])


def reaper(m):
    def reap():
        for member in m.apache.members:
            member.process.wait()
    threading.Thread(target=reap, daemon=True).start()


def test_cut_after_zookeeper_is_gone():
    """All servers have died, and the mirror could not follow to the end: what it lacks is in the folders."""
    with Migration() as m:
        link = link_to(m.apache.wait_leader())
        m.follow()
        must(link, zk.create("/one", b""))
        m.wait_equal()
        for member in m.ours.members:
            member.kill()
        must(link, zk.create("/two", b""))
        link.drop()
        for member in m.apache.members:
            member.kill()
        for member in m.ours.members:
            member.start()
        m.ours.wait_leader()
        deadline = time.monotonic() + WAIT_S
        while m.status().get("stage") != "connecting":
            assert time.monotonic() < deadline, m.status()
            time.sleep(0.05)
        early = m.command("cut", "--yes", "--fence-cmd", "true", "--stop-cmd", "true", code=1)
        assert "not up to date" in early.stderr, early
        done = m.command("cut", "--yes", *m.folders(), "--stop-cmd", "true")
        assert "taken from the folder" in done.stdout and "taken over" in done.stdout, done
        assert {"/one", "/two"} <= set(tree_of(m.ours.members[1]))


def test_cut_by_hand():
    """Without --stop-cmd the command waits until somebody has stopped the servers."""
    with Migration() as m:
        link = every_kind(m.apache.wait_leader())
        m.follow()
        m.wait_equal()
        want = tree_of(m.apache.wait_leader())
        threading.Timer(2, lambda: [member.kill() for member in m.apache.members]).start()
        done = m.command("cut", "--yes", *m.folders())
        assert "Stop all ZooKeeper servers now" in done.stderr and "pause" in done.stdout, done
        link.drop()
        again = link_to(m.ours.members[0], session_id=link.session_id, passwd=link.passwd)
        assert again.session_id == link.session_id
        have = {path: node for path, node in tree_of(m.ours.members[1]).items() if path != "/zookeeper/config"}
        want.pop("/zookeeper/config")
        wrong = differences(have, want)
        assert not wrong, wrong
        again.close_session()


def test_cut_by_a_last_read():
    """Clients are kept away from ZooKeeper first; then a write through its quorum proves that nothing is missing."""
    with Migration() as m:
        link = every_kind(m.apache.wait_leader())
        link.drop()
        m.follow()
        m.wait_equal()
        want = tree_of(m.apache.wait_leader())
        done = m.command("cut", "--yes", "--fence-cmd", "true", "--stop-cmd", m.kill_apache())
        assert "quorum read" in done.stdout and "taken over" in done.stdout, done
        have = tree_of(m.ours.members[0])
        for tree in (have, want):
            tree.pop("/zookeeper/config")
        wrong = differences(have, want)
        assert not wrong, wrong


def test_without_proof_it_goes_on_following():
    with Migration() as m:
        link = link_to(m.apache.wait_leader())
        must(link, zk.create("/one", b""))
        m.follow()
        m.wait_equal()
        # What would happen; too few folders; a command that stops nothing; one that fails; folders of nobody.
        told = m.command("cut", *m.folders(), "--stop-cmd", "true", code=64)
        assert "With --yes" in told.stdout and "ZooKeeper must not start again" in told.stdout, told
        m.command("cut", "--yes", *m.folders(1), "--stop-cmd", "true", code=64)
        twice = m.command("cut", "--yes", *m.folders(1), *m.folders(1), "--stop-cmd", "true", code=64)
        assert "each given once, and 1 are given" in twice.stderr, twice
        running = m.command("cut", "--yes", *m.folders(), "--stop-cmd", "true", code=1)
        assert "still listens" in running.stderr and "goes on following" in running.stderr, running
        m.command("cut", "--yes", *m.folders(), "--stop-cmd", "exit 3", code=1)
        must(link, zk.create("/two", b""))
        m.wait_equal()
        # The folders lack what the mirror has: they are copies from before.
        for member in m.apache.members:
            shutil.copytree(data_of(member), data_of(member) + "-old")
        for number in range(10):
            must(link, zk.create(f"/three{number}", b""))
        m.wait_equal()
        old = [word for member in m.apache.members[:2] for word in ("--folder", data_of(member) + "-old")]
        stop = m.kill_apache()
        refused = m.command("cut", "--yes", *old, "--stop-cmd", stop, code=1)
        assert "newer transaction than all the folders" in refused.stderr, refused
        # A damaged folder proves nothing.
        log = sorted(name for name in os.listdir(version_2(data_of(m.apache.members[0]) + "-old")) if name.startswith("log."))[-1]
        with open(os.path.join(version_2(data_of(m.apache.members[0]) + "-old"), log), "r+b") as file:
            file.seek(60)
            byte = file.read(1)
            file.seek(60)
            file.write(bytes([byte[0] ^ 1]))
        link.drop()
        assert m.status()["mirror"] is True
        for member in m.apache.members:
            member.kill()
            member.start()
        m.apache.wait_leader()
        m.wait_equal()
        # And then it succeeds.
        m.command("cut", "--yes", *m.folders(), "--stop-cmd", m.kill_apache())


def test_there_and_back():
    with Migration() as m:
        link = every_kind(m.apache.wait_leader())
        m.follow()
        m.wait_equal()
        m.command("cut", "--yes", *m.folders(), "--stop-cmd", m.kill_apache())
        link.drop()
        own = link_to(m.ours.members[0])
        must(own, zk.create("/ours", b""))
        own.close_session()
        leader = m.ours.wait_leader()
        want = tree_of(leader)
        backup = os.path.join(leader.folder, "full")
        made = run("backup", backup, "--admin", f"127.0.0.1:{leader.admin_port}", *AUTH)
        assert made.returncode == 0, made
        for member in m.ours.members:
            member.process.send_signal(signal.SIGTERM)
        for member in m.apache.members:
            member.kill()
            shutil.rmtree(data_of(member))
            done = run("export", backup, data_of(member))
            assert done.returncode == 0, done
            member.start()
        wrong = differences({p: n for p, n in tree_of(m.apache.wait_leader()).items() if p != "/zookeeper/config"},
                            {p: n for p, n in want.items() if p != "/zookeeper/config"})
        assert not wrong, wrong


def refused_to_nobody(leader):
    """Another user of this machine gets no data, and ends no mirror."""
    asks = "\n".join(("import sys, urllib.request, urllib.error", "for method, path in (('GET', '/backup'), ('POST', '/mirror/end?zxid=1')):",
                      "    url = f'http://127.0.0.1:{sys.argv[1]}{path}'",
                      "    try: print(urllib.request.urlopen(urllib.request.Request(url, method=method)).status)",
                      "    except urllib.error.HTTPError as error: print(error.code)"))
    done = subprocess.run(["/usr/bin/python3", "-c", asks, str(leader.admin_port)], user=65534, group=65534, extra_groups=[],
                          capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert done.stdout.split() == ["401", "401"], done


def test_without_a_superuser():
    """Then nobody can be admitted, and the server's user, or root, may act on its machine; other users and sites may not."""
    with Migration() as m:
        for member in m.ours.members:
            member.stop()
            member.options = [word for word in member.options if word not in ("--superDigest", DIGEST)]
        for member in m.ours.members:
            member.start()
        m.ours.wait_leader()
        global AUTH
        kept, AUTH = AUTH, []
        try:
            m.follow()
            m.wait_equal()
            if os.geteuid() == 0:
                refused_to_nobody(m.ours.wait_leader())
            m.command("cut", "--yes", *m.folders(), "--stop-cmd", m.kill_apache())
        finally:
            AUTH = kept
        request = urllib.request.Request(f"http://127.0.0.1:{m.ours.members[0].admin_port}/mirror/follow?source=a:1",
                                         data=b"", method="POST", headers={"Origin": "http://elsewhere"})
        try:
            urllib.request.urlopen(request)
            raise AssertionError("a page of another site was served")
        except urllib.error.HTTPError as error:
            assert error.code == 403, error


def main():
    global ROUNDS
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    ROUNDS = options.rounds
    missing = why_missing() or zookeeper.why_missing()
    if missing:
        return cases.skip_all(missing)
    return cases.run(cases.named("test_", globals()), options.names)


if __name__ == "__main__":
    sys.exit(main())
