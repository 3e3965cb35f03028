"""What every process of the console tells of itself: one registry, with nothing counted twice.

Whoever counts on a busy path keeps plain numbers; a collector reads them when it is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from django.db import Error as DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from prometheus_client import (
    Counter,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CollectorRegistry, InfoMetricFamily
from prometheus_client.registry import Collector

from agents.wire.version import VERSION

# When each counter began: nobody asks, and it doubles the lines.
disable_created_metrics()  # type: ignore[no-untyped-call]
REGISTRY: Final = CollectorRegistry(auto_describe=True)
for standard in (ProcessCollector, PlatformCollector, GCCollector):
    standard(registry=REGISTRY)

queries: Final = Counter(
    "muxflow_database_queries", "Statements sent to the database.", registry=REGISTRY
)
query_s: Final = Counter(
    "muxflow_database_query_seconds", "Time that statements took.", registry=REGISTRY
)
failed_queries: Final = Counter(
    "muxflow_database_errors", "Statements that failed.", registry=REGISTRY
)


class Build(Collector):
    """The version that runs."""

    def collect(self) -> list[InfoMetricFamily]:
        return [InfoMetricFamily("muxflow_build", "Always 1.", {"version": VERSION})]


REGISTRY.register(Build())


def watch_database() -> None:
    """Count every statement of this process, whichever connection it takes."""
    connection_created.connect(_watch, dispatch_uid="muxflow metrics")


def _watch(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if _counted not in connection.execute_wrappers:
        connection.execute_wrappers.append(_counted)


def _counted(
    execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    queries.inc()
    began = time.perf_counter()
    try:
        return execute(sql, params, many, context)
    except DatabaseError:
        failed_queries.inc()
        raise
    finally:
        query_s.inc(time.perf_counter() - began)
