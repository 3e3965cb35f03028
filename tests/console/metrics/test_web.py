"""What a web process says of itself."""

from __future__ import annotations

from console.metrics.web import Web
from console.telemetry.hub import Hub


def test_what_the_history_lacks_and_what_it_got_later_is_counted():
    hub = Hub()
    hub.outgoing.dropped_total, hub.backfills.seconds_total = 7, 120
    told = {sample.name: sample.value for one in Web(hub).collect() for sample in one.samples}
    assert told["muxflow_web_history_dropped_samples_total"] == 7
    assert told["muxflow_web_backfilled_samples_total"] == 120
