"""Runs the same cases against Apache ZooKeeper and against ours, and compares what they saw.

Promise: a case is a function `case(server)` that may fail by an exception on either server, and whose return value
must be the same on both. The last line counts the cases as tools/run-tests wants it.
Limits: a case that runs on both servers at the same time uses one thread for each.
"""

import contextlib
import sys
import threading
import time
import traceback

import cases
import conclave
import zkwire as zk
import zookeeper
from cases import Skip


def attempt(case, server):
    """(the case's result, None) or (None, the traceback)."""
    try:
        return case(server), None
    except Skip:
        raise
    except Exception:
        return None, traceback.format_exc()


def clear(server):
    """Removes all nodes that a case left, for another try."""
    with getattr(server, "calm", contextlib.nullcontext)(), zk.Connection(server.address) as link:
        names = [""]  # parents before their children
        for name in names:
            err, fields = link.call(zk.get_children(name or "/"))
            children = fields["children"] if err == 0 else []
            names += [f"{name}/{child}" for child in children if name or child != "zookeeper"]
        for name in reversed(names[1:]):
            link.call(zk.delete(name))
        link.close_session()


def attempt_all(case, servers, at_once):
    """The results of attempt for each server, called in turn or at the same time."""
    if not at_once:
        return [attempt(case, server) for server in servers]
    results = {}

    def run(server):
        try:
            results[server] = attempt(case, server)
        except Skip as reason:
            results[server] = reason
    threads = [threading.Thread(target=run, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results.values():
        if isinstance(result, Skip):
            raise result
    return [results[server] for server in servers]


def show_difference(theirs, ours):
    for who, value in (("zookeeper", theirs), ("conclave", ours)):
        lines = value if isinstance(value, list) else [value]
        other = ours if who == "zookeeper" else theirs
        others = other if isinstance(other, list) else [other]
        for index, line in enumerate(lines):
            mark = " " if index < len(others) and others[index] == line else "*"
            print(f"  {mark} {who:10}{line}")


def run_case(case, servers, at_once=False, attempts=attempt_all):
    """Whether the case passed; says what was wrong.

    A case that fails on Apache ZooKeeper, the first of the servers, is tried once more: its clients and servers have
    races in them (Curator's TreeCache may miss a change after expiry). A case that fails on ours only is not accepted.
    """
    began = time.monotonic()
    results = attempts(case, servers, at_once)
    if results[0][1]:
        print(f"{case.__name__} failed on {servers[0].name}; once more, after\n{results[0][1]}")
        for server in servers:
            clear(server)
        results = attempts(case, servers, at_once)
    errors = [f"on {server.name}:\n{error}" for server, (_, error) in zip(servers, results) if error]
    differ = not errors and results[0][0] != results[1][0]
    failed = bool(errors) or differ
    print(f"{'FAILED' if failed else 'ok':8}{case.__name__} ({time.monotonic() - began:.1f} s)")
    print("".join(f"{error}\n" for error in errors), end="")
    if differ:
        print("different outcomes:")
        show_difference(results[0][0], results[1][0])
    sys.stdout.flush()
    return not failed


def start_all(*servers):
    """Starts servers side by side."""
    failures = []

    def start(server):
        try:
            server.start()
        except Exception as error:
            failures.append(error)
    threads = [threading.Thread(target=start, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        for server in servers:
            server.destroy()
        raise failures[0]


class Servers:
    """A context: the two servers, started side by side and ended together."""

    def __init__(self, theirs, ours):
        self.both = (theirs, ours)

    def __enter__(self):
        start_all(*self.both)
        return self.both

    def __exit__(self, *_):
        for server in self.both:
            server.destroy()


def run_cases(chosen, only=(), theirs_only=None, ours_only=None, at_once=False, attempts=attempt_all, **server_options):
    """Runs the chosen cases on a pair of servers; the exit code. Names in only choose among them.

    server_options are for both servers, theirs_only and ours_only for one: dicts of what its class takes. at_once runs
    a case on both servers at the same time; attempts replaces attempt_all.
    """
    missing = zookeeper.why_missing() or conclave.why_missing()
    if missing:
        return cases.skip_all(missing)
    passed = failed = skipped = 0
    with Servers(zookeeper.ZooKeeper(**server_options, **(theirs_only or {})),
                 conclave.Conclave(**server_options, **(ours_only or {}))) as servers:
        for case in chosen:
            if only and case.__name__ not in only:
                continue
            try:
                if run_case(case, servers, at_once, attempts):
                    passed += 1
                else:
                    failed += 1
            except Skip as reason:
                skipped += 1
                print(f"skipped {case.__name__}: {reason}")
            for server in servers:
                if not server.alive():
                    print(f"{server.name} is gone after {case.__name__}:\n{server.log_tail()}")
                    print(cases.summary(passed, max(failed, 1), skipped))
                    return 1
    print(cases.summary(passed, failed, skipped))
    return 1 if failed else 0


def main(chosen, **options):
    sys.exit(run_cases(chosen, sys.argv[1:], **options))
