"""The rules of docker/prometheus as they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path(__file__).parents[2] / "docker" / "prometheus"
FILES: Final = sorted((FOLDER / "rules").glob("*.yml"))


def _of_kind(kind: str) -> dict[str, Any]:
    read = [yaml.safe_load(path.read_text()) for path in FILES]
    found = [rule for one in read for group in one["groups"] for rule in group["rules"]]
    return {rule[kind]: rule for rule in found if kind in rule}


RECORDS: Final = _of_kind("record")
ALERTS: Final = _of_kind("alert")
