"""Lists on pages: filters and tables that keep their whole view in the address."""

from __future__ import annotations

from typing import Any, Final

import django_filters

# Of 32 bits, as the columns are; a larger number is no id on any database.
LARGEST_ID: Final = (1 << 31) - 1


class IdFilter(django_filters.NumberFilter):  # type: ignore[misc]
    """The id of a row."""

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=0, max_value=LARGEST_ID, **options)


class Filter(django_filters.FilterSet):  # type: ignore[misc]
    """What narrows a list, on its page and in the API alike."""
