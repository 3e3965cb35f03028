from __future__ import annotations

import numpy as np

from tests.workers.prediction.made import untrained
from workers.prediction.network import BLOCK


def test_all_pairs_at_once_are_what_each_is_alone():
    student = untrained(width=8).student
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((7, len(student.rows))).astype(np.float32)
    columns = rng.standard_normal((BLOCK // 3, len(student.columns))).astype(np.float32)
    table = np.ones((2, len(rows), len(columns)), np.float32)
    student.add_to(table, rows, columns)
    for at in range(len(rows)):
        alone = student.pairs(np.repeat(rows[at : at + 1], len(columns), axis=0), columns)
        np.testing.assert_allclose(table[:, at], 1.0 + alone, atol=1e-5)


def test_members_answer_the_same_in_blocks_and_one_by_one():
    ensemble = untrained().model.ensemble
    z = np.random.default_rng(2).standard_normal((BLOCK + 3, ensemble.weights[0].shape[1]))
    whole = ensemble.each(z)
    np.testing.assert_allclose(whole[:, -2:], ensemble.each(z[-2:]), atol=1e-6)
    assert whole.shape == (3, BLOCK + 3, 2)


def test_some_members_are_those_members():
    ensemble = untrained().model.ensemble
    z = np.ones((1, ensemble.weights[0].shape[1]))
    some = ensemble.take(np.array([False, True, True]))
    np.testing.assert_array_equal(some.each(z), ensemble.each(z)[1:])
