"""Data folders of our own servers: `conclave inspect` tells what is in them, `conclave export` makes folders for Apache of them.

Promise: servers that were killed leave a folder that is read without a byte of it changing. What inspect tells of nodes, sessions,
members and zxids is what the server had. Each zxid that the folder covers gives the same export as a backup of that moment, another
zxid names the range. A running server gives the same. Each damage is told with file and place, not only the first.

usage: inspect_test.py [NAME...]
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402
from ensemble import Ensemble  # noqa: E402

EXIT_FAILED, EXIT_USAGE, EXIT_IO = 1, 64, 74
SUPER = ["--DigestAuthenticationProvider.superDigest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="]  # of super:test
AUTH = ["--auth", "digest:super:test"]
OFTEN = ["--snapCount", "40"]


def run(*words):
    return subprocess.run([program(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)


def inspect(folder, code=0):
    done = run("inspect", "--json", folder)
    assert done.returncode == code, done
    return json.loads(done.stdout)


def export(*words):
    done = run("export", "--json", *words)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def exported_bytes(target):
    """The snapshot in it, which depends on the state alone, but for the order of sessions."""
    names = os.listdir(os.path.join(target, "version-2"))
    assert len(names) == 1, names
    return names[0], content(os.path.join(target, "version-2", names[0]))


def fingerprint(folder):
    """Names, sizes, times and contents of all files."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            stat = os.stat(path)
            found[os.path.relpath(path, folder)] = (stat.st_size, stat.st_mtime_ns, hashlib.sha256(content(path)).hexdigest())
    return found


def fill(server, count=150):
    """Nodes of all kinds; the zxids of some of the writes; the open link."""
    link = zk.Connection(server.address, 30000)
    zxids = []

    def call(request):
        err, _ = link.call(request)
        assert err == 0, (request, err)
        zxids.append(link.last_zxid)

    call(zk.create("/branch", b"b"))
    call(zk.create("/mine", b"", flags=zk.EPHEMERAL))
    call(zk.create("/box", b"", flags=zk.CONTAINER, op=zk.CREATE_CONTAINER))
    call(zk.create_ttl("/short", b"t", ttl_ms=3600000))
    for number in range(count):
        call(zk.create(f"/branch/n{number}", b"x" * 50))
        if number % 3 == 0:
            call(zk.set_data(f"/branch/n{number}", b"y" * 60))
        if number % 7 == 0:
            call(zk.delete(f"/branch/n{number}"))
    return link, zxids


def data_of(server):
    return os.path.join(server.folder, "data")


def extended(more=(), **others):
    return Conclave([*SUPER, "--extendedTypesEnabled", "true", *more], **others)


def test_what_is_told():
    with extended(OFTEN) as server:
        link, zxids = fill(server)
        folder = data_of(server)
        told = run("inspect", "--json", folder)
        assert f"process {server.process.pid} uses" in told.stderr, told
        server.kill()
        before = fingerprint(folder)
        found = inspect(folder)
        assert (found["kind"], found["readable"], found["used_by"], found["damage"]) == ("conclave", True, 0, []), found
        assert int(found["zxid"], 16) == zxids[-1], (found["zxid"], hex(zxids[-1]))
        assert (found["ephemerals"], found["containers"], found["ttl_nodes"]) == (1, 1, 1), found
        assert found["sessions"] == found["sessions_of_conclave"] == 1 and found["timeout_max_ms"] == 30000, found
        assert found["branches"][0]["path"] == "/branch" and found["branches"][0]["nodes"] > 100, found["branches"]
        assert found["server"] == 1 and found["term"] >= 1, found
        kinds = [file["kind"] for file in found["files"]]
        assert kinds.count("snapshot") >= 2 and "log" in kinds, found["files"]
        ends = [file["last_index"] for file in found["files"] if file["kind"] == "log"]
        assert max(ends) == found["last_index"] and found["first_index"] <= found["snapshot_index"] + 1, found
        text = run("inspect", folder)
        assert text.returncode == 0 and "/branch" in text.stdout and found["zxid"] in text.stdout, text
        assert fingerprint(folder) == before
        link.drop()
        # The server goes on with it.
        server.start()
        again = zk.Connection(server.address, 30000)
        assert again.call(zk.exists("/branch/n1"))[0] == 0
        again.close_session()
        return f"{found['nodes']} nodes, {len(found['files'])} files"


