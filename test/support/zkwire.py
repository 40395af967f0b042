"""ZooKeeper's wire protocol, raw: a test chooses exactly the bytes that it sends, and sees the bytes that it gets.

Promise: one request is one `Request` (operation number and body); `Connection` sends them and reads replies and
watch events in the order of the wire; `decode_reply` gives a reply's fields and any bytes
after them. Nothing is retried or sent automatically: no pings, no reconnect.
Limits: blocking sockets, one thread per connection; no TLS, no SASL exchange.
Source of the numbers: ZooDefs.java and zookeeper.jute of Apache ZooKeeper 3.9.
"""

import collections
import socket
import struct

NOTIFICATION, CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_ACL, SET_ACL, GET_CHILDREN, SYNC = range(10)
PING, GET_CHILDREN2, CHECK, MULTI, CREATE2, RECONFIG, CHECK_WATCHES, REMOVE_WATCHES = range(11, 19)
CREATE_CONTAINER, DELETE_CONTAINER, CREATE_TTL, MULTI_READ = range(19, 23)
AUTH, SET_WATCHES, SASL, GET_EPHEMERALS, GET_ALL_CHILDREN_NUMBER, SET_WATCHES2, ADD_WATCH, WHO_AM_I = range(100, 108)
CREATE_SESSION, CLOSE_SESSION, ERROR = -10, -11, -1

OP_NAMES = {value: name for name, value in list(globals().items()) if name.isupper() and isinstance(value, int)}

XID_NOTIFICATION, XID_PING, XID_AUTH, XID_SET_WATCHES = -1, -2, -4, -8
PERSISTENT, EPHEMERAL, PERSISTENT_SEQUENTIAL, EPHEMERAL_SEQUENTIAL, CONTAINER, TTL, SEQUENTIAL_TTL = range(7)
NODE_CREATED, NODE_DELETED, NODE_DATA_CHANGED, NODE_CHILDREN_CHANGED = range(1, 5)
READ, WRITE, CREATE_PERM, DELETE_PERM, ADMIN, ALL = 1, 2, 4, 8, 16, 31
OPEN_ACL = ((ALL, "world", "anyone"),)

ERRORS = {
    "OK": 0, "SYSTEMERROR": -1, "RUNTIMEINCONSISTENCY": -2, "MARSHALLINGERROR": -5, "UNIMPLEMENTED": -6,
    "BADARGUMENTS": -8, "NONODE": -101, "NOAUTH": -102, "BADVERSION": -103, "NOCHILDRENFOREPHEMERALS": -108,
    "NODEEXISTS": -110, "NOTEMPTY": -111, "SESSIONEXPIRED": -112, "INVALIDACL": -114, "AUTHFAILED": -115,
    "UNKNOWNSESSION": -12, "SESSIONMOVED": -118, "NOTREADONLY": -119, "EPHEMERALONLOCALSESSION": -120, "NOWATCHER": -121,
    "RECONFIGDISABLED": -123, "QUOTAEXCEEDED": -125,
}
ERROR_NAMES = {code: name for name, code in ERRORS.items()}

STAT_FIELDS = ("czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion", "ephemeralOwner", "dataLength",
               "numChildren", "pzxid")
STAT = struct.Struct(">qqqqiiiqiiq")
REPLY_HEADER = struct.Struct(">iqi")

Request = collections.namedtuple("Request", "op body")
Reply = collections.namedtuple("Reply", "xid zxid err body")
Event = collections.namedtuple("Event", "type state path zxid")


# --- encoding -----------------------------------------------------------------------------------------------------

def boolean(value):
    return b"\1" if value else b"\0"


def i32(value):
    return struct.pack(">i", value)


def i64(value):
    return struct.pack(">q", value)


def buffer(value):
    """Bytes with their length; None is the null buffer."""
    return i32(-1) if value is None else i32(len(value)) + value


def string(value):
    """A str in UTF-8, bytes as they are (for what is no UTF-8), None as null."""
    return buffer(value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value)


def vector(items, encode):
    return i32(-1) if items is None else i32(len(items)) + b"".join(encode(item) for item in items)


def acl_entry(entry):
    return i32(entry[0]) + string(entry[1]) + string(entry[2])


def create(path, data=b"", acl=OPEN_ACL, flags=PERSISTENT, op=CREATE):
    """create, and create2 or createContainer by op: their records are the same."""
    return Request(op, string(path) + buffer(data) + vector(acl, acl_entry) + i32(flags))


def create_ttl(path, data=b"", acl=OPEN_ACL, flags=TTL, ttl_ms=1000):
    return Request(CREATE_TTL, create(path, data, acl, flags).body + i64(ttl_ms))


def delete(path, version=-1):
    return Request(DELETE, string(path) + i32(version))


def exists(path, watch=False):
    return Request(EXISTS, string(path) + boolean(watch))


