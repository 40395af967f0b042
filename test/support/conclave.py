"""Our server as a test's server: standalone, a free port, no admin port unless asked for; the program is $CONCLAVE_BIN.

Promise: as test/support/server.py, the same interface as test/support/zookeeper.py.
"""

import os
import re
import select
import time

from server import READY_S, Server, free_port

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
READY_LINE = re.compile(rb"^conclave: ready client=(?:\S+?:(\d+)|off) admin=(?:\S+?:(\d+)|off) [^\n]*?(?: secure=\S+?:(\d+))?\n")


def program():
    """The program under test."""
    return os.environ.get("CONCLAVE_BIN") or os.path.join(ROOT, "build", "conclave")


def why_missing():
    """Why our server cannot run here, or None."""
    return None if os.access(program(), os.X_OK) else f"no program {program()}: run 'make'"


class Conclave(Server):
    """`with Conclave() as server:`; options are words behind `conclave server`."""

    name = "conclave"

    def __init__(self, options=(), tick_ms=2000, admin=False):
        super().__init__()
        self.secure_port = 0
        self.admin = admin
        self.admin_port = 0
        self.options = ["--tickTime", str(tick_ms), "--maxClientCnxns", "0", *options]

    def command(self):
        self.port = self.port or free_port()
        if self.admin:
            self.admin_port = self.admin_port or free_port()
        return [program(), "server", "--listen", f"127.0.0.1:{self.port}", "--data",
                os.path.join(self.folder, "data"), "--admin",
                f"127.0.0.1:{self.admin_port}" if self.admin else "off", *self.options]

    def wait_ready(self):
        deadline = time.monotonic() + READY_S
        text = b""
        output = self.process.stdout
        while time.monotonic() < deadline:
            if select.select([output], [], [], 0.5)[0]:
                part = os.read(output.fileno(), 4096)
                if not part:
                    self.fail(f"ended before it was ready, exit code {self.process.wait(5)}")
                text += part
                match = READY_LINE.search(text) if b"\n" in text else None
                if match:
                    self.port = int(match.group(1) or 0)
                    self.secure_port = int(match.group(3) or 0)
                    self.admin_port = int(match.group(2) or 0)
                    return
        self.fail(f"not ready after {READY_S} s")
