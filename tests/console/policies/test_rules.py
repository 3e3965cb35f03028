"""What a policy may say."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from agents.wire.names import Origin, Signal
from agents.wire.policy import Threshold
from console.errors import Invalid
from console.policies import rules
from console.policies.rules import Default, Lane, Mode

BALANCED = rules.PRESETS["balanced"]


def with_threshold(signal: Signal, *numbers: Any) -> rules.PolicyBody:
    thresholds = BALANCED.thresholds | {signal: Threshold(*numbers)}
    return msgspec.structs.replace(BALANCED, thresholds=thresholds)


def replaced(**changes) -> rules.PolicyBody:
    return msgspec.structs.replace(BALANCED, **changes)


@pytest.mark.parametrize("demo", [False, True])
@pytest.mark.parametrize("name", rules.PRESETS)
def test_every_preset_is_valid(name, demo):
    assert rules.check(rules.presets(demo)[name]) == {}


@pytest.mark.parametrize("name", rules.PRESETS)
def test_a_body_survives_the_database(name):
    body = rules.PRESETS[name]
    stored = msgspec.json.decode(msgspec.json.encode(rules.to_json(body)))
    assert rules.parse(stored) == body


def test_conservative_evicts_before_aggressive():
    for signal, early in rules.PRESETS["conservative"].thresholds.items():
        late = rules.PRESETS["aggressive"].thresholds[signal]
        assert early.upper > late.upper if signal in rules.REVERSED else early.upper < late.upper


@pytest.mark.parametrize(
    ("signal", "numbers", "field"),
    [
        (Signal.MEMORY, (90, 80), "upper"),
        (Signal.MEMORY, (90, 90), "upper"),
        (Signal.MEMORY, (90, 101), "upper"),
        (Signal.MEMORY, (-1, 90), "lower"),
        (Signal.MEMORY, (math.nan, 90), "lower"),
        (Signal.MEMORY, (80, math.inf), "upper"),
        (Signal.TEMPERATURE, (80, 140), "upper"),
        (Signal.ONLINE_P99, (1.5, 1.0), "upper"),
        (Signal.SM_CLOCK, (60, 80), "upper"),
        (Signal.MEMORY, (80, 90, -1), "lower_dwell_s"),
        (Signal.MEMORY, (80, 90, 3, 2.9), "upper_dwell_s"),
        (Signal.MEMORY, (80, 90, 3, 601), "upper_dwell_s"),
    ],
)
def test_a_threshold_that_does_not_fit_names_its_field(signal, numbers, field):
    errors = rules.check(with_threshold(signal, *numbers))
    assert list(errors) == [f"thresholds.{signal}.{field}"]


def test_for_the_clock_a_low_value_is_the_bad_one():
    assert rules.check(with_threshold(Signal.SM_CLOCK, 80, 60)) == {}


def test_a_fault_code_has_no_threshold():
    assert "thresholds.xid" in rules.check(with_threshold(Signal.XID, 1, 2))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"duty_floor_percent": 50.0}, "duty_floor_percent"),
        ({"duty_max_percent": 30.0}, "duty_unhealthy_percent"),
        ({"cooldown_s": 4_000.0}, "cooldown_s"),
        ({"grace_s": 0.0}, "grace_s"),
        ({"memory_reserve_percent": 51.0}, "memory_reserve_percent"),
        ({"move_min_gain": math.nan}, "move_min_gain"),
    ],
)
def test_a_number_that_does_not_fit_names_its_field(changes, field):
    assert list(rules.check(replaced(**changes))) == [field]


def test_a_lane_is_checked():
    lanes = BALANCED.lanes | {Origin.MOVE: Lane(Mode.PERSON, -1, 1.0)}
    errors = rules.check(replaced(lanes=lanes))
    assert list(errors) == ["lanes.move.budget_per_hour", "lanes.move.deadline_s"]


@pytest.mark.parametrize("origin", [Origin.EMERGENCY, Origin.OVERLOAD])
def test_no_lane_can_delay_what_the_node_decides(origin):
    lanes = BALANCED.lanes | {origin: Lane(Mode.PERSON)}
    assert f"lanes.{origin}" in rules.check(replaced(lanes=lanes))
    assert BALANCED.lane(origin) == Lane(Mode.AUTOMATIC, undo_s=0)


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ({}, "thresholds"),
        ({"thresholds": {"memory": {"lower": "x", "upper": 1}}}, "$.thresholds[...].lower"),
        ({"thresholds": {"luck": {"lower": 1, "upper": 2}}}, "$.thresholds"),
        ({"thresholds": {}, "surprise": 1}, "surprise"),
        ({"thresholds": {}, "lanes": {"move": {"mode": "dice"}}}, "$.lanes[...].mode"),
    ],
)
def test_json_that_is_no_policy_is_refused_with_its_place(raw, place):
    with pytest.raises(Invalid) as raised:
        rules.parse(raw)
    assert place in raised.value.fields["body"]


def test_a_version_saved_before_a_field_was_known_takes_its_default():
    stored = rules.to_json(BALANCED)
    del stored["restarts_per_hour"]
    assert rules.parse(stored) == BALANCED


def test_parse_refuses_what_check_finds():
    raw = rules.to_json(replaced(grace_s=0.0))
    with pytest.raises(Invalid) as raised:
        rules.parse(raw)
    assert raised.value.fields == {"grace_s": "must be from 1 to 3600 s"}


def test_a_diff_lists_what_changed_and_nothing_else():
    memory = BALANCED.thresholds[Signal.MEMORY]
    thresholds = BALANCED.thresholds | {Signal.MEMORY: msgspec.structs.replace(memory, upper=99.0)}
    new = replaced(
        thresholds=thresholds,
        lanes=BALANCED.lanes | {Origin.MOVE: Lane(Mode.PERSON, 6, 600.0, Default.KEEP)},
    )
    assert rules.diff(BALANCED, new) == [
        ("thresholds.memory.upper", memory.upper, 99.0),
        ("lanes.move.deadline_s", 1_800.0, 600.0),
    ]


def test_a_diff_shows_what_came_and_went():
    thresholds = dict(BALANCED.thresholds)
    del thresholds[Signal.POWER]
    changes = rules.diff(BALANCED, replaced(thresholds=thresholds))
    assert "thresholds.power.upper" in {change.field for change in changes}
    assert all(change.new is None for change in changes)


def test_the_node_gets_every_field_it_needs():
    policy = rules.to_agent_policy(7, 3, "balanced", BALANCED)
    assert (policy.policy_id, policy.version, policy.name) == (7, 3, "balanced")
    assert policy.thresholds == BALANCED.thresholds
    assert policy.grace_s == BALANCED.grace_s


def test_the_demo_waits_for_seconds_and_keeps_the_limits():
    body = rules.presets(demo=True)["balanced"]
    for signal, threshold in body.thresholds.items():
        usual = BALANCED.thresholds[signal]
        assert (threshold.lower, threshold.upper) == (usual.lower, usual.upper)
        assert threshold.upper_dwell_s == 3.0
    assert body.grace_s == 8.0
    assert body.lane(Origin.MOVE).deadline_s == 180.0
    assert body.lane(Origin.MOVE).default is Default.KEEP
    assert body.restarts_per_hour == 60 * BALANCED.restarts_per_hour
