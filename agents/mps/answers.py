"""What `nvidia-cuda-mps-control` prints, read. Pure.

The program has no stable output format: headers, blank lines and notes come and go between
drivers. So each reader takes what it knows, leaves the rest, and refuses only when nothing is
left. No reader trusts a number: a PID is one only within what a kernel gives out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# 2^22: the highest PID that a 64-bit Linux kernel can be set to give out.
MAX_PID: Final = 1 << 22
MIN_BYTES: Final = 1 << 20
MAX_BYTES: Final = 1 << 50
# More clients than any driver lets on one GPU; what is beyond is not an answer.
MAX_ROWS: Final = 4_096
QUOTED_CHARS: Final = 200

_REFUSALS: Final = re.compile(
    r"\b(fail\w*|error|invalid|unknown|unrecogni[sz]ed|cannot|can't|unable|denied|refus\w+|"
    r"unsupported|not (?:found|supported|ready|permitted|allowed))\b",
    re.IGNORECASE,
)
_STATUS: Final = re.compile(r"\b(INITIALIZING|ACTIVE|FAULT)\b")
_SIZE: Final = re.compile(r"\b(?:0x([0-9a-f]{1,16})|(\d{1,18})\s*([kmg])?b?)\b", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_COLUMNS: Final = ("PID", "ID", "SERVER", "DEVICE", "NAMESPACE", "COMMAND")


class BadAnswer(ValueError):
    """The answer is not one to the question; the text quotes it."""


class Refused(BadAnswer):
    """The daemon understood and would not, or could not."""


class Status(StrEnum):
    """What a server says of itself."""

    INITIALIZING = "INITIALIZING"
    ACTIVE = "ACTIVE"
    FAULT = "FAULT"


@dataclass(frozen=True, slots=True)
class Client:
    """One client of a server. `device` is a GPU's UUID, perhaps cut short; "" when not told."""

    pid: int
    server_pid: int | None = None
    device: str = ""
    command: str = ""


def pids(text: str) -> tuple[int, ...]:
    """One PID a line, in order, each once; none at all is an answer too. Raises BadAnswer."""
    found = dict.fromkeys(pid for line in _lines(text) if (pid := _pid(line)) is not None)
    if not found and text.strip():
        raise _bad(text, "a list of PIDs")
    return tuple(found)


def status(text: str) -> Status:
    """Raises BadAnswer, also when it says two things."""
    said = set(_STATUS.findall(text))
    if len(said) != 1:
        raise _bad(text, "the status of a server")
    return Status(said.pop())


def clients(text: str) -> tuple[Client, ...]:
    """The rows of `ps`; a row that makes no sense is left out. Raises BadAnswer when no header
    and no row is there."""
    columns: tuple[str, ...] = _COLUMNS
    rows: list[Client] = []
    headed = False
    for line in _lines(text):
        words = line.split()
        if "PID" in words:
            columns, headed = tuple(words), True
        elif (row := _client(columns, line)) is not None:
            rows.append(row)
    if not rows and not headed and text.strip():
        raise _bad(text, "a list of clients")
    return tuple(rows)


def percentage(text: str) -> float:
    """Over 0, at most 100. Raises BadAnswer."""
    for word in re.findall(r"\d{1,6}(?:\.\d{1,6})?", text):
        if 0.0 < (value := float(word)) <= 100.0:
            return value
    raise _bad(text, "a percentage")


def size_bytes(text: str) -> int | None:
    """A memory limit; None where none is set. Raises BadAnswer."""
    if not text.strip() or re.search(r"\b(no|not|none|unlimited)\b", text, re.IGNORECASE):
        return None
    for hexadecimal, decimal, unit in reversed(_SIZE.findall(text)):
        value = int(hexadecimal, 16) if hexadecimal else int(decimal) * _UNITS[unit.lower()]
        if MIN_BYTES <= value <= MAX_BYTES:
            return value
    raise _bad(text, "a memory limit")


def priority(text: str) -> int:
    """0 is normal, 1 below normal. Raises BadAnswer."""
    match = re.search(r"\b([01])\b", text)
    if match is None:
        raise _bad(text, "a client priority")
    return int(match[1])


def done(text: str) -> None:
    """A command that only acts: silence, or anything that does not sound like a refusal.
    Raises Refused."""
    if _REFUSALS.search(text):
        raise Refused(f"the control daemon refused: {quoted(text)}")


def quoted(text: str) -> str:
    """The first words of an answer, fit for a log line."""
    flat = " ".join(text.split())
    printable = "".join(each if each.isprintable() else "·" for each in flat[:QUOTED_CHARS])
    return repr(printable + ("…" if len(flat) > QUOTED_CHARS else ""))


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines()[:MAX_ROWS] if line.strip())


def _pid(word: str) -> int | None:
    if not word.isascii() or not word.isdigit() or len(word) > len(str(MAX_PID)):
        return None
    return int(word) if 0 < int(word) <= MAX_PID else None


def _client(columns: tuple[str, ...], line: str) -> Client | None:
    """The command comes last and may hold spaces."""
    cells = dict(zip(columns, line.split(maxsplit=max(0, len(columns) - 1)), strict=False))
    pid = _pid(cells.get("PID", ""))
    if pid is None:
        return None
    server = _pid(cells.get("SERVER", ""))
    return Client(pid, server, cells.get("DEVICE", ""), cells.get("COMMAND", "")[:QUOTED_CHARS])


def _bad(text: str, wanted: str) -> BadAnswer:
    if _REFUSALS.search(text):
        return Refused(f"the control daemon refused to tell {wanted}: {quoted(text)}")
    return BadAnswer(f"not {wanted}: {quoted(text)}")


def checked_percentage(value: float) -> float:
    """Raises ValueError: MPS takes over 0, at most 100."""
    if not math.isfinite(value) or not 0.0 < value <= 100.0:
        raise ValueError(f"an active thread percentage is over 0 and at most 100, not {value}")
    return value
