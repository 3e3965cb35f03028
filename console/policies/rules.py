"""What a policy may say, what it says by default, and what changed between two. Pure.

Every default is our own choice unless docs/states.md names a source; percent fields are 0 to 100.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from agents.wire import policy
from agents.wire.names import AGENT_ORIGINS, Origin, Signal
from agents.wire.policy import AgentPolicy, Threshold
from console.errors import Invalid


class Mode(StrEnum):
    """Who decides."""

    AUTOMATIC = "automatic"
    PERSON = "person"


class Default(StrEnum):
    """What happens when nobody decides before the deadline."""

    RUN = "run"
    KEEP = "keep"


class Lane(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How evictions of one origin are decided in a pool.

    `budget_per_hour` counts those that go without a person's word; None: no limit. Beyond it an
    automatic eviction waits for a person, and one that would run by default is dropped.
    `undo_s` lies between the decision and the dispatch; `silent_s` follows "keep running".
    """

    mode: Mode
    budget_per_hour: int | None = None
    deadline_s: float = 240.0
    default: Default = Default.KEEP
    undo_s: float = 10.0
    silent_s: float = 1_800.0


# What rules wish for; of the other origins somebody has decided already.
RULE_ORIGINS: Final = (Origin.SLO, Origin.MOVE, Origin.PREEMPT)


class PolicyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One version of a policy: all of `AgentPolicy` but its identity, and what the console adds.

    `move_min_gain` is the normalised throughput, in GPUs, that a move must add to be proposed.
    A GPU closer to a limit than `min_gpu_headroom_percent` gets no new job. No pair is made whose
    predicted slow-down of online work is above `most_slowdown` (1: none). Beside services of tier
    `proven_for_tier` or better only jobs run that are proven; 0: tiers do not matter.

    `restarts_per_hour` bounds what rounds take off in a pool; a plan of up to `moves_by_itself`
    moves needs no person where the lane is automatic. A job is not moved in its first
    `residence_s`, nor more than `interruptions_per_day` times. An hour of waiting is worth
    `aging_per_hour` GPUs.
    """

    thresholds: dict[Signal, Threshold]
    missing_dwell_s: float = 10.0
    cooldown_s: float = 60.0
    cooldown_max_s: float = 3_600.0
    cooldown_window_s: float = 3_600.0
    memory_reserve_percent: float = 5.0
    grace_s: float = 30.0
    emergency_deadline_s: float = 10.0
    duty_max_percent: float = 100.0
    duty_unhealthy_percent: float = 40.0
    duty_floor_percent: float = 5.0
    sm_reserve_percent: float = 10.0
    slo_dwell_s: float = 120.0
    allow_unlimited_jobs: bool = False
    move_min_gain: float = 0.1
    min_gpu_headroom_percent: float = 5.0
    most_slowdown: float = 1.35
    proven_for_tier: int = 0
    restarts_per_hour: int = 12
    moves_by_itself: int = 2
    residence_s: float = 300.0
    interruptions_per_day: int = 4
    aging_per_hour: float = 0.02
    lanes: dict[Origin, Lane] = {}

    def lane(self, origin: Origin) -> Lane:
        """The lane of `origin`; what the agent decides is automatic and goes at once."""
        return self.lanes.get(origin, AT_ONCE)


AT_ONCE: Final = Lane(Mode.AUTOMATIC, undo_s=0.0)


class Bounds(NamedTuple):
    """What a number may be, both ends included."""

    low: float
    high: float
    unit: str = "s"


# Thresholds in policy units: percent of the card, of the power limit, of the highest clock, of
# the measured PCIe peak; the p99 as a multiple of the service's SLO.
SIGNAL_BOUNDS: Final[Mapping[Signal, Bounds]] = {
    Signal.ONLINE_P99: Bounds(0.4, 5.0, "× SLO"),
    Signal.MEMORY: Bounds(1, 100, "%"),
    Signal.SM_ACTIVITY: Bounds(1, 100, "%"),
    Signal.SM_OCCUPANCY: Bounds(1, 100, "%"),
    Signal.GPU_UTIL: Bounds(1, 100, "%"),
    Signal.MEMORY_BANDWIDTH: Bounds(1, 100, "%"),
    Signal.SM_CLOCK: Bounds(1, 100, "%"),
    Signal.PCIE_RX: Bounds(1, 100, "%"),
    Signal.TEMPERATURE: Bounds(20, 110, "°C"),
    Signal.POWER: Bounds(1, 120, "%"),
}
# Of these a low value is the bad one.
REVERSED: Final = frozenset({Signal.SM_CLOCK})
DWELL: Final = Bounds(0, 600)
# An agent evicts after no less: a value that was read once may be shown again for three seconds.
EVICTION_DWELL: Final = Bounds(3, 600)

SCALAR_BOUNDS: Final[Mapping[str, Bounds]] = {
    "missing_dwell_s": Bounds(1, 600),
    "cooldown_s": Bounds(1, 86_400),
    "cooldown_max_s": Bounds(1, 86_400),
    "cooldown_window_s": Bounds(1, 86_400),
    "memory_reserve_percent": Bounds(0, 50, "%"),
    "grace_s": Bounds(1, 3_600),
    "emergency_deadline_s": Bounds(0.5, 600),
    "duty_max_percent": Bounds(1, 100, "%"),
    "duty_unhealthy_percent": Bounds(0, 100, "%"),
    "duty_floor_percent": Bounds(0, 100, "%"),
    "sm_reserve_percent": Bounds(0, 90, "%"),
    "slo_dwell_s": Bounds(1, 3_600),
    "move_min_gain": Bounds(0, 1, "GPU"),
    "min_gpu_headroom_percent": Bounds(0, 90, "%"),
    "most_slowdown": Bounds(1, 5, "×"),
    "proven_for_tier": Bounds(0, 9, ""),
    "restarts_per_hour": Bounds(0, 10_000, "/ h"),
    "moves_by_itself": Bounds(0, 10_000, "moves"),
    "residence_s": Bounds(0, 86_400),
    "interruptions_per_day": Bounds(0, 1_000, "/ day"),
    "aging_per_hour": Bounds(0, 1, "GPU / h"),
}
# Of these only whole numbers make sense.
WHOLE: Final = frozenset(
    {"proven_for_tier", "restarts_per_hour", "moves_by_itself", "interruptions_per_day"}
)
LANE_BOUNDS: Final[Mapping[str, Bounds]] = {
    "budget_per_hour": Bounds(0, 10_000, "/ h"),
    "deadline_s": Bounds(5, 86_400),
    "undo_s": Bounds(0, 600),
    "silent_s": Bounds(0, 86_400),
}


def parse(raw: Mapping[str, Any]) -> PolicyBody:
    """The body that `raw` (JSON) spells. Raises Invalid with the errors by field."""
    try:
        body = msgspec.convert(raw, PolicyBody)
    except msgspec.ValidationError as error:
        raise Invalid(f"This is no policy: {error}", {"body": str(error)}) from error
    if errors := check(body):
        raise Invalid("; ".join(f"{path}: {text}" for path, text in errors.items()), errors)
    return body


def to_json(body: PolicyBody) -> dict[str, Any]:
    """What `parse` reads back, for the database and the API."""
    builtins: dict[str, Any] = msgspec.to_builtins(body, str_keys=True)
    return builtins


def check(body: PolicyBody) -> dict[str, str]:
    """Errors by field path (`thresholds.memory.upper`); empty when all is well."""
    errors: dict[str, str] = {}
    for signal, threshold in body.thresholds.items():
        errors |= _check_threshold(signal, threshold)
    for name, bounds in SCALAR_BOUNDS.items():
        errors |= _check_number(name, getattr(body, name), bounds)
    errors |= _check_order(body)
    for origin, lane in body.lanes.items():
        errors |= _check_lane(origin, lane)
    return errors


def _check_threshold(signal: Signal, threshold: Threshold) -> dict[str, str]:
    path = f"thresholds.{signal}"
    if signal not in SIGNAL_BOUNDS:
        return {path: "no threshold can be set on this signal"}
    bounds = SIGNAL_BOUNDS[signal]
    errors = _check_number(f"{path}.lower", threshold.lower, bounds)
    errors |= _check_number(f"{path}.upper", threshold.upper, bounds)
    errors |= _check_number(f"{path}.lower_dwell_s", threshold.lower_dwell_s, DWELL)
    errors |= _check_number(f"{path}.upper_dwell_s", threshold.upper_dwell_s, EVICTION_DWELL)
    if not errors and not _in_order(signal, threshold):
        side = "below" if signal in REVERSED else "above"
        errors[f"{path}.upper"] = f"the evict limit must lie {side} the busy limit"
    return errors


def _in_order(signal: Signal, threshold: Threshold) -> bool:
    if signal in REVERSED:
        return threshold.upper < threshold.lower
    return threshold.lower < threshold.upper


def _check_number(path: str, value: float, bounds: Bounds) -> dict[str, str]:
    # Written so that NaN fails as well.
    if bounds.low <= value <= bounds.high:
        return {}
    return {path: f"must be from {bounds.low:g} to {bounds.high:g} {bounds.unit}"}


def _check_order(body: PolicyBody) -> dict[str, str]:
    errors = {}
    if body.duty_floor_percent > body.duty_unhealthy_percent:
        errors["duty_floor_percent"] = "must not be above the duty when busy"
    if body.duty_unhealthy_percent > body.duty_max_percent:
        errors["duty_unhealthy_percent"] = "must not be above the highest duty"
    if body.cooldown_s > body.cooldown_max_s:
        errors["cooldown_s"] = "must not be longer than the longest cool-down"
    return errors


def _check_lane(origin: Origin, lane: Lane) -> dict[str, str]:
    path = f"lanes.{origin}"
    if origin in AGENT_ORIGINS:
        return {path: "decided on the node: nothing may delay it, so it has no lane"}
    if origin not in RULE_ORIGINS and lane.mode is Mode.PERSON:
        return {f"{path}.mode": "a person has decided already; only the time to undo can be set"}
    errors: dict[str, str] = {}
    for name, bounds in LANE_BOUNDS.items():
        if (value := getattr(lane, name)) is not None:
            errors |= _check_number(f"{path}.{name}", value, bounds)
    return errors


class Change(NamedTuple):
    """One value that differs; None where that side does not have the field."""

    field: str
    old: Any
    new: Any


def diff(old: PolicyBody, new: PolicyBody) -> list[Change]:
    """What differs, in the order of the form."""
    before, after = flat(old), flat(new)
    paths = [*after, *(path for path in before if path not in after)]
    return [
        Change(path, before.get(path), after.get(path))
        for path in paths
        if before.get(path) != after.get(path)
    ]


def flat(body: PolicyBody) -> dict[str, Any]:
    """Every value by its path: `lanes.move.deadline_s`."""
    return dict(_leaves(to_json(body), ""))


def _leaves(value: Any, path: str) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        return [(path, value)]
    prefix = f"{path}." if path else ""
    return [leaf for key, child in value.items() for leaf in _leaves(child, f"{prefix}{key}")]


def to_agent_policy(policy_id: int, number: int, name: str, body: PolicyBody) -> AgentPolicy:
    """The part of `body` that a node needs, as version `number` of policy `name`."""
    return AgentPolicy(policy_id=policy_id, version=number, name=name, **_shared(body))


def longest_stop_s(body: PolicyBody, grace_s: float) -> float:
    """From the order to stop to the memory returned, or failed, at most."""
    return policy.longest_stop_s(to_agent_policy(0, 0, "", body), grace_s)


def _shared(source: PolicyBody | AgentPolicy) -> dict[str, Any]:
    """The fields that a policy body and its node's part have in common."""
    return {
        name: getattr(source, name)
        for name in AgentPolicy.__struct_fields__
        if name in PolicyBody.__struct_fields__
    }


