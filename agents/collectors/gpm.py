"""GPM, the counters that NVML reads itself on Hopper and newer: SM activity, occupancy, DRAM
bandwidth, PCIe receive. Each is an average over the time between two looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from agents.collectors import numbers
from agents.collectors.base import NOTHING, Finding, Findings, Unavailable
from agents.collectors.nvml import Device, Nvml, Trouble
from agents.sysmonitor.signals import POSITIONS, Values
from agents.wire.names import Signal

MIB: Final = float(1 << 20)
# NVML's number of each metric, and what makes its unit ours.
METRICS: Final = (
    (2, Signal.SM_ACTIVITY, 1.0),
    (3, Signal.SM_OCCUPANCY, 1.0),
    (10, Signal.MEMORY_BANDWIDTH, 1.0),
    (21, Signal.PCIE_RX, MIB),
)
_PLACES: Final = tuple((POSITIONS[signal], signal, scale) for _, signal, scale in METRICS)
# Counters advance no faster; two samples closer than this tell nothing.
LEAST_S: Final = 0.1
# An average over longer than this is no local sample.
MOST_S: Final = 2.0
VERSION: Final = 1
NO_FINDING: Final = Finding()


@dataclass(frozen=True, slots=True)
class _Turn:
    """A sample, the request that compares it with the other before it, and the places in that
    request that hold our metrics."""

    sample: Any
    request: Any
    metrics: tuple[Any, ...]


@dataclass(slots=True)
class _Counters:
    """Two samples of one card, taken in turn. `last` is what the last two told."""

    next: _Turn
    after: _Turn
    at: float | None = None
    last: Finding = NO_FINDING


class GpmSource:
    """One look takes a sample of each card and compares it with the one before."""

    name = "gpm"
    period_s = 0.0
    max_age_s = 1.0
    prompt = True

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._devices: tuple[Device, ...] = ()
        self._counters: dict[str, _Counters] = {}

    def look(self, now: float) -> Findings:
        devices = self._nvml.devices()
        if devices is not self._devices:
            self._begin(devices)
        found = {}
        for device in devices:
            counters = self._counters.get(device.card.uuid)
            if counters is not None:
                found[device.card.uuid] = self._finding(device, counters, now)
        return found

    def close(self) -> None: ...

    def _begin(self, devices: tuple[Device, ...]) -> None:
        library = self._nvml.library
        self._devices, self._counters = devices, {}
        try:
            for device in devices:
                if device.card.gpm and device.card.uuid not in self._counters:
                    self._counters[device.card.uuid] = _prepared(library)
        except library.NVMLError as error:
            raise Unavailable(f"NVML gives no GPM sample: {error}") from error

    def _finding(self, device: Device, counters: _Counters, now: float) -> Finding:
        try:
            return self._compared(device, counters, now)
        except Trouble as trouble:
            return Finding(trouble=str(trouble))

    def _compared(self, device: Device, counters: _Counters, now: float) -> Finding:
        passed_s = None if counters.at is None else now - counters.at
        if passed_s is not None and 0.0 <= passed_s < LEAST_S:
            return counters.last
        turn = counters.next
        if self._nvml.ask(device, "nvmlGpmSampleGet", turn.sample) is None:
            return Finding(missing=_refusal(device))
        counters.next, counters.after, counters.at = counters.after, turn, now
        if passed_s is None or not LEAST_S <= passed_s <= MOST_S:
            return NO_FINDING
        counters.last = Finding(self._average(turn))
        return counters.last

    def _average(self, turn: _Turn) -> Values:
        try:
            self._nvml.library.nvmlGpmMetricsGet(turn.request)
        except self._nvml.library.NVMLError:
            return NOTHING
        values = list(NOTHING)
        for metric, (place, signal, scale) in zip(turn.metrics, _PLACES, strict=True):
            if metric.nvmlReturn == 0:
                values[place] = numbers.read(signal, metric.value, scale)
        return tuple(values)


def _prepared(library: Any) -> _Counters:
    """Raises NVMLError."""
    one, other = library.nvmlGpmSampleAlloc(), library.nvmlGpmSampleAlloc()
    return _Counters(_turn(library, one, before=other), _turn(library, other, before=one))


def _turn(library: Any, sample: Any, before: Any) -> _Turn:
    request = library.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = VERSION, len(METRICS)
    request.sample1, request.sample2 = before, sample
    metrics = tuple(request.metrics[place] for place in range(len(METRICS)))
    for metric, (number, _, _) in zip(metrics, METRICS, strict=True):
        metric.metricId = number
    return _Turn(sample, request, metrics)


def _refusal(device: Device) -> dict[Signal, str]:
    words = device.refused.get("nvmlGpmSampleGet")
    return {} if words is None else dict.fromkeys((signal for _, signal, _ in METRICS), words)
