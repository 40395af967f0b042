#!/usr/bin/env python3
"""TLS of `conclave server`, of the library and of the commands: own port and port for both, certificates that are good,
missing, expired, of another CA, signed by themselves; reload; certificates as identities; rubbish and slow hellos.

Promise: certificates are made for the run; each case has a server of its own. A refused certificate leaves no session:
the next zxid is the next number. Both sides must say why.
Limits: kazoo's cases are skipped without Debian's python3-kazoo; Java's are in test/compat/tls_java_test.py.

usage: tls_test.py [CASE]...
"""

import contextlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import certs  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402
from link_client import LinkClient  # noqa: E402

try:
    import kazoo.client
    import kazoo.handlers.threading
except ImportError:
    kazoo = None

TLS_CLIENT = os.path.join(os.environ.get("CONCLAVE_BUILD", "build"), "test", "system", "tls_client")
ALICE = "CN=alice,O=Acme\\, Inc"
NO_AUTH, INVALID_ACL, AUTH_FAILED = -102, -114, -115
CASES = []


def case(function):
    CASES.append(function)
    return function


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


class World:
    """Certificates of one run."""

    def __init__(self, folder):
        self.made = certs.Certificates(folder)
        make = self.made.make
        self.ca = make("ca", "/CN=Test CA")
        self.other_ca = make("other-ca", "/CN=Other CA")
        self.server = make("server", "/O=Conclave/CN=server one", self.ca)
        self.alice = make("alice", "/O=Acme, Inc/CN=alice", self.ca)
        self.bob = make("bob", "/O=Acme, Inc/CN=bob", self.ca)
        self.root = make("root", "/CN=root", self.ca)
        self.expired = make("expired", "/CN=expired", self.ca, expired=True)
        self.stranger = make("stranger", "/CN=stranger", self.other_ca)
        self.self_signed = make("self-signed", "/CN=self-signed")
        self.elsewhere = make("elsewhere", "/CN=elsewhere", self.ca, san="DNS:elsewhere.example.org")


WORLD = None


def options(server=None, *more):
    server = server or WORLD.server
    return ["--secureClientPort", "0", "--ssl.certFile", server.cert, "--ssl.keyFile", server.key, "--ssl.caFile",
            WORLD.ca.cert, *more]


def context(own=None, ca=None, check=True):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = check
    made.verify_mode = ssl.CERT_REQUIRED if check else ssl.CERT_NONE
    made.load_verify_locations((ca or WORLD.ca).cert)
    if own is not None:
        made.load_cert_chain(own.cert, own.key)
    return made


def connect(port, own=None, **more):
    return zk.Connection(("127.0.0.1", port), tls=context(own), **more)


def command(port, *words, own=None, ca=None, host="127.0.0.1", env=None):
    """Runs a client command over TLS: (exit code, stdout, stderr)."""
    line = [program(), *words, "--server", f"{host}:{port}", "--timeout", "2s", "--ca", (ca or WORLD.ca).cert]
    if own is not None:
        line += ["--cert", own.cert, "--key", own.key]
    done = subprocess.run(line, capture_output=True, text=True, timeout=30, check=False, env=env)
    return done.returncode, done.stdout, done.stderr


def log_has(server, text, timeout_s=5):
    """Waits until the server's log says text."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if text in server.log_tail(1 << 20):
            return
        time.sleep(0.02)
    raise AssertionError(f"the log does not say '{text}':\n{server.log_tail()}")


def created_zxid(connection, path):
    """Creates path; its czxid."""
    err, fields = connection.call(zk.create(path, b"", op=zk.CREATE2))
    expect(err == 0, f"create {path}: {err}")
    return fields["stat"]["czxid"]


@case
def every_client_on_both_ports():
    with Conclave(options(None, "--client.portUnification", "true")) as server:
        for number, port in enumerate((server.secure_port, server.port)):
            with connect(port, WORLD.alice) as raw:
                expect(raw.session_id != 0, "no session")
                created_zxid(raw, f"/raw{number}")
            code, out, err = command(port, "create", f"/cli{number}", "hello", own=WORLD.alice)
            expect(code == 0 and out == f"/cli{number}\n", f"create: {code} {err}")
            code, out, err = command(port, "get", f"/cli{number}", own=WORLD.alice, host="localhost")
            expect(code == 0 and out == "hello", f"get: {code} {out!r} {err}")
        with zk.Connection(server.address) as plain:
            created_zxid(plain, "/plain")
        # The TLS port takes nothing else.
        with socket.create_connection(("127.0.0.1", server.secure_port), timeout=5) as probe:
            probe.sendall(zk.i32(44) + bytes(44))
            data = probe.recv(100)
            expect(data[:1] in (b"", b"\x15"), f"answered {data!r}")
        log_has(server, "the other side does not use TLS")


@case
def secure_port_alone():
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([program(), "server", "--data", folder + "/d", "--admin", "off", *options()],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            line = server.stdout.readline()
            expect(line.startswith("conclave: ready client=off ") and " secure=127.0.0.1:" in line, line)
            with connect(int(line.rsplit(":", 1)[1]), WORLD.alice) as raw:
                created_zxid(raw, "/a")
            server.send_signal(signal.SIGTERM)
            expect(server.wait(10) == 0, "exit code")
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()
            server.stdout.close()


def refused_by_server(own, port):
    """The client's error: in TLS 1.3 it comes with the first read."""
    try:
        with connect(port, own) as raw:
            raise AssertionError(f"got session 0x{raw.session_id:x}")
    except ssl.SSLError as error:
        return str(error)
    except zk.Closed as error:
        raise AssertionError("closed without an alert") from error


