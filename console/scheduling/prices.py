"""What a GPU that a running job keeps is to the plan, and no more than that. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from console.figures import quantity


@dataclass(frozen=True)
class Price:
    """`worth`: what the plan would lose without the GPU; a GPU that a job of priority 0 has to
    itself is worth 1. `restarts`: more than its pair is worth stands in the way, since the job
    would have to start again elsewhere, which one that is nearly done never makes good. Nothing is
    gained on the GPU for that, so `worth` is then that of the pair."""

    worth: float
    restarts: bool

    @property
    def sentence(self) -> str:
        lost = f"{quantity(self.worth, '', 2)} of worth, which the plan would lose without it"
        return f"{lost}; and its job would have to start again elsewhere" if self.restarts else lost


def of_kept(price: float | None, worth: float | None) -> Price | None:
    """`worth` of the pair; None: no price is known."""
    if price is None:
        return None
    if worth is None or price <= worth:
        return Price(price, restarts=False)
    return Price(worth, restarts=True)
