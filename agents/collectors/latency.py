"""p99 and requests a second from a service's own metrics. Pure.

A histogram gives both over the last few seconds, from the difference of two pages; a summary
gives its own quantile and a count. Counters that fell mean that the service has started anew:
what was seen before says nothing any more.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from agents.collectors import exposition

QUANTILE: Final = 0.99
# A p99 over less has too few requests, over more comes too late: the shortest dwell of a policy
# on it is 3 s.
WINDOW_S: Final = 3.0
# Two pages further apart than this say nothing of now.
MOST_APART_S: Final = 2 * WINDOW_S
# The first of these that a page declares is read when the address names none.
KNOWN: Final = (
    "http_request_duration_seconds",
    "http_server_request_duration_seconds",
    "request_latency_seconds",
    "request_duration_seconds",
    "vllm:e2e_request_latency_seconds",
    "sglang:e2e_request_latency_seconds",
    "tgi_request_duration",
    "nv_inference_request_summary_us",
)
# The unit is in the name, as Prometheus asks; seconds where it is not.
_MS_IN: Final = (
    ("_seconds", 1e3),
    ("_milliseconds", 1.0),
    ("_ms", 1.0),
    ("_microseconds", 1e-3),
    ("_us", 1e-3),
)


@dataclass(frozen=True, slots=True)
class Page:
    """What one page said, `at` monotonic seconds. `buckets` are cumulative, by upper bound in the
    metric's unit, summed over all series; `quantile` is the worst of them. `counts` is the number
    of requests of each series."""

    at: float
    counts: Mapping[str, float]
    buckets: Mapping[float, float] = field(default_factory=dict)
    quantile: float | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """p99 in ms and requests a second; p99 is None without requests."""

    p99_ms: float | None
    qps: float | None


def metric_in(text: str) -> str | None:
    """The metric of a page that is read when none is named."""
    declared = exposition.families(text)
    return next((name for name in KNOWN if declared.get(name) in {"histogram", "summary"}), None)


def read(text: str, metric: str, at: float) -> Page | None:
    """None when the page does not have the metric."""
    names = (metric, f"{metric}_bucket", f"{metric}_count")
    counts: dict[str, float] = {}
    buckets: dict[float, float] = {}
    quantiles = []
    for sample in exposition.samples(text, names):
        if sample.name.endswith("_bucket") and "le" in sample.labels:
            bound = _bound(sample.labels["le"])
            if bound is not None and sample.value >= 0.0:
                buckets[bound] = buckets.get(bound, 0.0) + sample.value
        elif sample.name.endswith("_count") and sample.value >= 0.0:
            series = repr(sorted(sample.labels.items()))
            counts[series] = counts.get(series, 0.0) + sample.value
        elif _is_p99(sample.labels) and math.isfinite(sample.value):
            quantiles.append(sample.value)
    if not counts and not buckets:
        return None
    return Page(at, counts, buckets, max(quantiles, default=None))


def ms_in(metric: str) -> float:
    """Milliseconds in one unit of the metric."""
    return next((ms for ending, ms in _MS_IN if metric.endswith(ending)), 1e3)


class Window:
    """The pages of the last seconds."""

    def __init__(self, metric: str) -> None:
        self._ms = ms_in(metric)
        self._pages: deque[Page] = deque()

    def add(self, page: Page) -> Pace:
        """What follows from this page and those before it."""
        last = self._pages[-1] if self._pages else None
        if last is not None and not _continues(last, page):
            self._pages.clear()
        self._pages.append(page)
        while len(self._pages) > 2 and page.at - self._pages[1].at >= WINDOW_S:
            self._pages.popleft()
        return self._pace()

    def _pace(self) -> Pace:
        first, last = self._pages[0], self._pages[-1]
        if first is last:
            return Pace(None, None)
        requests = _requests(first, last)
        qps = requests / (last.at - first.at)
        if requests <= 0.0:
            return Pace(None, 0.0)
        value = quantile(_since(first, last)) if last.buckets else last.quantile
        return Pace(None if value is None else value * self._ms, qps)


def quantile(buckets: Mapping[float, float], part: float = QUANTILE) -> float | None:
    """The value under which `part` of the requests lie, linear within a bucket, as Prometheus'
    histogram_quantile. One in the last, unbounded bucket is at least that bucket's lower bound."""
    bounds = sorted(buckets)
    if not bounds:
        return None
    cumulative = [buckets[bound] for bound in bounds]
    for place, (before, after) in enumerate(pairwise(cumulative), 1):
        # Series that came or went between two pages can make a bucket hold less than a lower one.
        cumulative[place] = max(before, after)
    total = cumulative[-1]
    if total <= 0.0:
        return None
    rank = part * total
    place = next(place for place, count in enumerate(cumulative) if count >= rank)
    low = bounds[place - 1] if place else min(0.0, bounds[0])
    if math.isinf(bounds[place]):
        return low if place else None
    under = cumulative[place - 1] if place else 0.0
    within = cumulative[place] - under
    return low + (bounds[place] - low) * ((rank - under) / within if within > 0.0 else 1.0)


def _since(first: Page, last: Page) -> dict[float, float]:
    return {
        bound: max(0.0, count - first.buckets.get(bound, 0.0))
        for bound, count in last.buckets.items()
    }


def _requests(first: Page, last: Page) -> float:
    """From the counts; from the unbounded bucket where a page has none."""
    if last.counts:
        return sum(
            max(0.0, count - first.counts.get(series, 0.0)) for series, count in last.counts.items()
        )
    return _since(first, last).get(math.inf, 0.0)


def _continues(last: Page, page: Page) -> bool:
    return 0.0 < page.at - last.at <= MOST_APART_S and not _fell(last, page)


def _fell(last: Page, page: Page) -> bool:
    """True when a counter is below what it was: the service has started anew."""
    counts = any(page.counts.get(series, count) < count for series, count in last.counts.items())
    return counts or any(
        page.buckets.get(bound, count) < count for bound, count in last.buckets.items()
    )


def _bound(text: str) -> float | None:
    try:
        bound = float(text)
    except ValueError:
        return None
    return None if math.isnan(bound) else bound


def _is_p99(labels: Mapping[str, str]) -> bool:
    try:
        return math.isclose(float(labels.get("quantile", "nan")), QUANTILE)
    except ValueError:
        return False
