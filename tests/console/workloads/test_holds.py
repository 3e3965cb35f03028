"""A job that faulted waits out its hold, unless an operator lifts it."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console import doorbell
from console.accounts.models import Role
from console.audit.models import Entry
from console.audit.services import system
from console.errors import Refused, SomebodyWasFirst
from console.telemetry import live_store
from console.workloads import holds, queries
from console.workloads.models import OfflineJob
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW, a_pool
from tests.console.workloads.cast import a_job

pytestmark = pytest.mark.django_db


def held(job: OfflineJob, now=NOW) -> OfflineJob:
    holds.hold(job.pk, system("test"), now, now, cause_id=uuid4())
    job.refresh_from_db()
    return job


def operator(**fields) -> Client:
    client = Client()
    client.force_login(a_user("ann", Role.OPERATOR, **fields))
    return client


@pytest.fixture
def job() -> OfflineJob:
    return held(a_job())


def test_a_hold_ends_by_itself(job):
    assert job.is_held(NOW)
    assert not job.is_held(NOW + timedelta(seconds=60))


def test_a_held_job_has_no_place_in_the_queue(job):
    other = a_job("other")
    assert queries.positions(NOW) == {other.pk: 1}
    assert len(queries.positions(NOW + timedelta(seconds=60))) == 2


def test_a_lifted_job_may_be_placed_and_its_faults_stay_counted(
    job, monkeypatch, django_capture_on_commit_callbacks
):
    rung = []
    monkeypatch.setattr(doorbell, "ringer", lambda name, id: rung.append(name))
    with django_capture_on_commit_callbacks(execute=True):
        holds.lift(job, a_user("ann", Role.OPERATOR), "mended", NOW)
    job.refresh_from_db()
    assert (job.held_until, job.faults) == (None, 1)
    assert rung == [doorbell.RUN_ROUND]
    lifted = Entry.objects.get(action="job.lift_hold")
    assert (lifted.actor, lifted.reason) == ("user:ann", "mended")
    assert held(job).faults == 2


def test_only_an_operator_of_all_its_pools_lifts_a_hold(job):
    a_pool("web"), a_pool("batch")
    owner = a_user("owner", Role.VIEWER)
    OfflineJob.objects.update(owner=owner, pools=["web", "batch"])
    job.refresh_from_db()
    for person in (owner, a_user("half", Role.OPERATOR, pool=a_pool("web"))):
        with pytest.raises(PermissionDenied):
            holds.lift(job, person, "", NOW)
    job.refresh_from_db()
    assert job.is_held(NOW)


def test_a_job_whose_pools_are_gone_is_not_everybodys(job):
    OfflineJob.objects.update(pools=["gone"])
    job.refresh_from_db()
    with pytest.raises(PermissionDenied):
        holds.lift(job, a_user("half", Role.OPERATOR, pool=a_pool("web")), "", NOW)


def test_of_two_who_lift_at_once_one_is_told_that_somebody_was_first(job):
    ann, ben = a_user("ann", Role.OPERATOR), a_user("ben", Role.OPERATOR)
    seen_by_ben = OfflineJob.objects.get(pk=job.pk)
    holds.lift(job, ann, "", NOW)
    with pytest.raises(SomebodyWasFirst):
        holds.lift(seen_by_ben, ben, "", NOW)
    assert Entry.objects.filter(action="job.lift_hold").count() == 1


def test_a_hold_that_was_renewed_meanwhile_is_not_lifted(job):
    seen = OfflineJob.objects.get(pk=job.pk)
    held(job)
    with pytest.raises(SomebodyWasFirst):
        holds.lift(seen, a_user("ann", Role.OPERATOR), "", NOW)


def test_what_is_not_held_cannot_be_lifted():
    with pytest.raises(Refused, match="not held"):
        holds.lift(a_job(), a_user("ann", Role.OPERATOR), "", NOW)


def test_pages_and_api_say_until_when_and_let_an_operator_lift_it(monkeypatch):
    monkeypatch.setattr(live_store, "read", dict)
    job, client = held(a_job(), timezone.now()), operator()
    page = client.get(reverse("job", args=[job.pk])).content.decode()
    assert "Held until" in page
    assert reverse("job_lift_hold", args=[job.pk]) in page
    assert "Held until" in client.get(reverse("jobs")).content.decode()
    assert [one["name"] for one in client.get("/api/v1/jobs/?held=true").json()["results"]] == [
        "resnet-31"
    ]
    assert "stays counted" in client.get(reverse("job_lift_hold", args=[job.pk])).content.decode()
    assert client.post(f"/api/v1/jobs/{job.pk}/lift_hold/").status_code == 200
    assert client.post(f"/api/v1/jobs/{job.pk}/lift_hold/").status_code == 409
    assert "Held until" not in client.get(reverse("job", args=[job.pk])).content.decode()


def test_a_viewer_sees_who_may_lift_it_and_is_refused():
    job = held(a_job(), timezone.now())
    client = Client()
    client.force_login(a_user("eve", Role.VIEWER))
    assert "Only operators" in client.get(reverse("job", args=[job.pk])).content.decode()
    assert client.post(reverse("job_lift_hold", args=[job.pk])).status_code == 403
    assert client.post(f"/api/v1/jobs/{job.pk}/lift_hold/").status_code == 403
