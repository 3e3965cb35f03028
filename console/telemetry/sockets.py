"""uvicorn's WebSocket, with a short way for what nearly all traffic of a fleet is: whole binary
messages of one frame, and pings. All else goes the ordinary way, through `websockets`.

The ordinary way is a parser of Python generators, half of what a small message costs. To leave it
out, one must know that the bytes at hand begin with a frame: so the ends of all frames are followed
here, also of those that take the ordinary way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Opcode
from websockets.protocol import OPEN
from websockets.speedups import apply_mask

_FINAL: Final = 0x80
_MASKED: Final = 0x80
_MASK_BYTES: Final = 4
_BINARY: Final = _FINAL | Opcode.BINARY
_PING: Final = _FINAL | Opcode.PING
_PONG: Final = _FINAL | Opcode.PONG
_MOST_OF_A_PING: Final = 125
_END_OF_REQUEST: Final = b"\r\n\r\n"


class Span(NamedTuple):
    """A frame of a client: its first byte, and where in the bytes its payload is."""

    head: int
    start: int
    end: int


class HeaderCut(Exception):
    """The bytes end within the header of a frame: how long it is cannot be said."""


def spans(data: bytes, at: int) -> Iterator[Span]:
    """The frames that begin at `at` and after; the last may end beyond the bytes. Raises HeaderCut,
    also for a frame without a mask, which no client may send (RFC 6455, 5.1)."""
    while at < len(data):
        start = at + 2 + _MASK_BYTES
        if len(data) < start or not data[at + 1] & _MASKED:
            raise HeaderCut
        length = data[at + 1] & 0x7F
        if length > 125:
            more = 2 if length == 126 else 8
            start += more
            if len(data) < start:
                raise HeaderCut
            length = int.from_bytes(data[at + 2 : at + 2 + more], "big")
        yield Span(data[at], start, start + length)
        at = start + length


class Socket(WebSocketsSansIOProtocol):
    # How many bytes of the frame under way are still to come; None: not known any more.
    _rest: int | None = 0

    def data_received(self, data: bytes) -> None:
        if not self.handshake_complete:
            is_request = not self.handshake_initiated and data.endswith(_END_OF_REQUEST)
            self._rest = 0 if is_request else None
            super().data_received(data)
            return
        frames = self._follow(data)
        if frames is None or not self._are_plain(frames):
            super().data_received(data)
            return
        for head, start, end in frames:
            payload = apply_mask(data[start:end], data[start - _MASK_BYTES : start])
            if head == _PING:
                self.transport.write(bytes((_PONG, len(payload))) + payload)
            else:
                self.curr_msg_data_type, self.frames = "bytes", [payload]
                self.send_receive_event_to_app()

    def _follow(self, data: bytes) -> list[Span] | None:
        """The frames of these bytes, when they begin with one; keeps count of where they end."""
        before, self._rest = self._rest, None
        if before is None:
            return None
        if before >= len(data) > 0:
            self._rest = before - len(data)
            return None
        try:
            frames = list(spans(data, before))
        except HeaderCut:
            return None
        self._rest = frames[-1].end - len(data) if frames else 0
        return None if before else frames

    def _are_plain(self, frames: list[Span]) -> bool:
        most = self.config.ws_max_size
        return (
            self._rest == 0
            and self.conn.state is OPEN
            and self.conn.current_size is None
            and not self.close_sent
            and all(
                (head == _BINARY and end - start <= most)
                or (head == _PING and end - start <= _MOST_OF_A_PING)
                for head, start, end in frames
            )
        )
