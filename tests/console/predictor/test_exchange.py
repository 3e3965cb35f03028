"""Observations as CSV: what goes out comes in again, and a hostile file changes nothing."""

from __future__ import annotations

import io

import pytest

from console.accounts.models import Role
from console.errors import Invalid
from console.predictor import exchange, imports
from console.predictor.models import PairObservation
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW
from tests.console.predictor.cast import observations
from workers.prediction import observations as learnt_from

pytestmark = pytest.mark.django_db

VALUES = {
    **dict.fromkeys(exchange.NUMBERS, "0.5"),
    "at": "1788000000",
    "online_family": "search-rank",
    "job_family": "bert",
    "gpu_model": "A100",
    "online_gpu_model": "A100",
    "job_gpu_model": "A100",
}


def a_file(**cells: str) -> str:
    row = VALUES | cells
    return ",".join(exchange.COLUMNS) + "\n" + ",".join(row[name] for name in exchange.COLUMNS)


@pytest.fixture
def engineer():
    return a_user("ortega", Role.POLICY_AUTHOR)


def test_the_columns_are_those_that_a_training_reads():
    assert sorted(exchange.COLUMNS) == sorted(learnt_from.COLUMNS)
    observations(10, p99_ratio=1.25, job_step_s=0.2)
    read = learnt_from.read_csv(io.StringIO(exchange.text(PairObservation.objects.all())))
    assert len(read) == 10
    assert read.gpu_model[0] == "simulated:A100"
    assert read.share[0] == pytest.approx(0.6)
    assert read.jobs.sm[0] == pytest.approx(0.55)
    assert read.p99_ratio[0] == pytest.approx(1.25)


def test_what_goes_out_comes_in_again(engineer):
    observations(20)
    told = exchange.text(PairObservation.objects.order_by("pk"))
    PairObservation.objects.all().delete()
    assert imports.take(told, engineer, NOW) == 20
    assert exchange.text(PairObservation.objects.order_by("pk")) == told
    assert PairObservation.objects.filter(simulated=True).count() == 20


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "up to 8 MiB"),
        ("a,b\n1,2", "documented columns"),
        (a_file(throughput="nan"), "Line 2: throughput is nan, not from 0 to 4"),
        (a_file(throughput="-inf"), "throughput"),
        (a_file(throughput="1e999"), "throughput"),
        (a_file(job_memory="10"), "Line 2: job_memory is 10, not from 0 to 1.05"),
        (a_file(share="-0.1"), "share"),
        (a_file(online_sm=""), "online_sm is missing"),
        (a_file(online_sm="=1+1"), "which is no number"),
        (a_file(job_family=""), "is missing"),
        (a_file(job_family="x" * 200), "printable"),
        (a_file(gpu_model="A100\x00"), "printable"),
        (a_file(at="1e300"), "at is 1e300"),
        (a_file() + ",more", "too few or too many cells"),
        (a_file().rsplit(",", 2)[0], "too few or too many cells"),
        (a_file() + '\n"unended', "no CSV file"),
    ],
    ids=range(16),
)
def test_a_hostile_file_changes_nothing_and_is_told_why(engineer, text, why):
    with pytest.raises(Invalid, match=why.replace("(", r"\(")):
        imports.take(text, engineer, NOW)
    assert not PairObservation.objects.exists()


def test_more_rows_than_allowed_are_refused(engineer, monkeypatch):
    monkeypatch.setattr(exchange, "MOST_ROWS", 2)
    line = a_file().split("\n")[1]
    with pytest.raises(Invalid, match="more than 2 rows"):
        imports.take(a_file() + f"\n{line}\n{line}", engineer, NOW)


def test_empty_cells_stay_missing(engineer):
    imports.take(a_file(slowdown="", online_occupancy="", at=""), engineer, NOW)
    row = PairObservation.objects.get()
    assert (row.slowdown, row.online_occupancy_percent, row.at) == (None, None, NOW)
