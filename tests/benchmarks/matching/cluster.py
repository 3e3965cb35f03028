"""A cluster of chance at any size: services and kinds of jobs, and what a round sees of them.

Few services have most of the replicas and few kinds most of the jobs (Zipf). Every GPU has the load
of its service with a noise of its own, so that no two are alike; every job has the profile of its
kind. Needs of memory, models and pools forbid a third of the pairs or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from agents.wire.names import GpuState, SharingMode
from console.scheduling.plan import Plan
from console.scheduling.snapshot import (
    GpuFacts,
    JobFacts,
    Rules,
    RunningFacts,
    Snapshot,
    Use,
)

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
ROUND_S: Final = 60.0
SERVICES: Final = 400
POOLS: Final = ("north", "east", "south", "west")
GIB: Final = 2**30
# Name, bytes, and how many of the GPUs.
MODELS: Final = (
    ("NVIDIA A10", 23_028 << 20, 0.5),
    ("NVIDIA A100-SXM4-40GB", 40_960 << 20, 0.3),
    ("NVIDIA A100-SXM4-80GB", 81_920 << 20, 0.2),
)
RULES: Final = Rules(
    sm_reserve_percent=5.0,
    memory_reserve_percent=5.0,
    min_headroom_percent=0.0,
    move_min_gain=0.1,
    restart_s=60.0,
)
# Work that a job does before it saves it.
SAVED_EVERY_S: Final = 300.0
# Of a GPU's own load, relative to its service's.
NOISE: Final = 0.08
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Load:
    """Of many workloads alone on a GPU: fractions of it, and the seconds of a step."""

    util: Numbers
    sm: Numbers
    occupancy: Numbers
    bandwidth: Numbers
    memory: Numbers
    step_s: Numbers


class Cluster:
    """All that happens to it follows from `seed`."""

    def __init__(self, gpus: int, jobs: int, classes: int, seed: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        self.now = START
        self.services = _services(self.rng)
        self.service = _few_have_most(self.rng, gpus, SERVICES)
        self.model = self.rng.choice(len(MODELS), SERVICES, p=[part for _, _, part in MODELS])
        self.pool = self.rng.integers(0, len(POOLS), gpus)
        self.gpus = [self._gpu(gpu) for gpu in range(gpus)]
        self.kinds = _kinds(self.rng, classes)
        self.made = 0
        self.waiting = self._jobs(_few_have_most(self.rng, jobs, classes))
        self.running: list[RunningFacts] = []

    def snapshot(self) -> Snapshot:
        return Snapshot(
            at=self.now,
            mode=SharingMode.ENFORCE,
            gpus=tuple(self.gpus),
            jobs=tuple(self.waiting),
            running=tuple(self.running),
            restarts_left=dict.fromkeys(POOLS, 50),
        )

    def start(self, plan: Plan) -> None:
        """What was decided runs a round later."""
        self.now += timedelta(seconds=ROUND_S)
        jobs = {job.id: job for job in self.waiting}
        for placing in plan.placings:
            self.running.append(
                RunningFacts(
                    placement_id=UUID(int=placing.job_id.int + (1 << 64)),
                    job=jobs.pop(placing.job_id),
                    gpu_id=placing.gpu_id,
                    share_percent=placing.share_percent,
                    fixed="",
                    left_work_s=float(self.rng.uniform(600, 36_000)),
                    unsaved_work_s=float(self.rng.uniform(0, 300)),
                    since=self.now,
                )
            )
        self.waiting = list(jobs.values())

    def change(self, gpus: float, jobs: float) -> None:
        """The load of some GPUs is another, some jobs are done and as many are submitted.

        A GPU or a job of which nothing changes is the same object in the next round, also when the
        job runs by then: so it is where the database is read (`reading._same_gpu`). What runs has
        done the work of a round more, and is told anew.
        """
        for gpu in self.rng.choice(len(self.gpus), int(gpus * len(self.gpus)), replace=False):
            self.gpus[gpu] = self._gpu(int(gpu))
        count = int(jobs * (len(self.running) + len(self.waiting)))
        done = set(self.rng.choice(len(self.running), min(count, len(self.running)), replace=False))
        self.running = [
            self._further(one) for index, one in enumerate(self.running) if index not in done
        ]
        self.waiting += self._jobs(_few_have_most(self.rng, count, len(self.kinds)))

    # --- one by one -------------------------------------------------------------------------

    def _gpu(self, gpu: int) -> GpuFacts:
        service = int(self.service[gpu])
        name, memory_bytes, _ = MODELS[self.model[service]]
        factor = 1.0 + NOISE * self.rng.standard_normal()
        load = self.services
        sm = _percent(load.sm[service] * factor)
        return GpuFacts(
            id=gpu,
            name=f"gpu-{gpu}",
            model=name,
            pool=POOLS[self.pool[gpu]],
            memory_bytes=memory_bytes,
            mode=SharingMode.ENFORCE,
            state=GpuState.HEALTHY if self.rng.random() > 0.02 else GpuState.OVERLIMIT,
            imported=False,
            node_connected=True,
            live_age_s=1.0,
            online=Use(
                sm_percent=sm,
                util_percent=_percent(load.util[service] * factor),
                bandwidth_percent=_percent(load.bandwidth[service] * factor),
                memory_bytes=load.memory[service] * memory_bytes,
                occupancy_percent=_percent(load.occupancy[service] * factor),
                step_s=float(load.step_s[service]),
            ),
            online_peak_percent=min(95.0, 1.2 * sm),
            rules=RULES,
            tier=2,
            service=f"service-{service}",
            simulated=True,
        )

    def _further(self, one: RunningFacts) -> RunningFacts:
        """A round later at half of its speed alone; what it has done is saved now and then."""
        work_s = 0.5 * ROUND_S
        unsaved_s = one.unsaved_work_s + work_s
        return replace(
            one,
            left_work_s=max(0.0, one.left_work_s - work_s),
            unsaved_work_s=unsaved_s if unsaved_s < SAVED_EVERY_S else 0.0,
        )

    def _jobs(self, kinds: NDArray[np.int64]) -> list[JobFacts]:
        waited_s = self.rng.uniform(0, 36_000, len(kinds))
        self.made += len(kinds)
        return [
            replace(
                self.kinds[kind],
                id=UUID(int=self.made - number),
                name=f"job-{self.made - number}",
                submitted_at=self.now - timedelta(seconds=float(seconds)),
            )
            for number, (kind, seconds) in enumerate(
                zip(kinds.tolist(), waited_s.tolist(), strict=True)
            )
        ]


# --- what there is ------------------------------------------------------------------------


def _services(rng: np.random.Generator) -> Load:
    util = rng.beta(1.6, 3.0, SERVICES)
    sm = util * rng.uniform(0.35, 0.9, SERVICES)
    return Load(
        util=util,
        sm=sm,
        occupancy=sm * rng.uniform(0.25, 0.8, SERVICES),
        bandwidth=util * rng.uniform(0.1, 0.7, SERVICES),
        memory=rng.uniform(0.1, 0.6, SERVICES),
        step_s=rng.lognormal(np.log(0.008), 0.8, SERVICES),
    )


def _kinds(rng: np.random.Generator, classes: int) -> Sequence[JobFacts]:
    util = rng.beta(5.0, 1.6, classes)
    sm = util * rng.uniform(0.4, 0.95, classes)
    occupancy = sm * rng.uniform(0.25, 0.8, classes)
    bandwidth = util * rng.uniform(0.1, 0.8, classes)
    memory = np.clip(rng.lognormal(np.log(10.0), 0.6, classes), 1.5, 70.0)
    step_s = rng.lognormal(np.log(0.06), 0.9, classes)
    weight = rng.choice([1.0, 1.25, 1.5625], classes, p=[0.7, 0.2, 0.1])
    names = [name for name, _, _ in MODELS]
    return [
        JobFacts(
            id=UUID(int=0),
            name="",
            submitted_at=START,
            weight=float(weight[kind]),
            use=Use(
                sm_percent=_percent(sm[kind]),
                util_percent=_percent(util[kind]),
                bandwidth_percent=_percent(bandwidth[kind]),
                memory_bytes=float(memory[kind] * GIB),
                occupancy_percent=_percent(occupancy[kind]),
                step_s=float(step_s[kind]),
                gpu_model="NVIDIA A100-SXM4-80GB",
            ),
            pools=_some(rng, POOLS, anywhere=0.85),
            gpu_models=_some(rng, names, anywhere=0.7),
            proven=True,
        )
        for kind in range(classes)
    ]


def _some(rng: np.random.Generator, names: Sequence[str], anywhere: float) -> tuple[str, ...]:
    """All of them, which is said by none; or one, or all but one."""
    if rng.random() < anywhere:
        return ()
    one = names[int(rng.integers(len(names)))]
    return (one,) if rng.random() < 0.4 else tuple(name for name in names if name != one)


def _few_have_most(rng: np.random.Generator, count: int, kinds: int) -> NDArray[np.int64]:
    """Zipf's law, but none is without one."""
    often = 1.0 / np.arange(1, kinds + 1) ** 0.9
    chosen = rng.choice(kinds, count, p=often / often.sum())
    if count >= kinds:
        chosen[:kinds] = np.arange(kinds)
    return rng.permutation(chosen)


def _percent(part: float) -> float:
    return float(np.clip(100.0 * part, 1.0, 99.0))
