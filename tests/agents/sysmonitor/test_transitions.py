from __future__ import annotations

import itertools

import pytest

from agents.sysmonitor.transitions import TRANSITIONS, IllegalTransition, Trigger, next_state
from agents.wire.names import GPU_STATES, GpuState

ILLEGAL = [pair for pair in itertools.product(GPU_STATES, Trigger) if pair not in TRANSITIONS]


@pytest.mark.parametrize(("state", "trigger"), ILLEGAL)
def test_what_the_table_does_not_hold_raises(state, trigger):
    with pytest.raises(IllegalTransition):
        next_state(state, trigger)


def test_an_illegal_transition_tells_its_story():
    with pytest.raises(IllegalTransition, match="HEALTHY → GUARDED: p99 rose"):
        next_state(GpuState.GUARDED, Trigger.RETURNED, ["HEALTHY → GUARDED: p99 rose"])


def test_overlimit_is_reached_through_guarded_alone():
    sources = {source for (source, _), target in TRANSITIONS.items() if target == "OVERLIMIT"}
    assert sources == {GpuState.GUARDED}


def test_only_a_person_leads_out_of_disabled():
    ways = {trigger for state, trigger in TRANSITIONS if state is GpuState.DISABLED}
    assert ways == {Trigger.ENABLED}


def test_any_state_can_be_disabled():
    for state in set(GPU_STATES) - {GpuState.DISABLED}:
        assert next_state(state, Trigger.PERSON) is GpuState.DISABLED
        assert next_state(state, Trigger.HARDWARE) is GpuState.DISABLED
