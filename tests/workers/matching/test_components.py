"""Pools that no pair connects are problems apart, and together worth what the whole is."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from tests.workers.matching.reference import markets, optimum
from workers.matching.components import split
from workers.matching.market import Market, Slots


def count_of_parts(market: Market) -> int:
    """By the reference, among rows and classes that have a pair."""
    pairs = (market.worth > 0) & (market.rows > 0)[:, None] & (market.slots.capacity > 0)
    pairs = pairs[pairs.any(axis=1)][:, pairs.any(axis=0)]
    rows, classes = pairs.shape
    edges = np.block([[np.zeros((rows, rows)), pairs], [pairs.T, np.zeros((classes, classes))]])
    return connected_components(csr_array(edges), directed=False)[0] if edges.size else 0


@given(markets(most=9))
def test_the_parts_are_those_of_the_reference(market):
    assert max(1, len(split(market))) == max(1, count_of_parts(market))


@given(markets(most=9))
def test_the_parts_are_worth_the_whole(market):
    assert sum(optimum(part.market(market)) for part in split(market)) == optimum(market)


def test_a_chain_of_rows_connects_all_of_its_classes():
    classes = 300
    worth = np.zeros((classes - 1, classes), np.int32)
    for row in range(classes - 1):
        worth[row, [row, row + 1]] = 1
    ones = np.ones(classes, np.int64)
    assert len(split(Market(worth, ones[1:], Slots.plain(ones)))) == 1
    worth[100] = 0
    first, second = split(Market(worth, ones[1:], Slots.plain(ones)))
    assert (first.job_class == np.arange(101)).all()
    assert (second.row == np.arange(101, classes - 1)).all()
