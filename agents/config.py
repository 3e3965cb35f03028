"""What this process was asked to run, from its command line."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from agents.mps.unit import ROOT
from agents.wire.names import RuntimeKind

DEFAULT_STATE_DIR: Final = Path("/var/lib/muxflow-agent")
DEFAULT_CREDENTIALS: Final = Path("/etc/muxflow-agent/credentials.json")

DESCRIPTION: Final = """\
What a GPU node runs for MuxFlow: it watches its GPUs, freezes or evicts offline jobs that harm
online work, and runs what the console places on it.

  %(prog)s --node NAME --gpus nvml --runtime process ...     one node (this one)
  %(prog)s --simulate nodes=16,gpus=8 ...        a fleet of simulated nodes in this process
"""
EPILOG: Final = """\
other commands (each has --help):
  %(prog)s enrol ...    trade a one-time token for this node's credentials
  %(prog)s off ...      stop sharing on this node, or one GPU of it, without any network
  %(prog)s preflight    say of each GPU here whether it may be shared, or what forbids it
  %(prog)s mps ...      make a GPU shareable, step by step, or undo it
"""


class CannotRun(RuntimeError):
    """What was asked for cannot be run; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    gpus: int


class GpuValues(StrEnum):
    """Where the values of --node come from."""

    SIMULATED = "simulated"
    NVML = "nvml"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True)
class Config:
    """One run. Without `console` there is only a cluster file to write."""

    simulate: Size | None
    node: str | None
    runtime: RuntimeKind
    cluster: Path | None
    write_cluster: Path | None
    console: str
    credentials: Path
    state_dir: Path
    faults: Path | None
    clock: float
    seed: int
    default_command: tuple[str, ...]
    lifeline_fd: int | None
    log_level: str
    gpus: GpuValues = GpuValues.SIMULATED
    dcgm: str = ""
    recording: Path | None = None
    mps_dir: Path = ROOT
    restart_hooks: dict[str, tuple[str, ...]] = field(default_factory=dict)


