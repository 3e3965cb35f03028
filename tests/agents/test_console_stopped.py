"""What a node does alone: its console is gone, or its own agent stands still.

One real agent on a simulated GPU (`docs/xcuda-stub.md`), an online service that can fill it, and
offline jobs under libxcuda. What is waited for is a fact, never a duration.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from msgspec.structs import replace

from agents.control_block import NO_LIMIT_PERMILLE, ControlBlock
from agents.control_block import POLICY as PAGE
from agents.wire.messages import Event
from agents.wire.names import EndReason, EventKind, Origin, Phase, PlacementState
from tests.agents.hanging import hang
from tests.agents.simulated_machine import processes
from tests.agents.simulated_node import POLICY, SimulatedNode, simulated_node, until
from tests.agents.xcuda.running import BUILD, build, can_build
from tests.agents.xcuda.watching import write_raw

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

GIB = 1 << 30
# Once the file is there, a second process wants more than the quota of the job.
GREEDY = """
    (until [ -e $go ]; do sleep 0.05; done; $programs/loop launch --count 1 --bytes $bytes) &
    exec $programs/loop launch-sync --kernel step_5000us --grid 1000 --seconds 3600
"""
EAGER = "exec $programs/loop launch-sync --kernel step_500us --grid 1000 --seconds 3600"
# A job may launch nearly all the time, so that a lower duty shows.
GENEROUS = replace(POLICY, duty_floor_percent=90.0)
# Online kernels that find room beside the job's: to others it would give way by itself.
BESIDE_BLOCKS = 150
# Beyond what xCUDA waits for an agent before it lowers duty (3 s), and before it freezes (30 s).
STALE_S, SILENT_S = 4.0, 31.0
# What a job does is counted so long, once it has had time to do what it should.
WATCHED_S, SETTLED_S = 1.0, 0.3
STORY = (EventKind.FROZEN, EventKind.EVICTION_STARTED, EventKind.PLACEMENT_ENDED)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory):
    if not can_build():
        pytest.skip("compiler: xCUDA needs make and a C compiler")
    build("stub", "programs", "lib", BUILD / "mps-report")
    async with simulated_node(tmp_path_factory.mktemp("node"), 1, GENEROUS) as node:
        await node.share()
        yield node


async def test_without_a_console_an_overload_is_held_evicted_and_told_afterwards(node):
    go = node.machine.folder / "go"
    await node.place(0, GREEDY.replace("$go", str(go)).replace("$bytes", str(20 * GIB)))
    job, block = node.placements[0], node.block(0)
    told = len(node.console.events)
    await node.console.go()

    # 1. its limits hold
    go.touch()
    await until(lambda: any(one.denied for one in block.read_slots()))
    assert block.peak_bytes() <= job.memory_quota_bytes < 20 * GIB
    limits = block.read_limits()
    assert limits.memory_quota_bytes == job.memory_quota_bytes
    assert limits.duty_permille < NO_LIMIT_PERMILLE
    # 2. the overload freezes it, and lasts: it ends through its stop sequence
    await node.services[0].rise()
    await until(lambda: node.is_held(0))
    exit_file = node.machine.folder / "state" / "jobs" / job.placement_id / "exit.json"
    await until(exit_file.exists)
    await node.services[0].settle()
    report = node.machine.server(0).report()
    assert (report["state"], report["exits_unsafe"]) == ("ACTIVE", 0)
    assert json.loads(exit_file.read_text())["code"] == 128 + signal.SIGTERM

    # 3. the console is back and hears it all, once and in order
    await node.console.come()
    await until(lambda: EventKind.PLACEMENT_ENDED in kinds(node.console.events[told:]))
    news = node.console.events[told:]
    numbers = [event.seq for event in node.console.events]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    story = [event.kind for event in news if event.kind in STORY]
    assert story[:1] + story[-2:] == list(STORY)
    assert set(story[1:-2]) <= {EventKind.FROZEN}  # where load paused in between
    assert phases(news) == sorted(phases(news), key=list(Phase).index)
    assert set(phases(news)) >= {"ACCEPTED", "SIGNALLED", "GONE", "MEMORY_RETURNED"}
    ended = of(news, EventKind.PLACEMENT_ENDED)
    assert (ended["reason"], ended["signalled"]) == (EndReason.EVICTED, True)
    assert of(news, EventKind.EVICTION_STARTED)["origin"] == Origin.OVERLOAD
    await until(lambda: states(node) == [PlacementState.ENDED])


async def test_a_stopped_agent_leaves_its_job_slowed_then_frozen_until_it_goes_on(node):
    await node.place(0, EAGER)
    block, duty_permille = node.block(0), 10 * GENEROUS.duty_floor_percent
    await until(lambda: block.read_limits().duty_permille >= duty_permille)
    with stopped(node):
        await node.services[0].rise(BESIDE_BLOCKS)
        heard = await watch(block, silent_s=0.0)
        stale = await watch(block, silent_s=STALE_S)
        silent = await watch(block, silent_s=SILENT_S)
        assert heard.throttled < 0.5 < stale.throttled
        assert heard.launches > stale.launches > silent.launches == 0
        await node.services[0].settle()
    await until(lambda: node.is_calm(0))
    before = node.process(0).launches
    await until(lambda: node.process(0).launches > before)


@contextlib.contextmanager
def stopped(node: SimulatedNode) -> Iterator[None]:
    hang(node.agent.pid)
    try:
        yield
    finally:
        os.kill(node.agent.pid, signal.SIGCONT)


class Seen(NamedTuple):
    """What a job did in a while: launches that passed, and how much of the time they waited."""

    launches: int
    throttled: float


async def watch(block: ControlBlock, silent_s: float) -> Seen:
    """As if the agent had been silent for so long: it is stopped, and what is turned back is the
    moment at which it was heard last."""

    def turn() -> float:
        now = time.monotonic()
        write_raw(block, PAGE, "heartbeat_ns", int((now - silent_s) * 1e9))
        return now

    turn()
    await asyncio.sleep(SETTLED_S)
    (before,), began = processes(block), turn()
    while turn() < began + WATCHED_S:
        await asyncio.sleep(0.02)
    (after,), ended = processes(block), turn()
    waited_s = (after.throttled_ns - before.throttled_ns) / 1e9
    return Seen(after.launches - before.launches, waited_s / (ended - began))


def kinds(events: list[Event]) -> list[EventKind]:
    return [event.kind for event in events]


def of(events: list[Event], kind: EventKind) -> dict[str, Any]:
    (found,) = (event.data for event in events if event.kind is kind)
    return found


def phases(events: list[Event]) -> list[Phase]:
    return [event.data["phase"] for event in events if event.kind is EventKind.EVICTION_PHASE]


def states(node: SimulatedNode) -> list[PlacementState]:
    return [one.state for one in node.console.status.placements]
