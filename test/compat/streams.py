#!/usr/bin/env python3
"""Random operation streams, replayed on Apache ZooKeeper and on ours: every reply and every event must be the same.

    streams.py [--count N] [--seed S] [--show] [--list]

Promise: a stream is made from its seed alone: about fifty operations of a few sessions below a root of its own, with
bad paths, flags, versions, ACLs, cut bodies, multis that fail, watches of all kinds, cut connections. Each reply is
compared whole: error, every field, trailing bytes, the zxid counted from the stream's first write; so is each event
and its place among the replies. Normalised are only: times, session ids, the order of children and of ids, and the zxid
that 3.8 takes for a write that it cannot read: 3.9 and ours take none.
A difference is shrunk to few operations and printed with its seed. KNOWN alone lists the permitted differences,
with the versions of Apache ZooKeeper that differ: 3.8 is on Debian 12, 3.9 on Debian 13.
Limits: two standalone servers, streams one after the other, so that a zxid can be counted exactly. Expiry, TTL and
container cleaning need time and are tested elsewhere.
"""

import argparse
import collections
import multiprocessing
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import conclave  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from stream_ops import ALONE, DATA, Op, make_stream  # noqa: E402

WRITES = {zk.CREATE, zk.CREATE2, zk.CREATE_CONTAINER, zk.CREATE_TTL, zk.DELETE, zk.SET_DATA, zk.SET_ACL, zk.MULTI,
          zk.CLOSE_SESSION}
# The requests of a client; any other request ends the connection.
ANSWERED = set(zk.OP_NAMES) - {zk.NOTIFICATION, zk.CHECK, zk.CREATE_SESSION, zk.ERROR, zk.DELETE_CONTAINER}
SESSION_TIMEOUT_MS = 30000
CHUNK = 10
SHOWN = 10  # how many differing streams are shrunk and shown


# The operation (None for those at the end; without what stands behind its body), those that were sent before it without
# waiting, the zxids of the stream's closeSessions as ours shows them, and the paths given another ACL than the open one.
Case = collections.namedtuple("Case", "op before closings restricted")


# Each of these makes the lines of one operation, theirs and ours, the same where it explains their difference.

def event_zxid(_case, *both):
    return [[line.split(" event_zxid=")[0] for line in lines] for lines in both]


def lone_check(case, *both):
    return [["check"]] * 2 if case.op and case.op.name == "raw" and case.op.args[0] == zk.CHECK else both


def as_sent(event):
    """An event of ours as this version of Apache ZooKeeper sends it: see event_zxid."""
    return event.split(" event_zxid=")[0] + " event_zxid=-1" if zookeeper.VERSION < (3, 9) else event


def ephemerals_order(case, theirs, ours):
    """The events of a closeSession, theirs in the order of ours."""
    events = [as_sent(line) for line in ours if line.split(" event_zxid=")[-1] in case.closings]
    at = [index for index, line in enumerate(theirs) if line in events]
    if sorted(events) != sorted(theirs[index] for index in at):
        return theirs, ours
    theirs = list(theirs)
    for index, event in zip(at, events):
        theirs[index] = event
    return theirs, ours


def reply_before_close(_case, *both):
    lost = [not any(line.startswith("err=") for line in lines) for lines in both]
    if lost[0] == lost[1] or not all(lines[-1] == "closed" for lines in both):
        return both
    return [[line for line in lines if not line.startswith("err=")] for lines in both]


def unwrapped(op, *wrappers):
    """The operation inside of one that is sent cut or too long."""
    return Op(op.slot, op.args[1], op.args[2], op.burst, op.id) if op and op.name in wrappers else op


def multi_parts(op):
    """The parts of a multi, also of one that is cut; none for other operations."""
    op = unwrapped(op, "cut")
    return op.args[0] if op and op.name == "multi" else ()


BELOW_EPHEMERAL = re.compile(r"\berr=-108\b")
CREATED2 = re.compile(r"""\(15, 0, (["'])path=('.*?'|".*?") stat=\{.*?\}\1\)""")


def multi_create2(case, *both):
    if not multi_parts(case.op):
        return both
    return [[CREATED2.sub(r"(1, 0, \1path=\2\1)", line) for line in lines] for lines in both]


