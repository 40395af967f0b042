"""What tests do with data folders of Apache ZooKeeper: nodes of every kind, the whole tree as a client sees it, damage.

Promise: `tree_of` takes all of each node: data, every field of its stat, ACL. `must` fails with the request that failed.
Limits: servers are those of zookeeper.py and conclave.py, with the superuser of PROPERTIES.
"""

import base64
import hashlib
import json
import os
import shutil
import struct
import subprocess
import time
import zlib

import zkwire as zk
from conclave import program
from zookeeper import ZooKeeper

SUPER = b"super:secret"
PROPERTIES = {"zookeeper.extendedTypesEnabled": "true",
              "zookeeper.DigestAuthenticationProvider.superDigest":
                  "super:" + base64.b64encode(hashlib.sha1(SUPER).digest()).decode(),
              "znode.container.checkIntervalMs": "3600000",
              "zookeeper.preAllocSize": "1024"}  # KiB: folders are copied
TIMEOUT_MS = 40000
WAIT_S = 60
EXIT_IO = 74


def run(*words):
    return subprocess.run([program(), *words], capture_output=True, text=True, timeout=300, check=False)


def inspect(folder, *more):
    done = run("inspect", "--json", *more, folder)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def settled(server):
    """Waits until no snapshot is being written: a file that is killed half-way is damage, and no case here wants it. Two
    looks must find the same files, because the thread that writes one may only just begin."""
    deadline = time.monotonic() + WAIT_S
    before = None
    while True:
        now = {entry.name: entry.stat().st_size for entry in os.scandir(version_2(data_of(server)))}
        done = run("inspect", data_of(server))
        if done.returncode == 0 and now == before:
            return
        before = now
        assert time.monotonic() < deadline, done
        time.sleep(0.5)


def transactions_of(log):
    """How many whole ones a log begins with."""
    with open(log, "rb") as file:
        data = file.read()
    at, count = 16, 0
    while at + 12 <= len(data) and struct.unpack_from(">q", data, at)[0] != 0:
        at += 8 + 4 + struct.unpack_from(">i", data, at + 8)[0] + 1
        count += 1
    return count


def data_of(server):
    return os.path.join(server.folder, "data")


def version_2(folder):
    return os.path.join(folder, "version-2")


def link_to(server, **more):
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            link = zk.Connection(server.address, TIMEOUT_MS, patience_s=WAIT_S, **more)
            if link.session_id:
                return link
        except (zk.Closed, OSError):
            pass
        assert time.monotonic() < deadline, "no session"
        time.sleep(0.2)


def super_link(server):
    link = link_to(server)
    err, _ = link.call(zk.auth("digest", SUPER))
    assert err == 0, err
    return link


def must(link, request):
    err, fields = link.call(request)
    assert err == 0, (request, err)
    return fields


def tree_of(server):
    """{path: (data, stat, acl)} of every node."""
    found = {}
    link = super_link(server)
    try:
        waiting = ["/"]
        while waiting:
            path = waiting.pop()
            data = must(link, zk.get_data(path))
            acl = must(link, zk.get_acl(path))
            children = must(link, zk.get_children(path))
            found[path] = (data, acl)
            waiting += [(path if path != "/" else "") + "/" + name for name in names_of(children)]
        return found
    finally:
        link.close_session()


def names_of(fields):
    return fields["children"] if isinstance(fields, dict) else fields[0] if fields and isinstance(fields[0], list) else fields


def differences(have, want):
    """What differs, as text; the session that looked changes nothing but its own."""
    lines = [f"{path}: only in one" for path in sorted(set(have) ^ set(want))]
    lines += [f"{path}: {have[path]} is not {want[path]}" for path in sorted(set(have) & set(want)) if have[path] != want[path]]
    return "\n".join(lines[:20])


def every_kind(server):
    """Makes nodes of all kinds; returns the link whose session has ephemerals."""
    link = link_to(server)
    must(link, zk.auth("digest", b"user:word"))
    own = [(31, "auth", "")]
    must(link, zk.create("/plain", b"data"))
    must(link, zk.create("/empty", b""))
    must(link, zk.create("/null", None))
    must(link, zk.create("/bytes", bytes(range(256)) * 40))
    must(link, zk.create("/parent", b"p"))
    for _ in range(5):
        must(link, zk.create("/parent/s-", b"", flags=zk.PERSISTENT_SEQUENTIAL))
        must(link, zk.create("/parent/e-", b"e", flags=zk.EPHEMERAL_SEQUENTIAL))
    must(link, zk.delete("/parent/s-0000000002"))
    must(link, zk.create("/closed", b"secret", acl=own))
    must(link, zk.create("/closed/below", b"x", acl=[(1, "world", "anyone"), (31, "digest", "a:b")]))
    must(link, zk.create("/mine", b"", flags=zk.EPHEMERAL))
    must(link, zk.create("/box", b"", flags=zk.CONTAINER, op=zk.CREATE_CONTAINER))
    must(link, zk.create("/box/in", b"i"))
    must(link, zk.create_ttl("/short", b"t", ttl_ms=3600000))
    for version in range(4):
        must(link, zk.set_data("/plain", b"data %d" % version))
    must(link, zk.set_acl("/plain", [(31, "world", "anyone"), (1, "ip", "127.0.0.1")]))
    must(link, zk.set_acl("/plain", [(31, "world", "anyone")]))
    must(link, zk.multi([zk.create("/m1", b"1"), zk.create("/m2", b"2"), zk.set_data("/m1", b"3"), zk.delete("/m2"),
                         zk.check("/m1", 1)]))
    link.call(zk.multi([zk.create("/m3", b"1"), zk.delete("/none")]))  # fails as a whole
    assert link.call(zk.create("/plain", b""))[0] != 0                 # an error transaction
    must(link, zk.create("/limited", b"q"))
    quota_link = super_link(server)
    for path in ("/zookeeper/quota/limited",):
        must(quota_link, zk.create(path))
        must(quota_link, zk.create(path + "/zookeeper_limits", b"count=5,bytes=1000"))
        must(quota_link, zk.create(path + "/zookeeper_stats", b"count=0,bytes=0"))
    must(link, zk.create("/limited/a", b"12345"))
    gone = link_to(server)
    must(gone, zk.create("/gone-", b"", flags=zk.EPHEMERAL_SEQUENTIAL))
    gone.close_session()
    quota_link.close_session()
    return link


