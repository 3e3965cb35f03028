"""What a round reads: everything that binds it, in a number of queries that does not grow."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.wire.names import SharingMode
from console.evictions.models import Eviction
from console.inventory.models import Gpu, Node
from console.policies import rules
from console.scheduling import budgets, reading
from console.workloads.models import OnlineInstance, OnlineService, Team
from tests.console.inventory.cast import GIB, NOW, a_gpu, a_node
from tests.console.scheduling.cast import a_running, a_waiting_job, live, sharing_gpus

pytestmark = pytest.mark.django_db

BALANCED = rules.PRESETS["balanced"]


def read(gpus, now=NOW):
    return reading.read(SharingMode.ENFORCE, live(*gpus), now)


@pytest.fixture
def gpus(grid):
    return sharing_gpus(2)


def a_service(gpu: Gpu, name: str = "search", **values) -> OnlineService:
    team, _ = Team.objects.get_or_create(name="vision")
    facts = {"sm_percent": 30, "gpu_util_percent": 40, "memory_bytes": 4 * GIB}
    service = OnlineService.objects.create(
        name=name, team=team, pool=gpu.node.pool, **facts | values
    )
    OnlineInstance.objects.create(service=service, gpu=gpu)
    return service


def an_eviction(placement, state: str = "COMPLETED", origin: str = "move", **values) -> Eviction:
    facts = {"state_since": NOW, "proposed_at": NOW, "ended_at": NOW, "why": "faster there"}
    return Eviction.objects.create(
        placement=placement, gpu=placement.gpu, origin=origin, state=state, **facts | values
    )


def test_the_number_of_queries_does_not_grow_with_the_fleet(gpus):
    def queries() -> int:
        samples = live(*Gpu.objects.all())
        with CaptureQueriesContext(connection) as seen:
            reading.read(SharingMode.ENFORCE, samples, NOW)
        return len(seen)

    a_running(a_waiting_job("first"), gpus[0])
    a_service(gpus[0])
    a_waiting_job("waits")
    few = queries()
    pool = gpus[0].node.pool
    for number in range(2, 8):
        node = a_node(f"node-0{number}", pool, state="CONNECTED", source=Node.Source.AGENT)
        gpu = a_gpu(node, 0, sharing_mode="enforce")
        a_running(a_waiting_job(f"runs-{number}", team=_team(number)), gpu)
        a_service(gpu, f"service-{number}")
        a_waiting_job(f"waits-{number}", team=_team(number))
    assert queries() == few <= 20


def _team(number: int) -> Team:
    return Team.objects.create(name=f"team-{number}-{Team.objects.count()}")


def test_a_gpu_is_as_critical_as_its_most_critical_service(gpus):
    a_service(gpus[0], "batch-rank", tier=3)
    a_service(gpus[0], "search", tier=1, never_share=True)
    shared, empty = read(gpus).gpus
    assert (shared.tier, shared.service, shared.never_share) == (1, "batch-rank, search", True)
    assert (empty.tier, empty.service, empty.never_share) == (None, "", False)


def test_what_a_host_has_left_is_divided_among_its_free_gpus(gpus):
    sharing = gpus[0].node
    Node.objects.filter(pk=sharing.pk).update(cpu_cores=32, host_memory_bytes=64 * GIB)
    third = a_gpu(sharing, 2, sharing_mode="enforce")
    a_running(a_waiting_job("runs", cpu_cores=12, host_memory_bytes=16 * GIB), gpus[0])
    taken, *free = read([*gpus, third]).gpus
    assert (taken.cpu_free, taken.host_memory_free_bytes) == (12, 16 * GIB)
    assert {(gpu.cpu_free, gpu.host_memory_free_bytes) for gpu in free} == {(10, 24 * GIB)}


def test_a_host_that_does_not_tell_is_not_asked(gpus):
    assert [gpu.cpu_free for gpu in read(gpus).gpus] == [None, None]


def test_a_label_of_the_gpu_goes_before_that_of_its_node(gpus):
    Node.objects.update(labels={"rack": "7", "zone": "a"})
    Gpu.objects.filter(pk=gpus[0].pk).update(labels={"rack": "8"})
    assert read(gpus).gpus[0].labels == {"rack=8", "zone=a"}


# --- budgets ------------------------------------------------------------------------------


def test_restarts_of_the_last_hour_are_gone_from_the_budget(gpus, monkeypatch):
    monkeypatch.setattr(budgets, "WAIT_LEAST", 100)
    placement = a_running(a_waiting_job("runs"), gpus[0])
    an_eviction(placement)
    an_eviction(placement, origin="preempt")
    an_eviction(placement, origin="overload")
    an_eviction(placement, state="REJECTED")
    an_eviction(placement, ended_at=NOW - timedelta(minutes=61))
    an_eviction(placement, state="PROPOSED", ended_at=None)
    assert read(gpus).restarts_left == {"web": BALANCED.restarts_per_hour - 3}


def test_moves_that_wait_keep_few_gpus_free(gpus):
    assert read(gpus).restarts_left == {"web": budgets.WAIT_LEAST}
    an_eviction(a_running(a_waiting_job("runs"), gpus[0]), state="PROPOSED", ended_at=None)
    facts = read(gpus)
    assert facts.restarts_left == {"web": budgets.WAIT_LEAST - 1}
    assert facts.moves_open == {"web"}


def test_a_spent_hour_is_not_blamed_on_open_moves(gpus):
    placement = a_running(a_waiting_job("runs"), gpus[0])
    for _ in range(BALANCED.restarts_per_hour):
        an_eviction(placement)
    assert read(gpus).restarts_left == {"web": 0}
    assert read(gpus).moves_open == frozenset()


def test_a_job_of_which_nothing_changed_is_the_same_object_in_the_next_round(gpus):
    jobs = [a_waiting_job(name) for name in ("stays", "changes")]
    before = {job.name: job for job in read(gpus).jobs}
    type(jobs[1]).objects.filter(pk=jobs[1].pk).update(priority=3)
    after = {job.name: job for job in read(gpus).jobs}
    assert after["stays"] is before["stays"]
    assert after["changes"] != before["changes"]


def test_a_gpu_whose_load_changes_within_a_step_is_the_same_object_in_the_next_round(gpus):
    a_service(gpus[0])

    def at(**signals):
        return reading.read(SharingMode.ENFORCE, live(gpus[0], **signals), NOW).gpus[0]

    before = at(sm_online_percent=41.0, headroom_percent=31.0)
    assert at(sm_online_percent=44.0, headroom_percent=34.0) is before
    assert before.online.sm_percent == 45.0
    for changed in ({"sm_online_percent": 46.0}, {"headroom_percent": 2.0}):
        assert at(**{"sm_online_percent": 41.0, "headroom_percent": 31.0} | changed) != before


def test_headroom_just_above_the_limit_stays_above_it(gpus):
    least = BALANCED.min_gpu_headroom_percent
    for told in (least - 0.1, least, least + 0.1):
        facts = reading.read(SharingMode.ENFORCE, live(gpus[0], headroom_percent=told), NOW).gpus[0]
        assert (facts.headroom_percent >= least) is (told >= least)


def test_a_team_has_room_for_what_its_cap_leaves(gpus):
    a_running(a_waiting_job("runs"), gpus[0])
    Team.objects.filter(name="vision").update(max_running=3)
    Team.objects.create(name="free")
    assert read(gpus).team_room == {"vision": 2}


def why_fixed(gpus, now=NOW):
    (one,) = read(gpus, now).running
    return one.fixed


def test_a_job_that_just_started_stays(gpus):
    a_running(a_waiting_job("runs"), gpus[0])
    assert why_fixed(gpus) == "it has only just started"
    assert why_fixed(gpus, NOW + timedelta(seconds=BALANCED.residence_s)) == ""


def test_a_job_that_was_moved_often_enough_today_stays(gpus):
    placement = a_running(a_waiting_job("runs"), gpus[0], started_at=NOW - timedelta(hours=2))
    for _ in range(BALANCED.interruptions_per_day):
        an_eviction(placement)
    assert why_fixed(gpus) == "it was moved as often as its pool allows in a day"
    assert why_fixed(gpus, NOW + timedelta(days=1)) == ""
