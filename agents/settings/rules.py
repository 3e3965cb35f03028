"""What settings must be together, one rule a row. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from agents.config import Config, GpuValues
from agents.kubernetes import address
from agents.wire.names import RuntimeKind


@dataclass(frozen=True, slots=True)
class Rule:
    """`about`: the settings it looks at; it is not asked while one of them is faulty by itself."""

    about: frozenset[str]
    broken: Callable[[Config], bool]
    sentence: Callable[[Config], str]


def broken(config: Config, faulty: Collection[str] = ()) -> list[str]:
    """A sentence for each rule that does not hold. With a cluster to write, little else counts."""
    asked = WRITING if config.write_cluster is not None else RUNNING
    return [
        rule.sentence(config)
        for rule in (*ALWAYS, *asked)
        if not rule.about & set(faulty) and rule.broken(config)
    ]


def _rule(about: str, broken: Callable[[Config], bool], sentence: str) -> Rule:
    return Rule(frozenset(about.split()), broken, lambda config: sentence.format(config=config))


def _is_real(config: Config) -> bool:
    return config.gpus is not GpuValues.SIMULATED


ALWAYS: Final = (
    _rule(
        "simulate node",
        lambda it: (it.simulate is None) == (it.node is None),
        "say what to run: --simulate for a simulated fleet, or --node for one node",
    ),
)
WRITING: Final = (
    _rule(
        "simulate write_cluster",
        lambda it: it.simulate is None,
        "--write-cluster writes what --simulate makes up: give that too",
    ),
)
RUNNING: Final = (
    _rule(
        "console",
        lambda it: not it.console.startswith(("ws://", "wss://")),
        "--console must be a ws:// or wss:// address",
    ),
    _rule(
        "console tls_ca tls_cert",
        lambda it: bool(it.tls_ca or it.tls_cert) and it.console.startswith("ws://"),
        "--tls-ca and --tls-cert are for a wss:// address: give one in --console",
    ),
    _rule(
        "tls_cert tls_key",
        lambda it: it.tls_key is not None and it.tls_cert is None,
        "--tls-key is the key of a certificate: give --tls-cert",
    ),
    _rule(
        "node cluster gpus",
        lambda it: it.node is not None and it.cluster is None and not _is_real(it),
        "--node takes simulated GPUs from a cluster file: give --cluster, or --gpus nvml",
    ),
    _rule(
        "gpus node runtime",
        lambda it: _is_real(it) and (it.node is None or it.runtime is not RuntimeKind.PROCESS),
        "--gpus {config.gpus} is for one real node: give --node and --runtime process",
    ),
    _rule(
        "gpus recording",
        lambda it: it.gpus is GpuValues.REPLAY and it.recording is None,
        "--gpus replay shows a recording: give --recording",
    ),
    _rule(
        "xcuda runtime",
        lambda it: it.xcuda is not None and it.runtime is not RuntimeKind.PROCESS,
        "--xcuda is for jobs that are processes: give --runtime process",
    ),
    _rule(
        "job_user job_dir job_memory_bytes cgroup_root runtime",
        lambda it: (
            it.runtime is not RuntimeKind.PROCESS
            and any((it.job_user, it.job_dir, it.job_memory_bytes, it.cgroup_root))
        ),
        "--job-user, --job-dir, --job-memory-bytes and --cgroup-root are for jobs that are"
        " processes: give --runtime process",
    ),
    _rule(
        "gpus dcgm recording",
        lambda it: not _is_real(it) and bool(it.dcgm or it.recording is not None),
        "--dcgm and --recording are for real GPUs: give --gpus",
    ),
    _rule(
        "kubernetes",
        lambda it: (
            it.kubernetes not in ("", address.IN_CLUSTER) and not address.is_safe(it.kubernetes)
        ),
        "--kubernetes must be in-cluster or an https:// address (http:// on this machine alone)",
    ),
    _rule(
        "kubernetes gpus",
        lambda it: bool(it.kubernetes) and it.gpus is not GpuValues.NVML,
        "--kubernetes names the processes of real GPUs: give --gpus nvml",
    ),
    _rule(
        "faults simulate",
        lambda it: it.faults is not None and it.simulate is None,
        "--faults is for a simulated fleet: give --simulate",
    ),
)
