"""An application that sizes itself by what it is shown stays within the quota."""

from __future__ import annotations

from agents.control_block import Limits

VIEWS = """
cuda.start()
nvml = ctypes.CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
device = c_void_p()
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(device)) == 0

def look():
    free, total, device_total = c_size_t(), c_size_t(), c_size_t()
    cuda.ok("cuMemGetInfo_v2", byref(free), byref(total))
    cuda.ok("cuDeviceTotalMem_v2", byref(device_total), 0)
    first = (c_uint64 * 3)()
    assert nvml.nvmlDeviceGetMemoryInfo(device, first) == 0
    second = (c_uint64 * 5)(40 | 2 << 24)
    assert nvml.nvmlDeviceGetMemoryInfo_v2(device, second) == 0
    return {
        "cuda": [free.value // MIB, total.value // MIB, device_total.value // MIB],
        "nvml": [it // MIB for it in first],  # total, free, used
        "nvml_v2": [it // MIB for it in (second[1], second[3], second[4], second[2])],
    }
"""


def test_every_view_shows_the_quota(xcuda, make_block):
    told = xcuda.python(
        f"""{VIEWS}
empty = look()
cuda.make("cuMemAlloc_v2", 300 * MIB)
tell(empty=empty, used=look())
""",
        block=make_block(memory_quota_bytes=1 << 30),
    )
    assert told["empty"] == {
        "cuda": [1024, 1024, 1024],
        "nvml": [1024, 1024, 0],
        "nvml_v2": [1024, 1024, 0, 0],
    }
    assert told["used"] == {
        "cuda": [724, 1024, 1024],
        "nvml": [1024, 724, 300],
        "nvml_v2": [1024, 724, 300, 0],
    }


def test_no_view_shows_more_than_there_is(xcuda, make_block, server):
    told = xcuda.python(
        f"""{VIEWS}
cuda.make("cuMemAlloc_v2", 300 * MIB)
tell(**look())
""",
        block=make_block(memory_quota_bytes=1 << 40),
        server=server,
        env={"STUB_MEMORY": "1GiB"},
    )
    assert told["cuda"] == [724, 1024, 1024]
    assert told["nvml"] == [1024, 724, 300]


def test_without_a_quota_the_device_is_shown(xcuda):
    code = f"{VIEWS}\ncuda.make('cuMemAlloc_v2', 300 * MIB)\ntell(**look())"
    assert xcuda.python(code) == xcuda.python(code, preload=False)


def test_the_first_interface_shows_the_quota_too(xcuda, make_block):
    told = xcuda.python(
        """
        cuda.start()
        free, total, device_total = c_uint32(), c_uint32(), c_uint32()
        cuda.ok("cuMemGetInfo", byref(free), byref(total))
        cuda.ok("cuDeviceTotalMem", byref(device_total), 0)
        tell(seen=[it.value // MIB for it in (free, total, device_total)])
        """,
        block=make_block(memory_quota_bytes=1 << 30),
    )
    assert told == {"seen": [1024, 1024, 1024]}


def test_processes_of_a_job_see_one_memory(xcuda, make_block, server):
    block = make_block(memory_quota_bytes=1 << 30)
    other = xcuda.python(
        """
        cuda.start()
        cuda.make("cuMemAlloc_v2", 300 * MIB)
        print("ready", flush=True)
        time.sleep(60)
        """,
        ready=True,
        block=block,
        server=server,
    )
    told = xcuda.python(f"{VIEWS}\ntell(**look())", block=block, server=server)
    assert other.poll() is None
    assert told["cuda"] == [724, 1024, 1024]
    assert told["nvml"] == [1024, 724, 300]


def test_a_process_that_asks_nvml_alone_sees_the_quota_and_its_changes(xcuda, make_block):
    """The parent of a server's workers does, and never touches CUDA."""
    block = make_block(memory_quota_bytes=1 << 30)
    job = xcuda.python(
        """
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        nvml.nvmlInit_v2()
        device, memory = c_void_p(), (c_uint64 * 3)()
        nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(device))
        seen = []
        for line in ("ready", "again"):
            assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
            seen.append(memory[0] // MIB)
            print(line, flush=True)
            time.sleep(1)
        tell(seen=seen)
        """,
        ready=True,
        block=block,
    )
    block.set_policy(Limits(memory_quota_bytes=2 << 30))
    assert xcuda.finish(job).told == {"seen": [1024, 2048]}
    assert block.read_slots() == []


def test_a_failed_view_is_left_as_the_driver_made_it(xcuda, make_block):
    told = xcuda.python(
        """
        cuda.start()
        free, total = c_size_t(5), c_size_t(6)
        tell(code=cuda.cuMemGetInfo_v2(byref(free), byref(total)), seen=[free.value, total.value])
        """,
        block=make_block(memory_quota_bytes=1 << 30),
        env={"STUB_FAIL": "cuMemGetInfo_v2:201"},
    )
    assert told == {"code": 201, "seen": [5, 6]}
