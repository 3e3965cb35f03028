from __future__ import annotations

import pytest

from agents.collectors.attribution import GpuProcess, Side
from agents.collectors.base import Finding, JobUse, Origin, values_of
from agents.collectors.card import Card
from agents.collectors.merge import Merger
from agents.collectors.merge import sides as sides_of
from agents.sysmonitor.signals import POSITIONS
from agents.wire.names import Signal

GIB = 1 << 30
CARD = Card(3, "GPU-1", "H100", 80 * GIB)
ONLINE = GpuProcess(1, Side.ONLINE, 5 * GIB)
STRANGER = GpuProcess(2, Side.UNATTRIBUTED, 1 * GIB)
OFFLINE = GpuProcess(3, Side.OFFLINE, 8 * GIB, placement_id="job-1")
SERVER = GpuProcess(4, Side.MPS_SERVER, GIB)
SHARES = {"job-1": 40.0}


def found(source, at=1.0, *, finding=None, **values):
    signals = {Signal(name): value for name, value in values.items()}
    return Origin(source, at), finding or Finding(values_of(signals))


def reading(card, found, shares):
    return Merger(card).reading(found, shares)


def use(busy, memory_bytes=7 * GIB):
    return JobUse("job-1", busy, memory_bytes, frozenset())


def value(read, signal):
    return read.values[POSITIONS[signal]]


def test_the_preferred_source_holds_and_is_named_with_its_time():
    read = reading(CARD, [found("gpm", sm_activity=40.0), found("dcgm", 0.5, sm_activity=44.0)], {})
    assert value(read, Signal.SM_ACTIVITY) == 40.0
    assert read.origins[POSITIONS[Signal.SM_ACTIVITY]] == Origin("gpm", 1.0)
    assert read.origins[POSITIONS[Signal.POWER]] is None
    assert read.index == 3


@pytest.mark.parametrize("nonsense", [4294967295.0, -1.0, 101.0, float("nan")])
def test_what_cannot_be_gives_way_to_the_next_source(nonsense):
    read = reading(CARD, [found("nvml", gpu_util=nonsense), found("dcgm", gpu_util=44.0)], {})
    assert value(read, Signal.GPU_UTIL) == 44.0
    assert read.origins[POSITIONS[Signal.GPU_UTIL]].source == "dcgm"


def test_memory_beyond_the_card_is_missing():
    read = reading(CARD, [found("nvml", memory=81.0 * GIB)], {})
    assert value(read, Signal.MEMORY) is None


def test_without_any_source_all_is_missing_and_nothing_zero():
    read = reading(CARD, [], {})
    assert set(read.values) == {None}
    assert read.online_processes is read.online_memory_bytes is read.offline_memory_bytes is None
    assert read.sm_online_percent is read.sm_offline_percent is None
    assert read.processes is None


def test_why_a_value_is_missing_is_told_with_the_source():
    refusal = Finding(missing={Signal.SM_ACTIVITY: "no permission", Signal.POWER: "not supported"})
    read = reading(CARD, [found("gpm", finding=refusal), found("nvml", power=300.0)], {})
    assert read.missing == {Signal.SM_ACTIVITY: "gpm: no permission"}


def test_trouble_and_throttles_come_through():
    lost = Finding(trouble="the GPU is lost", throttled=("power cap",))
    read = reading(CARD, [found("nvml", finding=lost)], {})
    assert (read.trouble, read.throttled) == ("the GPU is lost", ("power cap",))


def sides(*processes, jobs=None):
    listed = Finding(processes=processes)
    told = [] if jobs is None else [found("xcuda", finding=Finding(jobs=jobs))]
    return reading(CARD, [found("processes", finding=listed), *told], SHARES)


def test_each_side_has_its_processes_and_memory():
    read = sides(ONLINE, STRANGER, OFFLINE, SERVER)
    assert read.online_processes == 2
    assert read.online_memory_bytes == 6 * GIB
    assert read.offline_memory_bytes == 8 * GIB


def test_an_empty_card_is_known_to_be_empty():
    read = sides()
    assert (read.online_processes, read.online_memory_bytes, read.offline_memory_bytes) == (0, 0, 0)


def test_memory_that_one_process_does_not_tell_is_not_known():
    read = sides(ONLINE, GpuProcess(5, Side.ONLINE, None))
    assert read.online_memory_bytes is None
    assert read.offline_memory_bytes == 0


def test_xcuda_tells_the_memory_that_the_driver_does_not():
    silent = GpuProcess(3, Side.OFFLINE, None, placement_id="job-1")
    assert sides(silent, jobs=(use(0.5),)).offline_memory_bytes == 7 * GIB
    assert sides(silent).offline_memory_bytes is None


def test_memory_is_not_said_to_have_returned_while_a_process_is_unattributed():
    assert sides(STRANGER).offline_memory_bytes is None


@pytest.mark.parametrize(
    ("processes", "jobs", "online", "offline"),
    [
        ((ONLINE,), (), 60.0, 0.0),
        ((OFFLINE,), (), 0.0, 60.0),
        ((OFFLINE, SERVER), (), 0.0, 60.0),
        ((), (), 60.0, 0.0),
        ((ONLINE, OFFLINE), (use(0.5),), 40.0, 20.0),
        ((STRANGER, OFFLINE), (use(1.0),), 20.0, 40.0),
        ((ONLINE, OFFLINE), (use(0.0),), 60.0, 0.0),
        ((ONLINE, OFFLINE), (use(None),), None, None),
        ((ONLINE, OFFLINE), (), None, None),
        ((ONLINE, OFFLINE), None, None, None),
        (None, (), None, None),
    ],
)
def test_sm_activity_divides_by_who_is_there(processes, jobs, online, offline):
    assert sides_of(processes, jobs, SHARES).split(60.0) == (online, offline)


def test_the_offline_side_never_has_more_than_the_card_shows():
    assert sides_of((ONLINE, OFFLINE), (use(1.0),), SHARES).split(10.0) == (0.0, 10.0)


def test_without_a_share_nothing_is_said_of_the_sides():
    assert sides_of((ONLINE, OFFLINE), (use(1.0),), {}).split(60.0) == (None, None)


def test_without_sm_activity_nothing_is_said_of_the_sides():
    assert sides_of((ONLINE,), (), SHARES).split(None) == (None, None)


def test_who_is_there_is_worked_out_anew_as_soon_as_it_is_told_anew():
    merger = Merger(CARD)
    for processes, jobs, shares, expected in (
        ((ONLINE,), (), SHARES, (60.0, 0.0)),
        ((ONLINE, OFFLINE), (use(0.5),), SHARES, (40.0, 20.0)),
        ((ONLINE, OFFLINE), (use(0.5),), {"job-1": 20.0}, (50.0, 10.0)),
        ((ONLINE, OFFLINE), (use(1.0),), {"job-1": 20.0}, (40.0, 20.0)),
        (None, None, SHARES, (None, None)),
    ):
        there = Finding(processes=processes, jobs=jobs)
        read = merger.reading([found("all", sm_activity=60.0), found("who", finding=there)], shares)
        assert (read.sm_online_percent, read.sm_offline_percent) == expected
