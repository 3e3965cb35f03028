"""Where the profile of a job comes from, told to its owner. Pure."""

from __future__ import annotations

from typing import Final

_GIVEN: Final = {"imported": "imported with the job"}
_UNDER_WAY: Final = {
    "PENDING": "assumed, until it is measured",
    "PROFILING": "assumed; it is being measured now",
}


def origin(source: str, state: str, gpu_model: str, why: str, job_source: str = "") -> str:
    """`measured on A10 (node-07 / GPU 3)`, to stand before its age."""
    match source:
        case "measured":
            return f"measured on {gpu_model} ({why.removeprefix('on ')})"
        case "history":
            return f"measured on {gpu_model}, of a job like it ({why.removeprefix('on ')})"
        case "conservative":
            return _UNDER_WAY.get(state) or f"conservative: {why or 'nobody has measured it'}"
    return _GIVEN.get(job_source, "given by the submitter")


def note(source: str, state: str) -> str:
    """What follows from where it comes from, "" where nothing does."""
    if source == "conservative" and state not in _UNDER_WAY:
        return (
            "It counts as a job that uses all of a GPU, so it waits longer, and never runs beside a"
            " tier 1 service. It is measured as soon as it runs on a GPU of its own."
        )
    return ""
