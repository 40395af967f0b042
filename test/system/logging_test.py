"""The log of a server: its formats, parsed strictly, its levels, and how few lines a cause costs.

Promise: text, JSON and journald lines are whole, whatever clients send; warnings and errors have a time and an advice;
start, stop and role changes are written at every level; clients that fail again and again, and a member that is dead,
cost a few lines and not one per attempt.
Limits: what the counts say after a minute is tested by test/unit/base/log.c with a clock of its own.

usage: logging_test.py [CASE...]
"""

import json
import os
import re
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import Conclave, why_missing  # noqa: E402
from ensemble import Ensemble, mode_of  # noqa: E402

PATIENCE_S = 60
LEVELS = ("debug", "info", "notice", "warn", "error")
PRIORITIES = {7: "debug", 6: "info", 5: "notice", 4: "warn", 3: "error"}
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
VALUE = r'(?:"(?:[^"\\]|\\["\\nrt]|\\x[0-9a-f]{2})*"|[^ "\\]*)'
FIELD = rf"[A-Za-z0-9_]+={VALUE}"
REST = rf"(?P<area>[a-z]+): (?P<event>[A-Za-z0-9_-]+)(?P<fields>(?: {FIELD})*)"
TEXT = re.compile(rf"(?P<time>{TIME}) (?P<level>debug|info |notice|warn |error) {REST}")
JOURNALD = re.compile(rf"<(?P<level>[3-7])>{REST}")
EVIL = b"/x\n2026-01-01T00:00:00.000Z error server: failed \x1b[31m\" advice=\"\\"
EVIL_PATH = '/ev il" advice="none\\\u00e9'


def parse(line, form):
    """(level, event, fields, has advice) of a line; fails unless the whole line has the format."""
    if form == "json":
        entry = json.loads(line)
        assert list(entry) == ["time", "level", "area", "message", "advice", "fields"], line
        assert re.fullmatch(TIME, entry["time"]) and entry["level"] in LEVELS and entry["area"], line
        assert isinstance(entry["fields"], dict), line
        return entry["level"], entry["message"], entry["fields"], bool(entry["advice"])
    match = (TEXT if form == "text" else JOURNALD).fullmatch(line)
    assert match, f"not a line of {form}: {line!r}"
    level = PRIORITIES[int(match["level"])] if form == "journald" else match["level"].strip()
    fields = dict(re.findall(rf"([A-Za-z0-9_]+)=({VALUE})", match["fields"]))
    return level, match["event"], fields, "advice" in fields


def lines_of(server):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with open(server.log_path, encoding="utf-8") as log:  # strictly UTF-8
            text = log.read()
        if text == "" or text.endswith("\n"):
            return text.splitlines()
        assert time.monotonic() < deadline, text[-200:]  # a line that is being written is whole at the next look


def entries_of(server, form="text"):
    """All lines, parsed; what is for a person before the log begins is left out."""
    found = [parse(line, form) for line in lines_of(server) if not line.startswith("conclave: ")]
    for level, event, _, advice in found:
        assert advice or level not in ("warn", "error"), f"{event} has no advice"
    return found


def wait_event(server, event, form="text", count=1):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = [entry for entry in entries_of(server, form) if entry[1] == event]
        if len(found) >= count:
            return found
        assert time.monotonic() < deadline, f"{len(found)} {event} in the log:\n{server.log_tail()}"
        time.sleep(0.05)


def hostile(server):
    """What a stranger may try so that his words come into the log; and a client whose log-in fails."""
    for first in (b"GET / HTTP/1.1\r\n\r\n", struct.pack(">i", 1 << 30) + EVIL, struct.pack(">i", len(EVIL)) + EVIL):
        with socket.create_connection(server.address, timeout=10) as stranger:
            stranger.sendall(first)
            try:
                stranger.settimeout(5)
                stranger.recv(100)
            except OSError:
                pass
    with zk.Connection(server.address) as client:
        quota = "/zookeeper/quota" + EVIL_PATH
        for path, data in ((EVIL_PATH, b""), (quota, b""), (quota + "/zookeeper_limits", b"count=1,bytes=-1"),
                           (quota + "/zookeeper_stats", b"count=1,bytes=0"),
                           (EVIL_PATH + "/child", b"")):
            assert client.call(zk.create(path, data))[0] == 0, path
        client.send(zk.auth(EVIL.decode(), EVIL), -4)
        try:
            client.read_frame()
        except (zk.Closed, OSError):
            pass


def formats():
    for form in ("text", "json", "journald"):
        with Conclave(["--log.format", form, "--enforceQuota", "true"]) as server:
            hostile(server)
            wait_event(server, "auth-failed", form)
            wait_event(server, "connection-closed", form)
            wait_event(server, "quota-exceeded", form)
            assert server.stop() == 0
            entries = entries_of(server, form)
            events = [event for _, event, _, _ in entries]
            assert events.count("started") == events.count("stopping") == events.count("stopped") == 1, events
            assert "failed" not in events, "a stranger forged a line"
            assert {level for level, event, _, _ in entries if event in ("started", "stopping", "stopped")} == {"notice"}
            path = next(fields["path"] for _, event, fields, _ in entries if event == "quota-exceeded")
            assert path == (EVIL_PATH if form == "json" else '"/ev il\\" advice=\\"none\\\\\u00e9"'), path


def levels():
    with Conclave(["--log.level", "error", "--log.format", "json"]) as server:
        hostile(server)
        server.stop()
        assert {event for _, event, _, _ in entries_of(server, "json")} == {"started", "stopping", "stopped"}
    with Conclave(["--log.level", "debug", "--enforceQuota", "true"]) as server:
        hostile(server)
        wait_event(server, "connection-closed")


def repeats():
    """200 failures of one address: one line of each kind, and one with the rest when the server ends."""
    with Conclave() as server:
        for _ in range(200):
            with socket.create_connection(server.address, timeout=10) as stranger:
                stranger.sendall(struct.pack(">i", 1 << 30))
                stranger.settimeout(10)
                try:
                    assert stranger.recv(10) == b""
                except ConnectionError:
                    pass
        server.stop()
        found = [entry for entry in entries_of(server) if entry[1] == "connection-closed"]
        told = sum(int(fields.get("count", 1)) for _, _, fields, _ in found)
        assert told == 200, (told, found)
        assert len(found) <= 2 * 3, found  # a slow machine may need some minutes
        assert any("times more in the last 60 s" in fields.get("text", "") for _, _, fields, _ in found), found


def roles_and_a_dead_member():
    with Ensemble(3) as ensemble:
        leader, others = ensemble.roles()
        leader.kill()
        ensemble.wait_leader(serving=2)
        for member in others:
            deadline = time.monotonic() + PATIENCE_S
            while (last := wait_event(member, "role")[-1][2]["role"]) != mode_of(member):  # a busy machine may elect again
                assert time.monotonic() < deadline, (last, mode_of(member))
            wait_event(member, "link-down")
        new = ensemble.wait_leader()
        assert [f for _, _, f, _ in wait_event(new, "role") if f["role"] == "leader" and f["leader"] == str(new.number)]
        at = [len(entries_of(member)) for member in others]
        time.sleep(12)  # some dozen attempts to connect to the dead member
        for member, count in zip(others, at):
            added = [event for _, event, _, _ in entries_of(member)[count:] if event not in ("role", "stalled")]
            assert len(added) <= 5, added


def main():
    if missing := why_missing():
        return cases.skip_all(missing)
    return cases.run([formats, levels, repeats, roles_and_a_dead_member], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
