"""Where browsers connect: the live map as binary frames, a summary and events as JSON.

Sent: {"type": "summary", …} once a second; {"type": "event", "op": …} when something was changed;
and to a tab that watches the map a snapshot, then a delta a second (`frames.py`). Received: what
the tab watches, and the wish for a snapshot after a gap (`watch.py`).
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from channels.consumer import get_handler_name
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest

from console.accounts.models import User
from console.telemetry import watch
from console.telemetry.hub import hub
from console.telemetry.seat import Seat
from console.telemetry.sight import sight

SIGN_IN: Final = 4401
# So long an open page goes on after a sign-out elsewhere, or after its person was locked out.
LOOK_AGAIN_S: Final = 15.0


class BrowserFeed(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One tab. Close code 4401: sign in (again)."""

    def __init__(self) -> None:
        super().__init__()
        self._seat = Seat()
        self._pump: asyncio.Task[None] | None = None
        self._looked_at = time.monotonic()

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Channels' own, without its hop into a thread for every message."""
        await getattr(self, get_handler_name(message))(message)

    async def connect(self) -> None:
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            await self.accept()
            await self.close(SIGN_IN)
            return
        hub.start()
        self._seat.pools = await hub.in_thread(sight, user)
        await self.accept()
        hub.audience.join(self._seat)
        self._pump = asyncio.create_task(self._send_all())

    async def disconnect(self, code: int) -> None:
        hub.audience.leave(self._seat)
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            wish = watch.read(text_data or "")
        except ValueError as error:
            hub.refused.add("browser: unknown message", "a browser", error)
            return
        if wish is None:
            self._seat.start_over()
        else:
            self._seat.turn_to(*wish)

    async def _send_all(self) -> None:
        with suppress(OSError):  # the tab was closed while we sent; disconnect() follows
            while await self._may_watch():
                await self._seat.wait()
                for message in self._seat.take(hub.audience, time.monotonic()):
                    await self._send_one(message)
            await self.close(SIGN_IN)

    async def _may_watch(self) -> bool:
        """Asked of the database now and then, with what may be seen; while it does not answer,
        nothing changes."""
        if time.monotonic() - self._looked_at < LOOK_AGAIN_S:
            return True
        self._looked_at = time.monotonic()
        with suppress(OperationalError, InterfaceError):
            user = await hub.in_thread(_who, self.scope["session"].session_key)
            if user is None:
                return False
            self._seat.pools = await hub.in_thread(sight, user)
        return True

    async def _send_one(self, message: str | bytes) -> None:
        hub.audience.bytes_total += len(message)
        if isinstance(message, bytes):
            await self.send(bytes_data=message)
        else:
            await self.send(text_data=message)


def _who(session_key: str) -> User | None:
    """Whose request one with this session would be, by Django's own rules; None: nobody's."""
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(request)
    return user if isinstance(user, User) else None
