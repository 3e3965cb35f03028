"""One node: its guards, guests and orders brought together. No socket, no sleep.

The loop calls `sample` at least five times a second, `step_stops` ten times, `decide` once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from agents import guard, profiling
from agents.actuators.base import Runtime
from agents.alarm import Alarm
from agents.collectors.attribution import OfflineJob
from agents.collectors.base import Collector, GpuReading, Look, NodeReading
from agents.containment import Containment
from agents.duty import next_duty
from agents.guard import Gpu, Guard
from agents.guest import Guest, Surroundings
from agents.guests import DUTY_STEP_PERCENT, Guests
from agents.ledger import Ledger
from agents.mps.side import Around, MpsSide
from agents.off import Switch
from agents.orders import Orders
from agents.outbox import Outbox
from agents.reconciler import Action, Decline, Forget, GpuFloor, Situation, Start, Stop, plan
from agents.reports import Reporter, hello, transition
from agents.ring import Ring
from agents.spool import Spool
from agents.state import StateFile
from agents.status.view import Inside
from agents.sysmonitor.monitor import Action as Verdict
from agents.sysmonitor.monitor import ActionKind, Facts, Step
from agents.wire import samples
from agents.wire.messages import DesiredPlacement, DesiredService, Envelope, Hello
from agents.wire.names import EventKind, GpuState, PlacementState, SharingMode
from agents.wire.policy import AgentPolicy

log = logging.getLogger(__name__)

# Dwells and a cool-down under way: this much of them, at the most, a restart has to watch again.
SAVE_EVERY_S: Final = 60.0
# A source that has not told what processes hold by then, since the agent began, tells nothing.
FIRST_LOOK_S: Final = 3.0
# Of a job that is measured: what it does without us.
FULL_DUTY_PERCENT: Final = 100.0
# Of MPS, while looking at it fails: as of a daemon that says nothing.
NO_WORD: Final = "nobody can say how its MPS is: see the log of the agent"
# Stops a job whose policy is gone (the node was enrolled anew, so its old orders are void).
WITHOUT_ORDERS: Final = AgentPolicy(0, 0, "without orders", thresholds={})


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the node is. `key` verifies its orders; a new boot id voids leases of the last."""

    name: str
    boot_id: str
    key: bytes
    gpus: tuple[Gpu, ...]
    cpu_cores: float | None = None
    host_memory_bytes: int | None = None


