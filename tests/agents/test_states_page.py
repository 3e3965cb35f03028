"""docs/states.md says what the code does: each state, each limit, each default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agents import duty
from agents.stopping import FROM_GATE, Stage
from agents.sysmonitor import cooldown, decisions, machine, thresholds
from agents.sysmonitor.signals import FAULT_XIDS, HARDWARE_XIDS
from agents.sysmonitor.transitions import TRANSITIONS
from agents.wire.names import GPU_STATES, PHASES, GpuState, PlacementState
from agents.wire.policy import AgentPolicy, aggressive, balanced, conservative, demo

PAGE = (Path(__file__).parents[2] / "docs" / "states.md").read_text()
ROWS = {
    cells[0].split(",")[0]: cells
    for line in PAGE.splitlines()
    if line.startswith("|")
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}
PRESETS = [conservative(1, 1), balanced(1, 1), aggressive(1, 1)]
# Each fixed number and the module that holds it.
NUMBERS = {
    "MARGIN": thresholds,
    "LEAST_SAMPLES": thresholds,
    "LEAST_SAMPLES_OVER": thresholds,
    "BLIND_SAMPLES": decisions,
    "MAX_STEP_S": machine,
    "MOST_MOVES": machine,
    "SLO_RATIO": machine,
    "LEAST_WINDOW_S": cooldown,
    "RISE_PERCENT_PER_S": duty,
    "FALL_TIME_S": duty,
}


@pytest.mark.parametrize("state", [*GPU_STATES, *PHASES, *PlacementState, *[s.name for s in Stage]])
def test_every_state_has_its_row(state):
    assert ROWS[str(state)][1]


@pytest.mark.parametrize("arrow", TRANSITIONS.items(), ids=lambda it: " ".join(it[0]))
def test_every_transition_has_its_row(arrow):
    (state, _), target = arrow
    assert any(state in sources and target in targets for sources, targets in moves())


def test_no_row_tells_of_a_transition_that_the_machine_does_not_know():
    known = {(state, target) for (state, _), target in TRANSITIONS.items()}
    for sources, targets in moves():
        assert all((state, target) in known for state in sources for target in targets)


def moves() -> list[tuple[set[str], set[str]]]:
    """From which states each row of the table leads, and to which; "the same" is no move."""
    table = PAGE.split("| from | what happens | to | what is done |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return [
        (states_in(row[0]), targets)
        for row in rows
        if len(row) == 4 and (targets := reached(row[0], row[2]))
    ]


def states_in(cell: str) -> set[str]:
    if cell == "any":
        return {state for state in GPU_STATES if state is not GpuState.DISABLED}
    return {state for state in GPU_STATES if re.search(rf"\b{state}\b", cell)}


def reached(sources: str, cell: str) -> set[str]:
    """Of a chain, as in GUARDED → OVERLIMIT, the first; the second has a row of its own."""
    if cell == "the state before":
        return {GpuState.HEALTHY, GpuState.UNHEALTHY}
    return states_in(cell.split("→")[0])


@pytest.mark.parametrize("number", NUMBERS)
def test_the_fixed_numbers_are_told(number):
    module, value = ROWS[number][1:3]
    assert value == f"{getattr(NUMBERS[number], number):g}"
    assert NUMBERS[number].__name__.endswith(f".{module}")


@pytest.mark.parametrize("signal", PRESETS[0].thresholds)
def test_the_limits_are_those_of_the_presets(signal):
    told = ROWS[signal][1:4]
    for cell, policy in zip(told, PRESETS, strict=True):
        limit = policy.thresholds[signal]
        assert cell == f"{limit.lower:g} / {limit.upper:g}, {limit.upper_dwell_s:g} s"
        assert limit.lower_dwell_s == limit.upper_dwell_s


@pytest.mark.parametrize("setting", AgentPolicy.__struct_fields__[4:])
def test_the_defaults_are_those_of_the_presets(setting):
    assert ROWS[setting][1:4] == [_shown(getattr(policy, setting)) for policy in PRESETS]


def _shown(value):
    return ("no", "yes")[value] if isinstance(value, bool) else f"{value:g}"


def test_the_demo_times_are_told():
    told = " ".join(PAGE.split("The demo runs with")[1].split("\n\n")[0].split())
    for setting in AgentPolicy.__struct_fields__[4:]:
        value = getattr(demo(1, 1), setting)
        if value != getattr(balanced(1, 1), setting):
            assert f"{setting} {value:g}" in told


def test_the_times_of_the_stop_are_told():
    for stage, following in FROM_GATE.items():
        assert ROWS[stage.name][2] == f"{following.within_s:g} s"


def test_the_xids_are_told():
    told = PAGE.split("**Faults that reach every client**")[1].split("\n\n")[0]
    for code in FAULT_XIDS | HARDWARE_XIDS:
        assert str(code) in told
