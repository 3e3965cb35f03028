"""How each signal of one GPU is shown: its unit, the length of its bar, where its limits lie. Pure.

A policy's limits are in units of their own (`agents.wire.policy.Threshold`); here they become the
unit that a person reads, on this card and for this service.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agents.wire.names import Signal
from agents.wire.policy import Threshold
from console import figures

GIB: Final = 1 << 30
# In the order in which a page lists them: what threatens online work first.
ORDER: Final = (
    Signal.ONLINE_P99,
    Signal.MEMORY,
    Signal.SM_ACTIVITY,
    Signal.SM_OCCUPANCY,
    Signal.MEMORY_BANDWIDTH,
    Signal.SM_CLOCK,
    Signal.GPU_UTIL,
    Signal.TEMPERATURE,
    Signal.POWER,
    Signal.PCIE_RX,
)
# Only listed where a policy sets a limit on them.
_IF_JUDGED: Final = frozenset({Signal.SM_OCCUPANCY})


@dataclass(frozen=True)
class Card:
    """What percentages of one GPU are taken of; None where nobody told."""

    memory_bytes: float | None
    power_limit_w: float | None
    sm_clock_max_mhz: float | None
    slo_p99_ms: float | None
    pcie_max_bytes_s: float | None = None


@dataclass(frozen=True)
class Scale:
    """One signal on one GPU. `most` to `slo` are in `unit`; value in `unit` = wire value / `per`.

    `limit_text` stands in for limits that cannot be placed on the bar. With `falling` a lower
    value is the worse one.
    """

    signal: Signal
    name: str
    unit: str
    digits: int
    per: float
    most: float | None
    busy_at: float | None = None
    evict_at: float | None = None
    slo: float | None = None
    falling: bool = False
    limit_text: str = ""

    def shown(self, wire_value: float | None) -> float | None:
        """A value off the wire in the unit of this scale."""
        return None if wire_value is None else wire_value / self.per

    def headroom(self, wire_value: float | None, idle: bool = False) -> str:
        """`12 ms`, `over by 3 ms`; why there is none to tell when there is no limit or value.

        The clock of an idle card is low to save power, so nobody judges it.
        """
        value = self.shown(wire_value)
        if self.evict_at is None:
            return self.limit_text or "not in the policy"
        if value is None or (idle and self.falling):
            return "" if value is None else "idle, not judged"
        left = value - self.evict_at if self.falling else self.evict_at - value
        unit = "points" if self.unit == "%" else self.unit
        text = figures.quantity(abs(left), unit, self.digits)
        return f"over by {text}" if left < 0 else text


@dataclass(frozen=True)
class _Kind:
    name: str
    unit: str
    digits: int = 0
    per: float = 1.0
    most: float | None = None


_KINDS: Final[Mapping[Signal, _Kind]] = {
    Signal.GPU_UTIL: _Kind("GPU utilisation", "%", most=100),
    Signal.SM_ACTIVITY: _Kind("SM activity", "%", most=100),
    Signal.SM_OCCUPANCY: _Kind("SM occupancy", "%", most=100),
    Signal.MEMORY_BANDWIDTH: _Kind("Memory bandwidth", "%", most=100),
    Signal.SM_CLOCK: _Kind("SM clock", "MHz"),
    Signal.MEMORY: _Kind("Memory", "GiB", 1, GIB),
    Signal.PCIE_RX: _Kind("PCIe receive", "GB/s", 1, 1e9),
    Signal.TEMPERATURE: _Kind("Temperature", "°C", most=100),
    Signal.POWER: _Kind("Power", "W"),
    Signal.ONLINE_P99: _Kind("Online p99", "ms"),
}


def scales(
    card: Card, thresholds: Mapping[Signal, Threshold], memory_reserve_percent: float | None
) -> list[Scale]:
    """One a signal, in ORDER. Without a policy (reserve None) no limits are shown."""
    shown = [signal for signal in ORDER if signal in thresholds or signal not in _IF_JUDGED]
    return [
        _scale(signal, card, thresholds.get(signal), memory_reserve_percent) for signal in shown
    ]


def _scale(
    signal: Signal, card: Card, threshold: Threshold | None, reserve_percent: float | None
) -> Scale:
    kind, whole = _KINDS[signal], _whole(signal, card)
    busy = evict = None
    if threshold is not None and whole is not None:
        busy, evict = threshold.lower * whole, threshold.upper * whole
    if signal is Signal.MEMORY and evict is not None and whole and reserve_percent is not None:
        evict = min(evict, (100 - reserve_percent) * whole)
    slo = card.slo_p99_ms if signal is Signal.ONLINE_P99 else None
    return Scale(
        signal=signal,
        name=kind.name,
        unit=kind.unit,
        digits=_digits(kind, slo),
        per=kind.per,
        most=kind.most or _longest(signal, card, evict),
        busy_at=busy,
        evict_at=evict,
        slo=slo,
        falling=signal is Signal.SM_CLOCK,
        limit_text=_limit_text(signal, threshold, whole, slo),
    )


def _whole(signal: Signal, card: Card) -> float | None:
    """What one policy unit is, in the shown unit; None where it cannot be told."""
    if signal is Signal.ONLINE_P99:
        return card.slo_p99_ms
    if signal is Signal.MEMORY:
        return card.memory_bytes / GIB / 100 if card.memory_bytes else None
    if signal is Signal.POWER:
        return card.power_limit_w / 100 if card.power_limit_w else None
    if signal is Signal.SM_CLOCK:
        return card.sm_clock_max_mhz / 100 if card.sm_clock_max_mhz else None
    if signal is Signal.PCIE_RX:
        return card.pcie_max_bytes_s / 1e9 / 100 if card.pcie_max_bytes_s else None
    return 1.0


def _longest(signal: Signal, card: Card, evict_at: float | None) -> float | None:
    """The bar's right end for signals whose scale is the card's or the service's own."""
    if signal is Signal.ONLINE_P99:
        return evict_at * 1.25 if evict_at else (card.slo_p99_ms or 0) * 2 or None
    whole = _whole(signal, card)
    return whole * 100 if whole else None


def _digits(kind: _Kind, slo_p99_ms: float | None) -> int:
    return 1 if slo_p99_ms is not None and slo_p99_ms < 20 else kind.digits


def _limit_text(
    signal: Signal, threshold: Threshold | None, whole: float | None, slo: float | None
) -> str:
    if signal is Signal.ONLINE_P99 and slo is None:
        return "no SLO here"
    if threshold is not None and whole is None:
        return f"evict at {threshold.upper:g}{figures.NBSP}%"
    return ""
