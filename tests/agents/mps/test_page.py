"""docs/mps.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agents.mps import (
    arrivals,
    client,
    control,
    enabling,
    hooks,
    recovery,
    roll,
    shareable,
    unit,
)
from agents.mps.health import ASK_EVERY_S, ServerState
from agents.mps.remedies import CUDA_CODES, JOB_XIDS, Remedy
from agents.mps.shareable import Fact
from agents.sysmonitor.signals import FAULT_XIDS, HARDWARE_XIDS

PAGE = (Path(__file__).parents[3] / "docs" / "mps.md").read_text()
FLAT = " ".join(PAGE.split())
ROWS = {
    cells[0]: cells
    for line in PAGE.splitlines()
    if line.startswith("|")
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}


def section(title):
    return " ".join(PAGE.split(f"## {title}\n")[1].split("\n## ")[0].split())


def test_every_fact_has_its_row_in_the_order_of_the_rules():
    told = [name for name in ROWS if name in set(Fact)]
    assert told == [fact for fact, *_ in shareable.RULES]


@pytest.mark.parametrize(
    "state", [*ServerState, *arrivals.Stance, *recovery.Stage, *enabling.Stage]
)
def test_every_state_is_told(state):
    if state is not recovery.Stage.SOUND:
        assert state.name in PAGE


def test_every_step_is_told_in_its_words():
    for title, *_ in enabling.STEPS:
        assert ROWS[title]


def test_every_code_has_its_answer():
    told = section("What a fault leads to").split("A job that faults")[0]
    listed = {int(number) for number in re.findall(r"\b\d{1,3}\b", told)} | set(range(714, 720))
    assert set(CUDA_CODES) | HARDWARE_XIDS | FAULT_XIDS | JOB_XIDS <= listed
    for remedy in Remedy:
        assert remedy.name in told


def test_the_times_of_a_recovery_are_told():
    for stage, within_s in recovery.WITHIN_S.items():
        assert ROWS[stage.name][2] == f"{within_s:g} s"


@pytest.mark.parametrize(
    "words",
    [
        f"below {shareable.MIN_DRIVER} (CUDA 12.0)",
        f"less than {shareable.LEAST_OFFLINE_BYTES >> 30} GiB are free beside the reserve of"
        f" {shareable.RESERVE_PART * 100:g} %",
        f"fewer than {shareable.SPARE_CLIENTS} of its {shareable.MAX_CLIENTS} (driver 590 and"
        f" newer: {shareable.MAX_CLIENTS_590})",
        f"client of an open server for {arrivals.SETTLE_S:g} s",
        f"no client for {arrivals.JOIN_S:g} s",
        f"for {enabling.VERIFY_S:g} s",
        f"deadline ({control.DEADLINE_S:g} s)",
        f"after {ASK_EVERY_S:g} s",
        f"{client.CONTEXT_BYTES >> 20} MiB",
        f"within {recovery.WINDOW_S:g} s",
        f"{recovery.RETRY_S:g} s after it has ended or online has gone, then"
        f" {recovery.pause_s(2):g} s, {recovery.MOST_HOOKS} times in all",
        f"waited for ({hooks.HOOK_S:g} s at most)",
        f"in the last {roll.LOOK_BACK_S:g} s before the fault",
        f"`{unit.ROOT}/<UUID>/{{pipe,log}}`",
    ],
)
def test_every_number_is_the_one_of_the_code(words):
    assert words in FLAT


def test_a_fourth_fault_gives_up():
    assert "A fourth fault" in PAGE
    assert recovery.MOST_FAULTS == 3
