"""How each state looks: its word, its glyph and its tone. Pages, charts and maps ask here.

A tone is a CSS class `is-<tone>` (static/css/tokens.css); colour never stands without the glyph
and the word. The glyph's outlines are shared with the canvas through static/js/glyphs.js, and a
test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from agents.wire.names import GpuState, Phase, PlacementState, SharingMode


class Look(NamedTuple):
    """`glyph` is a key of GLYPHS, `tone` the end of a CSS class."""

    word: str
    tone: str
    glyph: str


# Outlines in a 16 × 16 box, filled with the even-odd rule.
GLYPHS: Final[Mapping[str, str]] = {
    "disc": "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11z",
    "half": "M8 2a6 6 0 1 0 0 12a6 6 0 0 0 0-12zM8 3.8a4.2 4.2 0 0 1 0 8.4z",
    "bars": "M3.5 2.5h3.2v11H3.5zM9.3 2.5h3.2v11H9.3z",
    "triangle": "M8 1.2L15.4 14.4H.6zM7.1 5.8h1.8v4.4H7.1zM7.1 11.2h1.8v1.7H7.1z",
    "hourglass": "M3 1.5h10v2.2L9.6 8l3.4 4.3v2.2H3v-2.2L6.4 8 3 3.7z",
    "diamond": "M8 .6L15.4 8 8 15.4.6 8zM7.1 4.4h1.8v4.4H7.1zM7.1 10h1.8v1.8H7.1z",
    "barred": "M2 2h12v12H2zM4 4h8v8H4zM4.4 10.2l5.8-5.8 1.4 1.4-5.8 5.8z",
    "ring": "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 3.8a4.2 4.2 0 1 0 0 8.4a4.2 4.2 0 0 0 0-8.4z",
    "cross": "M3.4 2L8 6.6 12.6 2 14 3.4 9.4 8l4.6 4.6-1.4 1.4L8 9.4 3.4 14 2 12.6 6.6 8 2 3.4z",
    "tick": "M6.2 13.2L1.4 8.4 2.9 6.9l3.3 3.3 6.9-7 1.5 1.5z",
    "dash": "M2.5 6.9h11v2.2h-11z",
    "arrows": "M1.5 4h8.2V1.2L14.5 5 9.7 8.8V6H1.5zM14.5 10H6.3V7.2L1.5 11l4.8 3.8V12h8.2z",
}

GPU: Final[Mapping[str, Look]] = {
    GpuState.HEALTHY: Look("Healthy", "healthy", "disc"),
    GpuState.UNHEALTHY: Look("Busy", "busy", "half"),
    GpuState.GUARDED: Look("Guarded", "guarded", "bars"),
    GpuState.OVERLIMIT: Look("Overloaded", "overloaded", "triangle"),
    GpuState.COOLDOWN: Look("Cooling down", "cooling", "hourglass"),
    GpuState.DISABLED: Look("Disabled", "disabled", "barred"),
    GpuState.INIT: Look("Starting", "starting", "ring"),
    "QUARANTINED": Look("Hardware suspect", "suspect", "diamond"),
    "NO_DATA": Look("No live data", "unknown", "cross"),
}
# What a state means for offline work, beside its word where there is room.
GPU_MEANING: Final[Mapping[str, str]] = {
    GpuState.HEALTHY: "takes offline work",
    GpuState.UNHEALTHY: "no new offline work",
    GpuState.GUARDED: "offline frozen",
    GpuState.OVERLIMIT: "evicting",
    GpuState.COOLDOWN: "after an eviction",
    GpuState.DISABLED: "by a person",
    GpuState.INIT: "not judged yet",
    "QUARANTINED": "no work until cleared",
    "NO_DATA": "stale or unreachable",
}

PLACEMENT: Final[Mapping[str, Look]] = {
    PlacementState.DESIRED: Look("Wanted", "starting", "ring"),
    PlacementState.STARTING: Look("Starting", "starting", "ring"),
    PlacementState.RUNNING: Look("Running", "healthy", "disc"),
    PlacementState.FROZEN: Look("Frozen", "guarded", "bars"),
    PlacementState.STOPPING: Look("Stopping", "cooling", "hourglass"),
    PlacementState.UNKNOWN: Look("Unknown", "unknown", "cross"),
    PlacementState.ENDED: Look("Ended", "disabled", "tick"),
}

JOB: Final[Mapping[str, Look]] = {
    "PENDING": Look("Pending", "starting", "ring"),
    "PROFILING": Look("Profiling", "cooling", "hourglass"),
    "QUEUED": Look("Queued", "starting", "ring"),
    "PLACED": Look("Placed", "healthy", "disc"),
    "SUCCEEDED": Look("Succeeded", "healthy", "tick"),
    "FAILED": Look("Failed", "overloaded", "triangle"),
    "CANCELLED": Look("Cancelled", "disabled", "barred"),
    # Queued, and in no round: it faulted.
    "HELD": Look("Held", "busy", "bars"),
}

EVICTION: Final[Mapping[str, Look]] = {
    "PROPOSED": Look("Waits for a decision", "busy", "half"),
    "APPROVED": Look("Approved", "guarded", "tick"),
    "DISPATCHED": Look("Sent", "guarded", "arrows"),
    "STOPPING": Look("Stopping", "guarded", "bars"),
    "STUCK": Look("Stuck", "overloaded", "triangle"),
    "COMPLETED": Look("Done", "healthy", "tick"),
    "REJECTED": Look("Kept running", "disabled", "disc"),
    "EXPIRED": Look("Expired", "disabled", "hourglass"),
    "SUPERSEDED": Look("Superseded", "disabled", "arrows"),
    "FAILED": Look("Failed", "overloaded", "triangle"),
}

# The moves of a round as one.
PLAN: Final[Mapping[str, Look]] = {
    "PROPOSED": Look("Waits for a decision", "busy", "half"),
    "APPROVED": Look("Approved", "guarded", "tick"),
    "REJECTED": Look("Rejected", "disabled", "barred"),
    "EXPIRED": Look("Expired", "disabled", "hourglass"),
    "SETTLED": Look("Decided one by one", "disabled", "arrows"),
}

FAULT: Final[Mapping[str, Look]] = {
    "RECOVERING": Look("Recovering", "overloaded", "triangle"),
    "RECOVERED": Look("Online is back", "healthy", "tick"),
    "NOT_RECOVERED": Look("Online not back", "suspect", "diamond"),
    "OVER": Look("Over", "disabled", "barred"),
}

# Which side of a shared GPU a process is on: no state, so it has no colour.
SIDE: Final[Mapping[str, Look]] = {
    "online": Look("Online", "starting", "disc"),
    "offline": Look("Offline", "starting", "ring"),
    "unknown": Look("Unknown", "starting", "dash"),
}

NODE: Final[Mapping[str, Look]] = {
    "ENROLLED": Look("Enrolled", "starting", "ring"),
    "CONNECTED": Look("Connected", "healthy", "disc"),
    "STALE": Look("Stale", "busy", "half"),
    "LOST": Look("Lost", "unknown", "cross"),
    "CORDONED": Look("Cordoned", "disabled", "barred"),
    "DRAINING": Look("Draining", "cooling", "hourglass"),
    "IMPORTED": Look("Imported", "starting", "ring"),
}

MODE: Final[Mapping[str, Look]] = {
    SharingMode.OFF: Look("Off", "disabled", "barred"),
    SharingMode.OBSERVE: Look("Observe", "starting", "ring"),
    SharingMode.SHADOW: Look("Shadow", "guarded", "half"),
    SharingMode.ENFORCE: Look("Enforce", "healthy", "disc"),
}

RUN: Final[Mapping[str, Look]] = {
    "QUEUED": Look("Waiting", "starting", "ring"),
    "RUNNING": Look("Running", "guarded", "arrows"),
    "SUCCEEDED": Look("Done", "healthy", "tick"),
    "FAILED": Look("Failed", "overloaded", "triangle"),
    "CANCELLED": Look("Cancelled", "disabled", "barred"),
}

VERSION: Final[Mapping[str, Look]] = {
    "CANDIDATE": Look("Candidate", "starting", "ring"),
    "ACTIVE": Look("In force", "healthy", "disc"),
    "RETIRED": Look("Retired", "disabled", "hourglass"),
    "REJECTED": Look("Not better", "disabled", "barred"),
}

ORIGIN: Final[Mapping[str, Look]] = {
    "emergency": Look("Emergency", "overloaded", "triangle"),
    "overload": Look("Overload", "overloaded", "triangle"),
    "slo": Look("SLO exceeded", "overloaded", "triangle"),
    "move": Look("Move", "guarded", "arrows"),
    "preempt": Look("Preempt", "guarded", "arrows"),
    "drain": Look("Drain", "cooling", "hourglass"),
    "policy": Look("Policy", "busy", "half"),
    "stop_sharing": Look("Stop sharing", "busy", "bars"),
    "cancel": Look("Cancelled", "disabled", "barred"),
}

PHASES: Final[Mapping[str, str]] = {
    Phase.ACCEPTED: "Accepted",
    Phase.SIGNALLED: "Signalled",
    Phase.CHECKPOINTED: "Checkpointed",
    Phase.GATED: "Gated",
    Phase.QUIESCED: "Quiesced",
    Phase.RELEASED: "Released",
    Phase.GONE: "Gone",
    Phase.MEMORY_RETURNED: "Memory returned",
}

LOOKS: Final[Mapping[str, Mapping[str, Look]]] = {
    "gpu": GPU,
    "placement": PLACEMENT,
    "job": JOB,
    "eviction": EVICTION,
    "plan": PLAN,
    "node": NODE,
    "mode": MODE,
    "run": RUN,
    "version": VERSION,
    "origin": ORIGIN,
    "fault": FAULT,
    "side": SIDE,
}


def look(state: str, kind: str = "gpu") -> Look:
    """Raises KeyError naming the state when `kind` has no such state."""
    try:
        return LOOKS[kind][state]
    except KeyError:
        raise KeyError(f"No look for {kind} state {state!r}; add it to console/looks.py") from None
