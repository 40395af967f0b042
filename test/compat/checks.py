#!/usr/bin/env python3
"""The order of checks: each operation with two faults at once, on Apache ZooKeeper and on ours; the first must show.

    checks.py [--list] [NAME...]

Promise: each operation has the list of its checks in the order in which the protocol makes them. Each check is
violated alone, and with each later one that a request can violate at the same time; the answer must be the error of the
first, on both servers, and neither may have changed anything. The answers of the operations without an order of
their own are compared whole. Each is one case. DIFFERS lists what Apache ZooKeeper answers otherwise than ours, with the
versions that do so (3.8 is on Debian 12, 3.9 on Debian 13) and their exact answer, so that an entry cannot outlive its
reason.
Limits: standalone servers: local sessions, and a session that moved while a request of it was in another server's queue,
need an ensemble.
"""

import itertools
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import conclave  # noqa: E402
import pair  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402

OWNER = b"owner:secret"
SESSION_TIMEOUT_MS = 30000
SHORT_TIMEOUT_MS = 400
TICK_MS = 200  # of the servers for sessions
OTHER_VERSION = 7
TYPES = {"extendedTypesEnabled": "true", "enforceQuota": "true"}

# Which versions an entry is about: from the first, below the second.
EVERY = ((0,), (99,))
BEFORE_3_9 = ((0,), (3, 9))
FROM_3_9 = ((3, 9), (99,))
BEFORE_3_9_2 = ((0,), (3, 9, 2))

# (pattern of the case's name, versions of Apache ZooKeeper, what they answer, why). The answer of ours is the one that
# the case expects.
DIFFERS = [
    (r"multi\.create(2|Container)?:flags.*", BEFORE_3_9, "BADARGUMENTS",
     "3.8 tries a multi with a create of invalid flags; 3.9 refuses the whole request as it reads it"),
    (r"exists:auth", BEFORE_3_9_2, "OK", "3.8.0 tells without READ that a node exists; 3.9.2 and newer do not"),
    (r"(check|remove)Watches:(persistent|recursive)-of-.*", BEFORE_3_9, "MARSHALLINGERROR",
     "3.8 does not know the types persistent and recursive in checkWatches and removeWatches"),
    (r"(check|remove)Watches:(data|children)-of-(persistent|recursive)", BEFORE_3_9, "OK",
     "3.8 takes any watch at the path for one of the requested type"),
    (r"checkWatches:(relative|null)", BEFORE_3_9, "MARSHALLINGERROR",
     "3.8 looks at the path's parents, too, and fails at none"),
    (r"deleteContainer:.*", BEFORE_3_9, "BADARGUMENTS",
     "3.8 reads the body of the server's own operation as a path; ours never takes the operation from a client"),
    (r"deleteContainer:.*", FROM_3_9, "OK",
     "3.9 lets any client delete any childless node by the server's own operation, whatever its ACL; ours does not"),
    (r"check:alone.*", BEFORE_3_9, "NONODE", "3.8 takes a check outside of a multi for a write"),
    (r"quota:multi:creates:one-left", EVERY, "OK OK",
     "Apache counts what a multi does only when it is done: it may go beyond"),
    (r"quota:multi:create-after-delete:none-left", EVERY, "OK QUOTAEXCEEDED RUNTIMEINCONSISTENCY",
     "Apache counts what a multi does only when it is done: what it deletes makes no room"),
    (r"session:wrong-password:.*", EVERY, "closed",
     "Apache ends the old connection before it looks at the password"),
]


class Room:
    """One case's place on one server: a root of its own, an owner who is authenticated, and a client who is not."""

    def __init__(self, server, root, timeout_ms=SESSION_TIMEOUT_MS):
        self.server = server
        self.root = root
        self.owner = zk.Connection(server.address, SESSION_TIMEOUT_MS)
        self.client = zk.Connection(server.address, timeout_ms)
        self.owner.call(zk.auth("digest", OWNER))
        self.make(self.root)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in (self.owner, self.client):
            try:
                connection.close_session()
            except (zk.Closed, OSError, AssertionError):
                connection.drop()

    def make(self, path, data=b"", flags=zk.PERSISTENT):
        self.must(zk.create(path, data, flags=flags))
        return path

    def must(self, request):
        err, fields = self.owner.call(request)
        if err != 0:
            raise AssertionError(f"setting up: {zk.OP_NAMES[request.op]} gave {error_name(err)}")
        return fields

    def forbid(self, path, permission):
        """Leaves everybody all but one permission, and the owner all."""
        self.must(zk.set_acl(path, ((zk.ALL & ~permission, "world", "anyone"), (zk.ALL, "auth", ""))))

    def limit(self, path, data):
        """A hard quota on a path: its count or its bytes are used up already."""
        at = "/zookeeper/quota"
        for name in path.strip("/").split("/"):
            at += "/" + name
            self.owner.call(zk.create(at))
        self.make(at + "/zookeeper_limits", data)
        self.make(at + "/zookeeper_stats", b"count=0,bytes=0")

    def tree(self, path=None):
        """The nodes below the root: paths, data, versions."""
        path = path or self.root
        fields = self.must(zk.get_data(path))
        lines = [f"{path} {fields['data']!r} {fields['stat']['version']} {fields['stat']['aversion']}"]
        for name in sorted(self.must(zk.get_children(path))["children"]):
            lines += self.tree(f"{path}/{name}")
        return lines


def error_name(err):
    return zk.ERROR_NAMES.get(err, str(err))


def ask(connection, request):
    """(the error's name, or "closed", the reply's fields)."""
    try:
        err, fields = connection.call(request)
    except zk.Closed:
        return "closed", {}
    return error_name(err), fields