@case
def bad_client_certificates():
    rows = [(None, "the client sent no certificate", "certificate required"),
            (WORLD.expired, "the client's certificate 'CN=expired': certificate has expired", "certificate expired"),
            (WORLD.stranger, "the client's certificate 'CN=stranger': unable to get local issuer", "unknown CA"),
            (WORLD.self_signed, "the client's certificate 'CN=self-signed': self-signed certificate", "unknown CA")]
    with Conclave(options()) as server, connect(server.secure_port, WORLD.alice) as good:
        for number, (own, at_server, at_client) in enumerate(rows):
            before = created_zxid(good, f"/before{number}")
            refused_by_server(own, server.secure_port)
            log_has(server, at_server)
            code, out, err = command(server.secure_port, "get", "/", own=own)
            expect(code == 69 and f"refused by the server: {at_client}" in err, f"{code} {err}")
            expect(out == "", out)
            after = created_zxid(good, f"/after{number}")
            expect(after == before + 1, f"zxid went from {before} to {after}: a session was made")
        expect("session=0x0" in server.log_tail(), "who was refused")


@case
def refusals_are_counted_and_not_all_told():
    with Conclave(options(), admin=True) as server:
        def metric(name):
            with urllib.request.urlopen(f"http://127.0.0.1:{server.admin_port}/metrics", timeout=10) as reply:
                return float(re.search(rf"^{name} (\S+)$", reply.read().decode(), re.M).group(1))
        for own, count in ((WORLD.stranger, 20), (WORLD.expired, 10)):
            for _ in range(count):
                refused_by_server(own, server.secure_port)
        expect(metric("unsuccessful_handshake") == 30, "each one counts")
        left_s = metric('conclave_certificate_expiry_timestamp_seconds{port="client"}') - time.time()
        expect(29 * 86400 < left_s < 31 * 86400, f"the certificate expires in {left_s} s")
        log = server.log_tail(1 << 20)
        expect(log.count(" tls-refused ") == 2, f"one line for each reason:\n{log}")
        with socket.create_connection(("127.0.0.1", server.secure_port), timeout=5):
            deadline = time.monotonic() + 5
            while metric("outstanding_tls_handshake") != 1 and time.monotonic() < deadline:
                time.sleep(0.01)
            expect(metric("outstanding_tls_handshake") == 1, "who says nothing is in his handshake")
        with connect(server.secure_port, WORLD.alice):
            deadline = time.monotonic() + 5
            while metric("outstanding_tls_handshake") != 0 and time.monotonic() < deadline:
                time.sleep(0.01)
            expect(metric("outstanding_tls_handshake") == 0, "nobody is left in one")
        expect(server.stop() == 0, "exit code")
        expect("tls-refused who=\"127.0.0.1\" count=28 " in server.log_tail(1 << 20), "the others are counted")


@case
def a_record_outlives_the_stream_that_failed():
    """What the server remembers of a session whose TLS broke is read long after the stream is gone."""
    with Conclave(options(), admin=True) as server:
        link = connect(server.secure_port, WORLD.alice, timeout_ms=40000)
        with socket.socket(fileno=os.dup(link.socket.fileno())) as raw:
            raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))  # no such record was ever sealed
        log_has(server, "tls-refused", 30)
        link.drop()
        for _ in range(3):  # the memory of the stream is used again
            connect(server.secure_port, WORLD.alice).drop()
        url = f"http://127.0.0.1:{server.admin_port}/sessions/why?id={link.session_id:#x}"
        with urllib.request.urlopen(url, timeout=30) as reply:
            facts = json.load(reply)["record"]["facts"]
        expect(facts["reason"] == "TLS failed; the log of the server says how", facts)


