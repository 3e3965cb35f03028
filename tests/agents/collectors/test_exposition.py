from __future__ import annotations

import math

import pytest

from agents.collectors.exposition import Sample, families, samples


def read(text, *names):
    return list(samples(text, names or ("up",)))


@pytest.mark.parametrize(
    ("text", "sample"),
    [
        ("up 1\n", Sample("up", {}, 1.0)),
        ("up 1", Sample("up", {}, 1.0)),
        ("up{} 1\n", Sample("up", {}, 1.0)),
        ("up\t1 1700000000000\n", Sample("up", {}, 1.0)),
        ("up 1\r\n", Sample("up", {}, 1.0)),
        ('up{a="b",} 1e3\n', Sample("up", {"a": "b"}, 1e3)),
        ('up{a="x, y} 3", b = "c"} 2\n', Sample("up", {"a": "x, y} 3", "b": "c"}, 2.0)),
        (r'up{a="q\"\\\n"} 2', Sample("up", {"a": 'q"\\\n'}, 2.0)),
        ("up +Inf\n", Sample("up", {}, math.inf)),
        ('up 7 # {trace_id="1"} 0.5\n', Sample("up", {}, 7.0)),
    ],
)
def test_a_line_is_read(text, sample):
    assert read(text) == [sample]


@pytest.mark.parametrize(
    "text",
    ["", "# up 1\n", "up\n", "upper 1\n", " up 1\n", "up N/A\n", 'up{a="b" 1\n', "\x00\xff\n"],
)
def test_a_line_that_makes_no_sense_is_passed_over(text):
    assert read(text + "\nup 5\n") == [Sample("up", {}, 5.0)]


def test_only_what_is_asked_for_is_read():
    assert [one.name for one in read("a 1\nb 2\nc 3\n", "a", "c")] == ["a", "c"]


def test_types_are_told():
    assert families("# HELP a x\n# TYPE a histogram\n") == {"a": "histogram"}
