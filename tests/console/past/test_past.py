"""Charts of the past on the pages: what they show, of whom, and what a gap looks like."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from html import unescape

import numpy as np
import pytest
from django.urls import reverse

from console.accounts.models import Role
from console.history import kept, writing
from console.history.ranges import Band, Chart
from console.inventory.models import Gpu
from console.past import cards
from tests.console.history.cast import samples
from tests.console.inventory.cast import a_node, a_pool
from tests.console.telemetry.cast import person
from tests.console.workloads.cast import a_service

pytestmark = pytest.mark.django_db
HTMX = {"HTTP_HX_REQUEST": "true"}


@pytest.fixture
def gpu() -> Gpu:
    node = a_node(gpus=2)
    a_service(node.gpus.first())
    start = int(time.time()) // 60 * 60 - 1_200
    ids = list(Gpu.objects.values_list("pk", flat=True))
    rows = samples(ids, start, 600, memory=40 << 30)
    writing.store(
        rows.take(np.flatnonzero((rows.second < start + 200) | (rows.second >= start + 300))), 1
    )
    return node.gpus.get(index=0)


def options(html: str, name: str) -> dict:
    found = re.search(rf'id="past-{name}"[^>]*>(.*?)</span>', html, re.S)
    return json.loads(unescape(found[1]))


@pytest.mark.parametrize("kind", ["gpu", "node", "pool", "service"])
def test_each_has_its_past_with_gaps_as_gaps(client, gpu, kind):
    client.force_login(person(role=Role.VIEWER))
    owner = {
        "gpu": gpu.pk, "node": gpu.node_id, "pool": a_pool().pk,
        "service": gpu.instances.first().service_id,
    }[kind]  # fmt: skip
    html = client.get(reverse("past", args=[kind, owner]), {"past": "6h"}, **HTMX).content.decode()
    activity = options(html, "sm_activity")
    known = [value for value in activity["series"][0]["values"] if value is not None]
    period_s = activity["gap_s"] / 1.5
    assert 480 <= len(known) * period_s <= 520
    assert activity["series"][0]["values"].count(None) * period_s > 600
    assert "all there is, since" in html
    assert "past=7d" in html
    page = client.get(reverse("past", args=[kind, owner]))
    assert b"<h1>" in page.content


def test_the_pages_bring_their_past_with_them(client, gpu):
    client.force_login(person(role=Role.VIEWER))
    for address in (
        reverse("gpu", args=[gpu.pk]),
        reverse("node", args=[gpu.node.name]),
        reverse("service", args=[gpu.instances.first().service_id]),
    ):
        assert 'hx-trigger="load"' in client.get(f"{address}?past=24h").content.decode()
        assert "?past=24h" in client.get(f"{address}?past=24h").content.decode()


def test_thresholds_stand_in_the_chart_of_a_gpu(client, gpu):
    client.force_login(person(role=Role.VIEWER))
    html = client.get(reverse("past", args=["gpu", gpu.pk]), **HTMX).content.decode()
    assert [line["label"] for line in options(html, "online_p99")["thresholds"]][-1] == "SLO 40 ms"
    assert options(html, "memory")["series"][0]["values"][-100] in (None, 40.0)


def test_pages_say_which_times_are_those_of_receipt(client, gpu):
    start = int(time.time()) // 60 * 60 - 1_800
    rows = samples([gpu.pk], start, 60)
    rows.last[:, kept.AT["by_receipt"]] = 1
    writing.store(rows, 2)
    client.force_login(person(role=Role.VIEWER))
    html = client.get(reverse("past", args=["gpu", gpu.pk]), **HTMX).content.decode()
    assert "dated by their receipt" in html
    assert "clock off" in html
    replay = client.get(reverse("replay", args=[gpu.pk]), {"at": start}).content.decode()
    assert "are those of receipt" in replay


@pytest.mark.parametrize("address", [("gpu", 10**9), ("pool", 10**9), ("moon", 1)])
def test_of_what_is_not_there_or_out_of_sight_there_is_no_past(client, gpu, address):
    client.force_login(person(role=Role.VIEWER, pool=a_pool("elsewhere")))
    assert client.get(reverse("past", args=address)).status_code == 404
    assert client.get(reverse("past", args=["gpu", gpu.pk])).status_code == 404


NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("asked", "age_s", "key", "shown_s"),
    [
        ("", None, "15m", 900), ("", 60, "15m", 120), ("", 700, "15m", 700),
        ("", 1_200, "1h", 1_200), ("", 9e6, "1h", 3_600), ("24h", 9e6, "24h", 86_400),
        ("24h", 7_200, "24h", 7_200), ("nonsense", 9e6, "1h", 3_600),
    ],
)  # fmt: skip
def test_a_range_shows_no_more_than_there_is(asked, age_s, key, shown_s):
    span = cards.span(asked, None if age_s is None else NOW - age_s, NOW)
    assert (span.key, span.end - span.start) == (key, shown_s)


def test_only_what_is_young_begins_with_its_first_sample():
    chart = a_chart(600, "10 s")
    young = cards.Span("1h", 0, 3_000, young=True)
    assert cards.trimmed(young, chart) == dataclasses.replace(young, start=600, began=600)
    old = dataclasses.replace(young, young=False)
    assert cards.trimmed(old, chart) == old
    nothing = dataclasses.replace(chart, samples=[0, 0, 0])
    assert cards.trimmed(young, nothing) == young


def test_what_is_not_recorded_yet_is_looked_for_again(client):
    node = a_node(gpus=1)
    client.force_login(person(role=Role.VIEWER))
    html = client.get(reverse("past", args=["node", node.pk]), **HTMX).content.decode()
    assert 'hx-trigger="every 15s"' in html
    assert "all there is" not in html


def a_chart(period_s: int, tier: str, points: int = 3) -> Chart:
    band = Band([None, 5.0, None][:points], [None, 4.0, None], [None, 6.0, None])
    times = [float(period_s * n) for n in range(points)]
    return Chart(tier, period_s, times, dict.fromkeys(kept.NAMES, band), [0, 1, 0], 1, [False] * 3)


def test_missing_is_never_zero_in_a_chart_or_its_table():
    chart = a_chart(10, "10 s")
    (card,) = cards.cards(chart, [cards.SM], cards.Span("1h", 0, 30, young=False), {}, [])
    assert [one["values"] for one in card.options["series"]] == [
        [None, 5.0, None], [None, 4.0, None], [None, 6.0, None],
    ]  # fmt: skip
    assert [line.cells[0][0] for line in cards.lines(chart, [cards.SM])] == [None, 5.0, None]


def test_a_chart_says_which_times_are_those_of_receipt():
    chart = dataclasses.replace(
        a_chart(10, "10 s"), samples=[9, 9, 9], by_receipt=[False, True, False]
    )
    assert [mark["at"] for mark in cards.clock_marks(chart)] == [10.0, 20.0]
    assert cards.clock(chart).startswith("1 of 3 points")
    assert [line.by_receipt for line in cards.lines(chart, [cards.SM])] == [False, True, False]
    assert cards.clock(a_chart(10, "10 s")) == ""
    assert cards.clock_marks(a_chart(10, "10 s")) == []


@pytest.mark.parametrize(
    ("period_s", "tier", "words"),
    [
        (1, "1 s", "each second as it was; shaded to the worst of it"),
        (10, "10 s", "means of 10 s, lowest to highest shaded"),
        (180, "1 min", "means of 3 min (from 1 min), lowest to highest shaded"),
        (1_800, "15 min", "means of 30 min (from 15 min), lowest to highest shaded"),
    ],
)
def test_a_chart_says_what_its_points_are(period_s, tier, words):
    assert cards.resolution(a_chart(period_s, tier)) == words
