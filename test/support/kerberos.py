"""A private Kerberos: one KDC of MIT on a loopback port, with its own configuration, database and keytabs.

Promise: nothing of the system's Kerberos is read or changed; the process ends by its id, the folder is removed.
Limits: needs Debian's krb5-kdc and krb5-admin-server (kadmin.local), installed or as tools/install-deps --test unpacks them
into .deps/krb5; `why_missing()` says what is not there.
"""

import glob
import os
import shutil
import signal
import socket
import subprocess
import time

from server import READY_S, Server, free_port

REALM = "CONCLAVE.TEST"
PROGRAMS = {"krb5kdc": "krb5-kdc", "kdb5_util": "krb5-kdc", "kadmin.local": "krb5-admin-server"}
UNPACKED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".deps", "krb5", "usr")
MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true useTicketCache=false"


def find(program):
    return shutil.which(program) or shutil.which(program, path=f"/usr/sbin:/sbin:{UNPACKED}/sbin")


def unpacked(pattern):
    """Folders of packages that are unpacked, not installed."""
    return [os.path.abspath(path) for path in glob.glob(os.path.join(UNPACKED, "lib", pattern))]


def why_missing():
    """Why there can be no KDC here, or None."""
    for program, package in PROGRAMS.items():
        if not find(program):
            return f"no {program} (Debian: {package})"
    return None


class Kdc(Server):
    """`with Kdc() as kdc:`; users alice and svc/worker, service zookeeper/localhost, keys in one keytab (or keytab_of one)."""

    name = "kdc"
    service = f"zookeeper/localhost@{REALM}"

    def __init__(self):
        super().__init__()
        self.port = free_port()
        self.conf = os.path.join(self.folder, "krb5.conf")
        self.keytab = os.path.join(self.folder, "keytab")

    def environment(self):
        return {**os.environ, "KRB5_CONFIG": self.conf, "KRB5_KDC_PROFILE": os.path.join(self.folder, "kdc.conf"),
                **({"LD_LIBRARY_PATH": ":".join(unpacked("*"))} if unpacked("*") else {})}

    def _write(self):
        with open(self.conf, "w", encoding="ascii") as file:
            file.write(f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
                       f" dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
                       f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n"
                       f"[domain_realm]\n localhost = {REALM}\n")
        modules = "".join(f"[dbmodules]\n db_module_dir = {path}\n" for path in unpacked("*/krb5/plugins/kdb"))
        with open(os.path.join(self.folder, "kdc.conf"), "w", encoding="ascii") as file:
            file.write(f"{modules}[kdcdefaults]\n kdc_listen = 127.0.0.1:{self.port}\n kdc_tcp_listen = 127.0.0.1:{self.port}\n"
                       f"[realms]\n {REALM} = {{\n  database_name = {self.folder}/principal\n"
                       f"  key_stash_file = {self.folder}/stash\n  acl_file = {self.folder}/acl\n }}\n"
                       f"[logging]\n kdc = FILE:{self.folder}/kdc.log\n")

    def _run(self, *words):
        done = subprocess.run(words, env=self.environment(), capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"{words[0]}: {done.stdout}{done.stderr}")

    def command(self):
        self._write()
        self._run(find("kdb5_util"), "create", "-r", REALM, "-s", "-W", "-P", "masterkey")
        for principal in (self.service, f"alice@{REALM}", f"svc/worker@{REALM}"):
            self._run(find("kadmin.local"), "-r", REALM, "addprinc", "-randkey", principal)
            self._run(find("kadmin.local"), "-r", REALM, "ktadd", "-k", self.keytab, principal)
        return [find("krb5kdc"), "-n", "-r", REALM]

    def keytab_of(self, user):
        """A keytab with the key of one user, by its path."""
        path = os.path.join(self.folder, "keytab-" + user.replace("/", "-"))
        if not os.path.exists(path):
            self._run(find("kadmin.local"), "-r", REALM, "ktadd", "-norandkey", "-k", path, f"{user}@{REALM}")
        return path

    def wait_ready(self):
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if not self.alive():
                self.fail(f"ended with exit code {self.process.poll()}")
            try:
                with socket.create_connection(self.address, timeout=1):
                    return
            except OSError:
                time.sleep(0.02)
        self.fail(f"not ready after {READY_S} s")

    def stop(self):
        return self._end(signal.SIGTERM)

    def server_jaas(self):
        return f'Server {{\n  {MODULE} keyTab="{self.keytab}" principal="{self.service}";\n}};\n'

    def client_jaas(self, user):
        return f'Client {{\n  {MODULE} keyTab="{self.keytab}" principal="{user}@{REALM}";\n}};\n'
