"""Three servers, each on a disk of its own, whose disks fill up, fail a sync, lose the end of a log, a bit or a file, under
load.

Promise, beside what ensemble_test.py looks up after every round: a member whose disk is full or fails steps aside
(its process lives, it says so to ruok, on /readyz, in /metrics and in its log) while the others go on, and comes back
by itself; what was damaged while a member was stopped is named when it starts and healed from the others, never served,
and what is left of the damaged files lies in a folder beside.
Limits: skipped, with the reason, without root, loop devices and mkfs.ext4; the failed sync also without strace. One
member at a time.

usage: disk_test.py [--rounds N] [--seed N] [--only FAULT]
"""

import argparse
import contextlib
import http.client
import os
import random
import shutil
import struct
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import ensemble_test  # noqa: E402
import power_test  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import why_missing  # noqa: E402
from ensemble import ConclaveMember, Ensemble, four_letters, mode_of  # noqa: E402
from ensemble_test import OK, RECOVERY_S, TICK_MS, TIMEOUT_MS, Violation, expect  # noqa: E402
from partition_test import until_synced  # noqa: E402

WRITERS = 3
DISK_BYTES = 32 << 20
BLOCK = 1 << 16
FILL_S = 30        # until a member notices that its disk is full
BACK_S = 45        # until it tries again
LONG_GAP_S = 2.5   # for writes that the others take
BIG = b"x" * 50000


class Refused(Exception):
    """A member did not start; the text is the end of its log."""


class DiskMember(ConclaveMember):
    """A member whose data lie on an ext4 of their own."""

    def __init__(self, number, lines, **more):
        super().__init__(number, lines, **more)
        self.disk = power_test.Disk(self.folder, DISK_BYTES)
        self.disk.mount()
        os.mkdir(os.path.join(self.disk.path, "data"))
        os.symlink(os.path.join(self.disk.path, "data"), self.data)
        self.starting = False
        self.filler = os.path.join(self.disk.path, "filler")

    @property
    def data(self):
        return os.path.join(self.folder, "data")

    def start(self):
        self.starting = True
        try:
            return super().start()
        except RuntimeError as error:
            raise Refused(str(error)) from error
        finally:
            self.starting = False

    def destroy(self):
        if self.starting:
            self.kill()
            return
        self.kill()
        self.disk.unmount()
        super().destroy()

    def fill(self):
        """Takes all that is free on its disk, or what has become free since."""
        with open(self.filler, "ab", buffering=0) as file:
            size = BLOCK
            while size >= 512:
                try:
                    if file.write(b"f" * size) < size:
                        size //= 2
                except OSError:
                    size //= 2

    def make_room(self):
        os.unlink(self.filler)

    def wipe(self):
        for name in os.listdir(self.data):
            path = os.path.join(self.data, name)
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)

    def is_fine(self):
        return four_letters(self.address, b"ruok") == "imok"

    def ask_admin(self, route):
        """(status, text) of a route of the admin port."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{route}", timeout=5) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


def others(ensemble, member):
    return [other for other in ensemble.members if other is not member]


def wait_for(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < deadline, f"waited {seconds} s for: {what}")
        time.sleep(0.05)


class Filling:
    """Big writes through the members that are not hurt; knows the longest pause."""

    def __init__(self, members):
        self.members = members
        self.link = None
        self.last = time.monotonic()
        self.longest = 0.0

    def step(self):
        try:
            if self.link is None:
                self.link = zk.Connection(random.choice(self.members).address, TIMEOUT_MS, patience_s=1)
            err, _ = self.link.call(zk.set_data("/big", BIG))
            expect(err == OK, f"set /big: error {err}")
            now = time.monotonic()
            self.longest = max(self.longest, now - self.last)
            self.last = now
        except (OSError, zk.Closed):
            if self.link is not None:
                self.link.drop()
            self.link = None
            time.sleep(0.02)
            expect(time.monotonic() - self.last < RECOVERY_S, "the others take no writes")


class Witness(threading.Thread):
    """Asks a member all the time, as it may be aside for a second only."""

    def __init__(self, member):
        super().__init__(daemon=True)
        self.member = member
        self.ending = threading.Event()
        self.said_aside = threading.Event()
        self.was_fine = False  # between two answers that it is aside
        self.start()

    def is_aside(self):
        status, text = self.member.ask_admin("/readyz")
        return status == 503 and "aside" in text

    def run(self):
        while not self.ending.wait(0.02):
            with contextlib.suppress(OSError, http.client.HTTPException):  # while it opens its folder again
                if self.is_aside():
                    fine = self.member.is_fine()
                    self.was_fine |= fine and self.is_aside()
                    self.said_aside.set()

    def end(self):
        self.ending.set()
        self.join()


def aside(member, witness, text_of_log):
    """The report of a member that stepped aside."""
    expect(member.alive(), f"member {member.number} ended:\n{member.log_tail()}")
    expect(witness.said_aside.wait(5), f"/readyz of member {member.number} never said that it is aside")
    witness.end()
    expect(not witness.was_fine, f"member {member.number} stepped aside and says imok")
    status, text = member.ask_admin("/metrics")
    rows = [line for line in text.splitlines() if line.startswith("conclave_steps_aside_total ")]
    expect(status == 200 and rows and float(rows[0].split()[1]) >= 1, f"/metrics says nothing of it: {status} {rows}")
    expect("stepped-aside" in text_of_log(), "the log says nothing of it")


def log_since(member):
    """A function that returns the member's log from now on."""
    begin = os.path.getsize(member.log_path)

    def text():
        with open(member.log_path, "rb") as log:
            log.seek(begin)
            return log.read().decode("utf-8", "replace")
    return text


