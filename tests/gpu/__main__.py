"""Try xCUDA, or what a node knows of its GPU, on this machine: `make gpu-xcuda`, `gpu-signals`.

    python -m tests.gpu                 xCUDA: every step that this machine allows
    python -m tests.gpu --signals       every signal, MPS, and who is on the GPU
    python -m tests.gpu --stub          the same on the stand-in driver, without a GPU
    python -m tests.gpu --steps exits   these only (and what they need)

Needs Linux, gcc and make, and any Python from 3.11 on, without packages; with a GPU its driver; for
the rest what is there: the MPS control daemon, a CUDA runtime, PyTorch. What is not there is
reported as missing, never as a failure. Prints a table, then one JSON line; exit status 0 unless a
step that could run failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.gpu import signals
from tests.gpu.client import ROOT
from tests.gpu.figure import Failed, Missing
from tests.gpu.machine import Machine, Step
from tests.gpu.shared import SharedGpu
from tests.gpu.steps import LAST, STEPS, build, find_device

NEEDED = ("build", "device", "mps")


def main() -> int:
    options = read_options([*STEPS, *LAST])
    # In /tmp and short, since sockets of the MPS daemon lie in it.
    with tempfile.TemporaryDirectory(prefix="xcuda-", ignore_cleanup_errors=True) as folder:
        machine = Machine(options.stub, Path(folder), options.built.resolve())
        if options.signals:
            results = try_signals(machine)
        else:
            every = {**STEPS, **LAST}
            chosen = {*NEEDED, *(options.steps or every)}
            results = try_steps({name: every[name] for name in every if name in chosen}, machine)
    return report(results, options.stub)


def try_signals(machine: Machine) -> dict[str, dict[str, Any]]:
    with closing(SharedGpu(machine)) as gpu:
        return try_steps({"build": build, "device": find_device, **signals.steps(gpu)}, machine)


def try_steps(steps: dict[str, Step], machine: Machine) -> dict[str, dict[str, Any]]:
    try:
        return {name: try_step(name, step, machine) for name, step in steps.items()}
    finally:
        machine.close()


def read_options(names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.gpu", description="Try xCUDA on a real GPU.")
    parser.add_argument("--signals", action="store_true", help="what a node knows of its GPU")
    parser.add_argument("--stub", action="store_true", help="use the stand-in driver instead")
    built = ROOT / "build" / "xcuda"
    parser.add_argument("--built", type=Path, default=built, help="where to build (%(default)s)")
    parser.add_argument("--steps", nargs="+", choices=names, metavar="STEP", help=", ".join(names))
    return parser.parse_args()


def try_step(name: str, step: Step, machine: Machine) -> dict[str, Any]:
    """Whatever goes wrong is this step's result, and the next one is tried."""
    began_s = time.monotonic()
    values: dict[str, Any] = {}
    try:
        figure = step(machine)
        result, text, values = "ok", figure.text, figure.values
    except Missing as missing:
        result, text = "missing", str(missing)
    except Failed as failed:
        result, text = "failed", str(failed)
    except Exception as error:
        result, text = "failed", f"{type(error).__name__}: {error}"
    took_s = round(time.monotonic() - began_s, 1)
    print(f"{name:16} {result:8} {took_s:6.1f} s   {text}", flush=True)
    return {"result": result, "text": text, "took_s": took_s, **values}


def report(results: dict[str, dict[str, Any]], stub: bool) -> int:
    counts = {
        outcome: sum(it["result"] == outcome for it in results.values())
        for outcome in ("ok", "failed", "missing")
    }
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    print(json.dumps({"driver": "stub" if stub else "real", **counts, "steps": results}))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
