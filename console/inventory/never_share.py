"""Mark what is never to be shared: a GPU, all GPUs of a node, or those on which a service runs.

It keeps rounds from placing anything there, whatever the sharing mode; what runs there goes on.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, TypeAlias

from django.db import transaction

from console import doorbell
from console.announce import announce
from console.audit.services import Actor, record
from console.errors import SomebodyWasFirst
from console.inventory.models import Gpu, Node
from console.workloads.models import OnlineService

Target: TypeAlias = Gpu | Node | OnlineService
_KINDS: Final = {Gpu: "gpu", Node: "node", OnlineService: "service"}


def forbid(target: Target, actor: Actor, reason: str, now: datetime) -> None:
    """Nothing is placed there from the next round on. Raises SomebodyWasFirst."""
    _mark(target, True, "forbid_sharing", actor, reason, now)


def allow(target: Target, actor: Actor, reason: str, now: datetime) -> None:
    """Its sharing mode decides again. Raises SomebodyWasFirst."""
    _mark(target, False, "allow_sharing", actor, reason, now)
    doorbell.ring(doorbell.RUN_ROUND)


@transaction.atomic
def _mark(
    target: Target, never: bool, action: str, actor: Actor, reason: str, now: datetime
) -> None:
    rows = type(target)._default_manager.filter(pk=target.pk, never_share=not never)
    if not rows.update(never_share=never):
        raise SomebodyWasFirst(f"{target} is marked so already.")
    record(actor, f"{_KINDS[type(target)]}.{action}", target, now=now, reason=reason)
    if isinstance(target, Node):
        announce("node", node=target.pk)
    elif isinstance(target, Gpu):
        announce("gpu", gpu=target.pk)