def multi_create(case, theirs, ours):
    malformed = any(name == "create" and (args[2] is None or not 0 <= args[3] <= 4)
                    for name, args in multi_parts(case.op))
    if malformed and theirs[-1].startswith("err=0 ") and "results=[(-1, " in theirs[-1] and ours[-1].startswith("err=-5 "):
        return theirs[:-1], ours[:-1]
    return theirs, ours


def multi_null(case, theirs, ours):
    null = any(name == "create" and args[2] is None for name, args in multi_parts(case.op))
    zxids = [re.fullmatch(r"err=-5 zxid=\+(\d+) ", lines[-1]) for lines in (theirs, ours)]
    if null and all(zxids) and int(zxids[0][1]) + 1 == int(zxids[1][1]):
        return theirs[:-1], ours[:-1]
    return theirs, ours


def anybodys_watch(case, theirs, ours):
    found = case.op and case.op.name == "check_watches" and case.op.args[2] == zk.CHECK_WATCHES
    if found and theirs[-1].startswith("err=0 ") and ours[-1].startswith("err=-121 "):
        return theirs[:-1], ours[:-1]
    return theirs, ours


def watch_types(case, theirs, ours):
    unknown = case.op and case.op.name == "check_watches" and case.op.args[1] in (4, 5)
    if unknown and theirs[-1].startswith("err=-5 ") and not ours[-1].startswith("err=-5 "):
        return theirs[:-1], ours[:-1]
    return theirs, ours


def watch_odd_path(case, theirs, ours):
    odd = case.op and case.op.name == "check_watches" and not as_text(case.op.args[0]).startswith(("/", "~"))
    if odd and theirs[-1].startswith("err=-5 ") and ours[-1].startswith("err=-121 "):
        return theirs[:-1], ours[:-1]
    null = case.op and case.op.name == "add_watch" and case.op.args[0] is None
    if null and theirs[-1].startswith("err=0 ") and ours[-1].startswith("err=-5 "):
        return theirs[:-1], ours[:-1]
    return theirs, ours


def sync_echo(case, *both):
    if not case.op or case.op.name != "sync" or all(ord(char) < 0x10000 for char in as_text(case.op.args[0])):
        return both
    return [[line.split(" path=")[0] for line in lines] for lines in both]


def as_text(path):
    """A path as text; a malformed byte becomes a character that no path has."""
    return path.decode(errors="backslashreplace").replace("\\", "\U0010ffff") if isinstance(path, bytes) else path or ""


def error_record(case, *both):
    if not case.op or case.op.name != "multi_read":
        return both
    return [[re.sub(r"^(err=-5 zxid=\S+ ).*", r"\1", line) for line in lines] for lines in both]


def exists_acl(case, theirs, ours):
    if case.op and case.op.name == "exists" and theirs[-1].startswith("err=0 ") and ours[-1].startswith("err=-102 "):
        return theirs[:-1], ours[:-1]
    return theirs, ours


def rewatch_acl(case, theirs, ours):
    if not case.op or case.op.name != "set_watches":
        return theirs, ours
    common, missed = [], []
    for line in theirs:
        (common if ours[len(common):][:1] == [line] else missed).append(line)
    hidden = all(match and match[1] != "2" and any(match[2].startswith(path) for path in case.restricted)
                 for line in missed for match in [re.match(r"event (\d) 3 (\S+)", line)])
    return (common, ours) if hidden else (theirs, ours)


def container_flags(case, theirs, ours):
    made = any(op.name == "create" and op.args[4] == zk.CREATE_CONTAINER and op.args[3] in (zk.EPHEMERAL, zk.EPHEMERAL_SEQUENTIAL)
               for op in case.before)
    if made and BELOW_EPHEMERAL.search(theirs[-1]) and not BELOW_EPHEMERAL.search(ours[-1]):
        return theirs[:-1], ours[:-1]
    return theirs, ours


def rollback(case, theirs, ours):
    behind = case.op and case.op.name == "create" and any(op.name == "multi" for op in case.before)
    if behind and theirs[-1] == "no reply" and ours[-1].startswith("err=-110 "):
        return theirs[:-1], ours[:-1]
    return theirs, ours


