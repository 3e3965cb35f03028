"""The Python end of the control block and the C end are one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agents import control_block
from agents.control_block import (
    FIRST_SLOT,
    PHASE_CODES,
    POLICY,
    RANGES,
    SLOT,
    STATS,
    BlockError,
    ControlBlock,
    Kind,
    Layout,
    Limits,
    Mode,
)
from agents.wire.names import Phase
from tests.agents.xcuda.watching import process_of, until, write_raw

SLEEPER = "cuda.start(); print('ready', flush=True); time.sleep(60)"


@pytest.fixture
def block(make_block) -> ControlBlock:
    return make_block()


@pytest.fixture
def layout(library: Path) -> dict[str, Any]:
    command = [library.with_name("xcuda-block"), "layout"]
    stated = subprocess.run(command, capture_output=True, check=True, text=True)
    found: dict[str, Any] = json.loads(stated.stdout)
    return found


def as_stated(of: Layout) -> dict[str, list[int]]:
    return {name: [offset, width.bytes] for name, (offset, width) in of.fields.items()}


@pytest.mark.parametrize(("name", "twin"), [("policy", POLICY), ("slot", SLOT)])
def test_every_field_lies_where_the_other_side_has_it(layout, name, twin):
    assert layout[name]["fields"] == as_stated(twin)
    assert layout[name]["size"] == twin.size


def test_the_stats_page_is_a_head_and_the_slots(layout):
    slots = layout["stats"]["fields"].pop("slot")
    assert slots == [FIRST_SLOT, control_block.SLOTS * SLOT.size]
    assert layout["stats"]["fields"] == as_stated(STATS)
    assert layout["stats"]["size"] == STATS.size


def test_both_sides_use_the_same_numbers(layout):
    assert layout["policy_magic"] == control_block.POLICY_MAGIC
    assert layout["stats_magic"] == control_block.STATS_MAGIC
    assert layout["abi"] == control_block.ABI
    assert layout["page_bytes"] == control_block.PAGE_BYTES
    assert layout["unit_bytes"] == control_block.UNIT_BYTES
    assert layout["slots"] == control_block.SLOTS
    assert layout["modes"] == list(Mode)
    assert layout["phases"] == list(range(len(PHASE_CODES)))
    assert layout["kinds"] == list(Kind)


def test_both_sides_find_the_same_policies_sensible(layout):
    assert {name: tuple(bounds) for name, bounds in layout["ranges"].items()} == RANGES


def test_a_process_takes_over_what_is_written(xcuda, block):
    job = xcuda.python(SLEEPER, ready=True, block=block)
    sequence = block.set_policy(Limits(mode=Mode.THROTTLE, launches_per_s=7))
    until(lambda: process_of(block, job).sequence == sequence)
    assert process_of(block, job).mode is Mode.THROTTLE
    assert block.read_limits() == Limits(mode=Mode.THROTTLE, launches_per_s=7)


@pytest.mark.parametrize("name", RANGES)
def test_a_limit_out_of_its_range_is_refused_before_anything_is_written(block, name):
    before = block.read_limits()
    with pytest.raises(BlockError, match=name):
        block.set_policy(Limits(**{name: RANGES[name][1] + 1}))
    assert block.read_limits() == before


@pytest.mark.parametrize("name", sorted(control_block.OPTIONAL))
def test_a_limit_of_nothing_is_never_taken_for_no_limit(block, name):
    with pytest.raises(BlockError, match=name):
        block.set_policy(Limits(**{name: 0}))


def test_a_block_reads_the_same_after_the_agent_was_restarted(block):
    block.set_policy(Limits(memory_quota_bytes=1 << 30, grace_ms=0))
    with ControlBlock(block.directory) as again:
        assert again.generation == block.generation
        assert again.read_limits() == block.read_limits()


def test_a_policy_that_was_left_half_written_can_be_written_again(block):
    write_raw(block, POLICY, "sequence", 7)
    assert block.set_policy(Limits()) == 8


def test_the_sequence_leaves_out_the_number_of_no_policy(block):
    write_raw(block, POLICY, "sequence", 0xFFFFFFFE)
    assert block.set_policy(Limits()) == 2


def test_a_policy_that_makes_no_sense_is_not_read(block):
    write_raw(block, POLICY, "mode", 9)
    with pytest.raises(BlockError, match="9 as its mode"):
        block.read_limits()


def test_a_block_is_made_once(block):
    with pytest.raises(BlockError, match="File exists"):
        ControlBlock.create(block.directory, generation=2)


@pytest.mark.skipif(os.geteuid() != 0, reason="root: only it can give a file away")
def test_the_job_may_write_its_stats_and_only_read_the_policy(tmp_path: Path):
    with ControlBlock.create(tmp_path / "block", generation=1, job_uid=65534):
        policy, stats = ((tmp_path / "block" / name).stat() for name in ("policy", "stats"))
    assert (policy.st_uid, policy.st_mode & 0o777) == (0, 0o644)
    assert (stats.st_uid, stats.st_mode & 0o777) == (65534, 0o600)


@pytest.mark.parametrize(
    ("layout", "name", "value", "complaint"),
    [
        (POLICY, "magic", 1, "policy is not a file of a control block"),
        (STATS, "magic", 1, "stats is not a file of a control block"),
        (POLICY, "abi", 9, "has ABI 9"),
        (STATS, "generation", 9, "files of two blocks"),
    ],
)
def test_what_is_no_block_is_not_opened(block, layout, name, value, complaint):
    write_raw(block, layout, name, value)
    with pytest.raises(BlockError, match=complaint):
        ControlBlock(block.directory)


def test_a_missing_block_is_said_in_one_sentence(tmp_path: Path):
    with pytest.raises(BlockError, match=r"policy cannot be opened: No such file or directory\.$"):
        ControlBlock(tmp_path)


def test_a_job_that_cuts_its_stats_short_does_no_harm(block):
    os.truncate(block.directory / "stats", 100)
    with pytest.raises(BlockError, match="the job has cut it short"):
        block.read_slots()
    block.set_policy(Limits(mode=Mode.EXIT))


def test_what_a_job_writes_that_means_nothing_is_missing(block):
    for name, value in (("owner", 1 << 32 | 0x7FFFFFFF), ("phase", 99), ("mode", 77)):
        write_raw(block, SLOT, name, value, at=FIRST_SLOT)
    write_raw(block, SLOT, "sequence", 2, at=FIRST_SLOT)
    (found,) = block.read_slots()
    assert (found.phase, found.mode, found.host_pid, found.fault) == (None, None, None, None)
    assert found.sequence == 2


def test_a_process_that_is_gone_is_told_from_one_with_its_number(xcuda, block):
    job = xcuda.python(SLEEPER, ready=True, block=block)
    assert process_of(block, job).host_pid == job.pid
    started = process_of(block, job)
    job.kill()
    until(lambda: not process_of(block, job).alive)  # though nobody has waited for it
    owner = 12345 << 32 | os.getpid()
    write_raw(block, SLOT, "owner", owner, at=FIRST_SLOT + started.slot * SLOT.size)
    assert [slot.alive for slot in block.read_slots()] == [False]


def test_the_bell_wakes_the_agent(xcuda, block):
    job = xcuda.python(SLEEPER, ready=True, block=block)
    seen = block.bell()
    assert block.wait_bell(seen, timeout_s=0) == seen
    job.send_signal(signal.SIGTERM)
    assert block.wait_bell(seen, timeout_s=8) != seen
    until(lambda: process_of(block, job).phase is Phase.RELEASED)
