"""Three servers of ours start with the zoo.cfg of three of Apache's, in the forms that a zoo.cfg can have.

Promise: members in a dynamicConfigFile that Apache itself wrote, with their client ports in the server lines; an observer, whose
folder decides nothing; links between the servers by the certificates that Apache's had, or a clear refusal.

usage: apache_ensemble_config_test.py [NAME...]
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import certs  # noqa: E402
import tls_java_test  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from apache_ensemble_import_test import CONFIG, Successor, Takeover, all_show, any_leader, until_log  # noqa: E402
from apache_nodes import WAIT_S, change, contents, every_kind, files, flip, link_to, must, super_link, tree_of  # noqa: E402
from conclave import why_missing  # noqa: E402
from ensemble import ZooKeeperMember, mode_of  # noqa: E402

REFUSED = 64


def config_of(member):
    with open(os.path.join(member.folder, "zoo.cfg"), encoding="ascii") as file:
        return file.read()


def dynamic_file(member):
    """The path that its zoo.cfg names."""
    name, = [line.partition("=")[2] for line in config_of(member).splitlines() if line.startswith("dynamicConfigFile=")]
    return name


class DynamicMember(ZooKeeperMember):
    """Its members and its client port are in a dynamicConfigFile, which Apache writes anew."""

    def command(self):
        config = os.path.join(self.folder, "zoo.cfg")
        kept = config_of(self) if os.path.exists(config) else None
        words = super().command()
        if kept is None:
            lines = [line for line in config_of(self).splitlines() if not line.startswith(("clientPort", "server."))]
            members = os.path.join(self.folder, "members")
            with open(members, "w", encoding="ascii") as file:
                file.writelines(line + "\n" for line in self.lines)
            kept = "\n".join([*lines, "reconfigEnabled=true", "standaloneEnabled=false", f"dynamicConfigFile={members}", ""])
        with open(config, "w", encoding="ascii") as file:
            file.write(kept)
        return words


def give_role(t, member, role):
    """A reconfig through the leader, again after a lost answer: a member that changes its role ends connections."""
    line = member.lines[member.number - 1].replace(";", f":{role};", 1)
    deadline = time.monotonic() + 2 * WAIT_S
    while True:
        try:
            operator = super_link(any_leader(t.apache))
            if line in str(must(operator, zk.get_data(CONFIG))):
                operator.close_session()
                return
            operator.call(zk.reconfig(joining=line))
            operator.drop()
        except (zk.Closed, OSError):
            pass
        assert time.monotonic() < deadline, line
        time.sleep(0.2)


def test_members_in_a_file_of_their_own():
    with Takeover(kind=DynamicMember) as t:
        link = every_kind(any_leader(t.apache))
        # A follower becomes an observer and a voter again, so Apache has written two more files.
        _, (follower, _) = t.apache.roles()
        for role in ("observer", "participant"):
            give_role(t, follower, role)
            t.apache.wait_leader(serving=3)
        want = tree_of(any_leader(t.apache))
        names = [dynamic_file(member) for member in t.apache.members]
        assert all(os.path.basename(name).startswith("zoo.cfg.dynamic.") for name in names), names
        assert not any(line.startswith(("server.", "clientPort=")) for line in config_of(t.apache.members[0]).splitlines())
        t.end_apache()
        link.drop()
        was = [contents(t.data(i)) for i in range(3)]
        t.start()
        all_show(t, want)
        again = link_to(t.ours[1], session_id=link.session_id, passwd=link.passwd)
        assert again.session_id == link.session_id
        shown = str(must(again, zk.get_data(CONFIG)))
        assert all(f"server.{member.number}=" in shown and f":{member.port}" in shown for member in t.apache.members), shown
        assert "observer" not in shown, shown
        again.close_session()
        assert [contents(t.data(i)) for i in range(3)] == was
        left = tree_of(t.ours[0])
        for server in t.ours:
            server.restart(hard=True)
        all_show(t, left)


class WithObserver(ZooKeeperMember):
    """Of four members, the last one observes."""

    def command(self):
        if len(self.lines) == 4 and ":observer" not in self.lines[3]:
            self.lines[:] = [line.partition(";")[0] for line in self.lines]
            self.lines[3] += ":observer"
        return super().command()


def test_an_observer_with_a_folder():
    """It proves nothing: with one voter it is no majority. Later it joins, and observes."""
    in_folder(an_observer_with_a_folder)


def an_observer_with_a_folder(folder):
    """zoo.cfg has a secret, too, which Apache ignores."""
    secret = os.path.join(folder, "secret")
    with open(secret, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write("a secret of more than sixteen characters\n")
    with Takeover(4, settings={"clusterSecretFile": secret}, kind=WithObserver) as t:
        link = every_kind(any_leader(t.apache))
        want = tree_of(t.apache.members[0])
        assert mode_of(t.apache.members[3]) == "observer" and files(t.data(3), "log.") + files(t.data(3), "snapshot.")
        t.end_apache()
        link.drop()
        was = [contents(t.data(i)) for i in range(4)]
        t.start([t.ours[0], t.ours[3]])
        for server in (t.ours[0], t.ours[3]):
            until_log(server, "import-waits", "folders=1 needed=2")
        assert not [server for server in t.ours if mode_of(server) in ("leader", "follower", "observer")]
        t.start(t.ours[1:3])
        all_show(t, want, serving=3)
        assert mode_of(t.ours[3]) == "observer"
        assert [contents(t.data(i)) for i in range(4)] == was


def test_a_damaged_folder_of_an_observer():
    with Takeover(4, kind=WithObserver) as t:
        link = every_kind(any_leader(t.apache))
        want = tree_of(t.apache.members[0])
        t.end_apache()
        link.drop()
        change(files(t.data(3), "log.")[-1], flip(60))
        t.start()
        all_show(t, want, serving=3)
        until_log(t.ours[3], "import-impossible", files(t.data(3), "log.")[-1])
        assert mode_of(t.ours[3]) == "observer"


class TlsMember(ZooKeeperMember):
    """Apache's TLS between servers needs Netty's classes, which Debian's jar does not name."""

    def command(self):
        words = super().command()
        at = words.index("-cp") + 1
        words[at] = ":".join([words[at], *tls_java_test.JARS])
        return words


