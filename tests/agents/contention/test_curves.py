"""Load curves are replayed as they were recorded, and a gap stays a gap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agents.contention.cluster import build_cluster
from agents.contention.curves import BIN_S, read
from agents.contention.world import World
from agents.wire.names import SIGNALS, Signal

OURS = Path(__file__).parents[3] / "docs" / "fleet-load.csv"
P99, QPS, UTIL = map(SIGNALS.index, (Signal.ONLINE_P99, Signal.ONLINE_QPS, Signal.GPU_UTIL))


def test_each_column_is_a_part_of_its_own_greatest_value():
    parts, gaps = read("bin,a,b\n1,5,200\n2,10,100\n").of(3, BIN_S)
    assert parts.tolist() == [1.0, 0.5, 1.0]
    assert not gaps.any()


def test_a_gap_is_told_and_the_load_goes_on_through_it():
    curves = read("bin,a\n1,\n2,4\n3,\n4,8\n")
    told = [curves.of(1, at * BIN_S) for at in range(5)]
    assert [float(parts[0]) for parts, _ in told] == [0.5, 0.5, 0.5, 1.0, 0.5]
    assert [bool(gaps[0]) for _, gaps in told] == [True, False, True, False, True]


def test_a_service_that_nobody_calls_or_measures_has_no_load():
    parts, gaps = read("bin,a,b,c\n1,1,0,\n2,1,0,\n").of(3, 0.0)
    assert parts.tolist() == [1.0, 0.0, 0.0]
    assert gaps.tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "two columns"),
        ("bin,a\n1,x\n", "line 2: 'x' is no load"),
        ("bin,a\n1,-1\n", "no load"),
        ("bin,a\n1,inf\n", "no load"),
        ("bin,a\n1,1\n2,1,1\n", "line 3 has 3 cells"),
    ],
)
def test_what_is_no_load_file_says_why(text, why):
    with pytest.raises(ValueError, match=why):
        read(text)


def test_a_service_in_a_gap_tells_nothing_and_works_on():
    gap_s = 97 * BIN_S
    world = World(build_cluster(4, 8, 1), 1, 1.0, read(OURS.read_text()))
    world.step(0.0)
    world.step(gap_s)
    values = world.values()
    missing = np.isnan(values[:, P99])
    served = [world.service(gpu) is not None for gpu in range(world.n_gpus)]
    assert missing[served].any()
    assert not missing[served].all()
    assert np.isnan(values[missing, QPS]).all()
    assert (values[missing & np.array(served), UTIL] > 0).all()
