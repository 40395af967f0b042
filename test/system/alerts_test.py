"""ops/alerts.yml and ops/grafana-dashboard.json: every rule has a test and advice, every metric exists, and faults on live
servers make rules fire.

Promise: what a live case scrapes before and after a fault is given to `promtool test rules`, which says which rules fire.
Limits: NOT_CAUSED lists the rules that no live case causes, with the reason; test/data/alerts_test.yml tests those, too. Without
promtool (Debian's package prometheus) only the cases about the files run.

usage: alerts_test.py [CASE]...
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import prometheus  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import ROOT, Conclave, why_missing  # noqa: E402
from ensemble import Ensemble  # noqa: E402

ALERTS = os.path.join(ROOT, "ops", "alerts.yml")
ALERTS_TEST = os.path.join(ROOT, "test", "data", "alerts_test.yml")
DASHBOARD = os.path.join(ROOT, "ops", "grafana-dashboard.json")
WORDS = set("and or unless by sum max min rate increase floor for time on ignoring bool count".split())
WAIT_S = 60
QUIET, FAULTY = 40, 80  # scrapes of 15 s that promtool gets of each state
CAUSED = "MemberDown NotReady NoLeader QuorumAtRisk LinkDown SessionsLost ServerPaused".split()
NOT_CAUSED = {
    "SteppedAside DataDamaged SnapshotsFail WritesRefused DiskNearlyFull": "the disk must fail or fill; the suite disk checks these metrics",
    "DiskSlow WritesStuck": "the disk must be slow for minutes; the suite admin checks the age of writes",
    "DigestMismatch": "it would be a fault of the server: nothing causes it on purpose",
    "CertificateExpires": "the suite tls checks the metric",
    "ClockStepped": "the suite metrics steps a clock and checks the metric",
    "MemberLags LeaderChanges ConnectionsNearLimit DataNearLimit ClientsRefused LoginsFail StrangersOnPeerPort":
        "they need thousands of requests or several changes; the suites admin and members check the metrics",
}


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


def every_rule_is_caused_or_says_why_not():
    told = sorted(CAUSED + [name for names in NOT_CAUSED for name in names.split()])
    assert told == sorted(rules()), set(told) ^ set(rules())


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
    if shutil.which("promtool") is None:
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
    if shutil.which("promtool") is None:
        raise cases.Skip("there is no promtool: Debian's package prometheus has it")
    run = subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=120, check=False)
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


def expect_firing(before, after, names):
    """Rules that are quiet while servers tell `before`, and fire when they tell `after`."""
    used = {name for expression, _ in rules().values() for name in names_in(expression)}
    with tempfile.TemporaryDirectory(prefix="conclave-test-alerts-") as folder:
        path = os.path.join(folder, "live.yml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"rule_files: [{json.dumps(ALERTS)}]\nevaluation_interval: 15s\ntests:\n  - interval: 15s\n    input_series:\n")
            for series in sorted(set(before) | set(after)):
                if series.partition("{")[0] in used:
                    first, last = before.get(series, "_"), after.get(series, "_")
                    file.write(f"      - {{series: {json.dumps(series)}, values: '{first}x{QUIET} {last}x{FAULTY}'}}\n")
            file.write("    promql_expr_test:\n")
            for name in names:
                for at, value in ((QUIET, 0), (QUIET + 14, 1)):
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


def value_of(member, name):
    return scrape(member).get(f'{name}{{job="conclave",instance="{number_of(member)}"}}')


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


CASES = [every_rule_has_a_test, every_rule_has_advice, rules_name_existing_metrics, every_rule_is_caused_or_says_why_not,
         the_dashboard_is_valid, promtool_tests_the_rules, killed_members_are_told, lost_sessions_are_told, a_paused_server_is_told]

if __name__ == "__main__":
    missing = why_missing()
    sys.exit(cases.skip_all(missing) if missing else cases.run(CASES, sys.argv[1:]))
