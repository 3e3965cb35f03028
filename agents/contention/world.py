"""The simulated fleet: every GPU of a cluster file in numpy arrays, driven by `law`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.wire.cluster import Cluster
from agents.wire.messages import Profile
from agents.wire.names import Checkpoint

Floats = NDArray[np.float32]


class UnknownPlacement(KeyError):
    """No job of this placement was started here, or it was forgotten."""


class GpuTaken(ValueError):
    """The GPU still holds another offline job, or its memory."""


@dataclass(frozen=True, slots=True)
class JobView:
    """One offline job as its node sees it. Work in GPU-seconds alone (world time)."""

    alive: bool
    exited: int | None
    progress: float
    work_done_s: float
    unsaved_work_s: float
    memory_bytes: int
    throughput: float
    checkpointed: bool
    gated: bool
    quiesced: bool
    released: bool


class World:
    """All GPUs of a cluster. Real time is monotonic seconds; the world clock runs `clock` times
    as fast and drives load curves, job progress and checkpoints. GPUs are numbered in the order
    of the cluster file; `index` finds one."""

    def __init__(self, cluster: Cluster, seed: int, clock: float) -> None:
        raise NotImplementedError

    @property
    def n_gpus(self) -> int:
        raise NotImplementedError

    def index(self, node: str, gpu_index: int) -> int:
        """Raises KeyError for a GPU that is not in the cluster."""
        raise NotImplementedError

    def step(self, now_s: float) -> None:
        """Advance everything to `now_s`."""
        raise NotImplementedError

    def values(self) -> Floats:
        """[n_gpus, len(SIGNALS)] in wire units, nan where missing or where the node is lost."""
        raise NotImplementedError

    def online_sm(self) -> Floats:
        """[n_gpus] percent of SM activity of the online side, nan where lost."""
        raise NotImplementedError

    def offline_sm(self) -> Floats:
        """[n_gpus] percent of SM activity of the offline side, nan where lost."""
        raise NotImplementedError

    def online_memory(self) -> Floats:
        """[n_gpus] bytes held by the online side, nan where lost."""
        raise NotImplementedError

    def offline_memory(self) -> Floats:
        """[n_gpus] bytes held by the offline side, nan where lost."""
        raise NotImplementedError

    def service(self, gpu: int) -> str | None:
        """The online service on the GPU."""
        raise NotImplementedError

    def start(
        self,
        gpu: int,
        placement_id: str,
        profile: Profile,
        share_percent: float,
        quota_bytes: int,
        checkpoint: Checkpoint = Checkpoint.ON_SIGTERM,
        checkpoint_period_s: float = 600.0,
        resume_work_s: float = 0.0,
    ) -> None:
        """Raises GpuTaken, or ValueError for a placement id that was used before."""
        raise NotImplementedError

    def job(self, placement_id: str) -> JobView:
        """Raises UnknownPlacement."""
        raise NotImplementedError

    def set_duty(self, placement_id: str, percent: float) -> None:
        raise NotImplementedError

    def freeze(self, placement_id: str) -> None:
        raise NotImplementedError

    def thaw(self, placement_id: str) -> None:
        raise NotImplementedError

    def sigterm(self, placement_id: str) -> None:
        raise NotImplementedError

    def gate(self, placement_id: str) -> None:
        raise NotImplementedError

    def quiesce(self, placement_id: str) -> None:
        raise NotImplementedError

    def release(self, placement_id: str) -> None:
        """Give the context back; the process then exits by itself."""
        raise NotImplementedError

    def kill(self, placement_id: str) -> None:
        raise NotImplementedError

    def forget(self, placement_id: str) -> None:
        """Drop an ended job; its id stays used."""
        raise NotImplementedError

    def spike(self, service: str | None, factor: float, duration_s: float) -> str:
        """Multiply the load of one service (None: of the busiest shared GPU's); returns its name.

        Raises ValueError for a service that is not in the cluster.
        """
        raise NotImplementedError

    def lose_node(self, node: str) -> None:
        """The node loses power: its jobs end with what they had saved, its values are nan."""
        raise NotImplementedError

    def restore_node(self, node: str) -> None:
        raise NotImplementedError

    def xid(self, gpu: int, code: int) -> None:
        """The GPU reports this XID for one second."""
        raise NotImplementedError
