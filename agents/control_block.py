"""The control block of one placement: what its processes may do, and where they are.

The twin of `agents/xcuda/src/block.h`. A directory holds two files. `policy` is written here and
read by libxcuda in every process of the job; `stats` is written by those processes and read here.
The tables below state every offset once; `xcuda-block layout` states those of the C side, and a
test compares the two.

What the job can write is never trusted: `stats` is read with `pread`, since a mapped file that
the job truncates would end the agent with SIGBUS, and a value that means nothing is read as None.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import mmap
import os
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from agents.wire.names import Phase

POLICY_MAGIC: Final = 0x31594C4F50584D58
STATS_MAGIC: Final = 0x3154415453584D58
ABI: Final = 1
SLOTS: Final = 64
PAGE_BYTES: Final = 4096
UNIT_BYTES: Final = 512
NO_LIMIT_PERMILLE: Final = 1000


class BlockError(Exception):
    """A control block that cannot be made or read; the message is one sentence for a person."""


class Mode(IntEnum):
    """What libxcuda does with launches and copies."""

    RUN = 0
    THROTTLE = 1
    FREEZE = 2
    EXIT = 3


MODES: Final = frozenset(Mode)
WINDOW_OPEN: Final = 1


class Kind(IntEnum):
    """How charged memory was asked for."""

    DEVICE = 0
    ASYNC = 1
    MANAGED = 2
    PHYSICAL = 3
    ARRAY = 4
    GRAPH = 5
    MODULE = 6
    SLACK = 7


# By the code in a slot; a process outside a stop has none.
PHASE_CODES: Final[tuple[Phase | None, ...]] = (
    None,
    Phase.SIGNALLED,
    Phase.CHECKPOINTED,
    Phase.GATED,
    Phase.QUIESCED,
    Phase.RELEASED,
)


class Width(Enum):
    """Of a field; the value is its `struct` format."""

    U32 = "I"
    I32 = "i"
    U64 = "Q"
    KINDS = f"{len(Kind)}Q"

    @property
    def bytes(self) -> int:
        return struct.calcsize("<" + self.value)


U32, I32, U64, KINDS = Width.U32, Width.I32, Width.U64, Width.KINDS


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the fields of one structure lie, in their order: name → (offset, width).
    Little-endian."""

    size: int
    fields: Mapping[str, tuple[int, Width]]
    _names: tuple[str, ...] = field(init=False)
    _numbers: struct.Struct = field(init=False)

    def __post_init__(self) -> None:
        """Slots are read for each job on each sample, so all their numbers at once."""
        single = {name: at for name, at in self.fields.items() if at[1] is not KINDS}
        shape, end = "<", 0
        for offset, width in single.values():
            shape += f"{offset - end}x{width.value}"
            end = offset + width.bytes
        object.__setattr__(self, "_names", tuple(single))
        object.__setattr__(self, "_numbers", struct.Struct(shape))

    def unpack(self, raw: bytes) -> dict[str, int]:
        """The single numbers."""
        return dict(zip(self._names, self._numbers.unpack_from(raw), strict=True))

    def unpack_kinds(self, raw: bytes, name: str) -> dict[Kind, int]:
        """A field with one number for each kind of memory."""
        offset, width = self.fields[name]
        return dict(zip(Kind, struct.unpack_from("<" + width.value, raw, offset), strict=True))


POLICY: Final = Layout(
    size=192,
    fields={
        "magic": (0, U64),
        "abi": (8, U32),
        "page_bytes": (12, U32),
        "generation": (16, U64),
        "sequence": (64, U32),
        "mode": (68, U32),
        "memory_quota_bytes": (72, U64),
        "launches_per_s": (80, U64),
        "blocks_per_s": (88, U64),
        "inflight_cap": (96, U32),
        "duty_permille": (100, U32),
        "safe_duty_permille": (104, U32),
        "floor_duty_permille": (108, U32),
        "grace_ms": (112, U32),
        "window_open": (116, U32),
        "exit_ms": (120, U32),
        "heartbeat_ns": (128, U64),
    },
)

