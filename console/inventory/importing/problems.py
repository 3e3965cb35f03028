"""What is wrong with a file, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from console.errors import Invalid

MAX_BYTES: Final = 64 << 20
# More lines than this in one message help nobody.
MAX_LISTED: Final = 20


@dataclass(frozen=True)
class Problem:
    """One thing that does not fit, and the line it stands on where that is known."""

    file: str
    line: int | None
    text: str

    def __str__(self) -> str:
        return f"{self.file}{f' line {self.line}' if self.line else ''}: {self.text}"


class Malformed(Invalid):
    """The file does not fit; `problems` names every line. Nothing was imported."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        count = f"{len(problems)} lines do" if len(problems) > 1 else "One line does"
        shown = [str(problem) for problem in problems[:MAX_LISTED]]
        if len(problems) > MAX_LISTED:
            shown.append(f"… {len(problems) - MAX_LISTED} more")
        super().__init__("\n".join([f"{count} not fit, so nothing was imported.", *shown]))
        self.problems = tuple(problems)


def read_bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise Invalid(f"{path} is larger than {MAX_BYTES >> 20} MiB; split it by pool.")
        return path.read_bytes()
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}.") from error


def text_of(data: bytes, name: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise Malformed([Problem(name, line, "this is not UTF-8 text")]) from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise Malformed([Problem(name, line, "this is not text: it holds a zero byte")])
    return text