def test_every_zxid_as_from_a_backup():
    """The state at a zxid is the same from the folder, from a backup, and from the running server."""
    place = tempfile.mkdtemp(prefix="conclave-export-")
    try:
        with extended(admin=True) as server:
            link, zxids = fill(server, 60)
            admin = f"127.0.0.1:{server.admin_port}"
            made = run("backup", os.path.join(place, "full"), "--admin", admin, *AUTH)
            assert made.returncode == 0, made
            live = os.path.join(place, "live")
            told = export("--admin", admin, *AUTH, live)
            assert int(told["zxid"], 16) == zxids[-1] and told["nodes_compared"] == told["nodes"], told
            assert told["sessions_without_client"] == 1, told
            assert os.listdir(live) == ["version-2"], os.listdir(live)  # the backup is gone
            refused = run("export", "--from", data_of(server), os.path.join(place, "no"))
            assert refused.returncode == EXIT_IO and f"process {server.process.pid} uses" in refused.stderr, refused
            server.kill()
            link.drop()
            whole = export("--from", data_of(server), os.path.join(place, "whole"))
            assert whole["zxid"] == told["zxid"], (whole, told)
            assert exported_bytes(os.path.join(place, "whole")) == exported_bytes(live)
            for zxid in [zxids[0], zxids[5], zxids[len(zxids) // 2], zxids[-2]]:
                folder, backup = (os.path.join(place, f"{kind}-{zxid:x}") for kind in ("folder", "backup"))
                one = export("--from", data_of(server), "--zxid", hex(zxid), folder)
                two = export("--zxid", hex(zxid), os.path.join(place, "full"), backup)
                assert one["zxid"] == two["zxid"] == hex(zxid) and one["nodes"] == two["nodes"], (one, two)
                assert exported_bytes(folder) == exported_bytes(backup)
                found = inspect(folder)
                assert (found["kind"], found["zxid"]) == ("zookeeper", hex(zxid)), found
            late = run("export", "--from", data_of(server), "--zxid", hex(zxids[-1] + 5), os.path.join(place, "late"))
            assert late.returncode == EXIT_FAILED and re.search(f"from zxid 0x0 to {hex(zxids[-1])}", late.stderr), late
            assert not os.path.exists(os.path.join(place, "late"))
            return f"{len(zxids)} changes"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def test_a_zxid_before_the_log_names_the_range():
    with extended([*OFTEN, "--autopurge.snapRetainCount", "3", "--preAllocSize", "64"]) as server:
        link, zxids = fill(server, 600)
        deadline = time.monotonic() + 60
        while inspect_running(server)["first_zxid"] == "0x0" and time.monotonic() < deadline:
            assert link.call(zk.set_data("/branch", b"more"))[0] == 0
        server.kill()
        link.drop()
        found = inspect(data_of(server))
        first, last = int(found["first_zxid"], 16), int(found["zxid"], 16)
        if first == 0:
            raise cases.Skip("the server kept its whole log")
        target = data_of(server) + "-out"
        early = run("export", "--from", data_of(server), "--zxid", hex(first - 1), target)
        assert early.returncode == EXIT_FAILED and f"{hex(first)} to {hex(last)}" in early.stderr, early
        done = export("--from", data_of(server), "--zxid", hex(first), target)
        assert done["zxid"] == hex(first), done
        return f"zxids {zxids[0]:#x} to {last:#x}, from {first:#x} on"


def inspect_running(server):
    """A running server may remove a file meanwhile."""
    done = run("inspect", "--json", data_of(server))
    found = json.loads(done.stdout)
    return found if found["readable"] else {"first_zxid": "0x0"}


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


def test_each_damage_is_told():
    with extended(OFTEN) as server:
        link, _ = fill(server)
        server.kill()
        link.drop()
        folder = data_of(server)
        found = inspect(folder)
        snapshots = [file["file"] for file in found["files"] if file["kind"] == "snapshot"]
        segment = next(file["file"] for file in found["files"] if file["kind"] == "log" and file["last_index"] == found["last_index"])
        frames = frames_of(segment)
        assert len(frames) > 12 and len(snapshots) >= 2, (len(frames), snapshots)
        for number in (3, 7):
            flip(segment, frames[number] + 41)
        flip(snapshots[0], os.path.getsize(snapshots[0]) // 2)
        before = fingerprint(folder)
        damaged = inspect(folder, EXIT_IO)
        places = {(damage["kind"], damage["file"], damage["offset"]) for damage in damaged["damage"]}
        assert places >= {("log", segment, frames[3]), ("log", segment, frames[7]), ("snapshot", snapshots[0], 0)}, damaged["damage"]
        assert len(places) == 3, places
        told = run("inspect", folder)
        assert told.returncode == EXIT_IO and told.stderr.count(segment) >= 2, told
        # The newest snapshot may be behind the damage; then the state is there nonetheless.
        out = run("export", "--from", folder, folder + "-out")
        assert (out.returncode == 0) == damaged["readable"] and segment in out.stderr, out
        assert fingerprint(folder) == before
        os.remove(os.path.join(folder, "metadata"))
        lost = run("inspect", "--json", folder)
        assert lost.returncode == EXIT_IO and "metadata" in lost.stderr, lost
        return f"{len(places)} places"


def frames_of(segment):
    """Offsets of the frames in a segment of the log (folder_format.h)."""
    data = content(segment)
    at, found = 512, []
    while at + 40 <= len(data) and data[at + 8:at + 12] == b"CFRM":
        found.append(at)
        at += 40 + int.from_bytes(data[at + 12:at + 16], "little")
    return found


def test_a_torn_tail_is_no_damage():
    with extended() as server:
        link, zxids = fill(server, 30)
        server.kill()
        link.drop()
        folder = data_of(server)
        found = inspect(folder)
        segment = [file["file"] for file in found["files"] if file["kind"] == "log"][-1]
        last = frames_of(segment)[-1]
        with open(segment, "r+b") as file:
            file.seek(last + 48)
            file.write(bytes(64))
        torn = inspect(folder)
        assert [(damage["kind"], damage["offset"]) for damage in torn["damage"]] == [("unfinished", last)], torn["damage"]
        assert int(torn["zxid"], 16) < int(found["zxid"], 16) == zxids[-1], torn


def test_members_of_an_ensemble():
    with Ensemble(3) as ensemble:
        leader = ensemble.wait_leader()
        link = zk.Connection(leader.address, 30000)
        assert link.call(zk.create("/here", b"x"))[0] == 0
        link.close_session()
        seen = []
        for member in ensemble.members:
            member.kill()
        for member in ensemble.members:
            found = inspect(data_of(member))
            assert found["server"] == member.number and len(found["members"]) == 3, found
            seen.append((found["ensemble"], found["term"], int(found["zxid"], 16)))
        assert len({ensemble_id for ensemble_id, _, _ in seen}) == 1, seen
        best = max(range(3), key=lambda at: seen[at][2])
        target = ensemble.members[best].folder + "/out"
        done = export("--from", data_of(ensemble.members[best]), target)
        assert done["nodes"] >= 5 and int(done["zxid"], 16) == seen[best][2], done
        return f"terms {[term for _, term, _ in seen]}"


def main():
    missing = why_missing()
    if missing:
        return cases.skip_all(missing)
    return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