# Permitted differences, and why. `versions`: those of Apache ZooKeeper that differ, from the first and below the second.
# `parts`: the two servers' states differ from there on, so that the rest of the stream is not compared.
Explanation = collections.namedtuple("Explanation", "name versions reason canonical parts")
EVERY = ((0,), (99,))
BEFORE_3_9 = ((0,), (3, 9))
FROM_3_9 = ((3, 9), (99,))
BEFORE_3_9_2 = ((0,), (3, 9, 2))
KNOWN = [
    Explanation("ephemerals-order", EVERY,
                "a session's ephemerals go in the order of a hash set; in ours by path",
                ephemerals_order, False),
    Explanation("event-zxid", BEFORE_3_9,
                "3.8 sends -1 as an event's zxid; 3.9 and ours the zxid of the change",
                event_zxid, False),
    Explanation("lone-check", BEFORE_3_9,
                "3.8 takes a check outside of a multi for a write; 3.9 and ours for an unknown operation",
                lone_check, True),
    Explanation("reply-before-close", EVERY,
                "Apache sends the error and closes from two threads: the error may be lost",
                reply_before_close, False),
    Explanation("multi-create2", BEFORE_3_9,
                "3.8 answers a create2 in a multi as a create; 3.9 and ours with its stat",
                multi_create2, False),
    Explanation("multi-create", BEFORE_3_9,
                "3.8 tries a multi with a create of invalid flags or a null ACL; 3.9 and ours refuse it whole",
                multi_create, False),
    Explanation("multi-null", FROM_3_9,
                "a null ACL in a multi is a fault inside 3.9, which then takes no zxid; ours takes one as for any "
                "multi that cannot be decoded",
                multi_null, True),
    Explanation("anybodys-watch", BEFORE_3_9,
                "3.8's checkWatches finds anybody's watch at the path, or above it; 3.9's and ours one's own",
                anybodys_watch, False),
    Explanation("watch-types", BEFORE_3_9,
                "3.8 does not know the types persistent and recursive in checkWatches; 3.9 and ours do",
                watch_types, False),
    Explanation("watch-odd-path", BEFORE_3_9,
                "3.8 fails inside on checkWatches of a relative or null path, 3.9 and ours find none; Apache sets a "
                "watch on a null path, which nothing can fire, ours refuses it",
                watch_odd_path, False),
    Explanation("error-record", EVERY,
                "a multiRead of other operations: Apache sends an empty result behind the error, which nobody reads",
                error_record, False),
    Explanation("sync-echo", EVERY,
                "Java's UTF-8 has characters beyond U+FFFF in two pieces; ours echoes the bytes that came",
                sync_echo, False),
    Explanation("exists-acl", BEFORE_3_9_2,
                "3.8.0 tells without READ that a node exists, and watches it; 3.9.2, newer ones and ours do not",
                exists_acl, True),
    Explanation("rewatch-acl", EVERY,
                "without READ, setWatches of 3.8.0 and 3.9.3 tells that a node exists or changed; ours does not, nor do "
                "later ones",
                rewatch_acl, True),
    Explanation("container-flags", EVERY,
                "createContainer with the flags of an ephemeral: Apache makes a container, and takes it for an "
                "ephemeral as long as it is in its queue",
                container_flags, True),
    Explanation("rollback", EVERY,
                "Apache may not take back what a multi that failed did in its queue: a create behind it of a node "
                "that the multi was to delete passes, fails inside, and has no reply",
                rollback, True),
]
EXPLAINED = [one for one in KNOWN if one.versions[0] <= zookeeper.VERSION < one.versions[1]]


def watches_of(name, args):
    """(path, mode) of each watch that an operation sets."""
    if name == "longer":
        return watches_of(*args[1:])
    if name in ("exists", "get_data", "get_children"):
        return [(args[0], "once")] if args[1] else []
    if name == "add_watch":
        return [args]
    if name == "set_watches":
        return [(path, mode) for paths, mode in zip(args[1:], ("once", "once", "once", 0, 1)) for path in paths]
    return []


def one_kind_of_container(ops):
    """The stream without createContainers of other flags within a multi: 3.8 goes by the flags alone, 3.9 and ours by
    the operation."""
    for op in ops:
        if op.name == "multi":
            parts = [part for part in op.args[0] if part[0] != "create" or part[1][4] != zk.CREATE_CONTAINER
                     or part[1][3] == zk.CONTAINER]
            op = op._replace(args=(parts,))
        yield op


