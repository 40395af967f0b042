#!/usr/bin/env python3
"""SASL and the audit log: the same users, clients and faults on Apache ZooKeeper and on ours, the same outcomes.

Promise: kazoo, Apache's command line client, our commands and raw tokens do DIGEST-MD5, and Apache's client and our
commands also GSSAPI against a private Kerberos, on servers configured alike; what they saw must be the same. In the end no secret that was used
stands in a log of ours. GSSAPI is skipped where Debian's krb5-kdc is not installed.
Limits: Debian's C client is built without SASL, so it is not here.
"""

import logging
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import conclave  # noqa: E402
import kerberos  # noqa: E402
import pair  # noqa: E402
import zkwire  # noqa: E402
import zookeeper  # noqa: E402

try:
    from kazoo import exceptions
    from kazoo.client import KazooClient
    from kazoo.protocol.states import KeeperState
    from kazoo.security import make_acl
    from puresasl.client import SASLClient
except ImportError as missing:
    print(f"skipped: {missing} (Debian: python3-kazoo, python3-pure-sasl)")
    sys.exit(77)

logging.disable(logging.CRITICAL)
PATIENCE_S = 15
USERS = {"bob": "bobs geheimnis", "alice": 'al"ic\\e', "super": "supergeheim", "boss": "chefgeheim"}
WRONG = "falschgeraten"
DIGEST_SECRET = "nochgeheimer"
PROVIDER = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
LOGIN = "org.apache.zookeeper.server.auth.DigestLoginModule required"
ZKCLI = "/usr/share/zookeeper/bin/zkCli.sh"


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_private(path, text):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return path


# --- servers ------------------------------------------------------------------------------------------------------

class Setup:
    """Both servers, configured alike; their logs are searched for secrets when they end."""

    def __init__(self, settings, jaas=None, krb5_conf=None):
        properties = {"org.slf4j.simpleLogger.log.org.apache.zookeeper.audit": "info"}
        if krb5_conf:
            properties["java.security.krb5.conf"] = krb5_conf
        self.theirs = zookeeper.ZooKeeper(settings, properties)
        options = [word for key, value in settings.items() for word in (f"--{key}", value)]
        self.ours = conclave.Conclave(options)
        self.ours.options += ["--audit.file", os.path.join(self.ours.folder, "audit")]
        if krb5_conf:
            self.ours.environment = lambda: {**os.environ, "KRB5_CONFIG": krb5_conf}
        if jaas:
            theirs = write_private(os.path.join(self.theirs.folder, "jaas.conf"), jaas)
            properties["java.security.auth.login.config"] = theirs
            ours = write_private(os.path.join(self.ours.folder, "jaas.conf"), jaas)
            self.ours.options += ["--sasl.jaas.file", ours]

    def __enter__(self):
        self.theirs.start()
        self.ours.start()
        return self.theirs, self.ours

    def __exit__(self, *_):
        try:
            self.ours.stop()
            for path in (self.ours.log_path, os.path.join(self.ours.folder, "audit")):
                if os.path.exists(path):
                    with open(path, "rb") as file:
                        check_secrets(path, file.read())
        finally:
            self.theirs.destroy()
            self.ours.destroy()


def check_secrets(path, text):
    for secret in [*USERS.values(), WRONG, DIGEST_SECRET]:
        assert secret.encode() not in text, f"{path} holds the secret {secret!r}"


def digest_jaas():
    users = "\n".join(f"  user_{name}={quoted(password)}" for name, password in USERS.items())
    return f"Server {{\n  {LOGIN}\n{users};\n}};\n"


# --- clients ------------------------------------------------------------------------------------------------------

class Client:
    """A started kazoo client; its first request tells whether the login was taken."""

    def __init__(self, server, user=None, password=None):
        options = {}
        if user:
            password = USERS[user] if password is None else password
            options["sasl_options"] = {"mechanism": "DIGEST-MD5", "username": user, "password": password}
        self.kazoo = KazooClient(hosts=server.host, timeout=10.0, **options)
        self.refused = False
        self.state_changed = self.kazoo._session_callback
        self.kazoo._session_callback = self.note_refusal

    def note_refusal(self, state):
        self.refused = self.refused or state == KeeperState.AUTH_FAILED
        self.state_changed(state)

    def __enter__(self):
        try:
            self.kazoo.start(timeout=PATIENCE_S)
        except self.kazoo.handler.timeout_exception:
            if not self.refused:
                raise
            # kazoo's start() times out when the refusal came before it began to wait.
            raise exceptions.AuthFailedError from None
        return self.kazoo

    def __exit__(self, *_):
        try:
            self.kazoo.stop()
            self.kazoo.close()
        except exceptions.KazooException:
            pass  # kazoo tells the failed login once more


