from __future__ import annotations

import pytest

from agents.collectors.xcuda import Block, XcudaSource, busy_part
from agents.control_block import BlockError, ControlBlock, Process

NS = 1_000_000_000


def process(slot=0, pid=10, busy_ns=0, host_pid=510):
    numbers = dict.fromkeys(
        (
            "inflight",
            "host_bytes",
            "launches",
            "blocks",
            "throttled_ns",
            "frozen_ns",
            "denied",
            "unhooked",
        ),
        0,
    )
    return Process(
        slot=slot,
        pid=pid,
        host_pid=host_pid,
        phase=None,
        stuck=False,
        window=False,
        had_window=False,
        signal=None,
        fault=None,
        mode=None,
        sequence=None,
        used_bytes={},
        busy_ns=busy_ns,
        cuda_ns=None,
        **numbers,
    )


class Slots:
    def __init__(self, *processes, failure=None):
        self.processes, self.failure = list(processes), failure

    def read_slots(self):
        if self.failure is not None:
            raise self.failure
        return self.processes

    def used_bytes(self):
        return 4096


def watched(*slots):
    blocks = [Block(f"job-{at}", at, one) for at, one in enumerate(slots)]
    return XcudaSource(lambda: blocks, {at: f"GPU-{at}" for at in range(2)})


def test_busy_time_between_two_looks_is_a_part_of_that_time():
    slots = Slots(process(busy_ns=5 * NS))
    source = watched(slots)
    assert source.look(0.0)["GPU-0"].jobs[0].busy is None
    slots.processes = [process(busy_ns=5 * NS + NS // 4)]
    (use,) = source.look(1.0)["GPU-0"].jobs
    assert (use.busy, use.memory_bytes, use.pids) == (0.25, 4096, frozenset({510}))
    assert source.pids("job-0") == frozenset({510})


def test_a_process_that_is_gone_is_no_pid():
    source = watched(Slots(process(host_pid=None)))
    assert source.look(0.0)["GPU-0"].jobs[0].pids == frozenset()


def test_of_a_job_without_a_process_under_xcuda_nobody_knows_how_busy_it_is():
    source = watched(Slots())
    source.look(0.0)
    (use,) = source.look(1.0)["GPU-0"].jobs
    assert use.busy is None


def test_a_block_that_makes_no_sense_stops_no_other():
    source = watched(Slots(failure=BlockError("cut short")), Slots(process()))
    found = source.look(0.0)
    assert found["GPU-0"].jobs == ()
    assert len(found["GPU-1"].jobs) == 1


def test_a_real_block_is_read(tmp_path):
    with ControlBlock.create(tmp_path, 1) as block:
        (use,) = watched(block).look(0.0)["GPU-0"].jobs
    assert (use.memory_bytes, use.pids) == (0, frozenset())


@pytest.mark.parametrize(
    ("before", "now", "passed_s", "part"),
    [
        ({(0, 1): 0}, {(0, 1): NS}, 2.0, 0.5),
        ({(0, 1): 0}, {(0, 1): 5 * NS}, 2.0, 1.0),
        ({(0, 1): 5 * NS}, {(0, 1): NS}, 2.0, 0.0),
        ({(0, 1): 5 * NS}, {(0, 2): NS}, 2.0, 0.5),
        ({(0, 1): 0, (1, 2): 0}, {(0, 1): NS, (1, 2): NS // 2}, 2.0, 0.5),
        ({}, {}, 2.0, 0.0),
        ({}, {(0, 1): NS}, 0.0, None),
        ({}, {(0, 1): NS}, -1.0, None),
    ],
    ids=[
        "half",
        "more than there is",
        "a counter that fell",
        "a new process in the slot",
        "two at once",
        "nobody",
        "no time",
        "back in time",
    ],
)
def test_the_busy_part_is_from_0_to_1(before, now, passed_s, part):
    assert busy_part(before, now, passed_s) == part
