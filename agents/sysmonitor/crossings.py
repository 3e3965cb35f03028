"""Which limits a sample is over, how far it is from the nearest, and the words for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from agents.sysmonitor.monitor import Facts
from agents.sysmonitor.signals import CONDITIONAL, Reading, amount, beyond, limit_of, name
from agents.wire.names import Signal
from agents.wire.policy import AgentPolicy, Threshold

# Signals that tell of contention: limits on them protect online work, and hold only beside it.
CONTENTION: Final = frozenset(
    {
        Signal.GPU_UTIL,
        Signal.SM_ACTIVITY,
        Signal.SM_OCCUPANCY,
        Signal.MEMORY_BANDWIDTH,
        Signal.SM_CLOCK,
        Signal.PCIE_RX,
    }
)


class Judged(NamedTuple):
    """A threshold that means something on this GPU now: the limit it makes, and the sample's value
    to hold against it, None where missing."""

    signal: Signal
    threshold: Threshold
    limit: float
    value: float | None


class Cause(NamedTuple):
    """Why something happens, in words and in figures."""

    why: str
    signal: Signal | None = None
    value: float | None = None
    limit: float | None = None


def crossings(sample: Reading, policy: AgentPolicy, facts: Facts) -> Iterator[Cause]:
    """Every limit that this sample is over: almost always none."""
    over = [
        (signal, value, limit)
        for signal, threshold in all_thresholds(policy)
        if (value := sample.get(signal)) is not None
        and beyond(signal, value, limit := limit_of(signal, threshold, policy))
    ]
    void = _void(sample, facts) if over else ()
    for signal, value, limit in over:
        if signal not in void:
            cause = explain(signal, value, limit, "is {beyond} its limit")
            yield _because(cause, facts.throttled_by) if signal is Signal.SM_CLOCK else cause


def _because(cause: Cause, reason: str | None) -> Cause:
    return cause._replace(why=f"{cause.why}: {reason}") if reason else cause


def worst_of(crossed: Iterable[Cause]) -> Cause | None:
    """The limit crossed by the most, relative to itself."""
    return max(crossed, key=_excess, default=None)


def _excess(cause: Cause) -> float:
    value, limit = cause.value or 0.0, cause.limit or 0.0
    return abs(value - limit) / limit if limit else math.inf


def headroom(
    sample: Reading, policy: AgentPolicy, facts: Facts
) -> tuple[float | None, Signal | None]:
    """Distance to the nearest limit that holds here now, in percent of it, and whose it is.

    0 at or over a limit, 100 farthest away, (None, None) when none of their signals is read.
    """
    void = _void(sample, facts)
    distances = [
        (_distance(signal, value, limit_of(signal, threshold, policy)), signal)
        for signal, threshold in all_thresholds(policy)
        if signal not in void and (value := sample.get(signal)) is not None
    ]
    return min(distances, default=(None, None))


def _distance(signal: Signal, value: float, limit: float) -> float:
    """Percent of the way left from the best possible value to the limit."""
    best = 100.0 if signal is Signal.SM_CLOCK else 0.0
    way = limit - best
    left = (limit - value) / way if way else 0.0
    return 100.0 * min(1.0, max(0.0, left))


def explain(signal: Signal, value: float, limit: float, what: str) -> Cause:
    """`what` stands between the value and the limit; its {beyond} says on which side of it."""
    told = what.format(beyond="under" if signal is Signal.SM_CLOCK else "over")
    return Cause(
        f"{name(signal)} {amount(signal, value)} {told}, {amount(signal, limit)}",
        signal,
        value,
        limit,
    )


def judged(sample: Reading, policy: AgentPolicy, facts: Facts) -> tuple[Judged, ...]:
    """In the order of the policy."""
    void = _void(sample, facts)
    held = [
        Judged(signal, threshold, limit_of(signal, threshold, policy), sample.get(signal))
        for signal, threshold in all_thresholds(policy)
        if signal not in void
    ]
    return tuple(held)


def _void(sample: Reading, facts: Facts) -> set[Signal]:
    """The signals whose limits mean nothing on this GPU now."""
    void = set() if facts.online_present else set(CONTENTION)
    if facts.throttled_by == "":
        void.add(Signal.SM_CLOCK)
    void.update(signal for signal in CONDITIONAL if not sample.could_have(signal))
    return void


def all_thresholds(policy: AgentPolicy) -> Iterable[tuple[Signal, Threshold]]:
    """Those of the policy, and memory's in any case: its reserve is no choice."""
    if Signal.MEMORY in policy.thresholds:
        return policy.thresholds.items()
    reserve_limit = 100.0 - policy.memory_reserve_percent
    return (*policy.thresholds.items(), (Signal.MEMORY, Threshold(reserve_limit, reserve_limit)))
