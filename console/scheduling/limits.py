"""The limits of a running job, and what may become of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Percent. `started`: the share the client started with, None while nobody told it;
    `desired`: the share at its next start; `duty`: the cap from the console, None without one.
    """

    started: float | None
    desired: float
    duty: float | None


@dataclass(frozen=True)
class Renewed:
    """What a job gets from now on, and why a larger share waits; empty: none does.

    `restart`: what one gains and costs, when it pays back; None: nothing is to be gained by it.
    """

    limits: Limits
    pending_why: str = ""
    restart: Mapping[str, float] | None = None
