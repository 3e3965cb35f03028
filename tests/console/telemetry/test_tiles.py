from __future__ import annotations

import numpy as np
import pytest

from agents.wire.names import GPU_STATES, GpuState
from console.telemetry.latest import MISSING, Field, Flag, Look
from console.telemetry.tiles import Count, nodes_of, tiles
from tests.console.telemetry.scenes import cell, cells


def number(state: GpuState) -> int:
    return GPU_STATES.index(state)


def tile(*gpus: list[int]) -> np.ndarray:
    """The tile of a node with these GPUs."""
    made = tiles(cells(*gpus).T, nodes_of(np.zeros(len(gpus), np.int32), 1))
    return made[:, 0]


def test_gpus_of_a_node_need_not_stand_together():
    gpus = cells(cell(headroom=10), cell(headroom=30), cell(headroom=20), cell(headroom=40))
    made = tiles(gpus.T, nodes_of(np.array([1, 0, 1, 0], np.int32), 2))
    assert made[Field.HEADROOM].tolist() == [30, 10]


def test_where_an_end_is_a_danger_the_worst_gpu_counts_and_else_the_mean():
    made = tile(
        cell(headroom=80, memory=20, sm_activity=10), cell(headroom=9, memory=7, sm_activity=30)
    )
    assert [made[Field.HEADROOM], made[Field.MEMORY], made[Field.SM_ACTIVITY]] == [9, 20, 20]


def test_a_missing_value_takes_no_part_and_a_node_without_any_has_none():
    assert tile(cell(headroom=80), cell())[Field.HEADROOM] == 80
    assert tile(cell(sm_activity=30), cell())[Field.SM_ACTIVITY] == 30
    for field in (Field.HEADROOM, Field.MEMORY, Field.SM_ACTIVITY):
        assert tile(cell(), cell())[field] == MISSING


def test_a_silent_gpu_is_counted_and_its_last_value_is_not_shown_for_the_node():
    made = tile(cell(headroom=80), cell(Look.UNREACHABLE, headroom=2), cell(Look.STALE, headroom=3))
    assert (made[Field.LOOK], made[Field.HEADROOM]) == (Look.OK, 80)
    assert (made[Count.UNREACHABLE], made[Count.STALE], made[Count.HEALTHY]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("gpus", "look", "headroom"),
    [
        ([cell(Look.STALE, headroom=9), cell(Look.STALE, headroom=7)], Look.STALE, 7),
        ([cell(Look.STALE, headroom=9), cell(Look.UNREACHABLE)], Look.UNREACHABLE, MISSING),
        ([cell(Look.UNSUPPORTED, headroom=9)], Look.UNSUPPORTED, MISSING),
        ([cell(Look.IDLE, headroom=200), cell(Look.UNREACHABLE)], Look.IDLE, 200),
        ([cell(Look.IDLE), cell(Look.ZERO, sm_activity=0)], Look.OK, MISSING),
    ],
)
def test_the_look_says_whether_a_gpu_is_alive_and_else_why_none_is(gpus, look, headroom):
    made = tile(*gpus)
    assert (made[Field.LOOK], made[Field.HEADROOM]) == (look, headroom)


def test_only_what_is_zero_everywhere_is_zero():
    assert tile(cell(sm_activity=0), cell(sm_activity=0))[Field.SM_ACTIVITY] == 0
    assert tile(*[cell(sm_activity=0)] * 7, cell(sm_activity=1))[Field.SM_ACTIVITY] == 1


def test_the_worst_state_stands_for_the_node():
    for worse, better in (
        ("OVERLIMIT", "GUARDED"),
        ("GUARDED", "UNHEALTHY"),
        ("UNHEALTHY", "HEALTHY"),
    ):
        made = tile(*(cell(state=number(GpuState[name])) for name in (better, worse)))
        assert GPU_STATES[made[Field.STATE]] == worse
        assert (made[Count[worse]], made[Count[better]]) == (1, 1)


def test_suspect_hardware_is_worse_than_all_but_an_overload():
    suspect = cell(state=number(GpuState.DISABLED), flags=Flag.HARDWARE)
    made = tile(suspect, cell(state=number(GpuState.GUARDED)))
    assert (made[Field.FLAGS], made[Count.QUARANTINED], made[Count.DISABLED]) == (
        Flag.HARDWARE,
        1,
        0,
    )
    assert tile(suspect, cell(state=number(GpuState.OVERLIMIT)))[Field.FLAGS] == 0


def test_the_state_of_a_gpu_that_is_not_heard_is_nobodys():
    made = tile(cell(), cell(Look.STALE, state=number(GpuState.OVERLIMIT)))
    assert GPU_STATES[made[Field.STATE]] == GpuState.HEALTHY
    assert made[Count.OVERLIMIT] == 0


def test_a_fleet_without_nodes_has_no_tiles():
    assert (
        tiles(np.empty((len(Field), 0), np.uint8), nodes_of(np.array([], np.int32), 0)).shape[1]
        == 0
    )
