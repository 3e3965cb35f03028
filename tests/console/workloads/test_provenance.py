"""Where a job's profile comes from, from the form to the page."""

from __future__ import annotations

from datetime import timedelta

import pytest
from rest_framework.test import APIClient

from console.accounts.models import Role
from console.errors import Invalid
from console.workloads import services
from console.workloads.models import OfflineJob, ServiceProfile
from console.workloads.services import Submission
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import GIB, NOW, a_gpu, a_node
from tests.console.workloads.cast import a_job, a_service, a_team, placed
from tests.console.workloads.test_pages import FORM, client, get, live  # noqa: F401

pytestmark = pytest.mark.django_db

PROGRAM = {"image": "train:2", "command": ("python", "a.py")}


@pytest.fixture
def ann():
    return a_user("ann", Role.OPERATOR)


def submit(user, **wanted):
    return services.submit(Submission("train", a_team(), 3_600, **wanted), user, NOW)


def test_a_profile_that_is_given_is_rounded_and_queued(ann):
    job = submit(ann, sm_percent=52, gpu_util_percent=88, memory_bytes=9 * GIB - 7)
    assert (job.state, job.profile_source) == ("QUEUED", "user")
    assert (job.sm_percent, job.gpu_util_percent, job.memory_bytes) == (50, 90, 9 * GIB)


def test_without_a_profile_it_is_pending_and_the_worst_is_assumed(ann):
    job = submit(ann, memory_bytes=4 * GIB)
    assert (job.state, job.profile_source) == ("PENDING", "conservative")
    assert (job.sm_percent, job.memory_bytes) == (100, 4 * GIB)


def test_one_like_it_that_was_measured_lends_its_profile(ann):
    first = submit(ann, **PROGRAM)
    OfflineJob.objects.filter(pk=first.pk).update(
        profile_source="measured", profile_measured_at=NOW, profile_gpu_model="A10", sm_percent=35
    )
    job = submit(ann, **PROGRAM)
    assert (job.state, job.profile_source, job.sm_percent) == ("QUEUED", "history", 35)
    assert (job.profile_gpu_model, job.profile_measured_at) == ("A10", NOW)
    assert job.proven_at is None, "it is proven by its own first minutes"
    assert submit(a_user("bob", Role.OPERATOR), **PROGRAM).state == "PENDING"
    assert submit(ann, image="train:3").state == "PENDING"


def test_a_job_of_several_gpus_is_not_measured(ann):
    job = submit(ann, gpus=4)
    assert (job.state, job.profile_source) == ("QUEUED", "conservative")


BAD = (
    ({"sm_percent": 50.0}, "sm_percent"),
    ({"sm_percent": 50.0, "gpu_util_percent": 80.0}, "sm_percent"),
    ({"gpus": 0}, "gpus"),
    ({"cpu_cores": -1.0}, "cpu_cores"),
    ({"host_memory_bytes": 0}, "host_memory_bytes"),
    ({"labels": ("no-value",)}, "labels"),
    ({"labels": tuple(f"k{n}=v" for n in range(40))}, "labels"),
    ({"image": "x" * 301}, "image"),
    ({"image": "a\nb"}, "image"),
)


def test_what_does_not_fit_is_named(ann):
    for bad, field in BAD:
        with pytest.raises(Invalid) as refused:
            submit(ann, **bad)
        assert field in refused.value.fields, bad


def test_again_like_one_that_was_measured_it_need_not_be(ann):
    measured = a_job(profile_source="measured", profile_measured_at=NOW, profile_gpu_model="A10")
    again = services.resubmit(measured, "again", NOW)
    assert (again.state, again.profile_source) == ("QUEUED", "history")
    unknown = services.resubmit(a_job("x", profile_source="conservative"), "y", NOW)
    assert unknown.state == "PENDING"


def test_the_form_without_a_profile_submits_a_pending_job():
    bare = {name: value for name, value in FORM.items() if not name.endswith("percent")}
    needs = {"memory_gib": "", "cpu_cores": "4", "labels": "rack=r1, zone=b", "image": "train:2"}
    answer = client(Role.OPERATOR).post(
        "/jobs/new/", {**bare, **needs, "team": str(a_team().pk), "gpus": "1"}
    )
    assert answer.status_code == 302
    job = OfflineJob.objects.get()
    assert (job.state, job.labels, job.cpu_cores) == ("PENDING", ["rack=r1", "zone=b"], 4)


ORIGINS = (
    ({}, "Given by the submitter"),
    ({"source": "imported"}, "Imported with the job"),
    (
        {
            "profile_source": "measured",
            "profile_gpu_model": "A10",
            "profile_why": "on node-07 / GPU 3",
            "profile_measured_at": NOW,
        },
        "Measured on A10 (node-07 / GPU 3)",
    ),
    (
        {"profile_source": "conservative", "profile_why": "no free GPU within 10 min"},
        "Conservative: no free GPU within 10 min",
    ),
    ({"profile_source": "conservative", "state": "PENDING"}, "Assumed, until it is measured"),
)


def test_the_page_of_a_job_says_where_its_profile_comes_from():
    someone = client(Role.VIEWER)
    for facts, words in ORIGINS:
        page = get(someone, "job", a_job(**facts).pk)
        assert words in page, facts
        assert "not proven yet" in page


def test_the_page_says_when_it_is_proven_and_that_it_is_being_measured():
    job = a_job(proven_at=NOW, profile_source="conservative")
    placed(a_gpu(a_node()), job)
    OfflineJob.objects.filter(pk=job.pk).update(state="PROFILING")
    someone = client(Role.VIEWER)
    page = get(someone, "job", job.pk)
    assert "<b>proven</b>" in page
    assert "it is being measured, and goes on there afterwards" in page
    assert "Profiling" in get(someone, "jobs", show="running")


def test_the_page_of_a_service_shows_what_was_measured_and_how_old_it_is():
    service = a_service(a_gpu(a_node()))
    someone = client(Role.VIEWER)
    assert "Not measured yet" in get(someone, "service", service.pk)
    ServiceProfile.objects.create(
        service=service, gpu_model="A10 special", since=NOW, measured_at=NOW, samples=400,
        sm_percent=31, gpu_util_percent=70, memory_bytes=20 * GIB,
    )  # fmt: skip
    assert "A10 special" in get(someone, "service", service.pk)


def test_over_rest_a_job_may_come_without_a_profile_and_tells_where_it_has_it_from(ann):
    api = APIClient()
    api.force_authenticate(ann)
    body = {"name": "train", "team": a_team().name, "work_s": 60, "labels": ["rack=r1"]}
    answer = api.post("/api/v1/jobs/", body, format="json")
    assert answer.status_code == 201, answer.content
    told = answer.json()
    assert (told["state"], told["profile_source"]) == ("PENDING", "conservative")
    assert (told["labels"], told["gpus"], told["proven_at"]) == (["rack=r1"], 1, None)
    rows = api.get("/api/v1/jobs/", {"profile": "conservative", "proven": "false"}).json()
    assert rows["results"][0]["id"] == told["id"]


def test_what_was_measured_long_ago_is_measured_again(ann, settings):
    old = NOW - timedelta(days=settings.PROFILE_MAX_AGE_DAYS + 1)
    first = submit(ann, **PROGRAM)
    OfflineJob.objects.filter(pk=first.pk).update(
        profile_source="measured", profile_measured_at=old
    )
    assert submit(ann, **PROGRAM).state == "PENDING"
