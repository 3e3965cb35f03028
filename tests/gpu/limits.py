"""What the limits cost and what they hold."""

from __future__ import annotations

import statistics
import time

from agents.control_block import ControlBlock, Kind, Limits, Mode
from tests.gpu.client import Client
from tests.gpu.figure import Figure, Missing, expect
from tests.gpu.machine import Machine, loop, process_of

GIB = 1 << 30
QUOTA_BYTES = 2 * GIB
OUT_OF_MEMORY = 2
RATE_PER_S = 2000
DUTY = 0.3


def quota(machine: Machine) -> Figure:
    _ = machine.device
    with (
        machine.block(Limits(memory_quota_bytes=QUOTA_BYTES)) as block,
        machine.start("quota", str(QUOTA_BYTES), block=block) as client,
    ):
        client.until(lambda: "waits" in client.last, "the answers")
        used = process_of(block, client).used_bytes
        views, *answers = client.lines[:-1]
        client.end()
        left = block.used_bytes()
    expect(views["total_bytes"] == QUOTA_BYTES, f"the device looks {views['total_bytes']} large")
    for it in answers:
        kept = (it["made"], it["refused"], it["freed"]) == (0, OUT_OF_MEMORY, 0)
        expect(kept, f"{it['kind']}: {it['made']}, over quota {it['refused']}, free {it['freed']}")
    held = sum(size for kind, size in used.items() if kind not in (Kind.SLACK, Kind.MODULE))
    expect(held == 0, f"{held} bytes are charged after all was freed")
    kinds = len(answers)
    return Figure(f"{kinds} kinds: over quota is error 2, the rest works", {"left_bytes": left})


def cost(machine: Machine) -> Figure:
    """Medians of interleaved runs: without, with, and with every limit on but none that holds."""
    _ = machine.device
    open_limits = Limits(
        memory_quota_bytes=64 * GIB, launches_per_s=10**9, blocks_per_s=10**12, inflight_cap=10**6
    )
    instant = {"STUB_TIME": "0"} if machine.stub else {}
    values: dict[str, float] = {}
    for kind in ("launch", "alloc"):
        samples: dict[str, list[float]] = {"plain": [], "limited": []}
        for _round in range(5):
            samples["plain"].append(machine.ask("cost", kind, **instant)[0]["ns"])
            with machine.block(open_limits) as block:
                samples["limited"].append(
                    machine.ask("cost", kind, block=block, **instant)[0]["ns"]
                )
        plain, limited = (statistics.median(samples[it]) for it in ("plain", "limited"))
        values |= {f"{kind}_ns": plain, f"{kind}_added_ns": limited - plain}
    return Figure(
        f"launch {values['launch_ns']:.0f} + {values['launch_added_ns']:.0f} ns, "
        f"alloc and free {values['alloc_ns']:.0f} + {values['alloc_added_ns']:.0f} ns",
        values,
    )


def rate(machine: Machine) -> Figure:
    """Launches in one second, of kernels that the device could run many times more often."""
    _ = machine.device
    measured = {}
    for kind in ("launch", "sync"):
        limits = Limits(launches_per_s=RATE_PER_S)
        with machine.block(limits) as block, loop(machine, kind, 20, block) as client:
            time.sleep(0.3)
            measured[kind] = launches_per_s(block, client, 1.0)
    error = max(abs(it / RATE_PER_S - 1) for it in measured.values())
    expect(error <= 0.1, f"{RATE_PER_S} launches/s are allowed, {measured} were made")
    return Figure(f"within {error:.1%} of {RATE_PER_S} launches/s", {"error_ratio": error})


def launches_per_s(block: ControlBlock, client: Client, for_s: float) -> float:
    before, began_s = process_of(block, client).launches, time.monotonic()
    time.sleep(for_s)
    launches = process_of(block, client).launches - before
    return launches / (time.monotonic() - began_s)


def duty(machine: Machine) -> Figure:
    """Throughput under a duty, as a part of what it is without."""
    _ = machine.device
    with machine.block() as block, loop(machine, "launch", 500, block) as client:
        time.sleep(1)
        whole = launches_per_s(block, client, 1.0)
        block.set_policy(Limits(duty_permille=int(DUTY * 1000)))
        time.sleep(1.5)
        part = launches_per_s(block, client, 2.0) / whole
        block.set_policy(Limits())
    expect(abs(part - DUTY) <= 0.1, f"a duty of {DUTY:.0%} leaves {part:.0%} of the throughput")
    return Figure(f"a duty of {DUTY:.0%} leaves {part:.0%} of the throughput", {"part": part})


def freeze(machine: Machine) -> Figure:
    _ = machine.device
    limits = Limits(inflight_cap=64)
    with machine.block(limits) as block, loop(machine, "launch", 200, block) as client:
        block.set_policy(Limits(mode=Mode.FREEZE, inflight_cap=64))

        def frozen() -> bool:
            return process_of(block, client).mode is Mode.FREEZE

        seen_s = client.until(frozen, "the freeze", timeout_s=5)
        time.sleep(0.2)
        held = process_of(block, client).launches
        time.sleep(0.5)
        expect(process_of(block, client).launches == held, "a frozen client launched")
        block.set_policy(limits)
        thawed_s = client.until(
            lambda: process_of(block, client).launches > held, "work after the thaw", timeout_s=5
        )
        client.end()
    values = {"freeze_ms": seen_s * 1e3, "thaw_ms": thawed_s * 1e3}
    return Figure(f"frozen after {seen_s * 1e3:.0f} ms, back after {thawed_s * 1e3:.0f} ms", values)


def neighbours(machine: Machine) -> Figure:
    """Latency of one that launches now and then: alone, beside a busy one, beside a limited one."""
    _ = machine.device
    if not machine.mps:
        raise Missing("no MPS: clients take turns in time")
    with loop(machine, "latency", 100) as online:
        alone = latency_us(online)
        with machine.block() as block, loop(machine, "launch", 200, block):
            beside = latency_us(online)
            block.set_policy(Limits(inflight_cap=2, duty_permille=100))
            limited = latency_us(online)
        online.end()
    busy, held = (times(alone, it) for it in (beside, limited))
    expect(limited["p50_us"] <= beside["p50_us"], f"{busy} beside a busy one, {held} when limited")
    values = {"alone": alone, "beside": beside, "limited": limited}
    return Figure(f"{busy} beside a busy one, {held} when limited", values)


def latency_us(online: Client, for_s: float = 2.0) -> dict[str, float]:
    """Medians over its windows of 200 ms; the first began before and is left out."""
    before = len(online.lines)
    time.sleep(for_s)
    windows = online.lines[before + 1 :]
    return {it: statistics.median(line[it] for line in windows) for it in ("p50_us", "p99_us")}


def times(alone: dict[str, float], other: dict[str, float]) -> str:
    p50, p99 = (other[it] / alone[it] for it in ("p50_us", "p99_us"))
    return f"p50 × {p50:.1f} and p99 × {p99:.1f}"
