"""Several servers as one ensemble, ours or Debian's Apache ZooKeeper, with the same interface.

Promise: members keep ports and data over kill and start; `leader()` asks the members themselves (srvr); everything
ends with the test program.
Limits: loopback, no secret between the members.
"""

import os
import re
import signal
import socket
import time

from conclave import Conclave
from server import READY_S, free_port
from zookeeper import ZooKeeper


def four_letters(address, word, timeout=2.0):
    """The answer to a four-letter word, "" when there is none."""
    try:
        with socket.create_connection(address, timeout=timeout) as link:
            link.sendall(word)
            parts = []
            while part := link.recv(65536):
                parts.append(part)
            return b"".join(parts).decode("utf-8", "replace")
    except OSError:
        return ""


def mode_of(server):
    """"leader", "follower", "observer", "standalone", or "" while it does not serve."""
    for line in four_letters(server.address, b"srvr").splitlines():
        if line.startswith("Mode: "):
            return line[6:].strip()
    return ""


class ConclaveMember(Conclave):
    """One of ours; `lines` are the server.N lines of all."""

    def __init__(self, number, lines, options=(), tick_ms=2000, admin=False):
        super().__init__(["--4lw.commands.whitelist", "*", *options], tick_ms, admin)
        self.number = number
        self.lines = lines
        self.port = free_port()

    def command(self):
        data = os.path.join(self.folder, "data")
        os.makedirs(data, exist_ok=True)
        with open(os.path.join(data, "myid"), "w", encoding="ascii") as file:
            file.write(f"{self.number}\n")
        config = os.path.join(self.folder, "zoo.cfg")
        with open(config, "w", encoding="ascii") as file:
            file.write(f"dataDir={data}\n" + "".join(line + "\n" for line in self.lines))
        words = super().command()
        return [*words[:2], config, *words[2:4], *words[6:]]


class ZooKeeperMember(ZooKeeper):
    """One of Apache's."""

    def __init__(self, number, lines, settings=None, tick_ms=2000, properties=None):
        super().__init__({"initLimit": 10, "syncLimit": 5, **(settings or {})}, properties, tick_ms)
        self.number = number
        self.lines = lines
        self.port = free_port()

    def command(self):
        words = super().command()
        data = os.path.join(self.folder, "data")
        os.makedirs(data, exist_ok=True)
        with open(os.path.join(data, "myid"), "w", encoding="ascii") as file:
            file.write(f"{self.number}\n")
        with open(os.path.join(self.folder, "zoo.cfg"), "a", encoding="ascii") as file:
            file.writelines(line + "\n" for line in self.lines)
        return words

    def wait_ready(self):
        """The port is open; whether it serves depends on the others."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if not self.alive():
                self.fail(f"ended with exit code {self.process.poll()}")
            try:
                socket.create_connection(self.address, timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        self.fail(f"not ready after {READY_S} s")


class Ensemble:
    """`with Ensemble(3) as ensemble:`; `kind` makes a member from its number and the server.N lines."""

    def __init__(self, count=3, kind=ConclaveMember, **more):
        peers = [(free_port(), free_port()) for _ in range(count)]
        lines = []
        self.members = [kind(i + 1, lines, **more) for i in range(count)]
        for member, (quorum, election) in zip(self.members, peers):
            lines.append(f"server.{member.number}=127.0.0.1:{quorum}:{election};127.0.0.1:{member.port}")
        if kind is ZooKeeperMember:  # the file contains its clientPort already
            lines[:] = [line.partition(";")[0] for line in lines]

    @property
    def hosts(self):
        return ",".join(member.host for member in self.members)

    def start(self):
        for member in self.members:
            member.start()
        self.wait_leader()
        return self

    def leader(self):
        """The member that leads and serves, or None."""
        for member in self.members:
            if member.alive() and mode_of(member) == "leader":
                return member
        return None

    def roles(self):
        """(leader, the other members), once one leads and all that live serve: a busy machine may elect at any moment."""
        leader = self.wait_leader()
        return leader, [member for member in self.members if member is not leader and member.alive()]

    def term(self):
        """The highest term of which a member has told in its log."""
        return max((int(term) for member in self.members for term in re.findall(r"\bterm=(\d+)", member.log_tail(1 << 20))),
                   default=0)

    def followers(self):
        return [member for member in self.members if member.alive() and mode_of(member) == "follower"]

    def wait_leader(self, seconds=READY_S, serving=None):
        """Waits until one leads and `serving` members (all that live) serve; returns the leader."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            modes = {member: mode_of(member) for member in self.members if member.alive()}
            leaders = [member for member, mode in modes.items() if mode == "leader"]
            serves = sum(1 for mode in modes.values() if mode)
            if len(leaders) == 1 and serves >= (len(modes) if serving is None else serving):
                return leaders[0]
            time.sleep(0.05)
        tails = "\n".join(f"--- {member.number} ({mode_of(member) or 'serves nobody'})\n{member.log_tail(1500)}"
                          for member in self.members)
        raise RuntimeError(f"no leader after {seconds} s\n{tails}")

    @staticmethod
    def pause(member):
        member.process.send_signal(signal.SIGSTOP)

    @staticmethod
    def resume(member):
        member.process.send_signal(signal.SIGCONT)

    def stop(self):
        for member in self.members:
            member.destroy()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
