"""What the processes of our own jobs say of themselves, through their control blocks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from agents.collectors.base import Finding, Findings, JobUse
from agents.complaints import Complaints
from agents.control_block import BlockError, Process

log = logging.getLogger(__name__)

NS_PER_S: Final = 1e9
# Busy time is counted in batches of launches: over less than this it says little.
LEAST_S: Final = 0.2


class Slots(Protocol):
    """As `control_block.ControlBlock`."""

    def read_slots(self) -> list[Process]: ...

    def used_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Block:
    """The control block of one placement, open."""

    placement_id: str
    gpu_index: int
    slots: Slots


Blocks = Callable[[], Sequence[Block]]


class XcudaSource:
    """Reads every block once a second. A job can write anything into its own, so one that makes
    no sense is passed over and said so."""

    name = "xcuda"
    period_s = 1.0
    max_age_s = 3.0
    prompt = False

    def __init__(self, blocks: Blocks, uuids: Mapping[int, str]) -> None:
        """`uuids` of the GPUs by index."""
        self._blocks, self._uuids = blocks, uuids
        self._before: dict[str, tuple[float, dict[tuple[int, int], int]]] = {}
        self._pids: dict[str, frozenset[int]] = {}
        self._complaints = Complaints()

    @property
    def is_idle(self) -> bool:
        """Where no job runs, once that was said."""
        return not (self._blocks() or self._pids)

    def look(self, now: float) -> Findings:
        blocks = tuple(self._blocks())
        ids = {block.placement_id for block in blocks}
        self._before = {one: kept for one, kept in self._before.items() if one in ids}
        found: dict[str, list[JobUse]] = {uuid: [] for uuid in self._uuids.values()}
        pids = {}
        for block in blocks:
            uuid = self._uuids.get(block.gpu_index)
            use = self._use(block, now)
            if uuid is not None and use is not None:
                found[uuid].append(use)
                pids[use.placement_id] = use.pids
        self._pids = pids
        return {uuid: Finding(jobs=tuple(uses)) for uuid, uses in found.items()}

    def pids(self, placement_id: str) -> frozenset[int]:
        """The live processes of the job, as of the last look."""
        return self._pids.get(placement_id, frozenset())

    def close(self) -> None: ...

    def _use(self, block: Block, now: float) -> JobUse | None:
        try:
            processes = block.slots.read_slots()
            memory_bytes = block.slots.used_bytes()
        except (BlockError, OSError) as error:
            if self._complaints.due(str(error)):
                log.warning("%s", error)
            return None
        busy_ns = {(one.slot, one.pid): one.busy_ns for one in processes}
        last = self._before.get(block.placement_id)
        if last is None or now - last[0] >= LEAST_S or now < last[0]:
            self._before[block.placement_id] = now, busy_ns
        # Without a process here nothing counts the launches of a job that runs unlimited.
        return JobUse(
            block.placement_id,
            busy_part(last[1], busy_ns, now - last[0]) if last and processes else None,
            memory_bytes,
            frozenset(one.host_pid for one in processes if one.host_pid is not None),
        )


def busy_part(
    before: Mapping[tuple[int, int], int], now: Mapping[tuple[int, int], int], passed_s: float
) -> float | None:
    """The part of the time in which launches of the job were in flight, 0..1: of its busiest
    process, as launches of several may be in flight at once. By slot and pid, in nanoseconds.

    None when time stood still or went back. A counter that fell belongs to another process.
    """
    if passed_s <= 0.0:
        return None
    gained = (ns - before.get(key, 0) for key, ns in now.items())
    most_ns = max((ns for ns in gained if ns > 0), default=0)
    return min(1.0, most_ns / NS_PER_S / passed_s)
