"""The predictor's page and its API: what they show, and who may change what."""

from __future__ import annotations

from html import unescape

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from django.utils import timezone

from console.accounts.models import Role
from console.predictor import registry, training
from console.predictor.models import DriftSample, PairObservation
from console.predictor.schedule import Cause
from console.runs.models import Run
from tests.console.accounts.cast import a_user
from tests.console.predictor.cast import a_report, a_trainer, a_version, in_force, observations

pytestmark = pytest.mark.django_db

API = "/api/v1/predictor/"


@pytest.fixture
def sign_in(client):
    def as_role(*roles: Role):
        client.force_login(
            a_user(f"user-{len(roles)}", *roles), "django.contrib.auth.backends.ModelBackend"
        )
        return client

    return as_role


@pytest.fixture
def engineer(sign_in):
    return sign_in(Role.POLICY_AUTHOR)


@pytest.fixture
def viewer(sign_in):
    return sign_in(Role.VIEWER, Role.OPERATOR)


def text_of(response) -> str:
    assert response.status_code == 200
    return " ".join(unescape(response.content.decode()).split())


def test_before_any_version_the_page_says_that_it_is_the_estimate(viewer):
    page = text_of(viewer.get(reverse("predictor")))
    for words in ("Analytic estimate", "No version yet", "No worker has looked"):
        assert words in page


def test_without_pytorch_the_page_says_what_is_missing_and_the_way_out(engineer):
    a_trainer("", "PyTorch is not installed here: run `make ml`, then start the workers again.")
    observations(10)
    page = text_of(engineer.get(reverse("predictor")))
    assert "PyTorch is not installed here: run `make ml`" in page
    assert "What is observed is kept meanwhile" in page
    answer = engineer.post(reverse("predictor_retrain"), follow=True)
    assert "No worker here can train" in text_of(answer)


def test_the_page_tells_the_error_against_baselines_families_and_drift(viewer):
    a_trainer()
    observations()
    version = in_force(a_version())
    DriftSample.objects.create(
        at=timezone.now(), version=version, observations=120, mae=0.09, out_of_range_share=0.25
    )
    page = text_of(viewer.get(reverse("predictor")))
    for words in (
        "Version 1", "from simulated GPUs", "0.040", "analytic estimate <b>0.120", "Drifts",
        "Additive baseline", "bert", "Error 0.040 against 0.120 of the analytic estimate",
        "Networks, process, bilinear", "25 %, 75 %, 0 %",
    ):  # fmt: skip
        assert words in page
    assert page.count("<circle") == 2
    assert "style=" not in page


def test_the_page_asks_a_fixed_number_of_questions(engineer, django_assert_max_num_queries):
    a_trainer()
    observations()
    in_force(a_version())
    for number in range(1, 9):
        a_version(a_report(0.05, active=0.04))
        assert registry.active_number() == 1, number
    with django_assert_max_num_queries(25):
        engineer.get(reverse("predictor"))


def test_a_viewer_sees_all_of_it_and_may_change_nothing(viewer):
    a_trainer()
    observations()
    in_force(a_version())
    assert "You need the role policy author" in text_of(viewer.get(reverse("predictor")))
    for name, arguments in (
        ("predictor_retrain", []),
        ("predictor_automatic", []),
        ("predictor_back", []),
        ("predictor_promote", [1]),
        ("predictor_import", []),
    ):
        assert viewer.post(reverse(name, args=arguments)).status_code == 403
    assert viewer.post(f"{API}retrain/").status_code == 403
    change = {"seen": 1, "reason": "why"}
    for path in ("versions/roll-back/", "versions/1/promote/"):
        answer = viewer.post(f"{API}{path}", change, content_type="application/json")
        assert answer.status_code == 403
    assert registry.active_number() == 1


