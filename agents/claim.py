"""One agent for each GPU of one machine, wherever it keeps its state.

The claim is a name in the kernel's own list of sockets: no file is left behind, it goes with its
holder however that dies, and needs no root. It reaches as far as the network namespace; in one
state directory `state.StateFile` keeps a second agent out anyway.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Final

from agents.collectors.card import Card
from agents.config import CannotRun

log = logging.getLogger(__name__)

NAME: Final = "muxflow-agent"
CONNECT_S: Final = 1.0
# struct ucred: pid, uid, gid.
CREDENTIALS: Final = struct.Struct("iII")


def claim_all(cards: Iterable[Card]) -> ExitStack:
    """Each by its UUID; those that have none go by one name. Raises CannotRun."""
    with ExitStack() as held:
        for name in {f"{NAME} {card.uuid}" if card.is_named else NAME for card in cards}:
            held.enter_context(claim(name))
        return held.pop_all()


def claim(name: str) -> socket.socket:
    """Held while the socket is open. Raises CannotRun when another agent holds it."""
    claimed = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        claimed.bind(f"\0{name}")
        claimed.listen(1)
    except OSError:
        _step_aside(name, claimed)
    return claimed


def _step_aside(name: str, claimed: socket.socket) -> None:
    """Only for root and for our own user: no other may keep an agent from its work."""
    pid, uid = _holder(name)
    if uid in (0, os.getuid()):
        claimed.close()
        raise CannotRun(f"another agent (PID {pid}) runs on these GPUs: stop it first")
    log.warning("PID %d of user %d holds the name %s, and is not heeded", pid, uid, name)


def _holder(name: str) -> tuple[int, int]:
    """PID and user."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(CONNECT_S)
        asking.connect(f"\0{name}")
        found = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, uid, _ = CREDENTIALS.unpack(found)
    return pid, uid
