"""The beat of the agent: ten ticks a second, in which stops move, GPUs are sampled, and once a
second everything else is decided. Nodes take turns in the second, so that their work is spread."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from agents.complaints import Complaints
from agents.config import Config
from agents.faults_server import serve_faults
from agents.node import NodeAgent
from agents.state import StateFile
from agents.wire.ready import notify_ready

if TYPE_CHECKING:
    from agents.fleet import Fleet

log = logging.getLogger(__name__)
complaints = Complaints()

TICK_S: Final = 0.1
TICKS_PER_SAMPLE: Final = 2
TICKS_PER_SECOND: Final = 10
# A loop this late has missed samples; it goes on from now instead of catching up.
LATE_S: Final = 0.5


async def run(fleet: Fleet, state: StateFile, config: Config) -> None:
    """Until TERM, INT, or the end of the lifeline. Jobs in processes of their own live on."""
    ending = asyncio.Event()
    _end_on(ending, config.lifeline_fd)
    fleet.boot()
    faults = None if config.faults is None else await serve_faults(config.faults, fleet)
    notify_ready()
    try:
        await beat(fleet, state, ending)
    finally:
        if faults is not None:
            faults.close()
        await fleet.close()


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


async def beat(fleet: Fleet, state: StateFile, ending: asyncio.Event) -> None:
    """Ticks until `ending` is set."""
    tick, due = 0, time.monotonic()
    while not ending.is_set():
        now = time.monotonic()
        _tick(fleet, tick, now)
        _commit(state)
        tick, due = tick + 1, due + TICK_S
        if now - due > LATE_S:
            if complaints.due("late"):
                log.warning("%.1f s late: this machine is too slow or too busy", now - due)
            due = now
        await asyncio.sleep(max(0.0, due - time.monotonic()))


def _tick(fleet: Fleet, tick: int, now: float) -> None:
    is_sample = tick % TICKS_PER_SAMPLE == 0
    if is_sample:
        fleet.world.step(now)
    if tick % TICKS_PER_SECOND == 0:
        fleet.read_switch()
    for turn, berth in enumerate(fleet.berths.values()):
        agent = berth.agent
        if agent is None:
            continue
        _shielded(agent, agent.sample if is_sample else agent.step_stops, now)
        if (tick - turn) % TICKS_PER_SECOND == 0:
            _shielded(agent, partial(agent.decide, switch=fleet.switch), now)


def _shielded(agent: NodeAgent, act: Callable[[float], None], now: float) -> None:
    """A defect that shows on one node does not leave the others unguarded."""
    try:
        act(now)
    except Exception as error:
        if complaints.due(f"{agent.identity.name} {error!r}"):
            log.exception("%s: a step of its loop failed", agent.identity.name)


def _commit(state: StateFile) -> None:
    try:
        state.commit()
    except sqlite3.Error as error:
        if complaints.due(str(error)):
            log.error("what happened could not be written down: %s", error)
