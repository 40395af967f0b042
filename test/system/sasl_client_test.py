#!/usr/bin/env python3
"""The library's login by SASL (sasl_client.c) against Conclave's server and against Apache ZooKeeper.

Promise: the same tests for both servers and both mechanisms; tests that cannot run here are named and skipped. GSSAPI needs a
Kerberos of its own (Debian: krb5-kdc); only the key server that never answers is played by the test itself.
Limits: one server each, on loopback.

usage: sasl_client_test.py
"""

import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import conclave  # noqa: E402
import kerberos  # noqa: E402
import zookeeper  # noqa: E402

PROGRAM = os.path.join(os.environ.get("CONCLAVE_BUILD", "build"), "test", "system", "sasl_client")
SETTINGS = {"minSessionTimeout": "1000", "maxSessionTimeout": "60000",
            "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
TICK_MS = 500
SKIPPED_EXIT = 77
USER, PASSWORD = "bob", 'ge"he\\im'
DIGEST_JAAS = ('Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n'
               '  user_bob="ge\\"he\\\\im";\n};\n')


def make_zookeeper(jaas, krb5_conf=None):
    properties = {"java.security.auth.login.config": jaas}
    if krb5_conf:
        properties["java.security.krb5.conf"] = krb5_conf
    return zookeeper.ZooKeeper(SETTINGS, properties, tick_ms=TICK_MS)


def make_conclave(jaas, krb5_conf=None):
    options = [word for key, value in SETTINGS.items() for word in ("--" + key, value)]
    server = conclave.Conclave([*options, "--sasl.jaas.file", jaas], tick_ms=TICK_MS)
    if krb5_conf:
        server.environment = lambda: {**os.environ, "KRB5_CONFIG": krb5_conf}
    return server


SERVERS = [("zookeeper", zookeeper.why_missing, make_zookeeper), ("conclave", conclave.why_missing, make_conclave)]


def run_program(server, *words, **environment):
    """(passed, failed)"""
    done = subprocess.run([PROGRAM, str(server.port), *words], stdout=subprocess.PIPE, text=True, check=False,
                          env={**os.environ, **environment})
    sys.stdout.write(done.stdout)
    counts = re.search(r"^(\d+) passed, (\d+) failed$", done.stdout, re.MULTILINE)
    if not counts or done.returncode not in (0, 1):
        print(f"{server.name}: sasl_client {words[0]} ended with {done.returncode}")
        return 0, 1
    # A sanitizer's report changes the exit code only.
    passed, failed = int(counts[1]), int(counts[2])
    return passed, failed + (done.returncode != 0 and failed == 0)


def write(folder, name, data):
    path = os.path.join(folder, name)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(data)
    return path


def on_each_server(jaas, krb5_conf, results, run):
    for name, why_missing, make in SERVERS:
        missing = why_missing()
        if missing:
            results.append((0, 0, f"{name}: {missing}"))
            continue
        with make(jaas, krb5_conf) as server:
            results.append((*run(server), None))


def digest(folder, results):
    jaas = write(folder, "jaas", DIGEST_JAAS.encode())
    on_each_server(jaas, None, results, lambda server: run_program(server, "DIGEST-MD5", USER, USER, PASSWORD))


def gssapi(folder, results):
    missing = kerberos.why_missing()
    if missing:
        results.append((0, 0, f"GSSAPI: {missing}"))
        return
    with kerberos.Kdc() as kdc:
        jaas = write(folder, "jaas-krb5", kdc.server_jaas().encode())
        environment = {"KRB5_CONFIG": kdc.conf, "KRB5_CLIENT_KTNAME": kdc.keytab, "KRB5CCNAME": "MEMORY:"}
        # The first key of the keytab is the service's own: whose it is does not matter here.
        on_each_server(jaas, kdc.conf, results,
                       lambda server: run_program(server, "GSSAPI", kdc.service, "localhost", **environment))


def counted(text):
    return struct.pack(">H", len(text)) + text


def keytab(realm, name):
    """A keytab of one AES key: MIT's format 2."""
    key = struct.pack(">HH", 18, 32) + bytes(32)
    entry = struct.pack(">H", 1) + counted(realm) + counted(name) + struct.pack(">IIB", 1, 0, 1) + key
    return b"\x05\x02" + struct.pack(">i", len(entry)) + entry


def stalled(folder, results):
    """A key server that takes questions and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        realm = "STALLED.TEST"
        conf = write(folder, "krb5.conf", f"""[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_canonicalize_hostname = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{silent.getsockname()[1]}
 }}
""".encode())
        environment = {"KRB5_CONFIG": conf, "KRB5CCNAME": "MEMORY:",
                       "KRB5_CLIENT_KTNAME": write(folder, "keytab", keytab(realm.encode(), b"anna"))}
        jaas = os.path.join(folder, "jaas")
        with make_conclave(jaas) as server:
            results.append((*run_program(server, "stalled", "localhost", **environment), None))


def main():
    began = time.monotonic()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        digest(folder, results)
        gssapi(folder, results)
        if conclave.why_missing() is None:
            stalled(folder, results)
    skipped = [reason for _, _, reason in results if reason]
    for reason in skipped:
        print(f"skipped: {reason}")
    passed, failed = sum(r[0] for r in results), sum(r[1] for r in results)
    if passed + failed == 0:
        return SKIPPED_EXIT
    print(f"in {time.monotonic() - began:.0f} s")
    print(f"{passed} passed, {failed} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
