"""Whose the processes of a story were, as far as they are known here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from console.faults.story import Process, Side, Story
from console.inventory.models import Gpu
from console.scheduling.models import Placement
from console.workloads.models import OfflineJob, OnlineService


@dataclass(frozen=True)
class Known:
    """`story` with the names of jobs; `placement` or `service` is that of its first process."""

    story: Story
    placement: Placement | None
    service: OnlineService | None
    jobs_hit: list[OfflineJob]
    services_hit: list[OnlineService]

    @property
    def job_id(self) -> UUID | None:
        return self.placement.job_id if self.placement else None


def identify(gpu: Gpu, told: Story) -> Known:
    """Only what is or was on this node counts: a node cannot accuse another one's jobs."""
    processes = [*([told.first] if told.first else []), *told.others]
    placements = _placements(gpu, processes)
    services = _services(gpu, processes)
    return Known(
        replace(
            told,
            first=told.first and _named(told.first, placements),
            others=tuple(_named(one, placements) for one in told.others),
        ),
        _of_job(told.first, placements) if told.first else None,
        _of_service(told.first, services) if told.first else None,
        [guest.job for one in told.others if (guest := _of_job(one, placements))],
        [tenant for one in told.others if (tenant := _of_service(one, services))],
    )


def _placements(gpu: Gpu, processes: list[Process]) -> Mapping[str, Placement]:
    ids = [UUID(one.placement_id) for one in processes if one.placement_id]
    rows = Placement.objects.filter(pk__in=ids, gpu__node=gpu.node_id).select_related("job")
    return {str(placement.pk): placement for placement in rows}


def _services(gpu: Gpu, processes: list[Process]) -> Mapping[str, OnlineService]:
    names = {one.name for one in processes if one.side == Side.ONLINE}
    rows = OnlineService.objects.filter(name__in=names, instances__gpu__node=gpu.node_id)
    return {service.name: service for service in rows.distinct()}


def _of_job(process: Process, placements: Mapping[str, Placement]) -> Placement | None:
    return placements.get(process.placement_id or "") if process.side == Side.OFFLINE else None


def _of_service(process: Process, services: Mapping[str, OnlineService]) -> OnlineService | None:
    return services.get(process.name) if process.side == Side.ONLINE else None


def _named(process: Process, placements: Mapping[str, Placement]) -> Process:
    """A node knows the program of a job; people know the job by its name."""
    placement = _of_job(process, placements)
    return replace(process, name=placement.job.name) if placement else process