class NodeAgent:
    """What one node does, moment by moment."""

    def __init__(
        self,
        identity: Identity,
        state: StateFile,
        collector: Collector,
        runtime: Runtime,
        now: float,
        wall: Callable[[], float] = time.time,
        mps: MpsSide | None = None,
        alarm: Alarm | None = None,
        ring: Ring | None = None,
    ) -> None:
        """Without `mps` nothing here depends on an MPS daemon. `alarm` is rung when the loop rests
        and there is something to hold again. Without `ring` no second is kept once it is told."""
        self.identity = identity
        self._state, self._collector, self._runtime = state, collector, runtime
        self._mps = mps
        indexes = [gpu.inventory.index for gpu in identity.gpus]
        self._orders = Orders(state, identity.name, identity.key, indexes, identity.boot_id)
        self._spool = Spool(state, identity.name, wall)
        self._ring = ring
        self.outbox = Outbox(self._spool, ring)
        self._guests = Guests(Ledger(state, identity.name), self._spool, runtime, self._window)
        self._guards = {
            gpu.inventory.index: guard.restore(gpu, state.fact(identity.name, _fact(gpu)), now)
            for gpu in identity.gpus
        }
        self._reporter = Reporter(self._orders, self._guests, self._guards, now, wall)
        # A defect that shows on one GPU leaves neither the others nor the lease unguarded.
        self._contained = Containment(identity.name)
        self._sampled_at = self._began_at = now
        self._samples = 0
        self._looks: tuple[Look, ...] = ()
        self._alarm = Alarm() if alarm is None else alarm
        # The collector goes on by itself until the next second, and the loop sleeps.
        self.rests = False
        self._guests.recover(now)
        self._follow_orders()

    # --- the console's side -------------------------------------------------------------

    def hello(self) -> Hello:
        """What is said first on a connection; a status follows within a second."""
        self._reporter.hurry()
        return hello(self.identity, self._orders, self._runtime, self._spool.last_seq)

    def received(self, envelope: Envelope, now: float) -> None:
        if self._orders.receive(envelope, now):
            if self.rests and self.may_rest:
                self.sample(now)  # nothing starts on a sample of up to a second ago
            self._follow_orders()
            self.reconcile(now)
            if not self.may_rest:
                self._alarm.ring()
        self._offer_status(now)

    def quarantine(self, index: int, why: str) -> None:
        """Only a person puts this GPU back, as after a job that would not go."""
        self._guards[index].quarantine = why
        self._save(self._guards[index])

    def _follow_orders(self) -> None:
        for each in self._guards.values():
            service, quarantine = self._orders.service(each.index), each.quarantine
            each.follow(
                self._orders.gpu(each.index),
                self._orders.policy(each.index),
                None if service is None else service.slo_p99_ms,
            )
            if each.quarantine != quarantine:
                self._save(each)
        self._guests.follow(self._orders.placements)

    # --- what the collector must know of the node ----------------------------------------

    def offline_jobs(self) -> tuple[OfflineJob, ...]:
        """What runs here, or may still run."""
        return tuple(
            OfflineJob(
                guest.placement_id,
                guest.placement.gpu_index,
                guest.placement.sm_share_percent,
                guest.facts.pid,
                guest.facts.started_ticks,
                guest.facts.cgroup,
                pids=guest.facts.pids,
            )
            for guest in self._guests
        )

    def services(self) -> tuple[DesiredService, ...]:
        """The online services of this node, as ordered last."""
        desired = self._orders.desired
        return () if desired is None else desired.services

    def close(self) -> None:
        """What is measured is safe; the jobs are left as they are."""
        if self._ring is not None:
            self._ring.close()

    # --- what this machine is shown of it -------------------------------------------------

    def inside(self) -> Inside:
        return Inside(
            self.identity.name,
            self._orders,
            self._guests,
            self._guards,
            self._spool,
            self._looks,
            self._samples,
        )

    # --- the local side: what must not wait ---------------------------------------------

    @property
    def may_rest(self) -> bool:
        """Whether no sample before the next second's can ask for anything: nothing runs that could
        be held, and MPS recovers from nothing."""
        return not self._guests.are_there and not (self._mps is not None and self._mps.urgent())

    def sample(self, now: float) -> None:
        """One local sample of every GPU; jobs on a GPU that needs it are held or evicted."""
        with self._contained:
            self._runtime.beat()
        dt_s, self._sampled_at = now - self._sampled_at, now
        reading: NodeReading | None = None
        with self._contained:  # a source that fails has no data: guards go blind, stops go on
            reading = self._collector.collect(now)
        if reading is not None:
            for earlier in reading.earlier:
                self._take_all(earlier)
            self._take_all(reading)
        self._samples += 1
        self._looks = reading.looks if reading else ()
        for guest in self._guests:
            with self._contained:
                self._hold_at_once(self._guards[guest.placement.gpu_index], guest)
        with self._contained:
            self._hurry_mps(now)
        for guest in self._guests:
            with self._contained:
                self._guests.observe(guest, now)
        for guest in self._guests:
            with self._contained:
                self._protect(self._guards[guest.placement.gpu_index], guest, dt_s, now)
            with self._contained:
                self._guests.let_go(guest)
        self._step_stops(now)

    def _hold_at_once(self, each: Guard, guest: Guest) -> None:
        """A look at the jobs takes its time, and on a busy machine much longer. So where a limit is
        crossed launches are held before it, and what that means is decided after it."""
        if each.is_over():
            self._guests.hold(guest)

    def _take_all(self, reading: NodeReading) -> None:
        for gpu in reading.gpus:
            with self._contained:
                self._take(self._guards[gpu.index], gpu, reading.at)

    def _take(self, each: Guard, gpu: GpuReading, now: float) -> None:
        each.take(gpu, now)
        if gpu.trouble and not each.quarantine:
            each.quarantine = gpu.trouble
            self._save(each)

    def _protect(self, each: Guard, guest: Guest, dt_s: float, now: float) -> None:
        self._act(each, each.local(self._facts(each), now), now)
        if each.held and guest.stop is None:
            # Also a job that was adopted: whether its last agent had frozen it, nobody knows.
            self._guests.freeze(guest, Verdict(ActionKind.FREEZE, each.why_held), None)
        elif guest.stop is None:
            self._guests.thaw(guest, "nothing holds it any more")
        self._steer(each, guest, dt_s)

    @property
    def is_stopping(self) -> bool:
        """Whether `step_stops` has anything to do."""
        return any(guest.stop is not None for guest in self._guests)

    def step_stops(self, now: float) -> None:
        """Between two samples: looks at jobs that are being stopped, and goes on with them."""
        for guest in self._guests:
            if guest.stop is not None:
                with self._contained:
                    self._guests.observe(guest, now)
        self._step_stops(now)

    def _step_stops(self, now: float) -> None:
        for guest in self._guests:
            if guest.stop is not None:
                with self._contained:
                    self._step_stop(self._guards[guest.placement.gpu_index], guest, now)

    def _step_stop(self, each: Guard, guest: Guest, now: float) -> None:
        facts = self._facts(each)
        told = each.reading is not None and each.reading.offline_memory_bytes is not None
        around = Surroundings(
            facts.offline_memory_returned and (told or now - self._began_at >= FIRST_LOOK_S),
            told,
            each.held,
            each.calm(),
            each.pressing(facts),
        )
        failed = self._guests.step_stop(guest, around, each.policy or WITHOUT_ORDERS, now)
        if failed is not None:
            each.quarantine = failed
            self._save(each)

    def _steer(self, each: Guard, guest: Guest, dt_s: float) -> None:
        """Duty follows what the online side uses, below what the console allows."""
        if each.policy is None or guest.stop is not None:
            return
        if guest.is_to_be_measured and _is_alone(each):
            self._guests.set_duty(guest, FULL_DUTY_PERCENT)  # there is nobody to leave room for
            return
        percent = next_duty(
            guest.duty_percent or each.policy.duty_floor_percent,
            guest.placement.sm_share_percent,
            each.online_sm_percent,
            each.state,
            each.policy,
            dt_s,
        )
        allowed = guest.placement.duty_percent
        self._guests.set_duty(guest, percent if allowed is None else min(percent, allowed))

    # --- the wire side: every other decision --------------------------------------------

    def decide(self, now: float, switch: Switch) -> None:
        """Closes the second: verdicts, what should run, telemetry, status."""
        with self._contained:
            self._ask_for_room()
        for each in self._guards.values():
            each.switched_off = switch.covers(each.gpu.inventory.uuid)
            with self._contained:
                each.close_second()
            with self._contained:
                self._look_at_mps(each, now)
            with self._contained:
                self._judge(each, now)
        for guest in self._guests:
            if guest.is_to_be_measured:
                with self._contained:
                    self._measure(self._guards[guest.placement.gpu_index], guest, now)
        with self._contained:
            self.reconcile(now)
        telemetry = self._reporter.telemetry(now)
        self.outbox.offer(telemetry, now)
        if self._ring is not None:
            with self._contained:
                self._ring.add(telemetry)
        self._offer_status(now)
        self.outbox.ring()

    def _window(self, index: int) -> dict[str, Any] | None:
        """The last seconds of a GPU, for an event that does not wait for them."""
        with self._contained:
            place = list(self._guards).index(index)
            recorded = None if self._ring is None else self._ring.window(place)
            return None if recorded is None else samples.event_data(recorded)
        return None

    def _measure(self, each: Guard, guest: Guest, now: float) -> None:
        """One second of a job that is to be measured; what disturbs it makes it begin anew."""
        second = None
        if each.reading is not None and _is_undisturbed(each, guest):
            held = each.reading.offline_memory_bytes
            memory_bytes = guest.facts.memory_bytes if held is None else held
            launches = self._guests.launches(guest)
            second = profiling.second(each.values, memory_bytes, guest.facts.step_s, launches)
        self._guests.measure(guest, second, now)

    def _ask_for_room(self) -> None:
        no_room = self._runtime.why_no_room()
        for each in self._guards.values():
            each.no_room = no_room

    def _look_at_mps(self, each: Guard, now: float) -> None:
        if self._mps is not None:
            self._ask_mps(self._mps, each, each.xids, now)

    def _hurry_mps(self, now: float) -> None:
        if self._mps is None:
            return
        for index in self._mps.urgent():
            with self._contained:
                self._ask_mps(self._mps, self._guards[index], (), now)

    def _ask_mps(self, mps: MpsSide, each: Guard, xids: tuple[float, ...], now: float) -> None:
        lifted = not each.quarantine and not each.disabled
        around = Around(each.mode is SharingMode.ENFORCE, lifted, xids)
        try:
            each.terms = mps.terms(each.index, each.reading, around, now)
        except Exception:
            each.terms = replace(each.terms, hold=NO_WORD, unshareable=NO_WORD)
            raise
        self._tell_faults(mps, each)

    def _tell_faults(self, mps: MpsSide, each: Guard) -> None:
        """At once: what a story says is durable together with what was done."""
        for story in mps.news(each.index):
            first = story["first"] or {}
            self._spool.append(
                EventKind.GPU_FAULT,
                gpu_index=each.index,
                placement_id=first.get("placement_id") or None,
                data=story,
            )

    def _judge(self, each: Guard, now: float) -> None:
        if self._gives_verdicts(each):
            self._act(each, each.wire(self._facts(each), now), now)
            self._note_degraded(each)
            if now - each.saved_at >= SAVE_EVERY_S:
                self._save(each)

    def _gives_verdicts(self, each: Guard) -> bool:
        """Not while sharing is off; but what still runs there is protected to its end."""
        return each.mode is not SharingMode.OFF or self._guests.on_gpu(each.index) is not None

    def _note_degraded(self, each: Guard) -> None:
        missing = each.missing()
        if missing and missing != each.degraded:
            data = {"missing": list(missing)}
            self._spool.append(EventKind.DEGRADED, gpu_index=each.index, data=data)
        each.degraded = missing

    def _offer_status(self, now: float) -> None:
        status = self._reporter.status(now)
        if status is not None:
            self.outbox.offer_status(status)

    # --- what SysMonitor wants ----------------------------------------------------------

    def _act(self, each: Guard, step: Step, now: float) -> None:
        for moved in step.transitions:
            data = transition(moved, each.known, self._reporter.number)
            self._spool.append(EventKind.TRANSITION, gpu_index=each.index, data=data)
        guest = self._guests.on_gpu(each.index)
        if guest is not None:
            for action in step.actions:
                self._act_on(each, guest, action, now)
        if step.transitions:
            self._save(each)

    def _act_on(self, each: Guard, guest: Guest, action: Verdict, now: float) -> None:
        policy = each.policy or WITHOUT_ORDERS
        match action.kind:
            case ActionKind.FREEZE:
                self._guests.freeze(guest, action, _reaction_ms(each))
            case ActionKind.THAW if not each.terms.hold:
                self._guests.thaw(guest, action.why)
            case ActionKind.EVICT:
                self._guests.evict(guest, action, policy, _reaction_ms(each), now)
            case ActionKind.PROPOSE:
                self._guests.propose(guest, action)

    def _save(self, each: Guard) -> None:
        each.saved_at = self._sampled_at
        self._state.set_fact(self.identity.name, _fact(each.gpu), each.to_json())

    # --- what should run ----------------------------------------------------------------

    def reconcile(self, now: float) -> None:
        actions = plan(self._situation(now))
        with self._contained:
            self._start([action for action in actions if isinstance(action, Start)], now)
        for action in actions:
            with self._contained:
                self._carry_out(action, now)

    def _start(self, starts: Sequence[Start], now: float) -> None:
        """All intents in one commit, then the spawns; none while the disk refuses intents."""
        if not starts or self._state.refusal:
            return
        for action in starts:
            self._guests.intend(action)
        if not self._state.commit():
            return
        for action in starts:
            with self._contained:
                policy = self._guard_of(action.placement).policy or WITHOUT_ORDERS
                self._guests.start(action, policy, now)

    def _carry_out(self, action: Action, now: float) -> None:
        match action:
            case Stop():
                each = self._guard_of(self._guests.placement(action.placement_id))
                policy = each.policy or WITHOUT_ORDERS
                if action.eviction_id is not None:
                    self._spool.tally.ordered(each.index, action.origin, action.placement_id, now)
                self._guests.stop(action, policy, each.held, now)
            case Decline():
                self._guests.decline(action)
            case Forget():
                self._guests.forget(action)

    def _guard_of(self, placement: DesiredPlacement) -> Guard:
        return self._guards[placement.gpu_index]

    def _situation(self, now: float) -> Situation:
        return Situation(
            self._orders.desired,
            self._orders.lease_left_s(now) > 0,
            {each.index: self._floor(each) for each in self._guards.values()},
            self._guests.known(),
        )

    def _floor(self, each: Guard) -> GpuFloor:
        guest = self._guests.on_gpu(each.index)
        vacant = guest is None and _memory_returned(each, guest)
        leave = each.terms.leave
        return GpuFloor(
            each.state,
            each.mode,
            each.switched_off,
            vacant,
            not each.unshareable,
            leave,
            each.policy is not None and each.policy.allow_unlimited_jobs,
            not (vacant and each.is_over()),
        )

    def _facts(self, each: Guard) -> Facts:
        guest, target = self._guests.on_gpu(each.index), each.target
        online = None if each.reading is None else each.reading.online_processes
        return Facts(
            offline_present=guest is not None and not guest.gone,
            offline_memory_returned=_memory_returned(each, guest),
            online_present=online is None or online > 0,
            disabled_by_person=each.disabled,
            disable_reason="" if target is None else target.disabled_reason,
            mps_fault=each.terms.fault,
            throttled_by=each.throttled_by,
            host_memory_short="" if guest is None else guest.facts.host_memory_short,
        )


