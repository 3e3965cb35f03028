"""What pairs, waiting and staying are worth. All formulas of the matching in one place. Pure.

All in GPUs, that is, in throughput of one whole GPU at priority 0; in the market in whole
millionths of them (`SCALE`), so that a plan is proven optimal with a gap of exactly zero.

A pair of job j with a GPU, predicted to run at t of its speed alone and to make online d times
slower (1 = not at all), where w_j = 1.25^priority:

    worth   = w_j · t − ONLINE_COST · (1 − 1/d)           online loses 1 − 1/d of its speed

It may not be made when d is above the policy's bound, when t is below LEAST_THROUGHPUT, or when
its worth is 0 or less.

A job that has waited for h hours is worth more, up to a bound, so that it is not passed over for
ever, and old jobs do not outweigh everything either:

    aging   = min(AGING_MOST, h · the policy's aging per hour)

A running job does not wait. It ranks with the longest waiting of its class, and GUARD above it:
no job is worth so much that a running one is left without any GPU.

A running job that stays where it is is worth more than one that is restarted elsewhere. With the
work u that it has not saved, restarts of r seconds, and left_s until it is done:

    cost    = u + r · t                                   work lost, and work not done
    gain    = max(policy's least gain, PAY_BACK · cost / min(HORIZON_S, left_s))
    staying = w_j · min(gain, MOST_GAIN)

So a job is moved when that adds the policy's least gain, and pays its cost back PAY_BACK times
before the job is done; or when it makes room for others that are worth that much more.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
# Of either width; the widest of the arguments is that of the result.
AnyFloats: TypeAlias = NDArray[np.floating[Any]]

SCALE: Final = 1_000_000
# What online loses weighs half as much as what offline gains at priority 0: the policy's bound
# has the last word on harm, this only chooses between pairs within it. Our choice.
ONLINE_COST: Final = 0.5
# A pair in which the job would run slower than this is not worth its risk. Our choice.
LEAST_THROUGHPUT: Final = 0.05
# A quarter of a GPU is one step of priority at full speed. Our choice.
AGING_MOST: Final = 0.25
PAY_BACK: Final = 2.0
# Beyond this nobody can tell what the load will be. World seconds. Our choice.
HORIZON_S: Final = 4 * 3_600.0
# As good as never: no pair is worth so much more than another.
MOST_GAIN: Final = 10.0
# More than a chain of jobs could gain by leaving out one of them, and little enough that sums of
# a few fit into 32 bits (`market.MOST_WORTH`).
GUARD: Final = 100 * SCALE


def worth(throughput: AnyFloats, slowdown: AnyFloats, weight: AnyFloats) -> AnyFloats:
    """In GPUs; arrays that broadcast."""
    lost: AnyFloats = 1.0 - 1.0 / np.maximum(slowdown, 1.0)
    return throughput * weight - ONLINE_COST * lost


def forbidden(
    throughput: AnyFloats, slowdown: AnyFloats, most: AnyFloats | float
) -> NDArray[np.bool_]:
    """Where a pair may not be made, whatever it is worth; `most` is the policy's bound."""
    refused: NDArray[np.bool_] = (slowdown > most) | (throughput < LEAST_THROUGHPUT)
    return refused


def aging(waited_s: Floats, per_hour: float) -> Ints:
    """What having waited is worth, in millionths."""
    return millionths(np.clip(waited_s / 3_600.0 * per_hour, 0.0, AGING_MOST))


def cost_work_s(unsaved_work_s: Floats, restart_s: Floats, throughput: Floats) -> Floats:
    """The work that a restart costs: what is not saved, and what would be done meanwhile."""
    return unsaved_work_s + restart_s * throughput


def least_gain(cost: Floats, left_s: Floats, policy: Floats) -> Floats:
    """What a move must add: the policy's least gain, or more when little time is left.

    `left_s` at full speed, to be on the safe side.
    """
    paid_back = PAY_BACK * cost / np.maximum(np.minimum(HORIZON_S, left_s), 1.0)
    return np.minimum(np.maximum(policy, paid_back), MOST_GAIN)


def millionths(gpus: AnyFloats) -> Ints:
    return np.rint(SCALE * gpus).astype(np.int64)