def get_data(path, watch=False):
    return Request(GET_DATA, string(path) + boolean(watch))


def set_data(path, data=b"", version=-1):
    return Request(SET_DATA, string(path) + buffer(data) + i32(version))


def get_acl(path):
    return Request(GET_ACL, string(path))


def set_acl(path, acl=OPEN_ACL, version=-1):
    return Request(SET_ACL, string(path) + vector(acl, acl_entry) + i32(version))


def get_children(path, watch=False, op=GET_CHILDREN):
    """getChildren, or getChildren2 by op."""
    return Request(op, string(path) + boolean(watch))


def sync(path):
    return Request(SYNC, string(path))


def ping():
    return Request(PING, b"")


def check(path, version=-1):
    return Request(CHECK, string(path) + i32(version))


def multi(requests, op=MULTI):
    """A multi, or a multiRead by op, of requests made by the functions above."""
    parts = [i32(request.op) + boolean(False) + i32(-1) + request.body for request in requests]
    return Request(op, b"".join(parts) + i32(-1) + boolean(True) + i32(-1))


def reconfig(joining=None, leaving=None, members=None, version=-1):
    return Request(RECONFIG, string(joining) + string(leaving) + string(members) + i64(version))


def check_watches(path, kind, op=CHECK_WATCHES):
    """checkWatches, or removeWatches by op; kind 1 children, 2 data, 3 any, 4 persistent, 5 recursive."""
    return Request(op, string(path) + i32(kind))


def add_watch(path, mode):
    return Request(ADD_WATCH, string(path) + i32(mode))


def set_watches(relative_zxid, data=(), exist=(), child=(), persistent=None, recursive=None):
    """setWatches; with a list for persistent or recursive: setWatches2."""
    body = i64(relative_zxid) + b"".join(vector(paths, string) for paths in (data, exist, child))
    if persistent is None and recursive is None:
        return Request(SET_WATCHES, body)
    return Request(SET_WATCHES2, body + vector(persistent or (), string) + vector(recursive or (), string))


def auth(scheme, data):
    return Request(AUTH, i32(0) + string(scheme) + buffer(data))


def get_ephemerals(prefix):
    return Request(GET_EPHEMERALS, string(prefix))


def get_all_children_number(path):
    return Request(GET_ALL_CHILDREN_NUMBER, string(path))


def who_am_i():
    return Request(WHO_AM_I, b"")


def close_session():
    return Request(CLOSE_SESSION, b"")


# --- decoding -----------------------------------------------------------------------------------------------------

