from __future__ import annotations

import pytest
from django.utils import timezone

from console.runs import leases
from workers.app import PERIODS
from workers.tasks import metrics

pytestmark = pytest.mark.django_db


@pytest.fixture
def made(monkeypatch):
    made = []
    monkeypatch.setattr(metrics, "render_fleet", made.append)
    return made


def test_no_page_is_made_while_another_worker_makes_one(made):
    fence = leases.acquire(metrics.RENDER_FLEET, "another worker", 60, timezone.now())
    metrics.render_metrics()
    assert made == []
    leases.release(metrics.RENDER_FLEET, "another worker", fence)
    metrics.render_metrics()
    assert made == [timezone.now]


def test_a_page_is_made_each_period(settings):
    assert dict(PERIODS)[metrics.RENDER_FLEET] == settings.METRICS_PERIOD_S
