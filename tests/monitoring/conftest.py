from __future__ import annotations

import pytest

from tests.monitoring.expressions import Labels, labels_of
from tests.monitoring.rules import RECORDS
from tests.monitoring.shown import metrics


@pytest.fixture(scope="package")
def known(tmp_path_factory) -> dict[str, Labels]:
    """The labels of every metric and recorded figure."""
    with pytest.MonkeyPatch.context() as patch:
        found = metrics(tmp_path_factory.mktemp("node"), patch)
    for name, rule in RECORDS.items():
        found[name] = labels_of(rule["expr"], found)
    return found
