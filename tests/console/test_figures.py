"""The same cases hold the browser's twin: tests/js/figures.test.js."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from console import figures

GOLDEN = json.loads((Path(__file__).parent / "golden_figures.json").read_text())
CASES = [
    pytest.param(name, arguments, text, id=f"{name}-{arguments}")
    for name, cases in GOLDEN.items()
    for arguments, text in cases
]


@pytest.mark.parametrize(("name", "arguments", "text"), CASES)
def test_a_figure_reads_the_same_everywhere(name, arguments, text):
    assert getattr(figures, name)(*arguments) == text


def test_missing_is_never_zero():
    assert figures.quantity(None, "%") != figures.quantity(0, "%")
