from __future__ import annotations

from pathlib import Path

import pytest

from agents.actuators import cgroup
from agents.actuators.cgroup import Group, Groups, NoGroups
from tests.agents.actuators.trees import GIB, fill, remove_stand_in, stand_in


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "rmdir", remove_stand_in)
    return stand_in(tmp_path / "muxflow")


def test_a_job_begins_to_be_held_back_before_it_is_killed(root):
    group = Groups(root).create("p1", 10 * GIB)

    assert int((group.path / "memory.high").read_text()) == 9 * GIB
    assert int((group.path / "memory.max").read_text()) == 10 * GIB
    assert (group.path / "cpu.weight").read_text() == "1"
    assert (root / "cgroup.subtree_control").read_text() == "+memory +cpu"


def test_nothing_is_written_before_there_is_a_job(root):
    before = sorted(root.iterdir())

    Groups(root)

    assert sorted(root.iterdir()) == before


def test_a_group_with_processes_of_its_own_can_give_nothing_on(root):
    (root / "cgroup.procs").write_text("4711\n")

    with pytest.raises(NoGroups, match="without processes of its own"):
        Groups(root)


def test_what_the_kernel_can_drop_by_itself_is_not_held(root):
    group = Groups(root).create("p1", 10 * GIB)
    fill(group.path)

    told = group.read()

    assert (told.used_bytes, told.stalled_percent, told.oom_kills) == (2 * GIB, 4.5, 0)
    assert (told.high_bytes, told.max_bytes) == (9 * GIB, 10 * GIB)


def test_without_a_controller_its_limits_are_left_out_and_nothing_is_known(tmp_path):
    groups = Groups(stand_in(tmp_path / "bare", "hugetlb"))
    group = groups.create("p1", 10 * GIB)

    assert groups.lacking == ("memory", "cpu")
    assert list(group.path.iterdir()) == []
    assert group.read() is None


def test_a_group_goes_once_nobody_lives_in_it(root):
    group = Groups(root).create("p1", GIB)
    fill(group.path)
    assert group.populated
    assert not group.remove()

    fill(group.path, cgroup_events="populated 0\n")

    assert group.remove()
    assert not group.path.exists()
    assert group.remove()  # by whom does not matter


@pytest.mark.parametrize("made", ["", "not a folder of groups"])
def test_a_folder_that_is_no_subtree_is_refused_with_the_way_out(tmp_path, made):
    if made:
        (tmp_path / "x").mkdir()
    with pytest.raises(NoGroups, match="must be a group of version 2 that is delegated"):
        Groups(tmp_path / "x")


def proc(folder, own, mounted="/sys/fs/cgroup"):
    folder.mkdir(exist_ok=True)
    (folder / "cgroup").write_text(f"4:memory:/x\n0::{own}\n")
    line = f"30 23 0:26 / {mounted} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
    (folder / "mountinfo").write_text("22 1 8:1 / / rw - ext4 /dev/vda rw\n" + line)
    return folder


def test_the_unit_gives_the_agent_a_group_beside_which_it_makes_those_of_jobs(tmp_path):
    own = "/system.slice/muxflow-agent.service/agent"

    found = cgroup.delegated(proc(tmp_path / "proc", own))

    assert str(found) == "/sys/fs/cgroup/system.slice/muxflow-agent.service"


@pytest.mark.parametrize("own", ["/", "/user.slice/session-1.scope"])
def test_what_was_not_delegated_is_not_taken(tmp_path, own):
    with pytest.raises(NoGroups, match="DelegateSubgroup"):
        cgroup.delegated(proc(tmp_path / "proc", own))


def test_a_stand_in_has_no_name_that_the_kernel_knows(root):
    assert cgroup.named(Group(root / "job-p1")) == ""
