"""SIGINT and SIGTERM mean to the application what they meant before."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from agents.control_block import ControlBlock
from agents.wire.names import Phase
from tests.agents.xcuda.watching import process_of, until

STOPPED = 128 + signal.SIGTERM
# Python runs its handlers between two steps: a signal just before a long sleep comes after it.
NAPPING = """
    cuda.start()
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
    """


@pytest.fixture
def block(make_block) -> ControlBlock:
    return make_block()


def test_a_program_sees_of_its_dispositions_what_it_would_see_alone(xcuda):
    alone, under = (xcuda.run("dispositions", preload=preload) for preload in (False, True))
    assert under.stdout == alone.stdout
    assert (under.returncode, under.stderr) == (0, "")


def test_ctrl_c_is_a_keyboard_interrupt_in_python(xcuda):
    job = xcuda.python(
        """
        import signal
        cuda.start()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        try:
            print("ready", flush=True)
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            print("interrupted")
        """,
        ready=True,
    )
    job.send_signal(signal.SIGINT)
    ran = xcuda.finish(job)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "interrupted\n", "")


def test_an_interrupt_that_python_does_not_catch_ends_it_as_ever(xcuda):
    job = xcuda.python(NAPPING, ready=True)
    job.send_signal(signal.SIGINT)
    ran = xcuda.finish(job)
    assert ran.returncode == 128 + signal.SIGINT
    assert "KeyboardInterrupt" in ran.stderr


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_handler_runs_whether_it_was_set_before_cuda_or_after(xcuda, when):
    job = xcuda.python(
        f"""
        import signal
        told = []
        def set():
            signal.signal(signal.SIGTERM, lambda *_: told.append("told"))
        {"set()" if when == "before" else ""}
        cuda.start()
        {"set()" if when == "after" else ""}
        assert callable(signal.getsignal(signal.SIGTERM))
        print("ready", flush=True)
        while not told:
            time.sleep(0.001)
        print(*told)
        """,
        ready=True,
    )
    job.send_signal(signal.SIGTERM)
    ran = xcuda.finish(job)
    assert (ran.returncode, ran.stdout) == (0, "told\n")


def test_without_a_handler_the_process_ends_at_once_with_the_signal_in_its_status(xcuda, block):
    job = xcuda.python(
        "cuda.start(); print('ready', flush=True); time.sleep(60)", ready=True, block=block
    )
    job.send_signal(signal.SIGTERM)
    assert xcuda.finish(job).returncode == STOPPED
    assert (process := process_of(block, job)).phase is Phase.RELEASED
    assert process.signal == signal.SIGTERM


def test_an_ignored_signal_stays_ignored_and_starts_no_stop(xcuda, block):
    job = xcuda.python(
        """
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        cuda.start()
        print("ready", flush=True)
        while cuda.cuInit(0) == 0:
            time.sleep(0.01)
        """,
        ready=True,
        block=block,
    )
    job.send_signal(signal.SIGTERM)
    job.send_signal(signal.SIGINT)
    until(lambda: process_of(block, job).phase)
    assert process_of(block, job).signal == signal.SIGINT


def test_before_cuda_nothing_is_changed(xcuda):
    job = xcuda.python("print('ready', flush=True); time.sleep(60)", ready=True)
    job.send_signal(signal.SIGTERM)
    assert xcuda.finish(job).returncode == -signal.SIGTERM


CHILDREN = {
    "fork": """
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
    """,
    "fork while launching": """
        thread = threading.Thread(target=lambda: [cuda.launch() for _ in range(100000)])
        thread.daemon = True
        thread.start()
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
    """,
    "subprocess": """
        pid = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid
    """,
    "spawn": """
        pid = os.posix_spawn("/bin/sleep", ["sleep", "60"], os.environ)
    """,
}


@pytest.mark.parametrize("child", CHILDREN)
def test_a_child_dies_of_the_signal_at_once(xcuda, child):
    told = xcuda.python(
        f"""
        import os, signal, subprocess, threading
        cuda.start()
        {CHILDREN[child]}
        os.kill(pid, signal.SIGTERM)
        _, status = os.waitpid(pid, 0)
        print(json.dumps(os.WIFSIGNALED(status) and os.WTERMSIG(status)), flush=True)
        os._exit(0)
        """
    )
    assert told == signal.SIGTERM


def test_a_child_runs_the_handler_it_inherited_and_leaves_the_parent_alone(xcuda, block):
    told = xcuda.python(
        """
        import os, signal
        signal.signal(signal.SIGTERM, lambda *_: os._exit(42))
        cuda.start()
        cuda.launch()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(writer, b"x")  # Python drops what comes before it is done with the fork
            while True:
                time.sleep(0.01)
        os.read(reader, 1)
        os.kill(pid, signal.SIGTERM)
        _, status = os.waitpid(pid, 0)
        print(json.dumps([os.waitstatus_to_exitcode(status), cuda.launch()]))
        """,
        block=block,
    )
    assert told == [42, 0]
    (process,) = block.read_slots()
    assert process.signal is None


def test_what_is_executed_inherits_what_was_ignored_and_nothing_else(xcuda):
    show = "import signal as s; print([s.getsignal(n) for n in (s.SIGINT, s.SIGTERM)])"
    code = f"""
        import os, signal
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: None)
        cuda.start()
        os.execv(sys.executable, ["python", "-c", {show!r}])
        """
    job = xcuda.python(
        "print('ready', flush=True)\n" + "\n".join(line.strip() for line in code.splitlines()),
        ready=True,
    )
    assert xcuda.finish(job).stdout.strip() == "[<Handlers.SIG_IGN: 1>, <Handlers.SIG_DFL: 0>]"


def test_a_handler_never_runs_inside_the_driver(xcuda, server):
    """The handler ends the process, which must wait for work in flight: with the driver's locks
    held under it that wait would never end."""
    for number in (signal.SIGTERM, signal.SIGINT) * 3:
        job = xcuda.start(
            "loop",
            "launch",
            "--on-term",
            "exit",
            "--seconds",
            "60",
            server=server,
            env={"STUB_TIME": "1"},
        )
        job.send_signal(number)
        assert xcuda.finish(job).returncode == 128 + number
    assert server.report()["exits_released"] == 6


def test_a_blocked_signal_waits_until_the_application_takes_it(xcuda, block):
    """As programs do that call sigwait: the mask is theirs, and so is the signal."""
    job = xcuda.python(
        """
        import signal
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        cuda.start()
        print("ready", flush=True)
        print(int(signal.sigwait([signal.SIGTERM])))
        """,
        ready=True,
        block=block,
    )
    job.send_signal(signal.SIGTERM)
    ran = xcuda.finish(job)
    assert (ran.returncode, ran.stdout) == (0, "15\n")


def signals_taken(job) -> dict[str, set[int]]:
    """What each thread of the process does not block, by the thread's name."""
    taken = {}
    for status in Path(f"/proc/{job.pid}/task").glob("*/status"):
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        blocked = int(fields["SigBlk"], 16)
        taken[fields["Name"].strip()] = {n for n in range(1, 32) if not blocked >> n - 1 & 1}
    return taken


