#!/usr/bin/env python3
"""A program that uses redis-py's Sentinel support, unchanged: writes as fast as it is acknowledged, and prints each acknowledgement.

usage: sentinel_client.py HOST:PORT,... NAME TAG        prints: ack SEQ NANOSECONDS REPLICAS
SET and WAIT 1 go in one pipeline, so both are answered by one server. What fails is tried again under the same number.
"""

import itertools
import sys
import time

from redis.exceptions import RedisError
from redis.sentinel import Sentinel

sentinels, name, tag = sys.argv[1:]
places = [(host, int(port)) for host, _, port in (text.rpartition(":") for text in sentinels.split(","))]
master = Sentinel(places, socket_timeout=0.5).master_for(name, socket_timeout=0.5)
for number in itertools.count(1):
    while True:
        try:
            pipeline = master.pipeline(transaction=False)
            pipeline.set(f"{tag}:{number}", number)
            pipeline.execute_command("WAIT", 1, 300)
            replicas = pipeline.execute()[1]
            break
        except RedisError:
            time.sleep(0.005)
    print(f"ack {number} {time.monotonic_ns()} {replicas}", flush=True)
    time.sleep(0.002)
