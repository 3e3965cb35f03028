"""What nodes report: once, twice, late, out of order, and about what is not theirs."""

from __future__ import annotations

import msgspec
import pytest

from agents.wire.messages import EventBatch
from agents.wire.names import PHASES, EventKind, Origin
from console.audit.models import Entry
from console.evictions import services, words
from console.evictions.lifecycle import State
from console.evictions.models import Eviction, EvictionPhase
from console.inventory.models import Gpu, Node
from tests.console.evictions.cast import (
    NOW,
    a_dispatched,
    a_gpu_in_use,
    a_phase,
    a_placement,
    a_proposal,
    a_report,
    a_start,
    after,
    an_approver,
    an_end,
    fresh,
)
from tests.console.inventory.cast import GIB, a_node
from tests.console.telemetry.cast import persist

pytestmark = pytest.mark.django_db


def started(placement, origin=Origin.OVERLOAD) -> Eviction:
    eviction = services.agent_started(placement.gpu.node, a_start(placement, origin), NOW)
    assert eviction is not None
    return eviction


def report_phase(eviction, phase, at=0.0, **data):
    event = a_phase(eviction, phase, at, **data)
    return services.agent_phase(eviction.gpu.node, event, after(at))


def test_an_overload_enters_at_stopping_with_the_agents_id_and_evidence():
    placement = a_placement()
    report = a_start(placement)
    eviction = services.agent_started(placement.gpu.node, report, after(1))
    assert str(eviction.pk) == report.eviction_id
    assert (eviction.state, eviction.origin) == (State.STOPPING, Origin.OVERLOAD)
    assert eviction.reaction_ms == 400.0
    assert eviction.evidence["signal"] == "sm_activity"
    assert eviction.evidence["policy"] == "Balanced v1"
    assert (eviction.proposed_at, eviction.expected_lost_work_s) == (NOW, 840.0)


def test_the_same_start_twice_makes_one_row():
    placement = a_placement()
    report = a_start(placement)
    for seconds in (1, 2):
        services.agent_started(placement.gpu.node, report, after(seconds))
    assert Eviction.objects.count() == 1
    assert Entry.objects.filter(action="eviction.begin").count() == 1


@pytest.mark.parametrize("origin", [Origin.STOP_SHARING, Origin.POLICY])
def test_a_stop_of_the_nodes_own_is_an_eviction_that_the_node_decided(origin):
    """Its lease ran out, or somebody switched sharing off on the machine."""
    eviction = started(a_placement(), origin)
    report_phase(eviction, "SIGNALLED", 1)
    row = fresh(eviction)
    assert (row.by_node, row.state, row.phase) == (True, State.STOPPING, "SIGNALLED")
    assert (words.who(row), row.review) == ("The node", Eviction.Review.NOT_NEEDED)
    assert words.look(row).word != "By hand"


@pytest.mark.parametrize("origin", [Origin.CANCEL, Origin.MOVE, Origin.DRAIN, Origin.SLO])
def test_a_node_takes_nothing_off_for_what_only_the_console_decides(origin):
    placement = a_placement()
    with pytest.raises(ValueError, match="by itself"):
        services.agent_started(placement.gpu.node, a_start(placement, origin), NOW)
    assert not Eviction.objects.exists()


def test_a_whole_stop_replayed_makes_one_row_and_each_phase_once():
    placement = a_placement()
    start = a_start(placement, Origin.STOP_SHARING)
    phases = [
        a_report(EventKind.EVICTION_PHASE, placement, start.eviction_id, number, phase=phase)
        for number, phase in enumerate(PHASES)
    ]
    batch = EventBatch(
        tuple(
            msgspec.structs.replace(event, seq=seq)
            for seq, event in enumerate([start, *phases, an_end(placement)], start=1)
        )
    )
    for _ in range(2):
        node = Node.objects.get(pk=placement.gpu.node_id)
        node.acked_event_seq = 0
        persist(node, batch, after(20))
    row = Eviction.objects.get()
    assert (row.state, row.finished_first) == (State.COMPLETED, False)
    assert EvictionPhase.objects.count() == len(PHASES)
    assert Entry.objects.filter(action="eviction.begin").count() == 1


def test_a_start_that_is_told_after_the_placement_ended_is_closed_by_the_sweep():
    placement = a_placement(state="ENDED", ended_at=NOW, end_reason="lost")
    eviction = started(placement, Origin.POLICY)
    services.tick(after(1))
    assert fresh(eviction).state == State.COMPLETED


