"""The plan of a round that ran out of time: what runs stays, and nothing else is done. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from console.scheduling.plan import Code, Kind, Plan, Verdict
from workers.matching.admission import Field

WHY: Final = "The round ran out of time before its plan was proven; the next one looks again."


def plan(field: Field, predictor: str, seconds: Mapping[str, float]) -> Plan:
    return Plan(
        placings=(),
        moves=(),
        verdicts=tuple(_verdicts(field)),
        throughput=0.0,
        objective=0.0,
        upper_bound=None,
        pairs=0,
        inputs={"gpus_open": len(field.free), "jobs_waiting": len(field.waiting)},
        seconds=dict(seconds),
        late=True,
        predictor=predictor,
    )


def _verdicts(field: Field) -> Iterator[Verdict]:
    for guest in field.guests:
        job_id, share = guest.running.job.id, guest.running.share_percent
        yield Verdict(Kind.KEEP, Code.LATE, WHY, job_id, guest.gpu.id, share_percent=share)
    for gpu in field.free:
        yield Verdict(Kind.UNUSED, Code.LATE, WHY, gpu_id=gpu.id)
    for job in field.waiting:
        yield Verdict(Kind.WAIT, Code.LATE, WHY, job_id=job.id)
    for gpu, shut in field.closed:
        yield Verdict(Kind.UNUSED, shut.code, shut.why, gpu_id=gpu.id)
    for job, out in field.out:
        yield Verdict(Kind.WAIT, out.code, out.why, job_id=job.id)
