"""Backups: what `conclave backup` saves from a running server, `conclave restore` gives back, node for node.

Promise: at random moments of a run of random writes the whole tree is read with kazoo (data, ACL and all fields of Stat);
the state that is restored for each of these zxids is equal, also for times. Backups are taken under writes, from leader
and followers, full and incremental, across snapshots; damaged, cut, foreign and disordered files are refused by name. A
restored folder serves alone and founds an ensemble of three; sessions in it go on if their clients come back. History,
`get --at`, `undelete` and `restore --subtree` from the same files. A folder that a timer fills: series, retention, damage, gaps.
Limits: kazoo reads the trees, so a node that changes while it is read is not tested here.

usage: backup_test.py [--points N] [--seed N] [CASE...]
"""

import argparse
import fcntl
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.security import make_acl, make_digest_acl

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402
from ensemble import ConclaveMember, Ensemble  # noqa: E402
from server import free_port  # noqa: E402

SUPER = ["--DigestAuthenticationProvider.superDigest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="]  # of super:test
AUTH = ["--auth", "digest:super:test"]
PATIENCE_S = 60
SESSION_S = 40.0


class Folder:
    """A folder for one case."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="conclave-test-backup-")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def __call__(self, name):
        return os.path.join(self.path, name)


class Restored(Conclave):
    """A server whose data folder is the given one, which goes with it."""

    def __init__(self, data, options=()):
        super().__init__(options)
        os.rename(data, os.path.join(self.folder, "data"))


def run(*words, fails=False):
    """The output of a command; with fails its complaint."""
    done = subprocess.run([program(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
                          check=False)
    assert (done.returncode != 0) == fails, (words, done.returncode, done.stdout, done.stderr)
    return done.stderr if fails else done.stdout


def backup(server, path, *more):
    return json.loads(run("backup", path, "--admin", f"127.0.0.1:{server.admin_port}", "--json", *AUTH, *more))


def restore(*words):
    return json.loads(run("restore", *words, "--json"))


def connect(server, super_user=True, **more):
    client = KazooClient(hosts=server.host, timeout=SESSION_S, **more)
    client.start(PATIENCE_S)
    if super_user:
        client.add_auth("digest", "super:test")
    return client


def close(client):
    client.stop()
    client.close()


def walk(client, path="/", into=None):
    """{path: (data, stat, acl)} of all nodes but ZooKeeper's own."""
    into = {} if into is None else into
    if path == "/zookeeper":
        return into
    data, stat = client.get(path)
    acl, _ = client.get_acls(path)
    into[path] = (data, tuple(stat), tuple(sorted(map(str, acl))))
    for child in client.get_children(path):
        walk(client, path.rstrip("/") + "/" + child, into)
    return into


def same(wanted, got, what):
    for path in sorted(set(wanted) | set(got)):
        assert wanted.get(path) == got.get(path), f"{what}: {path}: wanted {wanted.get(path)}, got {got.get(path)}"


def walk_restored(data):
    with Restored(data, SUPER) as server:
        client = connect(server)
        try:
            return walk(client)
        finally:
            close(client)


def random_write(client, chance, paths):
    """One random write; paths is the list of nodes."""
    kind = chance.randrange(10)
    at = chance.choice(paths)
    try:
        if kind < 4:
            made = client.create(at.rstrip("/") + f"/n{chance.randrange(1 << 30)}", chance.randbytes(chance.randrange(400)),
                                 sequence=chance.randrange(8) == 0)
            paths.append(made)
        elif kind == 4:
            client.create(at.rstrip("/") + f"/e{chance.randrange(1 << 30)}", b"e", ephemeral=True)
        elif kind == 5 and len(paths) > 30:
            gone = chance.choice(paths[1:])
            client.delete(gone, recursive=True)
            paths[:] = [path for path in paths if path != gone and not path.startswith(gone + "/")]
        elif kind == 6:
            client.set_acls(at, [make_acl("world", "anyone", all=True),
                                 make_digest_acl(f"user{chance.randrange(9)}", "x", read=True)])
        elif kind == 7:
            multi = client.transaction()
            multi.set_data(at, b"multi")
            made = at.rstrip("/") + f"/m{chance.randrange(1 << 30)}"
            multi.create(made, b"m")
            multi.commit()
            if client.exists(made):
                paths.append(made)
        else:
            client.set(at, chance.randbytes(chance.randrange(400)))
    except KazooException:
        pass  # such as a child of an ephemeral node: a failed write takes a zxid, too


