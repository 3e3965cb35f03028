from __future__ import annotations

from types import SimpleNamespace

from agents.mps.timeline import Witness
from agents.mps.witnesses import Witnesses


def process(pid=7, *, host_pid=107, fault=None, slot=0):
    return SimpleNamespace(slot=slot, pid=pid, host_pid=host_pid, fault=fault)


def said(*processes, gpu=0):
    return {"job-a": (gpu, SimpleNamespace(processes=processes))}


def test_a_code_is_as_old_as_its_first_sight():
    witnesses = Witnesses()
    witnesses.note(said(process()), 10.0)
    assert witnesses.of_gpu(0) == ()
    witnesses.note(said(process(fault=700)), 11.0)
    witnesses.note(said(process(fault=700)), 12.0)
    assert witnesses.of_gpu(0) == (Witness(107, 700, 11.0, "job-a"),)
    assert witnesses.of_gpu(1) == ()


def test_a_process_that_died_of_it_keeps_its_number():
    witnesses = Witnesses()
    witnesses.note(said(process()), 10.0)
    witnesses.note(said(process(host_pid=None, fault=700)), 11.0)
    assert witnesses.of_gpu(0)[0].pid == 107
    witnesses.note(said(process(pid=9, host_pid=None, fault=719, slot=1)), 12.0)
    assert witnesses.of_gpu(0)[0].pid == 9


def test_a_job_that_is_forgotten_says_nothing_any_more():
    witnesses = Witnesses()
    witnesses.note(said(process(fault=700), gpu=1), 10.0)
    assert len(witnesses.of_gpu(1)) == 1
    witnesses.note({}, 11.0)
    assert witnesses.of_gpu(1) == ()
