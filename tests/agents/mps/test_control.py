from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agents.mps.answers import BadAnswer, Refused, Status
from agents.mps.control import Control, ControlFailed, NoDaemon, NoProgram, NotPermitted, TooLate
from agents.stub import mps_control

GIB = 1 << 30


@pytest.fixture
def place(mps):
    """Where something seems to listen."""
    mps.place.pipe_directory.mkdir(parents=True)
    (mps.place.pipe_directory / "control").touch()
    return mps.place


def asked(place, program, deadline_s=5.0):
    control = Control(place, program, deadline_s=deadline_s)
    return control.ask(control.dialect.servers())


# --- a daemon that is well ---------------------------------------------------------------


def test_a_daemon_without_clients_has_no_server(daemon):
    assert daemon.control.ask(daemon.control.dialect.servers()) == ()


def test_the_first_client_brings_the_server(daemon, process):
    pid = process()
    daemon.fake("connect", pid)
    control, server = daemon.control, daemon.server()
    assert control.ask(control.dialect.status(server)) is Status.ACTIVE
    assert control.ask(control.dialect.client_pids(server)) == (pid,)
    (client,) = control.ask(control.dialect.clients())
    assert (client.pid, client.server_pid, client.command) == (pid, server, "sleep")


def test_a_server_starts_for_a_user(daemon):
    daemon.control.ask(daemon.control.dialect.start_server(os.getuid()))
    assert daemon.server()


def test_limits_that_are_set_can_be_read(daemon):
    ask, dialect = daemon.control.ask, daemon.control.dialect
    assert ask(dialect.default_percentage()) == 100.0
    assert ask(dialect.default_memory_limit()) is None
    ask(dialect.set_default_percentage(37.5))
    ask(dialect.set_default_memory_limit(2 * GIB + 1))
    ask(dialect.set_default_priority(1))
    assert ask(dialect.default_percentage()) == 37.5
    assert ask(dialect.default_memory_limit()) == 2 * GIB
    assert ask(dialect.default_priority()) == 1


def test_limits_of_a_running_server(daemon, process):
    daemon.fake("connect", process())
    ask, dialect, server = daemon.control.ask, daemon.control.dialect, daemon.server()
    ask(dialect.set_percentage(server, 20))
    ask(dialect.set_memory_limit(server, GIB))
    with pytest.raises(Refused):
        ask(dialect.set_percentage(1, 20))


def test_terminate_makes_the_server_forget_the_client_alone(daemon, process):
    online, offline = process(), process()
    daemon.fake("connect", online)
    daemon.fake("connect", offline)
    control, server = daemon.control, daemon.server()
    control.terminate_client(server, offline)
    assert control.ask(control.dialect.client_pids(server)) == (online,)
    os.kill(offline, 0)  # the process lives on, to be killed by whoever owns it


def test_a_client_that_is_not_there_cannot_be_terminated(daemon, process):
    daemon.fake("connect", process())
    with pytest.raises(Refused):
        daemon.control.terminate_client(daemon.server(), os.getpid())


def test_new_clients_are_refused_while_one_is_terminated(daemon, process):
    first, second = process(), process()
    daemon.fake("connect", first)
    daemon.fake("terminating", 0.5)
    words = ["terminate_client", str(daemon.server()), str(first)]
    ending = subprocess.Popen(
        daemon.program,
        stdin=subprocess.PIPE,
        env=os.environ | daemon.place.environment(),
    )
    ending.stdin.write(" ".join(words).encode() + b"\n")
    ending.stdin.close()
    while daemon.fake("connect", second) != "807":
        daemon.fake("disconnect", second)
    assert ending.wait() == 0
    assert daemon.fake("connect", second) == ""


def test_a_fault_lasts_until_everyone_who_was_there_has_gone(daemon, process):
    first, second = process(), process()
    daemon.fake("connect", first)
    daemon.fake("connect", second)
    daemon.fake("fault", first)
    control, server = daemon.control, daemon.server()
    assert control.ask(control.dialect.status(server)) is Status.FAULT
    assert daemon.fake("connect", process()) == "807"
    daemon.fake("disconnect", first)
    assert control.ask(control.dialect.status(server)) is Status.FAULT
    daemon.fake("disconnect", second)
    assert control.ask(control.dialect.status(server)) is Status.ACTIVE


def test_a_process_that_ends_is_no_client_any_more(daemon):
    with subprocess.Popen(["sleep", "60"]) as client:
        daemon.fake("connect", client.pid)
        server = daemon.server()
        client.kill()
    assert daemon.control.ask(daemon.control.dialect.client_pids(server)) == ()


# --- one that is not ---------------------------------------------------------------------


