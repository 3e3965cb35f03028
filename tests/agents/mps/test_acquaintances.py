from __future__ import annotations

import pytest

from agents.collectors.attribution import OfflineJob, ProcessIdentity
from agents.mps.acquaintances import KEPT_S, Acquaintances
from agents.mps.timeline import Victim

JOB = OfflineJob("job-a", 0, 40.0, pid=100, started_ticks=7, pids=frozenset({101}))
# A child that no control block names, in the session of the job's first process.
CHILD = ProcessIdentity(102, 8, 100, session=100, name="python", cgroup="/")
FIRST = ProcessIdentity(100, 7, 1, session=100, name="sh", cgroup="/")
STRANGER = ProcessIdentity(200, 5, 1, session=200, name="vllm", cgroup="/")


@pytest.fixture
def known():
    there = {one.pid: one for one in (CHILD, FIRST, STRANGER)}
    known = Acquaintances(there.get)
    known.note([JOB], 0.0)
    return known


@pytest.mark.parametrize("pid", [100, 101, 102])
def test_a_process_of_a_job_is_named_whoever_listed_it(known, pid):
    assert known.named(0, [pid]) == (Victim(pid, "offline", "", "job-a"),)


def test_others_are_nobody_s(known):
    assert known.named(0, [200, 999]) == ()
    assert known.named(1, [100]) == ()


def test_a_job_that_has_just_ended_is_still_known_and_soon_forgotten(known):
    known.note([], 1.0)
    assert known.named(0, [101])
    known.note([], KEPT_S + 0.1)
    assert known.named(0, [101]) == ()
