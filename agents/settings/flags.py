"""The command line of the agent, made from the table of settings."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agents.config import DEFAULT_FILE, CannotRun, Config, Group
from agents.settings import files
from agents.settings.effective import CONFIG_VARIABLE, Effective, Told, resolve
from agents.settings.table import SETTINGS, Setting, shown

DESCRIPTION: Final = """\
What a GPU node runs for MuxFlow: it watches its GPUs, freezes or evicts offline jobs that harm
online work, and runs what the console places on it.

  %(prog)s --node NAME --gpus nvml --runtime process ...     one node (this one)
  %(prog)s --simulate nodes=16,gpus=8 ...        a fleet of simulated nodes in this process

Each setting may stand in a file (TOML) or in the environment too: flags go before variables,
variables before the file.
"""
EPILOG: Final = """\
other commands (each has --help):
  %(prog)s enrol ...    trade a one-time token for this node's credentials
  %(prog)s check-config say which settings hold, where each came from, and all that is wrong
  %(prog)s status       what the agent of this node does right now
  %(prog)s off ...      stop sharing on this node, or one GPU of it, without any network
  %(prog)s preflight    say of each GPU here whether it may be shared, or what forbids it
  %(prog)s mps ...      make a GPU shareable, step by step, or undo it
  %(prog)s uninstall    say what the agent has left on this node, and take it away
"""


def parse(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Config:
    """Exits with a sentence on stderr when the settings make no sense."""
    parser = parser_of("muxflow-agent", DESCRIPTION, EPILOG)
    try:
        effective = gather(parser.parse_args(arguments), environment)
    except CannotRun as error:
        parser.error(str(error))
    if effective.faults:
        parser.error(effective.faults[0])
    return effective.config


def gather(options: argparse.Namespace, environment: Mapping[str, str]) -> Effective:
    """Raises CannotRun when the file cannot be read."""
    flags = {name: value for name, value in vars(options).items() if name in SETTINGS}
    simulated = bool(flags.keys() & {"simulate", "cluster"})
    path = files.chosen(options.config, environment.get(CONFIG_VARIABLE, ""), simulated=simulated)
    if "restart_hooks" in flags:
        flags["restart_hooks"] = "\n".join(flags["restart_hooks"])
    content = {} if path is None else files.read(path)
    return resolve(Told(flags, environment, content, "" if path is None else str(path)))


def parser_of(program: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    """A parser of all settings; what was not given is not in its result."""
    parser = argparse.ArgumentParser(
        program,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_file(parser)
    groups = {group: parser.add_argument_group(group.value) for group in Group}
    for setting in SETTINGS.values():
        _add(groups[setting.group], setting)
    return parser


def add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"the settings file; default {DEFAULT_FILE}, where there is one",
    )


def _add(group: argparse._ActionsContainer, setting: Setting) -> None:
    default = shown(setting.default)
    more: dict[str, Any] = {}
    if setting.name == "restart_hooks":
        more["action"] = "append"
    if not setting.metavar:
        more["metavar"] = "{" + setting.expects.removeprefix("one of ").replace(", ", ",") + "}"
    group.add_argument(
        setting.flag,
        dest=setting.name,
        default=argparse.SUPPRESS,
        help=(setting.meaning + (f"; default {default}" if default else "")).replace("%", "%%"),
        **({"metavar": setting.metavar} | more),
    )


def state_dir_of(options: argparse.Namespace, environment: Mapping[str, str]) -> Path:
    """Where the agent of these settings keeps its state, whatever else is wrong with them. Raises
    CannotRun when the file cannot be read."""
    return _alone(options, ["state_dir"], environment).state_dir


def credentials_of(options: argparse.Namespace, environment: Mapping[str, str]) -> Path:
    """Likewise, where it looks for what `enrol` wrote."""
    return _alone(options, ["credentials"], environment).credentials


def tls_of(options: argparse.Namespace, environment: Mapping[str, str]) -> Config:
    """Likewise, whom it trusts and what it shows."""
    return _alone(options, TLS, environment)


TLS: Final = ("tls_ca", "tls_cert", "tls_key")


def kubernetes_of(options: argparse.Namespace, environment: Mapping[str, str]) -> Config:
    """Likewise, how it reaches the Kubernetes API."""
    return _alone(options, KUBERNETES, environment)


KUBERNETES: Final = ("node", *(name for name in SETTINGS if name.startswith("kubernetes")))


def _alone(
    options: argparse.Namespace, names: Collection[str], environment: Mapping[str, str]
) -> Config:
    """A command's other flags may have the names of settings, and another meaning."""
    given = {key: value for key, value in vars(options).items() if key in ("config", *names)}
    return gather(argparse.Namespace(**given), environment).config


def where_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """For a command that needs only some settings: the file and these."""
    add_file(parser)
    for name in names:
        _add(parser, SETTINGS[name])
