"""The simulated fleet: every GPU of a cluster file, driven by `law`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from agents.contention.curves import Curves
from agents.contention.effects import pair_effect
from agents.contention.jobs import Jobs, JobView
from agents.contention.law import Floats, Offline, Online, Outcome, contend
from agents.contention.load import Load
from agents.contention.models import model_of
from agents.contention.sensors import Cards, Sensors
from agents.wire.cluster import Cluster, ClusterService
from agents.wire.messages import Profile
from agents.wire.names import SIGNALS, Checkpoint, Signal

# An XID is shown for this long, so that a reader once a second sees it.
XID_S = 1.5
# Online memory that grows with load, as part of the whole; at peak all of it is taken.
_MEMORY_WITH_LOAD = 0.08
# The signals that a service tells of itself: the last two.
_FROM_SERVICES = slice(SIGNALS.index(Signal.ONLINE_P99), SIGNALS.index(Signal.ONLINE_QPS) + 1)


class UnknownPlacement(KeyError):
    """No job of this placement was started here, or it was forgotten."""


class GpuTaken(ValueError):
    """The GPU still holds another offline job, or its memory."""


class World:
    """All GPUs of a cluster, numbered in the order of the cluster file; `index` finds one.

    Real time is monotonic seconds; the world clock runs `clock` times as fast and drives load
    curves, job progress and checkpoints. Arrays that it hands out hold until the next `step`.
    """

    def __init__(
        self, cluster: Cluster, seed: int, clock: float, curves: Curves | None = None
    ) -> None:
        rng = np.random.default_rng(seed)
        self._seed, self._clock = seed, clock
        self._services = cluster.services
        gpus = [(node.name, gpu) for node in cluster.nodes for gpu in node.gpus]
        self._index = {
            (node.name, at): number
            for number, (node, at) in enumerate(
                (node, at) for node in cluster.nodes for at in range(len(node.gpus))
            )
        }
        self._node_of = np.array([node for node, _ in gpus])
        self._service_of = self._placed_services()
        self._profile = _Profiles(cluster.services, self._service_of)
        self._load = Load(cluster.services, self._service_of, rng, curves)
        self._sensors = Sensors(self._cards([gpu.model for _, gpu in gpus]), rng)
        self._jobs = Jobs(len(gpus), rng)
        self._effects = np.ones((2, len(gpus)), np.float32)
        self._placements: dict[str, int] = {}
        self._holder: dict[int, str] = {}
        self._ended: dict[str, JobView] = {}
        self._used: set[str] = set()
        self._lost = np.zeros(len(gpus), np.bool_)
        self._xid = np.zeros(len(gpus), np.float32)
        self._xid_until_s = np.full(len(gpus), -np.inf)
        self._now_s: float | None = None
        self._world_s = 0.0
        self.step(0.0)
        self._now_s = None

    def _placed_services(self) -> NDArray[np.int32]:
        """The number of each GPU's service; len(services) where it has none."""
        placed = np.full(len(self._index), len(self._services), np.int32)
        for number, service in enumerate(self._services):
            for instance in service.instances:
                placed[self._index[instance.node, instance.gpu_index]] = number
        return placed

    def _cards(self, models: Sequence[str]) -> Cards:
        facts = [model_of(model) for model in models]
        return Cards(
            clock_max_mhz=_column([fact.sm_clock_max_mhz for fact in facts]),
            power_limit_w=_column([fact.power_limit_w for fact in facts]),
            pcie_max_bytes_s=_column([fact.pcie_max_bytes_s for fact in facts]),
            base_p99_ms=self._profile.base_p99_ms,
            peak_qps=self._profile.peak_qps,
        )

    @property
    def n_gpus(self) -> int:
        return len(self._service_of)

    def index(self, node: str, gpu_index: int) -> int:
        """Raises KeyError for a GPU that is not in the cluster."""
        return self._index[node, gpu_index]

    def gpus_of(self, node: str) -> slice:
        """The GPUs of a node, in order. Raises KeyError for a node that is not in the cluster."""
        first = self._index[node, 0]
        return slice(first, first + int((self._node_of == node).sum()))

    # --- time -----------------------------------------------------------------------------

    def step(self, now_s: float) -> None:
        """Advance everything to `now_s`; the first call sets where real time begins."""
        dt_s = 0.0 if self._now_s is None else max(0.0, now_s - self._now_s)
        self._now_s = now_s
        self._world_s += dt_s * self._clock
        self._online_load = self._load.step(now_s, self._world_s, dt_s)
        self._outcome = self._contend()
        self._jobs.step(self._outcome.throughput, dt_s, dt_s * self._clock)
        self._memory = self._memory_by_side()
        self._values = self._read(now_s, dt_s)

    def _contend(self) -> Outcome:
        profile, jobs = self._profile, self._jobs
        online = Online(self._online_load, profile.sm, profile.util, profile.bandwidth)
        offline = Offline(jobs.sm, jobs.util, jobs.bandwidth, jobs.share, jobs.duty_now())
        return contend(online, offline, *self._effects)

    def _memory_by_side(self) -> tuple[Floats, Floats]:
        grown = 1.0 - _MEMORY_WITH_LOAD * (1.0 - np.minimum(self._online_load, 1.0))
        return (self._profile.memory_bytes * grown).astype(np.float32), self._jobs.memory_held()

    def _read(self, now_s: float, dt_s: float) -> Floats:
        online_bytes, offline_bytes = self._memory
        xid = np.where(self._xid_until_s > now_s, self._xid, np.float32(0.0))
        values = self._sensors.read(self._outcome, online_bytes + offline_bytes, xid, dt_s)
        values[self._load.unmeasured, _FROM_SERVICES] = np.nan
        values[self._lost] = np.nan
        return values

    # --- what collectors see --------------------------------------------------------------

    def values(self) -> Floats:
        """[n_gpus, len(SIGNALS)] in wire units, nan where missing or where the node is lost."""
        return self._values

    def online_sm(self) -> Floats:
        """[n_gpus] percent of SM activity of the online side, nan where lost."""
        return self._seen(100.0 * self._outcome.online_sm)

    def offline_sm(self) -> Floats:
        """[n_gpus] percent of SM activity of the offline side, nan where lost."""
        return self._seen(100.0 * self._outcome.offline_sm)

    def online_memory(self) -> Floats:
        """[n_gpus] bytes held by the online side, nan where lost."""
        return self._seen(self._memory[0])

    def offline_memory(self) -> Floats:
        """[n_gpus] bytes held by the offline side, nan where lost."""
        return self._seen(self._memory[1])

    def _seen(self, column: Floats) -> Floats:
        return np.where(self._lost, np.float32(np.nan), column)

    def service(self, gpu: int) -> str | None:
        """The online service on the GPU."""
        number = int(self._service_of[gpu])
        return self._services[number].name if number < len(self._services) else None

    def is_lost(self, node: str) -> bool:
        return bool(self._lost[self._index[node, 0]])

    # --- offline jobs ---------------------------------------------------------------------

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
        if placement_id in self._used:
            raise ValueError(f"placement {placement_id} was started before: an id runs once")
        if not self._jobs.is_free(gpu):
            raise GpuTaken(f"GPU {gpu} still holds {self._holder[gpu]}: wait for its memory")
        self._archive(gpu)
        self._used.add(placement_id)
        self._placements[placement_id], self._holder[gpu] = gpu, placement_id
        self._effects[:, gpu] = pair_effect(self._seed, self.service(gpu) or "", profile.name)
        saves = checkpoint is Checkpoint.ON_SIGTERM
        share = min(1.0, max(0.01, share_percent / 100.0))
        self._jobs.start(
            gpu, profile, share, quota_bytes, saves, checkpoint_period_s, resume_work_s
        )

    def _archive(self, gpu: int) -> None:
        """Keep the last view of the slot's ended job: its arrays go to the next one."""
        ended = self._holder.pop(gpu, None)
        if ended is not None and self._placements.pop(ended, None) is not None:
            self._ended[ended] = replace(self._jobs.view(gpu), memory_bytes=0)

    def job(self, placement_id: str) -> JobView:
        """Raises UnknownPlacement."""
        if placement_id in self._ended:
            return self._ended[placement_id]
        return self._jobs.view(self._slot(placement_id))

    def _slot(self, placement_id: str) -> int:
        try:
            return self._placements[placement_id]
        except KeyError:
            raise UnknownPlacement(f"placement {placement_id} is not in this world") from None

    def forget(self, placement_id: str) -> None:
        """Drop an ended job; its id stays used. Nothing happens while it is alive."""
        if placement_id in self._placements and not self.job(placement_id).alive:
            del self._placements[placement_id]
        self._ended.pop(placement_id, None)

    def set_duty(self, placement_id: str, percent: float) -> None:
        slot = self._slot(placement_id)
        self._jobs.duty[slot] = min(1.0, max(0.0, percent / 100.0))

    def freeze(self, placement_id: str) -> None:
        self._jobs.frozen[self._slot(placement_id)] = True

    def thaw(self, placement_id: str) -> None:
        self._jobs.frozen[self._slot(placement_id)] = False

    def sigterm(self, placement_id: str) -> None:
        self._jobs.sigterm(self._slot(placement_id))

    def gate(self, placement_id: str) -> None:
        self._jobs.gated[self._slot(placement_id)] = True

    def quiesce(self, placement_id: str) -> None:
        """Work in flight is done at once: a simulated launch takes no time."""
        slot = self._slot(placement_id)
        self._jobs.gated[slot] = self._jobs.quiesced[slot] = True

    def release(self, placement_id: str) -> None:
        """Give the context back; the process then exits by itself."""
        self._jobs.release(self._slot(placement_id))

    def kill(self, placement_id: str) -> None:
        where = np.zeros(self.n_gpus, np.bool_)
        where[self._slot(placement_id)] = True
        self._jobs.kill(where)

    # --- faults ---------------------------------------------------------------------------

    def spike(self, service: str | None, factor: float, duration_s: float) -> str:
        """Multiply the load of one service (None: of the busiest shared GPU's); returns its name.

        Raises ValueError for a service that is not in the cluster, or a cluster without any.
        """
        names = [one.name for one in self._services]
        if service is None:
            service = self._busiest_shared()
        if service not in names:
            raise ValueError(f"no service {service!r} in this cluster: choose one of {names}")
        self._load.spike(names.index(service), factor, duration_s, self._now_s or 0.0)
        return service

    def _busiest_shared(self) -> str | None:
        if not self._services:
            return None
        with_service = self._service_of < len(self._services)
        shared = with_service & self._jobs.alive
        among = shared if shared.any() else with_service
        return self.service(int(np.argmax(np.where(among, self._online_load, -1.0))))

    def lose_node(self, node: str) -> None:
        """The node loses power: its jobs end with what they had saved, its values are nan."""
        where = self._node_of == node
        self._lost |= where
        self._jobs.kill(where)
        self._jobs.returning_s[where] = 0.0

    def restore_node(self, node: str) -> None:
        self._lost &= self._node_of != node

    def xid(self, gpu: int, code: int) -> None:
        """The GPU reports this XID for `XID_S` seconds."""
        self._xid[gpu] = code
        self._xid_until_s[gpu] = (self._now_s or 0.0) + XID_S


class _Profiles:
    """The profile of each GPU's service as columns; zeros (nan for p99, QPS) where it has none."""

    def __init__(self, services: Sequence[ClusterService], service_of: NDArray[np.int32]) -> None:
        self.sm = _spread([s.sm_percent / 100 for s in services], service_of)
        self.util = _spread([s.gpu_util_percent / 100 for s in services], service_of)
        self.bandwidth = _spread([s.memory_bandwidth_percent / 100 for s in services], service_of)
        self.memory_bytes = _spread([float(s.memory_bytes) for s in services], service_of)
        self.base_p99_ms = _spread([s.base_p99_ms for s in services], service_of, np.nan)
        self.peak_qps = _spread([s.peak_qps for s in services], service_of, np.nan)


def _spread(values: Sequence[float], service_of: NDArray[np.int32], none: float = 0.0) -> Floats:
    column: Floats = _column([*values, none])[service_of]
    return column


def _column(values: Sequence[float]) -> Floats:
    return np.array(values, np.float32)
