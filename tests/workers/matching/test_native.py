"""The compiled solver: built here, agreed with, and never crashed by what it is given."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import csgraph_from_masked, floyd_warshall

from tests.workers.matching.hostile import calls, refused
from tests.workers.matching.markets import lifelike, random_market, random_price
from tests.workers.matching.reference import optimum
from workers.matching import certificate, chains, portable, solve
from workers.matching.market import Market, OutOfTime, Slots
from workers.matching.native import library

ROOT = Path(__file__).resolve().parents[3]
COMPILER = os.environ.get("CC", "gcc")


def build(*targets: str) -> None:
    """Of several test processes the first does it, the others wait."""
    if not (shutil.which("make") and shutil.which(COMPILER)):
        pytest.skip("compiler: none here")
    library.FILE.parent.mkdir(parents=True, exist_ok=True)
    command = ["make", "--silent", "-C", ROOT / "workers" / "matching" / "native", *targets]
    with (library.FILE.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = {name: text for name, text in os.environ.items() if not name.startswith("M")}
        done = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def native() -> library.Library:
    build("all")
    return library.load(library.FILE)


@pytest.mark.thorough
@given(seed=st.integers(0, 2**32 - 1))
def test_the_optimum_is_found_cold_and_from_any_prices(native, seed):
    rng = np.random.default_rng(seed)
    market = random_market(rng, int(rng.integers(1, 16)))
    price = random_price(rng, market) if rng.random() < 0.5 else None
    proof = certificate.prove(market, native.assign(market, price, None))
    assert proof.value == proof.upper_bound == optimum(market)


@given(seed=st.integers(0, 2**32 - 1))
def test_both_routes_agree(native, seed):
    market = random_market(np.random.default_rng(seed), 8)
    routes = native.assign(market, None, None), portable.assign(market)
    first, second = (certificate.value(market, found) for found in routes)
    assert first == second


def test_a_larger_market_is_solved_on_parts_of_its_rows_first(native):
    market = lifelike(700, 40)
    cold = native.assign(market, None, None)
    warm = native.assign(market, cold.price, None)
    other = portable.assign(market)
    proofs = [certificate.prove(market, found) for found in (cold, warm, other)]
    assert [proof.gap for proof in proofs] == [0, 0, 0]
    assert len({proof.value for proof in proofs}) == 1


def test_its_prices_prove_the_optimum_as_well(native):
    market = lifelike(200, 20)
    found = native.assign(market, None, None)
    assert certificate.bound(market, found.price) == certificate.value(market, found)


def test_the_same_market_has_the_same_answer(native):
    first, second = (native.assign(lifelike(300, 20), None, None) for _ in range(2))
    pairs = zip(astuple(first)[:4], astuple(second)[:4], strict=True)
    assert all(np.array_equal(*pair) for pair in pairs)


def test_a_row_may_have_as_many_gpus_as_there_can_be(native):
    worth, rows, places = [[5, 4], [5, 1]], [2**29, 2**29], [10_000, 30_000]
    market = Market(np.array(worth), np.array(rows), Slots.plain(np.array(places)))
    found = native.assign(market, None, None)
    assert certificate.prove(market, found).gap == 0


def test_time_that_is_over_is_said(native):
    with pytest.raises(OutOfTime):
        native.assign(lifelike(150, 20), None, time.monotonic() - 1)


@given(seed=st.integers(0, 2**32 - 1))
def test_both_routes_know_the_same_changes_and_rivals(native, seed):
    market = random_market(np.random.default_rng(seed), 12)
    found = portable.assign(market)
    classes = market.worth.shape[1]
    lowered = [np.full((classes + 1, classes + 1), certificate.FAR, np.int32) for _ in range(2)]
    for lower, changes in zip((native.lower, certificate.lower), lowered, strict=True):
        lower(changes, market.worth, found.row, found.job_class)
    assert (lowered[0] == lowered[1]).all()
    chain = certificate.prove(market, found).changes
    np.fill_diagonal(chain, 0)
    compiled = chain.copy()
    native.shorten(compiled)
    chains.shorten(chain)
    assert (compiled == chain).all()
    pairs = found.row, found.job_class, found.job_class
    to = np.ascontiguousarray(chain[:-1].T)
    of_both = zip(
        native.best_others(market.worth, *pairs, to),
        chains.look_at_all(market.worth, *pairs, to),
        strict=True,
    )
    assert all((one == other).all() for one, other in of_both)


@pytest.mark.parametrize("nodes", [3, 8, 37])
def test_shortest_chains_are_those_of_the_reference(native, nodes):
    """Some changes gain, but no chain of them leads round and gains."""
    rng = np.random.default_rng(nodes)
    height = rng.integers(0, 10**6, nodes)
    chain = (rng.integers(0, 10**6, (nodes, nodes)) + height[:, None] - height).astype(np.int32)
    chain[rng.random(chain.shape) < 0.3] = certificate.FAR
    np.fill_diagonal(chain, 0)
    graph = np.ma.masked_equal(chain, certificate.FAR).astype(np.float64)
    native.shorten(chain)
    reference = floyd_warshall(csgraph_from_masked(graph))
    reached = np.isfinite(reference)
    assert (chain[reached] == reference[reached]).all()
    assert (chain[~reached] > certificate.FAR // 2).all()


def test_what_is_out_of_range_is_refused(native):
    assert list(refused(native)) == list(calls(native))


def test_prices_of_another_market_are_refused(native):
    with pytest.raises(ValueError, match="3 prices for 5 classes"):
        native.assign(lifelike(20, 5), np.zeros(3, np.int64), None)


@pytest.mark.integration
def test_neither_memory_nor_arithmetic_go_wrong():
    build("checked")
    preload = [sanitizer("libasan.so"), sanitizer("libubsan.so")]
    told = {**os.environ, "LD_PRELOAD": ":".join(preload), "ASAN_OPTIONS": "detect_leaks=0"}
    command = [sys.executable, "-m", "tests.workers.matching.hostile"]
    file = library.FILE.parent / "checked" / library.FILE.name
    done = subprocess.run(
        [*command, file], cwd=ROOT, env=told, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def sanitizer(name: str) -> str:
    told = subprocess.run(
        [COMPILER, f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    file = Path(told.stdout.strip())
    if not file.is_absolute():
        pytest.skip(f"compiler: it has no {name} to preload")
    return str(file.resolve())


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A place where the library may be, forgotten afterwards."""
    monkeypatch.setattr(library, "FILE", tmp_path / "libmuxmatch.so")
    library.built.cache_clear()
    yield tmp_path / "libmuxmatch.so"
    library.built.cache_clear()


@pytest.mark.parametrize("content", [None, b"no library"])
def test_without_it_the_other_route_is_taken_and_that_is_said_once(nowhere, content, caplog):
    if content:
        nowhere.write_bytes(content)
    for _ in range(2):
        assert solve.assign(lifelike(20, 5)).route == portable.ROUTE
    (said,) = caplog.messages
    assert "OR-tools" in said
    assert str(nowhere) in said


def test_one_of_another_version_is_not_taken(native, monkeypatch):
    monkeypatch.setattr(library, "VERSION", 0)
    with pytest.raises(OSError, match="another version"):
        library.load(library.FILE)
