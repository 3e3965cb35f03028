"""Which part of the fleet a page is about: all pools, or one that the address names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q


@dataclass(frozen=True)
class PoolFacts:
    """One pool: its sharing mode and how many GPUs it has."""

    id: int
    name: str
    mode: str
    gpus: int


@dataclass(frozen=True)
class Scope:
    """`pool` is None for the whole fleet."""

    pool: PoolFacts | None = None

    def within(self, path: str) -> Q:
        """The condition that `path`, a field that leads to a pool, lies in the scope."""
        return Q(**{path: self.pool.id}) if self.pool else Q()

    @property
    def name(self) -> str:
        return self.pool.name if self.pool else ""


EVERYWHERE = Scope()


def chosen(name: str, pools: Sequence[PoolFacts]) -> Scope:
    """The pool that the address names, else all of them."""
    return Scope(next((pool for pool in pools if pool.name == name), None))


def options(pools: Sequence[PoolFacts]) -> list[tuple[str, str]]:
    """Values and words of the choice, the whole fleet first."""
    total = sum(pool.gpus for pool in pools)
    return [("", f"All pools · {total:,} GPUs")] + [
        (pool.name, f"{pool.name} · {pool.gpus:,} GPUs") for pool in pools
    ]
