"""docs/states.md says what the code does: each state, each limit, each default."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.stopping import FROM_GATE, Stage
from agents.sysmonitor.signals import FAULT_XIDS, HARDWARE_XIDS
from agents.wire.names import GPU_STATES, PHASES, PlacementState
from agents.wire.policy import AgentPolicy, aggressive, balanced, conservative, demo

PAGE = (Path(__file__).parents[2] / "docs" / "states.md").read_text()
ROWS = {
    cells[0].split(",")[0]: cells
    for line in PAGE.splitlines()
    if line.startswith("|")
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}
PRESETS = [conservative(1, 1), balanced(1, 1), aggressive(1, 1)]


@pytest.mark.parametrize("state", [*GPU_STATES, *PHASES, *PlacementState, *[s.name for s in Stage]])
def test_every_state_has_its_row(state):
    assert ROWS[str(state)][1]


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
