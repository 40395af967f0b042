"""conclave certs: three servers, the commands and kazoo run TLS with what it made; openssl judges the certificates.

Promise: the printed lines are put into the servers' files as they are, only the client port is another one.
Limits: loopback addresses as hosts; kazoo's part is left out without Debian's python3-kazoo.

usage: certs_test.py [NAME...]
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
from conclave import program, why_missing  # noqa: E402
from ensemble import ConclaveMember  # noqa: E402
from server import free_port  # noqa: E402

try:
    import kazoo.client
except ImportError:
    kazoo = None

WAIT_S = 60
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


def run(*words, timeout=60):
    done = subprocess.run([program(), *words], capture_output=True, text=True, timeout=timeout, check=False)
    return done.returncode, done.stdout, done.stderr


def openssl(*words):
    done = subprocess.run(["openssl", *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


class Folder:
    """`with Folder() as folder:`, a path that does not exist yet."""

    def __enter__(self):
        self.top = tempfile.mkdtemp()
        return os.path.join(self.top, "certs")

    def __exit__(self, *_):
        shutil.rmtree(self.top)


def contents(folder):
    found = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found


def test_files():
    """Modes, judged by openssl; nothing is overwritten; a renewal keeps key, names and the old certificate."""
    with Folder() as folder:
        code, out, err = run("certs", folder, "one.example,10.0.0.1", "fd00::1", "--client", "anna")
        assert code == 0, err
        made = contents(folder)
        assert sorted(made) == ["ca.key", "ca.pem", "client-anna.key", "client-anna.pem", "fd00::1.key", "fd00::1.pem",
                                "one.example.key", "one.example.pem"], made
        for name in made:
            mode = stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode)
            assert mode == (0o600 if name.endswith(".key") else mode) and mode & 0o022 == 0, (name, oct(mode))
        ca = os.path.join(folder, "ca.pem")
        for name, purpose, good in (("one.example", "sslserver", True), ("one.example", "sslclient", True),
                                    ("fd00::1", "sslserver", True), ("client-anna", "sslclient", True),
                                    ("client-anna", "sslserver", False)):
            code, text = openssl("verify", "-x509_strict", "-purpose", purpose, "-CAfile", ca, os.path.join(folder, name + ".pem"))
            assert (code == 0) == good, (name, purpose, text)
        for check, good in ((("-verify_hostname", "one.example"), True), (("-verify_ip", "10.0.0.1"), True),
                            (("-verify_hostname", "two.example"), False)):
            code, text = openssl("verify", *check, "-CAfile", ca, os.path.join(folder, "one.example.pem"))
            assert (code == 0) == good, (check, text)
        code, out, err = run("certs", folder, "one.example", "two.example", "--client", "anna")
        assert code == 0 and "one.example.pem: exists and stays" in out and "two.example.pem: made" in out, (out, err)
        after = contents(folder)
        assert all(after[name] == made[name] for name in made) and len(after) == len(made) + 2
        code, out, err = run("certs", folder, "--renew", "one.example", "--days", "10")
        assert code == 0 and "one.example.pem: renewed" in out, (out, err)
        renewed = contents(folder)
        assert renewed["one.example.pem.old-1"] == made["one.example.pem"] != renewed["one.example.pem"]
        assert renewed["one.example.key"] == made["one.example.key"]
        code, text = openssl("verify", "-verify_ip", "10.0.0.1", "-CAfile", ca, os.path.join(folder, "one.example.pem"))
        assert code == 0, text
        assert openssl("x509", "-checkend", str(11 * 86400), "-in", os.path.join(folder, "one.example.pem"))[0] == 1
        code, out, err = run("certs", folder, "--renew")
        assert code == 0 and out.count(": renewed") == 4, (out, err)
        assert contents(folder)["ca.pem"] == made["ca.pem"]


def test_refusals():
    with Folder() as folder:
        for words, code, text in (((folder,), 64, "name a HOST"), ((folder, "../x"), 64, "is no host"),
                                  ((folder, "*.example"), 64, "is no host"), ((folder, "a", "--days", "0"), 64, "--days wants"),
                                  ((folder, "a", "--client", "x/y"), 64, "--client wants"), ((), 64, "")):
            found, _, err = run("certs", *words)
            assert found == code and text in err, (words, found, err)
        code, _, err = run("certs", os.path.join(folder, "none"), "--renew")
        assert code == 74 and "cannot be opened" in err, (code, err)
        assert run("certs", folder, "a")[0] == 0
        os.remove(os.path.join(folder, "ca.pem"))
        code, _, err = run("certs", folder, "b")
        assert code == 78 and "has ca.key, but no ca.pem" in err, (code, err)
        shutil.copy(os.path.join(folder, "a.pem"), os.path.join(folder, "ca.pem"))
        code, _, err = run("certs", folder, "b")
        assert code == 64 and "do not belong together" in err, (code, err)
        shutil.copy(os.path.join(folder, "a.key"), os.path.join(folder, "ca.key"))
        code, _, err = run("certs", folder, "b")
        assert code == 78 and "is no CA" in err, (code, err)


def pasted(out, host, port):
    """The lines that are printed for a host, with another port."""
    part = re.search(rf"^# {re.escape(host)}: .*\n((?:.+\n)+)", out, re.M).group(1)
    return [line.replace("=2281", f"={port}") for line in part.splitlines()]


def test_three_servers_and_clients():
    with Folder() as folder:
        code, out, err = run("certs", folder, *HOSTS, "--client", "anna")
        assert code == 0, err
        members, ports = [], [free_port() for _ in HOSTS]
        try:
            lines = []
            for i, host in enumerate(HOSTS):
                members.append(ConclaveMember(i + 1, lines, ["--secureClientPortAddress", host]))
                lines.append(f"server.{i + 1}={host}:{free_port()}:{free_port()};127.0.0.1:{members[i].port}")
            for member, host, port in zip(members, HOSTS, ports):
                member.lines = lines + pasted(out, host, port)
                assert "sslQuorum=true" in member.lines, member.lines
            for member in members:
                member.start()
            where = ",".join(f"{host}:{port}" for host, port in zip(HOSTS, ports))
            tls = re.search(r"^# client anna\nconclave status --server \S+ (.+)$", out, re.M).group(1).split()
            deadline = time.monotonic() + WAIT_S
            while run("create", "/made", "by certs", "--server", where, *tls)[0] != 0:
                assert time.monotonic() < deadline, run("get", "/", "--server", where, *tls)
            for host, port in zip(HOSTS, ports):
                code, text, err = run("get", "/made", "--linearizable", "--server", f"{host}:{port}", *tls)
                assert code == 0 and text.strip() == "by certs", (host, text, err)
            code, text, err = run("whoami", "--server", where, *tls)
            assert code == 0 and "x509" in text and "CN=anna" in text, (text, err)
            assert run("get", "/made", "--server", where, "--timeout", "3s", *tls[:2])[0] != 0, "without its certificate"
            if kazoo is not None:
                client = kazoo.client.KazooClient(where, use_ssl=True, ca=tls[1], certfile=tls[3], keyfile=tls[5])
                client.start(30)
                assert client.get("/made")[0].strip() == b"by certs"
                client.stop()
                client.close()
            code, text, err = run("certs", folder, "--renew")
            assert code == 0, err
            members[0].stop()
            members[0].start()
            deadline = time.monotonic() + WAIT_S
            while run("get", "/made", "--server", f"{HOSTS[0]}:{ports[0]}", *tls)[0] != 0:
                assert time.monotonic() < deadline, "a renewed server takes part"
        finally:
            for member in members:
                member.destroy()


if __name__ == "__main__":
    missing = why_missing() or (None if shutil.which("openssl") else "no program openssl (Debian: openssl)")
    sys.exit(cases.skip_all(missing) if missing else cases.run(cases.named("test_", globals()), sys.argv[1:]))
