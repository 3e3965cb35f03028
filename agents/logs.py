"""What the agent logs, on stderr: a line for people or a JSON object for programs, with no secret
in it, and the same warning once a minute at most."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from agents.config import LogFormat, LogLevel
from agents.settings.redact import redacted

PLAIN: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
EVERY_S: Final = 60.0
# Texts remembered; when there are more, saying one twice is the lesser evil.
MOST: Final = 1_000


def start(level: LogLevel, form: LogFormat) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form is LogFormat.JSON else PlainFormatter(PLAIN))
    handler.addFilter(Repeats())
    logging.basicConfig(level=level.value, handlers=[handler])


def hide(secrets: Iterable[str]) -> None:
    """From now on these are in no line."""
    _hidden.update(secret for secret in secrets if secret)


_hidden: Final[set[str]] = set()


class PlainFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record) + _again(record), _hidden)


class JsonFormatter(logging.Formatter):
    """One object a line: at (RFC 3339, UTC), level, logger, message, and where there is such a
    thing: exception, repeated (how often it was not said since the last time)."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, str | int] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": redacted(record.getMessage(), _hidden),
        }
        if record.exc_info:
            told["exception"] = redacted(self.formatException(record.exc_info), _hidden)
        if repeated := getattr(record, "repeated", 0):
            told["repeated"] = repeated
        return json.dumps(told, ensure_ascii=False)


class Repeats(logging.Filter):
    """Lets a warning through once in a while, with the number of times it was kept back before.
    What is only told (a connection, an end) is not said again by a loop that fails."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        try:
            key = record.name, record.levelno, record.getMessage()
        except (TypeError, ValueError):  # its formatter will complain, where that harms nobody
            return True
        now = self._clock()
        said_at, kept_back = self._said.get(key, (float("-inf"), 0))
        if now - said_at < EVERY_S:
            self._said[key] = said_at, kept_back + 1
            return False
        if len(self._said) >= MOST:
            self._said.clear()
        self._said[key] = now, 0
        record.repeated = kept_back
        return True


def _again(record: logging.LogRecord) -> str:
    repeated = getattr(record, "repeated", 0)
    return f" ({repeated} times more since it was last said)" if repeated else ""
