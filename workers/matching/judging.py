"""Pairs looked at one by one: with their intervals, and at the share that suits them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from workers.matching import columns, explain, weights
from workers.matching.columns import Floats, Ints
from workers.matching.demand import Demand
from workers.matching.kept_guests import Hosted
from workers.matching.memory import Judged, Memory
from workers.matching.seats import Seats
from workers.prediction.predictor import Judgement, Predictor
from workers.prediction.profiles import Profiles
from workers.reallocation import shares

# What is remembered of pairs is dropped beyond this, or beyond three rounds' worth.
MOST_JUDGED: Final = 60_000

Key = tuple[int, int, Hashable]


@dataclass(frozen=True)
class Judge:
    """Asks `predictor` about seats with jobs, and remembers what it said in `memory`."""

    predictor: Predictor
    memory: Memory
    seats: Seats
    demand: Demand

    def at(self, seat: Ints, job: Ints, share_percent: Floats) -> list[Judged]:
        """Pair n is seat n with job n at `share_percent[n]`."""
        keys = self._keys(seat, job, share_percent.tolist())
        new = self._new(keys)
        if len(new):
            online, jobs, gpu_model = self._facts(seat[new], job[new])
            share = share_percent[new]
            made = self.predictor.judge(online, jobs, share / 100.0, gpu_model)
            self._remember([keys[at] for at in new.tolist()], share, made)
        return [self.memory.judged[key] for key in keys]

    def best(self, seat: Ints, job: Ints) -> list[Judged]:
        """Pair n is seat n with job n, at the share that is worth most to the policy."""
        weight, most = self.demand.weight[job], self.seats.most_slowdown[seat]
        keys = self._keys(seat, job, list(zip(weight.tolist(), most.tolist(), strict=True)))
        new = self._new(keys)
        if len(new):
            online, jobs, gpu_model = self._facts(seat[new], job[new])
            left, worth = self.seats.share_percent[seat[new]], _worth(weight[new], most[new])
            made = shares.best(self.predictor, online, jobs, left, gpu_model, worth)
            chosen = [keys[at] for at in new.tolist()]
            self._remember(chosen, made.share_percent, made.judgement)
        return [self.memory.judged[key] for key in keys]

    def hosted(self, seat: Ints, job: Ints, share_percent: Floats) -> Hosted:
        """As `at`, of running jobs: what the round before was told holds where nothing changed."""
        load, profile = self._numbers(seat, job)
        again = np.zeros(len(seat), bool)
        judged = np.empty(len(seat), object)
        throughput, slowdown = np.empty(len(seat)), np.empty(len(seat))
        if known := self.memory.guests.recall(self.demand.rounds, self.demand.before[job]):
            at, last, _ = known
            again = (at >= 0) & (last.load[at] == load) & (last.profile[at] == profile)
            again &= last.share_percent[at] == share_percent
            judged[again] = last.judged[at[again]]
            throughput[again] = last.throughput[at[again]]
            slowdown[again] = last.slowdown[at[again]]
        new = np.flatnonzero(~again)
        made = self.at(seat[new], job[new], share_percent[new])
        judged[new] = made
        throughput[new] = columns.numbers(made, "throughput")
        slowdown[new] = columns.numbers(made, "slowdown")
        return Hosted(load, profile, share_percent, judged, throughput, slowdown, again)

    def _facts(self, seat: Ints, job: Ints) -> tuple[Profiles, Profiles, tuple[str, ...]]:
        online, jobs = self.seats.online, self.demand.profiles
        load, profile = self.seats.load[seat], self.demand.profile[job]
        return (
            online.profiles.take(load),
            jobs.profiles.take(profile),
            online.take(load).gpu_model,
        )

    def _keys(self, seat: Ints, job: Ints, wanted: Sequence[Hashable]) -> list[Key]:
        """What a judgement depends on, the same in every round."""
        load, profile = self._numbers(seat, job)
        return list(zip(load.tolist(), profile.tolist(), wanted, strict=True))

    def _numbers(self, seat: Ints, job: Ints) -> tuple[Ints, Ints]:
        """Of the loads and the profiles, the same in every round."""
        profiles = columns.codes(self.demand.profiles.key, self.memory.profiles)
        online = np.array(self.seats.online.key, np.int64)[self.seats.load[seat]]
        return online, np.array(profiles, np.int64)[self.demand.profile[job]]

    def _new(self, keys: Sequence[Key]) -> Ints:
        """Positions of those that were never judged, each once."""
        known = self.memory.judged
        if len(known) > max(MOST_JUDGED, 3 * len(keys)):
            known.clear()
        new: dict[Key, int] = {}
        for at, key in enumerate(keys):
            if key not in known:
                new.setdefault(key, at)
        return np.array(list(new.values()), np.int64)

    def _remember(self, keys: Sequence[Key], share: Floats, made: Judgement) -> None:
        figures = (
            share,
            made.throughput,
            made.throughput_low,
            made.throughput_high,
            made.slowdown,
            made.slowdown_low,
            made.slowdown_high,
        )
        said = explain.pairs(share, made)
        numbers = (column.tolist() for column in figures)
        told = zip(*numbers, made.source, made.flags, said, strict=True)
        self.memory.judged.update((key, Judged(*one)) for key, one in zip(keys, told, strict=True))


def _worth(weight: Floats, most_slowdown: Floats) -> Callable[[Floats, Floats], Floats]:
    """What a pair is worth to the policy, by its throughput and slowdown; 0 where forbidden."""

    def worth(throughput: Floats, slowdown: Floats) -> Floats:
        value = weights.worth(throughput, slowdown, weight)
        return np.where(weights.forbidden(throughput, slowdown, most_slowdown), 0.0, value)

    return worth
