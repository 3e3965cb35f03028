"""The states of a node: every pair of state and event."""

from __future__ import annotations

import itertools

import pytest

from console.inventory import lifecycle
from console.inventory.lifecycle import Event
from console.inventory.models import Node

STATES = [state.value for state in Node.State]


def test_the_table_knows_the_states_of_the_model_and_no_others():
    named = {state for state, _ in lifecycle.TRANSITIONS} | set(lifecycle.TRANSITIONS.values())
    assert named == set(STATES)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(STATES, Event)))
def test_before_tells_exactly_the_states_that_an_event_changes(state, event):
    after = lifecycle.TRANSITIONS.get((state, event))
    assert (state in lifecycle.before(event)) == (after not in (None, state))


def test_silence_alone_never_loses_a_node_at_once():
    assert (lifecycle.CONNECTED, Event.GONE) not in lifecycle.TRANSITIONS
