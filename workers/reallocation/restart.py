"""Whether a restart for a larger share pays back. Pure.

A job that runs at a of its speed alone and would run at b with the larger share gains

    gain  = (b − a) · w                      GPUs, w = the job's weight
    cost  = unsaved work + restart · a       work lost, and work not done meanwhile

and is as far as without the restart after cost / (b − a).

It is restarted when the gain is at least what the policy asks of a move, and the cost comes back
`PAY_BACK` times before the job is done, or within `HORIZON_S`: further ahead nothing is foretold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from console.figures import quantity, span
from console.scheduling.limits import Limits
from console.scheduling.snapshot import Rules, RunningFacts

PAY_BACK: Final = 2.0
# As far as forecasts look. World seconds.
HORIZON_S: Final = 3_600.0


@dataclass(frozen=True)
class Restart:
    """Of a job at `now` of its speed alone, for one at `then`."""

    running: RunningFacts
    rules: Rules
    now: float
    then: float

    @property
    def gain(self) -> float:
        return (self.then - self.now) * self.running.job.weight

    @property
    def cost_work_s(self) -> float:
        return self.running.unsaved_work_s + self.rules.restart_s * self.now

    @property
    def pays_back_s(self) -> float | None:
        """World seconds; None: never."""
        faster = self.then - self.now
        return self.cost_work_s / faster if faster > 0 else None

    @property
    def left_s(self) -> float:
        """How long the job goes on at the higher speed."""
        left_work_s = self.running.left_work_s + self.running.unsaved_work_s
        return left_work_s / max(self.then, 1e-3)

    @property
    def pays(self) -> bool:
        within_s = min(HORIZON_S, self.left_s)
        return (
            self.pays_back_s is not None
            and self.gain >= self.rules.move_min_gain
            and PAY_BACK * self.pays_back_s <= within_s
        )

    @property
    def why(self) -> str:
        """What it would be worth, in words."""
        if self.pays_back_s is None:
            return "A restart now would gain nothing."
        gained = f"A restart now would gain ≈ {quantity(self.gain, 'GPU', 2)}"
        if self.gain < self.rules.move_min_gain:
            return f"{gained}; the policy asks for {self.rules.move_min_gain:g}."
        back = f"{gained} and be paid back after ≈ {span(self.pays_back_s)}"
        return f"{back}." if self.pays else f"{back}, which must fit twice into {self._within}."

    @property
    def _within(self) -> str:
        if self.left_s < HORIZON_S:
            return f"the ≈ {span(self.left_s)} of work left"
        return "the hour that is foretold"

    def evidence(self, limits: Limits) -> dict[str, float]:
        figures = {
            "throughput_now": self.now,
            "throughput_there": self.then,
            "gain": self.gain,
            "cost_work_s": self.cost_work_s,
            "pays_back_s": self.pays_back_s or 0.0,
            "left_work_s": self.running.left_work_s,
            "share_now_percent": limits.started or 0.0,
            "share_then_percent": limits.desired,
        }
        return {name: round(value, 4) for name, value in figures.items()}
