"""`muxflow-agent mps`: the procedure that makes a GPU shareable, and the one that undoes it.

`status` shows the steps. `enable` does the one step that is the node's: it starts the control
daemon, and only when nothing else forbids sharing; it restarts no online instance. `disable` ends
the daemon. `unit` prints the systemd template.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace

from agents import preflight
from agents.collectors.base import Unavailable
from agents.config import CannotRun
from agents.mps import enabling, ours, unit
from agents.mps.cards import CardSource, NodeCard
from agents.mps.control import Control, ControlFailed
from agents.mps.enabling import Readiness, Stage
from agents.mps.shareable import Sharing
from agents.settings.flags import state_dir_of, where_options


class Declined(RuntimeError):
    """It was not done; the text says why and what to do."""


def main(words: Sequence[str]) -> int:
    options = _parser().parse_args(words)
    if options.action == "unit":
        program = shutil.which(options.program) or f"/usr/bin/{options.program}"
        sys.stdout.write(unit.unit_file(program, options.mps_dir, multiuser=options.multiuser))
        return 0
    try:
        told = act(options, preflight.node_cards(options.dcgm))
    except (CannotRun, Declined, Unavailable, ControlFailed, OSError) as failure:
        sys.stderr.write(f"muxflow-agent: {failure}\n")
        return 1
    sys.stdout.write(told + "\n")
    return 0


def act(options: argparse.Namespace, source: CardSource) -> str:
    """What was done or seen, in words. Raises CannotRun, Declined, Unavailable, ControlFailed."""
    cards = [one for one in source.cards() if options.gpu in (None, one.facts.uuid)]
    if options.gpu is not None and not cards:
        raise Declined(f"this node has no GPU {options.gpu}: `muxflow-agent preflight` lists them")
    if options.action == "status":
        return "\n\n".join(_status(options, card) for card in cards)
    if options.gpu is None:
        raise Declined(f"say which GPU to {options.action}: --gpu UUID")
    return (_enable if options.action == "enable" else _disable)(options, cards[0])


def _sharing(options: argparse.Namespace, card: NodeCard) -> Sharing:
    look = preflight.look_once(options.mps_dir, (options.program,))
    return Sharing(card.facts, look(card.facts.uuid), options.uid)


def _status(options: argparse.Namespace, card: NodeCard) -> str:
    ready = Readiness(_sharing(options, card))
    return f"GPU {card.index}  {card.model}  {card.facts.uuid}\n{_told(ready)}"


def _told(ready: Readiness) -> str:
    """A list with a mark on each step that is done."""
    lines = [f"  {enabling.stage(ready)}"]
    for step in enabling.steps(ready):
        lines.append(f"  [{'x' if step.done else ' '}] {step.title} ({step.who})")
        lines += [f"      {step.left}"] if step.left and not step.done else []
        lines += [f"      restart {process}" for process in step.restart]
    return "\n".join(lines)


def _enable(options: argparse.Namespace, card: NodeCard) -> str:
    sharing = _sharing(options, card)
    if options.multiuser:
        sharing = replace(sharing, mps=replace(sharing.mps, multiuser=True))
    ready = Readiness(sharing)
    if enabling.stage(ready) is Stage.FORBIDDEN:
        raise Declined(f"not enabled: {enabling.steps(ready)[0].left}")
    place = unit.place_of(card.facts.uuid, options.mps_dir)
    unit.start(place, (options.program,), multiuser=options.multiuser)
    ready = Readiness(_sharing(options, card))
    words = "\n".join(f"  {name}={value}" for name, value in place.environment().items())
    return f"{_told(ready)}\nOnline instances join with\n{words}"


def _disable(options: argparse.Namespace, card: NodeCard) -> str:
    sharing = _sharing(options, card)
    offline = ours.among(sharing.clients, state_dir_of(options, os.environ) / "jobs")
    if refused := enabling.why_not_quit(sharing, offline, approved=options.approved):
        raise Declined(f"not disabled: {refused}")
    unit.stop(Control(unit.place_of(card.facts.uuid, options.mps_dir), (options.program,)))
    return f"GPU {card.facts.uuid} is shared no more: its control daemon has ended."


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("muxflow-agent mps", description=__doc__)
    parser.add_argument("action", choices=["status", "enable", "disable", "unit"])
    parser.add_argument("--gpu", metavar="UUID")
    parser.add_argument(
        "--multiuser", action="store_true", help="one server for clients of any user"
    )
    parser.add_argument(
        "--approved", action="store_true", help="end the daemon although clients die with it"
    )
    parser.add_argument("--uid", type=int, metavar="N", help="as whom offline jobs are to run")
    preflight.add_node_options(parser)
    where_options(parser, "state_dir")
    return parser
