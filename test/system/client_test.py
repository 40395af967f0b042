"""The client library (client_test.c) against Conclave's server and against Apache ZooKeeper.

Promise: the same tests for both; a server that cannot run here is named and skipped.
Limits: one server each, on loopback; ensembles are for others.
"""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import conclave  # noqa: E402
import zookeeper  # noqa: E402

PROGRAM = os.path.join(os.environ.get("CONCLAVE_BUILD", "build"), "test", "system", "client_test")
SETTINGS = {"minSessionTimeout": "1000", "maxSessionTimeout": "60000"}
PROPERTIES = {"zookeeper.extendedTypesEnabled": "true"}
OPTIONS = ["--extendedTypesEnabled", "true"] + [word for key, value in SETTINGS.items() for word in ("--" + key, value)]
TICK_MS = 500
SKIPPED_EXIT = 77


def run(name, missing, make_server):
    """(passed, failed, reason for skipping or None) against one server."""
    if missing:
        return 0, 0, f"{name}: {missing}"
    with make_server() as server:
        done = subprocess.run([PROGRAM, str(server.port), name], stdout=subprocess.PIPE, text=True, check=False)
    sys.stdout.write(done.stdout)
    counts = re.search(r"^(\d+) passed, (\d+) failed$", done.stdout, re.MULTILINE)
    if not counts or done.returncode not in (0, 1):
        print(f"{name}: client_test ended with {done.returncode}")
        return 0, 1, None
    # A sanitizer's report changes the exit code only.
    passed, failed = int(counts[1]), int(counts[2])
    return passed, failed + (done.returncode != 0 and failed == 0), None


def main():
    results = [
        run("zookeeper", zookeeper.why_missing(), lambda: zookeeper.ZooKeeper(SETTINGS, PROPERTIES, tick_ms=TICK_MS)),
        run("conclave", conclave.why_missing(), lambda: conclave.Conclave(OPTIONS, tick_ms=TICK_MS)),
    ]
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
