"""Run recorded samples through the machine again: exact, transition by transition.

Between two wire samples the machine moves only where a local event was recorded with its samples,
so the wire samples and those events are all that is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from msgspec.structs import replace as amended

from agents.sysmonitor.machine import local_step, relimited, wire_step
from agents.sysmonitor.monitor import Facts, Monitor, Step
from agents.sysmonitor.signals import Reading
from agents.wire.policy import AgentPolicy


@dataclass(frozen=True, slots=True)
class WireSample:
    """One second, as it went out."""

    now: float
    last: Reading
    worst: Reading
    facts: Facts


@dataclass(frozen=True, slots=True)
class LocalEvent:
    """A transition between two wire samples, with the local samples that made it."""

    now: float
    samples: tuple[Reading, ...]
    facts: Facts


@dataclass(frozen=True, slots=True)
class NewLimits:
    """From here on this policy holds, or the SLO that p99 is read against is another one."""

    policy: AgentPolicy


Record: TypeAlias = WireSample | LocalEvent | NewLimits


def replay(monitor: Monitor, records: Iterable[Record], policy: AgentPolicy) -> Step:
    """The monitor after `records` in order of time, and every transition and action on the way.

    `policy` holds until the first `NewLimits`.
    """
    step = Step(monitor)
    for record in records:
        if isinstance(record, NewLimits):
            policy = record.policy
            step = replace(step, monitor=relimited(step.monitor))
        else:
            step = _joined(step, _step(step.monitor, record, policy))
    return step


def _step(monitor: Monitor, record: WireSample | LocalEvent, policy: AgentPolicy) -> Step:
    if isinstance(record, WireSample):
        return wire_step(monitor, record.last, record.worst, policy, record.facts, record.now)
    # The event holds all samples of its own run, so none is left over from before it.
    step = Step(amended(monitor, reserve_sample=None))
    for sample in record.samples:
        step = _joined(step, local_step(step.monitor, sample, policy, record.facts, record.now))
    return step


def _joined(before: Step, after: Step) -> Step:
    return replace(
        after,
        transitions=before.transitions + after.transitions,
        actions=before.actions + after.actions,
    )
