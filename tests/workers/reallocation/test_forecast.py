"""Series with a known truth: what is foretold, how sure it is, and what it rests on."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.forecasts.series import AHEAD, BINS, HORIZONS, KINDS, Forecast, Past, hours_of_week
from workers.reallocation.forecast import forecast

PER_HOUR, PER_DAY = 12, 288
ALONE = -1


def past(y: np.ndarray, now: int | None = None, peers: int = ALONE) -> Past:
    """What is known at the end of bin `now` of series that began on a Monday at midnight."""
    now = y.shape[1] - 1 if now is None else now
    first, whole = max(0, now + 1 - BINS), (now + 1) // PER_HOUR
    parts = y[:, : whole * PER_HOUR].reshape(len(y), whole, PER_HOUR)
    seen = np.isfinite(parts).sum(axis=2)
    hours = np.where(seen > 0, np.nansum(parts, axis=2) / np.maximum(seen, 1), np.nan)
    at = (np.arange(first, now + 1 + AHEAD) + 0.5) / PER_HOUR % 168
    return Past(
        y[:, first : now + 1].astype(np.float32),
        hours.astype(np.float32),
        at.astype(np.float32),
        ((np.arange(whole) + 0.5) % 168).astype(np.float32),
        np.full(len(y), peers),
    )


def kinds(told: Forecast) -> set[str]:
    return {KINDS[kind] for kind in told.kind}


def noisy(level: np.ndarray, noise: float, gpus: int, seed: int = 1) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(0, noise, (gpus, len(level)))
    return np.clip(level + drawn, 0, 100)


def day(bins: np.ndarray, weekend: float = 1.0) -> np.ndarray:
    hour = bins / PER_HOUR
    busy = np.where((hour // 24) % 7 >= 5, weekend, 1.0)
    return 20 + 40 * busy * np.exp(-(((hour % 24 - 14) / 3.0) ** 2))


# --- little is known ----------------------------------------------------------------------


def test_what_was_never_measured_is_not_foretold():
    told = forecast(past(np.full((2, 40), np.nan)))
    assert kinds(told) == {"none"}
    assert np.isnan(told.high).all()
    assert np.isnan(told.middle).all()


def test_after_minutes_the_recent_peak_is_all_there_is():
    told = forecast(past(np.array([[10.0, np.nan, 35.0, 20.0]])))
    assert kinds(told) == {"peak"}
    assert (told.high == 35).all()
    assert told.middle[0, 0] == pytest.approx(65 / 3, abs=0.01)


def test_one_bin_is_enough_to_say_something():
    assert forecast(past(np.array([[42.0]]))).high[0, 0] == 42


def test_after_hours_the_level_is_foretold_with_a_margin_for_what_errors_were():
    told = forecast(past(noisy(np.full(60, 40.0), 5, 30)))
    assert kinds(told) == {"level"}
    assert told.middle.mean() == pytest.approx(40, abs=1.5)
    assert 45 < told.high.mean() < 53


def test_a_gpu_that_has_long_been_silent_is_no_longer_foretold():
    y = np.full((1, 100), 40.0)
    y[:, -20:] = np.nan
    assert kinds(forecast(past(y))) == {"none"}


def test_a_short_silence_changes_nothing():
    y = noisy(np.full(100, 40.0), 3, 20)
    y[:, -5:] = np.nan
    told = forecast(past(y))
    assert kinds(told) == {"level"}
    assert told.middle.mean() == pytest.approx(40, abs=1.5)


# --- plain series -------------------------------------------------------------------------


def test_a_constant_load_is_foretold_as_it_is():
    told = forecast(past(np.full((3, 200), 30.0)))
    assert np.allclose(told.middle, 30, atol=0.01)
    assert ((told.high >= 30) & (told.high <= 33)).all()


def test_an_idle_gpu_stays_idle_which_is_not_missing():
    told = forecast(past(np.zeros((3, 200))))
    assert (told.middle == 0).all()
    assert (told.high < 3).all()


def test_one_spike_long_ago_does_not_raise_the_middle():
    y = np.full((4, 200), 20.0)
    y[:, 60] = 95
    told = forecast(past(y))
    assert np.allclose(told.middle, 20, atol=2)


def test_a_load_that_often_spikes_is_given_room():
    rng = np.random.default_rng(3)
    y = np.where(rng.random((40, 250)) < 0.1, 70.0, 20.0)
    assert forecast(past(y)).high.mean() > 50


def test_a_lasting_change_is_followed_within_the_hour():
    y = np.full((4, 212), 20.0)
    y[:, -12:] = 60
    assert (forecast(past(y)).middle[:, 0] > 50).all()


def test_peers_tell_of_a_rise_that_one_gpu_alone_cannot():
    """All of a service rise together, each under noise of its own."""
    level = np.full(150, 20.0)
    level[-2:] = 40
    y = noisy(level, 8, 60)
    together, alone = forecast(past(y, peers=0)), forecast(past(y))
    assert kinds(together) == {"peers"}
    assert np.abs(together.middle[:, 0] - 40).mean() < np.abs(alone.middle[:, 0] - 40).mean()


# --- seasons ------------------------------------------------------------------------------

BIN = np.arange(15 * PER_DAY + AHEAD)


@pytest.fixture(scope="module")
def two_weeks() -> np.ndarray:
    """Fifteen days of workdays and weekends, with gaps."""
    y = noisy(day(BIN, weekend=0.3), 4, 24)
    y[np.random.default_rng(2).random(y.shape) < 0.1] = np.nan
    return y


def off(y: np.ndarray, told: Forecast, now: int, weekend: float) -> float:
    truth = day(now + np.array(HORIZONS), weekend)
    return float(np.abs(told.middle - truth).mean())


@pytest.mark.parametrize("hour", [9, 12, 17])
def test_after_two_days_the_morning_rise_is_foretold(hour):
    y = noisy(day(BIN), 4, 24)
    now = 3 * PER_DAY + hour * PER_HOUR
    told = forecast(past(y, now))
    assert kinds(told) == {"daily"}
    assert off(y, told, now, 1.0) < 2.5


@pytest.mark.parametrize(("weekday", "hour"), [(14, 10), (14, 16)])
def test_after_two_weeks_a_workday_is_told_from_a_weekend(two_weeks, weekday, hour):
    now = weekday * PER_DAY + hour * PER_HOUR
    told = forecast(past(two_weeks, now))
    assert "weekly" in kinds(told)
    assert off(two_weeks, told, now, 0.3) < 3.0


def test_a_load_without_a_season_is_not_given_one():
    rng = np.random.default_rng(5)
    wandering = 50 + np.cumsum(rng.normal(0, 1.2, (24, 4 * PER_DAY)), axis=1)
    assert "level" in kinds(forecast(past(np.clip(wandering, 0, 100))))


def test_the_quantile_holds_on_a_season_with_noise(two_weeks):
    below = []
    for now in range(14 * PER_DAY, 15 * PER_DAY, 60):
        high = forecast(past(two_weeks, now)).high
        came = two_weeks[:, [now + h for h in HORIZONS]]
        below.append((came <= high)[np.isfinite(came)])
    assert 0.92 < np.concatenate(below).mean() < 0.98


# --- hostile and odd ----------------------------------------------------------------------


@given(
    st.lists(
        st.lists(st.none() | st.floats(0, 100), min_size=30, max_size=30), min_size=1, max_size=4
    )
)
@settings(max_examples=15)
def test_whatever_was_measured_the_forecast_is_a_percentage(rows):
    y = np.array([[np.nan if one is None else one for one in row] for row in rows])
    told = forecast(past(y))
    known = told.kind > 0
    assert ((told.high[known] >= 0) & (told.high[known] <= 100)).all()
    assert (told.high[known] >= told.middle[known] - 1e-3).all()
    assert np.isnan(told.high[~known]).all()


# --- the clock on the wall ----------------------------------------------------------------


def test_hours_are_those_of_the_pools_zone():
    noon = datetime(2026, 7, 6, 12, 30, tzinfo=UTC).timestamp()  # a Monday
    assert hours_of_week(np.array([noon]))[0] == 12.5
    assert hours_of_week(np.array([noon]), ZoneInfo("Asia/Tokyo"))[0] == 21.5
    assert hours_of_week(np.array([noon]), ZoneInfo("America/New_York"))[0] == 8.5


def test_the_same_hour_is_found_again_when_the_clocks_change():
    """9:00 in Berlin, on the Friday before and the Monday after the end of summer time."""
    zone = ZoneInfo("Europe/Berlin")
    days = [datetime(2026, 10, at, 9, tzinfo=zone).timestamp() for at in (23, 26)]
    assert (hours_of_week(np.array(days), zone) % 24 == 9).all()
    assert (days[1] - days[0]) / 3_600 == 3 * 24 + 1