class Points:
    def __init__(self, count, seed):
        self.count = count
        self.seed = seed

    def random_moments(self):
        chance = random.Random(self.seed)
        moments, files = [], []
        with Folder() as folder, Conclave([*SUPER, "--snapCount", "300"], admin=True) as server:
            client = connect(server)
            paths = ["/"]
            files.append(folder("full"))
            # the full backup lies before all moments, so that the log of all of them is behind it
            backup(server, files[0])
            for i in range(self.count):
                for _ in range(chance.randrange(1, 60)):
                    random_write(client, chance, paths)
                moments.append((client.last_zxid, time.time(), walk(client)))
                time.sleep(0.01)
                if i % 7 == 3:
                    files.append(folder(f"inc{i}"))
                    backup(server, files[-1], "--since", files[-2])
            files.append(folder("last"))
            assert backup(server, files[-1], "--since", files[-2])["zxid"] == hex(moments[-1][0])
            close(client)
            for i, (zxid, when, tree) in enumerate(moments):
                by_time = i % 5 == 4
                at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(when)) + f".{int(when * 1000) % 1000:03}"
                got = restore(*files, "--dir", folder("restored"), "--at", at if by_time else hex(zxid))
                assert got["zxid"] == hex(zxid), (got, hex(zxid), at)
                same(tree, walk_restored(folder("restored")), f"moment {i} (seed {self.seed})")
            run("restore", *files, "--check", "--at", hex(moments[-1][0] + 1000), fails=True)
            assert restore(*files, "--check", "--at", "2001-01-01")["zxid"] == "0x0"
            later = backup(server, folder("full2"))
            assert "earlier backup" in run("restore", folder("full2"), "--check", "--at", "1", fails=True), later
            assert "earlier backup" in run("restore", folder("full2"), "--check", "--at", "2001-01-01", fails=True)
        return f"{len(moments)} moments, {len(files)} files, seed {self.seed}"


class Writers:
    """Threads that write numbered nodes, each below a node of its own."""

    def __init__(self, hosts, count=3, most=3000):
        self.hosts = hosts
        self.most = most
        self.acknowledged = [0] * count
        self.ending = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(i,), daemon=True) for i in range(count)]

    def _run(self, i):
        client = KazooClient(hosts=self.hosts, timeout=SESSION_S)
        client.start(PATIENCE_S)
        client.ensure_path(f"/w{i}")
        n = 0
        while not self.ending.is_set() and n < self.most:
            waiting = [client.create_async(f"/w{i}/{n + k:08}", b"x" * 100) for k in range(20)]
            for result in waiting:
                result.get(PATIENCE_S)
            n += len(waiting)
            self.ending.wait(0.1)
            self.acknowledged[i] = n
        close(client)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        for thread in self.threads:
            thread.join()

    def wait(self, more):
        goal = sum(self.acknowledged) + more
        deadline = time.monotonic() + PATIENCE_S
        while sum(self.acknowledged) < goal:
            assert time.monotonic() < deadline, "the writers do not write"
            time.sleep(0.02)


def check_numbers(tree, at_least, what):
    """Each writer's nodes are there from the first on without a gap, and those that were acknowledged before."""
    for i, least in enumerate(at_least):
        names = sorted(path.split("/")[2] for path in tree if path.startswith(f"/w{i}/"))
        assert [int(name) for name in names] == list(range(len(names))), f"{what}: /w{i} has a gap"
        assert len(names) >= least, f"{what}: /w{i}: {len(names)} nodes, {least} were acknowledged before"


