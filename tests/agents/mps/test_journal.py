from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agents.mps import journal
from agents.mps.journal import Account

FAULT = """\
[2026-04-28 15:56:07.410 Other 11570] Volta MPS: Server is handling a fatal GPU error.
[2026-04-28 15:56:07.410 Other 11570] Volta MPS: status of client {11661, 1} is INACTIVE
[2026-04-28 15:56:07.410 Other 11570] Volta MPS: status of client {11663, 1} is INACTIVE
[2026-04-28 15:56:07.410 Other 11570] Volta MPS: The following devices will be reset:
[2026-04-28 15:56:07.410 Other 11570]  0
[2026-04-28 15:56:07.410 Other 11570]  1
[2026-04-28 15:56:07.410 Other 11570] Volta MPS: The following clients have a sticky error set:
[2026-04-28 15:56:07.410 Other 11570]  11661
[2026-04-28 15:56:07.410 Other 11570]  11664
""".splitlines()
GUILTY = "[2026-04-28 15:56:07.411 Other 11570] Volta MPS: Client process 11663 caused a fault"


def told(*lines, account=None):
    return journal.read(account or Account(), lines)


def test_a_server_and_its_user():
    account = told(
        "[2021-06-27 07:30:26.216 Control     6] Starting new server 17 for user 1000",
        "[2021-06-27 07:30:26.748 Control     6] NEW SERVER 17: Ready",
    )
    assert (account.server_pid, account.server_uid) == (17, 1000)


def test_a_server_that_died_of_its_own():
    account = told(
        "[2021-06-27 07:30:26.216 Control 6] Starting new server 95 for user 0",
        "[2021-06-27 07:30:27.216 Server 95] Server encountered a fatal exception. Shutting down",
        "[2021-06-27 07:30:27.300 Control 6] Server 95 exited with status 1",
        "[2021-06-27 07:30:27.301 Control 6] Starting new server 98 for user 0",
    )
    assert account.faults == 1
    assert not account.at_fault
    assert account.server_pid == 98


def test_a_fault_names_who_was_hit_and_no_device_among_them():
    fault = told(*FAULT).fault
    assert fault.hit_pids == (11661, 11663, 11664)
    assert fault.guilty_pid is None
    assert fault.at == "2026-04-28 15:56:07.410"


def test_the_first_to_be_named_is_the_guilty_one():
    later = GUILTY.replace("11663", "11661")
    assert told(*FAULT, GUILTY, later).fault.guilty_pid == 11663
    assert told(GUILTY, *FAULT).fault.guilty_pid == 11663


def test_a_name_that_comes_when_the_server_is_well_again_tells_of_no_second_fault():
    well = replace(told(*FAULT), at_fault=False)
    account = told(GUILTY, GUILTY.replace("11663", "11661"), account=well)
    assert (account.faults, account.fault.guilty_pid, account.at_fault) == (1, 11663, False)


def test_many_lines_of_one_fault_are_one_fault():
    account = told(*FAULT, *FAULT)
    assert account.faults == 1
    assert told("Volta MPS: Server has recovered", *FAULT, account=account).faults == 2


def test_a_client_of_another_user_waits_until_it_is_let_in():
    line = "[2026-05-31 23:48:21.671 Control 11107] NEW CLIENT 11801 from user 1000: Server is not"
    account = told(f"{line} ready, push client to pending list")
    assert account.waiting == ((11801, 1000),)
    assert told("New client 11801 connected", account=account).waiting == ()


def test_each_thing_that_happens_is_a_reason_to_ask():
    before = told("[2013-08-05 13:00:09.269 Server 13929] New client 14781 connected")
    after = told("[2013-08-05 13:00:09.270 Server 13929] Client 14777 disconnected", account=before)
    assert after.changes == before.changes + 1


def test_what_is_not_understood_changes_nothing():
    assert told("", "\x00\x01", "[nonsense", "User did not send valid credentials") == Account()


def test_numbers_without_bounds_are_nobody():
    account = told(*FAULT, "[2026-04-28 15:56:07.410 Other 11570] 99999999999999")
    assert 99999999999999 not in account.fault.hit_pids


def test_a_flood_of_clients_is_bounded():
    lines = [f"Volta MPS: status of client {{{pid}, 1}} is INACTIVE" for pid in range(1, 1_000)]
    assert len(told(*FAULT, *lines).fault.hit_pids) == journal.MAX_CLIENTS


@given(st.lists(st.one_of(st.text(max_size=80), st.sampled_from([*FAULT, GUILTY]))))
def test_any_lines_can_be_read(lines):
    journal.read(Account(), lines)
