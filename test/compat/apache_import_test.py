"""`conclave server` with the zoo.cfg of an Apache ZooKeeper that was stopped: the same nodes, sessions and clients.

Promise: the tree that our server shows is the one that Debian's Apache showed, field for field; clients of kazoo with locks and
ephemeral nodes keep their sessions across the change and lose no write that was acknowledged; Apache's files are not touched; the
import is made once, as a whole or not at all, whatever ends it; two kinds of data in a folder are noticed.

usage: apache_import_test.py [NAME...]
"""

import json
import logging
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from apache_nodes import (EXIT_IO, PROPERTIES, SPOILERS, SUPER, WAIT_S, Folder, contents, data_of, differences, every_kind,  # noqa: E402
                          files, link_to, must, run, tree_of, version_2)
from conclave import Conclave, program, why_missing  # noqa: E402
from server import free_port  # noqa: E402
from small_disk import SmallDisk  # noqa: E402
from zookeeper import ZooKeeper  # noqa: E402

try:
    from kazoo.client import KazooClient, KazooState
    from kazoo.exceptions import KazooException
except ImportError:
    KazooClient = None

logging.getLogger("kazoo").setLevel(logging.CRITICAL)

DIGEST = PROPERTIES["zookeeper.DigestAuthenticationProvider.superDigest"]


class Successor(Conclave):
    """Our server with the zoo.cfg of that Apache server: its port, its folder."""

    def __init__(self, apache, admin=False):
        super().__init__(admin=admin)
        self.apache = apache
        self.port = apache.port

    def command(self):
        self.admin_port = free_port() if self.admin else 0
        return [program(), "server", os.path.join(self.apache.folder, "zoo.cfg"), "--admin.enableServer", "true",
                "--admin", f"127.0.0.1:{self.admin_port}" if self.admin else "off", "--superDigest", DIGEST]


