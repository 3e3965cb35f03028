"""What is known of a moment, and what a replay says where nothing is. No database."""

from __future__ import annotations

import pytest

from console.policies import rules
from console.replay import honesty, tracks
from console.replay.footage import Footage, Reading, Recording, assemble
from console.replay.honesty import Silences
from console.replay.pins import Stay, stays
from console.replay.rules_then import Saved, in_force
from console.telemetry.scales import Card

P99 = tracks.TRACKS[0]
T = 1_764_460_800.0


def recording(source: str, period_s: int, values: dict[float, float]) -> Recording:
    points = [(at, {P99.name: Reading(v, v, v + 1)}) for at, v in values.items()]
    return Recording(source, period_s, points)


def seconds(first: int, last: int, value: float = 30.0) -> dict[float, float]:
    return {float(at): value for at in range(first, last)}


def p99(footage: Footage, at: float) -> float | None:
    one = footage.at(at).get(P99.name)
    return one.last if one else None


def test_a_pause_is_a_gap_and_never_the_value_before_it_nor_zero():
    footage = assemble([recording("a", 1, seconds(0, 10) | seconds(20, 30))], 0, 30)
    assert [p99(footage, at) for at in (9, 15, 20)] == [30.0, None, 30.0]
    assert [(gap.start, gap.end) for gap in footage.gaps] == [(10, 20)]
    drawn = tracks.data(footage, [P99], [])["tracks"][0]["values"]
    assert drawn.count(None) == 1
    assert 0 not in drawn


def test_what_was_recorded_more_finely_counts():
    coarse = recording("history", 10, {float(at): 1.0 for at in range(0, 60, 10)})
    footage = assemble([coarse, recording("event", 1, seconds(20, 40, 9.0))], 0, 60)
    assert [p99(footage, at) for at in (15, 25, 39, 45)] == [1.0, 9.0, 9.0, 1.0]
    assert footage.sources == [("history", 10), ("event", 1)]


def test_where_the_clock_of_the_node_was_off_it_says_so():
    off, good = (Reading(flag, flag, flag) for flag in (1, 0))
    points = [(at, {"by_receipt": off if 10 <= at < 20 else good}) for at in range(40)]
    (sentence,) = honesty.clocks(assemble([Recording("the history", 1, points)], 0, 40))
    assert sentence.startswith("Times from 00:00:10 to 00:00:20 are those of receipt")
    assert honesty.clocks(assemble([recording("a", 1, seconds(0, 9))], 0, 40)) == []


def test_of_an_empty_recording_everything_is_missing():
    footage = assemble([Recording("a", 1, [(5.0, {})])], 0, 600)
    assert p99(footage, 5) is None
    assert [(gap.start, gap.end) for gap in footage.gaps] == [(0, 600)]
    assert honesty.resolution(footage) == "nothing was recorded"


@pytest.mark.parametrize(
    ("now", "has_agent", "why"),
    [
        (T + 650, True, "written as they end"),
        (T + 3_600, True, "did not hear the node"),
        (T + 3 * 86_400, True, "kept for two days"),
        (T + 3_600, False, "imported"),
    ],
)
def test_a_replay_says_why_something_is_missing(now, has_agent, why):
    footage = assemble([], T, T + 600)
    (sentence,) = honesty.missing(footage, Silences(now, has_agent))
    assert why in sentence
    assert "10\xa0min" in sentence


def body(upper: float):
    preset = rules.presets(False)["balanced"]
    return rules.parse(
        rules.to_json(preset)
        | {"thresholds": {"online_p99": {"lower": 1.0, "upper": upper, "dwell_s": 1.0}}}
    )


def test_limits_are_those_of_the_version_that_was_in_force():
    saved = [Saved(0, "Balanced v1", body(1.5)), Saved(100, "Balanced v2", body(2.0))]
    forces = in_force(saved, Card(1 << 30, None, None, 40.0), 50, 150)
    assert [(one.start, one.end, one.name) for one in forces] == [
        (50, 100, "Balanced v1"), (100, 150, "Balanced v2"),
    ]  # fmt: skip
    row = {P99.name: Reading(50, 45, 70)}
    before, after = (tracks.reading(P99, row, forces, at) for at in (99, 100))
    assert (before.evict_at, before.over, before.worst) == (60, True, 70)
    assert (after.evict_at, after.over) == (80, False)


def test_before_the_first_version_no_limit_is_told():
    forces = in_force([Saved(100, "Balanced v1", body(1.5))], Card(1, None, None, 40.0), 0, 90)
    assert forces == []
    assert "no limits" in honesty.policy(forces)


def test_a_state_is_known_from_the_transitions_alone():
    told = [(10.0, "INIT", "HEALTHY"), (40.0, "HEALTHY", "GUARDED")]
    assert stays(told, 0, 60) == [
        Stay(0, 10, ""), Stay(10, 40, "HEALTHY"), Stay(40, 60, "GUARDED"),
    ]  # fmt: skip
    assert stays(told[:1], 20, 60) == [Stay(20, 60, "HEALTHY")]
    assert stays([], 0, 60) == [Stay(0, 60, "")]
