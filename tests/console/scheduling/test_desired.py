"""What should be true of a node, as its agent is told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agents.wire.names import Origin, SharingMode
from console.audit.services import system
from console.evictions import services as evictions
from console.inventory.models import Node
from console.scheduling import desired, observed
from tests.console.inventory.cast import NOW
from tests.console.scheduling.cast import a_running, a_waiting_job, an_end, sharing_gpus

pytestmark = pytest.mark.django_db


@pytest.fixture
def running():
    return a_running(a_waiting_job(saved_work_s=50), sharing_gpus(2)[0], resume_work_s=50)


def build(placement):
    node_id = placement.gpu.node_id
    return desired.build_many({node_id: "nonce"})[node_id]


def test_a_placement_is_named_with_its_limits(running):
    (placement,) = build(running).placements
    assert (placement.placement_id, placement.gpu_index) == (str(running.pk), 0)
    assert (placement.sm_share_percent, placement.resume_work_s) == (60, 50)
    assert placement.stop is None


def test_a_placement_that_ended_is_never_named_again(running):
    observed.placement_ended(running.gpu.node, an_end(running), NOW)
    assert build(running).placements == ()


def test_the_stop_goes_out_with_the_dispatch_and_not_before(running):
    eviction = evictions.request(running, Origin.PREEMPT, system("test"), "needed", NOW)
    assert build(running).placements[0].stop is None
    evictions.tick(NOW + timedelta(seconds=60))
    stop = build(running).placements[0].stop
    assert stop is not None
    assert (stop.eviction_id, stop.origin) == (str(eviction.pk), Origin.PREEMPT)


def test_each_gpu_has_the_lower_mode_and_a_policy_that_is_sent(running):
    gpu = running.gpu.node.gpus.get(index=1)
    gpu.sharing_mode = SharingMode.SHADOW
    gpu.save()
    state = build(running)
    assert [gpu.mode for gpu in state.gpus] == ["enforce", "shadow"]
    assert {gpu.policy for gpu in state.gpus} == set(state.policies) == {"balanced@1"}


def test_a_state_says_how_long_it_holds(running, settings):
    settings.LEASE_S = 77
    assert build(running).lease_s == 77


def test_a_change_while_reading_is_read_again(running, monkeypatch):
    """Two states of one generation would differ: the node refuses the second."""
    generations = iter([4, 5, 5, 5])
    monkeypatch.setattr(
        desired, "_generations", lambda wanted: dict.fromkeys(wanted, next(generations))
    )
    assert build(running).generation == 5


def test_a_node_that_never_stands_still_is_told_later(running, monkeypatch):
    generations = iter(range(100))
    monkeypatch.setattr(
        desired, "_generations", lambda wanted: dict.fromkeys(wanted, next(generations))
    )
    assert desired.build_many({running.gpu.node_id: "nonce"}) == {}


def test_one_that_changes_does_not_hold_up_the_others(monkeypatch):
    still, restless = (
        a_running(a_waiting_job(), sharing_gpus(1, name)[0]).gpu.node_id
        for name in ("node-01", "node-02")
    )
    generations = iter(range(100))
    read = desired._generations
    monkeypatch.setattr(
        desired,
        "_generations",
        lambda wanted: {**read(wanted), restless: next(generations)},
    )
    built = desired.build_many({still: "a", restless: "b"})
    assert built.keys() == {still}
    assert (built[still].nonce, len(built[still].placements)) == ("a", 1)


def test_one_node_costs_few_queries(running, django_assert_max_num_queries):
    node = Node.objects.get(pk=running.gpu.node_id)
    with django_assert_max_num_queries(7):
        desired.build_many({node.pk: "nonce"})
