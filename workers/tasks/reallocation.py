"""SM shares of what runs."""

from __future__ import annotations

from typing import Final

from django.utils import timezone

from console.scheduling import reallocation
from workers.tasks.register import task_alone

REALLOCATE: Final = "reallocation.reallocate"


@task_alone(REALLOCATE, lease_s=60.0)
def reallocate() -> None:
    from workers.deciding import mind  # the solver takes a moment to import; beat needs none
    from workers.reallocation.renew import renew

    predictor = mind.predictor()
    reallocation.reallocate(
        timezone.now(), lambda snapshot, limits: renew(snapshot, limits, predictor)
    )
