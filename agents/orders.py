"""What the console last told this node, and for how long it holds.

An envelope is obeyed only when its signature, nonce, generation and content stand. The last one is
kept on disk, so that a restarted agent protects its node by it with the network cut.
"""

from __future__ import annotations

import logging
import secrets
from collections import deque
from collections.abc import Collection
from typing import Final
from uuid import UUID

import msgspec

from agents.state import StateFile
from agents.wire import codec
from agents.wire.limits import MAX_NAME_CHARS, MAX_PLACEMENTS_PER_NODE, MAX_TEXT_CHARS
from agents.wire.messages import (
    DesiredGpu,
    DesiredPlacement,
    DesiredService,
    DesiredState,
    Envelope,
    Signed,
    Unchanged,
)
from agents.wire.policy import AgentPolicy

log = logging.getLogger(__name__)

# A status goes out at least every five seconds: this many cover a slow console, not a replay.
# The part of a lease by which the one on the disk may be shorter.
KEPT_SHORTER: Final = 0.05
NONCES_KEPT: Final = 32
LONGEST_LEASE_S: Final = 86_400.0


class Refused(ValueError):
    """The envelope is not obeyed; the text says why. What held before still holds."""


class Lease(msgspec.Struct, frozen=True):
    """`until` is on the monotonic clock of one boot of the machine, and void in the next."""

    boot_id: str
    until: float


class Orders:
    """The desired state of one node, its lease, and the nonces that prove an answer is fresh."""

    def __init__(
        self,
        state: StateFile,
        node: str,
        key: bytes,
        gpu_indexes: Collection[int],
        boot_id: str,
    ) -> None:
        self._state, self._node, self._key = state, node, key
        self._gpu_indexes, self._boot_id = frozenset(gpu_indexes), boot_id
        self._nonces: deque[str] = deque(maxlen=NONCES_KEPT)
        self.refusal = ""
        self.desired = self._load_desired()
        self._lease_until = self._kept_until = self._load_lease()

    @property
    def generation(self) -> int:
        return 0 if self.desired is None else self.desired.generation

    def fresh_nonce(self) -> str:
        nonce = secrets.token_hex(8)
        self._nonces.append(nonce)
        return nonce

    def lease_left_s(self, now: float) -> float:
        """0 once it expired, and before the first order."""
        return max(0.0, self._lease_until - now)

    @property
    def placements(self) -> tuple[DesiredPlacement, ...]:
        return () if self.desired is None else self.desired.placements

    @property
    def policy_versions(self) -> dict[str, int]:
        policies = {} if self.desired is None else self.desired.policies
        return {name: policy.version for name, policy in policies.items()}

    def gpu(self, gpu_index: int) -> DesiredGpu | None:
        gpus = () if self.desired is None else self.desired.gpus
        return next((gpu for gpu in gpus if gpu.index == gpu_index), None)

    def policy(self, gpu_index: int) -> AgentPolicy | None:
        """The policy that holds for one GPU; None until the console named one."""
        gpu = self.gpu(gpu_index)
        return None if gpu is None or self.desired is None else self.desired.policies[gpu.policy]

    def service(self, gpu_index: int) -> DesiredService | None:
        services = () if self.desired is None else self.desired.services
        return next((one for one in services if one.gpu_index == gpu_index), None)

    def receive(self, envelope: Envelope, now: float) -> bool:
        """Whether it brought a new state; a renewal and a refusal do not."""
        try:
            order = self._verified(envelope)
        except (Refused, codec.WireError) as refusal:
            self.refusal = str(refusal)[:MAX_TEXT_CHARS]
            log.warning("%s: refused an order: %s", self._node, self.refusal)
            return False
        self.refusal = ""
        self._renew(order.lease_s, now)
        if isinstance(order, Unchanged) or self._repeats(order):
            return False
        self.desired = order
        self._state.set_fact(self._node, "orders", codec.encode(envelope))
        return True

    def _verified(self, envelope: Envelope) -> Signed:
        order = codec.unseal(envelope, self._key)
        if order.nonce not in self._nonces:
            raise Refused(f"generation {order.generation} answers no status of the last minutes")
        if not 0 < order.lease_s <= LONGEST_LEASE_S:
            raise Refused(f"a lease of {order.lease_s} s is not within {LONGEST_LEASE_S:.0f} s")
        if isinstance(order, DesiredState):
            self._check_state(order)
        elif order.generation != self.generation:
            raise Refused(
                f"renews generation {order.generation}, this node holds {self.generation}"
            )
        return order

    def _check_state(self, order: DesiredState) -> None:
        if order.generation < self.generation:
            raise Refused(f"generation {order.generation} is older than {self.generation}")
        if order.generation == self.generation and not self._repeats(order):
            raise Refused(f"a second, different state of generation {order.generation}")
        self._check_gpus(order)
        if len(order.placements) > MAX_PLACEMENTS_PER_NODE:
            raise Refused(f"{len(order.placements)} placements, {MAX_PLACEMENTS_PER_NODE} allowed")
        for placement in order.placements:
            self._check_placement(placement)

    def _check_gpus(self, order: DesiredState) -> None:
        for gpu in order.gpus:
            if gpu.index not in self._gpu_indexes:
                raise Refused(f"names GPU {gpu.index}, which this node does not have")
            if gpu.policy not in order.policies:
                raise Refused(f"GPU {gpu.index} follows policy {gpu.policy!r}, which is not sent")

    def _check_placement(self, placement: DesiredPlacement) -> None:
        """The id becomes the name of a directory: it must be a UUID, written the usual way."""
        try:
            plain = str(UUID(placement.placement_id))
        except ValueError:
            plain = ""
        if plain != placement.placement_id:
            raise Refused(f"placement id {placement.placement_id[:64]!r} is not a UUID")
        if placement.gpu_index not in self._gpu_indexes:
            raise Refused(f"placement {plain} is on GPU {placement.gpu_index}, not on this node")
        if len(placement.job_name) > MAX_NAME_CHARS:
            raise Refused(f"placement {plain} has a name over {MAX_NAME_CHARS} characters")

    def _repeats(self, order: DesiredState) -> bool:
        """The same state again, said in answer to another status."""
        held = self.desired
        return held is not None and order == msgspec.structs.replace(
            held, nonce=order.nonce, lease_s=order.lease_s
        )

    def _renew(self, lease_s: float, now: float) -> None:
        """What is kept of it for the next life may end a little earlier, never later: to write each
        renewal down would be most of what an idle node writes."""
        self._lease_until = now + lease_s
        if 0.0 <= self._lease_until - self._kept_until < lease_s * KEPT_SHORTER:
            return
        self._kept_until = self._lease_until
        lease = Lease(self._boot_id, self._lease_until)
        self._state.set_fact(self._node, "lease", msgspec.msgpack.encode(lease))

    def _load_desired(self) -> DesiredState | None:
        body = self._state.fact(self._node, "orders")
        if body is None:
            return None
        try:
            envelope = codec.decode_from_console(body)
            order = codec.unseal(envelope, self._key) if isinstance(envelope, Envelope) else None
        except codec.WireError as error:
            log.warning("%s: the kept orders no longer hold: %s", self._node, error)
            return None
        return order if isinstance(order, DesiredState) else None

    def _load_lease(self) -> float:
        body = self._state.fact(self._node, "lease")
        if body is None:
            return 0.0
        lease = msgspec.msgpack.decode(body, type=Lease)
        return lease.until if lease.boot_id == self._boot_id else 0.0
