"""Traces of requests: a small collector takes what the server exports by OTLP over HTTP.

Promise: each sampled request is a span with the parts of its way as children that add up to it; ids are those that
docs/traces.md derives from session and xid, also for our client; the sample is exact; slow requests are always traced; a
collector that hangs, refuses or is missing costs one warning and counted traces, never a request; without an endpoint
nothing is sent.

usage: traces_test.py [CASE...]
"""

import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import otlp  # noqa: E402
import slow_disk  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import ROOT, Conclave, program, why_missing  # noqa: E402
from server import free_port  # noqa: E402
from slow_test import SLOW_MS, SlowServer, metric  # noqa: E402

BUILD = os.environ.get("CONCLAVE_BUILD") or os.path.join(ROOT, "build")
PATIENCE_S = 60


def words(collector, sample=1, *more):
    return ["--trace.endpoint", collector.url, "--trace.sample", str(sample), *more]


def begin_and_end(span):
    return int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])


def check_parts(root, parts):
    """The parts follow each other without a gap, in order, and fill the request."""
    at, end = begin_and_end(root)
    names = [part["name"] for part in parts]
    assert names == [name for name in otlp.PARTS if name in names] and names, names
    for part in parts:
        assert part["traceId"] == root["traceId"] and part["kind"] == otlp.INTERNAL, part
        assert begin_and_end(part)[0] == at, (part, at)
        at = begin_and_end(part)[1]
    assert at == end, (root, parts)
    assert part["spanId"] == otlp.span_id(root["traceId"], 2 + otlp.PARTS.index(part["name"])), part


def check_ids(root, link, xid):
    have = otlp.attributes(root)
    assert have["conclave.session"] == f"0x{link.session_id & otlp.MASK:x}" and have["conclave.xid"] == xid, have
    assert have["conclave.client"] == "%s:%d" % link.socket.getsockname()[:2], have
    assert root["traceId"] == otlp.trace_id(link.session_id, xid), (root, xid)
    assert root["spanId"] == otlp.span_id(root["traceId"], 1), root


def wait_metric(server, name, least):
    deadline = time.monotonic() + PATIENCE_S
    while metric(server, name) < least:
        assert time.monotonic() < deadline, (name, metric(server, name), least)
        time.sleep(0.1)
    return metric(server, name)


def warnings(server):
    return re.findall(r"^.* server: trace-export-failed .*$", server.log_tail(1 << 20), re.M)


def test_parts():
    with otlp.Collector() as collector, SlowServer(words(collector)) as server:
        with zk.Connection(server.address, 30000, patience_s=PATIENCE_S) as link:
            before_ns = time.time_ns()
            server.disk.set(SLOW_MS)
            assert link.call(zk.create("/slow", b"x"))[0] == 0
            server.disk.set(0)
            after_ns = time.time_ns()
            assert link.call(zk.get_data("/slow"))[0] == 0
            assert link.call(zk.get_data("/missing"))[0] == -101
            assert link.call(zk.delete("/missing"))[0] == -101
            link.send(zk.set_data("/slow", b"y"))
            behind = link.send(zk.exists("/slow"))
            link.read_reply()
            link.read_reply()
            root, parts = collector.find(xid=1)
            assert root["name"] == "create" and "parentSpanId" not in root, root
            check_ids(root, link, 1)
            check_parts(root, parts)
            begun_ns, end_ns = begin_and_end(root)
            slack_ns = 50_000_000  # the wall clock may be adjusted
            assert before_ns - slack_ns <= begun_ns and end_ns <= after_ns + slack_ns, (before_ns, root, after_ns)
            disk, = [part for part in parts if part["name"] == "disk"]
            assert begin_and_end(disk)[1] - begin_and_end(disk)[0] >= SLOW_MS * 700_000, disk
            assert otlp.attributes(root)["conclave.slow"] is True and otlp.attributes(root)["conclave.path"] == "/slow"
            root, parts = collector.find(xid=2)
            check_ids(root, link, 2)
            check_parts(root, parts)
            assert root["name"] == "getData" and "conclave.slow" not in otlp.attributes(root), root
            assert "disk" not in [part["name"] for part in parts], parts
            for xid, name in ((3, "getData"), (4, "delete")):
                root, parts = collector.find(xid=xid)
                check_parts(root, parts)
                assert root["name"] == name and otlp.attributes(root)["error.type"] == "NO_NODE", root
            root, parts = collector.find(xid=behind)
            check_parts(root, parts)
            assert root["name"] == "exists" and "queue" in [part["name"] for part in parts], (root, parts)
            ids = [span["spanId"] for span in collector.spans]
            assert len(ids) == len(set(ids)), "each span once"
            assert collector.resources[0]["service.name"] == "conclave", collector.resources[0]
            assert collector.resources[0]["service.instance.id"] == "1", collector.resources[0]


