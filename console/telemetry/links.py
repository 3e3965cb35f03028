"""The agents connected to this web process, and what it asks the database of all at once."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable
from typing import Final, Protocol

from django.utils import timezone

from console.inventory import nodes
from console.telemetry import counts
from console.telemetry.batches import InThread

# Leaves room for one failed try before the agent's LEASE_RENEWAL_S is over.
RENEW_AFTER_S: Final = 7.0
# Each step renews its part of the leases, so that they are spread evenly over the period.
RENEW_STEP_S: Final = 0.1
# Leases are renewed only while the database was asked this recently whether they should be.
POLL_TRUSTED_S: Final = 10.0
# When this process ends its agents are told so within a second, of a large fleet so many each.
MOVES_PER_S: Final = 500
MOVE_STEP_S: Final = 0.1
TAKEN_OVER: Final = 4409
MOVE: Final = 4410


class AgentLink(Protocol):
    """The connection of one node, as seen from here (gateway.AgentGateway)."""

    connection: str
    token_sha256: str
    heard: bool  # since it was last looked at

    def generation_is(self, generation: int) -> None: ...

    def renew(self) -> None: ...

    def leave(self, code: int, reason: str) -> None: ...


class Links:
    def __init__(self, in_thread: InThread) -> None:
        self.polled_at = float("-inf")
        self.is_leaving = False
        self._in_thread = in_thread
        self._links: dict[int, AgentLink] = {}
        # Whose lease is next; the order is all that counts.
        self._round: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._links)

    def attach(self, node_id: int, link: AgentLink) -> None:
        """From now on this connection speaks for the node; an older one is closed."""
        older = self._links.get(node_id)
        self._links[node_id] = link
        self._round.setdefault(node_id)
        if older is not None and older is not link:
            older.leave(TAKEN_OVER, "a newer connection of this node took over")

    def detach(self, node_id: int, link: AgentLink) -> bool:
        """Whether it spoke for the node until now."""
        is_its = self._links.get(node_id) is link
        if is_its:
            del self._links[node_id]
        return is_its

    def yield_to_other(self, node_id: int, connection: str, process: str) -> None:
        link = self._links.get(node_id)
        if link is not None and not connection.startswith(process):
            link.leave(TAKEN_OVER, "a newer connection of this node, to another process, took over")

    @property
    def may_renew(self) -> bool:
        """Whether the database said recently enough which generations hold."""
        return time.monotonic() - self.polled_at <= POLL_TRUSTED_S

    # --- loops --------------------------------------------------------------------------------

    async def poll(self) -> None:
        await self.ask_generations(list(self._links))
        self.polled_at = time.monotonic()

    async def ask_generations(self, node_ids: Iterable[int]) -> None:
        ids = [node_id for node_id in node_ids if node_id in self._links]
        if not ids:
            return
        known = await self._in_thread(counts.generations, ids)
        for node_id in ids:
            link = self._links.get(node_id)
            generation, token_sha256 = known.get(node_id, (0, ""))
            if link is None:
                continue
            if token_sha256 != link.token_sha256:
                link.leave(4401, "this token is no longer valid: enrol the node again")
            else:
                link.generation_is(generation)

    async def renew(self) -> None:
        """The next part of the leases; all of them within RENEW_AFTER_S."""
        if not self.may_renew:
            return
        for _ in range(math.ceil(len(self._round) * RENEW_STEP_S / RENEW_AFTER_S)):
            node_id = next(iter(self._round))
            del self._round[node_id]
            if node_id in self._links:
                self._round[node_id] = None
                self._links[node_id].renew()

    async def tell_seen(self) -> None:
        heard = [node_id for node_id, link in self._links.items() if link.heard]
        for node_id in heard:
            self._links[node_id].heard = False
        if heard:
            await self._in_thread(nodes.seen, heard, timezone.now())

    # --- the end ------------------------------------------------------------------------------

    async def hand_over(self) -> None:
        """Tell all agents to connect to another process, a few at a time: so none is without a
        connection for long, and the others are not asked by all at once."""
        self.is_leaving = True
        waiting = list(self._links.items())
        in_a_second = min(len(waiting), MOVES_PER_S)
        step = max(1, math.ceil(in_a_second * MOVE_STEP_S))
        while waiting:
            now, waiting = waiting[:step], waiting[step:]
            for _, link in now:
                link.leave(MOVE, "this console process ends: connect again")
            await asyncio.sleep(MOVE_STEP_S)
