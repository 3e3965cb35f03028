"""The quota is the job's: whatever its processes do at the same moment, and however they end."""

from __future__ import annotations

import random
import subprocess
import time

from agents.control_block import Limits
from tests.agents.xcuda.test_memory import KINDS

MIB = 1 << 20
QUOTA = 128 * MIB


def race(xcuda, block, server, rounds):
    """Two processes that ask for 80 of 128 MiB each, so that one of them is too many."""
    how = {"block": block, "server": server, "env": {"STUB_WATCH": str(QUOTA)}}
    routes = ("direct", "proc")
    arguments = ("--rounds", rounds, "--bytes", 80 * MIB, "--quota", QUOTA, "--seed")
    running = [
        xcuda.start("racer", "--via", via, *arguments, seed, **how)
        for seed, via in enumerate(routes)
    ]
    ended = [xcuda.finish(it, timeout_s=9) for it in running]
    assert [it.returncode for it in ended] == [0, 0], [it.stderr for it in ended]
    return [it.told for it in ended]


def assert_never_over(told, server, rounds):
    assert [it["rounds"] for it in told] == [rounds, rounds]
    assert [it["over"] for it in told] == [0, 0]
    assert [it["other"] for it in told] == [0, 0]
    assert all(it["granted"] > 0 for it in told)
    assert server.report()["over_watch"] == 0


def test_two_racing_processes_are_never_over_the_quota(xcuda, make_block, server):
    block = make_block(memory_quota_bytes=QUOTA)
    assert_never_over(race(xcuda, block, server, 50_000), server, 50_000)
    assert block.peak_bytes() <= QUOTA
    assert block.used_bytes() == 0


def test_a_quota_below_the_use_refuses_new_memory_alone(xcuda, make_block):
    block = make_block(memory_quota_bytes=QUOTA)
    process = xcuda.python(
        """
        cuda.start()
        kept = cuda.make("cuMemAlloc_v2", 100 * MIB)
        print("ready", flush=True)
        lowered = 0
        while not lowered:
            lowered = cuda.cuMemAlloc_v2(byref(c_uint64()), 20 * MIB)
            time.sleep(0.001)
        free, total = c_size_t(), c_size_t()
        cuda.ok("cuMemGetInfo_v2", byref(free), byref(total))
        code = cuda.cuMemFree_v2(kept)
        tell(code=lowered, free=free.value, total=total.value // MIB, kept=code,
             after=cuda.cuMemAlloc_v2(byref(c_uint64()), MIB))
        """,
        ready=True,
        block=block,
    )
    block.set_policy(Limits(memory_quota_bytes=50 * MIB))
    told = xcuda.finish(process).told
    assert told == {"code": 2, "free": 0, "total": 50, "kept": 0, "after": 0}


EVERYTHING = f"""{KINDS}
import random, threading
context = c_void_p()
cuda.ok("cuCtxGetCurrent", byref(context))
wrong = []

def work(seed):
    chance, held = random.Random(seed), []
    cuda.ok("cuCtxSetCurrent", context)
    for _ in range(1500):
        if held and chance.random() < 0.5:
            held.pop(chance.randrange(len(held)))()
            continue
        kind = chance.choice(sorted(MAKERS))
        try:
            held.append(MAKERS[kind](2 * chance.randrange(1, 10)))
        except AssertionError as error:
            if not str(error).endswith(" 2"):
                wrong.append(str(error))
    for free in held:
        free()

threads = [threading.Thread(target=work, args=(SEED + i,)) for i in range(3)]
print("ready", flush=True)
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
cuda.ok("cuCtxSynchronize")
tell(wrong=wrong, left=cuda.used())
"""


def test_threads_and_processes_with_every_kind_stay_within_a_changing_quota(
    xcuda, make_block, server
):
    block = make_block(memory_quota_bytes=QUOTA)
    how = {"block": block, "server": server, "env": {"STUB_WATCH": str(QUOTA)}}
    running = [xcuda.python(f"SEED = {10 * i}\n{EVERYTHING}", ready=True, **how) for i in range(2)]
    while any(it.poll() is None for it in running):
        for quota in (QUOTA // 4, QUOTA):
            block.set_policy(Limits(memory_quota_bytes=quota))
            time.sleep(0.005)
    ended = [xcuda.finish(it) for it in running]
    assert [it.told["wrong"] for it in ended] == [[], []], [it.stderr for it in ended]
    assert not any(it.stderr for it in ended)  # nothing was freed that had not been counted
    assert server.report()["over_watch"] == 0
    assert block.peak_bytes() <= QUOTA
    assert block.used_bytes() == 0


ALLOCATE_AT_RANDOM = """
import random
chance = random.Random({seed})
cuda.start()
pool, held = [], []
print("ready", flush=True)
while True:
    kind = chance.choice(("cuMemAlloc_v2", "cuMemAllocManaged", "cuMemAllocAsync", "cuMemFree_v2"))
    if kind == "cuMemFree_v2" and held:
        cuda.ok(kind, held.pop(chance.randrange(len(held))))
    elif kind != "cuMemFree_v2":
        pointer = c_uint64()
        more = {{"cuMemAllocManaged": (1,), "cuMemAllocAsync": (0,)}}.get(kind, ())
        code = getattr(cuda, kind)(byref(pointer), chance.randrange(1, 30 * MIB), *more)
        assert code in (0, 2), code
        if code == 0:
            held.append(pointer.value)
"""


def kill_at_random(xcuda, block, server, kills):
    chance = random.Random(11)
    for seed in range(kills):
        process = xcuda.python(
            ALLOCATE_AT_RANDOM.format(seed=seed),
            ready=True,
            block=block,
            server=server,
            env={"STUB_WATCH": str(QUOTA)},
        )
        time.sleep(chance.random() * 0.02)
        process.kill()
        process.wait()
        yield process


def test_memory_of_killed_processes_returns_to_the_job(xcuda, library, make_block, server):
    block = make_block(memory_quota_bytes=QUOTA)
    used = [block.used_bytes() for _ in kill_at_random(xcuda, block, server, 15)]
    assert max(used) > 0
    assert max(used) <= QUOTA
    told = xcuda.python(
        """
        cuda.start()
        tell(code=cuda.cuMemAlloc_v2(byref(c_uint64()), 128 * MIB))
        """,
        block=block,
        server=server,
    )
    assert told == {"code": 0}  # all of it, without anybody's help
    reaped = subprocess.run(
        [library.parent / "xcuda-block", "reap", block.directory],
        capture_output=True,
        text=True,
        check=False,
    )
    assert reaped.returncode == 0, reaped.stderr
    assert block.used_bytes() == 0
    assert block.read_slots() == []
    assert server.report()["over_watch"] == 0