def under_writes():
    """From leader and followers of three, while all of them write; then a restored folder founds an ensemble."""
    more = [*SUPER, "--snapCount", "2000"]
    with Folder() as folder, Ensemble(3, ConclaveMember, options=more, admin=True) as ensemble:
        leader, (follower, _) = ensemble.roles()
        taken = []
        with Writers(ensemble.hosts) as writers:
            for round_ in range(3):
                writers.wait(300)
                for server in (leader, follower):
                    before = list(writers.acknowledged) if server is leader else [0] * 3
                    name = folder(f"{server.number}-{round_}")
                    taken.append((name, before, backup(server, name)))
        for name, before, result in taken:
            got = restore(name, "--dir", folder("d"))
            assert got["zxid"] == result["zxid"], (got, result)
            if name.endswith("-2"):
                check_numbers(walk_restored(folder("d")), before, name)
            else:
                shutil.rmtree(folder("d"))
        # the command finds a port itself, and spares the leader
        run("backup", folder("found"), "--server", ensemble.hosts, *AUTH)
        assert restore(folder("found"), "--check")["server"] != leader.number
        backup(leader, folder("since"), "--since", taken[-2][0])
        # another member has the same log
        backup(follower, folder("other"), "--since", folder("since"))
        client = connect(follower)
        wanted = walk(client)
        close(client)
        files = [taken[-2][0], folder("since"), folder("other")]
        found_ensemble(folder, files, wanted)


def after_an_election():
    """A new leader's first entry is an empty one: the log ends with it until the next write."""
    with Folder() as folder, Ensemble(3, ConclaveMember, options=SUPER, admin=True) as ensemble:
        for round_ in range(2):
            run("members", "transfer", "--server", ensemble.hosts, "--timeout", "60s", *AUTH)
            for member in ensemble.members:
                backup(member, folder(f"{round_}-{member.number}"))
        restore(folder("1-1"), "--check")


def found_ensemble(folder, files, wanted):
    ensemble = Ensemble(3, ConclaveMember, options=SUPER, admin=True)
    try:
        first = ensemble.members[0]
        restore(*files, "--dir", os.path.join(first.folder, "data"))
        ensemble.start()
        for member in ensemble.members:
            client = connect(member)
            client.sync("/")
            got = walk(client)
            close(client)
            same({path: node for path, node in wanted.items() if node[1][6] == 0},
                 {path: node for path, node in got.items() if node[1][6] == 0}, f"server {member.number}")
        client = connect(ensemble.members[2])
        client.create("/after", b"")
        close(client)
        assert backup(ensemble.members[1], folder("new"))["ensemble"] != restore(files[0], "--check")["ensemble"]
        assert "another ensemble" in run("backup", folder("x"), "--admin", f"127.0.0.1:{first.admin_port}", *AUTH, "--since",
                                         files[-1], fails=True)
    finally:
        ensemble.stop()


