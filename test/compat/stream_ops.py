"""Makes the random operation streams of streams.py: a seed in, a list of operations out.

Promise: the same seed gives the same stream; an operation stands for itself, so that any part of a stream is a
stream. Paths begin with "~", which the replay puts its own root for.
Limits: names of sequential nodes are guessed, not known; nothing here waits for time to pass.
"""

import collections
import random

import zkwire as zk

# slot: whose session; name and args: a function of zkwire with its arguments, or one of the replay's own words;
# burst: may be sent before the reply to the one before has come; id: set_watches refers to it.
Op = collections.namedtuple("Op", "slot name args burst id")

DIGEST = "u1:xl7CtbhlYcS9zlGbPt+OMqwz0hI="  # of another password than u1:p1's
ACLS = (
    None, (), ((1, "world", "anyone"),), ((0, "world", "anyone"),), ((31, "world", "nobody"),),
    ((31, "auth", ""),), ((31, "digest", DIGEST),), ((31, "digest", DIGEST), (1, "world", "anyone")),
    ((31, "digest", "nocolon"),), ((31, "digest", "a:b:c"),), ((31, "ip", "127.0.0.1"),), ((31, "ip", "10.0.0.0/8"),),
    ((31, "ip", "10.0.0.0/99"),), ((31, "ip", "x"),), ((31, "nosuch", "x"),), ((31, "", ""),), ((31, None, None),),
    ((31, "world", "anyone"), (31, "world", "anyone")), ((31, "world", "anyone"), (1, "ip", "127.0.0.1")),
    ((64, "world", "anyone"),), ((-1, "world", "anyone"),), ((5, "world", "anyone"), (10, "auth", "x")),
)
BAD_PATHS = (
    "", "foo", "foo/bar", None, "~/", "~//a", "~/a/", "~/./a", "~/a/..", "~/../x", "~/a/.", "~/a\0b", "~/\x01", "~/\x1f",
    "~/\x7f", "~/\x9f", "~/\ue000", "~/\uf8ff", "~/\ufff0", "~/\uffff", "~/\U0001f600", b"~/\xff\xfe", b"~/\xc3",
    b"~/\xc0\x80", b"~/\xed\xa0\x80", "~/missing/../x", "~/missing/x", "/", "//", "/.", "~",
)
GOOD_ODD_PATHS = ("~/é", "~/ ", "~/...", "~/.a", "~/日本", "~/" + "n" * 200, "~/\x20\u00a0", "~/\ufdd0", "~/\uf900")
PROTECTED_PATHS = ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config")
BASES = ("~", "~", "~/a", "~/a", "~/a", "~/b", "~/b", "~/a/b", "~/a/b", "~/c", "~/a/c", "~/a/b/d", "~/b/e")
DATA = (b"", None, b"x", b"hello", bytes(range(256)), b"z" * 3000)
# Nothing is sent before their reply has come: the connection may end, auth is answered beside the queue, and what
# Apache ZooKeeper has in its queue behind a setACL is still checked against the ACL before it.
ALONE = ("cut", "longer", "raw", "reconnect", "close_session", "auth", "set_acl")
READS = ("exists", "get_data", "get_children", "get_children2")


