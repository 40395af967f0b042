"""What /metrics of live servers tells: names as Prometheus' own tool wants them, ended sessions by cause, steps of the clock.

Promise: each case starts its own servers on loopback and ends them; the last line counts the cases.
Limits: the list of names is compared with docs/metrics.md by the suites admin (alone) and members (ensemble).

usage: metrics_test.py [CASE]...
"""

import os
import struct
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import prometheus  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import ROOT, Conclave, why_missing  # noqa: E402
from ensemble import Ensemble  # noqa: E402

BUILD = os.environ.get("CONCLAVE_BUILD") or os.path.join(ROOT, "build")
PRELOAD = os.path.join(BUILD, "test", "system", "clock_step.so")
WAIT_S = 40


def scrape(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.admin_port}/metrics", timeout=20) as reply:
        return reply.read().decode()


def metric(server, name):
    return prometheus.samples(scrape(server))[name]


def wait_for(condition, what):
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {WAIT_S} s for {what}"
        time.sleep(0.05)


def promtool_likes_our_names():
    """What Prometheus' own tool says of them; the next case checks the same rules on every machine."""
    with Ensemble(3, admin=True) as ensemble:
        text = scrape(ensemble.roles()[0])
    faults = prometheus.promtool_faults(text)
    if faults is None:
        raise cases.Skip("there is no promtool: tools/install-deps --test unpacks it from Debian's package prometheus")
    assert faults == "", faults
    wrong = "# HELP conclave_probe_ms It.\n# TYPE conclave_probe_ms counter\nconclave_probe_ms 1\n"
    assert "conclave_probe_ms" in prometheus.promtool_faults(wrong), "promtool checks nothing"


def our_checker_likes_our_names():
    with Ensemble(3, admin=True) as ensemble:
        leader, others = ensemble.roles()
        faults = prometheus.name_faults(scrape(leader)) + prometheus.name_faults(scrape(others[0]))
    assert not faults, faults


def bad_names_are_found():
    def faults(name, kind):
        return prometheus.name_faults(f"# HELP {name} It.\n# TYPE {name} {kind}\n{name} 1\n")
    for name, kind in (("conclave_writes", "counter"), ("conclave_age_ms", "gauge"), ("conclave_size_total", "gauge"),
                       ("conclave_write_count", "gauge"), ("conclave_bytes_sent_total", "counter")):
        assert faults(name, kind), name
    for name, kind in (("conclave_writes_total", "counter"), ("conclave_age_seconds", "gauge"), ("fsynctime_ms", "counter"),
                       ("conclave_data_bytes_max", "gauge"), ("conclave_link_sent_bytes_total", "counter")):
        assert not faults(name, kind), name


def ended_sessions_are_counted_once():
    """Each end counts on one member, under its cause."""
    def ended(cause):
        return sum(metric(member, f'conclave_sessions_ended_total{{cause="{cause}"}}') for member in ensemble.members)
    with Ensemble(3, admin=True, tick_ms=500) as ensemble:
        for member in ensemble.members:
            zk.Connection(member.address, 4000).close_session()
        wait_for(lambda: ended("closed") == 3, "three ends")
        for member in ensemble.members:
            zk.Connection(member.address, 4000).drop()
        wait_for(lambda: ended("client_left") == 3, "three clients that left")
        total = sum(value for member in ensemble.members for name, value in prometheus.samples(scrape(member)).items()
                    if name.startswith("conclave_sessions_ended_total"))
        assert total == 6, total


class Stepped(Conclave):
    """A server whose wall clock the test steps (clock_step.c)."""

    def command(self):
        steps = os.path.join(self.folder, "steps")
        with open(steps, "wb") as file:
            file.write(struct.pack("<2q", 0, 0))
        return ["env", f"LD_PRELOAD={PRELOAD}", f"CLOCK_STEP_FILE={steps}", *super().command()]

    def step(self, ns):
        with open(os.path.join(self.folder, "steps"), "r+b") as file:
            file.write(struct.pack("<q", ns))


def clock_steps_are_counted():
    if not os.path.exists(PRELOAD):
        raise cases.Skip(f"no {PRELOAD}: run make")
    if os.environ.get("LD_PRELOAD"):
        raise cases.Skip("this build has a library preloaded itself")
    with Stepped(admin=True, tick_ms=400) as server:
        assert metric(server, "conclave_clock_steps_total") == 0
        server.step(3600 * 10**9)
        wait_for(lambda: metric(server, "conclave_clock_steps_total") == 1, "the step")
        server.step(0)
        wait_for(lambda: metric(server, "conclave_clock_steps_total") == 2, "the step back")
        wait_for(lambda: server.log_tail(1 << 20).count(" clock-stepped ") == 2, "two lines of the log")
        with zk.Connection(server.address) as link:
            assert link.call(zk.create("/a", b""))[0] == 0


CASES = [promtool_likes_our_names, our_checker_likes_our_names, bad_names_are_found, ended_sessions_are_counted_once,
         clock_steps_are_counted]

if __name__ == "__main__":
    missing = why_missing()
    sys.exit(cases.skip_all(missing) if missing else cases.run(CASES, sys.argv[1:]))
