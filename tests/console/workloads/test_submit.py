"""Submitting a job, and taking it back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.core.exceptions import PermissionDenied

from agents.wire.names import Origin
from console import doorbell
from console.accounts.models import Role
from console.audit.models import Entry
from console.errors import Invalid, SomebodyWasFirst
from console.evictions.models import Eviction
from console.workloads import services
from console.workloads.models import OfflineJob
from console.workloads.services import Submission
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import GIB, NOW, a_node, a_pool
from tests.console.workloads.cast import a_job, a_team, placed

pytestmark = pytest.mark.django_db


@pytest.fixture
def wanted() -> Submission:
    return Submission("train", a_team(), 3_600, 50, 80, 8 * GIB)


def test_a_submitted_job_is_queued_and_a_round_is_asked_for(
    wanted, monkeypatch, django_capture_on_commit_callbacks
):
    rung = []
    monkeypatch.setattr(doorbell, "ringer", lambda name, id: rung.append(name))
    with django_capture_on_commit_callbacks(execute=True):
        job = services.submit(wanted, a_user("ann", Role.OPERATOR), NOW)
    assert (job.state, job.owner.username, job.pools) == ("QUEUED", "ann", [])
    assert rung == [doorbell.RUN_ROUND]
    assert Entry.objects.get().action == "job.submit"


def test_an_operator_of_one_pool_submits_to_that_pool(wanted):
    user = a_user("ann", Role.OPERATOR, pool=a_pool("web"))
    a_pool("batch")
    assert services.submit(wanted, user, NOW).pools == ["web"]
    with pytest.raises(PermissionDenied, match="pool batch"):
        services.submit(replace(wanted, pools=("batch",)), user, NOW)


def test_a_viewer_submits_nothing(wanted):
    with pytest.raises(PermissionDenied):
        services.submit(wanted, a_user("ann", Role.VIEWER), NOW)
    assert not OfflineJob.objects.exists()


@pytest.mark.parametrize(
    "bad",
    [
        {"name": " "},
        {"name": "a\x00b"},
        {"work_s": 0},
        {"work_s": float("nan")},
        {"sm_percent": 101},
        {"gpu_util_percent": -1},
        {"memory_bytes": 0},
        {"checkpoint_period_s": float("inf")},
        {"priority": 1_001},
        {"max_retries": -1},
        {"pools": ("nowhere",)},
    ],
)
def test_a_value_that_does_not_fit_is_named(wanted, bad):
    with pytest.raises(Invalid) as caught:
        services.submit(replace(wanted, **bad), a_user("ann", Role.OPERATOR), NOW)
    assert set(caught.value.fields) == set(bad)


def test_a_job_like_another_begins_from_its_beginning():
    again = services.resubmit(a_job(saved_work_s=600, state="SUCCEEDED", priority=7), "again", NOW)
    assert (again.state, again.saved_work_s, again.priority) == ("QUEUED", 0, 7)


def test_a_waiting_job_is_cancelled_at_once_and_only_once():
    job, user = a_job(), a_user("ann", Role.OPERATOR)
    assert services.cancel(job, user, "", NOW) is None
    with pytest.raises(SomebodyWasFirst, match="cancelled already"):
        services.cancel(job, user, "", NOW)
    assert OfflineJob.objects.get().finished_at == NOW


def test_a_placed_job_is_cancelled_through_the_ordinary_stop():
    job = placed(a_node(gpus=1).gpus.get()).job
    eviction = services.cancel(job, a_user("ann", Role.OPERATOR), "wrong settings", NOW)
    assert (eviction.origin, eviction.reason) == (Origin.CANCEL, "wrong settings")
    assert OfflineJob.objects.get().state == "PLACED"


def test_its_owner_may_cancel_a_job_and_a_stranger_may_not():
    owner, stranger = a_user("ann", Role.VIEWER), a_user("bob", Role.VIEWER)
    job = a_job(owner=owner)
    with pytest.raises(PermissionDenied):
        services.cancel(job, stranger, "", NOW)
    services.cancel(job, owner, "", NOW)


def test_an_operator_of_the_pool_where_it_runs_may_cancel_a_job():
    node = a_node(gpus=1)
    job = placed(node.gpus.get()).job
    services.cancel(job, a_user("ann", Role.OPERATOR, pool=node.pool), "", NOW)
    assert Eviction.objects.count() == 1
