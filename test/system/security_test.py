#!/usr/bin/env python3
"""The means that close a server: users of digest with slow hashes, limits on failures, the profile `secure`, the warning of an open
client port, what the process gives up, secrets.

Promise: each case has a server of its own, on loopback. A bystander's pings measure stalls.
Limits: TLS's own cases are in tls_test.py.

usage: security_test.py [CASE]...
"""

import base64
import hashlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402
from ensemble import Ensemble  # noqa: E402
from server import free_port  # noqa: E402

NO_AUTH, INVALID_ACL, AUTH_FAILED, BAD_ARGUMENTS, REQUIRE_AUTH = -102, -114, -115, -8, -124
WAIT_S = 20
HASH_S = 100  # for a slow hash by a thread of low priority, on a machine that is busy


def run(*words, text=None):
    done = subprocess.run([program(), *words], capture_output=True, input=text, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def users_file(folder, **users):
    path = os.path.join(folder, "users")
    for name, password in users.items():
        code, out, err = run("users", "add", path, name, text=password + "\n")
        assert (code, out) == (0, ""), (code, out, err)
    return path


def connect(server, source="127.0.0.1"):
    """From an address of loopback's own."""
    usual = socket.create_connection
    def create(address, timeout=None):
        return usual(address, timeout=timeout, source_address=(source, 0))
    zk.socket.create_connection = create
    try:
        return zk.Connection(("127.0.0.1", server.port), patience_s=HASH_S)
    finally:
        zk.socket.create_connection = usual


def authenticate(server, credentials, source="127.0.0.1"):
    """The error, or None when the server ended the connection."""
    with connect(server, source) as client:
        try:
            return client.call(zk.auth("digest", credentials))[0]
        except zk.Closed:
            return None


def log_has(server, text):
    deadline = time.monotonic() + WAIT_S
    while text not in server.log_tail(1 << 20):
        assert time.monotonic() < deadline, f"the log does not say '{text}':\n{server.log_tail()}"
        time.sleep(0.02)


def test_users_of_digest():
    with tempfile.TemporaryDirectory() as folder:
        path = users_file(folder, anna="sesame", otto="very secret")
        with open(path, encoding="ascii") as file:
            text = file.read()
        assert "sesame" not in text and text.count("$scrypt$") == 2 and os.stat(path).st_mode & 0o77 == 0, text
        assert run("users", "list", path)[1] == "anna\notto\n"
        with Conclave(["--digest.users.file", path, "--enforce.auth.enabled", "true", "--enforce.auth.schemes",
                       "digest"]) as server:
            with connect(server) as client:
                assert client.call(zk.auth("digest", b"anna:sesame"))[0] == 0
                assert client.call(zk.auth("digest", b"anna:sesame"))[0] == 0
                assert client.call(zk.create("/a"))[0] == 0
            for wrong in (b"anna:wrong", b"made-up:password", b"anna"):
                assert authenticate(server, wrong) == AUTH_FAILED, wrong
            assert authenticate(server, b"otto:very secret") == 0
            with connect(server) as client:
                assert client.call(zk.exists("/a"))[0] == REQUIRE_AUTH
            # requests behind the password wait for it, and are answered as that user
            with connect(server) as client:
                users_file(folder, anna="other")
                server.process.send_signal(signal.SIGHUP)
                log_has(server, "users-loaded")
                client.send(zk.auth("digest", b"anna:other"))
                client.send(zk.exists("/a"))
                assert [client.read_reply().err for _ in range(2)] == [0, 0]
            assert authenticate(server, b"anna:sesame") == AUTH_FAILED
            log_has(server, "wrong user or password")
            assert "sesame" not in server.log_tail(1 << 20)
        os.chmod(path, 0o644)
        code, _out, err = run("server", "--data", folder + "/d", "--listen", "127.0.0.1:0", "--admin", "off",
                              "--digest.users.file", path)
        assert code == 64 and "chmod 600" in err, (code, err)


def test_failures_are_limited_and_stall_nobody():
    with tempfile.TemporaryDirectory() as folder:
        # as cheap a hash as is taken, so that guesses come faster than they may
        salt, path = b"0123456789abcdef", os.path.join(folder, "users")
        key = hashlib.scrypt(b"sesame", salt=salt, n=1 << 10, r=8, p=1, dklen=32)
        parts = [base64.b64encode(part).decode().rstrip("=") for part in (salt, key)]
        with open(path, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(f"anna:$scrypt$ln=10,r=8,p=1${parts[0]}${parts[1]}\n")
        with Conclave(["--digest.users.file", path]) as server, connect(server) as bystander:
            assert authenticate(server, b"anna:sesame", "127.0.0.3") == 0
            waits, answers = [], []
            for number in range(30):
                answers.append(authenticate(server, b"anna:%d" % number, "127.0.0.2"))
                start = time.monotonic()
                assert bystander.call(zk.ping())[0] == 0
                waits.append(time.monotonic() - start)
            assert answers[:5] == [AUTH_FAILED] * 5 and answers.count(None) >= 5, answers
            assert max(waits) < 2, waits
            # a user who authenticated before is let in, also from that address
            assert authenticate(server, b"anna:sesame", "127.0.0.2") in (0, None)
            assert authenticate(server, b"anna:sesame", "127.0.0.3") == 0
            told = server.log_tail(1 << 20).count("wrong user or password")
            assert told <= 2, told


def test_superuser():
    """A wrong password is an ordinary id, as in Apache ZooKeeper; guessing it is limited and in the log."""
    super_digest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="  # super:test
    with Conclave(["--DigestAuthenticationProvider.superDigest", super_digest]) as server:
        assert authenticate(server, b"super:wrong", "127.0.0.2") == 0
        log_has(server, "wrong password of the superuser")
        answers = [authenticate(server, b"super:%d" % n, "127.0.0.2") for n in range(40)]
        assert answers.count(None) > 10, answers
        assert authenticate(server, b"otto:any", "127.0.0.2") == 0
        with connect(server) as client:
            assert client.call(zk.auth("digest", b"super:test"))[0] == 0
            err, fields = client.call(zk.who_am_i())
            assert err == 0 and "super" in str(fields), fields


def test_digest_algorithm_and_switch():
    for name, known in (("SHA1", "sha1"), ("sha-256", "sha256"), ("SHA512", "sha512"), ("SHA3-256", "sha3_256")):
        hashed = base64.b64encode(hashlib.new(known, b"anna:pw").digest()).decode()
        with Conclave(["--DigestAuthenticationProvider.digestAlg", name]) as server, connect(server) as client:
            assert client.call(zk.auth("digest", b"anna:pw"))[0] == 0
            assert client.call(zk.create("/mine", acl=((31, "auth", ""),)))[0] == 0
            err, fields = client.call(zk.get_acl("/mine"))
            assert err == 0 and "anna:" + hashed in str(fields), (name, fields)
    with Conclave(["--DigestAuthenticationProvider.enabled", "false"]) as server:
        assert authenticate(server, b"anna:pw") == AUTH_FAILED
        with connect(server) as client:
            assert client.call(zk.create("/d", acl=((31, "digest", "anna:x"),)))[0] == INVALID_ACL
            assert client.call(zk.create("/w"))[0] == 0
    with Conclave(["--digest.tlsOnly", "true"]) as server:
        assert authenticate(server, b"anna:pw") == AUTH_FAILED
        log_has(server, "digest.tlsOnly")


def test_secure_profile():
    with tempfile.TemporaryDirectory() as folder:
        path = users_file(folder, anna="sesame")
        with Conclave(["--secure", "yes", "--digest.users.file", path]) as server:
            with connect(server) as client:
                assert client.call(zk.exists("/"))[0] == REQUIRE_AUTH
            with connect(server) as client:
                assert client.call(zk.auth("digest", b"anna:sesame"))[0] == 0
                assert client.call(zk.create("/a"))[0] == 0
                # closed before the first client's first write
                assert client.call(zk.set_acl("/"))[0] == NO_AUTH
                assert client.call(zk.set_acl("/zookeeper/quota"))[0] == NO_AUTH
                assert client.call(zk.set_acl("/zookeeper"))[0] == NO_AUTH
                assert client.call(zk.create("/zookeeper/fence"))[0] == NO_AUTH
                assert client.call(zk.create("/zookeeper/quota/a"))[0] == NO_AUTH
                assert client.call(zk.get_children("/zookeeper/quota"))[0] == 0
                assert client.call(zk.delete("/a"))[0] == 0
        def refused(*words):
            code, _out, err = run("server", "--data", folder + "/d", "--admin", "off", "--secure", "yes", *words)
            assert code == 64, (code, err)
            return err
        assert "no client could authenticate" in refused("--listen", "127.0.0.1:0")
        assert "plain connections from other machines" in refused("--listen", "0.0.0.0:0", "--digest.users.file", path)
        forged = ("--listen", "127.0.0.1:0", "--digest.users.file", path, "--admin", "127.0.0.1:0")
        assert "admin.stateChangeByGet" in refused(*forged, "--admin.stateChangeByGet", "yes")
        assert "admin.allowedHosts" in refused(*forged, "--admin.allowedHosts", "a.example,*")
        assert "skipACL" in refused("--listen", "127.0.0.1:0", "--digest.users.file", path, "--skipACL", "yes")


def test_who_may_close_the_bindings_of_fencing():
    """Whoever may administer the root: a stranger would keep all others from binding anything."""
    with tempfile.TemporaryDirectory() as folder:
        path = users_file(folder, anna="sesame")
        super_digest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="  # super:test
        with Conclave(["--secure", "yes", "--digest.users.file", path, "--fencing.enabled", "yes",
                       "--DigestAuthenticationProvider.superDigest", super_digest]) as server:
            read_only = ((1, "world", "anyone"),)
            with connect(server) as client:
                assert client.call(zk.auth("digest", b"anna:sesame"))[0] == 0
                deadline = time.monotonic() + WAIT_S
                while client.call(zk.exists("/zookeeper/fence"))[0] != 0:
                    assert time.monotonic() < deadline, "/zookeeper/fence does not come"
                assert client.call(zk.set_acl("/zookeeper/fence", read_only))[0] == NO_AUTH
                assert client.call(zk.create("/app", acl=((31, "auth", ""),)))[0] == 0
                assert client.call(zk.create("/zookeeper/fence/app"))[0] == 0
            with connect(server) as client:
                assert client.call(zk.auth("digest", b"super:test"))[0] == 0
                assert client.call(zk.set_acl("/zookeeper/fence", read_only))[0] == 0


def test_watches_that_are_set_again_tell_nothing_of_hidden_nodes():
    with Conclave() as server, connect(server) as owner, connect(server) as stranger:
        assert owner.call(zk.auth("digest", b"anna:pw"))[0] == 0
        assert owner.call(zk.create("/hidden", acl=((31, "auth", ""),)))[0] == 0
        assert owner.call(zk.create("/open"))[0] == 0
        for client, seen in ((stranger, {"/open"}), (owner, {"/open", "/hidden"})):
            # All of it was missed: the nodes came, and have data and children newer than zxid 0.
            client.call(zk.set_watches(0, ("/hidden", "/open"), ("/hidden", "/open"), ("/hidden", "/open")))
            assert {event.path for event in client.events} == seen, client.events
            client.events.clear()
            client.call(zk.set_watches(1 << 60, ("/hidden", "/open"), (), ("/hidden", "/open")))
            assert not client.events, client.events
        for path in ("/hidden", "/open"):
            assert owner.call(zk.set_data(path, b"new"))[0] == 0
            assert owner.call(zk.delete(path))[0] == 0
        stranger.call(zk.exists("/"))
        assert {event.path for event in stranger.events} == {"/open"}, stranger.events


def test_open_port_is_told():
    def errors(*words):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.Popen([program(), "server", "--data", folder + "/d", "--admin", "off", *words],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert "ready" in done.stdout.readline()
            done.terminate()
            return done.communicate(timeout=30)[1]
    provider = ("--metricsProvider.className",
                "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider", "--metricsProvider.httpPort", "0")
    metrics = "metricsProvider.httpHost: not set"
    assert metrics in errors("--listen", "127.0.0.1:0", *provider)
    assert metrics not in errors("--listen", "127.0.0.1:0", *provider, "--metricsProvider.httpHost", "127.0.0.1")
    assert metrics not in errors("--listen", "127.0.0.1:0")
    told = "the client port is open to other machines"
    assert told in errors("--listen", "0.0.0.0:0")
    assert told not in errors("--listen", "0.0.0.0:0", "--warnOpenClientPort", "no")
    assert told not in errors("--listen", "127.0.0.1:0")
    assert told not in errors("--listen", "0.0.0.0:0", "--enforce.auth.enabled", "yes", "--enforce.auth.schemes", "digest")


def test_process():
    def status(server, name):
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
            return next((line.split()[1] for line in file if line.startswith(name + ":")), None)
    def core_limit(server):
        with open(f"/proc/{server.process.pid}/limits", encoding="ascii") as file:
            return next(line.split()[4] for line in file if line.startswith("Max core"))
    with Conclave(["--seccomp", "yes"]) as server, connect(server) as client:
        assert client.call(zk.create("/a", b"x"))[0] == 0
        assert status(server, "Seccomp") == "2" and status(server, "NoNewPrivs") == "1"
        assert core_limit(server) == "0"
    with Conclave() as server:
        assert status(server, "Seccomp") == "0" and core_limit(server) == "0"
    with Conclave(["--coreDumps", "yes"]) as server:
        assert status(server, "Seccomp") == "0"


def test_secret():
    with tempfile.TemporaryDirectory() as folder:
        code, out, _err = run("secret")
        assert code == 0 and len(out) == 65 and out != run("secret")[1]
        path = os.path.join(folder, "secret")
        assert run("secret", path)[0] == 0 and os.stat(path).st_mode & 0o777 == 0o600
        assert run("secret", path)[0] == 74
        ports = [free_port() for _ in range(4)]
        lines = ["--server.1", f"127.0.0.1:{ports[0]}:{ports[1]}", "--server-id", "1", "--standaloneEnabled", "false"]
        for weak in ("aaaaaaaaaaaaaaaaaaaaaaaa", "0123456789abcdef", "abababababababababab"):
            code, _out, err = run("server", "--data", folder + "/d", "--listen", "127.0.0.1:0", "--admin", "off", *lines,
                                  "--clusterSecret", weak)
            assert code == 64 and "conclave secret" in err and weak not in err, (code, err)
        with Conclave([*lines, "--clusterSecretFile", path]) as server, connect(server) as client:
            assert client.call(zk.exists("/"))[0] == 0
        for words in (["--clusterSecret", out.strip()], ["--clusterSecret=" + out.strip()]):
            with Conclave([*lines, *words]) as server, connect(server) as client:
                with open(f"/proc/{server.process.pid}/cmdline", encoding="ascii") as file:
                    shown = file.read()
                assert out.strip() not in shown and "xxxx" in shown, shown


def test_members_without_a_secret_stay_on_this_machine():
    words = ["--reconfigEnabled", "true", "--skipACL", "yes"]
    with Ensemble(3, options=words) as ensemble:
        leader = ensemble.leader()
        with zk.Connection(("127.0.0.1", leader.port)) as client:
            def reconfig(joining):
                body = zk.string(joining) + zk.string(None) + zk.string(None) + zk.i64(-1)
                return client.call(zk.Request(zk.RECONFIG, body))[0]
            assert reconfig("server.9=192.0.2.1:2888:3888:observer;2181") == BAD_ARGUMENTS
            log_has(leader, "reconfig-refused")


def main():
    missing = why_missing()
    if missing:
        return cases.skip_all(missing)
    return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
