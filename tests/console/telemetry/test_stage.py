"""What a tab is sent, and that it is told of nothing else."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import numpy as np

from console.telemetry import stage as stage_module
from console.telemetry.frames import Detail, Kind
from console.telemetry.latest import Field, Look
from console.telemetry.stage import Shown, Stage
from console.telemetry.tiles import Count
from console.telemetry.view import EVERYTHING, Sight
from console.telemetry.watch import Watch
from tests.console.telemetry.scenes import cell, cells, layout
from tests.wire.frames import Frame, decode

HEADROOM = Watch(Detail.GPUS, frozenset({Field.HEADROOM}))
NODES = Watch(Detail.NODES, frozenset({Field.HEADROOM}))
POOL_B = frozenset({2})
ALWAYS = {Field.LOOK, Field.STATE, Field.FLAGS}


def quiet(**first: int) -> np.ndarray:
    return cells(
        cell(**{"headroom": 50, "memory": 60, **first}), *[cell(headroom=50, memory=60)] * 3
    )


def stage() -> Stage:
    return Stage(layout(), quiet(), 100)


def sent(
    stage: Stage, watch: Watch = HEADROOM, since: int | None = None, *, pools: Sight = EVERYTHING,
    number: int = 1, shown_for: int = 1,
) -> Frame | None:  # fmt: skip
    shown = None
    if since is not None and watch.detail is not None:
        shown = Shown(stage.view(pools).epoch, watch.detail, shown_for, since)
    made = stage.frame(pools, number, watch, shown)
    return made and decode(made[1])


def values(frame: Frame | None) -> dict[int, Any]:
    assert frame is not None
    return frame.columns


def test_who_watches_nothing_is_sent_nothing():
    assert sent(stage(), Watch()) is None


def test_a_tab_starts_with_all_looks_and_the_values_it_draws():
    frame = sent(stage())
    assert frame is not None
    assert (frame.kind, frame.sequence, frame.epoch) == (Kind.SNAPSHOT, 100, 5)
    assert set(frame.columns) == ALWAYS | {Field.HEADROOM}
    assert frame.columns[Field.HEADROOM] == dict.fromkeys(range(4), 50)


def test_a_delta_has_what_changed_of_what_is_watched():
    live = stage()
    live.turn(quiet(headroom=20, memory=99), 1.0)
    frame = sent(live, since=100)
    assert frame is not None
    assert (frame.kind, frame.base, frame.sequence) == (Kind.DELTA, 100, 101)
    assert frame.columns == {Field.HEADROOM: {0: 20}}


def test_a_quiet_second_still_tells_the_time():
    live = stage()
    live.turn(quiet(), 7.5)
    frame = sent(live, since=100)
    assert frame is not None
    assert (frame.columns, frame.at) == ({}, 7.5)


def test_who_has_it_all_is_sent_nothing():
    assert sent(stage(), since=100) is None


def test_a_tab_that_missed_seconds_is_sent_their_sum():
    live = stage()
    for at, headroom in enumerate((40, 30, 20)):
        live.turn(quiet(headroom=headroom), float(at))
    frame = sent(live, since=101)
    assert frame is not None
    assert (frame.base, frame.sequence) == (101, 103)
    assert frame.columns == {Field.HEADROOM: {0: 20}}


def test_a_look_outside_of_what_is_watched_is_told_all_the_same():
    live = stage()
    live.turn(cells(*quiet()[:3].tolist(), cell(Look.STALE, headroom=10)), 1.0)
    assert values(sent(live, Watch(Detail.GPUS, frozenset(), (11, 11)), 100)) == {
        Field.LOOK: {3: Look.STALE}
    }


def test_another_watch_keeps_the_looks_and_brings_its_values():
    frame = sent(stage(), Watch(Detail.GPUS, frozenset({Field.MEMORY}), (12, 13)), 100, number=2)
    assert frame is not None
    assert (frame.kind, frame.watch, frame.columns) == (
        Kind.TURN,
        2,
        {Field.MEMORY: {1: 60, 2: 60}},
    )


def test_what_is_looked_at_closer_has_all_its_values():
    frame = sent(stage(), Watch(Detail.GPUS, frozenset({Field.HEADROOM}), (11, 12), (14, 14)))
    assert set(values(frame)[Field.HEADROOM]) == {0, 1, 3}
    assert set(values(frame)[Field.MEMORY]) == set(values(frame)[Field.DUTY]) == {3}


def test_from_afar_a_row_is_a_node():
    frame = sent(stage(), NODES)
    assert frame is not None
    assert (frame.rows, frame.detail) == (2, Detail.NODES)
    assert frame.columns[Field.HEADROOM] == {0: 50, 1: 50}
    assert frame.columns[Count.HEALTHY] == {0: 2, 1: 2}


def test_nodes_follow_their_gpus():
    live = stage()
    sent(live, NODES)
    live.turn(quiet(headroom=20), 1.0)
    assert values(sent(live, NODES, 100)) == {Field.HEADROOM: {0: 20}}


def test_another_detail_starts_over():
    live = stage()
    made = live.frame(EVERYTHING, 2, NODES, Shown(5, Detail.GPUS, 1, 100))
    assert made is not None
    assert made[0] is Kind.SNAPSHOT


def test_a_person_is_told_of_their_pools_alone():
    live = stage()
    assert values(sent(live, pools=POOL_B))[Field.HEADROOM] == {0: 50, 1: 50}
    live.turn(quiet(headroom=20), 1.0)
    assert values(sent(live, since=100, pools=POOL_B)) == {}
    assert values(sent(live, NODES, pools=POOL_B))[Field.HEADROOM] == {0: 50}


def test_tabs_that_watch_the_same_are_encoded_for_once(monkeypatch):
    live, encode = stage(), Mock(wraps=stage_module.frames.encode)
    monkeypatch.setattr(stage_module.frames, "encode", encode)
    assert all(sent(live, number=number) for number in range(50))
    assert encode.call_count == 1
