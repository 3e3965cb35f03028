"""Prometheus' text format by the letter (version 0.0.4): whatever strays from it is an error."""

from __future__ import annotations

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
LINE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count")}


def parse(text):
    """{family: (type, {(name, labels): value})}. Raises AssertionError."""
    assert text.endswith("\n")
    found, family = {}, None
    lines = iter(text[:-1].split("\n"))
    for line in lines:
        if line.startswith("# HELP "):
            family = _declared(line, next(lines), found)
        else:
            _add(line, family, *found[family])
    for name, (kind, samples) in found.items():
        assert samples, f"{name} has no sample"
        _check(name, kind, samples)
    return found


def _declared(help_line, type_line, found):
    name, words = help_line.removeprefix("# HELP ").split(" ", 1)
    assert re.fullmatch(NAME, name)
    assert words
    kind = re.fullmatch(rf"# TYPE {re.escape(name)} (counter|gauge|histogram)", type_line)
    assert kind, type_line
    assert name not in found, f"{name} is declared twice"
    found[name] = (kind[1], {})
    return name


def _add(line, family, kind, samples):
    match = LINE.fullmatch(line)
    assert match, line
    assert match[1] in [family + suffix for suffix in SUFFIXES.get(kind, ("",))], line
    labels = tuple(re.findall(LABEL, match[2] or ""))
    assert len(dict(labels)) == len(labels), f"a label twice: {line}"
    key = (match[1], tuple(sorted(labels)))
    assert key not in samples, f"twice: {line}"
    samples[key] = float(match[match.lastindex])


def _check(name, kind, samples):
    assert (kind == "counter") == name.endswith("_total"), name
    if kind == "counter":
        assert all(value >= 0 for value in samples.values())
    if name.endswith("_ratio"):
        assert all(0 <= value <= 1 for value in samples.values())
    if kind == "histogram":
        _check_buckets(name, samples)


def _check_buckets(name, samples):
    series = {}
    for (line, labels), value in samples.items():
        if line == f"{name}_bucket":
            rest = tuple(one for one in labels if one[0] != "le")
            series.setdefault(rest, []).append((float(dict(labels)["le"]), value))
    for rest, buckets in series.items():
        assert buckets == sorted(buckets), "buckets do not add up"
        assert buckets[-1] == (float("inf"), samples[f"{name}_count", rest])
        assert (f"{name}_sum", rest) in samples
