from __future__ import annotations

import io

import numpy as np
import pytest

from tests.workers.prediction.made import observations
from workers.prediction.observations import COLUMNS, Observations, read_csv, write_csv


def text(seen: Observations) -> str:
    written = io.StringIO()
    write_csv(seen, written)
    return written.getvalue()


def test_what_is_written_is_read_back_to_the_last_digit(tmp_path):
    seen = observations(2, 3)
    write_csv(seen, tmp_path / "pairs.csv")
    again = read_csv(tmp_path / "pairs.csv")
    assert text(again) == text(seen)
    assert again.job_family == seen.job_family
    assert (again.online.sm == seen.online.sm).all()


def test_an_empty_cell_is_a_value_that_nobody_measured():
    again = read_csv(io.StringIO(text(observations(1, 1))))
    assert np.isnan(again.p99_ratio[0])
    assert ",," in text(again)


def test_a_table_without_rows_has_no_pairs():
    assert len(read_csv(io.StringIO(",".join(COLUMNS)))) == 0


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("online_sm", "online_sn", "online_sm, online_sn"),
        (",1.0,", ",one,", "line 2: weight is 'one', which is no number"),
    ],
)
def test_a_table_that_is_not_as_documented_is_refused(old, new, why):
    good = text(observations(1, 4))
    with pytest.raises(ValueError, match=why):
        read_csv(io.StringIO(good.replace(old, new, 1)))


def test_a_line_that_is_cut_short_is_named():
    with pytest.raises(ValueError, match="line 2 ends before"):
        read_csv(io.StringIO(",".join(COLUMNS) + "\n0.5,0.5"))
