"""Launches through every entry point: counted, held to the cap, and never held for ever."""

from __future__ import annotations

import pytest

TIMED = {"STUB_TIME": "1"}

PLAIN = "0, {blocks}, 1, 1, 32, 1, 1, 0, 0, None"
CONFIG = "(ctypes.c_uint * 14)({blocks}, 1, 1, 32, 1, 1), 0, None, None"
ENTRY_POINTS = {
    "cuLaunchKernel": PLAIN + ", None",
    "cuLaunchKernel_ptsz": PLAIN + ", None",
    "cuLaunchKernelEx": CONFIG,
    "cuLaunchKernelEx_ptsz": CONFIG,
    "cuLaunchCooperativeKernel": PLAIN,
    "cuLaunchCooperativeKernel_ptsz": PLAIN,
    "cuLaunchCooperativeKernelMultiDevice": "(ctypes.c_uint64 * 7)(0, 1 << 32 | {blocks}, "
    "32 << 32 | 1, 1 << 32 | 1, 0, 0, 0), 1, 0",
    "cuLaunchGrid": "0, {blocks}, 1",
    "cuLaunchGridAsync": "0, {blocks}, 1, 0",
}


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_every_entry_point_is_counted_with_its_blocks(xcuda, make_block, name):
    block = make_block()
    arguments = ENTRY_POINTS[name].format(blocks=7)
    xcuda.python(
        f"""
        cuda.start()
        for _ in range(3):
            cuda.ok({name!r}, {arguments})
        cuda.ok("cuCtxSynchronize")
        tell()
        """,
        block=block,
    )
    [process] = block.read_slots()
    assert (process.launches, process.blocks) == (3, 21)


def test_the_oldest_launch_has_one_block(xcuda, make_block):
    block = make_block()
    xcuda.python("cuda.start(); cuda.ok('cuLaunch', 0); tell()", block=block)
    [process] = block.read_slots()
    assert (process.launches, process.blocks) == (1, 1)


@pytest.mark.parametrize("limit", [{}, {"launches_per_s": 10**6}, {"inflight_cap": 64}])
def test_no_launch_is_counted_twice_or_lost(xcuda, make_block, server, limit):
    block = make_block(**limit)
    ran = xcuda.run("loop", "launch", "--count", 2500, "--threads", 4, block=block, server=server)
    assert ran.told["failed"] == 0
    [process] = block.read_slots()
    assert process.launches == ran.told["calls"] == 4 * 2500


def test_what_the_driver_refuses_it_still_refuses(xcuda, make_block):
    code = """
        cuda.start()
        tell(
            empty=cuda.launch(blocks=0),
            config=cuda.cuLaunchKernelEx((ctypes.c_uint * 14)(), 0, None, None),
            after=cuda.launch(),
        )
        """
    block = make_block(blocks_per_s=10**6, launches_per_s=10**6, inflight_cap=64)
    under_us = xcuda.python(code, block=block, env=TIMED)
    assert under_us == xcuda.python(code, preload=False, env=TIMED)
    assert under_us == {"empty": 1, "config": 1, "after": 0}


def test_a_monstrous_grid_is_the_drivers_business(xcuda, make_block):
    told = xcuda.python(
        """
        cuda.start()
        most = 0xFFFFFFFF
        tell(codes=[
            cuda.cuLaunchKernel(0, most, most, most, 32, 1, 1, 0, 0, None, None),
            cuda.cuLaunchGrid(0, -1, 1),
        ])
        """,
        block=make_block(blocks_per_s=10**9),
    )
    assert told == {"codes": [0, 0]}


def test_a_host_function_is_no_launch(xcuda, make_block):
    block = make_block(launches_per_s=1)
    told = xcuda.python(
        """
        cuda.start()
        called = []
        callback = ctypes.CFUNCTYPE(None, c_void_p)(lambda _: called.append(1))
        for _ in range(20):
            cuda.ok("cuLaunchHostFunc", 0, callback, None)
            cuda.ok("cuLaunchHostFunc_ptsz", 0, callback, None)
        cuda.ok("cuCtxSynchronize")
        tell(called=len(called))
        """,
        block=block,
    )
    assert told == {"called": 40}
    assert block.read_slots()[0].launches == 0


# --- the cap --------------------------------------------------------------------------------------

