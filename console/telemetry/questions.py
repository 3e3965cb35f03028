"""What agents' connections ask of the database, each kind put together for many of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from django.utils import timezone

from agents.wire.messages import DesiredState, EventBatch, Hello
from console.errors import Unavailable
from console.inventory import enrolment, nodes
from console.inventory.models import Gpu, Node
from console.scheduling import desired
from console.telemetry import events
from console.telemetry.batches import Batches, InThread

# A call holds one thread of the database for about a tenth of a second.
TOKENS: Final = 250
HELLOS: Final = 100
STATES: Final = 100
EVENTS: Final = 50


class Registered(NamedTuple):
    """What a hello is answered from: the last event that is durable, the GPU at each index."""

    acked_seq: int
    gpu_ids: dict[int, int]


class Questions:
    def __init__(self, in_thread: InThread) -> None:
        def asked(work: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
            return lambda questions: in_thread(work, questions)

        self.token: Batches[str, str, Node | None] = Batches(asked(_nodes_of), TOKENS)
        self.hello: Batches[int, Hello, Registered] = Batches(asked(_register), HELLOS)
        self.state: Batches[int, str, DesiredState] = Batches(asked(_build), STATES)
        self.events: Batches[int, EventBatch, int] = Batches(asked(_persist), EVENTS)


def _nodes_of(tokens: Mapping[str, str]) -> dict[str, Node | None]:
    """By connection, whose token's hash is given; None for one that is no node's."""
    found = enrolment.nodes_for(tokens.values())
    return {connection: found.get(token) for connection, token in tokens.items()}


def _register(hellos: Mapping[int, Hello]) -> dict[int, Registered | Exception]:
    greeted = nodes.hello_many(hellos, timezone.now())
    ids: dict[int, dict[int, int]] = {node_id: {} for node_id in hellos}
    gpus = Gpu.objects.filter(node__in=hellos, retired_at=None)
    for node_id, index, gpu_id in gpus.values_list("node_id", "index", "id"):
        ids[node_id][index] = gpu_id
    return {
        node_id: answer
        if isinstance(answer, Exception)
        else Registered(answer.acked_event_seq, ids[node_id])
        for node_id, answer in greeted.items()
    }


def _build(nonces: Mapping[int, str]) -> dict[int, DesiredState | Exception]:
    built = desired.build_many(nonces)
    changing = Unavailable("The desired state keeps changing; it is sent with the next change.")
    return {node_id: built.get(node_id, changing) for node_id in nonces}


def _persist(batches: Mapping[int, EventBatch]) -> dict[int, int | Exception]:
    return events.persist_many(batches, timezone.now())
