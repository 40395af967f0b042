"""Clients of three kinds, kazoo, Curator and Apache's C client, that go on while the servers under them are exchanged.

Each client has one session with an ephemeral node, and in turn
  - creates a node with a number below its own node (the value is the name), once, whether it is answered or not;
  - adds one to its own counter by compare-and-set with the version; after a lost answer it reads the version first;
  - watches its own changing node, which others set, again and again;
  - is in a group of four, which has a lock or elects a leader: one holds until `release`, the others wait.
Every answer is a line in the peer's file, as takeover_check.py takes them: NANOSECONDS CLIENT EVENT WORD...

Commands of a peer, one a line on its input, each answered by a line "done COMMAND": arm N: each client watches the missing
node /load/once/N-CLIENT, once. pause: returns when no write is under way and none is uncertain. resume. release: the holders let go,
one after the other; returns when all have held once. It ends with its input.
Limits: Linux, one machine (the times are CLOCK_MONOTONIC). Needs kazoo, Curator with javac, and libzookeeper_mt with cc.
"""

import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

import zkwire as zk
from apache_nodes import link_to, must
from takeover_check import Check, Tree

HERE = os.path.dirname(os.path.abspath(__file__))
COMPAT = os.path.join(os.path.dirname(HERE), "compat")
sys.path.insert(0, COMPAT)
import curator_test  # noqa: E402

HEADER = "/usr/include/zookeeper/zookeeper.h"
SESSION_MS = 120000  # long: a busy machine must not end a session
PATIENCE_S = 150
FOLDERS = ("appended", "counters", "ephemeral", "changing", "once", "groups")
SHOWN = 12
KINDS = {"all": "", "kazoo": "k", "Curator": "j", "C": "c"}


def why_missing():
    missing = curator_test.why_missing()
    if missing:
        return missing
    if not shutil.which("cc") or not os.path.exists(HEADER):
        return "no libzookeeper_mt or no cc (Debian: libzookeeper-mt-dev, gcc)"
    try:
        __import__("kazoo.client")
    except ImportError:
        return "no kazoo (Debian: python3-kazoo)"
    return None