def until_aside(member, rest, again, seconds=FILL_S):
    """Writes until the member steps aside; checks what it says and that the others went on."""
    text = log_since(member)
    witness = Witness(member)
    filling = Filling(rest)
    deadline = time.monotonic() + seconds
    while "stepped-aside" not in text():
        again()
        filling.step()
        expect(time.monotonic() < deadline, f"member {member.number} did not step aside in {seconds} s")
    for _ in range(20):
        again()
        filling.step()
    aside(member, witness, text)
    return filling


def comes_back(ensemble, member):
    began = time.monotonic()
    wait_for(member.is_fine, BACK_S, f"member {member.number} to come back by itself")
    ensemble.wait_leader(RECOVERY_S)
    return time.monotonic() - began


def full(ensemble, member, led):
    rest = others(ensemble, member)
    member.fill()
    filling = until_aside(member, rest, member.fill)
    expect(led or filling.longest < LONG_GAP_S, f"a follower's full disk stopped all writes for {filling.longest:.2f} s")
    expect(ensemble.wait_leader(RECOVERY_S, 2) is not member, "who stepped aside leads")
    member.make_room()
    return f"longest pause of writes {filling.longest:.2f} s, back after {comes_back(ensemble, member):.1f} s"


def full_follower(ensemble):
    ensemble.wait_leader(RECOVERY_S)
    return full(ensemble, random.choice(ensemble.followers()), led=False)


def full_leader(ensemble):
    return full(ensemble, ensemble.wait_leader(RECOVERY_S), led=True)


