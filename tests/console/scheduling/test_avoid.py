"""Where a job does not go for a while."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import PermissionDenied

from agents.wire.names import Origin
from console import doorbell
from console.accounts.models import Role
from console.audit.models import Entry
from console.audit.services import system
from console.errors import SomebodyWasFirst
from console.evictions import services as evictions
from console.scheduling import avoid, observed
from console.scheduling.models import AvoidEntry
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW, a_pool
from tests.console.scheduling.cast import a_running, a_waiting_job, an_end, sharing_gpus

pytestmark = pytest.mark.django_db


@pytest.fixture
def gpus():
    return sharing_gpus(3)


@pytest.fixture
def placement(gpus):
    return a_running(a_waiting_job("runs"), gpus[0])


def avoided(now=NOW) -> list[int]:
    return sorted(avoid.in_force(now).values_list("gpu__index", flat=True))


def taken_off(placement, origin: Origin, **told) -> None:
    evictions.request(placement, origin, system("test"), "Incident", NOW)
    evictions.tick(NOW + timedelta(seconds=60))
    observed.placement_ended(placement.gpu.node, an_end(placement, "evicted", **told), NOW)


@pytest.mark.parametrize(
    ("origin", "left"),
    [(Origin.POLICY, [0]), (Origin.MOVE, [0]), (Origin.DRAIN, []), (Origin.CANCEL, [])],
)
def test_a_job_does_not_come_back_at_once_to_where_it_was_taken_off(placement, origin, left):
    taken_off(placement, origin)
    assert avoided() == left
    assert avoided(NOW + timedelta(seconds=avoid.AVOID_S)) == []


def test_a_job_that_finished_first_avoids_nothing(placement):
    evictions.request(placement, Origin.POLICY, system("test"), "Incident", NOW)
    evictions.tick(NOW + timedelta(seconds=60))
    observed.placement_ended(placement.gpu.node, an_end(placement), NOW)
    assert avoided() == []


@pytest.mark.parametrize(
    ("hint", "left"), [("gpu", [0]), ("node", [0, 1, 2]), ("planet", []), (None, []), (7, [])]
)
def test_a_node_may_advise_against_itself(placement, hint, left):
    told = {} if hint is None else {"avoid": hint}
    observed.placement_ended(placement.gpu.node, an_end(placement, "evicted", **told), NOW)
    assert avoided() == left


def test_a_second_time_extends_the_first(placement, gpus):
    for later in (0, 60):
        now = NOW + timedelta(seconds=later)
        avoid.add(placement.job_id, [gpus[0].pk], "overload", "too much", now)
    assert AvoidEntry.objects.get().expires_at == NOW + timedelta(seconds=60 + avoid.AVOID_S)


# --- lifted -------------------------------------------------------------------------------


@pytest.fixture
def entry(placement, gpus):
    avoid.add(placement.job_id, [gpus[0].pk], "overload", "too much", NOW)
    return AvoidEntry.objects.select_related("job", "gpu__node__pool").get()


def test_an_operator_lifts_it_and_a_round_begins(
    entry, monkeypatch, django_capture_on_commit_callbacks
):
    rung = []
    monkeypatch.setattr(doorbell, "ringer", lambda name, _: rung.append(name))
    user = a_user("okafor", Role.OPERATOR)
    with django_capture_on_commit_callbacks(execute=True):
        avoid.lift(entry, user, "It was the neighbour", NOW)
    assert avoided() == []
    told = Entry.objects.get(action="job.lift_avoid")
    assert (told.user, told.reason) == (user, "It was the neighbour")
    assert rung == [doorbell.RUN_ROUND]


def test_it_is_lifted_once(entry):
    user = a_user("okafor", Role.OPERATOR)
    avoid.lift(entry, user, "", NOW)
    with pytest.raises(SomebodyWasFirst):
        avoid.lift(entry, user, "", NOW)


def test_only_an_operator_of_the_pool_lifts_it(entry):
    for user in (a_user("a", Role.APPROVER), a_user("b", Role.OPERATOR, pool=a_pool("batch"))):
        with pytest.raises(PermissionDenied):
            avoid.lift(entry, user, "", NOW)
    assert avoided() == [0]


def test_what_is_over_is_forgotten(entry):
    avoid.prune(entry.expires_at)
    assert not AvoidEntry.objects.exists()