@case
def bad_server_certificates():
    rows = [(WORLD.expired, None, "the server's certificate 'CN=expired': certificate has expired",
             "refused by the client: certificate expired"),
            (WORLD.server, WORLD.other_ca, "unable to get local issuer certificate", "refused by the client: unknown CA"),
            (WORLD.self_signed, None, "the server's certificate 'CN=self-signed'", "refused by the client: unknown CA"),
            (WORLD.elsewhere, None, "it is not for 127.0.0.1", "refused by the client: bad certificate")]
    for own, ca, at_client, at_server in rows:
        with Conclave(options(own)) as server:
            code, _, err = command(server.secure_port, "get", "/", own=WORLD.alice, ca=ca)
            if at_client not in err and "self-signed certificate in certificate chain" not in err:
                raise AssertionError(f"{code} {err}")
            expect(code == 69, f"exit code {code}")
            log_has(server, at_server)
    with Conclave(options(WORLD.elsewhere)) as server:
        code, _, err = command(server.secure_port, "ls", "/", "--tls-name", "elsewhere.example.org", own=WORLD.alice)
        expect(code == 0, err)
        code, _, err = command(server.port, "ls", "/", own=WORLD.alice)
        expect(code == 69 and "TLS" in err, f"TLS on a plain port: {err}")
        env = dict(os.environ, CONCLAVE_TLS_CA="/none")
        done = subprocess.run([program(), "ls", "/", "--server", server.host], capture_output=True, text=True, env=env,
                              check=False)
        expect(done.returncode == 64 and "cannot read /none" in done.stderr, done.stderr)


@case
def client_auth_want_and_none():
    with Conclave(options(None, "--ssl.clientAuth", "want")) as server:
        for own in (None, WORLD.alice):
            with connect(server.secure_port, own) as raw:
                expect(raw.session_id != 0, "no session")
        refused_by_server(WORLD.stranger, server.secure_port)
    with Conclave(options(None, "--ssl.clientAuth", "none")) as server:
        for own in (None, WORLD.stranger):
            with connect(server.secure_port, own) as raw:
                expect(raw.session_id != 0, "no session")
                err, _ = raw.call(zk.create("/x", b"", acl=[(31, "x509", ALICE)]))
                expect(err == INVALID_ACL, f"x509 without clients' certificates: {err}")


@case
def certificates_as_ids():
    more = ["--X509AuthenticationProvider.superUser", "CN=root", "--client.portUnification", "true"]
    with Conclave(options(None, *more)) as server, connect(server.secure_port, WORLD.alice) as alice, \
            connect(server.secure_port, WORLD.bob) as bob, connect(server.port, WORLD.root) as root, \
            zk.Connection(server.address) as plain:
        err, _ = alice.call(zk.create("/own", b"secret", acl=[(31, "auth", "")]))
        expect(err == 0, f"auth: {err}")
        err, fields = alice.call(zk.get_acl("/own"))
        expect(err == 0 and [tuple(entry) for entry in fields["acl"]] == [(31, "x509", ALICE)], f"{err} {fields}")
        err, _ = bob.call(zk.create("/hers", b"", acl=[(1, "x509", ALICE)]))
        expect(err == 0, f"x509: {err}")
        err, _ = alice.call(zk.get_data("/hers"))
        expect(err == 0, f"alice reads: {err}")
        for other in (bob, plain):
            err, _ = other.call(zk.get_data("/own"))
            expect(err == NO_AUTH, f"somebody else reads: {err}")
        err, _ = root.call(zk.get_data("/own"))
        expect(err == 0, f"the superuser reads: {err}")
        # Nobody can claim a certificate that was not shown.
        err, _ = plain.call(zk.auth("x509", ALICE.encode()))
        expect(err == AUTH_FAILED, f"claimed: {err}")


def peer_subject(port, own):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as raw, \
            context(own).wrap_socket(raw, server_hostname="127.0.0.1") as wrapped:
        return dict(part[0] for part in wrapped.getpeercert()["subject"])["commonName"]


def wait_subject(port, wanted, timeout_s=15):
    deadline = time.monotonic() + timeout_s
    while peer_subject(port, WORLD.alice) != wanted:
        expect(time.monotonic() < deadline, f"the certificate is still not {wanted}")
        time.sleep(0.1)


