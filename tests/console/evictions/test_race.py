"""Two people, two connections, one proposal: PostgreSQL decides."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from agents.wire.ids import uuid7
from agents.wire.names import Origin
from console.accounts.models import Role, User
from console.audit.models import Entry
from console.audit.services import person, system
from console.errors import Refused
from console.evictions import services
from console.evictions.lifecycle import State
from console.evictions.models import Eviction
from console.policies import services as policies
from console.workloads import holds
from console.workloads.models import OfflineJob
from tests.console.accounts.cast import a_user
from tests.console.evictions.cast import NOW, a_job, a_placement, a_proposal, after, fresh
from tests.console.policies.cast import find, with_memory

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


def both(one, other) -> list[str]:
    """Run both at the same moment; what became of each."""
    gate = Barrier(2)

    def attempt(act) -> str:
        try:
            gate.wait(timeout=5)
            act()
        except Refused as refusal:
            return type(refusal).__name__
        finally:
            connection.close()
        return "done"

    with ThreadPoolExecutor(2) as pool:
        return sorted(pool.map(attempt, (one, other)))


def two(role: Role) -> tuple[User, User]:
    return a_user("ortega", role), a_user("okafor", role)


def test_of_two_approvers_at_once_one_decides():
    eviction, (one, other) = a_proposal(), two(Role.APPROVER)
    outcome = both(
        lambda: services.approve(eviction.pk, one, "", NOW),
        lambda: services.keep(eviction.pk, other, "", NOW),
    )
    # "Keep" may also come after the approval, while it can still be taken back.
    assert outcome.count("done") >= 1
    decided = Entry.objects.filter(action__in=["eviction.approve", "eviction.keep"]).count()
    assert decided == outcome.count("done")
    assert fresh(eviction).state in (State.APPROVED, State.REJECTED)


def test_two_who_approve_at_once_approve_once():
    eviction, (one, other) = a_proposal(), two(Role.APPROVER)
    outcome = both(
        lambda: services.approve(eviction.pk, one, "", NOW),
        lambda: services.approve(eviction.pk, other, "", NOW),
    )
    assert outcome == ["SomebodyWasFirst", "done"]


def test_two_ticks_at_once_dispatch_once():
    eviction = a_proposal()
    services.approve(eviction.pk, a_user("ortega", Role.APPROVER), "", NOW)
    both(lambda: services.tick(after(10)), lambda: services.tick(after(10)))
    assert Entry.objects.filter(action="eviction.dispatch").count() == 1


def test_two_editors_at_once_make_one_version():
    a_proposal()
    one, other = two(Role.POLICY_AUTHOR)
    mine, theirs = find(), find()
    outcome = both(
        lambda: policies.save_version(mine, with_memory(mine, 91), one, "Trial", NOW),
        lambda: policies.save_version(theirs, with_memory(theirs, 92), other, "Trial", NOW),
    )
    assert outcome == ["SomebodyWasFirst", "done"]
    assert find().current.number == 2


def test_two_clicks_on_evict_at_once_make_one_row():
    placement, (one, other) = a_placement(), two(Role.APPROVER)
    outcome = both(
        lambda: services.request(placement, Origin.POLICY, person(one), "", NOW),
        lambda: services.request(placement, Origin.POLICY, person(other), "", NOW),
    )
    assert outcome == ["done", "done"]
    assert Eviction.objects.count() == 1
    assert Entry.objects.filter(action="eviction.request").count() == 1


def test_two_who_lift_a_hold_at_once_lift_it_once():
    job, (one, other) = a_job(held_until=after(60)), two(Role.OPERATOR)
    outcome = both(
        lambda: holds.lift(OfflineJob.objects.get(pk=job.pk), one, "", NOW),
        lambda: holds.lift(OfflineJob.objects.get(pk=job.pk), other, "", NOW),
    )
    assert outcome.count("done") == 1
    assert Entry.objects.filter(action="job.lift_hold").count() == 1


def test_two_faults_of_a_job_at_once_are_both_counted():
    job = a_job()
    assert both(
        lambda: holds.hold(job.pk, system("test"), NOW, NOW, cause_id=uuid7()),
        lambda: holds.hold(job.pk, system("test"), NOW, NOW, cause_id=uuid7()),
    ) == ["done", "done"]
    job.refresh_from_db()
    assert (job.faults, job.held_until) == (2, after(120))
