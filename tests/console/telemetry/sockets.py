"""A WebSocket client for tests that speaks ASGI to a consumer, without a server between."""

from __future__ import annotations

from typing import Any

from asgiref.testing import ApplicationCommunicator

WAIT_S = 3.0


class Socket(ApplicationCommunicator):
    def __init__(self, application: Any, path: str, **scope: Any) -> None:
        super().__init__(
            application,
            {"type": "websocket", "path": path, "query_string": b"", "headers": [], **scope},
        )

    async def open(self) -> bool:
        """Whether it was accepted."""
        await self.send_input({"type": "websocket.connect"})
        return bool((await self.receive_output(WAIT_S))["type"] == "websocket.accept")

    async def send(self, data: bytes | str) -> None:
        kind = "text" if isinstance(data, str) else "bytes"
        await self.send_input({"type": "websocket.receive", kind: data})

    async def receive(self) -> bytes | str:
        """The next message; raises AssertionError with the code when the server closed."""
        output = await self.receive_output(WAIT_S)
        assert output["type"] == "websocket.send", f"closed with {output.get('code')}"
        text: str | None = output.get("text")
        return output["bytes"] if text is None else text

    async def closes_with(self) -> int:
        """The close code, once all that was sent before has been read."""
        code, _ = await self.closing()
        return code

    async def closing(self) -> tuple[int, str]:
        """Likewise, with the reason."""
        while True:
            output = await self.receive_output(WAIT_S)
            if output["type"] == "websocket.close":
                return int(output.get("code", 1000)), output.get("reason") or ""

    async def hang_up(self) -> None:
        if not self.future.done():
            await self.send_input({"type": "websocket.disconnect", "code": 1006})
            await self.wait(WAIT_S)
