"""Data folders of Apache ZooKeeper, read by `conclave inspect` and given back by `conclave export`.

Promise: Debian's server writes folders with every kind of node, with permissions, quotas, failed and whole transactions,
sessions, snapshots taken under writes, plain and compressed, in an ensemble whose leader dies. Each folder goes to ours and
back, and a second server of Apache starts from the result: every field of every node is as in the first one, and clients go on
with their sessions. Damage of each kind is named, and nothing is written then.

usage: apache_folder_test.py [NAME...]
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from apache_nodes import (EXIT_IO, PROPERTIES, WAIT_S, Folder, change, data_of, differences, every_kind, files, flip,  # noqa: E402
                          inspect, link_to, must, run, settled, tree_of, version_2)
from conclave import program, why_missing  # noqa: E402
from ensemble import Ensemble, ZooKeeperMember  # noqa: E402
from zookeeper import ZooKeeper  # noqa: E402


def exported(folder, target):
    done = run("export", "--from", folder, target)
    assert done.returncode == 0, done
    return done.stdout


def second(source):
    """A server of Apache, not started, with what `conclave export` makes of that folder."""
    server = ZooKeeper(settings={"snapCount": 100000}, properties=PROPERTIES)
    exported(source, data_of(server))
    return server


def compare_with_second(source, want, without=()):
    with second(source) as server:
        have = tree_of(server)
        wrong = differences(*({path: node for path, node in tree.items() if path not in without} for tree in (have, want)))
        assert not wrong, wrong


def test_every_kind_comes_back():
    with ZooKeeper(settings={"snapCount": 100000}, properties=PROPERTIES) as first:
        link = every_kind(first)
        want = tree_of(first)
        first.kill()
        link.drop()
        found = inspect(data_of(first))
        assert found["digest_compared"] is True, found
        assert found["ephemerals"] == 6, found
        assert found["orphans"] == 0, found
        with second(data_of(first)) as server:
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
        return f"{len(want)} nodes"


def test_snapshots_under_writes():
    """Many snapshots, each taken while nodes come, change and go."""
    stop = threading.Event()
    problems = []

    def write(number, server):
        try:
            link = link_to(server)
            must(link, zk.create(f"/w{number}"))
            count = 0
            while not stop.is_set():
                path = f"/w{number}/n{count % 50}"
                link.call(zk.delete(path))
                must(link, zk.create(path, b"x" * (count % 500), acl=[(31, "world", "anyone"), (1, "ip", f"10.0.{number}.{count % 250}")]))
                link.call(zk.set_data(path, b"y"))
                if count % 20 == 0:
                    gone = link_to(server)
                    must(gone, zk.create(f"/w{number}/e-", b"", flags=zk.EPHEMERAL_SEQUENTIAL))
                    if count % 40 == 0:
                        gone.close_session()
                    else:
                        gone.drop()
                link.call(zk.multi([zk.create(f"{path}/m", b""), zk.delete(f"{path}/m")]))
                count += 1
            link.drop()
        except Exception as error:  # noqa: BLE001: told by the case
            problems.append(repr(error))

    with ZooKeeper(settings={"snapCount": 300, "autopurge.snapRetainCount": 50}, properties=PROPERTIES) as first:
        threads = [threading.Thread(target=write, args=(number, first)) for number in range(4)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + WAIT_S
        while len([n for n in os.listdir(version_2(data_of(first))) if n.startswith("snapshot.")]) < 8:
            assert time.monotonic() < deadline, "no snapshots"
            time.sleep(0.1)
        stop.set()
        for thread in threads:
            thread.join()
        assert not problems, problems
        settled(first)
        first.kill()
        kept = data_of(first) + "-kept"
        shutil.copytree(data_of(first), kept)
        # From each snapshot the logs lead to the same tree.
        folder = version_2(kept)
        snapshots = sorted((n for n in os.listdir(folder) if n.startswith("snapshot.")), key=lambda n: int(n[9:], 16))
        seen = []
        while snapshots:
            found = inspect(kept)
            assert found["digest_compared"] is True, found
            seen.append((found["zxid"], found["nodes"], found["bytes"], found["sessions"]))
            os.remove(os.path.join(folder, snapshots.pop()))
            if len(seen) == 6:
                break
        assert len(set(seen)) == 1, seen
        first.start()
        want = tree_of(first)
        first.kill()
        compare_with_second(data_of(first), want)
        return f"{len(seen)} snapshots, {len(want)} nodes"


def compressed(method):
    with ZooKeeper(settings={"snapCount": 60}, properties={**PROPERTIES, "zookeeper.snapshot.compression.method": method}) as first:
        link = every_kind(first)
        end = "." + {"gz": "gz", "snappy": "snappy"}[method]
        deadline = time.monotonic() + WAIT_S
        while not any(name.endswith(end) for name in os.listdir(version_2(data_of(first)))):
            must(link, zk.set_data("/plain", b"more" * 1000))
            assert time.monotonic() < deadline, os.listdir(version_2(data_of(first)))
        want = tree_of(first)
        settled(first)
        first.kill()
        link.drop()
        found = inspect(data_of(first))
        assert found["snapshot"].endswith(end) and found["digest_compared"], found
        compare_with_second(data_of(first), want)


def test_gzip():
    compressed("gz")


def test_snappy():
    if not os.path.exists(f"{zookeeper.FOLDER}/snappy-java.jar"):
        raise cases.Skip("no snappy-java (Debian: libsnappy-java)")
    compressed("snappy")


def test_an_ensemble_and_its_next_leader():
    with Ensemble(3, ZooKeeperMember, properties=PROPERTIES, settings={"snapCount": 100}) as ensemble:
        leader, _ = ensemble.roles()
        link = every_kind(leader)
        for number in range(150):
            must(link, zk.create(f"/n{number}", b"n"))
        leader.kill()
        ensemble.wait_leader()
        left = [member for member in ensemble.members if member.alive()]
        link = link_to(left[0], session_id=link.session_id, passwd=link.passwd)
        for number in range(150):
            must(link, zk.set_data(f"/n{number}", b"after"))
        want = tree_of(left[0])
        zxids = set()
        for member in left:
            settled(member)
            member.stop()
            found = inspect(data_of(member))
            assert found["digest_compared"] is True, found
            zxids.add(found["zxid"])
        assert int(max(zxids), 16) >> 32 >= 2, zxids
        compare_with_second(data_of(left[0]), want, without=["/zookeeper/config"])  # an ensemble's, and a lone server's


def java_tool(name, *words):
    """What a tool of ZooKeeper prints."""
    command = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", zookeeper.class_path(zookeeper.JAR, zookeeper.LOGGER),
               f"org.apache.zookeeper.server.{name}", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout


def formatted(snapshot):
    """{path: lines} and the lines of the sessions, as SnapshotFormatter shows them."""
    nodes, sessions, path = {}, [], None
    for line in java_tool("SnapshotFormatter", "-d", snapshot).splitlines():
        if line.startswith("Session Details"):
            path = None
        elif line.startswith("0x"):
            sessions.append(line)
        elif line.startswith("/"):
            path = line
            nodes[path] = []
        elif path is not None and line.strip():
            nodes[path].append(line.strip())
    return nodes, sorted(sessions)


def test_a_hundred_thousand_nodes_as_the_tools_show_them():
    """SnapshotFormatter shows each node and session of our file as of the one that ZooKeeper writes at the same zxid; TxnLogToolkit
    shows the transactions that inspect counts."""
    with ZooKeeper(settings={"snapCount": 100000000}, properties=PROPERTIES) as first:
        link = every_kind(first)
        for begin in range(0, 100000, 500):
            if begin % 10000 == 0:
                must(link, zk.create(f"/many{begin // 10000}"))
            must(link, zk.multi([zk.create(f"/many{begin // 10000}/n{number}", b"%d" % number) for number in range(begin, begin + 500)]))
        first.kill()
        found = inspect(data_of(first))
        logs = [file for file in found["files"] if file["kind"] == "log"]
        shown = "".join(java_tool("persistence.TxnLogToolkit", "--dump", file["file"]) for file in logs)
        zxids = [int(word, 16) for line in shown.splitlines() for word, before in zip(line.split(), ["", *line.split()]) if before == "zxid"]
        assert len(zxids) == sum(file["transactions"] for file in logs), (len(zxids), logs)
        assert (min(zxids), max(zxids)) == (int(logs[0]["first_zxid"], 16), int(logs[-1]["last_zxid"], 16)), logs
        first.start()  # it writes a snapshot of all that the log has
        settled(first)
        first.kill()
        link.drop()
        newest = files(data_of(first), "snapshot.")[-1]
        target = data_of(first) + "-out"
        exported(data_of(first), target)
        made = files(target, "snapshot.")[-1]
        assert os.path.basename(made) == os.path.basename(newest), (made, newest)
        have, have_sessions = formatted(made)
        want, want_sessions = formatted(newest)
        assert len(want) > 100000, len(want)
        wrong = [path for path in sorted(set(have) | set(want)) if have.get(path) != want.get(path)]
        # ZooKeeper counts the quota of a snapshot anew when it reads it, and writes it before.
        wrong = [path for path in wrong if not path.endswith("/zookeeper_stats")]
        assert not wrong, [(path, have.get(path), want.get(path)) for path in wrong[:5]]
        assert have_sessions == want_sessions and want_sessions, (have_sessions, want_sessions)
        return f"{len(want)} nodes, {len(want_sessions)} sessions, {len(zxids)} transactions"


def test_three_servers_start_from_one_export():
    folder = Folder.copy()
    target = folder + "-out"
    exported(folder, target)
    with second(folder) as alone:
        want = tree_of(alone)
    ensemble = Ensemble(3, ZooKeeperMember, properties=PROPERTIES, settings={"snapCount": 100})
    for member in ensemble.members:
        os.makedirs(data_of(member))
        shutil.copytree(version_2(target), version_2(data_of(member)))
    with ensemble:
        leader, others = ensemble.roles()
        for member in ensemble.members:
            have = tree_of(member)
            wrong = differences(*({path: node for path, node in tree.items() if path != "/zookeeper/config"} for tree in (have, want)))
            assert not wrong, wrong
        link = link_to(others[0])
        must(link, zk.create("/written", b"by three"))
        leader.kill()
        ensemble.wait_leader()
        link = link_to(others[0], session_id=link.session_id, passwd=link.passwd)
        assert link.call(zk.exists("/written"))[0] == 0
        link.close_session()
        leader.start()
        ensemble.wait_leader()
        return f"{len(want)} nodes"


def refused(folder, *texts):
    """The folder cannot be read, the error has these words, and an export leaves nothing behind."""
    before = {name: os.path.getsize(os.path.join(version_2(folder), name)) for name in os.listdir(version_2(folder))}
    done = run("inspect", folder)
    assert done.returncode == EXIT_IO and all(text in done.stderr for text in texts), (done, texts)
    target = folder + "-out"
    out = run("export", "--from", folder, target)
    assert out.returncode == EXIT_IO and not os.path.exists(target), out
    after = {name: os.path.getsize(os.path.join(version_2(folder), name)) for name in os.listdir(version_2(folder))}
    assert before == after


def test_a_flipped_bit_of_a_snapshot_is_named():
    folder = Folder.copy()
    newest = files(folder, "snapshot.")[-1]
    change(newest, flip(os.path.getsize(newest) // 2))
    refused(folder, newest, "damaged")


def test_a_flipped_bit_of_a_log_is_named():
    folder = Folder.copy()
    newest = files(folder, "log.")[-1]
    change(newest, flip(60))
    refused(folder, newest, "damaged at byte")


def test_a_flipped_length_is_no_unfinished_tail():
    folder = Folder.copy()
    newest = files(folder, "log.")[-1]
    change(newest, flip(16 + 8))
    refused(folder, newest, "others follow it")


def test_a_cut_snapshot_is_named():
    folder = Folder.copy()
    newest = files(folder, "snapshot.")[-1]
    change(newest, lambda data: data[:len(data) * 2 // 3])
    refused(folder, newest, "cut off", "An older snapshot is there")
    # As the message says: without it, the older one and all logs give the same.
    whole = inspect(Folder.copy())
    os.remove(newest)
    found = inspect(folder)
    assert (found["zxid"], found["nodes"]) == (whole["zxid"], whole["nodes"])


def test_a_missing_log_is_named():
    folder = Folder.copy()
    for snapshot in files(folder, "snapshot.")[1:]:
        os.remove(snapshot)
    logs = files(folder, "log.")
    assert len(logs) > 2, logs
    os.remove(logs[1])
    refused(folder, "transactions are missing between", logs[2])


def test_a_newer_format_is_named():
    folder = Folder.copy()
    newest = files(folder, "snapshot.")[-1]
    change(newest, lambda data: data[:4] + struct.pack(">i", 3) + data[8:])
    refused(folder, newest, "format 3", "newer ZooKeeper")


def test_an_unfinished_tail_is_told_and_left_out():
    folder = Folder.copy()
    whole = inspect(folder)
    newest = files(folder, "log.")[-1]
    with open(newest, "rb") as file:
        data = file.read()
    at, last = 16, 16
    while struct.unpack_from(">q", data, at)[0] != 0:
        last, at = at, at + 8 + 4 + struct.unpack_from(">i", data, at + 8)[0] + 1
    change(newest, lambda data: data[:last + 20] + bytes(len(data) - last - 20))
    found = inspect(folder)
    assert found["unfinished"] == newest and found["unfinished_at"] == last, found
    assert int(found["zxid"], 16) == int(whole["zxid"], 16) - 1
    shown = run("inspect", folder).stdout
    assert "unfinished" in shown and newest in shown, shown
    done = run("doctor", "--json", "--data", folder, "--key", "listen=127.0.0.1:0", "--key", "admin=off")
    told = {finding["name"]: finding["where"] for finding in json.loads(done.stdout)["findings"]}
    assert told.get("import-unfinished") == newest and "import-due" in told, done


def test_a_full_disk_is_named():
    folder = Folder.copy()
    done = subprocess.run(["bash", "-c", f"ulimit -f 8; trap '' XFSZ; {program()} export --from {folder} {folder}-out"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == EXIT_IO and "cannot be written" in done.stderr, done
    assert not [n for n in os.listdir(version_2(folder + "-out"))], os.listdir(version_2(folder + "-out"))


def test_what_is_no_folder_is_named():
    folder = Folder.copy()
    empty = folder + "-empty"
    os.mkdir(empty)
    for words, text in ((["inspect", empty], "no snapshot and no log"), (["inspect", folder + "-none"], "cannot be opened"),
                        (["export", "--from", folder, folder], "has a snapshot or a log of ZooKeeper already")):
        done = run(*words)
        assert done.returncode == EXIT_IO and text in done.stderr, done
    assert run("export").returncode == 64
    assert run("export", "--from", folder, "--server", "127.0.0.1:1", empty).returncode == 64


def test_the_tools_of_zookeeper_agree():
    """SnapshotFormatter counts the same nodes and sessions; TxnLogToolkit prints the same last transaction."""
    folder = Folder.copy()
    found = inspect(folder)
    java = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", zookeeper.class_path(zookeeper.JAR, zookeeper.LOGGER)]
    package = "org.apache.zookeeper.server"
    newest = files(folder, "log.")[-1]
    log = subprocess.run([*java, f"{package}.persistence.TxnLogToolkit", "--dump", newest], capture_output=True, text=True,
                         timeout=120, check=False).stdout
    zxids = [word for line in log.splitlines() for word, before in zip(line.split(), ["", *line.split()]) if before == "zxid"]
    assert zxids and int(zxids[-1], 16) == int(found["zxid"], 16), (zxids[-1:], found["zxid"])
    target = folder + "-out"
    exported(folder, target)
    made = files(target, "snapshot.")[-1]
    shown = subprocess.run([*java, f"{package}.SnapshotFormatter", made], capture_output=True, text=True, timeout=120,
                           check=False).stdout
    assert f"ZNode Details (count={found['nodes']})" in shown, (found["nodes"], shown[:500])
    assert shown.count("cZxid = ") in (found["nodes"] - 1, found["nodes"]), found


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
