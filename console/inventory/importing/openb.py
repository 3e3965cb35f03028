"""Read the openb traces: nodes with a GPU count, pods without a node.

What the traces do not hold is assumed, by the table below and docs/import.md, and marked so: which
GPU a pod ran on (seeded best fit on `gpu_milli`), what a pod really used, the memory of a card.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeVar

from agents.wire.limits import MAX_GPUS_PER_NODE
from agents.wire.names import SharingMode
from console.inventory.identity import placeholder
from console.inventory.importing.cards import CARDS, card
from console.inventory.importing.checks import NAME
from console.inventory.importing.draft import Draft
from console.inventory.importing.problems import Malformed, Problem
from console.inventory.importing.tables import Row, read_table
from console.inventory.models import Gpu
from console.workloads.models import OnlineInstance, OnlineService
from console.workloads.profiles import Profile

NODES: Final = "openb_node_list_gpu_node.csv"
PODS: Final = "openb_pod_list_default.csv"
T = TypeVar("T")

POOL: Final = "openb"
WHOLE_GPU: Final = 1_000
MILLI: Final = 1_000
MIB: Final = 1 << 20

# What a pod uses of the share that it asked for, in percent. Online: the means of a production
# cluster before sharing, from the abstract of the MuxFlow paper. Offline: our assumption.
ONLINE_USE: Final = {"sm_percent": 16.0, "gpu_util_percent": 26.0, "memory_percent": 42.0}
OFFLINE_USE: Final = {"sm_percent": 50.0, "gpu_util_percent": 80.0, "memory_percent": 50.0}
# The card that the memory of a job is taken of, since the trace names none: the smallest.
JOB_CARD_BYTES: Final = min(size.memory_bytes for size in CARDS.values())

_NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS: Final = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
    "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip


@dataclass(frozen=True)
class Pod:
    """One row of the pod list; `run_s` is None when it never ran."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...]
    qos: str
    phase: str
    run_s: float | None

    @property
    def kind(self) -> tuple[int, int, int]:
        """Pods alike are instances of one service."""
        return self.gpu_milli, self.cpu_milli, self.memory_mib


@dataclass(frozen=True)
class Machine:
    """One row of the node list."""

    name: str
    gpus: int
    model: str
    cpu_milli: int
    memory_mib: int


def draft(folder: Path, seed: int, now: datetime) -> Draft:
    """The rows of the folder's two files. Raises Malformed with every line that does not fit."""
    problems: list[Problem] = []
    machines = _parsed(folder / NODES, _NODE_COLUMNS, _machine, problems)
    pods = _parsed(folder / PODS, _POD_COLUMNS, _pod, problems)
    if problems:
        raise Malformed(problems)
    made = Draft(now, SharingMode.SHADOW)
    for machine in machines:
        _add_node(made, machine)
    _place(made, [pod for pod in pods if _is_tenant(pod)], random.Random(seed))
    _queue(made, [pod for pod in pods if _is_job(pod)])
    made.skipped.update(why for pod in pods if (why := why_skipped(pod)))
    return made


def _parsed(
    path: Path, columns: Sequence[str], parse: Callable[[Row], T], problems: list[Problem]
) -> list[T]:
    parsed = []
    for line, row in read_table(path, columns, problems):
        try:
            parsed.append(parse(row))
        except (ValueError, KeyError) as error:
            problems.append(Problem(path.name, line, str(error.args[0])))
    return parsed


def _machine(row: Row) -> Machine:
    card(row["model"])
    return Machine(
        _name(row["sn"]),
        _count(row, "gpu", MAX_GPUS_PER_NODE),
        row["model"],
        _count(row, "cpu_milli"),
        _count(row, "memory_mib"),
    )


def _pod(row: Row) -> Pod:
    run_s = None
    if row["scheduled_time"] and row["deletion_time"]:
        run_s = float(_count(row, "deletion_time") - _count(row, "scheduled_time"))
    pod = Pod(
        name=_name(row["name"]),
        cpu_milli=_count(row, "cpu_milli"),
        memory_mib=_count(row, "memory_mib"),
        gpus=_count(row, "num_gpu", MAX_GPUS_PER_NODE),
        gpu_milli=_count(row, "gpu_milli", WHOLE_GPU),
        models=tuple(row["gpu_spec"].split("|")) if row["gpu_spec"] else (),
        qos=row["qos"],
        phase=row["pod_phase"],
        run_s=run_s,
    )
    if pod.gpus and not pod.gpu_milli:
        raise ValueError("asks for a GPU, but for 0 of it")
    return pod


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is no name")
    return text


def _count(row: Row, column: str, most: int = 1 << 53) -> int:
    text = row[column]
    if not (text.isascii() and text.isdecimal() and int(text[:20]) <= most):
        raise ValueError(f"{column} is {text[:40]!r}; expected a whole number, 0 to {most}")
    return int(text)


def why_skipped(pod: Pod) -> str | None:
    """Why nothing comes of the pod; None for tenants and jobs."""
    if pod.qos not in ("LS", "BE"):
        return f"pods of qos class {pod.qos}: neither latency-sensitive nor best-effort"
    if not pod.gpus:
        return f"{pod.qos} pods that ask for no GPU"
    if pod.qos == "LS" and pod.phase != "Running":
        return f"LS pods that are {pod.phase}: they occupy nothing"
    return None


def _is_tenant(pod: Pod) -> bool:
    return pod.qos == "LS" and why_skipped(pod) is None


def _is_job(pod: Pod) -> bool:
    """Every best-effort pod with a GPU waits in the queue, whatever became of it."""
    return pod.qos == "BE" and why_skipped(pod) is None


