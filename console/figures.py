"""Numbers, sizes and spans of time as people read them. Pure; a missing value stays missing.

The browser's twin, for values that change in place, is static/js/figures.js.
"""

from __future__ import annotations

from typing import Final

NO_DATA: Final = "no data"
# Between a number and its unit: a space that never breaks the line.
NBSP: Final = "\u00a0"

_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
MINUTE_S: Final = 60
HOUR_S: Final = 3600
DAY_S: Final = 86_400


def quantity(value: float | None, unit: str = "", digits: int = 0) -> str:
    """`1,395 MHz`; `no data` for None, which is never the same as 0."""
    if value is None:
        return NO_DATA
    text = f"{value:,.{digits}f}"
    if text.startswith("-"):
        text = f"\u2212{text[1:]}" if float(text.replace(",", "")) else text[1:]
    return f"{text}{NBSP}{unit}" if unit else text


def size(value_bytes: float | None, digits: int = 1) -> str:
    """`11.8 GiB`: binary units, the largest that keeps the number at 1 or above."""
    if value_bytes is None:
        return NO_DATA
    value, index = float(value_bytes), 0
    while abs(value) >= 1024 and index < len(_BINARY) - 1:
        value, index = value / 1024, index + 1
    return quantity(value, _BINARY[index], digits if index else 0)


def signed(value: float | None, unit: str = "", digits: int = 1) -> str:
    """`+18.5 points`, `−2 ms`: a change, which always shows its sign."""
    if value is None:
        return NO_DATA
    text = quantity(value, unit, digits)
    return f"+{text}" if round(value, digits) > 0 else text


def span(seconds: float | None) -> str:
    """`0.4 s`, `7 s`, `6 min`, `1 h 12 min`, `3 d 4 h`: how long something took or takes."""
    if seconds is None:
        return NO_DATA
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return quantity(seconds, "s", 0 if seconds == int(seconds) else 1)
    whole = round(seconds)
    if whole < 90:
        return quantity(whole, "s")
    if whole < HOUR_S:
        return quantity(round(whole / MINUTE_S), "min")
    if whole < DAY_S:
        return _pair(whole, HOUR_S, "h", MINUTE_S, "min")
    return _pair(whole, DAY_S, "d", HOUR_S, "h")


def countdown(seconds: float | None) -> str:
    """`3:10`, `1:02:09`: the time left until something happens by itself; `0:00` once it is due."""
    if seconds is None:
        return NO_DATA
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, HOUR_S)
    minutes, left = divmod(rest, MINUTE_S)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"


def age(seconds: float) -> str:
    """`now`, `6 min ago`, `in 4 min`: how far `seconds` in the past (or, negative, ahead)."""
    if abs(seconds) < 1:
        return "now"
    text = span(abs(round(seconds)))
    return f"{text} ago" if seconds > 0 else f"in {text}"


def _pair(seconds: int, big_s: int, big: str, small_s: int, small: str) -> str:
    count, rest = divmod(round(seconds / small_s), big_s // small_s)
    words = [quantity(count, big)] + ([quantity(rest, small)] if rest else [])
    return NBSP.join(words)
