"""Where SysMonitor need not be asked: GPUs on which its next step would be the identity. Pure.

A step is skipped only where it would make no transition and no action, and would do nothing but
lengthen runs that can be lengthened afterwards (`Runs`). All arrays have a row a GPU and a column
a signal, in the order of `names.SIGNALS`; nan is missing. What is skipped, the machine would judge
as follows, for a GPU without offline work whose last and worst values are the same:

* HEALTHY stays while no value that it judges is missing or beyond its lower limit;
* UNHEALTHY stays while none is missing and one is not well under its lower limit, so that the GPU
  has not recovered.

Whatever else there is, the machine itself is asked: another state, a fault, a value that comes or
goes, a signal that begins or ceases to count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agents.wire.names import GPU_STATES, SIGNALS, GpuState, Signal

Doubles: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int64]

_AT: Final = {signal: position for position, signal in enumerate(SIGNALS)}
_UTIL: Final = _AT[Signal.GPU_UTIL]
_SM: Final = _AT[Signal.SM_ACTIVITY]
_CLOCK: Final = _AT[Signal.SM_CLOCK]
_MEMORY: Final = _AT[Signal.MEMORY]
_XID: Final = _AT[Signal.XID]
_P99: Final = _AT[Signal.ONLINE_P99]
_QPS: Final = _AT[Signal.ONLINE_QPS]
_HEALTHY: Final = GPU_STATES.index(GpuState.HEALTHY)
_UNHEALTHY: Final = GPU_STATES.index(GpuState.UNHEALTHY)
# Of a signal of which a lower value is worse, value and limits are held with the other sign.
SIGNS: Final = np.where(np.arange(len(SIGNALS)) == _CLOCK, -1.0, 1.0)
# Signals with equal distances to their limits: the first by name is the nearest.
_BY_NAME: Final = np.array(sorted(range(len(SIGNALS)), key=lambda at: str(SIGNALS[at])))


@dataclass(frozen=True, slots=True)
class Sense:
    """What of a value is believed, as `sysmonitor.signals` has it."""

    low: Doubles
    high: Doubles
    memory_slack: float
    util_that_needs_sms: float
    use_that_needs_clock: float
    contention: Flags


class Ground:
    """What each GPU's values are held against; written a GPU at a time, as orders come.

    `lower`, `limit` and `good` (well under the lower limit) are in policy units with the sign of
    `SIGNS`, `whole` is one policy unit in wire units, `held` says which signals have a threshold.
    """

    def __init__(self, memory_bytes: Doubles) -> None:
        shape = (len(memory_bytes), len(SIGNALS))
        self.memory_bytes = memory_bytes
        self.lower, self.limit, self.good = (np.full(shape, np.nan) for _ in range(3))
        self.whole = np.ones(shape)
        self.held = np.zeros(shape, np.bool_)
        self.has_slo = np.zeros(len(memory_bytes), np.bool_)


class Judgement(NamedTuple):
    """One second of every GPU: the plausible values (wire units), which are judged and which of
    these are missing, and where the judged ones are against their limits. `headroom_percent` and
    `nearest` are as in a telemetry sample, nan where nothing is told."""

    values: Doubles
    judged: Flags
    missing: Flags
    over: Flags
    raised: Flags
    astir: Flags
    xid: Flags
    headroom_percent: Doubles
    nearest: Doubles


def judge(values: Doubles, online_present: Flags, ground: Ground, sense: Sense) -> Judgement:
    """`astir`: not well under the lower limit. `xid`: the driver tells of any error."""
    sane = _plausible(values, ground, sense)
    used = np.where(np.isnan(sane[:, _UTIL]), sane[:, _SM], sane[:, _UTIL])
    busy = used > sense.use_that_needs_clock
    seen = _policy_units(sane, busy, ground)
    judged = ground.held & ~(sense.contention & ~online_present[:, None])
    judged[:, _CLOCK] &= busy
    judged[:, _P99] &= ground.has_slo & (seen[:, _QPS] != 0.0)
    told = seen * SIGNS
    missing = judged & np.isnan(seen)
    headroom_percent, nearest = _headroom(told, judged & ~missing, ground)
    return Judgement(
        sane,
        judged,
        missing,
        judged & (told > ground.limit),
        judged & (told > ground.lower),
        judged & (told > ground.good),
        ~(sane[:, _XID] == 0.0) & ~np.isnan(sane[:, _XID]),
        headroom_percent,
        nearest,
    )


def _plausible(values: Doubles, ground: Ground, sense: Sense) -> Doubles:
    sane: Doubles = np.where((values >= sense.low) & (values <= sense.high), values, np.nan)
    too_much = sane[:, _MEMORY] > ground.memory_bytes * sense.memory_slack
    sane[too_much, _MEMORY] = np.nan
    no_counters = (sane[:, _SM] == 0.0) & (sane[:, _UTIL] > sense.util_that_needs_sms)
    sane[no_counters, _SM] = np.nan
    return sane


def _policy_units(sane: Doubles, busy: Flags, ground: Ground) -> Doubles:
    seen: Doubles = sane / ground.whole
    seen[~busy, _CLOCK] = np.nan
    return seen


def _headroom(told: Doubles, counts: Flags, ground: Ground) -> tuple[Doubles, Doubles]:
    best = np.where(SIGNS < 0.0, -100.0, 0.0)
    way = ground.limit - best
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(way == 0.0, 0.0, (ground.limit - told) / way)
    distance = np.where(counts, 100.0 * np.clip(left, 0.0, 1.0), np.inf)[:, _BY_NAME]
    nearest = np.argmin(distance, axis=1)
    least = distance[np.arange(len(distance)), nearest]
    is_told = np.isfinite(least)
    return (
        np.where(is_told, least, np.nan),
        np.where(is_told, _BY_NAME[nearest].astype(np.float64), np.nan),
    )


def skippable(state: Codes, at_peace: Flags, judged_before: Flags, now: Judgement) -> Flags:
    """Of which GPUs the next step would be the identity.

    `at_peace`: the monitor is as its last step left it, holds nothing, and knows of no fault and
    no person; there is no offline work. `judged_before`: which signals that step judged.
    """
    whole = at_peace & ~now.xid & ~now.missing.any(axis=1)
    whole &= (now.judged == judged_before).all(axis=1) & now.judged.any(axis=1)
    healthy = (state == _HEALTHY) & ~now.raised.any(axis=1)
    unhealthy = (state == _UNHEALTHY) & now.astir.any(axis=1)
    skipped: Flags = whole & (healthy | unhealthy)
    return skipped


class Runs:
    """Since which step each signal has been on its side of each limit."""

    def __init__(self, n_gpus: int) -> None:
        self.step = 0
        self._side = np.zeros((3, n_gpus, len(SIGNALS)), np.bool_)
        self._since = np.zeros((3, n_gpus, len(SIGNALS)), np.int64)

    def note(self, now: Judgement) -> None:
        """One more second."""
        self.step += 1
        side = np.stack((now.over, now.raised, now.astir))
        self._since[side != self._side] = self.step
        self._side = side

    def of(self, gpu: int, signal: int, skipped: int) -> tuple[int, int, int, int, int]:
        """How many of the last `skipped` steps, the newest first, went without a break over the
        limit, over the lower one, within the limit, within the lower one, well within it."""
        lengths = [
            min(skipped, self.step - int(since) + 1) for since in self._since[:, gpu, signal]
        ]
        over, raised, astir = (bool(side) for side in self._side[:, gpu, signal])
        return (
            lengths[0] if over else 0,
            lengths[1] if raised else 0,
            0 if over else lengths[0],
            0 if raised else lengths[1],
            0 if astir else lengths[2],
        )
