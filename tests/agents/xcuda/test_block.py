"""A process takes a slot of the block it is given, and lives by its policy."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agents.control_block import FIRST_SLOT, POLICY, SLOT, SLOTS, ControlBlock, Limits, Mode
from tests.agents.xcuda.watching import process_of, until, write_raw

SLEEPER = "cuda.start(); print('ready', flush=True); time.sleep(60)"
LAUNCHER = """
    cuda.start()
    print("ready", flush=True)
    while True:
        cuda.launch()
        time.sleep(0.0005)
    """
INIT = [
    sys.executable,
    "-I",
    "-S",
    "-c",
    "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))",
]
REQUIRED = {"MUXFLOW_XCUDA_REQUIRED": "1"}


@pytest.fixture
def block(make_block) -> ControlBlock:
    return make_block()


def test_a_slot_is_taken_by_a_process_that_uses_cuda_and_by_no_other(xcuda, block):
    idle = xcuda.python("print('ready', flush=True); time.sleep(60)", ready=True, block=block)
    jobs = [xcuda.python(SLEEPER, ready=True, block=block) for _ in range(2)]
    assert process_of(block, idle) is None
    assert [process_of(block, job).host_pid for job in jobs] == [job.pid for job in jobs]
    assert process_of(block, jobs[0]).slot != process_of(block, jobs[1]).slot


def test_a_slot_says_when_cuda_began_and_which_policy_holds(xcuda, block):
    began = time.monotonic_ns()
    job = xcuda.python(SLEEPER, ready=True, block=block)
    process = process_of(block, job)
    assert began < process.cuda_ns < time.monotonic_ns()
    assert (process.sequence, process.mode) == (2, Mode.RUN)
    assert (process.phase, process.signal, process.fault, process.stuck) == (None,) * 3 + (False,)


LARGE_THREADS = """
#include <unistd.h>
__thread char data[4 << 20];
int cuInit(unsigned int flags);
int main(void)
{
    data[1] = (char)cuInit(0);
    write(1, "ready\\n", 6);
    pause();
    return data[1];
}
"""


def test_a_program_with_much_thread_local_data_is_followed_too(xcuda, library, block, tmp_path):
    """Every thread has that data on its stack, ours as well."""
    source, program = tmp_path / "large.c", tmp_path / "large"
    source.write_text(LARGE_THREADS)
    stub = ["-L", library.parent / "stub", "-l:libcuda.so.1"]
    subprocess.run(["gcc", "-w", "-o", program, source, *stub], check=True)
    job = xcuda.start([str(program)], block=block)
    block.set_policy(Limits(mode=Mode.EXIT))
    assert xcuda.finish(job).returncode == 143


def fill(block: ControlBlock, owner: int) -> None:
    namespace = Path("/proc/self/ns/pid").stat().st_ino & 0xFFFFFFFF
    for slot in range(SLOTS):
        at = FIRST_SLOT + slot * SLOT.size
        write_raw(block, SLOT, "owner", owner, at)
        write_raw(block, SLOT, "pid_namespace", namespace, at)


def own_start() -> int:
    stat = Path("/proc/self/stat").read_text()
    return int(stat[stat.rindex(")") + 2 :].split()[19])


DEAD = 4_000_000  # above every limit of process ids that Linux sets by itself


@pytest.mark.parametrize("owner", [7 << 32 | DEAD, 7 << 32 | os.getpid()], ids=["gone", "reused"])
def test_slots_of_dead_processes_are_taken_over(xcuda, block, owner):
    fill(block, owner)
    write_raw(block, SLOT, "denied", 99, at=FIRST_SLOT)
    write_raw(block, SLOT, "transit", 1, at=FIRST_SLOT)
    job = xcuda.python(SLEEPER, ready=True, block=block, env=REQUIRED)
    process = process_of(block, job)
    assert process.alive
    assert process.denied == 0


@pytest.mark.parametrize(("required", "code"), [("1", 802), ("0", 0)])
def test_a_process_that_finds_no_slot_says_so(xcuda, block, required, code):
    fill(block, own_start() << 32 | os.getpid())
    ran = xcuda.run(INIT, block=block, env={"MUXFLOW_XCUDA_REQUIRED": required})
    assert ran.stdout == f"{code}\n"
    assert ran.stderr.count("\n") == 1
    assert "no free slot" in ran.stderr


def test_reaping_frees_the_dead_and_recounts_their_memory(xcuda, library, block):
    code = "cuda.start(); cuda.make('cuMemAlloc_v2', 8 * MIB); print('ready', flush=True)\n"
    job = xcuda.python(code + "time.sleep(60)", ready=True, block=block)
    living = xcuda.python(code + "time.sleep(60)", ready=True, block=block)
    job.kill()
    job.wait()
    assert block.used_bytes() == 16 << 20
    command = [library.with_name("xcuda-block"), "reap", block.directory]
    told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert told == {"reaped": 1, "recounted": True, "used_bytes": 8 << 20}
    assert [process.pid for process in block.read_slots()] == [living.pid]


def test_reaping_what_is_no_block_is_one_line_and_a_failure(library, tmp_path):
    command = [library.with_name("xcuda-block"), "reap", tmp_path]
    ran = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)


def test_a_policy_is_taken_over_and_one_that_makes_no_sense_is_not(xcuda, block):
    job = xcuda.python(LAUNCHER, ready=True, block=block)
    good = block.set_policy(Limits(launches_per_s=500))
    until(lambda: process_of(block, job).sequence == good)
    write_raw(block, POLICY, "mode", 77)
    write_raw(block, POLICY, "sequence", good + 2)
    launched = process_of(block, job).launches
    until(lambda: process_of(block, job).launches > launched + 50)
    assert process_of(block, job).sequence == good
    better = block.set_policy(Limits(mode=Mode.FREEZE))
    until(lambda: process_of(block, job).sequence == better)
    job.kill()
    assert xcuda.finish(job).stderr.count("makes no sense (mode)") == 1


@pytest.mark.parametrize("sequence", [3, 0xFFFFFFFF])
def test_an_agent_that_died_while_writing_blocks_nobody(xcuda, block, sequence):
    job = xcuda.python(LAUNCHER, ready=True, block=block)
    write_raw(block, POLICY, "sequence", sequence)
    write_raw(block, POLICY, "mode", Mode.FREEZE)
    launched = process_of(block, job).launches
    until(lambda: process_of(block, job).launches > launched + 50)
    assert process_of(block, job).mode is Mode.RUN


def test_the_sequence_may_wrap_around(xcuda, block):
    write_raw(block, POLICY, "sequence", 0xFFFFFFFE)
    job = xcuda.python(LAUNCHER, ready=True, block=block)
    block.set_policy(Limits(mode=Mode.FREEZE))
    until(lambda: process_of(block, job).frozen_ns)
    sequence = block.set_policy(Limits())
    until(lambda: sequence == process_of(block, job).sequence)


def test_random_pages_never_block_a_process(xcuda, block):
    job = xcuda.python(LAUNCHER, ready=True, block=block)
    for seed in range(200):
        noise = struct.pack("<15I", *(seed * 2654435761 * i % 2**32 | 4 for i in range(1, 16)))
        with (block.directory / "policy").open("r+b") as page:
            page.seek(POLICY.fields["mode"][0])
            page.write(noise)
        write_raw(block, POLICY, "sequence", 4 + 2 * seed)
    launched = process_of(block, job).launches
    until(lambda: process_of(block, job).launches > launched + 50)


def silence(block: ControlBlock, seconds: float) -> None:
    write_raw(block, POLICY, "heartbeat_ns", time.monotonic_ns() - int(seconds * 1e9))


def test_an_agent_that_is_silent_for_long_freezes_its_jobs_until_it_is_back(xcuda, block):
    job = xcuda.python(LAUNCHER, ready=True, block=block)
    until(lambda: process_of(block, job).launches)
    silence(block, 31)
    until(lambda: process_of(block, job).frozen_ns > 0)
    launched = until(lambda: settled(block, job))
    block.heartbeat()
    until(lambda: process_of(block, job).launches > launched)


def settled(block, job):
    """The number of launches, once it no longer grows."""
    before = process_of(block, job).launches
    time.sleep(0.15)
    after = process_of(block, job).launches
    return after if after == before else None


def test_a_freeze_outlasts_the_agents_silence_and_return(xcuda, block):
    job = xcuda.python(LAUNCHER, ready=True, block=block)
    until(lambda: process_of(block, job).launches)
    block.set_policy(Limits(mode=Mode.FREEZE))
    launched = until(lambda: settled(block, job))
    silence(block, 31)
    time.sleep(0.15)
    block.heartbeat()
    assert until(lambda: settled(block, job)) == launched
    block.set_policy(Limits())
    until(lambda: process_of(block, job).launches > launched)


def test_without_any_heartbeat_nobody_is_missed(xcuda, block):
    assert POLICY.unpack((block.directory / "policy").read_bytes())["heartbeat_ns"] == 0
    job = xcuda.python(LAUNCHER, ready=True, block=block)
    launched = process_of(block, job).launches
    until(lambda: process_of(block, job).launches > launched + 50)


def test_limits_of_a_run_by_hand_hold_without_a_block(xcuda):
    told = xcuda.python(
        "cuda.start(); print(json.dumps([cuda.cuMemAlloc_v2(byref(c_uint64()), size * MIB)"
        " for size in (900, 200)]))",
        env={"MUXFLOW_XCUDA_MEMORY": "1GiB"},
    )
    assert told == [0, 2]


@pytest.mark.parametrize("checked", ["native", "asan", "tsan"])
def test_the_newest_sensible_policy_holds(run_native, checked):
    run_native("test_block", checked)


def test_a_program_that_executes_another_leaves_nothing_charged(xcuda, block):
    job = xcuda.python(
        """
        import os
        cuda.start()
        cuda.make("cuMemAlloc_v2", 8 * MIB)
        program = "import ctypes, time; ctypes.CDLL('libcuda.so.1').cuInit(0)"
        program += "; print('ready', flush=True); time.sleep(60)"
        os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", program])
        """,
        ready=True,
        block=block,
    )
    assert [process.pid for process in block.read_slots()] == [job.pid]
    assert block.used_bytes() == 0
