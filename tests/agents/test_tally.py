from __future__ import annotations

from contextlib import closing

from agents.spool import Spool
from agents.state import StateFile
from agents.tally import BOUNDS_S, Histogram, Tally
from agents.wire.names import EventKind, GpuState, Origin, Phase


def test_a_phase_lasts_from_the_one_before_it():
    tally = Tally()
    tally.note(EventKind.EVICTION_STARTED, 0, "p", {"origin": "overload"}, 100.0)
    tally.note(EventKind.EVICTION_PHASE, 0, "p", {"phase": "SIGNALLED"}, 100.25)
    tally.note(EventKind.EVICTION_PHASE, 0, "p", {"phase": "GONE"}, 104.25)
    assert tally.evictions == {(0, Origin.OVERLOAD): 1}
    assert {phase: one.sum_s for phase, one in tally.phases.items()} == {
        Phase.SIGNALLED: 0.25,
        Phase.GONE: 4.0,
    }


def test_how_long_a_phase_took_that_an_earlier_process_began_nobody_knows():
    tally = Tally()
    tally.note(EventKind.EVICTION_PHASE, 0, "p", {"phase": "SIGNALLED"}, 100.0)
    assert tally.phases == {}


def test_what_has_ended_is_forgotten():
    tally = Tally()
    tally.ordered(0, Origin.MOVE, "p", 100.0)
    tally.note(EventKind.PLACEMENT_ENDED, 0, "p", {}, 101.0)
    assert tally._reached == {}


def test_moves_and_freezes_are_counted_by_gpu():
    tally = Tally()
    for gpu, kind in [(0, EventKind.FROZEN), (1, EventKind.FROZEN), (1, EventKind.THAWED)]:
        tally.note(kind, gpu, "p", {}, 1.0)
    tally.note(EventKind.TRANSITION, 1, None, {"to": "GUARDED"}, 1.0)
    assert (tally.freezes, tally.thaws) == ({0: 1, 1: 1}, {1: 1})
    assert tally.transitions == {(1, GpuState.GUARDED): 1}


def test_a_value_on_a_bound_is_within_it():
    histogram = Histogram()
    for seconds in (BOUNDS_S[0], BOUNDS_S[-1], BOUNDS_S[-1] + 1):
        histogram.add(seconds)
    assert (histogram.counts[0], histogram.counts[-2], histogram.counts[-1]) == (1, 1, 1)


def test_what_a_full_spool_drops_is_counted(tmp_path):
    with closing(StateFile(tmp_path)) as state:
        spool = Spool(state, "node-01", capacity=1)
        for _ in range(4):
            spool.append(EventKind.DEGRADED, gpu_index=0, data={})
    assert (spool.tally.gaps, spool.tally.dropped) == (1, 3)
