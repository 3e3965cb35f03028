from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from agents import supervisor
from agents.mps import unit
from agents.mps.control import ControlFailed, NoProgram
from tests.agents.hanging import hang
from tests.agents.mps.conftest import until


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_daemon_is_nobodys_child_and_of_a_session_of_its_own(mps):
    daemon = mps.start()
    assert parent_of(daemon.pid) != os.getpid()
    assert os.getsid(daemon.pid) not in (os.getsid(0), os.getpid())


def test_a_daemon_outlives_whoever_started_it_and_is_found_again(mps):
    code = textwrap.dedent(f"""
        from pathlib import Path
        from agents.mps import unit
        place = unit.place_of({mps.place.gpu_uuid!r}, Path({str(mps.directory)!r}))
        print(unit.start_detached(place, {mps.program!r}).pid)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    daemon = unit.find(mps.place)
    assert daemon.pid == int(done.stdout)
    assert mps.start() == daemon  # not a second one
    assert mps.control.ask(mps.control.dialect.servers()) == ()


@pytest.mark.parametrize("multiuser", [False, True])
def test_a_multi_user_daemon_is_known_by_its_command_line(mps, multiuser):
    assert mps.start(multiuser=multiuser).multiuser is multiuser


def test_quit_ends_it_and_leaves_nothing(daemon):
    found = unit.find(daemon.place)
    unit.stop(daemon.control)
    assert supervisor.start_ticks(found.pid) != found.ticks
    assert unit.find(daemon.place) is None
    unit.stop(daemon.control)  # a second time is no error


def test_what_a_killed_daemon_left_behind_is_no_daemon_and_keeps_none_away(daemon):
    found = unit.find(daemon.place)
    os.kill(found.pid, signal.SIGKILL)
    until(lambda: unit.find(daemon.place) is None)
    assert daemon.place.pid_file.exists()
    assert daemon.start().pid != found.pid


@pytest.mark.parametrize("content", ["", "nonsense", "-1", "0", "999999999", "another"])
def test_a_pid_file_that_names_no_daemon(mps, content):
    mps.place.pipe_directory.mkdir(parents=True)
    mps.place.pid_file.write_text(str(os.getpid()) if content == "another" else content)
    assert unit.find(mps.place) is None


def test_a_daemon_that_hangs_is_ended_and_started_anew(daemon, monkeypatch):
    monkeypatch.setattr(unit, "SYSTEMD", Path("/nonexistent"))
    found = unit.find(daemon.place)
    hang(found.pid)
    monkeypatch.setattr(unit, "END_S", 0.1)
    unit.restart(daemon.control, multiuser=True)
    after = unit.find(daemon.place)
    assert after.pid != found.pid
    assert after.multiuser


def test_without_the_program_it_says_where_it_comes_from(mps, tmp_path):
    with pytest.raises(NoProgram, match="comes with the NVIDIA driver"):
        unit.start_detached(mps.place, (str(tmp_path / "never"),))


def test_a_program_that_fails_points_to_its_log(mps, script):
    with pytest.raises(ControlFailed, match=r"status 3: see .*control\.log"):
        unit.start_detached(mps.place, script("os._exit(3)"))


@pytest.mark.parametrize("uuid", ["", "../../etc", "a/b", ".."])
def test_no_directory_is_made_of_what_is_no_uuid(uuid):
    with pytest.raises(ValueError, match="not the UUID"):
        unit.place_of(uuid)


def test_the_template_names_the_gpu_its_directories_and_no_agent():
    text = unit.unit_file("/usr/bin/nvidia-cuda-mps-control", multiuser=True)
    assert "Environment=CUDA_VISIBLE_DEVICES=%i" in text
    assert "ExecStart=/usr/bin/nvidia-cuda-mps-control -f -multiuser-server\n" in text
    assert "agent" not in text


def test_the_template_is_one_that_systemd_takes(tmp_path):
    path = tmp_path / unit.UNIT_NAME.replace("@", "@GPU-1")
    path.write_text(unit.unit_file("/bin/true"))
    if not Path("/usr/bin/systemd-analyze").exists():
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True
    )
    assert path.name not in done.stderr
