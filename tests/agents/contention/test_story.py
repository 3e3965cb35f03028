"""The whole loop without a console: sharing pays, a spike is answered, and nobody is harmed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from agents.contention.cluster import build_cluster
from agents.contention.models import model_of
from agents.contention.world import World
from agents.duty import next_duty, short_term
from agents.sysmonitor.machine import local_step, wire_step
from agents.sysmonitor.monitor import ActionKind, Facts, Monitor
from agents.sysmonitor.signals import POSITIONS, GpuFacts, Values, plausible, reading, worst
from agents.wire.messages import Profile
from agents.wire.names import GpuState, Signal
from agents.wire.policy import demo

POLICY = demo(1, 1)
P99, SM = POSITIONS[Signal.ONLINE_P99], POSITIONS[Signal.SM_ACTIVITY]


class Fleet:
    """A few nodes under SysMonitor and duty; an evicted job is killed at once."""

    def __init__(self, seed):
        self.cluster = build_cluster(4, 8, seed)
        self.world = World(self.cluster, seed, clock=60.0)
        gpus = [gpu for node in self.cluster.nodes for gpu in node.gpus]
        slo = {service.name: service.slo_p99_ms for service in self.cluster.services}
        self.slo = [slo.get(self.world.service(gpu) or "") for gpu in range(len(gpus))]
        self.facts = [facts(gpu) for gpu in gpus]
        self.monitors = [Monitor()] * len(gpus)
        self.online: list[float | None] = [None] * len(gpus)
        self.duty = [POLICY.duty_floor_percent] * len(gpus)
        self.second: list[list[Values]] = [[] for _ in gpus]
        self.jobs: dict[int, str] = {}
        self.share: dict[int, float] = {}
        self.acted: list[tuple[float, int, ActionKind]] = []
        self.now, self.ticks = 0.0, 0
        self.sm: list[float] = []
        self.ratio: list[np.ndarray] = []

    def run(self, seconds):
        for _ in range(round(seconds * 5)):
            self.now, self.ticks = self.now + 0.2, self.ticks + 1
            self.world.step(self.now)
            values = self.world.values()
            for gpu, row in enumerate(values.tolist()):
                self.tick(gpu, tuple(None if math.isnan(value) else value for value in row))
            self.sm.append(float(np.mean(values[:, SM])))
            self.ratio.append(values[:, P99] / np.array(self.slo, np.float64))
        return self

    def tick(self, gpu, values):
        sane = plausible(values, self.facts[gpu])
        self.second[gpu].append(sane)
        last = reading(sane, self.facts[gpu], self.slo[gpu])
        facts = Facts(gpu in self.jobs, gpu not in self.jobs, self.slo[gpu] is not None)
        self.take(gpu, local_step(self.monitors[gpu], last, POLICY, facts, self.now))
        if self.ticks % 5 == 0:
            worst_seen = reading(worst(self.second[gpu]), self.facts[gpu], self.slo[gpu])
            self.second[gpu] = []
            step = wire_step(self.monitors[gpu], last, worst_seen, POLICY, facts, self.now)
            self.take(gpu, step)
        online = float(self.world.online_sm()[gpu])
        self.online[gpu] = short_term(self.online[gpu], online, 0.2)
        if gpu in self.jobs:
            self.duty[gpu] = next_duty(
                self.duty[gpu], self.share[gpu], self.online[gpu], self.state(gpu), POLICY, 0.2
            )
            self.world.set_duty(self.jobs[gpu], self.duty[gpu])

    def take(self, gpu, step):
        self.monitors[gpu] = step.monitor
        for action in step.actions:
            self.acted.append((self.now, gpu, action.kind))
            if action.kind is ActionKind.FREEZE:
                self.world.freeze(self.jobs[gpu])
            elif action.kind is ActionKind.THAW:
                self.world.thaw(self.jobs[gpu])
            elif action.kind is ActionKind.EVICT:
                self.world.kill(self.jobs.pop(gpu))

    def state(self, gpu):
        return self.monitors[gpu].state

    def share_all(self):
        waiting = list(self.cluster.jobs)
        need = {s.name: (s.sm_percent, s.memory_bytes) for s in self.cluster.services}
        for gpu, card in enumerate(self.facts):
            sm, memory = need.get(self.world.service(gpu) or "", (0.0, 0))
            quota = int(0.9 * card.memory_bytes - memory)
            fitting = next(job for job in waiting if job.memory_bytes <= quota)
            waiting.remove(fitting)
            self.start(gpu, fitting, 90.0 - sm, quota)
        return self

    def start(self, gpu, job, share, quota):
        profile = Profile(
            job.name,
            job.sm_percent,
            job.gpu_util_percent,
            job.memory_bytes,
            job.memory_bandwidth_percent,
            job.work_s,
        )
        self.jobs[gpu], self.share[gpu] = f"placement-{gpu}", share
        self.world.start(gpu, self.jobs[gpu], profile, share, quota)

    def mean_sm(self, seconds):
        return float(np.mean(self.sm[-round(seconds * 5) :]))


def facts(gpu):
    model = model_of(gpu.model)
    return GpuFacts(
        gpu.memory_bytes, model.power_limit_w, model.sm_clock_max_mhz, model.pcie_max_bytes_s
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_sharing_pays_and_a_spike_is_held_evicted_and_over(seed):
    # 1. Online alone leaves most of the SMs idle.
    fleet = Fleet(seed).run(5)
    before = fleet.mean_sm(3)
    assert 12.0 < before < 28.0
    # 2. Jobs land: SM activity doubles within 40 s, and no service goes over its SLO for long.
    fleet.share_all().run(35)
    assert fleet.mean_sm(5) > 2.0 * before
    assert np.nanmean(np.array(fleet.ratio[-25:]) > 1.0) < 0.02
    assert all(kind is not ActionKind.EVICT for _, _, kind in fleet.acted)
    # 3. A spike: held within one local sample, evicted after the dwell and not before.
    spiked_at, service = fleet.now, fleet.world.spike(None, 2.5, 20.0)
    fleet.run(0.2)
    frozen = {gpu for at, gpu, kind in fleet.acted if kind is ActionKind.FREEZE and at > spiked_at}
    assert frozen
    assert {fleet.world.service(gpu) for gpu in frozen} == {service}
    fleet.run(5)
    evicted = [at for at, gpu, kind in fleet.acted if kind is ActionKind.EVICT]
    assert evicted
    assert min(evicted) - spiked_at >= POLICY.thresholds[Signal.ONLINE_P99].upper_dwell_s
    # 4. Latency comes back under the SLO, and the GPUs cool down.
    fleet.run(18)
    crowd = [gpu for gpu in range(32) if fleet.world.service(gpu) == service]
    assert np.max(np.array(fleet.ratio[-10:])[:, crowd]) < 1.0
    assert GpuState.COOLDOWN in {fleet.state(gpu) for gpu in crowd}
