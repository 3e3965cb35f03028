"""The public tables as what the product's learner takes: one row a workload beside another.

Those tables have no profiles like ours, so each has an encoder of its own: which workload it is
(one column each, so that the first layer learns an embedding), its family, and what was measured of
it alone. A pair of two training jobs gives two rows, one for each side.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from workers.prediction.bilinear import Sides
from workers.prediction.profiles import Floats

Row: TypeAlias = Mapping[str, str]
# What is on record of a workload itself counts for more than what its profile suggests.
RECORD: Final = 5.0
# A workload's name in its table.
Name: TypeAlias = tuple[Any, ...]
# Of each row the profile of one side, its name and its family.
Side: TypeAlias = tuple[Sequence[Sequence[float]], Sequence[Name], Sequence[str]]


@dataclass(frozen=True)
class Measured:
    """`speed[i]` of the workload `mine[i]` beside `other[i]`, over its speed alone.

    `x` [n, features] is what is known of both `sides`: what was measured of each alone, what it was
    given, and which it is. `pair` is the same for both rows of a pair.
    """

    mine: Sequence[Name]
    other: Sequence[Name]
    my_family: Sequence[str]
    other_family: Sequence[str]
    x: Floats
    sides: Sides
    speed: Floats
    pair: Sequence[str]


def lucid(folder: Path) -> Measured:
    """Two training jobs on one card, without any share."""
    single = {_lucid_name(row, ""): _lucid_profile(row) for row in _rows(folder, "lucid_single")}
    pairs = _rows(folder, "lucid_pairs")
    sides = [[_lucid_name(row, side) for row in pairs] for side in "12"]
    speeds = [[float(row[f"speed{side}"]) for row in pairs] for side in "12"]
    return _both(sides, speeds, single, lambda name: str(name[0]))


def _lucid_name(row: Row, side: str) -> Name:
    batch, amp = (int(row[key + side]) for key in ("batchsize", "amp"))
    return row["model" + side], batch, amp


def _lucid_profile(row: Row) -> list[float]:
    util, bandwidth, memory = (float(row[key]) for key in ("gpu_util", "gmem_util", "gmem"))
    batch, amp = float(row["batchsize"]), float(row["amp"])
    return [util / 100, bandwidth / 100, np.log(memory), np.log(batch), amp, bandwidth / util]


def gavel(folder: Path, gpu: str) -> Measured:
    """Two training jobs on one card; what was not measured, or did not fit, is left out."""
    rows = _rows(folder, "gavel_pairs")
    pairs = [row for row in rows if row["gpu"] == gpu and row["feasible"] == "1"]
    sides = [[(row[f"job{side}"],) for row in pairs] for side in "12"]
    speeds = [[float(row[f"norm{side}"]) for row in pairs] for side in "12"]
    alone = {
        (row[f"job{side}"], row["gpu"]): float(row[f"solo{side}"])
        for row in rows
        for side in "12"
        if row[f"solo{side}"]
    }
    single = {name: _gavel_profile(name[0], alone) for one in sides for name in one}
    return _both(sides, speeds, single, lambda name: str(name[0]).partition(" (")[0])


def _gavel_profile(job: str, alone: Mapping[tuple[str, str], float]) -> list[float]:
    """Its rate alone on each kind of card: what gains little by a faster one waits for something
    else, as for its input."""
    found = re.search(r"batch size (\d+)", job)
    batch = float(found[1]) if found else 1.0
    k80, p100, v100 = (np.log(alone[job, gpu]) for gpu in ("k80", "p100", "v100"))
    return [k80, p100 - k80, v100 - p100, np.log(batch)]


def sm_share(folder: Path) -> Measured:
    """An inference service at one SM share beside another that has the rest."""
    rows = _rows(folder, "mps_sm_share_pairs")
    alone = {
        (row["model"], row["batch"], row["sm_percent"]): float(row["throughput"])
        for row in _rows(folder, "mps_sm_share_solo")
    }
    mine = [(row["model"], row["bs"]) for row in rows]
    other = [(row["co"], row["cobs"]) for row in rows]
    first, second = zip(*(_share_profiles(row, alone) for row in rows), strict=True)
    my_family, other_family = ([str(name[0]) for name in side] for side in (mine, other))
    return Measured(
        mine,
        other,
        my_family,
        other_family,
        *_encoded((first, mine, my_family), (second, other, other_family)),
        np.array([float(row["norm"]) for row in rows]),
        [_pair(*names) for names in zip(mine, other, strict=True)],
    )


def _share_profiles(row: Row, alone: Mapping[Name, float]) -> tuple[list[float], list[float]]:
    """Of the one that is measured, and of the one beside it."""
    sm, *used = (float(row[key]) / 100 for key in ("sm", "mem", "l2", "co_mem", "co_l2"))
    beside = alone[row["co"], row["cobs"], row["co_sm"]]
    return (
        [sm, *used[:2], np.log(float(row["bs"])), np.log(float(row["solo_thr"]))],
        [*used[2:], np.log(float(row["cobs"])), np.log(beside)],
    )


def _both(
    sides: Sequence[Sequence[Name]],
    speeds: Sequence[Sequence[float]],
    single: Mapping[Name, Sequence[float]],
    family: Callable[[Name], str],
) -> Measured:
    first, second = sides
    mine, other = [*first, *second], [*second, *first]
    my_family, other_family = ([family(name) for name in side] for side in (mine, other))
    profiles = ([single[name] for name in side] for side in (mine, other))
    return Measured(
        mine,
        other,
        my_family,
        other_family,
        *_encoded(*zip(profiles, (mine, other), (my_family, other_family), strict=True)),
        np.concatenate([np.array(one) for one in speeds]),
        [_pair(*names) for names in zip(mine, other, strict=True)],
    )


def _pair(mine: Name, other: Name) -> str:
    return " | ".join(sorted(str(name) for name in (mine, other)))


def _encoded(first: Side, second: Side) -> tuple[Floats, Sides]:
    """The features of both sides, and whose they are."""
    mine, other = _parts(first), _parts(second)
    widths = [part.shape[1] for part in (*mine, *other)]
    rows = sum(widths[: len(mine)])
    return np.column_stack([*mine, *other]), Sides(rows, np.repeat(np.arange(len(widths)), widths))


def _parts(side: Side) -> list[Floats]:
    """A column for each number of the profile, and several for each kind of name."""
    profiles, *names = side
    return [*_common(np.array(profiles)).T[:, :, np.newaxis], *map(_which, names)]


def _which(names: Sequence[Any]) -> Floats:
    """One column for each distinct name, not 0 where it is that one."""
    distinct = sorted(set(names))
    return RECORD * np.array([[name == one for one in distinct] for name in names], np.float64)


def _common(profile: Floats) -> Floats:
    """On one scale. Nothing of what is predicted is looked at."""
    scaled: Floats = (profile - profile.mean(axis=0)) / profile.std(axis=0)
    return scaled


def _rows(folder: Path, name: str) -> list[dict[str, str]]:
    suffix = "" if name.endswith("solo") else "_public"
    path = folder / "interference" / f"{name}{suffix}.csv"
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