class Programs:
    """The peers, compiled once."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="conclave-test-takeover-")
        self.class_path = ":".join([self.folder, *map(curator_test.jar, curator_test.NEEDED)])
        self.c_peer = os.path.join(self.folder, "takeover_peer")
        subprocess.run(["cc", "-O1", "-DTHREADED", os.path.join(COMPAT, "takeover_peer.c"), "-o", self.c_peer, "-lzookeeper_mt",
                        "-lpthread"], check=True)
        subprocess.run(["javac", "-nowarn", "-d", self.folder, "-cp", self.class_path,
                        os.path.join(COMPAT, "TakeoverPeer.java")], check=True)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def commands(self, keep=False):
        """{kind: the words that start it}. keep: Curator keeps to the addresses that it was given."""
        return {"k": ["/usr/bin/python3", "-B", os.path.join(COMPAT, "kazoo_takeover_peer.py")],
                "j": ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
                      f"-Dtakeover.keep={str(keep).lower()}", "-cp", self.class_path, "TakeoverPeer"],
                "c": [self.c_peer]}


class Peer:
    """One process with the clients of one kind."""

    def __init__(self, words, kind, folder, hosts, count, period_ms):
        self.kind = kind
        self.lines = os.path.join(folder, f"{kind}.lines")
        self.errors = os.path.join(folder, f"{kind}.errors")
        self.read_to = 0
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen([*words, hosts, str(count), str(period_ms), str(SESSION_MS), self.lines],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)

    def wait_for(self, text):
        got = b""
        deadline = time.monotonic() + PATIENCE_S
        while not got.endswith(b"\n"):
            ready = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0]
            part = os.read(self.process.stdout.fileno(), 4096) if ready else b""
            if not part:
                raise RuntimeError(f"peer {self.kind}: no '{text}' ({'ended' if ready else 'too late'})\n{self.tail()}")
            got += part
        assert got.decode().strip() == text, (self.kind, got, text)

    def tell(self, command):
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()

    def tail(self):
        texts = []
        for path in (self.errors, self.lines):
            if os.path.exists(path):
                with open(path, "rb") as file:
                    texts.append(file.read()[-1500:].decode("utf-8", "replace"))
        return "\n".join(texts)

    def new_lines(self):
        if not os.path.exists(self.lines):
            return []
        with open(self.lines, "rb") as file:
            file.seek(self.read_to)
            data = file.read()
        data = data[:data.rfind(b"\n") + 1]
        self.read_to += len(data)
        return data.decode().splitlines()

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Load:
    """`with Load(programs, hosts, server, sessions, writes_per_s) as load:`; server: where its folders are made.

    keep: the clients keep to these hosts. Else Curator goes to those that /zookeeper/config names.
    """

    def __init__(self, programs, hosts, server, sessions=200, writes_per_s=500, keep=False):
        self.folder = tempfile.mkdtemp(prefix="conclave-test-load-")
        self.check = Check()
        self.rounds = []  # whose nodes exist
        self.changes = 0  # times each changing node was set
        link = link_to(server)
        must(link, zk.create("/load", b""))
        for name in FOLDERS:
            must(link, zk.create(f"/load/{name}", b""))
        share = {"k": sessions // 4, "j": (sessions - sessions // 4) // 2}
        share["c"] = sessions - sum(share.values())
        self.sessions = share
        for kind, count in share.items():  # kazoo and Curator make the folders of theirs
            for group in range((count + 3) // 4 if kind == "c" else 0):
                must(link, zk.create(f"/load/groups/{kind}{group}", b""))
        link.close_session()
        period_ms = sessions * 1000 // writes_per_s
        self.peers = [Peer(words, kind, self.folder, hosts, share[kind], period_ms) for kind, words in programs.commands(keep).items()]

    def __enter__(self):
        try:
            for peer in self.peers:
                peer.wait_for("ready")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for peer in self.peers:
            peer.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _all(self, command):
        for peer in self.peers:
            peer.tell(command)
        for peer in self.peers:
            peer.wait_for("done " + command.split()[0])

    def arm(self, number):
        self._all(f"arm {number}")

    def pause(self):
        self._all("pause")

    def resume(self):
        self._all("resume")

    def release(self):
        """All groups hand on to the last of theirs; then everybody held once."""
        self._all("release")
        self.read()
        count = {kind + str(group): min(4, number - 4 * group)
                 for kind, number in self.sessions.items() for group in range((number + 3) // 4)}
        for group, members in count.items():
            held = self.check.held.get(f"/load/groups/{group}", [])
            assert len(set(held)) == members == len(held), f"group {group}: held by {held}, not once by each of {members}"

    def read(self):
        for peer in self.peers:
            for line in peer.new_lines():
                self.check.take(line)

    def change(self, server, number):
        """Sets all changing nodes, and makes the nodes of round `number`."""
        self.read()
        link = link_to(server)
        names = sorted(self.check.clients)
        for name in names:
            link.send(zk.set_data(f"/load/changing/{name}", str(self.changes + 1).encode()))
            link.send(zk.create(f"/load/once/{number}-{name}", b""))
        for _ in range(2 * len(names)):
            assert link.read_reply().err == 0
        self.changes += 1
        self.rounds.append(number)
        link.close_session()

    def problems(self, server):
        """What is wrong; the clients rest. Watches have PATIENCE_S to arrive."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.read()
            found = self.check.problems(tree_of(server), self.rounds, self.changes)
            late = [text for text in found if "watch of round" in text or "changing node" in text]
            if not found or len(late) < len(found) or time.monotonic() > deadline:
                return found
            time.sleep(0.5)

    def verify(self, server):
        found = self.problems(server)
        if found:
            kept = self.folder + "-failed"
            shutil.copytree(self.folder, kept)
            raise AssertionError(f"{len(found)} problems (the clients' lines: {kept}):\n" + "\n".join(found[:SHOWN]))

    def measured(self, begin, end):
        """A text: the pauses of the clients in this time (ns)."""
        self.read()
        texts = [f"{title} {shares(self.check.pauses(begin, end, kind))}" for title, kind in KINDS.items()]
        return (f"no write at all for {self.check.silence(begin, end):.0f} ms; p50/p99/max ms of a client's pause: {', '.join(texts)}; "
                f"from its connection to its next write: {shares(self.check.first_writes(begin, end))}")


def shares(figures):
    """p50/p99/max of ascending figures, as text."""
    return "/".join(f"{figures[min(int(len(figures) * part), len(figures) - 1)]:.0f}" for part in (0.5, 0.99, 1)) if figures else "none"


def tree_of(server):
    """Everything below /load that the check wants."""
    link = link_to(server)
    try:
        must(link, zk.sync("/load"))
        clients = {name: must(link, zk.get_children(f"/load/{name}"))["children"] for name in FOLDERS}
        groups = {}
        for group in clients["groups"]:
            path = f"/load/groups/{group}"
            nodes = groups[path] = {}
            for name in must(link, zk.get_children(path))["children"]:
                err, fields = link.call(zk.exists(f"{path}/{name}"))
                if err == 0:  # a waiter may come and go
                    nodes[name] = (fields["stat"]["czxid"], fields["stat"]["ephemeralOwner"])
        counters = {}
        for name in clients["counters"]:
            fields = must(link, zk.get_data(f"/load/counters/{name}"))
            counters[name] = (fields["stat"]["version"], fields["data"])
        return Tree(
            appended={name: must(link, zk.get_children(f"/load/appended/{name}"))["children"] for name in clients["appended"]},
            counters=counters, groups=groups,
            ephemeral={name: must(link, zk.exists(f"/load/ephemeral/{name}"))["stat"]["ephemeralOwner"]
                       for name in clients["ephemeral"]})
    finally:
        link.close_session()
