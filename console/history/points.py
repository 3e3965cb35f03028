"""A range of the past as a chart takes it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

Values = list[float | None]


@dataclass(frozen=True)
class Band:
    """Mean, low and high of each point, None for a gap. Of a point that is one second of one GPU
    the mean is the last value, and low and high take in the worst of that second."""

    mean: Values
    low: Values
    high: Values


@dataclass(frozen=True)
class Chart:
    """`times` are the starts of the points, Unix seconds, `period_s` apart; `tier` names what was
    read. `samples` says from how many GPU-seconds each point is, `gpus` of how many GPUs at most.
    `by_receipt`: whether the time of any of these is that of its receipt, because the clock of its
    node was off.
    """

    tier: str
    period_s: int
    times: list[float]
    series: dict[str, Band]
    samples: list[int]
    gpus: int
    by_receipt: list[bool]
