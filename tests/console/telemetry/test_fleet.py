from __future__ import annotations

from datetime import timedelta

import pytest

from console.telemetry import fleet, layout
from console.telemetry.latest import Grid
from console.telemetry.models import FleetSample
from tests.console.telemetry import cast
from tests.console.telemetry.fleet import BUSY, row

pytestmark = pytest.mark.django_db


@pytest.fixture
def live(monkeypatch):
    """Puts the same sample under every GPU, as if all were heard at that moment."""

    def put(now, **values) -> None:
        def grid() -> Grid:
            made = Grid(layout.load().facts)
            made.at[:], made.state[:] = now.timestamp(), 1
            made.values[:] = row(**{**BUSY, **values})
            return made

        monkeypatch.setattr(fleet, "_grid", grid)

    return put


def sampled(now) -> FleetSample:
    fleet.sample(now)
    return FleetSample.objects.get(at=now)


def test_a_sample_tells_means_modes_and_the_slo_of_services(live):
    node = cast.node()
    cast.service(node.gpus.get(index=0))
    live(cast.T, sm_activity=60, online_p99=50)
    told = sampled(cast.T)
    assert (told.gpus, told.reporting, told.sharing) == (2, 2, 2)
    assert told.sm_activity_percent == 60
    assert told.online_p99_slo_ratio == 1.25
    assert told.services_over_slo == 1


def test_without_redis_live_values_are_missing_and_work_is_still_counted():
    cast.placement(cast.node().gpus.get(index=0), observed_throughput=0.5)
    told = sampled(cast.T)
    assert (told.reporting, told.sm_activity_percent, told.online_p99_slo_ratio) == (0, None, None)
    assert (told.running, told.equivalent_gpus) == (1, 0.5)


def test_equivalent_gpu_seconds_are_the_integral_of_speed_on_the_world_clock(live, settings):
    settings.WORLD_CLOCK, settings.FLEET_SAMPLE_PERIOD_S = 60, 2
    placement = cast.placement(cast.node().gpus.get(index=0), observed_throughput=0.5)
    live(cast.T)
    assert sampled(cast.T).equivalent_gpu_s_total == 0
    type(placement).objects.update(observed_throughput=0.7)
    assert sampled(cast.T + timedelta(seconds=2)).equivalent_gpu_s_total == pytest.approx(72)


def test_a_pause_of_the_sampler_is_not_counted_as_work(live, settings):
    settings.WORLD_CLOCK, settings.FLEET_SAMPLE_PERIOD_S = 1, 10
    cast.placement(cast.node().gpus.get(index=0), observed_throughput=1.0)
    live(cast.T)
    sampled(cast.T)
    assert sampled(cast.T + timedelta(hours=5)).equivalent_gpu_s_total == 30


def test_a_frozen_job_runs_but_adds_no_speed(live):
    cast.placement(cast.node().gpus.get(index=0), state="FROZEN", observed_throughput=0.9)
    told = sampled(cast.T)
    assert (told.running, told.equivalent_gpus) == (1, 0)


def test_lost_work_and_restarts_are_totals(settings):
    settings.WORLD_CLOCK = 60
    card, other = cast.node().gpus.all()
    job = cast.job()
    cast.placement(card, job, state="ENDED", lost_work_s=120)
    later = cast.T + timedelta(minutes=1)
    cast.placement(other, job, created_at=later, started_at=later + timedelta(seconds=3))
    told = sampled(later)
    assert told.lost_work_s_total == 120
    assert told.restart_s_total == 180


def test_sampling_twice_at_one_moment_keeps_one_sample(live):
    cast.node()
    live(cast.T)
    fleet.sample(cast.T)
    fleet.sample(cast.T)
    assert FleetSample.objects.count() == 1


def test_the_same_few_queries_whatever_the_size(django_assert_max_num_queries):
    for number in range(4):
        card = cast.node(f"node-{number}", token=str(number)).gpus.get(index=0)
        cast.placement(card, cast.job(f"job-{number}"))
        cast.pool(f"pool-{number}")
    with django_assert_max_num_queries(8):
        fleet.sample(cast.T)


def test_the_fleet_now_without_redis_has_no_live_gpu():
    cast.node()
    told = fleet.summary_now(cast.T.timestamp())
    assert (told["gpus"], told["live"], told["sm_activity"]) == (2, 0, None)