def one_mode_each(ops):
    """The stream without what would mix modes of watching: 3.8 keeps one per connection and path, and what comes last
    takes the place of what was there. 3.9 and ours keep them beside each other, which test/unit/watch tests."""
    modes = {}  # (slot, path) -> mode
    for op in ops:
        wanted = dict(modes)
        mixed = any(wanted.setdefault((op.slot, path), mode) != mode for path, mode in watches_of(op.name, op.args))
        if op.name == "check_watches" and op.args[2] == zk.REMOVE_WATCHES:
            path, kind, _ = op.args
            mixed = kind in (4, 5) or kind in (1, 2) and modes.get((op.slot, path), "once") != "once"
        if not mixed:
            modes = wanted
            yield op
        if op.name in ("reconnect", "close_session"):
            modes = {key: mode for key, mode in modes.items() if key[0] != op.slot}


def stream_of(seed):
    """A seed's stream without what the two cannot be compared in."""
    ops = make_stream(seed)
    return list(one_mode_each(one_kind_of_container(ops))) if zookeeper.VERSION < (3, 9) else ops


# The parts of a write's body: p a path, d data, a an ACL, i and q whole numbers.
BODIES = {zk.CREATE: "pdai", zk.CREATE2: "pdai", zk.CREATE_CONTAINER: "pdai", zk.CREATE_TTL: "pdaiq", zk.DELETE: "pi",
          zk.SET_DATA: "pdi", zk.SET_ACL: "pai"}


def readable(request):
    """Whether the body of a write can be decoded."""
    def number(size=4):
        nonlocal body
        value, body = int.from_bytes(body[:size], "big", signed=True), body[size:] if len(body) >= size else None
        return value

    def text():
        nonlocal body
        length = number()
        if length != -1:
            body = body[length:] if 0 <= length <= len(body) else None
    body = request.body
    try:
        for field in BODIES[request.op]:
            if field in "iq":
                number(4 if field == "i" else 8)
            elif field != "a":
                text()
            else:
                for _ in range(number()):
                    number()
                    text()
                    text()
    except TypeError:  # the body has ended
        return False
    return body is not None


def target_of(server):
    """(address, whether the server takes a zxid for a write that it cannot read, as 3.8 does)."""
    return server.address, server.name == "zookeeper" and zookeeper.VERSION < (3, 9)


