"""What the page of a service tells of the hour ahead, and of how far that was off before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from django.urls import reverse
from django.utils import timezone

from console.accounts.models import Role
from console.forecasts import gathering, service_ahead, services
from console.forecasts.models import ServiceBin
from console.forecasts.packing import packed
from console.forecasts.series import AHEAD, BIN_S, BINS, DAILY_HOURS, HORIZONS, KINDS
from console.forecasts.service_ahead import Lack
from tests.console.forecasts.test_look import Seer
from tests.console.inventory.cast import a_node
from tests.console.telemetry import cast
from tests.console.workloads.cast import a_service

pytestmark = pytest.mark.django_db


@pytest.fixture
def service(cache):
    one, two = a_node("node-01", gpus=2).gpus.order_by("pk")
    found = a_service(one)
    found.instances.create(gpu=two)
    return found


@pytest.fixture
def viewer(client):
    client.force_login(cast.person(role=Role.VIEWER))
    return client


def kept(service, back: int, percent: float | None, kind: str = "level", hours: int = 5) -> None:
    """The bin that ended `back` bins ago, with 30 % expected and 45 % as the band."""
    ServiceBin.objects.create(
        service=service,
        number=gathering.bin_number(timezone.now().timestamp()) - 1 - back,
        percent=percent,
        gpus=2,
        middle=packed(np.full(len(HORIZONS), 30, np.float32)).tobytes(),
        high=packed(np.full(len(HORIZONS), 45, np.float32)).tobytes(),
        kind=KINDS.index(kind),
        known_hours=hours,
    )


def page(viewer, service) -> str:
    return viewer.get(reverse("service_expected", args=[service.pk])).content.decode()


def test_the_worker_keeps_the_mean_of_the_gpus_with_what_it_foretold(load, service):
    one, two = service.instances.values_list("gpu_id", flat=True)
    seer, start = Seer(), datetime(2026, 9, 7, tzinfo=UTC)
    for seconds in (0, BIN_S, 2 * BIN_S):
        now = start + timedelta(seconds=seconds)
        load.update({"at": now.timestamp(), one: 20.0, two: 40.0})
        services.look(now, seer)
    first, last = ServiceBin.objects.order_by("number")
    assert (first.percent, last.percent, last.gpus) == (30, 30, 2)
    assert [step / 2 for step in last.middle] == [30, 30, 30, 30]
    assert [step / 2 for step in last.high] == [40, 40, 40, 40]


def test_the_page_says_what_is_expected_and_how_far_that_was_off(viewer, service):
    for back in range(AHEAD + 1):
        kept(service, back, 33.0)
    text = page(viewer, service)
    assert "95 % below" in text
    assert ">3.0<" in text
    assert "told from 12 of them on" in text
    assert text.count("too few") == 2 * 3  # all but the next bin were judged fewer times
    assert [">12<" in text, ">1<" in text] == [True, True]


def test_too_little_history_is_told_with_what_there_is_of_it(viewer, service):
    kept(service, 0, 33.0, hours=7)
    assert "the day is heeded from 20 hours of history on: there are 7" in page(viewer, service)


@pytest.mark.parametrize(
    ("hours", "lack"),
    [(0, Lack("day", 20, 0)), (DAILY_HOURS, Lack("week", 270, 20)), (270, None)],
)
def test_each_season_has_its_history(service, hours, lack):
    kept(service, 0, 33.0, hours=hours)
    assert service_ahead.load(service, timezone.now()).lack == lack


def test_a_forecast_that_is_over_is_not_in_force(viewer, service):
    kept(service, AHEAD, 33.0)
    assert "Nothing is foretold yet" in page(viewer, service)


def test_unmeasured_gpus_are_no_forecast_and_no_zero(viewer, service):
    kept(service, 0, None, kind="none")
    assert "less than half of its GPUs were measured" in page(viewer, service)
    assert service_ahead.load(service, timezone.now()).ahead.bins[-1].percent is None


def test_the_chart_shows_what_was_expected_an_hour_before_beside_what_came(viewer, service):
    for back in range(AHEAD + 1):
        kept(service, back, 33.0)
    chart = viewer.get(reverse("service_forecast", args=[service.pk])).json()
    measured, middle, high, earlier = (one["values"] for one in chart["series"])
    assert {len(one) for one in (measured, middle, high, earlier)} == {len(chart["x"])}
    last = len(chart["x"]) - 1 - len(HORIZONS) - 1
    assert (measured[last], earlier[last]) == (33, 30)
    assert earlier.count(None) == len(earlier) - 1


def test_scripts_read_the_same_by_the_api(viewer, service):
    for back in range(AHEAD + 1):
        kept(service, back, 33.0)
    body = viewer.get(reverse("api_service_forecast", args=[service.pk])).json()
    assert (body["rests_on"], body["known_hours"]) == ("level", 5)
    first, *_, last = body["steps"]
    assert first == {
        "in_s": BIN_S, "expected_percent": 30, "high_percent": 45,
        "error_points": 3, "below_high": 1, "judged": 12,
    }  # fmt: skip
    assert (last["error_points"], last["judged"]) == (None, 1)


def test_old_bins_of_services_go(load, service):
    kept(service, BINS + 1, 33.0)
    gpu = service.instances.first().gpu_id
    for seconds in (0, BIN_S):
        now = timezone.now() + timedelta(seconds=seconds)
        load.update({"at": now.timestamp(), gpu: 20.0})
        services.look(now, Seer())
    assert ServiceBin.objects.count() == 1


def test_the_pages_of_a_service_read_a_fixed_number_of_rows(
    viewer, service, django_assert_max_num_queries
):
    for back in range(BINS):
        kept(service, back, 33.0)
    viewer.get(reverse("service_forecast", args=[service.pk]))
    with django_assert_max_num_queries(6):
        viewer.get(reverse("service_forecast", args=[service.pk]))


def test_a_service_that_one_may_not_see_has_no_forecast(viewer):
    assert viewer.get(reverse("service_forecast", args=[99])).status_code == 404
    assert viewer.get(reverse("service_expected", args=[99])).status_code == 404