# --- requests with faults -----------------------------------------------------------------------------------------

class Faults:
    """The rules that a request violates, by name: `"acl" in faults`."""

    def __init__(self, names):
        self.names = frozenset(names)

    def __contains__(self, name):
        return name in self.names


def faulty_create(room, faults, op):
    parent = room.root + "/parent"
    if "parent" not in faults:
        room.make(parent, flags=zk.EPHEMERAL if "ephemeral" in faults else zk.PERSISTENT)
    if "exists" in faults:
        room.make(parent + "/node")
    if "auth" in faults:
        room.forbid(parent, zk.CREATE_PERM)
    if "quota" in faults:
        room.limit(room.root, b"count=1,bytes=-1;byteHardLimit=-1;countHardLimit=1")
    name = "no\0de" if "nul" in faults else ".." if "path" in faults else "node"
    acl = () if "acl" in faults else zk.OPEN_ACL
    if op == zk.CREATE_TTL:
        flags = 7 if "flags" in faults else zk.TTL
        return zk.create_ttl(f"{parent}/{name}", b"", acl, flags, 0 if "ttl" in faults else 3600000)
    flags = 7 if "flags" in faults else zk.CONTAINER if op == zk.CREATE_CONTAINER else zk.PERSISTENT
    return zk.create(f"{parent}/{name}", b"", acl, flags, op)


def faulty_delete(room, faults, _op):
    parent, node = room.root + "/parent", room.root + "/parent/node"
    if "parent" not in faults:
        room.make(parent)
        if "node" not in faults:
            room.make(node)
        if "children" in faults:
            room.make(node + "/child")
        if "auth" in faults:
            room.forbid(parent, zk.DELETE_PERM)
    return zk.delete(node + "\0" if "nul" in faults else node, OTHER_VERSION if "version" in faults else -1)


def with_node(room, faults, permission):
    """The path that setData, setACL and check ask for."""
    node = room.root + "/node"
    if "node" not in faults:
        room.make(node, b"12345678")
        if "auth" in faults:
            room.forbid(node, permission)
    return node + "/" if "path" in faults else node


def faulty_set_data(room, faults, _op):
    node = with_node(room, faults, zk.WRITE)
    if "quota" in faults:
        room.limit(node, b"count=-1,bytes=10;byteHardLimit=10;countHardLimit=-1")
    return zk.set_data(node, b"x" * 20, OTHER_VERSION if "version" in faults else -1)


def faulty_set_acl(room, faults, _op):
    node = with_node(room, faults, zk.ADMIN)
    return zk.set_acl(node, () if "acl" in faults else zk.OPEN_ACL, OTHER_VERSION if "version" in faults else -1)


def faulty_check(room, faults, _op):
    return zk.check(with_node(room, faults, zk.READ), OTHER_VERSION if "version" in faults else -1)


# The checks of an operation in their order, each with its error; and pairs that no request can violate at once.
CREATE_CHECKS = (("flags", "BADARGUMENTS"), ("nul", "BADARGUMENTS"), ("acl", "INVALIDACL"), ("parent", "NONODE"),
                 ("auth", "NOAUTH"), ("path", "BADARGUMENTS"), ("exists", "NODEEXISTS"),
                 ("ephemeral", "NOCHILDRENFOREPHEMERALS"), ("quota", "QUOTAEXCEEDED"))
CREATE_NEVER = ({"nul", "path"}, {"parent", "auth"}, {"parent", "exists"}, {"parent", "ephemeral"},
                {"exists", "ephemeral"})
TTL_CHECKS = (CREATE_CHECKS[0], ("ttl", "BADARGUMENTS"), *CREATE_CHECKS[1:])
TTL_OFF_CHECKS = (CREATE_CHECKS[0], ("off", "UNIMPLEMENTED"), *TTL_CHECKS[1:-1])
DELETE_CHECKS = (("nul", "BADARGUMENTS"), ("parent", "NONODE"), ("auth", "NOAUTH"), ("node", "NONODE"),
                 ("version", "BADVERSION"), ("children", "NOTEMPTY"))
DELETE_NEVER = ({"parent", "auth"}, {"parent", "children"}, {"node", "children"}, {"parent", "node"})
SET_DATA_CHECKS = (("path", "BADARGUMENTS"), ("node", "NONODE"), ("auth", "NOAUTH"), ("quota", "QUOTAEXCEEDED"),
                   ("version", "BADVERSION"))
SET_ACL_CHECKS = (("path", "BADARGUMENTS"), ("acl", "INVALIDACL"), ("node", "NONODE"), ("auth", "NOAUTH"),
                  ("version", "BADVERSION"))
CHECK_CHECKS = (("path", "BADARGUMENTS"), ("node", "NONODE"), ("auth", "NOAUTH"), ("version", "BADVERSION"))
NODE_NEVER = ({"node", "auth"}, {"path", "quota"}, {"node", "quota"})