class Replayer:
    """Replays one stream on one server and keeps the transcript: per operation a list of lines."""

    def __init__(self, target, root):
        self.address, self.wasteful = target
        self.wasted = []    # zxids taken by writes that could not be read
        self.root = root
        self.connections = {}
        self.sessions = {}  # slot -> (session id, password)
        self.marks = {}     # number of an operation -> zxid of its reply
        self.session_numbers = {0: "0"}
        self.base = None
        self.wasting = False
        self.transcript = []

    # Names that differ from server to server, and how they are shown.

    def zxid(self, value):
        return str(value) if value <= 0 or self.base is None else f"+{value - self.base - sum(zxid <= value for zxid in self.wasted)}"

    def value(self, name, value):
        if name in ("czxid", "mzxid", "pzxid"):
            return self.zxid(value)
        if name in ("ctime", "mtime"):
            return "0" if value == 0 else "time"
        if name == "ephemeralOwner":
            return self.session_numbers.get(value, hex(value))
        if name == "stat":
            return "{" + " ".join(f"{key}={self.value(key, part)}" for key, part in value.items()) + "}"
        if name in ("children", "ephemerals", "acl", "who"):
            value = None if value is None else sorted(value, key=repr)
        if name == "results":
            return [(kind, err, self.fields(part) if isinstance(part, dict) else part) for kind, err, part in value]
        return repr(value).replace(self.root, "~")

    def fields(self, fields):
        return " ".join(f"{name}={self.value(name, value)}" for name, value in fields.items())

    def substitute(self, value):
        if isinstance(value, str):
            return self.root + value[1:] if value.startswith("~") else value
        if isinstance(value, bytes):
            return self.root.encode() + value[1:] if value.startswith(b"~") else value
        if isinstance(value, (tuple, list)) and not isinstance(value, Op):
            return type(value)(self.substitute(part) for part in value)
        return value

    def request(self, name, args):
        if name == "cut":
            keep, inner, inner_args = args
            request = self.request(inner, inner_args)
            return zk.Request(request.op, request.body[:keep] if keep >= 0 else request.body[:len(request.body) + keep])
        if name == "longer":
            extra, inner, inner_args = args
            request = self.request(inner, inner_args)
            return zk.Request(request.op, request.body + extra)
        if name == "raw":
            return zk.Request(*args)
        if name in ("multi", "multi_read"):
            parts = [self.request(*part) for part in args[0]]
            return zk.multi(parts, zk.MULTI if name == "multi" else zk.MULTI_READ)
        if name == "set_watches":
            mark, *lists = args
            relative = mark if isinstance(mark, int) else self.marks.get(mark[0], 0)
            return zk.set_watches(relative, *self.substitute(lists))
        return getattr(zk, name)(*self.substitute(args))

    def connection(self, slot):
        """The slot's connection: a new session at first, re-attached after a cut."""
        if slot not in self.connections:
            known = self.sessions.get(slot, (0, bytes(16)))
            connection = zk.Connection(self.address, SESSION_TIMEOUT_MS, *known)
            if known[0] and connection.session_id != known[0]:
                self.transcript.append([f"slot {slot}: session not re-attached"])
            if connection.session_id not in self.session_numbers:
                self.session_numbers[connection.session_id] = f"session{len(self.session_numbers)}"
            self.sessions[slot] = (connection.session_id, connection.passwd)
            self.connections[slot] = connection
        return self.connections[slot]

    @staticmethod
    def send(connection, request):
        """Sends a request; where the connection is closed already, reading the reply will say so."""
        try:
            return connection.send(request)
        except zk.Closed:
            return None

    def take_reply(self, number, op_number, xid, connection):
        """The lines up to the reply; the last is "closed" when the connection ended instead."""
        lines = []
        while True:
            try:
                reply = connection.read_any()
            except zk.Closed:
                return lines + ["closed"]
            except TimeoutError:
                return lines + ["no reply"]
            if reply.xid == zk.XID_NOTIFICATION:
                event = zk.decode_event(reply)
                path = event.path.replace(self.root, "~")
                lines.append(f"event {event.type} {event.state} {path} event_zxid={self.zxid(event.zxid)}")
                continue
            if self.base is None:
                self.base = reply.zxid
            if self.wasting:
                self.wasted.append(reply.zxid)
            ends = reply.err == zk.ERRORS["AUTHFAILED"] or op_number not in ANSWERED
            if not ends:  # such a reply may be lost, see reply_before_close
                self.marks[number] = reply.zxid
            wrong = "" if reply.xid == xid else f" xid {reply.xid} instead of {xid}"
            # 3.8 answers a lone check and goes on: nothing to wait for, see lone_check.
            closes = ends and (op_number != zk.CHECK or zookeeper.VERSION >= (3, 9))
            return lines + [f"err={reply.err} zxid={self.zxid(reply.zxid)} "
                            + self.fields(zk.decode_reply(op_number, reply)) + wrong] + self.take_close(closes, connection)

    @staticmethod
    def take_close(expected, connection):
        """The frames after a reply that ends the connection."""
        if not expected:
            return []
        connection.socket.settimeout(5)
        try:
            return [f"then a frame of {len(connection.read_frame())} bytes"]
        except zk.Closed:
            return ["closed"]
        except TimeoutError:
            return ["not closed"]

    def flush(self, waiting):
        for number, op_number, xid, slot in waiting:
            connection = self.connections.get(slot)
            lines = self.take_reply(number, op_number, xid, connection) if connection else ["not connected"]
            self.transcript.append(lines)
            if lines[-1] in ("closed", "no reply") or op_number == zk.CLOSE_SESSION:
                self.forget(slot, op_number == zk.CLOSE_SESSION)
        waiting.clear()

    def flush_wasted(self, waiting):
        """As flush; the last request could not be read, and its zxid is shown as if it had none of its own."""
        self.flush(waiting[:-1])
        self.wasting = True
        self.flush(waiting[-1:])
        self.wasting = False
        waiting.clear()

    def forget(self, slot, session_too):
        connection = self.connections.pop(slot, None)
        if connection:
            connection.drop()
        if session_too:
            self.sessions.pop(slot, None)

    def replay(self, ops):
        waiting = []
        alone = True
        for op in ops:
            if alone or not op.burst or waiting and waiting[0][3] != op.slot:
                self.flush(waiting)
            alone = op.name in ALONE
            if op.name == "reconnect":
                self.flush(waiting)
                self.forget(op.slot, False)
                self.transcript.append(["cut"])
                continue
            connection = self.connection(op.slot)
            request = self.request(op.name, op.args)
            waiting.append((op.id, request.op, self.send(connection, request), op.slot))
            if self.wasteful and request.op in BODIES and not readable(request):
                self.flush_wasted(waiting)
        self.flush(waiting)
        # The last frames: events behind the last reply, and each session's end: none may expire among later zxids.
        for slot in list(self.sessions):
            self.connection(slot)
        for last in (zk.ping(), zk.close_session()):
            for slot in sorted(self.connections):
                waiting.append((-1, last.op, self.send(self.connections[slot], last), slot))
                self.flush(waiting)
        return self.transcript


