"""What ARCHITECTURE.md and docs/states.md promise of a GPU, told a second time.

It shares no code with the machine. It keeps every second that was seen and looks back over them,
where the machine counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Final

from agents.sysmonitor.monitor import Facts
from agents.wire.names import SIGNALS, GpuState, Origin, Signal
from agents.wire.policy import AgentPolicy, Threshold
from tests.agents.sysmonitor.cast import SLO_MS
from tests.agents.sysmonitor.telling import Level, Shown, levelled, limits

INIT, HEALTHY, UNHEALTHY = GpuState.INIT, GpuState.HEALTHY, GpuState.UNHEALTHY
GUARDED, OVERLIMIT, COOLDOWN = GpuState.GUARDED, GpuState.OVERLIMIT, GpuState.COOLDOWN
DISABLED = GpuState.DISABLED
OPEN: Final = {HEALTHY, UNHEALTHY}
# ARCHITECTURE.md, "State machines".
ARROWS: Final = {
    INIT: {HEALTHY, UNHEALTHY, DISABLED},
    HEALTHY: {UNHEALTHY, GUARDED, DISABLED},
    UNHEALTHY: {HEALTHY, GUARDED, DISABLED},
    GUARDED: {HEALTHY, UNHEALTHY, OVERLIMIT, DISABLED},
    OVERLIMIT: {COOLDOWN, DISABLED},
    COOLDOWN: {HEALTHY, UNHEALTHY, DISABLED},
    DISABLED: {INIT},
}
# Limits on these hold only beside somebody else's process.
CONTENTION: Final = {
    Signal.SM_ACTIVITY,
    Signal.MEMORY_BANDWIDTH,
    Signal.SM_CLOCK,
    Signal.PCIE_RX,
}
LONGEST_STEP_S: Final = 2.0
# No dwell is nearly as long, so nobody need look back further.
LONGEST_DWELL_N: Final = 60
FAULT_XIDS: Final = {13, 31, 94}
HARDWARE_XIDS: Final = {48, 62, 64, 74, 79, 95, 119, 120, 140, 143}


NOTHING: Final = Shown(dict.fromkeys(SIGNALS))


def is_busy(shown: Shown) -> bool:
    """Known to work, so that a low clock says something. SM activity is high here, or missing."""
    by_sm = shown.numbers[Signal.SM_ACTIVITY] is not None
    return by_sm if shown.is_busy is None else shown.is_busy


@dataclass(frozen=True)
class Second:
    """The last level of each signal that is judged, and the worst one of that second."""

    step_s: float
    last: Mapping[Signal, Level | None]
    worst: Mapping[Signal, Level | None]

    @property
    def is_blind(self) -> bool:
        return all(level is None for level in self.worst.values())

    def shows(self, signal: Signal) -> bool:
        return self.last.get(signal) is not None and self.worst.get(signal) is not None


@dataclass
class Law:
    """One GPU. `state`, `held` and `evictions` are what must be so after each sample."""

    policy: AgentPolicy
    state: GpuState = INIT
    held: bool = False
    evictions: list[tuple[Origin, bool]] = field(default_factory=list)
    cooldown_s: float = 0.0
    slo_ms: float | None = SLO_MS
    _seconds: list[Second] = field(default_factory=list)
    _samples: list[Shown] = field(default_factory=list)
    _seen_over: set[Signal] = field(default_factory=set)
    _origin: GpuState = UNHEALTHY
    _wire_at: float | None = None
    _armed: int = 0  # the second from which on the guard judges
    _limited: int = 0  # the second from which on these limits hold
    _entered: int = 0
    _rested: int | None = None  # when the last cool-down ended
    _memory_was_over: bool = False
    _was_disabled: bool = False
    _was_faulty: bool = False
    _xids: list[float | None] = field(default_factory=list)

    # --- a local sample ------------------------------------------------------------------

    def sample(self, shown: Shown, facts: Facts) -> None:
        """Freezes on the first sample over a limit; evicts on the second over the reserve."""
        self._samples.append(shown)
        if not facts.offline_present:
            self._memory_was_over = False
            return
        over = self._over(shown, facts)
        if over:
            self.held = True
            if self.state in OPEN:
                self._guard(over)
        if facts.memory_is_new:
            again = self._memory_was_over and Signal.MEMORY in over
            self._memory_was_over = Signal.MEMORY in over
            if again and self.state is GUARDED:
                self._enter(OVERLIMIT)
                self.evictions.append((Origin.EMERGENCY, False))

    def _over(self, shown: Shown, facts: Facts) -> set[Signal]:
        judged = self._judged(shown, facts)
        return {it for it in judged if self._level(shown, it) is Level.OVER}

    def _judged(self, shown: Shown, facts: Facts) -> list[Signal]:
        return [it for it in levelled(self.policy) if self._means_something(it, shown, facts)]

    def _means_something(self, signal: Signal, shown: Shown, facts: Facts) -> bool:
        if signal in CONTENTION and not facts.online_present:
            return False
        if signal is Signal.ONLINE_P99:
            return self.slo_ms is not None and shown.numbers[Signal.ONLINE_QPS] != 0.0
        if signal is Signal.SM_CLOCK:
            return is_busy(shown) and facts.throttled_by != ""
        return True

    def _level(self, shown: Shown, signal: Signal) -> Level | None:
        if signal is Signal.SM_CLOCK and not is_busy(shown):
            return None
        return shown.level(signal, self.policy, self.slo_ms)

    def _guard(self, over: set[Signal]) -> None:
        self._origin, self._armed = self.state, len(self._seconds)
        self._seen_over |= over
        self._enter(GUARDED)

    def _enter(self, state: GpuState) -> None:
        if self.state is COOLDOWN:
            self._rested = len(self._seconds)
        self.state, self._entered = state, len(self._seconds)
        self.held = {GUARDED: True, OVERLIMIT: True, HEALTHY: False, UNHEALTHY: False}.get(
            state, self.held
        )

    # --- the second that goes out ----------------------------------------------------------

    def second(self, facts: Facts, now: float) -> None:
        """Every other move, on the last and the worst of the samples since the second before."""
        self._look(facts, now)
        evicted = len(self.evictions)
        while (move := self._move(facts)) is not None:
            move()
        faulty = self._fault(facts)
        is_news = faulty and not self._was_faulty and len(self.evictions) == evicted
        if is_news and facts.offline_present:
            self.held = True
            self.evictions.append((Origin.EMERGENCY, not facts.host_memory_short))
        self._was_faulty, self._was_disabled = faulty, facts.disabled_by_person
        self.held = self.held and facts.offline_present
        self._samples = []

    @property
    def newest(self) -> Second:
        return self._seconds[-1]

    def _look(self, facts: Facts, now: float) -> None:
        samples = self._samples
        last = samples[-1] if samples else NOTHING
        judged = self._judged(last, facts)
        step_s = 0.0 if self._wire_at is None else round(now - self._wire_at, 1)
        self._seconds.append(
            Second(
                step_s if 0.0 <= step_s <= LONGEST_STEP_S else 0.0,
                {signal: self._level(last, signal) for signal in judged},
                {signal: self._worst(signal) for signal in judged},
            )
        )
        self._wire_at = now
        self._xids = [it.numbers[Signal.XID] for it in samples]
        self._note_over()

    def _worst(self, signal: Signal) -> Level | None:
        if signal is Signal.SM_CLOCK and not self._was_busy():
            return None
        levels = [self._level(each, signal) for each in self._samples]
        return max((level for level in levels if level is not None), default=None)

    def _was_busy(self) -> bool:
        told = [it.is_busy for it in self._samples if it.is_busy is not None]
        return any(told) if told else any(map(is_busy, self._samples))

    def _note_over(self) -> None:
        newest = self.newest
        self._seen_over &= newest.last.keys()
        for signal in newest.last:
            if newest.shows(signal):
                self._seen_over.discard(signal)
            if newest.last[signal] is Level.OVER or (
                not newest.shows(signal) and newest.worst[signal] is Level.OVER
            ):
                self._seen_over.add(signal)

    # --- the table -----------------------------------------------------------------------

    def _move(self, facts: Facts) -> Callable[[], None] | None:
        """What must happen now, None to stay."""
        if self.state is not DISABLED:
            if facts.disabled_by_person:
                return lambda: self._enter(DISABLED)
            if any(code in HARDWARE_XIDS for code in self._xids):
                return lambda: self._quarantine(facts)
        return {
            INIT: self._from_init,
            HEALTHY: self._from_open,
            UNHEALTHY: self._from_open,
            GUARDED: self._from_guarded,
            OVERLIMIT: self._from_overlimit,
            COOLDOWN: self._from_cooldown,
            DISABLED: self._from_disabled,
        }[self.state](facts)

    def _quarantine(self, facts: Facts) -> None:
        self._enter(DISABLED)
        if facts.offline_present:
            self.held = True
            self.evictions.append((Origin.EMERGENCY, True))

    def _to(self, state: GpuState) -> Callable[[], None]:
        return lambda: self._enter(state)

    def _from_disabled(self, facts: Facts) -> Callable[[], None] | None:
        if not self._was_disabled or facts.disabled_by_person:
            return None
        self._was_disabled = False
        return self._to(INIT)

    def _from_init(self, facts: Facts) -> Callable[[], None] | None:
        newest = self.newest
        if self._is_cut_off():
            return self._to(UNHEALTHY)
        if newest.is_blind or not all(newest.shows(it) for it in self._required()):
            return None
        return self._to(UNHEALTHY if any(map(self._is_raised_now, newest.last)) else HEALTHY)

    def _from_open(self, facts: Facts) -> Callable[[], None] | None:
        if facts.offline_present:
            over = {it for it, level in self.newest.last.items() if level is Level.OVER}
            if over or self._fault(facts) or self._blind_n() >= 2:
                return lambda: self._guard(over)
        if self.state is HEALTHY:
            raised = any(map(self._is_raised, self.newest.last))
            return self._to(UNHEALTHY) if raised or self._is_cut_off() else None
        return self._to(HEALTHY) if self._is_recovered() else None

    def _from_guarded(self, facts: Facts) -> Callable[[], None] | None:
        newest = self.newest
        if not facts.offline_present:
            return self._to(self._origin)
        if self._fault(facts):
            return self._evicting(Origin.EMERGENCY, at_once=not facts.host_memory_short)
        if newest.is_blind:
            return None
        if any(self._has_completed(it) for it in newest.last if it is not Signal.MEMORY):
            return self._evicting(Origin.OVERLOAD, at_once=False)
        return self._to(self._origin) if all(map(self._is_clear, newest.last)) else None

    def _evicting(self, origin: Origin, at_once: bool) -> Callable[[], None]:
        def move() -> None:
            self._enter(OVERLIMIT)
            self.evictions.append((origin, at_once))

        return move

    def _from_overlimit(self, facts: Facts) -> Callable[[], None] | None:
        gone = not facts.offline_present and facts.offline_memory_returned
        return self._rest if gone else None

    def _rest(self) -> None:
        self._enter(COOLDOWN)
        base_s, window_s = self.policy.cooldown_s, self.policy.cooldown_window_s
        quiet = sum(it.step_s for it in self._seconds[self._rested or 0 :])
        factor = 2.0 if quiet < window_s else 0.5 ** int(quiet // window_s)
        longest_s = max(base_s, self.policy.cooldown_max_s)
        self.cooldown_s = min(longest_s, max(base_s, factor * self.cooldown_s))

    def _from_cooldown(self, facts: Facts) -> Callable[[], None] | None:
        if sum(it.step_s for it in self._seconds[self._entered :]) < self.cooldown_s:
            return None
        return self._to(HEALTHY if self._is_recovered() else UNHEALTHY)

    # --- looking back ----------------------------------------------------------------------

    def _fault(self, facts: Facts) -> bool:
        faulted = any(code in FAULT_XIDS for code in self._xids)
        graver = any(code in HARDWARE_XIDS for code in self._xids)
        return bool(facts.mps_fault or facts.host_memory_short) or (faulted and not graver)

    def _blind_n(self) -> int:
        return sum(1 for _ in takewhile(lambda it: it.is_blind, reversed(self._seconds)))

    def _threshold(self, signal: Signal) -> Threshold:
        return self.policy.thresholds.get(signal) or Threshold(*limits(signal, self.policy))

    def _required(self) -> Iterator[Signal]:
        return (it for it in self.newest.last if self._threshold(it).required)

    def _back(self, signal: Signal, since: int) -> Iterator[Second]:
        """The seconds in which it was judged without a break, newest first."""
        newest_first = (self._seconds[at] for at in range(len(self._seconds) - 1, since - 1, -1))
        return takewhile(lambda it: signal in it.last, newest_first)

    def _run(self, signal: Signal, since: int, true: Callable[[Second], bool]) -> tuple[int, float]:
        """How many seconds in a row, and how long from the first of them to the last."""
        run = list(islice(takewhile(true, self._back(signal, since)), LONGEST_DWELL_N))
        return len(run), sum(it.step_s for it in run[:-1])

    def _is_cut_off(self) -> bool:
        """A required signal, or all of them, missing past the dwell."""
        gone = [it for it in self.newest.last if self._missing_s(it) >= self._dwell_s]
        gone = [it for it in gone if not self.newest.shows(it)]
        return len(gone) == len(self.newest.last) or any(it in gone for it in self._required())

    @property
    def _dwell_s(self) -> float:
        return self.policy.missing_dwell_s

    def _missing_s(self, signal: Signal) -> float:
        missing = takewhile(lambda it: not it.shows(signal), self._back(signal, 0))
        return sum(it.step_s for it in missing)

    def _raised_seconds(self, signal: Signal) -> list[Second]:
        """Since it was last seen under its lower limit; a second without it is passed over."""
        shown = (it for it in self._back(signal, self._limited) if it.shows(signal))
        return list(takewhile(lambda it: it.last[signal] >= Level.RAISED, shown))

    def _is_raised_now(self, signal: Signal) -> bool:
        return bool(self._raised_seconds(signal))

    def _is_raised(self, signal: Signal) -> bool:
        seconds = self._raised_seconds(signal)
        long_s = sum(it.step_s for it in seconds[:-1])
        return len(seconds) >= 2 and long_s >= self._threshold(signal).lower_dwell_s

    def _is_recovered(self) -> bool:
        newest = self.newest
        if self._is_cut_off() or not all(newest.shows(it) for it in self._required()):
            return False
        return all(map(self._is_well, newest.last))

    def _is_well(self, signal: Signal) -> bool:
        if not self.newest.shows(signal):
            return not self._is_raised_now(signal)
        count, long_s = self._run(
            signal, self._limited, lambda it: it.shows(signal) and it.worst[signal] is Level.WELL
        )
        return count >= 2 and long_s >= self._threshold(signal).lower_dwell_s

    def _is_clear(self, signal: Signal) -> bool:
        if not self.newest.shows(signal):
            return signal not in self._seen_over
        count, long_s = self._run(
            signal,
            max(self._armed, self._limited),
            lambda it: it.shows(signal) and it.worst[signal] is not Level.OVER,
        )
        return count >= 2 and long_s >= self._threshold(signal).upper_dwell_s

    def _has_completed(self, signal: Signal) -> bool:
        count, long_s = self._run(
            signal,
            max(self._armed, self._limited),
            lambda it: it.shows(signal) and it.last[signal] is Level.OVER,
        )
        return count >= 4 and long_s >= self._threshold(signal).upper_dwell_s

    # --- what a person, the console or a restart does ----------------------------------------

    def relimit(self, policy: AgentPolicy, slo_ms: float | None) -> None:
        self.policy, self.slo_ms = policy, slo_ms
        self._limited = len(self._seconds)
        self._memory_was_over = False

    def restart(self) -> None:
        """Durations are kept, the time away counts for none."""
        self._wire_at, self._memory_was_over, self._samples = None, False, []
