"""What came of the last SIGTERM of each kind, as the page tells it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Final

from agents.wire.lab import Press
from console.faults import queries
from console.faults.queries import Told
from console.inventory.models import Gpu
from console.scheduling.models import Placement
from console.workloads.models import OnlineService

# The machine and its agent look at the same clock, each when it gets round to it.
SLACK: Final = timedelta(seconds=1)
ENDINGS: Final = {
    "released": "idle: work finished, contexts given back",
    "idle": "idle: work finished",
    "failed": "after an error of the GPU",
    "unsafe": "amid a kernel",
}


@dataclass(frozen=True)
class Outcome:
    """One press beside what the console knows of it; `press` None: there was none yet."""

    under_xcuda: bool
    press: Press | None

    @property
    def at(self) -> datetime | None:
        return datetime.fromtimestamp(self.press.at, UTC) if self.press else None

    @property
    def ending(self) -> str:
        return ENDINGS.get(self.press.ending, "") if self.press else ""

    @property
    def hurt(self) -> bool:
        return self.press is not None and self.press.lost > 0

    @property
    def verdict(self) -> str:
        """One sentence, with figures."""
        press = self.press
        if press is None:
            return ""
        if press.gone_after_s is None:
            return "The signal is on its way through the job."
        if not press.lost:
            so_far = " so far" if press.watching else ""
            return (
                f"{press.service} did not notice: {press.answered} requests answered, 0 lost"
                f"{so_far}."
            )
        lost = f"{press.service} died with the job: {press.lost} requests lost"
        if press.back_after_s is None:
            if not press.watching:
                return f"{lost}, and it has not come back."
            return f"{lost} so far; the agent is bringing it back."
        return f"{lost}; it answered again after {press.back_after_s:.1f} s, with nobody involved."

    @cached_property
    def gpu(self) -> Gpu | None:
        found = Gpu.objects.filter(uuid=self.press.gpu_uuid) if self.press else Gpu.objects.none()
        return found.filter(retired_at=None).select_related("node").first()

    @cached_property
    def placement(self) -> Placement | None:
        if self.press is None:
            return None
        return Placement.objects.filter(pk=self.press.placement_id).select_related("job").first()

    @cached_property
    def service(self) -> OnlineService | None:
        name = self.press.service if self.press else ""
        return OnlineService.objects.filter(name=name).first()

    @cached_property
    def faults(self) -> list[Told]:
        """Those that the node has told of this GPU since, newest first."""
        if self.gpu is None or self.at is None:
            return []
        since = self.at - SLACK
        return [told for told in queries.of_gpu(self.gpu) if told.fault.seen_at >= since]


def outcomes(presses: Iterable[Press]) -> list[Outcome]:
    """With xCUDA first."""
    last = {press.under_xcuda: press for press in presses}
    return [Outcome(kind, last.get(kind)) for kind in (True, False)]
