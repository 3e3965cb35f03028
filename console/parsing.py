"""How the REST API reads what is sent. Apart from console/api.py: the views load this first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

UNFIT: Final = re.compile("[\0\ud800-\udfff]")


class Json(JSONParser):
    """DRF's own; what no column can hold is malformed here, not a failure of ours later.

    That is brackets within brackets without end, NUL, and half of a surrogate pair.
    """

    def parse(self, *args: Any, **options: Any) -> Any:
        try:
            body = super().parse(*args, **options)
            unfit = any(UNFIT.search(text) for text in _texts(body))
        except RecursionError as error:
            raise ParseError("This JSON is nested too deeply.") from error
        if unfit:
            raise ParseError("This JSON has a NUL or half of a surrogate pair in a text.")
        return body


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _texts(item)