def replay(target, root, ops):
    replayer = Replayer(target, root)
    try:
        return replayer.replay(ops)
    finally:
        for slot in list(replayer.connections):
            replayer.forget(slot, False)


def explain(case, theirs, ours):
    """The names of what explains the difference of two entries; None if nothing does."""
    names = []
    for one in EXPLAINED:
        if theirs == ours:
            break
        after = one.canonical(case, theirs, ours)
        if list(after) != [theirs, ours]:
            names.append(one.name)
        theirs, ours = after
    return names if theirs == ours else None


END = Op(0, "end", (), False, -1)
ZXID = re.compile(r" zxid=(\S+)")


def sent_before(ops, index):
    """The operations before one that were sent without waiting for a reply."""
    first = index
    while 0 < first < len(ops) and ops[first].burst:
        first -= 1
    return [unwrapped(op, "longer") for op in ops[first:index]]


def restricted(ops):
    """The paths that these operations give another ACL than the open one, if they can."""
    found = set()
    for op in ops:
        parts = [(op.name, op.args), *multi_parts(op)]
        found |= {as_text(args[0]) for name, args in parts
                  if name.startswith("create") and args[2] != zk.OPEN_ACL or name == "set_acl"}
    return found - {""}


def differences(ops, theirs, ours):
    """(index, explanations or None) of each entry that differs."""
    found = []
    closings = {match.group(1) for op, entry in zip(ops + [END] * len(ours), ours)
                if op.name in ("close_session", "end") for match in [ZXID.search(entry[-1])] if match}
    for index in range(max(len(theirs), len(ours))):
        a = theirs[index] if index < len(theirs) else ["missing"]
        b = ours[index] if index < len(ours) else ["missing"]
        if a != b:
            op = unwrapped(ops[index], "longer") if index < len(ops) else None
            inner = [unwrapped(one, "longer", "cut") for one in ops[:index]]
            names = explain(Case(op, sent_before(ops, index), closings, restricted(inner)), a, b)
            found.append((index, names))
            if any(one.parts and one.name in (names or ()) for one in EXPLAINED):
                break
    return found


