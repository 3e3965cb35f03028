"""Many rows into one table at once, as plain values.

PostgreSQL takes them by COPY: a model for each row, and an INSERT of parameters, cost several times
as much. Other databases get an INSERT. Nothing is checked that the database does not check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from django.db import connection
from django.db.models import Model

# Rows that are written in one piece.
BATCH: Final = 500
_SPECIAL: Final = re.compile(r"[\\\t\n\r]")
_ESCAPED: Final = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}

Row = Sequence[Any]


def write(model: type[Model], fields: Sequence[str], rows: Iterable[Row]) -> None:
    """`rows` give the values of `fields` (as attributes: `job_id`), in that order: numbers, text,
    ids, None, and lists or tuples for JSON. What is left out is what the database makes of it: it
    does not know the defaults of a model.

    Raises DatabaseError; then nothing was written.
    """
    if connection.vendor == "postgresql":
        _copy(model, fields, rows)
    else:
        made = (model(**dict(zip(fields, row, strict=True))) for row in rows)
        model._default_manager.bulk_create(made, batch_size=BATCH)


def _copy(model: type[Model], fields: Sequence[str], rows: Iterable[Row]) -> None:
    quote, meta = connection.ops.quote_name, model._meta
    column = {field.attname: str(field.column) for field in meta.concrete_fields}
    names = ", ".join(quote(column[name]) for name in fields)
    command = f"COPY {quote(meta.db_table)} ({names}) FROM STDIN"
    with (
        connection.cursor() as cursor,
        connection.wrap_database_errors,
        cursor.copy(command) as copy,
    ):
        for piece in _pieces(rows):
            copy.write("".join(map(_line, piece)))


def _pieces(rows: Iterable[Row]) -> Iterator[list[Row]]:
    each = iter(rows)
    while piece := list(islice(each, BATCH)):
        yield piece


def _line(row: Row) -> str:
    return "\t".join(map(_text, row)) + "\n"


def _text(value: Any) -> str:
    """As COPY reads it."""
    if value is None:
        return r"\N"
    if isinstance(value, str):
        return _escaped(value)
    if isinstance(value, list | tuple):
        return _escaped(json.dumps(value))
    return str(value)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: _ESCAPED[found[0]], text) if _SPECIAL.search(text) else text
