"""Whether every way to the driver ends at the right hook."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agents.control_block import Limits
from tests.gpu.client import ROOT
from tests.gpu.figure import Figure, Missing, expect
from tests.gpu.limits import OUT_OF_MEMORY, QUOTA_BYTES
from tests.gpu.machine import Machine, process_of

SOURCES = ROOT / "agents"


def resolve(machine: Machine) -> Figure:
    """Every request of every version, answered with the very variant that the driver answers."""
    _ = machine.device
    questions = machine.folder / "questions"
    questions.write_text("".join(f"{it}\n" for it in [*exported_hooks(), *requests()]))
    plain = machine.ask("resolve", str(questions))
    with machine.block() as block:
        hooked = machine.ask("resolve", str(questions), block=block)
    return compare(plain, hooked)


def exported_hooks() -> list[str]:
    rows = (SOURCES / "xcuda/src/hooks.inc").read_text()
    return [f"S {name}" for name in re.findall(r"^HOOK\(\w+, (cu\w+),", rows, re.MULTILINE)]


def hooked_bases() -> set[str]:
    rows = (SOURCES / "xcuda/src/hooks.inc").read_text()
    return set(re.findall(r"^BASE\((\w+)\)", rows, re.MULTILINE))


def entry_points() -> list[tuple[str, int, str, str]]:
    """Base name, version, flags and exported name of all that a driver of CUDA 13.0 has."""
    rows = (SOURCES / "stub/driver/entry_points.inc").read_text()
    found = re.findall(r"^ENTRY\((\w+), (\d+), ([01]), (\w+)\)", rows, re.MULTILINE)
    return [(base, int(at), "2" if own == "1" else "0", symbol) for base, at, own, symbol in found]


def requests() -> list[str]:
    """Each of them at the version that introduced it and at the newest."""
    asked = {(base, it, flag) for base, at, flag, _ in entry_points() for it in (at, 13000)}
    return [f"R {base} {version} {flag}" for base, version, flag in sorted(asked)]


def variant_of(request: str) -> str:
    """The exported name of what a driver has to answer: the newest that is not too new."""
    base, asked, flags = request.split()
    known = [
        (at, symbol)
        for name, at, flag, symbol in entry_points()
        if (name, flag) == (base, flags) and at <= int(asked)
    ]
    return max(known)[1]


def compare(plain: list[dict[str, Any]], hooked: list[dict[str, Any]]) -> Figure:
    names: dict[int, set[str]] = {}
    for line in plain:
        if "exported" in line and line["library"]:
            names.setdefault(line["offset"], set()).add(line["exported"])
    pairs = [pair for pair in zip(plain, hooked, strict=True) if "request" in pair[0]]
    wrong = [ours["request"] for its, ours in pairs if not agrees(its, ours, names)]
    missed = [its["request"] for its, ours in pairs if is_missed(its, ours)]
    covered = sum(is_ours(ours) for _, ours in pairs)
    exports = sum(is_ours(ours) and its["offset"] in names for its, ours in pairs)
    values = {"requests": len(pairs), "hooked": covered, "exports": exports}
    expect(not wrong, f"{len(wrong)} of {len(pairs)} answers are wrong, as {wrong[:3]}")
    expect(not missed, f"{len(missed)} hooks are not handed out, as {missed[:3]}")
    return Figure(
        f"{len(pairs)} requests, {covered} hooked, 0 wrong, 0 missed; the driver answers {exports} "
        "of them with what it exports",
        values,
    )


def is_ours(line: dict[str, Any]) -> bool:
    return bool(line["library"]) and line["library"].startswith("libxcuda")


def agrees(its: dict[str, Any], ours: dict[str, Any], names: dict[int, set[str]]) -> bool:
    """By the address that the driver exports; where it returned another one, by what it owes."""
    if (its["result"], its["status"]) != (ours["result"], ours["status"]):
        return False
    if is_ours(ours):
        exported = names.get(its["offset"]) or {variant_of(its["request"])}
        return ours["symbol"] in exported
    return bool((its["library"], its["offset"]) == (ours["library"], ours["offset"]))


def is_missed(its: dict[str, Any], ours: dict[str, Any]) -> bool:
    base = its["request"].split()[0]
    return bool(its["library"]) and base in hooked_bases() and not is_ours(ours)


def runtime(machine: Machine) -> Figure:
    """The real CUDA runtime, which asks the driver for everything by itself."""
    _ = machine.device
    if machine.stub:
        raise Missing("the stand-in driver lacks what the CUDA runtime asks of it privately")
    library = find_runtime()
    with (
        machine.block(Limits(memory_quota_bytes=QUOTA_BYTES)) as block,
        machine.start("runtime", str(library), str(QUOTA_BYTES), block=block) as client,
    ):
        client.until(lambda: "waits" in client.last, "the runtime's answers")
        unhooked = process_of(block, client).unhooked
        line = client.lines[0]
        client.end()
    expect(line["total_bytes"] == QUOTA_BYTES, f"it sees {line['total_bytes']} bytes")
    expect((line["made"], line["refused"]) == (0, OUT_OF_MEMORY), f"its answers are {line}")
    expect(unhooked == 0, f"{unhooked} entry points of an unknown ABI were passed on")
    return Figure(f"{library.name}: sees and keeps the quota, 0 unknown ABIs", line)


def find_runtime() -> Path:
    """PyTorch's, or the toolkit's. Raises Missing."""
    try:
        import torch
    except ImportError:
        folders = []
    else:
        folders = [Path(torch.__file__).parent.parent / "nvidia"]
    for folder in [*folders, *Path("/usr/local").glob("cuda*/lib64")]:
        for found in sorted(folder.rglob("libcudart.so.*")):
            return found
    raise Missing("no libcudart (install PyTorch or the CUDA toolkit)")
