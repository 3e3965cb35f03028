"""What the processes of one job say of themselves in its control block, taken together. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from agents.control_block import Process
from agents.wire.names import PHASES, Phase

# How long a signal may be on its way before it is said not to have arrived.
SIGNAL_S: Final = 2.0

# A process for as long as its slot is its own.
Key: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Statement:
    """All slots of a job at one instant, and the memory that its quota counts. To be read by any
    thread (see `collectors.xcuda.Slots`), while the block itself is the agent's."""

    processes: tuple[Process, ...] = ()
    charged_bytes: int = 0

    def read_slots(self) -> list[Process]:
        return list(self.processes)

    def used_bytes(self) -> int:
        return self.charged_bytes

    @property
    def live(self) -> tuple[Process, ...]:
        return tuple(one for one in self.processes if one.alive)

    @property
    def pids(self) -> frozenset[int]:
        """Of the live ones, as we count them."""
        return frozenset(one.host_pid for one in self.processes if one.host_pid is not None)

    @property
    def launches(self) -> int:
        return sum(one.launches for one in self.processes)

    @property
    def fault(self) -> int | None:
        return next((one.fault for one in self.processes if one.fault is not None), None)

    @property
    def stuck(self) -> bool:
        return any(one.stuck for one in self.processes)

    def passed(self, phase: Phase, *, gone: bool = False) -> bool:
        """Every live process has; one that ended has nothing in flight that we could wait for. Of
        a job that is `gone`: each of its processes had, by its last words."""
        return all(has_passed(one, phase) for one in (self.processes if gone else self.live))

    def took_over(self, sequence: int) -> bool:
        """Whether a policy holds in every process; not yet, when there is none to hold it."""
        return bool(self.live) and all(one.sequence == sequence for one in self.live)


def has_passed(process: Process, phase: Phase) -> bool:
    return process.phase is not None and PHASES.index(process.phase) >= PHASES.index(phase)


def windows(processes: Iterable[Process]) -> frozenset[Key]:
    """Those that have, or had, a checkpoint window: it may open and end between two looks."""
    return frozenset((one.slot, one.pid) for one in processes if one.had_window)


def has_saved(processes: Iterable[Process], opened: Collection[Key]) -> bool:
    """Every process whose window was `opened` has ended it; one that died in it has not."""
    ended = {(one.slot, one.pid) for one in processes if has_passed(one, Phase.CHECKPOINTED)}
    return bool(opened) and ended.issuperset(opened)


def deaf(processes: Iterable[Process], told_s: float) -> frozenset[int]:
    """Live processes that no SIGTERM has reached, `told_s` after it was sent."""
    if told_s < SIGNAL_S:
        return frozenset()
    return frozenset(one.pid for one in processes if one.alive and one.signal is None)


def remarks(statement: Statement, unheard: Collection[int] = ()) -> tuple[str, ...]:
    """What a person should know of the job, one sentence each; `unheard`: its deaf processes."""
    found = []
    if unheard:
        found.append(unreached(unheard))
    if unhooked := sum(one.unhooked for one in statement.processes):
        found.append(
            f"{unhooked} driver functions of a version that xCUDA does not know ran without limits"
        )
    if statement.fault is not None:
        found.append(f"its first fatal CUDA error was {statement.fault}")
    if statement.stuck:
        found.append("work of it on the GPU does not finish")
    return tuple(found)


def unreached(pids: Collection[int]) -> str:
    return (
        f"SIGTERM never reached {_named(pids)}: it ignores the signal, or runs in a session of its"
        " own below a shell that does not pass it on; it could not save"
    )


def _named(pids: Collection[int]) -> str:
    numbers = ", ".join(map(str, sorted(pids)[:4]))
    return f"process {numbers}" if len(pids) == 1 else f"processes {numbers}"
