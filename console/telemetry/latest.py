"""The last sample of every GPU, and the twelve bytes that a browser is shown of it. Pure (numpy).

A grid has one row a GPU, in ascending order of GPU id. A value is a float in the unit that
`agents.wire.names.UNITS` gives, nan where missing: missing is never 0, from here to the pixel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from agents.wire.names import GPU_STATES, SIGNALS, GpuState, Signal
from agents.wire.packed import EXTRAS

Floats: TypeAlias = npt.NDArray[np.float32]
Times: TypeAlias = npt.NDArray[np.float64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Flags: TypeAlias = npt.NDArray[np.bool_]
Ids: TypeAlias = npt.NDArray[np.uint32]
Rows: TypeAlias = npt.NDArray[np.intp]

COLUMNS: Final[tuple[str, ...]] = (*(signal.value for signal in SIGNALS), *EXTRAS)
COLUMN: Final = {name: index for index, name in enumerate(COLUMNS)}

STALE_S: Final = 5.0
UNREACHABLE_S: Final = 30.0


class Look(IntEnum):
    """How a cell is drawn; five of the six are no point of the colour ramp."""

    OK = 0
    ZERO = 1  # measured, no SM active although a process is there
    IDLE = 2  # no process
    STALE = 3  # the last value is older than STALE_S
    UNREACHABLE = 4  # older than UNREACHABLE_S, never seen, or its node is LOST
    UNSUPPORTED = 5  # fresh but without the signals to judge it, or imported without an agent


class Field(IntEnum):
    """The bytes of a cell. SM_ACTIVITY to POWER in steps of 0.5 (% or °C), P99 in steps of 1 %."""

    LOOK = 0
    STATE = 1  # index in names.GPU_STATES
    SM_ACTIVITY = 2
    GPU_UTIL = 3
    MEMORY = 4  # % of the card
    HEADROOM = 5
    OFFLINE_SHARE = 6  # % of all SMs that offline work keeps active
    TEMPERATURE = 7
    POWER = 8  # % of the limit
    P99 = 9  # % of the SLO
    DUTY = 10
    FLAGS = 11


class Flag(IntEnum):
    """Bits of Field.FLAGS."""

    ONLINE = 1  # an online process is there
    OFFLINE = 2  # an offline guest is there
    ENFORCE = 4  # sharing is enforced here
    HARDWARE = 8  # DISABLED, and not by a person
    DEGRADED = 16  # a signal that most GPUs report is missing


MISSING: Final = 255
_MOST: Final = 254
# Signals whose absence marks a GPU as degraded: every collector can read them.
_COMMON: Final = [COLUMN[s] for s in (Signal.GPU_UTIL, Signal.SM_ACTIVITY, Signal.MEMORY)]
_DISABLED: Final = GPU_STATES.index(GpuState.DISABLED)


@dataclass(frozen=True)
class Facts:
    """What the database knows of each GPU, one row each, ascending by id; nan: not known."""

    ids: Ids
    memory_bytes: Floats
    power_limit_w: Floats
    slo_p99_ms: Floats
    pool: npt.NDArray[np.int64]  # database ids
    service: npt.NDArray[np.int32]  # a number that instances of one service share; -1: none
    agent: Flags  # an agent is to report it (else imported)
    lost: Flags  # its node is LOST
    enforce: Flags
    by_person: Flags  # a person disabled it

    def rows(self, ids: npt.ArrayLike) -> Rows:
        """The row of each id, -1 for those that are not here."""
        wanted = np.asarray(ids, dtype=np.uint32)
        if not len(self.ids):
            return np.full(len(wanted), -1, dtype=np.intp)
        at = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        return np.where(self.ids[at] == wanted, at, -1)


def no_facts() -> Facts:
    """Of a fleet without any GPU."""
    none, no_flags = np.empty(0, np.float32), np.empty(0, np.bool_)
    ids, pool, service = np.empty(0, np.uint32), np.empty(0, np.int64), np.empty(0, np.int32)
    return Facts(ids, none, none, none, pool, service, no_flags, no_flags, no_flags, no_flags)


@dataclass(frozen=True)
class Layout:
    """`document` is the body of /live/layout.json. Its `epoch` is a checksum of its content, so
    that all web processes, without talking to each other, give the same fleet the same number."""

    epoch: int
    facts: Facts
    document: bytes
    found: object = field(default=None, repr=False)  # the rows that it was made of


@dataclass
class Grid:
    """The last sample of each GPU of `facts`: when (Unix s, 0: never), its state, its values, and
    the worst value of its second for each signal (nan: not told, or not by way of this process).

    `local` marks rows that this process received itself, not through another process.
    """

    facts: Facts
    at: Times = field(init=False)
    state: Bytes = field(init=False)
    values: Floats = field(init=False)
    worst: Floats = field(init=False)
    local: Flags = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.facts.ids)
        self.at = np.zeros(count)
        self.state = np.full(count, GPU_STATES.index(GpuState.INIT), np.uint8)
        self.values = np.full((count, len(COLUMNS)), np.nan, np.float32)
        self.worst = np.full((count, len(SIGNALS)), np.nan, np.float32)
        self.local = np.zeros(count, np.bool_)

    def put(
        self, rows: Rows, at: float | Times, state: Bytes, values: Floats, worst: Floats
    ) -> None:
        """Samples that came to this process; of two of one GPU the later counts."""
        self.at[rows], self.state[rows] = at, state
        self.values[rows], self.worst[rows] = values, worst
        self.local[rows] = True

    def merge(self, ids: Ids, at: Times, state: Bytes, values: Floats) -> None:
        """Samples that came to another process: newer ones win, unknown GPUs are left out."""
        rows = self.facts.rows(ids)
        newer = rows >= 0
        newer[newer] = at[newer] > self.at[rows[newer]]
        rows = rows[newer]
        self.at[rows], self.state[rows] = at[newer], state[newer]
        self.values[rows], self.worst[rows] = values[newer], np.nan
        self.local[rows] = False

    def adopt(self, facts: Facts) -> Grid:
        """The same samples under new facts, possibly with other GPUs."""
        fresh = Grid(facts)
        rows = facts.rows(self.facts.ids)
        here = rows >= 0
        for name in ("at", "state", "values", "worst", "local"):
            getattr(fresh, name)[rows[here]] = getattr(self, name)[here]
        return fresh

    def part(self, rows: Rows) -> Grid:
        """These rows alone, with their facts."""
        facts = Facts(**{name: column[rows] for name, column in vars(self.facts).items()})
        fresh = Grid(facts)
        for name in ("at", "state", "values", "worst", "local"):
            setattr(fresh, name, getattr(self, name)[rows])
        return fresh

    def column(self, name: str) -> Floats:
        return self.values[:, COLUMN[name]]


def looks(grid: Grid, now: float) -> Bytes:
    """The look of each row at Unix time `now`. The later lines win over the earlier."""
    age = now - grid.at
    look = np.full(len(grid.at), Look.OK, np.uint8)
    activity = grid.column(Signal.SM_ACTIVITY)
    look[activity == 0] = Look.ZERO
    processes = grid.column("online_processes") + grid.column("offline_processes")
    look[processes == 0] = Look.IDLE
    look[np.isnan(activity) & np.isnan(grid.column("headroom_percent"))] = Look.UNSUPPORTED
    look[age > STALE_S] = Look.STALE
    look[(age > UNREACHABLE_S) | grid.facts.lost] = Look.UNREACHABLE
    look[~grid.facts.agent] = Look.UNSUPPORTED
    return look


def cells(grid: Grid, now: float) -> Bytes:
    """uint8 [GPUs, 12]: what browsers draw. Values that are no longer live stay, as last known."""
    facts = grid.facts
    out = np.empty((len(Field), len(facts.ids)), np.uint8).T  # each column in one piece
    out[:, Field.LOOK] = looks(grid, now)
    out[:, Field.STATE] = grid.state
    out[:, Field.SM_ACTIVITY] = quantise(grid.column(Signal.SM_ACTIVITY), 0.5)
    out[:, Field.GPU_UTIL] = quantise(grid.column(Signal.GPU_UTIL), 0.5)
    out[:, Field.MEMORY] = quantise(memory_percent(grid), 0.5)
    out[:, Field.HEADROOM] = quantise(grid.column("headroom_percent"), 0.5)
    out[:, Field.OFFLINE_SHARE] = quantise(grid.column("sm_offline_percent"), 0.5)
    out[:, Field.TEMPERATURE] = quantise(grid.column(Signal.TEMPERATURE), 0.5)
    out[:, Field.POWER] = quantise(share(grid.column(Signal.POWER), facts.power_limit_w), 0.5)
    out[:, Field.P99] = quantise(p99_of_slo(grid), 1.0)
    out[:, Field.DUTY] = quantise(grid.column("duty_percent"), 0.5)
    out[:, Field.FLAGS] = _flags(grid)
    return out


def memory_percent(grid: Grid) -> Floats:
    """Memory in use as percent of the card."""
    return share(grid.column(Signal.MEMORY), grid.facts.memory_bytes)


def p99_of_slo(grid: Grid) -> Floats:
    """Online p99 as percent of the service's SLO; nan without a service or without an SLO."""
    return share(grid.column(Signal.ONLINE_P99), grid.facts.slo_p99_ms)


