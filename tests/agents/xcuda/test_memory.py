"""Every kind of device memory is charged when it is made, and given back by whatever frees it."""

from __future__ import annotations

import pytest

from agents.control_block import Kind

QUOTA = 64 << 20

# What both halves of a test may use: makers take a size in MiB and return what frees the memory.
KINDS = """
from ctypes import c_char

def properties(location=1):
    return (c_int * 8)(1, 0, location, 0)

def pool(location=1, kind=1):
    return cuda.make("cuMemPoolCreate", (c_int * 24)(kind, 0, location, 0))

def array(width, height=0, depth=0, flags=0):
    return (c_size_t * 5)(width, height, depth, 1 << 32 | 1, flags)

def create(mib, location=1):
    return cuda.make("cuMemCreate", mib * MIB, properties(location), 0)

def image(mib):
    import struct
    magic = b"\\x7fELF\\x02\\x01\\x01"
    header = struct.pack("<16sHHIQQQIHHHHHH", magic, 2, 190, 1, 0, 0, 64, 0, 64, 0, 0, 64, 2, 0)
    empty = struct.pack("<IIQQQQIIQQ", *[0] * 10)
    code = struct.pack("<IIQQQQIIQQ", 0, 8, 3, 0, 0, mib * MIB, 0, 0, 1, 0)
    return header + empty + code

def frees(name, *arguments):
    return lambda: cuda.ok(name, *arguments)

def pitch(mib):
    pointer, step = c_uint64(), c_size_t()
    cuda.ok("cuMemAllocPitch_v2", byref(pointer), byref(step), 1000, mib * 1024, 4)
    return frees("cuMemFree_v2", pointer.value)

def mapped(mib):
    handle, address = create(mib), cuda.make("cuMemAddressReserve", mib * MIB, 0, 0, 0)
    cuda.ok("cuMemMap", address, mib * MIB, 0, handle, 0)
    cuda.ok("cuMemRelease", handle)
    return frees("cuMemUnmap", address, mib * MIB)

def linear(allocate, free, *allocate_more, free_more=()):
    def make(mib):
        pointer = cuda.make(allocate, mib * MIB, *allocate_more)
        return frees(free, pointer, *free_more)
    return make

made_pool = []
def from_pool(mib):
    made_pool[:] = made_pool or [pool()]
    return linear("cuMemAllocFromPoolAsync", "cuMemFreeAsync", made_pool[0], 0, free_more=(0,))(mib)

MAKERS = {
    "device": linear("cuMemAlloc_v2", "cuMemFree_v2"),
    "device freed in a stream": linear("cuMemAlloc_v2", "cuMemFreeAsync", free_more=(0,)),
    "managed": linear("cuMemAllocManaged", "cuMemFree_v2", 1),
    "async": linear("cuMemAllocAsync", "cuMemFreeAsync", 0, free_more=(0,)),
    "async per thread": linear("cuMemAllocAsync_ptsz", "cuMemFreeAsync_ptsz", 0, free_more=(0,)),
    "async freed at once": linear("cuMemAllocAsync", "cuMemFree_v2", 0),
    "pool": from_pool,
    "pitch": pitch,
    "physical": lambda mib: frees("cuMemRelease", create(mib)),
    "mapped": mapped,
    "array": lambda mib: frees(
        "cuArrayDestroy", cuda.make("cuArrayCreate_v2", (c_size_t * 3)(MIB, mib, 1 << 32 | 1))),
    "array3d": lambda mib: frees(
        "cuArrayDestroy", cuda.make("cuArray3DCreate_v2", array(MIB, mib, 1))),
    "mipmap": lambda mib: frees(
        "cuMipmappedArrayDestroy", cuda.make("cuMipmappedArrayCreate", array(MIB, mib, 1), 1)),
    "module": lambda mib: frees(
        "cuModuleUnload", cuda.make("cuModuleLoadData", image(mib))),
    "library": lambda mib: frees(
        "cuLibraryUnload",
        cuda.make("cuLibraryLoadData", image(mib), None, None, 0, None, None, 0)),
}

def free_mib():
    free, total = c_size_t(), c_size_t()
    cuda.ok("cuMemGetInfo_v2", byref(free), byref(total))
    return free.value / MIB

cuda.start()
"""

MAKERS = [
    *("device", "device freed in a stream", "managed", "async", "async per thread", "pool"),
    *("async freed at once", "pitch", "physical", "mapped", "array", "array3d", "mipmap"),
    *("module", "library"),
]


