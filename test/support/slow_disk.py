"""A disk whose syncs take as long as a test says, for a server of ours that runs with test/support/slow_sync.c.

Promise: `set(ms)` holds for the next sync; one that has begun keeps the time that was set then.
Limits: only fdatasync, of which the server's log makes one per write.
"""

import mmap
import os
import struct

from conclave import ROOT

PRELOAD = os.path.join(os.environ.get("CONCLAVE_BUILD") or os.path.join(ROOT, "build"), "test", "system", "slow_sync.so")


def why_missing():
    """Why no disk can be slow here, or None."""
    return None if os.path.exists(PRELOAD) else f"no library {PRELOAD}: run 'make'"


class SlowDisk:
    def __init__(self, folder):
        self.path = os.path.join(folder, "delay")
        with open(self.path, "wb") as file:
            file.write(bytes(8))
        with open(self.path, "r+b") as file:
            self.delay = mmap.mmap(file.fileno(), 8)

    def words(self):
        """What stands before the server's command."""
        options = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        return ["env", f"SLOW_SYNC_FILE={self.path}", f"LD_PRELOAD={PRELOAD}", f"ASAN_OPTIONS={options}"]

    def set(self, milliseconds):
        self.delay[:8] = struct.pack("=q", milliseconds)
