"""The dashboards of docker/grafana: each panel asks for what there is, and names it by it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.monitoring.expressions import labels_of

GRAFANA = Path(__file__).parents[2] / "docker" / "grafana"
BOARDS = {path.stem: json.loads(path.read_text()) for path in GRAFANA.glob("dashboards/*.json")}
LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")
SCREEN = 24
KINDS = {"stat", "table", "timeseries", "row"}
# By the end of a metric's name, what its values are in. What is counted is told by its panel.
UNITS = {
    "requests_per_second": "reqps",
    "bytes_per_second": "Bps",
    "seconds": "s",
    "p99": "s",
    "bytes": "bytes",
    "ratio": "percentunit",
    "celsius": "celsius",
    "watts": "watt",
}


def panels():
    return [
        pytest.param(board, panel, id=f"{name}-{panel['title']}")
        for name, board in BOARDS.items()
        for panel in board["panels"]
        if panel["type"] != "row"
    ]


@pytest.mark.parametrize(("board", "panel"), panels())
def test_a_panel_asks_for_what_there_is(known, board, panel):
    variables = {one["name"] for one in board["templating"]["list"]}
    assert panel["targets"]
    assert panel["datasource"]["uid"] == "${datasource}"
    for target in panel["targets"]:
        labels = labels_of(target["expr"], known)
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels
        asked = {name for name in re.findall(r"\$(\w+)", target["expr"]) if name[:2] != "__"}
        assert asked <= variables


def unit_of(expr):
    """None where the name does not tell; a rate is of something else than its counter."""
    if "rate(" in expr or "count(" in expr:
        return "Bps" if re.match(r"rate\(\w+_bytes_total", expr) else None
    name = re.search(r"(?:\w+:)?(?:muxflow|process)_?[\w:]+|up", expr)[0]
    bare = re.sub(r"_?\d+[mh]$", "", name)
    return next((unit for end, unit in UNITS.items() if bare.endswith(end)), None)


@pytest.mark.parametrize(("board", "panel"), panels())
def test_a_panel_shows_values_in_the_unit_of_their_metric(board, panel):
    unit = panel["fieldConfig"]["defaults"]["unit"]
    assert {unit_of(target["expr"]) or unit for target in panel["targets"]} == {unit}


@pytest.mark.parametrize("name", BOARDS)
def test_what_grafana_asks_of_a_dashboard_is_there(name):
    board = BOARDS[name]
    assert board["title"]
    assert board["description"]
    assert board["schemaVersion"] >= 39
    assert board["templating"]["list"][0]["type"] == "datasource"
    assert {panel["type"] for panel in board["panels"]} <= KINDS
    for panel in board["panels"]:
        assert panel["title"]
        references = [target["refId"] for target in panel.get("targets", [])]
        assert len(set(references)) == len(references)


def test_a_unit_is_told_by_the_name():
    assert unit_of('muxflow_gpu_sm_activity_ratio{node="$node"} * on (a) b') == "percentunit"
    assert unit_of("task:muxflow_task_wait:p99_15m") == "s"
    assert unit_of("rate(muxflow_web_browser_sent_bytes_total[5m])") == "Bps"
    assert unit_of("sum(muxflow_web_agents)") is None


@pytest.mark.parametrize("name", BOARDS)
def test_a_variable_takes_its_values_from_a_label_that_there_is(known, name):
    for variable in BOARDS[name]["templating"]["list"]:
        if variable["type"] == "query":
            expr, label = LABEL_VALUES.fullmatch(variable["query"]["query"]).groups()
            assert label in labels_of(expr, known)


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_is_found_by_its_name_and_its_panels_have_room(name):
    board = BOARDS[name]
    assert board["uid"] == name
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    taken = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= SCREEN
        assert not cells & taken, panel["title"]
        taken |= cells


def test_grafana_is_told_where_they_are():
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yaml").read_text())[
        "datasources"
    ]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    (provider,) = yaml.safe_load((GRAFANA / "provisioning/dashboards/muxflow.yaml").read_text())[
        "providers"
    ]
    compose = yaml.safe_load((GRAFANA.parent / "compose.yaml").read_text())["services"]["grafana"]
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in compose["volumes"]