def error_of(call, *args, **options):
    try:
        return f"returned {call(*args, **options)!r}"
    except exceptions.KazooException as error:
        return type(error).__name__


def login_outcome(server, user, password=None):
    """The result of a kazoo client's first read."""
    try:
        with Client(server, user, password) as client:
            return error_of(lambda: client.get("/zookeeper")[0])
    except exceptions.KazooException as error:
        return type(error).__name__


def acl_of(client, path):
    return sorted((acl.perms, acl.id.scheme, acl.id.id) for acl in client.get_acls(path)[0])


class RawLogin:
    """DIGEST-MD5 token by token on a raw connection."""

    def __init__(self, server, user, password):
        self.connection = zkwire.Connection(server.address)
        self.sasl = SASLClient("zk-sasl-md5", "zookeeper", mechanism="DIGEST-MD5", username=user, password=password)

    def send(self, token):
        """(zxid, err, bytes of the record, whether it is a token)."""
        self.connection.send(zkwire.Request(zkwire.SASL, zkwire.buffer(token)))
        reply = self.connection.read_reply()
        decoder = zkwire.Decoder(reply.body)
        self.token = decoder.buffer() if reply.body else None
        return reply.zxid, reply.err, len(reply.body) > 4, self.token is not None

    def run(self):
        first = self.send(b"")
        second = self.send(self.sasl.process(self.token) if self.token else b"x")
        return first, second

    def closed(self):
        """Whether the server closes now."""
        try:
            self.connection.call(zkwire.get_data("/zookeeper"))
            return False
        except zkwire.Closed:
            return True


def zkcli(server, script, jaas, jvm=()):
    """The lines of what Apache's client prints, sorted, without what differs from run to run."""
    if not os.access(ZKCLI, os.X_OK):
        raise pair.Skip(f"no {ZKCLI} (Debian: zookeeper)")
    path = write_private(os.path.join(server.folder, "client-jaas.conf"), jaas)
    flags = ["-Dzookeeper.logger=none", "-Djline.terminal=dumb", f"-Djava.security.auth.login.config={path}", *jvm]
    done = subprocess.run([ZKCLI, "-server", server.host], input=script + "quit\n", capture_output=True, text=True,
                          timeout=60, check=False, env={**os.environ, "CLIENT_JVMFLAGS": " ".join(flags)})
    lines = (done.stdout + done.stderr).split("\n")
    lines = [re.sub(r"127\.0\.0\.1:\d+|sessionid:0x[0-9a-f]+", "...", line).rstrip() for line in lines]
    # Whether it still prints that it has closed before it ends is left to its threads.
    noise = ("WATCHER::", "WatchedEvent state:Closed", "Welcome", "JLine")
    return sorted(line for line in lines if line and not line.startswith(noise))


def client_jaas(user, password):
    return f"Client {{\n  {LOGIN} username={quoted(user)} password={quoted(password)};\n}};\n"


# --- cases with users ---------------------------------------------------------------------------------------------

def kazoo_logins(server):
    seen = {user: login_outcome(server, user) for user in USERS}
    assert all(outcome.startswith("returned") for outcome in seen.values()), seen
    refused = [login_outcome(server, "bob", WRONG), login_outcome(server, "nobody", WRONG),
               login_outcome(server, "bob", USERS["alice"])]
    assert refused == ["AuthFailedError"] * 3, refused
    return seen, refused, login_outcome(server, None)


def acls_are_enforced(server):
    with Client(server, "bob") as bob, Client(server, "alice") as alice, Client(server) as nobody:
        bob.create("/bobs", b"x", acl=[make_acl("sasl", "bob", all=True)])
        seen = [acl_of(bob, "/bobs"), bob.get("/bobs")[0]]
        for other in (alice, nobody):
            outcomes = [error_of(other.get, "/bobs"), error_of(other.set, "/bobs", b"y"),
                        error_of(other.create, "/bobs/c"), error_of(other.get_children, "/bobs")]
            assert outcomes == ["NoAuthError"] * 4, outcomes
            seen.append(outcomes)
        bob.create("/mine", acl=[make_acl("auth", "", all=True)])
        seen.append(acl_of(bob, "/mine"))
        seen.append(error_of(nobody.create, "/none", acl=[make_acl("auth", "", all=True)]))
        for index, name in enumerate(("eve@REALM", "eve/host@REALM", "eve@a@b", "a/b/c@d", "", "eve")):
            seen.append((name, error_of(nobody.create, f"/id{index}", acl=[make_acl("sasl", name, all=True)])))
    return seen


