"""ops/alerts.yml and ops/grafana-dashboard.json: every rule has a test and advice, every metric exists, and faults on live
servers make rules fire.

Promise: what a live case scrapes before and after a fault is given to `promtool test rules`, which says which rules fire.
Limits: without promtool (tools/install-deps --test unpacks it) only the cases about the files run; a full disk needs the right to
mount a file system, a flipped bit the right to write the memory of a child.

usage: alerts_test.py [CASE]...
"""

import concurrent.futures
import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import metrics_test  # noqa: E402
import prometheus  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import ROOT, Conclave, program, why_missing  # noqa: E402
from ensemble import ConclaveMember, Ensemble  # noqa: E402
from server import free_port  # noqa: E402

ALERTS = os.path.join(ROOT, "ops", "alerts.yml")
ALERTS_TEST = os.path.join(ROOT, "test", "data", "alerts_test.yml")
DASHBOARD = os.path.join(ROOT, "ops", "grafana-dashboard.json")
WORDS = set("and or unless by sum max min rate increase floor for time on ignoring bool count".split())
BUILD = os.environ.get("CONCLAVE_BUILD") or os.path.join(ROOT, "build")
WAIT_S = 60
QUIET, FAULTY = 40, 80  # scrapes of 15 s that promtool gets of each state
SOON, LATER = 14, 40    # scrapes behind a fault when its rules must fire; those with `for: 5m` later
CAUSED = ("MemberDown NotReady NoLeader QuorumAtRisk LinkDown SessionsLost ServerPaused WritesStuck DiskSlow DataDamaged MemberLags "
          "LeaderChanges ConnectionsNearLimit DataNearLimit ClientsRefused LoginsFail StrangersOnPeerPort ClockStepped "
          "CertificateExpires SteppedAside SnapshotsFail DiskNearlyFull DigestMismatch").split()
SMALL_DISK = "24m"
SUPER = ["--DigestAuthenticationProvider.superDigest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="]  # of super:test


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def rules():
    """{name: (expression, the rest of its text)}"""
    parts = re.split(r"^      - alert: Conclave", read(ALERTS), flags=re.M)[1:]
    return {part.split("\n")[0]: (re.search(r"^        expr: (.*)$", part, re.M).group(1), part) for part in parts}


def documented():
    """The names that the suites admin and members compare with what servers tell."""
    names = set(re.findall(r"^\| `(\w+)` \| (?!difference)", read(os.path.join(ROOT, "docs", "metrics.md")), re.M))
    return names | {name + end for name in names for end in ("_sum", "_count", "_bucket")} | {"up"}


def names_in(expression):
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]', "", expression)
    bare = re.sub(r"\{[^}]*\}", "", re.sub(r"\b(by|on|ignoring) *\([^)]*\)", "", bare))
    return {word for word in re.findall(r"\b[a-z_][a-z0-9_]*\b", bare) if word not in WORDS}


def every_rule_has_a_test():
    tested = set(re.findall(r'alertname="Conclave(\w+)"', read(ALERTS_TEST)))
    assert tested == set(rules()), tested ^ set(rules())


def every_rule_has_advice():
    for name, (_, text) in rules().items():
        for key in ("summary", "advice"):
            assert re.search(rf'^          {key}: "[A-Z{{].*\."$', text, re.M), f"{name} has no {key} that is a sentence"


def rules_name_existing_metrics():
    known = documented()
    for name, (expression, _) in rules().items():
        assert names_in(expression) and names_in(expression) <= known, (name, names_in(expression) - known)
    assert names_in('rate(nothing_total{cause="x"}[5m]) > 1') == {"nothing_total"}, "the check finds nothing"


def every_rule_is_caused():
    assert sorted(CAUSED) == sorted(rules()), set(CAUSED) ^ set(rules())
    cases_text = read(os.path.abspath(__file__)).partition("def killed_members_are_told")[2]
    for name in CAUSED:
        assert f'"{name}"' in cases_text, f"no live case expects {name}"


