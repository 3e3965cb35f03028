from __future__ import annotations

import pytest

from agents.collectors.attribution import OfflineJob, ProcessIdentity, Side
from agents.collectors.nvml import Nvml
from agents.collectors.processes import ProcessSource
from tests.agents.collectors.fake_nvml import (
    GIB,
    OTHER,
    UUID,
    Code,
    FakeCard,
    FakeNvml,
    Gone,
    process,
)

COMPUTE = "nvmlDeviceGetComputeRunningProcesses_v3"
GRAPHICS = "nvmlDeviceGetGraphicsRunningProcesses_v3"
MPS = "nvmlDeviceGetMPSComputeRunningProcesses_v3"
JOB = OfflineJob("job-1", 0, 40.0, pid=20, started_ticks=500)


def lookup(pid):
    return ProcessIdentity(pid, 500, 1, 1, "python", "/") if pid < 90 else None


class Daemons:
    def __init__(self, **pids):
        self.pids = pids

    def client_pids(self):
        return {UUID: frozenset(self.pids["pids"])}


def look(*cards, mps=None):
    return ProcessSource(Nvml(FakeNvml(*cards)), lambda: [JOB], mps, lookup).look(0.0)


def test_a_process_in_several_lists_is_one():
    card = FakeCard(
        **{
            COMPUTE: [process(10, 2 * GIB)],
            MPS: [process(10, 3 * GIB), process(20)],
            GRAPHICS: [process(10, None)],
        }
    )
    ten, twenty = look(card)[UUID].processes
    assert (ten.pid, ten.memory_bytes, ten.mps, ten.side) == (10, 3 * GIB, True, Side.ONLINE)
    assert (twenty.side, twenty.placement_id) == (Side.OFFLINE, "job-1")


@pytest.mark.parametrize(
    "raw", [None, (1 << 64) - 1, 81 * GIB], ids=["none", "all bits", "over the card"]
)
def test_memory_of_a_process_that_cannot_be_is_missing(raw):
    (found,) = look(FakeCard(**{COMPUTE: [process(10, raw)]}))[UUID].processes
    assert found.memory_bytes is None


def test_an_older_driver_gives_the_second_version_of_its_lists():
    second = COMPUTE.replace("_v3", "_v2")
    card = FakeCard(**{COMPUTE: Gone(), second: [process(10)], MPS: Code(3), GRAPHICS: Code(3)})
    (found,) = look(card)[UUID].processes
    assert (found.pid, found.mps) == (10, False)


def test_a_card_without_a_list_has_no_processes_known_rather_than_none():
    assert UUID not in look(FakeCard(**{COMPUTE: Code(4)}))


@pytest.mark.parametrize("failing", [COMPUTE, MPS, GRAPHICS])
def test_one_list_that_fails_leaves_all_unknown_for_a_look(failing):
    card = FakeCard(**{COMPUTE: [process(10)], failing: Code(999)})
    source = ProcessSource(Nvml(FakeNvml(card)), lambda: [JOB], None, lookup)
    assert UUID not in source.look(0.0)
    card.answers[failing] = [process(10)]
    assert [one.pid for one in source.look(1.0)[UUID].processes] == [10]


@pytest.mark.parametrize("closed", [GRAPHICS, MPS])
def test_a_list_that_this_user_may_not_see_leaves_all_unknown(closed):
    assert UUID not in look(FakeCard(**{COMPUTE: [process(10)], closed: Code(4)}))


def test_a_list_beyond_reason_is_no_list():
    assert UUID not in look(FakeCard(**{COMPUTE: [process(pid) for pid in range(5_000)]}))


def test_clients_that_only_the_daemon_knows_are_there_too():
    card = FakeCard(**{COMPUTE: [process(10)]})
    ten, twenty = look(card, mps=Daemons(pids=[10, 20]))[UUID].processes
    assert ten.mps
    assert (twenty.pid, twenty.mps, twenty.memory_bytes) == (20, True, None)


def test_a_lost_card_does_not_hide_the_processes_of_the_others():
    found = look(FakeCard(**{COMPUTE: Code(15)}), FakeCard(OTHER, **{COMPUTE: [process(95)]}))
    assert "lost" in found[UUID].trouble
    assert found[OTHER].processes[0].side is Side.UNATTRIBUTED
