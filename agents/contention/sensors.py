"""What the fleet's sensors show of an outcome: units, noise, inertia. Vectorised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from agents.contention.law import Floats, Outcome
from agents.wire.names import SIGNALS, Signal

_AT: Final = {signal: position for position, signal in enumerate(SIGNALS)}
# One draw of noise a sample for each of these, in this order; absolute percent, or relative.
_NOISE: Final = {
    Signal.GPU_UTIL: 1.5,
    Signal.SM_ACTIVITY: 1.2,
    Signal.SM_OCCUPANCY: 1.0,
    Signal.MEMORY_BANDWIDTH: 1.0,
    Signal.POWER: 0.015,
    Signal.PCIE_RX: 0.05,
    Signal.ONLINE_P99: 0.03,
    Signal.ONLINE_QPS: 0.02,
}
# A p99 covers the last requests: it shows a delay at once and forgets it slowly.
_P99_FALL_S: Final = 1.5
_HEAT_S: Final = 20.0
_AMBIENT_C: Final = 31.0
_HEAT_C: Final = 44.0
_IDLE_UTIL: Final = 0.02
_IDLE_CLOCK: Final = 0.25


@dataclass(frozen=True, slots=True)
class Cards:
    """Facts of each card and of the service on it (nan where it has none)."""

    clock_max_mhz: Floats
    power_limit_w: Floats
    pcie_max_bytes_s: Floats
    base_p99_ms: Floats
    peak_qps: Floats


class Sensors:
    """Turns outcomes into samples in wire units."""

    def __init__(self, cards: Cards, rng: np.random.Generator) -> None:
        n = len(cards.power_limit_w)
        self._cards = cards
        self._rng = rng
        self._values = np.full((n, len(SIGNALS)), np.nan, np.float32)
        self._p99 = np.zeros(n, np.float32)
        self._airflow_c = rng.normal(0.0, 2.0, n).astype(np.float32)
        self._temperature = np.full(n, np.nan, np.float32)

    def read(self, outcome: Outcome, memory_bytes: Floats, xid: Floats, dt_s: float) -> Floats:
        """[n_gpus, len(SIGNALS)], one array reused from call to call."""
        values, noise = self._values, self._noise()
        percent = {
            Signal.GPU_UTIL: outcome.util,
            Signal.SM_ACTIVITY: outcome.sm,
            Signal.SM_OCCUPANCY: 0.62 * outcome.sm,
            Signal.MEMORY_BANDWIDTH: outcome.bandwidth,
        }
        for signal, part in percent.items():
            noisy = 100.0 * part + np.where(part > 0.0, noise[signal], 0.0)
            values[:, _AT[signal]] = np.clip(noisy, 0.0, 100.0)
        power = 0.16 + 0.60 * outcome.sm + 0.20 * outcome.bandwidth
        power = power * (1.0 + noise[Signal.POWER])
        values[:, _AT[Signal.POWER]] = self._cards.power_limit_w * power
        values[:, _AT[Signal.SM_CLOCK]] = self._clock(outcome.util, power)
        values[:, _AT[Signal.TEMPERATURE]] = self._heat(power, dt_s)
        values[:, _AT[Signal.MEMORY]] = memory_bytes
        values[:, _AT[Signal.XID]] = xid
        traffic = (0.12 * outcome.served + 0.08 * outcome.throughput) * self._cards.pcie_max_bytes_s
        values[:, _AT[Signal.PCIE_RX]] = np.maximum(0.0, traffic * (1.0 + noise[Signal.PCIE_RX]))
        self._service(outcome, noise, dt_s)
        return values

    def _service(self, outcome: Outcome, noise: dict[Signal, Floats], dt_s: float) -> None:
        kept = np.float32(np.exp(-dt_s / _P99_FALL_S))
        self._p99 = np.maximum(outcome.p99, outcome.p99 + (self._p99 - outcome.p99) * kept)
        p99 = self._cards.base_p99_ms * self._p99 * (1.0 + noise[Signal.ONLINE_P99])
        self._values[:, _AT[Signal.ONLINE_P99]] = p99
        qps = self._cards.peak_qps * outcome.served * (1.0 + noise[Signal.ONLINE_QPS])
        self._values[:, _AT[Signal.ONLINE_QPS]] = np.maximum(qps, 0.0)

    def _noise(self) -> dict[Signal, Floats]:
        drawn = self._rng.standard_normal((len(_NOISE), len(self._p99)), dtype=np.float32)
        return {
            signal: np.float32(size) * row
            for (signal, size), row in zip(_NOISE.items(), drawn, strict=True)
        }

    def _clock(self, util: Floats, power: Floats) -> Floats:
        """Full speed; lower near the power limit, and low when there is nothing to do."""
        throttle = 1.0 - 1.5 * np.maximum(0.0, power - 0.92)
        clock: Floats = self._cards.clock_max_mhz * np.where(
            util < _IDLE_UTIL, _IDLE_CLOCK, np.minimum(1.0, throttle)
        )
        return clock

    def _heat(self, power: Floats, dt_s: float) -> Floats:
        target = _AMBIENT_C + _HEAT_C * power + self._airflow_c
        kept = np.float32(np.exp(-dt_s / _HEAT_S))
        known = np.where(np.isnan(self._temperature), target, self._temperature)
        self._temperature = (target + (known - target) * kept).astype(np.float32)
        return np.round(self._temperature)
