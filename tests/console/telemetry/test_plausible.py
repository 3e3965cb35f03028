from __future__ import annotations

import itertools
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.wire import packed
from agents.wire.limits import MAX_GPUS_PER_NODE
from agents.wire.messages import GpuSample, PackedTelemetry, Telemetry
from agents.wire.names import SIGNALS
from console.telemetry import plausible
from console.telemetry.latest import COLUMN
from console.telemetry.plausible import Arrival, Refusal, Sampled
from tests.console.telemetry.fleet import NOW, sample

ROWS = np.array([7, 3])
OUT = "telemetry: value out of bounds"
STRANGER = "telemetry: GPU not in this node's inventory"


def packed_of(*samples: GpuSample) -> PackedTelemetry:
    return packed.pack(Telemetry(1, NOW, samples))


def block(*rows: list[float], fields: int = len(packed.FIELDS), signals: int = len(SIGNALS)):
    raw = b"".join(struct.pack(f"<{len(row)}d", *row) for row in rows)
    return PackedTelemetry(1, NOW, fields, signals, raw)


def sift(*telemetry: PackedTelemetry) -> tuple[Sampled, list[Refusal]]:
    """Of one node."""
    sampled, refused = plausible.sift([Arrival(each, ROWS, NOW) for each in telemetry])
    (only,) = sampled
    return only, refused


def value(sampled: Sampled, name: str) -> float:
    return float(sampled.values[0, COLUMN[name]])


@pytest.mark.parametrize(("clock_s", "by_receipt"), [(1.9, False), (-2.1, True), (3e4, True)])
def test_what_is_dated_by_its_receipt_is_marked(clock_s, by_receipt):
    told = packed.pack(Telemetry(1, NOW + clock_s, (sample(0), sample(1))))
    at = plausible.sample_time(told.sent_at, NOW)
    ((found,), _) = plausible.sift([Arrival(told, ROWS, at)])
    assert found.by_receipt.tolist() == [by_receipt] * len(found.rows)


def test_a_true_sample_passes_whole():
    sampled, refused = sift(packed_of(sample(1, sm_activity=33.0)))
    assert sampled.rows.tolist() == [3]
    assert value(sampled, "sm_activity") == 33.0
    assert sampled.worst[0].tolist()[: len(SIGNALS)] == pytest.approx(
        sampled.values[0].tolist()[: len(SIGNALS)], nan_ok=True
    )
    assert not refused


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("sm_activity", 101.0), ("sm_activity", -1.0), ("temperature", 1e9),
        ("memory", float("inf")), ("online_p99", -5.0), ("power", 1e300),
    ],
)  # fmt: skip
def test_a_lie_counts_as_missing_and_is_counted(name, wrong):
    sampled, refused = sift(packed_of(sample(0, **{name: wrong})))
    assert np.isnan(value(sampled, name))
    assert np.isnan(sampled.worst[0, COLUMN[name]])
    assert refused == [(OUT, 2, 0)]  # the last and the worst


@pytest.mark.parametrize(
    ("name", "wrong"), [("duty_percent", 400.0), ("nearest_signal", 99), ("online_processes", -1)]
)
def test_a_lie_beside_the_signals_is_one(name, wrong):
    sampled, refused = sift(packed_of(sample(0, **{name: wrong})))
    assert np.isnan(value(sampled, name))
    assert refused == [(OUT, 1, 0)]


def test_missing_stays_missing_and_is_no_lie():
    sampled, refused = sift(packed_of(sample(0, sm_activity=None)))
    assert np.isnan(value(sampled, "sm_activity"))
    assert not refused


@pytest.mark.parametrize("index", [5.0, -1.0, 0.5, float("nan"), float("inf"), 1e300])
def test_a_gpu_of_another_node_is_refused(index):
    true = packed_of(sample(0))
    sampled, refused = sift(true, block([index, *struct.unpack("<36d", true.rows[8:])]))
    assert sampled.rows.tolist() == [7]
    assert refused == [(STRANGER, 1, 1)]


@pytest.mark.parametrize("state", [99.0, -1.0, 1.5, float("nan")])
def test_an_unknown_state_is_refused(state):
    true = packed_of(sample(0))
    _, refused = sift(block([0.0, state, *struct.unpack("<35d", true.rows[16:])]))
    assert refused == [("telemetry: unknown state", 1, 0)]


