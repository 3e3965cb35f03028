"""`python -m workers.train PAIRS.csv --out WEIGHTS.npz`: a version of the predictor from a table.

`docs/prediction.md` has the columns. Says how far it is on standard output. Ends with 2 when the
table cannot be learnt from, and with 3 when PyTorch is missing; the reason is on standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from workers.prediction import artifact, training
from workers.prediction.learner import TorchMissing
from workers.prediction.observations import Observations, read_csv

UNUSABLE, NO_TORCH = 2, 3
# Lines of progress are for a person or a page: more often is of no use.
SAY_S = 0.25


def main() -> int:
    chosen = _arguments()
    try:
        seen = read_csv(chosen.pairs)
        active = artifact.load(chosen.against.read_bytes()) if chosen.against else None
        learnt = training.train(
            _simulated(seen) if chosen.simulated else seen,
            seed=chosen.seed,
            origin=chosen.origin,
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            active=active,
            progress=_Said(),
        )
    except TorchMissing as missing:
        return _fail(NO_TORCH, str(missing))
    except (ValueError, OSError) as error:
        return _fail(UNUSABLE, str(error))
    chosen.out.write_bytes(learnt.data)
    if chosen.report:
        chosen.report.write_text(json.dumps(learnt.report.to_json()))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workers.train", description=__doc__)
    parser.add_argument("pairs", type=Path, help="the table of observed pairs, CSV")
    parser.add_argument("--out", type=Path, required=True, help="where the version goes, .npz")
    parser.add_argument("--report", type=Path, help="where its errors go, JSON")
    parser.add_argument("--origin", default="measured", help="where the pairs are from (measured)")
    parser.add_argument("--seed", type=int, default=1, help="of everything random (1)")
    parser.add_argument("--simulated", action="store_true", help="they are of simulated GPUs")
    parser.add_argument("--against", type=Path, help="the version in force, to compare with")
    return parser.parse_args()


def _simulated(seen: Observations) -> Observations:
    """No version that is made of them serves a real GPU."""
    cards = (one.removeprefix(training.SIMULATED) for one in seen.gpu_model)
    return replace(seen, gpu_model=tuple(training.SIMULATED + one for one in cards))


class _Said:
    """Tells progress on standard output, now and then."""

    def __init__(self) -> None:
        self.at = -SAY_S

    def __call__(self, part: float, said: str) -> None:
        if part < 1.0 and time.monotonic() - self.at < SAY_S:
            return
        self.at = time.monotonic()
        sys.stdout.write(f"progress {part:.3f} {said}\n")
        sys.stdout.flush()


def _fail(status: int, why: str) -> int:
    sys.stderr.write(why + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
