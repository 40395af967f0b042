"""Real Redis servers for tests, each a process with its port and folder, and a small client for them.

Promise: as test/support/server.py; a server starts in the requested role (a replica of another from its first moment
on if wanted); `restart` keeps its data, `restart_empty` does not; `freeze` and `thaw` are SIGSTOP and SIGCONT. The client
speaks RESP2 over TCP or TLS and raises Refused for an error reply, OSError for a lost link.
Limits: needs the program redis-server of Debian's package redis-tools, 6.0 or later, or another one (Valkey's, too) that
$CONCLAVE_TEST_REDIS names; loopback unless a member of a network that can be split says otherwise.
"""

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time

from server import READY_S, Server, free_port

PROGRAM = next((path for path in (os.environ.get("CONCLAVE_TEST_REDIS"), shutil.which("redis-server"), "/usr/bin/redis-check-rdb")
                if path and os.access(path, os.X_OK)), None)


def why_missing():
    """Why Redis cannot run here, or None."""
    return None if PROGRAM else "no program redis-server (Debian: redis-tools)"


class Refused(Exception):
    """An answer that is an error: its text, the code first."""

    @property
    def code(self):
        return str(self).partition(" ")[0]


class Client:
    """One connection. A call waits for its answer no longer than the timeout; a lost or late answer closes it."""

    def __init__(self, address, timeout_s=2.0, tls=None, user=None, password=None):
        self.socket = socket.create_connection(address, timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if tls:
                self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
            self.input = self.socket.makefile("rb")
            if password is not None:
                self.call("AUTH", *([user] if user else []), password)
        except BaseException:
            self.socket.close()
            raise

    def send(self, *words):
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts))

    def _line(self):
        line = self.input.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the link has ended")
        return line[:-2]

    def receive(self):
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            return Refused(rest.decode("utf-8", "replace"))
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            length = int(rest)
            if length < 0:
                return None
            data = self.input.read(length + 2)
            if len(data) != length + 2:
                raise ConnectionResetError("the link has ended")
            return data[:-2]
        if kind == b"*":
            return [self.receive() for _ in range(int(rest))] if int(rest) >= 0 else None
        raise ConnectionError(f"not RESP: {line!r}")

    def call(self, *words):
        self.send(*words)
        answer = self.receive()
        if isinstance(answer, Refused):
            raise answer
        return answer

    def info(self):
        """INFO as a dict of texts."""
        lines = self.call("INFO").decode("utf-8", "replace").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class RedisServer(Server):
    """A server that is a master, or a replica of `of` (another of these), from its first moment on.

    settings: lines of redis.conf. certificates: one with cert, key and a ca (test/support/certs.py): then TLS only.
    user, password: the login of clients, replicas and managers.
    """

    name = "redis"

    def __init__(self, of=None, settings=(), certificate=None, ca=None, user=None, password=None, port=0):
        super().__init__()
        self.port = port or free_port()
        self.of = of
        self.certificate, self.ca = certificate, ca
        self.user, self.password = user, password
        self.settings = list(settings)
        self.data = os.path.join(self.folder, "data")
        os.makedirs(self.data)

    @property
    def bind(self):
        return "127.0.0.1"

    def _lines(self):
        yield from (f"bind {self.bind}", f"port {0 if self.certificate else self.port}", f"dir {self.data}", "daemonize no",
                    "save \"\"", "appendonly yes", "appendfsync everysec", "repl-diskless-sync-delay 0",
                    "protected-mode no", "repl-ping-replica-period 1", "repl-timeout 10", "client-output-buffer-limit replica 0 0 0",
                    f"pidfile {self.folder}/pid", "loglevel notice")
        if self.version() >= 7:
            yield from ("latency-tracking no", "enable-debug-command local")
        if self.certificate:
            yield from (f"tls-port {self.port}", f"tls-cert-file {self.certificate.cert}",
                        f"tls-key-file {self.certificate.key}", f"tls-ca-cert-file {self.ca.cert}", "tls-auth-clients yes",
                        "tls-replication yes")
        if self.password is not None:
            if self.user:
                yield from (f"user {self.user} on >{self.password} ~* &* +@all", "user default off",
                            f"masteruser {self.user}")
            else:
                yield f"requirepass {self.password}"
            yield f"masterauth {self.password}"
        if self.of:
            yield f"replicaof {self.of.address[0]} {self.of.port}"
        yield from self.settings

    def version(self):
        """The program's major version; Valkey's is greater than 7, too."""
        told = subprocess.run([self.program(), "--version"], capture_output=True, text=True, check=True).stdout
        return int(re.search(r"v=(\d+)", told).group(1))

    def write_settings(self):
        """redis.conf as at the first start, without the changes of CONFIG REWRITE."""
        with open(os.path.join(self.folder, "redis.conf"), "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in self._lines())

    def program(self):
        """The binary looks at the name it is called by."""
        link = os.path.join(self.folder, "redis-server")
        if not os.path.islink(link):
            os.symlink(os.path.realpath(PROGRAM), link)
        return link

    def command(self):
        path = os.path.join(self.folder, "redis.conf")
        if not os.path.exists(path):
            self.write_settings()
        return [self.program(), path, "--logfile", self.log_path]

    def tls(self):
        if not self.certificate:
            return None
        context = ssl.create_default_context(cafile=self.ca.cert)
        context.load_cert_chain(self.certificate.cert, self.certificate.key)
        return context

    def client(self, timeout_s=2.0):
        return Client(self.address, timeout_s, self.tls(), self.user, self.password)

    def call(self, *words, timeout_s=2.0):
        """One command on a separate connection."""
        with self.client(timeout_s) as link:
            return link.call(*words)

    def info(self, timeout_s=2.0):
        with self.client(timeout_s) as link:
            return link.info()

    def role(self):
        """"master", "slave", or "" when it does not answer."""
        try:
            return self.call("ROLE", timeout_s=0.5)[0].decode()
        except (OSError, Refused):
            return ""

    def wait_ready(self):
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                self.fail(f"ended before it was ready, exit code {self.process.returncode}")
            try:
                if not self.info(0.5)["loading"].startswith("1"):
                    return
            except (OSError, Refused):
                pass
            time.sleep(0.01)
        self.fail("does not answer")

    def wait_synced(self, seconds=READY_S):
        """A replica's link to its master is up and its first copy is complete."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                info = self.info()
                if info.get("master_link_status") == "up" and info.get("master_sync_in_progress") == "0":
                    return self
            except (OSError, Refused):
                info = {}
            if time.monotonic() > deadline:
                self.fail(f"is not in step with its master: {info}")
            time.sleep(0.02)

    def wait_value(self, key, value, seconds=READY_S):
        """The key has this value, as of its master's writes."""
        deadline = time.monotonic() + seconds
        while (found := self.call("GET", key)) != value:
            if time.monotonic() > deadline:
                self.fail(f"{key} is {found!r}, not {value!r}")
            time.sleep(0.02)

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def _end(self, number):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)  # a stopped process does not handle SIGTERM
        return super()._end(number)

    def kill(self):
        """kill -9, also of a stopped process."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        return super()._end(signal.SIGKILL)

    def restart_empty(self, as_master=True):
        """Killed, its data gone, started again with its first settings; as a master unless said otherwise."""
        self.kill()
        shutil.rmtree(self.data)
        os.makedirs(self.data)
        of, self.of = self.of, None if as_master else self.of
        self.write_settings()
        self.of = of
        return self.start()
