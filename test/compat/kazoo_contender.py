#!/usr/bin/env python3
"""kazoo's locks or Election as a contender of mixed_election_test.py and mixed_lock_test.py:
kazoo_contender.py KIND HOST PATH NAME FILE.

KIND is lock, read, write, election, semaphore (of 2 permits), race: a plain client that creates PATH itself as soon as it can, or a
lock as Go's libraries have it: gozk (gozk-recipes' GlobalLock), go-zookeeper (zk.Lock). Holds for a moment each time it is its turn, then queues again, until its input ends. Appends
one line to FILE at the begin and the end of each turn: name, "begin" or "end", nanoseconds of CLOCK_MONOTONIC.
"""

import functools
import logging
import os
import sys
import threading
import time
import uuid

from kazoo.client import KazooClient
from kazoo.exceptions import CancelledError, KazooException, NodeExistsError

TURN_S = 0.15
SESSION_S = 3.0
PLAIN = ("race", "gozk", "go-zookeeper")  # of their own code here, not kazoo's


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


class NumberLock:
    """The lowest number below PATH holds; the others watch the number before theirs. prefix() is in front of the number."""

    def __init__(self, prefix, client, path, name):
        self.prefix = prefix
        self.client = client
        self.path = path
        self.data = name.encode()
        self.changed = threading.Event()
        self.ending = False
        self.node = None

    def cancel(self):
        self.ending = True
        self.changed.set()

    def __enter__(self):
        self.client.ensure_path(self.path)
        self.node = self.client.create(f"{self.path}/{self.prefix()}", self.data, ephemeral=True, sequence=True)
        own = self.node.rsplit("/", 1)[1]
        while not self.ending:
            self.changed.clear()
            names = sorted(self.client.get_children(self.path), key=lambda name: int(name.rsplit("-", 1)[-1]))
            at = names.index(own)
            if at == 0:
                return self
            if self.client.exists(f"{self.path}/{names[at - 1]}", watch=lambda event: self.changed.set()):
                self.changed.wait()
        self.client.delete(self.node)
        raise CancelledError()

    def __exit__(self, *why):
        self.client.delete(self.node)


def leave(client, path, data):
    """Deletes what is still there with our data: PATH, or a child of it."""
    while True:
        try:
            nodes = [path, *(f"{path}/{child}" for child in client.get_children(path))] if client.exists(path) else []
            for node in nodes:
                if client.get(node)[0] == data:
                    client.delete(node)
            return
        except KazooException:
            time.sleep(0.1)


def main():
    kind, host, path, name, file = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    output = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    ending = threading.Event()
    client = KazooClient(hosts=host, timeout=SESSION_S)
    client.start(timeout=15)
    make = {"election": client.Election, "lock": client.Lock, "read": client.ReadLock, "write": client.WriteLock,
            "semaphore": functools.partial(client.Semaphore, max_leases=2), "race": functools.partial(Race, client),
            "gozk": functools.partial(NumberLock, lambda: "", client),
            "go-zookeeper": functools.partial(NumberLock, lambda: f"_c_{uuid.uuid4().hex}-lock-", client)}[kind]
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
        except (KazooException, ValueError):
            if kind not in PLAIN:
                raise
            leave(client, path, name.encode())  # a plain client, whose link or session was lost
    client.stop()
    client.close()


if __name__ == "__main__":
    main()
