"""What people decide: approve, keep, undo, ask, review."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied

from agents.wire.ids import uuid7
from agents.wire.names import Origin
from console.accounts.models import Role
from console.audit import services as audit
from console.audit.models import Entry
from console.errors import IllegalTransition, Refused, SomebodyWasFirst
from console.evictions import queries, services
from console.evictions.lifecycle import State
from console.evictions.models import Eviction, Silence
from console.inventory.models import Node
from console.scheduling.models import Placement
from tests.console.accounts.cast import a_user
from tests.console.evictions.cast import (
    NOW,
    a_dispatched,
    a_gpu_in_use,
    a_placement,
    a_proposal,
    a_start,
    a_viewer,
    after,
    an_approver,
    an_end,
    fresh,
)
from tests.console.inventory.cast import a_pool

pytestmark = pytest.mark.django_db


def test_approving_gives_time_to_undo_and_says_who_when_why():
    eviction, user = a_proposal(), an_approver()
    services.approve(eviction.pk, user, "Incident", after(3))
    row = fresh(eviction)
    assert (row.state, row.decided_by, row.reason) == (State.APPROVED, user, "Incident")
    assert row.dispatch_at == after(13)


def test_approving_twice_evicts_once():
    eviction, user = a_proposal(), an_approver()
    services.approve(eviction.pk, user, "", NOW)
    with pytest.raises(SomebodyWasFirst):
        services.approve(eviction.pk, user, "", after(1))
    services.tick(after(10))
    services.tick(after(11))
    assert Entry.objects.filter(action="eviction.dispatch").count() == 1


def test_the_second_approver_learns_who_was_first_and_what_they_chose():
    eviction = a_proposal()
    services.keep(eviction.pk, an_approver(), "Traffic test", NOW)
    second = a_user("okafor", Role.APPROVER)
    with pytest.raises(SomebodyWasFirst, match=r"M\. Ortega was first: kept running 3.s ago"):
        services.approve(eviction.pk, second, "", after(3))
    assert fresh(eviction).state == State.REJECTED


def test_of_two_who_read_the_same_row_one_wins(monkeypatch):
    """1. Both load the proposal. 2. One keeps it. 3. The other's update finds no row."""
    eviction, user = a_proposal(), an_approver()
    stale = fresh(eviction)
    services.keep(eviction.pk, user, "", NOW)
    monkeypatch.setattr(services, "load_for_approver", lambda *_: stale)
    with pytest.raises(SomebodyWasFirst, match="kept running"):
        services.approve(eviction.pk, user, "", NOW)
    assert fresh(eviction).state == State.REJECTED


def test_approving_after_the_deadline_ran_changes_nothing():
    eviction = a_proposal()
    services.tick(after(240))
    with pytest.raises(SomebodyWasFirst, match="The rule was first"):
        services.approve(eviction.pk, an_approver(), "", after(241))
    assert fresh(eviction).decided_by is None


def test_the_deadline_after_an_approval_changes_nothing():
    eviction, user = a_proposal(), an_approver()
    services.approve(eviction.pk, user, "", after(239))
    services.tick(after(241))
    assert fresh(eviction).state == State.APPROVED
    assert not Entry.objects.filter(action="eviction.run_by_default").exists()


def test_approving_after_the_job_ended_is_refused():
    eviction = a_proposal()
    services.placement_ended(eviction.placement, an_end(eviction.placement, "finished"), NOW)
    with pytest.raises(SomebodyWasFirst, match="The job ended"):
        services.approve(eviction.pk, an_approver(), "", after(1))


@pytest.mark.parametrize("state", [Node.State.STALE, Node.State.LOST])
def test_old_data_closes_the_decision_to_evict_but_not_to_keep(state):
    eviction, user = a_proposal(), an_approver()
    Node.objects.update(state=state)
    with pytest.raises(Refused, match="does not answer"):
        services.approve(eviction.pk, user, "", NOW)
    assert services.keep(eviction.pk, user, "", NOW).state == State.REJECTED


@pytest.mark.parametrize("decide", [services.approve, services.keep])
def test_a_viewer_decides_nothing(decide):
    eviction = a_proposal()
    with pytest.raises(PermissionDenied, match="approver"):
        decide(eviction.pk, a_viewer(), "", NOW)
    assert fresh(eviction).state == State.PROPOSED


def test_an_approver_of_another_pool_decides_nothing():
    eviction = a_proposal()
    stranger = a_user("okafor", Role.APPROVER, pool=a_pool("other"))
    with pytest.raises(PermissionDenied):
        services.approve(eviction.pk, stranger, "", NOW)


def test_keeping_silences_the_rule_for_this_placement_and_origin_for_a_while():
    eviction = a_proposal()
    services.keep(eviction.pk, an_approver(), "Traffic test", NOW)
    placement = eviction.placement
    assert services.propose(placement, Origin.SLO, "again", {}, after(1_799)) is None
    assert services.propose(placement, Origin.MOVE, "other", {}, after(10)) is not None
    assert Silence.objects.get().until == after(1_800)


def test_when_the_silence_is_over_the_rule_speaks_again():
    eviction = a_proposal()
    services.keep(eviction.pk, an_approver(), "", NOW)
    assert services.propose(eviction.placement, Origin.SLO, "again", {}, after(1_801))


def test_undo_brings_a_proposal_back_with_time_to_decide():
    eviction, user = a_proposal(), an_approver()
    services.approve(eviction.pk, user, "", after(235))
    services.undo(eviction.pk, user, after(239))
    row = fresh(eviction)
    assert (row.state, row.decided_by, row.dispatch_at) == (State.PROPOSED, None, None)
    assert row.deadline_at == after(299)
    services.tick(after(240))
    assert fresh(eviction).state == State.PROPOSED