def replace(source, target):
    """As tools that renew certificates do it: a new file under the old name."""
    shutil.copy(source, target + ".new")
    os.rename(target + ".new", target)


@case
def reload_without_restart():
    second = WORLD.made.make("server-two", "/O=Conclave/CN=server two", WORLD.ca)
    for watch in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            live = certs.Certificate(os.path.join(folder, "live"))
            shutil.copy(WORLD.server.cert, live.cert)
            shutil.copy(WORLD.server.key, live.key)
            more = ["--client.certReload", "true"] if watch else []
            with Conclave(options(live, *more)) as server, connect(server.secure_port, WORLD.alice) as old:
                port = server.secure_port
                expect(peer_subject(port, WORLD.alice) == "server one", "first certificate")
                with open(live.cert, "w", encoding="ascii") as broken:
                    broken.write("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n")
                if not watch:
                    server.process.send_signal(signal.SIGHUP)
                log_has(server, "certificates-not-loaded", 15)
                expect(peer_subject(port, WORLD.alice) == "server one", "the old one stays")
                replace(second.cert, live.cert)
                replace(second.key, live.key)
                if not watch:
                    expect(peer_subject(port, WORLD.alice) == "server one", "nobody asked for it yet")
                    server.process.send_signal(signal.SIGHUP)
                wait_subject(port, "server two")
                created_zxid(old, "/still-here")


def admin_options(own, *more):
    return ["--ssl.quorum.certFile", own.cert, "--ssl.quorum.keyFile", own.key, "--ssl.quorum.caFile", WORLD.ca.cert, *more]


def ask_admin(server, path, own=None, tls=True, headers=None, data=None, timeout=20):
    """(status, bytes) over HTTPS or HTTP."""
    scheme = "https" if tls else "http"
    request = urllib.request.Request(f"{scheme}://127.0.0.1:{server.admin_port}{path}", headers=headers or {}, data=data)
    try:
        with urllib.request.urlopen(request, timeout=timeout, context=context(own) if tls else None) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def wait_descriptors(server, count, timeout_s=10):
    deadline = time.monotonic() + timeout_s
    while descriptors(server) > count:
        expect(time.monotonic() < deadline, f"{descriptors(server)} descriptors instead of {count}")
        time.sleep(0.05)


@case
def https_on_the_admin_port():
    with Conclave(admin_options(WORLD.server, "--admin.forceHttps", "true"), admin=True) as server:
        first = descriptors(server)
        for path in ("/readyz", "/commands/stats", "/metrics"):
            status, body = ask_admin(server, path)
            expect(status == 200 and body, f"{path}: {status}")
        try:
            ask_admin(server, "/readyz", tls=False, timeout=5)
            raise AssertionError("plain HTTP was answered")
        except (urllib.error.URLError, OSError, http.client.HTTPException):
            pass
        # Many requests on one connection, and answers larger than any buffer in between.
        with connect_plain(server) as client:
            for number in range(3000):
                client.send(zk.exists("/" + "x" * 200 + str(number), True))
            for _ in range(3000):
                client.read_reply()
            connection = http.client.HTTPSConnection("127.0.0.1", server.admin_port, timeout=20, context=context())
            for _ in range(20):
                connection.request("GET", "/commands/watches_by_path")
                answer = json.loads(connection.getresponse().read())
                expect(len(answer["path_to_session_ids"]) == 3000, "a long answer")
            connection.close()
        # A reader who takes his time gets all of it; one who says no more gets his answer.
        with socket.create_connection(("127.0.0.1", server.admin_port), timeout=10) as raw, \
                context().wrap_socket(raw, server_hostname="127.0.0.1") as wrapped:
            wrapped.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            got = b""
            while part := wrapped.recv(1000):
                got += part
            expect(got.startswith(b"HTTP/1.0 200") or got.startswith(b"HTTP/1.1 200"), got[:50])
            expect(b"process_resident_memory_bytes" in got, "cut")
        wait_descriptors(server, first)


def connect_plain(server):
    return zk.Connection(server.address)


@case
def both_on_the_admin_port():
    with Conclave(admin_options(WORLD.server, "--admin.portUnification", "true"), admin=True) as server:
        first = descriptors(server)
        for number in range(200):
            for tls in (True, False):
                status, body = ask_admin(server, "/readyz", tls=tls)
                expect(status == 200 and body == b"ok\n", f"{number} {tls}: {status} {body}")
        for rubbish in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00", b"\0" * 100, b"GET", b"\x16" * 70000):
            with socket.create_connection(("127.0.0.1", server.admin_port), timeout=5) as raw:
                with contextlib.suppress(OSError):
                    raw.sendall(rubbish)
        # More than are served at a time, who say nothing: those who do are served when they are gone.
        held = [socket.create_connection(("127.0.0.1", server.admin_port), timeout=5) for _ in range(60)]
        for sock in held:
            sock.close()
        wait_descriptors(server, first)
        expect(ask_admin(server, "/readyz")[0] == 200, "served")


