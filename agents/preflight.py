"""`muxflow-agent preflight`: may the GPUs of this node be shared, and if not, what forbids it.

It changes nothing, starts nothing and needs no root; what it cannot see it says.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agents.collectors.base import Unavailable
from agents.collectors.dcgm import ExporterSource
from agents.collectors.fetch import Page
from agents.collectors.nvml import Nvml
from agents.mps import unit
from agents.mps.cards import CardSource, NodeCard, NvmlCards
from agents.mps.control import PROGRAM, Control
from agents.mps.enabling import Readiness, Step, steps
from agents.mps.health import Snapshot
from agents.mps.shareable import Sharing, Verdict, forbidding
from agents.mps.watch import Watch
from agents.wire.names import SIGNALS, Signal

SM_ACTIVITY: Final = SIGNALS.index(Signal.SM_ACTIVITY)
SHAREABLE: Final = "shareable"


@dataclass(frozen=True, slots=True)
class Found:
    """One GPU: all that forbids sharing it, gravest first, and the procedure that enables it."""

    card: NodeCard
    verdicts: tuple[Verdict, ...]
    steps: tuple[Step, ...]

    @property
    def words(self) -> str:
        if not self.verdicts:
            return SHAREABLE
        if all(verdict.mended_by_enabling for verdict in self.verdicts):
            return f"{SHAREABLE} once it is enabled: {self.verdicts[0].sentence}"
        return str(self.verdicts[0])


def examine(
    source: CardSource, look: Callable[[str], Snapshot], job_uid: int | None = None
) -> tuple[Found, ...]:
    """`look` gives the view of one GPU's MPS. Raises Unavailable."""
    return tuple(_examined(card, look(card.facts.uuid), job_uid) for card in source.cards())


def _examined(card: NodeCard, mps: Snapshot, job_uid: int | None) -> Found:
    sharing = Sharing(card.facts, mps, job_uid)
    return Found(card, tuple(forbidding(sharing)), steps(Readiness(sharing)))


def look_once(root: Path, program: Sequence[str] = (PROGRAM,)) -> Callable[[str], Snapshot]:
    """Asks each GPU's daemon, where one listens."""

    def look(gpu_uuid: str) -> Snapshot:
        try:
            place = unit.place_of(gpu_uuid, root)
        except ValueError:
            return Snapshot(time.monotonic())
        watch = Watch(Control(place, program))
        try:
            return watch.look(time.monotonic())
        finally:
            watch.close()

    return look


def as_text(found: Sequence[Found]) -> str:
    return "\n".join(line for one in found for line in _lines(one))


def _lines(found: Found) -> list[str]:
    card = found.card
    lines = [f"GPU {card.index}  {card.model}  {card.facts.uuid}", f"  {found.words}"]
    for number, verdict in enumerate(found.verdicts):
        lines += [f"  also: {verdict.sentence}"] if number else []
        lines.append(f"    way out: {verdict.way_out}")
    return lines


def as_json(found: Sequence[Found], trouble: str = "") -> str:
    content = {"trouble": trouble, "gpus": [_told(one) for one in found]}
    return json.dumps(content, indent=2)


def _told(found: Found) -> dict[str, Any]:
    return {
        "index": found.card.index,
        "uuid": found.card.facts.uuid,
        "model": found.card.model,
        "shareable": not found.verdicts,
        "forbidden_by": [
            {
                "fact": verdict.fact,
                "sentence": verdict.sentence,
                "way_out": verdict.way_out,
                "mended_by_enabling": verdict.mended_by_enabling,
            }
            for verdict in found.verdicts
        ],
        "steps": [
            {"title": step.title, "who": step.who, "done": step.done, "left": step.left}
            for step in found.steps
        ],
    }


def main(words: Sequence[str]) -> int:
    """0 when the GPUs could be looked at, whatever was found; 1 when not."""
    options = _parser().parse_args(words)
    try:
        found = examine(
            node_cards(options.dcgm), look_once(options.mps_dir, (options.program,)), options.uid
        )
        trouble = "" if found else "the driver knows of no GPU on this node"
    except Unavailable as unavailable:
        found, trouble = (), str(unavailable)
    if options.json:
        sys.stdout.write(as_json(found, trouble) + "\n")
    elif trouble:
        sys.stderr.write(f"muxflow-agent: {trouble}\n")
    else:
        sys.stdout.write(as_text(found) + "\n")
    return 1 if trouble else 0


def node_cards(dcgm_url: str) -> NvmlCards:
    """Raises Unavailable without NVML."""
    return NvmlCards(Nvml(), _dcgm_uuids(dcgm_url) if dcgm_url else frozenset())


def _dcgm_uuids(url: str) -> frozenset[str]:
    """The GPUs whose SM activity the exporter shows; none when it cannot be read."""
    source = ExporterSource(Page(url))
    try:
        found = source.look(time.monotonic())
    except (Unavailable, OSError, ValueError):
        return frozenset()
    finally:
        source.close()
    return frozenset(
        uuid for uuid, finding in found.items() if finding.values[SM_ACTIVITY] is not None
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "muxflow-agent preflight",
        description="Says of each GPU of this node whether it may be shared, or what forbids it."
        " Changes nothing and needs no root.",
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    add_node_options(parser)
    parser.add_argument("--uid", type=int, metavar="N", help="as whom offline jobs are to run")
    return parser


def add_node_options(parser: argparse.ArgumentParser) -> None:
    """What says where this node keeps things."""
    parser.add_argument(
        "--mps-dir",
        type=Path,
        default=unit.ROOT,
        metavar="DIR",
        help="where the control daemons keep their directories, one a GPU; default %(default)s",
    )
    parser.add_argument(
        "--program", default=PROGRAM, metavar="FILE", help="the control program of MPS"
    )
    parser.add_argument(
        "--dcgm", default="", metavar="URL", help="the page of dcgm-exporter, where one runs"
    )