def _is_alone(each: Guard) -> bool:
    """Whether it is known that no process on the GPU is anybody else's, and nothing ails it."""
    alone = each.reading is not None and each.reading.online_processes == 0
    return alone and each.state is GpuState.HEALTHY and not each.held


def _is_undisturbed(each: Guard, guest: Guest) -> bool:
    """Whether the GPU's signals tell of this job alone, at its full speed."""
    runs = guest.state is PlacementState.RUNNING
    full = (guest.duty_percent or 0.0) > FULL_DUTY_PERCENT - DUTY_STEP_PERCENT
    return runs and full and _is_alone(each)


def _fact(gpu: Gpu) -> str:
    """The name under which a GPU's guard is kept: of the card, wherever it sits."""
    return f"guard {gpu.inventory.uuid}"


def _memory_returned(each: Guard, guest: Guest | None) -> bool:
    """By what the device says, looked at since the job went. Where nobody can tell offline memory
    apart, a job that is gone has returned its own."""
    held = None if each.reading is None else each.reading.offline_memory_bytes
    if each.reading is None or held is None:
        return guest is None or guest.gone
    gone_at = None if guest is None else guest.gone_at
    looked_at = each.reading.processes_at
    return held == 0 and (gone_at is None or looked_at is None or looked_at >= gone_at)


def _reaction_ms(each: Guard) -> float | None:
    """Since the sample before the one acted on: the signal was within its limit then, so the
    true reaction took no longer."""
    before = each.before_last_at
    return None if before is None else (time.monotonic() - before) * 1_000
