"""Three servers of Apache ZooKeeper stop, three of ours start with the same zoo.cfg, myid and dataDir.

Promise: the tree is the one that Apache showed, field for field; no acknowledged write and no session is lost, whichever
folders are older, damaged or empty, whoever is killed meanwhile, in whatever order the servers start; without a majority of
readable folders, or with folders of two ensembles, nothing is served and nothing changes.

usage: apache_ensemble_import_test.py [--rounds N] [NAME...]
"""

import argparse
import logging
import os
import random
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from apache_nodes import (EXIT_IO, PROPERTIES, SUPER, WAIT_S, change, contents, data_of, differences, every_kind, files, flip,  # noqa: E402
                          link_to, must, run, tree_of, version_2)
from conclave import Conclave, program, why_missing  # noqa: E402
from ensemble import Ensemble, ZooKeeperMember, mode_of  # noqa: E402
from server import free_port  # noqa: E402

try:
    from kazoo.client import KazooClient, KazooState
    from kazoo.exceptions import KazooException
except ImportError:
    KazooClient = None

logging.getLogger("kazoo").setLevel(logging.CRITICAL)

DIGEST = PROPERTIES["zookeeper.DigestAuthenticationProvider.superDigest"]
CONFIG = "/zookeeper/config"  # ours has the members in its own order, with a version of its own
ROUNDS = 20


class Successor(Conclave):
    """Ours, with the zoo.cfg of one of Apache's members."""

    def __init__(self, apache, admin=False):
        super().__init__(admin=admin)
        self.apache = apache
        self.number = apache.number
        self.port = apache.port

    def command(self):
        self.admin_port = (self.admin_port or free_port()) if self.admin else 0
        return [program(), "server", os.path.join(self.apache.folder, "zoo.cfg"), "--admin.enableServer", "true",
                "--admin", f"127.0.0.1:{self.admin_port}" if self.admin else "off", "--superDigest", DIGEST]


