"""Events of an agent as lines that a person reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from agents.wire.names import EventKind, GpuState
from console import figures, looks
from console.telemetry.models import NodeEvent


@dataclass(frozen=True)
class Happening:
    """One line: `state` of `kind` gives the glyph (console.looks), `what` is bold."""

    at: datetime
    gpu_id: int | None
    gpu_index: int | None
    state: str
    kind: str
    what: str
    why: str


def happening(event: NodeEvent) -> Happening:
    """Select `gpu` with the event."""
    state, kind, what = _TOLD[EventKind(event.kind)](event.data)
    index = event.gpu.index if event.gpu else None
    why = str(event.data.get("why", ""))
    return Happening(event.at, event.gpu_id, index, state, kind, what, why)


Told = tuple[str, str, str]


def _transition(data: Mapping[str, Any]) -> Told:
    before, after = (str(data.get(key, "")) for key in ("from", "to"))
    state = after if after in looks.GPU else GpuState.INIT
    return state, "gpu", f"{_word(before)} → {_word(after)}"


def _word(state: str) -> str:
    return looks.GPU[state].word if state in looks.GPU else state


def _frozen(data: Mapping[str, Any]) -> Told:
    reaction_ms = data.get("reaction_ms")
    if isinstance(reaction_ms, int | float):
        return GpuState.GUARDED, "gpu", f"Offline frozen after {figures.span(reaction_ms / 1000)}"
    return GpuState.GUARDED, "gpu", "Offline frozen"


def _ended(data: Mapping[str, Any]) -> Told:
    return "ENDED", "placement", f"Job {str(data.get('reason', 'ended')).replace('_', ' ')}"


def _degraded(data: Mapping[str, Any]) -> Told:
    missing = data.get("missing")
    names = ", ".join(map(str, missing)) if isinstance(missing, list | tuple) else "some"
    return GpuState.UNHEALTHY, "gpu", f"Signals missing: {names}"


def _plain(state: str, kind: str, what: str) -> Callable[[Mapping[str, Any]], Told]:
    return lambda data: (state, kind, what)


_TOLD: Final[Mapping[EventKind, Callable[[Mapping[str, Any]], Told]]] = {
    EventKind.TRANSITION: _transition,
    EventKind.FROZEN: _frozen,
    EventKind.THAWED: _plain(GpuState.HEALTHY, "gpu", "Offline goes on"),
    EventKind.PLACEMENT_STARTED: _plain("RUNNING", "placement", "Job started"),
    EventKind.PLACEMENT_ENDED: _ended,
    EventKind.EVICTION_STARTED: _plain(GpuState.OVERLIMIT, "gpu", "The agent evicts"),
    EventKind.EVICTION_PHASE: _plain(GpuState.COOLDOWN, "gpu", "A stop goes on"),
    EventKind.EVICTION_STUCK: _plain(GpuState.OVERLIMIT, "gpu", "A stop is stuck"),
    EventKind.EVICTION_PROPOSED: _plain(
        GpuState.UNHEALTHY, "gpu", "The agent asks for an eviction"
    ),
    EventKind.EVICTION_FAILED: _plain(GpuState.DISABLED, "gpu", "A stop failed"),
    EventKind.GPU_FAULT: _plain("RECOVERING", "fault", "GPU fault"),
    EventKind.JOB_PROFILED: _plain("RUNNING", "placement", "Job measured"),
    EventKind.DEGRADED: _degraded,
    EventKind.GAP: _plain(GpuState.UNHEALTHY, "gpu", "Events were lost"),
}
