"""DCGM, through its Prometheus exporter or `dcgmi dmon`: what NVML cannot read before Hopper.

Fields go by their number. DCGM 4.6 and 4.7 renamed most of them, and some were given a second
number with another unit (percent → ratio, MiB → bytes, MHz → Hz); every name is read in its own
unit. A page may name a field by its number too, as `DCGM_FI_203`. `DCGM_FI_DEV_XID_ERRORS` is not
read: it repeats the last error for ever, without a time.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from agents.collectors import exposition, numbers
from agents.collectors.base import Finding, Findings, Source, Unavailable, values_of
from agents.collectors.fetch import Page
from agents.sysmonitor.signals import Values
from agents.wire.names import Signal


@dataclass(frozen=True, slots=True)
class Field:
    """One of DCGM's fields, and what makes its unit ours."""

    number: int
    signal: Signal
    scale: float
    names: tuple[str, ...]


MIB: Final = float(1 << 20)
PERCENT: Final = 100.0
FIELDS: Final = (
    Field(1002, Signal.SM_ACTIVITY, PERCENT, ("PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO")),
    Field(1003, Signal.SM_OCCUPANCY, PERCENT, ("PROF_SM_OCCUPANCY", "PROF_SM_OCCUPANCY_RATIO")),
    Field(1005, Signal.MEMORY_BANDWIDTH, PERCENT, ("PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO")),
    Field(1010, Signal.PCIE_RX, 1.0, ("PROF_PCIE_RX_BYTES",)),
    Field(203, Signal.GPU_UTIL, 1.0, ("DEV_GPU_UTIL",)),
    Field(1613, Signal.GPU_UTIL, PERCENT, ("DEV_GPU_UTIL_RATIO",)),
    Field(100, Signal.SM_CLOCK, 1.0, ("DEV_SM_CLOCK",)),
    Field(1603, Signal.SM_CLOCK, 1e-6, ("DEV_SM_CLOCK_HERTZ",)),
    Field(150, Signal.TEMPERATURE, 1.0, ("DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS")),
    Field(155, Signal.POWER, 1.0, ("DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS")),
)
BY_NAME: Final = {
    f"DCGM_FI_{name}": field for field in FIELDS for name in (*field.names, str(field.number))
} | {
    # Of the exporter's first releases.
    "dcgm_fi_prof_sm_active": FIELDS[0],
    "dcgm_fi_prof_sm_occupancy": FIELDS[1],
    "dcgm_fi_prof_dram_active": FIELDS[2],
    "dcgm_gpu_utilization": FIELDS[4],
    "dcgm_sm_clock": FIELDS[6],
    "dcgm_gpu_temp": FIELDS[8],
    "dcgm_power_usage": FIELDS[9],
}
# An exporter repeats what it last measured, by default for 30 s. The counters of a card that works
# never stand still for so long.
STANDSTILL_S: Final = 5.0
_MOVING: Final = (Signal.SM_ACTIVITY, Signal.SM_OCCUPANCY, Signal.MEMORY_BANDWIDTH)


def parse(text: str) -> dict[str, dict[Signal, float]]:
    """What the exporter's page says of each whole GPU, by UUID, in wire units.

    Parts of a card (MIG) are passed over. Of two plausible values of one signal the first holds.
    """
    found: dict[str, dict[Signal, float]] = {}
    for sample in exposition.samples(text, BY_NAME):
        uuid = sample.labels.get("UUID") or sample.labels.get("uuid")
        if not uuid or any(sample.labels.get(label) for label in _OF_A_PART):
            continue
        field = BY_NAME[sample.name]
        value = value_of(field, sample.value)
        if value is not None:
            found.setdefault(uuid, {}).setdefault(field.signal, value)
    return found


def value_of(field: Field, raw: object) -> float | None:
    """In wire units. Some versions gave the percentage of 203 the name of the ratio of 1613: more
    than 1 is no ratio, and so percent."""
    value = numbers.read(field.signal, raw, field.scale)
    if value is None and field.signal is Signal.GPU_UTIL:
        return numbers.read(field.signal, raw)
    return value


_OF_A_PART: Final = ("GPU_I_ID", "gpu_i_id")