SLOT: Final = Layout(
    size=192,
    fields={
        "owner": (0, U64),
        "pid_namespace": (8, U32),
        "transit": (12, U32),
        "phase": (16, U32),
        "stuck": (20, U32),
        "signal": (24, U32),
        "fault": (28, I32),
        "mode": (32, U32),
        "sequence": (36, U32),
        "inflight": (40, U32),
        "window": (44, U32),
        "used_bytes": (48, KINDS),
        "host_bytes": (112, U64),
        "launches": (120, U64),
        "blocks": (128, U64),
        "throttled_ns": (136, U64),
        "frozen_ns": (144, U64),
        "busy_ns": (152, U64),
        "denied": (160, U64),
        "unhooked": (168, U64),
        "cuda_ns": (176, U64),
    },
)

FIRST_SLOT: Final = 192
_OWNERS: Final = struct.Struct("<" + f"Q{SLOT.size - U64.bytes}x" * SLOTS)

STATS: Final = Layout(
    size=FIRST_SLOT + SLOTS * SLOT.size,
    fields={
        "magic": (0, U64),
        "abi": (8, U32),
        "slots": (12, U32),
        "generation": (16, U64),
        "used": (64, U64),
        "peak_bytes": (72, U64),
        "bell": (128, U32),
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the processes of one placement may do from now on; None is no limit.

    `memory_quota_bytes` and the two rates hold as stated in `docs/xcuda.md`: the quota for the
    whole job, the rates and `inflight_cap` for each process. `grace_ms` 0: no checkpoint window.
    """

    mode: Mode = Mode.RUN
    memory_quota_bytes: int | None = None
    launches_per_s: int | None = None
    blocks_per_s: int | None = None
    inflight_cap: int | None = None
    duty_permille: int = NO_LIMIT_PERMILLE
    safe_duty_permille: int = 100
    floor_duty_permille: int = 50
    grace_ms: int = 20_000
    window_open: bool = False
    exit_ms: int = 10_000

    def checked(self) -> dict[str, int]:
        """The fields as they are written. Raises BlockError for one out of its range."""
        return {name: self._checked(name, *bounds) for name, bounds in RANGES.items()}

    def _checked(self, name: str, least: int, most: int) -> int:
        value = getattr(self, name)
        if value is None:
            return NO_LIMIT
        if name in OPTIONAL:  # 0 is how None is written, not a limit that lets nothing through
            least = 1
        if not least <= value <= most:
            raise BlockError(
                f"{name} is {value}, but must be from {least} to {most}: "
                "the policy was not written."
            )
        return int(value)


NO_LIMIT: Final = 0
OPTIONAL: Final = frozenset(
    {"memory_quota_bytes", "launches_per_s", "blocks_per_s", "inflight_cap"}
)
# Beyond these a process takes a policy for garbage and keeps the last good one.
RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "mode": (0, 3),
    "memory_quota_bytes": (0, 1 << 48),
    "launches_per_s": (0, 1_000_000_000),
    "blocks_per_s": (0, 1_000_000_000_000_000),
    "inflight_cap": (0, 1_000_000),
    "duty_permille": (1, 1000),
    "safe_duty_permille": (1, 1000),
    "floor_duty_permille": (1, 1000),
    "grace_ms": (0, 86_400_000),
    "window_open": (0, 1),
    "exit_ms": (1, 3_600_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of the job, as it was at one instant.

    `pid` counts in the process's own namespace; `host_pid` in ours, None once it is gone. `phase`
    is None outside a stop, `signal` None when the agent asked for the stop, `fault` None without
    a fatal code, `sequence` and `mode` None before the process has taken a policy over.
    """

    slot: int
    pid: int
    host_pid: int | None
    phase: Phase | None
    stuck: bool
    window: bool
    had_window: bool
    signal: int | None
    fault: int | None
    mode: Mode | None
    sequence: int | None
    inflight: int
    used_bytes: Mapping[Kind, int]
    host_bytes: int
    launches: int
    blocks: int
    throttled_ns: int
    frozen_ns: int
    busy_ns: int
    denied: int
    unhooked: int
    cuda_ns: int | None

    @property
    def alive(self) -> bool:
        return self.host_pid is not None


class ControlBlock:
    """The agent's end. One agent writes; any number of processes read."""

    def __init__(self, directory: Path) -> None:
        """Opens a block that is there. Raises BlockError when it is not one."""
        self.directory = directory
        with contextlib.ExitStack() as opened:
            policy_file = opened.enter_context(_opened(directory / "policy", POLICY.size))
            stats_file = opened.enter_context(_opened(directory / "stats", STATS.size))
            self._policy = mmap.mmap(policy_file, POLICY.size)
            self._stats = mmap.mmap(stats_file, STATS.size)
            self._stats_file = os.dup(stats_file)
        self._words = {
            name: _word(self._policy, POLICY, name)
            for name in ("sequence", "heartbeat_ns", *RANGES)
        }
        self._bell = _word(self._stats, STATS, "bell")
        try:
            self.generation = self._checked_generation()
        except BlockError:
            self.close()
            raise

    @classmethod
    def create(
        cls,
        directory: Path,
        generation: int,
        limits: Limits | None = None,
        *,
        job_uid: int | None = None,
    ) -> ControlBlock:
        """Makes a block before the job is started, and gives `stats` to the job's user.

        Raises BlockError when there is one already, or when it cannot be made.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
            _make(directory / "stats", 0o600, _stats_image(generation))
            if job_uid is not None:
                os.chown(directory / "stats", job_uid, -1)
            # Last, since a process takes a directory with both files for a whole block.
            _make(directory / "policy", 0o644, _policy_image(generation, limits or Limits()))
        except OSError as error:
            raise BlockError(
                f"The control block {directory} cannot be made: {_reason(error)}."
            ) from error
        return cls(directory)

    def close(self) -> None:
        """Lets go of the files; they stay."""
        if self._stats_file < 0:
            return
        self._words.clear()
        del self._bell
        self._policy.close()
        self._stats.close()
        os.close(self._stats_file)
        self._stats_file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def set_policy(self, limits: Limits) -> int:
        """Writes all limits at once and wakes the processes; returns the sequence they take over.

        Raises BlockError for a limit out of its range, before anything is written.
        """
        written = limits.checked()
        sequence = self._words["sequence"]
        sequence.value |= 1
        self._order()
        for name, value in written.items():
            self._words[name].value = value
        self._order()
        # 0 is the sequence of a process that has taken none over.
        sequence.value = (sequence.value + 1) & 0xFFFFFFFF or 2
        _futex(_FUTEX_WAKE, sequence, _EVERYONE)
        return int(sequence.value)

    def heartbeat(self) -> None:
        """Says that the agent is there; due several times a second from the first time on.

        A block that never had one is of a run by hand: nobody is missed.
        """
        self._words["heartbeat_ns"].value = time.monotonic_ns()

    def read_limits(self) -> Limits:
        """What was written last. Raises BlockError when it makes no sense."""
        raw = {name: int(self._words[name].value) for name in RANGES}
        if raw["mode"] not in tuple(Mode):
            raise BlockError(f"{self.directory / 'policy'} holds {raw['mode']} as its mode.")
        return Limits(
            mode=Mode(raw["mode"]),
            memory_quota_bytes=raw["memory_quota_bytes"] or None,
            launches_per_s=raw["launches_per_s"] or None,
            blocks_per_s=raw["blocks_per_s"] or None,
            inflight_cap=raw["inflight_cap"] or None,
            duty_permille=raw["duty_permille"],
            safe_duty_permille=raw["safe_duty_permille"],
            floor_duty_permille=raw["floor_duty_permille"],
            grace_ms=raw["grace_ms"],
            window_open=raw["window_open"] == 1,
            exit_ms=raw["exit_ms"],
        )

    def read_slots(self) -> list[Process]:
        """Every process that has a slot, gone ones included until another takes theirs.

        Raises BlockError when the job has cut the file short.
        """
        raw = self._read_stats()
        owners = _OWNERS.unpack_from(raw, FIRST_SLOT)
        return [
            _process(slot, raw[FIRST_SLOT + slot * SLOT.size :][: SLOT.size])
            for slot, owner in enumerate(owners)
            if owner
        ]

    def used_bytes(self) -> int:
        """What the quota counts now. Raises BlockError as `read_slots` does."""
        return (self._read_words()["used"] & ((1 << 40) - 1)) * UNIT_BYTES

    def peak_bytes(self) -> int:
        """The most it has counted. Raises BlockError as `read_slots` does."""
        return self._read_words()["peak_bytes"]

    def bell(self) -> int:
        """A number that changes whenever a process has something to tell."""
        return self._read_words()["bell"]

    def wait_bell(self, seen: int, timeout_s: float) -> int:
        """Blocks this thread until the bell is no longer `seen`, or for `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while (bell := self.bell()) == seen and (left := deadline - time.monotonic()) > 0:
            _futex(_FUTEX_WAIT, self._bell, seen, left)
        return bell

    def _read_words(self) -> dict[str, int]:
        return STATS.unpack(self._read_stats())

    def _read_stats(self) -> bytes:
        raw = os.pread(self._stats_file, STATS.size, 0)
        if len(raw) < STATS.size:
            raise BlockError(
                f"{self.directory / 'stats'} has {len(raw)} bytes instead of {STATS.size}: "
                "the job has cut it short, so nothing is known of its processes."
            )
        return raw

    def _order(self) -> None:
        """A full memory barrier: waking nobody makes the kernel issue one."""
        _futex(_FUTEX_WAKE, self._words["heartbeat_ns"], 1)

    def _checked_generation(self) -> int:
        policy = POLICY.unpack(self._policy[:])
        stats = self._read_words()
        for name, page, magic in (("policy", policy, POLICY_MAGIC), ("stats", stats, STATS_MAGIC)):
            if page["magic"] != magic:
                raise BlockError(f"{self.directory / name} is not a file of a control block.")
            if page["abi"] != ABI:
                raise BlockError(
                    f"{self.directory / name} has ABI {page['abi']}, and this agent speaks {ABI}."
                )
        if policy["generation"] != stats["generation"]:
            raise BlockError(
                f"{self.directory} has files of two blocks: policy is of generation "
                f"{policy['generation']}, stats of {stats['generation']}."
            )
        return policy["generation"]


def _process(slot: int, raw: bytes) -> Process:
    of = SLOT.unpack(raw)
    started, pid = of["owner"] >> 32, of["owner"] & 0xFFFFFFFF
    taken = of["sequence"] != 0
    return Process(
        slot=slot,
        pid=pid,
        host_pid=host_pid(pid, started, of["pid_namespace"]),
        phase=PHASE_CODES[of["phase"]] if of["phase"] < len(PHASE_CODES) else None,
        stuck=of["stuck"] != 0,
        window=of["window"] == WINDOW_OPEN,
        had_window=of["window"] != 0,
        signal=of["signal"] or None,
        fault=of["fault"] or None,
        mode=Mode(of["mode"]) if taken and of["mode"] in MODES else None,
        sequence=of["sequence"] if taken else None,
        inflight=of["inflight"],
        used_bytes=SLOT.unpack_kinds(raw, "used_bytes"),
        host_bytes=of["host_bytes"],
        launches=of["launches"],
        blocks=of["blocks"],
        throttled_ns=of["throttled_ns"],
        frozen_ns=of["frozen_ns"],
        busy_ns=of["busy_ns"],
        denied=of["denied"],
        unhooked=of["unhooked"],
        cuda_ns=of["cuda_ns"] or None,
    )


def host_pid(pid: int, started: int, namespace: int) -> int | None:
    """Our number of the live process that calls itself `pid` in `namespace`, or None.

    `started` is the low half of its start time in clock ticks since boot, which is the same in
    every namespace and tells it from a later process with the same number.
    """
    if namespace == _own_namespace():
        return pid if _started(str(pid)) == started else None
    for entry in _numbers(Path("/proc")):
        if (
            _started(entry) == started
            and _namespace(entry) == namespace
            and _innermost_pid(entry) == pid
        ):
            return int(entry)
    return None


def _numbers(directory: Path) -> Iterator[str]:
    return (entry.name for entry in os.scandir(directory) if entry.name.isdecimal())


def _started(process: str) -> int | None:
    """None for one that is gone or only waits for its parent to notice."""
    try:
        text = Path("/proc", process, "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name in parentheses may hold anything, so the fields are counted from its end.
    state, *fields = text[text.rindex(")") + 2 :].split()
    ended = state in "ZXx" and int(fields[16]) <= 1
    return None if ended else int(fields[18]) & 0xFFFFFFFF


@functools.cache
def _own_namespace() -> int | None:
    return _namespace("self")


def _namespace(process: str) -> int | None:
    try:
        return Path("/proc", process, "ns", "pid").stat().st_ino & 0xFFFFFFFF
    except OSError:
        return None


def _innermost_pid(process: str) -> int | None:
    try:
        lines = Path("/proc", process, "status").read_text(errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[-1]) for line in lines if line.startswith("NSpid:")), None)


def _policy_image(generation: int, limits: Limits) -> bytes:
    return _image(
        POLICY,
        magic=POLICY_MAGIC,
        abi=ABI,
        page_bytes=PAGE_BYTES,
        generation=generation,
        sequence=2,
        **limits.checked(),
    )


def _stats_image(generation: int) -> bytes:
    return _image(STATS, magic=STATS_MAGIC, abi=ABI, slots=SLOTS, generation=generation)


def _image(layout: Layout, **values: int) -> bytes:
    image = bytearray(layout.size)
    for name, value in values.items():
        offset, width = layout.fields[name]
        struct.pack_into("<" + width.value, image, offset, value)
    return bytes(image)


def _make(path: Path, mode: int, image: bytes) -> None:
    """A whole file of the right size under its name, or none: never a part of one."""
    whole = image.ljust(-len(image) % PAGE_BYTES + len(image), b"\0")
    part = path.with_name(path.name + ".part")
    with contextlib.suppress(FileNotFoundError):
        part.unlink()
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        os.fchmod(descriptor, mode)
        os.write(descriptor, whole)
    finally:
        os.close(descriptor)
    os.link(part, path)
    part.unlink()


@contextlib.contextmanager
def _opened(path: Path, size: int) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise BlockError(f"{path} cannot be opened: {_reason(error)}.") from error
    try:
        if (found := os.fstat(descriptor).st_size) < size:
            raise BlockError(f"{path} has {found} bytes, and a control block's has {size}.")
        yield descriptor
    finally:
        os.close(descriptor)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


# --- words that two sides share -----------------------------------------------------------------

_FUTEX_WAIT: Final = 0
_FUTEX_WAKE: Final = 1
_EVERYONE: Final = 0x7FFFFFFF
_SYS_FUTEX: Final = {"x86_64": 202, "aarch64": 98}
_libc: Final = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


_Word = ctypes.c_uint32 | ctypes.c_uint64


def _word(page: mmap.mmap, layout: Layout, name: str) -> _Word:
    """The field in place: its value is read and written in one access."""
    offset, width = layout.fields[name]
    if width is U64:
        return ctypes.c_uint64.from_buffer(page, offset)
    return ctypes.c_uint32.from_buffer(page, offset)


def _futex(operation: int, word: _Word, value: int, timeout_s: float | None = None) -> None:
    timeout = None
    if timeout_s is not None:
        timeout = ctypes.byref(_Timespec(int(timeout_s), int(timeout_s % 1 * 1e9)))
    number = _SYS_FUTEX[os.uname().machine]
    done = _libc.syscall(number, ctypes.byref(word), operation, value, timeout, None, 0)
    if done < 0 and ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR, errno.ETIMEDOUT):
        raise BlockError(
            f"Waiting for or waking a process failed: {os.strerror(ctypes.get_errno())}."
        )
