"""What is known of every GPU of a large fleet, side by side, and which of them may sleep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from agents.contention.prefilter import (
    SIGNS,
    Doubles,
    Flags,
    Ground,
    Judgement,
    Runs,
    Sense,
    judge,
    skippable,
)
from agents.contention.world import World
from agents.crowd import rows
from agents.crowd.waking import Lengths, caught_up
from agents.guard import Guard
from agents.sysmonitor import signals, thresholds
from agents.sysmonitor.crossings import CONTENTION, all_thresholds
from agents.sysmonitor.recording import FactBit, coded
from agents.sysmonitor.signals import POSITIONS, GpuFacts
from agents.wire.names import GPU_STATES, SIGNALS, GpuState, SharingMode, Signal
from agents.wire.policy import AgentPolicy

SENSE: Final = Sense(
    low=np.array([signals.BOUNDS[signal][0] for signal in SIGNALS]),
    high=np.array([signals.BOUNDS[signal][1] for signal in SIGNALS]),
    memory_slack=signals.MEMORY_SLACK,
    util_that_needs_sms=signals.UTIL_THAT_NEEDS_SMS,
    use_that_needs_clock=signals.USE_THAT_NEEDS_CLOCK,
    contention=np.array([signal in CONTENTION for signal in SIGNALS]),
)
_CODES: Final = {state: code for code, state in enumerate(GPU_STATES)}
_RESTING: Final = frozenset({GpuState.HEALTHY, GpuState.UNHEALTHY})


class Roll:
    """One row a GPU. `read` takes over what a guard says, after each step of the guard itself."""

    def __init__(self, facts: Sequence[GpuFacts], indexes: Sequence[int]) -> None:
        n_gpus = len(facts)
        self.ground = Ground(np.array([float(one.memory_bytes) for one in facts]))
        self.runs = Runs(n_gpus)
        self.state = np.zeros(n_gpus, np.int64)
        self.at_peace = np.zeros(n_gpus, np.bool_)
        # SysMonitor is asked of them: there is a policy, and sharing is not off.
        self.told = np.zeros(n_gpus, np.bool_)
        self.known = np.zeros(n_gpus, np.int64)
        self.judged = np.zeros((n_gpus, len(SIGNALS)), np.bool_)
        self.rows = rows.new(np.array(indexes))
        self._facts = facts
        self._under: list[tuple[AgentPolicy | None, float | None]] = [(None, None)] * n_gpus

    # --- a second of all ----------------------------------------------------------------

    def judge(self, world: World) -> tuple[Judgement, Flags]:
        """The second, and of which GPUs the next step would be the identity."""
        online = world.online_memory() > 0.0
        present = np.where(self.told, online, self.known & int(FactBit.ONLINE_PRESENT) > 0)
        now = judge(world.values().astype(np.float64), present, self.ground, SENSE)
        asleep = skippable(self.state, self.at_peace, self.judged, now)
        return now, np.where(self.told, asleep, self.at_peace)

    def close(self, now: Judgement, world: World, step_s: float) -> None:
        self.runs.note(now)
        rows.fill(self.rows, world, self.state, self.told, self.known, now)
        rows.fill_step(self.rows, self.told, step_s)

    # --- one GPU ------------------------------------------------------------------------

    def read(self, gpu: int, guard: Guard) -> None:
        self._take_orders(gpu, guard)
        monitor, known = guard.monitor, guard.known
        self.state[gpu] = _CODES[monitor.state]
        self.told[gpu] = guard.policy is not None and guard.mode is not SharingMode.OFF
        self.known[gpu] = coded(known)
        self.judged[gpu] = False
        self.judged[gpu, [POSITIONS[signal] for signal in monitor.dwells]] = True
        self.at_peace[gpu] = _is_at_peace(guard) if self.told[gpu] else True

    def wake(self, gpu: int, guard: Guard, steps_s: Doubles, now: float) -> None:
        """The guard after so many skipped seconds."""
        if not self.told[gpu] or not len(steps_s):
            return
        runs: Mapping[Signal, Lengths] = {
            signal: self.runs.of(gpu, POSITIONS[signal], len(steps_s))
            for signal in guard.monitor.dwells
        }
        guard.monitor = caught_up(guard.monitor, runs, steps_s, now)

    def _take_orders(self, gpu: int, guard: Guard) -> None:
        policy, slo_p99_ms = guard.policy, guard.slo_p99_ms
        before, slo_before = self._under[gpu]
        if policy is before and slo_p99_ms == slo_before:
            return
        self._under[gpu] = policy, slo_p99_ms
        ground = self.ground
        ground.has_slo[gpu] = slo_p99_ms is not None
        for at, whole in signals.wholes(self._facts[gpu], slo_p99_ms):
            ground.whole[gpu, at] = whole if whole is not None and whole > 0.0 else np.nan
        table = _Table(policy)
        ground.held[gpu], ground.lower[gpu] = table.held, table.lower
        ground.limit[gpu], ground.good[gpu] = table.limit, table.good


class _Table:
    """The thresholds of a policy as columns."""

    def __init__(self, policy: AgentPolicy | None) -> None:
        self.held = np.zeros(len(SIGNALS), np.bool_)
        self.lower, self.limit, self.good = (np.full(len(SIGNALS), np.nan) for _ in range(3))
        if policy is None:
            return
        for signal, threshold in all_thresholds(policy):
            at = POSITIONS[signal]
            self.held[at] = True
            self.lower[at] = SIGNS[at] * threshold.lower
            self.limit[at] = SIGNS[at] * signals.limit_of(signal, threshold, policy)
            self.good[at] = SIGNS[at] * thresholds.well_under(threshold)


def _is_at_peace(guard: Guard) -> bool:
    """Whether nothing but its samples can move this guard."""
    monitor, known = guard.monitor, guard.known
    is_calm = monitor.state in _RESTING and not (monitor.held or monitor.faulty or monitor.person)
    is_free = not (known.offline_present or known.disabled_by_person or known.mps_fault)
    is_told = not (guard.quarantine or guard.disabled or guard.terms.hold or guard.degraded)
    return is_calm and is_free and is_told and monitor.reserve_sample is None
