"""Every command of the AdminServer on Apache ZooKeeper and on ours, after the same few requests: the answers compared key by
key, names and types of the values, and the values where they cannot differ. The names in the lists below are left out, on
the side that has it, with its reason.

Promise: servers of its own on free loopback ports; the last line counts the commands.
Limits: which version of Apache ZooKeeper is compared with is Debian's choice: 3.8 on Debian 12, 3.9 on Debian 13. Of
snapshot and restore only their place in the list is compared; test/system/admin_test.py tests what they do.

usage: adminserver_test.py
"""

import json
import os
import re
import sys
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import conclave  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SESSION_TIMEOUT_MS = 40000  # longer than the test, which sends no pings
SETTINGS = {"clientPortListenBacklog": 511, "maxClientCnxns": 7, "minSessionTimeout": 3000}
FILE = {**SETTINGS, "4lw.commands.whitelist": "*", "admin.enableServer": "true", "admin.serverAddress": "127.0.0.1",
        "admin.serverPort": "0", "admin.stateChangeByGet": "yes"}

# Commands that 3.8 lacks.
BACKUP = {"snapshot", "restore"}
# Keys that only Apache ZooKeeper has: path of the key in the answer, and why.
LEFT_OUT = [
    (r"(server_stats|stats)\.server_stats\.provider_null", "a detail of a Java object"),
    (r"(server_stats|stats)\.server_stats\.fsync_threshold_exceed_count", "slow syncs are not counted apart"),
    (r"(server_stats|stats)\.server_stats\.non_mtls(remote|local)_conn_count", "not counted apart"),
    (r"environment\.(java\..*|os\.memory\.max)", "there is no JVM"),
    (r"system_properties\.(java|jdk|jetty|sun|(file|stdout|stderr)\.encoding|native|org\.slf4j|user\.(language|timezone)).*",
     "no JVM"),
]
# Keys that only ours has.
ADDED = [
    (r"monitor\.(p50|p95|p99|p999)_.*", "quantiles"),
    (r"system_properties\.zookeeper\..*", "keys that Apache ZooKeeper does not keep as properties"),
]
if zookeeper.VERSION < (3, 9):
    ADDED.append((r"monitor\.((\w+_)?restore_\w+|snapshot_(error|rate_limited)_count)", "figures of 3.9"))
# Values that are the same on both, whatever they are. Not among them: server_id, which Apache ZooKeeper gives as 0 where
# ours counts from 1, and auth_failed_count, where it counts certificates only.
SAME = re.compile(r"""(configuration\.(tick_time|max_client_cnxns|m\w\w_session_timeout|client_port_listen_backlog)
    |is_read_only\..* |voting_view\..* |zabstate\..* |observers\..* |leader\..* |hash\..* |watch_summary\..*
    |watches_by_path\..*\.\[\]\#keys |dump\.session_id_to_ephemeral_paths\..* |watches\..* |get_trace_mask\..*
    |set_trace_mask\..* |ruok\..* |nosuch\..* |(server_stats|stats)\.(node_count|read_only)
    |(server_stats|stats)\.server_stats\.(server_state|last_processed_zxid|outstanding_requests)
    |connections\.connections\.\[\]\.(last_operation|session_timeout|last_cxid|outstanding_requests|packets_\w+)
    |connections\.secure_connections.* |.*\.(command|error)|monitor\.(znode_count|watch_count|ephemerals_count
    |server_state|global_sessions))$""", re.X)


def fetch(server, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.admin_port}/commands{path}", timeout=20) as reply:
            return reply.status, (reply.headers["Content-Type"] or "").split(";")[0], reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def kind(value):
    """A JSON type. A whole number that stands for a mean is a fraction on another day: Jackson writes 0.0 then."""
    names = {bool: "boolean", int: "whole", float: "fraction", str: "text", type(None): "null"}
    return names[type(value)]


def by_content(item):
    """Order for what shares a path: neither server promises one."""
    return json.dumps(item, sort_keys=True)


def flatten(path, value, out):
    """{path of a leaf: (kind, value)}; the items of a list share a path, numbers in names become N."""
    if isinstance(value, dict):
        out[path + "{}"] = ("object", None)
        for key, item in sorted(value.items(), key=lambda pair: by_content(pair[1])):
            flatten(f"{path}.{'N' if re.fullmatch(r'-?[0-9]+', key) else key}", item, out)
    elif isinstance(value, list):
        out[path + "[]"] = ("array", len(value))
        for item in sorted(value, key=by_content):
            flatten(path + ".[]", item, out)
    else:
        out[path] = (kind(value), value)


