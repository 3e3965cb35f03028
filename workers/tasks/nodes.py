"""Nodes that fell silent, and what ran on them."""

from __future__ import annotations

from typing import Final

from django.utils import timezone

from console.inventory import nodes
from console.scheduling import observed
from workers.tasks.register import task_alone

SWEEP_NODES: Final = "default.sweep_nodes"


@task_alone(SWEEP_NODES)
def sweep_nodes() -> None:
    now = timezone.now()
    nodes.mark_stale(now)
    nodes.mark_lost(now)
    observed.sweep_lost(now)
