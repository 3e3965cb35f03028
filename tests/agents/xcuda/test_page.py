"""docs/xcuda.md says what the code does, field by field, and its examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agents.control_block import PHASE_CODES, Kind, Mode
from agents.mps.remedies import CUDA_CODES
from tests.agents.xcuda.running import ROOT

PAGE = (ROOT / "docs" / "xcuda.md").read_text()
SOURCES = ROOT / "agents" / "xcuda" / "src"


def section(title: str) -> str:
    return re.split(r"^#+ ", PAGE.split(f"# {title}\n")[1], flags=re.MULTILINE)[0]


def first_column(text: str, header: str) -> list[str]:
    """Of the table whose first header is this."""
    rows = text.split(f"| {header} |")[1].split("\n\n")[0].splitlines()[2:]
    return [row.split("|")[1].strip().strip("`") for row in rows]


def source(name: str) -> str:
    return (SOURCES / name).read_text()


def fields_of(structure: str) -> list[str]:
    """The names in order, as block.h declares them."""
    body = source("block.h").split(f"struct {structure} {{")[1].split("\n};")[0]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
    return re.findall(r"(\w+)(?:\[\w+\])?;", body)


@pytest.mark.parametrize(
    ("title", "header", "structure"),
    [
        ("The limits page: `policy`", "field", "block_policy"),
        ("What a job says: `stats`", "field", "block_stats"),
        ("What a job says: `stats`", "field of a slot", "block_slot"),
    ],
)
def test_every_field_is_told(title, header, structure):
    assert first_column(section(title), header) == fields_of(structure)


def test_every_mode_phase_and_kind_is_told():
    modes = re.findall(r"^\| (\w+) \| (\d) \|", section("Modes"), re.MULTILINE)
    assert {name: int(code) for name, code in modes} == {mode.name: mode.value for mode in Mode}
    phases = first_column(section("The graceful exit"), "phase")
    assert [it for it in phases if it.isupper()] == [it.name for it in PHASE_CODES if it]
    assert first_column(section("Memory quota"), "kind") == [kind.name for kind in Kind]


def test_every_setting_is_told():
    settings = re.findall(r'"(MUXFLOW_XCUDA_[A-Z_]+)"', source("settings.c"))
    assert set(first_column(section("Environment variables"), "variable")) == set(settings)


def test_every_fatal_code_is_told():
    codes = re.findall(r"CUDA_ERROR_(\w+) = (\d+)", source("cuda.h"))
    number = {name: int(code) for name, code in codes}
    fatal: set[int] = set()
    for first, last in re.findall(
        r"case CUDA_ERROR_(\w+)(?: \.\.\. CUDA_ERROR_(\w+))?:", source("fault.c")
    ):
        fatal |= set(range(number[first], number[last or first] + 1))
    told = re.findall(r"^\| (\d+) \| (\w+) \|", section("Faults"), re.MULTILINE)
    assert {int(code) for code, _ in told} == fatal
    assert fatal <= set(CUDA_CODES), "the agent has no answer to a code that ends a process"
    assert all(number[name] == int(code) for code, name in told)


def test_every_line_of_trouble_is_told():
    told = section("What it says, and the way out")
    calls = [
        re.findall(r'"([^"]*)"', call)
        for path in SOURCES.glob("*.c")
        for call in re.findall(r"COMPLAIN\(TROUBLE_\w+,(.*?)\);", path.read_text(), re.DOTALL)
    ]
    untold = [
        words for words in calls if not any(part.strip(" :=")[:30] in told for part in words[:2])
    ]
    assert len(calls) > 8
    assert untold == []


@pytest.mark.timeout(60)
def test_the_examples_run_and_print_what_is_said(library, tmp_path):
    blocks = re.findall(r"^```\n(.*?)^```", section("Run a job with it by hand"), re.M | re.S)
    set_up, by_hand, printed, with_block = blocks
    made = set_up.replace("make xcuda\n", "")
    assert run(made + by_hand, tmp_path) == printed
    told = run(made + with_block, tmp_path)
    rate = int(re.search(r"RUN (\d+) launches/s", told)[1])
    assert 0 < rate <= 2000  # what a busy machine does late is counted to the wrong half second
    assert "FREEZE 0 launches/s" in told
    assert told.endswith("exit status 143 after RELEASED\n")


def run(commands: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-ec", commands],
        cwd=ROOT,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