def test_sample():
    """The requests with a trace are exactly those whose ids say so."""
    count, one_in = 4000, 20
    with otlp.Collector() as collector, Conclave(words(collector, one_in), admin=True) as server:
        with zk.Connection(server.address, 30000, patience_s=PATIENCE_S) as link:
            assert link.call(zk.create("/n", b""))[0] == 0
            for begin in range(0, count, 100):
                for i in range(100):
                    link.send(zk.set_data("/n", b"") if (begin + i) % 2 else zk.exists("/n"))
                for _ in range(100):
                    link.read_reply()
            of_link = otlp.link()
            wanted = {xid for xid in range(1, count + 2)
                      if otlp.lot(link.session_id, xid, of_link) <= otlp.MASK // one_in}
            assert count / one_in / 2 < len(wanted) < count / one_in * 2, len(wanted)

            def xids(slow):
                return {otlp.attributes(span)["conclave.xid"] for span in collector.roots()
                        if slow or "conclave.slow" not in otlp.attributes(span)}
            collector.wait(lambda _: wanted <= xids(True), PATIENCE_S)
            assert xids(False) <= wanted, xids(False) - wanted
            wait_metric(server, "conclave_traces_exported_total", len(wanted))
            assert metric(server, "conclave_traces_dropped_total") == 0


def test_slow():
    """With trace.sample 0 only the slow log's requests; a resumed session has other ids."""
    with otlp.Collector() as collector, SlowServer(words(collector, 0, "--slowlog.threshold", "300")) as server:
        with zk.Connection(server.address, 30000, patience_s=PATIENCE_S) as link:
            assert link.call(zk.create("/fast", b""))[0] == 0
            again = zk.Connection(server.address, 30000, link.session_id, link.passwd, last_zxid=link.last_zxid,
                                  patience_s=PATIENCE_S)
            server.disk.set(SLOW_MS)
            assert again.call(zk.create("/slow", b""))[0] == 0
            server.disk.set(0)
            root, parts = collector.find(path="/slow")
            check_parts(root, parts)
            resumed = otlp.link(link.last_zxid, True)
            assert root["traceId"] == otlp.trace_id(link.session_id, 1, resumed), root
            assert all(otlp.attributes(span).get("conclave.slow") for span in collector.roots()), collector.spans
            again.drop()


def test_unread():
    """A client that goes away without reading its answer."""
    with otlp.Collector() as collector, Conclave(words(collector)) as server:
        link = zk.Connection(server.address, 30000, patience_s=PATIENCE_S)
        assert link.call(zk.create("/large", bytes(900000)))[0] == 0
        for _ in range(40):
            last = link.send(zk.get_data("/large"))
        collector.find(xid=2)
        link.drop()
        collector.wait(lambda c: any(otlp.attributes(span).get("conclave.unsent") for span in c.roots()), PATIENCE_S)
        assert last == 41


def test_hang():
    """A collector without answers costs traces beyond a bound, and one warning; then it gets those that were kept."""
    count = 3000
    with otlp.Collector(otlp.HANG) as collector, Conclave(words(collector), admin=True) as server:
        with zk.Connection(server.address, 30000, patience_s=PATIENCE_S) as link:
            assert link.call(zk.create("/n", b""))[0] == 0
            collector.wait(lambda c: c.requests >= 1, PATIENCE_S)
            for begin in range(0, count, 100):
                for _ in range(100):
                    link.send(zk.exists("/n"))
                for _ in range(100):
                    link.read_reply()
            assert metric(server, "conclave_traces_dropped_total") >= count - 1024 - 256
            wait_metric(server, "conclave_trace_exports_failed_total", 1)
            assert len(warnings(server)) == 1 and "no answer" in warnings(server)[0] and "advice=" in warnings(server)[0]
            assert metric(server, "conclave_traces_exported_total") == 0
            collector.mode = 200
            collector.wait(lambda c: len(c.roots()) >= 1000, PATIENCE_S)
            assert link.call(zk.exists("/n"))[0] == 0


def test_missing():
    """No collector, then one at that port: one warning, nothing lost."""
    port = free_port()
    options = ["--trace.endpoint", f"http://localhost:{port}", "--trace.sample", "1"]
    with Conclave(options, admin=True) as server, zk.Connection(server.address, 30000, patience_s=PATIENCE_S) as link:
        assert link.call(zk.create("/n", b""))[0] == 0
        wait_metric(server, "conclave_trace_exports_failed_total", 2)
        assert len(warnings(server)) == 1 and f"http://localhost:{port}/v1/traces" in warnings(server)[0], warnings(server)
        with otlp.Collector(port=port) as collector:
            root, parts = collector.find(xid=1)
            check_ids(root, link, 1)
            check_parts(root, parts)
        assert metric(server, "conclave_traces_dropped_total") == 0


def test_refused():
    """400: these traces are dropped; 503: they are sent again."""
    with otlp.Collector(503) as collector, Conclave(words(collector), admin=True) as server:
        with zk.Connection(server.address, 30000, patience_s=PATIENCE_S) as link:
            assert link.call(zk.create("/n", b""))[0] == 0
            wait_metric(server, "conclave_trace_exports_failed_total", 1)
            assert metric(server, "conclave_traces_dropped_total") == 0
            assert len(warnings(server)) == 1 and "503" in warnings(server)[0], warnings(server)
            collector.mode = 400
            wait_metric(server, "conclave_traces_dropped_total", 1)
            assert "400" in warnings(server)[-1], warnings(server)
            collector.mode = 200
            assert link.call(zk.exists("/n"))[0] == 0
            collector.find(xid=2)
            assert not any(otlp.attributes(span)["conclave.xid"] == 1 for span in collector.roots())
            assert server.stop() == 0, server.log_tail()


def test_stop():
    """A server stops while the collector hangs."""
    with otlp.Collector(otlp.HANG) as collector, Conclave(words(collector)) as server:
        with zk.Connection(server.address, 30000, patience_s=PATIENCE_S) as link:
            assert link.call(zk.create("/n", b""))[0] == 0
            collector.wait(lambda c: c.requests >= 1, PATIENCE_S)
            assert server.stop() == 0, server.log_tail()


def spans_of_client(server, *more):
    done = subprocess.run([os.path.join(BUILD, "test", "system", "span_client"), server.host, *more],
                          capture_output=True, text=True, timeout=PATIENCE_S * 2, check=False)
    *lines, over = done.stdout.splitlines()
    assert done.returncode == 0 and over == "over OK", done
    return [json.loads(line) for line in lines]


def check_client(server, collector, more):
    spans = spans_of_client(server, *more)
    assert [(span["name"], span["path"], span["error"]) for span in spans] == [
        ("create2", "/span", 0), ("exists", "/span", 0), ("exists", "/missing", -101), ("multi", "/m", 0)], spans
    for span in spans:
        session = span["session"] & otlp.MASK
        assert span["trace"] == otlp.trace_id(session, span["xid"]) and span["dropped"] == 0, span
        assert span["span"] == otlp.span_id(span["trace"], 0) and span["ctx"] == "mine", span
        parent = span["path"] == "/span" and span["name"] == "exists"
        assert span["parent_trace"] == ("0af7651916cd43dd8448eb211c80319c" if parent else "0" * 32), span
        assert span["parent_span"] == ("b7ad6b7169203331" if parent else "0" * 16), span
        root, parts = collector.find(session=f"0x{session:x}", xid=span["xid"])
        check_parts(root, parts)
        assert root["traceId"] == span["trace"] and root["parentSpanId"] == span["span"], (root, span)
        assert root["name"] == span["name"], (root, span)
        begun_ns, end_ns = begin_and_end(root)
        slack_ns = 50_000_000  # the wall clock may be adjusted
        assert span["start_ns"] - slack_ns <= begun_ns and span["end_ns"] >= span["start_ns"], (root, span)
        # the client may have the answer before the server knows that it was taken
        assert end_ns - begun_ns <= span["end_ns"] - span["start_ns"] + PATIENCE_S * 10**9, (root, span)


def test_client():
    """The spans of our client are the parents of the server's, with and without exactly-once writes."""
    with otlp.Collector() as collector, Conclave(words(collector)) as server:
        for more in ((), ("once",)):
            check_client(server, collector, more)
            with zk.Connection(server.address, 30000, patience_s=PATIENCE_S) as link:
                assert link.call(zk.delete("/span"))[0] == 0


def test_off():
    """Without an endpoint nothing is kept, nothing is counted, and nobody is asked."""
    with otlp.Collector(port=0) as collector, Conclave(["--trace.sample", "1"], admin=True) as server:
        with zk.Connection(server.address, 30000, patience_s=PATIENCE_S) as link:
            for i in range(200):
                assert link.call(zk.create(f"/n{i}", b""))[0] == 0
            for name in ("exported", "dropped"):
                assert metric(server, f"conclave_traces_{name}_total") == 0
            assert collector.requests == 0 and not warnings(server)


def test_keys():
    for url, text in (("https://127.0.0.1:4318", "http://"), ("http://", "host"), ("http://host:0/", "HOST:PORT"),
                      ("http://host:99999/", "HOST:PORT"), ("http://host/a b", "printable"), ("127.0.0.1:4318", "http://")):
        done = subprocess.run([program(), "server", "--listen", "127.0.0.1:0", "--trace.endpoint", url],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 64 and "trace.endpoint" in done.stderr and text in done.stderr, (url, done)


def main():
    reason = why_missing()
    if reason:
        return cases.skip_all(reason)
    if missing := slow_disk.why_missing():
        return cases.skip_all(missing)
    return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
