"""Ask the simulated fleet for a fault, over its Unix socket."""

from __future__ import annotations

import socket

import msgspec

from agents.wire import faults
from console.env import env_str
from console.errors import Unavailable

TIMEOUT_S = 3.0


def ask(fault: faults.Fault) -> str:
    """The fleet's own words of what it did. Raises Unavailable when it refuses or is away."""
    try:
        answer = faults.decode_answer(_exchange(faults.encode(fault)))
    except (OSError, msgspec.DecodeError) as error:
        raise Unavailable(f"The simulated fleet does not answer ({error}); try again.") from error
    if not answer.ok:
        raise Unavailable(f"The simulated fleet refused: {answer.error}")
    return answer.detail


def _exchange(line: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect(env_str("MUXFLOW_DEMO_FAULTS", "var/demo/faults.sock"))
        connection.sendall(line)
        with connection.makefile("rb") as answers:
            return answers.readline(65_536)
