"""After a fatal code nothing more reaches the driver, and the agent knows."""

from __future__ import annotations

import signal

import pytest

from tests.agents.xcuda.running import next_line
from tests.agents.xcuda.watching import process_of, until

FATAL = (214, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 806, 807, 809, 810, 911)
ORDINARY = (1, 2, 100, 201, 400, 500, 600, 801, 900, 999)
PROGRAM = """
    cuda.start()
    codes = [cuda.launch() for _ in range(3)]
    codes += [cuda.cuMemAlloc_v2(byref(c_uint64()), 4096), cuda.cuCtxSynchronize()]
    print("ready", flush=True)
    print(json.dumps(codes), flush=True)
    time.sleep(60)
    """


def start(xcuda, block, code):
    """The second launch fails; the driver itself would take the later ones."""
    failing = {"STUB_FAIL": f"cuLaunchKernel:{code}@2"}
    job = xcuda.python(PROGRAM, ready=True, block=block, env=failing)
    return job, next_line(job).strip()


@pytest.mark.parametrize("code", FATAL)
def test_a_fatal_code_gates_the_process_and_wakes_the_agent(xcuda, make_block, code):
    block = make_block()
    bell = block.bell()
    job, codes = start(xcuda, block, code)
    assert codes == str([0, code, code, code, code])
    assert block.bell() != bell
    assert process_of(block, job).fault == code
    job.kill()
    assert f"fatal code {code}" in xcuda.finish(job).stderr


@pytest.mark.parametrize("code", ORDINARY)
def test_an_ordinary_error_is_the_applications_own(xcuda, make_block, code):
    block = make_block()
    job, codes = start(xcuda, block, code)
    assert codes == str([0, code, 0, 0, 0])
    assert process_of(block, job).fault is None


@pytest.mark.parametrize("poll", ["cuEventQuery", "cuStreamQuery", "cuEventRecord"])
def test_a_fault_is_seen_by_a_program_that_only_polls(xcuda, make_block, poll):
    block = make_block()
    job = xcuda.python(
        f"cuda.start(); cuda.{poll}(0, 0); print('ready', flush=True); time.sleep(60)",
        ready=True,
        block=block,
        env={"STUB_FAIL": f"{poll}:719"},
    )
    assert process_of(block, job).fault == 719


def test_a_process_with_a_fault_still_stops_in_order(xcuda, make_block):
    block = make_block()
    job, _ = start(xcuda, block, 700)
    job.send_signal(signal.SIGTERM)
    assert xcuda.finish(job).returncode == 143


def test_a_fault_shows_its_first_code(xcuda, make_block):
    block = make_block()
    failing = {"STUB_FAIL": "cuLaunchKernel:700,cuMemAlloc_v2:719"}
    job = xcuda.python(PROGRAM, ready=True, block=block, env=failing)
    until(lambda: process_of(block, job).fault)
    assert process_of(block, job).fault == 700