def the_dashboard_is_valid():
    board = json.loads(read(DASHBOARD))
    known = documented()
    assert board["title"] == "Conclave" and board["schemaVersion"] > 30 and board["templating"]["list"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)), "two panels have the same id"
    expressions = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert len(expressions) > 20, len(expressions)
    for expression in expressions:
        assert names_in(expression) <= known, (expression, names_in(expression) - known)
    if prometheus.promtool() is None:
        return "no promtool: the expressions' syntax was not checked"
    with tempfile.TemporaryDirectory(prefix="conclave-test-alerts-") as folder:
        path = os.path.join(folder, "rules.yml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("groups:\n  - name: dashboard\n    rules:\n")
            for i, expression in enumerate(expressions):
                bare = expression.replace("$__rate_interval", "5m")
                file.write(f"      - record: panel:{i}\n        expr: {json.dumps(bare)}\n")
        promtool("check", "rules", path)
    return None


def promtool(*words):
    if prometheus.promtool() is None:
        raise cases.Skip("there is no promtool: tools/install-deps --test unpacks it from Debian's package prometheus")
    run = subprocess.run([prometheus.promtool(), *words], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def promtool_tests_the_rules():
    promtool("check", "rules", ALERTS)
    promtool("test", "rules", ALERTS_TEST)


def number_of(server):
    return getattr(server, "number", 1)  # a server alone has none


def scrape(member):
    """The samples as Prometheus would store them, with `up`."""
    labels = f'job="conclave",instance="{number_of(member)}"'
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{member.admin_port}/metrics", timeout=WAIT_S) as reply:
            samples = prometheus.samples(reply.read().decode())
    except OSError:
        return {f"up{{{labels}}}": 0}
    series = {name[:-1] + f",{labels}}}" if name.endswith("}") else f"{name}{{{labels}}}": value for name, value in samples.items()}
    return series | {f"up{{{labels}}}": 1}


def expect_firing(before, after, names, behind=SOON, goes_on=False):
    """Rules that are quiet while servers tell `before`, and fire `behind` scrapes after these tell `after`. goes_on: what
    grew from one to the other grows as much with each scrape that follows."""
    used = {name for expression, _ in rules().values() for name in names_in(expression)}
    with tempfile.TemporaryDirectory(prefix="conclave-test-alerts-") as folder:
        path = os.path.join(folder, "live.yml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"rule_files: [{json.dumps(ALERTS)}]\nevaluation_interval: 15s\ntests:\n  - interval: 15s\n    input_series:\n")
            for series in sorted(set(before) | set(after)):
                if series.partition("{")[0] in used:
                    first, last = before.get(series, "_"), after.get(series, "_")
                    more = f"+{last - first}" if goes_on and "_" not in (first, last) and last > first else ""
                    file.write(f"      - {{series: {json.dumps(series)}, values: '{first}x{QUIET} {last}{more}x{FAULTY}'}}\n")
            file.write("    promql_expr_test:\n")
            for name in names:
                for at, value in ((QUIET, 0), (QUIET + behind, 1)):
                    alert = f'ALERTS{{alertname="Conclave{name}",alertstate="firing"}}'
                    file.write(f"      - {{expr: {json.dumps(f'group({alert}) or vector(0)')}, eval_time: {at * 15}s, "
                               f"exp_samples: [{{labels: '{{}}', value: {value}}}]}}\n")
        promtool("test", "rules", path)


def wait_for(condition, what):
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {WAIT_S} s for {what}"
        time.sleep(0.1)


def all_of(ensemble):
    return {name: value for member in ensemble.members for name, value in scrape(member).items()}


def series_of(member, name):
    return f'{name}{{job="conclave",instance="{number_of(member)}"}}'


def value_of(member, name):
    return scrape(member).get(series_of(member, name))


def killed_members_are_told():
    with Ensemble(3, admin=True, tick_ms=500) as ensemble:
        leader, (one, two) = ensemble.roles()
        wait_for(lambda: value_of(leader, "conclave_links") == 2, "the links")
        healthy = all_of(ensemble)
        one.kill()
        wait_for(lambda: value_of(leader, "conclave_links") == 1, "a link to go down")
        expect_firing(healthy, all_of(ensemble), ["MemberDown", "QuorumAtRisk", "LinkDown"])
        two.kill()
        wait_for(lambda: value_of(leader, "conclave_leader_id") == 0 and value_of(leader, "conclave_ready") == 0, "the leader to give up")
        expect_firing(healthy, all_of(ensemble), ["NoLeader", "NotReady"])


def lost_sessions_are_told():
    with Conclave(admin=True, tick_ms=500) as member:
        healthy = scrape(member)
        for _ in range(20):
            zk.Connection(member.address, 1000).drop()
        # Most have the cause client_left; a stall of this process or of the server may give some of them another one.
        lost = 'conclave_sessions_ended_total{cause="'
        wait_for(lambda: sum(value for name, value in scrape(member).items() if name.startswith(lost)) == 20, "the sessions to end")
        expect_firing(healthy, scrape(member), ["SessionsLost"])


def a_paused_server_is_told():
    with Conclave(admin=True, tick_ms=500) as member:
        healthy = scrape(member)
        Ensemble.pause(member)
        time.sleep(5)
        Ensemble.resume(member)
        wait_for(lambda: value_of(member, "jvm_pause_time_ms_sum") > 4000, "the pause to be noticed")
        expect_firing(healthy, scrape(member), ["ServerPaused"])


class SlowDisk(Conclave):
    """A server whose syncs take as long as the test says (slow_sync.c)."""

    def command(self):
        self.set_delay(0)
        return ["env", f"LD_PRELOAD={preload('slow_sync.so')}", f"SLOW_SYNC_FILE={self.folder}/delay", *super().command()]

    def set_delay(self, milliseconds):
        path = os.path.join(self.folder, "delay")
        with open(path, "r+b" if os.path.exists(path) else "wb") as file:
            file.write(struct.pack("=q", milliseconds))


def preload(name):
    path = os.path.join(BUILD, "test", "system", name)
    if not os.path.exists(path) or os.environ.get("LD_PRELOAD"):
        raise cases.Skip(f"no {path}: run make" if not os.path.exists(path) else "this build has a library preloaded itself")
    return path


def a_slow_disk_is_told():
    with SlowDisk(admin=True) as member, zk.Connection(member.address, 30000, patience_s=WAIT_S) as link:
        assert link.call(zk.create("/fast"))[0] == 0
        healthy, stuck = scrape(member), {}

        def waits():
            stuck.update(scrape(member))
            return stuck[series_of(member, "conclave_oldest_write_seconds")] > 5
        member.set_delay(7000)
        link.send(zk.create("/slow"))
        wait_for(waits, "a write that waits for its sync")
        member.set_delay(0)
        expect_firing(healthy, stuck, ["WritesStuck"])
        assert link.read_reply().err == 0
        syncs = series_of(member, "fsynctime_sum")
        wait_for(lambda: scrape(member)[syncs] > healthy[syncs] + 5000, "the figures of that sync")
        expect_firing(healthy, scrape(member), ["DiskSlow"], LATER, goes_on=True)


def limits_are_told():
    """Few sessions, little data, few connections; and log-ins that fail."""
    with Conclave(["--maxSessions", "9", "--maxDataBytes", "4000000", "--maxCnxns", "10"], admin=True) as member:
        healthy = scrape(member)
        links = [zk.Connection(member.address, 40000) for _ in range(9)]
        for number in range(4):
            links[0].call(zk.create(f"/large{number}", bytes(900000)))
        for _ in range(400):
            assert zk_refuses(member)
        refused = ("conclave_sessions_refused_total", "connection_rejected")  # the next may come before the last one's end
        wait_for(lambda: sum(value_of(member, name) for name in refused) >= 400, "the refused ones to be counted")
        wait_for(lambda: value_of(member, "num_alive_connections") == 9, "the end of the refused ones")
        with socket.create_connection(member.address, WAIT_S):  # the tenth connection, without a session
            wait_for(lambda: value_of(member, "num_alive_connections") == 10, "ten connections")
            full = scrape(member)
        expect_firing(healthy, full, ["DataNearLimit", "ClientsRefused"])
        expect_firing(healthy, full, ["ConnectionsNearLimit"], LATER)


def zk_refuses(member):
    """Whether a new session is refused, by an answer or by a closed connection."""
    try:
        with zk.Connection(member.address, 10000) as link:
            return link.session_id == 0
    except (zk.Closed, OSError):
        return True


def failed_logins_are_told():
    def guess(_):
        with zk.Connection(member.address, 40000, patience_s=WAIT_S) as link:
            link.send(zk.auth("nonsense", b"x"), -4)
            try:
                link.read_frame()
            except (zk.Closed, OSError):
                pass
    with Conclave(admin=True) as member:
        healthy = scrape(member)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(guess, range(400)))
        wait_for(lambda: value_of(member, "auth_failed_count") >= 400, "all failures to be counted")
        expect_firing(healthy, scrape(member), ["LoginsFail"])


def a_stepped_clock_is_told():
    preload("clock_step.so")
    with metrics_test.Stepped(admin=True, tick_ms=400) as member:
        healthy = scrape(member)
        member.step(3600 * 10**9)
        wait_for(lambda: value_of(member, "conclave_clock_steps_total") == 1, "the step to be noticed")
        expect_firing(healthy, scrape(member), ["ClockStepped"])


def a_certificate_near_its_end_is_told():
    """promtool's time begins at 0, so what is told is made relative to now."""
    ends = "conclave_certificate_expiry_timestamp_seconds"

    def relative(samples):
        return {name: value - time.time() if name.startswith(ends) else value for name, value in samples.items()}

    def ends_of(samples):
        return next(value for name, value in samples.items() if name.startswith(ends))

    def certs(*words):
        run = subprocess.run([program(), "certs", folder, *words], capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert run.returncode == 0, run.stderr
    with tempfile.TemporaryDirectory(prefix="conclave-test-alerts-") as folder:
        certs("127.0.0.1")
        stem = os.path.join(folder, "127.0.0.1")
        with Conclave(["--secureClientPort", str(free_port()), "--secureClientPortAddress", "127.0.0.1", "--ssl.clientAuth", "none",
                       "--ssl.certFile", stem + ".pem", "--ssl.keyFile", stem + ".key"], admin=True) as member:
            healthy = scrape(member)
            certs("--renew", "--days", "10")
            member.process.send_signal(signal.SIGHUP)
            wait_for(lambda: ends_of(scrape(member)) < ends_of(healthy), "the new certificate")
            expect_firing(relative(healthy), relative(scrape(member)), ["CertificateExpires"])


def changes_of_the_leader_and_strangers_are_told():
    with Ensemble(3, admin=True, options=SUPER) as ensemble:
        leader, others = ensemble.roles()
        healthy = all_of(ensemble)
        for number in range(6):
            leader, others = ensemble.roles()
            run = subprocess.run([program(), "members", "transfer", str(others[0].number), "--server", ensemble.hosts, "--auth",
                                  "digest:super:test"], capture_output=True, text=True, timeout=2 * WAIT_S, check=False)
            assert run.returncode == 0, (number, run.stderr)
        line = next(line for line in leader.lines if line.startswith(f"server.{leader.number}="))
        for _ in range(40):
            with socket.create_connection(("127.0.0.1", int(line.split(":")[1])), WAIT_S) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" * 20)
                try:
                    stranger.recv(100)
                except OSError:
                    pass
        wait_for(lambda: value_of(leader, "conclave_peers_refused_total") >= 40, "the strangers to be counted")
        expect_firing(healthy, all_of(ensemble), ["LeaderChanges", "StrangersOnPeerPort"])


def a_lagging_member_and_damage_are_told():
    with Ensemble(3, admin=True, options=["--forceSync", "no"]) as ensemble:
        leader, (slow, _) = ensemble.roles()
        healthy = all_of(ensemble)
        with zk.Connection(leader.address, 40000, patience_s=WAIT_S) as link:
            assert link.call(zk.create("/busy"))[0] == 0
            ensemble.pause(slow)
            for _ in range(1100):  # one after the other: each is an entry of its own
                assert link.call(zk.set_data("/busy", b"x"))[0] == 0
            lag = f'conclave_member_lag{{member="{slow.number}",job="conclave",instance="{leader.number}"}}'
            wait_for(lambda: scrape(leader).get(lag, 0) > 1000, "the lag")
            lagging = healthy | scrape(leader)
            ensemble.resume(slow)
            expect_firing(healthy, lagging, ["MemberLags"])
        ensemble.wait_leader(serving=3)
        slow.stop()
        folder = os.path.join(slow.folder, "data", "log")
        with open(os.path.join(folder, min(name for name in os.listdir(folder) if name.endswith(".log"))), "r+b") as log:
            log.seek(700)
            log.write(b"damage")
        slow.start()
        wait_for(lambda: (value_of(slow, "conclave_damages_total") or 0) > 0, "the damage to be found")
        expect_firing(healthy, all_of(ensemble), ["DataDamaged"])


class SmallDisk(ConclaveMember):
    """A member whose data lie on a small file system of their own."""

    def __init__(self, *words, **more):
        super().__init__(*words, **more)
        self.data = os.path.join(self.folder, "data")
        os.mkdir(self.data)
        run = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "none", self.data], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise cases.Skip(f"no file system of its own: {run.stderr.strip()}")

    def fill(self):
        with open(os.path.join(self.data, "filler"), "ab", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(4096))

    def destroy(self):
        self.kill()
        subprocess.run(["umount", self.data], capture_output=True, check=False)
        super().destroy()


def a_full_disk_is_told():
    with Ensemble(3, kind=SmallDisk, admin=True, options=["--snapCount", "100"]) as ensemble:
        leader, (full, _) = ensemble.roles()
        healthy = all_of(ensemble)
        with zk.Connection(leader.address, 40000, patience_s=WAIT_S) as link:
            assert link.call(zk.create("/large"))[0] == 0
            seen = {}

            def step(name, size):
                full.fill()
                link.call(zk.set_data("/large", bytes(size)))
                seen.update(scrape(full))
                return seen.get(series_of(full, name), 0) > 0
            wait_for(lambda: step("conclave_snapshot_failures_total", 1000), "a snapshot that fails")
            expect_firing(healthy, healthy | seen, ["SnapshotsFail"])
            expect_firing(healthy, healthy | seen, ["DiskNearlyFull"], LATER)
            # The file of the log that is in use has room for more entries than the snapshot comes after.
            wait_for(lambda: step("conclave_stepped_aside", 50000), "the member to step aside")
        expect_firing(healthy, healthy | seen, ["SteppedAside"])


def change_memory(process, old, new):
    """Writes `new` wherever the process's own memory has `old`, which are equally long; returns at how many places."""
    places = 0
    with open(f"/proc/{process.pid}/maps", encoding="ascii") as maps, open(f"/proc/{process.pid}/mem", "r+b", buffering=0) as memory:
        for line in maps:
            words = line.split()
            if words[1].startswith("rw") and (len(words) < 6 or words[5] == "[heap]"):
                begin, end = (int(word, 16) for word in words[0].split("-"))
                memory.seek(begin)
                part, at = memory.read(end - begin), -1
                while (at := part.find(old, at + 1)) >= 0:
                    memory.seek(begin + at)
                    memory.write(new)
                    places += 1
    return places


def a_flipped_bit_is_told():
    """In the memory of a follower, in the data of a node: the next change of the node gives the member another digest."""
    old, new = b"conclave-test-data-of-a-node" * 4, b"conclave-test-dat`-of-a-node" * 4
    with Ensemble(3, admin=True) as ensemble:
        leader, (flipped, _) = ensemble.roles()
        healthy = all_of(ensemble)
        with zk.Connection(leader.address, 40000, patience_s=WAIT_S) as link:
            assert link.call(zk.create("/node", old))[0] == 0
            for number in range(100):  # what the log has in memory makes room for these
                assert link.call(zk.create(f"/other{number}"))[0] == 0
            with zk.Connection(flipped.address, 40000, patience_s=WAIT_S) as other:
                assert other.call(zk.sync("/"))[0] == 0
            try:
                assert change_memory(flipped.process, old, new) > 0, "the data are not in the follower's memory"
            except PermissionError as error:
                raise cases.Skip(f"no right to write a child's memory: {error}") from error
            assert link.call(zk.set_data("/node", b"next"))[0] == 0
        wait_for(lambda: (value_of(flipped, "conclave_states_differed_total") or 0) > 0, "the digests to be compared")
        expect_firing(healthy, healthy | scrape(flipped), ["DigestMismatch"])


CASES = [every_rule_has_a_test, every_rule_has_advice, rules_name_existing_metrics, every_rule_is_caused,
         the_dashboard_is_valid, promtool_tests_the_rules, killed_members_are_told, lost_sessions_are_told, a_paused_server_is_told,
         a_slow_disk_is_told, limits_are_told, failed_logins_are_told, a_stepped_clock_is_told, a_certificate_near_its_end_is_told,
         changes_of_the_leader_and_strangers_are_told, a_lagging_member_and_damage_are_told, a_full_disk_is_told, a_flipped_bit_is_told]

if __name__ == "__main__":
    missing = why_missing()
    sys.exit(cases.skip_all(missing) if missing else cases.run(CASES, sys.argv[1:]))
