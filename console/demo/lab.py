"""Ask the machine of node 17 to end a real job, and what came of it."""

from __future__ import annotations

import msgspec

from agents.wire import lab
from agents.wire.lab import Press, Question, Said, Tell, Terminate
from console.demo.lines import exchange
from console.env import env_str
from console.errors import Unavailable


def terminate(*, under_xcuda: bool) -> str:
    """What was done. Raises Unavailable, with one sentence, when nothing was."""
    return _ask(Terminate(under_xcuda)).detail


def presses() -> tuple[Press, ...]:
    """The last of each kind. Raises Unavailable."""
    return _ask(Tell()).presses


def why_absent() -> str:
    """Why node 17 has no xCUDA and what to do about it, "" when it has."""
    return env_str("MUXFLOW_DEMO_WITHOUT_XCUDA")


def _ask(question: Question) -> Said:
    if why := why_absent():
        raise Unavailable(why)
    socket = env_str("MUXFLOW_DEMO_LAB", "var/demo/lab.sock")
    try:
        said = lab.decode_said(exchange(socket, lab.encode(question)))
    except (OSError, msgspec.DecodeError) as error:
        raise Unavailable(f"Node 17's machine does not answer ({error}); try again.") from error
    if said.error:
        raise Unavailable(said.error)
    return said