PEAK = """
import threading
cuda.start()
context = c_void_p()
cuda.ok("cuCtxGetCurrent", byref(context))
kernel, most = cuda.kernel("step_500us"), []
begun = threading.Barrier(1)
def work(streams):
    cuda.ok("cuCtxSetCurrent", context)
    items, peak = c_uint32(), 0
    cuda.launch(kernel, 1000, streams[0])
    begun.wait()
    cuda.ok("cuCtxSynchronize")
    begun.wait()
    for each in range(48):
        cuda.launch(kernel, 1000, streams[each % len(streams)])
        cuda.ok("stubInFlight", byref(items))
        peak = max(peak, items.value)
    most.append(peak)
"""


@pytest.mark.parametrize("cap", [1, 3, 16])
def test_no_more_launches_are_in_flight_than_the_cap(xcuda, make_block, cap):
    told = xcuda.python(
        PEAK + "work([0]); tell(most=max(most))", block=make_block(inflight_cap=cap), env=TIMED
    )
    assert told["most"] <= cap


def test_threads_share_the_cap(xcuda, make_block):
    told = xcuda.python(
        PEAK
        + """
begun = threading.Barrier(3)
threads = [threading.Thread(target=work, args=[[cuda.make("cuStreamCreate", 1)]]) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
tell(most=max(most))
""",
        block=make_block(inflight_cap=8),
        env=TIMED,
    )
    assert told["most"] <= 8


def test_streams_share_the_cap(xcuda, make_block):
    told = xcuda.python(
        PEAK + "work([cuda.make('cuStreamCreate', 1) for _ in range(3)]); tell(most=max(most))",
        block=make_block(inflight_cap=4),
        env=TIMED,
    )
    assert told["most"] <= 4


def test_the_cap_does_not_hold_the_launch_that_others_wait_for(xcuda, make_block):
    """Without a way out this never ends: the first stream goes on only after the second launch."""
    told = xcuda.python(
        """
        import threading
        cuda.start()
        one, other = cuda.make("cuStreamCreate", 1), cuda.make("cuStreamCreate", 1)
        launched = threading.Event()
        callback = ctypes.CFUNCTYPE(None, c_void_p)(lambda _: launched.wait(8) and None)
        cuda.ok("cuLaunchHostFunc", one, callback, None)
        codes = [cuda.launch(stream=one), cuda.launch(stream=other)]
        launched.set()
        cuda.ok("cuCtxSynchronize")
        tell(codes=codes)
        """,
        block=make_block(inflight_cap=1),
        env=TIMED,
    )
    assert told == {"codes": [0, 0]}


def test_a_context_takes_its_events_with_it(xcuda, make_block):
    told = xcuda.python(
        """
        cuda.ok("cuInit", 0)
        codes = set()
        for _ in range(5):
            context = cuda.make("cuCtxCreate_v2", 0, 0)
            codes |= {cuda.launch(blocks=100) for _ in range(10)}
            codes.add(cuda.cuCtxDestroy_v2(context))
        tell(codes=sorted(codes))
        """,
        block=make_block(inflight_cap=4, duty_permille=500),
        env=TIMED,
    )
    assert told == {"codes": [0]}


# --- threads --------------------------------------------------------------------------------------


def test_threads_that_come_and_go_leave_nothing_behind(xcuda, make_block, server):
    block = make_block(inflight_cap=64, launches_per_s=10**6)
    told = xcuda.python(
        """
        import threading
        cuda.start()
        context = c_void_p()
        cuda.ok("cuCtxGetCurrent", byref(context))
        def work():
            cuda.ok("cuCtxSetCurrent", context)
            for _ in range(5):
                cuda.launch()
        for _ in range(20):
            threads = [threading.Thread(target=work) for _ in range(5)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        tell()
        """,
        block=block,
        server=server,
    )
    assert told == {}
    assert block.read_slots()[0].launches == 500
    assert server.report()["exits_released"] == 1


def test_a_child_without_a_gpu_is_not_held(xcuda, make_block):
    told = xcuda.python(
        """
        import os
        cuda.start()
        cuda.launch()
        child = os.fork()
        if child == 0:
            for _ in range(100):
                cuda.launch()
            os._exit(7)
        tell(code=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        block=make_block(inflight_cap=1),
    )
    assert told == {"code": 7}
