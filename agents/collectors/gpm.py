"""GPM, the counters that NVML reads itself on Hopper and newer: SM activity, occupancy, DRAM
bandwidth, PCIe receive. Each is an average over the time between two looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from agents.collectors import numbers
from agents.collectors.base import Finding, Findings, Unavailable, values_of
from agents.collectors.nvml import Device, Nvml, Trouble
from agents.wire.names import Signal

MIB: Final = float(1 << 20)
# NVML's number of each metric, and what makes its unit ours.
METRICS: Final = (
    (2, Signal.SM_ACTIVITY, 1.0),
    (3, Signal.SM_OCCUPANCY, 1.0),
    (10, Signal.MEMORY_BANDWIDTH, 1.0),
    (21, Signal.PCIE_RX, MIB),
)
# Counters advance no faster; two samples closer than this tell nothing.
LEAST_S: Final = 0.1
# An average over longer than this is no local sample.
MOST_S: Final = 2.0
VERSION: Final = 1


@dataclass(slots=True)
class _Counters:
    """Two samples of one card, used in turn, and the request that compares them. The request is
    large, so it is kept with the places in it that hold our metrics."""

    older: Any
    newer: Any
    request: Any
    metrics: tuple[Any, ...]
    at: float | None = None


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
        self._last: dict[str, Finding] = {}

    def look(self, now: float) -> Findings:
        devices = self._nvml.devices()
        if devices is not self._devices:
            self._begin(devices)
        found = {}
        for device in devices:
            if device.card.uuid in self._counters:
                found[device.card.uuid] = self._finding(device, now)
        return found

    def close(self) -> None: ...

    def _begin(self, devices: tuple[Device, ...]) -> None:
        library = self._nvml.library
        self._devices, self._counters, self._last = devices, {}, {}
        try:
            for device in devices:
                if device.card.gpm and device.card.uuid not in self._counters:
                    self._counters[device.card.uuid] = _prepared(library)
        except library.NVMLError as error:
            raise Unavailable(f"NVML gives no GPM sample: {error}") from error

    def _finding(self, device: Device, now: float) -> Finding:
        counters = self._counters[device.card.uuid]
        try:
            return self._compared(device, counters, now)
        except Trouble as trouble:
            return Finding(trouble=str(trouble))

    def _compared(self, device: Device, counters: _Counters, now: float) -> Finding:
        uuid = device.card.uuid
        passed_s = None if counters.at is None else now - counters.at
        if passed_s is not None and 0.0 <= passed_s < LEAST_S:
            return self._last.get(uuid, Finding())
        taken = self._nvml.ask(device, "nvmlGpmSampleGet", counters.older)
        if taken is None:
            return Finding(missing=_refusal(device))
        counters.older, counters.newer, counters.at = counters.newer, counters.older, now
        if passed_s is None or not LEAST_S <= passed_s <= MOST_S:
            return Finding()
        self._last[uuid] = Finding(values_of(self._metrics(counters)))
        return self._last[uuid]

    def _metrics(self, counters: _Counters) -> dict[Signal, float | None]:
        request = counters.request
        request.sample1, request.sample2 = counters.older, counters.newer
        try:
            self._nvml.library.nvmlGpmMetricsGet(request)
        except self._nvml.library.NVMLError:
            return {}
        return {
            signal: _value(metric, signal, scale)
            for metric, (_, signal, scale) in zip(counters.metrics, METRICS, strict=True)
        }


def _prepared(library: Any) -> _Counters:
    """Raises NVMLError."""
    request = library.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = VERSION, len(METRICS)
    metrics = tuple(request.metrics[place] for place in range(len(METRICS)))
    for metric, (number, _, _) in zip(metrics, METRICS, strict=True):
        metric.metricId = number
    return _Counters(library.nvmlGpmSampleAlloc(), library.nvmlGpmSampleAlloc(), request, metrics)


def _value(metric: Any, signal: Signal, scale: float) -> float | None:
    return numbers.read(signal, metric.value, scale) if metric.nvmlReturn == 0 else None


def _refusal(device: Device) -> dict[Signal, str]:
    words = device.refused.get("nvmlGpmSampleGet")
    return {} if words is None else dict.fromkeys((signal for _, signal, _ in METRICS), words)
