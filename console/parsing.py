"""How the REST API reads what is sent. Apart from console/api.py: the views load this first."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser


class Json(JSONParser):
    """DRF's own; brackets within brackets without end are malformed, not a failure of ours."""

    def parse(self, *args: Any, **options: Any) -> Any:
        try:
            return super().parse(*args, **options)
        except RecursionError as error:
            raise ParseError("This JSON is nested too deeply.") from error