@case
def administrators_certificates():
    more = ["--admin.forceHttps", "true", "--admin.needClientAuth", "true", "--admin.snapshot.enabled", "true",
            "--X509AuthenticationProvider.superUser", "CN=root", "--admin.rateLimiterIntervalInMS", "0"]
    with Conclave(admin_options(WORLD.server, *more), admin=True) as server:
        expect(ask_admin(server, "/readyz", WORLD.alice)[0] == 200, "a good certificate")
        for own in (None, WORLD.stranger, WORLD.expired):
            try:
                ask_admin(server, "/readyz", own, timeout=5)
                raise AssertionError("answered")
            except (urllib.error.URLError, OSError, http.client.HTTPException):
                pass
        status, body = ask_admin(server, "/commands/snapshot", WORLD.alice, headers={"Authorization": "x509"})
        expect(status == 403, f"{status} {body}")
        status, body = ask_admin(server, "/commands/snapshot", WORLD.alice, headers={"Authorization": "x509 CN=root"})
        expect(status == 403, f"claimed: {status} {body}")
        status, body = ask_admin(server, "/commands/snapshot", WORLD.root, headers={"Authorization": "x509"})
        expect(status == 200 and body.startswith(b"CONCLSNP"), f"{status} {body[:100]}")


@case
def console_identity_of_a_certificate():
    more = ["--admin.forceHttps", "true", "--admin.needClientAuth", "true", "--admin.console", "on", "--X509AuthenticationProvider.superUser", "CN=root"]
    with Conclave(admin_options(WORLD.server, *more), admin=True) as server:
        expect(json.loads(ask_admin(server, "/console/me", WORLD.alice)[1])["schemes"] == ["digest", "x509"], "what is offered")
        for own, name, operator in ((WORLD.alice, f"x509:{ALICE}", False), (WORLD.root, "x509:CN=root", True)):
            status, body = ask_admin(server, "/console/sign-in?scheme=x509", own, data=b"")
            who = json.loads(body)
            expect(status == 200 and (who["name"], who["operator"], who["checked"]) == (name, operator, True), f"{status} {body}")
    with Conclave(admin_options(WORLD.server, *more[:2], *more[4:]), admin=True) as server:
        status, body = ask_admin(server, "/console/sign-in?scheme=x509", data=b"")
        expect(status == 403 and b"certificate" in body, f"without a certificate: {status} {body}")


@case
def admin_certificate_reload():
    second = WORLD.made.make("admin-two", "/O=Conclave/CN=admin two", WORLD.ca)
    for watch in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            live = certs.Certificate(os.path.join(folder, "live"))
            shutil.copy(WORLD.server.cert, live.cert)
            shutil.copy(WORLD.server.key, live.key)
            words = ["--admin.forceHttps", "true", *(["--client.certReload", "true"] if watch else [])]
            with Conclave(admin_options(live, *words), admin=True) as server:
                expect(peer_subject(server.admin_port, None) == "server one", "first certificate")
                replace(second.cert, live.cert)
                replace(second.key, live.key)
                if not watch:
                    server.process.send_signal(signal.SIGHUP)
                wait_subject(server.admin_port, "admin two")
                expect(ask_admin(server, "/readyz")[0] == 200, "served")


@case
def large_values_and_pipelines():
    with Conclave(options()) as server, connect(server.secure_port, WORLD.alice) as raw:
        data = random.Random(1).randbytes(1_000_000)
        err, _ = raw.call(zk.create("/big", data))
        expect(err == 0, f"create: {err}")
        for _ in range(50):
            raw.send(zk.get_data("/big"))
        for _ in range(50):
            reply = raw.read_reply()
            expect(reply.err == 0 and len(reply.body) > len(data), "a pipelined read")
        for number in range(2000):
            raw.send(zk.create(f"/n{number}"))
        for number in range(2000):
            expect(raw.read_reply().err == 0, f"create {number}")
        code, out, err = command(server.secure_port, "stat", "/big", own=WORLD.alice)
        expect(code == 0 and "1000000" in out, f"{code} {out} {err}")
        raw.close_session()


