from __future__ import annotations

from dataclasses import replace

import pytest

from agents.actuators import reins
from agents.control_block import Limits, Mode
from agents.wire.names import Checkpoint
from tests.agents.cast import PLACEMENT_ID, placement

RUNNING = Limits(mode=Mode.RUN)


def test_a_new_job_starts_at_the_floor_within_its_quota():
    limits = reins.first(placement(), grace_s=20.0)

    assert limits.duty_permille == limits.floor_duty_permille
    assert limits.memory_quota_bytes == placement().memory_quota_bytes


def test_what_may_wait_on_the_device_is_the_nodes_to_say_and_lasts():
    limits = reins.first(placement(), 20.0, inflight_cap=1)

    changed = reins.with_duty(reins.thawed(reins.frozen(limits), told=False), 40.0, told=False)

    assert reins.for_each(changed, 2).inflight_cap == 1
    assert reins.after(placement(), 20.0, Limits(), inflight_cap=3).inflight_cap == 3
    assert reins.first(placement(), 20.0).inflight_cap is None


def test_a_job_that_saves_nothing_gets_no_window():
    assert reins.first(placement(checkpoint=Checkpoint.NONE), grace_s=20.0).grace_ms == 0
    assert reins.with_grace(RUNNING, 0.0).grace_ms == 0


def test_the_agent_shuts_a_window_before_the_process_does():
    assert reins.with_grace(RUNNING, 5.0).grace_ms > 5_000


@pytest.mark.parametrize("change", [reins.frozen, lambda limits: reins.thawed(limits, told=True)])
def test_a_job_that_was_told_to_leave_leaves(change):
    gated = reins.leaving(RUNNING)

    assert change(gated).mode is Mode.EXIT


def test_a_thaw_gives_a_job_that_must_stop_its_window_and_no_more():
    frozen = reins.frozen(RUNNING)

    assert reins.thawed(frozen, told=False) == RUNNING
    window = reins.thawed(frozen, told=True)
    assert (window.mode, window.window_open) == (Mode.FREEZE, True)
    assert not reins.is_frozen(window)
    assert reins.is_frozen(reins.frozen(window))


def test_duty_is_held_within_what_a_process_takes_for_sense():
    assert reins.with_duty(RUNNING, 0.0, told=False).duty_permille == 1
    assert reins.with_duty(RUNNING, 250.0, told=False).duty_permille == 1_000
    assert reins.with_duty(RUNNING, 37.0, told=False).floor_duty_permille == 50
    assert reins.with_duty(RUNNING, 7.0, told=True).floor_duty_permille == 70


def test_two_processes_share_what_one_would_get():
    limits = replace(RUNNING, duty_permille=400, memory_quota_bytes=1 << 30)

    each = reins.for_each(limits, 2)

    assert (each.duty_permille, each.memory_quota_bytes) == (200, 1 << 30)
    assert reins.for_each(limits, 0) == reins.for_each(limits, 1) == limits
    assert reins.for_each(replace(limits, duty_permille=3), 64).duty_permille == 1


def test_an_adopted_job_stays_as_it_was_held():
    kept = replace(RUNNING, mode=Mode.FREEZE, window_open=True, grace_ms=700, duty_permille=900)

    limits = reins.after(placement(), 20.0, kept)

    assert (limits.mode, limits.window_open, limits.grace_ms) == (Mode.FREEZE, True, 700)
    assert limits.duty_permille == limits.floor_duty_permille


def test_every_placement_has_a_generation_that_a_block_can_hold():
    assert 0 < reins.generation_of(PLACEMENT_ID) < 1 << 64