def quantise(values: Floats, step: float) -> Bytes:
    """Steps from 0 to 254, nan → 255. Only a measured 0 (or less) is 0: a trace counts as 1."""
    steps = np.clip(np.rint(values / step), 0, _MOST)
    steps = np.where((values > 0) & (steps == 0), 1, steps)
    return np.where(np.isnan(values), MISSING, steps).astype(np.uint8)


def share(values: Floats, whole: Floats) -> Floats:
    """Percent of `whole`; nan where the whole is not known or 0."""
    known = np.where(whole > 0, whole, np.nan)
    return (values / known * 100).astype(np.float32)


def _flags(grid: Grid) -> Bytes:
    facts = grid.facts
    bits = (
        (Flag.ONLINE, grid.column("online_processes") > 0),
        (Flag.OFFLINE, grid.column("offline_processes") > 0),
        (Flag.ENFORCE, facts.enforce),
        (Flag.HARDWARE, (grid.state == _DISABLED) & ~facts.by_person),
        (Flag.DEGRADED, np.isnan(grid.values[:, _COMMON]).any(axis=1) & (grid.at > 0)),
    )
    out = np.zeros(len(facts.ids), np.uint8)
    for bit, holds in bits:
        out[holds] |= np.uint8(bit)
    return out


@dataclass(frozen=True)
class LiveGpu:
    """One GPU's last sample for pages, API and workers; None where missing. `at` in Unix s."""

    gpu_id: int
    at: float
    age_s: float
    state: GpuState
    sm_activity_percent: float | None
    gpu_util_percent: float | None
    sm_occupancy_percent: float | None
    memory_bandwidth_percent: float | None
    sm_clock_mhz: float | None
    memory_bytes: float | None
    memory_percent: float | None
    pcie_rx_bytes_s: float | None
    temperature_celsius: float | None
    power_w: float | None
    xid: int | None
    online_p99_ms: float | None
    online_qps: float | None
    sm_online_percent: float | None
    sm_offline_percent: float | None
    duty_percent: float | None
    headroom_percent: float | None
    nearest_signal: Signal | None
    online_processes: int | None
    offline_processes: int | None
    online_memory_bytes: float | None
    offline_memory_bytes: float | None

    @property
    def is_live(self) -> bool:
        return self.age_s <= STALE_S

    def signal(self, signal: Signal) -> float | None:
        """The value of a signal in its wire unit."""
        value: float | None = getattr(self, _ATTRIBUTES[signal])
        return value


