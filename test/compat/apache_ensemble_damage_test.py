"""Three servers of ours start on the folders of three of Apache's, and files are damaged, of a newer format, or find no room.

Promise: the member whose files cannot be used names them and joins; without a majority of readable folders each is named,
nothing is served and no file changes; a member whose disk is full, whatever it was about to write, ends and says so, and with room
the start goes on as if nothing had happened.
Limits: the full disks need the right to mount.

usage: apache_ensemble_damage_test.py [NAME...]
"""

import contextlib
import os
import random
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from apache_ensemble_import_test import Takeover, all_show, any_leader, launch, until_log  # noqa: E402
from apache_nodes import (EXIT_IO, SPOILERS, WAIT_S, contents, every_kind, files, must, settled, tree_of)  # noqa: E402
from conclave import why_missing  # noqa: E402
from ensemble import mode_of  # noqa: E402
from small_disk import SmallDisk  # noqa: E402

FOR_CHOICE = 64 << 10  # room for the choice, not for a log
TRIES = 10


class Kept:
    """Folders of Apache's with several snapshots and logs; `again` puts them back as they were."""

    def __init__(self, takeover):
        self.t = takeover
        link = every_kind(any_leader(takeover.apache))
        number = 0
        # Each member begins a new log behind a number of transactions that chance decides.
        while any(len(files(takeover.data(i), "log.")) < 3 for i in range(3)):
            must(link, zk.create(f"/n{number}", b"content %d" % number))
            number += 1
        for _ in range(20):
            must(link, zk.set_data("/n0", b"more"))
        for member in takeover.apache.members:
            settled(member)
        self.want = tree_of(takeover.apache.members[0])
        takeover.end_apache()
        link.drop()
        for i in range(3):
            shutil.copytree(takeover.data(i), takeover.data(i) + "-kept")

    def again(self):
        for i, server in enumerate(self.t.ours):
            server.stop()
            folder = self.t.data(i)
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
            shutil.copytree(folder + "-kept", folder, dirs_exist_ok=True)
            if os.path.exists(server.log_path):
                os.remove(server.log_path)


def serve(t):
    return [server.number for server in t.ours if mode_of(server) in ("leader", "follower", "standalone")]


def made(t, i):
    """What our server left in the folder, beside the choice."""
    return [name for name in os.listdir(t.data(i)) if name in ("conclave.format", "log", "snapshot", "imported")]


def test_one_joins_and_two_wait():
    """Every damage on one member, and any two damages on two."""
    with Takeover(settings={"snapCount": 60}) as t:
        kept = Kept(t)
        for spoil, text in SPOILERS.values():
            kept.again()
            bad = random.randrange(3)
            where = spoil(t.data(bad))
            t.start()
            all_show(t, kept.want)
            until_log(t.ours[bad], "import-impossible", where, text)
        left = random.sample(list(SPOILERS), len(SPOILERS))
        while left:
            pair = [left.pop() for _ in range(min(2, len(left)))]
            pair += random.sample([name for name in SPOILERS if name not in pair], 2 - len(pair))
            kept.again()
            bad = random.sample(range(3), 2)
            where = [SPOILERS[name][0](t.data(i)) for name, i in zip(pair, bad)]
            was = [contents(t.data(i)) for i in range(3)]
            t.start()
            for server in t.ours:
                until_log(server, "import-waits", *(f"member {i + 1}: damaged files" for i in bad))
            for name, i, file in zip(pair, bad, where):
                until_log(t.ours[i], "import-impossible", file, SPOILERS[name][1])
            assert not serve(t), pair
            assert [contents(t.data(i)) for i in range(3)] == was, pair
            assert not [name for i in range(3) for name in os.listdir(t.data(i)) if name not in ("version-2", "myid")], pair
        return f"{len(SPOILERS)} damages"


