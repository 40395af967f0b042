"""The common base of the tests' servers: a process with its own port and data folder.

Promise: start waits until the server answers; stop, kill and the end of the test program end it by its process id
and remove its folder. `restart` keeps data and port.
Limits: loopback only; a server that is not ready in `READY_S` seconds fails the test with the end of its log.
"""

import atexit
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

READY_S = 40
LIVE = set()
FIRST_PORT = 10000
PORTS_TRIED = 200
PORT_MARKS = []  # sockets with an abstract name: one for each port that is ours


def free_port():
    """A free port that no other test takes, as long as this one runs.

    It is none of those that the kernel gives to whoever connects: then a server that restarts could find it taken.
    """
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        end = int(file.read().split()[0])
    for port in random.sample(range(FIRST_PORT, end), min(PORTS_TRIED, end - FIRST_PORT)):
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(f"\0conclave-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            mark.close()
            continue
        PORT_MARKS.append(mark)
        return port
    raise RuntimeError(f"no free port from {FIRST_PORT} to {end}")


class Server:
    """Base: a subclass gives `command()`, `wait_ready()` and `name`. A context manager."""

    name = "server"

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix=f"conclave-test-{self.name}-")
        self.log_path = os.path.join(self.folder, "log")
        self.process = None
        self.port = 0
        self.start_s = 0.0  # from the start of the process until it was ready
        LIVE.add(self)

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    @property
    def address(self):
        return "127.0.0.1", self.port

    def command(self):
        raise NotImplementedError

    def wait_ready(self):
        raise NotImplementedError

    def environment(self):
        return dict(os.environ)

    def start(self):
        began = time.monotonic()
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=log, cwd=self.folder, env=self.environment())
        try:
            self.wait_ready()
        except BaseException:
            self.destroy()
            raise
        self.start_s = time.monotonic() - began
        return self

    def fail(self, why):
        """Ends the test with the reason and the end of the server's log."""
        raise RuntimeError(f"{self.name}: {why}\n{self.log_tail()}")

    def log_tail(self, length=3000):
        with open(self.log_path, "rb") as log:
            return log.read()[-length:].decode("utf-8", "replace")

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def _end(self, number):
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        code = self.process.returncode
        self.process = None
        return code

    def stop(self):
        """SIGTERM; returns the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self):
        """kill -9."""
        return self._end(signal.SIGKILL)

    def restart(self, hard=False):
        """Stops (or kills) the server and starts it again with the same data and port."""
        if hard:
            self.kill()
        else:
            self.stop()
        return self.start()

    def memory_kb(self):
        """(VmRSS, VmHWM) of the process in kB."""
        values = {}
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            for line in status:
                key, _, value = line.partition(":")
                if key in ("VmRSS", "VmHWM"):
                    values[key] = int(value.split()[0])
        return values["VmRSS"], values["VmHWM"]

    def destroy(self):
        """Ends the process and removes the folder; may be called more than once."""
        LIVE.discard(self)
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.destroy()


@atexit.register
def _destroy_all():
    for server in list(LIVE):
        server.destroy()


def _on_term(number, _frame):
    _destroy_all()
    os._exit(128 + number)


signal.signal(signal.SIGTERM, _on_term)
