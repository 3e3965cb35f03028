"""What one tab draws, as it says itself: which values, of which GPUs, how near. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta

from console.telemetry.frames import Detail
from console.telemetry.latest import Field, Flags, Ids

_MOST_RANGES: Final = 2_048
_Id = Annotated[int, Meta(ge=0, lt=1 << 32)]
_Ranges = Annotated[tuple[_Id, ...], Meta(max_length=2 * _MOST_RANGES)]
_DETAILS: Final = {"gpus": Detail.GPUS, "nodes": Detail.NODES, "none": None}
VALUES: Final = tuple(field for field in Field if Field.SM_ACTIVITY <= field <= Field.DUTY)


class Watching(msgspec.Struct, tag_field="op", tag="watch", frozen=True):
    """`gpus` and `closer` are ranges of GPU ids, first and last of each in turn, ascending."""

    number: _Id
    detail: Literal["gpus", "nodes", "none"]
    fields: Annotated[tuple[str, ...], Meta(max_length=len(Field))] = ()
    gpus: _Ranges | None = None
    closer: _Ranges = ()


class SnapshotWanted(msgspec.Struct, tag_field="op", tag="snapshot", frozen=True):
    """A frame went missing."""


_DECODER: Final = msgspec.json.Decoder(Watching | SnapshotWanted)


@dataclass(frozen=True)
class Watch:
    """`gpus` None: all. Looks, states and flags of all GPUs come with every watch."""

    detail: Detail | None = None
    fields: frozenset[Field] = frozenset()
    gpus: tuple[int, ...] | None = None
    closer: tuple[int, ...] = ()


NOTHING: Final = Watch()


def read(text: str) -> tuple[int, Watch] | None:
    """The number of a watch and what it asks for; None: a snapshot. Raises ValueError."""
    message = _DECODER.decode(text)
    if isinstance(message, SnapshotWanted):
        return None
    fields = frozenset(field for field in VALUES if field.name in message.fields)
    for ranges in (message.gpus or (), message.closer):
        _check(ranges)
    detail = _DETAILS[message.detail]
    return message.number, Watch(detail, fields, message.gpus, message.closer)


def _check(ranges: Sequence[int]) -> None:
    ascending = all(a <= b for a, b in pairwise(ranges))
    if len(ranges) % 2 or not ascending:
        raise ValueError("ranges of GPU ids are first and last of each in turn, ascending")


def within(ids: Ids, ranges: Sequence[int]) -> Flags:
    """Which of the ascending `ids` lie in the ranges."""
    firsts = np.searchsorted(ids, ranges[0::2])
    ends = np.searchsorted(ids, ranges[1::2], side="right")
    steps = np.zeros(len(ids) + 1, np.intp)
    np.add.at(steps, firsts, 1)
    np.add.at(steps, ends, -1)
    inside: Flags = np.cumsum(steps)[:-1] > 0
    return inside
