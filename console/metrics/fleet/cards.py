"""The GPUs of the page beside their rows of the live grid. Pure (numpy).

Only a fresh sample has values: nothing is ever shown frozen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agents.wire.names import GPU_STATES, GpuState, Signal
from console.metrics.exposition import labels
from console.metrics.fleet.facts import FleetFacts, GpuRow
from console.telemetry.latest import STALE_S, Flags, Floats, Rows, Times

# Whether offline work is on the GPU of an instance.
OFFLINE, NOTHING = "offline", "nothing"
BESIDE: Final = (OFFLINE, NOTHING)

_DISABLED: Final = GPU_STATES.index(GpuState.DISABLED)


@dataclass(frozen=True)
class Cards:
    """Each GPU once. Whatever has an entry a GPU is in the order of `gpus`."""

    facts: FleetFacts

    @cached_property
    def gpus(self) -> Sequence[GpuRow]:
        """A slot that repeats another's identity on the same node has no series of its own."""
        first = {(gpu.uuid, gpu.node): gpu for gpu in reversed(self.facts.gpus)}
        return [gpu for gpu in self.facts.gpus if first[gpu.uuid, gpu.node] is gpu]

    @cached_property
    def labels(self) -> list[str]:
        return [
            labels({"gpu_uuid": gpu.uuid, "node": gpu.node, "pool": gpu.pool}) for gpu in self.gpus
        ]

    @cached_property
    def service(self) -> list[str]:
        """The most important one there; empty: none."""
        first = dict(reversed(self.facts.instances))
        return [first.get(gpu.id, "") for gpu in self.gpus]

    @cached_property
    def expected(self) -> Flags:
        """An agent is to report it."""
        return self._of_grid(self.facts.grid.facts.agent, False)

    @cached_property
    def at(self) -> Times:
        """When it was last heard of, Unix s; 0: never."""
        return self._of_grid(self.facts.grid.at, 0.0)

    @cached_property
    def fresh(self) -> Flags:
        """Its last sample tells of now."""
        found: Flags = (
            self.expected
            & ~self._of_grid(self.facts.grid.facts.lost, True)
            & (self.facts.now - self.at <= STALE_S)
        )
        return found

    @cached_property
    def enforced(self) -> Flags:
        return self._of_grid(self.facts.grid.facts.enforce, False)

    @cached_property
    def states(self) -> list[str | None]:
        """The state of each; None without a fresh sample."""
        names = [state.value for state in GPU_STATES]
        codes = self._codes.tolist()
        return [
            names[code] if fresh else None
            for code, fresh in zip(codes, self.fresh.tolist(), strict=True)
        ]

    @cached_property
    def quarantined(self) -> Flags:
        """Disabled, and not by a person."""
        by_person = self._of_grid(self.facts.grid.facts.by_person, False)
        found: Flags = self.fresh & (self._codes == _DISABLED) & ~by_person
        return found

    def column(self, name: str) -> Floats:
        """In wire units; nan where it is not known, or not fresh."""
        values = self._of_grid(self.facts.grid.column(name), np.nan)
        return np.where(self.fresh, values, np.float32(np.nan))

    @cached_property
    def of_pool(self) -> Mapping[str, Rows]:
        found = defaultdict[str, list[int]](list)
        for row, gpu in enumerate(self.gpus):
            found[gpu.pool].append(row)
        return {pool: np.array(rows, np.intp) for pool, rows in found.items()}

    @cached_property
    def of_service(self) -> Mapping[tuple[str, str], Rows]:
        """By service and what is beside it: the GPUs whose latency or load is told."""
        told = self.column(Signal.ONLINE_P99), self.column(Signal.ONLINE_QPS)
        reports = ~np.isnan(told[0]) | ~np.isnan(told[1])
        guests = self.column("offline_processes")
        known = np.flatnonzero(reports & ~np.isnan(guests)).tolist()
        found = defaultdict[tuple[str, str], list[int]](list)
        for row in known:
            found[self.service[row], OFFLINE if guests[row] > 0 else NOTHING].append(row)
        return {key: np.array(rows, np.intp) for key, rows in found.items()}

    @cached_property
    def _codes(self) -> npt.NDArray[np.uint8]:
        return self._of_grid(self.facts.grid.state, 0)

    @cached_property
    def _rows(self) -> Rows:
        return self.facts.grid.facts.rows([gpu.id for gpu in self.gpus])

    def _of_grid(self, values: npt.NDArray[Any], missing: object) -> npt.NDArray[Any]:
        """`values` has an entry a row of the grid; a GPU that is not there gets `missing`."""
        out = np.full(len(self._rows), missing, values.dtype)
        here = self._rows >= 0
        out[here] = values[self._rows[here]]
        return out
