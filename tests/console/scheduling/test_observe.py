"""What a node's status changes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agents.wire.names import EventKind, GpuState, PlacementState
from console.scheduling import observed
from tests.console.inventory.cast import NOW
from tests.console.scheduling.cast import (
    a_gpu_status,
    a_placement_status,
    a_running,
    a_status,
    a_waiting_job,
    an_event,
    sharing_gpus,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def running():
    return a_running(a_waiting_job(), sharing_gpus(1)[0], state="DESIRED", started_at=None)


def tell(placement, *reports, now=NOW, **values):
    node = placement.gpu.node
    node.refresh_from_db()
    observed.apply_statuses({node.pk: a_status(node, *reports, **values)}, now)
    placement.refresh_from_db()
    node.refresh_from_db()
    return placement


def test_limits_are_what_the_node_says(running):
    report = a_placement_status(running, sm_share_percent=50.0, memory_quota_bytes=7)
    tell(running, report)
    assert (running.state, running.effective_sm_share_percent) == ("RUNNING", 50)
    assert running.pending_sm_share_percent == 60, "the desired share waits for a restart"
    assert running.effective_memory_quota_bytes == 7


def test_a_share_in_effect_waits_for_nothing(running):
    tell(running, a_placement_status(running, sm_share_percent=50.0))
    tell(running, a_placement_status(running, sm_share_percent=60.0))
    assert running.pending_sm_share_percent is None


def test_coverage_and_remarks_are_what_the_node_says_at_once(running):
    told = a_placement_status(running, xcuda_coverage=(1, 2), remarks=("One escaped xCUDA.",))
    tell(running, told)
    assert (running.xcuda_processes, running.cuda_processes) == (1, 2)
    assert running.remarks == ["One escaped xCUDA."]
    tell(running, a_placement_status(running), now=NOW + timedelta(seconds=1))
    assert (running.xcuda_processes, running.cuda_processes) == (None, None)
    assert running.remarks == []


@pytest.mark.parametrize("told", [(-1, 2), (3, 2), (1, 1 << 62)])
def test_a_coverage_that_cannot_be_is_missing(running, told):
    tell(running, a_placement_status(running, xcuda_coverage=told))
    assert (running.xcuda_processes, running.cuda_processes) == (None, None)


def test_remarks_are_cut_to_what_a_page_can_show(running):
    tell(running, a_placement_status(running, remarks=("r" * 4_000,) * 100))
    assert [len(text) for text in running.remarks] == [300] * 8


def test_what_a_node_remarks_on_an_end_is_kept(running):
    tell(running, a_placement_status(running))
    said = ["It never received SIGTERM: a shell is its first process.", 7]
    end = an_event(EventKind.PLACEMENT_ENDED, running, reason="failed", remarks=said)
    observed.placement_ended(running.gpu.node, end, NOW)
    running.refresh_from_db()
    assert running.remarks == said[:1]


def test_the_same_status_again_writes_nothing(running, django_assert_num_queries):
    status = [a_placement_status(running, progress=0.5)], [a_gpu_status()]
    tell(running, *status[0], gpus=status[1])
    node = running.gpu.node
    with django_assert_num_queries(3):
        message = a_status(node, *status[0], gpus=status[1])
        observed.apply_statuses({node.pk: message}, NOW + timedelta(seconds=1))


def test_progress_is_written_every_few_seconds(running):
    tell(running, a_placement_status(running, progress=0.1))
    tell(running, a_placement_status(running, progress=0.2), now=NOW + timedelta(seconds=1))
    assert running.progress == 0.1
    tell(running, a_placement_status(running, progress=0.3), now=NOW + timedelta(seconds=6))
    assert running.progress == 0.3


def test_a_new_state_is_written_at_once(running):
    tell(running, a_placement_status(running))
    tell(running, a_placement_status(running, PlacementState.FROZEN))
    assert running.state == "FROZEN"


def test_an_end_in_a_status_changes_nothing(running):
    tell(running, a_placement_status(running, PlacementState.ENDED))
    assert running.state == "DESIRED"


def test_a_gpu_changes_its_state_with_its_reason(running):
    status = a_gpu_status(state=GpuState.GUARDED, why="SM activity 99 %", degraded=("xid",))
    tell(running, gpus=[status])
    running.gpu.refresh_from_db()
    assert (running.gpu.state, running.gpu.state_why) == ("GUARDED", "SM activity 99 %")
    assert running.gpu.degraded == ["xid"]


@pytest.mark.parametrize(("told", "known"), [(45.0, 45.0), (1e300, 86_400.0), (-1.0, 0.0)])
def test_a_rest_is_as_long_as_the_node_says_within_reason(running, told, known):
    report = a_gpu_status(state=GpuState.COOLDOWN, cooldown_s=told)
    tell(running, gpus=(report,))
    running.gpu.refresh_from_db()
    assert running.gpu.cooldown_s == known


def test_a_node_observes_a_generation(running):
    tell(running, observed_generation=7, policy_versions={"balanced@2": 2})
    node = running.gpu.node
    assert (node.observed_generation, node.observed_policies) == (7, {"balanced@2": 2})


def test_a_start_is_told_by_an_event(running):
    event = an_event(EventKind.PLACEMENT_STARTED, running, pid=7)
    observed.placement_started(running.gpu.node, event, NOW)
    running.refresh_from_db()
    assert (running.state, running.started_at) == ("STARTING", NOW)


def test_a_late_start_does_not_turn_back_what_runs(running):
    tell(running, a_placement_status(running))
    event = an_event(EventKind.PLACEMENT_STARTED, running, pid=7)
    observed.placement_started(running.gpu.node, event, NOW)
    running.refresh_from_db()
    assert running.state == "RUNNING"


def test_many_nodes_cost_what_one_does(django_assert_max_num_queries):
    running = [
        a_running(a_waiting_job(), gpu, state="RUNNING", observed_at=NOW)
        for name in ("node-01", "node-02", "node-03")
        for gpu in sharing_gpus(1, name)
    ]
    later = NOW + timedelta(seconds=60)
    told = {
        one.gpu.node_id: a_status(one.gpu.node, a_placement_status(one, progress=0.1 * place))
        for place, one in enumerate(running)
    }
    observed.apply_statuses(told, NOW)
    with django_assert_max_num_queries(6):
        observed.apply_statuses(told, later)
    for place, one in enumerate(running):
        one.refresh_from_db()
        assert one.progress == pytest.approx(0.1 * place)
        assert one.observed_at == later


def test_progress_of_a_placement_that_moved_meanwhile_is_not_written(running, monkeypatch):
    tell(running, a_placement_status(running, progress=0.1))
    facts = observed._placement_facts

    def stopped_first(placement, report, now):
        type(placement).objects.filter(pk=placement.pk).update(state="STOPPING")
        return facts(placement, report, now)

    monkeypatch.setattr(observed, "_placement_facts", stopped_first)
    tell(running, a_placement_status(running, progress=0.2), now=NOW + timedelta(seconds=60))
    assert (running.state, running.progress) == ("STOPPING", 0.1)
