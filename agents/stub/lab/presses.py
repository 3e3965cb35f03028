"""SIGTERM to a real job whose kernels are in flight, and what came of it."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from agents.mps.recovery import MOST_FAULTS, WINDOW_S
from agents.stub.lab.daemons import Card
from agents.stub.lab.service import Service, Tally
from agents.supervisor import start_ticks
from agents.wire.lab import Press

# A job has kernels in flight nearly always.
AIM_S: Final = 3.0
LOOK_S: Final = 0.05
# Long enough to see that nothing happens, and for a recovery to end.
CALM_S, AFTER_S, MOST_S = 6.0, 5.0, 120.0
ENDINGS: Final = ("unsafe", "failed", "released", "idle")


class CannotPress(RuntimeError):
    """One sentence that says why, and when to try again."""


@dataclass(frozen=True)
class Target:
    """A client of a GPU that is not its online service; `ticks`: when it started."""

    pid: int
    ticks: int
    in_flight: int
    under_xcuda: bool
    job: str
    placement_id: str


class Presses:
    """The last of each kind, and the one that is being watched."""

    def __init__(
        self, cards: Sequence[Card], services: Mapping[str, Service], report: Path, library: Path
    ) -> None:
        """`services` by the UUID of their GPU; `library` is libxcuda.so as jobs have it."""
        self._cards, self._services = tuple(cards), dict(services)
        self._report, self._library = report, library
        self._lock, self._pressing = threading.Lock(), threading.Lock()
        self._last: dict[bool, Press] = {}
        self._faults: dict[str, list[float]] = {}

    def told(self) -> tuple[Press, ...]:
        with self._lock:
            return tuple(self._last.values())

    def press(self, *, under_xcuda: bool) -> Press:
        """Sends the signal. Raises CannotPress."""
        with self._pressing:
            self._expect_over(under_xcuda)
            card, target = self._aim(under_xcuda)
            self._expect_answers(card)
            if not under_xcuda:
                self._count_fault(card.uuid)
            watch = self._signal(card, target)
        threading.Thread(target=self._follow, args=(watch, card), name="press", daemon=True).start()
        return watch.press

    def _expect_over(self, under_xcuda: bool) -> None:
        with self._lock:
            last = self._last.get(under_xcuda)
        if last is not None and last.watching:
            raise CannotPress("The last one is not over yet; this page shows how it goes on.")

    def _signal(self, card: Card, target: Target) -> _Watch:
        before, service = self._ask(card), self._services[card.uuid]
        press = Press(
            target.under_xcuda,
            time.time(),
            card.uuid,
            service.name,
            target.job,
            target.placement_id,
            target.pid,
            target.in_flight,
        )
        watch = _Watch(press, service.tally, target, before)
        try:
            os.kill(target.pid, signal.SIGTERM)
        except ProcessLookupError:
            raise CannotPress(f"{target.job} has just ended by itself: try again.") from None
        self._note(press)
        return watch

    # --- whom -----------------------------------------------------------------------------

    def _aim(self, under_xcuda: bool) -> tuple[Card, Target]:
        """A job of this kind with kernels in flight."""
        until = time.monotonic() + AIM_S
        found = False
        while time.monotonic() < until:
            for card in self._cards:
                for target in self._targets(card):
                    found |= target.under_xcuda == under_xcuda
                    if target.under_xcuda == under_xcuda and target.in_flight:
                        return card, target
            time.sleep(LOOK_S)
        how = "under xCUDA" if under_xcuda else "without xCUDA"
        if found:
            raise CannotPress(f"The job {how} has no kernel in flight (it is frozen): try again.")
        raise CannotPress(
            f"No job {how} runs on this node now: while sharing is on, the next one of the queue"
            " is placed within a minute."
        )

    def _expect_answers(self, card: Card) -> None:
        service = self._services[card.uuid]
        if not service.answers:
            raise CannotPress(f"{service.name} does not answer yet: try again when it is back.")

    def _targets(self, card: Card) -> list[Target]:
        service = self._services[card.uuid]
        others = [one for one in self._ask(card)["clients"] if int(one["pid"]) != service.pid]
        targets = (self._target(int(one["pid"]), int(one["in_flight"])) for one in others)
        return [target for target in targets if target is not None]

    def _target(self, pid: int, in_flight: int) -> Target | None:
        ticks = start_ticks(pid)
        try:
            told = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            mapped = Path(f"/proc/{pid}/maps").read_text()
        except OSError:  # it ended meanwhile
            return None
        words = dict(one.decode(errors="replace").partition("=")[::2] for one in told if one)
        if ticks is None or "MUXFLOW_JOB" not in words:
            return None
        covered = str(self._library) in mapped
        return Target(
            pid, ticks, in_flight, covered, words["MUXFLOW_JOB"], words["MUXFLOW_PLACEMENT_ID"]
        )

    def _count_fault(self, uuid: str) -> None:
        """One fault too many and the agent gives the GPU up, as it should: not by this button."""
        now = time.monotonic()
        lately = [at for at in self._faults.get(uuid, []) if now - at < WINDOW_S]
        if len(lately) >= MOST_FAULTS:
            wait_min = math.ceil((WINDOW_S - (now - lately[0])) / 60)
            raise CannotPress(
                f"This GPU has faulted {len(lately)} times within {WINDOW_S / 60:.0f} minutes, and"
                " with one more the agent gives it up as suspect: try again in"
                f" {wait_min} min."
            )
        self._faults[uuid] = [*lately, now]

    # --- what came of it ------------------------------------------------------------------

    def _follow(self, watch: _Watch, card: Card) -> None:
        while watch.press.watching:
            time.sleep(LOOK_S)
            watch.look(time.monotonic(), lambda: self._ask(card))
            self._note(watch.press)

    def _note(self, press: Press) -> None:
        with self._lock:
            self._last[press.under_xcuda] = press

    def _ask(self, card: Card) -> dict[str, Any]:
        """What the MPS server of the stand-in driver knows. Raises CannotPress."""
        try:
            done = subprocess.run(
                [self._report, card.file], capture_output=True, timeout=2, check=True
            )
            told: dict[str, Any] = json.loads(done.stdout)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise CannotPress(f"The simulated GPU cannot be asked: {error}") from error
        return told


class _Watch:
    """One press over time; `before` is what the MPS server knew when it began."""

    def __init__(
        self, press: Press, tally: Tally, target: Target, before: Mapping[str, Any]
    ) -> None:
        self.press = press
        self._tally, self._target, self._before = tally, target, before
        self._answered, self._lost = tally.answered, tally.lost
        self._began_at = time.monotonic()
        self._first_lost_at: float | None = None

    def look(self, now: float, ask: Callable[[], Mapping[str, Any]]) -> None:
        """`ask` is called once, when the process is gone."""
        passed_s, press = now - self._began_at, self.press
        if press.gone_after_s is None and start_ticks(press.pid) != self._target.ticks:
            press = replace(press, gone_after_s=passed_s, ending=self._ending(ask))
        lost, back_s = self._tally.lost - self._lost, press.back_after_s
        if lost and self._first_lost_at is None:
            self._first_lost_at = now
        if lost and back_s is None and self._tally.answered_at > (self._first_lost_at or now):
            back_s = self._tally.answered_at - self._began_at
        self.press = replace(
            press,
            watched_s=passed_s,
            answered=self._tally.answered - self._answered,
            lost=lost,
            back_after_s=back_s,
            watching=passed_s < _until_s(press.gone_after_s, lost, back_s),
        )

    def _ending(self, ask: Callable[[], Mapping[str, Any]]) -> str:
        try:
            return _ending(self._before, ask())
        except CannotPress:
            return ""


def _until_s(gone_after_s: float | None, lost: int, back_after_s: float | None) -> float:
    """How long to watch, in seconds since the signal."""
    if gone_after_s is None or (lost and back_after_s is None):
        return MOST_S
    return back_after_s + AFTER_S if back_after_s is not None else gone_after_s + CALM_S


def _ending(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """How the one client that left since ended; "" when the server cannot tell."""
    return next((how for how in ENDINGS if after[f"exits_{how}"] > before[f"exits_{how}"]), "")