class Pair:
    """Both servers, and a fresh root for every replay."""

    def __init__(self, theirs, ours):
        self.servers = (theirs, ours)
        self.runs = 0

    def run(self, ops):
        self.runs += 1
        return [replay(target_of(server), f"/shrink{self.runs}", ops) for server in self.servers]

    def first_unexplained(self, ops):
        theirs, ours = self.run(ops)
        return next(((index, theirs, ours) for index, names in differences(ops, theirs, ours) if names is None), None)

    def shrink(self, ops, index):
        """Fewer operations that still differ: the end cut off, then pieces of halving size left out."""
        ops = ops[:index + 1] if self.first_unexplained(ops[:index + 1]) else ops
        size = max(1, len(ops) // 2)
        deadline = time.monotonic() + 20
        while size and time.monotonic() < deadline:
            at = 1
            while at < len(ops):
                fewer = ops[:at] + ops[at + size:]
                if self.first_unexplained(fewer):
                    ops = fewer
                else:
                    at += size
            size //= 2
        return ops


def shorten(op):
    """An operation as text, without the long data."""
    text = f"slot {op.slot}{' burst' if op.burst else ''}: {op.name}{op.args}"
    for data in DATA:
        if data and len(data) > 40:
            text = text.replace(repr(data), f"<{len(data)} bytes>")
    return text


def show_difference(seed, ops, index, theirs, ours):
    print(f"stream {seed}: differs at operation {index}:")
    for number, op in enumerate(ops[:index + 1]):
        print(f"  {number:3} {shorten(op)}")
    if index >= len(ops):
        print("  (a ping or closeSession at the end)")
    for who, transcript in (("zookeeper", theirs), ("conclave", ours)):
        for line in transcript[index] if index < len(transcript) else ["missing"]:
            print(f"    {who:10} {line}")
    sys.stdout.flush()


def worker(target, seeds, pipe):
    """Replays the seeds' streams on one server and sends the transcripts in chunks."""
    chunk = []
    try:
        for seed in seeds:
            chunk.append((seed, replay(target, f"/s{seed}", stream_of(seed))))
            if len(chunk) == CHUNK:
                pipe.send(chunk)
                chunk = []
        pipe.send(chunk)
    except BaseException as error:
        pipe.send([(None, f"{type(error).__name__}: {error} (in stream {seed})")])
        raise
    finally:
        pipe.close()


def transcripts(target, seeds):
    """Starts a worker; gives (seed, transcript) one by one."""
    reader, writer = multiprocessing.Pipe(False)
    process = multiprocessing.Process(target=worker, args=(target, seeds, writer), daemon=True)
    process.start()
    writer.close()

    def items():
        while True:
            try:
                chunk = reader.recv()
            except EOFError:
                process.join()
                return
            yield from chunk
    return items()


def compare(servers, seeds, show):
    """Number of streams that passed and failed."""
    passed = 0
    failures = []
    explained = {}
    both = [transcripts(target_of(server), seeds) for server in servers]
    for (seed, theirs), (ours_seed, ours) in zip(*both):
        if seed is None or ours_seed is None:
            print(f"zookeeper: {theirs}" if seed is None else f"conclave: {ours}")
            print(servers[0 if seed is None else 1].log_tail())
            break
        ops = stream_of(seed)
        if show:
            for op, entry in zip(ops + ["end"] * 9, theirs):
                print(op, *entry, sep="\n      ")
        found = differences(ops, theirs, ours)
        for name in (name for _, names in found for name in names or ()):
            explained[name] = explained.get(name, 0) + 1
        index = next((index for index, names in found if names is None), None)
        if index is None:
            passed += 1
        else:
            failures.append((seed, ops, index, theirs, ours))
    # Not before the workers are done: another stream's writes would be counted among the zxids.
    pair = Pair(*servers)
    for seed, ops, index, theirs, ours in failures[:SHOWN]:
        shrunk = pair.shrink(ops, index)
        again = pair.first_unexplained(shrunk)
        show_difference(seed, *((shrunk, *again) if again else (ops, index, theirs, ours)))
    if len(failures) > SHOWN:
        print(f"and streams {' '.join(str(failure[0]) for failure in failures[SHOWN:])}")
    for one in EXPLAINED:
        if one.name in explained:
            print(f"explained {explained[one.name]} times: {one.name}: {one.reason}")
    return passed, len(seeds) - passed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=1000, help="how many streams")
    parser.add_argument("--seed", type=int, default=1, help="the first stream's seed")
    parser.add_argument("--show", action="store_true", help="print what Apache ZooKeeper answers")
    parser.add_argument("--against-itself", action="store_true",
                        help="two Apache ZooKeepers: shows what is not reproducible in the test itself")
    args = parser.parse_args()
    missing = zookeeper.why_missing() or (None if args.against_itself else conclave.why_missing())
    if missing:
        print(f"skipped: {missing}")
        return 77
    settings = {"forceSync": "no", "maxCnxns": 0, "extendedTypesEnabled": "true"}
    properties = {"znode.container.checkIntervalMs": 86400000}
    options = ["--forceSync", "no", "--extendedTypesEnabled", "true", "--znode.container.checkIntervalMs", "86400000"]
    theirs = zookeeper.ZooKeeper(settings, properties)
    ours = zookeeper.ZooKeeper(settings, properties) if args.against_itself else conclave.Conclave(options)
    with theirs, ours:
        passed, failed = compare((theirs, ours), range(args.seed, args.seed + args.count), args.show)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