def damaged_files():
    chance = random.Random(7)
    with Folder() as folder, Conclave([*SUPER, "--snapCount", "50"], admin=True) as server:
        client = connect(server)
        for i in range(200):
            client.create(f"/n{i}", chance.randbytes(300))
        close(client)
        backup(server, folder("good"))
        with open(folder("good"), "rb") as file:
            good = file.read()
        for i in range(40):
            bad = bytearray(good)
            bad[chance.randrange(len(bad)) if i > 3 else (8, 40, len(bad) - 1, len(bad) - 20)[i]] ^= 1 << chance.randrange(8)
            with open(folder("bad"), "wb") as file:
                file.write(bad)
            text = run("restore", folder("bad"), "--dir", folder("d"), fails=True)
            assert folder("bad") in text and not os.path.exists(folder("d")), text
        for size in (0, 1, 127, 128, 129, len(good) // 2, len(good) - 24, len(good) - 1):
            with open(folder("bad"), "wb") as file:
                file.write(good[:size])
            text = run("restore", folder("bad"), "--check", fails=True)
            assert folder("bad") in text and "incomplete" in text, (size, text)
        with open(folder("bad"), "wb") as file:
            file.write(good + b"\0")
        assert "after its end" in run("restore", folder("bad"), "--check", fails=True)
        # a cut file cannot be continued either
        with open(folder("cut"), "wb") as file:
            file.write(good[:-30])
        text = run("backup", folder("x"), "--admin", f"127.0.0.1:{server.admin_port}", *AUTH, "--since", folder("cut"), fails=True)
        assert "incomplete" in text, text


def chains():
    """Only the right files in the right order; and a log that is gone is said to be."""
    with Folder() as folder, Conclave([*SUPER, "--snapCount", "200", "--forceSync", "no"], admin=True) as server:
        client = connect(server)
        names = []
        for i in range(4):
            client.create(f"/n{i}", b"x")
            names.append(folder(f"b{i}"))
            backup(server, names[-1], *(["--since", names[-2]] if i else []))
        a, b, c, d = names
        assert restore(a, b, c, d, "--check")["nodes"] == restore(a, "--check")["nodes"] + 3
        assert "in their order" in run("restore", a, c, d, "--check", fails=True)
        assert c in run("restore", a, c, b, "--check", fails=True)
        assert "name the full backup" in run("restore", b, c, "--check", fails=True)
        backup(server, folder("full2"))
        assert "only the first file" in run("restore", a, folder("full2"), "--check", fails=True)
        os.mkdir(folder("used"))
        with open(folder("used/file"), "w", encoding="ascii") as file:
            file.write("x")
        run("restore", a, "--dir", folder("used"), fails=True)
        assert os.listdir(folder("used")) == ["file"]
        restore(a, "--dir", folder("made"))
        run("restore", a, "--dir", folder("made"), fails=True)
        assert "exists already" in run("backup", a, "--admin", f"127.0.0.1:{server.admin_port}", *AUTH, fails=True)
        with Conclave(SUPER, admin=True) as other:
            backup(other, folder("foreign"))
            assert "another ensemble" in run("backup", folder("x"), "--since", a, "--admin", f"127.0.0.1:{other.admin_port}",
                                             *AUTH, fails=True)
        # enough writes for snapshots that make the oldest part of the log superfluous
        deadline = time.monotonic() + PATIENCE_S
        text = ""
        while "full backup" not in text:
            assert time.monotonic() < deadline, "the log is never trimmed"
            for _ in range(400):  # one after the other: each is an entry of its own
                client.set("/n0", b"y" * 8000)
            done = subprocess.run([program(), "backup", folder("y"), "--since", a, "--admin", f"127.0.0.1:{server.admin_port}", *AUTH],
                                  capture_output=True, text=True, timeout=60, check=False)
            text = done.stderr
            if done.returncode == 0:
                os.unlink(folder("y"))
        assert "does not hold" in text and not os.path.exists(folder("y")), text
        close(client)


def sessions_go_on():
    """A session in the backup resumes on the restored server, with its ephemeral node; another one ends with its own."""
    with Folder() as folder, Conclave(SUPER, admin=True) as server:
        stays = connect(server, super_user=False)
        stays.create("/stays", b"", ephemeral=True)
        goes = KazooClient(hosts=server.host, timeout=5.0)
        goes.start(PATIENCE_S)
        goes.create("/goes", b"", ephemeral=True)
        backup(server, folder("b"))
        assert restore(folder("b"), "--dir", folder("d"))["ephemerals"] == 2
        client_id = stays.client_id
        server.kill()
        with Restored(folder("d")) as again:
            resumed = KazooClient(hosts=again.host, timeout=SESSION_S, client_id=client_id)
            resumed.start(PATIENCE_S)
            assert resumed.client_id[0] == client_id[0]
            assert resumed.get("/stays")[1].ephemeralOwner == client_id[0]
            deadline = time.monotonic() + PATIENCE_S
            while resumed.exists("/goes"):
                assert time.monotonic() < deadline, "the other session does not end"
                time.sleep(0.1)
            assert resumed.exists("/stays")
            resumed.set("/stays", b"mine")
            close(resumed)
        for client in (stays, goes):
            client.stop()
            client.close()


def history_and_undelete():
    """Who changed a node and when; its data at any time; a deleted branch comes back, whatever the order of deletion."""
    with Folder() as folder, Conclave(SUPER, admin=True) as server:
        to = ["--server", server.host]
        client = connect(server, super_user=False)
        client.add_auth("digest", "anna:secret")
        acl = [make_acl("world", "anyone", all=True), make_digest_acl("anna", "secret", read=True)]
        client.create("/a", b"one", acl=acl)
        first = client.last_zxid
        backup(server, folder("full"))
        client.set("/a", b"two")
        second = client.last_zxid
        client.set_acls("/a", [make_acl("world", "anyone", all=True)])
        for i in range(450):
            client.create(f"/a/n{i:03}", b"%d" % i, acl=acl)
        client.create("/a/n000/deep", None)
        client.create("/a/e", b"", ephemeral=True)
        client.delete("/a/n449")
        client.set("/a/n448", b"last")  # so the deletion before is none of those that delete the branch
        time.sleep(0.01)
        wanted = walk(client, "/a")
        client.delete("/a", recursive=True)  # kazoo deletes the nodes below it first, one by one
        client.create("/b", b"")
        backup(server, folder("inc"), "--since", folder("full"))
        files = ["--from", folder("full"), "--from", folder("inc")]
        shown = json.loads(run("history", "/a", "--json", *files))["changes"]
        assert [row["operation"] for row in shown] == ["create", "set", "setACL", "delete"], shown
        assert [int(row["zxid"], 16) for row in shown[:2]] == [first, second], shown
        assert all(row["session"] == hex(client.client_id[0]) and row["address"] == "127.0.0.1" and
                   row["identities"] == "digest:anna" for row in shown), shown
        assert (shown[1]["version"], shown[1]["data_length"], shown[3]["version"]) == (1, 3, None), shown
        assert "digest:anna" in run("history", "/a", *files) and "secret" not in run("history", "/a", *files)
        assert "nothing about it" in run("history", "/nothing", *files, fails=True)
        assert run("get", "/a", "--at", hex(first), *files) == "one"
        assert run("get", "/a", "--at", hex(second), *files) == "two"
        assert json.loads(run("get", "/a", "--at", hex(second), "--json", *files))["stat"]["version"] == 1
        assert "NO_NODE" in run("get", "/a", *files, fails=True)
        done = json.loads(run("undelete", "/a", "--json", *files, *to))
        assert (done["created"], done["ephemerals_left_out"]) == (451, 1), done
        got = walk(client, "/a")
        wanted.pop("/a/e")
        assert {path: (node[0], node[2]) for path, node in wanted.items()} == \
            {path: (node[0], node[2]) for path, node in got.items()}
        assert "exists already" in run("undelete", "/a", *files, *to, fails=True)
        assert "do not show its deletion" in run("undelete", "/b", *files, *to, fails=True)
        # a branch beside the old one; then into what exists
        run("restore", folder("full"), "--subtree", "/a", "--to", "/old", *to)
        assert client.get("/old")[0] == b"one" and client.get_acls("/old")[0] == acl
        client.set("/a", b"changed")
        done = json.loads(run("restore", folder("full"), folder("inc"), "--subtree", "/a", "--at", hex(second), "--merge", "--json", *to))
        assert (done["created"], done["changed"]) == (0, 1) and client.get("/a")[0] == b"two", done
        assert client.get_acls("/a")[0] == acl and client.exists("/a/n001")
        assert "no node of that path" in run("restore", folder("full"), "--subtree", "/x", *to, fails=True)
        run("restore", folder("full"), "--subtree", "/a", "--check", *to, fails=True)
        close(client)


class Backups:
    """A folder that `conclave backup --dir` fills."""

    def __init__(self, server, path):
        self.server = server
        self.path = path
        self.complaint = ""

    def take(self, *more, fails=False):
        words = [program(), "backup", "--dir", self.path, "--admin", f"127.0.0.1:{self.server.admin_port}", "--json", *AUTH, *more]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False)
        self.complaint = done.stderr
        assert (done.returncode != 0) == fails, (more, done.returncode, done.stdout, done.stderr)
        return json.loads(done.stdout) if done.stdout else None

    def names(self):
        return sorted(name for name in os.listdir(self.path) if name.endswith(".backup"))

    def history(self, path):
        return [(row["operation"], int(row["zxid"], 16))
                for row in json.loads(run("history", path, "--dir", self.path, "--json"))["changes"]]


