"""What enrolment gives a node: who it is, its bearer token, and its signing key."""

from __future__ import annotations

import msgspec


class Credentials(msgspec.Struct, frozen=True):
    """`key_hex` verifies desired state; `token` opens the WebSocket. Both are secret."""

    node: str
    node_id: str
    token: str
    key_hex: str


_decoder: msgspec.json.Decoder[tuple[Credentials, ...]] = msgspec.json.Decoder(
    tuple[Credentials, ...]
)


def decode(data: bytes) -> tuple[Credentials, ...]:
    """One entry a node; a fleet's file holds many. Raises msgspec.DecodeError."""
    return _decoder.decode(data)


def encode(credentials: tuple[Credentials, ...]) -> bytes:
    return msgspec.json.encode(credentials)
