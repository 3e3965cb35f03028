"""What of a running job's limits waits for its next start, in words. Pure."""

from __future__ import annotations

from typing import Protocol


class HasLimits(Protocol):
    """A placement."""

    pending_sm_share_percent: float | None
    pending_why: str
    duty_percent: float | None


def sentence(placement: HasLimits) -> str:
    """`45 % of the SMs at the next start; until then duty 80 %.`; empty when nothing waits."""
    share = placement.pending_sm_share_percent
    if share is None:
        return ""
    until = (
        "" if placement.duty_percent is None else f"; until then duty {placement.duty_percent:g} %"
    )
    return f"{share:g} % of the SMs at the next start{until}. {placement.pending_why}".strip()
