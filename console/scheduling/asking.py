"""Why is this job not on that GPU? Asked on a page, answered by a worker, as of that moment."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final
from uuid import UUID

import msgspec
from django.db.models import Q

from agents.wire.names import SharingMode
from console import doorbell
from console.accounts import access
from console.accounts.models import Role, User
from console.api import in_sight
from console.errors import Invalid, MuxFlowError
from console.inventory import modes
from console.inventory.models import Gpu
from console.runs import services as runs
from console.runs.models import Run
from console.scheduling import prices, queries, reading, rounds
from console.scheduling.models import Decision, Round
from console.scheduling.plan import WORDS, Code, Kind, Verdict
from console.scheduling.prices import Price
from console.scheduling.snapshot import Snapshot
from console.workloads.models import OfflineJob
from console.workloads.queries import jobs_in_sight

KIND: Final = "matching.why"
# An answer is of its moment; nobody looks it up later.
KEPT: Final = timedelta(hours=1)

# The verdict on a pair: PLACE when it could be made.
Why = Callable[[Snapshot, UUID, int], Verdict]


def ask(job: OfflineJob, gpu: Gpu, user: User, now: datetime) -> Run:
    """The queued question. Raises PermissionDenied unless `user` may see the GPU."""
    access.require(user, Role.VIEWER, gpu.node.pool)
    Run.objects.filter(kind=KIND, created_at__lt=now - KEPT).delete()
    arguments = {"job": str(job.pk), "gpu": gpu.pk}
    return runs.start(KIND, arguments, user, doorbell.ANSWER_WHY, now)


def answer(run_id: UUID, holder: str, now: datetime, why: Why) -> None:
    """Do the run, unless it is over or another worker's."""
    run = runs.claim(run_id, holder, now)
    if run is None:
        return
    try:
        runs.succeed(run, _answer(run, now, why), now)
    except MuxFlowError as error:
        runs.fail(run, str(error), now)


def answer_waiting(holder: str, now: datetime, why: Why) -> None:
    """Answer what a lost bell or a dead worker left behind."""
    for run_id in runs.waiting(KIND):
        answer(run_id, holder, now, why)


def _answer(run: Run, now: datetime, why: Why) -> dict[str, Any]:
    job_id, gpu_id = UUID(run.arguments["job"]), int(run.arguments["gpu"])
    gpu = Gpu.objects.select_related("node__pool").get(pk=gpu_id)
    mode = modes.lower(gpu.node.pool.sharing_mode, gpu.sharing_mode)
    # Below shadow no round looks at it; the enforcing one says so.
    seen = mode if mode in (SharingMode.SHADOW, SharingMode.ENFORCE) else SharingMode.ENFORCE
    snapshot = reading.read(seen, rounds.live(), now)
    verdict = why(snapshot, job_id, gpu_id)
    told: dict[str, Any] = msgspec.to_builtins(verdict, str_keys=True)
    return told | {"at": now.isoformat()}


# --- the page -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """A question with what came of it; `job` and `gpu` None: they are gone."""

    run: Run
    job: OfflineJob | None
    gpu: Gpu | None

    @property
    def is_open(self) -> bool:
        return self.run.state in runs.OPEN

    @property
    def verdict(self) -> dict[str, Any]:
        """Fields of `Verdict` by name; empty: there is no answer."""
        return dict(self.run.result)

    @property
    def could_run(self) -> bool:
        return bool(self.verdict["kind"] == Kind.PLACE)

    @property
    def word(self) -> str:
        code = self.verdict["code"]
        return WORDS[Code(code)] if code in set(Code) else str(code)

    @cached_property
    def of_gpu(self) -> Decision | None:
        """What the last round that has its sentences said of the GPU."""
        return self._last(gpu=self.gpu) if self.gpu else None

    @cached_property
    def of_job(self) -> Decision | None:
        """And of the job, wherever that was."""
        return self._last(job=self.job) if self.job else None

    @staticmethod
    def _last(**about: Any) -> Decision | None:
        rows = Decision.objects.filter(**about, round__state=Round.State.DONE)
        return rows.select_related("job", "gpu__node", "round").order_by("-pk").first()

    @property
    def price(self) -> Price | None:
        """Of the GPU, for the job that runs there."""
        told = self.verdict
        return prices.of_kept(told.get("gpu_price"), told.get("weight"))

    @property
    def price_then(self) -> Price | None:
        """The one that the last round told."""
        return queries.price(self.of_gpu) if self.of_gpu else None

    @property
    def slower(self) -> list[float | None]:
        """How much longer online takes, with the ends of the interval, in percent."""
        told = (self.verdict[name] for name in ("slowdown", "slowdown_low", "slowdown_high"))
        return [None if value is None else 100 * (value - 1) for value in told]


def find(run_id: UUID, user: User) -> Answer | None:
    """None when there is none, or of a GPU in a pool that `user` may not see."""
    run = Run.objects.filter(kind=KIND, pk=run_id).first()
    if run is None:
        return None
    gpu = Gpu.objects.select_related("node__pool").filter(pk=run.arguments["gpu"]).first()
    if gpu and not access.allowed(user, Role.VIEWER, gpu.node.pool):
        return None
    return Answer(run, OfflineJob.objects.filter(pk=run.arguments["job"]).first(), gpu)


# --- what people type ---------------------------------------------------------------------

# Names offered beside the fields; any other may be typed.
SUGGESTED: Final = 100


def suggestions(user: User) -> dict[str, list[str]]:
    """Jobs that wait, the oldest first, and GPUs."""
    jobs = jobs_in_sight(OfflineJob.objects.filter(state=OfflineJob.State.QUEUED), user)
    gpus = in_sight(Gpu.objects.filter(retired_at=None), user, "node__pool")
    return {
        "jobs": list(jobs.order_by("submitted_at").values_list("name", flat=True)[:SUGGESTED]),
        "gpus": [str(gpu) for gpu in gpus.select_related("node").order_by("pk")[:SUGGESTED]],
    }


_GPU_NAME: Final = re.compile(r"(?P<node>.+?)\s*/?\s*(?:GPU)?\s*(?P<index>\d{1,4})", re.IGNORECASE)


def job_named(text: str, user: User) -> OfflineJob:
    """By id, or the newest of that name. Raises Invalid."""
    rows = jobs_in_sight(OfflineJob.objects.filter(state__in=OfflineJob.OPEN), user)
    found = rows.filter(_id_or_name(text.strip())).order_by("-pk").first()
    if found is None:
        raise Invalid(f"No job that waits or runs is called {text.strip()!r}.")
    return found


def _id_or_name(text: str) -> Q:
    try:
        return Q(pk=UUID(text))
    except ValueError:
        return Q(name=text)


def gpu_named(text: str, user: User) -> Gpu:
    """As its name is written: `node-01 / GPU 3`. Raises Invalid."""
    rows = in_sight(Gpu.objects.filter(retired_at=None), user, "node__pool")
    name = _GPU_NAME.fullmatch(text.strip())
    found = name and rows.filter(node__name=name["node"], index=int(name["index"])).first()
    if not found:
        raise Invalid(f"No GPU is called {text.strip()!r}; write it as node-01 / GPU 3.")
    return found
