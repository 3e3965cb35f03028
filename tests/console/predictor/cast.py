"""Pairs that were observed, versions learnt from them, and how they did."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

from console.predictor import registry
from console.predictor.models import Learning, PairObservation, PredictorVersion
from tests.console.inventory.cast import NOW

SERVICES = ("ads-ctr", "feed-rank", "ocr-scan", "search-rank", "translate")
FAMILIES = ("bert", "clip", "dlrm", "gpt", "resnet", "unet", "vit")


def a_report(network: float = 0.04, analytic: float = 0.12, **values: Any) -> dict[str, Any]:
    """What a training tells of its hold-out; `active` when it was compared with a version."""
    errors = {"network": network, "analytic": analytic, "additive": 0.09, "mean": 0.11}
    errors |= {name: values.pop(name) for name in ("active",) if name in values}
    return {
        "counts": {"observations": 900, "pairs": 35, "held_out": 180} | values.pop("counts", {}),
        "overall": {
            name: {"mae": mae, "rmse": 1.3 * mae, "spearman": 0.9} for name, mae in errors.items()
        },
        "families": {
            "bert": {"n": 90, "network": 0.03, "analytic": 0.10, "mean": 0.11},
            "gpt": {"n": 90, "network": 0.15, "analytic": 0.14, "mean": 0.12},
        },
        "blend": {"bilinear": 0.0, "networks": 0.25, "process": 0.75},
        "coverage_90": 0.91,
        "interval_width_90": 0.14,
        "out_of_range_share": 0.0,
        "scatter": [[0.6, 0.62, "bert"], [0.5, 0.42, "gpt"]],
        "seed": 1,
    } | values


def a_version(report: dict[str, Any] | None = None, **values: Any) -> PredictorVersion:
    facts: dict[str, Any] = {"simulated": True, "now": NOW}
    data = values.pop("data", b"a predictor")
    return registry.add(data, report or a_report(), **facts | values)


def in_force(version: PredictorVersion, against: int | None = None) -> PredictorVersion:
    assert registry.judge(version, against, NOW).promote
    return PredictorVersion.objects.get(pk=version.pk)


def observations(count: int = 400, at: datetime = NOW, **values: Any) -> list[PairObservation]:
    """Of every service with every family, a second apart, that began at `at`."""
    lot = random.Random(7)
    rows = [
        PairObservation(
            **{
                "at": at + timedelta(seconds=number),
                "window_s": 60.0,
                "simulated": True,
                "gpu_model": "A100",
                "service": SERVICES[number % len(SERVICES)],
                "family": FAMILIES[number % len(FAMILIES)],
                "job": f"{FAMILIES[number % len(FAMILIES)]}-{number}",
                "sm_share_percent": 60.0,
                "duty_percent": 60.0,
                "online_sm_percent": 20.0,
                "online_util_percent": 50.0,
                "online_bandwidth_percent": 15.0,
                "online_memory_percent": 25.0,
                "job_sm_percent": 55.0,
                "job_util_percent": 90.0,
                "job_bandwidth_percent": 30.0,
                "job_memory_percent": 15.0,
                "throughput": 0.4 + 0.2 * lot.random(),
                **values,
            }
        )
        for number in range(count)
    ]
    return PairObservation.objects.bulk_create(rows)


def a_trainer(name: str = "PyTorch 2", missing: str = "") -> None:
    row = registry.learning()
    Learning.objects.filter(pk=row.pk).update(trainer=name, no_trainer=missing, looked_at=NOW)
