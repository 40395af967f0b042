#!/usr/bin/env python3
"""TLS with Java: the Java client (Netty) against our server, and Apache ZooKeeper beside ours on certificates as ids.

Promise: the Java client comes in with a good certificate on the secure port and on the port for both; without one, or with
one that is expired or of another CA, it does not, and our log says why. What a certificate's subject becomes in an
ACL is the same on Apache ZooKeeper and on ours, for names with every kind of oddity.
Limits: needs Debian's zookeeper, libnetty-java and a Java runtime; one JVM per command: seconds each.
"""

import os
import ssl
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import certs  # noqa: E402
import conclave  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from server import free_port  # noqa: E402

JARS = [f"/usr/share/java/netty-{part}.jar" for part in (
    "buffer", "codec", "common", "handler", "resolver", "transport", "transport-native-unix-common",
    "transport-native-epoll")]
CLASSPATH = ":".join([zookeeper.JAR, zookeeper.LOGGER, *JARS])
SUBJECTS = ["/CN=plain", "/C=DE/ST=Bavaria/L=Munich/O=Acme, Inc/OU=a\\+b/CN=x=y", "/DC=org/DC=example/UID=u/CN=dc",
            "/O=  spaces  /CN=#hash", "/CN=q\"u<o>t;e\\\\d", "/CN=Jos\u00e9 \u65e5\u672c", "/O=m/CN=multi+OU=valued",
            "/CN=mail/emailAddress=a@b.c", "/CN=n/serialNumber=12/title=Dr", "/street=Road 1/CN=street"]


class SecureZooKeeper(zookeeper.ZooKeeper):
    """Apache ZooKeeper with a secure port."""

    def __init__(self, own, ca):
        self.secure_port = free_port()
        prefix = "zookeeper.ssl."
        super().__init__({"secureClientPort": self.secure_port, "authProvider.x509":
                          "org.apache.zookeeper.server.auth.X509AuthenticationProvider"},
                         {"zookeeper.serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                          prefix + "keyStore.location": own.both, prefix + "keyStore.type": "PEM",
                          prefix + "trustStore.location": ca.cert, prefix + "trustStore.type": "PEM"})

    def command(self):
        words = super().command()
        words[words.index("-cp") + 1] = CLASSPATH
        return words


def why_missing():
    gone = [jar for jar in JARS if not os.path.exists(jar)]
    return (conclave.why_missing() or certs.why_missing() or zookeeper.why_missing() or
            (f"no {gone[0]} (Debian: libnetty-java)" if gone else None))


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def our_options(world):
    return ["--secureClientPort", "0", "--client.portUnification", "true", "--ssl.keyStore.location",
            world["server"].both, "--ssl.trustStore.location", world["ca"].cert]


def java(world, port, own, *words):
    """One command of ZooKeeperMain: (exit code, output)."""
    prefix = "-Dzookeeper.ssl."
    line = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dzookeeper.client.secure=true",
            "-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
            f"{prefix}trustStore.location={world['ca'].cert}", f"{prefix}trustStore.type=PEM"]
    if own is not None:
        line += [f"{prefix}keyStore.location={own.both}", f"{prefix}keyStore.type=PEM"]
    line += ["-cp", CLASSPATH, zookeeper.CLIENT_MAIN, "-timeout", "30000", "-server", f"127.0.0.1:{port}", *words]
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


def java_with_a_certificate(world):
    with conclave.Conclave(our_options(world)) as server:
        for number, port in enumerate((server.secure_port, server.port)):
            code, out = java(world, port, world["client"], "create", f"/java{number}", "hello")
            expect(code == 0 and f"Created /java{number}" in out, out)
            code, out = java(world, port, world["client"], "get", f"/java{number}")
            expect(code == 0 and "hello" in out, out)


def java_refused(world):
    rows = [(None, "the client sent no certificate"),
            (world["expired"], "the client's certificate 'CN=expired': certificate has expired"),
            # Java keeps a certificate back when the server names other issuers.
            (world["stranger"], "the client sent no certificate")]
    for own, wanted in rows:
        with conclave.Conclave(our_options(world)) as server:  # a new one each: the log has a reason once a minute
            code, out = java(world, server.secure_port, own, "create", "/never", "x")
            expect(code != 0 and "Created" not in out, out)
            log = server.log_tail(1 << 20)
            expect(wanted in log, f"'{wanted}' is not in the log:\n{log}")


def id_of(world, port, own, path):
    """The ids that the ACL scheme "auth" means on this server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(world["ca"].cert)
    context.load_cert_chain(own.cert, own.key)
    with zk.Connection(("127.0.0.1", port), tls=context) as connection:
        err, _ = connection.call(zk.create(path, b"", acl=[(31, "auth", "")]))
        expect(err == 0, f"create: {err}")
        err, fields = connection.call(zk.get_acl(path))
        expect(err == 0, f"getACL: {err}")
        # The id itself must be acceptable, too, and mean the same client.
        entries = fields["acl"]
        err, _ = connection.call(zk.set_acl(path, acl=entries))
        expect(err == 0, f"setACL {entries}: {err}")
        err, _ = connection.call(zk.get_data(path))
        expect(err == 0, f"getData under {entries}: {err}")
        return entries


def subjects_as_apache(world):
    own = [world["made"].make(f"subject{number}", subject, world["ca"]) for number, subject in enumerate(SUBJECTS)]
    with conclave.Conclave(our_options(world)) as ours, SecureZooKeeper(world["server"], world["ca"]) as theirs:
        for number, certificate in enumerate(own):
            path = f"/s{number}"
            here = id_of(world, ours.secure_port, certificate, path)
            there = id_of(world, theirs.secure_port, certificate, path)
            expect(here == there, f"{SUBJECTS[number]}: ours {here}, Apache's {there}")


def main():
    missing = why_missing()
    if missing:
        return cases.skip_all(missing)
    with tempfile.TemporaryDirectory(prefix="conclave-test-tls-") as folder:
        made = certs.Certificates(folder)
        ca = made.make("ca", "/CN=Test CA")
        world = {"made": made, "ca": ca, "server": made.make("server", "/CN=localhost", ca),
                 "client": made.make("client", "/CN=client", ca),
                 "expired": made.make("expired", "/CN=expired", ca, expired=True),
                 "stranger": made.make("stranger", "/CN=stranger", made.make("other-ca", "/CN=Other CA"))}
        functions = (java_with_a_certificate, java_refused, subjects_as_apache)
        return cases.run([cases.bound(function, world) for function in functions], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
