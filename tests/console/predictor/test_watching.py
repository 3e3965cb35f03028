"""How well what is in force does on what was observed since, and what follows from it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from console.predictor import drift, observing, watching
from console.predictor.models import DriftSample, PairObservation
from console.predictor.queries import has_drifted
from console.predictor.watching import Error, Trainer
from console.runs.models import Run
from tests.console.inventory.cast import NOW
from tests.console.predictor.cast import a_version, in_force, observations

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(hours=3)
CAN = Trainer("PyTorch 2", "")


@pytest.fixture(autouse=True)
def _period(settings):
    settings.RETRAIN_PERIOD_S = 21_600


class Measure:
    """Always the same error; remembers on what."""

    def __init__(self, mae: float):
        self.mae, self.asked = mae, []

    def __call__(self, data, csv) -> Error:
        self.asked.append((data, csv.count("\n") - 1))
        return Error(self.mae, 0.1)


def test_a_version_is_judged_by_what_it_was_not_trained_on():
    observations(400, at=NOW - timedelta(hours=1))
    in_force(a_version(data=b"file"))
    watching.watch(LATER, before := Measure(0.05), CAN)
    assert before.asked == []
    observations(80, at=NOW + timedelta(minutes=1))
    watching.watch(LATER, after := Measure(0.05), CAN)
    assert after.asked == [(b"file", 80)]
    assert DriftSample.objects.get().mae == 0.05


def test_without_a_version_the_estimate_is_measured():
    observations(400)
    watching.watch(LATER, measure := Measure(0.2), CAN)
    assert measure.asked == [(None, drift.NEWEST)]
    assert not has_drifted()


def test_a_version_of_another_release_is_not_measured_and_learning_goes_on():
    def refuses(data: bytes | None, csv: str) -> Error:
        raise ValueError("made for another release")

    in_force(a_version())
    observations(400, at=NOW + timedelta(minutes=1))
    watching.watch(NOW + timedelta(hours=7), refuses, CAN)
    assert not DriftSample.objects.exists()
    assert Run.objects.get().arguments == {"cause": "schedule"}


def test_nothing_new_is_not_measured_again():
    observations(400)
    for _ in range(2):
        watching.watch(LATER, measure := Measure(0.2), CAN)
    assert measure.asked == []


def test_a_drift_begins_a_retraining_before_its_period_is_over():
    in_force(a_version())
    observations(400, at=NOW + timedelta(minutes=1))
    watching.watch(LATER, Measure(0.05), CAN)
    assert not Run.objects.exists()
    observations(100, at=LATER)
    watching.watch(LATER + timedelta(minutes=30), Measure(0.09), CAN)
    assert has_drifted()
    assert Run.objects.get().arguments == {"cause": "drift"}


def test_simulated_versions_are_not_judged_by_real_gpus():
    in_force(a_version(simulated=True))
    observations(90, at=NOW + timedelta(minutes=1), simulated=False)
    watching.watch(LATER, measure := Measure(0.2), CAN)
    assert measure.asked == []


def test_the_newest_observations_of_each_pair_are_kept(monkeypatch):
    monkeypatch.setattr(observing, "KEPT_OF_A_PAIR", 3)
    observations(350)
    observing.forget()
    assert PairObservation.objects.count() == 35 * 3
    newest = PairObservation.objects.order_by("-at").first()
    assert newest.at == NOW + timedelta(seconds=349)
    monkeypatch.setattr(observing, "KEPT", 60)
    observing.forget()
    assert PairObservation.objects.count() == 60
