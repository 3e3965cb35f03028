"""Which jobs may come to which pools, as a question to the database."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q


def for_pools(names: Iterable[str]) -> Q:
    """The jobs that any pool may take, and those that ask for one of these.

    A job names its pools in a JSON list, which no two databases search alike: it is searched as
    text.
    """
    found = Q(pools=[])
    for name in names:
        found |= Q(pools__icontains=f'"{name}"')
    return found