@pytest.mark.parametrize("kind", MAKERS)
def test_it_is_charged_until_it_is_freed(xcuda, make_block, kind):
    block = make_block(memory_quota_bytes=QUOTA)
    told = xcuda.python(
        f"""{KINDS}
before = free_mib()
free = MAKERS[{kind!r}](20)
during, device = free_mib(), cuda.used() / MIB
free()
cuda.ok("cuCtxSynchronize")
try:
    MAKERS["device"](65)
except AssertionError as error:
    refused = str(error)  # and memory that a pool merely kept has been taken back before that
tell(before=before, during=during, device=device, after=free_mib(), refused=refused)
""",
        block=block,
    )
    assert told["before"] == 64
    assert told["after"] == 64
    assert 20 <= 64 - told["during"] <= 22  # whole pages, and the stub's share of a pool
    assert 64 - told["during"] >= told["device"] > 0
    assert told["refused"] == "cuMemAlloc_v2 returned 2"


@pytest.mark.parametrize("kind", MAKERS)
def test_more_than_the_quota_is_out_of_memory(xcuda, make_block, kind):
    block = make_block(memory_quota_bytes=QUOTA)
    told = xcuda.python(
        f"""{KINDS}
kept = [MAKERS[{kind!r}](20)]
code = 0
try:
    MAKERS[{kind!r}](50)
except AssertionError as error:
    code = str(error).split()[-1]
during = free_mib()
kept.append(MAKERS[{kind!r}](20))
for free in kept:
    free()
tell(code=code, during=during, device=cuda.used())
""",
        block=block,
    )
    assert told["code"] == "2"
    assert 42 <= told["during"] <= 44  # what was refused is not charged
    assert block.peak_bytes() <= QUOTA


@pytest.mark.parametrize("kind", MAKERS)
def test_what_the_driver_refuses_is_not_charged(xcuda, make_block, kind):
    block = make_block(memory_quota_bytes=QUOTA)
    told = xcuda.python(
        f"""{KINDS}
try:
    MAKERS[{kind!r}](50)
except AssertionError as error:
    code = str(error).split()[-1]
tell(code=code, free=free_mib())
""",
        block=block,
        env={"STUB_MEMORY": "32MiB"},
    )
    assert told == {"code": "2", "free": 32}
    assert block.used_bytes() == 0


def test_an_unknown_pointer_is_for_the_driver_to_judge(xcuda):
    calls = """
        cuda.start()
        tell(codes=[
            cuda.cuMemFree_v2(0), cuda.cuMemFree_v2(12345), cuda.cuMemFreeAsync(12345, 0),
            cuda.cuMemRelease(0), cuda.cuMemFreeHost(12345), cuda.cuMemUnmap(12345, 512),
            cuda.cuMemHostUnregister(12345),
        ])
    """
    assert xcuda.python(calls) == xcuda.python(calls, preload=False)


def test_memory_freed_twice_is_given_back_once(xcuda, make_block):
    block = make_block(memory_quota_bytes=QUOTA)
    told = xcuda.python(
        f"""{KINDS}
kept = cuda.make("cuMemAlloc_v2", 10 * MIB)
pointer = cuda.make("cuMemAlloc_v2", 10 * MIB)
codes = [cuda.cuMemFree_v2(pointer), cuda.cuMemFree_v2(pointer)]
tell(codes=codes, free=free_mib())
""",
        block=block,
    )
    assert told["codes"][0] == 0
    assert told["codes"][1] != 0
    assert told["free"] == 54


def test_a_free_that_fails_leaves_it_charged(xcuda, make_block, tmp_path):
    block = make_block(memory_quota_bytes=QUOTA)
    told = xcuda.python(
        f"""{KINDS}
pointer = cuda.make("cuMemAlloc_v2", 10 * MIB)
codes = [cuda.cuMemFree_v2(pointer)]
during = free_mib()
codes.append(cuda.cuMemFree_v2(pointer))
tell(codes=codes, during=during, after=free_mib())
""",
        block=block,
        env={"STUB_FAIL": "cuMemFree_v2:1@1"},
    )
    assert told == {"codes": [1, 0], "during": 54, "after": 64}


def test_a_context_takes_its_memory_with_it(xcuda, make_block):
    block = make_block(memory_quota_bytes=QUOTA)
    told = xcuda.python(
        f"""{KINDS}
context = cuda.make("cuCtxCreate_v2", 0, 0)
for kind in ("device", "managed", "array", "module"):
    MAKERS[kind](8)
during = free_mib()
cuda.ok("cuCtxDestroy_v2", context)
cuda.ok("cuDevicePrimaryCtxRetain", byref(c_void_p()), 0)
tell(during=during, after=free_mib())
""",
        block=block,
    )
    assert told == {"during": 32, "after": 64}


