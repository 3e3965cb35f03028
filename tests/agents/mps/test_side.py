from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace

from agents.collectors.attribution import GpuProcess
from agents.collectors.attribution import Side as Whose
from agents.collectors.base import NOTHING, GpuReading, Origin
from agents.collectors.card import Card
from agents.mps import side
from agents.mps.health import ServerState
from agents.mps.journal import Account
from agents.mps.keep import Keep
from agents.mps.memory import RESTARTED
from agents.mps.recovery import Stage
from agents.mps.shareable import Fact, OnlineProcess, Sharing, judge
from agents.mps.timeline import Witness
from agents.state import StateFile
from agents.sysmonitor.signals import POSITIONS
from agents.wire.names import Signal
from tests.agents.mps.cast import GIB, MPS, UUID
from tests.agents.mps.test_warden import Hands

ENFORCE = side.Around(enforce=True)
CARD = Card(
    0, UUID, "H100", 80 * GIB, "595.71.05", compute_mode="default", gpm=True, capability=(9, 0)
)


def reading(*processes, **fields):
    values = list(NOTHING)
    values[POSITIONS[Signal.MEMORY]] = float(30 * GIB)
    return GpuReading(0, tuple(values), processes=processes, **fields)


def test_what_is_not_ours_and_not_nvidias_is_online():
    facts = side.facts_of(
        CARD,
        reading(
            GpuProcess(os.getpid(), Whose.ONLINE, GIB, mps=True, name="vllm"),
            GpuProcess(2, Whose.OFFLINE, GIB, placement_id="p"),
            GpuProcess(3, Whose.MPS_SERVER, GIB),
            GpuProcess(1 << 22, Whose.UNATTRIBUTED, None),
            offline_memory_bytes=GIB,
        ),
    )
    assert facts.online == (
        OnlineProcess(os.getpid(), os.getuid(), "vllm", mps=True),
        OnlineProcess(1 << 22, None, "", mps=False),
    )
    assert (facts.used_bytes, facts.offline_bytes) == (30 * GIB, GIB)


def test_without_a_sample_nobody_knows_who_is_there():
    facts = side.facts_of(CARD, None)
    assert facts.online is None
    assert facts.used_bytes is None


def test_what_the_sample_says_of_the_card_comes_first():
    worn = replace(CARD, forbidden="old")
    assert side.facts_of(worn, reading(trouble="the GPU is lost")).wrong == "the GPU is lost"
    assert side.facts_of(worn, reading()).wrong == "old"
    assert side.facts_of(replace(worn, mig=True), reading()).wrong == ""


def test_a_card_from_before_volta_is_forbidden_as_preflight_says():
    pascal = replace(CARD, capability=(6, 1))
    assert judge(Sharing(side.facts_of(pascal, reading()), MPS)).fact is Fact.ARCHITECTURE


def test_sm_activity_comes_from_whoever_gave_it():
    ampere = replace(CARD, gpm=False)
    origins = tuple(
        Origin("dcgm-exporter", 1.0) if signal is Signal.SM_ACTIVITY else None
        for signal in POSITIONS
    )
    assert side.facts_of(ampere, reading(origins=origins)).sm_activity_source == "dcgm-exporter"
    assert side.facts_of(ampere, reading()).sm_activity_source == ""
    assert side.facts_of(CARD, reading()).sm_activity_source == "gpm"


def test_a_node_asks_the_warden_of_each_card():
    mps = side.NodeMps({0: CARD}, lambda _uuid: MPS, lambda _card: Hands(), wall=lambda: 1e9)
    online = reading(GpuProcess(4711, Whose.ONLINE, GIB, mps=True))
    for second in range(20):
        terms = mps.terms(0, online, ENFORCE, float(second))
    assert terms == side.Terms()
    assert mps.terms(0, None, ENFORCE, 21.0).unshareable == "its processes cannot be listed"
    assert mps.news(0) == ()


def looks_of(warden, monkeypatch):
    """When it looked, from now on."""
    looks, look = [], warden.look

    def noted(card, mps, guests, now, wall):
        looks.append(now)
        return look(card, mps, guests, now, wall)

    monkeypatch.setattr(warden, "look", noted)
    return looks


def test_a_gpu_at_rest_is_looked_at_when_something_changes_and_else_seldom(monkeypatch):
    mps = side.NodeMps({0: CARD}, lambda _uuid: MPS, lambda _card: Hands(), wall=lambda: 1e9)
    chat = GpuProcess(4711, Whose.ONLINE, GIB, mps=True)
    for second in range(20):
        mps.terms(0, reading(chat), ENFORCE, float(second))
    looks = looks_of(mps.wardens[0], monkeypatch)

    for tenths in range(200, 250, 2):
        mps.terms(0, reading(chat), ENFORCE, tenths / 10)
    assert 1 <= len(looks) <= 3

    stranger = GpuProcess(4712, Whose.ONLINE, GIB, name="python")
    assert mps.terms(0, reading(chat, stranger), ENFORCE, 24.9).hold
    assert looks[-1] == 24.9


FAULTY = replace(MPS, state=ServerState.FAULT, account=Account(faults=1, at_fault=True))
OURS = GpuProcess(20, Whose.OFFLINE, GIB, mps=True, placement_id="job-a", name="loop")


def test_a_fault_is_urgent_from_its_first_sight_until_it_is_over():
    seen = [MPS]
    mps = side.NodeMps({0: CARD}, lambda _uuid: seen[0], lambda _card: Hands())
    online = reading(GpuProcess(4711, Whose.ONLINE, GIB, mps=True), OURS)
    mps.terms(0, online, ENFORCE, 0.0)
    assert 0 not in mps.urgent()
    seen[0] = FAULTY
    assert 0 in mps.urgent()
    mps.terms(0, online, ENFORCE, 0.2)
    assert 0 in mps.urgent()
    assert 1 not in mps.urgent()


def test_without_a_sample_no_job_is_taken_for_gone():
    mps = side.NodeMps({0: CARD}, lambda _uuid: FAULTY, lambda _card: Hands())
    warden = mps.wardens[0]
    stages = []
    for now, sample in ((0.0, None), (0.2, None), (0.4, None), (0.6, reading())):
        mps.terms(0, sample, ENFORCE, now)
        stages.append(warden.stage)
    assert stages == [Stage.ENDING, Stage.ENDING, Stage.ENDING, Stage.WAITING]


def test_a_story_survives_the_agent_and_is_told_by_the_next(tmp_path):
    def life():
        keep = Keep(state, "node-01", "boot 1", clock=lambda: 0.0)
        said = Witness(20, 700, 1e9, "job-a")
        ways = {"witnesses": lambda _index: (said,), "keep": keep, "wall": lambda: 1e9}
        return side.NodeMps({0: CARD}, lambda _uuid: FAULTY, lambda _card: Hands(), **ways)

    with closing(StateFile(tmp_path)) as state:
        first = life()
        first.terms(0, reading(OURS), ENFORCE, 0.0)
        (begun,) = first.news(0)
        assert first.news(0) == ()
        second = life()
        assert second.wardens[0].stage is Stage.ENDING
        (resumed,) = second.news(0)
    assert begun["first"] == {"pid": 20, "side": "offline", "name": "loop", "placement_id": "job-a"}
    assert begun["code"] == 700
    assert resumed["fault_id"] == begun["fault_id"]
    assert resumed["moments"][-1]["what"] == RESTARTED