# (name, operation, its request, checks, pairs that cannot be, in a multi)
ORDERS = [
    ("create", zk.CREATE, faulty_create, CREATE_CHECKS, CREATE_NEVER, False),
    ("create2", zk.CREATE2, faulty_create, CREATE_CHECKS, CREATE_NEVER, False),
    ("createContainer", zk.CREATE_CONTAINER, faulty_create, CREATE_CHECKS, CREATE_NEVER, False),
    ("createTTL", zk.CREATE_TTL, faulty_create, TTL_CHECKS, CREATE_NEVER, False),
    ("delete", zk.DELETE, faulty_delete, DELETE_CHECKS, DELETE_NEVER, False),
    ("setData", zk.SET_DATA, faulty_set_data, SET_DATA_CHECKS, NODE_NEVER, False),
    ("setACL", zk.SET_ACL, faulty_set_acl, SET_ACL_CHECKS, NODE_NEVER, False),
    ("multi.create", zk.CREATE, faulty_create, CREATE_CHECKS, CREATE_NEVER, True),
    ("multi.create2", zk.CREATE2, faulty_create, CREATE_CHECKS, CREATE_NEVER, True),
    ("multi.createContainer", zk.CREATE_CONTAINER, faulty_create, CREATE_CHECKS, CREATE_NEVER, True),
    ("multi.createTTL", zk.CREATE_TTL, faulty_create, TTL_CHECKS, CREATE_NEVER, True),
    ("multi.delete", zk.DELETE, faulty_delete, DELETE_CHECKS, DELETE_NEVER, True),
    ("multi.setData", zk.SET_DATA, faulty_set_data, SET_DATA_CHECKS, NODE_NEVER, True),
    ("multi.check", zk.CHECK, faulty_check, CHECK_CHECKS, NODE_NEVER, True),
]
TTL_OFF_ORDERS = [("createTTL.off", zk.CREATE_TTL, faulty_create, TTL_OFF_CHECKS, CREATE_NEVER, False)]


def order_case(row, faults):
    _, op, build, _, _, in_multi = row

    def run(room):
        request = build(room, Faults(faults), op)
        before = room.tree()
        if in_multi:
            made = zk.set_data(room.root, b"first")
            answer, fields = ask(room.client, zk.multi([made, request, zk.delete(room.root + "/last")]))
            errors = [error_name(err) for _, err, _ in fields.get("results", ())][:-1]
            if len(errors) == 3 and (errors[0], errors[2]) == ("OK", "RUNTIMEINCONSISTENCY"):
                answer = errors[1]
            elif answer == "OK":
                answer = f"a multi of {' '.join(errors)}"
        else:
            answer, _ = ask(room.client, request)
        if room.tree() != before:
            answer += ", and changed the tree"
        return answer, []
    return run


def order_cases(rows):
    """(name, expected answer, what to run) of each check alone and of each pair."""
    for row in rows:
        checks, never = row[3], row[4]
        always = {name for name, _ in checks} & {"off"}
        for size in (1, 2):
            for chosen in itertools.combinations(checks, size):
                faults = [name for name, _ in chosen]
                if any(both <= set(faults) for both in never) or not always <= set(faults):
                    continue
                expected = chosen[0][1]
                if row[5] and row[1] != zk.CREATE_TTL and faults[0] == "flags":
                    expected = "MARSHALLINGERROR"  # of the whole request: its flags are looked at as it is read
                yield f"{row[0]}:{'+'.join(faults)}", expected, order_case(row, faults)


# --- reads --------------------------------------------------------------------------------------------------------

READS = {
    "exists": zk.exists, "getData": zk.get_data, "getACL": zk.get_acl, "getChildren": zk.get_children,
    "getChildren2": lambda path: zk.get_children(path, op=zk.GET_CHILDREN2),
    "getAllChildrenNumber": zk.get_all_children_number,
}


def secret(room):
    """A node that only its owner may read."""
    path = room.make(room.root + "/secret", b"data")
    room.make(path + "/child")
    room.must(zk.set_acl(path, ((zk.ALL, "auth", ""),)))
    return path


def shown(fields, root):
    """A reply's fields without times, zxids and ids."""
    lines = []
    for name, value in fields.items():
        if name == "stat":
            value = {key: value[key] for key in ("version", "cversion", "aversion", "dataLength", "numChildren")}
        if name in ("children", "ephemerals"):
            value = sorted(value)
        lines.append(f"{name}={value!r}".replace(root, "~"))
    return lines


def one(request_of):
    """A case of one request; request_of(room) makes it."""
    def run(room):
        answer, fields = ask(room.client, request_of(room))
        return answer, shown(fields, room.root)
    return run


def read_cases():
    """Reads: no such node, no permission, and paths that are none."""
    for name, read in READS.items():
        yield f"{name}:node", "NONODE", one(lambda room, read=read: read(room.root + "/missing"))
        yield f"{name}:auth", "NOAUTH", one(lambda room, read=read: read(secret(room)))
        yield f"{name}:auth+node", "NONODE", one(lambda room, read=read: read(secret(room) + "/missing"))
        yield f"{name}:below-auth", "OK", one(lambda room, read=read: read(secret(room) + "/child"))
        nul = "BADARGUMENTS" if name == "exists" else "NONODE"
        yield f"{name}:nul+node", nul, one(lambda room, read=read: read(room.root + "/missing/a\0b"))
        yield f"{name}:nul+auth", nul, one(lambda room, read=read: read(secret(room) + "\0"))
        for word, path in (("relative", "foo"), ("slash", "/zookeeper/"), ("dots", "/zookeeper/.."),
                           ("double", "//zookeeper"), ("control", "/\x01")):
            yield f"{name}:{word}+node", "NONODE", one(lambda room, read=read, path=path: read(path))
    for permission, answer in ((zk.READ, "OK"), (zk.ADMIN, "OK"),
                               (zk.WRITE | zk.CREATE_PERM | zk.DELETE_PERM, "NOAUTH")):
        def get_acl(room, permission=permission):
            path = room.make(room.root + "/node")
            room.must(zk.set_acl(path, ((permission, "world", "anyone"), (zk.ALL, "auth", ""))))
            return zk.get_acl(path)
        yield f"getACL:with-{permission}", answer, one(get_acl)


