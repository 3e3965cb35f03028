"""What the pages of the inventory read, in a fixed number of queries."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from agents.wire.names import EventKind, PlacementState, SharingMode
from console.accounts.models import User
from console.api import in_sight
from console.faults import queries as faults
from console.faults.queries import Told
from console.inventory import sharing
from console.inventory.emptying import live_on
from console.inventory.happenings import Happening, happening
from console.inventory.models import Gpu, Node, Pool, SharingChange
from console.scheduling.models import Placement
from console.telemetry.models import NodeEvent
from console.workloads.models import OnlineInstance

RECENT = 14
CHANGES = 30


def nodes(user: User) -> QuerySet[Node]:
    """The nodes that `user` may see, with their counts."""
    gpus = Gpu.objects.filter(node=OuterRef("pk"), retired_at=None)
    sharing_now = gpus.filter(
        sharing_mode=SharingMode.ENFORCE, node__pool__sharing_mode=SharingMode.ENFORCE
    )
    guests = Placement.objects.filter(gpu__node=OuterRef("pk")).exclude(state=PlacementState.ENDED)
    return in_sight(Node.objects.select_related("pool"), user, "pool").annotate(
        gpu_count=_count(gpus, "node"),
        sharing_count=_count(sharing_now, "node"),
        guest_count=_count(guests, "gpu__node"),
    )


def _count(rows: QuerySet[Gpu] | QuerySet[Placement], of: str) -> Coalesce:
    counted = rows.order_by().values(of).annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)


@dataclass(frozen=True)
class Slot:
    """One GPU of a node with who is on it. `fact` forbids sharing; empty: it may."""

    gpu: Gpu
    mode: str
    fact: str
    tenants: Sequence[OnlineInstance]
    guest: Placement | None
    state: str


class NodePage:
    """All that the page of one node shows; nothing is asked of the database twice."""

    def __init__(self, node: Node) -> None:
        self.node = node

    @cached_property
    def slots(self) -> list[Slot]:
        gpus = Gpu.objects.filter(node=self.node, retired_at=None).select_related("node__pool")
        return [self._slot(gpu) for gpu in gpus.order_by("index")]

    @cached_property
    def guests(self) -> dict[int, Placement]:
        """Live placements by GPU."""
        gpus = Gpu.objects.filter(node=self.node)
        return {placement.gpu_id: placement for placement in live_on(gpus)}

    @cached_property
    def tenants(self) -> Mapping[int, list[OnlineInstance]]:
        found = defaultdict(list)
        instances = OnlineInstance.objects.filter(gpu__node=self.node)
        for instance in instances.select_related("service").order_by("service__name", "pk"):
            found[instance.gpu_id].append(instance)
        return found

    @cached_property
    def happenings(self) -> list[Happening]:
        """The last events, newest first; a fault is told many times, and has a card of its own."""
        told = NodeEvent.objects.filter(node=self.node).exclude(
            kind__in=(EventKind.EVICTION_PHASE, EventKind.THAWED, EventKind.GPU_FAULT)
        )
        return [happening(event) for event in told.select_related("gpu").order_by("-at")[:RECENT]]

    @cached_property
    def faults(self) -> list[Told]:
        return faults.of_node(self.node)

    @cached_property
    def states(self) -> list[tuple[str, int]]:
        """How many GPUs are in which state, most first."""
        return Counter(slot.state for slot in self.slots).most_common()

    def _slot(self, gpu: Gpu) -> Slot:
        return Slot(
            gpu,
            sharing.effective_mode(gpu),
            sharing.forbidding_fact(gpu),
            self.tenants.get(gpu.pk, []),
            self.guests.get(gpu.pk),
            shown_state(gpu, self.node),
        )


def shown_state(gpu: Gpu, node: Node) -> str:
    """The state that may be claimed of a GPU: none when its node is silent."""
    if node.source == Node.Source.AGENT and node.state != Node.State.CONNECTED:
        return "NO_DATA"
    return gpu.state


def changes(user: User) -> QuerySet[SharingChange]:
    """The last changes of a sharing mode in the pools that `user` may see."""
    rows = in_sight(SharingChange.objects.all(), user, "pool")
    return rows.select_related("pool", "gpu__node").order_by("-at", "-pk")[:CHANGES]


def pools(user: User) -> QuerySet[Pool]:
    """The pools that `user` may see, with their counts."""
    gpus = Gpu.objects.filter(node__pool=OuterRef("pk"), retired_at=None)
    enforced = gpus.filter(
        sharing_mode=SharingMode.ENFORCE, node__pool__sharing_mode=SharingMode.ENFORCE
    )
    guests = Placement.objects.filter(gpu__node__pool=OuterRef("pk")).exclude(
        state=PlacementState.ENDED
    )
    return in_sight(Pool.objects.select_related("policy"), user, "").annotate(
        gpu_count=_count(gpus, "node__pool"),
        sharing_count=_count(enforced, "node__pool"),
        held_count=_count(gpus.filter(holdback=True), "node__pool"),
        guest_count=_count(guests, "gpu__node__pool"),
        node_count=_count_nodes(),
    )


def _count_nodes() -> Coalesce:
    rows = Node.objects.filter(pool=OuterRef("pk")).order_by().values("pool")
    counted = rows.annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)
