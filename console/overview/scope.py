"""Which part of the fleet a page is about: all pools that its reader sees, or one of them that the
address names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q

from console.workloads.wanted_pools import for_pools


@dataclass(frozen=True)
class PoolFacts:
    """One pool: its sharing mode and how many GPUs it has."""

    id: int
    name: str
    mode: str
    gpus: int


@dataclass(frozen=True)
class Scope:
    """One pool, or `seen`, all that somebody sees; `seen` None: the whole fleet."""

    pool: PoolFacts | None = None
    seen: tuple[PoolFacts, ...] | None = None

    def within(self, path: str) -> Q:
        """The condition that `path`, a field that leads to a pool, lies in the scope."""
        if self.pool:
            return Q(**{path: self.pool.id})
        if self.seen is None:
            return Q()
        return Q(**{f"{path}__in": [pool.id for pool in self.seen]})

    def may_come(self) -> Q:
        """The condition that a job may come to the scope."""
        if self.pool:
            return for_pools([self.pool.name])
        return Q() if self.seen is None else for_pools(pool.name for pool in self.seen)

    @property
    def whole(self) -> Scope:
        """All that is seen, whichever pool was chosen."""
        return Scope(seen=self.seen)

    @property
    def name(self) -> str:
        return self.pool.name if self.pool else ""


EVERYWHERE = Scope()


def chosen(name: str, pools: Sequence[PoolFacts], *, sees_all: bool = True) -> Scope:
    """The one of `pools`, those that somebody sees, that the address names, else all of them."""
    seen = None if sees_all else tuple(pools)
    return Scope(next((pool for pool in pools if pool.name == name), None), seen)


def options(pools: Sequence[PoolFacts], *, sees_all: bool = True) -> list[tuple[str, str]]:
    """Values and words of the choice, all of them first."""
    total = sum(pool.gpus for pool in pools)
    every = "All pools" if sees_all else "All pools that you see"
    return [("", f"{every} · {total:,} GPUs")] + [
        (pool.name, f"{pool.name} · {pool.gpus:,} GPUs") for pool in pools
    ]
