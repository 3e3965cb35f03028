from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from console.demo.real_node import PARTS, RealNode, why_without_xcuda


def node(folder: Path, *, under_mps: bool) -> RealNode:
    return RealNode(folder / "build", folder, "ws://x/", "60", 7, 9_100, under_mps=under_mps)


def test_a_machine_without_a_compiler_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.demo.real_node.shutil.which", lambda name: None)
    assert "apt install gcc libc6-dev" in why_without_xcuda(tmp_path)


def test_a_library_that_is_not_built_though_it_could_be_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.demo.real_node.shutil.which", lambda name: f"/usr/bin/{name}")
    for part in PARTS[1:]:
        (tmp_path / part).parent.mkdir(exist_ok=True)
        (tmp_path / part).touch()
    assert "make xcuda" in why_without_xcuda(tmp_path)
    (tmp_path / PARTS[0]).touch()
    assert why_without_xcuda(tmp_path) == ""


def test_the_agent_reads_the_stand_in_driver_only_where_there_is_one(tmp_path: Path) -> None:
    assert {"nvml", "--xcuda", "--mps-dir"} <= set(node(tmp_path, under_mps=True).agent())
    plain = node(tmp_path, under_mps=False).agent()
    assert "--cluster" in plain
    assert not {"nvml", "--xcuda", "--mps-dir"} & set(plain)


def test_each_service_is_told_where_its_metrics_are_this_time(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "demo") as database:
        database.executescript(
            "CREATE TABLE workloads_onlineservice (name, metrics_url);"
            "INSERT INTO workloads_onlineservice VALUES ('lab-chat', ''), ('search-rank', '');"
        )
    node(tmp_path, under_mps=True).tell_metrics(tmp_path / "demo")
    told = dict(database.execute("SELECT name, metrics_url FROM workloads_onlineservice"))
    assert told == {"lab-chat": "http://127.0.0.1:9100/lab-chat", "search-rank": ""}
    database.close()
