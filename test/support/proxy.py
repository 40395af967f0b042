"""The fault proxy (test/support/fault_proxy.h) before a server, as a context manager.

Promise: commands are in effect when `do` returns; leaving ends the program.
Limits: one server; build test/system/fault_proxy first.
"""

import os
import subprocess

from conclave import ROOT

BUILD = os.path.abspath(os.environ.get("CONCLAVE_BUILD", os.path.join(ROOT, "build")))
PROGRAM = os.path.join(BUILD, "test", "system", "fault_proxy")
END_S = 120


class Proxy:
    """Clients connect to `host`; connections go to this port on loopback."""

    def __init__(self, port):
        self.process = subprocess.Popen([PROGRAM, "0", str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.host = "127.0.0.1:" + self.process.stdout.readline().split()[1]

    def do(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        assert not answer.startswith("error"), (command, answer)
        return answer

    def end(self):
        self.process.stdin.close()
        self.process.wait(END_S)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
