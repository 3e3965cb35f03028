"""What every benchmark prints: a table for people, then one JSON object as its last line."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any


@dataclass(frozen=True)
class Goal:
    """`most` or `least` bounds the figure named `key`; `about` says in words what it is.

    A key with dots leads through the objects that hold the figure.
    """

    key: str
    about: str
    most: float | None = None
    least: float | None = None

    def met(self, value: float) -> bool:
        above = self.least is None or value >= self.least
        return above and (self.most is None or value <= self.most)

    @property
    def words(self) -> str:
        if self.most == self.least:
            return f"= {self.most:g}"
        if self.most is not None and self.least is not None:
            return f"{self.least:g} to {self.most:g}"
        return f"≤ {self.most:g}" if self.most is not None else f"≥ {self.least:g}"


def show(figures: Mapping[str, Any], goals: Sequence[Goal]) -> None:
    """`figures` has a number for each goal, and whatever else is worth keeping with them."""
    for goal in goals:
        value = reduce(lambda held, name: held[name], goal.key.split("."), figures)
        verdict = "" if goal.met(value) else "   missed"
        print(f"{goal.about:58} {value:>12.4g}   goal {goal.words}{verdict}")
    print(json.dumps({**machine(), **figures}))


def machine() -> dict[str, Any]:
    return {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
    }
