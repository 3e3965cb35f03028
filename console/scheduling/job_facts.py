"""Jobs as rounds know them, read as plain rows: tens of thousands run, and few of them change.

A job of which nothing has changed is the same object in every round of a process; who knows that
one (`workers.matching.kept_columns`) reads no further.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import F, QuerySet, TextField
from django.db.models.functions import Cast

from console.scheduling.priorities import weight_of
from console.scheduling.snapshot import JobFacts, Use
from console.workloads.models import OfflineJob

# More jobs than wait and run at once; a fact takes about a kilobyte.
_KEPT: Final = 65_536


class Row(NamedTuple):
    """Columns of a job by their names; lists as the JSON that is stored, `team` by its name."""

    id: UUID
    name: str
    submitted_at: datetime
    priority: int
    sm_percent: float
    gpu_util_percent: float
    memory_bytes: int
    memory_bandwidth_percent: float
    occupancy_percent: float | None
    step_s: float | None
    profile_gpu_model: str
    pools_json: str
    gpu_models_json: str
    labels_json: str
    not_before: datetime | None
    gpus: int
    cpu_cores: float | None
    host_memory_bytes: int | None
    team_name: str
    proven_at: datetime | None
    profile_source: str


def read(jobs: QuerySet[OfflineJob]) -> dict[UUID, JobFacts]:
    """By id, in the order of `jobs`; one query."""
    lists = {f"{name}_json": Cast(name, TextField()) for name in ("pools", "gpu_models", "labels")}
    told = jobs.annotate(**lists, team_name=F("team__name"))
    return {row[0]: facts(row) for row in told.values_list(*Row._fields)}


@lru_cache(_KEPT)
def facts(told: tuple[object, ...]) -> JobFacts:
    """`told` are the values of a `Row`, of which making one is left out when they are known."""
    row = Row(*told)  # type: ignore[arg-type]
    return JobFacts(
        id=row.id,
        name=row.name,
        submitted_at=row.submitted_at,
        weight=weight_of(row.priority),
        use=_use(row),
        pools=tuple(sorted(json.loads(row.pools_json))),
        gpu_models=tuple(sorted(json.loads(row.gpu_models_json))),
        not_before=row.not_before,
        gpus=row.gpus,
        cpu_cores=row.cpu_cores,
        host_memory_bytes=row.host_memory_bytes,
        team=row.team_name,
        labels=frozenset(json.loads(row.labels_json)),
        proven=row.proven_at is not None,
        profile_source=row.profile_source,
    )


def _use(row: Row) -> Use:
    return Use(
        sm_percent=min(100.0, row.sm_percent),
        util_percent=min(100.0, row.gpu_util_percent),
        bandwidth_percent=min(100.0, row.memory_bandwidth_percent),
        memory_bytes=row.memory_bytes,
        occupancy_percent=(
            None if row.occupancy_percent is None else min(100.0, row.occupancy_percent)
        ),
        step_s=row.step_s,
        gpu_model=row.profile_gpu_model,
    )
