"""Faults of simulated nodes that last for a while: what is done to their berths, and undone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from msgspec.structs import replace as amended

from agents import lies
from agents.berth import Berth
from agents.wire.faults import Lie

# A connection that flaps is down for so long each time.
DOWN_S: Final = 0.5


class Mischief:
    """All that is under way in one fleet."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def silence(self, berths: Sequence[Berth], duration_s: float) -> None:
        until = time.monotonic() + duration_s
        for berth in berths:
            if berth.agent is not None:
                berth.agent.outbox.silent_until = until

    def lie(self, berths: Sequence[Berth], lie: Lie, duration_s: float) -> None:
        for berth in berths:
            berth.twist = partial(lies.told, lie)
        self._after(duration_s, lambda: _undo_twist(berths))

    def skew(self, berths: Sequence[Berth], skew_s: float, duration_s: float) -> None:
        for berth in berths:
            berth.skew_s = skew_s
        self._after(duration_s, lambda: _undo_skew(berths))

    def flap(self, berths: Sequence[Berth], period_s: float, duration_s: float) -> None:
        self._keep(_flap(berths, period_s, time.monotonic() + duration_s))

    def cut(self, berths: Sequence[Berth]) -> None:
        for berth in berths:
            if berth.link is not None:
                berth.link.cut(0.0)

    def duplicate(self, berth: Berth, gpu_index: int, uuid: str, duration_s: float) -> None:
        """Raises ValueError for a GPU that the node has not, or while it is down."""
        agent = berth.agent
        if agent is None or not 0 <= gpu_index < len(agent.identity.gpus):
            raise ValueError(f"{berth.name} is down, or has no GPU {gpu_index}")
        before = agent.identity
        gpus = list(before.gpus)
        gpus[gpu_index] = replace(
            gpus[gpu_index], inventory=amended(gpus[gpu_index].inventory, uuid=uuid)
        )
        agent.identity = replace(before, gpus=tuple(gpus))
        self.cut([berth])

        def undo() -> None:
            agent.identity = before
            self.cut([berth])

        self._after(duration_s, undo)

    def end(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()

    def _after(self, duration_s: float, undo: Callable[[], None]) -> None:
        self._keep(_later(duration_s, undo))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _later(duration_s: float, undo: Callable[[], None]) -> None:
    await asyncio.sleep(duration_s)
    undo()


async def _flap(berths: Sequence[Berth], period_s: float, until: float) -> None:
    while time.monotonic() < until:
        for berth in berths:
            if berth.link is not None:
                berth.link.cut(DOWN_S)
        await asyncio.sleep(period_s)


def _undo_twist(berths: Sequence[Berth]) -> None:
    for berth in berths:
        berth.twist = None


def _undo_skew(berths: Sequence[Berth]) -> None:
    for berth in berths:
        berth.skew_s = 0.0
