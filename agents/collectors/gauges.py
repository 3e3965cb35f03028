"""What is asked of each card on each sample, straight from the library that nvidia-ml-py loaded.

Its wrappers make new objects for each answer and look at them in Python, which costs several times
what the call itself does. So calls that went well through them are then made without them, into
one piece of memory for each card. A call that fails is made again through them, and explained.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from struct import Struct, pack_into
from typing import Any, Final, TypeAlias

# A function of the library with its arguments; it answers 0, or the code of an error.
Call: TypeAlias = Callable[[], int]
# %, bytes (total, reserved, used), °C, MHz, mW. All bits set: not told.
Raw: TypeAlias = tuple[int, int, int, int, int, int, int]

SM_CLOCK, GPU_SENSOR = 1, 0
MEMORY_V2, TEMPERATURE_V1 = 0x02000028, 0x0100000C
# nvmlUtilization_t, nvmlMemory_v2_t, nvmlTemperature_v1_t, then the clock and the power.
_SHAPE: Final = Struct("=I4x 8xQQ8xQ 8xI II")
_UTILISATION, _MEMORY, _TEMPERATURE, _CLOCK, _POWER = 0, 8, 48, 60, 64
# Behind the version and the sensor.
_DEGREES: Final = _TEMPERATURE + 8
# NVML's "not available", where no call has written.
_BLANK: Final = b"\xff" * _SHAPE.size
# The arguments of each call between the card and the place for its answer, and that place.
_CALLS: Final[Mapping[str, tuple[tuple[int, ...], int]]] = {
    "nvmlDeviceGetUtilizationRates": ((), _UTILISATION),
    "nvmlDeviceGetMemoryInfo_v2": ((), _MEMORY),
    "nvmlDeviceGetClockInfo": ((SM_CLOCK,), _CLOCK),
    "nvmlDeviceGetTemperatureV": ((), _TEMPERATURE),
    "nvmlDeviceGetTemperature": ((GPU_SENSOR,), _DEGREES),
    "nvmlDeviceGetPowerUsage": ((), _POWER),
}


# The pid and the bytes of a process; all bits set: not told.
Entry: TypeAlias = tuple[int, int]

MOST_LISTED: Final = 64
# nvmlProcessInfo_t of the third version of these calls: behind the bytes come two numbers of MIG.
_ENTRY: Final = Struct("=I4xQ8x")


def function(library: Any, name: str) -> Callable[..., int] | None:
    """The library's own; None where it lacks it, or where `library`, which is nvidia-ml-py or what
    stands in for it, shows no library."""
    found: Callable[..., int] | None = getattr(getattr(library, "nvmlLib", None), name, None)
    return found


class Gauges:
    """The cheap signals of one card."""

    def __init__(self, calls: Mapping[str, Callable[..., int]], handle: Any) -> None:
        """`calls`: functions of the library by name."""
        self._memory = memory = ctypes.create_string_buffer(_BLANK, _SHAPE.size)
        pack_into("=I", memory, _MEMORY, MEMORY_V2)
        pack_into("=II", memory, _TEMPERATURE, TEMPERATURE_V1, GPU_SENSOR)
        self._calls = [self._call(calls[name], name, handle) for name in calls]

    def read(self) -> Raw | None:
        """None as soon as one call fails."""
        for call in self._calls:
            if call():
                return None
        raw: Any = _SHAPE.unpack_from(self._memory)
        return raw  # type: ignore[no-any-return]

    def _call(self, made: Callable[..., int], name: str, handle: Any) -> Call:
        arguments, place = _CALLS[name]
        return partial(made, handle, *arguments, ctypes.byref(self._memory, place))


class Listing:
    """One of the driver's lists of the processes on a card."""

    def __init__(self, call: Callable[..., int], handle: Any) -> None:
        self._room = ctypes.create_string_buffer(MOST_LISTED * _ENTRY.size)
        self._count = ctypes.c_uint()
        self._call = partial(call, handle, ctypes.byref(self._count), self._room)

    def read(self) -> list[Entry] | None:
        """None when the call fails, as it does where there are more than `MOST_LISTED`."""
        self._count.value = MOST_LISTED
        if self._call():
            return None
        listed = memoryview(self._room)[: self._count.value * _ENTRY.size]
        return list(_ENTRY.iter_unpack(listed))


def gauges(library: Any, handle: Any, names: Iterable[str]) -> Gauges | None:
    """For the calls named, all of which have gone well; None where they cannot be made so."""
    calls = {name: found for name in names if (found := function(library, name)) is not None}
    return Gauges(calls, handle) if calls.keys() == set(names) else None
