"""p99 and QPS of the online services, each from its own metrics page.

The address may name the metric in its fragment, which is never sent:
`http://127.0.0.1:8000/metrics#http_request_duration_seconds`. Without it the first well-known
latency metric of the page is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urldefrag

from agents.collectors import exposition, latency, numbers
from agents.collectors.base import Finding, Findings, Unavailable, values_of
from agents.collectors.dcgm import TextPage
from agents.collectors.fetch import Page
from agents.complaints import Complaints
from agents.wire.messages import DesiredService
from agents.wire.names import Signal

log = logging.getLogger(__name__)

Services = Callable[[], Sequence[DesiredService]]


class ServiceSource:
    """One page for each GPU, that of the first service on it which has one."""

    name = "service"
    period_s = 1.0
    max_age_s = 3.0
    prompt = False

    def __init__(
        self,
        services: Services,
        uuids: Mapping[int, str],
        page: Callable[[str], TextPage] = Page,
    ) -> None:
        """`uuids` of the GPUs by index."""
        self._services, self._uuids, self._page = services, uuids, page
        self._watched: dict[str, _Watched] = {}
        self._complaints = Complaints()

    def look(self, now: float) -> Findings:
        wanted = self._wanted()
        for url in self._watched.keys() - wanted.values():
            self._watched.pop(url).close()
        return {uuid: self._finding(url, now) for uuid, url in wanted.items()}

    def close(self) -> None:
        for watched in self._watched.values():
            watched.close()

    def _wanted(self) -> dict[str, str]:
        wanted: dict[str, str] = {}
        for service in self._services():
            uuid = self._uuids.get(service.gpu_index)
            if uuid is not None and service.metrics_url:
                wanted.setdefault(uuid, service.metrics_url)
        return wanted

    def _finding(self, url: str, now: float) -> Finding:
        """One service that does not answer is no failure of the others."""
        try:
            if url not in self._watched:
                self._watched[url] = _Watched(url, self._page)
            pace = self._watched[url].look(now)
        except Unavailable as error:
            if self._complaints.due(str(error)):
                log.warning("no p99: %s", error)
            return Finding(
                missing=dict.fromkeys((Signal.ONLINE_P99, Signal.ONLINE_QPS), str(error))
            )
        return Finding(
            values_of(
                {
                    Signal.ONLINE_P99: numbers.within(Signal.ONLINE_P99, pace.p99_ms),
                    Signal.ONLINE_QPS: numbers.within(Signal.ONLINE_QPS, pace.qps),
                }
            )
        )


class _Watched:
    """One page and what it said before."""

    def __init__(self, url: str, page: Callable[[str], TextPage]) -> None:
        """Raises Unavailable."""
        where, fragment = urldefrag(url)
        if fragment and not exposition.is_name(fragment):
            raise Unavailable(f"{fragment!r} in {url} is not the name of a metric")
        self._url = url
        self._page = page(where)
        self._metric = fragment or None
        self._window: latency.Window | None = None

    def look(self, now: float) -> latency.Pace:
        text = self._page.read()
        metric = self._metric or latency.metric_in(text)
        if metric is None:
            raise Unavailable(
                f"{self._url} has no known latency metric: name it in the address, as #NAME"
            )
        found = latency.read(text, metric, now)
        if found is None:
            raise Unavailable(f"{self._url} has no metric {metric}")
        if self._window is None:
            self._metric, self._window = metric, latency.Window(metric)
        return self._window.add(found)

    def close(self) -> None:
        self._page.close()
