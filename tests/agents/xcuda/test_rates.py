"""Limits on launches: never faster than allowed, in any 20 ms or over all; never held for ever.

A machine that is busy makes a program slower than its limit, never faster, so what is asserted
here is what may not be exceeded. How closely a limit is reached, `make bench-xcuda` measures.
"""

from __future__ import annotations

import random

import pytest

from agents.control_block import POLICY, Limits, Mode
from tests.agents.xcuda.watching import until, write_raw

TIMED = {"STUB_TIME": "1"}
WINDOW_S = 0.02
BURST_S = 0.01  # of a limit, that a program may save up
GRANT_S = 0.001  # and that a thread may hold unused

# `launch(n)` launches and notes when; `stamps` are the moments.
STAMPED = """
cuda.start()
stamps, kernel = [], cuda.kernel("step_20us")
def launch(count, blocks=1, sync=False):
    for _ in range(count):
        cuda.launch(kernel, blocks)
        if sync:
            cuda.ok("cuStreamSynchronize", 0)
        stamps.append(time.monotonic())
"""


def most_in_a_window(stamps):
    first, most = 0, 0
    for last, stamp in enumerate(stamps):
        while stamp - stamps[first] > WINDOW_S:
            first += 1
        most = max(most, last - first + 1)
    return most


def allowed(rate, seconds, threads=1):
    return rate * (seconds + BURST_S + GRANT_S * threads) + threads


@pytest.mark.parametrize("rate", [200, 2000, 20000])
@pytest.mark.parametrize("sync", [False, True])
def test_launches_are_never_faster_than_their_rate(xcuda, make_block, rate, sync):
    stamps = xcuda.python(
        STAMPED + f"launch({rate // 4}, sync={sync}); tell(stamps=stamps)",
        block=make_block(launches_per_s=rate),
    )["stamps"]
    assert len(stamps) <= allowed(rate, stamps[-1] - stamps[0])
    assert most_in_a_window(stamps) <= max(2 * rate * WINDOW_S, allowed(rate, WINDOW_S))


def test_blocks_are_never_faster_than_their_rate(xcuda, make_block):
    stamps = xcuda.python(
        STAMPED + "launch(500, blocks=40); tell(stamps=stamps)",
        block=make_block(blocks_per_s=80_000),
    )["stamps"]
    assert 40 * len(stamps) <= allowed(80_000, stamps[-1] - stamps[0]) + 40
    assert 40 * most_in_a_window(stamps) <= 2 * 80_000 * WINDOW_S


def test_the_stricter_of_two_rates_holds(xcuda, make_block):
    stamps = xcuda.python(
        STAMPED + "launch(200, blocks=10); tell(stamps=stamps)",
        block=make_block(launches_per_s=100_000, blocks_per_s=10_000),
    )["stamps"]
    assert 10 * len(stamps) <= allowed(10_000, stamps[-1] - stamps[0]) + 10


def test_threads_share_the_rate(xcuda, make_block):
    stamps = xcuda.python(
        STAMPED
        + """
import threading
context = c_void_p()
cuda.ok("cuCtxGetCurrent", byref(context))
def work():
    cuda.ok("cuCtxSetCurrent", context)
    launch(100)
threads = [threading.Thread(target=work) for _ in range(5)]
for thread in threads: thread.start()
for thread in threads: thread.join()
tell(stamps=sorted(stamps))
""",
        block=make_block(launches_per_s=2000),
    )["stamps"]
    assert len(stamps) == 500
    assert len(stamps) <= allowed(2000, stamps[-1] - stamps[0], threads=5)


def test_a_graph_pays_for_each_of_its_kernels(xcuda, make_block):
    block = make_block(launches_per_s=2000)
    ran = xcuda.run("loop", "graph", "--count", 60, block=block)
    assert ran.told["calls"] == 60
    assert block.read_slots()[0].launches == 8 * 60
    # One graph may be in debt when the program ends.
    assert allowed(2000, ran.told["seconds"]) + 8 >= 8 * 60


def test_a_kernel_larger_than_the_bucket_passes_and_is_paid_for(xcuda, make_block):
    stamps = xcuda.python(
        STAMPED + "launch(4, blocks=1000); tell(stamps=stamps)",
        block=make_block(blocks_per_s=10_000),
    )["stamps"]
    assert stamps[-1] - stamps[0] >= 3 * 1000 / 10_000 - BURST_S


