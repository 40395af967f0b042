#!/usr/bin/env python3
"""The suites of kazoo and of Curator on three of our servers of which one is always about to be restarted.

Promise: every case ends as it does on one Apache ZooKeeper that nobody disturbs. A client whose server goes is told so
(connection loss, in these clients an exception of whatever call was under way): a case that ends by that is cleared
away and tried again; a case that ends in any other way, or differently, has failed.
Limits: Apache ZooKeeper's side is calm, as it is what the outcome is compared with. The cases were written for one
server: they read what another client has just written, so ours answers with linearizableReads.

usage: nemesis_test.py kazoo|curator [CASE...] [--rounds N] [--seed N]
"""

import argparse
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import conclave  # noqa: E402
import pair  # noqa: E402
import zookeeper  # noqa: E402
from ensemble import ConclaveMember  # noqa: E402
from nemesis import RestartedEnsemble  # noqa: E402

TICK_MS = 500
TRIES = 4
LINEARIZABLE = ["--linearizableReads", "yes"]
LOST = re.compile(r"ConnectionLoss|ConnectionClosedError|OperationTimeout|SessionExpired|KazooTimeoutError|"
                  r"Connection has been closed|ConnectionDropped|zkwire\.Closed|ConnectionResetError|ConnectionRefusedError")


def calm_or_lost(case, servers, _at_once):
    """As pair.attempt_all; ours again while a lost connection ended it."""
    theirs, ours = servers
    results = [pair.attempt(case, theirs)]
    if results[0][1]:
        print(f"{case.__name__} failed on Apache ZooKeeper; once more, after\n{results[0][1]}")
        results = [pair.attempt(case, theirs)]
    for _ in range(TRIES):
        result = pair.attempt(case, ours)
        if result[1] is None or not LOST.search(result[1]):
            break
        TRIED.append(case.__name__)
        ours.clear()
    return results + [result]


TRIED = []


def kazoo_cases():
    import kazoo_test  # it ends the program when there is no kazoo
    # server_restart looks at its client between two restarts of its own: with others in between it says nothing.
    return [case for case in kazoo_test.CASES if case.__name__ != "server_restart"], {"options": LINEARIZABLE}, {}


def curator_cases():
    import curator_test
    missing = curator_test.why_missing()
    if missing:
        sys.exit(cases.skip_all(missing))
    program = curator_test.Program()
    program.compile()
    # Curator's locks are containers, and some cases look into one that is empty: rarely enough for that.
    options = [*LINEARIZABLE, "--extendedTypesEnabled", "yes", "--znode.container.checkIntervalMs", "3000"]
    properties = {"zookeeper.extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "3000"}
    return curator_test.cases_of(program), {"options": options}, {"properties": properties}


def run_round(chosen, only, seed, ours_only, theirs_only):
    ours = RestartedEnsemble(ConclaveMember, seed, tick_ms=TICK_MS, **ours_only)
    theirs = zookeeper.ZooKeeper(tick_ms=TICK_MS, **theirs_only)
    passed = failed = skipped = 0
    with pair.Servers(theirs, ours) as servers:
        for case in chosen:
            if only and case.__name__ not in only:
                continue
            try:
                good = pair.run_case(case, servers, attempts=calm_or_lost)
            except cases.Skip as reason:
                skipped += 1
                print(f"skipped {case.__name__}: {reason}")
                continue
            good = good and ours.alive()
            passed, failed = passed + good, failed + (not good)
            if not good:
                print(ours.log_tail())
        print(f"        {ours.nemesis.restarts} restarts, {ours.nemesis.leaders} of them of the leader; "
              f"tried again: {' '.join(TRIED) or 'none'}", flush=True)
    TRIED.clear()
    return passed, failed, skipped


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", choices=("kazoo", "curator"))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    parser.add_argument("only", nargs="*", metavar="CASE")
    options = parser.parse_args()
    missing = zookeeper.why_missing() or conclave.why_missing()
    if missing:
        return cases.skip_all(missing)
    chosen, ours_only, theirs_only = kazoo_cases() if options.suite == "kazoo" else curator_cases()
    print(f"seed {options.seed}")
    total = [0, 0, 0]
    for number in range(options.rounds):
        result = run_round(chosen, options.only, options.seed + number, ours_only, theirs_only)
        total = [a + b for a, b in zip(total, result)]
    print(cases.summary(*total))
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main())
