"""A network that can be split: each member has its network namespace; all of them and the test program are on a
switch in user space that forwards or drops each packet by its source and destination.

Promise: cuts are silent (no reset, no end of stream), one-way if wanted, and packets can be lost at a rate; the
test program reaches the members despite the cuts between them, unless it is cut off itself. The network ends with the
test program.
Limits: IPv4; no root needed where user namespaces are allowed; `enter_own_network` restarts the program in a
new namespace, so call it first in main.
"""

import atexit
import ctypes
import fcntl
import os
import random
import select
import signal
import struct
import subprocess
import sys

from ensemble import ConclaveMember, Ensemble
from server import free_port

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
MTU = 16000
DEVICE = "net0"
MARK = "CONCLAVE_TEST_OWN_NETWORK"  # set in the program that was restarted
CLIENTS = 0                         # the test program's place on the switch; members have their numbers
LIBC = ctypes.CDLL(None, use_errno=True)


def host_of(node):
    return f"10.77.0.{node if node else 100}"


def enter_own_network():
    """Restarts this program in a new network namespace. Returns None there, or why that is impossible."""
    if os.environ.get(MARK):
        return None
    words = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    probe = "ip tuntap add dev probe0 mode tun && ip link set lo up"
    done = subprocess.run([*words, "sh", "-c", probe], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"no network namespace with a tun device: {(done.stderr.strip() or 'refused').splitlines()[-1]}"
    os.environ[MARK] = "1"
    os.execvp(words[0], [*words, sys.executable, "-B", *sys.argv])


def _switch_to(fd):
    if LIBC.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _open_tun():
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    return fd


def forward(tuns, control):
    """The switch: a loop in a separate process. A line of control is the rate of loss and then a row of 0 and 1 for
    each sender."""
    places = {int(host_of(node).rpartition(".")[2]): node for node in tuns}
    node_of = {fd: node for node, fd in tuns.items()}
    allowed = {node: set(tuns) for node in tuns}
    loss = 0.0
    while True:
        for fd in select.select([*node_of, control], [], [])[0]:
            if fd == control:
                line = os.read(control, 4096)
                if not line:
                    return
                words = line.split(b"\n")[-2].decode().split()
                loss = float(words[0])
                for node, row in zip(sorted(tuns), words[1:]):
                    allowed[node] = {to for to, mark in zip(sorted(tuns), row) if mark == "1"}
                continue
            try:
                packet = os.read(fd, MTU + 100)
            except OSError:
                continue
            to = places.get(packet[19]) if packet[0] >> 4 == 4 else None
            if to is None or to not in allowed[node_of[fd]] or (loss and random.random() < loss):
                continue
            try:
                os.write(tuns[to], packet)
            except OSError:
                pass  # its queue is full: lost, as on any network


class SplitNet:
    """The switch and the namespaces of members 1 to count."""

    def __init__(self, count):
        self.nodes = range(count + 1)
        self.cuts = set()  # (from, to)
        self.loss = 0.0
        self.holders = {}
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        tuns = {}
        for node in self.nodes:
            where = []
            if node != CLIENTS:
                holder = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c",
                                           "echo ready; exec sleep infinity"], stdout=subprocess.PIPE)
                holder.stdout.readline()
                self.holders[node] = holder
                where = ["nsenter", "-t", str(holder.pid), "--net"]
                place = os.open(f"/proc/{holder.pid}/ns/net", os.O_RDONLY)
                _switch_to(place)
                tuns[node] = _open_tun()
                _switch_to(home)
                os.close(place)
            else:
                tuns[node] = _open_tun()
            for words in (f"addr add {host_of(node)}/24 dev {DEVICE}", f"link set {DEVICE} mtu {MTU} up",
                          "link set lo up"):
                subprocess.run([*where, "ip", *words.split()], check=True)
        os.close(home)
        reader, self.control = os.pipe()
        self.switch = os.fork()
        if self.switch == 0:
            os.close(self.control)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                forward(tuns, reader)
            finally:
                os._exit(0)
        os.close(reader)
        for fd in tuns.values():
            os.close(fd)
        atexit.register(self.close)

    def _tell(self):
        rows = ["".join("0" if (a, b) in self.cuts else "1" for b in self.nodes) for a in self.nodes]
        os.write(self.control, f"{self.loss} {' '.join(rows)}\n".encode())

    def cut_one_way(self, senders, receivers):
        self.cuts |= {(a, b) for a in senders for b in receivers}
        self._tell()

    def cut(self, some, others):
        self.cuts |= {pair for a in some for b in others for pair in ((a, b), (b, a))}
        self._tell()

    def mend(self, some, others):
        """Takes back what `cut` of the same places did."""
        self.cuts -= {pair for a in some for b in others for pair in ((a, b), (b, a))}
        self._tell()

    def lose(self, rate):
        self.loss = rate
        self._tell()

    def heal(self):
        self.cuts.clear()
        self.loss = 0.0
        self._tell()

    def close(self):
        if self.switch:
            os.close(self.control)
            os.waitpid(self.switch, 0)
            self.switch = 0
            for holder in self.holders.values():
                holder.kill()
                holder.wait()


class SplitMember(ConclaveMember):
    """A member in its own namespace."""

    net = None
    secret = ""

    @property
    def host(self):
        return f"{host_of(self.number)}:{self.port}"

    @property
    def address(self):
        return host_of(self.number), self.port

    def command(self):
        words = super().command()
        words[words.index("--listen") + 1] = self.host
        holder = self.net.holders[self.number]
        return ["nsenter", "-t", str(holder.pid), "--net", *words, "--clusterSecretFile", self.secret]


class SplitEnsemble(Ensemble):
    """Several members on a network that can be split; `ensemble.net` splits it."""

    def __init__(self, count=3, kind=SplitMember, **more):
        self.net = SplitNet(count)
        super().__init__(count, kind, **more)
        secret = os.path.join(self.members[0].folder, "secret")
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(os.urandom(32).hex() + "\n")
        self.members[0].lines[:] = [
            f"server.{member.number}={host_of(member.number)}:{free_port()}:{free_port()};"
            f"{host_of(member.number)}:{member.port}" for member in self.members]
        for member in self.members:
            member.net, member.secret = self.net, secret

    def stop(self):
        super().stop()
        self.net.close()