def _add_node(made: Draft, machine: Machine) -> None:
    size = card(machine.model)
    labels = {"cpu_milli": str(machine.cpu_milli), "memory_mib": str(machine.memory_mib)}
    node = made.add_node(
        machine.name,
        POOL,
        labels=labels,
        cpu_cores=machine.cpu_milli / MILLI,
        host_memory_bytes=machine.memory_mib * MIB,
    )
    for index in range(machine.gpus):
        made.add_gpu(
            node,
            index,
            placeholder(machine.name, index),
            model=machine.model,
            memory_bytes=size.memory_bytes,
            memory_assumed=size.assumed,
        )


def _place(made: Draft, pods: Sequence[Pod], chance: random.Random) -> None:
    """Pods of several GPUs first, since they need a node with as many free; then by the trace."""
    room = Room(made.gpus, chance)
    services: dict[tuple[int, int, int], OnlineService] = {}
    for pod in sorted(pods, key=lambda pod: -pod.gpus):
        gpus = room.take(pod)
        if not gpus:
            made.skipped["LS pods that found no GPU with room: they occupy nothing"] += 1
            continue
        service = services.get(pod.kind) or services.setdefault(pod.kind, _service(made, pod))
        made.instances += [
            OnlineInstance(service=service, gpu=gpu, gpu_percent=_percent(pod)) for gpu in gpus
        ]
    made.services += services.values()


class Room:
    """What is free on which GPU, in thousandths; best fit, with chance among equals."""

    def __init__(self, gpus: Iterable[Gpu], chance: random.Random) -> None:
        self.chance = chance
        self.by_node: dict[str, list[Gpu]] = defaultdict(list)
        self.free: dict[tuple[str, int], list[Gpu]] = defaultdict(list)
        for gpu in gpus:
            self.by_node[gpu.node.name].append(gpu)
            self.free[gpu.model, WHOLE_GPU].append(gpu)

    def take(self, pod: Pod) -> list[Gpu]:
        """The GPUs that `pod` now occupies; empty when there is no room."""
        if pod.gpus > 1:
            return self._take_whole(pod)
        levels = [
            level
            for level in self.free
            if level[1] >= pod.gpu_milli
            and self.free[level]
            and (not pod.models or level[0] in pod.models)
        ]
        if not levels:
            return []
        model, free = min(levels, key=lambda level: (level[1], level[0]))
        gpu = self._pick(self.free[model, free])
        self.free[model, free - pod.gpu_milli].append(gpu)
        return [gpu]

    def _pick(self, gpus: list[Gpu]) -> Gpu:
        place = self.chance.randrange(len(gpus))
        gpus[place], gpus[-1] = gpus[-1], gpus[place]
        return gpus.pop()

    def _take_whole(self, pod: Pod) -> list[Gpu]:
        """The node that has just enough free GPUs."""
        free = {node: self._free_on(gpus, pod) for node, gpus in self.by_node.items()}
        fitting = [gpus for gpus in free.values() if len(gpus) >= pod.gpus]
        if not fitting:
            return []
        least = min(len(gpus) for gpus in fitting)
        chosen = self.chance.choice([gpus for gpus in fitting if len(gpus) == least])[: pod.gpus]
        for gpu in chosen:
            self.free[gpu.model, WHOLE_GPU].remove(gpu)
            self.free[gpu.model, WHOLE_GPU - pod.gpu_milli].append(gpu)
        return chosen

    def _free_on(self, gpus: Sequence[Gpu], pod: Pod) -> list[Gpu]:
        model = gpus[0].model
        if pod.models and model not in pod.models:
            return []
        untouched = {id(gpu) for gpu in self.free[model, WHOLE_GPU]}
        return [gpu for gpu in gpus if id(gpu) in untouched]


def _service(made: Draft, pod: Pod) -> OnlineService:
    milli, cpu, memory_mib = pod.kind
    share = milli / WHOLE_GPU
    return OnlineService(
        name=f"ls-gpu{milli}-cpu{cpu}-mem{memory_mib}",
        team=made.team("online"),
        pool=made.pool(POOL),
        sm_percent=ONLINE_USE["sm_percent"] * share,
        gpu_util_percent=ONLINE_USE["gpu_util_percent"] * share,
        memory_bytes=_part(ONLINE_USE["memory_percent"] * share),
    )


def _queue(made: Draft, pods: Sequence[Pod]) -> None:
    typical_s = median([pod.run_s for pod in pods if pod.run_s] or [3_600.0])
    for pod in pods:
        share = pod.gpu_milli / WHOLE_GPU
        made.add_job(
            pod.name,
            "offline",
            work_s=pod.run_s or typical_s,
            gpu_models=list(pod.models),
            pools=[POOL],
            gpus=pod.gpus,
            cpu_cores=pod.cpu_milli / MILLI or None,
            host_memory_bytes=pod.memory_mib * MIB or None,
            **_job_profile(share),
        )


def _job_profile(share: float) -> dict[str, Any]:
    """Assumed, as docs/import.md says, and rounded like every job's."""
    return (
        Profile(
            sm_percent=OFFLINE_USE["sm_percent"] * share,
            gpu_util_percent=OFFLINE_USE["gpu_util_percent"] * share,
            memory_bytes=_part(OFFLINE_USE["memory_percent"] * share),
            memory_bandwidth_percent=0.0,
        )
        .rounded()
        .columns()
    )


def _part(percent: float) -> int:
    return round(JOB_CARD_BYTES * percent / 100)


def _percent(pod: Pod) -> float:
    return pod.gpu_milli * 100 / WHOLE_GPU
