"""Real captures and hostile values under MUXFLOW_DATA go through every door, each to the end that
is stated here. `test_numbers.py` and its neighbours hold lines of our own for each kind."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from agents.collectors import exposition, latency, numbers
from agents.collectors.attribution import OfflineJob, ProcessIdentity, Side, memory_of
from agents.collectors.base import Unavailable, values_of
from agents.collectors.dcgm import parse, parse_discovery, parse_dmon
from agents.collectors.nvml import Nvml, SignalSource
from agents.collectors.processes import ProcessSource
from agents.mps import journal
from agents.mps.journal import Account
from agents.sysmonitor.signals import POSITIONS, plausible
from agents.wire.names import SIGNALS, Signal
from tests.agents.collectors.fake_nvml import (
    MIB,
    UUID,
    FakeCard,
    FakeNvml,
    memory_v2,
    process,
)

DATA = os.environ.get("MUXFLOW_DATA")
TELEMETRY = Path(DATA or ".") / "telemetry"

pytestmark = pytest.mark.skipif(
    DATA is None or not TELEMETRY.is_dir(),
    reason="data: no telemetry/ in MUXFLOW_DATA",
)

# GPU utilisation, memory in MiB and what the driver keeps, SM clock, temperature, power, reasons.
CAPTURED = {
    ("2080", "idle"): (0, 214 + 408, 765, 40, 39.32, ("power cap",)),
    ("2080", "load"): (8, 819 + 408, 2055, 45, 111.5, ()),
    ("h100", "idle"): (0, 479, 345, 41, 69.85, ()),
    ("h100", "load"): (100, 19818 + 479, 1980, 59, 631.95, ()),
    ("h200", "idle"): (0, 614, 345, 28, 77.71, ()),
    ("h200", "load"): (100, 32362 + 614, 1980, 52, 627.4, ()),
}


def capture(model):
    (path,) = TELEMETRY.glob(f"*{model}*.txt")
    return path.read_text(errors="replace")


def queried(model, section):
    """One row of `nvidia-smi --query-gpu`, by field."""
    found = re.search(
        rf"# {section} :: query-gpu.*?\n(timestamp,.*?)\n(.*?)\n", capture(model), re.DOTALL
    )
    names, row = (next(csv.reader([line], skipinitialspace=True)) for line in found.groups())
    return {name.partition(" [")[0]: value for name, value in zip(names, row, strict=True)}


def card_of(row):
    """The card that prints such a row."""

    def whole(field, scale=1):
        return int(numbers.number(row[field]) * scale)

    return FakeCard(
        nvmlDeviceGetName=row["name"],
        nvmlDeviceGetMemoryInfo=memory_v2(
            whole("memory.total", MIB), whole("memory.used", MIB), whole("memory.reserved", MIB)
        ),
        nvmlDeviceGetUtilizationRates=SimpleNamespace(gpu=whole("utilization.gpu")),
        nvmlDeviceGetClockInfo=whole("clocks.current.sm"),
        nvmlDeviceGetMaxClockInfo=whole("clocks.max.sm"),
        nvmlDeviceGetTemperatureV=whole("temperature.gpu"),
        nvmlDeviceGetPowerUsage=whole("power.draw", 1_000),
        nvmlDeviceGetEnforcedPowerLimit=whole("enforced.power.limit", 1_000),
        nvmlDeviceGetMaxPcieLinkGeneration=whole("pcie.link.gen.max"),
        nvmlDeviceGetCurrPcieLinkWidth=whole("pcie.link.width.current"),
        nvmlDeviceGetCurrentClocksEventReasons=whole("clocks_event_reasons.active"),
    )


@pytest.mark.parametrize(("model", "section"), CAPTURED)
def test_a_captured_card_reads_as_it_was(model, section):
    util, memory_mib, clock, temperature, power, reasons = CAPTURED[model, section]
    nvml = Nvml(FakeNvml(card_of(queried(model, section))))
    found = SignalSource(nvml).look(0.0)[UUID]
    values = plausible(found.values, nvml.cards()[0].facts)
    expected = {
        Signal.GPU_UTIL: util,
        Signal.MEMORY: memory_mib * MIB,
        Signal.SM_CLOCK: clock,
        Signal.TEMPERATURE: temperature,
        Signal.POWER: pytest.approx(power),
        Signal.XID: 0.0,
    }
    assert dict(zip(SIGNALS, values, strict=True)) == dict.fromkeys(SIGNALS) | expected
    assert found.throttled == reasons


@pytest.mark.parametrize(("model", "section"), CAPTURED)
def test_a_field_that_a_capture_does_not_have_is_missing(model, section):
    absent = {value for value in queried(model, section).values() if value.startswith("[")}
    assert absent
    assert {numbers.number(value) for value in absent} == {None}


# How many processes, and what they hold in MiB if the largest of them is ours: online, offline.
RUNNING = {
    ("2080", "idle"): (2, 3, 176),
    ("2080", "load"): (4, 409, 370),
    ("h100", "idle"): (0, 0, 0),
    ("h100", "load"): (3, 4108, 15690),
    ("h200", "idle"): (0, 0, 0),
    ("h200", "load"): (3, 4108, 28234),
}
OF_A_PROCESS = re.compile(
    r"Process ID\s+: (\d+)\s+Type\s+: (\S+)\s+Name[^\n]+\s+Used GPU Memory\s+: (\d+) MiB"
)


def running(model, section):
    """PID, kind and MiB of each process, as `nvidia-smi -q` prints them."""
    _, _, after = capture(model).partition(f"# {section} :: query (-q)")
    told = OF_A_PROCESS.findall(after.partition("# $ nvidia-smi --query-gpu")[0])
    return [(int(pid), kind, int(mib)) for pid, kind, mib in told]


@pytest.mark.parametrize(("model", "section"), RUNNING)
def test_captured_processes_are_told_apart(model, section):
    found = running(model, section)
    lists = {
        kind: [process(pid, mib * MIB) for pid, of, mib in found if of == kind] for kind in "CG"
    }
    card = FakeCard(
        nvmlDeviceGetComputeRunningProcesses_v3=lists["C"],
        nvmlDeviceGetGraphicsRunningProcesses_v3=lists["G"],
    )
    ours = max(found, key=lambda one: one[2], default=(0,))[0]
    job = OfflineJob("job-1", 0, 40.0, pids=frozenset({ours}))
    source = ProcessSource(Nvml(FakeNvml(card)), lambda: [job], None, of_the_capture)
    told = source.look(0.0)[UUID].processes
    sides = {side: [one for one in told if one.side is side] for side in Side}
    memory_mib = [(memory_of(sides[side]) or 0) // MIB for side in (Side.ONLINE, Side.OFFLINE)]
    assert (len(told), *memory_mib) == RUNNING[model, section]


def of_the_capture(pid):
    return ProcessIdentity(pid, 5, 1, pid, "captured", "/")


@pytest.mark.parametrize("model", ["2080", "h100", "h200"])
def test_a_whole_capture_is_no_page_of_any_other_source(model):
    text = capture(model)
    assert parse(text) == {}
    assert parse_dmon(text) == {}
    assert parse_discovery(text) == {}
    assert latency.metric_in(text) is None


def hostile():
    with (TELEMETRY / "hostile_values_public.tsv").open(newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file, delimiter="\t")}


def pieces(row):
    """The values of a line: some hold several."""
    return re.split(r"\s*[;,]\s*", row["raw_value_or_line"])


# The number that each piece of a line means; for the others see the tests below.
MEANT = {
    "7": [None],
    "10": [None],
    "12": [None, None, 47.0, *[None] * 5],
    "13": [0.0, None, None, 0.0],
}


@pytest.mark.parametrize("line", MEANT)
def test_what_a_tool_prints_for_no_number_is_missing(line):
    assert [numbers.number(piece) for piece in pieces(hostile()[line])] == MEANT[line]


@pytest.mark.parametrize("line", ["1", "2"])
def test_a_utilisation_beyond_reason_is_missing(line):
    for piece in pieces(hostile()[line]):
        raw = piece.partition(" ")[0]
        page = f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{UUID}"}} {raw}\n'
        assert raw.isdecimal()
        assert parse(page) == {}


def test_a_silent_zero_of_a_busy_card_is_missing():
    assert hostile()["4"]["field"].endswith("GR_ENGINE_ACTIVE")
    (card,) = Nvml(FakeNvml(FakeCard())).cards()
    values = values_of({Signal.GPU_UTIL: 99.0, Signal.SM_ACTIVITY: 0.0})
    assert plausible(values, card.facts)[POSITIONS[Signal.SM_ACTIVITY]] is None


def test_a_driver_that_differs_from_its_library_says_what_to_do():
    assert "Driver/library version mismatch" in hostile()["19"]["raw_value_or_line"]
    with pytest.raises(Unavailable, match="reload the driver or reboot"):
        Nvml(FakeNvml(init=18)).cards()


def test_a_server_that_dies_and_one_that_follows_are_one_fault():
    said = hostile()["26"]["raw_value_or_line"].split(" / ")
    account = journal.read(Account(95, 0), said)
    assert (account.faults, account.at_fault, account.server_pid) == (1, False, 98)


def test_what_a_server_says_of_its_limits_is_no_fault():
    said = pieces(hostile()["28"])
    assert journal.read(Account(), said) == Account()
    assert Account() == journal.read(Account(), pieces(hostile()["29"]))


def test_text_in_place_of_a_number_leaves_the_rest_of_a_page_readable():
    raw = hostile()["24"]["raw_value_or_line"]
    util, temperature = (f'DCGM_FI_DEV_GPU_{name}{{UUID="{UUID}"}}' for name in ("UTIL", "TEMP"))
    page = f"{util} N/A\n{raw}\n{temperature} 41\n"
    assert parse(page) == {UUID: {Signal.TEMPERATURE: 41.0}}


def test_no_hostile_line_stops_a_door():
    for row in hostile().values():
        for piece in (row["raw_value_or_line"], *pieces(row)):
            numbers.number(piece)
            page = f'up{{a="{piece}"}} {piece}\n{piece}\nup 1\n'
            assert list(exposition.samples(page, ["up"]))[-1] == exposition.Sample("up", {}, 1.0)
            assert parse_dmon(piece) == {}
            assert parse_discovery(piece) == {}
            assert latency.read(piece, "up", 0.0) is None
            assert numbers.read(Signal.MEMORY, piece) is None or piece[0].isdigit()
