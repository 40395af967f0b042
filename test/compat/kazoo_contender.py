#!/usr/bin/env python3
"""kazoo's locks or Election as a contender of mixed_election_test.py and mixed_lock_test.py:
kazoo_contender.py KIND HOST PATH NAME FILE.

KIND is lock, read, write, election, semaphore (of 2 permits), or race: a plain client that creates PATH itself as soon as it can. Holds for a moment each time it is its turn, then queues again, until its input ends. Appends
one line to FILE at the begin and the end of each turn: name, "begin" or "end", nanoseconds of CLOCK_MONOTONIC.
"""

import functools
import logging
import os
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import CancelledError, NodeExistsError

TURN_S = 0.15
SESSION_S = 3.0


class Race:
    """Candidates create one ephemeral node of a fixed name; whose it is leads."""

    def __init__(self, client, path, name):
        self.client = client
        self.path = path
        self.data = name.encode()
        self.changed = threading.Event()
        self.ending = False

    def cancel(self):
        self.ending = True
        self.changed.set()

    def run(self, turn):
        while not self.ending:
            self.changed.clear()
            try:
                self.client.create(self.path, self.data, ephemeral=True)
            except NodeExistsError:
                if self.client.exists(self.path, watch=lambda event: self.changed.set()):
                    self.changed.wait()
                continue
            turn()
            self.client.delete(self.path)
            self.changed.clear()
            self.changed.wait(TURN_S)  # the others are first
            return


def main():
    kind, host, path, name, file = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    output = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    ending = threading.Event()
    client = KazooClient(hosts=host, timeout=SESSION_S)
    client.start(timeout=15)
    make = {"election": client.Election, "lock": client.Lock, "read": client.ReadLock, "write": client.WriteLock,
            "semaphore": functools.partial(client.Semaphore, max_leases=2), "race": functools.partial(Race, client)}[kind]
    contender = make(path, name)

    def wait_for_end():
        sys.stdin.read()
        ending.set()
        contender.cancel()

    def note(what):
        os.write(output, f"{name} {what} {time.clock_gettime_ns(time.CLOCK_MONOTONIC)}\n".encode())

    def turn():
        note("begin")
        time.sleep(TURN_S)
        note("end")

    threading.Thread(target=wait_for_end, daemon=True).start()
    while not ending.is_set():
        try:
            if kind in ("election", "race"):
                contender.run(turn)
            else:
                with contender:
                    turn()
        except CancelledError:
            pass
    client.stop()
    client.close()


if __name__ == "__main__":
    main()
