from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from agents.actuators.base import Condition, StartFailed
from agents.actuators.process import ProcessRuntime
from agents.actuators.recipe import ProcessSettings
from agents.collectors import procfs
from agents.mps.control import Place
from agents.stub import trainer
from tests.agents.cast import placement

PLACEMENT = placement(command=(sys.executable, trainer.__file__))


@pytest.fixture
def runtime(tmp_path):
    runtime = _runtime(tmp_path)
    yield runtime
    runtime.kill(PLACEMENT.placement_id)
    until(runtime, Condition.EXITED, Condition.VANISHED, Condition.NEVER_RAN)


def _runtime(tmp_path, **settings):
    return ProcessRuntime(ProcessSettings(tmp_path / "jobs", **settings), {0: "GPU-0"})


def until(runtime, *conditions, placement_id=PLACEMENT.placement_id):
    """What the runtime sees once it sees one of these conditions."""
    deadline = time.monotonic() + 8
    while time.monotonic() < deadline:
        facts = runtime.observe(placement_id, time.monotonic())
        if facts.condition in conditions:
            return facts
        time.sleep(0.02)
    raise AssertionError(f"still {facts}")


def told(tmp_path, name, placement_id=PLACEMENT.placement_id):
    return json.loads((tmp_path / "jobs" / placement_id / name).read_text())


def test_a_job_is_known_by_its_supervisor_before_it_has_a_process(runtime, monkeypatch):
    with monkeypatch.context() as nothing_written:
        nothing_written.setattr("agents.actuators.process._read", lambda _path: None)
        runtime.start(PLACEMENT)
        facts = runtime.observe(PLACEMENT.placement_id, 0.0)
    assert facts.condition is Condition.STARTING
    first = until(runtime, Condition.ALIVE)
    assert procfs.identity(first.pid).parent_pid == facts.pid
    assert facts.started_ticks is not None


def test_a_stopped_job_saves_its_work_and_leaves_its_status(runtime, tmp_path):
    runtime.start(PLACEMENT)
    until(runtime, Condition.ALIVE)
    wait_for(lambda: runtime.observe(PLACEMENT.placement_id, 0).progress)

    runtime.sigterm(PLACEMENT.placement_id, 5.0)

    facts = until(runtime, Condition.EXITED)
    assert facts.exit_code == 0
    assert facts.unsaved_work_s == 0
    assert facts.work_done_s > PLACEMENT.resume_work_s
    assert facts.step_s > 0, "how long a step of it takes is told to who measures it"
    assert told(tmp_path, "exit.json")["code"] == 0


def wait_for(fact):
    deadline = time.monotonic() + 8
    while not (value := fact()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)
    return value


def test_the_kernel_takes_a_job_before_any_online_process(runtime):
    runtime.start(PLACEMENT)

    pid = until(runtime, Condition.ALIVE).pid

    assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "800\n"
    assert Path("/proc/self/oom_score_adj").read_text() != "800\n"


def test_the_next_agent_adopts_what_the_last_one_started(runtime, tmp_path):
    runtime.start(PLACEMENT)
    pid = until(runtime, Condition.ALIVE).pid

    heir = _runtime(tmp_path)
    heir.adopt(PLACEMENT)
    facts = until(heir, Condition.ALIVE)

    assert facts.pid == pid
    assert not facts.unattended
    heir.kill(PLACEMENT.placement_id)
    assert until(heir, Condition.EXITED).exit_code == -signal.SIGKILL


def test_an_intent_without_a_process_is_closed_for_good(runtime, tmp_path):
    runtime.adopt(PLACEMENT)

    assert runtime.observe(PLACEMENT.placement_id, 0).condition is Condition.NEVER_RAN
    runtime.start(PLACEMENT)  # a supervisor that was only now on its way
    wait_for(
        lambda: "has run before" in (tmp_path / "jobs" / PLACEMENT.placement_id / "log").read_text()
    )
    assert runtime.observe(PLACEMENT.placement_id, 0).condition is Condition.NEVER_RAN
    assert not (tmp_path / "jobs" / PLACEMENT.placement_id / "claimed").exists()


def test_a_second_supervisor_of_a_living_job_refuses(runtime, tmp_path):
    runtime.start(PLACEMENT)
    pid = until(runtime, Condition.ALIVE).pid

    runtime._launch(tmp_path / "jobs" / PLACEMENT.placement_id)

    log = tmp_path / "jobs" / PLACEMENT.placement_id / "log"
    wait_for(lambda: "holds its lock" in log.read_text())
    assert told(tmp_path, "started.json")["pid"] == pid


def test_a_job_outlives_its_supervisor_only_to_be_ended(runtime, tmp_path):
    runtime.start(PLACEMENT)
    until(runtime, Condition.ALIVE)
    os.kill(told(tmp_path, "started.json")["supervisor_pid"], signal.SIGKILL)
    wait_for(lambda: runtime.observe(PLACEMENT.placement_id, 0).unattended)

    runtime.kill(PLACEMENT.placement_id)

    assert until(runtime, Condition.VANISHED).exit_code is None


