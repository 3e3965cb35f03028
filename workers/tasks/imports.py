"""Imports that somebody started from a page. Each run takes its own lease."""

from __future__ import annotations

from uuid import UUID

from django.utils import timezone

from console.doorbell import RUN_IMPORT
from console.inventory import import_runs
from workers.tasks.register import holder, task


@task(RUN_IMPORT)
def run_import(run_id: str = "") -> None:
    """Without an id: whatever a lost bell or a dead worker left behind."""
    if run_id:
        import_runs.perform(UUID(run_id), holder(), timezone.now())
    else:
        import_runs.perform_waiting(holder(), timezone.now())
