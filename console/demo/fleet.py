"""Ask the simulated fleet for a fault, over its Unix socket."""

from __future__ import annotations

import msgspec

from agents.wire import faults
from console.demo.lines import exchange
from console.env import env_str
from console.errors import Unavailable


def ask(fault: faults.Fault) -> str:
    """The fleet's own words of what it did. Raises Unavailable when it refuses or is away."""
    socket = env_str("MUXFLOW_DEMO_FAULTS", "var/demo/faults.sock")
    try:
        answer = faults.decode_answer(exchange(socket, faults.encode(fault)))
    except (OSError, msgspec.DecodeError) as error:
        raise Unavailable(f"The simulated fleet does not answer ({error}); try again.") from error
    if not answer.ok:
        raise Unavailable(f"The simulated fleet refused: {answer.error}")
    return answer.detail