class Decoder:
    """Takes fields from the front of bytes; struct.error or ValueError where they do not suffice."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def _take(self, form):
        value = form.unpack_from(self.data, self.at)
        self.at += form.size
        return value

    def boolean(self):
        return self._take(struct.Struct(">?"))[0]

    def i32(self):
        return self._take(struct.Struct(">i"))[0]

    def i64(self):
        return self._take(struct.Struct(">q"))[0]

    def buffer(self):
        length = self.i32()
        if length == -1:
            return None
        if length < 0 or self.at + length > len(self.data):
            raise ValueError(f"length {length} at {self.at - 4} of {len(self.data)} bytes")
        self.at += length
        return self.data[self.at - length:self.at]

    def string(self):
        value = self.buffer()
        return None if value is None else value.decode("utf-8", "replace")

    def vector(self, decode):
        count = self.i32()
        return None if count == -1 else [decode() for _ in range(count)]

    def stat(self):
        return dict(zip(STAT_FIELDS, self._take(STAT)))

    def acl_entry(self):
        return self.i32(), self.string(), self.string()

    def rest(self):
        return self.data[self.at:]


def _multi_results(decoder):
    """Results of multi and multiRead: (type, header err, fields) each."""
    results = []
    while True:
        kind, done, err = decoder.i32(), decoder.boolean(), decoder.i32()
        if done:
            results.append((kind, err, "end"))
            return results
        fields = {"err": decoder.i32()} if kind == ERROR else _fields(kind, decoder)
        results.append((kind, err, fields))


def _fields(op, decoder):
    if op in (CREATE, SYNC):
        return {"path": decoder.string()}
    if op in (CREATE2, CREATE_CONTAINER, CREATE_TTL):
        return {"path": decoder.string(), "stat": decoder.stat()}
    if op in (EXISTS, SET_DATA, SET_ACL):
        return {"stat": decoder.stat()}
    if op in (GET_DATA, RECONFIG):
        return {"data": decoder.buffer(), "stat": decoder.stat()}
    if op == GET_ACL:
        return {"acl": decoder.vector(decoder.acl_entry), "stat": decoder.stat()}
    if op == GET_CHILDREN:
        return {"children": decoder.vector(decoder.string)}
    if op == GET_CHILDREN2:
        return {"children": decoder.vector(decoder.string), "stat": decoder.stat()}
    if op in (MULTI, MULTI_READ):
        return {"results": _multi_results(decoder)}
    if op == GET_EPHEMERALS:
        return {"ephemerals": decoder.vector(decoder.string)}
    if op == GET_ALL_CHILDREN_NUMBER:
        return {"number": decoder.i32()}
    if op == ADD_WATCH:
        return {"err": decoder.i32()}
    if op == WHO_AM_I:
        return {"who": decoder.vector(lambda: (decoder.string(), decoder.string()))}
    return {}


def decode_reply(op, reply):
    """The fields of a reply as a dict; bytes behind them as "trailing"; undecodable ones whole as "raw"."""
    decoder = Decoder(reply.body)
    if reply.err != 0 and not reply.body:
        return {}
    try:
        fields = _fields(op, decoder)
    except (struct.error, ValueError):
        return {"raw": reply.body}
    if decoder.rest():
        fields["trailing"] = decoder.rest()
    return fields


def decode_event(reply):
    decoder = Decoder(reply.body)
    return Event(decoder.i32(), decoder.i32(), decoder.string(), reply.zxid)


# --- connection ---------------------------------------------------------------------------------------------------

class Closed(Exception):
    """The server closed the connection."""


class Connection:
    """One TCP connection that has done the session handshake.

    tls: an ssl.SSLContext, or None for a plain connection. session_id 0 asks for a new session; otherwise it is
    re-attached. After a refusal session_id is 0. Events that are read on the way to a reply are kept in `events`, in
    order.
    """

    def __init__(self, address, timeout_ms=10000, session_id=0, passwd=bytes(16), last_zxid=0, read_only=False,
                 patience_s=20, tls=None):
        self.socket = socket.create_connection(address, timeout=patience_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=address[0])
        self.buffered = bytearray()
        self.events = []
        self.next_xid = 1
        self.last_zxid = last_zxid
        try:
            self._write(i32(0) + i64(last_zxid) + i32(timeout_ms) + i64(session_id) + buffer(passwd)
                        + (b"" if read_only is None else boolean(read_only)))
            frame = self.read_frame()
        except BaseException:
            self.socket.close()
            raise
        self.connect_reply = frame
        decoder = Decoder(frame)
        decoder.i32()
        self.timeout_ms = decoder.i32()
        self.session_id = decoder.i64()
        self.passwd = decoder.buffer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.drop()

    def _write(self, body):
        self.socket.sendall(i32(len(body)) + body)

    def read_frame(self):
        """The next frame's body. Closed at the end of the stream, TimeoutError after patience_s."""
        while True:
            if len(self.buffered) >= 4:
                length = struct.unpack_from(">i", self.buffered)[0]
                if len(self.buffered) >= 4 + length:
                    frame = bytes(self.buffered[4:4 + length])
                    del self.buffered[:4 + length]
                    return frame
            try:
                data = self.socket.recv(65536)
            except ConnectionError as error:
                raise Closed(str(error)) from error
            if not data:
                raise Closed(f"{len(self.buffered)} bytes of a frame were left" if self.buffered else "")
            self.buffered += data

    def send(self, request, xid=None):
        """Sends a request, returns its xid; the reserved one for ping, auth and setWatches."""
        if xid is None:
            xid = {PING: XID_PING, AUTH: XID_AUTH, SET_WATCHES: XID_SET_WATCHES,
                   SET_WATCHES2: XID_SET_WATCHES}.get(request.op)
        if xid is None:
            xid = self.next_xid
            self.next_xid += 1
        try:
            self._write(i32(xid) + i32(request.op) + request.body)
        except ConnectionError as error:
            raise Closed(str(error)) from error
        return xid

    def read_any(self):
        """The next reply, or the next event as a Reply with xid XID_NOTIFICATION."""
        frame = self.read_frame()
        reply = Reply(*REPLY_HEADER.unpack_from(frame), frame[REPLY_HEADER.size:])
        if reply.zxid > self.last_zxid:
            self.last_zxid = reply.zxid
        return reply

    def read_reply(self):
        """The next reply; events before it go to `events`."""
        while True:
            reply = self.read_any()
            if reply.xid != XID_NOTIFICATION:
                return reply
            self.events.append(decode_event(reply))

    def call(self, request):
        """Sends a request and waits for its reply: (err, fields)."""
        xid = self.send(request)
        reply = self.read_reply()
        if reply.xid != xid:
            raise AssertionError(f"reply to xid {reply.xid}, wanted {xid}")
        return reply.err, decode_reply(request.op, reply)

    def close_session(self):
        """Ends the session and the connection."""
        self.call(close_session())
        self.socket.close()

    def drop(self):
        """Cuts the connection; the session goes on."""
        self.socket.close()
