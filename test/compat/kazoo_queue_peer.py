#!/usr/bin/env python3
"""kazoo's queues in mixed_queue_test.py: kazoo_queue_peer.py put|take HOST NAME FILE KIND...

KIND is kazoo (Queue) or kazoo-locking (LockingQueue). Lines of FILE as of queue_peer.c.
"""

import logging
import os
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.retry import KazooRetry

SESSION_S = 10.0
PAUSE_S = 0.1


def main():
    role, host, name, file, *kinds = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    output = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    ending = threading.Event()
    client = KazooClient(hosts=host, timeout=SESSION_S, command_retry=KazooRetry(max_tries=-1, max_delay=1))
    client.start(timeout=30)

    def note(kind, what, item):
        os.write(output, f"{name} {kind} {what} {item} {time.time_ns()}\n".encode())

    def put_all(kind, queue):
        number = 0
        while not ending.is_set():
            item = f"{name}.{os.getpid()}.{number}"
            number += 1
            note(kind, "try", item)
            queue.put(item.encode(), number % 3)
            note(kind, "put", item)
            time.sleep(PAUSE_S)

    def take_all(kind, queue):
        while not ending.is_set():
            item = queue.get(timeout=0.2) if kind == "kazoo-locking" else queue.get()
            if item is None:
                time.sleep(0.03)
                continue
            note(kind, "take", item.decode())
            done = True
            note(kind, "acks", item.decode())
            if kind == "kazoo-locking":
                try:
                    done = queue.consume()
                except NoNodeError:
                    done = False
                queue.processing_element = None
            note(kind, "done" if done else "lost", item.decode())

    threads = []
    for kind in kinds:
        queue = (client.LockingQueue if kind == "kazoo-locking" else client.Queue)(f"/mixed/{kind}")
        threads.append(threading.Thread(target=put_all if role == "put" else take_all, args=(kind, queue)))
        threads[-1].start()
    sys.stdin.read()
    ending.set()
    for thread in threads:
        thread.join()
    client.stop()
    client.close()


if __name__ == "__main__":
    main()