def files(folder, prefix):
    names = [n for n in os.listdir(version_2(folder)) if n.startswith(prefix)]
    return [os.path.join(version_2(folder), n) for n in sorted(names, key=lambda n: int(n.split(".")[1], 16))]


def contents(folder):
    """{name: hash} of Apache's files."""
    found = {}
    for name in os.listdir(version_2(folder)):
        with open(os.path.join(version_2(folder), name), "rb") as file:
            found[name] = hashlib.sha256(file.read()).hexdigest()
    return found


def change(path, how):
    with open(path, "rb") as file:
        data = bytearray(file.read())
    data = how(data)
    with open(path, "wb") as file:
        file.write(data)


def flip(offset):
    def how(data):
        data[offset if offset >= 0 else len(data) + offset] ^= 0x10
        return data
    return how


def of_unknown_type(data):
    """Gives the last whole transaction of a log a type that no ZooKeeper has, with the right checksum."""
    at, last = 16, 16
    while struct.unpack_from(">q", data, at)[0] != 0:
        last, at = at, at + 8 + 4 + struct.unpack_from(">i", data, at + 8)[0] + 1
    begin = last + 12
    struct.pack_into(">i", data, begin + 28, 99)
    struct.pack_into(">q", data, last, zlib.adler32(data[begin:begin + struct.unpack_from(">i", data, last + 8)[0]]))
    return data


def newest(prefix, how):
    """Changes the newest snapshot or log; returns its name. how: from its size to what `change` takes."""
    def spoil(folder):
        path = files(folder, prefix)[-1]
        change(path, how(os.path.getsize(path)))
        return path
    return spoil


def without_a_log(folder):
    """The last but one log is gone, and the snapshots behind it; returns the log that follows the gap."""
    logs = files(folder, "log.")
    for snapshot in files(folder, "snapshot.")[1:]:
        os.remove(snapshot)
    os.remove(logs[-2])
    return logs[-1]


def newer_format(size):
    return lambda data: data[:4] + struct.pack(">i", 3) + data[8:]


# What happens to a folder, and the text by which the server names it, besides what the spoiler returns.
SPOILERS = {
    "flipped bit of a snapshot": (newest("snapshot.", lambda size: flip(size // 2)), "damaged"),
    "cut snapshot": (newest("snapshot.", lambda size: lambda data: data[:size // 2]), "cut off"),
    "flipped bit of a log": (newest("log.", lambda size: flip(60)), "damaged at byte"),
    "missing log": (without_a_log, "transactions are missing between"),
    "newer format of a snapshot": (newest("snapshot.", newer_format), "has format 3"),
    "newer format of a log": (newest("log.", newer_format), "has format 3"),
    "unknown type of a transaction": (newest("log.", lambda size: of_unknown_type), "did a newer ZooKeeper write it"),
}


class Folder:
    """A folder with a snapshot, logs and a few nodes, made once; each case damages a copy."""

    made = None

    @classmethod
    def copy(cls):
        if cls.made is None:
            cls.made = ZooKeeper(settings={"snapCount": 60}, properties=PROPERTIES)
            with cls.made as server:
                link = every_kind(server)
                for number in range(200):
                    must(link, zk.create(f"/n{number}", b"content %d" % number))
                # ZooKeeper begins a new log behind a number of transactions that chance decides; the cases want some in the last.
                while len(files(data_of(server), "log.")) < 3 or transactions_of(files(data_of(server), "log.")[-1]) < 5:
                    must(link, zk.set_data("/n0", b"more"))
                settled(server)
                server.kill()
                link.drop()
                cls.kept = server.folder + "-made"
                shutil.copytree(data_of(server), cls.kept)
        target = f"{cls.kept}-{time.monotonic_ns()}"
        shutil.copytree(cls.kept, target)
        return target

    @classmethod
    def remove(cls):
        if cls.made is not None:
            for name in os.listdir(os.path.dirname(cls.kept)):
                if name.startswith(os.path.basename(cls.kept)):
                    shutil.rmtree(os.path.join(os.path.dirname(cls.kept), name), ignore_errors=True)