# --- operations without an order of their own ---------------------------------------------------------------------

SPECIAL = ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config")


def special_cases():
    """Paths that cannot be deleted or created, whatever else is wrong with the request."""
    for path in SPECIAL:
        yield f"delete:special+version:{path}", "BADARGUMENTS", one(lambda _, path=path: zk.delete(path, OTHER_VERSION))
        yield f"create:exists:{path}", "NODEEXISTS", one(lambda _, path=path: zk.create(path))
    for op, name in ((zk.CREATE, "create"), (zk.CREATE2, "create2"), (zk.CREATE_CONTAINER, "createContainer")):
        for word, path in (("empty", ""), ("relative", "foo"), ("null", None)):
            flags = zk.CONTAINER if op == zk.CREATE_CONTAINER else zk.PERSISTENT
            yield (f"{name}:{word}+acl", "MARSHALLINGERROR" if path is None else "BADARGUMENTS",
                   one(lambda _, path=path, flags=flags, op=op: zk.create(path, b"", (), flags, op)))
    yield "create:sequential-no-name", "OK", one(
        lambda room: zk.create(room.root + "/", flags=zk.PERSISTENT_SEQUENTIAL))
    yield "create:sequential-dot", "OK", one(lambda room: zk.create(room.root + "/.", flags=zk.PERSISTENT_SEQUENTIAL))
    yield "create:slash-at-end", "BADARGUMENTS", one(lambda room: zk.create(room.root + "/"))
    yield "create:slash-at-end+parent", "NONODE", one(lambda room: zk.create(room.root + "/missing/"))
    yield "create:control+exists-not", "BADARGUMENTS", one(lambda room: zk.create(room.root + "/\x1f"))
    yield "create:ttl-flag-by-create", "BADARGUMENTS", one(
        lambda room: zk.create(room.root + "/x/y", acl=(), flags=zk.TTL))
    yield "create:container-flag-by-create", "OK", one(lambda room: zk.create(room.root + "/c", flags=zk.CONTAINER))
    for word, acl in (("null", None), ("scheme", ((zk.ALL, "nosuch", "x"),)), ("auth", ((zk.ALL, "auth", ""),)),
                      ("digest", ((zk.ALL, "digest", "nocolon"),)), ("ip", ((zk.ALL, "ip", "300.1.1.1"),)),
                      ("world", ((zk.ALL, "world", "nobody"),))):
        yield f"create:acl-{word}+parent", "INVALIDACL", one(
            lambda room, acl=acl: zk.create(room.root + "/x/y", acl=acl))
        yield (f"setACL:acl-{word}+node", "INVALIDACL",
               one(lambda room, acl=acl: zk.set_acl(room.root + "/x", acl, OTHER_VERSION)))
    for ttl, answer in ((0, "BADARGUMENTS"), (-1, "BADARGUMENTS"), (1, "NONODE"), (0xFFFFFFFFFF, "NONODE"),
                        (0x10000000000, "BADARGUMENTS")):
        for flags in (zk.TTL, zk.SEQUENTIAL_TTL):
            yield (f"createTTL:ttl-{ttl}+parent:{flags}", answer,
                   one(lambda room, ttl=ttl, flags=flags:
                       zk.create_ttl(room.root + "/x/y", b"", zk.OPEN_ACL, flags, ttl)))


WATCH_KINDS = {"children": 1, "data": 2, "any": 3, "persistent": 4, "recursive": 5, "none": 0, "six": 6, "minus": -1}


def set_one_watch(room, kind):
    path = room.root
    request = {"data": lambda: zk.get_data(path, True), "children": lambda: zk.get_children(path, True),
               "exists": lambda: zk.exists(path, True), "persistent": lambda: zk.add_watch(path, 0),
               "recursive": lambda: zk.add_watch(path, 1)}.get(kind)
    if request:
        answer, _ = ask(room.client, request())
        if answer != "OK":
            raise AssertionError(f"setting the watch: {answer}")


def watch_answer(held, kind):
    """The answers of checkWatches and removeWatches of a type, with one watch set."""
    if kind in ("none", "six", "minus"):
        return "MARSHALLINGERROR"
    fits = {"children": ("children", "any"), "data": ("data", "any"), "exists": ("data", "any"),
            "persistent": ("persistent", "any"), "recursive": ("recursive", "any")}.get(held, ())
    return "OK" if kind in fits else "NOWATCHER"


def watch_cases():
    """checkWatches and removeWatches of each type beside each kind of watch; addWatch without any check."""
    for op, name in ((zk.CHECK_WATCHES, "checkWatches"), (zk.REMOVE_WATCHES, "removeWatches")):
        for held in ("nothing", "data", "children", "exists", "persistent", "recursive"):
            for kind, number in WATCH_KINDS.items():
                def run(room, op=op, held=held, number=number):
                    set_one_watch(room, held)
                    answer, _ = ask(room.client, zk.check_watches(room.root, number, op))
                    return answer, []
                yield f"{name}:{kind}-of-{held}", watch_answer(held, kind), run
        for word, path in (("relative", "foo"), ("null", None), ("nul", "/\0")):
            yield f"{name}:{word}", "NOWATCHER", one(lambda _, path=path, op=op: zk.check_watches(path, 3, op))
            yield (f"{name}:{word}+type", "MARSHALLINGERROR",
                   one(lambda _, path=path, op=op: zk.check_watches(path, 9, op)))
    for mode, answer in ((0, "OK"), (1, "OK"), (2, "MARSHALLINGERROR"), (-1, "MARSHALLINGERROR")):
        for word, path_of in (("missing", lambda room: room.root + "/missing"),
                              ("auth", secret), ("relative", lambda _: "foo")):
            yield (f"addWatch:{mode}:{word}", answer,
                   one(lambda room, mode=mode, path_of=path_of: zk.add_watch(path_of(room), mode)))


