"""Lists on pages: filters and tables that keep their whole view in the address."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import django_filters
import django_tables2
from django.core.exceptions import ValidationError
from django.core.paginator import EmptyPage, PageNotAnInteger
from django.http import HttpRequest
from django.utils.safestring import mark_safe
from django_filters.fields import IsoDateTimeField

from console import figures

PER_PAGE: Final = 50
# Of 32 bits, as the columns are; a larger number is no id on any database.
LARGEST_ID: Final = (1 << 31) - 1

NUMBER: Final = {"th": {"class": "num"}, "td": {"class": "num"}}
# Left out on a phone.
WIDE: Final = {"th": {"class": "opt"}, "td": {"class": "opt"}}
WIDE_NUMBER: Final = {"th": {"class": "num opt"}, "td": {"class": "num opt"}}
WIDE_QUIET: Final = {"th": {"class": "opt"}, "td": {"class": "opt q"}}

# Missing is never drawn like a value.
NO_DATA: Final = mark_safe(f'<span class="none">{figures.NO_DATA}</span>')  # noqa: S308  a constant

Options = list[tuple[str, str]]


class IdFilter(django_filters.NumberFilter):  # type: ignore[misc]
    """The id of a row."""

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=0, max_value=LARGEST_ID, **options)


class _MomentField(IsoDateTimeField):  # type: ignore[misc]
    def to_python(self, value: Any) -> datetime | None:
        """In UTC, as databases need it. Raises ValidationError where the calendar ends."""
        moment: datetime | None = super().to_python(value)
        try:
            return moment and moment.astimezone(UTC)
        except OverflowError as error:
            raise ValidationError(self.error_messages["invalid"], code="invalid") from error


class MomentFilter(django_filters.IsoDateTimeFilter):  # type: ignore[misc]
    """A time of day on a date, with or without its zone."""

    field_class = _MomentField


class Filter(django_filters.FilterSet):  # type: ignore[misc]
    """What narrows a list, on its page and in the API alike."""


class Table(django_tables2.Table):  # type: ignore[misc]
    """A list in the console's look; `?sort=` and `?page=` hold its order and its page."""

    def __init__(self, request: HttpRequest, rows: Any, **options: Any) -> None:
        order_by = self._meta.order_by or ()
        super().__init__(rows, order_by=order_by, default=NO_DATA, **options)
        self.request = request
        if sort := request.GET.getlist("sort"):
            self.order_by = sort
        self._turn_to(request.GET.get("page", "1"))

    def _turn_to(self, page: str) -> None:
        """A page that does not exist is the nearest one that does."""
        try:
            self.paginate(page=page, per_page=PER_PAGE)
        except PageNotAnInteger:
            self.paginate(page=1, per_page=PER_PAGE)
        except EmptyPage:
            self.paginate(page=self.paginator.num_pages, per_page=PER_PAGE)


def options(everything: str, values: Iterable[str]) -> Options:
    """The choices of a filter, with the one that filters nothing first."""
    return [("", everything), *((value, value) for value in values)]