def super_users(server):
    """superUser is the superuser; the user super is one for entries of the scheme sasl only."""
    seen = []
    with Client(server, "bob") as bob, Client(server, "boss") as boss, Client(server, "super") as named_super:
        bob.create("/closed", acl=[make_acl("sasl", "bob", all=True)])
        bob.create("/digest", acl=[make_acl("digest", "x:y", all=True)])
        for client in (boss, named_super):
            seen.append([error_of(lambda: client.get("/closed")[0]), error_of(lambda: client.get("/digest")[0])])
    assert seen == [["returned b''"] * 2, ["returned b''", "NoAuthError"]], seen
    return seen


def any_sasl_user(server):
    with Client(server, "alice") as alice, Client(server, "bob") as bob, Client(server) as nobody:
        alice.create("/any", b"for all", acl=[make_acl("sasl", "everysasl", all=True)])
        alice.create("/any/own", acl=[make_acl("auth", "", all=True)])
        seen = [error_of(lambda: client.get("/any")[0]) for client in (alice, bob, nobody)]
        return seen + [acl_of(alice, "/any/own")]


def who_am_i(raw):
    """The ids, which are a set."""
    err, fields = raw.connection.call(zkwire.who_am_i())
    return err, sorted(fields["who"])


def raw_tokens(server):
    seen = []
    for user, password in (("bob", USERS["bob"]), ("bob", WRONG), ("nobody", WRONG)):
        raw = RawLogin(server, user, password)
        seen.append((raw.run(), raw.closed()))
        raw.connection.drop()
    assert seen[0][0][1][1] == 0 and seen[1][0][1][1] == seen[2][0][1][1] == -115, seen
    raw = RawLogin(server, "bob", USERS["bob"])
    raw.run()
    seen.append(who_am_i(raw))
    raw = RawLogin(server, "bob", "")
    seen.append((raw.send(b'username="bob"'), raw.closed()))
    for garbage in (b",", b"=", b'"', b"nonce", b'username="', b"a=b,,,c", b"\0", b"x" * 4096):
        raw = RawLogin(server, "bob", "")
        raw.send(b"")
        seen.append((raw.send(garbage), raw.closed()))
    return seen


def challenge(server):
    """The directives of the first token; their order and the nonce are free."""
    raw = RawLogin(server, "bob", "")
    raw.send(b"")
    text = raw.token.decode()
    fields = dict(re.findall(r'([a-z-]+)=("[^"]*"|[^,]*)', text))
    fields.pop("nonce")
    assert fields["realm"] == '"zk-sasl-md5"', text
    # Java leaves it out: its only value here is the default.
    assert fields.pop("qop", '"auth"') == '"auth"', text
    # Counts only where a layer is offered.
    fields.pop("maxbuf", None)
    return sorted(fields.items())


JAVA_SCRIPT = """whoami
create /java x sasl:bob:cdrwa
getAcl /java
create /java/auth x auth::r
getAcl /java/auth
get /java
get /bobs
"""


def java_client(server):
    good = zkcli(server, JAVA_SCRIPT, client_jaas("bob", USERS["bob"]))
    assert any("sasl: bob" in line for line in good), good
    other = zkcli(server, "get /java\nset /java y\nwhoami\n", client_jaas("alice", USERS["alice"]))
    assert any("Insufficient permission" in line or "NoAuth" in line for line in other), other
    return good, other


def java_client_refused(server):
    lines = zkcli(server, "get /java\n", client_jaas("bob", WRONG))
    assert any("AuthFailed" in line for line in lines), lines
    return [line for line in lines if "AuthFailed" in line]


AUDIT_NOISE = re.compile(r"session=0x[0-9a-f]+")