def ephemerals_of(prefix_of, owner_too=False):
    def run(room):
        parent = room.make(room.root + "/parent")
        connections = (room.owner, room.client) if owner_too else (room.client,)
        for number, connection in enumerate(connections):
            for name in ("a", "ab", "b"):
                connection.call(zk.create(f"{parent}/{name}{number}", flags=zk.EPHEMERAL))
        answer, fields = ask(room.client, zk.get_ephemerals(prefix_of(parent)))
        return answer, shown(fields, room.root)
    return run


def other_cases():
    """getEphemerals, getAllChildrenNumber, sync, setWatches, auth, reconfig, and what is no client's operation."""
    for word, prefix_of in (("null", lambda _: None), ("empty", lambda _: ""), ("root", lambda _: "/"),
                            ("part-of-name", lambda path: path + "/a"), ("parent", lambda path: path),
                            ("slash", lambda path: path + "/"), ("missing", lambda path: path + "/zz"),
                            ("relative", lambda _: "foo"), ("nul", lambda _: "/\0")):
        yield f"getEphemerals:{word}", "OK", ephemerals_of(prefix_of)
        yield f"getEphemerals:{word}:own-only", "OK", ephemerals_of(prefix_of, True)
    yield "getAllChildrenNumber:leaf", "OK", one(
        lambda room: zk.get_all_children_number(room.make(room.root + "/leaf")))
    yield ("getAllChildrenNumber:deep", "OK",
           one(lambda room: zk.get_all_children_number(secret(room) and room.root)))
    for word, path_of in (("missing", lambda room: room.root + "/missing"),
                          ("auth", secret), ("relative", lambda _: "foo"),
                          ("nul", lambda _: "/\0"), ("empty", lambda _: ""), ("null", lambda _: None)):
        yield f"sync:{word}", "OK", one(lambda room, path_of=path_of: zk.sync(path_of(room)))
    for word, lists in (("empty", {}), ("relative", {"data": ["foo"], "exist": ["bar"], "child": ["baz"]}),
                        ("two", {"data": ["/"], "persistent": ["foo"], "recursive": ["/"]})):
        yield f"setWatches:{word}", "OK", one(lambda _, lists=lists: zk.set_watches(2**62, **lists))
    yield "auth:unknown-scheme", "AUTHFAILED", one(lambda _: zk.auth("nosuch", b"x"))
    yield "auth:again", "OK", one(lambda _: zk.auth("digest", OWNER))
    yield "whoAmI", "OK", one(lambda _: zk.who_am_i())
    reconfig = zk.string("x") + zk.string("y") + zk.string("z") + zk.i64(99)
    yield "reconfig:disabled+standalone", "RECONFIGDISABLED", one(lambda _: zk.Request(zk.RECONFIG, reconfig))
    yield ("deleteContainer:not-a-clients", "UNIMPLEMENTED",
           one(lambda room: zk.Request(zk.DELETE_CONTAINER, zk.string(room.make(room.root + "/plain")))))
    yield "check:alone+node", "UNIMPLEMENTED", one(lambda room: zk.check(room.root + "/missing", 3))
    for op in (10, 23, 99, 108, 1000, -2, zk.NOTIFICATION):
        yield f"unknown:{op}", "UNIMPLEMENTED", one(lambda _, op=op: zk.Request(op, b""))


# --- quotas -------------------------------------------------------------------------------------------------------

def limits(count=-1, count_hard=-1, size=-1, size_hard=-1):
    """A limits node's data; -1: no limit."""
    return b"count=%d,bytes=%d=;byteHardLimit=%d;countHardLimit=%d" % (count, size, size_hard, count_hard)


# Limits for a node of 8 bytes and the two children of 2 that it has: 3 nodes, 12 bytes.
FULL = {"count-soft": limits(count=3), "count-hard": limits(count_hard=3), "bytes-soft": limits(size=12),
        "bytes-hard": limits(size_hard=12), "both-soft": limits(count=3, size=12),
        "old-form": b"count=3,bytes=12", "soft-below-hard": limits(1, 9, 1, 99), "hard-below-soft": limits(9, 3, 99, 12)}
ROOMY = {"count-hard": limits(count_hard=4), "bytes-hard": limits(size_hard=14), "none": limits()}
# name, request of a path, and the limits of FULL that it goes beyond
QUOTA_WRITES = (
    ("create", lambda at: zk.create(at + "/c", b"xx"), ("count-hard", "bytes-hard", "hard-below-soft")),
    ("create-empty", lambda at: zk.create(at + "/c"), ("count-hard", "hard-below-soft")),
    ("create-deep", lambda at: zk.create(at + "/a/c", b"xx"), ("count-hard", "bytes-hard", "hard-below-soft")),
    ("create2", lambda at: zk.create(at + "/c", b"xx", op=zk.CREATE2), ("count-hard", "bytes-hard", "hard-below-soft")),
    ("createContainer", lambda at: zk.create(at + "/c", b"xx", zk.OPEN_ACL, zk.CONTAINER, zk.CREATE_CONTAINER),
     ("count-hard", "bytes-hard", "hard-below-soft")),
    ("createTTL", lambda at: zk.create_ttl(at + "/c", b"xx", ttl_ms=3600000),
     ("count-hard", "bytes-hard", "hard-below-soft")),
    ("setData-more", lambda at: zk.set_data(at, b"123456789"), ("bytes-hard", "hard-below-soft")),
    ("setData-below", lambda at: zk.set_data(at + "/a", b"xxxx"), ("bytes-hard", "hard-below-soft")),
    ("setData-same", lambda at: zk.set_data(at, b"abcdefgh"), ()),
    ("setData-less", lambda at: zk.set_data(at, b"1"), ()),
    ("delete", lambda at: zk.delete(at + "/a"), ()),
    ("setACL", lambda at: zk.set_acl(at), ()),
    ("beside", lambda at: zk.create(at + "side", b"x" * 99), ()),
)


