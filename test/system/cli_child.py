"""The child that cli_test.py has `conclave elect` run: tells what it was given, and shows for how long it lives.

usage: cli_child.py FOLDER [stubborn] [family] [lease] [ready=SECONDS] [signals] [exit=CODE after=SECONDS]

FOLDER/started gets a line "TOKEN BOOTTIME_NS PID" per start, FOLDER/alive.NAME the CLOCK_BOOTTIME at which NAME was
last seen alive, FOLDER/lease the last end of the lease that it read in the page. stubborn ignores TERM; family adds a
process in the same group ("sibling") and one that left it ("daemon"), which ignore it when it does; lease writes
FOLDER/lost when the lease descriptor says so.
"""

import mmap
import os
import select
import signal
import struct
import sys
import time

folder, words = sys.argv[1], sys.argv[2:]
values = dict(word.split("=") for word in words if "=" in word)


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def put(name, text):
    with open(os.path.join(folder, name + ".tmp"), "w", encoding="ascii") as file:
        file.write(text)
    os.rename(os.path.join(folder, name + ".tmp"), os.path.join(folder, name))


def live(name, tick=lambda: None):
    while True:
        put("alive." + name, str(now_ns()))
        tick()
        time.sleep(0.004)


def relative(name, leave_group):
    if os.fork() == 0:
        if leave_group:
            os.setsid()
            if os.fork() != 0:
                os._exit(0)
        put("pid." + name, str(os.getpid()))
        live(name)


def main():
    token = os.environ.get("CONCLAVE_TOKEN", 0)  # an item has none
    page = mmap.mmap(int(os.environ["CONCLAVE_LEASE_SHM_FD"]), 4096, mmap.MAP_SHARED, mmap.PROT_READ)
    lease_fd = int(os.environ["CONCLAVE_LEASE_FD"])
    if "stubborn" in words:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "signals" in words:
        for number in (1, 2, 3, 10, 12, 15, 28):
            signal.signal(number, lambda got, _: (put("signal", str(got)), got != 28 and os._exit(40)))
    if "family" in words:
        relative("sibling", False)
        relative("daemon", True)
    with open(os.path.join(folder, "started"), "a", encoding="ascii") as file:
        file.write(f"{token} {now_ns()} {os.getpid()}\n")
    began = time.monotonic()

    def tick():
        magic, state, sequence, until, number = struct.unpack_from("=IIQqq", page)
        if magic == 0x31534C43 and state == 1 and sequence % 2 == 0:
            put("lease", f"{until} {number}")
        if "lease" in words and select.select([lease_fd], [], [], 0)[0]:
            put("lost", f"{os.read(lease_fd, 1)!r} {now_ns()} {state}")
            os._exit(0)
        if "ready" in values and time.monotonic() - began > float(values["ready"]):
            os.write(int(os.environ["CONCLAVE_READY_FD"]), b"READY=1\n")
            del values["ready"]
        if "exit" in values and time.monotonic() - began > float(values.get("after", 0)):
            os._exit(int(values["exit"]))

    live("child", tick)


main()
