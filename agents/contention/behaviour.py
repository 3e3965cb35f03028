"""What a simulated job really does on a card, whatever the console knows of it.

A command `simulate sm=52 util=88 bandwidth=30 memory_gib=9 step_s=0.4` says it. A job without one
does what its profile says where its submitter gave that; a profile that was measured, or assumed,
is somebody's view of the job, and the job does as those of its family do.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

import msgspec

from agents.contention.cluster import FAMILIES, Family
from agents.contention.effects import family
from agents.wire.messages import Profile

COMMAND: Final = "simulate"
_GIB: Final = 1 << 30
_MOST: Final = 100.0
# Sources of a profile that say what the job itself does.
_TRUE: Final = frozenset({"", "user"})


def behaviour(profile: Profile, command: Sequence[str]) -> Profile:
    """The profile that the job lives by; what a command gives no number for is its family's."""
    if command and command[0] == COMMAND:
        said = dict(_number(word) for word in command[1:])
        return _of_family(profile, said)
    return profile if profile.source in _TRUE else _of_family(profile, {})


def _of_family(profile: Profile, said: dict[str, float]) -> Profile:
    kin = _kin(profile.name)
    return msgspec.structs.replace(
        profile,
        sm_percent=said.get("sm", kin.sm),
        gpu_util_percent=said.get("util", kin.util),
        memory_bandwidth_percent=said.get("bandwidth", kin.bandwidth),
        memory_bytes=int(said.get("memory_gib", kin.memory_gib) * _GIB),
        step_s=said.get("step_s", _step_s(kin)),
    )


def _kin(job_name: str) -> Family:
    """The family that it is named after; any, but always the same, for another name."""
    name = family(job_name)
    known = next((one for one in FAMILIES if one.name == name), None)
    return known or FAMILIES[zlib.crc32(name.encode()) % len(FAMILIES)]


def _step_s(kin: Family) -> float:
    """Heavier models take longer for a step: our assumption."""
    return round(0.02 * kin.memory_gib * kin.sm / 50, 3)


def _number(word: str) -> tuple[str, float]:
    """`sm=52`, within 0 to 100; what is no number says nothing."""
    key, _, value = word.partition("=")
    try:
        return key, min(_MOST, max(0.0, float(value)))
    except ValueError:
        return "", 0.0
