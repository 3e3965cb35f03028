from __future__ import annotations

import itertools

from agents.collectors.base import Collected, GpuReading, NodeReading, collect_all, merge
from agents.wire.names import SIGNALS

NOTHING = (None,) * len(SIGNALS)


def gpu(index=0, first=None, second=None, **sides):
    return GpuReading(index, (first, second, *NOTHING[2:]), **sides)


class Source:
    def __init__(self, name, *gpus, failure=None):
        self.name, self.gpus, self.failure = name, gpus, failure

    def collect(self, now):
        if self.failure:
            raise self.failure
        return NodeReading(now, self.gpus) if self.gpus else None


def collected(*sources):
    ticking = itertools.count(0.0, 0.5)
    return collect_all(sources, 7.0, lambda: next(ticking))


def test_a_failing_collector_says_why_and_the_others_go_on():
    broken, fine = collected(Source("nvml", failure=OSError("driver gone")), Source("dcgm", gpu()))
    assert (broken.ok, broken.error) == (False, "OSError: driver gone")
    assert fine.ok
    assert fine.reading == NodeReading(7.0, (gpu(),))


def test_having_no_data_is_no_error():
    (empty,) = collected(Source("dcgm"))
    assert (empty.ok, empty.reading) == (True, None)


def test_each_collector_reports_its_own_duration():
    assert [one.duration_s for one in collected(Source("a", gpu()), Source("b"))] == [0.5, 0.5]


def test_the_first_collector_that_has_a_value_wins():
    one = NodeReading(1.0, (gpu(0, 0.0, None, online_processes=0),))
    other = NodeReading(1.0, (gpu(0, 50.0, 60.0, online_processes=2, sm_online_percent=9.0),))
    found = merge([Collected("a", one, 0.1), Collected("b", other, 0.1)], now=2.0)
    assert found.at == 2.0
    assert found.gpus[0].values[:3] == (0.0, 60.0, None)
    assert found.gpus[0].online_processes == 0
    assert found.gpus[0].sm_online_percent == 9.0


def test_gpus_that_only_one_source_sees_are_kept_in_order():
    one, other = NodeReading(1.0, (gpu(2),)), NodeReading(1.0, (gpu(0),))
    found = merge([Collected("a", one, 0.1), Collected("b", other, 0.1)], now=2.0)
    assert [each.index for each in found.gpus] == [0, 2]


def test_nothing_collected_is_an_empty_reading():
    assert merge([Collected("a", None, 0.1, "OSError: gone")], now=2.0) == NodeReading(2.0, ())