def damage(path):
    with open(path, "r+b") as file:
        file.seek(-40, os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def folder_of_series():
    """A timer's folder: full and incremental backups, found by their headers; history over all of them, each change once."""
    with Folder() as folder, Conclave(SUPER, admin=True) as server:
        backups = Backups(server, folder("b"))
        client = connect(server)
        zxids = []
        for i, more in enumerate(([], [], ["--full-every", "1s"], [], ["--full"])):
            (client.set if i else client.create)("/a", b"%d" % i)
            zxids.append(client.last_zxid)
            if "--full-every" in more:
                time.sleep(1.1)
            got = backups.take(*more)
            assert got["incremental"] == (i in (1, 3)) and int(got["zxid"], 16) == zxids[i], (i, got)
            assert (got["series"], got["files"]) == ((1, 1), (1, 2), (2, 3), (2, 4), (3, 5))[i], (i, got)
            assert got["dir_bytes"] == sum(os.path.getsize(os.path.join(backups.path, name)) for name in backups.names())
            assert os.stat(got["file"]).st_mode & 0o777 == 0o600 and "continues none" not in backups.complaint
        assert backups.history("/a") == list(zip(["create", "set", "set", "set", "set"], zxids))
        for i, zxid in enumerate(zxids):
            assert run("get", "/a", "--dir", backups.path, "--at", hex(zxid)) == str(i)
            assert run("get", "/a", "--from", backups.path, "--at", hex(zxid)) == str(i)
            assert restore(backups.path, "--check", "--at", hex(zxid))["zxid"] == hex(zxid)
        assert run("get", "/a", "--dir", backups.path) == "4"
        client.delete("/a")
        backups.take()
        run("undelete", "/a", "--dir", backups.path, "--server", server.host)
        assert client.get("/a")[0] == b"4"
        # what a crash and others leave is no backup
        for name in (".new.part", "x.backup", "notes"):
            with open(os.path.join(backups.path, name), "wb") as file:
                file.write(b"CONCLBAK rubbish")
        assert backups.take()["files"] == 7 and "x.backup: it is incomplete" in backups.complaint, backups.complaint
        assert ".new.part" not in os.listdir(backups.path)
        with open(os.path.join(backups.path, ".lock"), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            backups.take(fails=True)
            assert "in progress" in backups.complaint, backups.complaint
        with Conclave(SUPER, admin=True) as other:
            foreign = Backups(other, backups.path)
            foreign.take(fails=True)
            assert "another ensemble" in foreign.complaint and len(backups.names()) == 8, foreign.complaint
            assert foreign.take("--full")["series"] == 4
            backups.take(fails=True)
        for words in (["--keep-age", "30"], ["--keep-size", "ten"], ["--full-every", "0d"], ["--since", "x"]):
            assert run("backup", "--dir", folder("b"), *words, fails=True)
        run("backup", folder("x"), "--keep-age", "1d", fails=True)
        run("history", "/a", "--dir", folder("none"), fails=True)
        os.mkdir(folder("empty"))
        assert "no full backup" in run("history", "/a", "--dir", folder("empty"), fails=True)
        close(client)


def retention():
    """Old series go as a whole, by age and size; never the newest, and none while that one is not good."""
    with Folder() as folder, Conclave(SUPER, admin=True) as server:
        backups = Backups(server, folder("b"))
        client = connect(server)
        client.create("/a", os.urandom(50000))
        for i in range(6):
            client.set("/a", os.urandom(50000))
            backups.take(*(["--full"] if i in (2, 4) else []))
        names = backups.names()
        assert backups.take("--keep-age", "1d", "--keep-size", "1G")["removed_files"] == 0
        # the two oldest series are as large as they are; both go when that is too much
        sizes = [os.path.getsize(os.path.join(backups.path, name)) for name in names]
        got = backups.take("--keep-size", str(sum(sizes[2:]) + 2000))
        assert (got["removed_series"], got["removed_files"], got["series"]) == (1, 2, 2), got
        assert got["removed_bytes"] == sum(sizes[:2]) and backups.names()[:4] == names[2:], got
        assert backups.take("--keep-size", "1K")["series"] == 1
        assert "the newest series alone" in backups.complaint and backups.names()[0] == names[4], backups.complaint
        time.sleep(1.1)
        assert backups.take("--keep-age", "1s")["removed_files"] == 0  # it is the only one
        backups.take("--full")
        time.sleep(1.1)
        before = backups.names()
        got = backups.take("--full", "--keep-age", "1s")
        assert (got["series"], got["removed_files"]) == (1, len(before)) and restore(backups.path, "--check"), got
        # a damaged newest series: a new one begins before anything is removed
        backups.take("--full")
        backups.take()
        damage(os.path.join(backups.path, backups.names()[1]))
        time.sleep(1.1)
        got = backups.take("--keep-age", "1s")
        assert not got["incremental"] and "damaged at byte" in backups.complaint, (got, backups.complaint)
        checked = restore(backups.path, "--check")
        assert (got["series"], got["removed_files"]) == (2, 1) and checked["zxid"] == got["zxid"], (got, checked, backups.names())
        # history does without the damaged series, and says so
        done = subprocess.run([program(), "history", "/a", "--dir", backups.path], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0 and "left out" in done.stderr and "set" in done.stdout, done
        # also if it is the last file, which nothing can continue
        damage(got["file"])
        assert not backups.take()["incremental"] and "damaged at byte" in backups.complaint
        # no new backup, no removal
        before = backups.names()
        time.sleep(1.1)
        server.kill()
        backups.take("--keep-age", "1s", fails=True)
        assert backups.names() == before
        client.stop()
        client.close()


def gap_between_series():
    """Where the server's log begins too late, a new series begins, and history shows what it can of the time between."""
    with Folder() as folder, Conclave([*SUPER, "--snapCount", "200", "--forceSync", "no"], admin=True) as server:
        backups = Backups(server, folder("b"))
        client = connect(server)
        client.create("/n", b"")
        client.create("/gone", b"")
        backups.take()
        client.delete("/gone")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < deadline, "the log is never trimmed"
            for _ in range(400):
                client.set("/n", b"y" * 8000)
            done = subprocess.run([program(), "backup", folder("y"), "--since", os.path.join(backups.path, backups.names()[0]),
                                   "--admin", f"127.0.0.1:{server.admin_port}", *AUTH], capture_output=True, timeout=60, check=False)
            if done.returncode != 0:
                break
            os.unlink(folder("y"))
        got = backups.take()
        assert not got["incremental"] and got["series"] == 2 and "a new series begins" in backups.complaint, backups.complaint
        assert [row[0] for row in backups.history("/gone")] == ["create", "gone"]
        shown = [row[0] for row in backups.history("/n")]
        assert shown[:2] == ["create", "state"] and set(shown[2:]) <= {"set"}, shown
        run("undelete", "/gone", "--dir", backups.path, "--server", server.host)
        assert client.exists("/gone")
        close(client)


def rights_and_limits():
    """Only administrators; one backup at a time; a client that reads nothing holds nobody up."""
    with Folder() as folder, Conclave(SUPER, admin=True) as server:
        address = f"127.0.0.1:{server.admin_port}"
        assert "HTTP 401" in run("backup", folder("b"), "--admin", address, fails=True)
        assert "HTTP 403" in run("backup", folder("b"), "--admin", address, "--auth", "digest:some:body", fails=True)
        assert os.listdir(folder.path) == []
        client = connect(server)
        for i in range(40):
            client.create(f"/n{i}", os.urandom(900000))
        with socket.create_connection(("127.0.0.1", server.admin_port)) as slow:
            slow.sendall(b"GET /backup HTTP/1.1\r\nHost: localhost\r\nAuthorization: digest super:test\r\n\r\n")
            assert slow.recv(12) == b"HTTP/1.1 200"
            assert "HTTP 429" in run("backup", folder("b"), "--admin", address, *AUTH, fails=True)
            client.set("/n0", b"goes on")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            done = subprocess.run([program(), "backup", "-", "--admin", address, *AUTH], capture_output=True, timeout=120, check=False)
            if done.returncode == 0:
                break
            assert b"429" in done.stderr and time.monotonic() < deadline, done.stderr
            time.sleep(0.1)
        with open(folder("piped"), "wb") as file:
            file.write(done.stdout)
        assert restore(folder("piped"), "--check")["nodes"] == 45
        close(client)
        with socket.create_connection(("127.0.0.1", server.admin_port)) as slow:  # the server ends while it sends
            slow.sendall(b"GET /backup HTTP/1.1\r\nHost: localhost\r\nAuthorization: digest super:test\r\n\r\n")
            assert slow.recv(12) == b"HTTP/1.1 200"
            server.process.terminate()
            assert server.process.wait(PATIENCE_S) == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    if missing := why_missing():
        return cases.skip_all(missing)
    points = Points(options.points, options.seed)
    return cases.run([points.random_moments, under_writes, after_an_election, damaged_files, chains, sessions_go_on, history_and_undelete,
                      folder_of_series, retention, gap_between_series, rights_and_limits], options.only)


if __name__ == "__main__":
    sys.exit(main())
