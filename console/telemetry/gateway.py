"""Where agents connect: one WebSocket a node, MessagePack, `agents.wire.messages`.

Receiving never waits: telemetry goes into the hub's intake and statuses into its book, all else to
one task per connection, which asks the database, together with those of other nodes, and is the
only one that sends. So a slow database delays answers, but never makes a healthy node look stale.

Close codes: 1009 message too big · 4400 hello refused, the reason says why · 4401 token unknown or
no longer valid · 4406 no common protocol version · 4408 no hello in time · 4409 a newer connection
of this node took over · 4410 this process ends, connect again to another.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import numpy as np
from channels.consumer import get_handler_name
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import InterfaceError, OperationalError

from agents.wire import codec, packed
from agents.wire.limits import (
    MAX_EVENTS_PER_BATCH,
    MAX_MESSAGE_BYTES,
    PROTOCOL_MAX,
    PROTOCOL_MIN,
)
from agents.wire.messages import (
    Backfill,
    BackfillAck,
    EventAck,
    EventBatch,
    FromAgent,
    FromConsole,
    Hello,
    PackedTelemetry,
    Status,
    Telemetry,
    Unchanged,
    Welcome,
)
from console.accounts.tokens import digest
from console.errors import MuxFlowError
from console.inventory.enrolment import signing_key
from console.telemetry import plausible
from console.telemetry.allowance import Allowance
from console.telemetry.batches import Displaced
from console.telemetry.hub import hub
from console.telemetry.latest import Facts, Rows
from console.telemetry.links import MOVE, TAKEN_OVER

log = logging.getLogger(__name__)

HELLO_DEADLINE_S: Final = 10.0
EVENTS_WAITING: Final = 2 * MAX_EVENTS_PER_BATCH
RETRY_S: Final = 1.0
# Of one node. An ordinary one sends three a second at most; a new connection has more to tell.
MESSAGES_PER_S: Final = 20.0
MESSAGES_AT_ONCE: Final = 200.0
# So long nothing more is read of a node that sends too many: then its own socket holds it up.
PAUSE_S: Final = 0.1
# That a node is seen is written this often at least, give or take.
SEEN_WITHIN_S: Final = 10.0
# A WebSocket close frame holds no more.
REASON_BYTES: Final = 120

_numbers = itertools.count(1)


class AgentGateway(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One connection of one node."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = f"{hub.process}:{next(_numbers)}"
        self.token_sha256 = ""
        self.heard = False
        self.node_id = 0
        self.name = "unknown node"
        self.behind_s = 0.0  # the clock of the node, when it sent last
        self._gpu_ids: Mapping[int, int] = {}
        self._row_of: Rows = np.empty(0, np.intp)
        self._epoch = -1
        self._allowance = Allowance(MESSAGES_PER_S, MESSAGES_AT_ONCE, time.monotonic())
        self._hello: Hello | None = None
        self._welcomed = False
        self._batches: deque[EventBatch] = deque()
        self._telemetry_number = -1
        self._nonce = ""
        self._generation = self._sent_generation = self._observed_generation = -1
        self._renewal_due = False
        self._seen_until = 0.0
        self._filled_until: float | None = None
        self._key = b""
        self._work = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None

    # --- the socket -------------------------------------------------------------------------

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Channels' own makes a task of each message and hops into a thread for it, which is most
        of what a message costs; this reads and dispatches in turn."""
        self.scope, self.base_send = scope, send
        with suppress(StopConsumer):
            while True:
                await self.dispatch(await receive())

    async def dispatch(self, message: dict[str, Any]) -> None:
        if message["type"] == "websocket.receive":
            await self.receive(message.get("text"), message.get("bytes"))
        else:
            await getattr(self, get_handler_name(message))(message)

    async def connect(self) -> None:
        hub.start()
        self.token_sha256 = _hash_of_token(self.scope["headers"])
        node = await hub.questions.token.ask(self.connection, self.token_sha256)
        if node is None:
            hub.refused.add("connection: token unknown", str(self.scope.get("client")))
            await self.close(4401)
            return
        self.node_id, self.name = node.pk, node.name
        if node.last_seen_at is not None:
            self._seen_until = node.last_seen_at.timestamp() - SEEN_WITHIN_S
        self._key = signing_key(node.pk)
        await self.accept()
        if hub.links.is_leaving:
            await self.close(MOVE)
            return
        self._worker = asyncio.create_task(self._serve())

    async def disconnect(self, code: int) -> None:
        hub.detach(self.node_id, self)
        await self._end_service()

    async def _end_service(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._worker is None:  # turned away before
            return
        if not self._allowance.takes(time.monotonic()):
            self._refuse("message: too many a second")
            await asyncio.sleep(PAUSE_S)
            return
        message = await self._decoded(bytes_data)
        if message is None:
            return
        self.heard = True
        if isinstance(message, PackedTelemetry):
            self._take(message)
        elif isinstance(message, Telemetry):
            self._take(packed.pack(message))
        elif isinstance(message, Status):
            self._take_status(message)
        elif isinstance(message, Backfill):
            hub.backfills.put(self, message)
        else:
            self._keep(message)
            self._work.set()

    async def _decoded(self, data: bytes | None) -> FromAgent | None:
        if data is None:
            self._refuse("message: text instead of MessagePack")
            return None
        if len(data) > MAX_MESSAGE_BYTES:
            self._refuse("message: too big", len(data))
            await self.close(1009)
            return None
        try:
            message = codec.decode_from_agent(data)
        except codec.WireError as error:
            if self._welcomed or self._hello is not None:
                self._refuse("message: not of this protocol", error)
            else:  # it stands where the hello should
                await self._end_service()
                await self._turn_away(4400, str(error))
            return None
        if not self._welcomed and not isinstance(message, Hello):
            self._refuse("message: before the hello")
            return None
        return message

    def _take(self, telemetry: PackedTelemetry) -> None:
        if fault := plausible.fault_of(telemetry):
            self._refuse(fault)
        elif telemetry.number <= self._telemetry_number:
            self._refuse("telemetry: no newer than what came before")
        else:
            self._telemetry_number, now = telemetry.number, time.time()
            self.behind_s = now - telemetry.sent_at
            hub.intake.put(self, telemetry, now)

    def _take_status(self, status: Status) -> None:
        self._nonce, self._observed_generation = status.nonce, status.observed_generation
        hub.statuses.put(self.node_id, status)

    def _keep(self, message: Hello | EventBatch) -> None:
        if isinstance(message, Hello):
            self._hello = message
        elif sum(len(batch.events) for batch in self._batches) < EVENTS_WAITING:
            self._batches.append(message)
        else:
            self._refuse("events: more than we can store now; the agent sends them again")

    def rows(self, facts: Facts, epoch: int) -> Rows:
        """The row of the grid at each index of this node, in this layout."""
        if epoch != self._epoch:
            at, ids = list(self._gpu_ids), list(self._gpu_ids.values())
            rows = facts.rows(ids)
            self._row_of = np.full(max(at, default=-1) + 1, plausible.STRANGER, np.intp)
            self._row_of[at] = np.where(rows < 0, plausible.NOT_YET, rows)
            self._epoch = epoch
        return self._row_of

    def _refuse(self, reason: str, detail: object = "") -> None:
        hub.refused.add(reason, self.name, detail)

    # --- what the hub asks ------------------------------------------------------------------

    def generation_is(self, generation: int) -> None:
        """The generation of the node's desired state in the database."""
        self._generation = generation
        if generation != self._sent_generation:
            self._work.set()

    def renew(self) -> None:
        self._renewal_due = True
        self._work.set()

    def filled(self, until: float) -> None:
        """What the node recorded up to then is stored, or not wanted."""
        self._filled_until = until
        self._work.set()

    def leave(self, code: int, reason: str) -> None:
        log.info("%s: closing with %d: %s", self.name, code, reason)
        hub.detach(self.node_id, self)
        self._closing = asyncio.create_task(self.close(code, reason))

    # --- the worker: asks the database, sends -------------------------------------------------

    async def _serve(self) -> None:
        try:
            async with asyncio.timeout(HELLO_DEADLINE_S):
                while self._hello is None:
                    await self._wait()
        except TimeoutError:
            self._refuse("connection: no hello in time")
            await self.close(4408)
            return
        while True:
            try:
                await self._work_off()
            except (OperationalError, InterfaceError) as error:
                log.warning("%s: the database does not answer, trying again: %s", self.name, error)
                await asyncio.sleep(RETRY_S)
                continue
            except OSError:
                return  # the agent hung up while we sent; disconnect() follows
            except MuxFlowError as error:
                self._refuse("message: refused by the rules", error)
            except Exception:
                log.exception("%s: a message could not be worked off, dropped", self.name)
            await self._wait()

    async def _wait(self) -> None:
        await self._work.wait()
        self._work.clear()

    async def _work_off(self) -> None:
        """All that waits, in the order in which it matters."""
        if self._hello is not None:
            await self._greet(self._hello)
            self._hello = None
        while self._welcomed and self._batches:
            await self._store(self._batches.popleft())
        if self._welcomed and self._filled_until is not None:
            until, self._filled_until = self._filled_until, None
            await self._tell(BackfillAck(until))
        if self._welcomed and self._wants_desired_state():
            await self._send_desired_state()
        elif self._welcomed and self._renewal_due:
            await self._renew()

    async def _greet(self, hello: Hello) -> None:
        version = _common_version(hello.protocol)
        if version is None:
            await self._turn_away(4406, f"we speak protocol {PROTOCOL_MIN} to {PROTOCOL_MAX}")
            return
        if hello.node != self.name:
            await self._turn_away(4400, f"this token belongs to {self.name}, not {hello.node}")
            return
        try:
            acked_seq, self._gpu_ids = await hub.questions.hello.ask(self.node_id, hello)
        except Displaced:
            self.leave(TAKEN_OVER, "a newer connection of this node took over")
            return
        except MuxFlowError as error:
            await self._turn_away(4400, str(error))
            return
        hub.look_for(self._gpu_ids.values())
        self._epoch = -1
        self._nonce, self._observed_generation = hello.nonce, hello.generation
        self._sent_generation, self._welcomed = -1, True
        await self._tell(Welcome(version, time.time(), acked_seq, self._heard_until()))
        await hub.attach(self.node_id, self)

    def _heard_until(self) -> float:
        """The last sample that came from this node, or what is surely before it."""
        rows = hub.grid.facts.rows(list(self._gpu_ids.values()))
        return max(float(hub.grid.at[rows[rows >= 0]].max(initial=0.0)), self._seen_until)

    async def _turn_away(self, code: int, reason: str) -> None:
        self._refuse("hello: refused", reason)
        await self.close(code, reason.encode()[:REASON_BYTES].decode(errors="ignore"))

    async def _store(self, batch: EventBatch) -> None:
        try:
            seq = await hub.questions.events.ask(self.node_id, batch)
        except (OperationalError, InterfaceError):
            self._batches.appendleft(batch)
            raise
        await self._tell(EventAck(seq))

    def _wants_desired_state(self) -> bool:
        """Newer than what was sent; or sent long enough ago and still not observed."""
        missed = self._renewal_due and self._observed_generation < self._sent_generation
        return self._generation > self._sent_generation or self._sent_generation < 0 or missed

    async def _send_desired_state(self) -> None:
        state = await hub.questions.state.ask(self.node_id, self._nonce)
        await self._tell(codec.seal(state, self._key))
        self._sent_generation, self._renewal_due = state.generation, False
        self._generation = max(self._generation, state.generation)

    async def _renew(self) -> None:
        renewal = Unchanged(self._sent_generation, self._nonce, float(settings.LEASE_S))
        await self._tell(codec.seal(renewal, self._key))
        self._renewal_due = False

    async def _tell(self, message: FromConsole) -> None:
        await self.send(bytes_data=codec.encode(message))


def _hash_of_token(headers: list[tuple[bytes, bytes]]) -> str:
    """SHA-256 of the bearer token; of the empty token when there is none, which no node has."""
    value = dict(headers).get(b"authorization", b"")
    scheme, _, token = value.partition(b" ")
    return digest(token.strip().decode("latin-1") if scheme.lower() == b"bearer" else "")


def _common_version(offered: tuple[int, int]) -> int | None:
    version = min(offered[1], PROTOCOL_MAX)
    return version if version >= max(offered[0], PROTOCOL_MIN) else None
