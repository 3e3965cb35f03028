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
