"""What an agent recorded while nobody heard it fills the gap, once, and is held against the same
bounds as live telemetry."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agents.wire.messages import Samples
from console.history import ranges, rollup, services, writing
from console.history.models import Block
from console.history.tiers import DAY_S, HOUR_S
from console.inventory.models import Gpu
from tests.console.history import cast
from tests.console.history.cast import DAY, recorded
from tests.console.inventory.cast import a_node
from tests.console.workloads.cast import a_service

pytestmark = pytest.mark.django_db


def rolled_up(now: float) -> None:
    for _ in range(3):
        rollup.roll(datetime.fromtimestamp(now, UTC), lambda until: False)


def pool_samples(node, seconds: int) -> int:
    chart = ranges.chart(ranges.Pool(node.pool_id), ["sm_activity"], DAY, DAY + seconds, now=DAY)
    return sum(chart.samples)


@pytest.fixture
def node():
    return a_node(gpus=1)


def activity(node, seconds: int, points: int = 600) -> list[float | None]:
    gpu = Gpu.objects.get(node=node)
    found = ranges.chart(
        ranges.Gpu(gpu.pk), ["sm_activity"], DAY, DAY + seconds, points, now=DAY + seconds
    )
    return found.series["sm_activity"].mean


def test_a_gap_is_filled_and_what_came_live_stays(node):
    gpu = Gpu.objects.get(node=node).pk
    writing.store(cast.samples([gpu], DAY, 60, sm_activity=50.0), 1_764_460_900_000)
    blocks = [recorded(DAY + 50, 30)]
    assert services.backfill(node.pk, blocks, DAY + 200) == 20
    assert activity(node, 80) == [50.0] * 60 + [70.0] * 20


def test_the_same_again_changes_nothing(node):
    told = [services.backfill(node.pk, [recorded(DAY, 30)], DAY + 200) for _ in range(2)]
    assert told == [30, 0]
    assert activity(node, 30) == [70.0] * 30
    assert pool_samples(node, 30) == 30


def test_hours_that_are_rolled_up_already_learn_of_it(node):
    """Minutes, hours and days of the node, its pool and its services; and each once."""
    gpu = Gpu.objects.get(node=node)
    service = a_service(gpu)
    writing.store(cast.samples([gpu.pk], DAY, 60, sm_activity=50.0), 1_764_460_900_000)
    rolled_up(DAY + DAY_S + 900)
    blocks = [recorded(DAY + 120, 60), recorded(DAY + HOUR_S - 30, 60)]
    for _ in range(3):
        services.backfill(node.pk, blocks, DAY + HOUR_S + 600)
        rolled_up(DAY + DAY_S + 900)
    assert activity(node, HOUR_S, 60)[:4] == [50.0, None, 70.0, None]
    for scope in (ranges.Gpu(gpu.pk), ranges.Pool(node.pool_id), ranges.Service(service.pk)):
        for points, period_s in ((720, 10), (120, 60), (8, 900)):
            chart = ranges.chart(scope, ["sm_activity"], DAY, DAY + 2 * HOUR_S, points, DAY + DAY_S)
            assert (chart.period_s, sum(chart.samples)) == (period_s, 180)
            assert max(filter(None, chart.series["sm_activity"].high)) == 70.0
    assert not Block.objects.filter(epoch__gt=0).exists()


@pytest.mark.parametrize("behind_s", [3_600.0, -40.0])
def test_what_a_node_with_a_wrong_clock_recorded_is_put_right_and_marked(node, behind_s):
    blocks = [recorded(DAY - int(behind_s), 30)]
    told = [services.backfill(node.pk, blocks, DAY + 200, behind_s) for _ in range(2)]
    assert told == [30, 0]
    gpu = ranges.Gpu(Gpu.objects.get(node=node).pk)
    found = ranges.chart(gpu, ["sm_activity"], DAY, DAY + 60, now=DAY + 60)
    assert found.samples == [1] * 30 + [0] * 30
    assert found.by_receipt == [True] * 30 + [False] * 30
    assert services.backfill(node.pk, [recorded(DAY + 30, 10)], DAY + 200, 1.9) == 10
    found = ranges.chart(gpu, ["sm_activity"], DAY, DAY + 60, 6, now=DAY + 60)
    assert found.by_receipt == [True] * 3 + [False] * 3


@pytest.mark.parametrize(
    "block",
    [recorded(DAY - 3 * HOUR_S, 5), recorded(DAY + 500, 5), recorded(DAY, 5, activity=4_000.0)],
    ids=["too old", "not yet", "out of bounds"],
)
def test_what_cannot_be_true_is_no_value(node, block):
    services.backfill(node.pk, [block], DAY + 200)
    assert set(activity(node, 300)) == {None}


def test_what_is_no_block_is_refused(node):
    with pytest.raises(ValueError, match="no block"):
        services.backfill(node.pk, [Samples((1,), (DAY + 1.0,), 1, 13, 12, b"nonsense")], DAY + 9)