def test_another_stream_is_no_way_around_a_limit(xcuda, make_block):
    stamps = xcuda.python(
        STAMPED
        + """
streams = [cuda.make("cuStreamCreate", 1) for _ in range(7)]
memory = cuda.make("cuMemAlloc_v2", 512)
for each in range(300):
    cuda.launch(kernel, 1, streams[each % 7])
    cuda.ok("cuMemsetD8Async", memory, 0, 1, streams[each % 3])
    stamps.append(time.monotonic())
tell(stamps=stamps)
""",
        block=make_block(launches_per_s=2000),
    )["stamps"]
    assert len(stamps) <= allowed(2000, stamps[-1] - stamps[0])


# --- the duty -------------------------------------------------------------------------------------


def test_work_on_the_device_keeps_to_the_duty(xcuda, make_block, server):
    ran = xcuda.run(
        "loop", "launch", "--seconds", 1, "--kernel", "step_500us", "--grid", 1000,
        block=make_block(duty_permille=200), server=server, env=TIMED,
    )  # fmt: skip
    busy_s = server.report()["busy_ms"] / 1e3
    assert busy_s <= 0.2 * 1.25 * ran.told["seconds"] + 0.05


def test_a_duty_lets_one_launch_pass_however_long_it_takes(xcuda, make_block):
    ran = xcuda.run(
        "loop", "launch-sync", "--count", 6, "--kernel", "step_100000us", "--grid", 1000,
        block=make_block(duty_permille=1), env=TIMED,
    )  # fmt: skip
    assert ran.told["calls"] == 6


def test_busy_time_is_never_more_than_passes(xcuda, make_block):
    block = make_block(inflight_cap=64)
    ran = xcuda.run(
        "loop", "launch", "--seconds", 0.4, "--threads", 3, "--kernel", "step_200us",
        block=block, env=TIMED,
    )  # fmt: skip
    [process] = block.read_slots()
    assert 0 < process.busy_ns <= (ran.told["seconds"] + 0.2) * 1e9


# --- changes --------------------------------------------------------------------------------------


def test_a_raised_limit_frees_a_launch_that_waits(xcuda, make_block):
    block = make_block(launches_per_s=1, blocks_per_s=1)
    job = xcuda.start("loop", "launch", "--count", 3000, "--grid", 100, block=block)
    until(lambda: block.read_slots() and block.read_slots()[0].throttled_ns)
    block.set_policy(Limits(launches_per_s=10**6))
    assert xcuda.finish(job).told["calls"] == 3000


def test_a_lowered_limit_holds_a_program_that_runs(xcuda, make_block):
    block = make_block()
    job = xcuda.start("loop", "launch", "--seconds", 60, block=block)
    until(lambda: block.read_slots() and block.read_slots()[0].launches > 10_000)
    sequence = block.set_policy(Limits(launches_per_s=2))
    until(lambda: block.read_slots()[0].sequence == sequence and block.read_slots()[0].throttled_ns)
    before = block.read_slots()[0]
    until(lambda: block.read_slots()[0].throttled_ns > before.throttled_ns + 600_000_000)
    assert block.read_slots()[0].launches <= before.launches + 10
    job.kill()


def test_garbage_in_the_policy_never_blocks_for_ever(xcuda, make_block):
    dice = random.Random(3)
    block = make_block()
    job = xcuda.start("loop", "mixed", "--count", 3000, block=block)
    fields = [name for name in POLICY.fields if name not in ("sequence", "heartbeat_ns", "mode")]
    for _ in range(300):
        name = dice.choice(fields)
        write_raw(block, POLICY, name, dice.getrandbits(8 * POLICY.fields[name][1].bytes))
        write_raw(block, POLICY, "sequence", dice.getrandbits(32))
        write_raw(block, POLICY, "mode", dice.choice((0, 1, 4, 77, 2**32 - 1)))
    assert xcuda.finish(job, timeout_s=30).told["calls"] >= 3000


def test_throttle_is_the_floor_duty(xcuda, make_block, server):
    ran = xcuda.run(
        "loop", "launch", "--seconds", 0.8, "--kernel", "step_500us", "--grid", 1000,
        block=make_block(mode=Mode.THROTTLE, floor_duty_permille=100), server=server, env=TIMED,
    )  # fmt: skip
    assert server.report()["busy_ms"] / 1e3 <= 0.1 * 1.25 * ran.told["seconds"] + 0.05


@pytest.mark.parametrize("checked", ["native", "asan", "tsan"])
def test_the_pace_holds_on_a_turned_clock(run_native, checked):
    run_native("test_pace", checked)
