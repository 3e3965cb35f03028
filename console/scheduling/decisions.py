"""The sentences of a round: written in bulk, counted, told to jobs, and forgotten in time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

from django.db.models import Count

from console import bulk
from console.scheduling.models import Decision, Round
from console.scheduling.plan import Code, Kind, Placing, Rival, Verdict
from console.workloads.models import OfflineJob

BATCH: Final = 500
# The sentences of older rounds are dropped, their figures stay. Our choice.
KEPT_ROUNDS: Final = 50
OVERTAKEN: Final = (
    "The GPU or the job changed while the round was deciding; the next one looks again."
)

# Verdicts on a GPU together with a job.
PAIRS: Final = (Kind.PLACE, Kind.KEEP, Kind.MOVE)

T = TypeVar("T")


_LONGEST_WHY: Final = 300
_FIELDS: Final = (
    "round_id", "kind", "code", "why", "job_id", "gpu_id", "from_gpu_id", "weight",
    "predicted_throughput", "throughput_low", "throughput_high",
    "predicted_online_slowdown", "slowdown_low", "slowdown_high", "sm_share_percent",
    "flags", "price", "runner_up", "runner_up_loss",
)  # fmt: skip


def write(round: Round, verdicts: Iterable[Verdict], rivals: Mapping[int, Rival]) -> None:
    """`rivals` by GPU id, of pairs."""
    rows = (_row(round.pk, one, _rival_of(one, rivals)) for one in verdicts)
    bulk.write(Decision, _FIELDS, rows)


def _rival_of(verdict: Verdict, rivals: Mapping[int, Rival]) -> Rival | None:
    at = verdict.gpu_id
    return rivals.get(at) if at is not None and verdict.kind in PAIRS else None


def _row(round_id: int, verdict: Verdict, rival: Rival | None) -> bulk.Row:
    return (
        round_id,
        verdict.kind,
        verdict.code,
        _sentence(verdict.why, rival),
        verdict.job_id,
        verdict.gpu_id,
        verdict.from_gpu_id,
        verdict.weight,
        verdict.throughput,
        verdict.throughput_low,
        verdict.throughput_high,
        verdict.slowdown,
        verdict.slowdown_low,
        verdict.slowdown_high,
        verdict.share_percent,
        verdict.flags,
        *((rival.price, rival.name[:200], rival.loss) if rival else (None, "", None)),
    )


def _sentence(why: str, rival: Rival | None) -> str:
    """With who is next best, where there is room for all of it."""
    if rival and len(why) + len(rival.said) < _LONGEST_WHY:
        return f"{why} {rival.said}"
    return why[:_LONGEST_WHY]


def overtaken(round: Round, placings: Sequence[Placing]) -> None:
    """These pairs were not made after all; the GPU stays free, the job waits."""
    rows = Decision.objects.filter(round=round, kind=Decision.Kind.PLACE)
    for ids in _batches([one.job_id for one in placings]):
        rows.filter(job__in=ids).update(kind=Decision.Kind.WAIT, code=Code.OVERTAKEN, why=OVERTAKEN)


def counts(round: Round) -> dict[str, int]:
    """The figures of `Round` that count decisions."""
    found = Decision.objects.filter(round=round).values("kind").annotate(n=Count("pk"))
    by_kind = {row["kind"]: row["n"] for row in found.order_by()}
    return {
        field: by_kind.get(kind, 0)
        for field, kind in (
            ("placed", Decision.Kind.PLACE),
            ("kept", Decision.Kind.KEEP),
            ("moves", Decision.Kind.MOVE),
            ("waiting", Decision.Kind.WAIT),
        )
    }


def tell_jobs(round: Round, verdicts: Sequence[Verdict]) -> None:
    """Write each waiting job's reason on the job, where it differs."""
    by_reason: dict[str, list[UUID]] = defaultdict(list)
    for one in verdicts:
        if one.job_id:
            by_reason[one.why[:200]].append(one.job_id)
    for reason, job_ids in by_reason.items():
        for ids in _batches(job_ids):
            OfflineJob.objects.filter(pk__in=ids, state=OfflineJob.State.QUEUED).exclude(
                wait_reason=reason
            ).update(wait_reason=reason)


def prune(kind: Round.Kind) -> None:
    """Forget the sentences of all but the last rounds of this kind, and all but the last prices."""
    priced = Round.objects.filter(kind=kind, prices__isnull=False)
    if last := priced.order_by("-pk").values_list("pk", flat=True).first():
        priced.filter(pk__lt=last).update(prices=None)
    newest = Round.objects.filter(kind=kind).order_by("-pk").values_list("pk", flat=True)
    edge = newest[KEPT_ROUNDS - 1 : KEPT_ROUNDS].first()
    if edge is not None:
        Decision.objects.filter(round__kind=kind, round__lt=edge).delete()


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]
