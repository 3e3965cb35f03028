"""The beat of the agent: ten ticks a second, in which stops move, GPUs are sampled, and once a
second everything else is decided. Nodes take turns in the second, so that their work is spread.
A tick in which nothing is to be done is slept through; while nothing runs that could be held, that
is all but one in a second."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from agents.alarm import Alarm
from agents.berth import Berth
from agents.complaints import Complaints
from agents.config import Config
from agents.metrics.page import page
from agents.metrics.server import MetricsServer
from agents.off import Switch
from agents.state import StateFile
from agents.status.board import Board
from agents.wire.ready import notify_ready

log = logging.getLogger(__name__)
complaints = Complaints()

TICK_S: Final = 0.1
TICKS_PER_SAMPLE: Final = 2
TICKS_PER_SECOND: Final = 10
# A loop this late has missed samples; it goes on from now instead of catching up.
LATE_S: Final = 0.5
# New ones, of those that may hold one another, between two searches for garbage.
GARBAGE_OBJECTS: Final = 5_000


class Nodes(Protocol):
    """The nodes of this process: a simulated fleet, or this machine."""

    @property
    def switch(self) -> Switch: ...

    @property
    def berths(self) -> Mapping[str, Berth]: ...

    @property
    def alarm(self) -> Alarm:
        """Rung where work came that does not wait for the second."""

    @property
    def is_at_rest(self) -> bool:
        """Whether the samples until the next second are taken without the loop."""

    def boot(self) -> None:
        """In a running event loop."""

    async def open(self) -> None: ...

    def step(self, now: float) -> None:
        """Before the samples of `now` (monotonic seconds) are taken."""

    def settle(self, now: float) -> None:
        """After the samples of `now` were acted on."""

    def read_switch(self) -> None: ...

    async def close(self) -> None: ...


Pace: TypeAlias = Callable[[Any, StateFile, asyncio.Event], Awaitable[None]]


async def run(nodes: Nodes, state: StateFile, config: Config, pace: Pace | None = None) -> None:
    """Until TERM, INT, or the end of the lifeline. Jobs in processes of their own live on.
    `pace`: in place of `beat`, by a fleet too large to be described on a board."""
    ending = Ending(nodes.alarm)
    _end_on(ending, config.lifeline_fd)
    nodes.boot()
    await nodes.open()
    metrics = MetricsServer(page(nodes.berths))
    await _serve(metrics, config.metrics_port)
    boards = [] if pace else [_board(nodes, config)]
    notify_ready()
    _keep_what_is_there()
    try:
        await (pace or beat)(nodes, state, ending)
    finally:
        for board in boards:
            board.cancel()
        metrics.close()
        await nodes.close()


def _board(nodes: Nodes, config: Config) -> asyncio.Task[None]:
    return asyncio.create_task(Board(config.state_dir, nodes.berths).run(), name="status")


def _keep_what_is_there() -> None:
    """What has been made by now lives as long as this process. The search for garbage leaves it
    out, and is made seldom: little of what a tick makes needs it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)


async def _serve(metrics: MetricsServer, port: int | None) -> None:
    """Whether anybody can watch decides nothing about the protection."""
    if port is None:
        return
    try:
        await metrics.start(port)
    except OSError as error:
        log.error("no metrics: port %d is not to be had: %s", port, error)


class Ending(asyncio.Event):
    """Set at any moment, and heard at once."""

    def __init__(self, alarm: Alarm) -> None:
        super().__init__()
        self._alarm = alarm

    def set(self) -> None:
        super().set()
        self._alarm.ring()


def _end_on(ending: asyncio.Event, lifeline_fd: int | None) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    if lifeline_fd is not None:
        loop.add_reader(lifeline_fd, _read_lifeline, lifeline_fd, ending)


def _read_lifeline(lifeline_fd: int, ending: asyncio.Event) -> None:
    if not os.read(lifeline_fd, 512):
        asyncio.get_running_loop().remove_reader(lifeline_fd)
        ending.set()


async def beat(nodes: Nodes, state: StateFile, ending: asyncio.Event) -> None:
    """Ticks until `ending` is set."""
    tick, due, refused = 0, time.monotonic(), False
    while not ending.is_set():
        now = time.monotonic()
        _tick(nodes, tick, now)
        refused = commit(state, refused)
        if now - due > LATE_S + TICKS_PER_SAMPLE * TICK_S:
            if complaints.due("late"):
                log.warning("%.1f s late: this machine is too slow or too busy", now - due)
            due = now
        tick, due = await _next(nodes, tick, due, ending)


async def _next(nodes: Nodes, tick: int, due: float, ending: asyncio.Event) -> tuple[int, float]:
    """The next tick in which something is to be done, once it is due. What comes while nothing was
    to be done brings the next sample forward."""
    while True:
        passed = _until_next(nodes, tick)
        due_then = due + passed * TICK_S
        await nodes.alarm.sleep(max(0.0, due_then - time.monotonic()))
        now = time.monotonic()
        if now >= due_then or ending.is_set():
            return tick + passed, due_then
        gone = int((now - due) / TICK_S)
        tick, due = tick + gone, due + gone * TICK_S


def _until_next(nodes: Nodes, tick: int) -> int:
    """Ticks until the next one in which something is to be done: on an idle node, a tick slept
    through is a good part of what this process costs."""
    if nodes.is_at_rest:
        return TICKS_PER_SECOND - tick % TICKS_PER_SECOND
    turns = len(nodes.berths)
    stopping = any(
        berth.agent is not None and berth.agent.is_stopping for berth in nodes.berths.values()
    )
    after = tick + 1
    if stopping or after % TICKS_PER_SAMPLE == 0 or after % TICKS_PER_SECOND < turns:
        return 1
    return 2


def _tick(nodes: Nodes, tick: int, now: float) -> None:
    is_sample = tick % TICKS_PER_SAMPLE == 0
    if is_sample:
        nodes.step(now)
    if tick % TICKS_PER_SECOND == 0:
        nodes.read_switch()
    for turn, berth in enumerate(nodes.berths.values()):
        agent = berth.agent
        if agent is None:
            continue
        with berth.contained:
            if is_sample:
                agent.sample(now)
            else:
                agent.step_stops(now)
        if (tick - turn) % TICKS_PER_SECOND == 0:
            with berth.contained:
                agent.decide(now, nodes.switch)
    if is_sample:
        nodes.settle(now)


def commit(state: StateFile, refused: bool) -> bool:
    """Whether the disk refuses what happened; `refused`: whether it did at the last tick."""
    if state.commit():
        if refused:
            log.info("what happened is written down again, and nothing of it is lost")
        return False
    if complaints.due(state.refusal):
        log.error(
            "what happens cannot be written down (%s) and is kept in memory: no job starts and no"
            " event is sent until the disk takes it; what runs is protected as before",
            state.refusal,
        )
    return True
