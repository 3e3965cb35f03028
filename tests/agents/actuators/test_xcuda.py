"""Real jobs under libxcuda on the stand-in driver, held by the process runtime."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from agents.actuators.base import Condition, StartFailed
from agents.actuators.process import ProcessRuntime
from agents.actuators.recipe import ProcessSettings
from agents.actuators.xcuda import XcudaSettings
from agents.control_block import Mode
from agents.wire.names import Checkpoint
from tests.agents.cast import PLACEMENT_ID, placement

pytestmark = pytest.mark.timeout(20)

LAUNCHES = "$programs/loop launch --seconds 60 --kernel step_500us"
# Never without work in flight, unless it is held.
BUSY = "$programs/loop launch-sync --seconds 60 --kernel step_20000us --grid 1000"
TRAINER = "$programs/trainer --checkpoint $saved"


def covered(processes=1):
    return lambda facts: len(facts.pids) == processes


def holds(bench, mode):
    """Once every process has taken the mode over."""
    return bench.until(
        lambda facts: facts.pids and all(one.mode is mode for one in bench.leash().statement.live)
    )


def test_a_job_runs_within_its_quota_and_share_from_its_first_call(bench):
    bench.start("exec", LAUNCHES)

    bench.runtime.set_duty(PLACEMENT_ID, 40.0)
    facts = bench.until(lambda facts: facts.memory_bytes)

    bench.until(lambda _: bench.runtime.limits(PLACEMENT_ID).duty_percent == 40.0)
    assert bench.runtime.limits(PLACEMENT_ID).memory_quota_bytes == placement().memory_quota_bytes
    assert facts.coverage == (1, 1)
    assert facts.pids == {facts.pid}


def test_a_process_has_one_kernel_on_the_device_at_a_time(bench):
    bench.start("exec", LAUNCHES)

    bench.until(lambda _: bench.launches() > 20)

    assert bench.leash()._block.read_limits().inflight_cap == 1
    for _ in range(20):
        bench.facts()
        assert all(one.inflight <= 1 for one in bench.leash().statement.processes)


def test_nothing_is_in_effect_before_a_process_holds_to_it(bench):
    bench.start("sleep 60")
    bench.until(lambda facts: facts.condition is Condition.ALIVE)

    assert bench.runtime.limits(PLACEMENT_ID).duty_percent is None
    assert bench.facts().coverage == (0, 0)


def test_two_processes_of_a_job_share_its_duty(bench):
    bench.start(LAUNCHES, "&", "exec", LAUNCHES)
    bench.runtime.set_duty(PLACEMENT_ID, 40.0)

    bench.until(covered(2))

    bench.until(lambda _: bench.runtime.limits(PLACEMENT_ID).duty_percent == 40.0)
    assert bench.leash()._block.read_limits().duty_permille == 200


def test_a_quota_changes_while_the_job_runs(bench):
    bench.start("exec", LAUNCHES)
    bench.until(covered())

    bench.runtime.set_memory_quota(PLACEMENT_ID, 1 << 30)

    bench.until(lambda _: bench.runtime.limits(PLACEMENT_ID).memory_quota_bytes == 1 << 30)


def test_a_frozen_job_launches_nothing_until_it_is_thawed(bench):
    bench.start("exec", LAUNCHES)
    bench.until(covered())

    bench.runtime.freeze(PLACEMENT_ID)
    assert holds(bench, Mode.FREEZE).frozen
    held = bench.launches()
    time.sleep(0.1)
    assert bench.launches() <= held + 1  # the one that was already past the gate
    bench.runtime.thaw(PLACEMENT_ID)

    bench.until(lambda _: bench.launches() > held + 1)
    assert not bench.facts().frozen


def test_a_job_saves_in_its_window_and_says_so(bench):
    bench.start("exec", TRAINER)
    bench.until(covered())

    bench.runtime.sigterm(PLACEMENT_ID, 5.0)
    facts = bench.until(lambda facts: facts.condition is Condition.EXITED)

    assert (facts.exit_code, facts.remarks) == (0, ())
    assert facts.checkpointed
    assert bench.server.report()["exits_unsafe"] == 0


def test_a_job_that_saves_between_two_looks_has_saved(bench):
    bench.start("exec", TRAINER)
    pid = bench.until(covered()).pid

    bench.runtime.sigterm(PLACEMENT_ID, 5.0)
    while Path(f"/proc/{pid}").exists():
        bench.runtime.beat()
        time.sleep(0.01)

    assert bench.until(lambda facts: facts.condition is Condition.EXITED).checkpointed


def test_a_frozen_job_saves_once_the_agent_opens_its_window(bench):
    bench.start("exec", TRAINER)
    bench.until(covered())
    bench.runtime.freeze(PLACEMENT_ID)
    holds(bench, Mode.FREEZE)

    bench.runtime.sigterm(PLACEMENT_ID, 5.0)
    time.sleep(0.2)
    assert bench.facts().condition is Condition.ALIVE
    bench.runtime.thaw(PLACEMENT_ID)

    facts = bench.end()
    assert (facts.exit_code, facts.checkpointed) == (0, True)


def test_a_gated_job_is_released_and_gone_without_a_signal(bench):
    bench.start("exec", LAUNCHES, "--on-term ignore")
    bench.until(covered())

    bench.runtime.gate(PLACEMENT_ID)

    facts = bench.end()
    assert facts.exit_code == 128 + signal.SIGTERM
    assert (facts.gated, facts.quiesced, facts.released) == (True, True, True)
    assert bench.server.report()["exits_unsafe"] == 0


def test_a_running_job_is_neither_gated_nor_released(bench):
    bench.start("exec", LAUNCHES)

    facts = bench.until(covered())

    assert (facts.gated, facts.quiesced, facts.released) == (False, False, False)


def test_a_job_that_saves_nothing_ends_at_the_signal(bench):
    bench.start("exec", LAUNCHES, "--on-term ignore", checkpoint=Checkpoint.NONE)
    bench.until(covered())

    bench.runtime.sigterm(PLACEMENT_ID, 0.0)
    bench.runtime.gate(PLACEMENT_ID)

    assert not bench.end().checkpointed


def test_a_process_that_no_sigterm_reaches_is_named(bench, monkeypatch):
    monkeypatch.setattr("agents.actuators.statement.SIGNAL_S", 0.2)
    bench.start("setsid", LAUNCHES, "& trap '' TERM; wait; wait")
    bench.until(covered())

    bench.runtime.sigterm(PLACEMENT_ID, 5.0)

    facts = bench.until(lambda facts: facts.remarks)
    assert "SIGTERM never reached process" in facts.remarks[0]


def test_a_process_without_the_library_is_found_and_named(bench):
    bench.new_runtime(handshake_s=0.0)
    bench.start("exec env -u LD_PRELOAD", LAUNCHES)

    facts = bench.until(lambda facts: facts.unlimited)

    assert f"process {facts.pid} uses CUDA and never came under xCUDA" in facts.unlimited
    assert facts.coverage == (0, 1)


def test_the_next_agent_finds_the_job_as_it_was_held(bench):
    bench.start("exec", LAUNCHES)
    bench.until(covered())
    bench.runtime.freeze(PLACEMENT_ID)
    holds(bench, Mode.FREEZE)
    generation = bench.leash()._block.generation

    bench.adopt()

    assert bench.until(covered()).frozen
    assert bench.leash()._block.generation == generation
    bench.runtime.thaw(PLACEMENT_ID)
    holds(bench, Mode.RUN)
    bench.until(
        lambda _: (
            bench.runtime.limits(PLACEMENT_ID).memory_quota_bytes == placement().memory_quota_bytes
        )
    )


def test_a_job_from_before_xcuda_is_known_to_run_without_limits(bench, tmp_path):
    bare = ProcessRuntime(ProcessSettings(tmp_path / "jobs"), {0: "GPU-0"})
    bare.start(placement(command=("sleep", "60")))
    bench.runtime = bare
    bench.until(lambda facts: facts.condition is Condition.ALIVE)

    bench.adopt()

    facts = bench.until(lambda facts: facts.condition is Condition.ALIVE)
    assert "it is not under xCUDA" in facts.unlimited


def test_a_job_that_cuts_its_stats_short_is_known_for_it(bench):
    bench.start("exec", LAUNCHES)
    bench.until(covered())

    with (bench.folder / "jobs" / PLACEMENT_ID / "xcuda" / "stats").open("r+b") as stats:
        stats.truncate(8)

    facts = bench.facts()
    assert "cut it short" in facts.unlimited
    assert not facts.gated


def test_without_the_library_no_job_starts(tmp_path):
    settings = ProcessSettings(tmp_path, xcuda=XcudaSettings(tmp_path / "libxcuda.so"))
    runtime = ProcessRuntime(settings, {0: "GPU-0"})

    with pytest.raises(StartFailed, match="is not there"):
        runtime.start(placement(command=("true",)))


def test_what_a_job_leaves_behind_on_the_gpu_ends_idle(bench):
    os.mkfifo(bench.folder / "saved")
    bench.start("setsid", BUSY, "& read _ < $saved; exit 3")
    bench.runtime.set_duty(PLACEMENT_ID, 100.0)
    bench.until(lambda _: bench.launches() > 3)

    (bench.folder / "saved").write_text("go on\n")

    assert bench.end().exit_code == 3
    assert bench.server.report()["exits_unsafe"] == 0


def test_the_end_of_a_lifeline_leaves_nothing_in_flight(bench):
    lifeline, held = os.pipe()
    settings = ProcessSettings(bench.folder / "jobs", (), lifeline, xcuda=bench.settings())
    bench.runtime = ProcessRuntime(settings, {0: "GPU-0"})
    bench.start("exec", BUSY)
    bench.runtime.set_duty(PLACEMENT_ID, 100.0)
    bench.until(lambda _: bench.launches() > 3)

    os.close(held)

    assert bench.end().why == "lifeline"
    assert bench.server.report()["exits_unsafe"] == 0
    os.close(lifeline)