def refused(folder, *texts, before=()):
    """A server does not start with that folder, and says this."""
    done = subprocess.run([*before, program(), "server", "--data", folder, "--listen", f"127.0.0.1:{free_port()}", "--admin", "off"],
                          capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == EXIT_IO and all(text in done.stderr for text in texts), (done, texts)
    assert "ready" not in done.stdout, done


def test_every_kind_goes_on():
    with ZooKeeper(settings={"snapCount": 100000}, properties=PROPERTIES) as first:
        link = every_kind(first)
        want = tree_of(first)
        first.kill()
        link.drop()
        was = contents(data_of(first))
        with Successor(first) as server:
            log = server.log_tail()
            assert " imported " in log and "digest=equal" in log, log
            again = link_to(server, session_id=link.session_id, passwd=link.passwd)
            assert again.session_id == link.session_id
            wrong = differences(tree_of(server), want)
            assert not wrong, wrong
            # The counter of names goes on, and the session still owns its nodes: they go with it.
            name = must(again, zk.create("/parent/s-", b"", flags=zk.PERSISTENT_SEQUENTIAL))
            assert "0000000010" in str(name), name
            again.close_session()
            left = tree_of(server)
            assert "/mine" not in left and not any("/e-" in path for path in left), sorted(left)
            # What was imported is not imported again: ours goes on from there.
            server.restart(hard=True)
            wrong = differences(tree_of(server), left)
            assert not wrong, wrong
        assert contents(data_of(first)) == was, "a file of Apache's was changed"
        return f"{len(want)} nodes"


def test_there_and_back():
    """Apache, ours, and Apache again from a backup of ours: nodes, the counter, and the session that Apache opened."""
    with ZooKeeper(settings={"snapCount": 100000}, properties=PROPERTIES) as first:
        link = every_kind(first)
        first.kill()
        link.drop()
        backup = os.path.join(first.folder, "full")
        with Successor(first, admin=True) as server:
            again = link_to(server, session_id=link.session_id, passwd=link.passwd)
            must(again, zk.create("/parent/s-", b"ours", flags=zk.PERSISTENT_SEQUENTIAL))
            must(again, zk.set_data("/plain", b"changed by ours"))
            own = link_to(server)
            must(own, zk.create("/own", b"", flags=zk.EPHEMERAL))
            want = tree_of(server)
            made = run("backup", backup, "--admin", f"127.0.0.1:{server.admin_port}", "--auth", f"digest:{SUPER.decode()}")
            assert made.returncode == 0, made
            server.kill()
            again.drop()
            own.drop()
        with ZooKeeper(settings={"snapCount": 100000}, properties=PROPERTIES) as second:
            second.stop()
            shutil.rmtree(data_of(second))
            done = run("export", backup, data_of(second))
            assert done.returncode == 0 and "opened by Conclave" in done.stdout, done
            second.start()
            wrong = differences(tree_of(second), want)
            assert not wrong, wrong
            again = link_to(second, session_id=link.session_id, passwd=link.passwd)
            assert again.session_id == link.session_id
            name = must(again, zk.create("/parent/s-", b"", flags=zk.PERSISTENT_SEQUENTIAL))
            assert "0000000011" in str(name), name
            again.close_session()
            assert "/mine" not in tree_of(second)
        wrongly = [run("export", backup), run("export", backup, "--from", data_of(first), "/nowhere"),
                   run("export", "--at", "soon", backup, "/nowhere")]
        assert [done.returncode for done in wrongly] == [64, 64, 64], wrongly
        damaged = run("export", os.path.join(data_of(first), "imported"), data_of(first) + "-none")
        assert damaged.returncode == EXIT_IO and not os.path.exists(data_of(first) + "-none"), damaged


def findings(config):
    done = run("doctor", "--json", "--min-free", "1", "--slow-sync", "60s", config)
    assert done.stdout, done
    return {finding["name"]: finding["what"] for finding in json.loads(done.stdout)["findings"]}


def test_the_doctor_before_the_start():
    """Beside the Apache server that writes, and when it was killed: what the start will find."""
    with ZooKeeper(settings={"snapCount": 100000}, properties=PROPERTIES) as first:
        config = os.path.join(first.folder, "zoo.cfg")
        link = every_kind(first)
        ended = threading.Event()

        def write():
            while not ended.is_set():
                must(link, zk.set_data("/plain", b"more"))
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(5):
                found = findings(config)
                assert {"import-due", "port-in-use"} <= set(found) and not set(found) & {"import-damaged", "folder-foreign"}, found
        finally:
            ended.set()
            writer.join()
        first.kill()
        link.drop()
        was = contents(data_of(first))
        found = findings(config)
        assert "port-in-use" not in found and "import-damaged" not in found, found
        assert contents(data_of(first)) == was
        with Successor(first) as server:
            log = server.log_tail()
            zxid = re.search(r" imported .* zxid=(0x[0-9a-f]+)", log)[1]
            assert f"last zxid {zxid}," in found["import-due"], (zxid, found)
        assert not [name for name in findings(config) if name.startswith(("import", "data-beside"))]


def test_two_kinds_of_data():
    """Apache runs once more in the folder: nobody can know which data count."""
    with ZooKeeper(properties=PROPERTIES) as first:
        link = link_to(first)
        must(link, zk.create("/one", b""))
        first.kill()
        link.drop()
        with Successor(first) as server:
            link = link_to(server)
            must(link, zk.create("/two", b""))
            link.close_session()
        first.start()
        first.stop()
        with Successor(first):
            pass  # it wrote no transaction
        first.start()
        link = link_to(first)
        must(link, zk.create("/three", b""))
        first.kill()
        link.drop()
        folder = data_of(first)
        refused(folder, "after it was imported", "Which data count?")
        kept = folder + "-kept"
        shutil.copytree(folder, kept)
        shutil.rmtree(version_2(folder))
        with Successor(first) as server:
            assert {"/one", "/two"} <= set(tree_of(server))
        for name in os.listdir(kept):
            if name not in ("version-2", "myid"):
                path = os.path.join(kept, name)
                (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
        shutil.rmtree(folder)
        shutil.move(kept, folder)
        with Successor(first) as server:
            found = set(tree_of(server))
            assert {"/one", "/three"} <= found and "/two" not in found, found
        # Data of ours, and then a folder of Apache's beside them.
        os.remove(os.path.join(folder, "imported"))
        refused(folder, "were not imported")


def test_logs_in_another_folder():
    with ZooKeeper(properties=PROPERTIES, settings={"snapCount": 100000}) as first:
        first.stop()
        first.settings["dataLogDir"] = os.path.join(first.folder, "logs")
        shutil.rmtree(data_of(first))
        first.start()
        link = every_kind(first)
        want = tree_of(first)
        first.kill()
        link.drop()
        assert not files(data_of(first), "log."), "they were to be in the other folder"
        with Successor(first) as server:
            wrong = differences(tree_of(server), want)
            assert not wrong, wrong


def test_damage_is_named_and_nothing_is_made():
    for spoil, text in SPOILERS.values():
        folder = Folder.copy()
        where = spoil(folder)
        was = contents(folder)
        refused(folder, where, text)
        assert contents(folder) == was
        assert sorted(os.listdir(folder)) == ["version-2"], os.listdir(folder)
    empty = Folder.copy()
    for name in os.listdir(version_2(empty)):
        os.remove(os.path.join(version_2(empty), name))
    with open(os.path.join(version_2(empty), "log.1"), "wb"):
        pass
    refused(empty, "neither a snapshot nor a transaction")


def test_a_file_that_may_not_grow_is_named():
    folder = Folder.copy()
    was = contents(folder)
    refused(folder, folder, before=["bash", "-c", "ulimit -f 8; trap '' XFSZ; exec \"$@\"", "bash"])
    assert contents(folder) == was
    complete(folder)


def test_a_full_disk_is_named():
    """Full at once, and full in the middle of the import: nothing is served, and with room the same folder is imported."""
    folder = Folder.copy()
    disk = SmallDisk(folder)
    try:
        was = contents(folder)
        for leave in (0, 64 << 10, (1 << 20) + (64 << 10)):
            disk.fill(leave)
            refused(folder, folder, "No space left")
            assert contents(folder) == was
            disk.free()
        complete(folder)
    finally:
        disk.close()


def complete(folder):
    """A server starts with the folder, and has what Apache's files say."""
    with Conclave(["--superDigest", DIGEST]) as server:
        server.stop()
        shutil.rmtree(data_of(server))
        shutil.copytree(folder, data_of(server))
        server.start()
        have = {path: data for path, (data, _) in tree_of(server).items()}
        assert sum(path.startswith("/n") for path in have) > 200, sorted(have)
        log = server.log_tail()
        assert "digest=equal" in log, log


def test_an_import_that_is_killed_is_made_again():
    whole = None
    for _ in range(12):
        folder = Folder.copy()
        process = subprocess.Popen([program(), "server", "--data", folder, "--listen", f"127.0.0.1:{free_port()}", "--admin", "off"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        began = time.monotonic()
        if whole is None:
            process.stdout.readline()
            whole = time.monotonic() - began
        else:
            time.sleep(random.uniform(0, whole))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with Conclave(["--superDigest", DIGEST]) as server:
            server.stop()
            shutil.rmtree(data_of(server))
            shutil.copytree(folder, data_of(server))
            server.start()
            assert sum(path.startswith("/n") for path in tree_of(server)) > 200
        shutil.rmtree(folder)


class Worker:
    """A client of kazoo with an ephemeral node and, in turn with the others, a lock; it writes all the while."""

    def __init__(self, address, number):
        self.client = KazooClient(hosts=address, timeout=30, connection_retry={"max_tries": -1, "max_delay": 0.2},
                                  command_retry={"max_tries": -1, "max_delay": 0.2})
        self.states = []
        self.number = number
        self.path = f"/work/w{number}"
        self.acknowledged = 0
        self.unknown = 0
        self.problem = None
        self.client.add_listener(self.states.append)
        self.client.start(timeout=WAIT_S)
        self.session = self.client.client_id
        self.client.create(self.path, b"0", makepath=True)
        self.client.create(f"/work/alive{number}", b"", ephemeral=True)
        self.thread = threading.Thread(target=self.work)
        self.stop = threading.Event()

    def work(self):
        version = 0
        while not self.stop.is_set():
            try:
                stat = self.client.set(self.path, b"%d" % (version + 1), version=version)
                version = stat.version
                self.acknowledged = version
            except KazooException as error:
                if type(error).__name__ not in ("ConnectionLoss", "OperationTimeoutError", "BadVersionError"):
                    self.problem = repr(error)
                    return
                self.unknown += 1
                time.sleep(0.05)
                try:
                    version = self.client.get(self.path)[1].version
                except KazooException:
                    continue
                if version < self.acknowledged:
                    self.problem = f"version {version} after {self.acknowledged} was acknowledged"
                    return
            time.sleep(0.002)


def test_clients_of_kazoo_go_on():
    if KazooClient is None:
        raise cases.Skip("no kazoo (Debian: python3-kazoo)")
    # Killed while it writes a snapshot, Apache leaves a part of one, and an operator has to move that away.
    with ZooKeeper(settings={"snapCount": 100000}, properties=PROPERTIES) as first:
        workers = [Worker(first.host, number) for number in range(10)]
        holder = workers[0].client.Lock("/lock", "first")
        assert holder.acquire(timeout=WAIT_S)
        node = holder.node
        waiting = []
        waiter = workers[1].client.Lock("/lock", "second")
        taker = threading.Thread(target=lambda: waiting.append(waiter.acquire(timeout=WAIT_S * 2)))
        taker.start()
        seen = threading.Event()
        workers[2].client.exists("/watched", watch=lambda event: seen.set())
        for worker in workers:
            worker.thread.start()
        time.sleep(2)
        stopped = time.monotonic()
        first.kill()
        with Successor(first) as server:
            pause = time.monotonic() - stopped
            deadline = time.monotonic() + WAIT_S
            before = [worker.acknowledged for worker in workers]
            while any(worker.acknowledged <= old and worker.problem is None for worker, old in zip(workers, before)):
                assert time.monotonic() < deadline, "no further writes"
                time.sleep(0.1)
            time.sleep(1)
            for worker in workers:
                worker.stop.set()
                worker.thread.join()
            assert not [worker.problem for worker in workers if worker.problem], [worker.problem for worker in workers]
            for worker in workers:
                assert KazooState.LOST not in worker.states, worker.states
                assert worker.client.client_id[0] == worker.session[0], (worker.client.client_id, worker.session)
                assert worker.client.exists(f"/work/alive{worker.number}").ephemeralOwner == worker.session[0]
                data, stat = worker.client.get(worker.path)
                assert stat.version >= worker.acknowledged and int(data) == stat.version, (data, stat, worker.acknowledged)
            # The lock is held by the same node, its watcher still waits, and both go on.
            assert not waiting and holder.is_acquired and holder.node == node
            assert workers[3].client.exists("/lock/" + node), node
            workers[3].client.create("/watched", b"")
            assert seen.wait(WAIT_S), "the watch of a node that came later"
            holder.release()
            taker.join(WAIT_S)
            assert waiting == [True], waiting
            for worker in workers:
                worker.client.stop()
                worker.client.close()
        return f"{sum(worker.acknowledged for worker in workers)} writes, {pause * 1000:.0f} ms"


def main():
    missing = why_missing() or zookeeper.why_missing()
    if missing:
        return cases.skip_all(missing)
    try:
        return cases.run(cases.named("test_", globals()), sys.argv[1:])
    finally:
        Folder.remove()


if __name__ == "__main__":
    sys.exit(main())
