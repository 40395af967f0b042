#!/usr/bin/env python3
"""The suites of kazoo and of Curator on three of our servers of which one is always about to be restarted.

Promise: every case ends as it does on one Apache ZooKeeper that nobody disturbs. A client whose server goes is told so
(connection loss, in these clients an exception of whatever call was under way): a case that ends by that is cleared
away and tried again; so is one that ends differently, if one of its clients lost its connection (kazoo's watchers are
called once more then, Curator's latches are started again). A case that ends in any other way has failed, and so has one that
takes too long.
Limits: Apache ZooKeeper's side is calm, because it gives the expected outcome. The cases were written for one
server: they read what another client has just written, so ours answers with linearizableReads. With --apache the three
are Apache's, to see whether a failure is the client's own; their followers' reads may be old.

usage: nemesis_test.py kazoo|curator [CASE...] [--rounds N] [--seed N] [--apache]
"""

import argparse
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import conclave  # noqa: E402
import pair  # noqa: E402
import zookeeper  # noqa: E402
from ensemble import ConclaveMember, ZooKeeperMember  # noqa: E402
from nemesis import RestartedEnsemble  # noqa: E402

TICK_MS = 500
TRIES = 4
SLOW_S = 40  # a case that takes longer hangs
COLLECT_MS = "500"
LINEARIZABLE = ["--linearizableReads", "yes"]
LOST = re.compile(r"ConnectionLoss|ConnectionClosedError|OperationTimeout|KazooTimeoutError|"
                  r"Connection has been closed|ConnectionDropped|zkwire\.Closed|ConnectionResetError|ConnectionRefusedError")


def calm_or_lost(case, servers, _at_once):
    """As pair.attempt_all; ours again while a lost connection ended it, or may be why it ended differently."""
    theirs, ours = servers
    wanted = pair.attempt(case, theirs)
    if wanted[1]:
        return [wanted, (None, None)]
    for _ in range(TRIES):
        losses, began = LOSSES(), time.monotonic()
        result = pair.attempt(case, ours)
        took_s = time.monotonic() - began
        if took_s > SLOW_S:
            result = None, f"it took {took_s:.0f} s\n{result[1] or ''}"
            break
        different = result[0] != wanted[0]
        lost = LOST.search(result[1]) if result[1] else different and LOSSES() > losses
        if not lost:
            break
        TRIED.append(case.__name__)
        pair.clear(ours)
    return [wanted, result]


TRIED = []
LOSSES = int  # number of lost connections that the suite's clients reported


def kazoo_cases():
    import kazoo_test  # it ends the program when there is no kazoo
    global LOSSES
    LOSSES = kazoo_test.Clients.lost
    return kazoo_test.CASES, {"options": LINEARIZABLE}, {}


def curator_cases():
    import curator_test
    missing = curator_test.why_missing()
    if missing:
        sys.exit(cases.skip_all(missing))
    program = curator_test.Program()
    program.compile()
    global LOSSES
    LOSSES = lambda: program.losses  # noqa: E731
    # Often enough between two leaders: a new leader starts to count at zero.
    options = [*LINEARIZABLE, "--extendedTypesEnabled", "yes", "--znode.container.checkIntervalMs", COLLECT_MS]
    properties = {"zookeeper.extendedTypesEnabled": "true", "znode.container.checkIntervalMs": COLLECT_MS}
    return curator_test.cases_of(program), {"options": options}, {"properties": properties}


def run_round(chosen, options, seed, ours_only, theirs_only):
    if options.apache:
        ours = RestartedEnsemble(ZooKeeperMember, seed, tick_ms=TICK_MS, **theirs_only)
        ours.name += "-three"
    else:
        ours = RestartedEnsemble(ConclaveMember, seed, tick_ms=TICK_MS, **ours_only)
    theirs = zookeeper.ZooKeeper(tick_ms=TICK_MS, **theirs_only)
    passed = failed = skipped = 0
    with pair.Servers(theirs, ours) as servers:
        for case in chosen:
            if options.only and case.__name__ not in options.only:
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
    parser.add_argument("--apache", action="store_true")
    parser.add_argument("only", nargs="*", metavar="CASE")
    options = parser.parse_args()
    missing = zookeeper.why_missing() or conclave.why_missing()
    if missing:
        return cases.skip_all(missing)
    chosen, ours_only, theirs_only = kazoo_cases() if options.suite == "kazoo" else curator_cases()
    print(f"seed {options.seed}")
    total = [0, 0, 0]
    for number in range(options.rounds):
        result = run_round(chosen, options, options.seed + number, ours_only, theirs_only)
        total = [a + b for a, b in zip(total, result)]
    print(cases.summary(*total))
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main())
