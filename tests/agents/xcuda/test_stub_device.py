"""The stand-in's simulated device: time, streams, events, memory, captures, failures to order."""

from __future__ import annotations

import pytest

from agents.control_block import UNIT_BYTES

TIMED = {"STUB_TIME": "1"}


def test_the_law_holds_on_a_turned_clock(run_native):
    run_native("test_gpu")


def test_work_takes_its_time_and_not_longer(bare):
    told = bare.python(
        """
        cuda.start()
        stream = cuda.make("cuStreamCreate", 1)
        begin, end = cuda.make("cuEventCreate", 0), cuda.make("cuEventCreate", 0)
        kernel = cuda.kernel("step_2000us")
        cuda.launch(cuda.kernel("before_20000us"), 1, stream)  # time to queue the rest
        cuda.ok("cuEventRecord", begin, stream)
        for _ in range(3):
            assert cuda.launch(kernel, 1000, stream) == 0
        cuda.ok("cuEventRecord", end, stream)
        early = cuda.cuEventQuery(end), cuda.cuStreamQuery(stream)
        cuda.ok("cuEventSynchronize", end)
        late = cuda.cuEventQuery(end), cuda.cuStreamQuery(stream)
        ms = c_float()
        cuda.ok("cuEventElapsedTime", byref(ms), begin, end)
        tell(early=early, late=late, ms=ms.value)
        """,
        preload=False,
        env=TIMED,
    )
    assert told["early"] == [600, 600]
    assert told["late"] == [0, 0]
    assert told["ms"] == pytest.approx(6.0, abs=0.01)


def test_a_stream_waits_for_an_event_of_another(bare):
    told = bare.python(
        """
        cuda.start()
        one, other = cuda.make("cuStreamCreate", 1), cuda.make("cuStreamCreate", 1)
        first, last, between = (cuda.make("cuEventCreate", 0) for _ in range(3))
        cuda.ok("cuEventRecord", first, one)
        cuda.launch(cuda.kernel("step_3000us"), 10, one)
        cuda.ok("cuEventRecord", between, one)
        cuda.ok("cuStreamWaitEvent", other, between, 0)
        cuda.ok("cuEventRecord", last, other)
        cuda.ok("cuCtxSynchronize")
        ms = c_float()
        cuda.ok("cuEventElapsedTime", byref(ms), first, last)
        tell(ms=ms.value)
        """,
        preload=False,
        env=TIMED,
    )
    assert told["ms"] > 2.9


def test_the_legacy_stream_takes_turns_with_those_that_block_on_it(bare):
    told = bare.python(
        """
        cuda.start()
        blocking, free = cuda.make("cuStreamCreate", 0), cuda.make("cuStreamCreate", 1)
        cuda.launch(cuda.kernel("step_20000us"), 10, 0)
        cuda.launch(0, 1, blocking)
        cuda.launch(0, 1, free)
        cuda.ok("cuStreamSynchronize", free)
        tell(blocking=cuda.cuStreamQuery(blocking))
        """,
        preload=False,
        env=TIMED,
    )
    assert told == {"blocking": 600}


def test_a_host_function_runs_in_its_turn(bare):
    told = bare.python(
        """
        cuda.start()
        stream, order = cuda.make("cuStreamCreate", 1), []
        callback = ctypes.CFUNCTYPE(None, c_void_p)(lambda _: order.append(query()))
        done = cuda.make("cuEventCreate", 0)
        query = lambda: cuda.cuEventQuery(done)
        cuda.launch(cuda.kernel("step_1000us"), 10, stream)
        cuda.ok("cuEventRecord", done, stream)
        cuda.ok("cuLaunchHostFunc", stream, callback, None)
        before = list(order)
        cuda.ok("cuStreamSynchronize", stream)
        tell(before=before, order=order)
        """,
        preload=False,
        env=TIMED,
    )
    assert told == {"before": [], "order": [0]}


KINDS = """
    cuda.start()
    pitch = c_size_t()
    properties = (c_int * 8)(1, 0, 1, 0)  # pinned, on device 0
    flat = (c_uint64 * 3)(1024, 1024, 0x20 | 1 << 32)
    deep = (c_uint64 * 6)(1024, 1024, 0, 0x20 | 1 << 32, 0)
    granule = 2 * MIB
    """


