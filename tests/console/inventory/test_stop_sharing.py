"""Stopping: no new work at once, and the end of all that runs."""

from __future__ import annotations

import pytest

from agents.wire.names import Origin, SharingMode
from console.audit.services import system
from console.errors import SomebodyWasFirst
from console.evictions.models import Eviction
from console.inventory import nodes, sharing
from console.inventory.models import Gpu, Node, Pool
from tests.console.inventory.cast import NOW, a_node, a_pool
from tests.console.workloads.cast import placed

pytestmark = pytest.mark.django_db
SOMEBODY = system("test")


@pytest.fixture
def node() -> Node:
    """Two GPUs that share, one of them with a guest."""
    node = a_node(gpus=2)
    sharing.start([node.pool], SOMEBODY, "", NOW)
    placed(node.gpus.get(index=0))
    return node


def stop(*pools: Pool):
    return sharing.stop(pools, SOMEBODY, "latency incident", NOW)


def effective() -> set[str]:
    return {sharing.effective_mode(gpu) for gpu in Gpu.objects.select_related("node__pool")}


def test_stopping_lowers_the_mode_at_once_and_asks_the_guest_to_go(node):
    stop(node.pool)
    eviction = Eviction.objects.get()
    assert effective() == {SharingMode.OBSERVE}
    assert (eviction.origin, eviction.reason) == (Origin.STOP_SHARING, "latency incident")


def test_the_preview_names_the_jobs_that_then_go(node):
    (plan,) = sharing.preview_stop([node.pool])
    assert (plan.sharing, plan.unsaved_work_s) == (2, 840)
    stop(node.pool)
    assert [eviction.placement for eviction in Eviction.objects.all()] == list(plan.placements)


def test_stopping_raises_the_generation_of_its_nodes_alone(node):
    other = a_node("node-02", a_pool("batch"), gpus=1)
    node.refresh_from_db()
    stop(node.pool)
    assert Node.objects.get(pk=node.pk).generation > node.generation
    assert Node.objects.get(pk=other.pk).generation == other.generation


def test_stopping_twice_is_a_normal_answer_once_all_is_gone(node):
    stop(node.pool)
    node.gpus.get(index=0).placements.update(state="ENDED")
    with pytest.raises(SomebodyWasFirst, match="off already"):
        stop(Pool.objects.get())


def test_stopping_leaves_other_pools_alone(node):
    other = a_node("node-02", a_pool("batch"), gpus=1)
    sharing.start([other.pool], SOMEBODY, "", NOW)
    placed(other.gpus.get())
    stop(node.pool)
    assert Pool.objects.get(name="batch").sharing_mode == SharingMode.ENFORCE
    assert Eviction.objects.count() == 1


def test_one_gpu_stops_by_itself(node):
    sharing.stop(node.gpus.get(index=0), SOMEBODY, "noisy", NOW)
    assert effective() == {SharingMode.OBSERVE, SharingMode.ENFORCE}
    assert Eviction.objects.count() == 1


def test_lowering_a_pool_to_shadow_asks_its_guests_to_go_too(node):
    sharing.set_mode(node.pool, SharingMode.SHADOW, SOMEBODY, "", NOW)
    assert Eviction.objects.get().origin == Origin.STOP_SHARING


def test_a_guest_that_is_on_its_way_out_is_not_asked_again(node):
    stop(node.pool)
    Eviction.objects.update(state=Eviction.State.STOPPING)
    with pytest.raises(SomebodyWasFirst):
        stop(Pool.objects.get())
    assert Eviction.objects.count() == 1


def test_starting_again_keeps_the_same_gpus_out(node):
    nodes.disable_gpu(node.gpus.get(index=1), SOMEBODY, "", NOW)
    stop(node.pool)
    (plan,) = sharing.preview_start(Pool.objects.all())
    assert [forbidden.fact for forbidden in plan.forbidden] == ["disabled: no reason given"]
