"""What the network sees of each side, and how far what it has seen reaches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workers.prediction import domain
from workers.prediction.profiles import QUANTITIES, Floats, Profiles

Mask: TypeAlias = NDArray[np.bool_]

# A value is out of range beyond what was learnt from by this part of its range, and this much
# more: tenths of a card, or of a power of ten for a time. Our choice.
MARGIN: Final = 0.1
SLACK: Final = 0.1
STEP: Final = QUANTITIES.index("step_s")
FEATURES: Final = (
    *("log10 step_s" if name == "step_s" else name for name in QUANTITIES),
    *(f"{name} is missing" for name in QUANTITIES),
)


class Side(NamedTuple):
    """What was seen of one side of the pairs, for each of the quantities: the `fill` that stands
    for a missing value, the `low` and `high` ends, and whether it was ever `known` or `missing`.
    """

    fill: Floats
    low: Floats
    high: Floats
    known: Mask
    missing: Mask

    @classmethod
    def of(cls, profiles: Profiles) -> Side:
        seen = _columns(profiles)
        known = np.isfinite(seen)
        count = np.maximum(known.sum(0), 1)
        return cls(
            np.where(known, seen, 0.0).sum(0) / count,
            np.where(known, seen, np.inf).min(0, initial=np.inf),
            np.where(known, seen, -np.inf).max(0, initial=-np.inf),
            np.asarray(known.any(0)),
            np.asarray(~known.all(0)),
        )

    def matrix(self, profiles: Profiles) -> Floats:
        """[n, features], finite for any profile; a quantity never known is not looked at."""
        seen = np.where(self.known, _columns(profiles), np.nan)
        known = np.isfinite(seen)
        low, high = self._ends()
        kept = np.clip(np.where(known, seen, self.fill), low, high)
        return np.concatenate([kept, ~known], axis=1, dtype=np.float64)

    def strange(self, profiles: Profiles) -> tuple[str, ...]:
        """Why each profile cannot be, or is unlike all that was learnt from; "" if it is not."""
        why = [[said] if said else [] for said in domain.impossible(profiles)]
        for said, unlike in self._doubts(_columns(profiles)):
            for at in np.flatnonzero(unlike).tolist():
                why[at].append(said)
        return tuple("; ".join(one) for one in why)

    def _doubts(self, seen: Floats) -> Iterator[tuple[str, Mask]]:
        low, high = self._ends()
        for at in np.flatnonzero(self.known).tolist():
            word, column = domain.WORDS[QUANTITIES[at]], seen[:, at]
            yield f"{word} is below all that was learnt from", column < low[at]
            yield f"{word} is above all that was learnt from", column > high[at]
            if not self.missing[at]:
                yield f"{word} is not known, as it was wherever it was learnt", np.isnan(column)

    def _ends(self) -> tuple[Floats, Floats]:
        with np.errstate(invalid="ignore"):
            span = np.where(self.known, self.high - self.low, 0.0)
        room = MARGIN * span + SLACK
        return (
            np.where(self.known, self.low - room, self.fill),
            np.where(self.known, self.high + room, self.fill),
        )


def _columns(profiles: Profiles) -> Floats:
    """[n, quantities], step times as powers of ten, whatever is no number missing."""
    columns = np.stack([getattr(profiles, name) for name in QUANTITIES], axis=1)
    steps = columns[:, STEP]
    columns[:, STEP] = np.log10(np.where(steps > 0.0, steps, np.nan))
    return np.where(np.isfinite(columns), columns, np.nan)