@case
def library_in_threads_and_own_loop():
    if not os.access(TLS_CLIENT, os.X_OK):
        raise AssertionError(f"no {TLS_CLIENT}")
    with Conclave(options()) as server:
        for mode in ("threads", "loop"):
            done = subprocess.run([TLS_CLIENT, mode, f"127.0.0.1:{server.secure_port}", WORLD.ca.cert, WORLD.alice.cert,
                                   WORLD.alice.key], capture_output=True, text=True, timeout=60, check=False)
            expect(done.returncode == 0 and done.stdout == "ok\n", f"{mode}: {done.stdout} {done.stderr}")


@case
def client_files_are_read_again():
    """The client's own files change between two links: rubbish is told and not used, a good certificate is the new id."""
    with tempfile.TemporaryDirectory() as folder, Conclave(options()) as server:
        live = certs.Certificate(os.path.join(folder, "live"))
        shutil.copy(WORLD.alice.cert, live.cert)
        shutil.copy(WORLD.alice.key, live.key)
        names = [f"127.0.0.1:{server.secure_port}", f"localhost:{server.secure_port}"]
        with LinkClient(names[0], WORLD.ca.cert, live.cert, live.key) as client:
            def ids():
                return " ".join(client.ask("ids"))

            def link_again():
                """Another name for the server: the client makes a new link."""
                names.reverse()
                count = client.text().count("state=RECONNECTED")
                expect(client.ask(f"servers {names[0]}") == ["OK"], "the list is taken")
                client.wait(lambda text: text.count("state=RECONNECTED") > count, what="it links again")

            expect("CN=alice" in ids(), "the first certificate")
            link_again()
            expect("read again" not in client.text(), "files that did not change are not read again")
            with open(live.cert, "w", encoding="ascii") as broken:
                broken.write("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n")
            link_again()
            expect("log ERROR the new TLS files are not usable" in client.text(), "the reason is told")
            expect("CN=alice" in ids(), "the old certificate stays")
            replace(WORLD.bob.cert, live.cert)
            replace(WORLD.bob.key, live.key)
            link_again()
            expect("log INFO TLS files read again" in client.text(), "the change is told")
            expect("CN=bob" in ids(), "the new certificate")
            expect(client.text().count("state=CONNECTED") == 1, "one session")


@case
def kazoo_with_a_certificate():
    if kazoo is None:
        raise cases.Skip("no module kazoo (Debian: python3-kazoo)")
    with Conclave(options()) as server:
        def client(own):
            return kazoo.client.KazooClient(f"127.0.0.1:{server.secure_port}", use_ssl=True, ca=WORLD.ca.cert,
                                            certfile=own.cert, keyfile=own.key)
        good = client(WORLD.alice)
        good.start(10)
        good.create("/kazoo", b"x" * 500_000)
        expect(len(good.get("/kazoo")[0]) == 500_000, "data")
        good.stop()
        good.close()
        bad = client(WORLD.stranger)
        with contextlib.suppress(kazoo.handlers.threading.KazooTimeoutError, ssl.SSLError):
            bad.start(3)
            raise AssertionError("a stranger got in")
        bad.stop()
        bad.close()
        log_has(server, "the client's certificate 'CN=stranger'")
    return None


@case
def rubbish_and_slow_hellos():
    with Conclave(options(None, "--client.portUnification", "true")) as server, \
            connect(server.secure_port, WORLD.alice) as good:
        slow_count, stop = 30, threading.Event()
        dice = random.Random(7)
        held = [socket.create_connection(("127.0.0.1", dice.choice([server.secure_port, server.port])), timeout=30)
                for _ in range(slow_count)]

        def drip():
            hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)
            for at in range(len(hello)):
                for sock in held:
                    with contextlib.suppress(OSError):
                        sock.sendall(hello[at:at + 1])
                if stop.wait(1):
                    return

        def throw():
            while not stop.is_set():
                with contextlib.suppress(OSError), \
                        socket.create_connection(("127.0.0.1", server.secure_port), timeout=5) as sock:
                    start = dice.choice([b"", b"\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03"])
                    sock.sendall(start + dice.randbytes(dice.randrange(1, 600)))
                time.sleep(0.01)

        threads = [threading.Thread(target=drip), threading.Thread(target=throw)]
        for thread in threads:
            thread.start()
        worst, end = 0.0, time.monotonic() + 12
        number = 0
        while time.monotonic() < end:
            began = time.monotonic()
            expect(good.call(zk.create(f"/g{number}"))[0] == 0, "create")
            worst = max(worst, time.monotonic() - began)
            number += 1
            time.sleep(0.01)
        stop.set()
        for thread in threads:
            thread.join()
        # The hello must be done in 10 s: whoever drips is gone by now.
        for sock in held:
            sock.settimeout(5)
            with contextlib.suppress(ConnectionError):
                expect(sock.recv(1) in (b"", b"\x15"), "an answer to half a hello")
            sock.close()
        expect(server.alive() and worst < 2, f"the slowest write of a good client took {worst:.2f} s")
        log_has(server, "the TLS handshake did not end in time")


