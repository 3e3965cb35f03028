"""The GPUs of a round as columns: what online leaves on each, and which of them are alike. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Final

import numpy as np

from console.scheduling.snapshot import GpuFacts
from workers.matching import columns
from workers.matching.columns import Floats, Ints
from workers.matching.memory import Memory, Online
from workers.prediction.profiles import Profiles
from workers.reallocation import shares

MEMORY_STEP_BYTES: Final = 64 << 20
_LOADS: Final = ("sm_percent", "util_percent", "occupancy_percent", "bandwidth_percent")


@dataclass(frozen=True)
class Seats:
    """`gpus` in the order given; all columns go with it.

    `share_percent` is what an offline job would get (0: nothing), `quota_bytes` the memory that it
    may hold. GPUs of one `load`, an index of `online`, are the same to the predictor; those of one
    `kind`, whose examples are `kinds`, are the same to every wish of a job.
    """

    gpus: Sequence[GpuFacts]
    share_percent: Floats
    quota_bytes: Floats
    most_slowdown: Floats
    restart_s: Floats
    move_min_gain: Floats
    load: Ints
    online: Online
    kind: Ints
    kinds: Sequence[GpuFacts]

    @cached_property
    def cpu_free(self) -> Floats:
        return np.nan_to_num(columns.numbers(self.gpus, "cpu_free"), nan=np.inf)

    @cached_property
    def host_memory_free_bytes(self) -> Floats:
        free = columns.numbers(self.gpus, "host_memory_free_bytes")
        return np.nan_to_num(free, nan=np.inf)


def seats_of(gpus: Sequence[GpuFacts], memory: Memory) -> Seats:
    """Loads rounded up to steps of 5 %, to the safe side; `memory` numbers the models."""
    online = list(map(attrgetter("online"), gpus))
    rule, rules = columns.shared(gpus, "rules")
    size, held = columns.numbers(gpus, "memory_bytes"), columns.numbers(online, "memory_bytes")
    reserve = columns.numbers(rules, "memory_reserve_percent")[rule]
    share = _share(gpus, columns.numbers(rules, "sm_reserve_percent")[rule])
    steps = [columns.steps(columns.numbers(online, name)) for name in _LOADS]
    steps.append(columns.steps(100.0 * held / np.maximum(size, 1.0)))
    step = columns.time_steps(columns.numbers(online, "step_s"))
    card, cards = columns.codes_of(gpus, "model", "simulated")
    models = [columns.model_of(*one) for one in cards]
    model = np.array(columns.codes(models, memory.models), np.int64)[card]
    key = _key([*steps, (share / shares.STEP).astype(np.int64)], step, model)
    first, load = columns.groups(key)
    kind, kinds = _kinds(gpus, columns.numbers(rules, "proven_for_tier")[rule])
    left = np.maximum(0.0, size - held - size * reserve / 100.0)
    known = tuple(models[index] for index in card[first].tolist())
    return Seats(
        gpus=gpus,
        share_percent=share,
        quota_bytes=np.floor(left / MEMORY_STEP_BYTES) * MEMORY_STEP_BYTES,
        most_slowdown=columns.numbers(rules, "most_slowdown")[rule],
        restart_s=columns.numbers(rules, "restart_s")[rule],
        move_min_gain=columns.numbers(rules, "move_min_gain")[rule],
        load=load,
        online=Online(
            key=key[first].tolist(),
            profiles=_profiles([column[first] for column in steps], step[first], known),
            share=share[first] / 100.0,
            gpu_model=known,
        ),
        kind=kind,
        kinds=kinds,
    )


def _share(gpus: Sequence[GpuFacts], reserve: Floats) -> Floats:
    """What complements the peak, itself rounded up."""
    peak = columns.steps(columns.numbers(gpus, "online_peak_percent"))
    return shares.complement(100.0 * columns.share_of_steps(peak), reserve)


def _key(steps: Sequence[Ints], time: Ints, model: Ints) -> Ints:
    """All that a predictor is told as one number: 5 bits a load, 10 the time, then the model."""
    key = model << 10 | time
    for column in steps:
        key = key << 5 | column
    return key


def _profiles(steps: Sequence[Ints], time: Ints, models: tuple[str, ...]) -> Profiles:
    sm, util, occupancy, bandwidth, held = (columns.share_of_steps(column) for column in steps)
    return Profiles(
        sm=sm,
        util=util,
        occupancy=occupancy,
        bandwidth=bandwidth,
        memory=held,
        step_s=columns.time_of_steps(time),
        gpu_model=models,
    )


def _kinds(gpus: Sequence[GpuFacts], proven: Floats) -> tuple[Ints, Sequence[GpuFacts]]:
    """GPUs that differ in nothing that a job can ask for or be kept from by name."""
    told, _ = columns.codes_of(gpus, "pool", "model", "labels", "tier")
    first, kind = columns.groups(np.column_stack([told, proven]))
    return kind, [gpus[index] for index in first.tolist()]
