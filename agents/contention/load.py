"""How much traffic each service has: a curve by the clock, some unrest, and spikes. Vectorised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agents.contention.curves import Curves
from agents.contention.law import Floats
from agents.wire.cluster import ClusterService

DAY_S: Final = 86_400.0
# The world starts in the early afternoon, when a service is near its daily peak.
START_S: Final = 13.0 * 3_600.0
# A flash crowd comes at once, stays for this part of its time, and then loses interest.
SPIKE_PLATEAU: Final = 0.3
# Unrest of a service's load: relative size, and how long (real seconds) it remembers.
_UNREST: Final = 0.04
_UNREST_S: Final = 15.0
# How unevenly the instances of a service are loaded.
_IMBALANCE: Final = 0.08


class Load:
    """The load of every GPU's instance as a part of its service's peak."""

    def __init__(
        self,
        services: Sequence[ClusterService],
        service_of: NDArray[np.int32],
        rng: np.random.Generator,
        curves: Curves | None = None,
    ) -> None:
        """`service_of` is the number of each GPU's service, len(services) where it has none.
        `curves`: in place of daily ones."""
        n = len(services) + 1
        self._curves = curves
        # [n_gpus] whose service nobody measures at the moment: a gap in its curve.
        self.unmeasured = np.zeros(len(service_of), np.bool_)
        self._rng = rng
        self._service_of = service_of
        self._low = rng.uniform(0.30, 0.45, n).astype(np.float32)
        self._high = rng.uniform(0.70, 0.90, n).astype(np.float32)
        self._low[-1] = self._high[-1] = 0.0
        self._trough_s = rng.normal(3.5 * 3_600.0, 3_600.0, n)
        self._unrest = np.zeros(n, np.float32)
        self._imbalance = np.exp(rng.normal(0.0, _IMBALANCE, len(service_of))).astype(np.float32)
        self._spike_factor = np.ones(n, np.float32)
        self._spike_start_s = np.full(n, -np.inf)
        self._spike_s = np.ones(n)

    def step(self, now_s: float, world_s: float, dt_s: float) -> Floats:
        """[n_gpus] load at real time `now_s` and world time `world_s`."""
        kept = np.float32(np.exp(-dt_s / _UNREST_S))
        drawn = self._rng.standard_normal(len(self._unrest), dtype=np.float32)
        self._unrest = kept * self._unrest + np.sqrt(1.0 - kept * kept) * _UNREST * drawn
        load = self._by_the_clock(world_s)
        load = load * np.maximum(0.0, 1.0 + self._unrest)
        load = load + self._spikes(now_s) * np.maximum(load, self._high)
        spread: Floats = (load[self._service_of] * self._imbalance).astype(np.float32)
        return spread

    def _by_the_clock(self, world_s: float) -> Floats:
        if self._curves is None:
            return daily(self._low, self._high, self._trough_s, START_S + world_s)
        parts, gaps = self._curves.of(len(self._high), world_s)
        gaps = gaps & (self._high > 0.0)
        self.unmeasured = gaps[self._service_of]
        load: Floats = parts * self._high
        return load

    def _spikes(self, now_s: float) -> Floats:
        """What each spike adds, in loads of the service's daily peak: a crowd that comes at night
        is as large as one at noon."""
        part = (now_s - self._spike_start_s) / self._spike_s
        added: Floats = (self._spike_factor - 1.0) * spike_shape(part)
        return added

    def spike(self, service: int, factor: float, duration_s: float, now_s: float) -> None:
        self._spike_factor[service] = factor
        self._spike_start_s[service] = now_s
        self._spike_s[service] = max(duration_s, 1e-3)


def daily(low: Floats, high: Floats, trough_s: NDArray[np.float64], time_s: float) -> Floats:
    """One smooth wave a day between `low` and `high`, lowest at `trough_s` after midnight."""
    wave = 0.5 - 0.5 * np.cos(2.0 * np.pi * (time_s - trough_s) / DAY_S)
    load: Floats = (low + (high - low) * wave).astype(np.float32)
    return load


def spike_shape(part: NDArray[np.float64]) -> Floats:
    """1 in the plateau, a parabola down to 0 at the end, 0 before and after; `part` of its time."""
    falling = np.clip((part - SPIKE_PLATEAU) / (1.0 - SPIKE_PLATEAU), 0.0, 1.0)
    inside = (part >= 0.0) & (part < 1.0)
    shape: Floats = np.where(inside, np.square(1.0 - falling), 0.0).astype(np.float32)
    return shape
