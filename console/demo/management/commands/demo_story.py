from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand
from django.db.models import QuerySet
from django.utils import timezone

from agents.wire import faults
from agents.wire.names import SharingMode
from console.audit.services import system
from console.demo import first_view, fleet, seed, story
from console.demo.cluster import REAL_NODE, REAL_POOL
from console.errors import MuxFlowError
from console.inventory import sharing
from console.inventory.models import Gpu, Pool, SharingChange
from console.scheduling.models import Placement
from console.workloads.models import OfflineJob

STORY = system("demo story")


class Command(BaseCommand):
    help = "Take the demo's automatic steps when they are due."

    spiked_at: float | None = None

    def handle(self, *args: Any, **options: Any) -> None:
        while True:
            for step in story.due(self._scene()):
                self._take(step)
            time.sleep(1)

    def _scene(self) -> story.Scene:
        seen_at = first_view.read()
        return story.Scene(
            seen_s=(timezone.now() - seen_at).total_seconds() if seen_at else None,
            sharing_was_on=SharingChange.objects.filter(after="enforce").exists(),
            guests_running=Placement.objects.filter(state="RUNNING").count(),
            queued=OfflineJob.objects.filter(state=OfflineJob.State.QUEUED, command=[]).count(),
            spike_s=time.monotonic() - self.spiked_at if self.spiked_at else None,
            processes_low=seed.processes_are_low(),
            latecomers=any(not sharing.forbidding_fact(gpu) for gpu in self._left_out()),
        )

    def _left_out(self) -> QuerySet[Gpu]:
        """Of node 17: its agent looks ten seconds whether online is on MPS before they can share.
        What a person has set is left as it is."""
        gpus = Gpu.objects.filter(node__name=REAL_NODE, sharing_mode=SharingMode.OBSERVE)
        changed = SharingChange.objects.filter(gpu__isnull=False).values("gpu")
        shared = gpus.filter(node__pool__sharing_mode=SharingMode.ENFORCE, retired_at=None)
        return shared.exclude(pk__in=changed).select_related("node__pool")

    def _take(self, step: story.Step) -> None:
        """A step that fails is due again a second later: the scene still asks for it."""
        try:
            STEPS[step](self)
        except MuxFlowError as error:
            self.stderr.write(f"{step} must wait: {error}")

    def _turn_sharing_on(self) -> None:
        reason = "The demo switches sharing on by itself after 40 s"
        sharing.start(list(Pool.objects.all()), STORY, reason, timezone.now())

    def _share_latecomers(self) -> None:
        reason = "Node 17 has seen by now that its online services are on MPS"
        sharing.start(list(Pool.objects.filter(name=REAL_POOL)), STORY, reason, timezone.now())

    def _spike(self) -> None:
        fleet.ask(faults.TrafficSpike())
        self.spiked_at = time.monotonic()

    def _refill(self) -> None:
        seed.refill_queue(story.REFILL, timezone.now())

    def _refill_processes(self) -> None:
        seed.refill_processes(timezone.now())


STEPS = {
    story.Step.TURN_SHARING_ON: Command._turn_sharing_on,
    story.Step.SHARE_LATECOMERS: Command._share_latecomers,
    story.Step.TRAFFIC_SPIKE: Command._spike,
    story.Step.REFILL_QUEUE: Command._refill,
    story.Step.REFILL_PROCESSES: Command._refill_processes,
}
