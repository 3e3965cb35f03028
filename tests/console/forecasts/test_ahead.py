"""What the page of a GPU tells of the hour ahead."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from django.urls import reverse
from django.utils import timezone

from console.accounts.models import Role
from console.forecasts import ahead, gathering, history, outlook
from console.forecasts.series import BIN_S, KINDS, Forecast
from console.scheduling import next_start
from console.scheduling.models import Placement
from tests.console.inventory.cast import a_node
from tests.console.telemetry import cast

pytestmark = pytest.mark.django_db


@pytest.fixture
def gpu(cache):
    return a_node("node-01", gpus=1).gpus.get()


@pytest.fixture
def viewer(client):
    client.force_login(cast.person(role=Role.VIEWER))
    return client


def told(gpu, high: float, kind: str = "daily") -> None:
    row = np.full((1, 4), high, np.float32)
    made = Forecast(row - 20, row, np.array([KINDS.index(kind)], np.uint8))
    outlook.put(timezone.now().timestamp(), np.array([gpu.pk], np.uint32), made)


def measured(gpu, *percent: float) -> None:
    """In the bins that ended last."""
    end = gathering.bin_number(timezone.now().timestamp())
    for back, value in enumerate(percent, start=1):
        row = np.full(gpu.pk + 1, np.nan, np.float32)
        row[gpu.pk] = value
        history.keep(end - back, row)


def test_the_page_says_what_is_expected_and_what_it_leaves(viewer, gpu):
    told(gpu, 62.0)
    page = viewer.get(reverse("gpu", args=[gpu.pk])).content.decode()
    assert "With 95 % certainty below" in page
    assert "<b>62\u202f%</b>" in page or "<b>62\xa0%</b>" in page
    assert "the same hour of the days before" in page


def test_the_page_says_when_nothing_is_foretold(viewer, gpu, cache):
    cache.lost = True
    page = viewer.get(reverse("gpu", args=[gpu.pk])).content.decode()
    assert "Nothing is foretold" in page
    assert "With 95 % certainty below" not in page


def test_the_chart_goes_from_what_was_measured_to_what_is_expected(viewer, gpu):
    measured(gpu, 40.0, 30.0)
    told(gpu, 62.0)
    chart = viewer.get(reverse("gpu_forecast", args=[gpu.pk])).json()
    known, middle, high = (one["values"] for one in chart["series"])
    assert [value for value in known if value is not None] == [30, 40, 40]
    assert [value for value in high if value is not None] == [40, 62, 62, 62, 62]
    assert middle[-1] == 42
    assert len(chart["x"]) == len(known) == len(middle) == len(high)
    assert chart["x"] == sorted(chart["x"])
    assert chart["to"] - chart["now"] == 12 * BIN_S


def test_a_chart_without_a_forecast_ends_with_what_was_measured(viewer, gpu):
    measured(gpu, 40.0)
    chart = viewer.get(reverse("gpu_forecast", args=[gpu.pk])).json()
    assert chart["shaded"] == []
    assert {len(one["values"]) for one in chart["series"]} == {len(chart["x"])}


def test_scripts_read_the_same_by_the_api(viewer, gpu):
    told(gpu, 62.0)
    body = viewer.get(reverse("api_gpu_forecast", args=[gpu.pk])).json()
    assert (body["peak_percent"], body["rests_on"]) == (62, "daily")
    assert body["steps"][0] == {"in_s": 300, "expected_percent": 42, "high_percent": 62}


def test_the_api_says_null_where_nothing_is_foretold(viewer, gpu):
    body = viewer.get(reverse("api_gpu_forecast", args=[gpu.pk])).json()
    assert body == {"made_at": None, "rests_on": None, "peak_percent": None, "steps": []}


def test_a_gpu_that_one_may_not_see_has_no_chart(viewer):
    assert viewer.get(reverse("gpu_forecast", args=[99])).status_code == 404


def test_what_was_not_measured_stays_missing_in_the_table(gpu):
    measured(gpu, 40.0)
    lines = ahead.load(gpu.pk, timezone.now() + timedelta(seconds=0)).lines
    assert (lines[0].percent, lines[1].percent) == (40, None)


# --- what waits for the next start --------------------------------------------------------


def test_a_smaller_share_says_what_holds_until_the_next_start():
    waiting = Placement(pending_sm_share_percent=45.0, duty_percent=80.0)
    assert next_start.sentence(waiting) == (
        "45 % of the SMs at the next start; until then duty 80 %."
    )


def test_a_larger_share_says_what_a_restart_would_be_worth():
    waiting = Placement(pending_sm_share_percent=60.0, pending_why="A restart would gain nothing.")
    assert next_start.sentence(waiting) == (
        "60 % of the SMs at the next start. A restart would gain nothing."
    )


def test_where_nothing_waits_nothing_is_said():
    assert next_start.sentence(Placement(sm_share_percent=60.0)) == ""


@pytest.mark.parametrize(("known", "drawn"), [(0, 72), (2, 12), (30, 30), (72, 72)])
def test_the_chart_begins_with_the_first_that_is_known(known, drawn):
    percent = np.full(72, np.nan, np.float32)
    percent[72 - known :] = 20.0
    found = ahead.Ahead(None, ahead.measured(percent, 1_000), ahead.bin_width_s())
    assert found.before == drawn
    assert ahead.chart(found)["from"] == found.bins[-drawn].at.timestamp()
