"""Reads Prometheus' text format strictly, and checks names as `promtool check metrics` does, on machines without it.

Promise: `samples` raises AssertionError on any line that is not of the format, on a name without help or type, and on one told
twice; `name_faults` returns one line for each of our own names (conclave_) that breaks Prometheus' rules.
Limits: ZooKeeper's names stay as they are and are not judged.
"""

import os
import re
import shutil
import subprocess

UNPACKED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".deps", "prometheus", "usr", "bin", "promtool")
LABEL = r'[a-z_][a-z0-9_]*="[^"\\\n]*"'
SAMPLE = re.compile(rf"([a-z_][a-z0-9_]*)(\{{{LABEL}(?:,{LABEL})*\}})? (-?[0-9.e+-]+)")
KINDS = "counter|gauge|summary|histogram"
NOT_BASE = {"ms": "seconds", "us": "seconds", "ns": "seconds", "sec": "seconds", "milliseconds": "seconds",
            "microseconds": "seconds", "nanoseconds": "seconds", "minutes": "seconds", "hours": "seconds", "days": "seconds",
            "kb": "bytes", "mb": "bytes", "gb": "bytes", "kilobytes": "bytes", "megabytes": "bytes", "gigabytes": "bytes",
            "bits": "bytes", "percent": "ratio", "percentage": "ratio"}


def _read(text):
    samples, kinds, helped = {}, {}, {}
    for line in text.splitlines():
        if match := re.fullmatch(rf"# TYPE (\w+) ({KINDS})", line):
            assert match.group(1) not in kinds, f"twice: {line}"
            kinds[match.group(1)] = match.group(2)
            continue
        if match := re.fullmatch(r"# HELP (\w+) (\S.*)", line):
            assert match.group(1) not in helped, f"twice: {line}"
            helped[match.group(1)] = match.group(2)
            continue
        match = SAMPLE.fullmatch(line)
        assert match, f"no sample: {line}"
        name = match.group(1)
        base = name if name in kinds else re.sub(r"_(sum|count|bucket)$", "", name)
        assert base in kinds and base in helped, f"no type or help: {line}"
        key = name + (match.group(2) or "")
        assert key not in samples, f"twice: {line}"
        samples[key] = float(match.group(3))
    return samples, kinds


def samples(text):
    """{name with its labels: value}"""
    return _read(text)[0]


def kinds(text):
    """{name: counter, gauge, summary or histogram}"""
    return _read(text)[1]


def check_histograms(text):
    """Bounds and counts grow, the last bucket is +Inf and equals _count, and each histogram has _sum."""
    values, types = _read(text)
    series = {}
    for key, value in values.items():
        match = re.fullmatch(rf'(\w+)_bucket\{{((?:{LABEL},)?)le="([^"]+)"\}}', key)
        if match and types.get(match.group(1)) == "histogram":
            series.setdefault((match.group(1), match.group(2)[:-1]), []).append((float(match.group(3)), value))
    names = {name for name, kind in types.items() if kind == "histogram"}
    assert {name for name, _ in series} == names, f"histograms without buckets: {names} {set(series)}"
    for (name, label), buckets in series.items():
        labels = "{" + label + "}" if label else ""
        assert buckets == sorted(buckets) and len({end for end, _ in buckets}) == len(buckets), f"{name} {buckets}"
        assert all(a[1] <= b[1] for a, b in zip(buckets, buckets[1:])), f"{name}: counts are not added up: {buckets}"
        assert buckets[-1] == (float("inf"), values[f"{name}_count{labels}"]), f"{name}: {buckets[-1]}"
        assert values[f"{name}_sum{labels}"] >= 0, name


def name_faults(text):
    """What `promtool check metrics` would say of the names that begin with conclave_, as sentences."""
    faults = []
    for name, kind in kinds(text).items():
        if not name.startswith("conclave_"):
            continue
        words = name.split("_")
        if (kind == "counter") != (words[-1] == "total"):
            faults.append(f"{name}: counters, and only they, end in _total")
        if kind in ("counter", "gauge") and words[-1] in ("count", "sum", "bucket"):
            faults.append(f"{name}: _{words[-1]} is for histograms and summaries")
        faults += [f"{name}: use {NOT_BASE[word]} instead of {word}" for word in words if word in NOT_BASE]
        if set(words) & {"counter", "gauge", "histogram", "summary"}:
            faults.append(f"{name}: the name contains a type")
        behind = [word for word in words if word not in ("total", "max", "info")]
        if set(words) & {"seconds", "bytes"} and behind[-1] not in ("seconds", "bytes"):
            faults.append(f"{name}: the unit comes last")
    return faults


def our_lines(text):
    """The lines about names that begin with conclave_."""
    return "".join(line + "\n" for line in text.splitlines() if re.match(r"(# (HELP|TYPE) )?conclave_", line))


def promtool():
    """The program promtool: the system's, or the one that tools/install-deps unpacked; None without either."""
    return shutil.which("promtool") or shutil.which(UNPACKED)


def promtool_faults(text):
    """The answer of `promtool check metrics` about our names, "" when it is content; None: there is no promtool."""
    if promtool() is None:
        return None
    run = subprocess.run([promtool(), "check", "metrics"], input=our_lines(text), capture_output=True, text=True, timeout=60, check=False)
    return run.stdout + run.stderr if run.returncode != 0 or run.stderr.strip() else ""
