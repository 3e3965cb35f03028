"""How clients end, and what that does to the others."""

from __future__ import annotations

import random
import signal
import time

from agents.control_block import ControlBlock, Limits
from agents.wire.names import Phase
from tests.gpu.client import Client
from tests.gpu.figure import Failed, Figure, Missing, expect
from tests.gpu.limits import QUOTA_BYTES
from tests.gpu.machine import Machine, loop, process_of

MIB = 1 << 20
LEFT_BYTES = 256 * MIB  # what a driver may keep for itself after a client has gone
KINDS = ("launch", "copy", "graph", "alloc", "poll", "capture")
GENTLE = (signal.SIGTERM, signal.SIGINT)


def exits(machine: Machine) -> Figure:
    """Signals at random moments: no work in flight is lost on the others, and memory returns."""
    _ = machine.device
    choose = random.Random(7)
    free_before = machine.free_bytes()
    ended, slowest_s = 0, 0.0
    with loop(machine, "latency", 100) as online:
        for kind in KINDS:
            for number in GENTLE * 3:
                slowest_s = max(slowest_s, end_gently(machine, kind, number, choose))
                expect_alive(online)
                ended += 1
        online.end()
    if machine.stub:
        unsafe = machine.mps_report()["exits_unsafe"]
        expect(unsafe == 0, f"{unsafe} of {ended} clients ended with work in flight")
    expect_returned(machine, free_before)
    text = f"{ended} signals: neighbour alive, memory back, slowest exit {slowest_s * 1e3:.0f} ms"
    return Figure(text, {"exits": ended, "slowest_exit_ms": slowest_s * 1e3})


def end_gently(machine: Machine, kind: str, number: signal.Signals, choose: random.Random) -> float:
    """Returns how long it took, in seconds. Raises Failed when that was no graceful exit."""
    with machine.block() as block, loop(machine, kind, 300, block) as client:
        time.sleep(choose.uniform(0, 0.3))
        began_s = time.monotonic()
        status = client.signal(number)
        took_s = time.monotonic() - began_s
        phase = block.read_slots()[0].phase
    expect(status == 128 + number, f"{kind}: {number.name} ended it with {status}")
    expect(phase is Phase.RELEASED, f"{kind}: {number.name} ended it in phase {phase}")
    return took_s


def expect_alive(online: Client) -> None:
    before = online.done
    online.until(lambda: online.done > before, "work of the neighbour", timeout_s=5)


def expect_returned(machine: Machine, free_before: int) -> None:
    missing = free_before - machine.free_bytes()
    expect(missing <= LEFT_BYTES, f"{missing / MIB:.0f} MiB did not return")


def terminate(machine: Machine) -> Figure:
    """The agent's harder means: the control daemon ends the client, and only then it is killed."""
    _ = machine.device
    if not machine.mps:
        raise Missing("no MPS daemon")
    server = machine.tell_mps("get_server_list")
    free_before = machine.free_bytes()
    with (
        loop(machine, "latency", 100) as online,
        machine.block() as block,
        loop(machine, "launch", 300, block) as client,
    ):
        answer = machine.tell_mps(f"terminate_client {server} {client.pid}")
        time.sleep(1)
        fault = process_of(block, client).fault
        client.signal(signal.SIGKILL)
        expect_alive(online)
        online.end()
    expect_returned(machine, free_before)
    text = f"neighbour alive, memory back; the client saw {fault or 'nothing'}"
    return Figure(text, {"fault": fault, "answer": answer})


def kill(machine: Machine) -> Figure:
    """SIGKILL with work in flight, which nothing in the process can soften: told, not judged."""
    _ = machine.device
    rounds, survived = 3, 0
    for _round in range(rounds):
        with (
            loop(machine, "latency", 100) as online,
            machine.block(Limits(memory_quota_bytes=QUOTA_BYTES)) as block,
            loop(machine, "alloc", 300, block) as client,
        ):
            client.signal(signal.SIGKILL)
            survived += survives(online)
            counted = reaped_bytes(machine, block)
            expect(counted == 0, f"{counted} bytes are still counted after the reaping")
        machine.restart_mps()
    text = f"neighbour survived {survived} of {rounds} kills; the job's counter is 0 after each"
    return Figure(text, {"kills": rounds, "survived": survived})


def survives(online: Client) -> bool:
    try:
        expect_alive(online)
        online.end()
    except Failed:
        return False
    return True


def reaped_bytes(machine: Machine, block: ControlBlock) -> int:
    """What the job's counter says once `xcuda-block reap` has freed the slots of the dead."""
    with machine.start_program(
        [str(machine.built / "xcuda-block"), "reap", str(block.directory)], None, {}
    ) as tool:
        tool.end()
    return block.used_bytes()