def test_physical_memory_is_charged_until_handle_and_mappings_are_gone(xcuda, make_block):
    block = make_block(memory_quota_bytes=QUOTA)
    told = xcuda.python(
        f"""{KINDS}
steps = []
def step():
    steps.append(64 - free_mib())
handle = create(8)
address = cuda.make("cuMemAddressReserve", 16 * MIB, 0, 0, 0)
cuda.ok("cuMemMap", address, 8 * MIB, 0, handle, 0)
step()
cuda.ok("cuMemRelease", handle)
step()
again = cuda.make("cuMemRetainAllocationHandle", address)
cuda.ok("cuMemUnmap", address, 8 * MIB)
step()
cuda.ok("cuMemRelease", again)
step()
first, second = create(8), create(8)
cuda.ok("cuMemMap", address, 8 * MIB, 0, first, 0)
cuda.ok("cuMemMap", address + 8 * MIB, 8 * MIB, 0, second, 0)
cuda.ok("cuMemRelease", first)
cuda.ok("cuMemRelease", second)
step()
cuda.ok("cuMemUnmap", address, 16 * MIB)
step()
tell(steps=steps)
""",
        block=block,
    )
    assert told["steps"] == [8, 8, 8, 0, 16, 0]


def test_host_memory_is_counted_and_never_refused(xcuda, make_block):
    block = make_block(memory_quota_bytes=QUOTA)
    process = xcuda.python(
        f"""{KINDS}
pinned = cuda.make("cuMemHostAlloc", 100 * MIB, 0)
cuda.ok("cuMemFreeHost", cuda.make("cuMemAllocHost_v2", 7 * MIB))
buffer = (c_char * (9 * MIB))()
cuda.ok("cuMemHostRegister_v2", ctypes.addressof(buffer), 9 * MIB, 0)
cuda.ok("cuMemHostUnregister", ctypes.addressof(buffer))
on_host = create(100, location=2)
assert free_mib() == 64
print("ready", flush=True)
time.sleep(60)
""",
        ready=True,
        block=block,
    )
    assert process.poll() is None
    [slot] = block.read_slots()
    assert slot.host_bytes == 100 << 20
    assert block.used_bytes() == 0


@pytest.mark.parametrize(("location", "kind", "charged"), [(2, 1, 0), (2, 2, 8), (0, 2, 8)])
def test_a_pool_of_the_host_is_free_unless_it_is_managed(
    xcuda, make_block, location, kind, charged
):
    told = xcuda.python(
        f"""{KINDS}
of = pool({location}, kind={kind})
before = free_mib()
cuda.make("cuMemAllocFromPoolAsync", 8 * MIB, of, 0)
tell(charged=before - free_mib())
""",
        block=make_block(memory_quota_bytes=QUOTA),
    )
    assert told == {"charged": charged}


def test_each_kind_is_shown_by_itself(xcuda, make_block):
    block = make_block(memory_quota_bytes=QUOTA)
    process = xcuda.python(
        f"""{KINDS}
for kind in ("device", "managed", "async", "physical", "array", "module"):
    MAKERS[kind](4)
print("ready", flush=True)
time.sleep(60)
""",
        ready=True,
        block=block,
    )
    assert process.poll() is None
    [slot] = block.read_slots()
    charged = {Kind.DEVICE, Kind.MANAGED, Kind.ASYNC, Kind.PHYSICAL, Kind.ARRAY, Kind.MODULE}
    assert {kind: used for kind, used in slot.used_bytes.items() if used} == dict.fromkeys(
        charged, 4 << 20
    )
    assert block.used_bytes() == 24 << 20


def test_an_allocation_that_is_captured_is_not_charged(xcuda, make_block):
    block = make_block(memory_quota_bytes=QUOTA)
    told = xcuda.python(
        f"""{KINDS}
stream = cuda.make("cuStreamCreate", 0)
cuda.ok("cuStreamBeginCapture_v2", stream, 0)
pointer = cuda.make("cuMemAllocAsync", 20 * MIB, stream)
cuda.ok("cuMemFreeAsync", pointer, stream)
cuda.ok("cuStreamEndCapture", stream, byref(c_uint64()))
tell(free=free_mib())
""",
        block=block,
    )
    assert told == {"free": 64}


@pytest.mark.parametrize("preload", [False, True], ids=["alone", "under xCUDA"])
def test_no_size_is_too_large_to_be_refused(xcuda, preload):
    """Not even one that cannot be rounded up, nor a product that does not fit."""
    told = xcuda.python(
        """
        cuda.start()
        at, pitch, most = c_uint64(), c_uint64(), (1 << 64) - 1
        codes = set()
        for bytes in (1 << 50, 1 << 63, most - 511, most):
            codes |= {
                cuda.cuMemAlloc_v2(byref(at), bytes),
                cuda.cuMemAllocManaged(byref(at), bytes, 1),
                cuda.cuMemAllocAsync(byref(at), bytes, 0),
                cuda.cuMemAllocPitch_v2(byref(at), byref(pitch), bytes, 1, 4),
                cuda.cuMemAllocPitch_v2(byref(at), byref(pitch), 1 << 32, bytes, 4),
            }
        tell(codes=sorted(codes), used=cuda.used())
        """,
        preload=preload,
    )
    assert told == {"codes": [2], "used": 0}
