"""What an eviction rests on, as facts with their units.

Rules write `signal`, `value` and `limit` in policy units; a move writes what it gains and costs
(`workers/matching/decide.py`): speeds as a share of a whole card, times of the world clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from agents.wire.names import Signal
from console import figures
from console.evictions.models import Eviction
from console.policies import words as policy_words


def _share(value: float) -> str:
    return figures.quantity(value * 100, "%")


def _gpus(value: float) -> str:
    return figures.signed(value, "GPU", 2)


_MOVE: Final[tuple[tuple[str, str, Callable[[float], str]], ...]] = (
    ("throughput_now", "Speed here, of a whole card", _share),
    ("throughput_there", "Speed there", _share),
    ("gain", "Gain", _gpus),
    ("least_gain", "Least gain that the policy asks for", _gpus),
    ("cost_work_s", "Work that the restart costs", figures.span),
    ("pays_back_s", "Pays back in", figures.span),
    ("left_work_s", "Work left", figures.span),
)


def facts(eviction: Eviction) -> list[tuple[str, str]]:
    """Word and value, only of what is known."""
    found = [*_signal(eviction.evidence), *_gains(eviction.evidence)]
    if eviction.reaction_ms is not None:
        found.append(("Held after", figures.quantity(eviction.reaction_ms, "ms")))
    if eviction.round_id:
        found.append(("Proposed by", f"round {eviction.round_id}"))
    if eviction.evidence.get("policy"):
        found.append(("Under", eviction.evidence["policy"]))
    return found


def _signal(known: dict[str, Any]) -> list[tuple[str, str]]:
    named = known.get("signal")
    if named not in set(policy_words.SIGNALS):
        return []
    words = policy_words.SIGNALS[Signal(named)]
    path = f"thresholds.{named}.upper"
    return [
        (f"{words.name}, {word}", policy_words.shown(path, known[key]))
        for key, word in (("value", "measured"), ("limit", "limit"))
        if isinstance(known.get(key), int | float)
    ]


def _gains(known: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (word, shown(known[key]))
        for key, word, shown in _MOVE
        if isinstance(known.get(key), int | float)
    ]
