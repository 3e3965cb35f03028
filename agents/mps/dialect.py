"""The questions one can put to a control daemon, apart from how they are carried. Pure.

`Version2` is the command set that every driver since R450 knows. A driver's version 3 protocol
and static SM partitions are another class of the same shape: whoever asks by these names keeps
working.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from agents.mps import answers
from agents.mps.answers import Client, Status

T_co = TypeVar("T_co", covariant=True)
# The daemon serves one GPU, so that is its device 0.
DEVICE = 0
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Question(Generic[T_co]):
    """One command, and how its answer is read; `read` raises answers.BadAnswer."""

    text: str
    read: Callable[[str], T_co]


class Dialect(Protocol):
    """What can be asked, whatever the version says it with. Sizes in bytes, percent of SMs."""

    def servers(self) -> Question[tuple[int, ...]]: ...

    def status(self, server_pid: int) -> Question[Status]: ...

    def clients(self) -> Question[tuple[Client, ...]]: ...

    def client_pids(self, server_pid: int) -> Question[tuple[int, ...]]: ...

    def start_server(self, uid: int) -> Question[None]: ...

    def shut_server(self, server_pid: int) -> Question[None]: ...

    def default_percentage(self) -> Question[float]: ...

    def set_default_percentage(self, percent: float) -> Question[None]: ...

    def set_percentage(self, server_pid: int, percent: float) -> Question[None]: ...

    def default_memory_limit(self) -> Question[int | None]: ...

    def set_default_memory_limit(self, limit_bytes: int) -> Question[None]: ...

    def set_memory_limit(self, server_pid: int, limit_bytes: int) -> Question[None]: ...

    def default_priority(self) -> Question[int]: ...

    def set_default_priority(self, priority: int) -> Question[None]: ...

    def terminate_client(self, server_pid: int, client_pid: int) -> Question[None]: ...

    def quit(self) -> Question[None]: ...


class Version2:
    """The command set that NVIDIA's documentation calls "legacy MPS v2"."""

    def servers(self) -> Question[tuple[int, ...]]:
        return Question("get_server_list", answers.pids)

    def status(self, server_pid: int) -> Question[Status]:
        return Question(f"get_server_status {server_pid:d}", answers.status)

    def clients(self) -> Question[tuple[Client, ...]]:
        return Question("ps", answers.clients)

    def client_pids(self, server_pid: int) -> Question[tuple[int, ...]]:
        return Question(f"get_client_list {server_pid:d}", answers.pids)

    def start_server(self, uid: int) -> Question[None]:
        return Question(f"start_server -uid {uid:d}", answers.done)

    def shut_server(self, server_pid: int) -> Question[None]:
        """At once, whoever is connected."""
        return Question(f"shutdown_server {server_pid:d} -f", answers.done)

    def default_percentage(self) -> Question[float]:
        return Question("get_default_active_thread_percentage", answers.percentage)

    def set_default_percentage(self, percent: float) -> Question[None]:
        share = answers.checked_percentage(percent)
        return Question(f"set_default_active_thread_percentage {share:g}", answers.done)

    def set_percentage(self, server_pid: int, percent: float) -> Question[None]:
        share = answers.checked_percentage(percent)
        return Question(f"set_active_thread_percentage {server_pid:d} {share:g}", answers.done)

    def default_memory_limit(self) -> Question[int | None]:
        return Question(f"get_default_device_pinned_mem_limit {DEVICE}", answers.size_bytes)

    def set_default_memory_limit(self, limit_bytes: int) -> Question[None]:
        megabytes = _megabytes(limit_bytes)
        return Question(f"set_default_device_pinned_mem_limit {DEVICE} {megabytes}M", answers.done)

    def set_memory_limit(self, server_pid: int, limit_bytes: int) -> Question[None]:
        megabytes = _megabytes(limit_bytes)
        return Question(
            f"set_device_pinned_mem_limit {server_pid:d} {DEVICE} {megabytes}M", answers.done
        )

    def default_priority(self) -> Question[int]:
        return Question("get_default_client_priority", answers.priority)

    def set_default_priority(self, priority: int) -> Question[None]:
        if priority not in (0, 1):
            raise ValueError(f"a client priority is 0 (normal) or 1 (below), not {priority}")
        return Question(f"set_default_client_priority {priority}", answers.done)

    def terminate_client(self, server_pid: int, client_pid: int) -> Question[None]:
        return Question(f"terminate_client {server_pid:d} {client_pid:d}", answers.done)

    def quit(self) -> Question[None]:
        return Question("quit", answers.done)


def _megabytes(limit_bytes: int) -> int:
    """Rounded down: a limit must not give more than it says. Raises ValueError."""
    if not answers.MIN_BYTES <= limit_bytes <= answers.MAX_BYTES:
        raise ValueError(f"a memory limit is from 1 MiB to 1 PiB, not {limit_bytes} bytes")
    return limit_bytes // MIB
