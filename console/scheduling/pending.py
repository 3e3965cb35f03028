"""Why a job waits: what the last round said of it, and where it may not go for a while."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from console.accounts import access
from console.accounts.models import Role, User
from console.api import in_sight
from console.scheduling import avoid
from console.scheduling.models import AvoidEntry, Decision
from console.scheduling.plan import WORDS, Code
from console.workloads.models import OfflineJob


@dataclass(frozen=True)
class WhyPending:
    """For the page of `job`, as `user` may see it."""

    job: OfflineJob
    user: User
    now: datetime

    @property
    def waits(self) -> bool:
        return self.job.state == OfflineJob.State.QUEUED and not self.job.is_held(self.now)

    @cached_property
    def decision(self) -> Decision | None:
        """What the last round said of it while it waited."""
        rows = Decision.objects.filter(job=self.job, kind=Decision.Kind.WAIT)
        return rows.select_related("round").order_by("-pk").first() if self.waits else None

    @property
    def word(self) -> str:
        """The dominant reason, as rounds group by it."""
        code = self.decision.code if self.decision else ""
        return WORDS[Code(code)] if code in set(Code) else code

    @cached_property
    def avoids(self) -> list[tuple[AvoidEntry, bool]]:
        """The entries in force in pools that the user sees, and whether they may lift each."""
        rows = avoid.in_force(self.now).filter(job=self.job).select_related("gpu__node__pool")
        seen = in_sight(rows, self.user, "gpu__node__pool").order_by("expires_at", "pk")
        return [
            (entry, access.allowed(self.user, Role.OPERATOR, entry.gpu.node.pool)) for entry in seen
        ]
