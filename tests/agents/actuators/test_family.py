from __future__ import annotations

import os
import subprocess

import pytest

from agents.actuators import family

# As proc(5) has them: a job 10 with the children 11 and 12, made by two threads, and 13 below 12.
LISTED = {"10/task/10": "11 ", "10/task/77": "12 ", "12/task/12": "13 ", "13/task/13": ""}
STATS = {"10": "10 (sh) S 1 10", "11": "11 (a b) S 10 10", "12": "12 (:) 1) R 10 10"}


def tree(folder, me_listed):
    me = os.getpid()
    for place, told in (LISTED | ({f"{me}/task/{me}": ""} if me_listed else {})).items():
        (folder / place).mkdir(parents=True)
        if me_listed:
            (folder / place / "children").write_text(told)
    for pid, told in STATS.items():
        (folder / pid).mkdir(exist_ok=True)
        (folder / pid / "stat").write_text(f"{told} 0 0\n")
    return family.children(folder)


def test_the_kernels_own_lists_are_used_where_it_keeps_them(tmp_path):
    assert family.descendants(10, tree(tmp_path, me_listed=True)) == {11, 12, 13}


def test_without_them_every_process_is_asked_for_its_parent(tmp_path):
    assert family.descendants(10, tree(tmp_path, me_listed=False)) == {11, 12}


def test_a_process_that_is_gone_has_no_children(tmp_path):
    assert family.descendants(99, tree(tmp_path, me_listed=True)) == frozenset()


def test_the_real_family_of_this_process_is_found():
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert child.pid in family.descendants(os.getpid(), family.children())
        assert family.without_library([child.pid, 1 << 30], "libxcuda.so") == frozenset()
    finally:
        child.kill()
        child.wait()


FIRST_OF_A_CONTAINER = {"NSpid": "50\t1"}
TERM = "0000000000004000"


@pytest.mark.parametrize(
    ("group", "status", "is_deaf"),
    [
        (40, {}, False),
        (41, {}, True),
        (40, {"SigIgn": TERM}, True),
        (40, {"SigBlk": TERM}, True),
        (40, {"SigIgn": "0000000000001000"}, False),
        (40, FIRST_OF_A_CONTAINER, True),
        (40, FIRST_OF_A_CONTAINER | {"SigCgt": TERM}, False),
    ],
    ids=["", "another group", "ignored", "held back", "SIGPIPE", "a shell as PID 1", "handled"],
)
def test_who_does_not_hear_a_signal_to_the_group(tmp_path, group, status, is_deaf):
    (tmp_path / "50").mkdir()
    none = dict.fromkeys(("SigCgt", "SigIgn", "SigBlk"), "0" * 16) | {"NSpid": "50"}
    lines = "".join(f"{name}:\t{value}\n" for name, value in (none | status).items())
    (tmp_path / "50" / "status").write_text(lines)
    (tmp_path / "50" / "stat").write_text(f"50 (a ) b) S 1 {group} 40 0 0\n")

    assert family.deaf([50, 51], 40, tmp_path) == ({50} if is_deaf else frozenset())