def test_our_threads_take_no_signal(xcuda):
    job = xcuda.python("cuda.start(); print('ready', flush=True); time.sleep(60)", ready=True)
    until(lambda: {"xcuda", "xcuda-walk"} <= signals_taken(job).keys())
    unblockable = {signal.SIGKILL, signal.SIGSTOP}
    assert signals_taken(job)["xcuda"] == signals_taken(job)["xcuda-walk"] == unblockable


def test_forking_while_everything_changes_hangs_neither_side(xcuda):
    """Threads launch and change dispositions while children are made that end in every way."""
    told = xcuda.python(
        """
        import os, signal, threading
        libc = ctypes.CDLL(None)
        cuda.start()
        def launch():
            while True:
                cuda.launch()
        def change():
            while True:
                libc.signal(int(signal.SIGTERM), ctypes.c_void_p(1))
        for work in (launch, launch, change):
            threading.Thread(target=work, daemon=True).start()
        codes = []
        for _ in range(30):
            for number in (0, signal.SIGKILL, signal.SIGTERM):
                if (pid := os.fork()) == 0:
                    signal.signal(signal.SIGTERM, signal.SIG_DFL)
                    os.kill(os.getpid(), number)
                    os._exit(0)
                codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        print(json.dumps(sorted(set(codes))), flush=True)
        os._exit(0)
        """
    )
    assert told == [-signal.SIGTERM, -signal.SIGKILL, 0]


def test_a_fork_handler_may_change_dispositions(xcuda):
    """The parent's and the child's each hold, and neither waits for a lock of ours."""
    told = xcuda.python(
        """
        import os, signal
        libc = ctypes.CDLL(None)
        libc.signal.restype = c_void_p
        CHANGED = []
        def sets(handler):
            change = lambda: CHANGED.append(libc.signal(int(signal.SIGTERM), c_void_p(handler)))
            return ctypes.CFUNCTYPE(None)(change)
        handlers = [sets(0), sets(0), sets(1)]
        libc.__register_atfork(*handlers, None)
        cuda.start()
        if (pid := os.fork()) == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(3)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        tell(code=code, changed=len(CHANGED))
        """
    )
    assert told == {"code": 3, "changed": 2}


def test_a_program_may_change_its_user_after_cuda(xcuda):
    """All threads take part in that, ours too."""
    code = "import os; cuda.start(); os.setuid(os.getuid()); print(os.getuid())"
    assert xcuda.python(code) == os.getuid()


@pytest.mark.parametrize("sender", ["os.kill(os.getpid(), number)", "signal.raise_signal(number)"])
def test_a_handler_that_puts_the_default_back_ends_the_program_by_it(xcuda, block, server, sender):
    job = xcuda.python(
        f"""
        import os, signal
        cuda.start()
        function = cuda.kernel("step_30000us")
        def clean_up_and_die(number, frame):
            signal.signal(number, signal.SIG_DFL)
            {sender}
            print("came back", flush=True)
        signal.signal(signal.SIGTERM, clean_up_and_die)
        cuda.launch(function, blocks=1000)
        print("ready", flush=True)
        while True:
            time.sleep(0.01)
        """,
        ready=True,
        block=block,
        server=server,
        env={"STUB_TIME": "1"},
    )
    job.send_signal(signal.SIGTERM)
    ran = xcuda.finish(job)
    assert (ran.returncode, ran.stdout) == (STOPPED, "")
    assert server.report()["exits_unsafe"] == 0
    assert process_of(block, job).phase is Phase.RELEASED
