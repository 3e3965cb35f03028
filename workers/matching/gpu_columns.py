"""What the GPUs of a round say in numbers, read once as long as nothing of a GPU changes. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import attrgetter
from typing import Final

import numpy as np

from agents.wire.names import SHARING_MODES
from console.scheduling.snapshot import GpuFacts
from workers.matching import columns
from workers.matching.closing import closed
from workers.matching.columns import Floats, Ints
from workers.matching.kept_columns import KeptColumns
from workers.prediction.profiles import Profiles
from workers.reallocation import shares

MEMORY_STEP_BYTES: Final = 64 << 20
# Which column is what. LOAD is all that a predictor is told, CARD the model that it knows, KIND all
# that a job can ask for or be kept from by name. KEPT is 1 where the GPU is kept for a job, OPEN
# where nothing but its sharing mode, MODE, keeps it from taking new work. An ID is far below 2⁵³.
SHARE_PERCENT, QUOTA_BYTES, MOST_SLOWDOWN, RESTART_S, MOVE_MIN_GAIN = range(5)
LOAD, CARD, KIND, KEPT, MODE, OPEN, ID = range(5, 12)
_LOADS: Final = ("sm_percent", "util_percent", "occupancy_percent", "bandwidth_percent")
# A load is a number of 5 bits for each of its steps and the share, 10 for the time, and the model.
_STEP_BITS, _TIME_BITS, _STEPS = 5, 10, 6


class GpuColumns:
    """`cards` and `kinds` number GPU models and kinds, the same in every round."""

    def __init__(self) -> None:
        self.cards: dict[str, int] = {}
        self._kinds: dict[Hashable, int] = {}
        self._kept = KeptColumns(self._read, self._kinds)

    @property
    def kinds(self) -> int:
        return len(self._kinds)

    def of(self, gpus: Sequence[GpuFacts]) -> Floats:
        """[gpus, columns] loads are rounded up to steps of 5 %, to the safe side."""
        return self._kept.of(gpus)

    def _read(self, gpus: Sequence[GpuFacts]) -> Floats:
        online = list(map(attrgetter("online"), gpus))
        rule, rules = columns.shared(gpus, "rules")
        size, held = columns.numbers(gpus, "memory_bytes"), columns.numbers(online, "memory_bytes")
        reserve = columns.numbers(rules, "memory_reserve_percent")[rule]
        share = _share(gpus, columns.numbers(rules, "sm_reserve_percent")[rule])
        steps = [columns.steps(columns.numbers(online, name)) for name in _LOADS]
        steps.append(columns.steps(100.0 * held / np.maximum(size, 1.0)))
        step = columns.time_steps(columns.numbers(online, "step_s"))
        card = self._card(gpus)
        left = np.maximum(0.0, size - held - size * reserve / 100.0)
        every = (
            share,
            np.floor(left / MEMORY_STEP_BYTES) * MEMORY_STEP_BYTES,
            *(columns.numbers(rules, name)[rule] for name in ("most_slowdown", "restart_s")),
            columns.numbers(rules, "move_min_gain")[rule],
            _load([*steps, (share / shares.STEP).astype(np.int64)], step, card),
            card,
            columns.codes(map(_NAMED, gpus), self._kinds),
            [gpu.held_for is not None for gpu in gpus],
            list(map(SHARING_MODES.index, map(attrgetter("mode"), gpus))),
            [closed(gpu, gpu.mode) is None for gpu in gpus],
            list(map(attrgetter("id"), gpus)),
        )
        return np.array(every, np.float64).T.copy()

    def _card(self, gpus: Sequence[GpuFacts]) -> Ints:
        card, cards = columns.codes_of(gpus, "model", "simulated")
        models = [columns.model_of(*one) for one in cards]
        return np.array(columns.codes(models, self.cards), np.int64)[card]


_NAMED: Final = attrgetter("pool", "model", "labels", "tier", "rules.proven_for_tier")


def _share(gpus: Sequence[GpuFacts], reserve: Floats) -> Floats:
    """What complements the peak, itself rounded up."""
    peak = columns.steps(columns.numbers(gpus, "online_peak_percent"))
    return shares.complement(100.0 * columns.share_of_steps(peak), reserve)


def _load(steps: Sequence[Ints], time: Ints, card: Ints) -> Ints:
    load = card << _TIME_BITS | time
    for column in steps:
        load = load << _STEP_BITS | column
    return load


def profiles_of(load: Ints, models: tuple[str, ...]) -> Profiles:
    """What each of some loads says; `models` are those of the cards."""
    most = (1 << _STEP_BITS) - 1
    shifts = [_STEP_BITS * (_STEPS - 1 - at) for at in range(_STEPS - 1)]
    sm, util, occupancy, bandwidth, held = (
        columns.share_of_steps(load >> shift & most) for shift in shifts
    )
    time = load >> _STEP_BITS * _STEPS & (1 << _TIME_BITS) - 1
    return Profiles(
        sm=sm,
        util=util,
        occupancy=occupancy,
        bandwidth=bandwidth,
        memory=held,
        step_s=columns.time_of_steps(time),
        gpu_model=models,
    )
