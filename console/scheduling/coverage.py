"""Whether xCUDA holds every process of a job, in words. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Coverage:
    """`covered` of the `using` processes that use CUDA are under xCUDA; None: not reported.

    `may_escape`: the policy lets a job run on of which a process escaped.
    """

    covered: int | None
    using: int | None
    may_escape: bool

    @property
    def is_known(self) -> bool:
        return self.covered is not None and self.using is not None

    @property
    def is_whole(self) -> bool:
        """False also while it is not known."""
        return self.covered is not None and self.covered == self.using

    @property
    def tone(self) -> str:
        """For the tag `tone`."""
        if not self.is_known:
            return "unknown"
        return "healthy" if self.is_whole else "busy"

    @property
    def glyph(self) -> str:
        if not self.is_known:
            return "dash"
        return "tick" if self.is_whole else "half"

    @property
    def words(self) -> str:
        """`xCUDA coverage 2 of 2`."""
        if self.covered is None or self.using is None:
            return "xCUDA coverage not reported"
        if not self.using:
            return "No process uses CUDA yet"
        return f"xCUDA coverage {self.covered} of {self.using}"

    @property
    def meaning(self) -> str:
        """What follows for the limits; empty when xCUDA holds them all."""
        if not self.is_known or self.is_whole:
            return ""
        if self.may_escape:
            return "The others run unlimited: the policy allows it, and only MPS bounds them."
        return "The others have no limit of xCUDA, so the node stops the job."


def plausible(told: tuple[int, int] | None, most: int) -> tuple[int | None, int | None]:
    """(covered, using) as a node told them; (None, None) when that cannot be."""
    if told is None or not 0 <= told[0] <= told[1] <= most:
        return None, None
    return told
