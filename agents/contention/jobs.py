"""The offline jobs of the simulated fleet, one slot a GPU: their life, not their speed. Vectorised.

A job warms up, works at the rate it is given, saves at its period, and answers a stop as a
process under xCUDA does: after SIGTERM a job that saves does so at its next step boundary while
launches pass, then exits; a released context makes it exit by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agents.contention.law import Floats
from agents.wire.messages import Profile

Flags: TypeAlias = NDArray[np.bool_]

# Real seconds: loading before the first step, saving after SIGTERM, the way out, memory's return.
WARM_UP_S: Final = 1.5
SAVE_S: Final = (1.0, 2.5)
EXIT_S: Final = 0.3
MEMORY_RETURN_S: Final = 0.4

FINISHED: Final = 0
OUT_OF_MEMORY: Final = 1
ENDED_BY_SIGTERM: Final = 143
KILLED: Final = -9

# The duty of a client that nobody has given one yet.
_FIRST_DUTY_PERCENT: Final = 5.0


@dataclass(frozen=True, slots=True)
class JobView:
    """One offline job as its node sees it. Work in GPU-seconds alone (world time); `exited` is
    its exit code once it is not alive, negative for a signal."""

    alive: bool
    exited: int | None
    progress: float
    work_done_s: float
    unsaved_work_s: float
    memory_bytes: int
    throughput: float
    checkpointed: bool
    gated: bool
    quiesced: bool
    released: bool
    step_s: float | None = None


class Jobs:
    """One slot a GPU. Flags and times are arrays; a slot is empty before its first job."""

    def __init__(self, n_gpus: int, rng: np.random.Generator) -> None:
        self._rng = rng
        self.sm, self.util, self.bandwidth, self.memory_bytes = _zeros(4, n_gpus)
        self.share, self.duty, self.throughput = _zeros(3, n_gpus)
        self.quota_bytes = np.zeros(n_gpus)
        self.work_s, self.done_s, self.saved_s, self.step_s = np.zeros((4, n_gpus))
        self.period_s, self.since_save_s = np.zeros((2, n_gpus))
        self.warm_left_s, self.returning_s = _zeros(2, n_gpus)
        self.save_left_s, self.exit_left_s = np.full((2, n_gpus), np.inf, np.float32)
        self.alive, self.saves, self.told, self.checkpointed = _unset(4, n_gpus)
        self.frozen, self.gated, self.quiesced, self.released = _unset(4, n_gpus)
        self.code = np.zeros(n_gpus, np.int32)

    def start(
        self,
        gpu: int,
        profile: Profile,
        share: float,
        quota_bytes: int,
        saves: bool,
        period_s: float,
        resume_work_s: float,
    ) -> None:
        self.sm[gpu], self.util[gpu] = profile.sm_percent / 100, profile.gpu_util_percent / 100
        self.bandwidth[gpu] = profile.memory_bandwidth_percent / 100
        self.memory_bytes[gpu], self.quota_bytes[gpu] = profile.memory_bytes, quota_bytes
        self.share[gpu], self.duty[gpu] = share, _FIRST_DUTY_PERCENT / 100
        self.work_s[gpu], self.done_s[gpu] = profile.work_s, resume_work_s
        self.step_s[gpu] = profile.step_s or 0.0
        self.saved_s[gpu], self.since_save_s[gpu] = resume_work_s, 0.0
        self.period_s[gpu], self.saves[gpu] = max(period_s, 1.0), saves
        self.warm_left_s[gpu], self.returning_s[gpu], self.throughput[gpu] = WARM_UP_S, 0.0, 0.0
        self.save_left_s[gpu] = self.exit_left_s[gpu] = np.inf
        self.alive[gpu] = True
        for flag in (self.told, self.checkpointed, *self._held_flags()):
            flag[gpu] = False

    def _held_flags(self) -> tuple[Flags, ...]:
        return self.frozen, self.gated, self.quiesced, self.released

    def passing(self) -> Flags:
        """Where launches go through."""
        return self.alive & ~self.frozen & ~self.gated

    def duty_now(self) -> Floats:
        """The duty that has an effect: 0 while warming up, held, saved for good or gone."""
        working = self.passing() & (self.warm_left_s <= 0.0) & ~self.checkpointed
        return np.where(working, self.duty, np.float32(0.0))

    def step(self, throughput: Floats, dt_s: float, world_dt_s: float) -> None:
        """Live for `dt_s` real and `world_dt_s` world seconds at this normalised throughput."""
        self.throughput = throughput
        passing = self.passing()
        self._work(throughput * world_dt_s, world_dt_s)
        self._warm_up(passing, dt_s)
        self._answer_sigterm(passing, dt_s)
        self.exit_left_s -= np.float32(dt_s)
        self.returning_s = np.maximum(0.0, self.returning_s - np.float32(dt_s))
        self._exit(self.alive & (self.exit_left_s <= 0.0))

    def _work(self, gained_s: Floats, world_dt_s: float) -> None:
        self.done_s = np.minimum(self.work_s, self.done_s + gained_s)
        self.since_save_s += np.where(gained_s > 0.0, world_dt_s, 0.0)
        due = self.saves & (self.since_save_s >= self.period_s)
        finished = self.alive & (self.done_s >= self.work_s)
        self._save(due | finished)
        self._leave(finished, FINISHED, after_s=0.0)

    def _save(self, where: Flags) -> None:
        self.saved_s = np.where(where, self.done_s, self.saved_s)
        self.since_save_s = np.where(where, 0.0, self.since_save_s)

    def _warm_up(self, passing: Flags, dt_s: float) -> None:
        self.warm_left_s = np.where(
            passing, np.maximum(0.0, self.warm_left_s - np.float32(dt_s)), self.warm_left_s
        )
        short = self.alive & (self.warm_left_s <= 0.0) & (self.memory_bytes > self.quota_bytes)
        self._leave(short, OUT_OF_MEMORY, after_s=0.0)

    def _answer_sigterm(self, passing: Flags, dt_s: float) -> None:
        """A frozen handler waits: its save needs launches."""
        saving = passing & self.told & self.saves & ~self.checkpointed
        self.save_left_s = np.where(saving, self.save_left_s - np.float32(dt_s), self.save_left_s)
        saved = saving & (self.save_left_s <= 0.0)
        self._save(saved)
        self.checkpointed |= saved
        self._leave(saved, FINISHED, after_s=EXIT_S)

    def _leave(self, where: Flags, code: int, after_s: float) -> None:
        """Exit with `code` in a moment, unless a way out was taken already."""
        leaving = where & np.isinf(self.exit_left_s)
        self.exit_left_s = np.where(leaving, np.float32(after_s), self.exit_left_s)
        self.code = np.where(leaving, np.int32(code), self.code)

    def _exit(self, where: Flags) -> None:
        self.alive &= ~where
        self.throughput = np.where(where, np.float32(0.0), self.throughput)
        self.returning_s = np.where(where, np.float32(MEMORY_RETURN_S), self.returning_s)

    def sigterm(self, gpu: int) -> None:
        """A second one changes nothing."""
        if self.told[gpu]:
            return
        self.told[gpu] = True
        self.save_left_s[gpu] = self._rng.uniform(*SAVE_S)
        if not self.saves[gpu]:
            self._leave(self._only(gpu), ENDED_BY_SIGTERM, after_s=EXIT_S)

    def release(self, gpu: int) -> None:
        self.gated[gpu] = self.quiesced[gpu] = self.released[gpu] = True
        self._leave(self._only(gpu), ENDED_BY_SIGTERM, after_s=EXIT_S)

    def kill(self, where: Flags) -> None:
        where = where & self.alive
        self.code = np.where(where, np.int32(KILLED), self.code)
        self._exit(where)

    def _only(self, gpu: int) -> Flags:
        where = np.zeros(len(self.alive), np.bool_)
        where[gpu] = self.alive[gpu]
        return where

    def memory_held(self) -> Floats:
        """Bytes on the card: growing while a job warms up, gone a moment after it."""
        loaded = 1.0 - self.warm_left_s / WARM_UP_S
        held = np.where(self.alive, loaded, (self.returning_s > 0.0).astype(np.float32))
        return np.minimum(self.memory_bytes, self.quota_bytes).astype(np.float32) * held

    def is_free(self, gpu: int) -> bool:
        return not self.alive[gpu] and self.returning_s[gpu] <= 0.0

    def view(self, gpu: int) -> JobView:
        alive, work_s = bool(self.alive[gpu]), float(self.work_s[gpu])
        done_s, saved_s = float(self.done_s[gpu]), float(self.saved_s[gpu])
        return JobView(
            alive=alive,
            exited=None if alive else int(self.code[gpu]),
            progress=done_s / work_s if work_s > 0.0 else 1.0,
            work_done_s=done_s,
            unsaved_work_s=done_s - saved_s,
            memory_bytes=int(self.memory_held()[gpu]),
            throughput=float(self.throughput[gpu]),
            checkpointed=bool(self.checkpointed[gpu]),
            gated=bool(self.gated[gpu]),
            quiesced=bool(self.quiesced[gpu]),
            released=bool(self.released[gpu]),
            step_s=self._step_s(gpu),
        )

    def _step_s(self, gpu: int) -> float | None:
        """Of a step now; None for a job that tells none, and while it stands still."""
        alone_s, throughput = float(self.step_s[gpu]), float(self.throughput[gpu])
        return alone_s / throughput if alone_s > 0.0 and throughput > 0.0 else None


def _zeros(count: int, n: int) -> tuple[Floats, ...]:
    return tuple(np.zeros((count, n), np.float32))


def _unset(count: int, n: int) -> tuple[Flags, ...]:
    return tuple(np.zeros((count, n), np.bool_))