def test_a_person_begins_a_training_sees_how_far_it_is_and_stops_it(engineer):
    a_trainer()
    observations()
    page = text_of(engineer.post(reverse("predictor_retrain"), follow=True))
    assert "The training has begun" in page
    Run.objects.update(state="RUNNING", progress=0.42, message="Fitting member 2 of 5")
    how_far = {"headers": {"HX-Request": "true", "HX-Target": "learning"}}
    part = text_of(engineer.get(f"{reverse('predictor')}?was=learning", **how_far))
    assert "Fitting member 2 of 5" in part
    assert "<html" not in part
    engineer.post(reverse("predictor_stop"))
    assert Run.objects.get().cancel_wanted
    Run.objects.update(state="CANCELLED")
    over = engineer.get(f"{reverse('predictor')}?was=learning", **how_far)
    assert over.headers["HX-Refresh"] == "true"
    assert "was stopped" in text_of(engineer.get(f"{reverse('predictor')}?was=idle", **how_far))


def test_a_person_promotes_and_rolls_back_with_a_reason(engineer):
    a_trainer()
    in_force(a_version())
    a_version(a_report(0.05, active=0.04))
    dialog = text_of(engineer.get(reverse("predictor_promote", args=[2])))
    assert "version 2 predicts in place of version 1" in dialog
    promote = {"seen": "1", "reason": "To compare"}
    engineer.post(reverse("predictor_promote", args=[2]), promote)
    assert registry.active_number() == 2
    late = engineer.post(reverse("predictor_promote", args=[1]), promote, follow=True)
    assert "Somebody was first: version 2 is in force" in text_of(late)
    assert "version 1 predicts again" in text_of(engineer.get(reverse("predictor_back")))
    engineer.post(reverse("predictor_back"), {"seen": "2", "reason": "Predicts badly now"})
    assert registry.active_number() == 1
    assert "none takes over by itself" in text_of(engineer.get(reverse("predictor")))
    engineer.post(reverse("predictor_automatic"), {"automatic": "on"})
    assert registry.learning().automatic


def test_a_file_of_observations_goes_out_and_in(engineer):
    observations(5)
    told = engineer.get(reverse("predictor_observations")).content
    PairObservation.objects.all().delete()
    upload = SimpleUploadedFile("pairs.csv", told, "text/csv")
    page = text_of(engineer.post(reverse("predictor_import"), {"file": upload}, follow=True))
    assert "The observations were imported" in page
    assert PairObservation.objects.count() == 5
    bad = SimpleUploadedFile("pairs.csv", b"\xff\x00,", "text/csv")
    page = text_of(engineer.post(reverse("predictor_import"), {"file": bad}, follow=True))
    assert "documented columns" in page


def test_the_api_tells_versions_and_what_is_in_force(viewer):
    in_force(a_version())
    found = viewer.get(f"{API}versions/").json()["results"][0]
    assert (found["number"], found["state"], found["simulated"]) == (1, "ACTIVE", True)
    assert "data" not in found
    assert viewer.get(API).json() == {"version": 1, "automatic": True}
    assert viewer.get(f"{API}versions/7/").status_code == 404


def test_the_api_answers_409_when_somebody_was_first(engineer):
    in_force(a_version())
    a_version()
    change = {"seen": 1, "reason": "To compare"}
    first = engineer.post(f"{API}versions/2/promote/", change, content_type="application/json")
    assert first.json() == {"version": 2, "automatic": True}
    for path in ("versions/roll-back/", "versions/1/promote/"):
        late = engineer.post(f"{API}{path}", change, content_type="application/json")
        assert late.status_code == 409
        assert "version 2 is in force meanwhile" in late.json()["detail"]


def test_the_api_begins_a_training_and_takes_observations(engineer):
    a_trainer()
    told = engineer.get(f"{API}observations/").content.decode()
    assert told.startswith("online_sm,")
    assert engineer.post(f"{API}retrain/").status_code == 409
    observations()
    assert engineer.post(f"{API}retrain/").json()["kind"] == "training"
    body = {"csv": engineer.get(f"{API}observations/").content.decode()}
    answer = engineer.post(f"{API}observations/", body, content_type="application/json")
    assert (answer.status_code, answer.json()) == (201, {"observations": 400})
    body = {"csv": "no,table"}
    answer = engineer.post(f"{API}observations/", body, content_type="application/json")
    assert answer.status_code == 400


def test_a_run_of_the_schedule_is_nobodys(viewer):
    a_trainer()
    observations()
    training.start(Cause.SCHEDULE, None, timezone.now())
    assert "by schedule" in text_of(viewer.get(reverse("predictor")))
