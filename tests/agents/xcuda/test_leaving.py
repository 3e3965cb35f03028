"""A process that ends by itself, in whatever way, waits for its own work first."""

from __future__ import annotations

import signal
import subprocess

import pytest

from agents.wire.names import Phase
from tests.agents.xcuda.watching import process_of, until

TIMED = {"STUB_TIME": "1"}
DEINITIALIZED = 4

WAYS = {
    "return": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "an error": ("raise SystemExit(4)", 4),
    "_exit": ("os._exit(5)", 5),
    "_Exit": ("libc._Exit(6)", 6),
    "quick_exit": ("libc.quick_exit(7)", 7),
    "exit": ("libc.exit(8)", 8),
    "exit of another thread": (
        "threading.Thread(target=libc.exit, args=[9]).start()\ntime.sleep(60)",
        9,
    ),
    "ctrl-c": ("os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)", 130),
}


def program(end: str, before: str = "") -> str:
    return f"""
import os, signal, threading
libc = ctypes.CDLL(None)
cuda.start()
function = cuda.kernel("step_30000us")
{before}
for _ in range(3):
    cuda.launch(function, blocks=1000)
{end}
"""


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_in_flight_however_a_process_ends(xcuda, server, make_block, way):
    end, code = WAYS[way]
    block = make_block()
    job = xcuda.python(
        program("print('ready', flush=True)\n" + end),
        ready=True,
        block=block,
        server=server,
        env=TIMED,
    )
    assert xcuda.finish(job).returncode == code
    report = server.report()
    assert (report["exits_released"], report["exits_unsafe"]) == (1, 0)
    assert process_of(block, job).phase is Phase.RELEASED


@pytest.mark.parametrize("way", ["return", "exit", "exit of another thread"])
def test_exit_waits_before_the_driver_shuts_itself_down(xcuda, server, make_block, way):
    end, code = WAYS[way]
    block = make_block()
    job = xcuda.python(
        program("print('ready', flush=True)\n" + end),
        ready=True,
        block=block,
        server=server,
        env=TIMED | {"STUB_HASTY": "1"},
    )
    assert xcuda.finish(job).returncode == code
    report = server.report()
    assert (report["exits_released"], report["exits_unsafe"]) == (1, 0)
    assert process_of(block, job).phase is Phase.RELEASED


LAUNCHERS = """
quick = cuda.kernel("step_20us")
def work():
    while True:
        cuda.launch(quick, blocks=10)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
"""


@pytest.mark.parametrize("way", ["return", "_exit", "quick_exit"])
def test_other_threads_that_go_on_launching_do_not_get_in_between(xcuda, server, way):
    end, code = WAYS[way]
    job = xcuda.python(
        program("print('ready', flush=True)\n" + end, LAUNCHERS),
        ready=True,
        server=server,
        env=TIMED,
    )
    assert xcuda.finish(job).returncode == code
    assert server.report()["exits_unsafe"] == 0


def test_a_program_that_destroyed_its_contexts_has_nothing_to_wait_for(xcuda, server, make_block):
    block = make_block()
    job = xcuda.python(
        program(
            "cuda.cuCtxSynchronize(); cuda.cuDevicePrimaryCtxReset_v2(0)\n"
            "cuda.cuDevicePrimaryCtxRelease_v2(0)\nprint('ready', flush=True)"
        ),
        ready=True,
        block=block,
        server=server,
        env=TIMED,
    )
    assert xcuda.finish(job).returncode == 0
    assert server.report()["exits_unsafe"] == 0


def test_every_sort_of_context_is_waited_for_and_released(xcuda, server):
    job = xcuda.python(
        """
        cuda.ok("cuInit", 0)
        first = cuda.make("cuCtxCreate_v2", 0, 0)
        cuda.ok("cuCtxSetCurrent", first)
        cuda.launch(cuda.kernel("step_20000us"), blocks=1000)
        second = cuda.make("cuCtxCreate_v4", 0, 0, 0)
        cuda.ok("cuCtxSetCurrent", second)
        cuda.launch(cuda.kernel("step_20000us"), blocks=1000)
        cuda.start()
        cuda.launch(cuda.kernel("step_20000us"), blocks=1000)
        print("ready", flush=True)
        time.sleep(60)
        """,
        ready=True,
        server=server,
        env=TIMED,
    )
    assert [client["contexts"] for client in server.report()["clients"]] == [3]
    job.send_signal(signal.SIGTERM)
    assert xcuda.finish(job).returncode == 143
    report = server.report()
    assert (report["exits_released"], report["exits_unsafe"]) == (1, 0)


def test_memory_of_a_process_that_has_ended_is_no_longer_counted(xcuda, make_block):
    block = make_block(memory_quota_bytes=1 << 30)
    job = xcuda.python(
        "cuda.start(); cuda.make('cuMemAlloc_v2', 64 * MIB); print('ready', flush=True)",
        ready=True,
        block=block,
    )
    xcuda.finish(job)
    until(lambda: block.used_bytes() == 0)
    assert block.peak_bytes() == 64 << 20


def test_a_program_without_cuda_is_left_alone(xcuda, make_block):
    block = make_block()
    ran = xcuda.run(["/bin/sh", "-c", "exit 7"], block=block)
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, "", "")
    assert block.read_slots() == []


LATE = """
#include <stdio.h>
int cuLaunchKernel(void *, int, int, int, int, int, int, int, void *, void *, void *);
__attribute__((destructor)) static void late(void)
{
    printf("%d", cuLaunchKernel(0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0));
    fflush(stdout);
}
"""


def test_a_destructor_that_still_uses_cuda_gets_an_answer(xcuda, server, tmp_path):
    """Those of CUDA's own libraries do, and may run after our own."""
    (tmp_path / "late.c").write_text(LATE)
    command = ["gcc", "-shared", "-fPIC", "-o", tmp_path / "late.so", tmp_path / "late.c"]
    subprocess.run(command, check=True)
    job = xcuda.python(
        program(f"ctypes.CDLL({str(tmp_path / 'late.so')!r})\nprint('ready', flush=True)"),
        ready=True,
        server=server,
        env=TIMED,
    )
    ran = xcuda.finish(job)
    assert ran.returncode == 0
    assert ran.stdout in {"0", str(DEINITIALIZED)}
    assert server.report()["exits_unsafe"] == 0


def test_a_handler_may_end_the_process_on_top_of_a_call_of_the_driver(xcuda, server, make_block):
    """That call never returns, so nothing may wait until it does."""
    block = make_block()
    job = xcuda.python(
        program(
            "libc.signal(signal.SIGALRM, libc._exit)\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.01)\n"
            "print('ready', flush=True)\n"
            "cuda.cuCtxSynchronize()"
        ),
        ready=True,
        block=block,
        server=server,
        env=TIMED,
    )
    assert xcuda.finish(job).returncode == signal.SIGALRM
    assert server.report()["exits_unsafe"] == 0
    assert process_of(block, job).phase is Phase.RELEASED
