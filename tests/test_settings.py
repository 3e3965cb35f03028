"""What the console reads of its environment is what its pages of settings, Compose and env name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
READERS = {"env_str", "env_int", "env_bool", "env_list", "env_secret"}
# Between the demo's own processes.
OF_THE_DEMO = re.compile(r"MUXFLOW_DEMO_\w+")
COMPOSE = (ROOT / "docker" / "compose.yaml").read_text()
EXAMPLE = dict(
    line.split("=", 1)
    for line in (ROOT / "docker" / "example.env").read_text().splitlines()
    if line and not line.startswith("#")
)
LINES = re.findall(
    r"^\| `([A-Z_]+)` \| ([^|]*?) ?\|", (ROOT / "docs/settings.md").read_text(), re.M
)


def calls() -> Iterator[tuple[str, str, ast.expr | None]]:
    """(reader, name, default) of every read."""
    for path in [*(ROOT / "console").rglob("*.py"), *(ROOT / "workers").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and (found := _read(node)) is not None:
                yield found


def _read(call: ast.Call) -> tuple[str, str, ast.expr | None] | None:
    func, name = call.func, call.args[0] if call.args else None
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
        return None
    default = call.args[1] if len(call.args) > 1 else None
    if isinstance(func, ast.Name) and func.id in READERS:
        return func.id, name.value, default
    if ast.unparse(func) == "os.environ.get" and name.value.startswith("MUXFLOW_"):
        return "environ", name.value, default
    return None


@pytest.fixture(scope="module")
def reads() -> dict[str, tuple[str, ast.expr | None]]:
    return {
        name: (reader, default)
        for reader, name, default in calls()
        if not OF_THE_DEMO.fullmatch(name)
    }


def test_every_setting_that_is_read_is_described_and_no_other(reads):
    assert sorted(name for name, _ in LINES) == sorted(reads)


def test_described_defaults_are_those_of_the_code(reads):
    told = {name: default.strip("`").replace(",", "") for name, default in LINES}
    numbers = {
        name: str(default.value)
        for name, (_, default) in reads.items()
        if isinstance(default, ast.Constant) and isinstance(default.value, int | bool)
    }
    assert {name: told[name] for name in numbers} == numbers


def test_compose_hands_on_settings_that_are_read_and_all_secrets(reads):
    handed = set(yaml.safe_load(COMPOSE)["x-settings"])
    secrets = {name for name, (reader, _) in reads.items() if reader == "env_secret"}
    assert handed <= set(reads)
    assert secrets <= handed


def test_the_example_names_all_that_compose_asks_for_and_nothing_else():
    assert set(re.findall(r"\$\{([A-Z_]+)", COMPOSE)) == set(EXAMPLE)
