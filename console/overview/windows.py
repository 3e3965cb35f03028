"""How much of the past the charts show. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final


@dataclass(frozen=True)
class Window:
    """One choice. Samples are joined per `bucket` (`minute`, `hour`; empty: as they came) and read
    again every `poll_s`.
    """

    key: str
    word: str
    span: timedelta
    bucket: str
    poll_s: int


WINDOWS: Final = (
    Window("15m", "15 min", timedelta(minutes=15), "", 2),
    Window("1h", "1 h", timedelta(hours=1), "", 5),
    Window("24h", "24 h", timedelta(hours=24), "minute", 30),
    Window("14d", "14 d", timedelta(days=14), "hour", 60),
    Window("90d", "90 d", timedelta(days=90), "hour", 60),
)


def chosen(key: str, oldest: datetime | None, now: datetime) -> Window:
    """The window that the address names, else the smallest that holds the whole history."""
    history = now - oldest if oldest else timedelta()
    named = next((window for window in WINDOWS if window.key == key), None)
    return named or next((w for w in WINDOWS if history <= w.span), WINDOWS[-1])
