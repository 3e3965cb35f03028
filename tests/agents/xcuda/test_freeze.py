"""A freeze: launches and copies wait, the rest goes on, and nothing is lost when it ends."""

from __future__ import annotations

import random
import time

import pytest

from agents.control_block import Limits, Mode
from tests.agents.xcuda.running import next_line
from tests.agents.xcuda.watching import process_of, until

TIMED = {"STUB_TIME": "1"}
FROZEN = Limits(mode=Mode.FREEZE)
# So small that grants are of one launch: it holds also while a thread joins.
CAP = 6

# `parked(call)` tells whether the call is still held after others of another thread went through.
PARKED = """
import threading
cuda.start()
context, stream = c_void_p(), cuda.make("cuStreamCreate", 1)
memory, host = cuda.make("cuMemAlloc_v2", MIB), ctypes.create_string_buffer(64)
graph = cuda.make("cuGraphCreate", 0)
run = cuda.make("cuGraphInstantiateWithFlags", graph, 0)
callback = ctypes.CFUNCTYPE(None, c_void_p)(lambda _: None)
cuda.ok("cuCtxGetCurrent", byref(context))
print("ready", flush=True)
codes = []
def call(code):
    cuda.ok("cuCtxSetCurrent", context)
    codes.append(eval(code))
def parked(code):
    thread = threading.Thread(target=call, args=[code], daemon=True)
    thread.start()
    thread.join(0.05)
    return thread
"""

HELD = {
    "cuLaunchKernel": "cuda.launch()",
    "cuLaunchKernel_ptsz": "cuda.cuLaunchKernel_ptsz(0, 1, 1, 1, 1, 1, 1, 0, 0, None, None)",
    "cuGraphLaunch": "cuda.cuGraphLaunch(run, stream)",
    "cuLaunchHostFunc": "cuda.cuLaunchHostFunc(stream, callback, None)",
    "cuMemcpyHtoDAsync": "cuda.cuMemcpyHtoDAsync_v2(memory, host, 64, stream)",
    "cuMemcpyDtoH": "cuda.cuMemcpyDtoH_v2(host, memory, 64)",
    "cuMemsetD8Async": "cuda.cuMemsetD8Async(memory, 0, 64, stream)",
}


def frozen_job(xcuda, block, code):
    return xcuda.python(PARKED + code, ready=True, block=block)


@pytest.mark.parametrize("name", HELD)
def test_what_puts_work_on_the_device_waits(xcuda, make_block, name):
    block = make_block(mode=Mode.FREEZE)
    job = frozen_job(
        xcuda,
        block,
        f"""
thread = parked({HELD[name]!r})
held = thread.is_alive()
print("held", flush=True)
thread.join()
tell(held=held, codes=codes)
""",
    )
    until(lambda: process_of(block, job).frozen_ns > 0)
    assert next_line(job) == "held\n"
    block.set_policy(Limits())
    assert xcuda.finish(job).told == {"held": True, "codes": [0]}


def test_memory_and_waiting_go_on_while_another_thread_is_held(xcuda, make_block):
    block = make_block(mode=Mode.FREEZE)
    job = frozen_job(
        xcuda,
        block,
        """
thread = parked("cuda.launch()")
for _ in range(100):
    cuda.ok("cuMemFree_v2", cuda.make("cuMemAlloc_v2", MIB))
    cuda.ok("cuCtxSynchronize")
    cuda.ok("cuStreamSynchronize", stream)
print("passed", flush=True)
thread.join()
tell(codes=codes)
""",
    )
    assert next_line(job) == "passed\n"
    block.set_policy(Limits())
    assert xcuda.finish(job).told == {"codes": [0]}


def test_a_child_of_a_frozen_process_is_free(xcuda, make_block):
    block = make_block(mode=Mode.FREEZE)
    job = frozen_job(
        xcuda,
        block,
        """
import os
thread = parked("cuda.launch()")
child = os.fork()
if child == 0:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
thread.join()
tell(codes=codes)
""",
    )
    assert next_line(job) == "7\n"
    block.set_policy(Limits())
    assert xcuda.finish(job).told == {"codes": [0]}


def test_threads_that_end_do_not_hold_a_freeze_up(xcuda, make_block):
    block = make_block(mode=Mode.FREEZE)
    job = frozen_job(
        xcuda,
        block,
        """
for _ in range(50):
    thread = parked("cuda.cuMemGetInfo_v2(byref(c_size_t()), byref(c_size_t()))")
    thread.join()
print("ended", flush=True)
thread = parked("cuda.launch()")
thread.join()
tell(last=codes[-1])
""",
    )
    assert next_line(job) == "ended\n"
    block.set_policy(Limits())
    assert xcuda.finish(job).told == {"last": 0}


@pytest.mark.parametrize("kind", ["launch", "launch-sync", "copy", "graph", "mixed"])
def test_a_freeze_that_ends_has_lost_nothing(xcuda, make_block, server, kind):
    dice = random.Random(kind)
    block = make_block(inflight_cap=32)
    job = xcuda.start(
        "loop", kind, "--count", 1500, "--threads", 2, block=block, server=server, env=TIMED
    )
    while job.poll() is None:
        block.set_policy(FROZEN)
        time.sleep(dice.random() * 0.01)
        block.set_policy(Limits(inflight_cap=32))
        time.sleep(dice.random() * 0.01)
    told = xcuda.finish(job).told
    assert told["failed"] == 0
    assert told["calls"] >= 3000
    assert server.report()["exits_unsafe"] == 0


def test_a_frozen_process_runs_dry_and_stays_so(xcuda, make_block, server):
    block = make_block(inflight_cap=CAP)
    job = xcuda.start(
        "loop", "launch", "--seconds", 60, "--threads", 2, "--kernel", "step_2000us",
        "--grid", 1000, block=block, server=server, env=TIMED,
    )  # fmt: skip
    until(lambda: server.report()["clients"][0]["in_flight"] > 2)
    sequence = block.set_policy(FROZEN)
    until(lambda: process_of(block, job).sequence == sequence)
    assert server.report()["clients"][0]["in_flight"] <= CAP
    until(lambda: server.report()["clients"][0]["in_flight"] == 0)
    launched = server.report()["clients"][0]["launches"]
    frozen_ns = process_of(block, job).frozen_ns
    until(lambda: process_of(block, job).frozen_ns > frozen_ns + 100_000_000)
    assert server.report()["clients"][0]["launches"] == launched
    block.set_policy(Limits(inflight_cap=CAP))
    until(lambda: server.report()["clients"][0]["launches"] > launched)
    job.terminate()
    xcuda.finish(job)
    assert server.report()["exits_unsafe"] == 0


def test_a_program_that_starts_frozen_waits_at_its_first_launch(xcuda, make_block):
    block = make_block(mode=Mode.FREEZE)
    job = xcuda.start("loop", "launch", "--count", 10, block=block)
    until(lambda: process_of(block, job).frozen_ns > 0)
    assert process_of(block, job).launches == 0
    block.set_policy(Limits())
    assert xcuda.finish(job).told["calls"] == 10


@pytest.mark.parametrize("checked", ["native", "asan", "tsan"])
def test_nobody_is_in_the_driver_behind_a_closed_gate(run_native, checked):
    run_native("test_gate", checked)
