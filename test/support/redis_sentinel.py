"""Redis' own sentinels, to compare with.

Promise: as test/support/redis.py; a sentinel watches one master under the name NAME. Two of them must agree.
"""

from redis import RedisServer, Refused
from redis_cluster import eventually

NAME = "bench"
SENTINEL_MS = 1000  # down-after-milliseconds, the least its documentation speaks of for a fast network


def pairs(row):
    """A flat list of names and values as a dict of texts."""
    return {key.decode(): value.decode() for key, value in zip(row[::2], row[1::2])}


class Sentinel(RedisServer):
    """One sentinel that watches a master."""

    name = "sentinel"

    def __init__(self, master):
        super().__init__()
        self.of = master

    def _lines(self):
        address, port = self.of.address
        yield from ("bind 127.0.0.1", f"port {self.port}", f"dir {self.data}", "daemonize no", "protected-mode no",
                    f"sentinel monitor {NAME} {address} {port} 2", f"sentinel down-after-milliseconds {NAME} {SENTINEL_MS}",
                    f"sentinel failover-timeout {NAME} 10000", f"sentinel parallel-syncs {NAME} 1")

    def command(self):
        return [*super().command(), "--sentinel"]

    def wait_ready(self):
        def answers():
            try:
                return self.call("PING") == "PONG"
            except (OSError, Refused):
                return False
        eventually("a sentinel answers", answers)

    def knows(self):
        """Sentinels beside itself, replicas that it takes for well, and the master's flags."""
        facts = pairs(self.call("SENTINEL", "MASTER", NAME))
        replicas = [pairs(row) for row in self.call("SENTINEL", "REPLICAS", NAME)]
        well = [r for r in replicas if r["flags"] == "slave" and r["master-link-status"] == "ok"]
        return int(facts["num-other-sentinels"]), len(well), facts["flags"]


def follows(node, master):
    try:
        info = node.info()
        return info.get("master_port") == str(master.port) and info.get("master_link_status") == "up"
    except (OSError, Refused):
        return False


def bring_back(nodes, old, new):
    """The killed one comes back as a replica of the new one; then all are in step."""
    old.of = new
    old.write_settings()  # both systems would do so by themselves, Sentinel after ten seconds
    if old.alive():
        old.kill()
    old.start()
    for node in nodes:
        if node is not new:
            eventually(f"{node.host} follows {new.host}", lambda node=node: follows(node, new))


def master_of(nodes):
    return next((node for node in nodes if node.role() == "master"), None)
