"""Turning sharing on: said before, done once, recorded."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agents.wire.names import SharingMode
from console import doorbell
from console.audit.models import Entry
from console.audit.services import system
from console.errors import Refused, SomebodyWasFirst
from console.inventory import bell, sharing
from console.inventory.models import Gpu, Node, SharingChange
from console.telemetry.models import FleetSample
from tests.console.inventory.cast import NOW, a_node

pytestmark = pytest.mark.django_db
SOMEBODY = system("test")


def start(*pools):
    return sharing.start(pools, SOMEBODY, "day 8", NOW)


def sharing_count() -> int:
    gpus = Gpu.objects.select_related("node__pool")
    return sum(sharing.effective_mode(gpu) == SharingMode.ENFORCE for gpu in gpus)


def test_starting_raises_the_pool_and_its_gpus_and_keeps_the_holdback():
    pool = a_node(gpus=8).pool
    start(pool)
    assert (pool.sharing_mode, sharing_count()) == (SharingMode.ENFORCE, 7)
    assert Gpu.objects.get(holdback=True).sharing_mode == SharingMode.OBSERVE


def test_the_preview_says_exactly_what_starting_then_does():
    node = a_node(gpus=8)
    node.gpus.filter(index=0).update(unshareable_fact="online process 4711 is no MPS client")
    node.gpus.filter(index=1).update(conflict=True)
    (plan,) = sharing.preview_start([node.pool])
    assert plan.gpus == 8
    assert {forbidden.fact for forbidden in plan.forbidden} >= {
        "online process 4711 is no MPS client",
        "another node claims the same UUID",
    }
    start(node.pool)
    assert sharing_count() == len(plan.starting)


def test_a_preview_changes_nothing():
    pool = a_node(gpus=8).pool
    before = list(Gpu.objects.values())
    sharing.preview_start([pool])
    sharing.preview_stop([pool])
    assert list(Gpu.objects.values()) == before


def test_two_people_press_start_and_one_change_is_written():
    pool = a_node(gpus=8).pool
    same = type(pool).objects.get(pk=pool.pk)
    start(pool)
    with pytest.raises(SomebodyWasFirst):
        start(same)
    assert SharingChange.objects.count() == 1


def test_a_gpu_that_joins_later_is_raised_by_starting_again():
    pool = a_node(gpus=8).pool
    start(pool)
    held = set(Gpu.objects.filter(holdback=True).values_list("pk", flat=True))
    a_node("node-02", gpus=2)
    start(pool)
    assert sharing_count() == 9
    assert set(Gpu.objects.filter(holdback=True).values_list("pk", flat=True)) == held


def test_a_gpu_that_a_person_switched_off_stays_off():
    node = a_node(gpus=2)
    node.gpus.filter(index=0).update(sharing_mode=SharingMode.OFF)
    start(node.pool)
    assert node.gpus.get(index=0).sharing_mode == SharingMode.OFF


def test_a_pool_of_imported_nodes_cannot_start_and_says_why():
    pool = a_node(source=Node.Source.IMPORTED, gpus=2).pool
    with pytest.raises(Refused, match="no agent on the node yet"):
        start(pool)


def test_starting_wakes_the_nodes_and_asks_for_a_round(
    monkeypatch, django_capture_on_commit_callbacks
):
    rung = []
    monkeypatch.setattr(doorbell, "ringer", lambda name, id: rung.append(name))
    monkeypatch.setattr(bell, "publisher", rung.append)
    node = a_node(gpus=1)
    with django_capture_on_commit_callbacks(execute=True):
        start(node.pool)
    assert rung == [[node.pk], doorbell.RUN_ROUND]


def test_the_change_keeps_who_when_why_and_the_week_before():
    pool = a_node(gpus=8).pool
    for day, activity in ((8, 99.0), (2, 10.0), (1, 30.0)):
        FleetSample.objects.create(
            at=NOW - timedelta(days=day),
            pool=pool,
            gpus=8,
            reporting=8,
            sm_activity_percent=activity,
        )
    (change,) = start(pool)
    assert (change.actor, change.reason, change.before) == ("system:test", "day 8", "observe")
    assert change.baseline["samples"] == 2
    assert change.baseline["sm_activity_percent"] == 20
    assert change.baseline["memory_percent"] is None
    assert Entry.objects.get(action="sharing.enforce").reason == "day 8"


def test_a_fact_keeps_a_named_gpu_from_enforce():
    node = a_node(gpus=1)
    node.gpus.update(conflict=True)
    with pytest.raises(Refused, match="same UUID"):
        sharing.set_mode(node.gpus.get(), SharingMode.ENFORCE, SOMEBODY, "", NOW)


def test_a_gpu_at_enforce_in_a_pool_at_observe_does_not_share():
    node = a_node(gpus=1)
    sharing.set_mode(node.gpus.get(), SharingMode.ENFORCE, SOMEBODY, "", NOW)
    assert sharing_count() == 0
