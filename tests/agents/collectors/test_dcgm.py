from __future__ import annotations

import stat
import textwrap

import pytest

from agents.collectors.base import Unavailable
from agents.collectors.dcgm import DmonSource, ExporterSource, parse, parse_discovery, parse_dmon
from agents.sysmonitor.signals import POSITIONS
from agents.wire.names import Signal

ONE = "GPU-5d1f9a3e-0000-4000-8000-000000000001"
TWO = "GPU-5d1f9a3e-0000-4000-8000-000000000002"


def line(name, value, uuid=ONE, more=""):
    return f'{name}{{gpu="0",UUID="{uuid}",modelName="H100, {{x}}"{more}}} {value}\n'


@pytest.mark.parametrize(
    ("name", "raw", "signal", "value"),
    [
        ("DCGM_FI_PROF_SM_ACTIVE", "0.93", Signal.SM_ACTIVITY, 93.0),
        ("DCGM_FI_PROF_SM_UTIL_RATIO", "0.93", Signal.SM_ACTIVITY, 93.0),
        ("dcgm_fi_prof_sm_active", "0.93", Signal.SM_ACTIVITY, 93.0),
        ("DCGM_FI_PROF_SM_OCCUPANCY_RATIO", "0.5", Signal.SM_OCCUPANCY, 50.0),
        ("DCGM_FI_PROF_DRAM_ACTIVE", "1", Signal.MEMORY_BANDWIDTH, 100.0),
        ("DCGM_FI_PROF_DRAM_UTIL_RATIO", "0", Signal.MEMORY_BANDWIDTH, 0.0),
        ("DCGM_FI_PROF_PCIE_RX_BYTES", "8691000", Signal.PCIE_RX, 8_691_000.0),
        ("DCGM_FI_DEV_GPU_UTIL", "85", Signal.GPU_UTIL, 85.0),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", "0.85", Signal.GPU_UTIL, 85.0),
        ("DCGM_FI_DEV_SM_CLOCK", "1755", Signal.SM_CLOCK, 1755.0),
        ("DCGM_FI_DEV_SM_CLOCK_HERTZ", "1755000000", Signal.SM_CLOCK, 1755.0),
        ("DCGM_FI_DEV_GPU_TEMP", "52", Signal.TEMPERATURE, 52.0),
        ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", "52", Signal.TEMPERATURE, 52.0),
        ("DCGM_FI_DEV_BOARD_POWER_WATTS", "627.3", Signal.POWER, 627.3),
        ("DCGM_FI_203", "85", Signal.GPU_UTIL, 85.0),
        ("DCGM_FI_1613", "0.85", Signal.GPU_UTIL, 85.0),
        ("DCGM_FI_1002", "0.93", Signal.SM_ACTIVITY, 93.0),
        ("DCGM_FI_150", "52", Signal.TEMPERATURE, 52.0),
    ],
)
def test_a_field_is_read_by_its_number_under_its_old_and_its_new_name(name, raw, signal, value):
    assert parse(line(name, raw))[ONE][signal] == pytest.approx(value)


@pytest.mark.parametrize(
    ("raw", "percent"), [("0.5", 50.0), ("1", 100.0), ("7.5", 7.5), ("85", 85.0), ("0", 0.0)]
)
def test_a_percentage_that_is_only_called_a_ratio_is_a_percentage(raw, percent):
    assert parse(line("DCGM_FI_DEV_GPU_UTIL_RATIO", raw))[ONE][Signal.GPU_UTIL] == percent


@pytest.mark.parametrize(
    "raw", ["4294967295", "808334905", "9223372036854775794", "1.40737488355328e14", "NaN", "N/A"]
)
def test_a_value_that_cannot_be_is_missing(raw):
    assert parse(line("DCGM_FI_DEV_GPU_UTIL", raw)) == {}


def test_the_last_xid_of_an_exporter_is_not_taken_for_a_new_one():
    assert parse(line("DCGM_FI_DEV_XID_ERRORS", "79")) == {}


def test_a_part_of_a_card_is_not_the_card():
    assert parse(line("DCGM_FI_PROF_SM_ACTIVE", "0.9", more=',GPU_I_ID="3"')) == {}


def test_one_series_for_each_pod_is_one_card():
    page = line("DCGM_FI_PROF_SM_ACTIVE", "0.9", more=',pod="a"') + line(
        "DCGM_FI_PROF_SM_ACTIVE", "0.9", more=',pod="b"'
    )
    assert parse(page) == {ONE: {Signal.SM_ACTIVITY: pytest.approx(90.0)}}


