"""What a node can know of a GPU that it shares: every signal, who is on it, and what MPS says."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.gpu.figure import Figure, Missing, expect
from tests.gpu.limits import GIB
from tests.gpu.machine import Machine, Step, process_of
from tests.gpu.shared import SharedGpu, dcgm_sources

ENDS_S = 10.0


def steps(gpu: SharedGpu) -> dict[str, Step]:
    """In their order; the last two put back and check what was there before."""
    names: dict[str, Callable[[SharedGpu], Figure]] = {
        "nvml": describe,
        "preflight": judge,
        "daemon": start_daemon,
        "clients": start_clients,
        "mps": ask_mps,
        "signals": read_signals,
        "dcgm": read_dcgm,
        "processes": list_processes,
        "sides": split_activity,
        "xcuda": read_block,
        "shareable": judge,
        "terminate": terminate,
        "quit": quit_daemon,
        "settings": compare_settings,
    }
    return {name: _step(gpu, step) for name, step in names.items()}


def _step(gpu: SharedGpu, step: Callable[[SharedGpu], Figure]) -> Step:
    def on(machine: Machine) -> Figure:
        return step(gpu)

    return on


def line(*cells: object) -> None:
    """One row above the result of the step that it belongs to."""
    sys.stdout.write("    " + "  ".join(f"{cell!s:18}" for cell in cells).rstrip() + "\n")


def describe(gpu: SharedGpu) -> Figure:
    card, gpu.before = gpu.card, gpu.settings()
    for name, answer in gpu.before.items():
        line(name, answer)
    expect(card.memory_bytes > 0, "NVML tells no memory size")
    return Figure(
        f"{card.model}, driver {card.driver}, {card.memory_bytes / GIB:.0f} GiB, compute mode "
        f"{card.compute_mode or 'unknown'}, GPM {'yes' if card.gpm else 'no'}, "
        f"MIG {'on' if card.mig else 'off'}",
        {"uuid": card.uuid, "gpm": card.gpm, "mig": card.mig, "compute_mode": card.compute_mode},
    )


def judge(gpu: SharedGpu) -> Figure:
    """As `muxflow-agent preflight`, which changes nothing."""
    from agents.mps.cards import NvmlCards
    from agents.preflight import as_text, examine, look_once

    elsewhere = frozenset({gpu.card.uuid}) if dcgm_sources() else frozenset()
    source = NvmlCards(gpu.nvml, elsewhere)
    found = examine(source, look_once(gpu.machine.folder, (gpu.program,)), os.getuid())
    for row in as_text(found).splitlines():
        line(row)
    ours = next(one for one in found if one.card.facts.uuid == gpu.card.uuid)
    return Figure(ours.words, {"forbidden_by": [verdict.fact for verdict in ours.verdicts]})


def start_daemon(gpu: SharedGpu) -> Figure:
    began_s = time.monotonic()
    pid = gpu.start_daemon()
    took_ms = (time.monotonic() - began_s) * 1e3
    return Figure(f"PID {pid}, with directories of its own, after {took_ms:.0f} ms")


def start_clients(gpu: SharedGpu) -> Figure:
    online, offline = gpu.start_online(), gpu.start_offline()
    return Figure(f"online {online.pid}, offline {offline.pid} (under xCUDA), both at work")


def ask_mps(gpu: SharedGpu) -> Figure:
    """Every question that the agent puts, with the daemon's answer and how long it took."""
    dialect = gpu.control.dialect
    questions: list[Any] = [dialect.servers(), dialect.clients()]
    questions += [dialect.default_percentage(), dialect.default_memory_limit()]
    questions += [dialect.default_priority()]
    servers = gpu.control.ask(dialect.servers())
    for server in servers:
        questions += [dialect.status(server), dialect.client_pids(server)]
    known = sum(_asked(gpu, question) for question in questions)
    pids = {pid for server in servers for pid in gpu.control.ask(dialect.client_pids(server))}
    ours = {client.pid for client in gpu.clients.values()}
    expect(ours <= pids, f"the daemon lists {sorted(pids)}, our clients are {sorted(ours)}")
    return Figure(f"{known} of {len(questions)} questions answered, both clients listed")


def _asked(gpu: SharedGpu, question: Any) -> bool:
    """What this version of MPS does not know is shown, and no failure."""
    from agents.mps.answers import BadAnswer
    from agents.mps.control import ControlFailed

    began_s = time.monotonic()
    try:
        answer, known = gpu.control.ask(question), True
    except (ControlFailed, BadAnswer) as error:
        answer, known = error, False
    line(f"{question.text:40}", f"{(time.monotonic() - began_s) * 1e3:.1f} ms", answer)
    return known


