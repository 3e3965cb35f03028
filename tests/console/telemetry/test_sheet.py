from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from console.telemetry.latest import MISSING, Field
from console.telemetry.sheet import MEASURED, Sheet

SECONDS = st.lists(st.binary(min_size=24, max_size=24), min_size=1, max_size=8)


def one(value: int, field: Field = Field.HEADROOM) -> np.ndarray:
    cells = np.full((len(Field), 1), MISSING, np.uint8)
    cells[field] = value
    return cells


def shown_after(before: int, after: int, field: Field = Field.HEADROOM) -> int:
    sheet = Sheet(one(before, field), 1)
    sheet.settle(one(after, field), 2)
    return int(sheet.cells[field, 0])


def test_noise_of_one_quantum_changes_nothing():
    assert shown_after(50, 51) == shown_after(50, 49) == 50


def test_two_quanta_are_shown():
    assert (shown_after(50, 52), shown_after(50, 48)) == (52, 48)


def test_steps_that_add_up_are_shown():
    sheet = Sheet(one(50), 1)
    for second, value in enumerate((51, 52, 53), 2):
        sheet.settle(one(value), second)
    assert sheet.cells[Field.HEADROOM, 0] == 52


def test_zero_and_missing_and_the_way_out_of_them_are_always_shown():
    for before, after in ((1, 0), (0, 1), (254, MISSING), (MISSING, 254), (0, MISSING)):
        assert shown_after(before, after) == after


def test_a_state_is_shown_however_near_its_number():
    for field in (Field.LOOK, Field.STATE, Field.FLAGS):
        assert shown_after(2, 3, field) == 3


def test_only_what_is_shown_anew_counts_as_changed():
    sheet = Sheet(one(50), 1)
    sheet.settle(one(51), 2)
    assert sheet.changed_at.max() == 1
    sheet.settle(one(60), 3)
    assert sheet.changed_at[Field.HEADROOM, 0] == 3
    assert sheet.changed_at[Field.MEMORY, 0] == 1


@given(SECONDS)
def test_what_is_shown_is_never_off_by_more_than_a_quantum(seconds):
    truth = [np.frombuffer(data, np.uint8).reshape(len(Field), 2) for data in seconds]
    sheet = Sheet(truth[0], 0)
    for second, fresh in enumerate(truth[1:], 1):
        sheet.settle(fresh, second)
        off = np.abs(sheet.cells.astype(int) - fresh)
        assert off[MEASURED].max() <= 1
        exact = (fresh == 0) | (fresh == MISSING)
        assert not off[exact].any()
        assert not off[[Field.LOOK, Field.STATE, Field.FLAGS]].any()