def quota_case(data, request_of, before=lambda room, at: None):
    def run(room):
        at = room.make(room.root + "/limited", b"12345678")
        for name in ("/a", "/b"):
            room.make(at + name, b"xx")
        room.limit(at, data)
        before(room, at)
        answer, _ = ask(room.client, request_of(at))
        stats = room.must(zk.get_data(f"/zookeeper/quota{at}/zookeeper_stats"))["data"].decode()
        return answer, [re.sub(r"=?;.*", "", stats)] + [line.replace(room.root, "~") for line in room.tree()]
    return run


def quota_cases(enforced=True):
    """Soft and hard limits of count and bytes, used up to the last, against each write; the stats that are left."""
    exceeded = "QUOTAEXCEEDED" if enforced else "OK"
    prefix = "quota" if enforced else "quota.off"
    for write, request_of, beyond in QUOTA_WRITES:
        for name, data in FULL.items():
            yield f"{prefix}:{write}:{name}", exceeded if name in beyond else "OK", quota_case(data, request_of)
    for name, data in ROOMY.items():
        for write in ("create", "setData-below"):
            request_of = next(row[1] for row in QUOTA_WRITES if row[0] == write)
            yield f"{prefix}:{write}:room-for-{name}", "OK", quota_case(data, request_of)

    def over(room, at):
        room.must(zk.set_data(f"/zookeeper/quota{at}/zookeeper_limits", limits(size_hard=4)))
    yield f"{prefix}:setData-less:over-already", exceeded, quota_case(limits(), lambda at: zk.set_data(at, b"1"), over)
    yield f"{prefix}:setData-much-less:over-already", "OK", quota_case(limits(), lambda at: zk.set_data(at, b""), over)

    def lifted(room, at):
        room.must(zk.delete(f"/zookeeper/quota{at}/zookeeper_limits"))
    yield f"{prefix}:create:lifted", "OK", quota_case(FULL["count-hard"], lambda at: zk.create(at + "/c", b"xx"), lifted)

    def deeper(room, at):
        room.limit(at + "/a", limits())
    yield (f"{prefix}:create:deepest-counts", "OK",
           quota_case(FULL["count-hard"], lambda at: zk.create(at + "/a/c", b"xx"), deeper))


def quota_multi_cases():
    """Within a multi the parts before count, too, and are taken back when one fails."""
    for word, parts_of, one_left, none_left in (
            ("creates", lambda at: [zk.create(at + "/c"), zk.create(at + "/d")],
             "OK QUOTAEXCEEDED", "QUOTAEXCEEDED RUNTIMEINCONSISTENCY"),
            ("create-after-delete", lambda at: [zk.delete(at + "/a"), zk.create(at + "/c"), zk.create(at + "/d")],
             "OK OK OK", "OK OK QUOTAEXCEEDED"),
            ("setData", lambda at: [zk.set_data(at, b"123456789"), zk.create(at + "/c")],
             "OK OK", "QUOTAEXCEEDED RUNTIMEINCONSISTENCY")):
        for name, data, expected in (("one-left", limits(count_hard=4, size_hard=13), one_left),
                                     ("none-left", limits(count_hard=3, size_hard=12), none_left)):
            def run(room, parts_of=parts_of, data=data):
                answers = []

                def before(room, at):
                    _, fields = ask(room.client, zk.multi(parts_of(at)))
                    answers.extend(error_name(err) for _, err, _ in fields["results"][:-1])
                _, details = quota_case(data, zk.exists, before)(room)
                return " ".join(answers), details
            yield f"quota:multi:{word}:{name}", expected, run


# --- sessions -----------------------------------------------------------------------------------------------------

SESSION_REQUESTS = {
    "create": lambda root: zk.create(root + "/late"), "create2": lambda root: zk.create(root + "/late", op=zk.CREATE2),
    "ephemeral": lambda root: zk.create(root + "/late", flags=zk.EPHEMERAL),
    "delete": lambda root: zk.delete(root + "/node"), "setData": lambda root: zk.set_data(root + "/node", b"late"),
    "setACL": lambda root: zk.set_acl(root + "/node", ((zk.READ, "world", "anyone"),)),
    "multi": lambda root: zk.multi([zk.create(root + "/late")]), "getData": lambda root: zk.get_data(root + "/node", True),
    "sync": zk.sync, "ping": lambda _: zk.ping(), "close": lambda _: zk.close_session(),
}


# These Apache may carry out behind a closeSession, or not.
READING = ("getData", "sync", "ping", "close")


def attached(server, connection, passwd=None):
    """A second connection of a session, or None when it is refused; checks the server's answer."""
    second = zk.Connection(server.address, SESSION_TIMEOUT_MS, connection.session_id, passwd or connection.passwd)
    if second.session_id == 0:
        if second.timeout_ms != 0 or second.passwd != bytes(16):
            raise AssertionError(f"refused with timeout {second.timeout_ms} and password {second.passwd}")
        second.drop()
        return None
    return second


def left(room):
    """The tree after a case of a session, without ids."""
    return [line.replace(room.root, "~") for line in room.tree()]


