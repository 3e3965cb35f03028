"""When the first page of this demo was seen: one small file, written once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings


def _path() -> Path:
    return Path(settings.VAR_DIR) / "first_view"


def note(now: datetime) -> None:
    """Keeps the earliest: a second call changes nothing."""
    try:
        with _path().open("x") as file:
            file.write(now.isoformat())
    except FileExistsError:
        return


def read() -> datetime | None:
    try:
        text = _path().read_text()
    except FileNotFoundError:
        return None
    return datetime.fromisoformat(text).astimezone(UTC) if text else None