def tls_settings(world, kind="PEM", password=None):
    settings = {"sslQuorum": "true", "ssl.quorum.keyStore.location": world["own"], "ssl.quorum.trustStore.location": world["trusted"],
                "ssl.quorum.keyStore.type": kind, "ssl.quorum.trustStore.type": kind}
    if password:
        settings |= {"ssl.quorum.keyStore.password": password, "ssl.quorum.trustStore.password": password}
    return settings


def tls_world(folder, java_store=None):
    """A key with certificate, and the CA's certificate: as PEM, or in key stores of Java."""
    why = tls_java_test.why_missing()
    if why:
        raise cases.Skip(why)
    made = certs.Certificates(folder)
    ca = made.make("ca", "/CN=ca")
    own = made.make("own", "/CN=own", ca)
    world = {"own": own.both, "trusted": ca.cert}
    if java_store is None:
        return world
    bundle = os.path.join(folder, "own.p12")
    subprocess.run(["openssl", "pkcs12", "-export", "-inkey", own.key, "-in", own.cert, "-certfile", ca.cert, "-name", "own",
                    "-out", bundle, "-passout", "pass:changeit"], check=True, capture_output=True)
    stores = {"own": os.path.join(folder, "own.store"), "trusted": os.path.join(folder, "trusted.store")}
    subprocess.run(["keytool", "-importkeystore", "-srckeystore", bundle, "-srcstoretype", "PKCS12", "-srcstorepass", "changeit",
                    "-destkeystore", stores["own"], "-deststoretype", java_store, "-deststorepass", "changeit"],
                   check=True, capture_output=True)
    subprocess.run(["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", ca.cert, "-keystore", stores["trusted"],
                    "-storetype", java_store, "-storepass", "changeit"], check=True, capture_output=True)
    return stores


def with_tls(settings):
    """An ensemble of Apache's whose servers know each other by certificates goes on as one of ours."""
    with Takeover(settings=settings, kind=TlsMember) as t:
        link = every_kind(any_leader(t.apache))
        want = tree_of(t.apache.members[0])
        t.end_apache()
        link.drop()
        t.start()
        all_show(t, want)


def in_folder(case):
    with tempfile.TemporaryDirectory(prefix="conclave-test-tls-") as folder:
        return case(folder)


def test_links_by_certificates_in_pem():
    in_folder(lambda folder: with_tls(tls_settings(tls_world(folder))))


def test_links_by_certificates_in_pkcs12():
    if not shutil.which("keytool"):
        raise cases.Skip("no keytool (Debian: default-jre-headless)")
    in_folder(lambda folder: with_tls(tls_settings(tls_world(folder, "PKCS12"), "PKCS12", "changeit")))


def test_java_key_stores_are_refused():
    """JKS is Java's own: before anything is imported, the server says what to convert, and how."""
    if not shutil.which("keytool"):
        raise cases.Skip("no keytool (Debian: default-jre-headless)")

    def case(folder):
        with Takeover(settings=tls_settings(tls_world(folder, "JKS"), "JKS", "changeit"), kind=TlsMember) as t:
            every_kind(any_leader(t.apache)).drop()
            t.end_apache()
            was = contents(t.data(0))
            done = subprocess.run(t.ours[0].command(), capture_output=True, text=True, timeout=WAIT_S, check=False)
            assert done.returncode == REFUSED and "JKS" in done.stderr and "PKCS12" in done.stderr, done
            assert contents(t.data(0)) == was and sorted(os.listdir(t.data(0))) == ["myid", "version-2"]
    in_folder(case)


def main():
    missing = why_missing() or zookeeper.why_missing()
    if missing:
        return cases.skip_all(missing)
    return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
