"""One job on its control block: what the agent wants written into it, what the job says read.

The block is a folder in that of the placement, made before the spawn. It outlives the agent: the
next one opens it again, and the limits held all the while.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agents.actuators import family, handshake, reins, statement
from agents.actuators.family import Children
from agents.actuators.handshake import HANDSHAKE_S, Handshake
from agents.actuators.statement import Key, Statement
from agents.control_block import BlockError, ControlBlock, Limits, Mode
from agents.wire.messages import DesiredPlacement

log = logging.getLogger(__name__)

FOLDER: Final = "xcuda"
# Looking at the processes of a job costs a millisecond, or much more; see `family.children`.
FAMILY_S: Final = 5.0
# One kernel at a time of each process: the next is launched when it ends, so an online kernel never
# waits behind a queue of them. `make bench-xcuda` shows what it costs and gains.
INFLIGHT_CAP: Final = 1


@dataclass(frozen=True, slots=True)
class XcudaSettings:
    """`library` is the absolute path of libxcuda.so, as jobs see it. `grace_s` holds for a stop
    that the agent does not announce; `handshake_s`: see `actuators.handshake`; `inflight_cap`:
    see `reins.first`."""

    library: Path
    grace_s: float = 20.0
    handshake_s: float = HANDSHAKE_S
    inflight_cap: int | None = INFLIGHT_CAP

    def environment(self, directory: Path) -> dict[str, str]:
        """Of every process of the job whose folder this is. A process that the library cannot
        limit gets no CUDA at all."""
        return {
            "LD_PRELOAD": str(self.library),
            "MUXFLOW_XCUDA_DIR": str(directory / FOLDER),
            "MUXFLOW_XCUDA_REQUIRED": "1",
        }


class Leash:
    """One job. `limits` are of the whole job, `effective` what all its processes have taken over:
    None before that. `broken`: why nothing can be known of them, "" while it can."""

    def __init__(self, block: ControlBlock, limits: Limits) -> None:
        self._block, self.limits = block, limits
        self.effective: Limits | None = None
        self.statement, self.handshake = Statement(), Handshake()
        self.broken = ""
        self.told = False
        self._told_at: float | None = None
        self._opened: frozenset[Key] = frozenset()
        self._saved = False
        self._deaf: frozenset[int] = frozenset()
        # Also for an adopted job: an agent that died amid a write left a page that nobody reads.
        self._written = reins.for_each(limits, 1)
        self._sequence = block.set_policy(self._written)
        block.heartbeat()

    @property
    def saved(self) -> bool:
        """Every process that had a checkpoint window has left it by itself."""
        return self._saved

    @property
    def pids(self) -> frozenset[int]:
        """Its processes that use CUDA, as far as is known."""
        return self.statement.pids | self.handshake.since.keys()

    @property
    def remarks(self) -> tuple[str, ...]:
        return statement.remarks(self.statement, self._deaf)

    def change(self, change: Callable[[Limits], Limits]) -> None:
        self.limits = change(self.limits)
        self._write()

    def tell(self, grace_s: float) -> None:
        """SIGTERM is about to be sent."""
        self.told = True
        self.change(lambda limits: reins.with_grace(limits, grace_s))

    def beat(self) -> None:
        self._block.heartbeat()

    def look(self, now: float) -> None:
        """What the processes say now."""
        try:
            slots, used_bytes = self._block.read_slots(), self._block.used_bytes()
        except BlockError as error:
            self.broken = str(error)
            return
        self.broken, self.statement = "", Statement(tuple(slots), used_bytes)
        self._write()
        if self.statement.took_over(self._sequence):
            self.effective = self.limits
        self._follow_stop(now)

    def shake_hands(self, using: Collection[int], now: float) -> None:
        """`using`: its processes that use CUDA unlimited, as far as can be seen."""
        covered = self.statement.pids
        self.handshake = handshake.step(self.handshake, using, covered, now)

    def close(self) -> None:
        self._block.close()

    def _write(self) -> None:
        """Only what changed, by the agent's wish or by the number of processes."""
        wanted = reins.for_each(self.limits, len(self.statement.pids))
        if wanted != self._written:
            self._sequence, self._written = self._block.set_policy(wanted), wanted

    def _follow_stop(self, now: float) -> None:
        if not self.told:
            return
        if self._told_at is None:
            self._told_at = now
        self._deaf |= statement.deaf(self.statement.processes, now - self._told_at)
        self._opened |= statement.windows(self.statement.processes)
        if self.limits.mode is not Mode.EXIT:
            self._saved |= statement.has_saved(self.statement.processes, self._opened)


