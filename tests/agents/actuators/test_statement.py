from __future__ import annotations

from agents.actuators import statement
from agents.actuators.statement import Statement
from agents.control_block import Process
from agents.wire.names import Phase


def process(slot=0, **changes):
    fields = {
        "slot": slot,
        "pid": 100 + slot,
        "host_pid": 100 + slot,
        "phase": None,
        "stuck": False,
        "window": False,
        "had_window": False,
        "signal": None,
        "fault": None,
        "mode": None,
        "sequence": 2,
        "inflight": 0,
        "used_bytes": {},
        "host_bytes": 0,
        "launches": 0,
        "blocks": 0,
        "throttled_ns": 0,
        "frozen_ns": 0,
        "busy_ns": 0,
        "denied": 0,
        "unhooked": 0,
        "cuda_ns": 1,
    }
    return Process(**(fields | changes))


def test_a_job_has_passed_a_phase_when_all_its_live_processes_have():
    both = Statement((process(phase=Phase.RELEASED), process(1, phase=Phase.GATED)))
    one_is_gone = Statement((process(phase=Phase.RELEASED), process(1, host_pid=None)))

    assert both.passed(Phase.GATED)
    assert not both.passed(Phase.QUIESCED)
    assert one_is_gone.passed(Phase.RELEASED)
    assert not one_is_gone.passed(Phase.RELEASED, gone=True)


def test_a_policy_holds_when_every_process_has_it():
    assert not Statement(()).took_over(2)
    assert Statement((process(), process(1))).took_over(2)
    assert not Statement((process(), process(1, sequence=4))).took_over(2)


def test_a_job_has_saved_when_each_open_window_was_ended():
    opened = statement.windows([process(had_window=True), process(1, had_window=True), process(2)])

    assert statement.has_saved(
        [process(phase=Phase.CHECKPOINTED), process(1, phase=Phase.GATED, host_pid=None)], opened
    )
    assert not statement.has_saved([process(phase=Phase.CHECKPOINTED), process(1)], opened)


def test_without_a_window_nothing_was_saved():
    assert not statement.has_saved([process(phase=Phase.RELEASED)], frozenset())


def test_a_process_that_no_signal_reached_is_told_after_a_while():
    told, untold = process(signal=15), process(1)

    assert statement.deaf([told, untold], statement.SIGNAL_S / 2) == frozenset()
    assert statement.deaf([told, untold], statement.SIGNAL_S) == {101}


def test_a_clean_job_has_no_remarks():
    assert statement.remarks(Statement((process(signal=15),))) == ()


def test_what_went_wrong_is_said():
    bad = Statement((process(fault=700, unhooked=3, stuck=True),))

    signal, unhooked, fault, stuck = statement.remarks(bad, {100})

    assert "SIGTERM never reached process 100" in signal
    assert "3 driver functions" in unhooked
    assert "700" in fault
    assert "does not finish" in stuck