@pytest.mark.parametrize(
    ("take", "give", "bytes_held"),
    [
        ('cuda.make("cuMemAlloc_v2", 1000)', "cuMemFree_v2", 1024),
        ('cuda.make("cuMemAllocPitch_v2", byref(pitch), 100, 8, 4)', "cuMemFree_v2", 4096),
        ('cuda.make("cuMemAllocManaged", MIB, 1)', "cuMemFree_v2", 1 << 20),
        ('cuda.make("cuMemCreate", granule, properties, 0)', "cuMemRelease", 2 << 20),
        ('cuda.make("cuArrayCreate_v2", flat)', "cuArrayDestroy", 4 << 20),
        ('cuda.make("cuMipmappedArrayCreate", deep, 2)', "cuMipmappedArrayDestroy", 5 << 20),
    ],
)
def test_what_is_allocated_is_held_until_it_is_freed(bare, take, give, bytes_held):
    told = bare.python(
        f"""
        {KINDS}
        it = {take}
        held = cuda.used()
        cuda.ok({give!r}, it)
        tell(held=held, after=cuda.used())
        """.replace("\n        ", "\n").replace("\n    ", "\n"),
        preload=False,
    )
    assert bytes_held <= told["held"] < bytes_held + max(UNIT_BYTES, 1 << 16)
    assert told["after"] == 0


def test_memory_beyond_the_device_is_refused_and_bad_frees_change_nothing(bare):
    told = bare.python(
        """
        cuda.start()
        it, more = cuda.make("cuMemAlloc_v2", 700 * MIB), c_uint64()
        refused = cuda.cuMemAlloc_v2(byref(more), 400 * MIB)
        bad = cuda.cuMemFree_v2(it + 512)
        cuda.ok("cuMemFree_v2", it)
        left, total = c_size_t(), c_size_t()
        cuda.ok("cuMemGetInfo_v2", byref(left), byref(total))
        tell(refused=refused, bad=bad, twice=cuda.cuMemFree_v2(it),
             left=left.value, total=total.value)
        """,
        preload=False,
        env={"STUB_MEMORY": "1GiB"},
    )
    gib = 1 << 30
    assert told == {"refused": 2, "bad": 1, "twice": 1, "left": gib, "total": gib}


def test_a_pool_keeps_what_is_freed_until_a_synchronisation(bare):
    told = bare.python(
        """
        cuda.start()
        pool = cuda.make("cuDeviceGetDefaultMemPool", 0)
        attribute = lambda number: cuda.read("cuMemPoolGetAttribute", pool, number)
        it = cuda.make("cuMemAllocAsync", 5 * MIB, 0)
        taken = cuda.used(), attribute(5), attribute(7)
        cuda.ok("cuMemFreeAsync", it, 0)
        freed = cuda.used(), attribute(5), attribute(7)
        cuda.ok("cuStreamSynchronize", 0)
        tell(taken=taken, freed=freed, after=cuda.used())
        """,
        preload=False,
    )
    mib = 1 << 20
    assert told == {
        "taken": [6 * mib, 6 * mib, 5 * mib],
        "freed": [6 * mib, 6 * mib, 0],
        "after": 0,
    }


def test_mapped_memory_outlives_its_handle(bare):
    told = bare.python(
        """
        cuda.start()
        properties = (c_int * 8)(1, 0, 1, 0)
        handle = cuda.make("cuMemCreate", 2 * MIB, properties, 0)
        at = cuda.make("cuMemAddressReserve", 2 * MIB, 0, 0, 0)
        cuda.ok("cuMemMap", at, 2 * MIB, 0, handle, 0)
        cuda.ok("cuMemRelease", handle)
        mapped = cuda.used()
        again = cuda.make("cuMemRetainAllocationHandle", at)
        cuda.ok("cuMemUnmap", at, 2 * MIB)
        retained = cuda.used()
        cuda.ok("cuMemRelease", again)
        tell(mapped=mapped, retained=retained, after=cuda.used())
        """,
        preload=False,
    )
    assert told == {"mapped": 2 << 20, "retained": 2 << 20, "after": 0}


def test_a_context_takes_its_memory_with_it(bare):
    told = bare.python(
        """
        cuda.start()
        own = cuda.make("cuCtxCreate_v2", 0, 0)
        cuda.make("cuMemAlloc_v2", MIB)
        cuda.ok("cuCtxDestroy_v2", own)
        destroyed = cuda.used()
        cuda.make("cuMemAlloc_v2", MIB)
        cuda.ok("cuDevicePrimaryCtxReset_v2", 0)
        tell(destroyed=destroyed, reset=cuda.used(), launch=cuda.launch())
        """,
        preload=False,
    )
    assert told == {"destroyed": 0, "reset": 0, "launch": 201}


