"""The unit tests of the memory counter, the table of allocations and the pools, also sanitized."""

from __future__ import annotations

import pytest


@pytest.mark.timeout(60)
@pytest.mark.parametrize("checked", ["native", "asan", "tsan"])
@pytest.mark.parametrize("name", ["test_quota", "test_allocations", "test_pools"])
def test_the_books_are_right(run_native, name, checked):
    run_native(name, checked)
