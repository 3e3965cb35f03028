"""A fault in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from console import figures
from console.faults.story import Process, Side, State

NAMED: Final = 2


def name(process: Process) -> str:
    """Its job or service, else its number on the node."""
    if process.name:
        return process.name
    return "a process without a number" if process.pid is None else f"process {process.pid}"


def title(first: Process | None) -> str:
    """`resnet-31 faulted first`."""
    return f"{name(first)} faulted first" if first else "Who faulted first is not known"


def sentence(
    first: Process | None, first_by: str, code: int | None, others: Sequence[Process]
) -> str:
    """`resnet-31 faulted first (code 700, named by its report); search-rank was hit by it.`"""
    told = [f"code {code}"] if code is not None else []
    if first_by:
        told.append(f"named by {first_by}")
    details = f" ({', '.join(told)})" if told else ""
    hit = f"{who(others)} {'were' if len(others) > 1 else 'was'} hit by it"
    return f"{title(first)}{details}; {hit if others else 'nobody else was hit by it'}."


def who(processes: Sequence[Process]) -> str:
    """`search-rank and 1 other`: online first, for that is the harm."""
    names = [name(one) for one in sorted(processes, key=lambda one: one.side != Side.ONLINE)]
    named, rest = names[:NAMED], len(names) - NAMED
    if rest > 0:
        named.append(f"{rest} other{'s' if rest > 1 else ''}")
    return " and ".join([", ".join(named[:-1]), named[-1]] if named[1:] else named)


def outcome(state: State, recovered_s: float | None) -> str:
    """`Online was back after 3.2 s`."""
    if recovered_s is not None:
        return f"Online was back after {figures.span(recovered_s)}"
    return {
        State.RECOVERING: "The node is recovering",
        State.NOT_RECOVERED: "Online did not come back by itself",
    }.get(state, "No online process was hit")
