"""`conclave migrate` from servers of Apache ZooKeeper that use TLS or SASL among themselves.

Promise: follow, verify and the cut by a last read work with TLS (sslQuorum, also with portUnification), with SASL (DIGEST-MD5)
and with both, under writes and after the leaders of both sides were killed. Where the two sides do not fit (a wrong CA, a wrong password,
one side without TLS or SASL, a file that others can read), the reason says what to do. No log has the password.

usage: mirror_access_test.py [NAME...]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import certs  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from apache_nodes import WAIT_S, every_kind, link_to, must  # noqa: E402
from conclave import program, why_missing  # noqa: E402
from mirror_test import Migration  # noqa: E402

PASSWORD = "sehr geheim: \"\\ 7"
WRONG = "falsch geraten"
LOGIN = "org.apache.zookeeper.server.auth.DigestLoginModule required"
SASL = {"quorum.auth.enableSasl": "true", "quorum.auth.learnerRequireSasl": "true", "quorum.auth.serverRequireSasl": "true",
        "quorum.cnxn.threads.size": 20}


class World:
    """Files of one run: a CA with a certificate of all servers, another CA, JAAS, passwords."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="conclave-access-")
        made = certs.Certificates(os.path.join(self.folder, "certs"))
        self.ca = made.make("ca", "/CN=a test CA")
        self.own = made.make("own", "/CN=server", self.ca)
        self.elsewhere = made.make("elsewhere", "/CN=server", self.ca, san="DNS:elsewhere")
        self.other_ca = made.make("other-ca", "/CN=another CA")
        self.other = made.make("other", "/CN=server", self.other_ca)
        quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        self.jaas = self.private("jaas.conf", f'QuorumServer {{\n  {LOGIN}\n  user_learner="{quoted}";\n}};\n'
                                              f'QuorumLearner {{\n  {LOGIN}\n  username="learner"\n  password="{quoted}";\n}};\n')
        self.password = self.private("password", f"learner:{PASSWORD}\n")
        self.wrong = self.private("wrong", f"learner:{WRONG}\n")

    def private(self, name, text, mode=0o600):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def theirs_tls(self, more=None):
        settings = {"sslQuorum": "true", **(more or {})}
        for store, path in (("keyStore", self.own.both), ("trustStore", self.ca.cert)):
            settings[f"ssl.quorum.{store}.location"] = path
            settings[f"ssl.quorum.{store}.type"] = "PEM"
        return settings

    def tls(self, own=None, ca=None):
        own = own or self.own
        return {"mirror.ssl": "yes", "ssl.quorum.certFile": own.cert, "ssl.quorum.keyFile": own.key,
                "ssl.quorum.caFile": (ca or self.ca).cert}

    def sasl(self, path=None):
        return {"mirror.sasl.file": path or self.password}


class Secured(Migration):
    """As Migration; `theirs` are lines of zoo.cfg of ZooKeeper, `keys` those of ours."""

    def __init__(self, world, theirs=None, keys=None):
        properties = {"java.security.auth.login.config": world.jaas} if theirs and "quorum.auth.enableSasl" in theirs else {}
        super().__init__(theirs, properties)
        self.options = self.ours.members[0].options
        self.give(world, keys or {})

    def give(self, world, keys):
        for member in self.ours.members:
            member.options = [*self.options, *(word for key, value in keys.items() for word in (f"--{key}", value))]
        self.config = world.private("verify.cfg", "".join(f"{key}={value}\n" for key, value in keys.items()))

    def __exit__(self, *_):
        try:
            for member in self.ours.members:
                log = member.log_tail(1 << 22)
                assert PASSWORD not in log and WRONG not in log, "a log has the password"
        finally:
            super().__exit__()

    def verify_words(self):
        return ["--config", self.config]

    def set_keys(self, keys):
        """The servers of ours start again, with these keys of the mirror."""
        self.give(WORLD, keys)
        for member in self.ours.members:
            member.stop()
            member.start()
        self.ours.wait_leader()

    def wait_reason(self, *words):
        """Until the status names a reason with these words."""
        deadline = time.monotonic() + WAIT_S
        while True:
            trouble = self.status().get("trouble", "")
            if all(word in trouble for word in words):
                return trouble
            assert time.monotonic() < deadline, (trouble, words, *(member.log_tail(1500) for member in self.ours.members),
                                                 *(member.log_tail(3000) for member in self.apache.members))
            time.sleep(0.1)