# --- where a new policy starts from -------------------------------------------------------

_LANES: Final[dict[Origin, Lane]] = {
    Origin.SLO: Lane(Mode.PERSON, 8, 240.0, Default.RUN),
    Origin.MOVE: Lane(Mode.PERSON, 6, 1_800.0, Default.KEEP),
    Origin.PREEMPT: Lane(Mode.AUTOMATIC, 8, 600.0, Default.KEEP),
    Origin.DRAIN: Lane(Mode.AUTOMATIC, undo_s=0.0),
    Origin.POLICY: Lane(Mode.AUTOMATIC),
    Origin.STOP_SHARING: Lane(Mode.AUTOMATIC, undo_s=0.0),
    Origin.CANCEL: Lane(Mode.AUTOMATIC, undo_s=0.0),
}


def _body(limits: AgentPolicy, **own: Any) -> PolicyBody:
    return PolicyBody(**_shared(limits), **own, lanes=_LANES)


PRESETS: Final[Mapping[str, PolicyBody]] = {
    "conservative": _body(
        policy.conservative(0, 0),
        move_min_gain=0.2,
        min_gpu_headroom_percent=10.0,
        most_slowdown=1.15,
        proven_for_tier=1,
        restarts_per_hour=6,
        moves_by_itself=1,
        residence_s=900.0,
        interruptions_per_day=2,
    ),
    "balanced": _body(policy.balanced(0, 0)),
    "aggressive": _body(
        policy.aggressive(0, 0),
        move_min_gain=0.05,
        min_gpu_headroom_percent=2.0,
        most_slowdown=1.45,
        restarts_per_hour=30,
        moves_by_itself=5,
        residence_s=120.0,
        interruptions_per_day=8,
    ),
}


def presets(demo: bool) -> Mapping[str, PolicyBody]:
    """The three bodies a form starts from; in the demo all waiting is short."""
    return {name: at_demo_pace(body) if demo else body for name, body in PRESETS.items()}


def at_demo_pace(body: PolicyBody) -> PolicyBody:
    """`body` with the same limits, and times short enough to watch."""
    short = policy.demo(0, 0)
    thresholds = {
        signal: msgspec.structs.replace(threshold, lower_dwell_s=3.0, upper_dwell_s=3.0)
        for signal, threshold in body.thresholds.items()
    }
    return msgspec.structs.replace(
        body,
        thresholds=thresholds,
        **{name: getattr(short, name) for name in _TIMES},
        residence_s=min(body.residence_s, 30.0),
        **{name: _often(body, name) for name in ("restarts_per_hour", "interruptions_per_day")},
        lanes={origin: _demo_lane(lane) for origin, lane in body.lanes.items()},
    )


_TIMES: Final = tuple(
    name for name in SCALAR_BOUNDS if name in AgentPolicy.__struct_fields__ and name.endswith("_s")
)


# A minute of the demo is an hour of its world, which counts are meant for.
_FASTER: Final = 60


def _often(body: PolicyBody, name: str) -> int:
    return min(int(SCALAR_BOUNDS[name].high), _FASTER * int(getattr(body, name)))


def _demo_lane(lane: Lane) -> Lane:
    return msgspec.structs.replace(
        lane,
        deadline_s=min(lane.deadline_s, 180.0),
        undo_s=min(lane.undo_s, 5.0),
        silent_s=min(lane.silent_s, 60.0),
    )
