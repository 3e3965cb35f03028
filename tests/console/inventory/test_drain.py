"""Emptying a node, and taking one GPU out of use."""

from __future__ import annotations

import pytest

from agents.wire.names import Origin
from console.audit.models import Entry
from console.audit.services import system
from console.errors import SomebodyWasFirst
from console.evictions.models import Eviction
from console.inventory import draining, emptying, nodes
from console.inventory.draining import Outlook
from console.inventory.models import Node
from tests.console.inventory.cast import NOW, a_node
from tests.console.workloads.cast import a_job, placed

pytestmark = pytest.mark.django_db
SOMEBODY = system("test")


def test_draining_closes_the_node_and_asks_each_guest_to_go():
    node = a_node(gpus=3)
    guests = [placed(gpu) for gpu in node.gpus.all()[:2]]
    draining.drain(node, SOMEBODY, "maintenance", NOW)
    node.refresh_from_db()
    assert (node.cordoned, node.draining) == (True, True)
    assert {e.placement for e in Eviction.objects.filter(origin=Origin.DRAIN)} == set(guests)


def test_the_preview_tells_what_each_guest_is_in_for():
    node = a_node(gpus=4)
    placements = [placed(gpu) for gpu in node.gpus.all()[:3]]
    placements[1].job.checkpoint = "none"
    placements[1].job.save()
    placements[2].state = "UNKNOWN"
    placements[2].save()
    outlooks = [(step.outlook, step.why) for step in draining.preview_drain(node)]
    assert [outlook for outlook, _ in outlooks] == [
        Outlook.EVICT,
        Outlook.EVICT,
        Outlook.MAY_BLOCK,
    ]
    assert "all since its start is lost" in outlooks[1][1]


def test_a_guest_that_goes_already_is_skipped():
    node = a_node(gpus=1)
    placed(node.gpus.get())
    draining.drain(node, SOMEBODY, "", NOW)
    Eviction.objects.update(state=Eviction.State.STOPPING)
    assert [step.outlook for step in draining.preview_drain(node)] == [Outlook.SKIP]


def test_two_people_drain_a_node_and_each_guest_is_asked_once():
    node = a_node(gpus=1)
    placed(node.gpus.get())
    draining.drain(node, SOMEBODY, "", NOW)
    with pytest.raises(SomebodyWasFirst, match="drained already"):
        draining.drain(node, SOMEBODY, "", NOW)
    assert Eviction.objects.count() == 1


def test_uncordoning_ends_the_drain():
    node = a_node()
    draining.drain(node, SOMEBODY, "", NOW)
    nodes.uncordon(node, SOMEBODY, "", NOW)
    node.refresh_from_db()
    assert (node.cordoned, node.draining) == (False, False)


def test_cordoning_twice_is_a_normal_answer():
    node = a_node()
    nodes.cordon(node, SOMEBODY, "", NOW)
    with pytest.raises(SomebodyWasFirst):
        nodes.cordon(Node.objects.get(), SOMEBODY, "", NOW)


def test_a_gpu_taken_out_asks_its_guest_to_go_and_comes_back_by_a_person():
    node = a_node(gpus=1)
    gpu = node.gpus.get()
    placed(gpu, a_job())
    emptying.take_out(gpu, SOMEBODY, "XID 79", NOW)
    gpu.refresh_from_db()
    assert (gpu.disabled, gpu.disabled_reason) == (True, "XID 79")
    assert Eviction.objects.count() == 1
    nodes.enable_gpu(gpu, SOMEBODY, "swapped", NOW)
    gpu.refresh_from_db()
    assert (gpu.disabled, gpu.disabled_reason) == (False, "")
    assert list(
        Entry.objects.filter(action__startswith="gpu.").values_list("action", flat=True)
    ) == [
        "gpu.disable",
        "gpu.enable",
    ]
