"""Whether the version in force still predicts what is observed. Pure.

The newest observations that it was not trained on are predicted with it. It drifts when their mean
error is above `FACTOR` times its hold-out error, and above that by more than `LEAST` as well:
below, a difference costs nothing.
"""

from __future__ import annotations

from typing import Final

# Our choices. The newest observations that are looked at, and the fewest that say something.
NEWEST: Final = 200
FEWEST: Final = 50
FACTOR: Final = 1.5
LEAST: Final = 0.02


def threshold(held_out_mae: float) -> float:
    """The error from which on it drifts."""
    return max(FACTOR * held_out_mae, held_out_mae + LEAST)


def has_drifted(recent_mae: float, observations: int, held_out_mae: float | None) -> bool:
    """False while too little is known; what was never held out (the estimate) never drifts."""
    if held_out_mae is None or observations < FEWEST:
        return False
    return recent_mae > threshold(held_out_mae)
