"""A matched problem told pair by pair, GPU by GPU, job by job. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import repeat
from operator import attrgetter
from typing import Final
from uuid import UUID

import msgspec
import numpy as np

from console.scheduling.plan import Code, Kind, Move, Placing, Verdict
from workers.matching import explain
from workers.matching.columns import Bools, Ints
from workers.matching.judging import Judge
from workers.matching.kept_guests import Objects, Said
from workers.matching.matched import Matched
from workers.matching.memory import Judged, Memory
from workers.matching.moves import Chain
from workers.matching.weights import SCALE
from workers.matching.why_not import WhyNot
from workers.prediction.predictor import Predictor

_TOLD: Final = (
    "throughput",
    "slowdown",
    "share_percent",
    "throughput_low",
    "throughput_high",
    "slowdown_low",
    "slowdown_high",
    "source",
)
_FIGURES: Final = attrgetter(*_TOLD)


class Story:
    """What is said of `matched`; `predictor` is asked about the pairs that were chosen."""

    def __init__(self, matched: Matched, predictor: Predictor, memory: Memory) -> None:
        self.matched, self.memory = matched, memory
        self.problem, self.deal = matched.problem, matched.deal
        self.seats, self.jobs = self.problem.seats, self.problem.demand.jobs
        self.judge = Judge(predictor, memory, self.seats, self.problem.demand)

    @cached_property
    def _placed(self) -> list[Judged]:
        return self.judge.best(self.deal.placed.seat, self.deal.placed.job)

    @cached_property
    def _moved(self) -> list[Judged]:
        return self.judge.best(self.deal.to, self.problem.guests.job[self.deal.moved])

    @cached_property
    def throughput(self) -> float:
        """Of all that runs or is placed, where the plan puts it; in GPUs."""
        stay = np.delete(self.problem.guests.hosted.throughput, self.deal.moved)
        return float(stay.sum()) + sum(one.throughput for one in (*self._placed, *self._moved))

    def placings(self) -> Iterator[Placing]:
        quota = self.seats.quota_bytes[self.deal.placed.seat].tolist()
        seats, jobs = self.deal.placed.seat.tolist(), self.deal.placed.job.tolist()
        for seat, job, held, one in zip(seats, jobs, quota, self._placed, strict=True):
            yield Placing(
                self.jobs[job].id,
                self.seats.gpus[seat].id,
                one.share_percent,
                int(held),
                one.throughput,
                one.slowdown,
            )

    # --- moves ----------------------------------------------------------------------------

    def moves(self) -> Iterator[Move]:
        for number, chain in enumerate(self.matched.chains, 1):
            for at, guest in enumerate(chain.guests):
                yield self._move(number, chain, at, guest)

    def _move(self, number: int, chain: Chain, at: int, guest: int) -> Move:
        guests, running = self.problem.guests, self.problem.field.guests[guest].running
        now, there = self._speeds(guest, chain.to[at])
        after = chain.guests[at - 1] if at or chain.ring else None
        pays_back_s = self._pays_back_s(chain)
        evidence = {
            "throughput_now": now,
            "throughput_there": there,
            "gain": there - now,
            "least_gain": float(guests.least_gain[guest]),
            "cost_work_s": float(guests.cost_work_s[guest]),
            "left_work_s": running.left_work_s,
        }
        if pays_back_s is not None:
            evidence["pays_back_s"] = pays_back_s
        return Move(
            placement_id=running.placement_id,
            job_id=running.job.id,
            from_gpu_id=running.gpu_id,
            to_gpu_id=self.seats.gpus[chain.to[at]].id,
            gain=there - now,
            cost_work_s=float(guests.cost_work_s[guest]),
            pays_back_s=pays_back_s,
            why=self._why_moved(chain, at, guest),
            evidence={name: round(value, 4) for name, value in evidence.items()},
            chain=number,
            after=self._placement(after),
        )

    def _placement(self, guest: int | None) -> UUID | None:
        return None if guest is None else self.problem.field.guests[guest].running.placement_id

    def _speeds(self, guest: int, seat: int) -> tuple[float, float]:
        """Here and there, by the ruler of the matching."""
        row, own = self.problem.row_of[[seat]], self.problem.own_class[[guest]]
        there = self.problem.throughput(row, own)
        return float(self.problem.guests.throughput[guest]), float(there[0])

    def _pays_back_s(self, chain: Chain) -> float | None:
        """World time until a chain's jobs are as far as they would have been without it."""
        speeds = [self._speeds(*one) for one in zip(chain.guests, chain.to, strict=True)]
        gain = sum(there - now for now, there in speeds)
        cost = self.problem.guests.cost_work_s[np.array(chain.guests)].sum()
        return float(cost / gain) if gain > 0.0 else None

    def _why_moved(self, chain: Chain, at: int, guest: int) -> str:
        running = self.problem.field.guests[guest]
        names = running.gpu.name, self.seats.gpus[chain.to[at]].name
        pays_back_s = self._pays_back_s(chain)
        said = [explain.moved(names, *self._speeds(guest, chain.to[at]), pays_back_s)]
        if len(chain.guests) > 1:
            said.append(explain.chained(len(chain.guests)))
        if chain.follower is not None and at == len(chain.guests) - 1:
            said.append(explain.makes_room(self.jobs[chain.follower].name))
        return " ".join(said)

    # --- verdicts -------------------------------------------------------------------------

    def verdicts(self) -> Iterator[Verdict]:
        """One for each pair, then one for each GPU and each job that is left. Who is next best on a
        GPU is told apart from them (`rivals`)."""
        yield from self._pairs()
        yield from self._stays()
        yield from self._moves()
        yield from self._follows()
        why_not = WhyNot(self.matched)
        yield from why_not.unused()
        yield from why_not.waiting()
        for gpu, shut in self.problem.field.closed:
            yield Verdict(Kind.UNUSED, shut.code, shut.why, gpu_id=gpu.id)
        for job, out in self.problem.field.out:
            yield Verdict(Kind.WAIT, out.code, out.why, job_id=job.id)

    def _pairs(self) -> Iterator[Verdict]:
        seats, jobs = self.deal.placed.seat, self.deal.placed.job
        row, job_class = self.problem.row_of[seats], self.problem.demand.job_class[jobs]
        worths = self.problem.worth[row, job_class].tolist()
        for seat, job, one, worth in zip(
            seats.tolist(), jobs.tolist(), self._placed, worths, strict=True
        ):
            yield self._pair(Kind.PLACE, Code.BEST, one.said, seat, job, one, worth)

    def _stays(self) -> Iterator[Verdict]:
        """Running jobs that stay where they are, whether or not they might have moved.

        There are as many of these as there are GPUs, in every round: so they are told column by
        column.
        """
        guests, memory = self.problem.guests, self.memory
        gpus = self.seats.gpu_id[guests.seat]
        fixed, why = self._why_kept()
        verdict = np.empty(len(gpus), object)
        new = np.ones(len(gpus), bool)
        demand = self.problem.demand
        if known := memory.guests.recall(demand.rounds, demand.before[guests.job]):
            at, _, last = known
            same = guests.hosted.again & (last.gpu[at] == gpus) & (last.worth[at] == guests.worth)
            same &= (last.why[at] == why) & last.stays[at]
            verdict[same], new = last.verdict[at[same]], ~same
        stays = np.ones(len(gpus), bool)
        stays[self.deal.moved] = False
        some = np.flatnonzero(new & stays)
        verdict[some] = list(self._stay(some, gpus[some], fixed[some], why[some]))
        said = Said(gpus, guests.worth, why, stays, verdict)
        memory.guests.keep(demand.rounds, len(self.problem.field.waiting), guests.hosted, said)
        yield from verdict[stays].tolist()

    def _stay(self, some: Ints, gpus: Ints, fixed: Bools, why: Objects) -> Iterator[Verdict]:
        """Of the guests `some`, column by column, since in a first round they are all of them."""
        guests = self.problem.guests
        judged = guests.hosted.judged[some].tolist()
        figures = zip(*map(_FIGURES, judged), strict=True) if judged else [()] * len(_TOLD)
        speed, slower, share, low, high, least, most, source = figures
        codes = [Code.FIXED if one else Code.KEPT for one in fixed.tolist()]
        said = [f"{one.said} {because}" for one, because in zip(judged, why, strict=True)]
        jobs = [self.jobs[job].id for job in guests.job[some].tolist()]
        worth = (guests.worth[some] / SCALE).tolist()
        flags = [(one.flags,) if one.flags else () for one in judged]
        kind, nobody = repeat(Kind.KEEP), repeat(None)
        head = kind, codes, said, jobs, gpus.tolist(), nobody, worth
        yield from map(Verdict, *head, speed, slower, share, low, high, least, most, source, flags)

    def _why_kept(self) -> tuple[Bools, Objects]:
        """Of each guest: whether it may not move, and why it stays."""
        field, trimmed = self.problem.field, self.matched.trimmed
        percent = np.rint(100.0 * self.problem.guests.least_gain)
        gain, which = np.unique(percent, return_inverse=True)
        why = np.array([explain.kept(one) for one in (gain / 100.0).tolist()], object)[which]
        fixed = np.arange(len(which)) >= field.moving
        fixed[trimmed] = True
        why[field.moving :] = [explain.fixed(one.stays) for one in field.guests[field.moving :]]
        for at in trimmed.tolist():
            pool = field.guests[at].gpu.pool
            why[at] = explain.fixed(explain.trimmed(pool in field.moves_open))
        return fixed, why

    def _moves(self) -> Iterator[Verdict]:
        guests = self.deal.moved
        judged = dict(zip(guests.tolist(), self._moved, strict=True))
        row, own = self.problem.row_of[self.deal.to], self.problem.own_class[guests]
        place = {guest: at for at, guest in enumerate(guests.tolist())}
        for chain in self.matched.chains:
            for at, (guest, seat) in enumerate(zip(chain.guests, chain.to, strict=True)):
                said, job = self._why_moved(chain, at, guest), int(self.problem.guests.job[guest])
                one = judged[guest]
                to = place[guest]
                worth = int(self.problem.worth[row[to], own[to]])
                made = self._pair(Kind.MOVE, Code.MOVE, said, seat, job, one, worth)
                here = self.problem.field.guests[guest].gpu.id
                yield msgspec.structs.replace(made, from_gpu_id=here)

    def _follows(self) -> Iterator[Verdict]:
        """Jobs that would have GPUs which moves of the plan empty."""
        following = self.deal.following
        for seat, job in zip(following.seat.tolist(), following.job.tolist(), strict=True):
            guest = self.problem.field.guests[seat - len(self.problem.field.free)]
            why = explain.follows(guest.gpu.name, guest.running.job.name)
            yield Verdict(Kind.WAIT, Code.FOLLOWS, why, job_id=self.jobs[job].id)

    def _pair(
        self,
        kind: Kind,
        code: Code,
        said: str,
        seat: int,
        job: int,
        one: Judged,
        worth: int,
    ) -> Verdict:
        return Verdict(  # by place: by name it takes three times as long
            kind,
            code,
            said,
            self.jobs[job].id,
            self.seats.gpus[seat].id,
            None,
            worth / SCALE,
            one.throughput,
            one.slowdown,
            one.share_percent,
            one.throughput_low,
            one.throughput_high,
            one.slowdown_low,
            one.slowdown_high,
            one.source,
            (one.flags,) if one.flags else (),
        )
