"""Why a GPU takes no new offline work, in a sentence of its own. Pure."""

from __future__ import annotations

from operator import attrgetter
from typing import Final, NamedTuple

from agents.wire.names import GpuState, SharingMode
from console.scheduling.plan import Code
from console.scheduling.snapshot import LIVE_AGE_S, GpuFacts


class Closed(NamedTuple):
    """Why a GPU or a job takes no part; the sentence stands by itself."""

    code: Code
    why: str


def closed(gpu: GpuFacts, wanted: SharingMode) -> Closed | None:
    """The first fact that forbids new offline work on `gpu`; None when it is open.

    Facts that hold for long come first: they are the ones worth changing.
    """
    if (
        gpu.mode is wanted
        and _standing(gpu) == _USUAL
        and (gpu.imported or (gpu.node_connected and _is_live(gpu)))
    ):
        return None  # nearly all of them, so they are told first
    return _by_inventory(gpu, wanted) or _by_node(gpu) or _by_live_state(gpu)


_standing = attrgetter(
    "state",
    "holdback",
    "conflict",
    "disabled",
    "unshareable_fact",
    "never_share",
    "draining",
    "cordoned",
)
_USUAL: Final = (GpuState.HEALTHY, False, False, False, "", False, False, False)


def _is_live(gpu: GpuFacts) -> bool:
    least, headroom = gpu.rules.min_headroom_percent, gpu.headroom_percent
    heard = gpu.live_age_s is not None and gpu.live_age_s <= LIVE_AGE_S
    return heard and (headroom is None or headroom >= least)


def _by_inventory(gpu: GpuFacts, wanted: SharingMode) -> Closed | None:
    if gpu.holdback:
        return Closed(Code.HOLDBACK, "Held back: it never shares, as the standing control.")
    if gpu.mode != wanted:
        return Closed(Code.MODE, f"Its sharing mode is {gpu.mode.value}, not {wanted.value}.")
    if gpu.never_share:
        whom = gpu.service or "its owner"
        return Closed(Code.NEVER_SHARE, f"Marked as never to be shared, for {whom}.")
    if gpu.conflict:
        return Closed(Code.CONFLICT, "Another node claims the same GPU UUID.")
    if gpu.disabled:
        return Closed(Code.DISABLED, "Disabled until a person enables it.")
    if gpu.unshareable_fact:
        return Closed(Code.UNSHAREABLE, f"Not shareable: {gpu.unshareable_fact}.")
    return None


def _by_node(gpu: GpuFacts) -> Closed | None:
    if gpu.draining:
        return Closed(Code.DRAINING, "Its node is being drained.")
    if gpu.cordoned:
        return Closed(Code.CORDONED, "Its node is cordoned: no new placements.")
    if not gpu.imported and not gpu.node_connected:
        return Closed(Code.UNREACHABLE, "Its node is not connected.")
    return None


def _by_live_state(gpu: GpuFacts) -> Closed | None:
    if gpu.state is not GpuState.HEALTHY:
        return Closed(Code.STATE, f"Its state is {gpu.state.value}; only HEALTHY takes new work.")
    if gpu.imported:
        return None
    if gpu.live_age_s is None or gpu.live_age_s > LIVE_AGE_S:
        return Closed(Code.NO_LIVE_DATA, f"No sample in the last {LIVE_AGE_S:.0f} s.")
    least = gpu.rules.min_headroom_percent
    if gpu.headroom_percent is not None and gpu.headroom_percent < least:
        return Closed(
            Code.HEADROOM,
            f"Headroom is {gpu.headroom_percent:.0f} %; new work needs {least:.0f} %.",
        )
    return None