def behind_close(request_of):
    """A write in the same packet as the closeSession before it: it is not carried out, and not answered; Apache may still
    say that the session has expired or is unknown, as it closes from another thread."""
    def run(room):
        room.make(room.root + "/node")
        close, late = zk.close_session(), request_of(room.root)
        frames = [zk.i32(xid) + zk.i32(request.op) + request.body for xid, request in ((7, close), (8, late))]
        room.client.socket.sendall(b"".join(zk.i32(len(frame)) + frame for frame in frames))
        reply = room.client.read_reply()
        answer = f"{reply.xid} {error_name(reply.err)}, closed"
        try:
            second, expired = room.client.read_reply(), zk.ERRORS["SESSIONEXPIRED"]
            says_so = second.err in (expired, zk.ERRORS["UNKNOWNSESSION"]) or \
                late.op == zk.MULTI and zk.i32(expired) in second.body  # in its parts
            if room.server.name != "zookeeper" or not says_so:
                answer += f" after {error_name(second.err)}"
        except zk.Closed:
            pass
        return answer, left(room)
    return run


def ended_by(end, request_of):
    """A request on a connection whose session another one took over or ended, or that was silent for too long."""
    def run(room):
        room.make(room.root + "/node")
        room.client.call(zk.create(room.root + "/mine", flags=zk.EPHEMERAL))
        kept = end(room)
        answer, _ = ask(room.client, request_of(room.root))
        details = left(room)
        again = attached(room.server, room.client)
        if again:
            again.close_session()
        return answer, [*details, f"session {'kept' if again else 'gone'}"]
    return run


def moved(room):
    attached(room.server, room.client).drop()


def closed_elsewhere(room):
    attached(room.server, room.client).close_session()


def wrong_password(room):
    if attached(room.server, room.client, b"wrong" * 3 + b"!"):
        raise AssertionError("a wrong password was taken")


def silent(room):
    """Waits until the session has expired: its ephemeral goes."""
    room.owner.call(zk.exists(room.root + "/mine", True))
    deadline = time.monotonic() + SHORT_TIMEOUT_MS / 1000 + 10
    while ask(room.owner, zk.exists(room.root + "/mine"))[0] == "OK":
        if time.monotonic() > deadline:
            raise AssertionError("the session did not expire")
        time.sleep(0.05)


def attach_case(session_id_of, last_zxid=0):
    """The answer to a connection that asks for an unknown session, or comes from the future."""
    def run(room):
        try:
            connection = zk.Connection(room.server.address, SESSION_TIMEOUT_MS, session_id_of(room), bytes(range(16)), last_zxid)
        except zk.Closed:
            return "closed", []
        with connection:
            try:
                connection.read_frame()
                closed = "not closed"
            except zk.Closed:
                closed = "closed"
            return "refused" if connection.session_id == 0 else "taken", [connection.timeout_ms, connection.passwd, closed]
    return run


def session_cases():
    """The check of the session, before those of what is asked for: closing, closed, moved, expired, unknown."""
    for name, request_of in SESSION_REQUESTS.items():
        if name not in READING:
            yield f"session:closing:{name}", "7 OK, closed", behind_close(request_of)
        yield f"session:closed-elsewhere:{name}", "closed", ended_by(closed_elsewhere, request_of)
        yield f"session:moved:{name}", "closed", ended_by(moved, request_of)
        yield f"session:expired:{name}", "closed", ended_by(silent, request_of)
    yield "session:wrong-password:getData", "OK", ended_by(wrong_password, SESSION_REQUESTS["getData"])
    yield "session:wrong-password:create", "OK", ended_by(wrong_password, SESSION_REQUESTS["create"])
    yield "session:unknown", "refused", attach_case(lambda _: 0x123456789)
    yield "session:negative", "refused", attach_case(lambda _: -5)
    yield "session:anothers-password", "refused", attach_case(lambda room: room.owner.session_id)
    yield "session:from-the-future", "closed", attach_case(lambda _: 0, 2**62)
    yield "session:unknown+from-the-future", "closed", attach_case(lambda _: 0x123456789, 2**62)


# --- multi and multiRead ------------------------------------------------------------------------------------------

def many(parts_of, op=zk.MULTI):
    """A case of one multi; also the tree it leaves."""
    def run(room):
        answer, fields = ask(room.client, zk.multi(parts_of(room), op))
        results = [f"{kind} {error_name(err)} {shown(part, room.root) if isinstance(part, dict) else part}"
                   for kind, err, part in fields.get("results", ())]
        return answer, results + [line.replace(room.root, "~") for line in room.tree()]
    return run