def read_signals(gpu: SharedGpu) -> Figure:
    """Each signal: its value, where it came from and how old it is, or why it is not there."""
    from agents.wire.names import SIGNALS, UNITS

    reading = gpu.look()
    found = gpu.seen()
    for signal, value, origin in zip(SIGNALS, found.values, found.origins, strict=True):
        if value is None or origin is None:
            line(signal, "missing", found.missing.get(signal) or why_missing(signal))
        else:
            age_ms = (reading.at - origin.at) * 1e3
            line(signal, f"{value:,.1f} {UNITS[signal]}", origin.source, f"{age_ms:.0f} ms old")
    line("lowered clock", ", ".join(found.throttled or ()) or "no reason told")
    for look in reading.looks:
        took = "not asked" if look.duration_s is None else f"{look.duration_s * 1e3:.2f} ms"
        line(f"source {look.source}", took, "answers" if look.success else look.why)
    present = {
        str(it): value for it, value in zip(SIGNALS, found.values, strict=True) if value is not None
    }
    expect("memory" in present, "memory is missing, and nothing can be protected without it")
    return Figure(f"{len(present)} of {len(SIGNALS)} signals", {"available": present})


def why_missing(signal: str) -> str:
    if signal.startswith("online_"):
        return "comes from the service's own metrics, and none is given here"
    return "no source here tells it"


def read_dcgm(gpu: SharedGpu) -> Figure:
    """DCGM beside NVML, where it is there."""
    found = dcgm_sources()
    if not found:
        raise Missing("no dcgmi, and DCGM_URL names no exporter")
    for source in found:
        source.close()
    told = {origin.source for origin in gpu.seen().origins if origin is not None}
    return Figure("is asked; it gave " + ("values" if told & {"dcgm", "dcgmi"} else "no value"))


def list_processes(gpu: SharedGpu) -> Figure:
    from agents.collectors.attribution import Side

    processes = gpu.seen().processes
    expect(processes is not None, "the driver lists no processes")
    sides = {}
    for one in processes or ():
        sides[one.pid] = one.side
        how = "MPS client" if one.mps else "no MPS client"
        line(one.pid, one.side, how, gib(one.memory_bytes), one.name)
    online, offline = (gpu.client(name).pid for name in ("online", "offline"))
    expect(sides.get(online) is Side.ONLINE, f"the online client is {sides.get(online)}")
    expect(sides.get(offline) is Side.OFFLINE, f"the offline client is {sides.get(offline)}")
    return Figure(f"{len(sides)} processes, each client on its own side")


def split_activity(gpu: SharedGpu) -> Figure:
    found = gpu.seen()
    online, offline = found.sm_online_percent, found.sm_offline_percent
    if online is None or offline is None:
        raise Missing("no SM activity, or no busy time of the offline client")
    held = gib(found.offline_memory_bytes)
    return Figure(f"SM activity: online {online:.1f} %, offline {offline:.1f} %; {held} offline")


def gib(size_bytes: int | None) -> str:
    return "? GiB" if size_bytes is None else f"{size_bytes / GIB:.2f} GiB"


def read_block(gpu: SharedGpu) -> Figure:
    if gpu.block is None:
        raise Missing("no offline client was started")
    process = process_of(gpu.block, gpu.client("offline"))
    return Figure(
        f"busy for {process.busy_ns / 1e9:.1f} s, {gpu.block.used_bytes() / GIB:.2f} GiB counted, "
        f"{process.unhooked} unknown entry points",
        {"busy_ns": process.busy_ns},
    )


def terminate(gpu: SharedGpu) -> Figure:
    """Ends our own offline client through MPS; its online neighbour must not notice."""
    online, offline = gpu.client("online"), gpu.client("offline")
    dialect = gpu.control.dialect
    began_s = time.monotonic()
    for server in gpu.control.ask(dialect.servers()):
        if offline.pid in gpu.control.ask(dialect.client_pids(server)):
            gpu.control.terminate_client(server, offline.pid)
            gone_s = _gone_after(gpu, server, offline.pid, began_s)
            state = gpu.control.ask(dialect.status(server))
    before = online.done
    online.until(lambda: online.done > before, "work of the neighbour", timeout_s=5)
    return Figure(f"its client is gone after {gone_s * 1e3:.0f} ms, the server is {state}")


def _gone_after(gpu: SharedGpu, server: int, pid: int, began_s: float) -> float:
    question = gpu.control.dialect.client_pids(server)
    while pid in gpu.control.ask(question):
        expect(time.monotonic() - began_s < ENDS_S, f"client {pid} is still listed")
        time.sleep(0.05)
    return time.monotonic() - began_s


def quit_daemon(gpu: SharedGpu) -> Figure:
    for client in gpu.clients.values():
        client.close()
    began_s = time.monotonic()
    gpu.quit_daemon()
    return Figure(f"its clients and the daemon have ended, {time.monotonic() - began_s:.1f} s")


def compare_settings(gpu: SharedGpu) -> Figure:
    after = gpu.settings()
    expect(after == gpu.before, f"{gpu.before} became {after}")
    return Figure(f"the GPU's {len(after)} settings are what they were")
