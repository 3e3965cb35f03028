"""What happens to a node: its agent says hello, is heard, falls silent; a person closes it.

Desired state is computed, not stored: whoever changes a row that it is computed from calls
`touch` in the same transaction, and the gateway that serves the node sends the new state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F
from django.db.models.functions import Greatest

from agents.wire.limits import MAX_GPUS_PER_NODE
from agents.wire.messages import GpuInventory, Hello
from agents.wire.names import GpuState, SharingMode
from console.audit.services import Actor, agent, record
from console.errors import Invalid, SomebodyWasFirst
from console.inventory import bell, identity
from console.inventory.lifecycle import (
    CONNECTED,
    LOST,
    LOST_AFTER_S,
    STALE,
    STALE_AFTER_S,
    Event,
    before,
)
from console.inventory.models import Gpu, Node

# Far beyond any real count; a larger number is a broken or hostile agent.
MAX_GENERATION: Final = 1 << 60
NOT_REPORTED: Final = "the node no longer reports this GPU"
# Slots for cards that change places, while the constraint on (node, index) still looks.
_ASIDE: Final = 1_000


def touch(node_ids: Iterable[int], now: datetime) -> None:
    """Say that the desired state of these nodes changed. Call it inside that transaction."""
    ids = sorted(set(node_ids))
    if ids:
        Node.objects.filter(pk__in=ids).update(generation=F("generation") + 1, generation_at=now)
        bell.ring(ids)


@transaction.atomic
def hello(node: Node, message: Hello, now: datetime) -> Node:
    """The node as it is after its agent's first message on a connection.

    Lifts the generation above the one observed, so that a restored database wins over agents
    that know more than it. Raises Invalid when the inventory contradicts itself.
    """
    if not 0 <= message.generation < MAX_GENERATION:
        raise Invalid(f"{node} observed generation {message.generation}, which cannot be.")
    record_gpus(node, message.gpus, now)
    Node.objects.filter(pk=node.pk, state__in=before(Event.HELLO)).update(
        state=CONNECTED, state_since=now
    )
    Node.objects.filter(pk=node.pk).update(
        source=Node.Source.AGENT,
        **_agent(message),
        **_host(message),
        last_seen_at=now,
        generation=Greatest(F("generation"), message.generation) + 1,
        generation_at=now,
    )
    bell.ring([node.pk])
    node.refresh_from_db()
    return node


def hello_many(hellos: Mapping[int, Hello], now: datetime) -> dict[int, Node | Exception]:
    """As `hello` for each node id, with its error where it is refused. Nodes that come back with
    the cards they had, and new ones, are greeted together: so a whole fleet may come at once."""
    answers: dict[int, Node | Exception] = {}
    greeted = _hello_together(hellos, now)
    for node_id, message in hellos.items():
        if node_id in greeted:
            answers[node_id] = greeted[node_id]
            continue
        try:
            answers[node_id] = hello(Node.objects.get(pk=node_id), message, now)
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:  # what is wrong with one must not cost the others theirs
            answers[node_id] = error
    return answers


@transaction.atomic
def _hello_together(hellos: Mapping[int, Hello], now: datetime) -> dict[int, Node]:
    """Greets those whose cards the rows tell already, and those that have none yet."""
    found = Node.objects.select_for_update().order_by("pk").in_bulk(hellos)
    plain = {
        pk: node
        for pk, node in found.items()
        if node.source == Node.Source.AGENT and 0 <= hellos[pk].generation <= node.generation
    }
    greeted = _with_their_cards(plain, hellos) | _with_new_cards(plain, hellos, now)
    for node in greeted.values():
        facts = {**_agent(hellos[node.pk]), **_host(hellos[node.pk])}
        if any(getattr(node, name) != value for name, value in facts.items()):
            Node.objects.filter(pk=node.pk).update(**facts)
    Node.objects.filter(pk__in=greeted, state__in=before(Event.HELLO)).update(
        state=CONNECTED, state_since=now
    )
    Node.objects.filter(pk__in=greeted).update(
        last_seen_at=now, generation=F("generation") + 1, generation_at=now
    )
    return Node.objects.in_bulk(greeted)


def _with_their_cards(nodes: Mapping[int, Node], hellos: Mapping[int, Hello]) -> dict[int, Node]:
    gpus: dict[int, dict[int, Gpu]] = {pk: {} for pk in nodes}
    for gpu in Gpu.objects.filter(node__in=nodes, retired_at=None):
        gpus[gpu.node_id][gpu.index] = gpu
    return {pk: node for pk, node in nodes.items() if _are_its_cards(gpus[pk], hellos[pk].gpus)}


def _are_its_cards(gpus: Mapping[int, Gpu], claims: Sequence[GpuInventory]) -> bool:
    told = {claim.index: claim for claim in claims}
    return (
        len(told) == len(claims)
        and gpus.keys() == told.keys()
        and all(_is_card(gpus[index], claim) for index, claim in told.items())
    )


def _with_new_cards(
    nodes: Mapping[int, Node], hellos: Mapping[int, Hello], now: datetime
) -> dict[int, Node]:
    """Makes the rows of nodes that have none, where nobody ever had a card of that UUID."""
    known = set(Gpu.objects.filter(node__in=nodes).values_list("node_id", flat=True))
    bare = {pk: hellos[pk].gpus for pk in nodes if pk not in known and hellos[pk].gpus}
    bare = {pk: claims for pk, claims in bare.items() if _fault(nodes[pk], claims) is None}
    times = Counter(claim.uuid for claims in bare.values() for claim in claims)
    taken = set(Gpu.objects.filter(uuid__in=list(times)).values_list("uuid", flat=True))
    fresh = {
        pk: claims
        for pk, claims in bare.items()
        if all(times[claim.uuid] == 1 and claim.uuid not in taken for claim in claims)
    }
    Gpu.objects.bulk_create(
        Gpu(node_id=pk, state_since=now, state=GpuState.INIT, **_facts(claim))
        for pk, claims in fresh.items()
        for claim in claims
    )
    return {pk: nodes[pk] for pk in fresh}


def _is_card(gpu: Gpu, claim: GpuInventory) -> bool:
    facts = {**_facts(claim), "conflict": False}
    return all(getattr(gpu, name) == value for name, value in facts.items())


def _agent(message: Hello) -> dict[str, Any]:
    return {
        "runtime": message.runtime,
        "agent_version": message.agent_version[:40],
        "capabilities": list(message.capabilities),
        "boot_id": message.boot_id[:64],
    }


def _host(message: Hello) -> dict[str, float]:
    """What the machine has, as far as its agent tells; what an import told stays otherwise."""
    told = {"cpu_cores": message.cpu_cores, "host_memory_bytes": message.host_memory_bytes}
    return {name: value for name, value in told.items() if value is not None and value > 0}


def record_gpus(node: Node, claims: Sequence[GpuInventory], now: datetime) -> None:
    """Make the rows tell what the node holds. Raises Invalid when a slot is claimed twice."""
    _check(node, claims)
    rows = {gpu.pk: gpu for gpu in Gpu.objects.filter(node=node)}
    plan = identity.plan(
        [
            identity.Row(gpu.pk, gpu.uuid, gpu.index, gpu.retired_at is None, gpu.conflict)
            for gpu in rows.values()
        ],
        claims,
    )
    for row in plan.retire:
        _retire(rows[row.id], node, now)
    _missing([row.id for row in plan.missing])
    _set_aside(plan.keep)
    for row, claim in plan.keep:
        _keep(rows[row.id], claim, node.source == Node.Source.IMPORTED, now)
    Gpu.objects.bulk_create(
        Gpu(node=node, state_since=now, state=GpuState.INIT, **_facts(claim))
        for claim in plan.create
    )
    uuids = {claim.uuid for claim in claims} | {gpu.uuid for gpu in rows.values()}
    _mark_conflicts(uuids, node, now)


def seen(node_ids: Iterable[int], now: datetime) -> None:
    """These nodes were heard just now."""
    ids = sorted(set(node_ids))
    Node.objects.filter(pk__in=ids).update(last_seen_at=now)
    # Told by the time, not by thousands of ids once more.
    Node.objects.filter(last_seen_at=now, state__in=before(Event.SEEN)).update(
        state=CONNECTED, state_since=now
    )


def mark_stale(now: datetime) -> int:
    """How many nodes just fell silent."""
    limit = now - timedelta(seconds=STALE_AFTER_S)
    return Node.objects.filter(state__in=before(Event.SILENT), last_seen_at__lt=limit).update(
        state=STALE, state_since=now
    )


def mark_lost(now: datetime) -> list[Node]:
    """The nodes that were just given up, for whoever looks after their placements."""
    limit = now - timedelta(seconds=LOST_AFTER_S)
    silent = Node.objects.filter(state__in=before(Event.GONE), last_seen_at__lt=limit)
    return [node for node in silent if _lose(node, limit, now)]


def cordon(node: Node, actor: Actor, reason: str, now: datetime) -> None:
    """No new placements from now on. Raises SomebodyWasFirst."""
    _flag(node, {"cordoned": False}, {"cordoned": True}, "node.cordon", actor, reason, now)


def uncordon(node: Node, actor: Actor, reason: str, now: datetime) -> None:
    """New placements again; also ends a drain. Raises SomebodyWasFirst."""
    open_ = {"cordoned": False, "draining": False}
    _flag(node, {"cordoned": True}, open_, "node.uncordon", actor, reason, now)


@transaction.atomic
def disable_gpu(gpu: Gpu, actor: Actor, reason: str, now: datetime) -> None:
    """The GPU takes no offline work until a person enables it. Raises SomebodyWasFirst."""
    if not Gpu.objects.filter(pk=gpu.pk, disabled=False).update(
        disabled=True, disabled_reason=reason[:200]
    ):
        raise SomebodyWasFirst(f"{gpu} is disabled already.")
    record(actor, "gpu.disable", gpu, now=now, reason=reason)
    touch([gpu.node_id], now)


@transaction.atomic
def enable_gpu(gpu: Gpu, actor: Actor, reason: str, now: datetime) -> None:
    """The agent judges the GPU afresh, from INIT. Raises SomebodyWasFirst."""
    if not Gpu.objects.filter(pk=gpu.pk, disabled=True).update(disabled=False, disabled_reason=""):
        raise SomebodyWasFirst(f"{gpu} is not disabled.")
    record(actor, "gpu.enable", gpu, now=now, reason=reason)
    touch([gpu.node_id], now)


@transaction.atomic
def _flag(
    node: Node,
    old: dict[str, bool],
    new: dict[str, bool],
    action: str,
    actor: Actor,
    reason: str,
    now: datetime,
) -> None:
    if not Node.objects.filter(pk=node.pk, **old).update(**new):
        raise SomebodyWasFirst(f"Somebody changed {node} just now; look again.")
    record(actor, action, node, now=now, reason=reason)
    touch([node.pk], now)


def _check(node: Node, claims: Sequence[GpuInventory]) -> None:
    if fault := _fault(node, claims):
        raise Invalid(fault)


def _fault(node: Node, claims: Sequence[GpuInventory]) -> str | None:
    if len(claims) > MAX_GPUS_PER_NODE:
        return f"{node} claims {len(claims)} GPUs; the limit is {MAX_GPUS_PER_NODE}."
    indexes = [claim.index for claim in claims]
    if len(set(indexes)) != len(indexes):
        return f"{node} claims one GPU slot twice: {sorted(indexes)}."
    for claim in claims:
        if not 0 <= claim.index < _ASIDE or claim.memory_bytes <= 0 or not claim.uuid.strip():
            return f"{node} claims a GPU that cannot be: {claim}."
    return None


def _facts(claim: GpuInventory) -> dict[str, Any]:
    return {
        "index": claim.index,
        "uuid": claim.uuid[:80],
        "model": claim.model[:80],
        "memory_bytes": claim.memory_bytes,
        "driver": claim.driver[:40],
        "sm_clock_max_mhz": claim.sm_clock_max_mhz,
        "power_limit_w": claim.power_limit_w,
        "pcie_max_bytes_s": claim.pcie_max_bytes_s,
        "source": claim.source[:20],
        "unshareable_fact": claim.unshareable_fact[:200],
    }


def _keep(gpu: Gpu, claim: GpuInventory, imported: bool, now: datetime) -> None:
    """Write only what differs: a fleet that reconnects at once would write all its GPUs."""
    facts: dict[str, Any] = {**_facts(claim), "retired_at": None}
    if gpu.retired_at is not None or imported:
        facts |= {"state": GpuState.INIT, "state_since": now, "state_why": ""}
    if imported:
        facts |= {"memory_assumed": False, "sharing_mode": SharingMode.OBSERVE}
    if any(getattr(gpu, name) != value for name, value in facts.items()):
        Gpu.objects.filter(pk=gpu.pk).update(**facts)


def _set_aside(keep: Iterable[tuple[identity.Row, GpuInventory]]) -> None:
    moved = [row.id for row, claim in keep if row.live and row.index != claim.index]
    if moved:
        Gpu.objects.filter(pk__in=moved).update(index=F("index") + _ASIDE)


def _retire(gpu: Gpu, node: Node, now: datetime) -> None:
    Gpu.objects.filter(pk=gpu.pk, retired_at=None).update(retired_at=now, conflict=False)
    record(agent(node.name), "gpu.retire", gpu, now=now, uuid=gpu.uuid)


def _missing(gpu_ids: Sequence[int]) -> None:
    if gpu_ids:
        Gpu.objects.filter(pk__in=gpu_ids).update(unshareable_fact=NOT_REPORTED)


def _mark_conflicts(uuids: set[str], node: Node, now: datetime) -> None:
    """A second live claim of a UUID marks both; when one claim is left, it is clean again."""
    live = list(Gpu.objects.filter(uuid__in=uuids, retired_at=None).select_related("node"))
    claims: dict[str, list[Gpu]] = {}
    for gpu in live:
        claims.setdefault(gpu.uuid, []).append(gpu)
    changed = [gpu for gpu in live if gpu.conflict != (len(claims[gpu.uuid]) > 1)]
    for conflict in (True, False):
        flipped = [gpu.pk for gpu in changed if gpu.conflict != conflict]
        Gpu.objects.filter(pk__in=flipped).update(conflict=conflict)
    for gpu in changed:
        action = "gpu.conflict_over" if gpu.conflict else "gpu.conflict"
        others = [str(other) for other in claims[gpu.uuid] if other.pk != gpu.pk]
        record(agent(node.name), action, gpu, now=now, uuid=gpu.uuid, others=others)
    touch({gpu.node_id for gpu in changed} - {node.pk}, now)


def _lose(node: Node, limit: datetime, now: datetime) -> bool:
    rows = Node.objects.filter(pk=node.pk, state__in=before(Event.GONE), last_seen_at__lt=limit)
    return bool(rows.update(state=LOST, state_since=now))
