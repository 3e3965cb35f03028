from __future__ import annotations

import msgspec

from agents.mps import timeline
from agents.mps.journal import Account, Fault
from agents.mps.recovery import Stage
from agents.mps.timeline import Timeline, Victim, Witness

KNOWN = {10: Victim(10, "online", "chat"), 20: Victim(20, "offline", "job-a")}
QUIET = Account()
NAMED = Account(fault=Fault("15:56", guilty_pid=20, hit_pids=(10, 20, 30)))


def begin(account=QUIET, *witnesses):
    return timeline.begin("GPU-1", 1_000.0, "FAULT", account, witnesses, KNOWN)


def test_the_servers_log_says_who_it_was():
    told = begin(NAMED, Witness(10, 700, 999.0))
    assert told.first == KNOWN[20]
    assert told.first_by == "the MPS server's log"
    assert told.others == (KNOWN[10], Victim(30, "unknown"))


def test_without_it_the_first_to_report_a_fault_of_its_own_is_it():
    told = begin(QUIET, Witness(10, 807, 1.0), Witness(20, 700, 3.0), Witness(10, 700, 3.1))
    assert told.first == KNOWN[20]
    assert told.code == 700


def test_nobody_is_accused_without_a_word():
    told = begin(QUIET, Witness(10, 806, 1.0), Witness(20, 810, 2.0))
    assert (told.first, told.code) == (None, None)
    assert told.others == (KNOWN[10], KNOWN[20])


def test_the_story_and_the_seconds_until_online_is_back():
    told = timeline.add(begin(NAMED), Stage.ENDING, 1_000.5)
    told = timeline.close(told, 1_004.25)
    assert told.recovered_s == 4.25
    assert [moment.after_s for moment in told.moments] == [0.0, 0.5, 4.25]


def test_a_clock_set_back_makes_no_negative_time():
    assert timeline.close(begin(), 900.0).recovered_s == 0.0


def test_a_story_is_bounded():
    told = begin()
    for number in range(1_000):
        told = timeline.add(told, "again", 1_000.0 + number)
    assert len(told.moments) == timeline.MAX_MOMENTS


def test_a_story_travels_as_json():
    told = begin(NAMED)
    assert msgspec.json.decode(msgspec.json.encode(told), type=Timeline) == told
