"""Try xCUDA on the real GPU of this machine: `make gpu-xcuda`.

    python -m tests.gpu                 every step that this machine allows
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
from pathlib import Path
from typing import Any

from tests.gpu.client import ROOT
from tests.gpu.figure import Failed, Missing
from tests.gpu.machine import Machine, Step
from tests.gpu.steps import LAST, STEPS

NEEDED = ("build", "device", "mps")


def main() -> int:
    every = {**STEPS, **LAST}
    options = read_options(list(every))
    names = [name for name in every if name in {*NEEDED, *(options.steps or every)}]
    # In /tmp and short, since sockets of the MPS daemon lie in it.
    with tempfile.TemporaryDirectory(prefix="xcuda-", ignore_cleanup_errors=True) as folder:
        machine = Machine(options.stub, Path(folder), options.built.resolve())
        try:
            results = {name: try_step(name, every[name], machine) for name in names}
        finally:
            machine.close()
    return report(results, options.stub)


def read_options(names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.gpu", description="Try xCUDA on a real GPU.")
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
