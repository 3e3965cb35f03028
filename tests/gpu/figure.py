"""What a step has to say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class Missing(Exception):
    """What a step needs and this machine lacks."""


class Failed(Exception):
    """What xCUDA, or the step itself, did wrong."""


@dataclass(frozen=True)
class Figure:
    """One sentence for a person, and what stands behind it."""

    text: str
    values: dict[str, Any] = field(default_factory=dict)


def expect(true: bool, otherwise: str) -> None:
    """Raises Failed."""
    if not true:
        raise Failed(otherwise)
