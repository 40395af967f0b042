"""The secret of an ensemble: replaced on three servers under load without a stop; a wrong one, as both sides tell it.

Promise: a session with an ephemeral node, and a writer that counts its writes, live through the whole rotation, and no
write fails; the new secret is needed in the end, for servers that are started anew.

usage: secret_test.py [NAME...]
"""

import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import why_missing  # noqa: E402
from ensemble import Ensemble, mode_of  # noqa: E402

WAIT_S = 90
OLD, NEW = "the secret of the ensemble, the old one", "another secret altogether, 0815 and so on"


def wait_for(good, what):
    deadline = time.monotonic() + WAIT_S
    while not good():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Rotating:
    """Three servers, each with a file of its own."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        self.ensemble = Ensemble(3, options=["--electionTimeout", "2000"])  # a busy machine must not elect
        for member in self.ensemble.members:
            member.options = [*member.options, "--clusterSecretFile", self.path(member)]
            self.write(member, OLD)

    def path(self, member):
        return os.path.join(self.folder, f"secret-{member.number}")

    def write(self, member, *lines):
        with open(self.path(member) + ".new", "w", encoding="ascii") as file:
            file.write("".join(line + "\n" for line in lines))
        os.chmod(self.path(member) + ".new", 0o600)
        os.rename(self.path(member) + ".new", self.path(member))

    def reload(self, member, *lines):
        before = log_of(member).count("cluster-secret-reloaded")
        self.write(member, *lines)
        member.process.send_signal(signal.SIGHUP)
        wait_for(lambda: log_of(member).count("cluster-secret-reloaded") > before, "no reload")

    def __enter__(self):
        self.ensemble.start()
        return self

    def __exit__(self, *_):
        self.ensemble.stop()
        shutil.rmtree(self.folder)


def log_of(member):
    return member.log_tail(1 << 20)


class Writer(threading.Thread):
    """One session, on one server, that writes as long as it may; `error`: why it ended."""

    def __init__(self, address):
        super().__init__()
        self.address, self.count, self.error, self.stop = address, 0, None, False

    def run(self):
        try:
            with zk.Connection(self.address, 20000) as link:
                assert link.call(zk.create("/writer", flags=zk.EPHEMERAL))[0] == 0
                while not self.stop:
                    code = link.call(zk.create(f"/w{self.count}"))[0]
                    assert code == 0, f"write {self.count} was answered {code}"
                    self.count += 1
        except Exception as error:  # noqa: BLE001: told by the main thread
            self.error = error


def test_rotation_under_load():
    with Rotating() as r:
        ensemble = r.ensemble
        writer = Writer(ensemble.roles()[0].address)
        writer.start()
        try:
            for lines in ((OLD, NEW), (NEW, OLD), (NEW,)):
                for member in ensemble.members:
                    r.reload(member, *lines)
                before = writer.count
                wait_for(lambda: writer.count > before + 20 or writer.error, "the writer stands")
                assert writer.error is None, writer.error
                follower = ensemble.roles()[1][0]  # links made anew use the new files
                follower.stop()
                follower.start()
                ensemble.wait_leader(WAIT_S, serving=3)
                assert writer.error is None, writer.error
            with zk.Connection(ensemble.roles()[1][0].address, 10000) as link:
                last = writer.count - 1  # answered before the sync
                assert link.call(zk.sync("/"))[0] == 0 and link.call(zk.exists("/writer"))[0] == 0
                assert link.call(zk.exists(f"/w{last}"))[0] == 0
        finally:
            writer.stop = True
            writer.join(WAIT_S)
        assert writer.error is None and writer.count > 60, (writer.error, writer.count)
        follower = ensemble.roles()[1][0]
        follower.stop()
        r.write(follower, OLD)
        follower.start()
        wait_for(lambda: "another secret" in log_of(follower), "the old one is refused")
        assert mode_of(follower) == ""


def test_a_wrong_secret_is_told_on_both_sides():
    with Rotating() as r:
        ensemble = r.ensemble
        leader, (wrong, third) = ensemble.roles()
        wrong.stop()
        r.write(wrong, NEW)
        wrong.start()
        line = re.compile(r"peer-refused .*another secret.*advice=.*clusterSecretFile")
        for member in (wrong, leader, third):
            wait_for(lambda m=member: line.search(log_of(m)), f"server {member.number} does not tell it")
        r.write(wrong, "short")
        wrong.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "reload-refused" in log_of(wrong), "a bad file is not taken")
        assert "shorter than 16" in log_of(wrong) and "shorter than 16" not in log_of(leader)
        r.reload(wrong, OLD)
        ensemble.wait_leader(WAIT_S, serving=3)


if __name__ == "__main__":
    missing = why_missing()
    sys.exit(cases.skip_all(missing) if missing else cases.run(cases.named("test_", globals()), sys.argv[1:]))
