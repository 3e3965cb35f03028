from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from agents.wire.names import GPU_STATES, GpuState
from console.metrics.exposition import Family, Format, Kind, render
from tests.console.metrics.cast import facts, gpu, node, pages, parsed, shown, value
from tests.console.telemetry.fleet import GIB, NOW

DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"
LABELS = {
    "gpu_uuid", "node", "pool", "policy", "service", "state", "origin", "queue", "lease", "kind",
    "beside", "gpu", "model", "driver", "source", "agent_version", "sharing_mode", "tier",
}  # fmt: skip
HOSTILE = 'a"b\\c\nd{e="f"} 1\n# TYPE x counter'


@pytest.mark.parametrize("form", Format)
def test_prometheus_own_client_reads_the_page(form):
    lines, families = parsed(pages(facts({}, {"sm_activity": None}))[form], form)
    assert lines["muxflow_gpu_info"].popitem()[1] == 1
    assert {family.type for family in families} <= {"gauge", "counter", "info"}
    assert all(family.documentation and family.samples for family in families)
    for name, told in lines.items():
        assert name.startswith("muxflow_")
        if name.endswith("_ratio"):
            assert all(0 <= one <= 1 for one in told.values()), name
        assert {label for labels in told for label, _ in labels} <= LABELS, name


def test_both_formats_say_the_same():
    told = pages(facts({}, {}))
    text, openmetrics = (parsed(told[form], form)[0] for form in Format)
    assert text == openmetrics
    assert told[Format.OPENMETRICS].endswith("# EOF\n")


def test_values_are_in_base_units():
    lines = shown(facts({"sm_clock": 1410.0, "online_p99": 31.5, "pcie_rx": 2e9}))
    assert value(lines, "gpu_sm_activity_ratio") == 0.52
    assert value(lines, "gpu_memory_used_bytes") == 40 * GIB
    assert value(lines, "gpu_sm_clock_hertz") == 1.41e9
    assert value(lines, "gpu_online_p99_seconds") == 0.0315
    assert value(lines, "gpu_headroom_ratio") == 0.25
    assert value(lines, "gpu_sample_age_seconds") == 1
    assert value(lines, "gpu_evictions_total") == 2


def test_a_missing_value_has_no_line_and_a_measured_zero_has_one():
    lines = shown(facts({"sm_activity": None, "gpu_util": 0.0}))
    assert value(lines, "gpu_sm_activity_ratio") is None
    assert value(lines, "pool_sm_activity_ratio") is None
    assert value(lines, "gpu_utilization_ratio") == 0
    assert value(lines, "queue_messages", queue="default") is None


@pytest.mark.parametrize(("at", "up"), [(NOW, 1), (NOW - 4, 1), (NOW - 5, 0), (0.0, 0)])
def test_a_silent_gpu_has_no_values_but_is_told_to_be_silent(at, up):
    lines = shown(facts({}, at=at))
    assert value(lines, "gpu_up") == up
    assert value(lines, "node_gpus_up") == up
    assert value(lines, "pool_gpus", state="NO_DATA") == 1 - up
    for name in ("gpu_sm_activity_ratio", "gpu_state", "service_p99_worst_seconds"):
        assert (value(lines, name) is not None) == bool(up), name
    assert (value(lines, "gpu_sample_age_seconds") is None) == (at == 0)


def test_a_lost_node_and_an_imported_one_have_no_live_values():
    live = facts({}, {})
    live.grid.facts.lost[0], live.grid.facts.agent[1] = True, False
    lines = shown(live)
    assert value(lines, "gpu_up", gpu_uuid="GPU-11") == 0
    assert value(lines, "gpu_up", gpu_uuid="GPU-12") is None
    assert "muxflow_gpu_power_watts" not in lines


def test_states_are_told_once_and_counted():
    live = facts({}, {}, {})
    live.grid.state[:] = [GPU_STATES.index(s) for s in (GpuState.GUARDED, *[GpuState.DISABLED] * 2)]
    live.grid.facts.by_person[1] = True
    lines = shown(live)
    assert len(lines["muxflow_gpu_state"]) == 3
    assert value(lines, "gpu_state", gpu_uuid="GPU-11", state="GUARDED") == 1
    counted = {
        s: value(lines, "pool_gpus", state=s) for s in ("DISABLED", "QUARANTINED", "GUARDED")
    }
    assert counted == {"DISABLED": 1, "QUARANTINED": 1, "GUARDED": 1}


def test_what_a_service_feels_beside_offline_work_and_beside_nothing():
    alone = {"offline_processes": 0.0, "online_p99": 20.0}
    lines = shown(facts({"online_p99": 30.0}, {"online_p99": 50.0}, alone))
    told = {
        (what, beside): value(lines, f"service_p99_{what}_seconds", beside=beside)
        for what in ("worst", "median")
        for beside in ("offline", "nothing")
    }
    assert told == {
        ("worst", "offline"): 0.05,
        ("median", "offline"): 0.04,
        ("worst", "nothing"): 0.02,
        ("median", "nothing"): 0.02,
    }
    assert value(lines, "service_slo_p99_seconds") == 0.04


def test_evictions_count_from_zero_and_outlive_their_gpu():
    lines = shown(facts({}, {}))
    assert value(lines, "gpu_evictions_total", gpu_uuid="GPU-12") == 0
    assert value(lines, "evictions_total", origin="overload") == 2
    assert value(lines, "evictions_total", origin="move") == 1
    assert value(lines, "evictions_total", origin="slo") == 0


@pytest.mark.parametrize("form", Format)
def test_hostile_names_stay_within_their_label(form):
    told = facts({}, gpus=[gpu(uuid=HOSTILE, node=HOSTILE, model=HOSTILE)], nodes=[node(HOSTILE)])
    lines, _ = parsed(pages(told)[form], form)
    ((labels, _),) = lines["muxflow_gpu_info"].items()
    assert {dict(labels)[name] for name in ("gpu_uuid", "node", "model")} == {HOSTILE}


def test_a_slot_that_repeats_an_identity_does_not_repeat_a_line():
    lines = shown(facts({}, {}, gpus=[gpu(11), gpu(12, uuid="GPU-11")]))
    assert len(lines["muxflow_gpu_up"]) == 1
    elsewhere = shown(facts({}, {}, gpus=[gpu(11), gpu(12, uuid="GPU-11", node="node-08")]))
    assert len(elsewhere["muxflow_gpu_up"]) == 2


def test_an_empty_fleet_is_a_page_too():
    none = facts({}, gpus=[], nodes=[], pools=[], services=[], instances=[], samples=[])
    assert value(shown(none), "fleet_rendered_timestamp_seconds") == NOW + 1


def test_what_is_no_number_has_no_line():
    family = Family("muxflow_x", Kind.GAUGE, "x.", ["", "", ""], [math.nan, math.inf, -math.inf])
    assert len(render([family])[Format.TEXT]) == len(render([])[Format.TEXT])


def test_every_metric_and_label_is_in_the_documents():
    text = DOCS.read_text()
    lines = shown(facts({"sm_occupancy": 1, "memory_bandwidth": 1, "sm_clock": 1, "pcie_rx": 1}))
    missing = [name for name in lines if not re.search(rf"`{name}`", text)]
    assert missing == []