def failed_sync(ensemble, member, led):
    """The next sync of the log fails, once: the kernel may have dropped what was to be written."""
    rest = others(ensemble, member)
    tracer = subprocess.Popen(
        ["strace", "-f", "-p", str(member.process.pid), "-o", "/dev/null", "-e", "trace=fsync,fdatasync",
         "-e", "inject=fsync,fdatasync:error=EIO:when=1"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        filling = until_aside(member, rest, lambda: None)
    finally:
        tracer.terminate()
        tracer.wait()
    expect(led or filling.longest < LONG_GAP_S, f"a follower's failed sync stopped all writes for {filling.longest:.2f} s")
    return f"longest pause of writes {filling.longest:.2f} s, back after {comes_back(ensemble, member):.1f} s"


def failed_sync_follower(ensemble):
    ensemble.wait_leader(RECOVERY_S)
    return failed_sync(ensemble, random.choice(ensemble.followers()), led=False)


def failed_sync_leader(ensemble):
    return failed_sync(ensemble, ensemble.wait_leader(RECOVERY_S), led=True)


# Damage to a member that is stopped: a function of its files, which returns what it did.

def files_of(member, suffix=""):
    found = [os.path.join(folder, name) for folder, _, names in os.walk(member.data + "/") for name in names]
    return sorted(path for path in found if path.endswith(suffix) and "spare" not in path and "myid" not in path
                  and "damaged-" not in path and os.path.getsize(path))


# The layout of a segment: src/replication/disk/folder_format.h.
SEGMENT_HEADER = 512
SEGMENT_HEADER_CHECKSUM = 504
FRAME_HEADER = 40
FRAME_MAGIC = 0x4d524643


def used_bytes(path):
    """Of a segment, the end of its last frame: a recycled file goes on with its former content, in which nothing can be damaged.
    Of another file, the end of what is not zero."""
    with open(path, "rb") as file:
        data = file.read()
    if not path.endswith(".log"):
        return len(data.rstrip(b"\0"))
    end, last = SEGMENT_HEADER, struct.unpack_from("<Q", data, SEGMENT_HEADER_CHECKSUM)[0]
    while end + FRAME_HEADER <= len(data):
        checksum, magic, length, previous = struct.unpack_from("<QIIQ", data, end)
        if magic != FRAME_MAGIC or previous != last:
            break
        end, last = end + FRAME_HEADER + length, checksum
    return end


def cut_tail(member):
    path = files_of(member, ".log")[-1]
    with open(path, "r+b") as file:
        end = used_bytes(path)
        start = max(64, end - random.randrange(1, 4096))
        if random.random() < 0.5:
            file.truncate(start)
            return f"{os.path.basename(path)} cut at {start} of {end}"
        file.seek(start)
        file.write(b"\0" * (end - start))
    return f"{os.path.basename(path)} zeroes from {start} to {end}"


def flip(path):
    end = used_bytes(path)
    at = random.randrange(end) if random.random() < 0.5 else max(0, end - 1 - random.randrange(min(end, 2000)))
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << random.randrange(8)]))
    return f"{os.path.basename(path)} has another bit at {at} of {end}"


def flip_log(member):
    return flip(random.choice(files_of(member, ".log")))


def flip_any(member):
    return flip(random.choice(files_of(member)))


def lose_file(member):
    path = random.choice(files_of(member))
    os.unlink(path)
    return f"{os.path.basename(path)} is gone"


def flip_named(suffix):
    def damage(member):
        files = files_of(member, suffix)
        return flip(random.choice(files)) if files else f"there is no {suffix} yet"
    return damage


def flip_log_middle(member):
    """Far from the end, where no write was under way."""
    path = random.choice(files_of(member, ".log")[:2])
    end = used_bytes(path)
    at = random.randrange(end // 2)
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << random.randrange(8)]))
    return f"{os.path.basename(path)} has another bit at {at} of {end}"


def lose_marker(member):
    os.unlink(os.path.join(member.data, "conclave.format"))
    return "conclave.format is gone"


def lose_all(member):
    member.wipe()
    return "the folder is empty"


def aside_folders(member):
    return sorted(name for name in os.listdir(member.data) if name.startswith("damaged-"))


def metric(member, name):
    _, text = member.ask_admin("/metrics")
    rows = [line for line in text.splitlines() if line.startswith(name + " ")]
    expect(rows, f"/metrics says nothing of {name}")
    return float(rows[0].split()[1])