class Pages:
    def __init__(self, text=""):
        self.text = text

    def read(self):
        return self.text

    def close(self): ...


def sm(source, now):
    return source.look(now)[ONE].values[POSITIONS[Signal.SM_ACTIVITY]]


def test_a_page_that_stands_still_while_the_card_works_is_old():
    pages = Pages(line("DCGM_FI_PROF_SM_ACTIVE", "0.93"))
    source = ExporterSource(pages)
    assert sm(source, 0.0) == pytest.approx(93.0)
    assert sm(source, 4.0) == pytest.approx(93.0)
    assert sm(source, 6.0) is None
    assert "interval" in source.look(6.5)[ONE].missing[Signal.SM_ACTIVITY]
    pages.text = line("DCGM_FI_PROF_SM_ACTIVE", "0.94")
    assert sm(source, 7.0) == pytest.approx(94.0)


def test_a_card_that_idles_may_stand_still():
    source = ExporterSource(Pages(line("DCGM_FI_PROF_SM_ACTIVE", "0")))
    assert [sm(source, now) for now in (0.0, 6.0, 60.0)] == [0.0, 0.0, 0.0]


def test_an_exporter_without_a_useful_field_says_which_to_enable():
    source = ExporterSource(Pages(line("DCGM_FI_DEV_MEMORY_TEMP", "41")))
    with pytest.raises(Unavailable, match="DCGM_FI_PROF_SM_ACTIVE"):
        source.look(0.0)


DMON = """\
#Entity   SMACT        SMOCC        DRAMA        PCIRX
ID
GPU 0     N/A          N/A          N/A          N/A
GPU 1     0.100        0.050        0.020        1000
GPU 0     0.930        0.450        0.330        8691000
Error: the host engine said nothing
GPU 2     0.930        0.450
"""
DISCOVERY = f"""\
2 GPUs found.
+--------+--------------------------------------------------------+
| GPU ID | Device Information                                     |
+--------+--------------------------------------------------------+
| 0      | Name: NVIDIA A100-SXM4-80GB                            |
|        | PCI Bus ID: 00000000:07:00.0                           |
|        | Device UUID: {ONE}  |
| 1      | Name: NVIDIA A100-SXM4-80GB                            |
|        | Device UUID: {TWO}  |
+--------+--------------------------------------------------------+
0 NvSwitches found.
"""


def test_dmon_shows_the_last_whole_row_of_each_card():
    rows = parse_dmon(DMON)
    assert set(rows) == {0, 1}
    assert rows[0][POSITIONS[Signal.SM_ACTIVITY]] == pytest.approx(93.0)
    assert rows[0][POSITIONS[Signal.PCIE_RX]] == 8_691_000.0


def test_a_row_without_numbers_is_missing_values():
    assert set(parse_dmon(DMON.splitlines()[2])[0]) == {None}


def test_the_cards_of_dmon_are_told_by_uuid():
    assert parse_discovery(DISCOVERY) == {0: ONE, 1: TWO}


@pytest.fixture
def dcgmi(tmp_path):
    """A program that lists its cards, prints rows and ends when nobody reads them."""
    (tmp_path / "discovery").write_text(DISCOVERY)
    (tmp_path / "dmon").write_text(DMON)
    program = tmp_path / "dcgmi"
    program.write_text(
        textwrap.dedent(f"""\
            #!/bin/sh
            [ "$1" = discovery ] && exec cat {tmp_path}/discovery
            while cat {tmp_path}/dmon; do sleep 0.05; done
        """)
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_dmon_is_left_running_and_ends_without_a_signal(dcgmi):
    source = DmonSource((dcgmi, "dmon"))
    assert sm(source, 0.0) == pytest.approx(93.0)
    dmon = source._dmon
    assert sm(source, 1.0) == pytest.approx(93.0)
    assert source._dmon is dmon
    source.close()
    assert dmon.returncode is not None


def test_a_node_without_dcgmi_says_so(tmp_path):
    with pytest.raises(Unavailable, match="not installed"):
        DmonSource((str(tmp_path / "dcgmi"), "dmon")).look(0.0)


def test_a_dmon_that_ends_is_started_anew(tmp_path, dcgmi):
    source = DmonSource(("sh", "-c", f"exit 3 # {dcgmi}"))
    with pytest.raises(Unavailable, match="ended"):
        source.look(0.0)
    assert source._dmon is None
