from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mps import memory
from agents.mps.arrivals import JOIN_S, SETTLE_S
from agents.mps.enabling import VERIFY_S
from agents.mps.health import ServerState
from agents.mps.journal import Account, Fault
from agents.mps.recovery import ONLINE_S, RETRY_S, Stage
from agents.mps.shareable import Fact, OnlineProcess
from agents.mps.timeline import BY_LOG, CUT_SHORT, Victim, Witness
from agents.mps.warden import Guests, Terms, Warden
from tests.agents.mps.cast import CARD, MPS, ONLINE, UUID

JOB = {20: Victim(20, "offline", "trainer", "job-a")}
NEW = OnlineProcess(4712, 1000, "python")
FAULT = replace(
    MPS,
    state=ServerState.FAULT,
    account=Account(faults=1, at_fault=True, fault=Fault("15:56", 20, (4711, 20))),
)


class Hands:
    def __init__(self):
        self.done = []
        self.has_hook, self.is_restarting = True, False

    def restart_online(self):
        self.done.append("restart_online")
        return "the hook of chat runs"

    def restart_server(self):
        self.done.append("restart_server")

    def page(self, why):
        self.done.append("page")

    def quarantine(self, why):
        self.done.append("quarantine")


class Gpu:
    """One GPU's warden, looking once a second."""

    def __init__(self, now=100.0, kept=None):
        self.hands = Hands()
        self.warden = Warden(UUID, self.hands, kept)
        self.now = now

    def stage(self) -> Stage:
        return self.warden.stage

    def see(self, card=CARD, mps=MPS, guests=(), for_s=1, **fields) -> Terms:
        for _ in range(round(for_s)):
            ours = Guests(None if guests is None else dict(guests), **fields)
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
    (told,) = gpu.warden.stories.all
    assert told.first == JOB[20]
    assert told.others == (Victim(4711, "online", "python"),)
    assert told.recovered_s == pytest.approx(5, abs=2)
    assert told.ended
    assert "the hook of chat runs" in " ".join(moment.what for moment in told.moments)


def test_the_story_names_the_online_service_where_there_is_one(gpu):
    gpu.see(mps=FAULT, guests=JOB, service="chat")
    assert gpu.warden.stories.open.others == (Victim(4711, "online", "chat"),)


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
    assert gpu.warden.stories.all == ()


def test_past_faults_are_kept_in_bounds(gpu):
    for _ in range(40):
        gpu.now += 1_000
        gpu.see(mps=FAULT)
        gpu.see(mps=FAULT)
        gpu.see(for_s=SETTLE_S + 3)
    assert len(gpu.warden.stories.all) == 32


# --- online that does not come back at the first try ------------------------------------

EMPTY, AWAY = replace(CARD, online=()), replace(MPS, client_pids=frozenset())


def test_a_hook_whose_service_does_not_come_up_is_run_again_and_then_it_is_well(gpu):
    gpu.see(mps=FAULT, for_s=2)
    gpu.see(EMPTY, AWAY, for_s=RETRY_S + 2)
    assert gpu.hands.done == ["restart_online", "restart_online"]
    gpu.see(for_s=SETTLE_S + 2)
    (told,) = gpu.warden.stories.all
    assert told.recovered_s is not None
    assert told.recovered_s <= 15


def test_a_hook_at_work_is_waited_for(gpu):
    gpu.see(mps=FAULT, for_s=2)
    gpu.hands.is_restarting = True
    gpu.see(EMPTY, AWAY, for_s=30)
    assert gpu.hands.done == ["restart_online"]


def test_online_is_not_back_while_the_hook_that_replaces_it_is_at_work(gpu):
    passed = replace(MPS, account=replace(FAULT.account, at_fault=False))
    gpu.hands.is_restarting = True
    terms = gpu.see(mps=passed, for_s=20)
    assert gpu.stage() is Stage.READMITTING
    assert terms.hold
    gpu.hands.is_restarting = False
    gpu.see(mps=passed)
    assert gpu.stage() is Stage.SOUND


def test_without_a_hook_a_person_is_told_once_and_once_more_when_it_takes_long(gpu):
    gpu.hands.has_hook = False
    gpu.see(mps=FAULT, for_s=2)
    gpu.see(EMPTY, AWAY, for_s=ONLINE_S * 2)
    assert gpu.hands.done == ["restart_online", "page"]


