"""A retraining: when it may begin, what it is given, and what becomes of its result."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import PermissionDenied

from console.accounts.models import Role
from console.errors import Refused
from console.predictor import registry, training
from console.predictor.models import PairObservation, PredictorVersion
from console.predictor.schedule import Cause
from console.predictor.training import CannotTrain, Learnt, Lesson, Stopped
from console.runs import services as runs
from console.runs.models import Run
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW
from tests.console.predictor.cast import a_report, a_trainer, a_version, in_force, observations

pytestmark = pytest.mark.django_db

PERIOD_S = 3_600


@pytest.fixture(autouse=True)
def _period(settings):
    settings.RETRAIN_PERIOD_S = PERIOD_S


@pytest.fixture
def engineer():
    return a_user("ortega", Role.POLICY_AUTHOR)


class Trainer:
    """Learns nothing, and remembers what it was given."""

    def __init__(self, report=None):
        self.report, self.lessons = report or a_report(), []

    def __call__(self, lesson: Lesson, progress) -> Learnt:
        self.lessons.append(lesson)
        if not progress(0.5, "Fitting"):
            raise Stopped
        return Learnt(b"learnt", self.report)


def perform(run: Run, train) -> Run:
    training.perform(run.pk, "worker-1", lambda: NOW, train)
    return Run.objects.get(pk=run.pk)


def test_a_training_makes_a_version_that_takes_over_when_it_is_better(engineer):
    a_trainer()
    observations()
    done = perform(training.start(Cause.PERSON, engineer, NOW), trainer := Trainer())
    assert (done.state, done.progress) == ("SUCCEEDED", 1.0)
    assert registry.active_data() == (1, b"learnt")
    assert trainer.lessons[0].csv.count("\n") == 401
    assert trainer.lessons[0].active is None


def test_it_is_compared_with_the_version_in_force():
    a_trainer()
    observations()
    in_force(a_version(data=b"before"))
    worse = Trainer(a_report(0.05, active=0.04))
    perform(training.start(Cause.SCHEDULE, None, NOW), worse)
    assert worse.lessons[0].active == b"before"
    assert registry.active_number() == 1
    assert PredictorVersion.objects.get(number=2).state == "REJECTED"


def test_real_and_simulated_gpus_are_never_learnt_from_together(engineer):
    a_trainer()
    observations(400)
    observations(310, simulated=False, gpu_model="H100")
    perform(training.start(Cause.PERSON, engineer, NOW), trainer := Trainer())
    assert not trainer.lessons[0].simulated
    assert "simulated:" not in trainer.lessons[0].csv
    assert not PredictorVersion.objects.get().simulated


def test_a_few_real_observations_do_not_make_a_version_for_real_gpus(engineer):
    a_trainer()
    observations(400)
    observations(50, simulated=False, gpu_model="H100")
    perform(training.start(Cause.PERSON, engineer, NOW), trainer := Trainer())
    assert trainer.lessons[0].simulated
    assert "H100" not in trainer.lessons[0].csv
    assert PredictorVersion.objects.get().simulated


def test_without_a_trainer_nothing_begins(engineer):
    a_trainer("", "PyTorch is not installed here: run `make ml`, then start the workers again.")
    observations()
    assert training.begin_when_due(NOW + timedelta(hours=5)) is None
    with pytest.raises(Refused, match="No worker here can train"):
        training.start(Cause.PERSON, engineer, NOW)
    assert not Run.objects.exists()


def test_too_few_observations_say_how_many_are_needed(engineer):
    a_trainer()
    observations(20)
    with pytest.raises(Refused, match="20 observations of 20 pairs so far; a training needs 300"):
        training.start(Cause.PERSON, engineer, NOW)


def test_only_one_training_at_a_time(engineer):
    a_trainer()
    observations()
    training.start(Cause.PERSON, engineer, NOW)
    with pytest.raises(Refused, match="under way already"):
        training.start(Cause.PERSON, engineer, NOW)


def test_a_viewer_cannot_begin_one():
    a_trainer()
    observations()
    with pytest.raises(PermissionDenied):
        training.start(Cause.PERSON, a_user("lindqvist", Role.VIEWER), NOW)


def test_a_training_that_cannot_go_on_says_why_and_leaves_what_is_in_force(engineer):
    def fails(lesson, progress):
        raise CannotTrain("Only 12 pairs were told apart.")

    a_trainer()
    observations()
    done = perform(training.start(Cause.PERSON, engineer, NOW), fails)
    assert (done.state, done.message) == ("FAILED", "Only 12 pairs were told apart.")
    assert registry.active_number() is None


def test_a_cancelled_training_stops_and_adds_nothing(engineer):
    a_trainer()
    observations()
    run = training.start(Cause.PERSON, engineer, NOW)

    def cancelled_meanwhile(lesson, progress):
        runs.cancel(Run.objects.get(pk=run.pk), engineer, NOW)
        return Trainer()(lesson, progress)

    assert perform(run, cancelled_meanwhile).state == "CANCELLED"
    assert not PredictorVersion.objects.exists()


def test_the_next_period_begins_when_a_training_ends(engineer):
    a_trainer()
    observations()
    times = iter(NOW + timedelta(minutes=minute) for minute in range(0, 600, 20))
    run = training.start(Cause.PERSON, engineer, NOW)
    training.perform(run.pk, "worker-1", lambda: next(times), Trainer())
    run.refresh_from_db()
    assert training.facts().since == run.finished_at > NOW + timedelta(minutes=40)
    assert PredictorVersion.objects.get().made_at < run.finished_at


def test_a_lost_bell_is_found_by_the_sweep(engineer):
    a_trainer()
    observations()
    training.start(Cause.PERSON, engineer, NOW)
    training.perform_waiting("worker-1", lambda: NOW, Trainer())
    assert registry.active_number() == 1


def test_the_schedule_begins_one_a_period_after_the_first_observation():
    a_trainer()
    observations()
    assert training.begin_when_due(NOW + timedelta(seconds=PERIOD_S - 1)) is None
    run = training.begin_when_due(NOW + timedelta(seconds=PERIOD_S))
    assert run is not None
    assert run.started_by is None
    assert run.arguments == {"cause": "schedule"}


def test_after_a_training_the_next_one_waits_for_what_is_new(engineer):
    a_trainer()
    observations()
    perform(training.start(Cause.PERSON, engineer, NOW), Trainer())
    later = NOW + timedelta(seconds=2 * PERIOD_S)
    PairObservation.objects.update(at=NOW - timedelta(minutes=1))
    assert training.begin_when_due(later) is None
    observations(150, at=NOW + timedelta(minutes=1))
    assert training.begin_when_due(later) is not None
