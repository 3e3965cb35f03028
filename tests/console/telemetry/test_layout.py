from __future__ import annotations

import json

import pytest

from agents.wire.names import SharingMode
from console.inventory.models import Gpu, Node, Pool
from console.telemetry import layout
from tests.console.telemetry import cast
from tests.console.telemetry.fleet import CARD_BYTES

pytestmark = pytest.mark.django_db


def document() -> dict:
    return json.loads(layout.load().document)


def test_the_document_names_what_the_facts_are_about():
    node = cast.node(labels={"rack": "r7"})
    cast.service(node.gpus.get(index=1))
    loaded, told = layout.load(), document()
    assert told["epoch"] == loaded.epoch > 0
    assert told["gpus"]["id"] == loaded.facts.ids.tolist()
    assert told["gpus"]["service"] == [-1, 0]
    assert told["services"] == ["search-rank"]
    assert told["nodes"] == {"name": ["node-07"], "pool": [0], "rack": ["r7"], "agent": [True]}
    assert loaded.facts.slo_p99_ms.tolist()[1] == 40
    assert loaded.facts.memory_bytes[0] == CARD_BYTES


def test_two_processes_give_one_fleet_one_number():
    cast.node()
    assert layout.load().epoch == layout.load().epoch


def test_the_number_changes_with_the_fleet_and_not_with_what_moves_every_minute():
    node = cast.node()
    before = layout.load().epoch
    Node.objects.update(state=Node.State.LOST, generation=99)
    Gpu.objects.update(state="GUARDED", disabled=True)
    Pool.objects.update(sharing_mode=SharingMode.OBSERVE)
    assert layout.load().epoch == before
    cast.gpu(node, 2)
    assert layout.load().epoch != before


def test_retired_gpus_are_left_out():
    cast.node()
    Gpu.objects.filter(index=0).update(retired_at=cast.T)
    assert len(layout.load().facts.ids) == 1


def test_only_a_pool_and_a_gpu_that_both_enforce_enforce():
    cast.node()
    Gpu.objects.filter(index=0).update(sharing_mode=SharingMode.OBSERVE)
    assert layout.load().facts.enforce.tolist() == [False, True]


def test_an_imported_node_has_no_agent():
    cast.node(source=Node.Source.IMPORTED)
    assert not layout.load().facts.agent.any()


def test_a_card_shared_by_services_counts_for_the_most_important():
    node = cast.node(gpus=1)
    card = node.gpus.get()
    second = cast.service(card, "batch-embed", slo_p99_ms=500)
    first = cast.service(card, "search-rank")
    type(first).objects.filter(pk=first.pk).update(tier=1)
    type(second).objects.filter(pk=second.pk).update(tier=3)
    assert layout.load().facts.slo_p99_ms.tolist() == [40]


def test_two_queries_whatever_the_size(django_assert_num_queries):
    for number in range(5):
        cast.node(f"node-{number}", token=str(number))
    with django_assert_num_queries(2):
        layout.load()


def test_an_empty_inventory_is_a_layout_too():
    assert document()["gpus"]["id"] == []
