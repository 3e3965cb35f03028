"""A sleep that can be cut short."""

from __future__ import annotations

import asyncio


class Alarm:
    """One sleeper at a time; whoever rings while nobody sleeps is not heard."""

    def __init__(self) -> None:
        self._sleep: asyncio.Future[None] | None = None

    async def sleep(self, seconds: float) -> None:
        """Until the time is over, or until somebody rings."""
        loop = asyncio.get_running_loop()
        self._sleep = loop.create_future()
        ends = loop.call_later(seconds, self.ring)
        try:
            await self._sleep
        finally:
            ends.cancel()

    def ring(self) -> None:
        """In the thread of the loop."""
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)