def test_a_graph_holds_its_memory_until_the_device_is_trimmed(bare):
    told = bare.python(
        """
        cuda.start()
        stream, graph = cuda.make("cuStreamCreate", 1), c_uint64()
        cuda.ok("cuStreamBeginCapture_v2", stream, 0)
        it = cuda.make("cuMemAllocAsync", 4 * MIB, stream)
        cuda.launch(0, 7, stream)
        cuda.ok("cuMemFreeAsync", it, stream)
        cuda.ok("cuStreamEndCapture", stream, byref(graph))
        nodes = cuda.read("cuGraphGetNodes", graph, None)
        graph_exec = cuda.make("cuGraphInstantiateWithFlags", graph, 0)
        before = cuda.used()
        cuda.ok("cuGraphLaunch", graph_exec, stream)
        launched = cuda.used()
        cuda.ok("cuGraphExecDestroy", graph_exec)
        kept = cuda.used()
        cuda.ok("cuDeviceGraphMemTrim", 0)
        tell(nodes=nodes, before=before, launched=launched, kept=kept, after=cuda.used())
        """,
        preload=False,
    )
    mib = 1 << 20
    assert told == {"nodes": 3, "before": 0, "launched": 4 * mib, "kept": 4 * mib, "after": 0}


@pytest.mark.parametrize(
    "call",
    [
        "cuda.cuMemAlloc_v2(byref(c_uint64()), 512)",
        "cuda.cuEventQuery(event)",
        "cuda.cuStreamSynchronize(other)",
        "cuda.cuCtxSynchronize()",
    ],
)
def test_an_illegal_call_invalidates_a_capture(bare, call):
    told = bare.python(
        f"""
        cuda.start()
        stream, other = cuda.make("cuStreamCreate", 1), cuda.make("cuStreamCreate", 1)
        event, graph, status = cuda.make("cuEventCreate", 0), c_uint64(), c_int()
        cuda.ok("cuEventRecord", event, other)
        cuda.ok("cuStreamBeginCapture_v2", stream, 0)
        cuda.ok("cuStreamIsCapturing", stream, byref(status))
        active = status.value
        cuda.launch(0, 1, stream)
        illegal = {call}
        tell(active=active, illegal=illegal, launch=cuda.launch(0, 1, stream),
             end=cuda.cuStreamEndCapture(stream, byref(graph)), graph=graph.value)
        """,
        preload=False,
        env=TIMED,
    )
    assert told == {"active": 1, "illegal": 900, "launch": 901, "end": 901, "graph": 0}


def test_a_relaxed_capture_minds_nothing(bare):
    told = bare.python(
        """
        cuda.start()
        stream, other = cuda.make("cuStreamCreate", 1), cuda.make("cuStreamCreate", 1)
        graph = c_uint64()
        cuda.ok("cuStreamBeginCapture_v2", stream, 2)
        cuda.launch(0, 1, stream)
        sync = cuda.cuStreamSynchronize(other), cuda.cuStreamSynchronize(stream)
        tell(sync=sync, end=cuda.cuStreamEndCapture(stream, byref(graph)))
        """,
        preload=False,
    )
    assert told == {"sync": [0, 900], "end": 901}


@pytest.mark.parametrize(
    ("order", "seen"),
    [
        ("cuLaunchKernel:719@2", [0, 719, 719, 719]),  # fatal: nothing works any more
        ("cuLaunchKernel:2@2", [0, 2, 0, 0]),
        ("cuLaunchKernel:2@3+", [0, 0, 2, 2]),
        ("cuLaunchKernel:2", [2, 2, 2, 2]),
        ("cuLaunch:2", [0, 0, 0, 0]),
    ],
)
def test_a_call_fails_to_order(bare, order, seen):
    told = bare.python(
        """
        cuda.start()
        tell(codes=[cuda.launch() for _ in range(4)])
        """,
        preload=False,
        env={"STUB_FAIL": order},
    )
    assert told == {"codes": seen}


def test_failures_can_be_ordered_later(bare, tmp_path):
    orders = tmp_path / "failures"
    told = bare.python(
        f"""
        cuda.start()
        before = cuda.launch()
        open({str(orders)!r}, "w").write("cuLaunchKernel_ptsz:1 cuLaunchKernel:700")
        time.sleep(0.01)
        tell(before=before, after=cuda.launch(), memory=cuda.cuMemAlloc_v2(byref(c_uint64()), 1))
        """,
        preload=False,
        env={"STUB_FAIL_FILE": str(orders)},
    )
    assert told == {"before": 0, "after": 700, "memory": 700}


def test_a_forked_child_has_no_device(bare):
    told = bare.python(
        """
        import os
        cuda.start()
        pid = os.fork()
        if pid == 0:
            os._exit(cuda.launch())
        tell(child=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), parent=cuda.launch())
        """,
        preload=False,
    )
    assert told == {"child": 3, "parent": 0}


def test_nvml_sees_what_the_device_holds(bare, server):
    told = bare.python(
        """
        cuda.start()
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        cuda.make("cuMemAlloc_v2", 3 * MIB)
        device, memory = c_void_p(), (c_uint64 * 3)()
        assert nvml.nvmlInit_v2() == 0
        assert nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(device)) == 0
        assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
        tell(total=memory[0], used=memory[2])
        """,
        preload=False,
        server=server,
    )
    assert told == {"total": 80 << 30, "used": 3 << 20}