class Takeover:
    """`with Takeover() as t:` t.apache is an ensemble of Apache's that runs, t.ours three servers of ours that do not."""

    def __init__(self, count=3, admin=False, settings=None, kind=ZooKeeperMember):
        self.apache = Ensemble(count, kind, settings={"snapCount": 100000, **(settings or {})}, properties=PROPERTIES)
        self.ours = [Successor(member, admin) for member in self.apache.members]

    def __enter__(self):
        self.apache.start()
        return self

    def __exit__(self, *_):
        for server in self.ours:
            server.destroy()
        self.apache.stop()

    def end_apache(self, hard=False):
        for member in self.apache.members:
            member.kill() if hard else member.stop()

    def start(self, servers=None):
        for server in servers or self.ours:
            server.start()

    def leader(self, seconds=WAIT_S, serving=None):
        """Waits until one of ours leads and all that live (or `serving`) serve."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            modes = {server: mode_of(server) for server in self.ours if server.alive()}
            leaders = [server for server, mode in modes.items() if mode == "leader"]
            if len(leaders) == 1 and sum(1 for mode in modes.values() if mode in ("leader", "follower")) >= (serving or len(modes)):
                return leaders[0]
            time.sleep(0.05)
        raise RuntimeError("no leader\n" + "\n".join(f"--- {server.number}\n{server.log_tail(2500)}" for server in self.ours))

    def data(self, i):
        return data_of(self.apache.members[i])


def compare(have, want):
    wrong = differences({path: node for path, node in have.items() if path != CONFIG},
                        {path: node for path, node in want.items() if path != CONFIG})
    assert not wrong, wrong


def all_show(takeover, want, serving=None):
    takeover.leader(serving=serving)
    for server in takeover.ours:
        link = link_to(server)
        link.call(zk.sync("/"))
        link.close_session()
        compare(tree_of(server), want)


def any_leader(ensemble):
    return ensemble.wait_leader()


def test_every_kind_goes_on():
    with Takeover() as t:
        link = every_kind(any_leader(t.apache))
        want = tree_of(t.apache.members[0])
        t.end_apache()
        link.drop()
        was = [contents(t.data(i)) for i in range(3)]
        began = time.monotonic()
        t.start()
        t.leader()
        pause = time.monotonic() - began
        again = link_to(t.ours[1], session_id=link.session_id, passwd=link.passwd)
        assert again.session_id == link.session_id
        all_show(t, want)
        name = must(again, zk.create("/parent/s-", b"", flags=zk.PERSISTENT_SEQUENTIAL))
        assert "0000000010" in str(name), name
        config = must(again, zk.get_data(CONFIG))
        assert all(f"server.{n}=" in str(config) for n in (1, 2, 3)), config
        again.close_session()
        assert [contents(t.data(i)) for i in range(3)] == was, "a file of Apache's was changed"
        left = tree_of(t.ours[0])
        assert "/mine" not in left
        for server in t.ours:
            server.restart(hard=True)
        all_show(t, left)
        assert not os.path.exists(os.path.join(t.data(0), "import-choice"))
        return f"{len(want)} nodes, leader after {pause * 1000:.0f} ms"


def older(t, i):
    """Member i misses the last writes."""
    t.apache.members[i].stop()
    link = link_to(any_leader(t.apache))
    for number in range(20):
        must(link, zk.create(f"/later{number}", b""))
    link.close_session()


def empty(t, i):
    for name in os.listdir(version_2(t.data(i))):
        os.remove(os.path.join(version_2(t.data(i)), name))


def without_folder(t, i):
    shutil.rmtree(version_2(t.data(i)))


def damaged(t, i):
    path = files(t.data(i), "log.")[-1]
    change(path, flip(60))


def one_bad(how, before):
    with Takeover() as t:
        link = every_kind(any_leader(t.apache))
        bad = random.randrange(3)
        if before:
            how(t, bad)
        want = tree_of(next(m for m in t.apache.members if m.alive()))
        t.end_apache()
        link.drop()
        if not before:
            how(t, bad)
        t.start()
        all_show(t, want)
        for server in t.ours:
            server.restart(hard=True)
        all_show(t, want)
        return f"member {bad + 1}"


def test_one_older():
    return one_bad(older, True)


def test_one_empty():
    return one_bad(empty, False)


def test_one_without_files():
    return one_bad(without_folder, False)


def test_one_damaged():
    return one_bad(damaged, False)


def test_two_bad_wait_for_repair():
    with Takeover() as t:
        link = every_kind(any_leader(t.apache))
        want = tree_of(t.apache.members[0])
        t.end_apache()
        link.drop()
        kept = t.data(1) + "-kept"
        shutil.copytree(t.data(1), kept)
        damaged(t, 1)
        without_folder(t, 2)
        was = contents(t.data(0))
        t.start()
        deadline = time.monotonic() + WAIT_S
        while "import-waits" not in t.ours[0].log_tail() or "member 2: damaged" not in t.ours[0].log_tail():
            assert time.monotonic() < deadline, t.ours[0].log_tail()
            time.sleep(0.1)
        assert not [server for server in t.ours if mode_of(server) in ("leader", "follower")]
        assert contents(t.data(0)) == was and "conclave.format" not in os.listdir(t.data(0)), os.listdir(t.data(0))
        t.ours[1].stop()
        shutil.rmtree(t.data(1))
        shutil.move(kept, t.data(1))
        t.ours[1].start()
        all_show(t, want)


def until_log(server, *texts):
    """Waits until the server has logged all of these; a wait is told every 30 s."""
    deadline = time.monotonic() + 2 * WAIT_S
    while not all(text in server.log_tail(100000) for text in texts):
        assert time.monotonic() < deadline and server.alive(), (texts, server.log_tail(3000))
        time.sleep(0.05)


def put_in_place(t, source, target):
    """The folder of a member takes the place of another's."""
    shutil.rmtree(version_2(t.data(target)), ignore_errors=True)
    shutil.copytree(version_2(t.data(source)), version_2(t.data(target)))


def test_two_lost_and_the_operator_decides():
    """docs/migration.md, "Without a majority": the folder that is left takes the place of one that is lost."""
    with Takeover() as t:
        link = every_kind(any_leader(t.apache))
        want = tree_of(t.apache.members[0])
        t.end_apache()
        link.drop()
        damaged(t, 1)
        without_folder(t, 2)
        t.start()
        until_log(t.ours[0], "import-waits", "Put no older backup in a folder's place", "docs/migration.md")
        until_log(t.ours[1], "import-impossible", "put no older backup in its place")
        for server in t.ours:
            server.stop()
        put_in_place(t, 0, 1)
        for i in range(3):
            choice = os.path.join(t.data(i), "import-choice")
            if os.path.exists(choice):
                os.remove(choice)
        t.start()
        all_show(t, want)


