"""Jobs as another user: of a machine where this one may become it, else as this one."""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
from pathlib import Path

import pytest

from agents.actuators import job_user
from agents.actuators.base import Condition
from agents.actuators.job_user import JobUser
from agents.actuators.process import ProcessRuntime
from agents.actuators.recipe import ProcessSettings
from agents.config import CannotRun
from agents.control_block import ControlBlock
from tests.agents.actuators.conftest import bench
from tests.agents.actuators.test_process import until
from tests.agents.cast import PLACEMENT_ID, placement
from tests.agents.xcuda.running import BUILD, Server

__all__ = ["bench"]
NAME = "daemon" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
SAYS = 'id -u; id -G; echo "$HOME $USER"; pwd; echo x > "$MUXFLOW_PROGRESS.new" && echo wrote;'
TRIES = "for it in ../spec.json ../exit.json; do cat < $it; echo x >> $it; done 2>/dev/null;"
FORGES = 'cd "$(dirname $MUXFLOW_PROGRESS)";' + TRIES


@pytest.fixture
def user():
    return job_user.look_up(NAME)


def open_folders(folder):
    """pytest's own are closed to others."""
    top = Path(tempfile.gettempdir())
    for one in (folder, *folder.parents):
        if one != top and one.is_relative_to(top):
            one.chmod(0o711)


@pytest.fixture
def state_dir(tmp_path):
    open_folders(tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "agent.sqlite3").write_text("secret")
    return tmp_path / "state"


def run(state_dir, user, script, **settings):
    """What the script wrote."""
    job_user.open_way(state_dir / "jobs", user)
    runtime = ProcessRuntime(ProcessSettings(state_dir / "jobs", user=user, **settings), {0: "G"})
    runtime.start(placement(command=("sh", "-c", script)))
    facts = until(runtime, Condition.EXITED)
    return (state_dir / "jobs" / PLACEMENT_ID / "log").read_text().splitlines(), facts


def test_a_job_runs_as_the_nodes_user_where_the_node_says(state_dir, user):
    work = state_dir.parent / "work"
    work.mkdir()
    work.chmod(0o755)

    told, facts = run(state_dir, user, SAYS, working_directory=work)

    groups = sorted(map(int, told[1].split()))
    assert facts.exit_code == 0
    assert (int(told[0]), groups) == (user.uid, sorted({user.gid, *user.groups}))
    assert told[2:] == [f"{user.home} {user.name}", str(work), "wrote"]


def test_such_a_job_reads_and_forges_nothing_of_the_agents(state_dir, user):
    """Unless it is the agent's own user."""
    if user.uid == os.geteuid():
        return
    told, _ = run(state_dir, user, FORGES + f"cat {state_dir}/agent.sqlite3 {state_dir}/* ; ls ..")

    assert not any("secret" in line or "environment" in line for line in told)
    assert stat.S_IMODE((state_dir / "agent.sqlite3").stat().st_mode) == 0o600


def test_a_folder_where_the_job_cannot_work_is_told(state_dir, user):
    _, facts = run(state_dir, user, "true", working_directory=state_dir / "nowhere")

    assert facts.exit_code == 127
    assert facts.why == f"cannot work in {state_dir / 'nowhere'}: No such file or directory"


def test_a_way_that_is_closed_above_the_agents_folder_is_refused(state_dir):
    stranger = JobUser("stranger", 12_345, 12_345, (12_345,), "/")
    state_dir.parent.chmod(0o700)

    with pytest.raises(CannotRun, match=f"chmod o\\+x {state_dir.parent}"):
        job_user.open_way(state_dir / "jobs", stranger)


def test_a_user_that_is_not_there_is_refused():
    with pytest.raises(CannotRun, match="there is no user no-such-user"):
        job_user.look_up("no-such-user")


def test_a_job_of_another_user_is_held_by_its_control_block(bench, user):
    if not all(job_user._may_pass(folder.stat(), user) for folder in BUILD.parents):
        user = job_user.look_up(pwd.getpwuid(os.geteuid()).pw_name)
    open_folders(bench.folder)
    settings = ProcessSettings(bench.folder / "jobs", xcuda=bench.settings(), user=user)
    job_user.open_way(settings.directory, user)
    (bench.folder / "shared").mkdir()
    (bench.folder / "shared").chmod(0o777)
    bench.server = Server(bench.folder / "shared" / "mps")
    bench.runtime = ProcessRuntime(settings, {0: "GPU-0", 1: "GPU-1"})

    bench.start("exec $programs/loop launch --seconds 60")

    facts = bench.until(lambda facts: facts.coverage == (1, 1))
    with ControlBlock(bench.folder / "jobs" / PLACEMENT_ID / "xcuda") as block:
        assert [slot.host_pid for slot in block.read_slots()] == [facts.pid]
    assert Path(f"/proc/{facts.pid}").stat().st_uid == user.uid
