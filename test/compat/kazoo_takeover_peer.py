#!/usr/bin/env python3
"""kazoo's part of the load of takeover_test.py: kazoo_takeover_peer.py HOSTS COUNT PERIOD_MS SESSION_MS FILE.

What it does, its commands and its lines in FILE: test/support/takeover_load.py.
"""

import logging
import os
import random
import sys
import threading
import time

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss, KazooException, OperationTimeoutError
from kazoo.retry import KazooRetry

KIND = "k"
GROUP = 4
LOST = (ConnectionLoss, OperationTimeoutError)
PATIENCE_S = 120


class Peer:
    """What the clients share: their file, and what they were told."""

    def __init__(self, file):
        self.output = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.ending = threading.Event()
        self.paused = threading.Event()
        self.released = threading.Event()
        self.holders = set()  # groups that somebody held

    def note(self, *words):
        os.write(self.output, (" ".join(map(str, (time.monotonic_ns(), *words))) + "\n").encode())


class Client(threading.Thread):
    """One session: writes, watches one node, and takes its turn in its group."""

    def __init__(self, peer, hosts, number, period_s, session_s):
        super().__init__(daemon=True)
        self.peer = peer
        self.number = number
        self.period_s = period_s
        self.label = f"{KIND}{number}"
        self.counter = self.value = 0
        self.uncertain = False  # the counter's version is not known
        self.rests = threading.Event()  # it has seen that it is to pause, and nothing is under way
        self.client = KazooClient(hosts=hosts, timeout=session_s, connection_retry=KazooRetry(max_tries=-1, max_delay=0.3))
        self.client.add_listener(self.on_state)
        self.waiter = threading.Thread(target=self.take_turn, daemon=True)

    def note(self, *words):
        self.peer.note(self.label, *words)

    def on_state(self, state):
        if state == KazooState.LOST and not self.peer.ending.is_set():
            self.note("expired")
        elif state == KazooState.CONNECTED:
            self.note("connected")

    def note_session(self):
        self.note("session", hex(self.client.client_id[0]))

    def begin(self):
        self.client.start(timeout=PATIENCE_S)
        self.note_session()
        self.client.create(f"/load/ephemeral/{self.label}", b"", ephemeral=True)
        self.client.create(f"/load/appended/{self.label}", b"")
        self.client.create(f"/load/counters/{self.label}", b"0")
        self.client.create(f"/load/changing/{self.label}", b"")
        self.client.DataWatch(f"/load/changing/{self.label}", self.on_change)
        self.waiter.start()
        self.start()

    def arm(self, number):
        """Watches a node that does not exist yet, until it does. kazoo itself forgets watches when the connection is lost; its
        DataWatch sets them again."""
        def on_data(_data, stat):
            if stat is not None:
                self.note("fired", number)
                return False
            return True
        self.client.DataWatch(f"/load/once/{number}-{self.label}", on_data)
        self.note("armed", number)

    def append(self):
        self.value += 1
        try:
            path = self.client.create(f"/load/appended/{self.label}/{self.value}-", b"", sequence=True)
            self.note("appended", self.value, path.rsplit("/", 1)[1])
        except LOST:
            self.note("append-unknown", self.value)

    def count(self):
        path = f"/load/counters/{self.label}"
        try:
            if self.uncertain:
                self.client.sync(path)
                self.counter = self.client.get(path)[1].version
                self.uncertain = False
                self.note("counter-read", self.counter)
            self.counter = self.client.set(path, str(self.counter + 1).encode(), self.counter).version
            self.note("counted", self.counter)
        except LOST:
            if not self.uncertain:
                self.note("count-unknown", self.counter + 1)
            self.uncertain = True

    def on_change(self, _data, stat):
        if stat is not None:
            self.note("seen", stat.version)

    def run(self):
        time.sleep(random.uniform(0, self.period_s))
        turn = 0
        try:
            while not self.peer.ending.is_set():
                if self.peer.paused.is_set() and not self.uncertain:
                    if not self.rests.is_set():
                        self.note_session()
                        self.rests.set()
                else:
                    turn += 1
                    if turn % 2 or self.uncertain:
                        self.count()
                    else:
                        self.append()
                time.sleep(self.period_s)
        except KazooException as error:
            if not self.peer.ending.is_set():
                self.note("problem", repr(error))

    def take_turn(self):
        """Groups of even numbers have a lock, the others elect a leader."""
        group = self.number // GROUP
        path = f"/load/groups/{KIND}{group}"
        try:
            if group % 2 == 0:
                lock = self.client.Lock(path, self.label)
                with lock:
                    self.hold(path, lock.node)
            else:
                election = self.client.Election(path, self.label)
                election.run(lambda: self.hold(path, election.lock.node))
        except KazooException as error:
            if not self.peer.ending.is_set():
                self.note("problem", repr(error))

    def hold(self, path, name):
        czxid = self.client.retry(self.client.exists, f"{path}/{name}").czxid
        self.note("holds", path, name, hex(czxid))
        self.peer.holders.add(path)
        self.peer.released.wait()
        self.note("released", path)


def wait_for(clients, peer, done):
    while not all(done(client) for client in clients) and not peer.ending.is_set():
        time.sleep(0.02)


def main():
    hosts, count, period_ms, session_ms, file = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    threading.stack_size(512 * 1024)
    peer = Peer(file)
    clients = [Client(peer, hosts, number, int(period_ms) / 1000, int(session_ms) / 1000) for number in range(int(count))]
    for client in clients:
        client.begin()
    groups = {client.number // GROUP for client in clients}
    while len(peer.holders) < len(groups):
        time.sleep(0.02)
    print("ready", flush=True)
    for line in sys.stdin:
        word, *more = line.split()
        if word == "arm":
            for client in clients:
                client.arm(int(more[0]))
        elif word == "pause":
            peer.paused.set()
            wait_for(clients, peer, lambda client: client.rests.is_set() or not client.is_alive())
        elif word == "resume":
            for client in clients:
                client.rests.clear()
            peer.paused.clear()
        elif word == "release":
            peer.released.set()
            wait_for(clients, peer, lambda client: not client.waiter.is_alive())
        print("done", word, flush=True)
    peer.ending.set()
    for client in clients:
        client.client.stop()


if __name__ == "__main__":
    main()
