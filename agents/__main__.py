"""The command line: `muxflow-agent`, or `python -m agents`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from agents import enrol, off
from agents.config import DEFAULT_CREDENTIALS, DEFAULT_STATE_DIR, Config, parse
from agents.state import StateDirInUse, StateFile
from agents.wire import cluster as cluster_file
from agents.wire.cluster import Cluster


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    command = COMMANDS.get(words[0]) if words else None
    return run(words) if command is None else command(words[1:])


def run(words: Sequence[str]) -> int:
    config = parse(words)
    logging.basicConfig(
        level=config.log_level, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    try:
        # Only here: the other commands must work without the packages of a simulation.
        from agents import fleet
    except ImportError as error:
        return fail(f"{error}: install muxflow-agent[simulate] to run simulated GPU values")
    try:
        if config.write_cluster is not None:
            return write_cluster(config.write_cluster, fleet.load_cluster(config))
        return serve(config)
    except (fleet.CannotRun, StateDirInUse, OSError) as error:
        return fail(str(error))


def serve(config: Config) -> int:
    from agents import fleet, loop

    part = fleet.load_cluster(config)
    keys = fleet.load_credentials(config.credentials)
    state = StateFile(config.state_dir)
    try:
        asyncio.run(loop.run(fleet.Fleet(config, part, keys, state), state, config))
    finally:
        state.close()
    return 0


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
        "--cluster", type=Path, required=True, metavar="FILE", help="names the node's GPUs"
    )
    parser.add_argument(
        "--credentials",
        type=Path,
        default=DEFAULT_CREDENTIALS,
        metavar="FILE",
        help="where to keep them; default %(default)s",
    )
    options = parser.parse_args(words)
    if not options.console.startswith(("http://", "https://")):
        parser.error("--console must be an http:// or https:// address")
    try:
        cluster = cluster_file.decode(options.cluster.read_bytes())
        gpus = next(node.gpus for node in cluster.nodes if node.name == options.node)
        enrol.keep(
            options.credentials, enrol.enrol(options.console, options.token, options.node, gpus)
        )
    except StopIteration:
        return fail(f"{options.cluster} does not describe {options.node}")
    except (enrol.NotEnrolled, msgspec.DecodeError, OSError) as error:
        return fail(str(error))
    print(f"{options.node} is enrolled; its credentials are in {options.credentials}.")
    return 0


def switch_off(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        "muxflow-agent off",
        description="Stop sharing here, without any network: running offline jobs are stopped"
        " through their checkpoint, and none starts until it is undone.",
    )
    parser.add_argument("--gpu", metavar="UUID", help="only this GPU")
    parser.add_argument("--undo", action="store_true", help="let the console's mode hold again")
    parser.add_argument("--state-dir", type=Path, default=DEFAULT_STATE_DIR, metavar="DIR")
    options = parser.parse_args(words)
    change = off.switch_back if options.undo else off.switch_off
    try:
        print(change(options.state_dir, options.gpu))
    except OSError as error:
        return fail(f"cannot change {options.state_dir / off.FILE_NAME}: {error.strerror}")
    return 0


def fail(sentence: str) -> int:
    print(f"muxflow-agent: {sentence}", file=sys.stderr)
    return 1


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {"enrol": enrol_node, "off": switch_off}


if __name__ == "__main__":
    sys.exit(main())
