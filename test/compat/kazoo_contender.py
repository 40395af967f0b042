#!/usr/bin/env python3
"""kazoo's locks or Election as a contender of mixed_election_test.py and mixed_lock_test.py:
kazoo_contender.py KIND HOST PATH NAME FILE.

KIND is lock, read, write or election. Holds for a moment each time it is its turn, then queues again, until its input ends. Appends
one line to FILE at the begin and the end of each turn: name, "begin" or "end", nanoseconds of CLOCK_MONOTONIC.
"""

import logging
import os
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import CancelledError

TURN_S = 0.15
SESSION_S = 3.0


def main():
    kind, host, path, name, file = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    output = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    ending = threading.Event()
    client = KazooClient(hosts=host, timeout=SESSION_S)
    client.start(timeout=15)
    make = {"election": client.Election, "lock": client.Lock, "read": client.ReadLock, "write": client.WriteLock}[kind]
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
            if kind == "election":
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
