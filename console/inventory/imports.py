"""Bring a cluster into the inventory: all of it in one transaction, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from django.db import connection, transaction
from django.db.models import Model

from agents.wire.cluster import Cluster
from agents.wire.names import SharingMode
from console.audit.services import Actor, record
from console.errors import Invalid, Refused
from console.inventory.importing import documents, openb
from console.inventory.importing.draft import Draft, draft_of
from console.inventory.models import Gpu, Node, Pool
from console.workloads.models import OfflineJob, OnlineInstance, OnlineService, Team

FORMATS: Final = ("muxflow", "openb")
DEFAULT_SEED: Final = 20_260_901
BATCH: Final = 2_000

M = TypeVar("M", bound=Model)
Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Report:
    """What came in, by kind, and what was left out, by reason."""

    written: Mapping[str, int]
    skipped: Mapping[str, int]


def import_path(
    path: Path,
    format: str,
    *,
    actor: Actor,
    now: datetime,
    seed: int = DEFAULT_SEED,
    progress: Progress = lambda fraction, message: None,
) -> Report:
    """Read a file or folder and write it.

    Raises Malformed, Invalid or Refused; then nothing was written.
    """
    progress(0.05, f"Reading {path.name}")
    if format == "openb":
        return write(openb.draft(path, seed, now), actor, progress)
    if format != "muxflow":
        raise Invalid(f"Unknown format {format!r}; choose one of {', '.join(FORMATS)}.")
    return import_cluster(documents.read(path), actor=actor, now=now, progress=progress)


def import_cluster(
    cluster: Cluster,
    *,
    actor: Actor,
    now: datetime,
    mode: SharingMode = SharingMode.SHADOW,
    progress: Progress = lambda fraction, message: None,
) -> Report:
    """Write a cluster that `documents` has read. Raises Refused when it is here already."""
    return write(draft_of(cluster, now, mode), actor, progress)


@transaction.atomic
def write(draft: Draft, actor: Actor, progress: Progress) -> Report:
    """Pools and teams that are known are used as they are; anything else must be new."""
    progress(0.4, "Checking against what is here")
    _refuse_known("nodes", Node, "name", [node.name for node in draft.nodes])
    _refuse_known("services", OnlineService, "name", [s.name for s in draft.services])
    _refuse_known("GPUs", Gpu.objects.filter(retired_at=None), "uuid", [g.uuid for g in draft.gpus])
    progress(0.5, "Writing")
    _use_known(Pool, draft.pools)
    _use_known(Team, draft.teams)
    written = {kind: _write(model, rows) for kind, model, rows in _in_order(draft)}
    _count([model for _, model, _ in _in_order(draft)])
    for pool in draft.pools.values():
        record(actor, "pool.import", pool, now=draft.now, written=written)
    progress(1.0, "Done")
    return Report(written, dict(draft.skipped))


def _in_order(draft: Draft) -> tuple[tuple[str, type[Model], list[Any]], ...]:
    """Rows before those that point at them."""
    return (
        ("pools", Pool, [pool for pool in draft.pools.values() if pool.pk is None]),
        ("teams", Team, [team for team in draft.teams.values() if team.pk is None]),
        ("nodes", Node, draft.nodes),
        ("gpus", Gpu, draft.gpus),
        ("services", OnlineService, draft.services),
        ("instances", OnlineInstance, draft.instances),
        ("jobs", OfflineJob, draft.jobs),
    )


def _write(model: type[M], rows: list[M]) -> int:
    return len(model._default_manager.bulk_create(rows, batch_size=BATCH))


def _count(models: Iterable[type[Model]]) -> None:
    """PostgreSQL plans by what it counted last, and by itself counts a minute later: the first
    round over the new cluster would be planned for empty tables."""
    if connection.vendor == "postgresql":
        tables = ", ".join(connection.ops.quote_name(model._meta.db_table) for model in models)
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE {tables}")


def _use_known(model: type[Pool] | type[Team], rows: dict[str, Any]) -> None:
    """Rows point at the objects of the draft, so a known one lends them its key."""
    known = dict(model._default_manager.filter(name__in=rows).values_list("name", "pk"))
    for name, pk in known.items():
        rows[name].pk = pk


def _refuse_known(what: str, rows: Any, field: str, values: Iterable[str]) -> None:
    wanted = set(values)
    manager = getattr(rows, "_default_manager", rows)
    known = sorted(wanted & set(manager.values_list(field, flat=True)))
    if known:
        more = f" and {len(known) - 3} more" if len(known) > 3 else ""
        raise Refused(
            f"{len(known)} of these {what} are here already ({', '.join(known[:3])}{more}),"
            " so nothing was imported: take them out of the file."
        )
