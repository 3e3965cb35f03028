"""The rules of docker/prometheus: they ask for what there is, and say when something is wrong."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests import debian
from tests.monitoring.alerts import CASES
from tests.monitoring.expressions import SCRAPED, Wrong, labels_of
from tests.monitoring.rules import ALERTS, FILES, FOLDER, RECORDS

DOCS = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
TEMPLATE = re.compile(r"\$labels\.(\w+)")


def test_recorded_figures_are_made_of_what_there_is(known):
    assert known["service:muxflow_harm:quotient"] == SCRAPED | {"service", "pool"}
    assert all(name.count(":") >= 1 for name in RECORDS)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_asks_for_what_there_is_and_says_what_to_do(known, name):
    rule = ALERTS[name]
    labels = labels_of(rule["expr"], known)
    texts = " ".join(rule["annotations"].values())
    assert set(TEMPLATE.findall(texts)) <= labels
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert all(rule["annotations"][name] for name in ("summary", "description"))
    assert rule["annotations"]["runbook"] == f"docs/metrics.md#{name.lower()}"
    assert f"\n### {name}\n" in DOCS


@pytest.mark.parametrize(
    "expr",
    [
        "muxflow_gpu_sm_activity", "muxflow_gpu_up{service='x'}", "sum by (job_name) (up)",
        "muxflow_open_evictions > muxflow_pool_gpus_sharing", "histogram_quantile(0.9, up)",
        "up * on (pool) muxflow_pool_gpus_sharing", 'exported_node{node="x"}',
    ],
)  # fmt: skip
def test_an_expression_that_fits_nothing_is_found(known, expr):
    with pytest.raises(Wrong):
        labels_of(expr, known)


# --- with Prometheus' own tool ------------------------------------------------------------------


@pytest.fixture(scope="module")
def promtool():
    found = shutil.which("promtool") or debian.unpack("prometheus", "usr/bin/promtool")
    if found is None:
        pytest.skip("promtool: install Prometheus (Debian, Ubuntu: apt install prometheus)")
    return found


def checked(promtool, *command):
    done = subprocess.run([promtool, *command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.integration
def test_prometheus_takes_rules_and_configuration(promtool):
    checked(promtool, "check", "rules", *FILES)
    checked(promtool, "check", "config", "--syntax-only", FOLDER / "prometheus.yml")


def test_every_alert_is_tried():
    assert set(CASES) == set(ALERTS)


@pytest.mark.integration
def test_alerts_fire_when_they_should_and_at_no_other_time(promtool, tmp_path):
    path = tmp_path / "rules_test.yml"
    tests = [test for name, case in CASES.items() for test in case.tests(ALERTS[name])]
    given = {"rule_files": [str(rule) for rule in FILES], "evaluation_interval": "5m"}
    path.write_text(yaml.safe_dump({**given, "tests": tests}))
    checked(promtool, "test", "rules", path)
