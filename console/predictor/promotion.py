"""Whether a new version takes over by itself. Pure.

It has to be better for the jobs than what is in force, on pairs that neither has seen, by a margin
that chance does not make, no worse for the online side, and from enough observations. A report is
what `workers.prediction.training` tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# Our choices. The margin is a part of the rival's error.
LEAST_OBSERVATIONS: Final = 200
LEAST_PAIRS: Final = 20
LEAST_HELD_OUT: Final = 30
MARGIN: Final = 0.05

ESTIMATE: Final = "the analytic estimate"


@dataclass(frozen=True)
class Verdict:
    promote: bool
    why: str


def verdict(report: Mapping[str, Any], in_force: str) -> Verdict:
    """`in_force` names the version that predicts now, whose error is the report's `active`; where
    that is missing, the analytic estimate is what it has to beat."""
    if (few := _too_few(report)) is not None:
        return Verdict(False, few)
    errors = report["overall"]
    mine, mean = errors["network"]["mae"], errors["mean"]["mae"]
    name, rival = (in_force, "active") if "active" in errors else (ESTIMATE, "analytic")
    least = errors[rival]["mae"]
    if mine >= mean:
        return Verdict(False, f"error {mine:.3f}, no better than always the mean ({mean:.3f})")
    compared = f"error {mine:.3f} against {least:.3f} of {name}"
    if mine > (1.0 - MARGIN) * least:
        return Verdict(False, f"{compared}: not better by {MARGIN:.0%}")
    online = report.get("online", {})
    if {"network", rival} <= online.keys():
        ours, theirs = online["network"]["mae"], online[rival]["mae"]
        if ours > (1.0 + MARGIN) * theirs:
            side = f"the online side's slow-down is foretold worse: {ours:.3f} against {theirs:.3f}"
            return Verdict(False, f"{compared}, but {side}")
    return Verdict(True, f"{compared}, on the same hold-out")


def _too_few(report: Mapping[str, Any]) -> str | None:
    counts = report["counts"]
    for name, least in (
        ("observations", LEAST_OBSERVATIONS),
        ("pairs", LEAST_PAIRS),
        ("held_out", LEAST_HELD_OUT),
    ):
        if counts[name] < least:
            return f"{counts[name]} {name.replace('_', ' ')}, fewer than {least}"
    return None
