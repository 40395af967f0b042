"""Every four-letter word on Apache ZooKeeper and on ours, after the same few requests, their shapes compared: numbers are
replaced by signs, what the lists below name is left out on both sides with its reason.

Promise: servers of its own on free loopback ports; the last line counts the words.
Limits: which version of Apache ZooKeeper is compared with is Debian's choice: 3.8 on Debian 12, 3.9 on Debian 13.

usage: fourletter_test.py
"""

import os
import re
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import conclave  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SESSION_TIMEOUT_MS = 40000
WORDS = ("ruok srvr stat cons conf envi isro dirs wchs wchc wchp dump mntr hash gtmk stmk srst crst stat cons").split()

# Keys of envi and of mntr that only a JVM, or an ensemble, can mean; each is absent on our side.
ENVI_LEFT_OUT = re.compile(r"(java\.\w+(\.\w+)*|os\.memory\.max)=")
# Keys of mntr that we add: quantiles of summaries that Apache ZooKeeper keeps without, and figures that 3.8 lacks.
MNTR_OURS = re.compile(r"zk_((p50|p95|p99|p999)_\w+" + (
    r"|(\w+_)?restore_\w+|snapshot_(error|rate_limited)_count" if zookeeper.VERSION < (3, 9) else "") + ")$")
# Keys that we must have: those that tools read.
MNTR_NEEDED = """version server_state avg_latency max_latency min_latency packets_received packets_sent num_alive_connections
    outstanding_requests uptime znode_count watch_count ephemerals_count approximate_data_size global_sessions
    open_file_descriptor_count max_file_descriptor_count last_client_response_size max_client_response_size
    min_client_response_size auth_failed_count connection_rejected connection_drop_count stale_sessions_expired
    sessionless_connections_expired bytes_received_count response_bytes watch_bytes connection_request_count
    unrecoverable_error_count""".split()
MNTR_SUMMARIES = """fsynctime snapshottime dbinittime readlatency updatelatency node_created_watch_count
    node_deleted_watch_count node_changed_watch_count node_children_watch_count startup_txns_loaded
    sync_processor_batch_size jvm_pause_time_ms""".split()


def ask(server, word):
    with socket.create_connection(server.address, timeout=10) as s:
        s.sendall(word.encode() + (b"\0\0\0\0\0\0\0\x09" if word == "stmk" else b""))
        got = b""
        while part := s.recv(65536):
            got += part
    return got.decode()


def shape(word, text):
    """The text without what differs from run to run and from server to server."""
    text = re.sub(r"(?m)^(Zookeeper version: |zookeeper\.version=|zk_version\t)[^,]*, built on "
                  r"\d{4}-\d\d-\d\d \d\d:\d\d UTC$", r"\1VERSION", text)
    if word == "dump":
        text = re.sub(r"at \w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}:", "at DATE:", text)
        # How many expire together depends on when they came; Apache ZooKeeper also lists times at which none expires.
        text = re.sub(r"Connections Sets \(\d\)", "Connections Sets (N)", text)
        text = re.sub(r"(?m)^0 expire at DATE:\n", "", text)
        head, connections = text.split("Connections Sets", 1)
        connections = [line for line in connections.splitlines() if not re.fullmatch(r"\d+ expire at DATE:", line)]
        text = head + "Connections Sets" + "\n".join([connections[0], *sorted(connections[1:])]) + "\n"
    if word in ("stat", "cons"):  # connections come in any order
        lines = text.split("\n")
        first = next((i for i, line in enumerate(lines) if line.startswith(" /")), 0)
        last = first + sum(line.startswith(" /") for line in lines)
        text = "\n".join(lines[:first] + sorted(lines[first:last], key=shape_number) + lines[last:])
    if word == "envi":
        text = "\n".join(re.sub(r"=.*", "=TEXT", line) for line in text.split("\n") if not ENVI_LEFT_OUT.match(line))
    if word == "conf":
        text = re.sub(r"(?m)^(data\w*Dir)=/.*$", r"\1=PATH", text)
    if word == "mntr":
        return mntr_shape(text)
    return shape_number(text)


def shape_number(text):
    text = re.sub(r"0x[0-9a-f]+", "HEX", text)
    return re.sub(r"-?\d+(\.\d+)?", "N", text)


def mntr_shape(text):
    """Of the keys that tools read: which are there and what kind of value they have."""
    pairs = dict(line.split("\t", 1) for line in text.splitlines())
    wanted = [f"zk_{key}" for key in MNTR_NEEDED]
    wanted += [f"zk_{kind}_{name}" for name in MNTR_SUMMARIES for kind in ("avg", "min", "max", "cnt", "sum")]
    kinds = []
    for key in wanted:
        value = pairs.get(key)
        kind = ("absent" if value is None else "whole" if re.fullmatch(r"-?\d+", value) else
                "fraction" if re.fullmatch(r"-?\d+\.\d+", value) else "text")
        kinds.append(f"{key} {kind}")
    return "\n".join(kinds)


def strange_keys(ours, theirs):
    """Keys of mntr that only one side has and that nothing explains: MNTR_OURS, or docs/metrics.md's list of what is
    left out."""
    keys = [{line.split("\t")[0] for line in text.splitlines()} for text in (ours, theirs)]
    with open(os.path.join(ROOT, "docs", "metrics.md"), encoding="utf-8") as file:
        left_out = set(re.findall(r"`(\w+)`", file.read().split("## Left out")[1]))
    strange = [key for key in keys[0] - keys[1] if not MNTR_OURS.match(key)]
    for key in keys[1] - keys[0]:
        base = re.sub(r"^zk_((avg|min|max|cnt|sum|p50|p95|p99|p999)_)?", "", key)
        if base not in left_out and not re.search(r"_(read|write)_per_namespace$", base):
            strange.append(key)
    return sorted(strange)


def prepare(server):
    """One session with a node of its own, watches of both kinds and a change that triggers events. It sends no pings, so its
    timeout is longer than the test."""
    client = zk.Connection(server.address, SESSION_TIMEOUT_MS)
    client.call(zk.create("/e", b"x", flags=1))
    client.call(zk.create("/d", b"x"))
    client.call(zk.get_data("/e", True))
    client.call(zk.exists("/none", True))
    client.call(zk.get_children("/", True))
    return client


def main():
    missing = zookeeper.why_missing() or conclave.why_missing()
    if missing:
        print(missing)
        return 77
    passed = failed = 0
    ours = conclave.Conclave(["--4lw.commands.whitelist", "*"])
    theirs = zookeeper.ZooKeeper({"clientPortListenBacklog": 511})
    with ours as a, theirs as b:
        clients = [prepare(a), prepare(b)]
        for word in WORDS:
            texts = [ask(a, word), ask(b, word)]
            shapes = [shape(word, text) for text in texts]
            strange = strange_keys(*texts) if word == "mntr" else []
            if shapes[0] == shapes[1] and not strange:
                passed += 1
                print(f"ok      {word}")
            else:
                failed += 1
                print(f"FAILED  {word}\n--- ours\n{shapes[0]}\n--- Apache ZooKeeper\n{shapes[1]}\n--- strange: {strange}")
        for client in clients:
            client.close_session()
            client.drop()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