_ATTRIBUTES: Final = {
    Signal.GPU_UTIL: "gpu_util_percent",
    Signal.SM_ACTIVITY: "sm_activity_percent",
    Signal.SM_OCCUPANCY: "sm_occupancy_percent",
    Signal.MEMORY_BANDWIDTH: "memory_bandwidth_percent",
    Signal.SM_CLOCK: "sm_clock_mhz",
    Signal.MEMORY: "memory_bytes",
    Signal.PCIE_RX: "pcie_rx_bytes_s",
    Signal.TEMPERATURE: "temperature_celsius",
    Signal.POWER: "power_w",
    Signal.XID: "xid",
    Signal.ONLINE_P99: "online_p99_ms",
    Signal.ONLINE_QPS: "online_qps",
}


def live(
    gpu_id: int, at: float, state: int, values: Floats, card_bytes: float | None, now: float
) -> LiveGpu:
    """One row as it is told to others; `card_bytes` None or 0: the card's size is not known."""
    v = [None if value != value else value for value in values.tolist()]
    memory = v[COLUMN[Signal.MEMORY]]
    nearest = v[COLUMN["nearest_signal"]]
    return LiveGpu(
        gpu_id=gpu_id,
        at=at,
        age_s=max(0.0, now - at),
        state=GPU_STATES[state],
        sm_activity_percent=v[COLUMN[Signal.SM_ACTIVITY]],
        gpu_util_percent=v[COLUMN[Signal.GPU_UTIL]],
        sm_occupancy_percent=v[COLUMN[Signal.SM_OCCUPANCY]],
        memory_bandwidth_percent=v[COLUMN[Signal.MEMORY_BANDWIDTH]],
        sm_clock_mhz=v[COLUMN[Signal.SM_CLOCK]],
        memory_bytes=memory,
        memory_percent=memory / card_bytes * 100 if memory is not None and card_bytes else None,
        pcie_rx_bytes_s=v[COLUMN[Signal.PCIE_RX]],
        temperature_celsius=v[COLUMN[Signal.TEMPERATURE]],
        power_w=v[COLUMN[Signal.POWER]],
        xid=_whole(v[COLUMN[Signal.XID]]),
        online_p99_ms=v[COLUMN[Signal.ONLINE_P99]],
        online_qps=v[COLUMN[Signal.ONLINE_QPS]],
        sm_online_percent=v[COLUMN["sm_online_percent"]],
        sm_offline_percent=v[COLUMN["sm_offline_percent"]],
        duty_percent=v[COLUMN["duty_percent"]],
        headroom_percent=v[COLUMN["headroom_percent"]],
        nearest_signal=SIGNALS[int(nearest)] if nearest is not None else None,
        online_processes=_whole(v[COLUMN["online_processes"]]),
        offline_processes=_whole(v[COLUMN["offline_processes"]]),
        online_memory_bytes=v[COLUMN["online_memory_bytes"]],
        offline_memory_bytes=v[COLUMN["offline_memory_bytes"]],
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
