"""The moves of a round as a person decides on them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from console.accounts import access
from console.accounts.models import Role, User
from console.evictions.lifecycle import UNDER_WAY, State
from console.evictions.models import Eviction
from console.scheduling import move_plans
from console.scheduling.models import MovePlan


@dataclass(frozen=True)
class PlanPage:
    """A plan, and those of its moves that `user` sees; `hidden` are in pools that they do not."""

    plan: MovePlan
    moves: list[Eviction]
    hidden: int
    user: User

    @cached_property
    def waiting(self) -> list[Eviction]:
        return [move for move in self.moves if move.state == State.PROPOSED]

    @property
    def is_open(self) -> bool:
        return self.plan.state == MovePlan.State.PROPOSED and bool(self.waiting or self.hidden)

    @property
    def is_under_way(self) -> bool:
        return any(move.state in (State.APPROVED, *UNDER_WAY) for move in self.moves)

    @property
    def why_closed(self) -> str:
        """Why `user` cannot decide on it; empty when they can."""
        if self.hidden:
            return "Some of its moves are in pools that you do not see"
        pools = {move.gpu.node.pool for move in self.waiting}
        barred = [pool for pool in pools if not access.allowed(self.user, Role.APPROVER, pool)]
        return access.missing(Role.APPROVER, barred[0]) if barred else ""

    @property
    def gain(self) -> float:
        """In GPUs, of the moves that wait, or of all once it is decided."""
        return self._sum("gain")

    @property
    def cost_work_s(self) -> float:
        return self._sum("cost_work_s")

    def _sum(self, name: str) -> float:
        return sum(float(move.evidence.get(name, 0)) for move in self.waiting or self.moves)

    @property
    def rows(self) -> list[tuple[Eviction, bool]]:
        """Each move, and whether it only makes sense together with another one."""
        chains = Counter(map(move_plans.chain_of, self.moves))
        return [(move, chains[move_plans.chain_of(move)] > 1) for move in self.moves]
