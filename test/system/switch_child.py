"""The toy daemon of switch_duel.py: records when it was active, as finely as it can.

usage: switch_child.py FOLDER

FOLDER/term.TOKEN.PID: two i64, the CLOCK_BOOTTIME (ns) at which it began and at which it was last seen active; FOLDER/pid: its
process id, for those that have to fence it. It stamps before it says that it is there, so a reader that
finds the file finds it active.
"""

import mmap
import os
import struct
import sys
import time

folder = sys.argv[1]
pid = os.path.join(folder, "pid")
with open(pid + ".tmp", "w", encoding="ascii") as file:
    file.write(str(os.getpid()))
os.rename(pid + ".tmp", pid)

path = os.path.join(folder, f"term.{os.environ['CONCLAVE_TOKEN']}.{os.getpid()}")
now = time.clock_gettime_ns
with open(path + ".tmp", "w+b") as file:
    file.write(struct.pack("=qq", now(time.CLOCK_BOOTTIME), now(time.CLOCK_BOOTTIME)))
    file.flush()
    page = mmap.mmap(file.fileno(), 16)
os.rename(path + ".tmp", path)
while True:
    struct.pack_into("=q", page, 8, now(time.CLOCK_BOOTTIME))
    time.sleep(0.003)
