"""What a node sent of one GPU, as a record that `replay` takes. Pure.

A telemetry sample holds all that SysMonitor was told in its second but the policy; a transition
that a local sample made holds that sample. So both alone lead to the same states again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntFlag
from typing import Final

from agents.sysmonitor.monitor import Facts
from agents.sysmonitor.replay import LocalEvent, Record, WireSample
from agents.sysmonitor.signals import GpuFacts, Reading, reading
from agents.wire.messages import Event, GpuSample, Telemetry
from agents.wire.names import EventKind

# What a replay is told in place of words that were for people.
RECORDED: Final = "as recorded"


class FactBit(IntFlag):
    """`Facts` in a telemetry sample."""

    OFFLINE_PRESENT = 1
    MEMORY_RETURNED = 2
    ONLINE_PRESENT = 4
    DISABLED = 8
    MPS_FAULT = 16
    HOST_MEMORY_SHORT = 32
    NOT_THROTTLED = 64


def coded(facts: Facts) -> int:
    """As `GpuSample.facts`."""
    told = {
        FactBit.OFFLINE_PRESENT: facts.offline_present,
        FactBit.MEMORY_RETURNED: facts.offline_memory_returned,
        FactBit.ONLINE_PRESENT: facts.online_present,
        FactBit.DISABLED: facts.disabled_by_person,
        FactBit.MPS_FAULT: facts.mps_fault,
        FactBit.HOST_MEMORY_SHORT: facts.host_memory_short,
        FactBit.NOT_THROTTLED: facts.throttled_by == "",
    }
    return sum(bit for bit, true in told.items() if true)


def facts_of(code: int) -> Facts:
    bits = FactBit(code)
    return Facts(
        offline_present=FactBit.OFFLINE_PRESENT in bits,
        offline_memory_returned=FactBit.MEMORY_RETURNED in bits,
        online_present=FactBit.ONLINE_PRESENT in bits,
        disabled_by_person=FactBit.DISABLED in bits,
        mps_fault=RECORDED if FactBit.MPS_FAULT in bits else "",
        host_memory_short=RECORDED if FactBit.HOST_MEMORY_SHORT in bits else "",
        throttled_by="" if FactBit.NOT_THROTTLED in bits else None,
    )


def recorded(
    index: int,
    telemetry: Iterable[Telemetry],
    events: Iterable[Event],
    gpu: GpuFacts,
    slo_p99_ms: float | None,
) -> Iterator[Record]:
    """One run of an agent, under one policy and one SLO; `events` in order of `seq`.

    A second of which the agent gave no verdict is left out.
    """
    local = [event for event in events if _is_local(event, index)]
    clock_s = 0.0
    for message in telemetry:
        while local and local[0].data["after"] < message.number:
            yield _local(local.pop(0), clock_s, slo_p99_ms)
        sample = next((one for one in message.samples if one.index == index), None)
        if sample is not None and sample.step_s is not None:
            clock_s += sample.step_s
            yield _wire(sample, clock_s, gpu, slo_p99_ms)
    for event in local:
        yield _local(event, clock_s, slo_p99_ms)


def _is_local(event: Event, index: int) -> bool:
    is_move = event.kind is EventKind.TRANSITION and event.gpu_index == index
    return is_move and bool(event.data["samples"])


def _local(event: Event, clock_s: float, slo_p99_ms: float | None) -> LocalEvent:
    has_slo = slo_p99_ms is not None
    samples = tuple(Reading(tuple(values), has_slo) for values in event.data["samples"])
    return LocalEvent(clock_s, samples, facts_of(event.data["facts"]))


def _wire(sample: GpuSample, clock_s: float, gpu: GpuFacts, slo_p99_ms: float | None) -> WireSample:
    last, worst = (reading(values, gpu, slo_p99_ms) for values in (sample.last, sample.worst))
    return WireSample(clock_s, last, worst, facts_of(sample.facts))
