"""The signals of a replay, each a picture of its own on the common axis of time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from agents.wire.names import Signal
from console.past.cards import Line
from console.replay.footage import Footage, Reading, Row
from console.replay.rules_then import Force
from console.telemetry.scales import GIB

# One line of the table that stands for the pictures.
TABLE_S: Final = 30


@dataclass(frozen=True)
class Track:
    """`name` of `history.kept`, in `unit`, each `per` wire units. `part` is the name of the share
    of it that is drawn as a second line; with `falling` a lower value is the worse one."""

    name: str
    word: str
    unit: str
    digits: int = 0
    per: float = 1.0
    top: float | None = None
    part: str = ""
    part_word: str = ""
    part_per: float = 1.0
    falling: bool = False


TRACKS: Final = (
    Track(Signal.ONLINE_P99.value, "Online p99", "ms"),
    Track(Signal.ONLINE_QPS.value, "Online load", "QPS"),
    Track(
        Signal.SM_ACTIVITY.value, "SM activity", "%", top=100,
        part="sm_offline_percent", part_word="of it offline",
    ),
    Track("duty_percent", "Offline duty", "%", top=100),
    Track(
        Signal.MEMORY.value, "Memory", "GiB", 1, GIB,
        part="offline_memory_bytes", part_word="of it offline", part_per=GIB,
    ),
    Track(Signal.MEMORY_BANDWIDTH.value, "Memory bandwidth", "%", top=100),
    Track(Signal.GPU_UTIL.value, "GPU utilisation", "%", top=100),
    Track(Signal.SM_CLOCK.value, "SM clock", "MHz", falling=True),
    Track(Signal.TEMPERATURE.value, "Temperature", "°C"),
    Track(Signal.POWER.value, "Power", "W"),
    Track(Signal.PCIE_RX.value, "PCIe receive", "GB/s", 1, 1e9),
)  # fmt: skip


@dataclass(frozen=True)
class Now:
    """One signal at the moment of the scrubber. `worst` only where it was worse than `value`."""

    track: Track
    value: float | None
    worst: float | None
    busy_at: float | None
    evict_at: float | None
    slo: float | None

    @property
    def over(self) -> bool:
        seen = self.value if self.worst is None else self.worst
        if seen is None or self.evict_at is None:
            return False
        return seen < self.evict_at if self.track.falling else seen > self.evict_at


def shown(footage: Footage, forces: Sequence[Force]) -> list[Track]:
    """Those that were measured at all, or have a limit that they could not be held against."""
    measured = {name for point in footage.points for name in point.row}
    judged = {
        signal.value
        for force in forces
        for signal, scale in force.scales.items()
        if scale.evict_at is not None
    }
    return [one for one in TRACKS if one.name in measured | judged]


def reading(track: Track, row: Row, forces: Sequence[Force], moment: float) -> Now:
    one = row.get(track.name)
    force = next((f for f in forces if f.start <= moment < f.end), None)
    scale = force.scales.get(Signal(track.name)) if force and track.name in set(Signal) else None
    return Now(
        track,
        None if one is None else one.last / track.per,
        _worst(track, one),
        scale.busy_at if scale else None,
        scale.evict_at if scale else None,
        scale.slo if scale else None,
    )


def _worst(track: Track, one: Reading | None) -> float | None:
    if one is None:
        return None
    worst = one.low if track.falling else one.high
    return None if worst == one.last else worst / track.per


def table(footage: Footage, tracks: Sequence[Track]) -> list[Line]:
    """One line every TABLE_S seconds: what was so at that moment."""
    moments = range(int(footage.start), int(footage.end) + 1, TABLE_S)
    return [
        Line(
            datetime.fromtimestamp(moment, UTC),
            [(_value(footage.at(moment), one), one.unit, one.digits) for one in tracks],
        )
        for moment in moments
    ]


def _value(row: Row, track: Track) -> float | None:
    one = row.get(track.name)
    return None if one is None else one.last / track.per


def data(footage: Footage, tracks: Sequence[Track], forces: Sequence[Force]) -> dict[str, Any]:
    """What static/js/replay.js draws: `times` for all tracks, None for a gap."""
    return {
        "start": footage.start,
        "end": footage.end,
        "times": [round(point.at, 2) for point in footage.points],
        "tracks": [_drawn(footage, one, forces) for one in tracks],
    }


def _drawn(footage: Footage, track: Track, forces: Sequence[Force]) -> dict[str, Any]:
    column = [point.row.get(track.name) for point in footage.points]
    drawn: dict[str, Any] = {
        "name": track.name,
        "word": track.word,
        "unit": track.unit,
        "digits": track.digits,
        "top": track.top,
        "falling": track.falling,
        "values": [_scaled(one.last, track.per) if one else None for one in column],
        "low": [_scaled(one.low, track.per) if one else None for one in column],
        "high": [_scaled(one.high, track.per) if one else None for one in column],
        "limits": list(_limits(track, forces)),
    }
    if track.part:
        parts = [point.row.get(track.part) for point in footage.points]
        drawn["part_word"] = track.part_word
        drawn["part"] = [_scaled(one.last, track.part_per) if one else None for one in parts]
    return drawn


def _scaled(value: float, per: float) -> float:
    return float(f"{value / per:.5g}")


def _limits(track: Track, forces: Sequence[Force]) -> Iterator[dict[str, Any]]:
    """One for each version of the policy that was in force then."""
    for force in forces:
        scale = force.scales.get(Signal(track.name)) if track.name in set(Signal) else None
        if scale is not None:
            yield {
                "from": force.start,
                "to": force.end,
                "policy": force.name,
                "busy": scale.busy_at,
                "evict": scale.evict_at,
                "slo": scale.slo,
            }
