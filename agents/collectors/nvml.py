"""NVML, through nvidia-ml-py: what cards there are, their cheap signals, their processes, XIDs.

The one door to the library. A call that this driver does not have is replaced by its older form;
one that a card does not support is not made again. All sources here may be used from threads.
"""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from agents.collectors import numbers
from agents.collectors.attribution import Client
from agents.collectors.base import (
    NO_REASONS,
    NOTHING,
    SET_BY_HAND,
    Finding,
    Findings,
    Unavailable,
    values_of,
)
from agents.collectors.card import Card
from agents.collectors.gauges import (
    GPU_SENSOR,
    MEMORY_V2,
    SM_CLOCK,
    Call,
    Entry,
    Gauges,
    Listing,
    function,
    gauges,
)
from agents.sysmonitor.signals import POSITIONS, xid_gravity
from agents.wire.names import Signal

log = logging.getLogger(__name__)

# NVML's codes, by what they mean for us.
NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, TIMEOUT = 3, 4, 13, 10
ARGUMENT_VERSION_MISMATCH, DEPRECATED = 25, 26
# This call will never work on this card with this driver.
FOREVER: Final = frozenset({NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, DEPRECATED})
# Another form of the call may work.
OLDER_FORM: Final = frozenset(
    {2, NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH, DEPRECATED}
)
# A card, or a driver, that knows nothing of what was asked for: no MIG, no graphics.
ABSENT: Final = frozenset({NOT_SUPPORTED, FUNCTION_NOT_FOUND})
# What a part of a card is called, where a container is shown no more of it.
MIG_DEVICE: Final = "MIG-"
# The library must be opened anew: uninitialised, driver not loaded, driver and library differ.
BROKEN: Final = frozenset({1, 9, 18})
TROUBLE: Final = {
    15: "the GPU is lost: it has fallen off the bus or cannot be reached",
    16: "the GPU requires a reset",
}
ADVICE: Final = {
    9: "the NVIDIA driver is not loaded: load it, or run this agent on a node with a GPU",
    12: "libnvidia-ml.so.1 is not found: install the NVIDIA driver on this node",
    18: "the NVML library and the loaded driver differ in version: reload the driver or reboot",
    4: "this user may not use NVML: give the agent access to /dev/nvidiactl",
}

# A library that would not open is not tried again for so long.
RETRY_S: Final = 5.0
XID_EVENT: Final = 0x8
MOST_EVENTS: Final = 64
# Either half of a compute capability.
MOST_CAPABILITY: Final = 99
# The reasons of a low clock need not be as fresh as a signal, unless it has fallen since.
THROTTLE_S: Final = 1.0
PCIE_RX: Final = 1
KIB: Final = 1024.0
COMPUTE_MODES: Final = ("default", "exclusive_thread", "prohibited", "exclusive_process")
THROTTLES: Final = (
    (0x4, "power cap"),
    (0x8, "hardware slowdown"),
    (0x10, "sync boost"),
    (0x20, "software thermal slowdown"),
    (0x40, "hardware thermal slowdown"),
    (0x80, "power brake"),
    (0x2, SET_BY_HAND),
)
TEMPERATURE_FORMS: Final = (
    ("nvmlDeviceGetTemperatureV", GPU_SENSOR),
    ("nvmlDeviceGetTemperature", GPU_SENSOR),
)
THROTTLE_FORMS: Final = (
    ("nvmlDeviceGetCurrentClocksEventReasons",),
    ("nvmlDeviceGetCurrentClocksThrottleReasons",),
)
# No card has more memory than this.
MOST_BYTES: Final = 1 << 46
MEMORY_FORMS: Final = (
    ("nvmlDeviceGetMemoryInfo", MEMORY_V2),
    ("nvmlDeviceGetMemoryInfo",),
)
LIST_FORMS: Final = {
    kind: ((f"{call}_v3",), (f"{call}_v2",))
    for kind, call in (
        ("compute", "nvmlDeviceGetComputeRunningProcesses"),
        ("graphics", "nvmlDeviceGetGraphicsRunningProcesses"),
        ("mps", "nvmlDeviceGetMPSComputeRunningProcesses"),
    )
}
_UTIL = POSITIONS[Signal.GPU_UTIL]
_MEMORY = POSITIONS[Signal.MEMORY]
_CLOCK = POSITIONS[Signal.SM_CLOCK]
_TEMPERATURE = POSITIONS[Signal.TEMPERATURE]
_POWER = POSITIONS[Signal.POWER]
_XID = POSITIONS[Signal.XID]
# No card has more processes than this; a longer list is garbage.
MOST_PROCESSES: Final = 4_096


