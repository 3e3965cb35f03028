"""What was written is read back over any range, from whichever tier it is in by then."""

from __future__ import annotations

import math
import tracemalloc
from datetime import UTC, datetime

import numpy as np
import pytest
from django.urls import reverse

from console.accounts.models import Role
from console.history import ranges, rollup, writing
from console.history.models import Block, Kind
from console.history.points import Chart
from console.history.tiers import DAY_S, HOUR_S, TIERS
from console.inventory.models import Gpu
from tests.console.history.cast import DAY, samples
from tests.console.inventory.cast import a_node, a_pool
from tests.console.telemetry.cast import person
from tests.console.workloads.cast import a_service

pytestmark = pytest.mark.django_db
NAMES = ("sm_activity", "memory", "online_p99")


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def rolled_up(until: float) -> None:
    for _ in range(3):
        rollup.roll(at(until), lambda until: False)


@pytest.fixture
def gpus() -> list[int]:
    """Two nodes with two GPUs each, in two pools."""
    for name, pool in (("node-1", "web"), ("node-2", "ads")):
        a_node(name, a_pool(pool), gpus=2)
    return list(Gpu.objects.order_by("pk").values_list("pk", flat=True))


def chart(scope: ranges.Scope, start: float, seconds: float, points: int = 600) -> Chart:
    return ranges.chart(scope, NAMES, start, start + seconds, points, now=start + seconds)


def test_seconds_come_back_and_a_gap_stays_a_gap(gpus):
    writing.store(samples(gpus[:1], DAY, 40, sm_activity=50.0), 1)
    writing.store(samples(gpus[:1], DAY + 50, 30, sm_activity=0.0), 2)
    found = chart(ranges.Gpu(gpus[0]), DAY, 90)
    activity = found.series["sm_activity"].mean
    assert found.tier == "1 s"
    assert activity == [50.0] * 40 + [None] * 10 + [0.0] * 30 + [None] * 10
    assert found.series["memory"].mean == [None] * 90
    assert sum(found.samples) == 70


def test_what_was_written_twice_counts_once(gpus):
    same = samples(gpus, DAY, 60)
    writing.store(same, 1)
    writing.store(same, 2)
    writing.store(same.take(same.gpu == gpus[0]), 3)
    assert chart(ranges.Gpu(gpus[0]), DAY, 60).samples == [1] * 60
    assert chart(ranges.Pool(a_pool("web").pk), DAY, 60, 6).samples == [20] * 6


def test_what_comes_late_is_read_beside_what_was_there(gpus):
    whole = samples(gpus, DAY, 60)
    late = whole.second % 7 == 0
    writing.store(whole.take(~late), 1)
    writing.store(whole.take(late), 2)
    assert chart(ranges.Node(Gpu.objects.get(pk=gpus[0]).node_id), DAY, 60).samples == [2] * 60


def test_samples_of_unknown_gpus_are_left_out(gpus):
    writing.store(samples([*gpus, 999_999], DAY, 5), 1)
    assert sum(chart(ranges.Gpu(gpus[3]), DAY, 5).samples) == 5


def test_a_rolled_up_hour_says_what_its_seconds_said(gpus):
    service = a_service(Gpu.objects.get(pk=gpus[0]))
    writing.store(samples(gpus, DAY + 120, HOUR_S - 240, seed=3), 1)
    scopes = [ranges.Gpu(gpus[0]), ranges.Pool(a_pool("web").pk), ranges.Service(service.pk)]
    before = [chart(scope, DAY, HOUR_S) for scope in scopes]
    seconds = ranges.samples(gpus[1], DAY + 60, DAY + 900, now=DAY + 900)
    rolled_up(DAY + HOUR_S + 600)
    assert not Block.objects.filter(epoch__gt=0).exists()
    assert Block.objects.filter(kind=Kind.NODE, tier_s=1).count() == 2
    assert ranges.samples(gpus[1], DAY + 60, DAY + 900, now=DAY + 900) == seconds
    after = [chart(scope, DAY, HOUR_S) for scope in scopes]
    assert before == after
    assert after[0].tier == "10 s"
    assert after[1].gpus == 2


