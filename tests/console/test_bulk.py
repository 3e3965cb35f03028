"""What is written in bulk is read back as it was, whatever is in it."""

from __future__ import annotations

import pytest
from django.db import DatabaseError

from console import bulk
from console.scheduling.models import Decision, Round
from tests.console.inventory.cast import NOW

pytestmark = pytest.mark.django_db

FIELDS = ("round_id", "kind", "code", "why", "weight", "price", "flags", "runner_up")


@pytest.fixture
def round_(db):
    return Round.objects.create(kind="enforce", started_at=NOW)


@pytest.mark.parametrize(
    "text", ["", "plain", "a\tb\nc\r\\d", r"\N", r"\.", "\\", "≈ 71\xa0% of its speed", "'\"%s;--"]
)
def test_text_comes_back_as_it_was(round_, text):
    bulk.write(Decision, FIELDS, [(round_.pk, "keep", "kept", text, 1.5, None, (text,), "")])
    found = Decision.objects.get()
    assert (found.why, found.flags) == (text, [text])
    assert (found.weight, found.price, found.runner_up_loss) == (1.5, None, None)


def test_more_rows_than_one_piece_come_in_order(round_):
    count = bulk.BATCH + 1
    rows = ((round_.pk, "keep", "kept", str(at), 0.1, at / 3, (), "") for at in range(count))
    bulk.write(Decision, FIELDS, rows)
    found = Decision.objects.order_by("pk").values_list("why", "price")
    assert list(found) == [(str(at), at / 3) for at in range(count)]


def test_what_the_database_refuses_leaves_nothing(round_):
    good = (round_.pk, "keep", "kept", "", None, None, (), "")
    with pytest.raises(DatabaseError):
        bulk.write(Decision, FIELDS, [good, (round_.pk, "keep", None, "", None, None, (), "")])