def follows(m):
    """Nodes of every kind arrive, also after both leaders were killed; then the cut by a last read."""
    link = every_kind(m.apache.wait_leader())
    m.follow()
    assert m.wait_equal()["nodes"] > 25
    must(link, zk.create("/live", b"1"))
    m.wait_equal()
    leader = m.apache.wait_leader()
    leader.kill()
    m.apache.wait_leader()
    m.wait_equal()
    leader.start()
    m.apache.wait_leader()
    leader = m.ours.wait_leader()
    leader.kill()
    m.ours.wait_leader()
    m.wait_equal()
    leader.start()
    m.ours.wait_leader()
    m.wait_equal()
    link.drop()
    done = m.command("cut", "--yes", "--fence-cmd", "true", "--stop-cmd", m.kill_apache())
    assert "taken over" in done.stdout, done
    reader = link_to(m.ours.members[0])
    must(reader, zk.get_data("/live"))
    reader.close_session()


def test_follows_by_tls():
    with Secured(WORLD, WORLD.theirs_tls(), WORLD.tls()) as m:
        follows(m)


def test_follows_by_sasl():
    with Secured(WORLD, SASL, WORLD.sasl()) as m:
        follows(m)


def test_follows_by_both():
    with Secured(WORLD, {**WORLD.theirs_tls({"portUnification": "true"}), **SASL}, {**WORLD.tls(), **WORLD.sasl()}) as m:
        follows(m)


def test_what_does_not_fit_with_tls():
    with Secured(WORLD, WORLD.theirs_tls()) as m:
        reasons = []
        m.follow("--no-wait")
        reasons.append(m.wait_reason("mirror.ssl"))
        m.set_keys(WORLD.tls(WORLD.own, WORLD.other_ca))
        reasons.append(m.wait_reason("TLS: ", "the ssl.quorum keys must name a CA of its certificate"))
        m.set_keys(WORLD.tls(WORLD.other))
        reasons.append(m.wait_reason("TLS: refused by the server", "trustStore must hold the CA"))
        if zookeeper.VERSION < (3, 9):  # newer ones do not compare the name with the learner's address
            m.set_keys(WORLD.tls(WORLD.elsewhere))
            reasons.append(m.wait_reason("TLS: refused by the server", "which must name this host"))
        m.set_keys({**WORLD.tls(), **WORLD.sasl()})
        reasons.append(m.wait_reason("remove mirror.sasl.file"))
        m.set_keys(WORLD.tls())
        m.wait_equal()
        return "\n        ".join(["", *reasons])


def test_what_does_not_fit_with_sasl():
    with Secured(WORLD, SASL) as m:
        reasons = []
        m.follow("--no-wait")
        reasons.append(m.wait_reason("then set mirror.sasl.file"))
        m.set_keys(WORLD.sasl(WORLD.wrong))
        reasons.append(m.wait_reason("the server refuses the login", "mirror.sasl.file"))
        m.set_keys(WORLD.tls())
        reasons.append(m.wait_reason("remove mirror.ssl"))
        m.set_keys(WORLD.sasl())
        m.wait_equal()
        return "\n        ".join(["", *reasons])


def test_files_that_do_not_serve():
    """A server names the fault at its start, and does not start."""
    def refused(keys, *words):
        done = subprocess.run([program(), "server", "--data", os.path.join(WORLD.folder, "data"), "--listen", "127.0.0.1:0",
                               "--admin", "off", *(word for key, value in keys.items() for word in (f"--{key}", value))],
                              capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 64 and all(word in done.stderr for word in words), done
        assert PASSWORD not in done.stderr, done
    refused({"mirror.ssl": "yes"}, "mirror.ssl needs a certificate and a CA")
    refused({**WORLD.tls(), "ssl.quorum.caFile": "/none.pem"}, "mirror.ssl", "/none.pem")
    refused(WORLD.sasl("/none"), "/none")
    refused(WORLD.sasl(WORLD.private("open", f"learner:{PASSWORD}\n", 0o644)), "chmod 600")
    refused(WORLD.sasl(WORLD.private("two", f"a:{PASSWORD}\nb:{PASSWORD}\n")), "must have one line user:password, it has 2")
    refused(WORLD.sasl(WORLD.private("none", "# nobody\n")), "contains no user")


def main():
    global WORLD
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    missing = why_missing() or zookeeper.why_missing() or certs.why_missing()
    if not missing and not os.path.exists(zookeeper.CODEC):
        missing = f"no {zookeeper.CODEC} (Debian: libnetty-java)"
    if missing:
        return cases.skip_all(missing)
    WORLD = World()
    try:
        return cases.run(cases.named("test_", globals()), options.names)
    finally:
        shutil.rmtree(WORLD.folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
