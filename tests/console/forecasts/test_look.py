"""Looks at the live grid become bins, hours and forecasts of the whole fleet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from console.forecasts import history, outlook, services
from console.forecasts.models import OnlineBin
from console.forecasts.packing import packed, unpacked
from console.forecasts.series import BIN_S, HORIZONS, HOUR_S, Forecast, Past
from console.scheduling import peaks
from tests.console.inventory.cast import a_node, a_pool

pytestmark = pytest.mark.django_db

START = datetime(2026, 9, 7, tzinfo=UTC)  # a Monday


class Seer:
    """Foretells what it is told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Past] = []

    def __call__(self, past: Past) -> Forecast:
        self.asked.append(past)
        shape = (len(past.bins), len(HORIZONS))
        last = np.repeat(past.bins[:, -1:], len(HORIZONS), axis=1)
        return Forecast(last, last + 10, np.full(shape[0], 2, np.uint8))


@pytest.fixture
def seer() -> Seer:
    return Seer()


def look(seer: Seer, load: dict, seconds: float, **percent: float | None) -> int:
    now = START + timedelta(seconds=seconds)
    load["at"] = now.timestamp()
    load.update({int(name[1:]): value for name, value in percent.items()})
    return services.look(now, seer)


def gpus(count: int = 2, **pool) -> list[int]:
    node = a_node("node-01", a_pool("web", **pool), gpus=count)
    return list(node.gpus.order_by("pk").values_list("pk", flat=True))


def test_a_bin_is_the_mean_of_the_looks_at_it(load, seer):
    one, two = gpus()
    look(seer, load, 0, **{f"g{one}": 20.0, f"g{two}": None})
    look(seer, load, 60, **{f"g{one}": 40.0})
    assert look(seer, load, BIN_S, **{f"g{one}": 90.0}) == 2
    row = history.read(BIN_S, _bin(0), _bin(0) + 1, two + 1)[0]
    assert unpacked(row)[one] == 30
    assert np.isnan(unpacked(row)[two])


def test_what_was_not_measured_is_told_as_missing(load, seer):
    one, two = gpus()
    look(seer, load, 0, **{f"g{one}": 20.0})
    look(seer, load, BIN_S, **{f"g{one}": 20.0})
    assert seer.asked[-1].bins[:, -1].tolist()[0] == 20
    assert outlook.of(two).peak_percent is None
    assert two not in outlook.peaks()


def test_within_a_bin_nothing_is_foretold_anew(load, seer):
    (one,) = gpus(1)
    assert look(seer, load, 0, **{f"g{one}": 20.0}) == 1  # there was none yet
    assert look(seer, load, 60, **{f"g{one}": 20.0}) == 0


def test_forecasts_that_were_lost_are_made_again_at_once(load, seer, cache):
    (one,) = gpus(1)
    look(seer, load, 0, **{f"g{one}": 20.0})
    look(seer, load, BIN_S, **{f"g{one}": 20.0})
    cache.values.clear()
    assert look(seer, load, BIN_S + 30, **{f"g{one}": 20.0}) == 1
    assert outlook.of(one).high == (30, 30, 30, 30)


def test_an_hour_is_kept_when_it_is_over(load, seer):
    (one,) = gpus(1)
    for number in range(14):
        look(seer, load, number * BIN_S, **{f"g{one}": float(number)})
    hour = OnlineBin.objects.get(period_s=HOUR_S, number=_bin(0) // 12)
    assert unpacked(np.frombuffer(hour.values, np.uint8))[one] == pytest.approx(5.5)
    assert np.nanmax(seer.asked[-1].hours[0]) == pytest.approx(5.5)


def test_old_bins_go(load, seer):
    (one,) = gpus(1)
    old = _bin(0) - history.BINS - 20
    OnlineBin.objects.create(period_s=BIN_S, number=old, values=b"")
    look(seer, load, 0, **{f"g{one}": 20.0})
    look(seer, load, BIN_S, **{f"g{one}": 20.0})
    assert not OnlineBin.objects.filter(number=old).exists()


def test_without_redis_nothing_is_kept_and_nothing_raises(load, seer, cache):
    (one,) = gpus(1)
    cache.lost = True
    assert look(seer, load, 0, **{f"g{one}": 20.0}) == 0
    assert (outlook.of(one), outlook.peaks()) == (None, {})
    assert not OnlineBin.objects.exists()


def test_pools_are_foretold_by_the_clock_on_their_own_wall(load, seer):
    gpus(1, time_zone="Asia/Tokyo")
    a_node("node-02", a_pool("train", time_zone="UTC"), gpus=1)
    look(seer, load, 0)
    hours = [float(past.bin_hour[0]) for past in seer.asked]
    assert sorted(round(hour) % 24 for hour in hours) == [0, 9]


def test_a_zone_nobody_knows_is_utc(load, seer):
    (one,) = gpus(1, time_zone="Mars/Olympus")
    assert look(seer, load, 0, **{f"g{one}": 20.0}) == 1


def test_the_world_of_the_demo_has_bins_of_five_of_its_own_minutes(load, seer, settings, cache):
    settings.WORLD_CLOCK = 60
    (one,) = gpus(1)
    look(seer, load, 0, **{f"g{one}": 20.0})
    assert look(seer, load, 6, **{f"g{one}": 20.0}) == 1
    assert cache.lasts_s == 60
    assert outlook.of(one).at == pytest.approx(START.timestamp() + 5, abs=5)


def test_the_number_of_queries_does_not_grow_with_the_fleet(
    load, seer, django_assert_max_num_queries
):
    gpus(1)
    look(seer, load, 0)
    a_node("node-03", gpus=40)
    with django_assert_max_num_queries(20):
        look(seer, load, BIN_S)


# --- the peak that a share complements ----------------------------------------------------


def test_a_share_answers_to_the_forecast_over_the_recent_peak(load, seer):
    one, two = gpus()
    look(seer, load, 0, **{f"g{one}": 20.0})
    look(seer, load, BIN_S, **{f"g{one}": 20.0})
    assert peaks.expected({one: 25.0, two: 15.0}, 1_000.0) == {one: 30.0, two: 15.0}
    assert peaks.expected({one: 55.0}, 1_000.0) == {one: 55.0}


def test_without_redis_a_share_answers_to_the_load_of_the_moment(cache):
    cache.lost = True
    assert peaks.expected({1: 25.0}, 1_000.0) == {1: 25.0}


def test_bytes_hold_half_percents_and_keep_missing_apart_from_zero():
    percent = np.array([0, 0.4, 33.3, 100, np.nan], np.float32)
    back = unpacked(packed(percent))
    assert back[:4].tolist() == [0, 0.5, 33.5, 100]
    assert np.isnan(back[4])


def test_what_another_version_wrote_is_no_forecast(cache):
    cache.values[outlook._key()] = {b"0": b"\x93\x01\x02\x03"}
    assert (outlook.of(1), outlook.peaks()) == (None, {})


def _bin(seconds: float) -> int:
    return int((START.timestamp() + seconds) // BIN_S)
