"""The series of each pool, and of the policies that rule them. Pure (numpy)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from agents.wire.names import GPU_STATES, Origin, PlacementState, Signal
from console.metrics.exposition import Family
from console.metrics.fleet.cards import Cards
from console.metrics.fleet.families import by_pool, counter, gauge, info
from console.metrics.fleet.gpus import PERCENT
from console.telemetry.latest import Floats

# Beside the states of SysMonitor: disabled by hardware, and without a fresh sample.
QUARANTINED, NO_DATA = "QUARANTINED", "NO_DATA"
STATES: Final = (*[state.value for state in GPU_STATES], QUARANTINED, NO_DATA)
OPEN_EVICTIONS: Final = ("PROPOSED", "APPROVED", "DISPATCHED", "STOPPING", "STUCK")
LIVE_PLACEMENTS: Final = [s.value for s in PlacementState if s is not PlacementState.ENDED]
ORIGINS: Final = [origin.value for origin in Origin]
MEANS: Final = (
    ("pool_sm_activity_ratio", Signal.SM_ACTIVITY, "SM activity"),
    ("pool_utilization_ratio", Signal.GPU_UTIL, "utilization"),
    ("pool_sm_offline_ratio", "sm_offline_percent", "SM activity of offline work"),
)


def families(cards: Cards) -> Iterator[Family]:
    facts = [
        {"pool": pool.name, "sharing_mode": pool.sharing_mode, "policy": pool.policy or ""}
        for pool in cards.facts.pools
    ]
    yield info("pool_info", "Always 1.", facts)
    yield from _gpus(cards)
    yield from _means(cards)
    yield from _samples(cards)
    yield from _work(cards)
    yield from _policies(cards)


def _names(cards: Cards) -> list[str]:
    return [pool.name for pool in cards.facts.pools]


def _gpus(cards: Cards) -> Iterator[Family]:
    told, sharing = Counter[tuple[str, str]](), Counter[str]()
    columns = (cards.gpus, cards.states, cards.quarantined.tolist(), cards.enforced.tolist())
    for gpu, state, bad, enforced in zip(*columns, strict=True):
        told[gpu.pool, QUARANTINED if bad else state or NO_DATA] += 1
        sharing[gpu.pool] += enforced
    words = "GPUs by state; QUARANTINED: disabled by hardware, NO_DATA: without a fresh sample."
    yield gauge("pool_gpus", words, by_pool(told, _names(cards), "state", STATES))
    words = "GPUs on which sharing is enforced."
    lines = [({"pool": name}, sharing[name]) for name in _names(cards)]
    yield gauge("pool_gpus_sharing", words, lines)


def _means(cards: Cards) -> Iterator[Family]:
    columns = [
        (name, cards.column(column) * np.float32(PERCENT), what) for name, column, what in MEANS
    ]
    sizes = np.array([gpu.memory_bytes or np.nan for gpu in cards.gpus], np.float32)
    columns += [("pool_memory_ratio", cards.column(Signal.MEMORY) / sizes, "memory in use")]
    for name, values, what in columns:
        lines = [({"pool": pool}, _mean(values[rows])) for pool, rows in cards.of_pool.items()]
        yield gauge(name, f"Mean {what} of the GPUs that report it.", lines)


def _mean(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return round(min(1.0, max(0.0, float(known.mean()))), 4) if len(known) else None


def _samples(cards: Cards) -> Iterator[Family]:
    told = [({"pool": sample.pool}, sample) for sample in cards.facts.samples]
    words = "Sum of the normalised throughput of the offline jobs that run."
    yield gauge("pool_equivalent_gpus", words, [(p, one.equivalent_gpus) for p, one in told])
    words = "Offline work done, in seconds of a whole GPU."
    totals = [(pairs, one.equivalent_gpu_s_total) for pairs, one in told]
    yield counter("pool_equivalent_gpu_seconds_total", words, totals)
    words = "Offline work that was lost when its job ended, in seconds of a whole GPU."
    totals = [(pairs, one.lost_work_s_total) for pairs, one in told]
    yield counter("pool_lost_work_seconds_total", words, totals)
    words = "Time that restarts of offline jobs took."
    totals = [(pairs, one.restart_s_total) for pairs, one in told]
    yield counter("pool_restart_seconds_total", words, totals)


def _work(cards: Cards) -> Iterator[Family]:
    facts, names = cards.facts, _names(cards)
    words = "Offline jobs on a GPU, by what they do there."
    lines = by_pool(facts.placements, names, "state", LIVE_PLACEMENTS)
    yield gauge("placements", words, lines)
    words = "Evictions that are not over, by where they are."
    yield gauge(
        "open_evictions", words, by_pool(facts.open_evictions, names, "state", OPEN_EVICTIONS)
    )
    done = Counter[tuple[str, str]]()
    for (_, pool, origin), count in facts.evictions.items():
        done[pool, origin] += count
    words = "Offline jobs taken off, completed, by who or what wanted it."
    yield counter("evictions_total", words, by_pool(done, names, "origin", ORIGINS))
    words = "Freezes of offline work."
    lines = [({"pool": name}, facts.freezes.get(name, 0)) for name in names]
    yield counter("freezes_total", words, lines)
    words = "Faults that ended processes on a GPU."
    lines = [({"pool": name}, facts.faults.get(name, 0)) for name in names]
    yield counter("gpu_faults_total", words, lines)


def _policies(cards: Cards) -> Iterator[Family]:
    versions = {pool.policy: pool.policy_version for pool in cards.facts.pools if pool.policy}
    of_pool = {pool.name: pool.policy for pool in cards.facts.pools}
    gpus = Counter(of_pool.get(gpu.pool) for gpu in cards.gpus)
    words = "Version of the policy in force."
    yield gauge("policy_version", words, [({"policy": n}, no) for n, no in versions.items()])
    words = "GPUs in the pools that the policy rules."
    yield gauge("policy_gpus", words, [({"policy": name}, gpus[name]) for name in versions])