class Maker:
    """The choices of one stream."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.ops = []
        self.slots = self.random.choice((1, 2, 2, 3, 3, 4))

    def pick(self, values):
        return self.random.choice(values)

    def chance(self, percent):
        return self.random.random() * 100 < percent

    def path(self):
        roll = self.random.random() * 100
        if roll < 78:
            return self.pick(BASES)
        if roll < 90:
            parent = self.pick(BASES)
            return f"{parent}/{self.pick(('s-', ''))}{self.random.randrange(4):010d}"
        if roll < 94:
            return self.pick(GOOD_ODD_PATHS)
        return self.pick(BAD_PATHS)

    def read_path(self):
        """A path to read or set: not the real root, where other streams leave their traces."""
        path = self.path()
        return "~" if path in ("", "/") else path

    def flags(self):
        return self.pick((7, -1, 4, 5, 6, 255, 2**31 - 1)) if self.chance(4) else self.pick((0, 0, 0, 1, 1, 2, 3))

    def acl(self):
        return self.pick(ACLS) if self.chance(12) else zk.OPEN_ACL

    def version(self):
        return self.pick((-1, -1, -1, -1, 0, 0, 1, 1, 2, 3, -2, -2**31, 2**31 - 1))

    def create(self, op=None):
        flags = self.flags()
        path = self.path()
        if flags in (2, 3) and path in ("/", "/.", "~"):
            path = "~/s-"  # nothing is to be left in the real root
        elif flags in (2, 3) and isinstance(path, str) and self.chance(70):
            path = path + self.pick(("/s-", "/", "/s-", "-", ""))
        op = op if op is not None else self.pick((zk.CREATE, zk.CREATE, zk.CREATE2, zk.CREATE2, zk.CREATE_CONTAINER))
        if op == zk.CREATE_CONTAINER:
            flags = zk.CONTAINER if self.chance(85) else flags
        return "create", (path, self.pick(DATA), self.acl(), flags, op)

    def create_ttl(self):
        # A flag of another kind with a ttl out of range ends Apache ZooKeeper 3.8, and again at each start.
        flags = self.pick((5, 5, 6, 6, 7))
        ttl = self.pick((3600000, 86400000, 0, -1, 0xFFFFFFFFFF, 0x10000000000, 2**63 - 1))
        return "create_ttl", (self.path(), self.pick(DATA), self.acl(), flags, ttl)

    def delete(self):
        path = self.pick(PROTECTED_PATHS) if self.chance(3) else self.path()
        return "delete", (path, self.version())

    def set_data(self):
        path = "/zookeeper/config" if self.chance(1) else self.read_path()
        return "set_data", (path, self.pick(DATA), self.version())

    def set_acl(self):
        return "set_acl", (self.path(), self.pick(ACLS) if self.chance(70) else zk.OPEN_ACL, self.version())

    def read(self):
        name = self.pick(READS)
        path, watch = self.read_path(), self.chance(40)
        if name == "get_children2":
            return "get_children", (path, watch, zk.GET_CHILDREN2)
        return name, (path, watch)

    def get_acl(self):
        return "get_acl", (self.read_path(),)

    def multi(self):
        parts = []
        for _ in range(self.random.randrange(0, 6)):
            roll = self.random.randrange(100)
            parts.append(self.create() if roll < 40 else self.delete() if roll < 58 else self.set_data() if roll < 78
                         else ("check", (self.path(), self.version())) if roll < 93 else self.create_ttl()
                         if roll < 97 else self.pick((self.set_acl, self.read, self.get_acl))())
        # Left out: a null path in a multi ends in a fault inside Apache ZooKeeper, which consumes no zxid: not a
        # behaviour to copy.
        return "multi", ([part for part in parts if part[1][0] is not None],)

    def multi_read(self):
        parts = []
        for _ in range(self.random.randrange(0, 5)):
            path = self.pick(BASES) if self.chance(90) else "~/missing/x"
            parts.append((self.pick(("get_data", "get_children")), (path, self.chance(20))))
        if self.chance(8):
            parts.append(self.pick((self.delete, self.read, self.get_acl))())
        return "multi_read", (parts,)

    def watch(self):
        name = self.pick(("add_watch", "add_watch", "check_watches", "remove_watches"))
        path = self.pick(BASES) if self.chance(90) else self.path()
        if name == "add_watch":
            return name, (path, self.pick((0, 0, 1, 1, 1, 2, -1) if self.chance(20) else (0, 1)))
        kind = self.pick((1, 2, 3, 3, 4, 5) if self.chance(90) else (0, 6, -1))
        return "check_watches", (path, kind, zk.CHECK_WATCHES if name == "check_watches" else zk.REMOVE_WATCHES)

    def set_watches(self):
        lists = [tuple(self.pick(BASES) for _ in range(self.random.randrange(0, 4))) for _ in range(5)]
        marks = [op.id for op in self.ops]
        mark = (self.pick(marks),) if marks and self.chance(80) else self.pick((0, -1, 2**62))
        return "set_watches", (mark, *(lists if self.chance(50) else lists[:3]))

    def auth(self):
        if self.chance(12):
            return "auth", self.pick((("nosuch", b"x"), ("world", b"x"), ("digest", b""), ("ip", b"1.2.3.4")))
        return "auth", ("digest", self.pick((b"u1:p1", b"u2:p2", b"u1:p1", b"nocolon")))

    def odd(self):
        """A body cut short, one that is too long, or an operation that is none."""
        roll = self.random.randrange(100)
        if roll < 70:
            inner = self.pick((self.create, self.create_ttl, self.delete, self.set_data, self.set_acl, self.read,
                               self.get_acl, self.multi, self.multi_read, self.watch, self.set_watches))()
            return "cut", (self.pick((0, 1, 3, 4, 5, 8, 12, -1, -1, -2, -4, -5)), *inner)
        if roll < 85:
            inner = self.pick((self.create, self.delete, self.set_data, self.read, self.get_acl, self.multi))()
            return "longer", (self.pick((b"\0", b"\0\0\0\0", b"tail")), *inner)
        if roll < 93:
            return "raw", (self.pick((10, 23, 99, 108, 999, -2, 13, 0)), self.pick((b"", b"\0\0\0\0", b"\0" * 40)))
        return "raw", (self.pick((zk.CREATE, zk.DELETE, zk.GET_DATA, zk.MULTI, zk.GET_ACL)),
                       self.pick((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe", b"\0\0\0\x20abc", b"\xff" * 40)))

    def other(self):
        name = self.pick(("sync", "ping", "get_ephemerals", "get_all_children_number", "who_am_i"))
        if name in ("ping", "who_am_i"):
            return name, ()
        if name == "get_ephemerals":
            return name, (self.pick(("~", "~/a", "/", "", None, "~/a/b/d", "~/missing")),)
        return name, (self.read_path(),)

    def add(self, slot, choice, burst=False):
        name, args = choice
        self.ops.append(Op(slot, name, args, burst, len(self.ops)))

    def step(self):
        slot = self.random.randrange(self.slots)
        burst = self.chance(35)
        if burst:
            slot = self.ops[-1].slot
        roll = self.random.random() * 100
        table = ((24, self.create), (8, self.delete), (14, self.set_data), (22, self.read), (9, self.multi),
                 (2.5, self.multi_read), (5, self.watch), (3, self.get_acl), (2.5, self.set_acl), (3, self.other),
                 (1, self.create_ttl))
        for weight, make in table:
            if roll < weight:
                return self.add(slot, make(), burst)
            roll -= weight
        # Operations that may close the connection, or are answered outside the queue: never in a burst.
        roll = self.random.randrange(100)
        if roll < 25:
            self.add(slot, self.odd())
        elif roll < 45:
            self.add(slot, ("reconnect", ()))
            if self.chance(75):
                self.add(slot, self.set_watches())
        elif roll < 65:
            self.add(slot, ("close_session", ()))
        elif roll < 80:
            self.add(slot, self.set_watches())
        else:
            self.add(slot, self.auth())
        return None


def make_stream(seed):
    """The stream of a seed: 40 to 60 operations, the first of which makes the root."""
    maker = Maker(seed)
    maker.add(0, ("create", ("~", b"", zk.OPEN_ACL, 0, zk.CREATE)))
    for path in ("~/a", "~/b", "~/a/b"):
        if maker.chance(60):
            maker.add(0, ("create", (path, b"", zk.OPEN_ACL, 0, zk.CREATE)), True)
    length = maker.random.randrange(40, 61)
    while len(maker.ops) < length:
        maker.step()
    return maker.ops
