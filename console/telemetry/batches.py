"""Many callers, one call: what is asked while a call is under way goes into the next, together.

So a fleet that comes back at once costs a few dozen questions to the database, not thousands, in
the order of its asking, and one that asks alone does not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
Q = TypeVar("Q")
A = TypeVar("A")

# Asks the database, in a thread of its own.
InThread = Callable[..., Awaitable[Any]]
Work = Callable[[Mapping[K, Q]], Awaitable[Mapping[K, A | Exception]]]


class Displaced(Exception):
    """Somebody asked again under the same key before it was this one's turn."""


class Batches(Generic[K, Q, A]):
    """`work` is given the questions by key and answers each, with an exception where that failed;
    one that it raises is everybody's. Bounded: one question a key, `most` in a call."""

    def __init__(self, work: Work[K, Q, A], most: int) -> None:
        self._work, self._most = work, most
        self._waiting: dict[K, tuple[Q, asyncio.Future[A]]] = {}
        self._runner: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    async def ask(self, key: K, question: Q) -> A:
        """Raises Displaced, and whatever the work raised or answered."""
        older = self._waiting.pop(key, None)
        if older is not None and not older[1].done():
            older[1].set_exception(Displaced)
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting[key] = question, answer
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run())
        return await answer

    async def _run(self) -> None:
        while self._waiting:
            keys = list(self._waiting)[: self._most]
            batch = {key: self._waiting.pop(key) for key in keys}
            asked = {key: each for key, each in batch.items() if not each[1].done()}
            try:
                answers = await self._work({key: question for key, (question, _) in asked.items()})
            except Exception as error:
                answers = dict.fromkeys(asked, error)
            for key, (_, future) in asked.items():
                _settle(future, answers[key])


def _settle(future: asyncio.Future[A], answer: A | Exception) -> None:
    if future.done():  # who asked is gone
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
