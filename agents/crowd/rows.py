"""A second of a whole fleet as the rows of its telemetry, without a loop over GPUs."""

from __future__ import annotations

from typing import Final

import numpy as np

from agents.contention.prefilter import Codes, Doubles, Flags, Judgement
from agents.contention.world import World
from agents.sysmonitor.recording import FactBit
from agents.wire import packed
from agents.wire.names import SIGNALS

_AT: Final = {name: position for position, name in enumerate(packed.FIELDS)}
_FIELDS: Final = len(packed.FIELDS)


def new(indexes: Codes) -> Doubles:
    """[n_gpus, packed.WIDTH]: what never changes while a node sleeps, and nan."""
    rows = np.full((len(indexes), packed.WIDTH), np.nan)
    rows[:, _AT["index"]] = indexes
    rows[:, _AT["offline_processes"]] = 0.0
    return rows


def fill(
    rows: Doubles, world: World, state: Codes, told: Flags, known: Codes, now: Judgement
) -> None:
    """Of GPUs without offline work. `told`: those of which SysMonitor is asked; of the others the
    `known` facts stand, as it was told them last."""
    online, offline = world.online_memory(), world.offline_memory()
    columns = {
        "state": state,
        "sm_online_percent": world.online_sm(),
        "sm_offline_percent": world.offline_sm(),
        "headroom_percent": now.headroom_percent,
        "nearest_signal": now.nearest,
        "online_processes": np.where(np.isnan(online), np.nan, online > 0.0),
        "online_memory_bytes": np.trunc(online),
        "offline_memory_bytes": np.trunc(offline),
        "facts": np.where(told, _facts(online > 0.0, offline == 0.0), known),
    }
    for name, column in columns.items():
        rows[:, _AT[name]] = column
    rows[:, _FIELDS : _FIELDS + len(SIGNALS)] = now.values
    rows[:, _FIELDS + len(SIGNALS) :] = now.values


def fill_step(rows: Doubles, told: Flags, step_s: float) -> None:
    rows[:, _AT["step_s"]] = np.where(told, step_s, np.nan)


def _facts(online_present: Flags, memory_returned: Flags) -> Codes:
    facts: Codes = online_present * int(FactBit.ONLINE_PRESENT) + memory_returned * int(
        FactBit.MEMORY_RETURNED
    )
    return facts