def audit_lines(server, since):
    """The bodies of the lines behind the one that names `since`."""
    path = os.path.join(server.folder, "audit")
    with open(path if os.path.exists(path) else server.log_path, encoding="utf-8") as file:
        text = file.read()
    bodies = [re.sub(r".*audit\.Slf4jAuditLogger( -|:) ", "", line) for line in text.split("\n")
              if "Slf4jAuditLogger" in line and "result=" in line]
    bodies = [AUDIT_NOISE.sub("session=S", body) for body in bodies]
    # Apache's users are a set.
    bodies = [re.sub(r"user=([^\t]*)", lambda match: "user=" + ",".join(sorted(match[1].split(","))), body)
              for body in bodies]
    marks = [index for index, body in enumerate(bodies) if f"znode={since}\t" in body]
    # Ours tells logins, too.
    return [body for body in bodies[marks[0]:] if "operation=sasl" not in body and "operation=auth\t" not in body]


def audit_log(server):
    with Client(server, "bob") as bob, Client(server) as nobody:
        bob.create("/audit-begins")
        bob.create("/audit", b"data")
        error_of(bob.create, "/audit")
        bob.create("/audit/seq-", sequence=True)
        bob.create("/audit/eph", ephemeral=True)
        bob.set("/audit", b"more")
        error_of(bob.set, "/audit", b"wrong", version=99)
        bob.set_acls("/audit", [make_acl("sasl", "bob", all=True), make_acl("world", "anyone", read=True)])
        error_of(nobody.set, "/audit", b"denied")
        transaction = bob.transaction()
        transaction.create("/audit/t", b"")
        transaction.set_data("/audit", b"t")
        transaction.check("/audit", 2)
        transaction.delete("/audit/t")
        transaction.commit()
        transaction = bob.transaction()
        transaction.delete("/audit/t")
        transaction.commit()
        bob.delete("/audit/seq-0000000000")
        error_of(bob.delete, "/audit/none")
    deadline = time.monotonic() + 10  # both write behind the reply
    lines = []
    while not any("znode=/audit/none\t" in line for line in lines):
        assert time.monotonic() < deadline, lines
        time.sleep(0.05)
        lines = audit_lines(server, "/audit-begins")
    assert len(lines) >= 14, lines
    return lines


# --- our commands -------------------------------------------------------------------------------------------------

def command(server, *words, stdin="", **environment):
    """[exit code, lines of the output in order, what was said of the login]"""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("CONCLAVE_AUTH", "CONCLAVE_SASL"))}
    done = subprocess.run([conclave.program(), *words], input=stdin, capture_output=True, text=True, timeout=60,
                          check=False, env={**env, "CONCLAVE_SERVER": server.host, **environment})
    said = re.findall(r"refused the login|not offer SASL|not accept the login|GSSAPI Error|others can read|\([A-Z_]+\)",
                      done.stderr)
    assert not any(secret in done.stdout + done.stderr for secret in USERS.values()), done
    return [done.returncode, sorted(done.stdout.split("\n")), said]


def password_file(server, password, mode=0o600):
    path = write_private(os.path.join(server.folder, "password"), password + "\nnot the password\n")
    os.chmod(path, mode)
    return path


def commands(server):
    """Who is let in, by which option and variable, and who is not."""
    mine = ("--sasl-user", "bob", "--sasl-password-file", password_file(server, USERS["bob"]))
    seen = [command(server, *words) for words in (
        ("whoami", *mine), ("create", "/cmd", "x", *mine), ("acl", "set", "/cmd", "auth::cdrwa", *mine),
        ("acl", "get", "/cmd", *mine), ("get", "/cmd"), ("get", "/cmd", "--sasl-mechanism", "DIGEST-MD5", *mine),
        ("elect", "/cmd/elect", *mine, "--", "echo", "led"))]
    assert seen[0][0] == 0 and "sasl:bob" in seen[0][1], seen[0]
    assert [row[0] for row in seen] == [0, 0, 0, 0, 77, 0, 0] and "led" in seen[-1][1], seen
    for name, password in USERS.items():
        seen.append(command(server, "whoami", CONCLAVE_SASL_USER=name, CONCLAVE_SASL_PASSWORD=password))
        assert f"sasl:{name}" in seen[-1][1], seen[-1]
    script = "whoami\nget /cmd\nget /cmd --timeout 4s\nwhoami --sasl-user nobody\nrm -r /cmd\n"
    seen.append(command(server, "shell", *mine, stdin=script, CONCLAVE_SASL_PASSWORD=WRONG))
    assert seen[-1][1].count("sasl:bob") == 1 and seen[-1][2] == ["refused the login"], seen[-1]
    return seen


