"""Elections (election_test.c) on Conclave's server and on Apache ZooKeeper, through the fault proxy.

Promise: the same tests for both, at the same time; a server that cannot run here is named and skipped. The server is killed and started
again when a test asks for it.
Limits: one server each, on loopback; ensembles are for others. `election_test.py [conclave|zookeeper] [TEST]` runs less.
"""

import os
import re
import subprocess
import sys
import threading
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import conclave  # noqa: E402
import zookeeper  # noqa: E402

PROGRAM = os.path.join(os.environ.get("CONCLAVE_BUILD", "build"), "test", "system", "election_test")
SETTINGS = {"minSessionTimeout": "1000", "maxSessionTimeout": "60000"}
OPTIONS = [word for key, value in SETTINGS.items() for word in ("--" + key, value)]
TICK_MS = 500
SKIPPED_EXIT = 77


def converse(program, server, output):
    """Keeps the program's output, does what it asks for; its last line of counts, or None."""
    counts = None
    for line in program.stdout:
        if line == "!restart\n":
            server.restart(hard=True)
            program.stdin.write("restarted\n")
            program.stdin.flush()
            continue
        output.append(line)
        counts = re.match(r"(\d+) passed, (\d+) failed$", line) or counts
    return counts


def run(name, missing, make_server, tests, output):
    """(passed, failed, reason for skipping or None) against one server; what is to be told goes to output."""
    if missing:
        return 0, 0, f"{name}: {missing}"
    with make_server() as server, subprocess.Popen([PROGRAM, str(server.port), name, *tests], stdin=subprocess.PIPE,
                                                   stdout=subprocess.PIPE, text=True) as program:
        try:
            counts = converse(program, server, output)
        finally:
            program.stdin.close()
            if sys.exc_info()[0]:
                program.kill()
        code = program.wait()
    if not counts or code not in (0, 1):
        output.append(f"{name}: election_test ended with {code}\n")
        return 0, 1, None
    # A sanitizer's report changes the exit code only.
    passed, failed = int(counts[1]), int(counts[2])
    return passed, failed + (code != 0 and failed == 0), None


def run_all(servers, tests):
    """What run gives for each, all at the same time: the tests wait for the most part. Prints server by server."""
    outputs = {name: [] for name in servers}
    results = {}

    def work(name):
        try:
            results[name] = run(name, *servers[name], tests, outputs[name])
        except Exception:
            outputs[name].append(traceback.format_exc())
            results[name] = (0, 1, None)
    threads = [threading.Thread(target=work, args=(name,)) for name in servers]
    for thread in threads:
        thread.start()
    for name, thread in zip(servers, threads):
        thread.join()
        print(f"{name}:\n{''.join(outputs[name])}", end="", flush=True)
    return [results[name] for name in servers]


def main():
    servers = {
        "conclave": (conclave.why_missing(), lambda: conclave.Conclave(OPTIONS, tick_ms=TICK_MS)),
        "zookeeper": (zookeeper.why_missing(), lambda: zookeeper.ZooKeeper(SETTINGS, tick_ms=TICK_MS)),
    }
    chosen = sys.argv[1:2] or list(servers)
    results = run_all({name: servers[name] for name in chosen}, sys.argv[2:])
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
