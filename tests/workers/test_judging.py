"""How far a predictor was from what was then observed."""

from __future__ import annotations

import io

import pytest

from console.predictor import exchange
from tests.console.predictor.cast import observations
from workers.judging import measure
from workers.prediction.analytic import Analytic
from workers.prediction.observations import read_csv

pytestmark = pytest.mark.django_db


def test_the_error_is_the_mean_distance_of_throughputs():
    table = exchange.text(observations(20))
    seen = read_csv(io.StringIO(table))
    told = Analytic().judge(seen.online, seen.jobs, seen.share, seen.gpu_model).throughput
    error = measure(None, table)
    assert error.mae == pytest.approx(abs(told - seen.throughput).mean())
    assert error.out_of_range_share == 0.0


def test_profiles_that_cannot_be_count_as_out_of_range():
    rows = observations(10)
    for row in rows[:3]:
        row.job_sm_percent, row.job_util_percent = 90.0, 10.0
    assert measure(None, exchange.text(rows)).out_of_range_share == pytest.approx(0.3)


def test_a_damaged_file_is_refused():
    with pytest.raises(ValueError, match="no predictor"):
        measure(b"damaged", exchange.text(observations(5)))