class Freshness:
    """Tells a page that is read again from one that was measured again."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[tuple[float | None, ...], float]] = {}

    def is_stale(self, uuid: str, found: Mapping[Signal, float], now: float) -> bool:
        """True when the counters of a card at work have stood still for too long."""
        values = tuple(found.get(signal) for signal in (*_MOVING, Signal.POWER))
        last = self._seen.get(uuid)
        if last is None or last[0] != values:
            self._seen[uuid] = values, now
            return False
        at_work = any(found.get(signal) for signal in _MOVING)
        return at_work and now - last[1] > STANDSTILL_S


class TextPage(Protocol):
    """As `fetch.Page`."""

    def read(self) -> str: ...

    def close(self) -> None: ...


class ExporterSource:
    """dcgm-exporter's page. Its own interval must be 1 s (`-c 1000`) to be of use here."""

    name = "dcgm-exporter"
    period_s = 1.0
    max_age_s = 3.0
    prompt = False
    is_idle = False

    def __init__(self, page: TextPage) -> None:
        self._page = page
        self._freshness = Freshness()

    def look(self, now: float) -> Findings:
        found = parse(self._page.read())
        if not found:
            raise Unavailable(
                "dcgm-exporter shows no field that is of use: enable DCGM_FI_PROF_SM_ACTIVE"
                " in its list of counters"
            )
        return {uuid: self._finding(uuid, values, now) for uuid, values in found.items()}

    def close(self) -> None:
        self._page.close()

    def _finding(self, uuid: str, found: Mapping[Signal, float], now: float) -> Finding:
        if self._freshness.is_stale(uuid, found, now):
            old = "dcgm-exporter repeats an old value: run it with an interval of 1 s (-c 1000)"
            return Finding(missing=dict.fromkeys(found, old))
        return Finding(values_of(found))


def source(where: str) -> Source:
    """The exporter at an address, or "dcgmi". Raises Unavailable for what is neither."""
    return DmonSource() if where == DMON[0] else ExporterSource(Page(where))


# What `dcgmi dmon` is asked for, in this order.
COLUMNS: Final = FIELDS[:4]
DMON: Final = (
    "dcgmi",
    "dmon",
    "-e",
    ",".join(str(field.number) for field in COLUMNS),
    "-d",
    "1000",
)
_ROW: Final = re.compile(r"^\s*(?:GPU\s+)?(\d+)\s+(.*?)\s*$")
_IN_LIST: Final = re.compile(r"^\|\s*(\d+)\s*\||Device UUID:\s*(GPU-[0-9a-fA-F-]+)", re.MULTILINE)


def parse_dmon(text: str) -> dict[int, Values]:
    """The last whole row of each GPU, by DCGM's number of it. What is no row is passed over."""
    rows = {}
    for line in text.splitlines():
        match = _ROW.match(line)
        cells = match[2].split() if match else []
        if match and len(cells) == len(COLUMNS):
            rows[int(match[1])] = values_of(
                {
                    field.signal: value_of(field, cell)
                    for field, cell in zip(COLUMNS, cells, strict=True)
                }
            )
    return rows


def parse_discovery(text: str) -> dict[int, str]:
    """The UUID of each GPU by DCGM's number, from `dcgmi discovery -l`."""
    found: dict[int, str] = {}
    number: int | None = None
    for match in _IN_LIST.finditer(text):
        if match[1] is not None:
            number = int(match[1])
        elif number is not None:
            found.setdefault(number, match[2])
    return found


class DmonSource:
    """`dcgmi dmon`, left running: it prints a row a GPU each second. Ended by closing its output,
    never by a signal."""

    name = "dcgmi"
    period_s = 1.0
    max_age_s = 3.0
    prompt = False
    is_idle = False

    def __init__(self, command: Iterable[str] = DMON) -> None:
        self._command = tuple(command)
        self._dmon: subprocess.Popen[bytes] | None = None
        self._uuids: dict[int, str] = {}
        self._rest = b""

    def look(self, now: float) -> Findings:
        if self._dmon is None:
            self._start()
        rows = parse_dmon(self._printed())
        return {
            self._uuids[number]: Finding(values)
            for number, values in rows.items()
            if number in self._uuids
        }

    def close(self) -> None:
        if self._dmon is not None and self._dmon.stdout is not None:
            self._dmon.stdout.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._dmon.wait(timeout=2.0)
        self._dmon = None

    def _start(self) -> None:
        if shutil.which(self._command[0]) is None:
            raise Unavailable(f"{self._command[0]} is not installed on this node")
        try:
            listed = subprocess.run(
                [self._command[0], "discovery", "-l"],
                capture_output=True,
                timeout=10.0,
                check=False,
            )
            self._uuids = parse_discovery(listed.stdout.decode(errors="replace"))
            self._dmon = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Unavailable(f"{self._command[0]}: {error}") from error

    def _printed(self) -> str:
        """Whole lines that are there by now; waits a little for the first ones."""
        stdout = self._dmon.stdout if self._dmon else None
        if stdout is None:
            return ""
        text = self._rest
        wait_s = 1.5
        while select.select([stdout], [], [], wait_s)[0]:
            chunk = os.read(stdout.fileno(), 64 << 10)
            if not chunk:
                self.close()
                raise Unavailable(f"{self._command[0]} ended: is the host engine running?")
            text, wait_s = text + chunk, 0.0
        whole, _, self._rest = text.rpartition(b"\n")
        return whole.decode(errors="replace")
