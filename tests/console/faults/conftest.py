from __future__ import annotations

import pytest

from console import announce


@pytest.fixture(autouse=True)
def quiet_bells(monkeypatch) -> list[str]:
    """What open browsers would have been told."""
    told: list[str] = []
    monkeypatch.setattr(announce, "publisher", told.append)
    return told
