"""The metrics of an agent: one row a family. Pure.

Names have the prefix `muxflow_agent_`, base units, and ratios from 0 to 1; labels are bounded by
what a node has: nodes, GPUs, collectors, policies and our own lists of names. What is not known is
absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from agents.metrics.exposition import Family, Kind, Sample, histogram
from agents.status.snapshot import GpuView, NodeView
from agents.tally import BOUNDS_S, Tally
from agents.wire.names import GPU_STATES

PREFIX: Final = "muxflow_agent_"

Name = TypeVar("Name", bound=str)
Labels: TypeAlias = Mapping[str, str]
Values: TypeAlias = Iterable[tuple[float | None, Labels]]


@dataclass(frozen=True, slots=True)
class Told:
    """One node, as its status has it, and what it has counted."""

    view: NodeView
    tally: Tally


@dataclass(frozen=True, slots=True)
class Process:
    """This process, in the units that Prometheus' own clients use; None where nobody can tell."""

    started_at: float
    cpu_s: float
    resident_bytes: int | None
    open_fds: int | None


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    kind: Kind
    help: str
    of: Callable[[Told], Values]


def families(nodes: Sequence[Told], process: Process, version: str) -> Iterator[Family]:
    yield from _process(process)
    yield Family(f"{PREFIX}info", Kind.GAUGE, "Always 1.", [Sample(1, {"version": version})])
    for row in ROWS:
        samples = [
            Sample(value, {"node": told.view.name, **labels})
            for told in nodes
            for value, labels in row.of(told)
            if value is not None
        ]
        yield Family(f"{PREFIX}{row.name}", row.kind, row.help, samples)
    yield _phases(nodes)


def _process(process: Process) -> Iterator[Family]:
    rows = (
        ("start_time_seconds", Kind.GAUGE, "When it began, in Unix time.", process.started_at),
        ("cpu_seconds_total", Kind.COUNTER, "CPU time, user and system.", process.cpu_s),
        ("resident_memory_bytes", Kind.GAUGE, "Memory in use.", process.resident_bytes),
        ("open_fds", Kind.GAUGE, "Open file descriptors.", process.open_fds),
    )
    for name, kind, words, value in rows:
        samples = [] if value is None else [Sample(value, {})]
        yield Family(f"process_{name}", kind, words, samples)


def _phases(nodes: Sequence[Told]) -> Family:
    samples = [
        sample
        for told in nodes
        for phase, one in told.tally.phases.items()
        for sample in histogram(
            one.counts, BOUNDS_S, one.sum_s, {"node": told.view.name, "phase": phase}
        )
    ]
    words = "From the phase before (or the decision) to this phase of a stop."
    return Family(f"{PREFIX}stop_phase_seconds", Kind.HISTOGRAM, words, samples)


def _one(value: Callable[[NodeView], float | None]) -> Callable[[Told], Values]:
    return lambda told: [(value(told.view), {})]


def _each_gpu(value: Callable[[GpuView], float | None]) -> Callable[[Told], Values]:
    return lambda told: [(value(gpu), {"gpu_uuid": gpu.uuid}) for gpu in told.view.gpus]


def _states(told: Told) -> Values:
    for gpu in told.view.gpus:
        for state in GPU_STATES:
            yield float(gpu.state is state), {"gpu_uuid": gpu.uuid, "state": state}


def _ratio(percent: float | None) -> float | None:
    return None if percent is None else percent / 100.0


def _collector(value: Callable[[NodeView], Values]) -> Callable[[Told], Values]:
    return lambda told: value(told.view)


def _placements(told: Told) -> Values:
    states = Counter(one.state for one in told.view.placements)
    return [(count, {"state": state}) for state, count in states.items()]


def _by_gpu(told: Told, counter: Mapping[int, int]) -> Values:
    """From 0 on: a counter that begins with its first event hides that event."""
    return [(counter.get(gpu.index, 0), {"gpu_uuid": gpu.uuid}) for gpu in told.view.gpus]


def _by_gpu_and(label: str, told: Told, counter: Mapping[tuple[int, Name], int]) -> Values:
    uuids = {gpu.index: gpu.uuid for gpu in told.view.gpus}
    return [
        (count, {"gpu_uuid": uuids[index], label: name})
        for (index, name), count in counter.items()
        if index in uuids
    ]


ROWS: Final = (
    Row("samples_total", Kind.COUNTER, "Local samples taken.", _one(lambda it: it.samples)),
    Row(
        "collector_duration_seconds",
        Kind.GAUGE,
        "How long the last look of a collector took.",
        _collector(lambda it: [(one.duration_s, {"collector": one.name}) for one in it.sources]),
    ),
    Row(
        "collector_success",
        Kind.GAUGE,
        "1 when the last look of a collector succeeded, 0 when not.",
        _collector(lambda it: [(one.success, {"collector": one.name}) for one in it.sources]),
    ),
    Row("gpu_state", Kind.GAUGE, "1 for the state that a GPU is in, else 0.", _states),
    Row(
        "gpu_headroom_ratio",
        Kind.GAUGE,
        "Distance to the nearest eviction threshold, in parts of it.",
        _each_gpu(lambda gpu: _ratio(gpu.headroom_percent)),
    ),
    Row(
        "gpu_shareable",
        Kind.GAUGE,
        "1 when nothing forbids to share a GPU, else 0.",
        _each_gpu(lambda gpu: not gpu.unshareable),
    ),
    Row(
        "transitions_total",
        Kind.COUNTER,
        "Moves of a GPU into a state.",
        lambda told: _by_gpu_and("to", told, told.tally.transitions),
    ),
    Row(
        "freezes_total",
        Kind.COUNTER,
        "Freezes of offline work.",
        lambda told: _by_gpu(told, told.tally.freezes),
    ),
    Row(
        "thaws_total",
        Kind.COUNTER,
        "Freezes that were lifted.",
        lambda told: _by_gpu(told, told.tally.thaws),
    ),
    Row(
        "evictions_total",
        Kind.COUNTER,
        "Stops of running jobs by who or what wanted them.",
        lambda told: _by_gpu_and("origin", told, told.tally.evictions),
    ),
    Row("placements", Kind.GAUGE, "Jobs that have not ended, by state.", _placements),
    Row("spool_events", Kind.GAUGE, "Events that wait.", _one(lambda it: it.spool.waiting)),
    Row("spool_gaps_total", Kind.COUNTER, "Gaps in the events.", _one(lambda it: it.spool.gaps)),
    Row(
        "spool_dropped_events_total",
        Kind.COUNTER,
        "Events that a full spool had no room for.",
        _one(lambda it: it.spool.dropped),
    ),
    Row("link_up", Kind.GAUGE, "1 while the console is connected.", _one(lambda it: it.link.up)),
    Row(
        "link_reconnects_total",
        Kind.COUNTER,
        "Connections to the console after the first.",
        _one(lambda it: it.link.reconnects),
    ),
    Row(
        "lease_left_seconds",
        Kind.GAUGE,
        "How long offline work may go on without a word of the console.",
        _one(lambda it: it.lease_left_s),
    ),
    Row("generation", Kind.GAUGE, "Of the orders that hold.", _one(lambda it: it.generation)),
    Row(
        "policy_version",
        Kind.GAUGE,
        "Version of each policy that holds.",
        _collector(lambda it: [(no, {"policy": name}) for name, no in it.policy_versions.items()]),
    ),
)
