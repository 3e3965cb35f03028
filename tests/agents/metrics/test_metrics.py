from __future__ import annotations

from pathlib import Path

import pytest

from agents.metrics.exposition import Family, Kind, Sample, text
from agents.metrics.families import PREFIX, ROWS, Process, Told, families
from agents.metrics.page import process
from agents.status import view
from agents.wire.names import Signal
from tests.agents.cast import STOP, Stage, desired, placement
from tests.agents.metrics.strict import parse

DOCS = (Path(__file__).parents[3] / "docs" / "agent.md").read_text()
LABELS = {
    "node", "gpu_uuid", "state", "to", "origin", "collector", "policy", "phase", "le", "version",
}  # fmt: skip


@pytest.fixture
def stage(tmp_path):
    stage = Stage(tmp_path)
    yield stage
    stage.die()


def shown(stage):
    inside = stage.node.inside()
    told = Told(view.node(inside, None, stage.now, 2_000.0), inside.spool.tally)
    return parse(text(families([told], process(1_900.0), "0.1.0")))


def value(found, name, **labels):
    samples = found[f"{PREFIX}{name}"][1]
    matching = [
        value
        for (line, given), value in samples.items()
        if labels.items() <= dict(given).items() and not line.endswith(("_bucket", "_sum"))
    ]
    assert len(matching) == 1, (name, labels, samples)
    return matching[0]


def test_a_node_that_has_just_begun_is_well_formed(stage):
    found = shown(stage)
    assert value(found, "link_up") == 0
    assert value(found, "freezes_total", gpu_uuid="GPU-0") == 0
    assert f"{PREFIX}gpu_headroom_ratio" not in found


def test_a_freeze_an_eviction_and_their_transitions(stage):
    stage.start()
    stage.sensors.values[Signal.SM_ACTIVITY] = 97.0
    stage.run(6)
    found = shown(stage)
    assert value(found, "gpu_headroom_ratio", gpu_uuid="GPU-0") == 0
    assert value(found, "freezes_total", gpu_uuid="GPU-0") == 1
    assert value(found, "evictions_total", origin="overload") == 1
    assert value(found, "transitions_total", gpu_uuid="GPU-0", to="GUARDED") == 1
    assert value(found, "stop_phase_seconds", phase="SIGNALLED") == 1


def test_what_the_console_ordered_counts_by_its_origin(stage):
    stage.start()
    stage.order(desired(placement(stop=STOP), generation=3))
    stage.run(1)
    assert value(shown(stage), "evictions_total", gpu_uuid="GPU-0", origin="move") == 1


def test_lease_policy_and_the_state_of_a_gpu(stage):
    stage.healthy()
    found = shown(stage)
    assert 590 < value(found, "lease_left_seconds") <= 600
    assert value(found, "policy_version", policy="standard") == 3
    assert value(found, "gpu_state", gpu_uuid="GPU-0", state="HEALTHY") == 1
    assert value(found, "gpu_state", gpu_uuid="GPU-0", state="GUARDED") == 0


def test_labels_are_bounded(stage):
    stage.start()
    used = {
        label for _, samples in shown(stage).values() for _, given in samples for label, _ in given
    }
    assert used <= LABELS


def test_hostile_names_do_not_break_the_page():
    hostile = 'a"b\\c\nd{}'
    found = parse(text([Family("m", Kind.GAUGE, "x\ny", [Sample(1.5, {"node": hostile})])]))
    ((_, labels),) = found["m"][1]
    assert labels == (("node", r"a\"b\\c\nd{}"),)


def test_what_the_process_cannot_tell_is_absent():
    page = text(families([], Process(1.0, 2.5, None, None), "0.1.0"))
    assert set(parse(page)) == {
        "process_start_time_seconds",
        "process_cpu_seconds_total",
        f"{PREFIX}info",
    }


def test_every_family_has_a_name_of_its_own():
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(
    "family", [*families([], process(1.0), "0.1.0")], ids=lambda family: family.name
)
def test_the_page_in_the_docs_has_its_row(family):
    row = f"| `{family.name}` | {family.kind} | {family.help} |"
    assert family.name.startswith("process_") or row in DOCS
