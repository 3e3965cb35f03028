from __future__ import annotations

import msgspec

from agents.mps import timeline
from agents.mps.journal import Account, Fault
from agents.mps.timeline import BY_LOG, BY_REPORT, LATELY_S, Timeline, Victim, Witness

CHAT, JOB = Victim(10, "online", "chat"), Victim(20, "offline", "trainer", "job-a")
KNOWN = {one.pid: (one, 999.0) for one in (CHAT, JOB)}
QUIET = Account()
OTHER = Victim(11, "offline", "", "job-b")
NAMED = Account(fault=Fault("15:56", guilty_pid=20, hit_pids=(10, 20, 30)))


def begin(account=QUIET, *witnesses):
    begun = timeline.begin("id", "GPU-1", 1_000.0, "FAULT", KNOWN)
    return timeline.learn(begun, account, witnesses, KNOWN)


def says(code, at, of=JOB):
    return Witness(of.pid, code, at, of.placement_id)


def test_the_servers_log_says_who_it_was():
    told = begin(NAMED, says(700, 999.0, OTHER))
    assert (told.first, told.first_by) == (JOB, BY_LOG)
    assert told.others == (CHAT, OTHER, Victim(30, "unknown"))


def test_without_it_the_first_to_report_a_fault_of_its_own_is_it():
    told = begin(QUIET, says(807, 999.1, OTHER), says(700, 999.3), says(700, 999.4, OTHER))
    assert (told.first, told.first_by, told.code) == (JOB, BY_REPORT, 700)


def test_what_the_log_says_later_comes_before_what_a_process_said():
    told = timeline.learn(begin(QUIET, says(700, 999.0, OTHER)), NAMED, (), {})
    assert (told.first, told.first_by) == (JOB, BY_LOG)
    assert CHAT in told.others
    assert JOB not in told.others


def test_nobody_is_accused_without_a_word():
    told = begin(QUIET, says(806, 999.0, OTHER), says(810, 999.0))
    assert (told.first, told.code) == (None, None)
    assert told.others == (CHAT, OTHER, JOB)


def test_a_code_of_long_ago_accuses_nobody():
    assert begin(QUIET, says(700, 999.0 - LATELY_S)).first is None


def test_a_process_that_nobody_listed_is_known_by_its_own_report():
    told = begin(QUIET, Witness(21, 700, 1_000.0, "job-b"))
    assert told.first == Victim(21, "offline", "", "job-b")


def test_a_job_that_names_the_number_of_another_accuses_itself():
    told = begin(QUIET, Witness(10, 700, 999.0, "job-b"))
    assert told.first == Victim(10, "offline", "", "job-b")
    assert told.others == (CHAT, JOB)
    alone = timeline.alone("id", "GPU-1", 1_000.0, "why", Witness(10, 700, 999.0, "job-b"), KNOWN)
    assert alone.first == told.first


def test_whom_nobody_knew_is_known_from_then_on():
    told = begin(Account(fault=Fault("15:56", hit_pids=(30,))))
    assert Victim(30, "unknown") in told.others
    told = timeline.learn(told, QUIET, [Witness(30, 806, 1_000.0, "job-c")], KNOWN)
    assert told.others == (CHAT, JOB, Victim(30, "offline", "", "job-c"))


def test_who_left_a_moment_before_the_fault_may_have_been_hit_and_who_left_long_ago_not():
    known = timeline.remember(KNOWN, [Victim(40, "online")], 1_005.0)
    assert set(known) == {10, 20, 40}
    assert set(timeline.remember(known, [], 1_010.0)) == {40}


def test_the_story_and_the_seconds_until_online_is_back():
    told = timeline.add(begin(NAMED), "waiting", 1_000.5)
    told = timeline.close(told, 1_004.25)
    assert (told.recovered_s, told.ended) == (4.25, True)
    assert [moment.after_s for moment in told.moments] == [0.0, 0.5, 4.25]
    assert timeline.add(told, "more", 1_009.0) == told


def test_a_clock_set_back_makes_no_negative_time():
    assert timeline.close(begin(), 900.0).recovered_s == 0.0


def test_a_story_is_bounded():
    told = begin()
    for number in range(1_000):
        told = timeline.add(told, "again", 1_000.0 + number)
    assert len(told.moments) == timeline.MAX_MOMENTS
    crowd = tuple(Witness(pid, 806, 1_000.0, "job-b") for pid in range(100, 900))
    assert len(timeline.learn(told, QUIET, crowd, {}).others) == timeline.MAX_OTHERS


def test_a_story_is_kept_as_json():
    told = begin(NAMED)
    assert msgspec.json.decode(msgspec.json.encode(told), type=Timeline) == told


def test_an_event_has_the_fields_of_the_protocol():
    data = timeline.event(timeline.close(begin(NAMED), 1_002.0))
    assert set(data) == {
        *("fault_id", "why", "first", "first_by", "code", "others"),
        *("moments", "recovered_s", "ended"),
    }
    assert data["first"] == {
        "pid": 20,
        "side": "offline",
        "name": "trainer",
        "placement_id": "job-a",
    }
    assert data["moments"][0] == {"after_s": 0.0, "what": "FAULT"}
