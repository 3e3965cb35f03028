"""The settings as rows: read off the fields of `Config`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from agents.config import Config, Group, Size

ENVIRONMENT: Final = "MUXFLOW_AGENT_"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `type` is what msgspec checks a value against; `default` a fresh value."""

    name: str
    type: Any
    default: Any
    group: Group
    expects: str
    meaning: str
    unit: str
    metavar: str
    flag: str
    flag_only: bool

    @property
    def variable(self) -> str:
        return "" if self.flag_only else f"{ENVIRONMENT}{self.name.upper()}"


def _setting(field: msgspec.structs.FieldInfo, hint: Any) -> Setting:
    meta = _meta(hint)
    extra = meta.extra or {}
    default = (
        field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    )
    return Setting(
        field.name,
        hint,
        default,
        extra["group"],
        extra["expects"],
        meta.description or "",
        extra.get("unit", ""),
        extra.get("metavar", ""),
        f"--{extra.get('flag', field.name.replace('_', '-'))}",
        extra.get("flag_only", False),
    )


def _meta(hint: Any) -> Meta:
    if get_origin(hint) is not Annotated:
        raise TypeError(f"{hint} is no setting: it says nothing of itself")
    return next(each for each in get_args(hint)[1:] if isinstance(each, Meta) and each.extra)


def _table() -> Mapping[str, Setting]:
    hints = get_type_hints(Config, include_extras=True)
    rows = (_setting(field, hints[field.name]) for field in msgspec.structs.fields(Config))
    return {row.name: row for row in rows}


# In the order of the class.
SETTINGS: Final = _table()


def shown(value: Any) -> str:
    """A value as a person would write it; "" for none."""
    match value:
        case None:
            return ""
        case dict():
            return "; ".join(f"{name}={' '.join(words)}" for name, words in value.items())
        case tuple():
            return " ".join(value)
        case float():
            return f"{value:g}"
        case Path() | Size():
            return str(value)
    return str(value)
