"""The GPUs of a round as columns: what online leaves on each, and which of them are alike. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from console.scheduling.snapshot import GpuFacts
from workers.matching import columns
from workers.matching.columns import Floats, Ints
from workers.matching.gpu_columns import (
    ID,
    KEPT,
    KIND,
    LOAD,
    MOST_SLOWDOWN,
    MOVE_MIN_GAIN,
    QUOTA_BYTES,
    RESTART_S,
    SHARE_PERCENT,
    GpuColumns,
    profiles_of,
)
from workers.matching.memory import Online


@dataclass(frozen=True)
class Seats:
    """`gpus` in the order given; all columns go with it.

    `share_percent` is what an offline job would get (0: nothing), `quota_bytes` the memory that it
    may hold. GPUs of one `load`, an index of `online`, are the same to the predictor; those of one
    `kind`, whose examples are `kinds`, are the same to every wish of a job. Some are `kept` for a
    job each.
    """

    gpus: Sequence[GpuFacts]
    gpu_id: Ints
    share_percent: Floats
    quota_bytes: Floats
    most_slowdown: Floats
    restart_s: Floats
    move_min_gain: Floats
    kept: Ints
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


def seats_of(gpus: Sequence[GpuFacts], told: Floats, numbers: GpuColumns) -> Seats:
    """`told` is what `numbers` tells of each GPU."""
    whole = told[:, LOAD : KIND + 1].astype(np.int64).T
    load_number, card, kind_number = whole[0], whole[1], whole[2]
    first, load = columns.groups(load_number)
    example, kind = columns.compact(kind_number, numbers.kinds)
    cards = list(numbers.cards)
    models = tuple(cards[number] for number in card[first].tolist())
    return Seats(
        gpus=gpus,
        gpu_id=told[:, ID].astype(np.int64),
        share_percent=told[:, SHARE_PERCENT],
        quota_bytes=told[:, QUOTA_BYTES],
        most_slowdown=told[:, MOST_SLOWDOWN],
        restart_s=told[:, RESTART_S],
        move_min_gain=told[:, MOVE_MIN_GAIN],
        kept=np.flatnonzero(told[:, KEPT]),
        load=load,
        online=Online(
            key=load_number[first].tolist(),
            profiles=profiles_of(load_number[first], models),
            share=told[first, SHARE_PERCENT] / 100.0,
            gpu_model=models,
        ),
        kind=kind,
        kinds=[gpus[index] for index in example.tolist()],
    )
