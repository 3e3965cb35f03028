from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from django.db import IntegrityError, OperationalError

from agents.wire.limits import MAX_DATA_BYTES, MAX_EVENTS_PER_BATCH
from agents.wire.messages import Event, EventBatch
from agents.wire.names import EventKind
from console.errors import Invalid, Refused
from console.inventory.models import Node
from console.telemetry import events
from console.telemetry.models import NodeEvent
from tests.console.telemetry import cast

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def event(seq: int, kind: EventKind = EventKind.FROZEN, **facts) -> Event:
    given = {"event_id": str(uuid4()), "at": NOW.timestamp(), "gpu_index": 0, **facts}
    return Event(seq=seq, kind=kind, **given)


def persist(node: Node, *batch: Event) -> int:
    return cast.persist(node, EventBatch(batch), NOW)


def nested(depth: int) -> list[object]:
    inner: list[object] = []
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.fixture
def node() -> Node:
    return cast.node()


@pytest.fixture
def acted(monkeypatch) -> list[int]:
    """The events that were handed on, by number."""
    seen: list[int] = []
    monkeypatch.setattr(
        events, "HANDLERS", {EventKind.PLACEMENT_ENDED: lambda _n, e, _t: seen.append(e.seq)}
    )
    return seen


def test_an_event_names_its_gpu_and_keeps_its_time(node):
    persist(node, event(1, at=1_700_000_000.5))
    (row,) = NodeEvent.objects.all()
    assert row.gpu == node.gpus.get(index=0)
    assert row.at == datetime(2023, 11, 14, 22, 13, 20, 500_000, UTC)


def test_events_are_acted_on_once_and_in_order(node, acted):
    ended = EventKind.PLACEMENT_ENDED
    batch = [event(3, ended), event(1, ended), event(2, ended)]
    assert persist(node, *batch) == 3
    assert persist(node, *batch, event(4, ended)) == 4
    assert acted == [1, 2, 3, 4]


def test_an_event_sent_under_a_new_number_is_not_acted_on_twice(node, acted):
    same = str(uuid4())
    persist(node, event(1, EventKind.PLACEMENT_ENDED, event_id=same))
    persist(node, event(2, EventKind.PLACEMENT_ENDED, event_id=same))
    assert acted == [1]


@pytest.mark.parametrize("error", [Refused("no"), KeyError("reason"), IntegrityError("dup")])
def test_an_event_that_cannot_be_acted_on_holds_nothing_up(node, monkeypatch, error):
    def fail(node, event, now):
        raise error

    monkeypatch.setattr(events, "HANDLERS", {EventKind.PLACEMENT_ENDED: fail})
    assert persist(node, event(1, EventKind.PLACEMENT_ENDED), event(2)) == 2
    first, _ = NodeEvent.objects.order_by("seq")
    assert type(error).__name__ in first.data["not_acted_on"]


def test_a_database_that_does_not_answer_loses_nothing(node, monkeypatch):
    def fail(node, event, now):
        raise OperationalError("server closed the connection")

    monkeypatch.setattr(events, "HANDLERS", {EventKind.PLACEMENT_ENDED: fail})
    with pytest.raises(OperationalError):
        persist(node, event(1), event(2, EventKind.PLACEMENT_ENDED))
    node.refresh_from_db()
    assert node.acked_event_seq == 1
    assert [row.seq for row in NodeEvent.objects.all()] == [1]


@pytest.mark.parametrize(
    "data",
    [
        {"text": "with \x00 NUL"},
        {"value": float("nan")},
        {"raw": b"\xff\xfe"},
        {"many": "x" * (MAX_DATA_BYTES + 1)},
        {1: {2: "numbers as keys"}},
        {"name": "the text \\u0000 is no NUL"},
        {"deep": nested(400)},
        {"deep": nested(100_000)},
    ],
)
def test_whatever_stands_in_the_data_can_be_stored(node, data):
    assert persist(node, event(1, data=data)) == 1
    stored = json.dumps(NodeEvent.objects.get().data)
    assert "NaN" not in stored
    assert "\x00" not in str(NodeEvent.objects.get().data)
    assert len(stored) <= MAX_DATA_BYTES


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1.0, 0.0, NOW.timestamp() + 86_400])
def test_a_time_that_cannot_be_is_ours(node, at):
    persist(node, event(1, at=at))
    assert NodeEvent.objects.get().at == NOW


def test_whoever_acts_on_an_event_is_told_a_time_that_can_be(node, monkeypatch):
    told: list[float] = []
    monkeypatch.setattr(events, "HANDLERS", {EventKind.FROZEN: lambda _n, e, _t: told.append(e.at)})
    persist(node, event(1, at=float("nan")))
    assert told == [NOW.timestamp()]


def test_an_event_without_a_valid_id_is_dropped_and_acknowledged(node):
    assert persist(node, event(1, event_id="not a UUID"), event(2)) == 2
    assert NodeEvent.objects.count() == 1


def test_a_number_beyond_all_reason_is_not_acknowledged(node):
    assert persist(node, event(1), event(1 << 62)) == 1


def test_too_many_at_once_are_refused(node):
    with pytest.raises(Invalid, match="limit"):
        persist(node, *[event(seq) for seq in range(1, MAX_EVENTS_PER_BATCH + 2)])


def test_pages_are_told_which_gpu_it_was(node, quiet_bells, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        persist(node, event(1))
    gpu = node.gpus.get(index=0)
    assert json.loads(quiet_bells[0]) == {"op": "gpu", "gpu": gpu.pk, "kind": "frozen"}
