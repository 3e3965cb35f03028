"""What is kept comes back: within the stated step, and missing as missing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.history import blocks, kept, outgoing, rolling, rows, tiers
from console.history.kept import Linear
from console.telemetry.plausible import BOUNDS
from tests.console.history.cast import DAY, samples

# A state is an index; all else has bounds of what telemetry may say.
MOST = {"state": (0.0, 10.0), "by_receipt": (0.0, 1.0), "headroom_percent": (-16_000.0, 100.5)}
SPAN = {name: MOST.get(name) or BOUNDS[name] for name in kept.NAMES}
# int16 ends before the widest bounds do; nobody has such a card or so many processes.
CARD = 500 << 30


def values_of(name: str) -> st.SearchStrategy[float]:
    low, high = SPAN[name]
    return st.floats(low, min(high, CARD) if "memory" in name and "band" not in name else high)


@given(st.sampled_from(kept.NAMES).flatmap(lambda n: st.tuples(st.just(n), values_of(n))))
def test_a_value_comes_back_within_its_step(named):
    name, value = named
    scale = kept.SCALES[name]
    (back,) = kept.decode_one(kept.encode_one(np.array([value]), scale), scale)
    if value == 0:
        assert back == 0
    elif isinstance(scale, Linear):
        assert abs(back - value) <= scale.step * (1 if 0 < value < scale.step else 0.501)
    elif value >= scale.least:
        assert abs(math.log(back / value)) <= math.log1p(scale.ratio) / 2 * 1.001
    assert (back > 0) == (value > 0) or value < 0


@pytest.mark.parametrize("name", kept.NAMES)
def test_missing_is_never_zero(name):
    (back,) = kept.decode_one(
        kept.encode_one(np.array([math.nan]), kept.SCALES[name]), kept.SCALES[name]
    )
    assert math.isnan(back)


codes = st.integers(0, 2**31).map(
    lambda seed: np.random.default_rng(seed).integers(
        kept.MISSING, 32_768, (len(kept.NAMES), 3, 60), dtype=np.int16
    )
)


@given(codes, codes)
def test_a_raw_block_comes_back_exactly(last, worst):
    block = blocks.unpack(blocks.pack_raw(blocks.Raw((4, 7, 9), last, worst[: kept.WORST])))
    assert isinstance(block, blocks.Raw)
    assert block.gpus == (4, 7, 9)
    assert (block.last == last).all()
    assert (block.worst == worst[: kept.WORST]).all()


@given(codes, codes, st.sets(st.sampled_from([4, 7, 9])))
def test_of_an_hour_only_those_that_are_asked_for_come_back(last, worst, wanted):
    packed = blocks.pack_hour(blocks.Raw((4, 7, 9), last, worst[: kept.WORST]))
    block = blocks.unpack(packed, wanted)
    which = [at for at, gpu in enumerate((4, 7, 9)) if gpu in wanted]
    assert isinstance(block, blocks.Raw)
    assert block.gpus == tuple(sorted(wanted))
    assert (block.last == last[:, which]).all()
    assert (block.worst == worst[: kept.WORST, which]).all()


@given(codes, codes, codes)
def test_a_rolled_block_comes_back_exactly(mean, low, high):
    count = np.arange(180, dtype=np.uint32).reshape(3, 60)
    block = blocks.unpack(blocks.pack_rolled(blocks.Rolled((1, 2, 3), mean, low, high, count)))
    assert isinstance(block, blocks.Rolled)
    assert all(
        (a == b).all()
        for a, b in zip((block.mean, block.low, block.high), (mean, low, high), strict=True)
    )
    assert (block.count == count).all()


def test_a_batch_comes_back_exactly():
    sent = samples([3, 5, 900], DAY, 20, memory=math.nan)
    sent.worst[::3, 2] += 7
    back = rows.unpack(rows.pack(sent))
    order = np.lexsort((sent.second, sent.gpu))
    assert all((a == b[order]).all() for a, b in zip(back, sent, strict=True))


def test_a_batch_of_a_version_that_kept_fewer_names_is_read(monkeypatch):
    sent = samples([3, 5], DAY, 20)
    older = sent._replace(last=sent.last[:, :-1])
    monkeypatch.setattr(rows, "_WIDTH", rows._WIDTH - 1)
    monkeypatch.setattr(rows, "NAMES", kept.NAMES[:-1])
    data = rows.pack(older)
    monkeypatch.undo()
    back = rows.unpack(data)
    order = np.lexsort((sent.second, sent.gpu))
    assert (back.last[:, :-1] == older.last[order]).all()
    assert (back.worst == older.worst[order]).all()
    assert (back.last[:, -1] == kept.MISSING).all()


@pytest.mark.parametrize("data", [b"", b"nonsense", rows.pack(samples([1], DAY, 2))[:-3]])
def test_what_is_no_batch_is_refused(data):
    with pytest.raises(ValueError, match=r"batch|deflated"):
        rows.unpack(data)
    with pytest.raises(ValueError, match=r"block"):
        blocks.unpack(data)


def test_a_rollup_keeps_what_there_is_and_says_how_much():
    raw = rolling.raw_block(samples([1], DAY, 7, sm_activity=40.0), DAY, 60)
    raw.worst[1, 0, 3] = 160  # 80 %
    rolled = rolling.together(rolling.as_rolled(raw), 10)
    activity = kept.AT["sm_activity"]
    assert rolled.count[0].tolist() == [7, 0, 0, 0, 0, 0]
    assert rolled.mean[activity, 0].tolist() == [80, *[kept.MISSING] * 5]
    assert rolled.high[activity, 0, 0] == 160
    assert (rolled.mean[kept.AT["memory"]] == kept.MISSING).all()


def test_rolling_up_in_two_steps_gives_the_mean_of_all():
    raw = rolling.raw_block(samples([1, 2], DAY, 60), DAY, 60)
    once = rolling.together(rolling.as_rolled(raw), 60)
    twice = rolling.together(rolling.together(rolling.as_rolled(raw), 10), 6)
    assert (np.abs(once.mean.astype(int) - twice.mean) <= 1).all()
    assert (once.low == twice.low).all()
    assert (once.high == twice.high).all()


@given(st.lists(st.floats(-0.2, 0.2), min_size=5, max_size=40), st.floats(0, 1))
def test_an_agent_that_sends_each_second_leaves_no_second_out(jitter, phase):
    at = DAY + phase + np.arange(len(jitter)) + np.array(jitter)
    seconds = outgoing.seconds(np.ones(len(at), np.int64), at)
    assert np.diff(seconds).tolist() == [1] * (len(at) - 1)
    assert (np.abs(seconds + 0.5 - at) <= 1.2).all()


@pytest.mark.parametrize(
    ("hours", "tier", "period_s"),
    [(1 / 6, "1 s", 1), (1, "10 s", 10), (24, "1 min", 180), (7 * 24, "15 min", 1800)],
)
def test_a_range_is_read_from_the_tier_that_fits(hours, tier, period_s):
    found = tiers.reading(DAY - hours * 3_600, DAY, 600, DAY)
    assert found.tier.name == tier
    assert found.period_s == period_s
    old = tiers.reading(DAY - 200 * tiers.DAY_S, DAY - 200 * tiers.DAY_S + 600, 600, DAY)
    assert old.tier is tiers.QUARTER
