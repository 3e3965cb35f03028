"""Typed reads of the environment. A value that does not fit stops the start with its name."""

from __future__ import annotations

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


def env_str(name: str, default: str = "") -> str:
    return os.environ.get(name, default)


def env_int(name: str, default: int) -> int:
    """Raises ImproperlyConfigured when the value is no whole number."""
    value = os.environ.get(name, "")
    try:
        return int(value) if value else default
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {value!r}") from None


def env_bool(name: str, default: bool = False) -> bool:
    """Raises ImproperlyConfigured unless the value is one of 1 0 true false yes no on off."""
    value = os.environ.get(name, "").lower()
    if not value:
        return default
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} must be 1 or 0, not {value!r}")


def env_list(name: str, default: str = "") -> list[str]:
    return [part.strip() for part in env_str(name, default).split(",") if part.strip()]


def env_secret(name: str, default: str = "") -> str:
    """The value of NAME, else the content of the file that NAME_FILE names."""
    path = os.environ.get(f"{name}_FILE", "")
    if name in os.environ or not path:
        return os.environ.get(name, default)
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name}_FILE names {path}, unreadable: {error}") from error
