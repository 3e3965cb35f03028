"""How the console itself does: what waits, who holds which lease, how old the data is."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import django
import redis
from django.conf import settings
from django.db import connection
from django.db.models import Count, Max, Min

from agents.wire.version import VERSION
from console.audit.models import Entry
from console.inventory.models import Node
from console.runs.models import Lease, Run
from console.scheduling.models import Round
from console.telemetry.models import FleetSample

QUEUES: Final = ("matching", "reallocation", "telemetry", "default")
RECENT_RUNS: Final = 10


@dataclass(frozen=True)
class Broker:
    """Redis as it answers now. `waiting` by queue; None while it does not answer."""

    version: str | None
    waiting: Sequence[tuple[str, int | None]]


def broker() -> Broker:
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1)
    try:
        info: Any = client.info("server")
        keys = [f"{settings.REDIS_PREFIX}:celery:{name}" for name in QUEUES]
        lengths: list[int | None] = [int(client.llen(key)) for key in keys]  # type: ignore[arg-type]
    except redis.RedisError:
        return Broker(None, [(name, None) for name in QUEUES])
    finally:
        client.close()
    return Broker(str(info["redis_version"]), list(zip(QUEUES, lengths, strict=True)))


def leases() -> list[Lease]:
    """Those of single runs are left out: their runs tell."""
    return list(Lease.objects.exclude(name__startswith="run:").order_by("name"))


def ages() -> list[tuple[str, datetime | None]]:
    """When each kind of data was last written."""
    connected = Node.objects.filter(state=Node.State.CONNECTED)
    heard = connected.aggregate(newest=Max("last_seen_at"), oldest=Min("last_seen_at"))
    sealed = Entry.objects.exclude(hash="").order_by("-sealed_number").first()
    return [
        ("Newest word of a node", heard["newest"]),
        ("Oldest of the connected nodes", heard["oldest"]),
        ("Last sample of the fleet", FleetSample.objects.aggregate(at=Max("at"))["at"]),
        ("Last round", _last_round()),
        ("Last sealed audit entry", sealed.at if sealed else None),
    ]


def _last_round() -> datetime | None:
    begun = Round.objects.exclude(state=Round.State.SKIPPED)
    newest: datetime | None = begun.aggregate(at=Max("started_at"))["at"]
    return newest


def unsealed() -> int:
    """Audit entries that wait for the sealer."""
    return Entry.objects.filter(hash="").count()


def nodes_by_state() -> list[tuple[str, int]]:
    rows = Node.objects.values_list("state").annotate(n=Count("pk")).order_by("-n")
    return list(rows)


def agent_versions() -> list[tuple[str, int]]:
    rows = Node.objects.exclude(agent_version="").values_list("agent_version")
    return list(rows.annotate(n=Count("pk")).order_by("-n"))


def refusing() -> list[Node]:
    """Nodes that do not take what is wanted of them."""
    return list(Node.objects.exclude(refused="").order_by("name")[:20])


def versions(redis_version: str | None) -> list[tuple[str, str | None]]:
    return [
        ("Console", VERSION),
        ("Django", django.get_version()),
        ("Python", platform.python_version()),
        (connection.display_name, _database_version()),
        ("Redis", redis_version),
    ]


def _database_version() -> str:
    return ".".join(str(part) for part in connection.get_database_version())


def runs(kind: str | None = None) -> list[Run]:
    """The last runs, without what they were given: that may be a whole file."""
    rows: Any = Run.objects.select_related("started_by").defer("arguments").order_by("-created_at")
    return list((rows.filter(kind=kind) if kind else rows)[:RECENT_RUNS])
