"""Lists on pages: filters and tables that keep their whole view in the address."""

from __future__ import annotations

import django_filters


class Filter(django_filters.FilterSet):  # type: ignore[misc]
    """What narrows a list, on its page and in the API alike."""
