from __future__ import annotations

import os

import pytest

from agents.collectors import procfs
from agents.collectors.attribution import (
    Client,
    GpuProcess,
    OfflineJob,
    ProcessIdentity,
    Side,
    attributed,
    is_online,
    memory_of,
)

JOB = OfflineJob("job-1", 0, 40.0, pid=100, started_ticks=5_000)


def identity(pid, started=6_000, parent=1, session=1, name="python", cgroup="/user.slice"):
    return ProcessIdentity(pid, started, parent, session, name, cgroup)


FIRST = identity(100, 5_000, parent=90, session=100)


def side(one, *others, job=JOB):
    table = {each.pid: each for each in (one, *others)}
    (process,) = attributed([Client(one.pid, 1)], [job], table.get)
    return process.side, process.placement_id


OURS = (Side.OFFLINE, "job-1")
NOT_OURS = (Side.ONLINE, None)


def test_the_first_process_of_a_job_is_ours():
    assert side(FIRST) == OURS


def test_a_child_of_a_job_is_ours_also_in_a_session_of_its_own():
    child = identity(101, parent=100, session=100)
    daemon = identity(102, parent=101, session=102)
    assert side(child, FIRST) == OURS
    assert side(daemon, child, FIRST) == OURS


def test_an_orphan_in_the_session_of_a_job_that_lost_its_leader_is_ours():
    assert side(identity(103, parent=1, session=100)) == OURS


def test_a_process_in_the_cgroup_of_a_job_is_ours():
    job = OfflineJob("job-1", 0, 40.0, cgroup="/muxflow/job-1")
    assert side(identity(7, cgroup="/muxflow/job-1/inner"), job=job) == OURS
    assert side(identity(7, cgroup="/muxflow/job-12"), job=job) == NOT_OURS


def test_a_process_that_holds_a_slot_of_the_control_block_is_ours():
    job = OfflineJob("job-1", 0, 40.0, pids=frozenset({55}))
    assert side(identity(55), job=job) == OURS


def test_a_pid_that_is_used_again_is_not_ours():
    assert side(identity(100, 9_000)) == NOT_OURS


def test_a_session_number_that_is_used_again_is_not_ours():
    leader = identity(100, 9_000, session=100)
    assert side(identity(104, 9_100, parent=100, session=100), leader) == NOT_OURS


def test_a_process_older_than_the_job_is_not_of_its_session():
    assert side(identity(104, 4_000, session=100)) == NOT_OURS


def test_a_parent_younger_than_its_child_is_another_process():
    young = identity(100, 5_000, session=100)
    assert side(identity(104, 4_500, parent=100), young) == NOT_OURS


def test_parents_in_a_circle_end():
    one, two = identity(8, parent=9), identity(9, parent=8)
    assert side(one, two) == NOT_OURS


def test_what_is_not_ours_is_online():
    assert side(identity(7)) == NOT_OURS


def test_the_mps_server_is_neither():
    found, placement = side(identity(7, name="nvidia-cuda-mps"))
    assert (found, placement) == (Side.MPS_SERVER, None)
    assert not is_online(GpuProcess(7, found, 1))


def test_of_whom_nothing_is_known_is_unattributed_and_counts_as_online():
    (process,) = attributed([Client(7, 1)], [JOB], lambda pid: None)
    assert process.side is Side.UNATTRIBUTED
    assert is_online(process)


def test_a_process_that_the_driver_lists_after_its_end_is_still_whose_it_was():
    first = attributed([Client(100, 9)], [JOB], {100: FIRST}.get)
    before = {process.pid: process for process in first}
    (after,) = attributed([Client(100, 4)], [JOB], lambda pid: None, before)
    assert (after.side, after.placement_id, after.memory_bytes) == (*OURS, 4)


def test_memory_of_several_is_unknown_as_soon_as_one_is():
    known = GpuProcess(1, Side.ONLINE, 5)
    assert memory_of([known, known]) == 10
    assert memory_of([known, GpuProcess(2, Side.ONLINE, None)]) is None
    assert memory_of([]) == 0


STAT = "{pid} ({name}) S 1 {pid} 77 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0"


def proc(tmp_path, cgroup="0::/a/b\n", name="python", stat=STAT):
    (tmp_path / "5").mkdir()
    (tmp_path / "5" / "stat").write_text(stat.format(pid=5, name=name, start=4242))
    (tmp_path / "5" / "cgroup").write_text(cgroup)
    return procfs.identity(5, tmp_path)


@pytest.mark.parametrize("name", ["python", "a b) S 9 (c", "\u00fc) ("])
def test_a_process_is_read_whatever_its_name(tmp_path, name):
    found = proc(tmp_path, name=name)
    assert found == ProcessIdentity(5, 4242, 1, 77, name, "/a/b")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("0::/a/b\n", "/a/b"),
        ("0::/\n", "/"),
        ("5:memory:/kubepods/x\n4:cpu:/kubepods/x\n0::/\n", "/kubepods/x"),
        ("", ""),
        ("nonsense\n", ""),
        ("0::/with:colon\n", "/with:colon"),
        ("0::/muxflow/job-1 (deleted)\n", "/muxflow/job-1"),
    ],
)
def test_a_cgroup_is_read_of_both_versions(tmp_path, text, path):
    assert proc(tmp_path, cgroup=text).cgroup == path


@pytest.mark.parametrize("stat", ["", "5 (cut", "5 (x) S 1 5", "5 (x) S a b c"])
def test_a_process_that_makes_no_sense_is_unknown(tmp_path, stat):
    assert proc(tmp_path, stat=stat) is None


def test_this_process_is_found_and_one_that_is_gone_is_not(tmp_path):
    assert procfs.identity(os.getpid()).parent_pid == os.getppid()
    assert procfs.identity(5, tmp_path) is None
