from __future__ import annotations

from dataclasses import replace

import pytest

from agents.mps.arrivals import JOIN_S, SETTLE_S
from agents.mps.enabling import VERIFY_S
from agents.mps.health import ServerState
from agents.mps.journal import Account, Fault
from agents.mps.recovery import Stage
from agents.mps.shareable import Fact, OnlineProcess
from agents.mps.timeline import Victim
from agents.mps.warden import Guests, Terms, Warden
from tests.agents.mps.cast import CARD, MPS, ONLINE, UUID

JOB = {20: Victim(20, "offline", "job-a")}
NEW = OnlineProcess(4712, 1000, "python")
FAULT = replace(
    MPS,
    state=ServerState.FAULT,
    account=Account(at_fault=True, fault=Fault("15:56", 20, (4711, 20))),
)


class Hands:
    def __init__(self):
        self.done = []

    def restart_online(self):
        self.done.append("restart_online")

    def restart_server(self):
        self.done.append("restart_server")

    def page(self, why):
        self.done.append("page")

    def quarantine(self, why):
        self.done.append("quarantine")


class Gpu:
    """One GPU's warden, looking once a second."""

    def __init__(self):
        self.hands = Hands()
        self.warden = Warden(UUID, self.hands)
        self.now = 100.0

    def stage(self) -> Stage:
        return self.warden.stage

    def see(self, card=CARD, mps=MPS, guests=(), for_s=1, **fields) -> Terms:
        for _ in range(round(for_s)):
            ours = Guests(dict(guests), **fields)
            terms = self.warden.look(card, mps, ours, self.now, 1e9 + self.now)
            self.now += 1.0
        return terms


@pytest.fixture
def gpu():
    """Enabled, verified and open."""
    gpu = Gpu()
    assert gpu.see(for_s=VERIFY_S + 2) == Terms()
    return gpu


def test_offline_is_not_admitted_before_the_clients_were_verified():
    gpu = Gpu()
    assert "to go" in gpu.see().unshareable
    assert "to go" in gpu.see(for_s=VERIFY_S - 2).unshareable
    assert gpu.see(for_s=2) == Terms()
    assert all(step.done for step in gpu.warden.steps())


def test_what_forbids_sharing_is_told_in_its_own_words(gpu):
    terms = gpu.see(replace(CARD, mig=True))
    assert terms.unshareable == gpu.warden.verdict.sentence
    assert gpu.warden.verdict.fact is Fact.MIG


def test_a_new_online_process_freezes_offline_until_it_is_a_client(gpu):
    card = replace(CARD, online=(ONLINE, NEW))
    assert "PID 4712" in gpu.see(card, guests=JOB).hold
    joined = replace(MPS, client_pids=frozenset({4711, 4712}))
    assert gpu.see(card, joined, JOB).hold
    assert not gpu.see(card, joined, JOB, for_s=SETTLE_S + 1).hold


def test_one_that_never_joins_makes_offline_leave(gpu):
    terms = gpu.see(replace(CARD, online=(ONLINE, NEW)), guests=JOB, for_s=JOIN_S + 2)
    assert "PID 4712" in terms.leave


def test_a_fault_is_told_at_once_and_nothing_is_admitted_until_online_is_back(gpu):
    terms = gpu.see(mps=FAULT, guests=JOB)
    assert terms.fault
    assert terms.hold
    gpu.see(mps=FAULT)
    assert gpu.hands.done == ["restart_online"]
    empty = replace(CARD, online=())
    away = replace(MPS, client_pids=frozenset())
    assert gpu.see(empty, away, for_s=5).hold
    assert gpu.stage() is Stage.READMITTING
    gpu.see(for_s=SETTLE_S + 2)
    assert gpu.stage() is Stage.SOUND
    assert gpu.see(for_s=VERIFY_S + 1) == Terms()


def test_the_timeline_of_a_fault_names_who_and_how_long(gpu):
    gpu.see(mps=FAULT, guests=JOB)
    gpu.see(mps=FAULT)
    gpu.see(for_s=SETTLE_S + 3)
    (told,) = gpu.warden.timelines
    assert told.first == JOB[20]
    assert told.others == (Victim(4711, "online", "python"),)
    assert told.recovered_s == pytest.approx(5, abs=2)
    assert "run the node's hook" in " ".join(moment.what for moment in told.moments)


def test_a_server_that_does_not_come_back_is_restarted_then_given_up(gpu):
    gpu.see(mps=FAULT, for_s=8)
    assert gpu.hands.done == ["restart_online", "restart_server"]
    gpu.see(mps=FAULT, for_s=8)
    assert gpu.hands.done[2:] == ["page", "quarantine"]
    assert gpu.see(for_s=30).hold


def test_a_gpu_without_online_work_recovers_without_waiting_for_any():
    gpu = Gpu()
    nobody = replace(CARD, online=())
    gpu.see(nobody, replace(MPS, client_pids=frozenset({20})), JOB, for_s=SETTLE_S + 2)
    gpu.see(nobody, FAULT)
    gpu.see(nobody, replace(MPS, client_pids=frozenset()), for_s=SETTLE_S + 3)
    assert gpu.warden.stage is Stage.SOUND


def test_blindness_holds_and_forbids_and_evicts_nobody(gpu):
    blind = replace(MPS, state=ServerState.SILENT, client_pids=None)
    terms = gpu.see(mps=blind, guests=JOB, for_s=JOIN_S * 2)
    assert terms.hold
    assert terms.unshareable
    assert not terms.leave
    assert not terms.fault
    assert gpu.hands.done == []


def test_below_enforce_a_fault_is_seen_and_nothing_is_done(gpu):
    assert gpu.see(mps=FAULT, for_s=30, enforce=False).fault
    assert gpu.hands.done == []
    assert gpu.warden.timelines == ()


def test_past_faults_are_kept_in_bounds(gpu):
    for _ in range(40):
        gpu.now += 1_000
        gpu.see(mps=FAULT)
        gpu.see(mps=FAULT)
        gpu.see(for_s=SETTLE_S + 3)
    assert len(gpu.warden.timelines) == 32
