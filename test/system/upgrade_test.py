"""A data folder of an earlier version (test/data/earlier.tar.xz) under the server of today, which runs alone.

Promise: nodes, their data, ACLs, versions and counts are as that version had them, also those that today's limits and checks
would refuse; the session goes on with its password, and its ephemeral ends with it; what was taken over takes writes, and is the
same after kill -9.
Limits: a server alone. An ensemble in which versions meet is tried by hand with both programs (docs/ensemble.md, upgrades).

usage: upgrade_test.py [CASE...]
"""

import os
import sys
import tarfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "test", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import Conclave, why_missing  # noqa: E402

ARCHIVE = os.path.join(ROOT, "test", "data", "earlier.tar.xz")
DEPTH = 300      # beyond maxPathDepth
ENTRIES = 300    # beyond maxAclEntries
LAST_ZXID = 17   # of the session's client
ANYONE = (31, "world", "anyone")
USER = (31, "digest", "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=")


def call(link, request):
    err, fields = link.call(request)
    assert err == 0, f"operation {request.op}: error {err}"
    return fields


def acl_of(link, path):
    return [tuple(entry) for entry in call(link, zk.get_acl(path))["acl"]]


def look(link, app_version):
    """The data that every folder has."""
    app = call(link, zk.get_data("/app"))
    assert (app["data"], app["stat"]["version"]) == (b"newer", app_version), app
    assert sorted(call(link, zk.get_children("/app"))["children"]) == ["eph", "n0000000000", "n0000000001", "n0000000002"]
    assert acl_of(link, "/closed") == [USER]
    assert acl_of(link, "/") == [(15, "world", "anyone"), USER]
    assert len(acl_of(link, "/wide")) == ENTRIES + 1
    # carried out then for who could not administer "/"
    assert acl_of(link, "/zookeeper/fence") == [ANYONE, (1, "ip", "10.1.1.1")]
    call(link, zk.get_data("/d" * DEPTH))
    counts = call(link, zk.get_data("/zookeeper/quota/app/zookeeper_stats"))["data"]
    assert counts.startswith(b"count=5,"), counts


class Taken:
    """A server that took over one of the folders."""

    def __init__(self, folder):
        self.server = Conclave(["--fencing.enabled", "yes", "--extendedTypesEnabled", "yes"])
        with tarfile.open(ARCHIVE) as archive:
            members = [m for m in archive.getmembers() if m.name.startswith(f"./{folder}/")]
            archive.extractall(self.server.folder, members=members)
            words = archive.extractfile(f"./{folder}.session").read().split()
        os.rename(os.path.join(self.server.folder, folder), os.path.join(self.server.folder, "data"))
        self.session_id, self.passwd = int(words[0], 16), bytes.fromhex(words[1].decode())
        self.server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.destroy()

    def attach(self):
        link = zk.Connection(self.server.address, 40000, self.session_id, self.passwd, last_zxid=LAST_ZXID)
        assert link.session_id == self.session_id, "the session was refused"
        call(link, zk.auth("digest", b"u:p"))
        return link


def take_over(folder, app_version):
    with Taken(folder) as taken:
        with taken.attach() as link:
            look(link, app_version)
            owner = call(link, zk.exists("/app/eph"))["stat"]["ephemeralOwner"]
            assert owner == taken.session_id, hex(owner)
        taken.server.kill()
        taken.server.start()
        with taken.attach() as link:
            look(link, app_version)
            call(link, zk.set_data("/d" * DEPTH, b"x"))
            call(link, zk.delete("/d" * DEPTH))
            call(link, zk.set_data("/wide", b"x"))
            assert call(link, zk.create("/app/n", flags=zk.PERSISTENT_SEQUENTIAL))["path"] == "/app/n0000000005"
            link.close_session()
        with zk.Connection(taken.server.address) as link:
            assert link.call(zk.exists("/app/eph"))[0] == zk.ERRORS["NONODE"]
            assert link.call(zk.get_data("/closed"))[0] == zk.ERRORS["NOAUTH"]
        assert taken.server.stop() == 0


def a_folder_with_a_log():
    take_over("log", 1)


def a_folder_with_a_snapshot():
    take_over("snapshot", 261)


def main():
    if why := why_missing():
        return cases.skip_all(why)
    return cases.run([a_folder_with_a_log, a_folder_with_a_snapshot], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
