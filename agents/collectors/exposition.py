"""Prometheus' text format, read tolerantly: a line that makes no sense is passed over. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_LABEL: Final = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")
_NAME: Final = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")


@dataclass(frozen=True, slots=True)
class Sample:
    """One line. `value` may be an infinity or NaN, which the format allows."""

    name: str
    labels: Mapping[str, str]
    value: float


def samples(text: str, names: Iterable[str]) -> Iterator[Sample]:
    """The lines of the metrics named, in their order. Others cost next to nothing."""
    for match in _lines_of(names).finditer(text):
        value = _value(match[3])
        if value is not None:
            yield Sample(match[1], _labels(match[2] or ""), value)


def families(text: str) -> Mapping[str, str]:
    """The type of each metric that the text declares, by name."""
    return dict(re.findall(r"^# TYPE (\S+) (\w+)", text, re.MULTILINE))


def _lines_of(names: Iterable[str]) -> re.Pattern[str]:
    wanted = tuple(sorted(names))
    if wanted not in _patterns:
        one_of = "|".join(re.escape(name) for name in wanted) or r"(?!)"
        # A value in a label may hold braces, so the labels end at the last one of the line.
        _patterns[wanted] = re.compile(
            rf"^({one_of})(?:\{{(.*)\}})?[ \t]+(\S+)(?:[ \t]+\S+)*[ \t]*\r?$", re.MULTILINE
        )
    return _patterns[wanted]


# The names asked for are few: those of DCGM, and one metric of each service.
_patterns: Final[dict[tuple[str, ...], re.Pattern[str]]] = {}


def _labels(text: str) -> dict[str, str]:
    return {name: _unescaped(value) for name, value in _LABEL.findall(text)}


def _unescaped(value: str) -> str:
    if "\\" not in value:
        return value
    return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], value)


def _value(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None
