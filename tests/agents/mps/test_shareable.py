from __future__ import annotations

import pytest

from agents.mps.health import ServerState
from agents.mps.journal import Account
from agents.mps.shareable import (
    MENDED_BY_ENABLING,
    RULES,
    Fact,
    OnlineProcess,
    forbidding,
    judge,
    max_clients,
)
from tests.agents.mps.cast import GIB, ONLINE, sharing

STRANGER = OnlineProcess(4712, 1000, "vllm")
OTHER_USER = OnlineProcess(4712, 1001, "vllm")
BOTH = frozenset({4711, 4712})
CASES = [
    (Fact.CARD, {"wrong": "2 GPUs of this node claim the UUID GPU-1"}, {}, "claim the UUID"),
    (Fact.MIG, {"mig": True}, {}, "MIG is on"),
    (Fact.MIG, {"mig": None}, {}, "nobody can tell whether MIG"),
    (Fact.ARCHITECTURE, {"capability": (6, 1)}, {}, "compute capability 6.1"),
    (Fact.ARCHITECTURE, {"capability": None}, {}, "nobody can tell its compute capability"),
    (Fact.DRIVER, {"driver": "470.82.01"}, {}, "470.82.01"),
    (Fact.DRIVER, {"driver": ""}, {}, "unknown"),
    (Fact.DRIVER, {"driver": "[N/A]"}, {}, "unknown"),
    (Fact.COMPUTE_MODE, {"compute_mode": "prohibited"}, {}, "prohibited"),
    (Fact.COMPUTE_MODE, {"compute_mode": "exclusive_thread"}, {}, "exclusive thread"),
    (Fact.PROCESSES_UNKNOWN, {"online": None}, {}, "cannot be listed"),
    (Fact.SM_ACTIVITY, {"sm_activity_source": ""}, {}, "SM activity"),
    (Fact.MEMORY_TAKEN, {"used_bytes": 73 * GIB}, {}, "73.0 of 80.0 GiB"),
    (Fact.MEMORY_TAKEN, {"used_bytes": None}, {}, "nobody can tell"),
    (
        Fact.DAEMON_CLOSED,
        {},
        {"state": ServerState.UNKNOWN, "why": "closed to this user"},
        "closed to this user",
    ),
    (Fact.DAEMON_CLOSED, {}, {"state": ServerState.UNKNOWN}, "has not been asked yet"),
    (
        Fact.UIDS_DIFFER,
        {"online": (ONLINE, OTHER_USER)},
        {"client_pids": BOTH},
        "UIDs 1000, 1001",
    ),
    (Fact.UIDS_DIFFER, {}, {"server_uid": 0}, "runs for UID 0 and its online process as UID 1000"),
    (Fact.UIDS_DIFFER, {}, {"account": Account(waiting=((9, 1001),))}, "PID 9 of UID 1001 waits"),
    (Fact.CLIENTS_FULL, {}, {"client_pids": frozenset({4711, *range(60)})}, "61 MPS clients of"),
    (Fact.NOT_A_CLIENT, {"online": (ONLINE, STRANGER)}, {}, "vllm (PID 4712) runs on it without"),
    (Fact.NOT_A_CLIENT, {}, {"client_pids": frozenset()}, "client of another MPS daemon"),
    (
        Fact.NOT_A_CLIENT,
        {"online": (STRANGER,), "compute_mode": "exclusive_process"},
        {},
        "lets no second MPS server start",
    ),
    (Fact.NO_DAEMON, {"online": ()}, {"state": ServerState.NO_DAEMON}, "no MPS control daemon"),
    (Fact.SERVER, {}, {"state": ServerState.FAULT}, "a fatal error hit every client"),
    (Fact.SERVER, {}, {"state": ServerState.SILENT}, "does not answer in time"),
    (Fact.SERVER, {}, {"state": ServerState.INITIALIZING}, "the server is starting"),
]


def test_a_gpu_of_which_nothing_is_wrong_is_shareable():
    verdict = judge(sharing())
    assert verdict.shareable
    assert str(verdict) == "shareable"


@pytest.mark.parametrize(("fact", "card", "mps", "words"), CASES)
def test_each_fact_forbids_and_names_itself_and_its_way_out(fact, card, mps, words):
    verdict = judge(sharing(card, mps))
    assert verdict.fact is fact
    assert words in verdict.sentence
    assert "\n" not in verdict.sentence
    assert verdict.way_out


def test_no_fact_is_without_a_case():
    assert {case[0] for case in CASES} | {Fact.JOB_UID} == set(Fact) == {rule[0] for rule in RULES}


@pytest.mark.parametrize(
    "card",
    [
        {"compute_mode": "exclusive_process"},
        {"compute_mode": ""},
        {"online": ()},
        {"used_bytes": 72 * GIB - 1},
        {"used_bytes": 75 * GIB, "offline_bytes": 10 * GIB},
        {"online": (OnlineProcess(4711, None, ""),)},
    ],
)
def test_what_forbids_nothing(card):
    assert judge(sharing(card)).shareable


def test_the_gravest_fact_is_told_first_and_the_others_after_it():
    told = forbidding(sharing({"mig": True, "driver": "470.1", "online": (STRANGER,)}))
    assert [verdict.fact for verdict in told] == [Fact.MIG, Fact.DRIVER, Fact.NOT_A_CLIENT]


def test_a_multi_user_server_takes_everyone():
    both = {"online": (ONLINE, OTHER_USER)}
    shared = {"client_pids": BOTH, "multiuser": True}
    assert judge(sharing(both, shared, job_uid=5)).shareable


def test_a_job_must_run_as_the_user_whom_the_server_serves():
    assert judge(sharing(job_uid=1001)).fact is Fact.JOB_UID
    assert judge(sharing(job_uid=1000)).shareable
    assert judge(sharing({"online": ()}, {"server_uid": None}, job_uid=1001)).shareable


def test_room_for_clients_grew_with_the_driver():
    assert max_clients("580.65.06") == 48
    assert max_clients("590.48.01") == 60
    assert max_clients("nonsense") == 48


def test_only_what_a_daemon_and_one_restart_mend_is_mended_by_enabling():
    assert {Fact.NOT_A_CLIENT, Fact.NO_DAEMON} == MENDED_BY_ENABLING
