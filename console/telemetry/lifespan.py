"""Starts and ends the hub with the web process (ASGI lifespan)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from console.telemetry.hub import hub

Message = dict[str, Any]


async def lifespan(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            hub.start()
            await send({"type": "lifespan.startup.complete"})
        else:
            await hub.stop()
            await send({"type": "lifespan.shutdown.complete"})
            return
