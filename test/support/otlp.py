"""A collector of traces, and the ids that docs/traces.md promises.

Promise: `with Collector() as collector:` takes OTLP over HTTP as protocol buffers on a free port; `collector.spans` are those that it
acknowledged. `mode` is an HTTP status to answer, or HANG: the request is read and gets no answer. Each body is checked
against the schema of opentelemetry's trace.proto, as far as our server uses it; faults are in `problems`.
"""

import http.server
import re
import threading
import time

HANG = -1
MASK = (1 << 64) - 1
STEP, FIRST, SECOND = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93, 0xa0761d6478bd642f
SERVER, INTERNAL = 2, 1
PARTS = ("queue", "forward", "disk", "quorum", "apply", "send")


def spread(x):
    x = ((x ^ x >> 32) * FIRST) & MASK
    x = ((x ^ x >> 29) * SECOND) & MASK
    return x ^ x >> 32


def link(seen_zxid=0, resumed=False):
    return spread((seen_zxid + (STEP if resumed else 0)) & MASK)


def lot(session, xid, of_link):
    return (spread((session & MASK) ^ of_link) + xid * STEP) & MASK


def trace_id(session, xid, of_link=link()):
    low = lot(session, xid, of_link)
    return f"{spread((low + (session & MASK) * STEP) & MASK) or 1:016x}{low:016x}"


def span_id(trace, number):
    high, low = int(trace[:16], 16), int(trace[16:], 16)
    return f"{spread(high ^ (low + (number + 1) * STEP) & MASK):016x}"


def attributes(span):
    """Names and values, numbers as numbers."""
    found = {}
    for row in span["attributes"]:
        (kind, value), = row["value"].items()
        found[row["key"]] = int(value) if kind == "intValue" else value
    return found


class Collector:
    def __init__(self, mode=200, port=0):
        self.mode = mode
        self.spans = []
        self.resources = []
        self.requests = 0
        self.problems = []
        self.changed = threading.Condition()
        self.ending = threading.Event()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                collector.take(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}/v1/traces"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.server.shutdown()
        self.server.server_close()

    def take(self, handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        mode = self.mode
        with self.changed:
            self.requests += 1
            self.changed.notify_all()
        if mode == HANG:
            self.ending.wait()
            return
        try:
            if handler.path != "/v1/traces" or handler.headers["Content-Type"] != "application/x-protobuf":
                raise AssertionError(f"{handler.path} {handler.headers['Content-Type']}")
            spans, resource = check_request(message(body, REQUEST))
        except (AssertionError, IndexError, KeyError, TypeError, ValueError) as problem:
            self.problems.append(repr(problem))
            spans, resource = [], {}
        with self.changed:
            if mode == 200:
                self.spans += spans
                self.resources.append(resource)
            self.changed.notify_all()
        try:
            handler.send_response(mode)
            handler.send_header("Content-Type", "application/x-protobuf")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        except ConnectionError:
            pass  # the server is gone

    def wait(self, condition, patience_s=60):
        """Waits until condition(self) is true, and returns it."""
        deadline = time.monotonic() + patience_s
        with self.changed:
            while True:
                found = condition(self)
                if self.problems:
                    raise AssertionError(f"a bad request: {self.problems[:3]}")
                if found:
                    return found
                if time.monotonic() > deadline:
                    raise AssertionError(f"not in {patience_s} s; {len(self.spans)} spans, {self.requests} requests, "
                                         f"the newest: {self.spans[-3:]}")
                self.changed.wait(0.2)

    def roots(self):
        return [span for span in self.spans if span["kind"] == SERVER]

    def find(self, patience_s=60, **wanted):
        """The request's span with these attributes (conclave.NAME), and its parts, once they are there."""
        def search(_):
            for span in self.roots():
                have = attributes(span)
                if all(have.get(f"conclave.{name}") == value for name, value in wanted.items()):
                    return span
            return None
        root = self.wait(search, patience_s)
        return root, [span for span in self.spans if span.get("parentSpanId") == root["spanId"]]


# Fields by number, from trace.proto, resource.proto and common.proto: name, and kind. A dict is a message; a list, one that may
# come several times.
VALUE = {1: ("stringValue", "text"), 2: ("boolValue", "bool"), 3: ("intValue", "int")}
ATTRIBUTE = {1: ("key", "text"), 2: ("value", VALUE)}
SPAN = {1: ("traceId", "id"), 2: ("spanId", "id"), 4: ("parentSpanId", "id"), 5: ("name", "text"), 6: ("kind", "enum"),
        7: ("startTimeUnixNano", "fixed64"), 8: ("endTimeUnixNano", "fixed64"), 9: ("attributes", [ATTRIBUTE])}
REQUEST = {1: ("resourceSpans", [{1: ("resource", {1: ("attributes", [ATTRIBUTE])}),
                                  2: ("scopeSpans", [{1: ("scope", {1: ("name", "text")}), 2: ("spans", [SPAN])}])}])}
VARINT, FIXED64, BYTES = 0, 1, 2
LEAVES = {"text": (BYTES, lambda raw: raw.decode("utf-8")), "id": (BYTES, bytes.hex), "enum": (VARINT, int), "bool": (VARINT, bool),
          "int": (VARINT, str), "fixed64": (FIXED64, lambda raw: str(int.from_bytes(raw, "little")))}


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def message(data, fields):
    """A message of protocol buffers as the dict that its JSON form would be."""
    found, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        name, kind = fields[tag >> 3]
        wire = LEAVES[kind][0] if isinstance(kind, str) else BYTES
        assert tag & 7 == wire, (name, tag)
        if wire == VARINT:
            value, at = varint(data, at)
        else:
            size, at = (8, at) if wire == FIXED64 else varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, (name, size)
        if isinstance(kind, list):
            found.setdefault(name, []).append(message(value, kind[0]))
        else:
            assert name not in found, f"{name} twice"
            found[name] = LEAVES[kind][1](value) if isinstance(kind, str) else message(value, kind)
    return found


def check_span(span):
    assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and int(span["traceId"], 16), span
    for name in ("spanId", "parentSpanId"):
        assert name not in span or (re.fullmatch("[0-9a-f]{16}", span[name]) and int(span[name], 16)), span
    assert span["kind"] in (SERVER, INTERNAL) and span["name"], span
    for name in ("startTimeUnixNano", "endTimeUnixNano"):
        assert isinstance(span[name], str) and span[name].isdigit(), span
    assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]), span
    known = {"traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes"}
    assert set(span) <= known, span
    for row in span.get("attributes", []):
        (kind, value), = row["value"].items()
        assert row["key"] and {"stringValue": str, "intValue": str, "boolValue": bool}[kind] is type(value), row


def check_request(body):
    """(all spans, the resource's attributes) of an ExportTraceServiceRequest; AssertionError: it is none."""
    assert set(body) == {"resourceSpans"} and len(body["resourceSpans"]) == 1, body
    resource, = body["resourceSpans"]
    scope, = resource["scopeSpans"]
    assert scope["scope"]["name"] and scope["spans"], scope
    for span in scope["spans"]:
        check_span(span)
    return scope["spans"], attributes(resource["resource"])