@pytest.mark.parametrize(
    ("telemetry", "fault"),
    [
        (packed_of(*[sample(0)] * MAX_GPUS_PER_NODE), ""),
        (packed_of(), ""),
        (packed_of(*[sample(0)] * (MAX_GPUS_PER_NODE + 1)), "more GPUs than a node may have"),
        (PackedTelemetry(1, NOW, 13, 12, b"short"), "a block that is not whole"),
        (PackedTelemetry(1, NOW, 0, 0, b""), "a block that is not whole"),
        (PackedTelemetry(1, NOW, 20, -9, bytes(16)), "a block that is not whole"),
        (PackedTelemetry(1, NOW, 1 << 60, 1 << 60, bytes(16)), "a block that is not whole"),
    ],
    ids=range(7),
)
def test_a_message_that_cannot_be_one_is_refused_whole(telemetry, fault):
    assert plausible.fault_of(telemetry) == (fault and f"telemetry: {fault}")


@pytest.mark.parametrize("count", [0, 3, len(SIGNALS) + 4])
@pytest.mark.parametrize("fields", [2, 5, len(packed.FIELDS) + 2])
def test_an_agent_of_another_version_may_know_fewer_or_more(count, fields):
    row = [0.0, 1.0, *[60.0] * (fields - 2), *[50.0] * count, *[70.0] * count]
    sampled, _ = sift(block(row, fields=fields, signals=count))
    assert sampled.values.shape == (1, len(COLUMN))
    told = min(count, 3)  # the first three are percentages
    assert sampled.values[0, :told].tolist() == [50.0] * told
    assert sampled.worst[0, :told].tolist() == [70.0] * told
    assert np.isnan(value(sampled, "sm_online_percent")) == (fields == 2)
    assert np.isnan(value(sampled, "online_qps")) == (count <= 3)


floats = st.one_of(st.just(float("nan")), st.floats(), st.sampled_from([0.0, 1.0, 2.0, 50.0]))
rows = st.lists(floats, min_size=packed.WIDTH, max_size=packed.WIDTH)
old_rows = st.lists(floats, min_size=6, max_size=6)
messages = st.one_of(
    st.lists(rows, max_size=3).map(lambda some: block(*some)),
    st.lists(old_rows, max_size=3).map(lambda some: block(*some, fields=4, signals=1)),
)


@given(st.lists(messages, max_size=6))
def test_many_messages_are_judged_as_each_alone(some):
    arrivals = [
        Arrival(message, np.array([3 * place, -1, 3 * place + 1]), NOW + place)
        for place, message in enumerate(some)
    ]
    together, refused = plausible.sift(arrivals)
    alone = [plausible.sift([arrival]) for arrival in arrivals]

    for joined, parts in zip(
        zip(*together, strict=True), zip(*itertools.chain(*(s for s, _ in alone)), strict=True),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(np.concatenate(joined), np.concatenate(parts))
    each_alone = [(each.reason, each.times) for _, left_out in alone for each in left_out]
    for reason in {each.reason for each in refused} | {reason for reason, _ in each_alone}:
        together_count = sum(each.times for each in refused if each.reason == reason)
        assert together_count == sum(count for told, count in each_alone if told == reason)
    for each in refused:
        assert any(told.reason == each.reason for told in alone[each.first][1])
    for kept in together:
        assert np.isfinite(kept.values[~np.isnan(kept.values)]).all()


def test_packing_and_unpacking_give_the_same_second():
    telemetry = Telemetry(
        7, NOW, (sample(0, sm_activity=None), sample(1, online_processes=None, power=0.1))
    )
    assert packed.unpack(packed.pack(telemetry)) == telemetry


@pytest.mark.parametrize(("skew_s", "own"), [(1.9, True), (-1.9, True), (2.1, False)])
def test_the_agents_clock_counts_while_it_agrees_with_ours(skew_s, own):
    assert (plausible.sample_time(NOW + skew_s, NOW) == NOW + skew_s) is own


def test_a_clock_that_is_no_number_is_ours():
    assert plausible.sample_time(float("nan"), NOW) == NOW
