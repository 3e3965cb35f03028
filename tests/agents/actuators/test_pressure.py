from __future__ import annotations

import pytest

from agents.actuators import pressure
from agents.actuators.pressure import GIB, RELIEF_S, GroupMemory, HostMemory, Pressure

ROOMY = GroupMemory(4 * GIB, 9 * GIB, 10 * GIB)
FULL = GroupMemory(9 * GIB, 9 * GIB, 10 * GIB)
HOST = HostMemory(100 * GIB, 50 * GIB)
SHORT = HostMemory(100 * GIB, 5 * GIB)


def looks(*seen, held=None, host=HOST, before=None, start=0.0):
    """What is remembered after these looks at job `a`, a second apart."""
    state = before or Pressure()
    for at, memory in enumerate(seen):
        groups = {} if memory is None else {"a": memory}
        state = pressure.step(state, groups, held or {"a": 1}, host, start + at)
    return state


def test_a_job_with_room_stays():
    assert looks(*[ROOMY] * 5).must_go == {}


def test_one_look_at_its_limit_is_no_reason_and_two_in_a_row_are():
    assert looks(FULL, ROOMY, FULL, ROOMY).must_go == {}
    told = looks(FULL, FULL).must_go["a"]
    assert told == "it holds 9.0 GiB of the 10.0 GiB of host memory that this node gives it"


def test_a_job_that_stands_still_for_memory_must_go_before_its_limit():
    stalled = GroupMemory(4 * GIB, 9 * GIB, 10 * GIB, stalled_percent=60.0)

    assert "stood still for host memory 60 %" in looks(stalled, stalled).must_go["a"]


def test_what_was_said_stays_said_until_the_job_is_gone():
    said = looks(FULL, FULL)

    assert "a" in looks(ROOMY, before=said, start=2).must_go
    assert pressure.step(said, {}, {}, HOST, 3.0).must_go == {}


@pytest.mark.parametrize("host", [SHORT, HostMemory(100 * GIB, 50 * GIB, stalled_percent=25.0)])
def test_when_the_host_is_short_the_job_that_holds_most_goes_alone(host):
    told = looks(None, None, held={"a": 3, "b": 7, "c": 1}, host=host).must_go

    assert list(told) == ["b"]
    assert "of the jobs here this one holds most" in told["b"]


def test_the_next_one_goes_only_when_that_gave_no_relief():
    first = looks(None, None, held={"a": 3, "b": 7}, host=SHORT)

    soon = looks(None, held={"a": 3, "b": 7}, host=SHORT, before=first, start=5)
    late = looks(None, held={"a": 3, "b": 7}, host=SHORT, before=soon, start=2 + RELIEF_S)

    assert list(soon.must_go) == ["b"]
    assert sorted(late.must_go) == ["a", "b"]


def test_a_host_of_which_nothing_is_known_is_not_short():
    assert pressure.host_short(None) == ""


def test_what_the_kernel_killed_is_told_with_the_limit():
    assert pressure.oom(ROOMY) == ""
    killed = GroupMemory(0, 9 * GIB, 10 * GIB, oom_kills=2)
    assert pressure.oom(killed).startswith("the kernel killed 2 of its processes")
