"""A folder that lies on a small file system of its own, to be filled.

Promise: the folder has the content that it had. `fill` leaves so many bytes for other files; `free` gives all back.
Limits: needs the right to mount, else it raises cases.Skip; the file system is in memory.
"""

import contextlib
import os
import shutil
import subprocess

import cases

BLOCK = 4096


class SmallDisk:
    def __init__(self, folder, size="24m"):
        self.folder = folder
        self.filler = os.path.join(folder, "lost+found", "filler")  # servers permit it there
        kept = folder + "-kept-aside"
        shutil.copytree(folder, kept)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            shutil.rmtree(kept)
            raise cases.Skip(f"no file system of its own: {done.stderr.strip()}")
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        os.makedirs(os.path.dirname(self.filler), exist_ok=True)
        shutil.rmtree(kept)

    def fill(self, leave=0):
        with open(self.filler, "ab", buffering=0) as filler:
            with contextlib.suppress(OSError):
                while True:
                    filler.write(bytes(BLOCK))
            filler.truncate(max(0, filler.seek(0, os.SEEK_END) - leave))

    def free(self):
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.filler)

    def close(self):
        subprocess.run(["umount", self.folder], capture_output=True, check=False)
