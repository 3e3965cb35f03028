"""Wake a worker or a gateway after the commit. A lost ring costs seconds, never correctness:
periodic sweeps find every row whose bell was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from django.db import transaction

log = logging.getLogger(__name__)

RUN_ROUND: Final = "matching.run_round"
ANSWER_WHY: Final = "matching.answer_why"
TICK_PROFILING: Final = "default.tick_profiling"
TICK_EVICTIONS: Final = "default.tick_evictions"
SEAL_AUDIT: Final = "default.seal_audit"
RUN_IMPORT: Final = "default.run_import"
RUN_TRAINING: Final = "default.run_training"

Ringer = Callable[[str, str], None]


def ring(task_name: str, id: object = "") -> None:
    """Ask for `task_name(id)` once the present transaction has committed. Never raises."""
    transaction.on_commit(lambda: _ring_now(task_name, str(id)), robust=True)


def _ring_now(task_name: str, id: str) -> None:
    try:
        ringer(task_name, id)
    except Exception as error:  # whatever it is, the sweep finds the row
        log.warning("bell %s %s was lost, the sweep will find it: %s", task_name, id, error)


def send_to_celery(task_name: str, id: str) -> None:
    from console.queue import app  # the broker is only needed by processes that ring

    app.send_task(task_name, args=[id] if id else [], expires=60, retry=False)


# Tests put a recording ringer here.
ringer: Ringer = send_to_celery
