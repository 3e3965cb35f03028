"""The files that settings are in, and whether they can be trusted."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents.config import DEFAULT_FILE, CannotRun


def read(path: Path) -> Mapping[str, Any]:
    """The content of a settings file. Raises CannotRun."""
    if sentence := why_not_trusted(path):
        raise CannotRun(sentence)
    try:
        return tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise CannotRun(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CannotRun(f"{path} is not TOML: {error}") from error


def why_not_trusted(path: Path) -> str:
    """A sentence when the file cannot be read, or anybody could have written it; else ""."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return f"cannot read {path}: {error.strerror}"
    if not stat.S_ISREG(mode):
        return f"{path} is not a file"
    if mode & stat.S_IWOTH:
        return f"{path} can be written by anybody on this machine: chmod o-w {path}"
    if not os.access(path, os.R_OK):
        return f"cannot read {path}: Permission denied"
    return ""


def chosen(flag: str | None, variable: str, *, simulated: bool) -> Path | None:
    """Which file counts. Without being told, the usual one where it exists; simulated
    GPUs asked for on the command line have nothing to do with this machine's settings."""
    named = flag or variable
    if named:
        return Path(named).absolute()
    return DEFAULT_FILE if not simulated and _may_be_there(DEFAULT_FILE) else None


def _may_be_there(path: Path) -> bool:
    """Also one in a folder that this user may not look into: `read` then says so."""
    try:
        return path.exists()
    except PermissionError:
        return True