def test_a_newer_member_that_joins_is_named():
    """Two members have an older backup, against all advice: the third joins, and says that its folder is newer."""
    with Takeover() as t:
        every_kind(any_leader(t.apache)).drop()
        bad = random.randrange(3)
        older(t, bad)
        t.end_apache()
        other, late = random.sample([i for i in range(3) if i != bad], 2)
        kept = contents(t.data(late))
        put_in_place(t, bad, other)
        t.start([t.ours[bad], t.ours[other]])
        t.leader(serving=2)
        t.start([t.ours[late]])
        t.leader(serving=3)
        assert "/later19" not in tree_of(t.ours[late])
        until_log(t.ours[late], "warn", "import-newer", "its-zxid=0x", "keep version-2 of this server")
        assert not [server for server in (t.ours[bad], t.ours[other]) if "import-newer" in server.log_tail(100000)]
        have = contents(t.data(late))
        assert {name: have[name] for name in kept} == kept


def test_empty_servers_wait_for_the_one_with_files():
    """Two members without any folder are a majority of new servers, but found nothing beside one that has data."""
    with Takeover() as t:
        link = every_kind(any_leader(t.apache))
        t.end_apache()
        link.drop()
        without_folder(t, 1)
        without_folder(t, 2)
        t.start([t.ours[0]])
        t.start(t.ours[1:])
        time.sleep(5)
        assert not [server for server in t.ours if mode_of(server) in ("leader", "follower")]


def test_two_ensembles():
    with Takeover() as t, Takeover() as other:
        for which in (t, other):
            link = link_to(any_leader(which.apache))
            for number in range(10):
                must(link, zk.create(f"/n{number}", b""))
            link.close_session()
        link = link_to(any_leader(t.apache))
        must(link, zk.create("/more", b""))
        link.close_session()
        t.end_apache()
        other.end_apache()
        shutil.rmtree(version_2(t.data(1)))
        shutil.copytree(version_2(other.data(1)), version_2(t.data(1)))
        was = [contents(t.data(i)) for i in range(3)]
        t.start()
        for server in t.ours:
            code = server.process.wait(WAIT_S)
            log = server.log_tail()
            assert code == EXIT_IO and "of two different ZooKeeper ensembles" in log and "server 2" in log, (code, log)
        assert [contents(t.data(i)) for i in range(3)] == was
        assert not [i for i in range(3) if "conclave.format" in os.listdir(t.data(i))]


def test_any_order_with_delays():
    with Takeover() as t:
        link = every_kind(any_leader(t.apache))
        want = tree_of(t.apache.members[0])
        t.end_apache()
        link.drop()
        order = random.sample(t.ours, 3)
        t.start([order[0]])
        time.sleep(3)
        assert mode_of(order[0]) not in ("leader", "standalone", "follower"), "one folder is no majority"
        t.start([order[1]])
        t.leader(serving=2)
        link = link_to(order[1])
        must(link, zk.create("/ours", b""))
        link.close_session()
        time.sleep(1)
        t.start([order[2]])
        t.leader()
        found = {path: node for path, node in tree_of(order[2]).items() if path not in ("/", "/ours")}
        compare(found, {path: node for path, node in want.items() if path != "/"})
        assert "/ours" in tree_of(order[2])


class Writer(threading.Thread):
    """Makes nodes of ever new names; keeps those that were acknowledged."""

    def __init__(self, hosts, number):
        super().__init__(daemon=True)
        self.client = KazooClient(hosts=hosts, timeout=30, connection_retry={"max_tries": -1, "max_delay": 0.2},
                                  command_retry={"max_tries": 0})
        self.number = number
        self.acknowledged = []
        self.states = []
        self.client.add_listener(self.states.append)
        self.client.start(timeout=WAIT_S)
        self.session = self.client.client_id[0]
        self.client.create(f"/alive{number}", b"", ephemeral=True)
        self.ended = threading.Event()
        self.problem = None

    def run(self):
        count = 0
        while not self.ended.is_set():
            path = f"/w{self.number}-{count}"
            count += 1
            try:
                self.client.create(path, b"")
                self.acknowledged.append(path)
            except KazooException as error:
                if type(error).__name__ not in ("ConnectionLoss", "OperationTimeoutError", "SessionExpiredError"):
                    self.problem = repr(error)
                    return
                time.sleep(0.05)

    def check(self, have):
        assert self.problem is None, self.problem
        lost = [path for path in self.acknowledged if path not in have]
        assert not lost, (len(lost), lost[:5])
        assert KazooState.LOST not in self.states and self.client.client_id[0] == self.session, self.states
        assert self.client.exists(f"/alive{self.number}").ephemeralOwner == self.session


