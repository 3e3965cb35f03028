"""Rounds: the shadow one first, so that what really happens has the last word on waiting jobs."""

from __future__ import annotations

from uuid import UUID

from django.utils import timezone

from console.doorbell import ANSWER_WHY, RUN_ROUND
from console.scheduling import asking, profiling, rounds
from console.scheduling.calls import Call
from console.scheduling.models import Round
from console.workloads.queries import live
from workers.matching.uncollected import uncollected
from workers.tasks.register import asked, holder, task


@task(RUN_ROUND)
def run_round(trigger: str = "schedule") -> None:
    from workers.deciding import mind  # the solver takes a moment to import; beat needs none

    call = Call(trigger, *asked())
    profiling.begin(live, timezone.now())  # only these need a GPU on which nobody runs
    for kind in (Round.Kind.SHADOW, Round.Kind.ENFORCE):
        with uncollected():  # what was decided is let go with it
            rounds.run_round(kind, call, timezone.now(), holder(), mind.decide)


@task(ANSWER_WHY)
def answer_why(run_id: str = "") -> None:
    """Without an id: whatever a lost bell or a dead worker left behind."""
    from workers.deciding import mind

    if run_id:
        asking.answer(UUID(run_id), holder(), timezone.now(), mind.why)
    else:
        asking.answer_waiting(holder(), timezone.now(), mind.why)
