"""What a node's first message changes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agents.wire.names import SharingMode
from console.audit.models import Entry
from console.errors import Invalid
from console.inventory import nodes
from console.inventory.models import Gpu, Node
from tests.console.inventory.cast import NOW, a_gpu, a_hello, a_node, claim

pytestmark = pytest.mark.django_db


def hello(node: Node, *gpus, generation: int = 0) -> Node:
    """As a gateway has it done, which greets many together."""
    message = a_hello(*gpus, node=node.name, generation=generation)
    answer = nodes.hello_many({node.pk: message}, NOW)[node.pk]
    if isinstance(answer, Exception):
        raise answer
    return answer


def live(node: Node) -> list[tuple[int, str]]:
    return list(node.gpus.filter(retired_at=None).values_list("index", "uuid"))


def test_a_first_hello_connects_the_node_and_records_its_gpus():
    node = hello(a_node(state="ENROLLED"), claim(0), claim(1))
    assert (node.state, node.agent_version, node.boot_id) == ("CONNECTED", "0.1.0", "boot-1")
    assert live(node) == [(0, "GPU-node-01-0"), (1, "GPU-node-01-1")]


def test_gpus_of_a_new_node_start_at_observe_whatever_the_pool_says():
    node = a_node()
    node.pool.sharing_mode = SharingMode.ENFORCE
    node.pool.save()
    assert {gpu.sharing_mode for gpu in hello(node, claim(0)).gpus.all()} == {"observe"}


def test_what_its_pcie_slot_can_carry_is_kept_and_may_be_missing():
    node = hello(a_node(), claim(0, pcie_max_bytes_s=32e9), claim(1))
    told = node.gpus.order_by("index").values_list("pcie_max_bytes_s", flat=True)
    assert list(told) == [32e9, None]


def test_a_second_hello_changes_no_row_of_a_gpu():
    node = hello(a_node(), claim(0), claim(1))
    before = list(Gpu.objects.values())
    hello(node, claim(0), claim(1))
    assert list(Gpu.objects.values()) == before


@pytest.mark.parametrize(("ours", "observed"), [(5, 3), (5, 5), (5, 90)])
def test_the_generation_rises_above_the_one_observed(ours, observed):
    node = hello(a_node(generation=ours), generation=observed)
    assert node.generation > max(ours, observed)


def test_a_generation_that_cannot_be_is_refused():
    with pytest.raises(Invalid, match="cannot be"):
        hello(a_node(), generation=1 << 62)


def test_a_swapped_card_retires_the_old_one_and_takes_no_id_over():
    node = hello(a_node(), claim(0, "old"))
    old = node.gpus.get()
    hello(node, claim(0, "new"))
    new = node.gpus.get(retired_at=None)
    assert new.uuid == "new"
    assert new.pk > old.pk
    assert Entry.objects.filter(action="gpu.retire", object_id=str(old.pk)).exists()


def test_cards_that_change_places_keep_their_rows():
    node = hello(a_node(), claim(0, "a"), claim(1, "b"))
    ids = dict(node.gpus.values_list("uuid", "pk"))
    hello(node, claim(1, "a"), claim(0, "b"))
    assert live(node) == [(0, "b"), (1, "a")]
    assert dict(node.gpus.values_list("uuid", "pk")) == ids


def test_a_card_that_fell_off_the_bus_keeps_its_slot_and_cannot_share():
    node = hello(a_node(), claim(0), claim(1))
    hello(node, claim(0))
    assert node.gpus.get(index=1).unshareable_fact == nodes.NOT_REPORTED
    hello(node, claim(0), claim(1))
    assert node.gpus.get(index=1).unshareable_fact == ""


def test_a_retired_card_that_comes_back_takes_up_its_row():
    node = hello(a_node(), claim(0, "a"))
    first = node.gpus.get().pk
    hello(node, claim(0, "b"))
    hello(node, claim(0, "a"))
    assert node.gpus.get(retired_at=None).pk == first


def test_a_second_claim_of_a_uuid_marks_both_and_wakes_the_other_node():
    other = a_node("node-02")
    theirs = a_gpu(other, uuid="same")
    node = hello(a_node(), claim(0, "same"))
    theirs.refresh_from_db()
    assert theirs.conflict
    assert node.gpus.get().conflict
    assert Node.objects.get(pk=other.pk).generation == other.generation + 1


def test_the_conflict_ends_when_one_side_gives_the_card_up():
    node, other = a_node(), a_node("node-02")
    hello(node, claim(0, "same"))
    hello(other, claim(0, "same"))
    hello(node)
    assert not Gpu.objects.get(uuid="same", retired_at=None).conflict
    assert Gpu.objects.get(node=node).retired_at == NOW


def test_one_uuid_twice_in_one_hello_marks_both_slots_once():
    node = a_node()
    for _ in range(2):
        hello(node, claim(0, "same"), claim(1, "same"))
    assert list(node.gpus.values_list("index", "conflict")) == [(0, True), (1, True)]


@pytest.mark.parametrize(
    "bad",
    [
        [claim(0), claim(0, "other")],
        [claim(index) for index in range(65)],
        [claim(-1)],
        [claim(0, memory_bytes=0)],
        [claim(0, " ")],
    ],
)
def test_an_inventory_that_cannot_be_is_refused_whole(bad):
    node = a_node(state="ENROLLED")
    with pytest.raises(Invalid):
        hello(node, *bad)
    node.refresh_from_db()
    assert (node.state, node.gpus.count()) == ("ENROLLED", 0)


def test_an_imported_node_becomes_real_and_is_judged_afresh():
    node = a_node(source="imported", state="ENROLLED", gpus=1)
    node = hello(node, claim(0))
    assert node.source == Node.Source.AGENT
    assert node.gpus.get().state == "INIT"


def test_silence_makes_a_node_stale_then_lost_and_a_word_brings_it_back():
    node = a_node(state="CONNECTED")
    assert nodes.mark_stale(NOW + timedelta(seconds=9)) == 0
    assert nodes.mark_stale(NOW + timedelta(seconds=11)) == 1
    assert nodes.mark_lost(NOW + timedelta(seconds=29)) == []
    assert nodes.mark_lost(NOW + timedelta(seconds=31)) == [node]
    assert nodes.mark_lost(NOW + timedelta(seconds=32)) == []
    nodes.seen([node.pk], NOW + timedelta(seconds=33))
    node.refresh_from_db()
    assert node.state == "CONNECTED"


def test_a_node_that_never_had_an_agent_is_never_lost():
    a_node(state="ENROLLED", source="imported", last_seen_at=None)
    later = NOW + timedelta(days=1)
    assert (nodes.mark_stale(later), nodes.mark_lost(later)) == (0, [])


def test_touch_raises_the_generation_and_rings_the_gateways_once(
    monkeypatch, django_capture_on_commit_callbacks
):
    rung = []
    monkeypatch.setattr(nodes.bell, "publisher", rung.append)
    node = a_node()
    with django_capture_on_commit_callbacks(execute=True):
        nodes.touch([node.pk, node.pk], NOW)
    node.refresh_from_db()
    assert (node.generation, node.generation_at, rung) == (2, NOW, [[node.pk]])


def test_a_dead_redis_costs_a_ring_and_nothing_else(
    monkeypatch, django_capture_on_commit_callbacks
):
    monkeypatch.setattr(nodes.bell, "publisher", lambda ids: 1 / 0)
    with django_capture_on_commit_callbacks(execute=True):
        nodes.touch([a_node().pk], NOW)
    assert Node.objects.get().generation == 2


def test_a_fleet_that_comes_at_once_costs_few_queries(django_assert_max_num_queries):
    fleet = {
        node.pk: a_hello(
            *(claim(index, f"GPU-{node.name}-{index}") for index in range(4)), node=node.name
        )
        for node in (a_node(f"node-{number:02d}") for number in range(10))
    }
    for _ in ("new", "again"):
        with django_assert_max_num_queries(22):
            answers = nodes.hello_many(fleet, NOW)
        assert {answer.state for answer in answers.values()} == {"CONNECTED"}
    assert Gpu.objects.count() == 40


def test_one_that_is_refused_costs_no_other_its_welcome():
    fleet = {
        a_node(name).pk: a_hello(*claims, node=name)
        for name, claims in (
            ("node-01", [claim(0, "node-01")]),
            ("node-02", [claim(0, "node-02"), claim(0, "node-02")]),
            ("node-03", [claim(0, "node-01")]),  # the same card once more
        )
    }
    first, twice, thief = nodes.hello_many(fleet, NOW).values()
    assert isinstance(twice, Invalid)
    assert {first.state, thief.state} == {"CONNECTED"}
    assert set(Gpu.objects.values_list("conflict", flat=True)) == {True}