@pytest.mark.parametrize("origin", [Origin.OVERLOAD, Origin.EMERGENCY])
def test_what_the_agent_does_supersedes_what_waits(origin):
    proposal = a_proposal()
    started(proposal.placement, origin)
    assert fresh(proposal).state == State.SUPERSEDED
    assert Eviction.objects.filter(state__in=Eviction.OPEN).count() == 1


def test_an_emergency_supersedes_what_was_approved_sent_or_stopping():
    approved = a_proposal()
    services.approve(approved.pk, an_approver(), "", NOW)
    emergency = started(approved.placement, Origin.EMERGENCY)
    services.tick(after(60))
    assert fresh(approved).state == State.SUPERSEDED
    assert fresh(emergency).state == State.STOPPING


def test_an_emergency_with_the_id_of_an_overload_escalates_it():
    placement = a_placement()
    overload = started(placement)
    again = a_start(placement, Origin.EMERGENCY, eviction_id=overload.pk)
    services.agent_started(placement.gpu.node, again, after(2))
    services.agent_started(placement.gpu.node, again, after(3))
    row = fresh(overload)
    assert (row.origin, row.state) == (Origin.EMERGENCY, State.STOPPING)
    assert Entry.objects.filter(action="eviction.escalate").count() == 1


@pytest.mark.parametrize("origin", [Origin.OVERLOAD, Origin.EMERGENCY])
def test_a_stop_that_the_console_ordered_escalates_under_its_own_id(origin):
    ordered = a_dispatched()
    start = a_start(ordered.placement, origin, eviction_id=ordered.pk)
    services.agent_started(ordered.gpu.node, start, after(12))
    row = fresh(ordered)
    assert (row.origin, row.state) == (origin, State.DISPATCHED)
    assert row.review == Eviction.Review.WANTED


def test_an_emergency_does_not_become_an_overload():
    emergency = started(a_placement(), Origin.EMERGENCY)
    again = a_start(emergency.placement, Origin.OVERLOAD, eviction_id=emergency.pk)
    services.agent_started(emergency.gpu.node, again, after(2))
    assert fresh(emergency).origin == Origin.EMERGENCY


def test_the_phases_of_a_stop_are_kept_once_each_by_the_agents_clock():
    eviction = a_dispatched()
    for number, phase in enumerate(PHASES):
        for _ in range(2):
            report_phase(eviction, phase.value, at=11 + number)
    rows = EvictionPhase.objects.filter(eviction=eviction)
    assert [row.phase for row in rows] == [phase.value for phase in PHASES]
    assert rows[0].at == after(11)
    assert fresh(eviction).phase == "MEMORY_RETURNED"


def test_the_first_phase_shows_that_the_node_took_it():
    eviction = a_dispatched()
    report_phase(eviction, "ACCEPTED", 11)
    row = fresh(eviction)
    assert (row.state, row.state_since) == (State.STOPPING, after(11))
    report_phase(eviction, "SIGNALLED", 12)
    assert fresh(eviction).state_since == after(11)


def test_a_late_phase_never_moves_the_stop_back():
    eviction = a_dispatched()
    report_phase(eviction, "GATED", 12, lost_work_s=0.0)
    report_phase(eviction, "SIGNALLED", 11, lost_work_s=840.0)
    assert (fresh(eviction).phase, fresh(eviction).lost_work_s) == ("GATED", 0.0)
    assert EvictionPhase.objects.count() == 2


def test_a_clock_that_runs_ahead_writes_nothing_into_the_future():
    eviction = a_dispatched()
    event = a_phase(eviction, "ACCEPTED", at=900)
    services.agent_phase(eviction.gpu.node, event, after(11))
    assert EvictionPhase.objects.get().at == after(11)


def test_memory_returned_says_how_much():
    eviction = a_dispatched()
    report_phase(eviction, "MEMORY_RETURNED", 20, memory_bytes=9 * GIB, lost_work_s=120.0)
    row = fresh(eviction)
    assert (row.freed_bytes, row.lost_work_s) == (9 * GIB, 120.0)


def test_the_end_of_the_placement_completes_the_eviction():
    eviction = a_dispatched()
    report_phase(eviction, "ACCEPTED", 11)
    end = an_end(eviction.placement, "evicted", lost_work_s=30.0)
    services.placement_ended(eviction.placement, end, after(20))
    row = fresh(eviction)
    assert (row.state, row.ended_at, row.lost_work_s) == (State.COMPLETED, after(20), 30.0)
    assert not row.finished_first


def test_a_job_that_finished_before_it_was_stopped_is_told_apart():
    eviction = a_dispatched()
    services.placement_ended(eviction.placement, an_end(eviction.placement, "finished"), after(12))
    row = fresh(eviction)
    assert (row.state, row.finished_first) == (State.COMPLETED, True)


