"""p99 and QPS of the online services, each from its own metrics page.

The address may name the metric in its fragment, which is never sent:
`http://127.0.0.1:8000/metrics#http_request_duration_seconds`. Without it the first well-known
latency metric of the page is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urldefrag

from agents.collectors import exposition, latency, numbers
from agents.collectors.base import Finding, Findings, Unavailable, values_of
from agents.collectors.dcgm import TextPage
from agents.collectors.fetch import Page
from agents.complaints import Complaints
from agents.wire.messages import DesiredService
from agents.wire.names import Signal

log = logging.getLogger(__name__)

# A page that failed is left alone for so long at least.
AGAIN_S: Final = 2.0

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

    @property
    def is_idle(self) -> bool:
        """Without an address, and once the last page is closed."""
        return not (self._watched or self._wanted())

    def look(self, now: float) -> Findings:
        wanted = self._wanted()
        urls = dict.fromkeys(wanted.values())
        for url in self._watched.keys() - urls.keys():
            self._watched.pop(url).close()
        for url in urls:
            if url not in self._watched:
                self._watched[url] = _Watched(url, self._page)
        again = self._to_try_again(now)
        found = {url: self._finding(self._watched[url], again, now) for url in urls}
        return {uuid: found[url] for uuid, url in wanted.items()}

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

    def _to_try_again(self, now: float) -> _Watched | None:
        """One page a look of those that failed: many that hang must not make the others old."""
        failing = [each for each in self._watched.values() if each.failed_at is not None]
        longest = min(failing, key=lambda each: each.failed_at or 0.0, default=None)
        if longest is None or longest.failed_at is None:
            return None
        return longest if not 0.0 <= now - longest.failed_at < AGAIN_S else None

    def _finding(self, watched: _Watched, again: _Watched | None, now: float) -> Finding:
        """One service that does not answer is no failure of the others."""
        if watched.failed_at is not None and watched is not again:
            return _nothing(watched.why)
        try:
            pace = watched.look(now)
        except Unavailable as error:
            watched.failed_at, watched.why = now, str(error)
            if self._complaints.due(watched.why):
                log.warning("no p99: %s", error)
            return _nothing(watched.why)
        watched.failed_at = None
        return Finding(
            values_of(
                {
                    Signal.ONLINE_P99: numbers.within(Signal.ONLINE_P99, pace.p99_ms),
                    Signal.ONLINE_QPS: numbers.within(Signal.ONLINE_QPS, pace.qps),
                }
            )
        )


def _nothing(why: str) -> Finding:
    return Finding(missing=dict.fromkeys((Signal.ONLINE_P99, Signal.ONLINE_QPS), why))


class _Watched:
    """One page and what it said before; `failed_at` since it last failed."""

    def __init__(self, url: str, page: Callable[[str], TextPage]) -> None:
        self._url = url
        self._make_page = page
        self._page: TextPage | None = None
        self._metric: str | None = None
        self._window: latency.Window | None = None
        self.failed_at: float | None = None
        self.why = ""

    def look(self, now: float) -> latency.Pace:
        """Raises Unavailable."""
        text = self._opened().read()
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
        if self._page is not None:
            self._page.close()

    def _opened(self) -> TextPage:
        if self._page is None:
            where, fragment = urldefrag(self._url)
            if fragment and not exposition.is_name(fragment):
                raise Unavailable(f"{fragment!r} in {self._url} is not the name of a metric")
            self._page, self._metric = self._make_page(where), fragment or None
        return self._page
