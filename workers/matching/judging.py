"""Pairs looked at one by one: with their intervals, and at the share that suits them. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from workers.matching import columns, explain, weights
from workers.matching.columns import Floats, Ints
from workers.matching.demand import Demand
from workers.matching.kept_guests import Hosted
from workers.matching.memory import Judged, Memory
from workers.matching.seats import Seats
from workers.prediction.predictor import Judgement, Predictor
from workers.reallocation import shares

# What is remembered of pairs is dropped beyond this, or beyond three rounds' worth.
MOST_JUDGED: Final = 60_000

Key = tuple[int, int, Hashable]


def judge(
    predictor: Predictor,
    memory: Memory,
    seats: Seats,
    demand: Demand,
    seat: Ints,
    job: Ints,
    share_percent: Floats,
) -> list[Judged]:
    """Pair n is seat n with job n at `share_percent[n]`."""
    keys = _keys(memory, seats, demand, seat, job, share_percent.tolist())
    new = _new(memory, keys)
    if len(new):
        load, profile = seats.load[seat[new]], demand.profile[job[new]]
        share = share_percent[new]
        made = predictor.judge(
            seats.online.profiles.take(load),
            demand.profiles.profiles.take(profile),
            share / 100.0,
            seats.online.take(load).gpu_model,
        )
        _remember(memory, [keys[at] for at in new.tolist()], share, made)
    return [memory.judged[key] for key in keys]


def host(
    predictor: Predictor,
    memory: Memory,
    seats: Seats,
    demand: Demand,
    seat: Ints,
    job: Ints,
    share_percent: Floats,
) -> Hosted:
    """As `judge`, of running jobs: what the round before was told holds where nothing changed."""
    load, profile = _numbers(memory, seats, demand, seat, job)
    again = np.zeros(len(seat), bool)
    judged = np.empty(len(seat), object)
    throughput, slowdown = np.empty(len(seat)), np.empty(len(seat))
    if known := memory.guests.recall(demand.rounds, demand.before[job]):
        at, last, _ = known
        again = (at >= 0) & (last.load[at] == load) & (last.profile[at] == profile)
        again &= last.share_percent[at] == share_percent
        judged[again] = last.judged[at[again]]
        throughput[again], slowdown[again] = last.throughput[at[again]], last.slowdown[at[again]]
    new = np.flatnonzero(~again)
    made = judge(predictor, memory, seats, demand, seat[new], job[new], share_percent[new])
    judged[new] = made
    throughput[new] = columns.numbers(made, "throughput")
    slowdown[new] = columns.numbers(made, "slowdown")
    return Hosted(load, profile, share_percent, judged, throughput, slowdown, again)


def choose(
    predictor: Predictor,
    memory: Memory,
    seats: Seats,
    demand: Demand,
    seat: Ints,
    job: Ints,
) -> list[Judged]:
    """Pair n is seat n with job n, at the share that is worth most to the policy."""
    weight = np.fromiter((demand.jobs[at].weight for at in job.tolist()), np.float64, len(job))
    most = seats.most_slowdown[seat]
    wanted = list(zip(weight.tolist(), most.tolist(), strict=True))
    keys = _keys(memory, seats, demand, seat, job, wanted)
    new = _new(memory, keys)
    if len(new):
        load, profile = seats.load[seat[new]], demand.profile[job[new]]

        def worth(throughput: Floats, slowdown: Floats) -> Floats:
            value = weights.worth(throughput, slowdown, weight[new])
            return np.where(weights.forbidden(throughput, slowdown, most[new]), 0.0, value)

        made = shares.best(
            predictor,
            seats.online.profiles.take(load),
            demand.profiles.profiles.take(profile),
            seats.share_percent[seat[new]],
            seats.online.take(load).gpu_model,
            worth,
        )
        _remember(memory, [keys[at] for at in new.tolist()], made.share_percent, made.judgement)
    return [memory.judged[key] for key in keys]


def _keys(
    memory: Memory, seats: Seats, demand: Demand, seat: Ints, job: Ints, wanted: Sequence[Hashable]
) -> list[Key]:
    """What a judgement depends on, the same in every round."""
    load, profile = _numbers(memory, seats, demand, seat, job)
    return list(zip(load.tolist(), profile.tolist(), wanted, strict=True))


def _numbers(
    memory: Memory, seats: Seats, demand: Demand, seat: Ints, job: Ints
) -> tuple[Ints, Ints]:
    """Of the loads and the profiles, the same in every round."""
    number = np.array(columns.codes(demand.profiles.key, memory.profiles), np.int64)
    online = np.array(seats.online.key, np.int64)[seats.load[seat]]
    return online, number[demand.profile[job]]


def _new(memory: Memory, keys: Sequence[Key]) -> Ints:
    """Positions of those that were never judged, each once."""
    if len(memory.judged) > max(MOST_JUDGED, 3 * len(keys)):
        memory.judged.clear()
    new: dict[Key, int] = {}
    for at, key in enumerate(keys):
        if key not in memory.judged:
            new.setdefault(key, at)
    return np.array(list(new.values()), np.int64)


def _remember(memory: Memory, keys: Sequence[Key], share: Floats, made: Judgement) -> None:
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
    told = zip(*(column.tolist() for column in figures), made.source, made.flags, said, strict=True)
    memory.judged.update((key, Judged(*one)) for key, one in zip(keys, told, strict=True))
