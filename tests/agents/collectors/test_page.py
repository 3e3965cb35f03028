"""docs/collectors.md says what the collectors do."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.collectors.dcgm import FIELDS, DmonSource, ExporterSource
from agents.collectors.gpm import METRICS, GpmSource
from agents.collectors.nvml import PcieSource, SignalSource
from agents.collectors.processes import PERIOD_S, REST_PERIOD_S, ProcessSource
from agents.collectors.services import ServiceSource
from agents.collectors.xcuda import XcudaSource
from agents.wire.names import UNITS, Signal

PAGE = (Path(__file__).parents[3] / "docs" / "collectors.md").read_text()
ROWS = {
    cells[0]: cells
    for line in PAGE.splitlines()
    if line.startswith("|")
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}
SOURCES = [
    SignalSource,
    GpmSource,
    ExporterSource,
    DmonSource,
    PcieSource,
    ProcessSource,
    XcudaSource,
    ServiceSource,
]


@pytest.mark.parametrize("signal", Signal)
def test_every_signal_has_its_row_with_its_unit_and_sources(signal):
    _, unit, _, sources, meaning = ROWS[signal]
    assert unit.startswith(UNITS[signal])
    assert meaning
    for number in [number for number, of, _ in METRICS if of is signal]:
        assert f"GPM {number}" in sources
    for field in [field for field in FIELDS if field.signal is signal]:
        assert str(field.number) in sources


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_every_source_has_its_row_with_its_times(source):
    _, asked, counts, _ = ROWS[source.name]
    if source is ProcessSource:
        assert asked == f"{PERIOD_S:g} s; without jobs {REST_PERIOD_S:g} s"
    else:
        assert asked == (f"{source.period_s:g} s" if source.period_s else "each sample")
    assert counts == f"{source.max_age_s:g} s"