def test_undo_after_dispatch_is_refused_with_the_story():
    eviction = a_dispatched()
    user = a_user("okafor", Role.APPROVER)
    with pytest.raises(IllegalTransition, match="the node has been told"):
        services.undo(eviction.pk, user, after(12))
    assert fresh(eviction).state == State.DISPATCHED


def test_keep_still_holds_before_the_dispatch_and_not_after():
    eviction, user = a_proposal(), an_approver()
    services.approve(eviction.pk, user, "", NOW)
    services.keep(eviction.pk, user, "Changed my mind", after(5))
    services.tick(after(60))
    assert fresh(eviction).state == State.REJECTED


# --- a person's own wish ----------------------------------------------------------------------


def ask(placement: Placement, origin: Origin = Origin.POLICY, user=None) -> Eviction:
    actor = audit.person(user or an_approver())
    return services.request(placement, origin, actor, "Owner asked", NOW)


def test_a_persons_wish_goes_out_when_the_time_to_undo_is_over():
    eviction = ask(a_placement())
    assert (eviction.state, eviction.dispatch_at) == (State.APPROVED, after(10))
    services.tick(after(10))
    assert fresh(eviction).state == State.DISPATCHED


def test_stopping_to_share_goes_out_at_once():
    eviction = ask(a_placement(), Origin.STOP_SHARING)
    services.tick(NOW)
    assert fresh(eviction).state == State.DISPATCHED


def test_undoing_ones_own_wish_withdraws_it():
    user = an_approver()
    eviction = ask(a_placement(), user=user)
    services.undo(eviction.pk, user, after(5))
    row = fresh(eviction)
    assert (row.state, row.reason, row.ended_at) == (State.REJECTED, "Withdrawn", after(5))
    assert not Silence.objects.exists()


def test_a_wish_takes_the_place_of_a_proposal():
    proposal = a_proposal()
    wish = ask(proposal.placement)
    assert fresh(proposal).state == State.SUPERSEDED
    assert wish.state == State.APPROVED


def test_a_wish_for_what_is_under_way_returns_that():
    eviction = a_dispatched()
    assert ask(eviction.placement, user=a_user("okafor", Role.APPROVER)) == eviction


def test_asking_twice_makes_one_row_and_leaves_the_first_its_time_to_undo():
    placement = a_placement()
    first = ask(placement)
    second = ask(placement, user=a_user("okafor", Role.APPROVER))
    assert (second, second.dispatch_at) == (first, after(10))
    assert Eviction.objects.count() == 1
    assert Entry.objects.filter(action="eviction.request").count() == 1


def test_asking_twice_at_the_same_moment_makes_one_row(monkeypatch):
    placement = a_placement()
    first, open_of, looks = ask(placement), queries.open_of, iter([True])
    monkeypatch.setattr(queries, "open_of", lambda p: None if next(looks, False) else open_of(p))
    assert ask(placement, user=first.decided_by) == first
    assert Eviction.objects.count() == 1


def test_a_wish_for_another_reason_takes_the_place_of_an_approved_one():
    wish = ask(a_placement())
    drain = ask(wish.placement, Origin.DRAIN, user=a_user("okafor", Role.APPROVER))
    assert (fresh(wish).state, drain.state) == (State.SUPERSEDED, State.APPROVED)


def test_an_ended_placement_cannot_be_evicted():
    with pytest.raises(Refused, match="has ended already"):
        ask(a_placement(state="ENDED", ended_at=NOW))


def test_at_most_one_is_open_per_placement():
    eviction = a_proposal()
    assert services.propose(eviction.placement, Origin.MOVE, "pays", {}, NOW) is None
    assert Eviction.objects.filter(state__in=Eviction.OPEN).count() == 1


def test_of_two_that_begin_at_the_same_moment_the_constraint_lets_one_in(monkeypatch):
    eviction = a_proposal()
    monkeypatch.setattr(queries, "open_of", lambda _: None)
    assert services.propose(eviction.placement, Origin.MOVE, "pays", {}, NOW) is None
    with pytest.raises(SomebodyWasFirst, match="just now"):
        ask(eviction.placement)


# --- review -----------------------------------------------------------------------------------


def test_a_group_is_reviewed_once():
    gpu, user = a_gpu_in_use(), an_approver()
    placement = a_placement(gpu)
    eviction = services.agent_started(gpu.node, a_start(placement), NOW)
    assert eviction.review == Eviction.Review.WANTED
    assert services.review([eviction.pk], user, "Known reindex", after(60)) == 1
    assert services.review([eviction.pk], user, "again", after(61)) == 0
    row = fresh(eviction)
    assert (row.review, row.reviewed_by) == (Eviction.Review.DONE, user)


def test_a_review_of_what_does_not_exist_is_an_error():
    with pytest.raises(Eviction.DoesNotExist):
        services.review([uuid7()], an_approver(), "", NOW)


def test_every_change_leaves_an_entry_with_actor_reason_and_cause():
    eviction = a_dispatched()
    entries = Entry.objects.filter(object_id=str(eviction.pk)).order_by("pk")
    told = [(entry.action, entry.actor) for entry in entries]
    assert told == [
        ("eviction.propose", "system:evictions"),
        ("eviction.approve", "user:ortega"),
        ("eviction.dispatch", "system:evictions"),
    ]
    assert {entry.cause_id for entry in entries} == {eviction.pk}
    assert entries[1].reason == "Incident"
    assert entries[1].data == {"before": "PROPOSED", "after": "APPROVED"}
