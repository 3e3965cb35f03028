"""What turning sharing on would do, in a few counts."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Q

from agents.wire.names import SharingMode
from console.inventory import modes
from console.inventory.models import Gpu, Node
from console.overview.scope import EVERYWHERE, Scope

CLOSED = (
    Q(conflict=True)
    | Q(disabled=True)
    | ~Q(unshareable_fact="")
    | Q(node__source=Node.Source.IMPORTED)
    | Q(sharing_mode=SharingMode.OFF)
)


@dataclass(frozen=True)
class Outlook:
    """`able` GPUs would share, `held` stay as the standing control; `facts` forbid the rest."""

    pools: int
    gpus: int
    able: int
    held: int
    facts: tuple[tuple[str, int], ...]


def outlook(scope: Scope = EVERYWHERE) -> Outlook:
    """Two queries."""
    live = Gpu.objects.filter(scope.within("node__pool"), retired_at=None)
    rows = (
        live.values_list("node__pool_id", "node__pool__holdback_percent")
        .annotate(gpus=Count("pk"), able=Count("pk", filter=~CLOSED))
        .order_by()
    )
    pools = list(rows)
    held = sum(modes.holdback_count(able, percent) for _, percent, _, able in pools)
    facts = (
        live.exclude(unshareable_fact="")
        .values_list("unshareable_fact")
        .annotate(n=Count("pk"))
        .order_by("-n")[:3]
    )
    return Outlook(
        pools=len(pools),
        gpus=sum(gpus for _, _, gpus, _ in pools),
        able=sum(able for *_, able in pools) - held,
        held=held,
        facts=tuple((fact, n) for fact, n in facts),
    )
