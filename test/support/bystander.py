"""A client that reads a small node all the time while others load the server, and the cost of that load for it.

Limits: on a busy machine the longest wait says more about the machine than about the server.
"""

import os
import threading
import time

import zkwire as zk

TICK = os.sysconf("SC_CLK_TCK")


def cpu_s(server):
    """Processor seconds that the server's process has used."""
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Bystander(threading.Thread):
    """One client; remembers its longest wait."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.client = zk.Connection(address, 30000)
        self.ended = threading.Event()
        self.longest = 0.0
        self.error = None

    def run(self):
        try:
            while not self.ended.is_set():
                began = time.monotonic()
                err, _ = self.client.call(zk.exists("/"))
                if err != 0:
                    raise AssertionError(f"the bystander's call: error {err}")
                self.longest = max(self.longest, time.monotonic() - began)
                self.ended.wait(0.005)
        except Exception as error:  # reported by the main thread
            self.error = error

    def finish(self, wait_s):
        """The longest wait in seconds; an error, or a longer one, is raised here."""
        self.ended.set()
        self.join()
        self.client.drop()
        if self.error:
            raise self.error
        if self.longest > wait_s:
            raise AssertionError(f"the bystander waited {self.longest:.1f} s")
        return self.longest