def test_a_program_that_this_machine_cannot_run_is_told_of(place, tmp_path):
    program = tmp_path / "for-another-machine"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    with pytest.raises(ControlFailed, match="cannot be run"):
        asked(place, (str(program),))


def test_without_a_daemon_nothing_is_run(mps, tmp_path):
    with pytest.raises(NoDaemon, match="no MPS control daemon listens at"):
        asked(mps.place, (str(tmp_path / "never"),))


def test_a_socket_left_by_a_dead_daemon_is_no_daemon(daemon):
    daemon.fake("crash")
    with pytest.raises(NoDaemon, match="Cannot find MPS control daemon process"):
        asked(daemon.place, daemon.program)


def test_the_program_is_not_installed(place, tmp_path):
    with pytest.raises(NoProgram, match="comes with the NVIDIA driver"):
        asked(place, (str(tmp_path / "never"),))


def test_the_program_may_not_be_run(place, tmp_path):
    closed = tmp_path / "closed"
    closed.touch(mode=0o600)
    with pytest.raises(NotPermitted):
        asked(place, (str(closed),))


def test_a_daemon_of_another_user(place, script):
    with pytest.raises(NotPermitted):
        asked(place, script("os.write(2, b'Failed to connect: permission denied'); os._exit(1)"))


def test_a_directory_closed_to_us(mps, monkeypatch):
    def closed(_path):
        raise PermissionError

    monkeypatch.setattr("pathlib.Path.lstat", closed)
    with pytest.raises(NotPermitted, match="run the agent as root"):
        asked(mps.place, mps.program)


def test_a_daemon_that_hangs_is_left_at_the_deadline(place, script, tmp_path):
    child = "if os.fork() == 0: time.sleep(60)"  # its child holds the pipe open as well
    program = script(f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n{child}")
    with pytest.raises(TooLate, match="'get_server_list' in time"):
        asked(place, program, deadline_s=0.3)


def test_an_answer_without_end_is_cut_off(place, script):
    with pytest.raises(BadAnswer, match="over 1048576 bytes"):
        asked(place, script("while True: os.write(1, b'x' * 65536)"))


@pytest.mark.parametrize("text", ["hello", "\\xff\\x00\\xfe", "Server list unavailable"])
def test_an_answer_to_another_question(place, script, text):
    with pytest.raises(BadAnswer):
        asked(place, script(f"os.write(1, b'{text}')"))


def test_a_program_that_does_not_listen(place, script):
    assert asked(place, script("os.close(0)")) == ()


def test_a_program_that_is_killed(place, script):
    with pytest.raises(Exception, match="ended with status -9"):
        asked(place, script("os.kill(os.getpid(), 9)"))


def test_the_program_sees_its_own_directories_and_no_secrets(place, script, monkeypatch):
    monkeypatch.setenv("MUXFLOW_SECRET", "x")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/elsewhere")
    program = script(
        f"ok = os.environ['CUDA_MPS_PIPE_DIRECTORY'] == {str(place.pipe_directory)!r}\n"
        "print(4242 if ok and 'MUXFLOW_SECRET' not in os.environ else 'wrong')"
    )
    assert asked(place, program) == (4242,)


def test_a_daemon_that_garbles_every_answer(daemon):
    daemon.fake("say", "\x01\x02", "what?")
    with pytest.raises(BadAnswer):
        asked(daemon.place, daemon.program)


def test_a_daemon_that_refuses(daemon, process):
    daemon.fake("connect", process())
    daemon.fake("refuse")
    with pytest.raises(Refused):
        daemon.control.ask(daemon.control.dialect.set_default_percentage(50))


def test_a_slow_daemon_is_too_late_and_then_well_again(daemon):
    daemon.fake("slow", 1)
    with pytest.raises(TooLate):
        asked(daemon.place, daemon.program, deadline_s=0.2)
    daemon.fake("honest")
    assert asked(daemon.place, daemon.program) == ()


@pytest.mark.parametrize("percent", [0, -1, 101, float("nan"), float("inf")])
def test_no_share_beyond_a_gpu_is_asked_for(daemon, percent):
    with pytest.raises(ValueError, match="over 0 and at most 100"):
        daemon.control.dialect.set_default_percentage(percent)


@pytest.mark.parametrize("limit", [0, -GIB, 1 << 60])
def test_no_senseless_memory_limit_is_asked_for(daemon, limit):
    with pytest.raises(ValueError, match="from 1 MiB to 1 PiB"):
        daemon.control.dialect.set_default_memory_limit(limit)


def test_the_stand_in_starts_without_what_is_installed_here():
    code = "import sys; sys.path.insert(0, sys.argv[1]); import mps_control, mps_daemon"
    folder = Path(mps_control.__file__).parent
    subprocess.run([sys.executable, "-IS", "-c", code, str(folder)], check=True)
