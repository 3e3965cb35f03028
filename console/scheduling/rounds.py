"""One round: read, decide, write. Whoever holds the lease decides; the database settles races.

The decision itself is handed in: it is pure and needs the solver, which only workers have.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from agents.wire.ids import uuid7
from agents.wire.names import SharingMode
from console.announce import announce
from console.audit.services import record, system
from console.errors import SomebodyWasFirst, Unavailable
from console.inventory import nodes
from console.inventory.models import Gpu
from console.runs import leases
from console.scheduling import avoid, calls, decisions, move_plans, placing, reading
from console.scheduling.calls import Call
from console.scheduling.models import Round
from console.scheduling.plan import Decide, Kind, Plan
from console.scheduling.snapshot import Snapshot
from console.telemetry import live_store

log = logging.getLogger(__name__)

MATCHING: Final = system("matching")
# Longer than any phase; a worker that dies holds up the next round for no longer.
LEASE_S: Final = 30.0


def run_round(
    kind: Round.Kind, call: Call, now: datetime, holder: str, decide: Decide
) -> Round | None:
    """The round, SKIPPED where `call` came to nothing; None when no GPU has this sharing mode.

    Raises what `decide` or the database raise; the round is FAILED then, with the reason.
    """
    if not reading.has_gpus(SharingMode(kind)):
        return None
    lease = f"round.{kind}"
    fence = leases.acquire(lease, holder, LEASE_S, now)
    if fence is None:
        return calls.skip(kind, call, calls.why_overlapping(kind), now)
    try:
        if why := calls.why_void(kind, call, now):
            return calls.skip(kind, call, why, now)
        return _Round(kind, call, now, holder, fence, decide).run()
    finally:
        leases.release(lease, holder, fence)


def last_prices(kind: Round.Kind | str) -> Mapping[str, int]:
    """By job class, what the last round that proved its plan ended with; empty: begin cold."""
    rows = Round.objects.filter(kind=kind, prices__isnull=False).order_by("-pk")
    return rows.values_list("prices", flat=True).first() or {}


class _Round:
    """A round under way. Time passes from `now` by the monotonic clock."""

    def __init__(
        self,
        kind: Round.Kind,
        call: Call,
        now: datetime,
        holder: str,
        fence: int,
        decide: Decide,
    ) -> None:
        self.kind, self.call, self.now = kind, call, now
        self.holder, self.fence, self.decide = holder, fence, decide
        self.began = time.monotonic()

    @property
    def moment(self) -> datetime:
        return self.now + timedelta(seconds=time.monotonic() - self.began)

    def run(self) -> Round:
        _give_up_on_dead(self.kind, self.now)
        row = self._begin()
        try:
            snapshot = self._read(row)
            read_s = _since(self.began)
            plan = self.decide(snapshot)
            plan = replace(plan, seconds={"read": read_s, **plan.seconds})
            self._write(row, snapshot, plan)
        except Exception as error:
            Round.objects.filter(pk=row.pk, state=Round.State.RUNNING).update(
                state=Round.State.FAILED, finished_at=self.moment, error=str(error)[:2_000]
            )
            raise
        decisions.prune(self.kind)
        avoid.prune(self.moment)
        row.refresh_from_db()
        return row

    def _begin(self) -> Round:
        last = Round.objects.filter(kind=self.kind, state=Round.State.DONE).order_by("-pk").first()
        return Round.objects.create(
            kind=self.kind,
            trigger=self.call.trigger,
            call_id=self.call.id,
            fence=self.fence,
            snapshot_id=uuid7(),
            started_at=self.now,
            previous_objective=last.objective if last else None,
        )

    def _read(self, row: Round) -> Snapshot:
        snapshot = reading.read(SharingMode(self.kind), live(), self.now)
        jobs = len(snapshot.jobs) + len(snapshot.running)
        Round.objects.filter(pk=row.pk).update(gpus=len(snapshot.gpus), jobs=jobs)
        return snapshot

    def _write(self, row: Round, snapshot: Snapshot, plan: Plan) -> None:
        """The sentences first, in their own time; then what happens, whole or not at all."""
        self._keep_lease()
        began = time.monotonic()
        rivals = plan.rivals()
        plan = replace(plan, seconds={**plan.seconds, "rivals": _since(began)})
        began = time.monotonic()
        decisions.write(row, plan.verdicts, rivals)
        with transaction.atomic():
            self._keep_lease()
            if self.kind == Round.Kind.ENFORCE:
                self._act(row, snapshot, plan)
            self._finish(row, plan, write_s=_since(began))

    def _keep_lease(self) -> None:
        """Raises SomebodyWasFirst when another worker took over meanwhile."""
        lease = f"round.{self.kind}"
        if leases.acquire(lease, self.holder, LEASE_S, self.moment) != self.fence:
            raise SomebodyWasFirst("The round took so long that another worker took its lease.")

    def _act(self, row: Round, snapshot: Snapshot, plan: Plan) -> None:
        placed, overtaken = placing.place(row, plan.placings, self.moment)
        decisions.overtaken(row, overtaken)
        moves = move_plans.propose(row, plan.moves, self.moment)
        gpus = Gpu.objects.filter(pk__in=[one.gpu_id for one in placed])
        nodes.touch(gpus.values_list("node_id", flat=True), self.moment)
        if placed or moves:
            now = self.moment
            record(MATCHING, "round.decide", row, now=now, placed=len(placed), moves=moves)

    def _finish(self, row: Round, plan: Plan, write_s: float) -> None:
        done = Round.objects.filter(pk=row.pk, state=Round.State.RUNNING).update(
            state=Round.State.DONE,
            finished_at=self.moment,
            predicted_gpus=plan.throughput,
            objective=plan.objective,
            upper_bound=plan.upper_bound,
            pairs=plan.pairs,
            predictor=plan.predictor[:120],
            certified_s=plan.seconds.get("prove"),
            warm=plan.inputs.get("warm"),
            late=plan.late,
            prices=dict(plan.prices) or None,
            inputs=dict(plan.inputs),
            seconds={**plan.seconds, "write": write_s},
            **decisions.counts(row),
        )
        if not done:
            raise SomebodyWasFirst("The round was given up as dead meanwhile.")
        decisions.tell_jobs(row, plan.of(Kind.WAIT))
        announce("rounds", id=row.pk)


def _since(began: float) -> float:
    """Seconds by the monotonic clock."""
    return round(time.monotonic() - began, 4)


def live() -> reading.Live:
    """Without Redis there is no live data: a value of its own, which keeps those GPUs closed."""
    try:
        return live_store.read()
    except Unavailable as error:
        log.warning("%s", error)
        return {}


def _give_up_on_dead(kind: Round.Kind, now: datetime) -> None:
    """A round that still runs while we hold its lease has lost its worker."""
    Round.objects.filter(kind=kind, state=Round.State.RUNNING).update(
        state=Round.State.FAILED,
        finished_at=now,
        error="Its worker ended before the round did; nothing was placed.",
    )