def ended_full(server, *texts):
    """The server has ended, because its disk is full."""
    code = server.process.wait(WAIT_S)
    log = server.log_tail(100000)
    assert code == EXIT_IO and "No space left" in log and all(text in log for text in texts), (code, texts, log)


def test_full_disks():
    """Full when a member notes its choice, when the chosen one founds, when one joins."""
    with Takeover() as t, contextlib.ExitStack() as stack:
        link = every_kind(any_leader(t.apache))
        want = tree_of(t.apache.members[0])
        t.end_apache()
        link.drop()
        disks = []
        for i in range(3):
            disks.append(SmallDisk(t.data(i)))
            stack.callback(disks[i].close)
            stack.callback(t.ours[i].kill)
        was = [contents(t.data(i)) for i in range(3)]

        def nothing_happened():
            assert [contents(t.data(i)) for i in range(3)] == was
            assert not serve(t)

        for disk in disks:
            disk.fill()
        for server in t.ours:
            launch(server)
        for server in t.ours:
            ended_full(server, "import-choice")
        nothing_happened()
        assert not [name for i in range(3) for name in made(t, i)]

        for disk in disks:
            disk.free()
            disk.fill(FOR_CHOICE)
        for server in t.ours:
            launch(server)
        founder = founder_of(t)
        ended_full(founder, "import-begins")
        nothing_happened()
        for server in t.ours:
            if server is not founder:
                until_log(server, "import-waits", "not reached")
        nothing_happened()

        others = [i for i in range(3) if t.ours[i] is not founder]
        late = random.choice(others)
        t.ours[late].kill()
        for i in range(3):
            disks[i].free()
        disks[late].fill()
        launch(founder)
        t.leader(serving=2)
        launch(t.ours[late])
        ended_full(t.ours[late], "import-joins")
        assert contents(t.data(late)) == was[late]
        assert len(serve(t)) == 2
        disks[late].free()
        launch(t.ours[late])
        t.leader(serving=3)
        all_show(t, want)
        assert [contents(t.data(i)) for i in range(3)] == was
        assert not os.path.exists(os.path.join(t.data(late), "import-choice"))
        return f"member {founder.number} began"


def test_chosen_before_it_chose():
    """The others have chosen a member that could not note its own choice and ended: it begins all the same, and serves."""
    with Takeover() as t, contextlib.ExitStack() as stack:
        link = every_kind(any_leader(t.apache))
        want = tree_of(t.apache.members[0])
        t.end_apache()
        link.drop()
        disk = SmallDisk(t.data(0))
        stack.callback(disk.close)
        stack.callback(t.ours[0].kill)
        for tries in range(1, TRIES + 1):
            disk.fill()
            for server in t.ours:
                launch(server)
            ended_full(t.ours[0])
            for server in t.ours[1:]:
                until_log(server, "import-choice member=")
            if all("import-choice member=1 " in server.log_tail(100000) for server in t.ours[1:]):
                break
            for i, server in enumerate(t.ours):  # they did not hear of it in time
                server.kill()
                clear(t.data(i))
                os.remove(server.log_path)
        else:
            raise AssertionError(f"not chosen in {TRIES} tries")
        assert not serve(t)
        disk.free()
        launch(t.ours[0])
        t.leader(serving=3)
        all_show(t, want)
        return f"at try {tries}"


def clear(folder):
    """All but Apache's files and the filler goes."""
    for name in os.listdir(folder):
        if name not in ("version-2", "myid", "lost+found"):
            path = os.path.join(folder, name)
            (shutil.rmtree if os.path.isdir(path) else os.remove)(path)


def founder_of(t):
    """The member that ends because it has no room to found."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        ended = [server for server in t.ours if not server.alive()]
        if ended:
            return ended[0]
        time.sleep(0.05)
    raise AssertionError([server.log_tail() for server in t.ours])


def main():
    missing = why_missing() or zookeeper.why_missing()
    if missing:
        return cases.skip_all(missing)
    return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
