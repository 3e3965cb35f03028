"""GPM, the counters that NVML reads itself on Hopper and newer: SM activity, occupancy, DRAM
bandwidth, PCIe receive. Each is an average over the time between two looks."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Any, Final

from agents.collectors.base import NOTHING, Finding, Findings, Unavailable
from agents.collectors.gauges import Call, function
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
_PLACES: Final = tuple((POSITIONS[signal], scale) for _, signal, scale in METRICS)
# Counters advance no faster; two samples closer than this tell nothing.
LEAST_S: Final = 0.1
# An average over longer than this is no local sample.
MOST_S: Final = 2.0
VERSION: Final = 1
# Where the first metric lies in nvmlGpmMetricsGet_t; in nvmlGpmMetric_t the code and the value
# stand between the number and three names.
_FIRST: Final = 24
_TOLD: Final = Struct("=" + "4x I d 24x" * len(METRICS))
NO_FINDING: Final = Finding()


class _Turn:
    """A sample of one card, and the request that compares it with the other before it."""

    def __init__(self, library: Any, handle: Any, sample: Any, before: Any) -> None:
        self.sample = sample
        self._library, self._request = library, library.c_nvmlGpmMetricsGet_t()
        self._request.version, self._request.numMetrics = VERSION, len(METRICS)
        self._request.sample1, self._request.sample2 = before, sample
        self._metrics = tuple(self._request.metrics[place] for place in range(len(METRICS)))
        for metric, (number, _, _) in zip(self._metrics, METRICS, strict=True):
            metric.metricId = number
        take = function(library, "nvmlGpmSampleGet")
        self._take = None if take is None else partial(take, handle, sample)
        self._compare = _compare(library, self._request)

    def is_taken(self) -> bool:
        """Takes the sample. False where that takes nvidia-ml-py, or fails."""
        return self._take is not None and self._take() == 0

    def told(self) -> Sequence[Any]:
        """Of each metric the code of an error, or 0, and the value. Raises NVMLError."""
        if self._compare is not None and self._compare() == 0:
            return _TOLD.unpack_from(self._request, _FIRST)
        self._library.nvmlGpmMetricsGet(self._request)
        return [each for one in self._metrics for each in (one.nvmlReturn, one.value)]


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
    is_idle = False

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
                    self._counters[device.card.uuid] = _prepared(library, device.handle)
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
        if not (turn.is_taken() or self._take(device, turn)):
            return Finding(missing=_refusal(device))
        counters.next, counters.after, counters.at = counters.after, turn, now
        if passed_s is None or not LEAST_S <= passed_s <= MOST_S:
            return NO_FINDING
        counters.last = Finding(self._average(turn))
        return counters.last

    def _take(self, device: Device, turn: _Turn) -> bool:
        """As `_Turn.is_taken`, explained."""
        return self._nvml.ask(device, "nvmlGpmSampleGet", turn.sample) is not None

    def _average(self, turn: _Turn) -> Values:
        try:
            told = turn.told()
        except self._nvml.library.NVMLError:
            return NOTHING
        values = list(NOTHING)
        for at, (place, scale) in enumerate(_PLACES):
            if told[2 * at] == 0:
                values[place] = told[2 * at + 1] * scale
        return tuple(values)


def _prepared(library: Any, handle: Any) -> _Counters:
    """Raises NVMLError."""
    one, other = library.nvmlGpmSampleAlloc(), library.nvmlGpmSampleAlloc()
    return _Counters(_Turn(library, handle, one, other), _Turn(library, handle, other, one))


def _compare(library: Any, request: Any) -> Call | None:
    """See `gauges`."""
    compare = function(library, "nvmlGpmMetricsGet")
    return None if compare is None else partial(compare, ctypes.byref(request))


def _refusal(device: Device) -> dict[Signal, str]:
    words = device.refused.get("nvmlGpmSampleGet")
    return {} if words is None else dict.fromkeys((signal for _, signal, _ in METRICS), words)
