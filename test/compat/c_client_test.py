#!/usr/bin/env python3
"""Apache's C client on Apache ZooKeeper and on ours: its shell cli_mt, and a program of ours on libzookeeper_mt.

Promise: the same commands and calls, one after the other, print the same, but for times and zxids.
Limits: each part is skipped where its Debian package (zookeeper-bin, libzookeeper-mt-dev) is not there.
"""

import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import pair  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CLI = "/usr/lib/zookeeper/bin/cli_mt"
HEADER = "/usr/include/zookeeper/zookeeper.h"
PATIENCE_S = 10

COMMANDS = (
    "create /cli", "create /cli", "create +e /cli/e", "create +s /cli/s-", "create +c /cli/c", "create2 /cli/two",
    "create /missing/x", "ls /cli", "ls2 /cli", "get /cli", "set /cli hello", "get /cli", "exists /cli", "exists /none",
    "wexists /cli", "set /cli again", "delete /cli", "delete /cli/two", "sync /cli", "get /zookeeper/config",
    "addauth digest ann:secret", "aget /cli", "als /cli",
)
SILENT = ("addauth", "exists", "wexists")
NOISE = (
    (re.compile(r"time ?= ?-?\d+ msec"), "time = N msec"),
    (re.compile(r"(ctime|mtime) ?= ?.*"), r"\1 = TIME"),
    (re.compile(r"(czxid|mzxid|pzxid) ?= ?[0-9a-f]+"), r"\1 = ZXID"),
    (re.compile(r"ephemeralOwner = [0-9a-f]{3,}"), "ephemeralOwner = SESSION"),
    (re.compile(r"session id: 0x[0-9a-f]+"), "session id: SESSION"),
)


def normalise(text):
    for pattern, to in NOISE:
        text = pattern.sub(to, text)
    return text.split("\n")


class Shell:
    """cli_mt, one command after the other: its answers come on stderr, from another thread."""

    def __init__(self, server):
        self.text = ""
        self.process = subprocess.Popen(["stdbuf", "-o0", CLI, server.host], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def read_until(self, wanted, quiet_s=0.3):
        """The output until the text has come and no more output followed for a moment."""
        start = len(self.text)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if select.select([self.process.stdout], [], [], quiet_s)[0]:
                part = os.read(self.process.stdout.fileno(), 65536)
                if not part:
                    break
                self.text += part.decode("utf-8", "replace")
            elif wanted in self.text[start:]:
                return self.text[start:]
        raise AssertionError(f"cli_mt: {wanted!r} did not come in:\n{self.text}")

    def run(self, command):
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()
        return self.read_until("" if command.split()[0] in SILENT else "rc = ")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def cli_mt(server):
    if not os.access(CLI, os.X_OK):
        raise pair.Skip(f"no {CLI} (Debian: zookeeper-bin)")
    shell = Shell(server)
    try:
        shell.read_until("Got a new session id")
        lines = []
        for command in COMMANDS:
            # Lines of the answer and of the watcher come from two threads: their order is not the server's.
            lines += ["> " + command] + sorted(line for line in normalise(shell.run(command)) if line.strip())
        assert "hello" in lines, lines
        return lines
    finally:
        shell.close()


def library(server):
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not os.path.exists(HEADER) or not compiler:
        raise pair.Skip(f"no {HEADER} (Debian: libzookeeper-mt-dev) or no compiler")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "c_client")
        build = subprocess.run([compiler, "-std=gnu11", "-Wall", "-Wextra", "-DTHREADED", "-o", program,
                                os.path.join(HERE, "c_client.c"), "-lzookeeper_mt", "-lpthread"],
                               capture_output=True, text=True, check=False)
        if build.returncode != 0:
            raise AssertionError(f"c_client.c does not compile:\n{build.stderr}")
        done = subprocess.run([program, server.host], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout.split("\n")


if __name__ == "__main__":
    pair.main((cli_mt, library))
