"""Runs a suite's cases, functions without arguments, one after the other, and counts them.

Promise: a case passes when it returns and fails by any exception, with its stack; the others run all the same. One
line for each, with its time and with what it returned, if that is a text. The last line counts as tools/run-tests wants it.
"""

import time
import traceback

SKIPPED_EXIT = 77


class Skip(Exception):
    """Raised by a case that cannot run here; the text says why."""


def skip_all(reason):
    """Says why nothing runs; the exit code of a suite that is skipped."""
    print(f"skipped: {reason}")
    return SKIPPED_EXIT


def named(prefix, names):
    """The functions among names (a module's globals) whose name begins so, in their order there."""
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


def run(cases, only=(), after_each=None):
    """Runs the cases, or those that only names (without "test_"); the exit code. after_each clears up behind each."""
    passed = failed = skipped = 0
    for case in cases:
        name = case.__name__.removeprefix("test_")
        if only and name not in only:
            continue
        began = time.monotonic()
        try:
            note = case()
            passed += 1
            print(f"ok      {name} ({time.monotonic() - began:.1f} s)  {note or ''}".rstrip(), flush=True)
        except Skip as reason:
            skipped += 1
            print(f"skipped {name}: {reason}", flush=True)
        except Exception:  # noqa: BLE001: a case that fails in any way has failed
            failed += 1
            print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
        if after_each:
            after_each()
    print(summary(passed, failed, skipped))
    return 0 if passed and not failed else 1