def until_healed(member, text):
    """Damage was named: then it is moved aside, everything comes from the others, and nothing was deleted."""
    wait_for(lambda: "healed" in text(), RECOVERY_S, f"member {member.number} to be healed:\n{text()}")
    expect("moved-aside" in text(), f"nothing is said of what was moved aside: {text()}")
    folders = aside_folders(member)
    expect(folders, "nothing lies aside")
    kept = [name for _, _, names in os.walk(os.path.join(member.data, folders[-1])) for name in names]
    expect(kept, f"{folders[-1]} is empty")
    expect(not os.path.exists(os.path.join(member.data, "healing")), "the mark of the healing stays behind")
    expect(metric(member, "conclave_healed_total") >= 1, "/metrics does not count the healing")
    expect(metric(member, "conclave_damaged") == 0, "/metrics says that it is still damaged")


def damaged(ensemble, damage, certain=False):
    """A member is hurt while it is stopped; it starts and is whole again, without a hand. `certain`: it must notice."""
    ensemble.wait_leader(RECOVERY_S)
    member = random.choice(ensemble.members)
    member.kill()
    what = damage(member)
    text = log_since(member)
    member.start()
    wait_for(lambda: member.is_fine() or not member.alive(), RECOVERY_S, f"{what}: to serve")
    expect(member.alive(), f"{what}: it ended: {text()}")
    note = "started"
    if "server: damaged" in text() or "damaged text=" in text():
        until_healed(member, text)
        note = f"healed: {damage_text(text())}"
        drop_aside(member)
    noticed = note != "started" or "log_left_out" in text()  # data in two snapshots are not missed
    expect(noticed or not certain, f"{what}: not noticed: {text()}")
    ensemble.wait_leader(RECOVERY_S)
    return f"{what}: {note}"


def drop_aside(member):
    for folder in aside_folders(member):
        shutil.rmtree(os.path.join(member.data, folder))


def killed_while_healing(ensemble):
    """kill -9 at any moment of it: each start goes on with it, and in the end all is there."""
    ensemble.wait_leader(RECOVERY_S)
    member = random.choice(ensemble.members)
    member.kill()
    what = flip_named("metadata")(member)
    kills = 0
    while not aside_folders(member) or kills < 3:
        expect(kills < 40, f"{what}: nothing was moved aside in {kills} starts:\n{member.log_tail()}")
        member.start()
        time.sleep(random.uniform(0, 0.12 + 0.02 * kills))  # a slow disk comes to the move later
        member.kill()
        kills += 1
    member.start()
    wait_for(member.is_fine, RECOVERY_S, f"{what}: to serve after {kills} kills")
    ensemble.wait_leader(RECOVERY_S)
    expect(not os.path.exists(os.path.join(member.data, "healing")), "the mark of the healing stays behind")
    # Killed between making a folder and the first move into it leaves an empty one behind.
    found = [name for name in aside_folders(member) if os.listdir(os.path.join(member.data, name))]
    expect(len(found) == 1, f"{what}: {found} lie aside after one damage")
    drop_aside(member)
    return f"{what}: whole after {kills} kills"


def majority_damaged(ensemble):
    """Two of three at once: nobody serves and nothing is touched, until what is wrong was put right by hand."""
    ensemble.wait_leader(RECOVERY_S)
    for member in ensemble.members:
        member.kill()
    hurt = random.sample(ensemble.members, 2)
    before = {}
    for member in hurt:
        with open(os.path.join(member.data, "metadata"), "rb") as file:
            before[member] = file.read()
        flip_named("metadata")(member)
    for member in ensemble.members:
        member.start()
    time.sleep(1.5)
    expect(not ensemble.leader(), "one of three leads")
    for member in hurt:
        expect(member.alive() and not member.is_fine(), f"member {member.number} ended, or serves")
        status, text = member.ask_admin("/readyz")
        expect(status == 503 and "damaged" in text, f"/readyz of a damaged member: {status} {text}")
        expect(metric(member, "conclave_damaged") == 1, "/metrics does not say that it is damaged")
        expect(not aside_folders(member), "what may be all there is was moved aside")
    for member in hurt:
        member.kill()
        with open(os.path.join(member.data, "metadata"), "wb") as file:
            file.write(before[member])
    for member in hurt:
        member.start()
    ensemble.wait_leader(RECOVERY_S)
    return "nothing was touched; put right by hand"


