"""What a node's report says of an eviction. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from agents.wire.messages import Event as NodeReport
from agents.wire.names import Phase
from console.evictions import lifecycle


def why(report: NodeReport) -> str:
    return str(report.data.get("why", ""))


def evidence(report: NodeReport) -> dict[str, Any]:
    """What it rests on, in policy units."""
    return {key: report.data[key] for key in ("signal", "value", "limit") if key in report.data}


def moment(report: NodeReport, now: datetime) -> datetime:
    """The agent's time, but never in our future."""
    return min(datetime.fromtimestamp(report.at, UTC), now)


def phase_facts(
    report: NodeReport, reached: str, freed_bytes: int | None, memory_bytes: int | None
) -> dict[str, Any]:
    """What a phase adds to a row that has `reached` so far; late ones do not undo newer facts.

    `memory_bytes` is what the job held when last seen, for a node that does not say.
    """
    phase = Phase(report.data["phase"])
    furthest = lifecycle.furthest(reached, phase)
    facts: dict[str, Any] = {"phase": furthest}
    if furthest is phase and report.data.get("lost_work_s") is not None:
        facts["lost_work_s"] = report.data["lost_work_s"]
    if phase is Phase.MEMORY_RETURNED and freed_bytes is None:
        facts["freed_bytes"] = report.data.get("memory_bytes") or memory_bytes
    return facts
