from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.duty import FALL_TIME_S, RISE_PERCENT_PER_S, next_duty, short_term
from agents.wire.names import GPU_STATES, GpuState
from agents.wire.policy import balanced, conservative

POLICY = balanced(1, 1)
HEALTHY = GpuState.HEALTHY
PERCENT = st.floats(0.0, 100.0)


def settled(share, online, state=HEALTHY, policy=POLICY):
    """Where duty comes to rest."""
    return next_duty(100.0, share, online, state, policy, dt_s=0.2)


def test_duty_is_the_share_where_the_online_side_leaves_enough():
    assert settled(share=50.0, online=20.0) == 50.0


def test_duty_is_what_the_online_side_and_the_reserve_leave():
    assert settled(share=80.0, online=40.0) == 50.0


def test_duty_falls_at_once():
    assert next_duty(90.0, 90.0, 75.0, HEALTHY, POLICY, dt_s=0.2) == 15.0


def test_duty_rises_slowly():
    assert next_duty(15.0, 90.0, 0.0, HEALTHY, POLICY, dt_s=0.2) == pytest.approx(
        15.0 + 0.2 * RISE_PERCENT_PER_S
    )


def test_duty_rises_no_faster_after_a_gap():
    assert next_duty(15.0, 90.0, 0.0, HEALTHY, POLICY, dt_s=3_600.0) <= 15.0 + RISE_PERCENT_PER_S
    assert next_duty(15.0, 90.0, 0.0, HEALTHY, POLICY, dt_s=-5.0) == 15.0


def test_an_unhealthy_gpu_lowers_duty_to_the_stated_one():
    assert settled(90.0, 0.0, GpuState.UNHEALTHY) == POLICY.duty_unhealthy_percent
    assert settled(90.0, 80.0, GpuState.UNHEALTHY) == 10.0


def test_unknown_online_activity_is_busy_and_not_zero():
    assert settled(90.0, None) == POLICY.duty_unhealthy_percent


@pytest.mark.parametrize("state", sorted(set(GPU_STATES) - {HEALTHY, GpuState.UNHEALTHY}))
def test_duty_is_at_its_floor_in_every_other_state(state):
    assert settled(90.0, 0.0, state) == POLICY.duty_floor_percent


def test_the_policy_bounds_duty():
    assert settled(100.0, 0.0, policy=conservative(1, 1)) == 80.0
    assert settled(100.0, 100.0) == POLICY.duty_floor_percent


@given(PERCENT, PERCENT, st.none() | PERCENT, st.sampled_from(GPU_STATES), st.floats(0.0, 5.0))
def test_duty_keeps_within_its_floor_and_its_maximum(current, share, online, state, dt_s):
    duty = next_duty(current, share, online, state, POLICY, dt_s)
    assert POLICY.duty_floor_percent <= duty <= POLICY.duty_max_percent


@given(PERCENT, PERCENT, PERCENT, PERCENT)
def test_more_online_activity_never_means_more_duty(current, share, one, other):
    less, more = sorted((one, other))
    calm = next_duty(current, share, less, HEALTHY, POLICY, 0.2)
    assert next_duty(current, share, more, HEALTHY, POLICY, 0.2) <= calm


def test_short_term_activity_rises_with_the_sample_and_falls_slowly():
    assert short_term(None, 30.0, 0.2) == 30.0
    assert short_term(30.0, 80.0, 0.2) == 80.0
    assert short_term(80.0, 30.0, FALL_TIME_S) == pytest.approx(30.0 + 50.0 / 2.71828, rel=1e-4)
