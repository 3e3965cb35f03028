"""The form: from a body to fields and back, with what a person may type."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agents.wire.names import Origin, Signal
from console.errors import Invalid
from console.policies import form, rules, words

BALANCED = rules.PRESETS["balanced"]


def posted(body: rules.PolicyBody = BALANCED, typed: dict[str, str] | None = None):
    """What a browser sends when nothing but `typed` was changed."""
    built = form.build(body, body)
    rows: list[Any] = [*built.thresholds, *built.lanes]
    fields = [field for row in rows for field in row.fields]
    sent = {field.path: field.value for field in (*fields, *built.scalars, *built.placing)}
    return sent | (typed or {})


@pytest.mark.parametrize("name", rules.PRESETS)
def test_a_form_sent_back_untouched_changes_nothing(name):
    body = rules.PRESETS[name]
    assert rules.diff(body, form.read(posted(body), body)) == []


def test_one_value_typed_changes_one_value():
    typed = {"thresholds.memory.upper": " 99.5 "}
    (change,) = rules.diff(BALANCED, form.read(posted(typed=typed), BALANCED))
    assert (change.field, change.new) == ("thresholds.memory.upper", 99.5)


def test_the_latency_limit_is_typed_in_percent_of_the_slo():
    typed = {"thresholds.online_p99.upper": "175"}
    body = form.read(posted(typed=typed), BALANCED)
    assert body.thresholds[Signal.ONLINE_P99].upper == 1.75


def test_an_empty_budget_is_no_limit():
    body = form.read(posted(typed={"lanes.slo.budget_per_hour": ""}), BALANCED)
    assert body.lane(Origin.SLO).budget_per_hour is None


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        ("grace_s", "", "write a number"),
        ("grace_s", "soon", "write a number"),
        ("grace_s", "nan", "write a number"),
        ("grace_s", "1e999", "write a number"),
        ("grace_s", "-1", "must be from 1 to 3600 s"),
        ("lanes.slo.budget_per_hour", "1.5", "whole number"),
        ("restarts_per_hour", "1.5", "whole number"),
        ("restarts_per_hour", "", "write a number"),
        ("thresholds.memory.upper", "101", "must be from 1 to 100 %"),
    ],
)
def test_what_does_not_fit_is_said_at_its_field(path, text, says):
    with pytest.raises(Invalid) as raised:
        form.read(posted(typed={path: text}), BALANCED)
    assert says in raised.value.fields[path]


def test_a_lane_that_no_list_offers_is_refused():
    with pytest.raises(Invalid):
        form.read(posted(typed={"lanes.slo.mode": "dice"}), BALANCED)


def test_fields_that_a_policy_does_not_have_are_not_taken():
    body = form.read(posted(typed={"thresholds.luck.upper": "1", "rm": "-rf"}), BALANCED)
    assert body == BALANCED


def test_what_was_typed_stands_in_the_form_beside_its_error():
    typed = {"grace_s": "soon"}
    built = form.build(BALANCED, BALANCED, typed, {"grace_s": "write a number"})
    (grace,) = [field for field in built.scalars if field.path == "grace_s"]
    assert (grace.value, grace.was, grace.error) == ("soon", "30", "write a number")
    assert grace.changed


def test_every_field_has_words_bounds_and_a_text():
    for path, value in rules.flat(BALANCED).items():
        assert words.label(path)
        assert words.shown(path, value) not in ("", "none")


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("thresholds.memory.upper", 91.0, "91 %"),
        ("thresholds.online_p99.upper", 1.5, "150 %"),
        ("thresholds.memory.required", True, "yes"),
        ("lanes.move.deadline_s", 90.0, "90 s"),
        ("lanes.move.budget_per_hour", None, "no limit"),
        ("lanes.move.default", "keep", "it is dropped"),
        ("move_min_gain", 0.05, "0.05 GPU"),
        ("thresholds.power.upper", None, "none"),
    ],
)
def test_values_read_as_people_say_them(path, value, text):
    assert " ".join(words.shown(path, value).split()) == text


def test_every_threshold_of_every_preset_lies_on_the_axis_of_its_slider():
    for body in rules.PRESETS.values():
        for signal, threshold in body.thresholds.items():
            shown = words.SIGNALS[signal]
            for limit in (threshold.lower, threshold.upper):
                assert shown.low <= limit * shown.scale <= shown.high


def test_a_signal_that_the_policy_leaves_out_has_no_row():
    thresholds = {Signal.MEMORY: BALANCED.thresholds[Signal.MEMORY]}
    body = msgspec.structs.replace(BALANCED, thresholds=thresholds)
    assert [row.signal for row in form.build(body, body).thresholds] == [Signal.MEMORY]
