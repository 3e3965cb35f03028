"""A job that nobody has measured: on a free GPU, with its burn-in, or not in time."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from agents.wire.ids import uuid7
from agents.wire.messages import Event, EventBatch
from agents.wire.names import EndReason, EventKind
from console.accounts.models import Role
from console.audit.services import agent
from console.errors import SomebodyWasFirst
from console.inventory.models import Gpu, Node, Pool
from console.scheduling import desired, jobs, observed, profiling, vacant
from console.scheduling.models import Placement
from console.workloads import holds, services
from console.workloads.models import OfflineJob, OnlineInstance
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import GIB, NOW
from tests.console.scheduling.cast import a_running, a_waiting_job, an_end, live, sharing_gpus
from tests.console.telemetry.cast import persist
from tests.console.workloads.cast import a_service

pytestmark = pytest.mark.django_db

SOON, LATE = NOW + timedelta(seconds=90), NOW + timedelta(seconds=700)
TOLD = {
    "window_s": 60.0,
    "samples": 58,
    "gpu_util_percent": 88.0,
    "sm_percent": 52.0,
    "occupancy_percent": 32.0,
    "memory_bandwidth_percent": 29.0,
    "memory_bytes": 9 * GIB,
    "step_s": 0.25,
}


def a_pending_job(name="novel-1", **values):
    unknown = {"state": "PENDING", "profile_source": "conservative"}
    return a_waiting_job(name, **unknown | values)


def begin(*gpus, now=NOW, **sample):
    return profiling.begin(lambda: live(*gpus, **{"online_processes": 0} | sample), now)


def told(placement, data=TOLD, seq=1):
    return Event(
        seq, str(uuid7()), EventKind.JOB_PROFILED, NOW.timestamp(), 0, str(placement.pk), None, data
    )


def measured(placement, now=SOON, **changes):
    placement = Placement.objects.select_related("gpu__node").get(pk=placement.pk)
    profiling.agent_measured(placement.gpu.node, told(placement, TOLD | changes), now)


def fresh(job):
    return OfflineJob.objects.get(pk=job.pk)


@pytest.fixture
def gpu():
    return sharing_gpus(1)[0]


@pytest.fixture
def profiled(gpu):
    """The placement of a job that is being measured."""
    job = a_pending_job()
    assert begin(gpu) == 1
    return Placement.objects.select_related("job", "gpu__node__pool").get(job=job)


# --- begin --------------------------------------------------------------------------------


def test_it_begins_on_a_free_gpu_with_all_of_the_card(profiled):
    assert fresh(profiled.job).state == "PROFILING"
    assert (profiled.state, profiled.sm_share_percent) == ("DESIRED", 100)
    assert 36 * GIB < profiled.memory_quota_bytes < 40 * GIB
    (placement,) = desired.build_many({profiled.gpu.node_id: "n"})[profiled.gpu.node_id].placements
    assert placement.measure is not None
    assert (placement.profile.source, placement.sm_share_percent) == ("conservative", 100)


def test_not_where_somebody_may_run(gpu):
    a_pending_job()
    for sample in ({"online_processes": 1}, {"online_processes": None}, {"age_s": 60.0}):
        assert begin(gpu, **sample) == 0, sample


UNFIT = (
    (Gpu, {"state": "UNHEALTHY"}),
    (Gpu, {"sharing_mode": "observe"}),
    (Gpu, {"sharing_mode": "shadow"}),
    (Gpu, {"disabled": True}),
    (Gpu, {"holdback": True}),
    (Gpu, {"never_share": True}),
    (Gpu, {"conflict": True}),
    (Gpu, {"unshareable_fact": "no MPS"}),
    (Node, {"cordoned": True}),
    (Node, {"draining": True}),
    (Node, {"never_share": True}),
    (Node, {"state": "STALE"}),
    (Node, {"source": "imported"}),
    (Pool, {"sharing_mode": "observe"}),
    (Pool, {"sharing_mode": "shadow"}),
)


def test_not_on_a_gpu_that_takes_no_work_nor_where_nothing_is_enforced(gpu):
    a_pending_job()
    for model, facts in UNFIT:
        before = model.objects.values(*facts).get()
        model.objects.update(**facts)
        assert begin(gpu) == 0, facts
        model.objects.update(**before)
    assert begin(gpu) == 1


def test_not_beside_a_service_nor_a_guest():
    first, second = sharing_gpus(2)
    a_service(first)
    a_running(a_waiting_job(), second)
    a_pending_job()
    assert begin(first, second) == 0


def test_a_job_that_is_held_is_not_measured(gpu):
    a_pending_job(held_until=LATE)
    assert begin(gpu) == 0


def test_who_was_first_keeps_the_gpu(gpu, monkeypatch):
    """1 it is read as free, 2 a round places a job there, 3 nothing is doubled."""
    job = a_pending_job()
    free = vacant.gpus(live(gpu, online_processes=0))
    a_running(a_waiting_job(), gpu)
    monkeypatch.setattr(vacant, "gpus", lambda live: free)
    assert begin(gpu) == 0
    assert fresh(job).state == "PENDING"


# --- measured -----------------------------------------------------------------------------


def test_what_was_measured_is_its_profile_and_it_goes_on_where_it_is(profiled):
    measured(profiled)
    job = fresh(profiled.job)
    assert (job.state, job.profile_source, job.profile_gpu_model) == ("PLACED", "measured", "A100")
    assert (job.sm_percent, job.gpu_util_percent, job.memory_bytes) == (50, 90, 9 * GIB)
    assert (job.occupancy_percent, job.step_s, job.profile_measured_at) == (30, 0.25, SOON)
    assert Placement.objects.get().state != "ENDED"
    (placement,) = desired.build_many({profiled.gpu.node_id: "n"})[profiled.gpu.node_id].placements
    assert placement.measure is None


def test_told_twice_it_counts_once(profiled):
    measured(profiled)
    measured(profiled, LATE, sm_percent=90.0, gpu_util_percent=95.0)
    job = fresh(profiled.job)
    assert (job.sm_percent, job.profile_measured_at) == (50, SOON)


def test_a_late_one_is_better_than_none(profiled):
    profiling.give_up(LATE)
    assert fresh(profiled.job).profile_source == "conservative"
    measured(profiled, LATE)
    job = fresh(profiled.job)
    assert (job.state, job.profile_source) == ("PLACED", "measured")


def test_one_that_comes_after_its_placement_ended_queues_the_job(profiled):
    jobs.end(profiled, EndReason.EVICTED, SOON)
    measured(profiled)
    job = fresh(profiled.job)
    assert (job.state, job.profile_source) == ("QUEUED", "measured")


def test_one_of_a_job_that_is_over_changes_nothing(profiled):
    observed.placement_ended(profiled.gpu.node, an_end(profiled), SOON)
    measured(profiled)
    job = fresh(profiled.job)
    assert (job.state, job.profile_source) == ("SUCCEEDED", "conservative")


def test_what_its_submitter_gave_is_not_overruled(gpu):
    placement = a_running(a_waiting_job(), gpu)
    measured(placement)
    assert fresh(placement.job).profile_source == "user"


def test_nonsense_is_kept_with_its_reason_and_changes_nothing(profiled):
    node = profiled.gpu.node
    nonsense = ({"sm_percent": 5e9}, {"memory_bytes": 41 * GIB}, {"samples": 0})
    batch = [told(profiled, TOLD | data, seq) for seq, data in enumerate(nonsense, 1)]
    assert persist(node, EventBatch(tuple(batch)), SOON) == 3
    assert all("not_acted_on" in event.data for event in node.events.all())
    assert fresh(profiled.job).state == "PROFILING"


def test_another_node_cannot_tell_of_it(profiled):
    stranger = sharing_gpus(1, "node-02")[0].node
    profiling.agent_measured(stranger, told(profiled), SOON)
    assert fresh(profiled.job).profile_source == "conservative"


def test_beside_a_service_it_was_not_the_job_alone(profiled):
    service = a_service(sharing_gpus(1, "node-02")[0])
    OnlineInstance.objects.create(service=service, gpu=profiled.gpu)
    with pytest.raises(ValueError, match="alone"):
        measured(profiled)


def test_a_conservative_job_that_a_round_puts_on_a_free_gpu_is_measured_there(gpu):
    placement = a_running(a_pending_job(state="QUEUED"), gpu)
    assert desired.build_many({gpu.node_id: "n"})[gpu.node_id].placements[0].measure is not None
    measured(placement)
    assert fresh(placement.job).profile_source == "measured"


# --- one like it --------------------------------------------------------------------------


def test_jobs_alike_learn_from_the_one_that_is_measured(gpu):
    like = [a_pending_job(f"night-{number}", profile_key="k") for number in range(3)]
    assert begin(gpu) == 1
    placement = Placement.objects.select_related("job").get()
    measured(placement)
    assert profiling.admit_like(SOON) == 2
    others = OfflineJob.objects.exclude(pk=placement.job_id)
    assert {(job.state, job.profile_source, job.sm_percent) for job in others} == {
        ("QUEUED", "history", 50.0)
    }
    classes = OfflineJob.objects.filter(pk__in=[job.pk for job in like]).values_list(
        "sm_percent", "gpu_util_percent", "memory_bytes", "memory_bandwidth_percent", "step_s"
    )
    assert len(set(classes)) == 1


def test_what_was_measured_too_long_ago_teaches_nothing(gpu, settings):
    a_waiting_job("old-1", profile_key="k", profile_source="measured", profile_measured_at=NOW)
    job = a_pending_job(profile_key="k")
    much_later = NOW + timedelta(days=settings.PROFILE_MAX_AGE_DAYS, seconds=1)
    assert profiling.admit_like(much_later) == 0
    assert profiling.admit_like(NOW) == 1
    assert fresh(job).profile_why == "on old-1"


# --- not in time --------------------------------------------------------------------------


def test_without_a_free_gpu_in_time_the_worst_is_assumed_and_said(gpu):
    job = a_pending_job()
    assert profiling.give_up(SOON) == 0
    assert profiling.give_up(LATE) == 1
    job = fresh(job)
    assert (job.state, job.profile_source) == ("QUEUED", "conservative")
    assert job.profile_why == "no free GPU within 10\xa0min"


def test_one_like_a_job_that_is_being_measured_waits_for_that(gpu):
    a_pending_job("first-1", profile_key="k")
    a_pending_job("second-1", profile_key="k")
    begin(gpu)
    OfflineJob.objects.filter(state="PROFILING").update(state_since=LATE)
    assert profiling.give_up(LATE) == 0
    assert set(OfflineJob.objects.values_list("state", flat=True)) == {"PROFILING", "PENDING"}


def test_no_time_passes_where_no_pool_takes_part(gpu):
    a_pending_job()
    Pool.objects.update(sharing_mode="observe")
    assert profiling.give_up(LATE) == 0
    Pool.objects.update(sharing_mode="shadow")
    assert profiling.give_up(LATE) == 1


def test_a_measurement_that_does_not_end_is_given_up_and_the_job_goes_on(profiled):
    profiling.give_up(LATE)
    job = fresh(profiled.job)
    assert (job.state, job.profile_source) == ("PLACED", "conservative")
    assert "not measured" in job.profile_why
    assert Placement.objects.get().state == "DESIRED"


def test_a_job_that_is_held_does_not_run_out_of_time(gpu):
    a_pending_job(held_until=LATE)
    assert profiling.give_up(LATE + timedelta(seconds=1)) == 0


# --- ends, while it is measured -----------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (EndReason.FINISHED, "SUCCEEDED"),
        (EndReason.EVICTED, "PENDING"),
        (EndReason.LOST, "PENDING"),
        (EndReason.LEASE_EXPIRED, "PENDING"),
        (EndReason.NEVER_STARTED, "PENDING"),
        (EndReason.FAILED, "PENDING"),
    ],
)
def test_how_it_goes_on_when_its_placement_ends(profiled, reason, state):
    assert jobs.end(profiled, reason, SOON)
    assert fresh(profiled.job).state == state


def test_it_fails_when_its_tries_are_over(profiled):
    OfflineJob.objects.update(max_retries=0)
    jobs.end(profiled, EndReason.FAILED, SOON)
    assert fresh(profiled.job).state == "FAILED"


def test_a_node_that_is_lost_gives_the_job_back(profiled):
    observed.node_lost(profiled.gpu.node, NOW)
    Node.objects.update(state=Node.State.LOST)
    assert observed.sweep_lost(NOW + timedelta(hours=2)) == 1
    assert fresh(profiled.job).state == "PENDING"


def test_cancelled_while_it_is_measured_it_is_stopped_and_does_not_come_back(profiled):
    eviction = services.cancel(profiled.job, a_user("ann", Role.ADMIN), "wrong settings", NOW)
    assert eviction is not None
    jobs.end(profiled, EndReason.EVICTED, SOON)
    assert fresh(profiled.job).state == "CANCELLED"
    measured(profiled)
    assert fresh(profiled.job).state == "CANCELLED"


def test_cancelling_a_job_that_just_began_does_not_leave_it_running(gpu):
    """1 the page shows it pending, 2 it begins to be measured, 3 the person cancels it."""
    job = a_pending_job()
    begin(gpu)
    Placement.objects.update(state="ENDED")
    with pytest.raises(SomebodyWasFirst):
        services.cancel(job, a_user("ann", Role.ADMIN), "", NOW)


# --- burn-in ------------------------------------------------------------------------------


def test_without_a_fault_for_long_enough_it_is_proven(profiled, settings):
    Placement.objects.update(state="RUNNING", started_at=NOW)
    measured(profiled)
    assert profiling.prove(NOW + timedelta(seconds=settings.BURN_IN_S - 1)) == 0
    assert profiling.prove(NOW + timedelta(seconds=settings.BURN_IN_S)) == 1
    assert fresh(profiled.job).proven_at is not None


def test_a_fault_in_its_burn_in_holds_it_and_it_is_not_proven(profiled, settings):
    Placement.objects.update(state="RUNNING", started_at=NOW)
    holds.hold(profiled.job_id, agent("node-01"), SOON, SOON, cause_id=UUID(int=1))
    assert profiling.prove(LATE) == 0
    jobs.end(profiled, EndReason.EVICTED, SOON)
    job = fresh(profiled.job)
    assert (job.state, job.is_held(SOON), job.proven_at) == ("PENDING", True, None)


def test_a_fault_takes_the_proof_away(gpu):
    placement = a_running(a_waiting_job(proven_at=NOW), gpu)
    holds.hold(placement.job_id, agent("node-01"), SOON, SOON, cause_id=UUID(int=1))
    assert fresh(placement.job).proven_at is None


def test_a_turn_does_all_of_it(gpu):
    first = a_pending_job("a-1", profile_key="k", submitted_at=NOW)
    profiling.tick(lambda: live(gpu, online_processes=0), NOW)
    assert fresh(first).state == "PROFILING"