def test_online_that_died_with_the_fault_is_missed_although_the_server_is_well_at_once(gpu):
    passed = replace(AWAY, account=replace(FAULT.account, at_fault=False))
    assert gpu.see(EMPTY, passed).fault
    gpu.see(EMPTY, passed, for_s=4)
    assert gpu.hands.done == ["restart_online"]
    assert gpu.stage() is Stage.READMITTING


def test_a_process_that_came_a_moment_before_the_fault_is_not_missed(gpu):
    new = replace(CARD, online=(ONLINE, NEW))
    joined = replace(MPS, client_pids=frozenset({4711, 4712}))
    gpu.see(new, joined, for_s=2)
    gpu.see(new, replace(FAULT, client_pids=frozenset({4711, 4712})), for_s=2)
    gpu.see(for_s=SETTLE_S + 3)
    assert gpu.stage() is Stage.SOUND
    assert gpu.hands.done == ["restart_online"]


def test_faults_of_the_past_are_not_recovered_from():
    gpu = Gpu()
    old = replace(MPS, account=Account(faults=3, fault=Fault("11:11", 7)))
    gpu.see(mps=old, for_s=5)
    assert gpu.warden.stories.all == ()
    gpu.see(mps=replace(old, state=ServerState.FAULT), guests=JOB)
    assert gpu.warden.stories.open.first is None


def test_a_job_that_faulted_before_any_list_named_it_is_named_by_its_runtime(gpu):
    early = (Victim(20, "offline", "", "job-a"),)
    gpu.see(mps=FAULT, guests={}, named=early)
    told = gpu.warden.stories.open
    assert (told.first, told.first_by) == (early[0], BY_LOG)
    assert Victim(20, "unknown") not in told.others


# --- codes while the server is well -----------------------------------------------------


@pytest.mark.parametrize(
    ("code", "field", "done"),
    [(700, "fault", []), (808, "leave", []), (214, "fault", [])],
)
def test_a_code_with_a_server_that_is_well_ends_the_job_as_the_table_says(gpu, code, field, done):
    said = (Witness(20, code, 1e9 + gpu.now, "job-a"),)
    terms = gpu.see(guests=JOB, witnesses=said, for_s=2)
    assert f"CUDA error {code}" in getattr(terms, field)
    assert f"CUDA error {code}" in terms.unshareable
    assert gpu.hands.done == done
    assert gpu.see(witnesses=said) == Terms()


def test_a_job_that_faulted_by_itself_is_told_of_once_it_is_gone(gpu):
    said = (Witness(20, 808, 1e9 + gpu.now, "job-a"),)
    gpu.see(guests=JOB, witnesses=said, for_s=3)
    assert gpu.warden.stories.all == ()
    gpu.see(witnesses=said, for_s=3)
    (told,) = gpu.warden.stories.all
    assert (told.first, told.code, told.others, told.ended) == (JOB[20], 808, (), True)
    assert told.recovered_s is None


def test_a_job_that_nobody_can_list_has_not_gone(gpu):
    said = (Witness(20, 700, 1e9 + gpu.now, "job-a"),)
    gpu.see(guests=JOB, witnesses=said)
    terms = gpu.see(guests=None, witnesses=said, for_s=3)
    assert terms.fault
    assert terms.hold
    assert gpu.warden.stories.all == ()


def test_a_hook_waits_for_jobs_that_nobody_can_list_as_for_those_that_are_there(gpu):
    gpu.see(mps=FAULT, guests=None)
    gpu.see(mps=FAULT, guests=None)
    assert gpu.hands.done == []
    gpu.see(mps=FAULT, guests=None, for_s=2)
    assert gpu.hands.done == ["restart_online"]


@pytest.mark.parametrize("code", [214, 806])
def test_no_job_is_accused_of_hardware_or_of_a_server_that_went(gpu, code):
    said = (Witness(20, code, 1e9 + gpu.now, "job-a"),)
    gpu.see(guests=JOB, witnesses=said)
    gpu.see(witnesses=said, for_s=2)
    assert gpu.warden.stories.all == ()


def test_a_fault_of_all_that_comes_to_light_after_a_job_s_word_has_one_story(gpu):
    said = (Witness(20, 700, 1e9 + gpu.now, "job-a"),)
    assert gpu.see(guests=JOB, witnesses=said).fault
    gpu.see(mps=FAULT, guests=JOB, witnesses=said)
    gpu.see(mps=FAULT, witnesses=said, for_s=2)
    (told,) = gpu.warden.stories.all
    assert not told.ended


