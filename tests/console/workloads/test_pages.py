"""Jobs and services: what the pages show, to whom, and at what cost."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from agents.wire.names import Origin
from console import figures
from console.accounts.models import Role
from console.evictions.models import Eviction
from console.inventory.models import Pool
from console.policies import services as policies
from console.scheduling.models import Decision, Round
from console.telemetry import live_store
from console.workloads.models import OfflineJob
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW, a_node, a_pool
from tests.console.workloads.cast import a_job, a_service, a_team, placed

pytestmark = pytest.mark.django_db

FORM = {
    "name": "train",
    "work_h": "2",
    "memory_gib": "8",
    "sm_percent": "50",
    "gpu_util_percent": "80",
    "memory_bandwidth_percent": "30",
    "priority": "0",
    "checkpoint": "on_sigterm",
    "checkpoint_min": "10",
    "max_retries": "3",
    "command": "python -m train --epochs '3 or so'",
}


@pytest.fixture(autouse=True)
def live(monkeypatch) -> dict:
    """What the live store holds; empty unless a test fills it."""
    samples: dict = {}
    monkeypatch.setattr(live_store, "read", lambda: samples)
    return samples


class Sample:
    is_live = True

    def __init__(self, p99_ms: float | None, qps: float | None) -> None:
        self.online_p99_ms, self.online_qps = p99_ms, qps

    def __getattr__(self, name: str) -> None:
        return None


def client(*roles: Role, pool: Pool | None = None) -> Client:
    client = Client()
    client.force_login(a_user(f"person-{pool}-{'-'.join(roles)}", *roles, pool=pool))
    return client


def get(client: Client, name: str, *args, **query) -> str:
    answer = client.get(reverse(name, args=args), query)
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


def test_the_queue_is_by_priority_and_then_by_time_with_the_reason():
    a_job("later", wait_reason="no GPU has room for 70 GiB")
    a_job("sooner", priority=5)
    page = get(client(Role.VIEWER), "jobs")
    assert page.index("sooner") < page.index("later")
    assert "no GPU has room for 70 GiB" in page


def test_each_view_shows_its_jobs():
    placed(a_node(gpus=1).gpus.get(), a_job("placed-one"))
    a_job("queued-one")
    a_job("ended-one", state="SUCCEEDED", finished_at=NOW)
    someone = client(Role.VIEWER)
    shown = {
        show: {name for name in ("placed-one", "queued-one", "ended-one") if name in page}
        for show in ("waiting", "running", "ended", "all")
        if (page := get(someone, "jobs", show=show))
    }
    assert shown == {
        "waiting": {"queued-one"},
        "running": {"placed-one"},
        "ended": {"ended-one"},
        "all": {"placed-one", "queued-one", "ended-one"},
    }


def test_more_jobs_cost_no_more_queries(django_assert_num_queries):
    someone = client(Role.VIEWER)
    get(someone, "jobs", show="all")
    for gpu in a_node(gpus=20).gpus.all():
        placed(gpu)
    with django_assert_num_queries(10):
        get(someone, "jobs", show="all")


def test_a_viewer_of_one_pool_sees_the_jobs_of_that_pool():
    web = a_pool("web")
    a_job("for-web", pools=["web"])
    a_job("for-batch", pools=["batch"])
    a_job("for-any")
    placed(a_node(pool=web, gpus=1).gpus.get(), a_job("on-web", pools=["batch"]))
    page = get(client(Role.VIEWER, pool=web), "jobs", show="all")
    assert {name for name in ("for-web", "for-batch", "for-any", "on-web") if name in page} == {
        "for-web",
        "for-any",
        "on-web",
    }


def test_the_page_of_a_job_in_another_pool_is_not_there():
    job = a_job(pools=["batch"])
    answer = client(Role.VIEWER, pool=a_pool("web")).get(reverse("job", args=[job.pk]))
    assert answer.status_code == 404


def test_the_page_of_a_job_shows_limits_as_wanted_and_as_they_are(django_assert_num_queries):
    placement = placed(
        a_node(gpus=1).gpus.get(),
        effective_sm_share_percent=30,
        pending_sm_share_percent=40,
        observed_throughput=0.61,
        predicted_throughput=0.7,
    )
    policies.ensure_defaults(NOW, demo=False)
    someone = client(Role.OPERATOR)
    with django_assert_num_queries(10):
        page = get(someone, "job", placement.job_id)
    for percent in (40, 30, 61, 70):
        assert figures.quantity(percent, "%") in page


def test_the_page_of_a_job_tells_how_far_xcuda_holds_it_and_what_its_node_remarks():
    placement = placed(
        a_node(gpus=1).gpus.get(), xcuda_processes=1, cuda_processes=2, remarks=["One has left."]
    )
    page = get(client(Role.VIEWER), "job", placement.job_id)
    assert "xCUDA coverage 1 of 2" in page
    assert "One has left." in page
    placed(a_node("node-02", gpus=1).gpus.get(), job := a_job("silent"))
    assert "xCUDA coverage not reported" in get(client(Role.OPERATOR), "job", job.pk)


def test_the_page_of_a_waiting_job_tells_its_place_and_why():
    a_job("first", priority=1)
    job = a_job("second")
    someone = client(Role.VIEWER)
    page = get(someone, "job", job.pk)
    assert "at place <b>2</b>" in page
    assert "No round has looked at it yet" in page
    round = Round.objects.create(kind="enforce", state="DONE", started_at=NOW)
    Decision.objects.create(round=round, kind="wait", job=job, why="every GPU it fits is taken")
    assert "every GPU it fits is taken" in get(someone, "job", job.pk)


def test_an_eviction_reads_as_a_letter():
    gpu = a_node(gpus=1).gpus.get()
    placement = placed(gpu, state="ENDED")
    OfflineJob.objects.update(state="QUEUED")
    Eviction.objects.create(
        placement=placement,
        gpu=gpu,
        origin=Origin.OVERLOAD,
        state="COMPLETED",
        state_since=NOW,
        proposed_at=NOW,
        why="SM activity 97 %",
        lost_work_s=0,
    )
    page = get(client(Role.VIEWER), "job", placement.job_id)
    assert f"Taken off {gpu}" in page
    assert "Online work goes first" in page
    assert "nothing was lost" in page
    assert "You need do nothing" in page


def test_a_submitted_form_queues_a_job_in_the_units_of_the_database():
    answer = client(Role.OPERATOR).post(reverse("job_new"), {**FORM, "team": a_team().pk})
    job = OfflineJob.objects.get()
    assert answer.headers["Location"] == reverse("job", args=[job.pk])
    assert (job.work_s, job.memory_bytes, job.checkpoint_period_s) == (7_200, 8 << 30, 600)
    assert job.command == ["python", "-m", "train", "--epochs", "3 or so"]


@pytest.mark.parametrize(
    "bad", [{"work_h": "0"}, {"sm_percent": "x"}, {"command": "'open"}, {"pools": ["nowhere"]}]
)
def test_a_form_that_does_not_fit_comes_back_with_what_is_wrong(bad):
    answer = client(Role.OPERATOR).post(reverse("job_new"), {**FORM, "team": a_team().pk, **bad})
    assert answer.status_code == 422
    assert not OfflineJob.objects.exists()


def test_the_form_is_closed_to_a_viewer_and_says_why():
    answer = client(Role.VIEWER).get(reverse("job_new"))
    assert answer.status_code == 403
    assert "You need the role operator" in answer.content.decode()


def test_another_like_it_fills_the_form():
    job = a_job(work_s=5_400)
    page = get(client(Role.OPERATOR), "job_new", like=str(job.pk))
    assert f"{job.name}-again" in page
    assert "1.5" in page


def test_cancelling_asks_first_and_then_cancels():
    job, someone = a_job(), client(Role.OPERATOR)
    assert "leaves the queue at once" in get(someone, "job_cancel", job.pk)
    assert OfflineJob.objects.get().state == "QUEUED"
    someone.post(reverse("job_cancel", args=[job.pk]))
    assert OfflineJob.objects.get().state == "CANCELLED"


def test_services_show_load_and_latency_of_now(live):
    gpu = a_node(gpus=1).gpus.get()
    a_service(gpu)
    live[gpu.pk] = Sample(p99_ms=50, qps=120)
    page = get(client(Role.VIEWER), "services")
    assert "Over its SLO" in page
    assert figures.quantity(120, "/s") in page


def test_a_service_that_nobody_hears_has_no_latency_rather_than_zero(live):
    service = a_service(a_node(gpus=1).gpus.get())
    page = get(client(Role.VIEWER), "services")
    assert "No live data" in page
    assert f">{figures.quantity(0, 'ms')}" not in page
    assert "no live data" in get(client(Role.VIEWER, Role.OPERATOR), "service", service.pk)


def test_more_instances_cost_no_more_queries(django_assert_num_queries):
    for gpu in a_node(gpus=6).gpus.all():
        a_service(gpu, f"service-{gpu.index}")
        placed(gpu)
    someone = client(Role.VIEWER)
    with django_assert_num_queries(9):
        get(someone, "services")


def test_lists_of_services_sort_by_what_is_missing_too(live):
    gpus = list(a_node(gpus=2).gpus.all())
    for gpu in gpus:
        a_service(gpu, f"service-{gpu.index}", slo_p99_ms=None)
    live[gpus[0].pk] = Sample(p99_ms=50, qps=None)
    someone = client(Role.VIEWER)
    for column in ("p99_ms", "qps", "slo", "ratio", "-over", "-name"):
        get(someone, "services", sort=column)


def test_neighbours_are_compared_as_a_glance(live):
    gpus = list(a_node(gpus=2).gpus.all())
    service = a_service(gpus[0])
    service.instances.create(gpu=gpus[1])
    placed(gpus[0])
    live.update({gpus[0].pk: Sample(30, 10), gpus[1].pk: Sample(28, 10)})
    page = get(client(Role.VIEWER), "service", service.pk)
    beside, alone = figures.quantity(30, "ms"), figures.quantity(28, "ms")
    assert f"mean p99 {beside} beside one, {alone} alone" in page
    assert "not a proof" in page