@dataclass(slots=True)
class Device:
    """A card and the library's handle of it; `refused` are the calls that it does not answer, and
    why, `absent` those of them that it does not know."""

    card: Card
    handle: Any
    refused: dict[str, str] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    throttled: tuple[str, ...] | None = None
    throttled_at: float | None = None
    throttled_mhz: float | None = None
    gauges: Gauges | None = None
    listings: dict[str, Listing] = field(default_factory=dict)


class Trouble(Exception):
    """A card that only a person can bring back."""


class Nvml:
    """The library, opened when first needed and anew after it broke."""

    def __init__(self, library: Any = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`library` is the module pynvml, or a stand-in. Raises Unavailable without it."""
        self._library = _pynvml() if library is None else library
        self._functions = _Functions(self._library)
        self._clock = clock
        # Held again by a call that finds the library broken while it is being opened.
        self._lock = threading.RLock()
        self._failure: tuple[float, str] | None = None
        self._devices: tuple[Device, ...] = ()
        self._forms: dict[str, int] = {}
        self._open = False

    @property
    def library(self) -> Any:
        return self._library

    def devices(self) -> tuple[Device, ...]:
        """Raises Unavailable."""
        with self._lock:
            if not self._open:
                self._open_anew()
            return self._devices

    def cards(self) -> tuple[Card, ...]:
        """Raises Unavailable."""
        return tuple(device.card for device in self.devices())

    def close(self) -> None:
        with self._lock:
            self._close()

    def ask(self, device: Device, name: str, *arguments: Any) -> Any:
        """The answer of the card, None where it has none; `device.refused` then says why.

        Raises Trouble for a card that is lost, Unavailable when the library itself broke.
        """
        if name in device.refused:
            return None
        try:
            return self._functions[name](device.handle, *arguments)
        except self._library.NVMLError as error:
            self._refuse(device, name, _code(error), str(error))
            return None

    def first_of(self, device: Device, *forms: tuple[Any, ...]) -> Any:
        """As `ask`, with older forms of the call; the form that works is remembered."""
        name = forms[0][0]
        if name in device.refused:
            return None
        position = self._forms.get(name, 0)
        call, *arguments = forms[position]
        try:
            return self._functions[call](device.handle, *arguments)
        except self._library.NVMLError as error:
            code = _code(error)
            if code in OLDER_FORM and position + 1 < len(forms):
                self._forms[name] = position + 1
                return self.first_of(device, *forms)
            self._refuse(device, name, code, str(error))
            return None

    def form_of(self, name: str) -> int:
        """Which form of the call works, from 0 for the newest."""
        return self._forms.get(name, 0)

    def _refuse(self, device: Device, name: str, code: int, words: str) -> None:
        if code in TROUBLE:
            raise Trouble(TROUBLE[code])
        if code in BROKEN:
            self.close()
            raise Unavailable(ADVICE.get(code, f"NVML: {words}"))
        if code in FOREVER:
            device.refused[name] = words
        if code in ABSENT:
            device.absent.add(name)

    def _open_anew(self) -> None:
        if self._failure is not None and self._clock() - self._failure[0] < RETRY_S:
            raise Unavailable(self._failure[1])
        try:
            self._library.nvmlInit()
            self._open = True
            self._forms = {}
            count = self._library.nvmlDeviceGetCount()
            driver = _text(self._library.nvmlSystemGetDriverVersion())
        except self._library.NVMLError as error:
            self._close()
            words = ADVICE.get(_code(error), f"NVML: {error}")
            self._failure = self._clock(), words
            raise Unavailable(words) from error
        self._failure = None
        self._devices = tuple(self._found(count, driver))

    def _found(self, count: int, driver: str) -> Iterator[Device]:
        """The cards that can be addressed; one that is lost is left out of a new inventory."""
        for index in range(count):
            try:
                handle = self._library.nvmlDeviceGetHandleByIndex(index)
                device = Device(Card(index, "", "", 0, driver), handle)
                device.card = self._described(device, index, driver)
            except (self._library.NVMLError, Trouble) as error:
                log.warning("GPU %d cannot be described: %s", index, error)
                continue
            yield device

    def _described(self, device: Device, index: int, driver: str) -> Card:
        uuid = _text(self.ask(device, "nvmlDeviceGetUUID"))
        memory = memory_bytes(self, device)
        pci = self.ask(device, "nvmlDeviceGetPciInfo")
        mode = self.ask(device, "nvmlDeviceGetComputeMode")
        return Card(
            index,
            uuid,
            _text(self.ask(device, "nvmlDeviceGetName")),
            0 if memory is None else memory[1],
            driver,
            "" if pci is None else _text(pci.busId),
            uuid.startswith(MIG_DEVICE) or self._mig(device),
            COMPUTE_MODES[mode] if mode in range(len(COMPUTE_MODES)) else "",
            self._limit(Signal.SM_CLOCK, device, "nvmlDeviceGetMaxClockInfo", SM_CLOCK),
            self._power_limit(device),
            _whole(self.ask(device, "nvmlDeviceGetMaxPcieLinkGeneration")),
            _whole(
                self.first_of(
                    device,
                    ("nvmlDeviceGetCurrPcieLinkWidth",),
                    ("nvmlDeviceGetMaxPcieLinkWidth",),
                )
            ),
            _has_gpm(self, device),
            _capability(self.ask(device, "nvmlDeviceGetCudaComputeCapability")),
        )

    def _mig(self, device: Device) -> bool | None:
        """None when it cannot be told: a card that knows no MIG says so."""
        try:
            current, _ = self._functions["nvmlDeviceGetMigMode"](device.handle)
        except self._library.NVMLError as error:
            code = _code(error)
            self._refuse(device, "nvmlDeviceGetMigMode", code, str(error))
            return False if code in ABSENT else None
        return bool(current == 1) if current in (0, 1) else None

    def _limit(self, signal: Signal, device: Device, name: str, *arguments: Any) -> float | None:
        value = numbers.read(signal, self.ask(device, name, *arguments))
        return value or None

    def _power_limit(self, device: Device) -> float | None:
        milliwatts = self.first_of(
            device, ("nvmlDeviceGetEnforcedPowerLimit",), ("nvmlDeviceGetPowerManagementLimit",)
        )
        return numbers.read(Signal.POWER, milliwatts, 1e-3) or None

    def _close(self) -> None:
        if self._open:
            try:
                self._library.nvmlShutdown()
            except self._library.NVMLError as error:
                log.debug("NVML would not shut down: %s", error)
        self._open, self._devices = False, ()


class _Functions(dict[str, Callable[..., Any]]):
    """The library's, by name. One that it lacks fails as the driver says that it lacks one."""

    def __init__(self, library: Any) -> None:
        super().__init__()
        self._library = library

    def __missing__(self, name: str) -> Callable[..., Any]:
        self[name] = found = getattr(self._library, name, self._lacking)
        return found

    def _lacking(self, *_: Any) -> Any:
        raise self._library.NVMLError(FUNCTION_NOT_FOUND)


class SignalSource:
    """The cheap signals of all cards, and the XIDs since the last look."""

    name = "nvml"
    period_s = 0.0
    max_age_s = 1.0
    prompt = True
    is_idle = False

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._xids: _XidEvents | None = None

    def look(self, now: float) -> Findings:
        devices = self._nvml.devices()
        if self._xids is None or self._xids.devices is not devices:
            self._xids = _XidEvents(self._nvml.library, devices)
        codes = self._xids.take()
        return {
            device.card.uuid: self._finding(device, codes.get(device.card.uuid), now)
            for device in devices
        }

    def close(self) -> None:
        self._nvml.close()

    def _finding(self, device: Device, xid: float | None, now: float) -> Finding:
        try:
            values = self._read(device) if device.gauges is not None else None
            if values is None:
                values = self._asked(device)
                device.gauges = self._gauges(device)
            values[_XID] = xid
            if _is_due(device, values[_CLOCK], now):
                self._ask_why_low(device, values[_CLOCK], now)
        except Trouble as trouble:
            return Finding(values_of({Signal.XID: xid}), trouble=str(trouble))
        return Finding(tuple(values), _reasons(device), device.throttled)

    def _read(self, device: Device) -> list[float | None] | None:
        """Not held against any bounds yet. None where a call fails."""
        raw = None if device.gauges is None else device.gauges.read()
        if raw is None:
            device.gauges = None
            return None
        values = list(NOTHING)
        utilisation, total, reserved, used, temperature, clock, milliwatts = raw
        values[_UTIL], values[_CLOCK] = float(utilisation), float(clock)
        values[_TEMPERATURE], values[_POWER] = float(temperature), milliwatts * 1e-3
        if used <= total <= MOST_BYTES and reserved <= total:
            values[_MEMORY] = float(min(total, used + reserved))
        return values

    def _gauges(self, device: Device) -> Gauges | None:
        """For all that the card has not refused. Only for the newest form of the memory's call,
        which tells what the driver keeps for itself."""
        if self._nvml.form_of(MEMORY_FORMS[0][0]):
            return None
        temperature = TEMPERATURE_FORMS[self._nvml.form_of(TEMPERATURE_FORMS[0][0])][0]
        names = {call: call for call in _EXPLAINED_BY.values()} | {
            "nvmlDeviceGetMemoryInfo": "nvmlDeviceGetMemoryInfo_v2",
            "nvmlDeviceGetTemperatureV": str(temperature),
        }
        made = [name for call, name in names.items() if call not in device.refused]
        return gauges(self._nvml.library, device.handle, made)

    def _asked(self, device: Device) -> list[float | None]:
        nvml = self._nvml
        utilisation = nvml.ask(device, "nvmlDeviceGetUtilizationRates")
        memory = memory_bytes(nvml, device)
        values = list(NOTHING)
        values[_UTIL] = numbers.read(Signal.GPU_UTIL, getattr(utilisation, "gpu", None))
        values[_MEMORY] = None if memory is None else float(memory[0])
        values[_CLOCK] = numbers.read(
            Signal.SM_CLOCK, nvml.ask(device, "nvmlDeviceGetClockInfo", SM_CLOCK)
        )
        values[_TEMPERATURE] = numbers.read(
            Signal.TEMPERATURE, nvml.first_of(device, *TEMPERATURE_FORMS)
        )
        values[_POWER] = numbers.read(
            Signal.POWER, nvml.ask(device, "nvmlDeviceGetPowerUsage"), 1e-3
        )
        return values

    def _ask_why_low(self, device: Device, clock_mhz: float | None, now: float) -> None:
        device.throttled_at, device.throttled_mhz = now, clock_mhz
        device.throttled = throttled(self._nvml.first_of(device, *THROTTLE_FORMS))


def _is_due(device: Device, clock_mhz: float | None, now: float) -> bool:
    """Whether to ask why the clock is low: once in a while, and at once when it has fallen."""
    if device.throttled_at is None or not 0.0 <= now - device.throttled_at < THROTTLE_S:
        return True
    before_mhz = device.throttled_mhz
    return clock_mhz is not None and (before_mhz is None or clock_mhz < before_mhz)


# The call whose refusal explains a missing signal.
_EXPLAINED_BY: Final = {
    Signal.GPU_UTIL: "nvmlDeviceGetUtilizationRates",
    Signal.MEMORY: "nvmlDeviceGetMemoryInfo",
    Signal.SM_CLOCK: "nvmlDeviceGetClockInfo",
    Signal.TEMPERATURE: "nvmlDeviceGetTemperatureV",
    Signal.POWER: "nvmlDeviceGetPowerUsage",
}


def _reasons(device: Device) -> Mapping[Signal, str]:
    refused = device.refused
    if not refused:
        return NO_REASONS
    return {signal: refused[call] for signal, call in _EXPLAINED_BY.items() if call in refused}


def throttled(mask: object) -> tuple[str, ...] | None:
    """Why the clock is lowered, in words; empty when it is not, or only because the card idles."""
    if not isinstance(mask, int) or numbers.is_blank(mask):
        return None
    return tuple(words for bit, words in THROTTLES if mask & bit)


class PcieSource:
    """PCIe receive of cards without GPM. The driver measures for 20 ms while the call waits, so
    it is a source of its own."""

    name = "nvml-pcie"
    period_s = 1.0
    max_age_s = 3.0
    prompt = False
    is_idle = False

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml

    def look(self, now: float) -> Findings:
        devices = (device for device in self._nvml.devices() if not device.card.gpm)
        return {device.card.uuid: self._finding(device) for device in devices}

    def close(self) -> None: ...

    def _finding(self, device: Device) -> Finding:
        try:
            raw = self._nvml.ask(device, "nvmlDeviceGetPcieThroughput", PCIE_RX)
        except Trouble as trouble:
            return Finding(trouble=str(trouble))
        return Finding(values_of({Signal.PCIE_RX: numbers.read(Signal.PCIE_RX, raw, KIB)}))


class _XidEvents:
    """XIDs as they come. 0 means that the driver reported none, None that it cannot report any."""

    def __init__(self, library: Any, devices: tuple[Device, ...]) -> None:
        self.devices = devices
        self._library = library
        self._by_handle: dict[object, str] = {}
        self._set = self._event = None
        self._quiet: Mapping[str, float] = {}
        self._wait: Call | None = None
        try:
            self._set = library.nvmlEventSetCreate()
        except library.NVMLError as error:
            log.warning("no XID will be seen: NVML gives no event set (%s)", error)
            return
        for device in devices:
            self._register(device)
        self._quiet = dict.fromkeys(self._by_handle.values(), 0.0)
        if (wait := function(library, "nvmlEventSetWait_v2")) is not None:
            self._event = library.c_nvmlEventData_t()
            self._wait = partial(wait, self._set, ctypes.byref(self._event), 0)

    def take(self) -> Mapping[str, float]:
        """The gravest code of each card since the last call, by UUID."""
        event = self._next() if self._by_handle else None
        if event is None:
            return self._quiet
        codes = dict(self._quiet)
        for _ in range(MOST_EVENTS):
            uuid = self._by_handle.get(_address(event.device))
            if uuid is not None and event.eventType == XID_EVENT:
                codes[uuid] = max(codes[uuid], float(event.eventData), key=_gravity)
            if (event := self._next()) is None:
                break
        return codes

    def _register(self, device: Device) -> None:
        library = self._library
        try:
            library.nvmlDeviceRegisterEvents(device.handle, XID_EVENT, self._set)
        except library.NVMLError as error:
            log.warning("no XID of %s will be seen: %s", device.card.uuid, error)
            return
        self._by_handle[_address(device.handle)] = device.card.uuid

    def _next(self) -> Any:
        """None when none waits."""
        code = -1 if self._wait is None else self._wait()
        if code in (0, TIMEOUT):
            return None if code else self._event
        try:
            return self._library.nvmlEventSetWait_v2(self._set, 0)
        except self._library.NVMLError as error:
            if _code(error) != TIMEOUT:
                log.debug("NVML's events cannot be read: %s", error)
            return None


def _gravity(code: float) -> tuple[int, float]:
    return xid_gravity(code), code


def clients(nvml: Nvml, device: Device) -> tuple[Client, ...] | None:
    """The processes on the card: compute, graphics, clients of MPS; None when nobody can tell.

    Raises Trouble, Unavailable.
    """
    lists: dict[str, Sequence[Entry] | None] = {}
    for kind, forms in LIST_FORMS.items():
        lists[kind] = found = _listed(nvml, device, forms)
        # A card may know no graphics and no MPS, and says so; a list that failed hides clients.
        is_absent = kind != "compute" and forms[0][0] in device.absent
        if (found is None and not is_absent) or len(found or ()) > MOST_PROCESSES:
            return None
    return merged(lists, device.card.memory_bytes)


def _listed(nvml: Nvml, device: Device, forms: tuple[Any, ...]) -> Sequence[Entry] | None:
    """Straight where that has gone well before; see `gauges`."""
    name = str(forms[0][0])
    listing = device.listings.get(name)
    if listing is not None and (entries := listing.read()) is not None:
        return entries
    device.listings.pop(name, None)
    told = nvml.first_of(device, *forms)
    if told is None:
        return None
    call = None if nvml.form_of(name) else function(nvml.library, name)
    if call is not None:
        device.listings[name] = Listing(call, device.handle)
    return [(int(one.pid), one.usedGpuMemory) for one in told]


def merged(lists: Mapping[str, Sequence[Entry] | None], memory_bytes: int) -> tuple[Client, ...]:
    """One entry for each pid, however many lists hold it. Its memory is the most that one says."""
    found: dict[int, Client] = {}
    for kind, entries in lists.items():
        for pid, raw in entries or ():
            memory = numbers.size(raw, memory_bytes)
            one = Client(pid, memory, kind == "mps", kind == "graphics")
            found[pid] = _both(found[pid], one) if pid in found else one
    return tuple(found.values())


def _both(one: Client, other: Client) -> Client:
    known = [each for each in (one.memory_bytes, other.memory_bytes) if each is not None]
    return Client(
        one.pid, max(known, default=None), one.mps or other.mps, one.graphics or other.graphics
    )


def memory_bytes(nvml: Nvml, device: Device) -> tuple[int, int] | None:
    """Used and total bytes. What the driver keeps for itself counts as used: nobody else can
    have it. Version 2 tells it apart, version 1 has it in `used`."""
    told: Any = nvml.first_of(device, *MEMORY_FORMS)
    if told is None:
        return None
    total = numbers.size(told.total, MOST_BYTES)
    if not total:
        return None
    used = numbers.size(told.used, total)
    reserved = numbers.size(getattr(told, "reserved", 0), total)
    return None if used is None or reserved is None else (min(total, used + reserved), total)


def _has_gpm(nvml: Nvml, device: Device) -> bool:
    support = nvml.ask(device, "nvmlGpmQueryDeviceSupport")
    return support is not None and support.isSupportedDevice == 1


def _capability(told: Any) -> tuple[int, int] | None:
    major, minor = (numbers.size(part, MOST_CAPABILITY) for part in told or (None, None))
    return None if major is None or minor is None else (major, minor)


def _pynvml() -> Any:
    try:
        import pynvml
    except ImportError as error:
        raise Unavailable(f"{error}: install nvidia-ml-py to read NVIDIA GPUs") from error
    return pynvml


def _code(error: Exception) -> int:
    return int(getattr(error, "value", 999))


def _text(raw: object) -> str:
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw or "")
    return text.replace("\0", "").strip()[:128]


def _whole(raw: object) -> int | None:
    value = numbers.number(raw)
    return None if value is None or not 1 <= value <= 64 else int(value)


def _address(handle: Any) -> object:
    """What tells handles apart: they are pointers, each in a new object."""
    try:
        return ctypes.cast(handle, ctypes.c_void_p).value
    except (ctypes.ArgumentError, TypeError):
        return id(handle)
