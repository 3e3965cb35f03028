"""Flags before environment before file before default, each value checked where it stands. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import msgspec

from agents.config import WRITTEN, Config
from agents.settings import rules
from agents.settings.redact import redacted
from agents.settings.table import ENVIRONMENT, SETTINGS, Setting

CONFIG_VARIABLE: Final = f"{ENVIRONMENT}CONFIG"
DEFAULT: Final = "default"
# What Kubernetes puts into each pod beside a Service of the name muxflow-agent.
OF_A_SERVICE: Final = re.compile(
    rf"{ENVIRONMENT}(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)"
)


@dataclass(frozen=True, slots=True)
class Told:
    """What was given, by the name of the setting; flags and variables are texts."""

    flags: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    file: Mapping[str, Any] = field(default_factory=dict)
    file_name: str = ""


@dataclass(frozen=True, slots=True)
class Effective:
    """The outcome: the settings, where each came from, and a sentence for each fault.

    With faults `config` holds the defaults in their place and must not be run.
    """

    config: Config
    origins: Mapping[str, str]
    faults: tuple[str, ...]


def resolve(told: Told) -> Effective:
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    faults = [*_unknown(told)]
    faulty: set[str] = set()
    for setting in SETTINGS.values():
        where, raw = _given(setting, told)
        origins[setting.name] = where
        try:
            values[setting.name] = (
                setting.default if where == DEFAULT else _value(setting, where, raw)
            )
        except ValueError as error:
            values[setting.name] = setting.default
            faulty.add(setting.name)
            faults.append(_sentence(setting, where, raw, str(error)))
    config = Config(**values)
    return Effective(config, origins, (*faults, *rules.broken(config, faulty)))


def _given(setting: Setting, told: Told) -> tuple[str, Any]:
    """Where it was given with the most right, and what. An empty variable is one not given."""
    if setting.name in told.flags:
        return setting.flag, told.flags[setting.name]
    if setting.variable and (text := told.environment.get(setting.variable)):
        return setting.variable, text
    if not setting.flag_only and setting.name in told.file:
        return told.file_name, told.file[setting.name]
    return DEFAULT, None


def _value(setting: Setting, where: str, raw: Any) -> Any:
    """A file knows numbers from texts; flags and variables do not. Raises ValueError, with a text
    of its own where it can say more than what was expected."""
    if isinstance(raw, str) and setting.name in WRITTEN:
        return WRITTEN[setting.name](raw)
    if setting.name == "restart_hooks" and isinstance(raw, dict):
        raw = {name: _command(command) for name, command in raw.items()}
    is_text = where in (setting.flag, setting.variable)
    try:
        return msgspec.convert(raw, setting.type, strict=not is_text, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise ValueError from error


def _command(written: Any) -> Any:
    return WRITTEN["default_command"](written) if isinstance(written, str) else written


def _path(kind: type, raw: Any) -> Any:
    """Absolute: a daemon's working directory is nobody's business."""
    if kind is Path and isinstance(raw, str) and raw:
        return Path(os.path.abspath(raw))  # noqa: PTH100  (`absolute` would keep the dots)
    raise ValueError("not a path")


def _sentence(setting: Setting, where: str, raw: Any, detail: str) -> str:
    if where.startswith("--"):
        place = f"{where} {raw}"
    elif where == setting.variable:
        place = f"{where}={raw}"
    else:
        place = f"{where}: {setting.name} = {raw!r}"
    told = f"{place}: {detail}" if detail else f"{place} is not {setting.expects}"
    return redacted(told)


def _unknown(told: Told) -> Iterator[str]:
    variables = {one.variable: one for one in SETTINGS.values() if one.variable}
    for variable in sorted(told.environment):
        if (
            variable.startswith(ENVIRONMENT)
            and variable != CONFIG_VARIABLE
            and not OF_A_SERVICE.fullmatch(variable)
            and variable not in variables
        ):
            yield f"{variable} is no setting{_meant(variable, list(variables))}"
    keys = [one.name for one in SETTINGS.values() if not one.flag_only]
    for key in told.file:
        if key not in keys:
            yield f"{told.file_name}: {key} is no setting{_meant(key, keys)}"


def _meant(name: str, names: list[str]) -> str:
    close = get_close_matches(name, names, n=1)
    return f": did you mean {close[0]}?" if close else ": docs/agent.md lists them"
