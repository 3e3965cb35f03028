"""Prometheus' text format and OpenMetrics, written for hundreds of thousands of lines. Pure.

Processes write theirs with prometheus_client; it makes an object of each line, which for the
series of a whole fleet takes seconds. Both formats share their lines, which are made once.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from struct import pack
from typing import Final

# Lines repeat their labels: higher levels take several times as long for a few percent.
_LEVEL: Final = 1


class Kind(StrEnum):
    COUNTER = "counter"  # its name ends in _total
    GAUGE = "gauge"
    INFO = "info"  # its name ends in _info, its value is 1


class Format(StrEnum):
    TEXT = "text"
    OPENMETRICS = "openmetrics"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: `labels[i]`, written by `labels()`, has `values[i]`.

    What is not a finite number is not known and has no line: missing is never 0.
    """

    name: str
    kind: Kind
    help: str
    labels: Sequence[str]
    values: Sequence[float]


def labels(pairs: Mapping[str, str]) -> str:
    """`{node="a",pool="b"}`; nothing where there are none."""
    inner = ",".join([f'{key}="{_quoted(value)}"' for key, value in pairs.items()])
    return f"{{{inner}}}" if inner else ""


def with_label(given: str, key: str, value: str) -> str:
    """What `labels()` wrote, with one more."""
    return f'{given[:-1]},{key}="{_quoted(value)}"}}'


def render(families: Iterable[Family]) -> dict[Format, bytes]:
    """The page in each format, gzip. No more of it than one metric is held in plain."""
    pages = {form: _Gzip() for form in Format}
    for family in families:
        if lines := _lines(family).encode():
            packed = _deflated(lines)
            for form, page in pages.items():
                page.add(_head(family, form).encode())
                page.add(lines, packed)
    pages[Format.OPENMETRICS].add(b"# EOF\n")
    return {form: page.end() for form, page in pages.items()}


class _Gzip:
    """A gzip file of pieces that were compressed by themselves: what both formats share, and that
    is nearly all of a page, is compressed once. RFC 1952."""

    def __init__(self) -> None:
        self._file = bytearray(b"\x1f\x8b\x08" + bytes(6) + b"\xff")
        self._crc = self._size = 0

    def add(self, plain: bytes, packed: bytes | None = None) -> None:
        self._file += packed or _deflated(plain)
        self._crc = zlib.crc32(plain, self._crc)
        self._size += len(plain)

    def end(self) -> bytes:
        empty_last_block = b"\x03\x00"
        return bytes(self._file + empty_last_block + pack("<II", self._crc, self._size % (1 << 32)))


def _deflated(plain: bytes) -> bytes:
    """Whole blocks that refer to nothing before them, so that others may follow (RFC 1951)."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(plain) + packer.flush(zlib.Z_FULL_FLUSH)


def _lines(family: Family) -> str:
    name = family.name
    return "".join(
        [
            f"{name}{labels} {value:.15g}\n"
            for labels, value in zip(family.labels, family.values, strict=True)
            if isfinite(value)
        ]
    )


def _head(family: Family, form: Format) -> str:
    """OpenMetrics names a counter or a fact without its suffix; the text format knows no facts."""
    name, kind = family.name, family.kind
    if form is Format.OPENMETRICS:
        name = name.removesuffix("_total" if kind is Kind.COUNTER else f"_{Kind.INFO}")
        return f"# TYPE {name} {kind}\n# HELP {name} {_quoted(family.help)}\n"
    kind = Kind.GAUGE if kind is Kind.INFO else kind
    return f"# HELP {name} {_escaped(family.help)}\n# TYPE {name} {kind}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")
