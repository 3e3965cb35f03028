"""From slower service to a longer tail of latency: a stated assumption, not a prediction.

An online service takes requests as they come, whether or not it has become slower. With service
times d times as long, a server that was busy for the part u of the time is busy for d·u of it.
Where requests come at random and take a random time (M/M/1), the time in the system is
exponential with the mean S / (1 − u) (Kleinrock, Queueing Systems I, 1975, 3.2), so that every
quantile of it, p99 too, grows by

    p99 ratio = d · (1 − u) / (1 − d·u)        and has no bound from d·u = 1 on.

The band around it: at the lower end requests never wait for each other (a closed loop, or few of
them), and p99 grows by d alone; at the upper end stands the law at the upper end of d. The lower
end is what `make bench-predictor` holds against measured latencies: there the loop is closed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workers.prediction.profiles import Floats


class Tail(NamedTuple):
    """p99 latency over the p99 latency alone, and its band; inf = the service cannot keep up."""

    ratio: Floats
    low: Floats
    high: Floats


def tail(slowdown: Floats, low: Floats, high: Floats, load: Floats) -> Tail:
    """Of service that is `slowdown` times slower (between `low` and `high`), busy alone for `load`
    of the time. A load that is not known (NaN) gives NaN, except for the lower end.
    """
    return Tail(_law(slowdown, load), low, _law(high, load))


def slowdown(ratio: Floats, load: Floats) -> Floats:
    """The slow-down that the law makes a p99 ratio of: p99 ratio / (1 + (p99 ratio − 1) · load)."""
    slower: Floats = ratio / (1.0 + (ratio - 1.0) * load)
    return slower


def _law(slowdown: Floats, load: Floats) -> Floats:
    idle = 1.0 - slowdown * load
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Floats = np.where(idle <= 0.0, np.inf, slowdown * (1.0 - load) / idle)
    return ratio
