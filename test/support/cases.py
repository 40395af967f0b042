"""Runs a suite's cases, functions without arguments, one after the other, and counts them.

Promise: a case passes when it returns and fails by any exception, with its stack; the others run all the same. One
line for each, with its time and with what it returned, if that is a text. The last line counts as tools/run-tests wants it.
"""

import concurrent.futures
import threading
import time
import traceback

SKIPPED_EXIT = 77
PASSED, FAILED, SKIPPED = range(3)


class Skip(Exception):
    """Raised by a case that cannot run here; the text says why."""


def skip_all(reason):
    """Says why nothing runs; the exit code of a suite that is skipped."""
    print(f"skipped: {reason}")
    return SKIPPED_EXIT


def named(prefix, names):
    """The functions among names (a module's globals) whose name has this prefix, in their order there."""
    return [value for name, value in names.items() if name.startswith(prefix) and callable(value)]


def bound(function, *args):
    """The function as a case that gives it these arguments."""
    def case():
        return function(*args)
    case.__name__ = function.__name__
    return case


def summary(passed, failed, skipped):
    """The suite's last line."""
    return f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")


def _try(case, tell):
    """Runs one case and tells how it went."""
    name = case.__name__.removeprefix("test_")
    began = time.monotonic()
    try:
        note = case()
    except Skip as reason:
        tell(f"skipped {name}: {reason}")
        return SKIPPED
    except Exception:  # noqa: BLE001: a case that fails in any way has failed
        tell(f"FAILED  {name}\n{traceback.format_exc()}")
        return FAILED
    tell(f"ok      {name} ({time.monotonic() - began:.1f} s)  {note or ''}".rstrip())
    return PASSED


def run_beside(cases, only=(), beside=4):
    """As run, but with parallel threads, for cases that mostly wait. Prints each case when it ends."""
    return run_rows([[case] for case in cases], only, beside)


def run_rows(rows, only=(), beside=4):
    """As run_beside; the cases of a row run one after the other."""
    wanted = [[case for case in row if not only or case.__name__.removeprefix("test_") in only] for row in rows]
    codes, lock = [], threading.Lock()

    def one(case):
        lines = []
        result = _try(case, lines.append)
        with lock:
            codes.append(result)
            print("\n".join(lines), flush=True)

    def one_row(row):
        for case in row:
            one(case)
    with concurrent.futures.ThreadPoolExecutor(beside) as pool:
        list(pool.map(one_row, wanted))
    passed, failed, skipped = (codes.count(kind) for kind in (PASSED, FAILED, SKIPPED))
    print(summary(passed, failed, skipped))
    return 0 if passed and not failed else 1


def run(cases, only=(), after_each=None):
    """Runs the cases, or those that only names (without "test_"); the exit code. after_each clears up behind each."""
    passed = failed = skipped = 0
    for case in cases:
        if only and case.__name__.removeprefix("test_") not in only:
            continue
        result = _try(case, lambda line: print(line, flush=True))
        passed += result == PASSED
        failed += result == FAILED
        skipped += result == SKIPPED
        if after_each:
            after_each()
    print(summary(passed, failed, skipped))
    return 0 if passed and not failed else 1
