"""Runs the same cases against Apache ZooKeeper and against ours, and compares what they saw.

Promise: a case is a function `case(server)` that may fail by an exception on either server, and whose return value
must be the same on both. The last line counts the cases as tools/run-tests wants it.
"""

import sys
import time
import traceback

import conclave
import zookeeper


class Skip(Exception):
    """Raised by a case that cannot run here; the text says why."""


def attempt(case, server):
    """(what the case returned, None) or (None, the traceback)."""
    try:
        return case(server), None
    except Skip:
        raise
    except Exception:
        return None, traceback.format_exc()


def show_difference(theirs, ours):
    for who, value in (("zookeeper", theirs), ("conclave", ours)):
        lines = value if isinstance(value, list) else [value]
        other = ours if who == "zookeeper" else theirs
        others = other if isinstance(other, list) else [other]
        for index, line in enumerate(lines):
            mark = " " if index < len(others) and others[index] == line else "*"
            print(f"  {mark} {who:10}{line}")


def run_case(case, servers):
    """Whether the case passed; says what was wrong."""
    began = time.monotonic()
    results = [attempt(case, server) for server in servers]
    if all(error for _, error in results):
        print(f"{case.__name__} failed on both servers, so not because of ours; once more, after\n{results[0][1]}")
        results = [attempt(case, server) for server in servers]
    failed = False
    for server, (_, error) in zip(servers, results):
        if error:
            failed = True
            print(f"{case.__name__} on {server.name}:\n{error}")
    if not failed and results[0][0] != results[1][0]:
        failed = True
        print(f"{case.__name__}: different outcomes:")
        show_difference(results[0][0], results[1][0])
    print(f"{'FAILED' if failed else 'ok':8}{case.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
    return not failed


def run_cases(cases, only=(), theirs_only=None, ours_only=None, **server_options):
    """Runs all cases on a pair of servers; the exit code. Names in only choose cases.

    server_options are for both servers, theirs_only and ours_only for one: dicts of what its class takes.
    """
    missing = zookeeper.why_missing() or conclave.why_missing()
    if missing:
        print(f"skipped: {missing}")
        return 77
    passed = failed = skipped = 0
    with (zookeeper.ZooKeeper(**server_options, **(theirs_only or {})) as theirs,
          conclave.Conclave(**server_options, **(ours_only or {})) as ours):
        for case in cases:
            if only and case.__name__ not in only:
                continue
            try:
                if run_case(case, (theirs, ours)):
                    passed += 1
                else:
                    failed += 1
            except Skip as reason:
                skipped += 1
                print(f"skipped {case.__name__}: {reason}")
            for server in (theirs, ours):
                if not server.alive():
                    print(f"{server.name} is gone after {case.__name__}:\n{server.log_tail()}")
                    print(f"{passed} passed, {max(failed, 1)} failed")
                    return 1
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


def main(cases, **server_options):
    sys.exit(run_cases(cases, sys.argv[1:], **server_options))