def test_a_job_that_ended_before_the_dispatch_leaves_nothing_to_do():
    eviction = a_proposal()
    services.placement_ended(eviction.placement, an_end(eviction.placement, "finished"), after(2))
    assert fresh(eviction).state == State.SUPERSEDED


def test_the_end_told_twice_ends_once():
    eviction = a_dispatched()
    for seconds in (20, 21):
        end = an_end(eviction.placement)
        services.placement_ended(eviction.placement, end, after(seconds))
    assert fresh(eviction).ended_at == after(20)
    assert Entry.objects.filter(action="eviction.job_ended").count() == 1


def test_phases_that_come_after_the_end_are_kept_and_change_no_state():
    eviction = a_dispatched()
    services.placement_ended(eviction.placement, an_end(eviction.placement), after(20))
    report_phase(eviction, "MEMORY_RETURNED", 21, memory_bytes=GIB)
    row = fresh(eviction)
    assert (row.state, row.phase, row.freed_bytes) == (State.COMPLETED, "MEMORY_RETURNED", GIB)


def test_a_stuck_stop_moves_again_when_the_job_is_gone():
    eviction = started(a_placement())
    stuck = a_report(EventKind.EVICTION_STUCK, eviction.placement, eviction.pk, why="SIGKILL hangs")
    services.agent_stuck(eviction.gpu.node, stuck, after(5))
    services.agent_stuck(eviction.gpu.node, stuck, after(6))
    assert fresh(eviction).state == State.STUCK
    report_phase(eviction, "GATED", 7)
    assert fresh(eviction).state == State.STUCK
    report_phase(eviction, "GONE", 8)
    assert fresh(eviction).state == State.STOPPING


def test_a_stuck_stop_whose_placement_ended_completes():
    eviction = started(a_placement())
    stuck = a_report(EventKind.EVICTION_STUCK, eviction.placement, eviction.pk, why="hangs")
    services.agent_stuck(eviction.gpu.node, stuck, after(5))
    services.placement_ended(eviction.placement, an_end(eviction.placement), after(6))
    assert fresh(eviction).state == State.COMPLETED


def test_a_stop_that_the_node_gave_up_on_disables_the_gpu():
    eviction = started(a_placement())
    failed = a_report(
        EventKind.EVICTION_FAILED, eviction.placement, eviction.pk, why="memory did not return"
    )
    services.agent_failed(eviction.gpu.node, failed, after(50))
    services.agent_failed(eviction.gpu.node, failed, after(51))
    assert fresh(eviction).state == State.FAILED
    assert Gpu.objects.get().disabled
    assert Entry.objects.filter(action="eviction.fail").get().reason == "memory did not return"


def test_a_node_can_only_wish_what_its_lane_decides():
    placement = a_placement()
    wish = a_report(EventKind.EVICTION_PROPOSED, placement, origin="cancel", why="p99 over SLO")
    eviction = services.agent_proposed(placement.gpu.node, wish, NOW)
    assert (eviction.origin, eviction.state) == (Origin.SLO, State.PROPOSED)
    assert services.agent_proposed(placement.gpu.node, wish, after(1)) is None


def test_a_node_cannot_touch_what_runs_elsewhere():
    eviction = a_dispatched()
    stranger = a_node("node-99")
    placement = eviction.placement
    assert services.agent_phase(stranger, a_phase(eviction, "GONE"), NOW) is None
    assert services.agent_started(stranger, a_start(placement), NOW) is None
    assert (
        services.agent_started(stranger, a_start(placement, eviction_id=eviction.pk), NOW) is None
    )
    stuck = a_report(EventKind.EVICTION_STUCK, placement, eviction.pk, why="x")
    assert services.agent_stuck(stranger, stuck, NOW) is None
    assert fresh(eviction).state == State.DISPATCHED


def test_reports_without_ids_are_dropped():
    placement = a_placement()
    node = placement.gpu.node
    nameless = a_report(EventKind.EVICTION_PHASE, placement, None, phase="GONE")
    assert services.agent_phase(node, nameless, NOW) is None
    assert (
        services.agent_started(
            node, a_report(EventKind.EVICTION_STARTED, placement, None, origin="overload"), NOW
        )
        is None
    )


def test_a_repeat_on_the_same_gpu_is_its_own_row():
    gpu = a_gpu_in_use()
    first = a_placement(gpu)
    started(first)
    services.placement_ended(first, an_end(first), after(5))
    first.state = "ENDED"
    first.save()
    started(a_placement(gpu, first.job))
    assert Eviction.objects.filter(review=Eviction.Review.WANTED).count() == 2