def parse(arguments: Sequence[str]) -> Config:
    """Exits with a sentence on stderr when the arguments make no sense together."""
    parser = _parser()
    options = parser.parse_args(arguments)
    _check(parser, options)
    return Config(
        options.simulate,
        options.node,
        RuntimeKind(options.runtime),
        options.cluster,
        options.write_cluster,
        options.console,
        options.credentials.absolute(),
        options.state_dir.absolute(),
        options.faults,
        options.clock,
        options.seed,
        tuple(shlex.split(options.default_command)),
        options.lifeline_fd,
        options.log_level,
        GpuValues(options.gpus),
        options.dcgm,
        options.recording,
        options.mps_dir.absolute(),
        dict(options.restart_hook),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "muxflow-agent",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_what(parser.add_argument_group("what to run"))
    _add_where(parser.add_argument_group("where"))
    _add_how(parser.add_argument_group("how"))
    return parser


def _add_what(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--simulate",
        type=size,
        metavar="nodes=N,gpus=M",
        help="run N simulated nodes of M GPUs each, all driven by one model of contention",
    )
    group.add_argument(
        "--node",
        metavar="NAME",
        help="run this one node: of the cluster file, or this machine with --gpus nvml",
    )
    group.add_argument(
        "--gpus",
        choices=[values.value for values in GpuValues],
        default=GpuValues.SIMULATED.value,
        help="where the GPUs of --node come from: a model of them, the NVIDIA driver of this"
        " machine, or a recording; default %(default)s",
    )
    group.add_argument(
        "--runtime",
        choices=[kind.value for kind in RuntimeKind],
        default=RuntimeKind.SIMULATED.value,
        help="what runs the jobs of --node: a model of them, or real child processes",
    )
    group.add_argument(
        "--cluster",
        type=Path,
        metavar="FILE",
        help="the cluster to take nodes, GPUs and online services from; --simulate makes one up"
        " without it",
    )
    group.add_argument(
        "--write-cluster",
        type=Path,
        metavar="FILE",
        help="write the cluster that --simulate and --seed make up, and exit",
    )


def _add_where(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--console", default="", metavar="URL", help="for example ws://127.0.0.1:8000/ws/agent/"
    )
    group.add_argument(
        "--credentials",
        type=Path,
        default=DEFAULT_CREDENTIALS,
        metavar="FILE",
        help="what `enrol` wrote; default %(default)s",
    )
    group.add_argument(
        "--state-dir",
        type=Path,
        default=DEFAULT_STATE_DIR,
        metavar="DIR",
        help="what must survive this process: jobs, events, SysMonitor's states;"
        " default %(default)s",
    )
    group.add_argument(
        "--faults",
        type=Path,
        metavar="SOCKET",
        help="listen here for faults to inject into a simulated fleet",
    )


def _add_how(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--dcgm",
        default="",
        metavar="URL",
        help="SM activity from dcgm-exporter at this address (its interval must be 1 s), or from"
        " the program: dcgmi. GPUs before Hopper need it",
    )
    group.add_argument(
        "--recording",
        type=Path,
        metavar="FILE",
        help="with --gpus nvml: write all readings there; with --gpus replay: show them again",
    )
    group.add_argument(
        "--mps-dir",
        type=Path,
        default=ROOT,
        metavar="DIR",
        help="where the MPS control daemons keep their directories, one a GPU; default %(default)s",
    )
    group.add_argument(
        "--restart-hook",
        type=hook,
        action="append",
        default=[],
        metavar="SERVICE=COMMAND",
        help="what restarts this online service after a fault of its GPU; for each service once",
    )
    group.add_argument(
        "--clock",
        type=float,
        default=1.0,
        metavar="X",
        help="seconds of the simulated world in one real second (default 1); sampling, dwell and"
        " leases stay real",
    )
    group.add_argument("--seed", type=int, default=7, help="of the made-up cluster and its noise")
    group.add_argument(
        "--default-command",
        default="",
        metavar="COMMAND",
        help="what --runtime process runs for a job that has no command of its own",
    )
    group.add_argument(
        "--lifeline-fd",
        type=int,
        metavar="N",
        help="an inherited pipe: at its end of file this process ends and its jobs are stopped;"
        " without it jobs outlive the agent and are adopted by the next one",
    )
    group.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if (options.simulate is None) == (options.node is None):
        parser.error("say what to run: --simulate for a simulated fleet, or --node for one node")
    if options.write_cluster is not None:
        if options.simulate is None:
            parser.error("--write-cluster writes what --simulate makes up: give that too")
        return
    if not options.console.startswith(("ws://", "wss://")):
        parser.error("--console must be a ws:// or wss:// address")
    _check_gpus(parser, options)
    if options.faults is not None and options.simulate is None:
        parser.error("--faults is for a simulated fleet: give --simulate")
    if options.clock <= 0:
        parser.error("--clock must be over 0")


def _check_gpus(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    real = options.gpus != GpuValues.SIMULATED
    if options.node is not None and options.cluster is None and not real:
        parser.error(
            "--node takes simulated GPUs from a cluster file: give --cluster, or --gpus nvml"
        )
    if real and (options.node is None or options.runtime != RuntimeKind.PROCESS):
        parser.error(
            f"--gpus {options.gpus} is for one real node: give --node and --runtime process"
        )
    if options.gpus == GpuValues.REPLAY and options.recording is None:
        parser.error("--gpus replay shows a recording: give --recording")
    if not real and (options.dcgm or options.recording is not None):
        parser.error("--dcgm and --recording are for real GPUs: give --gpus")


def hook(text: str) -> tuple[str, tuple[str, ...]]:
    """`chat=systemctl restart chat`. Raises argparse.ArgumentTypeError."""
    service, _, command = text.partition("=")
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{command!r} is no command: {error}") from error
    if not service or not words:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form SERVICE=COMMAND")
    return service, words


def size(text: str) -> Size:
    """`nodes=16,gpus=8`. Raises argparse.ArgumentTypeError."""
    match = re.fullmatch(r"nodes=([1-9]\d{0,5}),gpus=([1-9]\d?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form nodes=16,gpus=8")
    return Size(int(match[1]), int(match[2]))