def multi_cases():
    """The first part that fails is the one that is named; kinds that do not belong make the whole request malformed."""
    def at(room, name):
        return f"{room.root}/{name}"

    yield "multi:empty", "OK", many(lambda _: [])
    yield "multi:two-faults", "OK", many(lambda room: [
        zk.create(at(room, "a")), zk.delete(at(room, "missing"), 3), zk.create(at(room, "a")),
        zk.set_data(at(room, "x/y"))])
    yield "multi:second-of-same", "OK", many(lambda room: [zk.create(at(room, "a")), zk.create(at(room, "a"))])
    yield "multi:sees-earlier", "OK", many(lambda room: [
        zk.create(at(room, "a")), zk.create(at(room, "a/b"), b"1"), zk.set_data(at(room, "a/b"), b"2", 0),
        zk.check(at(room, "a/b"), 1), zk.delete(at(room, "a/b"), 1), zk.delete(at(room, "a"), 0)])
    yield "multi:deleted-before", "OK", many(lambda room: [
        zk.create(at(room, "a")), zk.delete(at(room, "a")), zk.check(at(room, "a"))])
    yield "multi:not-empty-by-earlier", "OK", many(lambda room: [
        zk.create(at(room, "a")), zk.create(at(room, "a/b")), zk.delete(at(room, "a"), OTHER_VERSION)])
    yield "multi:not-empty-by-earlier-any-version", "OK", many(lambda room: [
        zk.create(at(room, "a")), zk.create(at(room, "a/b")), zk.delete(at(room, "a"))])
    yield "multi:ephemeral-by-earlier", "OK", many(lambda room: [
        zk.create(at(room, "e"), flags=zk.EPHEMERAL), zk.create(at(room, "e/b"))])
    yield "multi:sequence", "OK", many(lambda room: [
        zk.create(at(room, "s-"), flags=zk.PERSISTENT_SEQUENTIAL),
        zk.create(at(room, "s-"), flags=zk.PERSISTENT_SEQUENTIAL),
        zk.delete(at(room, "s-0000000000"))])
    for word, part_of in (("setACL", lambda room: zk.set_acl(room.root)),
                          ("getData", lambda room: zk.get_data(room.root)),
                          ("exists", lambda room: zk.exists(room.root)), ("sync", lambda room: zk.sync(room.root)),
                          ("multi", lambda _: zk.multi([])), ("unknown", lambda _: zk.Request(999, b""))):
        yield (f"multi:{word}-within", "MARSHALLINGERROR",
               many(lambda room, part_of=part_of: [zk.create(at(room, "a")), part_of(room)]))
        yield (f"multi:node+{word}-within", "MARSHALLINGERROR",
               many(lambda room, part_of=part_of: [zk.delete(at(room, "missing")), part_of(room)]))
    yield "multiRead:empty", "OK", many(lambda _: [], zk.MULTI_READ)
    yield "multiRead:each-its-own", "OK", many(lambda room: [
        zk.get_data(secret(room)), zk.get_data(at(room, "missing")), zk.get_children(room.root), zk.get_data(room.root),
        zk.get_children(at(room, "secret")), zk.get_children(at(room, "secret/missing"))], zk.MULTI_READ)
    for word, part_of in (("exists", lambda room: zk.exists(room.root)),
                          ("create", lambda room: zk.create(at(room, "a"))),
                          ("getACL", lambda room: zk.get_acl(room.root)),
                          ("getChildren2", lambda room: zk.get_children(room.root, op=zk.GET_CHILDREN2))):
        yield (f"multiRead:{word}-within", "MARSHALLINGERROR",
               many(lambda room, part_of=part_of: [zk.get_data(at(room, "missing")), part_of(room)], zk.MULTI_READ))


# --- running ------------------------------------------------------------------------------------------------------

def difference(name):
    """The entry of DIFFERS for a case on this version of Apache ZooKeeper, or None."""
    return next((entry for entry in DIFFERS if re.fullmatch(entry[0], name)
                 and entry[1][0] <= zookeeper.VERSION < entry[1][1]), None)


def as_case(number, name, expected, run):
    """The case as test/support/pair.py runs it."""
    entry = difference(name)

    def case(server):
        timeout_ms = SHORT_TIMEOUT_MS if name.startswith("session:expired") else SESSION_TIMEOUT_MS
        with Room(server, f"/checks-{number}", timeout_ms) as room:
            answer, details = run(room)
        wanted = entry[2] if entry and server.name == "zookeeper" else expected
        if answer != wanted:
            raise AssertionError(f"answered {answer}, not {wanted} {details}")
        return [] if entry else [answer, *details]

    case.__name__ = name
    return case


def cases_of(*sources):
    return [as_case(number, *row) for number, row in enumerate(itertools.chain(*sources))]


def run_all(cases, only, settings, tick_ms=2000):
    """[passed, failed] of the cases on a pair of servers with these settings."""
    counts = [0, 0]
    cases = [case for case in cases if not only or case.__name__ in only]
    options = [word for key, value in settings.items() for word in (f"--{key}", value)]
    if not cases:
        return counts
    with pair.Servers(zookeeper.ZooKeeper(settings, tick_ms=tick_ms),
                      conclave.Conclave(options, tick_ms=tick_ms)) as (theirs, ours):
        for done, case in enumerate(cases):
            counts[0 if pair.run_case(case, (theirs, ours)) else 1] += 1
            gone = [server for server in (theirs, ours) if not server.alive()]
            if gone:
                print(f"{gone[0].name} is gone after {case.__name__}:\n{gone[0].log_tail()}")
                return [counts[0], counts[1] + len(cases) - done - 1]
    return counts


def main():
    served = cases_of(order_cases(ORDERS), read_cases(), special_cases(), watch_cases(), other_cases(), multi_cases(),
                      quota_cases(), quota_multi_cases())
    plain = cases_of(order_cases(TTL_OFF_ORDERS))
    relaxed = cases_of(quota_cases(False))
    sessions = cases_of(session_cases())
    if sys.argv[1:] == ["--list"]:
        print("\n".join(case.__name__ for case in served + plain + relaxed + sessions))
        return 0
    missing = zookeeper.why_missing() or conclave.why_missing()
    if missing:
        print(f"skipped: {missing}")
        return 77
    only = sys.argv[1:]
    runs = (run_all(served, only, TYPES), run_all(plain, only, {}), run_all(relaxed, only, {"extendedTypesEnabled": "true"}),
            run_all(sessions, only, {}, TICK_MS))
    passed, failed = (sum(run[index] for run in runs) for index in (0, 1))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
