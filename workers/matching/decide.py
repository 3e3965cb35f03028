"""One round, from what was seen to what is decided. Pure; the clock only times its phases."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from console.scheduling.plan import Plan
from console.scheduling.snapshot import Snapshot
from workers.matching import late
from workers.matching.admission import admit
from workers.matching.market import OutOfTime
from workers.matching.matched import Matched, match
from workers.matching.memory import Memory
from workers.matching.problem import problem_of
from workers.matching.rivals import rivals
from workers.matching.story import Story
from workers.matching.uncollected import uncollected
from workers.matching.weights import SCALE
from workers.prediction.analytic import Analytic
from workers.prediction.predictor import Predictor

# A round that takes longer decides about a fleet that is no longer there. Our choice.
BUDGET_S: Final = 20.0
COLD: Final = Analytic()


@dataclass
class _Watch:
    """Seconds by phase, and what is left of the budget."""

    clock: Callable[[], float]
    ends: float
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Raises OutOfTime when the budget is spent before the phase begins."""
        began = self.clock()
        if began >= self.ends:
            raise OutOfTime(f"no time was left to {name}")
        try:
            yield
        finally:
            self.seconds[name] += self.clock() - began

    def left_s(self) -> float:
        return max(0.0, self.ends - self.clock())


@uncollected()
def decide(
    snapshot: Snapshot,
    predictor: Predictor = COLD,
    last: Memory | None = None,
    *,
    clock: Callable[[], float] = time.perf_counter,
    budget_s: float = BUDGET_S,
) -> Plan:
    """Match waiting and running jobs with open GPUs for the most that they are worth together.

    A running job whose GPU changes is a move, one that waits and gets a free GPU a placing; a
    running job is never left without a GPU. `last` is what the round before has left, and takes
    what this one leaves; without it everything is worked out anew, for a plan as good. When
    `budget_s` is spent before the best plan is proven, what runs stays and nothing else is done.
    """
    memory = Memory() if last is None else last
    watch = _Watch(clock, clock() + budget_s)
    admitted = admit(snapshot, memory)
    try:
        with watch.phase("score"):
            problem = problem_of(admitted, snapshot, predictor, memory)
        warm = bool(memory.prices)
        matched = match(problem, snapshot.restarts_left, memory.prices, watch)
        memory.prices = matched.prices
        with watch.phase("explain"):
            story = Story(matched, predictor, memory)
            placings, moves = tuple(story.placings()), tuple(story.moves())
            verdicts = tuple(story.verdicts())
    except OutOfTime:
        return late.plan(admitted, predictor.name, watch.seconds)
    return Plan(
        placings=placings,
        moves=moves,
        verdicts=verdicts,
        throughput=story.throughput,
        objective=matched.value / SCALE,
        upper_bound=(matched.value + matched.proof.gap) / SCALE,
        pairs=problem.pairs,
        inputs=_inputs(matched, predictor.name, warm),
        seconds={name: round(seconds, 4) for name, seconds in watch.seconds.items()},
        predictor=predictor.name,
        prices=matched.prices,
        rivals=partial(rivals, matched),
    )


def matched_as(
    snapshot: Snapshot, predictor: Predictor, memory: Memory, budget_s: float = BUDGET_S
) -> Matched:
    """The market that `decide` would tell of, for questions about it. Raises OutOfTime."""
    watch = _Watch(time.perf_counter, time.perf_counter() + budget_s)
    problem = problem_of(admit(snapshot, memory), snapshot, predictor, memory)
    return match(problem, snapshot.restarts_left, memory.prices, watch)


def _inputs(matched: Matched, predictor: str, warm: bool) -> dict[str, Any]:
    problem = matched.problem
    return {
        "gpus_open": len(problem.field.free),
        "gpus_running": len(problem.field.guests),
        "jobs_waiting": len(problem.field.waiting),
        "jobs_movable": problem.field.moving,
        "gpu_rows": len(problem.rows),
        "job_classes": len(problem.classes),
        "moves_trimmed": len(matched.trimmed),
        "predictor": predictor,
        "route": matched.solution.route,
        "warm": warm,
    }
