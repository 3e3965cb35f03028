"""What Prometheus answers to an instant query. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from console.errors import Invalid

MOST_SERIES: Final = 2_000


@dataclass(frozen=True)
class Sample:
    """`value` None: Prometheus answered NaN, which it does where nothing was measured."""

    labels: Mapping[str, str]
    value: float | None


def read(body: bytes) -> list[Sample]:
    """Raises Invalid with the words of Prometheus where it refused the query, and for what is no
    answer to an instant query."""
    try:
        told = json.loads(body)
        if told["status"] != "success":
            raise Invalid(f"Prometheus refuses the query: {told.get('error', 'it says not why')}")
        kind, result = told["data"]["resultType"], told["data"]["result"]
        if kind != "vector":
            raise Invalid(f"The query answers a {kind}; it has to answer one value per series.")
        if len(result) > MOST_SERIES:
            raise Invalid(
                f"The query answers {len(result)} series, of which {MOST_SERIES} are taken at"
                " most: sum or select more."
            )
        return [Sample(dict(one["metric"]), _number(one["value"][1])) for one in result]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise Invalid("What answers there is no Prometheus: its answer cannot be read.") from error


def _number(text: Any) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None