def documented():
    """Names that docs/metrics.md says are left out of monitor."""
    with open(os.path.join(ROOT, "docs", "metrics.md"), encoding="utf-8") as file:
        return set(re.findall(r"`(\w+)`", file.read().split("## Left out")[1]))


def explained(path, only_theirs, left_out):
    if only_theirs and path.startswith("monitor."):
        base = re.sub(r"^monitor\.((avg|min|max|cnt|sum|p50|p95|p99|p999)_)?", "", path)
        if base in left_out or re.search(r"_(read|write)_per_namespace$", base):
            return True
    return any(re.fullmatch(pattern, path) for pattern, _ in (LEFT_OUT if only_theirs else ADDED))


def differences(name, ours, theirs, left_out):
    """Lines that say what differs."""
    flat = [{}, {}]
    for answer, out in zip((ours, theirs), flat):
        flatten(name, answer, out)
    lines = []
    for path in sorted(set(flat[0]) | set(flat[1])):
        a, b = flat[0].get(path), flat[1].get(path)
        if a is None or b is None:
            if not explained(path, a is None, left_out):
                lines.append(f"{path}: only {'Apache ZooKeeper' if a is None else 'ours'}: {b or a}")
        elif a[0] != b[0]:
            lines.append(f"{path}: {a} and, at Apache ZooKeeper, {b}")
        elif SAME.match(path) and a != b:
            lines.append(f"{path}: {a[1]!r} and, at Apache ZooKeeper, {b[1]!r}")
    return lines


def prepare(server):
    """One session with its own node, watches and a change that triggers an event."""
    client = zk.Connection(server.address, SESSION_TIMEOUT_MS)
    client.call(zk.create("/e", b"x", flags=1))
    client.call(zk.create("/d", b"x"))
    client.call(zk.get_data("/e", True))
    client.call(zk.exists("/none", True))
    client.call(zk.get_children("/", True))
    client.call(zk.auth("nosuch", b""))
    client.drop()
    client = zk.Connection(server.address, SESSION_TIMEOUT_MS)
    client.call(zk.create("/mine", b"x", flags=1))
    client.call(zk.get_data("/mine", True))
    return client


def commands(server):
    """The names of the links at /commands, in their order."""
    return re.findall(r'<a href="/commands/(\w+)">\1</a>', fetch(server, "")[2])


def compare(name, a, b, left_out):
    """Lines that say what differs in the answers of one command."""
    query = "?traceMask=9" if name == "set_trace_mask" else ""
    answers = [fetch(server, f"/{name}{query}") for server in (a, b)]
    lines = [] if answers[0][:2] == answers[1][:2] else [f"{name}: {answers[0][:2]} and {answers[1][:2]}"]
    parsed = [json.loads(text) for _, _, text in answers]
    return lines + differences(name, *parsed, left_out)


def main():
    missing = zookeeper.why_missing() or zookeeper.why_admin_missing() or conclave.why_missing()
    if missing:
        print(missing)
        return 77
    passed = failed = 0
    left_out = documented()
    ours = conclave.Conclave(admin=True)
    path = os.path.join(ours.folder, "zoo.cfg")
    with open(path, "w", encoding="ascii") as file:
        file.writelines(f"{key}={value}\n" for key, value in FILE.items())
    ours.options = [path]
    with ours as a, zookeeper.ZooKeeper(SETTINGS, admin=True) as b:
        clients = [prepare(a), prepare(b)]
        names = commands(b)
        lists = [name for name in commands(a) if name not in BACKUP or zookeeper.VERSION >= (3, 9)] == names
        for name, lines in [("the list", [] if lists else [f"{commands(a)} and {names}"]),
                            *((name, compare(name, a, b, left_out)) for name in [*names, "nosuch", "conf", "isro"]
                              if name not in BACKUP)]:
            passed, failed = passed + (not lines), failed + bool(lines)
            print(f"{'FAILED ' if lines else 'ok     '} {name}" + "".join(f"\n        {line}" for line in lines))
        for client in clients:
            client.drop()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
