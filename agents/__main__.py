"""The command line: `muxflow-agent`, or `python -m agents`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agents import enrol, logs, off, preflight, tls
from agents.claim import claim_all
from agents.config import CannotRun, Config, GpuValues
from agents.mps import command as mps
from agents.settings import command as check_config
from agents.settings.flags import TLS, credentials_of, parse, state_dir_of, tls_of, where_options
from agents.state import StateDirInUse, StateFile, StateUnusable, running_pid
from agents.status import command as status
from agents.uninstall import command as uninstall
from agents.wire import cluster as cluster_file
from agents.wire.cluster import Cluster, ClusterGpu
from agents.wire.credentials import Credentials

if TYPE_CHECKING:
    from agents.loop import Nodes, Pace


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    command = COMMANDS.get(words[0]) if words else None
    return run(words) if command is None else command(words[1:])


def run(words: Sequence[str]) -> int:
    config = parse(words)
    logs.start(config.log_level, config.log_format)
    try:
        return simulate(config) if config.gpus is GpuValues.SIMULATED else watch(config)
    except (CannotRun, StateDirInUse, StateUnusable, OSError) as error:
        return fail(str(error))


def simulate(config: Config) -> int:
    try:
        # Only here: everything else must work without the packages of a simulation.
        from agents import fleet
        from agents.crowd import crowd
    except ImportError as error:
        return fail(f"{error}: install muxflow-agent[simulate] to run simulated GPU values")
    part = fleet.load_cluster(config)
    if config.write_cluster is not None:
        return write_cluster(config.write_cluster, part)
    if crowd.is_large(part):
        return serve(config, partial(crowd.Crowd, config, part), crowd.beat)
    return serve(config, partial(fleet.Fleet, config, part))


def watch(config: Config) -> int:
    from agents.berth import load_credentials
    from agents.host import Host, own_cards

    load_credentials(config.credentials)  # before the driver is asked for anything
    if config.gpus is GpuValues.REPLAY:
        return serve(config, partial(Host, config))
    with claim_all(own_cards()):
        return serve(config, partial(Host, config))


def serve(
    config: Config,
    nodes: Callable[[dict[str, Credentials], StateFile], Nodes],
    pace: Pace | None = None,
) -> int:
    from agents import loop
    from agents.berth import load_credentials

    keys = load_credentials(config.credentials)
    logs.hide(secret for key in keys.values() for secret in (key.token, key.key_hex))
    state = StateFile(config.state_dir)
    try:
        asyncio.run(loop.run(nodes(keys, state), state, config, pace))
    finally:
        is_whole = state.close()
    return 0 if is_whole else fail(f"the last of what happened is lost: {state.refusal}")


def write_cluster(path: Path, cluster: Cluster) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(cluster_file.encode(cluster))
    print(f"{path}: {len(cluster.nodes)} nodes, {len(cluster.jobs)} jobs")
    return 0


def enrol_node(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("muxflow-agent enrol", description=enrol.__doc__)
    parser.add_argument(
        "--console", required=True, metavar="URL", help="https://... of the console"
    )
    parser.add_argument("--token", required=True, help="the one-time token the console showed")
    parser.add_argument("--node", required=True, metavar="NAME", help="the name of this node")
    parser.add_argument(
        "--cluster",
        type=Path,
        metavar="FILE",
        help="names the node's GPUs; without it they are read from the NVIDIA driver",
    )
    where_options(parser, "credentials", *TLS)
    options = parser.parse_args(words)
    if not options.console.startswith(("http://", "https://")):
        parser.error("--console must be an http:// or https:// address")
    try:
        gpus = own_gpus() if options.cluster is None else gpus_of(options.cluster, options.node)
        kept = credentials_of(options, os.environ)
        trust = tls.context(tls_of(options, os.environ))
        fresh = enrol.enrol(options.console, options.token, options.node, gpus, trust)
        enrol.keep(kept, fresh)
    except (CannotRun, enrol.NotEnrolled, msgspec.DecodeError, OSError) as error:
        return fail(str(error))
    print(f"{options.node} is enrolled; its credentials are in {kept}.")
    return 0


def gpus_of(path: Path, node: str) -> tuple[ClusterGpu, ...]:
    """Raises CannotRun, msgspec.DecodeError, OSError."""
    cluster = cluster_file.decode(path.read_bytes())
    found = next((one.gpus for one in cluster.nodes if one.name == node), None)
    if found is None:
        raise CannotRun(f"{path} does not describe {node}")
    return found


def own_gpus() -> tuple[ClusterGpu, ...]:
    """Raises CannotRun."""
    from agents.host import own_cards

    return tuple(ClusterGpu(card.uuid, card.model, card.memory_bytes) for card in own_cards())


def switch_off(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        "muxflow-agent off",
        description="Stop sharing here, without any network: running offline jobs are stopped"
        " through their checkpoint, and none starts until it is undone.",
    )
    parser.add_argument("--gpu", metavar="UUID", help="only this GPU")
    parser.add_argument("--undo", action="store_true", help="let the console's mode hold again")
    where_options(parser, "state_dir")
    options = parser.parse_args(words)
    try:
        state_dir = state_dir_of(options, os.environ)
        if options.gpu is not None and not options.undo:
            status.expect_gpu(state_dir, options.gpu)
        change = off.switch_back if options.undo else off.switch_off
        print(change(state_dir, options.gpu))
    except CannotRun as error:
        return fail(str(error))
    except OSError as error:
        return fail(f"cannot change {state_dir / off.FILE_NAME}: {error.strerror}")
    if running_pid(state_dir) is None:
        print(f"no agent runs on {state_dir}: it holds for the next one", file=sys.stderr)
    return 0


def fail(sentence: str) -> int:
    print(f"muxflow-agent: {sentence}", file=sys.stderr)
    return 1


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "check-config": check_config.main,
    "enrol": enrol_node,
    "mps": mps.main,
    "off": switch_off,
    "preflight": preflight.main,
    "status": status.main,
    "uninstall": uninstall.main,
}


if __name__ == "__main__":
    sys.exit(main())