def test_killed_under_load():
    """All three are killed in the middle of writes: unequal logs. Clients go on with their sessions; a lock stays held."""
    if KazooClient is None:
        raise cases.Skip("no kazoo (Debian: python3-kazoo)")
    with Takeover() as t:
        writers = [Writer(t.apache.hosts, number) for number in range(6)]
        holder = writers[0].client.Lock("/lock", "first")
        assert holder.acquire(timeout=WAIT_S)
        token = writers[1].client.exists("/lock/" + holder.node).czxid
        seen = threading.Event()
        writers[2].client.exists("/watched", watch=lambda event: seen.set())
        for writer in writers:
            writer.start()
        time.sleep(3)
        for member in random.sample(t.apache.members, 3):
            member.kill()
        before = [len(writer.acknowledged) for writer in writers]
        began = time.monotonic()
        t.start()
        t.leader()
        deadline = time.monotonic() + WAIT_S
        while any(len(w.acknowledged) <= old and w.problem is None for w, old in zip(writers, before)):
            assert time.monotonic() < deadline, "no further writes"
            time.sleep(0.05)
        pause = time.monotonic() - began
        for writer in writers:
            writer.ended.set()
            writer.join()
        have = set(writers[0].client.get_children("/"))
        for writer in writers:
            writer.check({"/" + name for name in have})
        assert holder.is_acquired and writers[3].client.exists("/lock/" + holder.node).czxid == token
        writers[3].client.create("/watched", b"")
        assert seen.wait(WAIT_S)
        for writer in writers:
            writer.client.stop()
            writer.client.close()
        return f"{sum(len(w.acknowledged) for w in writers)} writes, all clients write again after {pause * 1000:.0f} ms"


def test_killed_while_it_starts():
    """Ours are killed at random moments of the first start, again and again: in the end the same tree, and one only."""
    with Takeover() as t:
        link = every_kind(any_leader(t.apache))
        older(t, 2)
        want = tree_of(t.apache.members[0])
        t.end_apache()
        link.drop()
        folders = [t.data(i) for i in range(3)]
        for i in range(3):
            shutil.copytree(folders[i], folders[i] + "-kept")
        began = time.monotonic()
        t.start()
        t.leader()
        whole = time.monotonic() - began
        for _ in range(ROUNDS):
            for server, folder in zip(t.ours, folders):
                if server.alive():
                    server.kill()
                shutil.rmtree(folder)
                shutil.copytree(folder + "-kept", folder)
            for _ in range(3):
                for server in t.ours:
                    if not server.alive():
                        launch(server)
                time.sleep(random.uniform(0, whole * 1.2))
                for server in random.sample(t.ours, random.randint(1, 3)):
                    if server.process is not None and server.process.poll() is None:
                        server.process.kill()
                        server.process.wait()
                time.sleep(0.05)
            time.sleep(0.2)
            for server in t.ours:
                if not server.alive():
                    server.start()
            all_show(t, want)
        return f"{ROUNDS} rounds, a start takes {whole * 1000:.0f} ms"


def launch(server):
    """Starts it without waiting: it may be killed before it is ready."""
    with open(server.log_path, "ab") as log:
        server.process = subprocess.Popen(server.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                          cwd=server.folder)


def test_there_and_back():
    with Takeover(admin=True) as t:
        link = every_kind(any_leader(t.apache))
        t.end_apache()
        link.drop()
        t.start()
        leader = t.leader()
        own = link_to(leader)
        must(own, zk.create("/ours", b""))
        own.close_session()
        want = tree_of(leader)
        backup = os.path.join(leader.folder, "full")
        made = run("backup", backup, "--admin", f"127.0.0.1:{leader.admin_port}", "--auth", f"digest:{SUPER.decode()}")
        assert made.returncode == 0, made
        for server in t.ours:
            server.stop()
        for i in range(3):
            for name in os.listdir(t.data(i)):
                path = os.path.join(t.data(i), name)
                if name != "myid":
                    (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
            done = run("export", backup, t.data(i))
            assert done.returncode == 0, done
        t.apache.start()
        compare(tree_of(t.apache.wait_leader()), want)


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
