"""The fleet in a dozen numbers, once a second for every page. Pure (numpy)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from agents.wire.names import GPU_STATES, Signal
from console.telemetry import latest
from console.telemetry.latest import Bytes, Field, Flag, Flags, Floats, Grid, Look

_LIVE: Final = (Look.OK, Look.ZERO, Look.IDLE)


@dataclass(frozen=True)
class ServiceRatios:
    """Online p99 against SLO (1 = SLO), one a service that reports both: its worst instance."""

    values: Floats

    @property
    def median(self) -> float | None:
        return float(np.median(self.values)) if len(self.values) else None

    @property
    def worst(self) -> float | None:
        return float(self.values.max()) if len(self.values) else None

    @property
    def over(self) -> int:
        return int((self.values > 1).sum())


def summarise(
    grid: Grid, cells: Bytes, counts: Mapping[str, int], now: float, only: Flags | None = None
) -> dict[str, Any]:
    """What `mf:summary` carries. Means are over the live GPUs that report the signal; None: nobody
    does. `age_s` is the age of the oldest sample among them. `counts` comes from the database."""
    live = is_live(cells) if only is None else is_live(cells) & only
    ratios = service_ratios(grid, live)
    return {
        "at": round(now, 3),
        "age_s": _rounded(float((now - grid.at[live]).max()) if live.any() else None),
        "gpus": len(cells),
        "live": int(live.sum()),
        "states": states(cells),
        "looks": {
            look.name: int(count)
            for look, count in zip(
                Look, np.bincount(cells[:, Field.LOOK], minlength=len(Look)), strict=True
            )
        },
        "sm_activity": mean(grid.column(Signal.SM_ACTIVITY), live),
        "gpu_util": mean(grid.column(Signal.GPU_UTIL), live),
        "memory": mean(latest.memory_percent(grid), live),
        "p99_ratio": _rounded(ratios.median, 4),
        "services": len(ratios.values),
        "services_over_slo": ratios.over,
        "sharing": int((cells[:, Field.FLAGS] & Flag.ENFORCE > 0).sum()),
        "guests": int((live & (cells[:, Field.FLAGS] & Flag.OFFLINE > 0)).sum()),
        **counts,
    }


def is_live(cells: Bytes) -> Flags:
    return np.isin(cells[:, Field.LOOK], _LIVE)


def states(cells: Bytes) -> dict[str, int]:
    """GPUs by state; those without live data count as NO_DATA whatever their last state was."""
    live = is_live(cells) | (cells[:, Field.LOOK] == Look.UNSUPPORTED)
    hardware = live & (cells[:, Field.FLAGS] & Flag.HARDWARE > 0)
    counts = np.bincount(cells[live & ~hardware, Field.STATE], minlength=len(GPU_STATES))
    return {
        **{state.value: int(count) for state, count in zip(GPU_STATES, counts, strict=True)},
        "QUARANTINED": int(hardware.sum()),
        "NO_DATA": int((~live).sum()),
    }


def service_ratios(grid: Grid, live: Flags) -> ServiceRatios:
    """Over the live GPUs only; a service without any of them is left out."""
    ratio = latest.p99_of_slo(grid) / 100
    reports = live & ~np.isnan(ratio) & (grid.facts.service >= 0)
    services, which = np.unique(grid.facts.service[reports], return_inverse=True)
    worst = np.zeros(len(services), np.float32)
    np.maximum.at(worst, which, ratio[reports])
    return ServiceRatios(worst)


def mean(values: Floats, live: Flags) -> float | None:
    known = values[live & ~np.isnan(values)]
    return round(float(known.mean()), 2) if len(known) else None


def _rounded(value: float | None, digits: int = 2) -> float | None:
    return None if value is None else round(value, digits)