@case
def wrong_configuration():
    def start(*words):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([program(), "server", "--data", folder + "/d", "--listen", "127.0.0.1:0", *words],
                                  capture_output=True, text=True, timeout=20, check=False)
            return done.returncode, done.stderr
    with tempfile.NamedTemporaryFile(suffix=".jks") as jks:
        jks.write(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
        jks.flush()
        rows = [(["--secureClientPort", "0"], "needs a certificate"),
                (["--admin.forceHttps", "true"], "HTTPS on the admin port needs a certificate"),
                (["--admin.needClientAuth", "true"], "admin.forceHttps"),
                (["--admin.portUnification", "true", "--ssl.certFile", "/none.pem"], "cannot read /none.pem"),
                (options()[:-1] + ["/none/ca.pem"], "cannot read /none/ca.pem"),
                (["--secureClientPort", "0", "--ssl.keyStore.location", jks.name, "--ssl.clientAuth", "none"],
                 "keytool -importkeystore"),
                (["--secureClientPort", "0", "--ssl.certFile", WORLD.server.cert, "--ssl.keyFile", WORLD.alice.key,
                  "--ssl.clientAuth", "none"], "belongs to another certificate"),
                (options(None, "--ssl.ciphersuites", "TLS_NO_SUCH"), "TLS_NO_SUCH")]
        for words, wanted in rows:
            code, err = start(*words)
            expect(code == 64 and wanted in err, f"{words}: {code} {err}")


def thread_seconds(server):
    """Seconds of processor time of each thread of the server; the first is the loop's."""
    folder = f"/proc/{server.process.pid}/task"
    def seconds(task):
        with open(f"{folder}/{task}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    tasks = sorted(map(int, os.listdir(folder)), key=lambda task: (task != server.process.pid, task))  # ids wrap around
    return [seconds(task) for task in tasks]


@case
def handshakes_take_no_time_of_the_loop():
    """A stranger's full handshakes with a key of RSA-4096, while somebody else's pings are answered."""
    server_cert = WORLD.made.make("slow", "/CN=slow", WORLD.ca, key=certs.RSA4096)
    words = ("--ssl.clientAuth", "want", "--maxTlsHandshakesPerSecondPerAddress", "100000")
    with Conclave(options(server_cert, *words)) as server, connect(server.secure_port, WORLD.alice) as bystander:
        before = thread_seconds(server)
        done, stop, waits = [0], threading.Event(), []
        def attack():
            made = context()
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    with socket.create_connection(("127.0.0.1", server.secure_port), timeout=10) as plain:
                        with made.wrap_socket(plain, server_hostname="127.0.0.1"):
                            done[0] += 1
        threads = [threading.Thread(target=attack) for _ in range(4)]
        for thread in threads:
            thread.start()
        while done[0] < 100:
            start = time.monotonic()
            expect(bystander.call(zk.ping())[0] == 0, "a ping fails")
            waits.append(time.monotonic() - start)
            stop.wait(0.05)
        stop.set()
        for thread in threads:
            thread.join()
        used = [after - early for after, early in zip(thread_seconds(server), before)]
        expect(sum(used[1:]) > 2 * used[0], f"the loop's thread, then the others: {used} s")
        expect(max(waits) < 2, f"a ping waited {max(waits):.2f} s")


@case
def handshakes_of_one_address_are_limited():
    """127.0.0.2 makes connections without end; 127.0.0.1 is served."""
    def once(port, source):
        with socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(source, 0)) as plain:
            with context(WORLD.alice).wrap_socket(plain, server_hostname="127.0.0.1"):
                return True
    words = ("--maxTlsHandshakesPerSecondPerAddress", "5", "--client.portUnification", "true")
    with Conclave(options(None, *words), admin=True) as server:
        for port in (server.secure_port, server.port):
            through = 0
            start = time.monotonic()
            for _ in range(60):
                with contextlib.suppress(OSError):
                    through += once(port, "127.0.0.2")
            most = 5 + 5 * (time.monotonic() - start) + 1
            expect(1 <= through <= most or port == server.port and through <= most, f"{through} of 60, {most}")
            expect(once(port, "127.0.0.1"), "the bystander is refused")
            time_left = time.monotonic() + 10
            while not once_quietly(once, port, "127.0.0.2"):
                expect(time.monotonic() < time_left, "the address is never served again")
        log_has(server, "maxTlsHandshakesPerSecondPerAddress")
        with urllib.request.urlopen(f"http://127.0.0.1:{server.admin_port}/metrics", timeout=10) as answer:
            refused = re.search(r"^conclave_refused_tls_handshakes_total (\d+)", answer.read().decode(), re.M)
        expect(refused is not None and int(refused.group(1)) > 30, "nothing is counted")
        told = server.log_tail(1 << 20).count("maxTlsHandshakesPerSecondPerAddress")
        expect(told <= 2, f"the log says it {told} times")


def once_quietly(once, *words):
    with contextlib.suppress(OSError):
        return once(*words)
    return False


@case
def too_many_handshakes_at_once():
    """Those who do not go on with their handshake make room."""
    with Conclave(options(None, "--maxTlsHandshakes", "20")) as server:
        silent = [socket.create_connection(("127.0.0.1", server.secure_port), timeout=10) for _ in range(20)]
        for _ in range(5):
            with connect(server.secure_port, WORLD.alice) as raw:
                expect(raw.call(zk.exists("/"))[0] == 0, "a client beside silent ones is not served")
        expect(silent[0].recv(1) == b"", "the oldest silent connection is still there")
        silent[-1].settimeout(0.2)
        try:
            expect(silent[-1].recv(1) == b"x", "the newest silent connection is gone")
        except TimeoutError:
            pass
        for one in silent:
            one.close()


@case
def weak_suites_only_when_they_are_named():
    """Of TLS 1.2 nothing without forward secrecy and authenticated encryption, unless a key names it."""
    def speak(server, suite):
        made = context(WORLD.alice)
        made.maximum_version = ssl.TLSVersion.TLSv1_2
        made.set_ciphers(suite + ":@SECLEVEL=0")
        with socket.create_connection(("127.0.0.1", server.secure_port), timeout=10) as plain:
            try:
                with made.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                    return secure.cipher()[0]
            except ssl.SSLError as problem:
                return problem.reason
    with Conclave(options()) as server:
        for suite in ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"):
            expect(speak(server, suite) == suite, f"{suite} is refused")
        for suite in ("ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA384"):
            expect(speak(server, suite) == "SSLV3_ALERT_HANDSHAKE_FAILURE", f"{suite}: {speak(server, suite)}")
    with Conclave(options(None, "--ssl.ciphersuites", "ECDHE-ECDSA-AES128-SHA")) as server:
        expect(speak(server, "ECDHE-ECDSA-AES128-SHA") == "ECDHE-ECDSA-AES128-SHA", "a suite that is named is refused")


@case
def keystores_and_no_secret_in_the_log():
    password = "Sesame-4711"
    folder = os.path.dirname(WORLD.server.cert)
    secret = os.path.join(folder, "secret.pem")
    p12 = os.path.join(folder, "server.p12")
    WORLD.made._run("pkcs8", "-topk8", "-in", WORLD.server.key, "-out", secret, "-passout", "pass:" + password)
    with open(secret, "a", encoding="ascii") as both, open(WORLD.server.cert, encoding="ascii") as cert:
        both.write(cert.read())
    WORLD.made._run("pkcs12", "-export", "-in", WORLD.server.cert, "-inkey", WORLD.server.key, "-out", p12, "-passout",
                    "pass:" + password)
    for store in (secret, p12):
        words = ["--secureClientPort", "0", "--ssl.keyStore.location", store, "--ssl.keyStore.password", password,
                 "--ssl.trustStore.location", WORLD.ca.cert, "--ssl.trustStore.type", "PEM", "--ssl.enabledProtocols",
                 "TLSv1.2", "--ssl.ciphersuites", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]
        with Conclave(words) as server:
            with connect(server.secure_port, WORLD.alice) as raw:
                expect(raw.socket.version() == "TLSv1.2", raw.socket.version())
                expect(raw.socket.cipher()[0] == "ECDHE-ECDSA-AES128-GCM-SHA256", raw.socket.cipher())
            expect(password not in server.log_tail(1 << 20), "the password is in the log")


def main():
    global WORLD
    missing = why_missing() or certs.why_missing()
    if missing:
        return cases.skip_all(missing)
    with tempfile.TemporaryDirectory(prefix="conclave-test-tls-") as folder:
        WORLD = World(folder)
        return cases.run(CASES, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
