"""MessagePack in and out, and the signature around desired state."""

from __future__ import annotations

import hashlib
import hmac
from typing import TypeVar

import msgspec

from agents.wire.limits import MAX_MESSAGE_BYTES
from agents.wire.messages import Envelope, FromAgent, FromConsole, Message, Signed

_encoder = msgspec.msgpack.Encoder()
_from_agent: msgspec.msgpack.Decoder[FromAgent] = msgspec.msgpack.Decoder(FromAgent)
_from_console: msgspec.msgpack.Decoder[FromConsole] = msgspec.msgpack.Decoder(FromConsole)
_signed: msgspec.msgpack.Decoder[Signed] = msgspec.msgpack.Decoder(Signed)

T = TypeVar("T")


class WireError(ValueError):
    """The bytes are not a message of this protocol; the text says what is wrong with them."""


class BadSignature(WireError):
    """The envelope was not made by the console that enrolled this node."""


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode_from_agent(data: bytes) -> FromAgent:
    """Raises WireError."""
    return _decode(_from_agent, data)


def decode_from_console(data: bytes) -> FromConsole:
    """Raises WireError."""
    return _decode(_from_console, data)


def _decode(decoder: msgspec.msgpack.Decoder[T], data: bytes) -> T:
    if len(data) > MAX_MESSAGE_BYTES:
        raise WireError(f"message of {len(data)} bytes is over the limit of {MAX_MESSAGE_BYTES}")
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WireError(f"not a message of this protocol: {error}") from error


def node_key(master_secret: bytes, node_id: str) -> bytes:
    """The node's signing key: HKDF-SHA256 (RFC 5869) of the master secret, one block."""
    pseudo_random_key = hmac.digest(b"muxflow.node-key", master_secret, "sha256")
    return hmac.digest(pseudo_random_key, node_id.encode() + b"\x01", "sha256")


def key_id(key: bytes) -> str:
    return hashlib.sha256(b"muxflow.key-id" + key).hexdigest()[:16]


def seal(message: Signed, key: bytes) -> Envelope:
    payload = encode(message)
    return Envelope(key_id(key), payload, hmac.digest(key, payload, "sha256"))


def unseal(envelope: Envelope, key: bytes) -> Signed:
    """The message inside. Raises BadSignature before a single payload byte is decoded."""
    expected = hmac.digest(key, envelope.payload, "sha256")
    if not hmac.compare_digest(expected, envelope.mac):
        raise BadSignature(
            f"envelope signed with key {envelope.key_id}, this node holds {key_id(key)}:"
            " enrol the node again to fetch its present key"
        )
    return _decode(_signed, envelope.payload)
