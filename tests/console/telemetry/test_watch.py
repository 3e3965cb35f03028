from __future__ import annotations

import json

import numpy as np
import pytest

from console.telemetry import watch
from console.telemetry.frames import Detail
from console.telemetry.latest import Field
from console.telemetry.watch import Watch

IDS = np.array([3, 5, 6, 7, 900], np.uint32)


def said(**parts: object) -> str:
    return json.dumps({"op": "watch", "number": 4, "detail": "gpus", "fields": [], **parts})


def test_a_tab_says_what_it_draws():
    asked = said(fields=["HEADROOM", "LOOK", "NO_SUCH"], gpus=[5, 7], closer=[3, 3])
    expected = Watch(Detail.GPUS, frozenset({Field.HEADROOM}), (5, 7), (3, 3))
    assert watch.read(asked) == (4, expected)


def test_a_snapshot_is_asked_for_by_name():
    assert watch.read('{"op": "snapshot"}') is None


@pytest.mark.parametrize(
    "text",
    [
        "", "snapshot", "[]", "{}", said(number=-1), said(number=1 << 32), said(detail="racks"),
        said(gpus=[1]), said(gpus=[2, 1]), said(gpus=[1, 9, 5, 12]), said(gpus=[1 << 32, 1 << 33]),
        said(gpus=list(range(5_000))), said(fields=["HEADROOM"] * 50), said(closer="all"),
    ],
)  # fmt: skip
def test_nonsense_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        watch.read(text)


@pytest.mark.parametrize(
    ("ranges", "inside"),
    [((), ()), ((5, 6), (5, 6)), ((0, 3, 7, 10_000), (3, 7, 900)), ((4, 4), ()), ((8, 899), ())],
)
def test_ranges_hold_their_ends(ranges, inside):
    assert tuple(IDS[watch.within(IDS, ranges)].tolist()) == inside
