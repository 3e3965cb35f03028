"""docs/agent.md lists every setting as the code has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.settings import flags
from agents.settings.table import SETTINGS, shown

PAGE = (Path(__file__).parents[3] / "docs" / "agent.md").read_text()


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_the_page_has_its_row(setting):
    name = f"`{setting.name}`" + (" (flag only)" if setting.flag_only else "")
    cells = (name, setting.unit, setting.expects, shown(setting.default), setting.meaning)
    assert f"| {' | '.join(cells)} |" in PAGE


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_the_help_has_its_flag(setting):
    told = flags.parser_of("muxflow-agent", "").format_help()
    assert setting.flag in told
