#!/usr/bin/env python3
"""The simulation of a whole ensemble: 1,000 seeds without a broken promise, the same seed twice the same run, and
each planted fault noticed.

    test/sim/sim_test.py [--count N] [--first SEED]

Under sanitizers fewer seeds run: they are slower, and what they look for shows early.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

BUILD = pathlib.Path(os.environ.get("CONCLAVE_BUILD", "build"))
SIM = BUILD / "test" / "sim" / "sim"


def run(*arguments):
    """Passed and failed, as the program counts them; prints its findings."""
    done = subprocess.run([SIM, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.splitlines()
    for line in lines:
        print(line, flush=True)
    count = re.fullmatch(r"(\d+) passed, (\d+) failed", lines[-1]) if lines else None
    if count is None or (done.returncode != 0) != (count[2] != "0"):
        print(f"sim {' '.join(map(str, arguments))}: exit code {done.returncode}")
        return 0, 1
    return int(count[1]), int(count[2])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100 if "san" in BUILD.name else 500)
    parser.add_argument("--first", type=int, default=1)
    options = parser.parse_args()
    passed = failed = 0
    for arguments in (
        ("--seed", options.first, "--count", options.count),
        ("--seed", options.first, "--count", max(options.count // 50, 1), "--twice"),
        ("--plants",),
    ):
        ok, bad = run(*arguments)
        passed += ok
        failed += bad
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
