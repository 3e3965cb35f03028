"""Where browsers connect: the live map as binary frames, a summary and events as JSON.

Sent: a snapshot, then a delta a second (`frames.py`); {"type": "summary", …} once a second;
{"type": "event", "op": …} when something was changed. Received: "snapshot", after a gap.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from channels.consumer import get_handler_name
from channels.generic.websocket import AsyncWebsocketConsumer

from console.telemetry.hub import hub
from console.telemetry.seat import Seat

SIGN_IN: Final = 4401


class BrowserFeed(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One tab. Close code 4401: sign in (again)."""

    def __init__(self) -> None:
        super().__init__()
        self._seat = Seat()
        self._pump: asyncio.Task[None] | None = None

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Channels' own, without its hop into a thread for every message."""
        await getattr(self, get_handler_name(message))(message)

    async def connect(self) -> None:
        await self.accept()
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            await self.close(SIGN_IN)
            return
        hub.start()
        hub.join(self._seat)
        self._pump = asyncio.create_task(self._send_all())

    async def disconnect(self, code: int) -> None:
        hub.leave(self._seat)
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if text_data == "snapshot":
            self._seat.start_over()
        else:
            hub.refused.add("browser: unknown message", "a browser")

    async def _send_all(self) -> None:
        with suppress(OSError):  # the tab was closed while we sent; disconnect() follows
            while True:
                for message in await self._seat.take():
                    await self._send_one(message)

    async def _send_one(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            await self.send(bytes_data=message)
        else:
            await self.send(text_data=message)