def test_a_fault_of_all_that_comes_to_light_when_the_job_is_gone_has_one_story(gpu):
    said = (Witness(20, 700, 1e9 + gpu.now, "job-a"),)
    gpu.see(guests=JOB, witnesses=said)
    gpu.see(mps=FAULT, witnesses=said, for_s=2)
    (told,) = gpu.warden.stories.all
    assert told.first == JOB[20]
    assert not told.ended


def test_an_xid_of_a_job_ends_the_job(gpu):
    assert "XID 43" in gpu.see(guests=JOB, xids=(43.0,)).leave


# --- the agent's own restart, and a person's word ---------------------------------------


def reborn(gpu, boot_id="boot 1"):
    body = memory.encode(gpu.warden.memory, "boot 1")
    return Gpu(gpu.now, memory.decode(body, boot_id, gpu.now, 1e9 + gpu.now))


def test_the_next_agent_goes_on_with_a_recovery_and_its_story(gpu):
    gpu.see(mps=FAULT, guests=JOB, for_s=1)
    begun = gpu.warden.stories.open
    heir = reborn(gpu)
    heir.see(EMPTY, FAULT, for_s=1)
    heir.see(EMPTY, AWAY, for_s=5)
    assert heir.hands.done == ["restart_online"]
    heir.see(for_s=SETTLE_S + 2)
    (told,) = heir.warden.stories.all
    assert told.fault_id == begun.fault_id
    assert told.first == JOB[20]
    assert told.recovered_s is not None
    assert memory.RESTARTED in [moment.what for moment in told.moments]


def test_a_story_that_a_boot_cuts_short_says_so(gpu):
    gpu.see(mps=FAULT, guests=JOB)
    heir = reborn(gpu, boot_id="boot 2")
    assert heir.stage() is Stage.SOUND
    (told,) = heir.warden.stories.news()
    assert told.ended
    assert told.recovered_s is None
    assert told.moments[-1].what.startswith(CUT_SHORT)


def test_what_is_kept_and_makes_no_sense_is_forgotten():
    assert memory.decode(b"{", "boot 1", 0.0, 0.0) == memory.Memory()
    assert memory.decode(None, "boot 1", 0.0, 0.0) == memory.Memory()


def test_a_story_is_cut_short_where_the_node_may_do_nothing_any_more(gpu):
    gpu.see(mps=FAULT, guests=JOB)
    gpu.see(mps=FAULT, guests=JOB, enforce=False)
    (told,) = gpu.warden.stories.all
    assert told.ended
    assert told.moments[-1].what.startswith(CUT_SHORT)


def test_a_gpu_that_was_given_up_empties_and_goes_on_when_a_person_says_so(gpu):
    gpu.see(mps=FAULT, for_s=16)
    assert gpu.stage() is Stage.GIVEN_UP
    assert gpu.see(mps=FAULT, guests=JOB).leave
    (told,) = gpu.warden.stories.all
    assert told.ended
    gpu.see(approved=True)
    assert gpu.stage() is Stage.SOUND
    assert gpu.see(for_s=VERIFY_S + 2) == Terms()


# --- whatever happens, and however often the agent is killed ----------------------------

SEEN = st.tuples(
    st.sampled_from(ServerState),
    st.booleans(),
    st.booleans(),
    st.integers(1, 20),
    st.sampled_from(["", "", "", "boot 1", "boot 2"]),
)


@settings(max_examples=50)
@given(st.lists(SEEN, max_size=30))
def test_at_most_one_story_is_open_and_each_is_told_to_its_end(looks):
    gpu, told, faults = Gpu(), {}, 0
    for state, online, ours, for_s, boot_id in looks:
        if boot_id:
            gpu = reborn(gpu, boot_id)
            faults = 0
        faults += state is ServerState.FAULT
        mps = replace(MPS, state=state, account=Account(faults=faults))
        terms = gpu.see(CARD if online else EMPTY, mps, JOB if ours else {}, for_s=for_s)
        for story in gpu.warden.stories.news():
            before = told.get(story.fault_id)
            assert before is None or not before.ended or before == story
            told[story.fault_id] = story
        still_open = [story.fault_id for story in told.values() if not story.ended]
        recovering = gpu.stage() not in (Stage.SOUND, Stage.GIVEN_UP)
        assert len(still_open) == recovering
        assert terms.hold or not recovering