def commands_refused(server):
    user = ("whoami", "--sasl-user", "bob")
    seen = [command(server, *user, "--sasl-password-file", password_file(server, WRONG)),
            command(server, "whoami", "--sasl-user", "nobody", CONCLAVE_SASL_PASSWORD=WRONG),
            command(server, *user, CONCLAVE_SASL_PASSWORD=USERS["alice"]),
            command(server, "elect", "/refused", "--sasl-user", "bob", "--", "true", CONCLAVE_SASL_PASSWORD=WRONG)]
    assert all(row[0] == 77 and row[2] == ["refused the login"] for row in seen), seen
    wrong = [command(server, *user), command(server, *user, CONCLAVE_SASL_PASSWORD=""),
             command(server, "whoami", "--sasl-mechanism", "PLAIN"),
             command(server, *user, "--sasl-password-file", os.path.join(server.folder, "none")),
             command(server, *user, "--sasl-mechanism", "GSSAPI")]
    assert all(row[0] == 64 for row in wrong), wrong
    careless = password_file(server, USERS["bob"], 0o644)
    seen.append(command(server, *user, "--sasl-password-file", careless))
    assert seen[-1][0] == 0 and seen[-1][2] == ["others can read"], seen[-1]
    return seen


def reconnect(server):
    """The server ends and is back: the shell's session, its node and its id are there again."""
    env = {**os.environ, "CONCLAVE_SASL_PASSWORD": USERS["bob"]}
    shell = subprocess.Popen([conclave.program(), "shell", "--sasl-user", "bob", "--timeout", "20s", "--session", "20s",
                              "--server", server.host], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    shell.stdin.write("create /back x -e\nacl set /back auth::cdrwa\nacl get /back\n")
    shell.stdin.flush()
    lines = [shell.stdout.readline() for _ in range(2)]
    server.stop()
    server.start()
    # A request may go over the link that ends: repeat until one is answered.
    shell.stdin.write("ls /back\nls /back\nget /back --json\nwhoami\n")
    out, _ = shell.communicate(timeout=60)
    owner = re.search(r'"ephemeral_owner":"?(\w+)', out)
    assert owner and int(owner.group(1), 0) != 0 and "sasl:bob" in out, out
    return lines, sorted(line for line in out.split("\n") if not line.startswith("{"))


# --- cases on other servers ---------------------------------------------------------------------------------------

def required(server):
    seen = [login_outcome(server, "bob")]
    for first in (zkwire.get_data("/"), zkwire.ping(), zkwire.create("/x"), zkwire.close_session()):
        connection = zkwire.Connection(server.address)
        xid = connection.send(first)
        reply = connection.read_reply()
        try:
            connection.read_reply()
            closed = False
        except zkwire.Closed:
            closed = True
        seen.append((reply.xid == xid, reply.zxid, reply.err, closed))
    raw = RawLogin(server, "bob", WRONG)
    seen.append((raw.run(), raw.closed()))
    assert seen[1][2] == seen[-1][0][1][1] == -124, seen
    for password in (USERS["bob"], WRONG):
        seen.append(command(server, "get", "/zookeeper", "--sasl-user", "bob", CONCLAVE_SASL_PASSWORD=password))
    assert [row[0] for row in seen[-2:]] == [0, 77], seen[-2:]
    return seen


def lenient(server):
    raw = RawLogin(server, "bob", WRONG)
    seen = [raw.run(), raw.closed(), raw.send(b"again")[1:]]
    seen.append(who_am_i(raw))
    assert seen[0][1][1] == 0 and not seen[1], seen
    # Our client does not continue under another identity than the configured one.
    seen.append(command(server, "whoami", "--sasl-user", "bob", CONCLAVE_SASL_PASSWORD=WRONG))
    assert seen[-1][0] == 77 and "not accept the login" in seen[-1][2], seen[-1]
    return seen


def without_sasl(server):
    raw = RawLogin(server, "bob", WRONG)
    seen = [raw.send(b""), raw.closed(), raw.send(b"x")]
    with Client(server) as client:
        seen.append(error_of(client.create, "/s", acl=[make_acl("sasl", "bob", all=True)]))
    seen.append(command(server, "whoami", "--sasl-user", "bob", CONCLAVE_SASL_PASSWORD=WRONG))
    assert seen[-1][0] == 77 and seen[-1][2] == ["not offer SASL"], seen[-1]
    return seen


def gssapi_garbage(server):
    seen = []
    for token in (b"", b"garbage", b"\x60" * 4096, b"\x60\x06\x06\x04abcd"):
        raw = RawLogin(server, "bob", WRONG)
        seen.append((raw.send(token), raw.closed()))
    assert all(first[1] == -115 and closed for first, closed in seen), seen
    return seen


def gssapi_case(kdc, client_options):
    def gssapi(server):
        good = zkcli(server, "whoami\ncreate /krb x auth::cdrwa\ngetAcl /krb\n", kdc.client_jaas("alice"),
                     client_options)
        assert any("sasl: alice" in line for line in good), good
        service = zkcli(server, "whoami\nget /krb\n", kdc.client_jaas("svc/worker"), client_options)
        return good, service
    return gssapi


def gssapi_commands_case(kdc):
    def gssapi_commands(server):
        ours = ("--sasl-mechanism", "GSSAPI", "--sasl-host", "localhost")
        good = {"KRB5_CONFIG": kdc.conf, "KRB5_CLIENT_KTNAME": kdc.keytab_of("svc/worker"), "KRB5CCNAME": "MEMORY:"}
        seen = [command(server, "whoami", *ours, **good)]
        assert seen[0][0] == 0 and any(line.startswith("sasl:svc") for line in seen[0][1]), seen
        seen += [command(server, "whoami", *ours, **{**good, "KRB5_CLIENT_KTNAME": "/none"}),
                 command(server, "whoami", *ours[:2], "--sasl-host", "elsewhere.test", **good),
                 command(server, "whoami", *ours, "--sasl-service", "other", **good),
                 command(server, "whoami", "--sasl-user", "bob", CONCLAVE_SASL_PASSWORD=WRONG)]
        assert all(row[0] == 77 and row[2] in (["GSSAPI Error"], ["refused the login"]) for row in seen[1:]), seen
        return seen
    return gssapi_commands


# --- the run ------------------------------------------------------------------------------------------------------

COMMON = {"authProvider.1": PROVIDER, "audit.enable": "true"}


def run_on(setup, cases, only):
    """(passed, failed, skipped)"""
    counts = [0, 0, 0]
    cases = [case for case in cases if not only or case.__name__ in only]
    if not cases:
        return counts
    with setup as servers:
        for case in cases:
            try:
                counts[0 if pair.run_case(case, servers) else 1] += 1
            except pair.Skip as reason:
                counts[2] += 1
                print(f"skipped {case.__name__}: {reason}")
    return counts


def digest_setups():
    yield Setup({**COMMON, "superUser": "boss", "letAnySaslUserDoX": "everysasl"}, digest_jaas()), \
        [kazoo_logins, acls_are_enforced, super_users, any_sasl_user, raw_tokens, challenge, java_client,
         java_client_refused, commands, commands_refused, audit_log, reconnect]
    yield Setup({**COMMON, "sessionRequireClientSASLAuth": "true"}, digest_jaas()), [required]
    yield Setup({**COMMON, "allowSaslFailedClients": "true"}, digest_jaas()), [lenient]
    yield Setup({}), [without_sasl]


def gssapi_setups(kdc):
    jvm = [f"-Djava.security.krb5.conf={kdc.conf}", f"-Dzookeeper.server.principal={kdc.service}"]
    for settings in ({}, {"kerberos.removeRealmFromPrincipal": "true", "kerberos.removeHostFromPrincipal": "true"}):
        yield Setup({**COMMON, **settings}, kdc.server_jaas(), kdc.conf), [gssapi_case(kdc, jvm), gssapi_commands_case(kdc),
                                                            gssapi_garbage]


def main():
    missing = zookeeper.why_missing() or conclave.why_missing()
    if missing:
        print(f"skipped: {missing}")
        return 77
    only = sys.argv[1:]
    counts = [0, 0, 0]
    for setup, cases in digest_setups():
        counts = [a + b for a, b in zip(counts, run_on(setup, cases, only))]
    missing = kerberos.why_missing()
    if missing:
        print(f"skipped gssapi: {missing}")
        counts[2] += 1
    else:
        with kerberos.Kdc() as kdc:
            for setup, cases in gssapi_setups(kdc):
                counts = [a + b for a, b in zip(counts, run_on(setup, cases, only))]
    print(f"{counts[0]} passed, {counts[1]} failed" + (f", {counts[2]} skipped" if counts[2] else ""))
    return 1 if counts[1] else 0


if __name__ == "__main__":
    sys.exit(main())
