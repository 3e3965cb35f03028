"""What the predictor's page reads, in a fixed number of queries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from django.db.models import BooleanField, Case, Count, Max, When

from console.predictor import drift, registry, scatter
from console.predictor.models import DriftSample, Learning, PairObservation, PredictorVersion
from console.runs.models import Run
from console.runs.services import OPEN

# The kind of the runs that train.
KIND: Final = "training"
CHARTED: Final = 120
VERSIONS: Final = 30

# What is compared on the hold-out, in this order.
RIVALS: Final = (
    ("network", "This version"),
    ("active", "The version before it"),
    ("analytic", "Analytic estimate"),
    ("additive", "Additive baseline"),
    ("mean", "Always the mean"),
)


def has_drifted() -> bool:
    """Whether the version in force does worse now than on its hold-out."""
    version = registry.active()
    last = DriftSample.objects.filter(version=version).order_by("-at").first()
    if version is None or last is None:
        return False
    return drift.has_drifted(last.mae, last.observations, held_out_mae(version))


def held_out_mae(version: PredictorVersion) -> float | None:
    found = version.report.get("overall", {}).get("network", {}).get("mae")
    return float(found) if found is not None else None


@dataclass(frozen=True)
class Compared:
    """One row of the comparison on the hold-out; `part` of the largest error, 0 to 100."""

    word: str
    mae: float
    rmse: float | None
    spearman: float | None
    part: float
    online_mae: float | None


@dataclass(frozen=True)
class Family:
    """The errors of one job family on the hold-out."""

    name: str
    n: int
    network: float
    analytic: float
    mean: float

    @property
    def is_worse(self) -> bool:
        """Than the analytic estimate."""
        return self.network > self.analytic


@dataclass(frozen=True)
class Counts:
    """Observations by GPU model; `simulated` says that no real card made them."""

    gpu_model: str
    simulated: bool
    n: int
    last_at: datetime


class PredictorPage:
    """All that the page shows. Everything is read on first use."""

    @cached_property
    def active(self) -> PredictorVersion | None:
        return registry.active()

    @cached_property
    def learning(self) -> Learning:
        return registry.learning()

    @cached_property
    def versions(self) -> list[PredictorVersion]:
        """The newest, each with `has_data`: whether it still can be put in force."""
        has_data = Case(When(data=b"", then=False), default=True, output_field=BooleanField())
        return list(PredictorVersion.objects.defer("data").annotate(has_data=has_data)[:VERSIONS])

    @cached_property
    def shown(self) -> PredictorVersion | None:
        """Whose hold-out is shown: the version in force, else the newest."""
        return self.active or (self.versions[0] if self.versions else None)

    @property
    def report(self) -> dict[str, Any]:
        return self.shown.report if self.shown else {}

    @property
    def compared(self) -> list[Compared]:
        overall, online = self.report.get("overall", {}), self.report.get("online", {})
        most = max((errors["mae"] for errors in overall.values()), default=0.0) or 1.0
        return [
            Compared(
                word,
                e["mae"],
                e.get("rmse"),
                e.get("spearman"),
                100 * e["mae"] / most,
                online.get(key, {}).get("mae"),
            )
            for key, word in RIVALS
            if (e := overall.get(key))
        ]

    @property
    def families(self) -> list[Family]:
        found = self.report.get("families", {})
        rows = [
            Family(name, one["n"], one["network"], one["analytic"], one["mean"])
            for name, one in found.items()
        ]
        return sorted(rows, key=lambda row: -row.network)

    @cached_property
    def points(self) -> list[tuple[float, float, str]]:
        return [(p, o, str(name)) for p, o, name in self.report.get("scatter", [])]

    @property
    def drawing(self) -> scatter.Drawing:
        return scatter.draw([(predicted, observed) for predicted, observed, _ in self.points])

    @cached_property
    def drift(self) -> list[DriftSample]:
        """Of what is in force, oldest first."""
        rows = DriftSample.objects.filter(version=self.active).order_by("-at")[:CHARTED]
        return list(reversed(rows))

    @property
    def last_drift(self) -> DriftSample | None:
        return self.drift[-1] if self.drift else None

    @property
    def held_out_mae(self) -> float | None:
        return held_out_mae(self.active) if self.active else None

    @property
    def analytic_mae(self) -> float | None:
        """On the same hold-out."""
        found: float | None = self.report.get("overall", {}).get("analytic", {}).get("mae")
        return found

    @property
    def drift_from(self) -> float | None:
        return None if self.held_out_mae is None else drift.threshold(self.held_out_mae)

    @property
    def has_drifted(self) -> bool:
        last = self.last_drift
        return last is not None and drift.has_drifted(
            last.mae, last.observations, self.held_out_mae
        )

    @property
    def drift_chart(self) -> dict[str, Any]:
        lines = [(self.held_out_mae, "hold-out", "slo"), (self.drift_from, "drift", "warn")]
        return {
            "x": [row.at.timestamp() for row in self.drift],
            "unit": "",
            "digits": 3,
            "range": [0, None],
            "empty": "No observation since it took over",
            "series": [
                {
                    "label": "Error of the newest observations",
                    "values": [row.mae for row in self.drift],
                    "look": "main",
                    "fill": True,
                }
            ],
            "thresholds": [
                {"at": at, "label": label, "look": look}
                for at, label, look in lines
                if at is not None
            ],
        }

    @cached_property
    def observed(self) -> list[Counts]:
        rows = PairObservation.objects.values_list("gpu_model", "simulated").order_by("gpu_model")
        counted = rows.annotate(n=Count("pk"), last=Max("at"))
        return [Counts(model, sim, n, last) for model, sim, n, last in counted]

    @property
    def observations(self) -> int:
        return sum(row.n for row in self.observed)

    @cached_property
    def pairs(self) -> int:
        return PairObservation.objects.values("service", "family").distinct().count()

    @cached_property
    def last_run(self) -> Run | None:
        rows = Run.objects.filter(kind=KIND).select_related("started_by")
        return rows.order_by("-created_at").first()

    @property
    def is_learning(self) -> bool:
        return self.last_run is not None and self.last_run.state in OPEN
