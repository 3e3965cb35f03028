"""A policy as a form: fields with their words, and back. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agents.wire.names import AGENT_ORIGINS, Origin, Signal
from console.errors import Invalid
from console.policies import rules, words
from console.policies.rules import Bounds, Default, Mode, PolicyBody


@dataclass(frozen=True)
class Field:
    """One input. `value` is as typed or shown, `was` as it is in the version in force."""

    path: str
    label: str
    value: str
    was: str
    unit: str
    low: float
    high: float
    step: str
    error: str = ""

    @property
    def changed(self) -> bool:
        return self.value != self.was


@dataclass(frozen=True)
class ThresholdRow:
    signal: Signal
    words: words.SignalWords
    lower: Field
    upper: Field
    lower_dwell: Field
    upper_dwell: Field
    required: bool

    @property
    def fields(self) -> tuple[Field, ...]:
        return (self.lower, self.upper, self.lower_dwell, self.upper_dwell)

    @property
    def is_reversed(self) -> bool:
        return words.is_reversed(self.signal)

    @property
    def ticks(self) -> list[int]:
        low, high = self.words.low, self.words.high
        return [round(low + (high - low) * quarter / 4) for quarter in range(5)]


@dataclass(frozen=True)
class LaneRow:
    origin: Origin
    name: str
    mode: Field
    default: Field
    budget: Field
    deadline: Field
    undo: Field
    silent: Field

    @property
    def asks(self) -> bool:
        """Whether a rule may wish for it; else somebody has decided, and only undo is left."""
        return self.origin in rules.RULE_ORIGINS

    @property
    def fields(self) -> tuple[Field, ...]:
        return (self.mode, self.default, self.budget, self.deadline, self.undo, self.silent)


@dataclass(frozen=True)
class Form:
    """All rows in the order of the page."""

    thresholds: Sequence[ThresholdRow]
    lanes: Sequence[LaneRow]
    scalars: Sequence[Field]
    placing: Sequence[Field]
    errors: Mapping[str, str]


NO_BOUNDS: Final = Bounds(0, 0, "")
CHOICES: Final = {
    "mode": ((Mode.AUTOMATIC.value, "Automatic"), (Mode.PERSON.value, "Waits for a person")),
    "default": ((Default.RUN.value, "It runs"), (Default.KEEP.value, "It is dropped")),
}


def build(
    body: PolicyBody,
    was: PolicyBody,
    typed: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
) -> Form:
    """The form that shows `body`, or what was `typed` into it, beside the version in force."""
    sheet = _Sheet(rules.flat(body), rules.flat(was), typed or {}, errors or {})
    required = {signal: threshold.required for signal, threshold in body.thresholds.items()}
    return Form(
        thresholds=[sheet.threshold(signal, needed) for signal, needed in required.items()],
        lanes=[sheet.lane(origin) for origin in body.lanes if origin not in AGENT_ORIGINS],
        scalars=[sheet.number(path) for path in words.SCALARS],
        placing=[sheet.number(path) for path in words.PLACING],
        errors=sheet.errors,
    )


@dataclass(frozen=True)
class _Sheet:
    """Values by path: as they are, as they were, as typed, and what is wrong with them."""

    flat: Mapping[str, Any]
    before: Mapping[str, Any]
    typed: Mapping[str, str]
    errors: Mapping[str, str]

    def threshold(self, signal: Signal, required: bool) -> ThresholdRow:
        path = f"thresholds.{signal}"
        return ThresholdRow(
            signal=signal,
            words=words.SIGNALS[signal],
            lower=self.number(f"{path}.lower"),
            upper=self.number(f"{path}.upper"),
            lower_dwell=self.number(f"{path}.lower_dwell_s"),
            upper_dwell=self.number(f"{path}.upper_dwell_s"),
            required=required,
        )

    def lane(self, origin: Origin) -> LaneRow:
        path = f"lanes.{origin}"
        return LaneRow(
            origin=origin,
            name=words.ORIGINS[origin],
            mode=self.choice(f"{path}.mode"),
            default=self.choice(f"{path}.default"),
            budget=self.number(f"{path}.budget_per_hour"),
            deadline=self.number(f"{path}.deadline_s"),
            undo=self.number(f"{path}.undo_s"),
            silent=self.number(f"{path}.silent_s"),
        )

    def number(self, path: str) -> Field:
        bounds, scale = words.bounds_of(path)
        step = "1" if _is_whole(path) else "any"
        value = self.typed.get(path, _text(self.flat.get(path), scale))
        was = _text(self.before.get(path), scale)
        return self._field(path, value, was, bounds, step)

    def choice(self, path: str) -> Field:
        value = self.typed.get(path, str(self.flat.get(path, "")))
        return self._field(path, value, str(self.before.get(path, "")), NO_BOUNDS, "")

    def _field(self, path: str, value: str, was: str, bounds: Bounds, step: str) -> Field:
        return Field(
            path=path,
            label=words.label(path),
            value=value,
            was=was,
            unit=bounds.unit,
            low=bounds.low,
            high=bounds.high,
            step=step,
            error=self.errors.get(path, ""),
        )


def read(posted: Mapping[str, str], base: PolicyBody) -> PolicyBody:
    """`base` with what was posted. Raises Invalid with the errors by field."""
    flat, errors = rules.flat(base), dict[str, str]()
    for path, now in flat.items():
        if path in posted:
            try:
                flat[path] = _value(path, posted[path].strip(), now)
            except ValueError as error:
                errors[path] = str(error)
    if errors:
        raise Invalid("Some values cannot be read.", errors)
    return rules.parse(_nested(flat))


def _value(path: str, text: str, now: Any) -> Any:
    if path.endswith(_NO_LIMIT):
        return (
            _count(text, "write a whole number, or leave it empty for no limit") if text else None
        )
    if isinstance(now, str):
        return text
    if _is_whole(path):
        return _count(text, "write a whole number")
    _, scale = words.bounds_of(path)
    return _number(text) / scale


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("write a number") from None
    if not math.isfinite(value):
        raise ValueError("write a number")
    return value


def _count(text: str, otherwise: str) -> int:
    value = _number(text)
    if not value.is_integer():
        raise ValueError(otherwise)
    return int(value)


# The one number that may be left out.
_NO_LIMIT: Final = "budget_per_hour"


def _is_whole(path: str) -> bool:
    return path.endswith(_NO_LIMIT) or path in rules.WHOLE


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, leaf = path.split(".")
        here = tree
        for parent in parents:
            here = here.setdefault(parent, {})
        here[leaf] = value
    return tree


def _text(value: Any, scale: float) -> str:
    """Without the noise of floating point: 91, 1.5."""
    return "" if value is None else f"{round(float(value) * scale, 4):g}"
