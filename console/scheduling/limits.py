"""The limits of a running job, and the load that they answer to. Pure."""

from __future__ import annotations

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
class Load:
    """What online needs: its recent peak and what the policy keeps in reserve, in percent."""

    peak: float
    reserve: float
