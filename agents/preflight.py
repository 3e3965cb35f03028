"""`muxflow-agent preflight`: may the GPUs of this node be shared, and if not, what forbids it.

It changes nothing, starts nothing and needs no root; what it cannot see it says. Where settings
name a Kubernetes API it also says which pods run on which GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agents.collectors import procfs
from agents.collectors.base import Unavailable
from agents.collectors.dcgm import ExporterSource
from agents.collectors.fetch import Page
from agents.collectors.nvml import Nvml
from agents.config import CannotRun
from agents.kubernetes import source as kubernetes
from agents.kubernetes.census import Census, census
from agents.kubernetes.objects import Nonsense, Pod
from agents.mps import unit
from agents.mps.cards import CardSource, NodeCard, NvmlCards
from agents.mps.control import PROGRAM, Control
from agents.mps.enabling import Readiness, Step, steps
from agents.mps.health import Snapshot
from agents.mps.shareable import Sharing, Verdict, forbidding
from agents.mps.watch import Watch
from agents.settings.flags import KUBERNETES, kubernetes_of, where_options
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


def pods(found: Sequence[Found], options: argparse.Namespace) -> Census | None:
    """Who runs on the GPUs; None where no setting names an API. Never raises: settings that this
    user may not read, or a broken API, forbid nothing."""
    online = {
        one.card.facts.uuid: [each.pid for each in one.card.facts.online or ()] for one in found
    }
    try:
        config = kubernetes_of(options, os.environ)
        if not config.kubernetes:
            return None
        return census(kubernetes.look_once(config), online, procfs.identity)
    except (CannotRun, Unavailable, Nonsense) as error:
        return Census(trouble=str(error))


def as_text(found: Sequence[Found], running: Census | None = None) -> str:
    told = running or Census()
    lines = [line for one in found for line in _lines(one, told.on.get(one.card.facts.uuid, {}))]
    if told.trouble:
        lines.append(f"pods: {told.trouble}")
    if told.elsewhere:
        lines.append(f"pods without a process on a GPU: {', '.join(map(str, told.elsewhere))}")
    return "\n".join(lines)


def _lines(found: Found, pods: Mapping[Pod, Sequence[int]]) -> list[str]:
    card = found.card
    lines = [f"GPU {card.index}  {card.model}  {card.facts.uuid}", f"  {found.words}"]
    for number, verdict in enumerate(found.verdicts):
        lines += [f"  also: {verdict.sentence}"] if number else []
        lines.append(f"    way out: {verdict.way_out}")
    for pod, pids in pods.items():
        lines.append(f"  pod {pod}: PID {', '.join(map(str, pids))}")
    return lines


def as_json(found: Sequence[Found], trouble: str = "", running: Census | None = None) -> str:
    told = running or Census()
    content = {
        "trouble": trouble,
        "gpus": [_told(one, told.on.get(one.card.facts.uuid, {})) for one in found],
        "pods_trouble": told.trouble,
        "pods_without_a_gpu": [_pod(each) for each in told.elsewhere],
    }
    return json.dumps(content, indent=2)


def _pod(pod: Pod, pids: Sequence[int] = ()) -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "service": pod.service,
        "pids": list(pids),
    }


def _told(found: Found, pods: Mapping[Pod, Sequence[int]]) -> dict[str, Any]:
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
        "pods": [_pod(pod, pids) for pod, pids in pods.items()],
    }


def main(words: Sequence[str]) -> int:
    """0 when the GPUs could be looked at, whatever was found; 1 when not."""
    options = _parser().parse_args(words)
    try:
        found = examine(
            node_cards(options.dcgm), look_once(options.mps_dir, (options.program,)), options.uid
        )
        trouble = "" if found else "the driver knows of no GPU on this node"
        running = pods(found, options)
    except Unavailable as unavailable:
        found, trouble, running = (), str(unavailable), None
    if options.json:
        sys.stdout.write(as_json(found, trouble, running) + "\n")
    elif trouble:
        sys.stderr.write(f"muxflow-agent: {trouble}\n")
    else:
        sys.stdout.write(as_text(found, running) + "\n")
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
    where_options(parser, *KUBERNETES)
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