def test_what_a_job_leaves_behind_ends_with_it(runtime, tmp_path):
    pid_file = tmp_path / "straggler"
    script = f"(setsid sleep 60 & echo $! > {pid_file}) ; exit 3"
    runtime.start(placement(command=("sh", "-c", script)))

    assert until(runtime, Condition.EXITED).exit_code == 3
    assert not Path(f"/proc/{pid_file.read_text().strip()}").exists()


def test_the_end_of_the_lifeline_ends_the_job(tmp_path):
    lifeline, held = os.pipe()
    runtime = _runtime(tmp_path, lifeline_fd=lifeline)
    runtime.start(PLACEMENT)
    until(runtime, Condition.ALIVE)

    os.close(held)

    assert until(runtime, Condition.EXITED).why == "lifeline"
    os.close(lifeline)


def test_a_deaf_job_is_killed_when_the_lifeline_ends(tmp_path):
    lifeline, held = os.pipe()
    runtime = _runtime(tmp_path, lifeline_fd=lifeline, lifeline_grace_s=0.2)
    runtime.start(placement(command=("sh", "-c", "trap '' TERM; while :; do sleep 1; done")))
    until(runtime, Condition.ALIVE)

    os.close(held)

    assert until(runtime, Condition.EXITED).exit_code == -signal.SIGKILL
    os.close(lifeline)


def test_a_command_that_is_not_there_says_so(runtime):
    runtime.start(placement(command=("no-such-program",)))

    facts = until(runtime, Condition.EXITED)
    assert facts.exit_code == 127
    assert "no-such-program" in facts.why


def test_a_job_without_a_command_is_refused_before_it_starts(runtime):
    with pytest.raises(StartFailed, match="has no command"):
        runtime.start(placement(command=()))


class Daemons:
    """Of MPS, for the GPU of every job."""

    def __contains__(self, gpu_uuid):
        return True

    def place(self, gpu_uuid):
        return Place(gpu_uuid, Path("/mps/pipe"), Path("/mps/log"))


def test_a_job_is_a_client_of_mps_below_online_work_and_knows_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("MUXFLOW_AGENT_TOKEN", "secret")
    settings = ProcessSettings(tmp_path / "jobs")
    runtime = ProcessRuntime(settings, {0: "GPU-0"}, Daemons())
    runtime.start(placement(command=("env",), sm_share_percent=40.0, memory_quota_bytes=1 << 30))
    until(runtime, Condition.EXITED)

    log = (tmp_path / "jobs" / PLACEMENT.placement_id / "log").read_text()

    told = dict(line.split("=", 1) for line in log.splitlines())
    assert told["CUDA_MPS_PIPE_DIRECTORY"] == "/mps/pipe"
    assert told["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "40"
    assert told["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=1624M"
    assert told["CUDA_MPS_CLIENT_PRIORITY"] == "1"
    assert told["CUDA_VISIBLE_DEVICES"] == "GPU-0"
    assert "secret" not in log


DEAF = {
    "ignores it": "trap '' TERM; sleep 60",
    "runs in a session of its own": "setsid sleep 60; true",
}


@pytest.mark.parametrize("script", DEAF.values(), ids=DEAF)
def test_a_job_that_sigterm_does_not_reach_says_so_to_its_end(runtime, script):
    runtime.start(placement(command=("sh", "-c", f"trap : TERM; {script} & wait; wait")))
    until(runtime, Condition.ALIVE)
    time.sleep(0.2)
    runtime.sigterm(PLACEMENT.placement_id, 5.0)
    assert runtime.observe(PLACEMENT.placement_id, 1e6).remarks == ()

    told = runtime.observe(PLACEMENT.placement_id, 1e6 + 3).remarks

    assert told[0].startswith("SIGTERM never reached process")
    runtime.kill(PLACEMENT.placement_id)
    assert until(runtime, Condition.EXITED).remarks == told


def test_a_job_that_hears_sigterm_and_takes_its_time_is_not_called_deaf(runtime):
    runtime.start(placement(command=("sh", "-c", "trap : TERM; wait; sleep 60 & wait")))
    until(runtime, Condition.ALIVE)
    runtime.sigterm(PLACEMENT.placement_id, 5.0)

    for now in (1e6, 1e6 + 3):
        assert runtime.observe(PLACEMENT.placement_id, now).remarks == ()


@pytest.mark.parametrize("what", ["mkfifo", "ln -s /etc/hostname", "mkdir"])
def test_whatever_a_job_makes_of_its_progress_holds_nobody_up(runtime, what):
    runtime.start(placement(command=("sh", "-c", f"{what} $MUXFLOW_PROGRESS; exit 5")))

    facts = until(runtime, Condition.EXITED)

    assert (facts.exit_code, facts.progress, facts.work_done_s) == (5, None, None)


def test_an_overlong_log_is_moved_aside(tmp_path, monkeypatch):
    runtime = _runtime(tmp_path, log_bytes=1_000)
    writer = "import time\nwhile True: print('x' * 99, flush=True); time.sleep(0.01)"
    runtime.start(placement(command=(sys.executable, "-c", writer)))
    directory = tmp_path / "jobs" / PLACEMENT.placement_id

    wait_for(lambda: (directory / "log.1").exists())

    runtime.kill(PLACEMENT.placement_id)
    until(runtime, Condition.EXITED)
