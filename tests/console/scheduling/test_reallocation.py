"""The limits of what runs follow the load; a restart for more is one decision of its own."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse

from agents.wire.names import Origin, PlacementState
from console.accounts.models import Role
from console.errors import Unavailable
from console.evictions import words
from console.evictions.models import Eviction
from console.inventory.models import Node
from console.scheduling import avoid, jobs, reading, reallocation
from console.scheduling.limits import Limits, Renewed
from console.scheduling.models import Placement
from console.telemetry import live_store
from console.workloads.models import OfflineJob
from tests.console.inventory.cast import NOW
from tests.console.scheduling.cast import a_round, a_running, a_waiting_job, live, sharing_gpus
from tests.console.telemetry.cast import person
from workers.prediction.analytic import Analytic
from workers.reallocation.renew import renew

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(hours=1)


def reallocate(now=LATER) -> int:
    return reallocation.reallocate(
        now, lambda snapshot, limits: renew(snapshot, limits, Analytic())
    )


@pytest.fixture
def gpu(grid):
    (gpu,) = sharing_gpus(1)
    grid |= live(gpu, sm_online_percent=10.0)
    return gpu


def running(gpu, share: float, checkpoint: str = "on_sigterm", **values) -> Placement:
    shares = {"sm_share_percent": share, "effective_sm_share_percent": share}
    job = a_waiting_job(sm_percent=90, gpu_util_percent=90, checkpoint=checkpoint)
    return a_running(job, gpu, **shares | values)


def test_a_rise_lowers_the_duty_at_once_and_the_share_at_the_next_start(gpu, grid):
    placement = running(gpu, 60)
    grid |= live(gpu, sm_online_percent=70.0)
    assert reallocate() == 1
    placement.refresh_from_db()
    assert placement.sm_share_percent == placement.pending_sm_share_percent == 18.6  # 20 SMs
    assert (placement.effective_sm_share_percent, placement.duty_percent) == (60, 30)
    assert not Eviction.objects.exists()


def test_the_node_is_told_once(gpu, grid):
    running(gpu, 60)
    grid |= live(gpu, sm_online_percent=70.0)
    reallocate()
    generation = Node.objects.get().generation
    assert reallocate() == 0
    assert Node.objects.get().generation == generation


def test_without_live_data_nothing_changes(gpu, grid, monkeypatch):
    placement = running(gpu, 60)
    grid |= live(gpu, sm_online_percent=95.0, age_s=60.0)
    assert reallocate() == 0

    def lost():
        raise Unavailable("lost")

    monkeypatch.setattr(live_store, "read", lost)
    assert reallocate() == 0
    placement.refresh_from_db()
    assert (placement.sm_share_percent, placement.duty_percent) == (60, None)


def test_a_job_that_is_being_measured_keeps_all_that_it_has(gpu, grid):
    placement = running(gpu, 100)
    OfflineJob.objects.update(state=OfflineJob.State.PROFILING)
    grid |= live(gpu, sm_online_percent=70.0)
    assert reallocate() == 0
    placement.refresh_from_db()
    assert (placement.sm_share_percent, placement.duty_percent) == (100, None)


def test_limits_that_changed_meanwhile_are_left_to_the_next_time(gpu):
    placement = running(gpu, 60)

    def overtaken(snapshot, limits):
        Placement.objects.update(sm_share_percent=35)
        return {placement.pk: Renewed(Limits(60, 20, 30))}

    assert reallocation.reallocate(LATER, overtaken) == 0
    placement.refresh_from_db()
    assert placement.sm_share_percent == 35


def test_a_restart_that_pays_is_proposed_once_and_says_what_for(gpu):
    placement = running(gpu, 20)
    reallocate()
    reallocate()
    eviction = Eviction.objects.get()
    assert (eviction.origin, eviction.to_gpu, eviction.restarts) == (Origin.MOVE, gpu, True)
    assert eviction.evidence["gain"] > 0.1
    assert eviction.evidence["pays_back_s"] > 0
    assert words.title(eviction) == f"resnet-31 again on {gpu}"
    placement.refresh_from_db()
    assert "be paid back after" in placement.pending_why


def test_the_page_of_a_restart_says_which_share_it_is_for(gpu, client):
    running(gpu, 20)
    reallocate()
    client.force_login(person(role=Role.APPROVER))
    page = client.get(reverse("eviction", args=[Eviction.objects.get().pk])).content.decode()
    assert "Restart <em>resnet-31</em> on" in page
    assert "instead of 20" in page
    assert "after a restart" in page


def test_a_restart_that_does_not_pay_waits_and_says_why(gpu):
    placement = running(gpu, 20, checkpoint="none", unsaved_work_s=7_200.0)
    reallocate()
    placement.refresh_from_db()
    assert placement.pending_sm_share_percent > 60
    assert "must fit twice into" in placement.pending_why
    assert not Eviction.objects.exists()


def test_pools_whose_restarts_are_used_up_propose_none(gpu, monkeypatch):
    running(gpu, 20)
    monkeypatch.setattr(reading.budgets, "restarts_left", lambda *args: {"web": 0})
    reallocate()
    assert not Eviction.objects.exists()


def test_a_job_that_is_restarted_comes_back_to_its_gpu_with_the_larger_share(gpu):
    placement = running(gpu, 20)
    reallocate()
    eviction = Eviction.objects.get()
    Eviction.objects.update(state=Eviction.State.STOPPING)
    assert reading.running(live(gpu), LATER).running[0].fixed
    placement.refresh_from_db()
    jobs.end(placement, "evicted", LATER)
    Eviction.objects.update(state=Eviction.State.COMPLETED, ended_at=LATER)
    avoid_entries = avoid.in_force(LATER)
    a_round(now=LATER)
    again = Placement.objects.exclude(pk=placement.pk).get()
    assert not avoid_entries.exists()
    assert (again.job, again.gpu, again.state) == (placement.job, gpu, PlacementState.DESIRED)
    assert again.sm_share_percent >= eviction.evidence["share_then_percent"]
