from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.wire.names import GPU_STATES, GpuState, Signal
from console.telemetry import latest
from console.telemetry.latest import MISSING, Field, Flag, Grid, Look
from tests.console.telemetry.fleet import CARD_BYTES, GIB, NOW, facts, grid, row

IDLE = {"online_processes": 0, "offline_processes": 0}
BLIND = {"sm_activity": None, "headroom_percent": None}


@pytest.mark.parametrize(
    ("values", "age_s", "look"),
    [
        ({}, 0, Look.OK),
        ({"sm_activity": 0}, 0, Look.ZERO),
        (IDLE, 0, Look.IDLE),
        ({**IDLE, "sm_activity": 0}, 0, Look.IDLE),
        ({**IDLE, "online_processes": None, "sm_activity": 0}, 0, Look.ZERO),
        (BLIND, 0, Look.UNSUPPORTED),
        ({}, 5.0, Look.OK),
        ({}, 5.1, Look.STALE),
        (BLIND, 5.1, Look.STALE),
        ({}, 30.1, Look.UNREACHABLE),
    ],
)
def test_each_look_has_one_cause(values, age_s, look):
    assert latest.looks(grid(values), NOW + age_s) == [look]


def test_a_gpu_that_was_never_seen_is_unreachable_not_zero():
    cell = latest.cells(Grid(facts(1)), NOW)[0]
    assert cell[Field.LOOK] == Look.UNREACHABLE
    assert set(cell[Field.SM_ACTIVITY : Field.FLAGS]) == {MISSING}


def test_a_lost_node_is_unreachable_however_fresh_its_last_sample():
    lost = grid({}, {}, lost=np.array([True, False]))
    assert latest.looks(lost, NOW).tolist() == [Look.UNREACHABLE, Look.OK]


def test_an_imported_gpu_is_unsupported_not_unreachable():
    imported = Grid(facts(1, agent=np.array([False])))
    assert latest.looks(imported, NOW) == [Look.UNSUPPORTED]


def test_a_cell_holds_percent_of_card_limit_and_slo():
    cell = latest.cells(grid({}), NOW)[0]
    assert cell[Field.MEMORY] == 100  # 40 of 80 GiB in steps of 0.5 %
    assert cell[Field.POWER] == 150  # 300 of 400 W
    assert cell[Field.P99] == 75  # 30 of 40 ms in steps of 1 %
    assert cell[Field.STATE] == GPU_STATES.index(GpuState.HEALTHY)


def test_without_an_slo_the_ratio_is_missing():
    unknown = grid({}, slo_p99_ms=np.array([np.nan], np.float32))
    assert latest.cells(unknown, NOW)[0, Field.P99] == MISSING


def test_flags_tell_online_offline_mode_and_hardware():
    watched = grid(
        {"offline_processes": 0}, {}, {}, enforce=np.array([False, True, False]),
        by_person=np.array([False, False, True]),
    )  # fmt: skip
    watched.state[:] = GPU_STATES.index(GpuState.DISABLED)
    assert latest.cells(watched, NOW)[:, Field.FLAGS].tolist() == [
        Flag.ONLINE | Flag.HARDWARE,
        Flag.ONLINE | Flag.OFFLINE | Flag.ENFORCE | Flag.HARDWARE,
        Flag.ONLINE | Flag.OFFLINE,
    ]


def test_a_missing_common_signal_marks_the_gpu_as_degraded():
    cells = latest.cells(grid({"gpu_util": None}, {}), NOW)
    assert [bool(flags & Flag.DEGRADED) for flags in cells[:, Field.FLAGS]] == [True, False]


@given(st.one_of(st.just(float("nan")), st.floats(-1e4, 1e4)))
def test_only_missing_is_missing_and_only_zero_is_zero(value):
    (step,) = latest.quantise(np.array([value], np.float32), 0.5).tolist()
    assert (step == MISSING) == np.isnan(value)
    assert (step == 0) == (np.float32(value) <= 0)


@given(st.floats(0.5, 127))
def test_a_quantised_value_is_within_half_a_step(value):
    (step,) = latest.quantise(np.array([value], np.float32), 0.5).tolist()
    assert abs(step * 0.5 - value) <= 0.26


def test_merging_takes_newer_samples_of_known_gpus_only():
    mine = grid({"sm_activity": 10}, {"sm_activity": 20})
    ids = np.array([11, 12, 99], np.uint32)
    at = np.array([NOW + 1, NOW - 1, NOW + 1])
    values = np.stack([row(sm_activity=70)] * 3)
    mine.merge(ids, at, np.zeros(3, np.uint8), values)
    assert mine.column(Signal.SM_ACTIVITY).tolist() == [70, 20]
    assert mine.local.tolist() == [False, True]


def test_samples_survive_a_new_layout():
    old = grid({"sm_activity": 10}, {"sm_activity": 20})
    fresh = old.adopt(facts(3, first_id=12))
    assert fresh.column(Signal.SM_ACTIVITY)[0] == 20
    assert fresh.at.tolist() == [NOW, 0, 0]


def test_a_live_gpu_keeps_missing_apart_from_zero():
    known = grid({"sm_activity": None, "online_qps": 0.0})
    told = latest.live(11, NOW, 1, known.values[0], CARD_BYTES, NOW + 2)
    assert told.sm_activity_percent is None
    assert told.online_qps == 0.0
    assert told.memory_percent == 50.0
    assert told.memory_bytes == 40 * GIB
    assert (told.state, told.age_s, told.is_live) == (GpuState.HEALTHY, 2.0, True)
