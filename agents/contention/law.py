"""The law of the simulated fleet: what two workloads on one GPU do to each other. Vectorised.

All quantities are fractions of one GPU (1.0 = all of it), one array element a GPU. Symbols:

    l        online load as a part of the service's peak; may exceed 1 in a spike
    a, u, b  SM activity, GPU utilisation, memory bandwidth of a workload alone (online: at l = 1)
    s, d     SM share and duty of the offline client; d = 0 while it is frozen or absent
    h        hidden effect of the pair (1 = as the law says), drawn once per service and job family

Offline rate alone under its share, with a soft knee where the share meets the demand (measured
throughput rises with the MPS share almost linearly and then saturates):

    x = s / a      k(x) = x / (1 + x⁴)^¼      r = k(s / a) / k(1 / a)

Online slow-down, from three causes: overlap of the SMs that a running kernel of each side wants
(w = a / u, offline at most s; none where the shares are complements: hence the SM share rule),
pressure on memory bandwidth, felt by the part of the work that is memory-bound (m = b / (a + b)),
and a small cost of company at all (caches, launches):

    o = max(0, w_on + w_off − 1) / w_on       p = b_on·l + b_off·r·d
    slow_on = 1 + h_on · [ COMPANY·u_off·d + OVERLAP·o·u_off·d
                           + BANDWIDTH·m_on·b_off·r·d·(1 + 2·max(0, p − KNEE)) ]

p99 relative to its value alone at peak: a constant part, the work itself, and a queueing part that
grows as 1 / (1 − rho), as in any single-server queue. Near saturation a server that batches gains
capacity, so beyond RHO_KNEE the curve goes on along its tangent, and beyond RHO_SHED load is shed:

    rho = min(PEAK_RHO · l · slow_on, RHO_SHED)
    q(rho) = 1 / (1 − k) + max(0, rho − k) / (1 − k)²,  k = min(rho, RHO_KNEE)
    p99 = slow_on · [ WORK + (1 − WORK) · q(rho) / q(PEAK_RHO) ]

Offline throughput relative to alone on the whole card, slowed by the same causes:

    slow_off = 1 + h_off · [ COMPANY·U + OVERLAP·o_off·U + BANDWIDTH·m_off·b_on·l ]
    T = r · d / slow_off          U = 1 − (1 − u_on)^l, the online side's utilisation

Activities add up (both run at the same moment on other SMs), utilisation does not: it is the
chance that any kernel runs, 1 − (1 − u_on)^l · (1 − u_off·d), which is why it says so little.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating]

PEAK_RHO: Final = 0.60
RHO_KNEE: Final = 0.80
RHO_SHED: Final = 1.50
WORK: Final = 0.35
COMPANY: Final = 0.06
OVERLAP: Final = 0.80
BANDWIDTH: Final = 0.70
KNEE: Final = 0.60
SM_MAX: Final = 0.99
_TINY: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Online:
    """Profile at peak and present load of each GPU's service; zeros where there is none."""

    load: Floats
    sm: Floats
    util: Floats
    bandwidth: Floats


@dataclass(frozen=True, slots=True)
class Offline:
    """Profile and limits of each GPU's job; duty 0 where none runs."""

    sm: Floats
    util: Floats
    bandwidth: Floats
    share: Floats
    duty: Floats


@dataclass(frozen=True, slots=True)
class Outcome:
    """What each GPU does. `p99` is relative to the service alone at peak, `served` to its peak
    load, `throughput` to the job alone on the whole card."""

    slowdown: Floats
    p99: Floats
    served: Floats
    throughput: Floats
    online_sm: Floats
    offline_sm: Floats
    sm: Floats
    util: Floats
    bandwidth: Floats


def contend(on: Online, off: Offline, online_effect: Floats, offline_effect: Floats) -> Outcome:
    """The outcome on every GPU; the effects are the hidden ones of each pair."""
    rate = share_rate(off.sm, off.share)
    running = off.util * off.duty
    online_util = 1.0 - np.power(1.0 - on.util, on.load)
    width, guest_width = _width(on.sm, on.util), np.minimum(_width(off.sm, off.util), off.share)
    shared_sms = np.maximum(0.0, width + guest_width - 1.0)
    slowdown = 1.0 + online_effect * (
        (COMPANY + OVERLAP * shared_sms / width) * running
        + BANDWIDTH * _memory_bound(on) * _pressure(on, off, rate)
    )
    slowdown = np.where(on.sm > 0.0, slowdown, 1.0)
    guest_slowdown = 1.0 + offline_effect * (
        (COMPANY + OVERLAP * shared_sms / np.maximum(guest_width, _TINY)) * online_util
        + BANDWIDTH * _memory_bound(off) * on.bandwidth * on.load
    )
    throughput = rate * off.duty / guest_slowdown
    served = np.minimum(on.load, 1.0 / (PEAK_RHO * slowdown))
    online_sm = np.minimum(on.sm * served * (1.0 + 0.3 * (slowdown - 1.0)), SM_MAX)
    offline_sm = np.minimum(off.sm * throughput, SM_MAX - online_sm)
    return Outcome(
        slowdown=slowdown,
        p99=latency(on.load, slowdown),
        served=served,
        throughput=throughput,
        online_sm=online_sm,
        offline_sm=offline_sm,
        sm=online_sm + offline_sm,
        util=1.0 - (1.0 - online_util) * (1.0 - running),
        bandwidth=np.minimum(on.bandwidth * served + off.bandwidth * throughput, SM_MAX),
    )


def share_rate(sm: Floats, share: Floats) -> Floats:
    """Throughput of a job that wants `sm` of the card, under an SM share, alone; 1 at all of it."""
    demand = np.maximum(sm, _TINY)
    rate: Floats = _knee(share / demand) / _knee(1.0 / demand)
    return rate


def latency(load: Floats, slowdown: Floats) -> Floats:
    """p99 relative to the service alone at its peak load."""
    rho = np.minimum(PEAK_RHO * load * slowdown, RHO_SHED)
    p99: Floats = slowdown * (WORK + (1.0 - WORK) * _queueing(rho) * (1.0 - PEAK_RHO))
    return p99


def _queueing(rho: Floats) -> Floats:
    bend = np.minimum(rho, RHO_KNEE)
    waiting: Floats = 1.0 / (1.0 - bend) + (rho - bend) / np.square(1.0 - bend)
    return waiting


def _knee(x: Floats) -> Floats:
    fourth = np.square(np.square(x))
    rate: Floats = x / np.sqrt(np.sqrt(1.0 + fourth))
    return rate


def _width(sm: Floats, util: Floats) -> Floats:
    """The part of the SMs that one running kernel wants."""
    return np.clip(sm / np.maximum(util, _TINY), _TINY, 1.0)


def _memory_bound(side: Online | Offline) -> Floats:
    bound: Floats = side.bandwidth / np.maximum(side.sm + side.bandwidth, _TINY)
    return bound


def _pressure(on: Online, off: Offline, rate: Floats) -> Floats:
    """What the job adds to the traffic on memory, more so beyond the knee."""
    added = off.bandwidth * rate * off.duty
    total = on.bandwidth * on.load + added
    pressure: Floats = added * (1.0 + 2.0 * np.maximum(0.0, total - KNEE))
    return pressure
