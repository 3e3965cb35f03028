from __future__ import annotations

import io
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.prediction.made import CARD, profiles, untrained
from workers.prediction import artifact

HEADER = {"origin": "measured", "made_at": "2026-01-01T00:00:00+00:00", "report": {}}


@pytest.fixture(scope="module")
def data() -> bytes:
    return artifact.dump(untrained(), HEADER)


def changed(data: bytes, **arrays: np.ndarray) -> bytes:
    with np.load(io.BytesIO(data)) as known:
        kept = {name: known[name] for name in known.files}
    packed = io.BytesIO()
    np.savez(packed, **(kept | {name.replace("__", "."): one for name, one in arrays.items()}))
    return packed.getvalue()


def test_a_version_read_back_predicts_the_same(data):
    again, pairs = artifact.load(data, 3), (profiles(4), profiles(4, 1), np.full(4, 0.5))
    first, second = (one.judge(*pairs, (CARD,) * 4) for one in (untrained(), again))
    np.testing.assert_array_equal(first.throughput, second.throughput)
    np.testing.assert_array_equal(first.slowdown_high, second.slowdown_high)
    assert again.name == "network v3"


def test_the_header_tells_where_it_is_from_and_which_cards_it_serves(data):
    told = artifact.header(data)
    assert (told["origin"], told["gpu_models"]) == ("measured", [CARD])


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(junk):
    with pytest.raises(ValueError, match="no predictor"):
        artifact.load(junk)


@settings(max_examples=50)
@given(at=st.integers(0), to=st.integers(0, 255))
def test_a_damaged_file_is_refused_or_harmless(data, at, to):
    damaged = bytearray(data)
    damaged[at % len(data)] = to
    try:
        artifact.load(bytes(damaged))
    except ValueError:
        return


def test_a_pickle_is_not_opened(data):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was opened",))

    packed = io.BytesIO()
    np.savez(packed, header=np.array([Bomb()], object))
    for hostile in (packed.getvalue(), pickle.dumps(Bomb())):
        with pytest.raises(ValueError, match="no predictor"):
            artifact.load(hostile)


def test_a_file_that_unpacks_without_end_is_refused():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", b"\0" * (artifact.MOST_BYTES + 1))
    with pytest.raises(ValueError, match="unpacks to more"):
        artifact.load(packed.getvalue())


@pytest.mark.parametrize(
    "arrays",
    [
        {"model__gain": np.ones(3)},
        {"student__hidden": np.ones((4, 5), np.float32)},
        {"ensemble__1__w": np.ones((3, 9, 2), np.float32)},
        {"student__first": np.full(4, np.nan, np.float32)},
        {"model__unit": np.full(2, np.inf)},
        {"kernel__rates": np.full((2, 27), -1.0)},
        {"bilinear__cross": np.ones((14, 13, 2))},
        {"model__centre": np.array(["a"])},
        {"calibration__reach": np.ones(2)},
        {"header": np.frombuffer(b"[1]", np.uint8)},
        {"header": np.frombuffer(b'{"format": 0}', np.uint8)},
    ],
)
def test_a_version_that_does_not_fit_together_is_refused(data, arrays):
    with pytest.raises(ValueError, match=r"predictor|header|array|scalar|string"):
        artifact.load(changed(data, **arrays))
