"""Elections (election_test.c) on Conclave's server and on Apache ZooKeeper, through the fault proxy.

Promise: the same tests for both; a server that cannot run here is named and skipped. The server is killed and started
again when a test asks for it.
Limits: one server each, on loopback; ensembles are for others. `election_test.py [conclave|zookeeper] [TEST]` runs less.
"""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import conclave  # noqa: E402
import zookeeper  # noqa: E402

PROGRAM = os.path.join(os.environ.get("CONCLAVE_BUILD", "build"), "test", "system", "election_test")
SETTINGS = {"minSessionTimeout": "1000", "maxSessionTimeout": "60000"}
OPTIONS = [word for key, value in SETTINGS.items() for word in ("--" + key, value)]
TICK_MS = 500
SKIPPED_EXIT = 77


def converse(program, server):
    """Passes the program's output on, does what it asks for; its last line of counts, or None."""
    counts = None
    for line in program.stdout:
        if line == "!restart\n":
            server.restart(hard=True)
            program.stdin.write("restarted\n")
            program.stdin.flush()
            continue
        sys.stdout.write(line)
        sys.stdout.flush()
        counts = re.match(r"(\d+) passed, (\d+) failed$", line) or counts
    return counts


def run(name, missing, make_server, tests):
    """(passed, failed, reason for skipping or None) against one server."""
    if missing:
        return 0, 0, f"{name}: {missing}"
    with make_server() as server, subprocess.Popen([PROGRAM, str(server.port), name, *tests], stdin=subprocess.PIPE,
                                                   stdout=subprocess.PIPE, text=True) as program:
        try:
            counts = converse(program, server)
        finally:
            program.stdin.close()
            if sys.exc_info()[0]:
                program.kill()
        code = program.wait()
    if not counts or code not in (0, 1):
        print(f"{name}: election_test ended with {code}")
        return 0, 1, None
    # A sanitizer's report changes the exit code only.
    passed, failed = int(counts[1]), int(counts[2])
    return passed, failed + (code != 0 and failed == 0), None


def main():
    servers = {
        "conclave": (conclave.why_missing(), lambda: conclave.Conclave(OPTIONS, tick_ms=TICK_MS)),
        "zookeeper": (zookeeper.why_missing(), lambda: zookeeper.ZooKeeper(SETTINGS, tick_ms=TICK_MS)),
    }
    chosen = sys.argv[1:2] or list(servers)
    results = [run(name, *servers[name], sys.argv[2:]) for name in chosen]
    skipped = [reason for _, _, reason in results if reason]
    for reason in skipped:
        print(f"skipped: {reason}")
    if len(skipped) == len(results):
        return SKIPPED_EXIT
    passed, failed = sum(r[0] for r in results), sum(r[1] for r in results)
    print(f"{passed} passed, {failed} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