def test_a_day_is_one_block_of_quarters(gpus):
    for hour in (0, 5):
        writing.store(samples(gpus, DAY + hour * HOUR_S, 120, sm_activity=30.0), 1)
    rolled_up(DAY + DAY_S + 900)
    assert Block.objects.filter(kind=Kind.NODE, tier_s=900).count() == 2
    found = ranges.chart(ranges.Gpu(gpus[0]), NAMES, DAY, DAY + DAY_S, 96, now=DAY + 100 * DAY_S)
    known = [i for i, value in enumerate(found.series["sm_activity"].mean) if value is not None]
    assert (found.tier, known) == ("15 min", [0, 20])
    assert found.samples[0] == 120


def test_a_long_range_of_a_short_history_takes_little_memory(gpus):
    writing.store(samples(gpus, DAY, 600, sm_activity=30.0), 1)
    tracemalloc.start()
    found = chart(ranges.Gpu(gpus[0]), DAY - 30 * DAY_S, 30 * DAY_S + 900)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(found.samples) == 600
    assert peak_bytes < 20 << 20


def test_rolling_up_in_pieces_or_twice_makes_no_difference(gpus, monkeypatch):
    writing.store(samples(gpus, DAY, 300), 1)
    monkeypatch.setattr(rollup, "NODES", 1)
    rolled_up(DAY + HOUR_S + 600)
    once = {block.pk: bytes(block.data) for block in Block.objects.exclude(tier_s=1)}
    rollup.RolledUp.objects.all().delete()
    rolled_up(DAY + HOUR_S + 600)
    assert {block.pk: bytes(block.data) for block in Block.objects.exclude(tier_s=1)} == once


def test_what_is_too_old_goes_and_nothing_else(gpus):
    writing.store(samples(gpus[:1], DAY, 120), 1)
    rolled_up(DAY + HOUR_S + 600)
    for tier in TIERS[:-1]:
        rollup.forget(at(DAY + tier.kept_s - 60))
        assert Block.objects.filter(tier_s=tier.period_s).exists()
        rollup.forget(at(DAY + tier.kept_s + 4 * tier.block_s))
        assert not Block.objects.filter(tier_s=tier.period_s, kind=Kind.NODE).exists()


@pytest.fixture
def history(client, gpus):
    client.force_login(person(role=Role.VIEWER))

    def ask(**asked):
        return client.get(reverse("api_history"), asked)

    return ask


def test_a_script_reads_the_past_as_numbers_and_as_a_file(history, gpus):
    writing.store(samples(gpus, DAY, 60, sm_activity=12.5, online_p99=math.nan), 1)
    asked = {"gpu": gpus[0], "since": DAY, "until": DAY + 60, "names": "sm_activity,online_p99"}
    told = history(**asked).json()
    assert told["series"]["sm_activity"]["mean"][0] == 12.5
    assert set(told["series"]["online_p99"]["mean"]) == {None}
    file = history(**asked, download="csv")
    lines = b"".join(file.streaming_content).decode().splitlines()
    assert lines[0].startswith("at,samples,by_receipt,sm_activity_mean")
    assert ",60,0,12.5" in lines[1]
    assert set(told["by_receipt"]) == {False}
    assert lines[1].endswith(",12.5,12.5,12.5,,,")
    assert "attachment" in file["Content-Disposition"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpu": ""}, {"pool": 1}, {"names": "sm_activity,nonsense"}, {"names": " ,"},
        {"until": DAY}, {"since": "nan"}, {"points": 0}, {"points": 10**6}, {"since": 10},
        {"since": 4e9, "until": 4.1e9},
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_a_sentence(history, gpus, wrong):
    answer = history(**{"gpu": gpus[0], "since": DAY, "until": DAY + 60} | wrong)
    assert answer.status_code == 400
    assert answer.json()["detail"]


def test_nobody_reads_the_past_of_a_pool_out_of_sight(client, gpus):
    client.force_login(person(role=Role.VIEWER, pool=a_pool("ads")))
    for scope, pk in (("gpu", gpus[0]), ("pool", a_pool("web").pk)):
        asked = {scope: pk, "since": DAY, "until": DAY + 60}
        assert client.get(reverse("api_history"), asked).status_code == 404


def test_no_value_is_read_that_was_not_written(gpus):
    """The means of a pool lie between its lows and highs, whatever was missing."""
    some = samples(gpus, DAY, 60, seed=9)
    missing = np.random.default_rng(1).random(some.last.shape) < 0.3
    some.last[missing] = -32_768
    writing.store(some, 1)
    band = chart(ranges.Pool(a_pool("web").pk), DAY, 60, 6).series["sm_activity"]
    assert all(
        low <= mean <= high for low, mean, high in zip(band.low, band.mean, band.high, strict=True)
    )
