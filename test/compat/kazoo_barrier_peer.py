#!/usr/bin/env python3
"""kazoo's barriers in mixed_barrier_test.py: kazoo_barrier_peer.py HOST. Commands and lines as of BarrierPeer.java."""

import logging
import sys
import time

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

SESSION_S = 4.0


def say(what):
    print(what, time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True)


def meet(client, path, count, stay_ms):
    barrier = client.DoubleBarrier(path, int(count))
    say("enter")
    barrier.enter()
    say("in" if barrier.participating else "failed")
    time.sleep(int(stay_ms) / 1000)
    say("out")
    barrier.leave()
    say("left")


def main():
    logging.disable(logging.CRITICAL)
    client = KazooClient(hosts=sys.argv[1], timeout=SESSION_S, command_retry=KazooRetry(max_tries=-1, max_delay=1))
    client.start(timeout=30)
    say("ready")
    for line in sys.stdin:
        what, path, *more = line.split()
        if what == "double":
            meet(client, path, *more)
        elif what == "set":
            client.Barrier(path).create()
            say("set")
        elif what == "remove":
            client.Barrier(path).remove()
            say("removed")
        else:
            say("waits")
            client.Barrier(path).wait()
            say("through")
    client.stop()
    client.close()


if __name__ == "__main__":
    main()
