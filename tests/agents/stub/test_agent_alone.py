"""An illegal access in an offline job, on a node whose console is gone: a real agent, a real job
under libxcuda, and an online service that a hook of the node restarts."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from contextlib import closing, suppress

import pytest
from msgspec.structs import replace

from agents.mps.memory import RESTARTED
from agents.mps.timeline import BY_LOG
from agents.wire.messages import DesiredGpu, DesiredService
from agents.wire.names import EventKind, PlacementState, SharingMode
from tests.agents.cast import PLACEMENT_ID, POLICY, desired, placement
from tests.agents.fake_console import FakeConsole, until
from tests.agents.simulated_machine import SimulatedMachine
from tests.agents.xcuda.running import BUILD, ROOT, build, can_build

pytestmark = pytest.mark.timeout(120)

PROMISE_S = 15.0
SLOW_S = 40.0
JOB = "STUB_FAIL_FILE={fail} exec $programs/loop launch-sync --seconds 600"
# Answers each line that comes in. A failed call is fatal, as for real servers: its context is lost.
SERVICE = """\
import sys
from agents.stub.cuda import Gpu
gpu = Gpu()
for _ in sys.stdin:
    gpu.launch("serve_500us", 200)
    gpu.finish()
    print("answer", flush=True)
"""
# Ends the old instance, waits until it is gone, and returns when the new one runs. Its requests
# come through one pipe and its answers go to one file, whichever instance it is.
HOOK = """\
echo run >> {folder}/hooks
pid=$(cat {folder}/pid 2>/dev/null)
[ -n "$pid" ] && kill -9 $pid
while [ -n "$pid" ] && kill -0 $pid 2>/dev/null; do sleep 0.02; done
sleep {pause_s}
cd {root}
env {variables} {python} -c {service} <{folder}/requests >>{folder}/answers 2>&1 &
echo $! > {folder}/pid
"""


class OnlineService:
    """`chat` on GPU 0."""

    def __init__(self, machine: SimulatedMachine, pause_s: float = 0.0) -> None:
        self.folder = machine.folder / "online"
        self.folder.mkdir()
        os.mkfifo(self.folder / "requests")
        self._requests = os.open(self.folder / "requests", os.O_RDWR)
        variables = machine.variables | {
            "LD_LIBRARY_PATH": str(BUILD / "stub"),
            "CUDA_VISIBLE_DEVICES": machine.uuids[0],
        }
        text = HOOK.format(
            folder=self.folder,
            pause_s=pause_s,
            root=ROOT,
            variables=" ".join(f"{name}={value}" for name, value in variables.items()),
            python=shlex.quote(sys.executable),
            service=shlex.quote(SERVICE),
        )
        (self.folder / "hook").write_text(text)
        machine.run(["sh", str(self.folder / "hook")], preload=False)

    @property
    def option(self) -> tuple[str, str]:
        return "--restart-hook", f"chat=sh {self.folder / 'hook'}"

    @property
    def hooks_run(self) -> int:
        """By the agent, without the first start."""
        return len((self.folder / "hooks").read_text().splitlines()) - 1

    def answers(self) -> int:
        """How many requests were answered so far."""
        return (self.folder / "answers").read_text().splitlines().count("answer")

    def ask(self) -> None:
        os.write(self._requests, b"?\n")

    def close(self) -> None:
        os.close(self._requests)
        with suppress(ProcessLookupError):
            os.kill(int((self.folder / "pid").read_text()), signal.SIGKILL)


@pytest.fixture
def machine(tmp_path):
    if not can_build():
        pytest.skip("compiler: the stand-in driver needs make and a C compiler")
    build("stub", "programs", "lib", BUILD / "mps-report")
    with closing(SimulatedMachine(tmp_path, gpus=1)) as machine:
        machine.start_daemons()
        yield machine


def orders(machine: SimulatedMachine):
    words = JOB.format(fail=machine.folder / "fail")
    return desired(
        placement(command=machine.command(words)),
        gpus=(DesiredGpu(0, SharingMode.ENFORCE, "standard"),),
        policies={"standard": replace(POLICY, thresholds={})},
        services=(DesiredService("chat", 0),),
    )


def is_running(console: FakeConsole) -> bool:
    told = console.status.placements if console.statuses else ()
    return any(one.state is PlacementState.RUNNING for one in told)


def stories(console: FakeConsole):
    return [event for event in console.events if event.kind is EventKind.GPU_FAULT]


async def answered(online: OnlineService) -> None:
    """Asks until an answer comes: an instance that a fault ends takes its question with it."""
    before = online.answers()

    def answers() -> bool:
        online.ask()
        return online.answers() > before

    await until(answers, SLOW_S)


async def shared(machine: SimulatedMachine, online: OnlineService):
    """The agent, when its job runs beside the service and its console is gone; and its address."""
    async with FakeConsole() as console:
        agent = machine.start_agent(console.url, *online.option)
        await until(lambda: console.hellos, SLOW_S)
        await console.desire(orders(machine))
        await until(lambda: is_running(console), SLOW_S)
        await answered(online)
    return agent, console


async def test_online_answers_again_with_nobody_helping_the_node(machine, capsys):
    with closing(OnlineService(machine)) as online:
        _, console = await shared(machine, online)
        began = time.monotonic()
        (machine.folder / "fail").write_text("cuLaunchKernel:700")
        await until(lambda: online.hooks_run, SLOW_S)
        await answered(online)
        answered_s = time.monotonic() - began
        async with FakeConsole(console.port) as back:
            await until(lambda: stories(back) and stories(back)[-1].data["ended"], SLOW_S)
            told = stories(back)[-1]

    with capsys.disabled():
        sys.stdout.write(
            f"\nillegal access: online answered {answered_s:.1f} s after it, a healthy client"
            f" {told.data['recovered_s']:.1f} s after it was seen\n"
        )
    assert told.data["recovered_s"] <= PROMISE_S
    assert told.placement_id == told.data["first"]["placement_id"] == PLACEMENT_ID
    assert told.data["first_by"] == BY_LOG
    assert told.data["code"] == 700
    assert [(one["side"], one["name"]) for one in told.data["others"]] == [("online", "chat")]


async def test_an_agent_that_is_killed_amid_a_recovery_leaves_it_to_the_next(machine):
    with closing(OnlineService(machine, pause_s=1.0)) as online:
        agent, console = await shared(machine, online)
        (machine.folder / "fail").write_text("cuLaunchKernel:700")
        await until(lambda: online.hooks_run, SLOW_S)
        agent.kill()
        agent.wait()
        async with FakeConsole(console.port) as back:
            machine.start_agent(back.url, *online.option)
            await answered(online)
            await until(lambda: stories(back) and stories(back)[-1].data["ended"], SLOW_S)
            told = [event.data for event in stories(back)]

    assert len({one["fault_id"] for one in told}) == 1
    assert RESTARTED in [one["what"] for one in told[-1]["moments"]]
    assert told[-1]["recovered_s"] is not None
    assert told[-1]["first"]["placement_id"] == PLACEMENT_ID
