"""The power goes under load, many times over: the server's folder lies on an ext4 of its own in a loop device, which is
shut down without writing its journal out (FS_IOC_SHUTDOWN), then the server is killed and the disk mounted again.

Promise, checked after every cut: what crash_test.py promises after a kill. A write that the server acknowledged
before its fdatasync had returned would be lost here.
Limits: skipped, with the reason, without root, a free loop device and mkfs.ext4. The disk's own cache is not
simulated: what the kernel handed to the loop device stays.

usage: power_test.py [--rounds N] [--seed N]
"""

import argparse
import fcntl
import os
import random
import shutil
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import crash_test  # noqa: E402
from conclave import Conclave, why_missing  # noqa: E402

SHUTDOWN = 0x8004587D   # EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32)
NO_LOG_FLUSH = 2
DISK_BYTES = 96 << 20


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


class Disk:
    """An ext4 in a file, mounted at a folder."""

    def __init__(self, folder, size=DISK_BYTES):
        self.image = os.path.join(folder, "image")
        self.path = os.path.join(folder, "disk")
        self.mounted = False
        os.mkdir(self.path)
        with open(self.image, "wb") as file:
            file.truncate(size)
        run("mkfs.ext4", "-q", "-F", self.image)

    def mount(self):
        if not self.mounted:
            run("mount", "-o", "loop", self.image, self.path)
            self.mounted = True

    def cut(self):
        """From now on nothing reaches the disk, the journal's open transaction included."""
        fd = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def unmount(self):
        if self.mounted:
            run("umount", self.path)
            self.mounted = False


class PowerConclave(Conclave):
    """Starts on a disk that is mounted for it; kill() is a power cut."""

    def __init__(self, options, tick_ms):
        super().__init__(options, tick_ms)
        self.disk = Disk(self.folder)

    def command(self):
        words = super().command()
        words[words.index("--data") + 1] = os.path.join(self.disk.path, "data")
        return words

    def start(self):
        self.disk.mount()
        return super().start()

    def kill(self):
        if self.disk.mounted:
            if self.process is not None:
                self.disk.cut()
                time.sleep(0.02)  # it may meet the error before it goes
            super().kill()
            self.disk.unmount()
        return None


def why_not():
    """Why this machine cannot do it, or None."""
    if os.geteuid() != 0:
        return "only root can mount a disk"
    if not shutil.which("mkfs.ext4"):
        return "no mkfs.ext4 (Debian: e2fsprogs)"
    server = None
    try:
        server = PowerConclave([], 2000)
        server.disk.mount()
        server.disk.cut()
    except OSError as error:
        return f"no disk of its own: {error}"
    finally:
        if server is not None:
            server.destroy()
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    arguments = parser.parse_args()
    missing = why_missing() or why_not()
    if missing:
        print(f"skipped: {missing}")
        return 77
    rng = random.Random(arguments.seed)
    server = PowerConclave(["--snapCount", "300", "--preAllocSize", "256", "--minSessionTimeout", "400",
                            "--maxSessionTimeout", "20000"], crash_test.TICK_MS)
    passed = crash_test.run_rounds(server, arguments.rounds, arguments.seed, rng, "power cuts")
    print(f"{passed} passed, {arguments.rounds - passed} failed")
    return 0 if passed == arguments.rounds else 1


if __name__ == "__main__":
    sys.exit(main())
