"""What a replay says of itself: how fine it is, from where, and why some of it is missing. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from agents.wire.limits import MAX_SKEW_S
from console import figures
from console.history.tiers import FRESH_S, RAW
from console.replay.footage import Footage, Gap, Point
from console.replay.rules_then import Force

# What is told one by one; of more only their sum.
TOLD: Final = 4


@dataclass(frozen=True)
class Silences:
    """What is known of why nothing was recorded."""

    now: float
    has_agent: bool


def resolution(footage: Footage) -> str:
    """`each second as it was, shaded to its worst (the history); means of 10 s, … (the history)`"""
    by_period: dict[int, list[str]] = {}
    for source, period_s in footage.sources:
        by_period.setdefault(period_s, []).append(source)
    told = [f"{_fineness(p)} ({' and '.join(by_period[p])})" for p in sorted(by_period)]
    return "; ".join(told) or "nothing was recorded"


def _fineness(period_s: int) -> str:
    if period_s == 1:
        return "each second as it was, shaded to its worst"
    return f"means of {figures.span(period_s)}, lowest to highest shaded"


def missing(footage: Footage, silences: Silences) -> list[str]:
    """A sentence for each stretch of which nothing is known."""
    gaps = footage.gaps
    sentences = [_gap(gap, silences) for gap in gaps[:TOLD]]
    if len(gaps) > TOLD:
        left_s = sum(gap.end - gap.start for gap in gaps[TOLD:])
        sentences.append(f"{len(gaps) - TOLD} more such stretches, {figures.span(left_s)} in all.")
    return sentences


def _gap(gap: Gap, silences: Silences) -> str:
    span = f"{_clock(gap.start)} to {_clock(gap.end)}"
    return f"No samples from {span} ({figures.span(gap.end - gap.start)}): {_why(gap, silences)}"


def _why(gap: Gap, silences: Silences) -> str:
    if not silences.has_agent:
        return "the node was imported, and no agent reports it."
    if silences.now - gap.end < 2 * FRESH_S:
        return "the last two minutes are written as they end; look again in a moment."
    if silences.now - gap.start > RAW.kept_s:
        return "single seconds are kept for two days, and no means of then are left."
    return "the console did not hear the node then, and the node has not sent them since."


def clocks(footage: Footage) -> list[str]:
    """A sentence for each stretch in which the node's clock was off."""
    stretches: list[tuple[float, float]] = []
    for was, point in zip([None, *footage.points], footage.points, strict=False):
        if not _is_by_receipt(point):
            continue
        start = stretches.pop()[0] if was and _is_by_receipt(was) else point.at
        stretches.append((start, point.at + point.period_s))
    return [
        f"Times from {_clock(start)} to {_clock(end)} are those of receipt: the clock of the node"
        f" was off by more than {MAX_SKEW_S:g} s."
        for start, end in stretches[:TOLD]
    ]


def _is_by_receipt(point: Point) -> bool:
    flag = point.row.get("by_receipt")
    return flag is not None and flag.high > 0


def policy(forces: Sequence[Force]) -> str:
    """Whose limits are drawn."""
    if not forces:
        return "No policy was in force, so no limits are drawn."
    names = ", then ".join(dict.fromkeys(force.name for force in forces))
    return f"Limits as {names} had them then; the SLO as the service has it today."


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