class Leashes:
    """Of all jobs of this node that run under xCUDA, by placement."""

    def __init__(self, settings: XcudaSettings) -> None:
        self.settings = settings
        self._leashes: dict[str, Leash] = {}
        self._refused: dict[str, str] = {}
        self._family: tuple[float, Children] | None = None
        self._shaken: dict[str, float] = {}

    def create(
        self, placement: DesiredPlacement, directory: Path, job_uid: int | None = None
    ) -> dict[str, str]:
        """Makes the block; the environment that puts a job on it. `job_uid` None: the job runs as
        the agent does. Raises BlockError."""
        if not self.settings.library.is_file():
            raise BlockError(
                f"{self.settings.library} is not there: install it, or run the agent without it."
            )
        limits = reins.first(placement, self.settings.grace_s, self.settings.inflight_cap)
        block = ControlBlock.create(
            directory / FOLDER,
            reins.generation_of(placement.placement_id),
            reins.for_each(limits, 1),
            job_uid=job_uid,
        )
        if job_uid is not None:
            (directory / FOLDER).chmod(0o711)
        self._leashes[placement.placement_id] = Leash(block, limits)
        return self.settings.environment(directory)

    def adopt(self, placement: DesiredPlacement, directory: Path) -> None:
        """Opens the block of a job that an earlier life of this agent started, or may have."""
        try:
            block = ControlBlock(directory / FOLDER)
            kept = block.read_limits()
        except BlockError as error:
            self._refused[placement.placement_id] = f"it is not under xCUDA: {error}"
            return
        settings = self.settings
        limits = reins.after(placement, settings.grace_s, kept, settings.inflight_cap)
        leash = Leash(block, limits)
        leash.look(0.0)
        leash.told = any(one.signal is not None for one in leash.statement.processes)
        self._leashes[placement.placement_id] = leash

    def get(self, placement_id: str) -> Leash | None:
        return self._leashes.get(placement_id)

    def items(self) -> tuple[tuple[str, Leash], ...]:
        return tuple(self._leashes.items())

    def beat(self) -> None:
        for leash in self._leashes.values():
            leash.beat()

    def why_unlimited(self, placement_id: str, now: float) -> str:
        """Why a job that runs is not held to its limits, "" when it is."""
        leash = self._leashes.get(placement_id)
        if leash is None:
            return self._refused.get(placement_id, "")
        return leash.broken or leash.handshake.overdue(now, self.settings.handshake_s)

    def look_for_others(
        self, placement_id: str, root_pid: int, clients: frozenset[int], now: float
    ) -> None:
        """For processes below `root_pid` that use CUDA without a slot; now and then. `clients`
        are known to MPS: one of them may have the library and yet not find its block."""
        leash = self._leashes.get(placement_id)
        if leash is None or 0.0 <= now - self._shaken.get(placement_id, float("-inf")) < FAMILY_S:
            return
        self._shaken[placement_id] = now
        ours = family.descendants(root_pid, self._children(now))
        unseen = ours - leash.statement.pids
        bare = family.without_library(unseen, str(self.settings.library))
        leash.shake_hands(bare | (unseen & clients), now)

    def forget(self, placement_id: str) -> None:
        leash = self._leashes.pop(placement_id, None)
        if leash is not None:
            leash.close()
        self._refused.pop(placement_id, None)
        self._shaken.pop(placement_id, None)

    def _children(self, now: float) -> Children:
        """One look for all jobs that are due together."""
        if self._family is None or self._family[0] != now:
            self._family = now, family.children()
        return self._family[1]
