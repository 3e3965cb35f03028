"""A process that is told to stop ends with nothing in flight, each step of the way in its slot."""

from __future__ import annotations

import random
import signal
import time

import hypothesis
import pytest

from agents.control_block import POLICY, ControlBlock, Limits, Mode
from agents.wire.names import Phase
from tests.agents.xcuda.watching import process_of, until, write_raw

STOPPED = 128 + signal.SIGTERM
TIMED = {"STUB_TIME": "1"}
KINDS = ("launch", "launch-sync", "copy", "graph", "alloc", "mixed")
AT_ONCE = 4


def rounds(for_a_thousand: int) -> int:
    """`make thorough` kills a thousand processes, the ordinary tests some dozens."""
    return max(1, for_a_thousand * hypothesis.settings().max_examples // 10_000)


@pytest.fixture
def block(make_block) -> ControlBlock:
    return make_block(grace_ms=500)


def kill_at_random(xcuda, server, jobs, codes):
    """Neighbours on one GPU, each signalled at a time of its own; none may die unsafely."""
    for job in jobs:
        time.sleep(random.random() * 0.02)
        job.send_signal(random.choice([signal.SIGTERM, signal.SIGINT]))
    for job in jobs:
        ran = xcuda.finish(job)
        assert ran.returncode in codes, (ran, job.args)
    report = server.report()
    assert (report["state"], report["exits_unsafe"]) == ("ACTIVE", 0)
    return report["exits_released"]


CODES = {"default": {130, 143}, "exit": {130, 143}, "flag": {0}}


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("on_term", CODES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_program_dies_with_work_in_flight(xcuda, server, kind, on_term):
    exits = 0
    for _ in range(rounds(for_a_thousand=12)):
        jobs = [
            xcuda.start(
                "loop",
                kind,
                "--threads",
                2,
                "--seconds",
                60,
                "--on-term",
                on_term,
                server=server,
                env=TIMED,
            )
            for _ in range(AT_ONCE)
        ]
        exits += kill_at_random(xcuda, server, jobs, CODES[on_term])
    assert exits >= AT_ONCE


PYTHON = {
    "plain": "",
    "handler": "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))",
    "threads": "threading.Thread(target=work, daemon=True).start()",
}


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("setting", PYTHON)
def test_no_python_program_dies_with_work_in_flight(xcuda, server, setting):
    code = f"""
        import signal, threading
        cuda.start()
        memory = cuda.make("cuMemAlloc_v2", MIB)
        def work():
            while True:
                cuda.launch(blocks=50)
                cuda.cuMemsetD8Async(memory, 0, MIB, 0)
        {PYTHON[setting]}
        print("ready", flush=True)
        work()
        """
    exits = 0
    for _ in range(rounds(for_a_thousand=20)):
        jobs = [xcuda.python(code, ready=True, server=server, env=TIMED) for _ in range(AT_ONCE)]
        exits += kill_at_random(xcuda, server, jobs, {130, 143})
    assert exits >= AT_ONCE


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_no_program_dies_with_work_in_flight_while_it_waits_in_the_gate(xcuda, server, make_block):
    """Frozen, and throttled so that its threads wait for the limit."""
    exits = 0
    for _ in range(rounds(for_a_thousand=40)):
        frozen = make_block(f"frozen-{exits}", grace_ms=0)
        slow = make_block(f"slow-{exits}", grace_ms=0, launches_per_s=20)
        jobs = [
            xcuda.start(
                "loop", kind, "--threads", 3, "--seconds", 60, block=block, server=server, env=TIMED
            )
            for kind, block in (
                ("launch", frozen),
                ("mixed", frozen),
                ("graph", slow),
                ("launch-sync", slow),
            )
        ]
        frozen.set_policy(Limits(mode=Mode.FREEZE, grace_ms=0))
        exits += kill_at_random(xcuda, server, jobs, {130, 143})
    assert exits >= AT_ONCE


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_trainer_leaves_a_whole_checkpoint_at_every_ordinary_stop(
    xcuda, server, make_block, tmp_path
):
    block = make_block(grace_ms=8000, floor_duty_permille=200)
    for round_ in range(rounds(for_a_thousand=200)):
        checkpoint = tmp_path / f"checkpoint-{round_}"
        job = xcuda.start(
            "trainer",
            "--checkpoint",
            checkpoint,
            "--kernel",
            "train_50us",
            "--save-ms",
            2,
            block=block,
            server=server,
            env=TIMED,
        )
        time.sleep(random.random() * 0.02)
        job.send_signal(signal.SIGTERM)
        assert xcuda.finish(job).returncode == 0
        assert checkpoint.read_text().endswith("complete\n")
        assert process_of(block, job).phase is Phase.RELEASED
    assert server.report()["exits_unsafe"] == 0


# --- what is decided, on a clock that the test turns ---------------------------------------------


@pytest.mark.parametrize("checked", ["native", "asan"])
def test_each_stage_of_a_stop_follows_from_what_is_true(run_native, checked):
    run_native("test_stop", checked)


# --- one step after the other ---------------------------------------------------------------------

# Notes that it was told, and goes on as if nothing had happened.
STUBBORN = """
    import signal
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    cuda.start()
    print("ready", flush=True)
    while True:
        cuda.launch(blocks=10)
        time.sleep(0.001)
    """


def phases(block, job):
    """Each phase as it is first seen, until the process is gone."""
    seen = []
    while job.poll() is None or not seen or process_of(block, job).phase is not seen[-1]:
        phase = process_of(block, job).phase
        if phase and phase not in seen:
            seen.append(phase)
        time.sleep(0.0005)
    return seen


def test_a_stop_goes_through_its_phases_in_order(xcuda, server, block):
    job = xcuda.python(STUBBORN, ready=True, block=block, server=server, env=TIMED)
    job.send_signal(signal.SIGTERM)
    seen = phases(block, job)
    assert seen[0] is Phase.SIGNALLED
    assert seen[-1] is Phase.RELEASED
    assert seen == sorted(seen, key=list(Phase).index)
    assert xcuda.finish(job).returncode == STOPPED


def test_the_window_is_shown_while_it_is_open_and_ends_with_the_grace(xcuda, block):
    job = xcuda.python(STUBBORN, ready=True, block=block)
    assert not process_of(block, job).window
    began = time.monotonic()
    job.send_signal(signal.SIGTERM)
    until(lambda: process_of(block, job).window)
    job.wait()
    assert time.monotonic() - began >= 0.5
    assert not process_of(block, job).window


def test_without_grace_there_is_no_window(xcuda, make_block):
    block = make_block(grace_ms=0)
    job = xcuda.python(STUBBORN, ready=True, block=block)
    job.send_signal(signal.SIGTERM)
    assert Phase.CHECKPOINTED not in phases(block, job)
    assert xcuda.finish(job).returncode == STOPPED


def test_a_second_signal_shortens_nothing(xcuda, block):
    job = xcuda.python(STUBBORN, ready=True, block=block)
    began = time.monotonic()
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGTERM):
        job.send_signal(number)
        until(lambda: process_of(block, job).window)
    job.wait()
    assert time.monotonic() - began >= 0.5


def test_a_program_that_ends_in_its_window_keeps_its_exit_code(xcuda, server, block):
    job = xcuda.start(
        "loop",
        "launch",
        "--seconds",
        60,
        "--on-term",
        "flag",
        block=block,
        server=server,
        env=TIMED,
    )
    job.send_signal(signal.SIGTERM)
    assert xcuda.finish(job).returncode == 0
    assert process_of(block, job).phase is Phase.RELEASED
    assert server.report()["exits_released"] == 1


def test_the_agent_ends_a_process_without_a_signal(xcuda, server, block):
    job = xcuda.start("loop", "mixed", "--seconds", 60, block=block, server=server, env=TIMED)
    block.set_policy(Limits(mode=Mode.EXIT))
    assert xcuda.finish(job).returncode == STOPPED
    process = process_of(block, job)
    assert (process.phase, process.signal) == (Phase.RELEASED, None)
    assert server.report()["exits_unsafe"] == 0


def test_exit_cuts_a_window_short(xcuda, make_block):
    block = make_block(grace_ms=60_000)
    job = xcuda.python(STUBBORN, ready=True, block=block)
    job.send_signal(signal.SIGTERM)
    until(lambda: process_of(block, job).window)
    block.set_policy(Limits(mode=Mode.EXIT))
    assert xcuda.finish(job).returncode == STOPPED


# --- an emergency: frozen first -------------------------------------------------------------------


@pytest.fixture
def frozen(xcuda, block):
    """A stubborn process that was frozen and then told to stop."""
    job = xcuda.python(STUBBORN, ready=True, block=block)
    sequence = block.set_policy(Limits(mode=Mode.FREEZE, grace_ms=100))
    until(lambda: process_of(block, job).sequence == sequence)
    job.send_signal(signal.SIGTERM)
    until(lambda: process_of(block, job).phase is Phase.SIGNALLED)
    return job


def test_a_stop_in_a_freeze_stays_frozen_until_the_agent_decides(frozen, block):
    block.heartbeat()
    until(lambda: process_of(block, frozen).frozen_ns > 300e6)  # thrice the grace
    process = process_of(block, frozen)
    assert (process.phase, process.window, process.alive) == (Phase.SIGNALLED, False, True)


def test_the_agent_opens_the_window_of_a_frozen_stop(xcuda, frozen, block):
    launched = process_of(block, frozen).launches
    block.set_policy(Limits(mode=Mode.FREEZE, window_open=True, grace_ms=500))
    until(lambda: process_of(block, frozen).window)
    assert xcuda.finish(frozen).returncode == STOPPED
    assert process_of(block, frozen).launches > launched


def test_the_emergency_deadline_ends_a_frozen_process_without_a_window(xcuda, frozen, block):
    launched = process_of(block, frozen).launches
    block.set_policy(Limits(mode=Mode.EXIT))
    assert xcuda.finish(frozen).returncode == STOPPED
    process = process_of(block, frozen)
    assert (process.phase, process.launches) == (Phase.RELEASED, launched)


def test_a_frozen_stop_does_not_wait_for_an_agent_that_died(xcuda, frozen, block):
    write_raw(block, POLICY, "heartbeat_ns", time.monotonic_ns() - 31 * 10**9)
    assert xcuda.finish(frozen).returncode == STOPPED


# --- a driver that hangs --------------------------------------------------------------------------


def test_past_the_deadline_a_process_says_so_and_goes_on_waiting(xcuda, server, make_block):
    block = make_block(grace_ms=0, exit_ms=50)
    job = xcuda.python(
        """
        cuda.start()
        cuda.launch(cuda.kernel("endless_60000000us"))
        print("ready", flush=True)
        time.sleep(60)
        """,
        ready=True,
        block=block,
        server=server,
        env=TIMED,
    )
    job.send_signal(signal.SIGTERM)
    until(lambda: process_of(block, job).stuck)
    assert process_of(block, job).phase is Phase.GATED
    job.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    assert job.poll() is None
    job.kill()
    assert "past the deadline" in xcuda.finish(job).stderr


def test_a_capture_may_come_to_its_end_but_its_graph_is_not_launched(xcuda, server, make_block):
    block = make_block()
    job = xcuda.python(
        """
        cuda.start()
        stream = cuda.make("cuStreamCreate", 1)
        cuda.launch(cuda.kernel("step_30000us"), blocks=1000)
        cuda.ok("cuStreamBeginCapture_v2", stream, 0)
        print("ready", flush=True)
        for _ in range(50):
            assert cuda.launch(stream=stream) == 0
            time.sleep(0.001)
        graph = cuda.read("cuStreamEndCapture", stream)
        print("ended", flush=True)
        run = cuda.make("cuGraphInstantiateWithFlags", graph, 0)
        while True:
            cuda.cuGraphLaunch(run, stream)
        """,
        ready=True,
        block=block,
        server=server,
        env=TIMED,
    )
    job.send_signal(signal.SIGTERM)
    ended = xcuda.finish(job)
    assert (ended.returncode, ended.stdout) == (STOPPED, "ended\n")
    report = server.report()
    assert (report["exits_released"], report["exits_unsafe"]) == (1, 0)
    assert block.read_slots()[0].launches == 1


@pytest.mark.parametrize("mode", ["global", "thread-local", "relaxed"])
def test_a_capture_that_never_ends_keeps_nobody_from_waiting_for_the_rest(xcuda, server, mode):
    job = xcuda.python(
        f"""
        cuda.start()
        busy, capturing = (cuda.make("cuStreamCreate", 1) for _ in range(2))
        step = cuda.kernel("step_50000us")
        cuda.launch(step, blocks=1000, stream=busy)
        cuda.ok("cuStreamBeginCapture_v2", capturing,
                {["global", "thread-local", "relaxed"].index(mode)})
        print("ready", flush=True)
        while True:
            cuda.launch(step, stream=capturing)
            time.sleep(0.001)
        """,
        ready=True,
        server=server,
        env=TIMED,
    )
    job.send_signal(signal.SIGTERM)
    assert xcuda.finish(job).returncode == STOPPED
    assert server.report()["exits_released"] == 1