def damage_text(log):
    line = next(line for line in log.splitlines() if " damaged " in line or line.endswith(" damaged"))
    return line.partition("text=")[2][:160]


def damage_fault(damage, certain=False):
    return lambda ensemble: damaged(ensemble, damage, certain)


FAULTS = {"full-follower": full_follower, "full-leader": full_leader,
          "failed-sync-follower": failed_sync_follower, "failed-sync-leader": failed_sync_leader,
          "cut-tail": damage_fault(cut_tail), "flip-log": damage_fault(flip_log), "flip-any": damage_fault(flip_any),
          "flip-log-middle": damage_fault(flip_log_middle, certain=True),
          "flip-metadata": damage_fault(flip_named("metadata"), certain=True),
          "flip-marker": damage_fault(flip_named("conclave.format"), certain=True),
          "flip-snapshot": damage_fault(flip_named(".snapshot")),
          "lose-marker": damage_fault(lose_marker, certain=True),
          "killed-while-healing": killed_while_healing, "majority-damaged": majority_damaged,
          "lose-file": damage_fault(lose_file), "lose-all": damage_fault(lose_all)}
DAMAGE = ("cut-tail", "flip-log", "flip-any", "flip-log-middle", "flip-metadata", "flip-marker", "flip-snapshot",
          "lose-marker", "lose-file")


def run_round(ensemble, writers, name):
    began = time.monotonic()
    try:
        if name.startswith("failed-sync") and not shutil.which("strace"):
            print(f"skipped {name}: no strace (Debian: strace)")
            return None
        note = FAULTS[name](ensemble)
        for member in ensemble.members:
            until_synced(member)
        ensemble_test.check(ensemble, writers)
        print(f"ok      {name:<20} {time.monotonic() - began:5.1f} s, {note}", flush=True)
        return True
    except (Violation, Refused, RuntimeError, OSError, zk.Closed) as error:
        logs = "\n".join(f"--- {m.number} ({mode_of(m)})\n{m.log_tail(3000)}" for m in ensemble.members)
        print(f"FAILED  {name}: {error!r}\n{traceback.format_exc()}{logs}", flush=True)
        return False


def run(options):
    random.seed(options.seed)
    rng = random.Random(options.seed)
    names = [options.only] if options.only else list(FAULTS)
    rounds = options.rounds or len(names)
    results = []
    with Ensemble(3, DiskMember, tick_ms=TICK_MS, admin=True,
                  options=["--snapCount", "1000", "--preAllocSize", "256"]) as ensemble:
        with zk.Connection(ensemble.members[0].address, TIMEOUT_MS) as link:
            for path in ["/big"] + [f"/w{number}" for number in range(WRITERS)]:
                expect(link.call(zk.create(path))[0] == OK, f"create {path}")
            link.close_session()
        writers = [ensemble_test.Writer(ensemble, number, options.seed) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        for number in range(rounds):
            name = names[number] if number < len(names) else rng.choice(DAMAGE if options.damage else names)
            results.append(run_round(ensemble, writers, name))
            if results[-1] is False:
                break  # a fault seen once stays one
        for writer in writers:
            writer.ending.set()
    print(f"        {sum(w.acknowledged for w in writers)} acknowledged writes looked up, "
          f"{sum(w.expired for w in writers)} sessions expired")
    return results.count(True), rounds - len(results) + results.count(False), results.count(None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=0, help="default: each fault once")
    parser.add_argument("--damage", action="store_true", help="rounds behind the first ones only damage files")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big") >> 2)
    parser.add_argument("--only", choices=sorted(FAULTS))
    options = parser.parse_args()
    why = why_missing() or power_test.why_not()
    if why:
        print(f"skipped: {why}")
        return 77
    print(f"seed {options.seed}")
    passed, failed, skipped = run(options)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
