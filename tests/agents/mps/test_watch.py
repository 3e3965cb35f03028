from __future__ import annotations

import os
import threading
import time
from dataclasses import replace

import pytest

from agents.mps import health, unit
from agents.mps.answers import Refused, Status
from agents.mps.control import Control
from agents.mps.daemons import Daemons, restart_server
from agents.mps.health import (
    ASK_AGAIN_S,
    ASK_EVERY_S,
    ASK_UNSETTLED_S,
    STALE_S,
    ServerState,
    Snapshot,
)
from agents.mps.journal import Account
from agents.mps.tail import LOOK_BYTES
from agents.mps.watch import MAX_ERRANDS, Watch, Watcher
from tests.agents.mps.cast import UUID
from tests.agents.mps.conftest import until

ACTIVE = Snapshot(at=100.0, state=ServerState.ACTIVE)
CHANGED = Account(changes=1)
FAULT = Account(changes=1, at_fault=True)


# --- when to ask ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "account", "after_s", "asks"),
    [
        (ACTIVE, Account(), ASK_EVERY_S - 1, False),
        (ACTIVE, Account(), ASK_EVERY_S, True),
        (ACTIVE, CHANGED, ASK_AGAIN_S, True),
        (ACTIVE, CHANGED, 0.1, False),
        (ACTIVE, FAULT, 0.1, True),
        (replace(ACTIVE, state=ServerState.FAULT), Account(), ASK_UNSETTLED_S, True),
        (replace(ACTIVE, state=ServerState.NO_DAEMON), Account(), 0.5, False),
        (Snapshot(at=float("-inf")), Account(), 0.0, True),
    ],
)
def test_the_daemon_is_asked_when_something_happened_and_else_seldom(last, account, after_s, asks):
    assert health.is_worth_asking(last, account, 100.0 + after_s) is asks


@pytest.mark.parametrize(
    ("statuses", "state"),
    [
        ({}, ServerState.NO_SERVER),
        ({1: Status.ACTIVE}, ServerState.ACTIVE),
        ({1: Status.ACTIVE, 2: Status.INITIALIZING}, ServerState.INITIALIZING),
        ({1: Status.FAULT, 2: Status.ACTIVE}, ServerState.FAULT),
    ],
)
def test_the_gravest_server_speaks_for_the_gpu(statuses, state):
    assert health.said(statuses)[0] is state


@pytest.mark.parametrize(
    ("state", "after_s", "seen"),
    [
        (ServerState.ACTIVE, STALE_S, ServerState.ACTIVE),
        (ServerState.ACTIVE, STALE_S + 1, ServerState.SILENT),
        (ServerState.NO_SERVER, STALE_S + 1, ServerState.SILENT),
        (ServerState.FAULT, STALE_S + 1, ServerState.FAULT),
    ],
)
def test_a_server_is_not_open_for_ever_because_it_once_was(state, after_s, seen):
    last = replace(ACTIVE, state=state, client_pids=frozenset({1}))
    assert health.as_of(last, last.at + after_s).state is seen
    assert (health.as_of(last, last.at + after_s).client_pids is None) == (seen != state)


# --- what is seen -----------------------------------------------------------------------


def test_a_gpu_without_a_daemon(mps):
    assert mps.watch.look(1.0).state is ServerState.NO_DAEMON


def test_a_daemon_its_server_and_its_clients(daemon, process):
    assert daemon.watch.look(0.0).state is ServerState.NO_SERVER
    pid = process()
    daemon.fake("connect", pid)
    seen = daemon.watch.look(1.0)
    assert seen.state is ServerState.ACTIVE
    assert seen.client_pids == {pid}
    assert seen.server_pid == daemon.server()
    assert seen.server_uid == os.getuid()
    assert seen.daemon_pid
    assert seen.multiuser is False


def test_a_daemon_whose_logs_are_quiet_is_asked_for_its_server_and_now_and_then_for_all(
    daemon, process, monkeypatch
):
    pid = process()
    daemon.fake("connect", pid)
    asked, ask = [], daemon.watch.control.ask

    def note(question):
        asked.append(question)
        return ask(question)

    monkeypatch.setattr(daemon.watch.control, "ask", note)
    counts = []
    for now in (0.0, 20.1, 40.2, 60.3):
        seen = daemon.watch.look(now)
        assert (seen.at, seen.state, seen.client_pids) == (now, ServerState.ACTIVE, {pid})
        counts.append(len(asked))
        asked.clear()
    assert counts == [3, 1, 1, 3]
    daemon.control._deadline_s = 0.2
    daemon.fake("slow", 1)
    assert daemon.watch.look(80.4).state is ServerState.SILENT


def test_a_server_that_starts_is_not_ready(daemon, process):
    daemon.fake("initializing", 30)
    daemon.fake("connect", process())
    assert daemon.watch.look(0.0).state is ServerState.INITIALIZING


def test_a_fault_is_seen_at_the_next_look_and_again_when_it_is_over(daemon, process):
    online, offline = process(), process()
    daemon.fake("connect", online)
    daemon.fake("connect", offline)
    daemon.watch.look(0.0)
    daemon.fake("fault", offline)
    seen = daemon.watch.look(0.1)
    assert seen.state is ServerState.FAULT
    assert seen.account.fault.guilty_pid == offline
    assert set(seen.account.fault.hit_pids) == {online, offline}
    daemon.fake("disconnect", online)
    daemon.fake("disconnect", offline)
    assert daemon.watch.look(1.2).state is ServerState.ACTIVE
    assert not daemon.watch.snapshot.account.at_fault


def test_a_fault_in_the_log_counts_also_when_the_daemon_cannot_be_understood(daemon, process):
    daemon.fake("connect", process())
    daemon.watch.look(0.0)
    daemon.fake("say", "nothing")
    daemon.place.server_log.write_text("Server is handling a fatal GPU error\n")
    assert daemon.watch.look(0.1).state is ServerState.FAULT


def test_a_daemon_that_hangs_and_one_that_garbles(daemon):
    daemon.control._deadline_s = 0.2
    daemon.fake("slow", 1)
    assert daemon.watch.look(0.0).state is ServerState.SILENT
    daemon.fake("honest")
    daemon.fake("say", "\x00?")
    seen = daemon.watch.look(20.0)
    assert seen.state is ServerState.UNKNOWN
    assert seen.client_pids is None
    daemon.fake("honest")
    assert daemon.watch.look(40.0).state is ServerState.NO_SERVER


# --- the thread -------------------------------------------------------------------------


def test_a_client_is_terminated_without_anyone_waiting(daemon, process):
    pid = process()
    daemon.fake("connect", pid)
    watcher = Watcher(Watch(daemon.control))
    watcher.start()
    until(lambda: watcher.snapshot.client_pids == frozenset({pid}))
    watcher.terminate(pid)

    def is_gone():
        watcher.ring()
        return watcher.snapshot.client_pids == frozenset()

    until(is_gone)
    watcher.stop()


def test_a_ring_makes_nobody_look_where_nothing_is_new(daemon, monkeypatch):
    watcher, looks = Watcher(Watch(daemon.control)), []
    watcher.watch.look(time.monotonic())
    monkeypatch.setattr(watcher, "_post", looks.append)
    watcher.ring()
    assert not looks  # its own question shows in the logs, and it has read that
    tell(daemon, "Server is handling a fatal GPU error")
    watcher.ring()
    assert len(looks) == 1


def tell(daemon, line):
    with daemon.place.server_log.open("a") as log:
        log.write(f"{line}\n")


def test_a_log_in_the_place_of_the_one_that_was_read_is_news(daemon):
    watcher = Watcher(Watch(daemon.control))
    tell(daemon, "as long as the other")
    watcher.watch.look(time.monotonic())
    daemon.place.server_log.rename(daemon.place.server_log.with_suffix(".1"))
    assert not watcher.watch.has_news()
    tell(daemon, "as long as the other")
    assert watcher.watch.has_news()


def test_a_change_that_finds_the_thread_busy_is_looked_at_afterwards(daemon):
    watcher = Watcher(Watch(daemon.control))
    watcher.watch.look(time.monotonic())
    watcher.do(lambda _watch: None)
    tell(daemon, "Server is handling a fatal GPU error")
    watcher.ring()
    assert watcher._errands.qsize() == 1
    watcher._errands.get()
    watcher.ring(changed=False)
    assert watcher._errands.qsize() == 1


def test_a_fault_behind_a_flood_of_lines_is_seen_before_the_log_grows_again(daemon):
    watcher = Watcher(Watch(daemon.control), clock=lambda: 0.5)
    watcher.watch.look(0.0)
    with daemon.place.control_log.open("a") as log:
        log.write("nothing to see\n" * (LOOK_BYTES // 4))
        log.write("Server is handling a fatal GPU error\n")
    watcher.start()

    def is_seen():
        watcher.ring()
        return watcher.snapshot.account.faults

    until(is_seen)
    watcher.stop()


def test_errands_for_a_daemon_that_hangs_do_not_pile_up(mps):
    watcher = Watcher(mps.watch)
    for pid in range(MAX_ERRANDS * 2):
        watcher.terminate(pid)
    assert watcher._errands.qsize() == MAX_ERRANDS


def test_a_new_server_does_not_wait_behind_clients_that_nobody_can_end(mps):
    watcher, done = Watcher(mps.watch), []
    for pid in range(MAX_ERRANDS):
        watcher.terminate(pid)
    watcher.do_instead(done.append)
    watcher.start()
    until(lambda: done)
    assert watcher._errands.empty()
    watcher.stop()


def test_an_errand_that_fails_does_not_end_the_watching(daemon):
    watcher, done = Watcher(Watch(daemon.control)), threading.Event()
    watcher.start()
    watcher.do(lambda watch: watch.control.terminate_client(1, 2))
    watcher.do(lambda _watch: done.set())
    assert done.wait(5)
    watcher.stop()


def test_a_look_that_goes_wrong_keeps_no_errand_waiting_and_is_made_again(daemon, monkeypatch):
    watch, done = Watch(daemon.control), threading.Event()
    watcher, look = Watcher(watch), watch.look
    monkeypatch.setattr(watch, "look", lambda _now: 1 / 0)
    watcher.start()
    watcher.do(lambda _watch: done.set())
    assert done.wait(5)
    monkeypatch.setattr(watch, "look", look)
    watcher.ring()
    until(lambda: watcher.snapshot.state is ServerState.NO_SERVER)
    watcher.stop()


def test_one_that_cannot_be_rung_keeps_no_other_from_it(daemon, monkeypatch):
    node = Daemons([daemon.control])
    rung = threading.Event()
    rings = iter([lambda: 1 / 0, rung.set])
    monkeypatch.setattr(node.watcher(UUID), "ring", lambda **_how: next(rings)())
    node.ring()
    node.ring()
    assert rung.is_set()


def test_daemons_that_nothing_is_heard_of_are_asked_one_after_another(tmp_path):
    places = [unit.place_of(uuid, tmp_path) for uuid in ("GPU-1", "GPU-2")]
    node = Daemons([Control(place) for place in places])
    errands = [node.watcher(place.gpu_uuid)._errands for place in places]
    waiting = []
    for _ in range(2):
        node.ring()
        waiting.append([each.qsize() for each in errands])
    assert waiting == [[1, 0], [1, 1]]


def test_all_daemons_of_a_node_tell_who_their_clients_are(daemon, process):
    pid = process()
    daemon.fake("connect", pid)
    node = Daemons([daemon.control])
    assert node.client_pids() == {}
    node.start()
    until(lambda: node.client_pids() == {UUID: frozenset({pid})})
    node.terminate_client(UUID, [pid])

    def is_gone():
        node.ring()
        return node.snapshot(UUID).client_pids == frozenset()

    until(is_gone)
    node.stop()


# --- hands ------------------------------------------------------------------------------


def test_a_server_at_fault_is_shut_and_the_next_client_finds_a_new_one(daemon, process):
    pid = process()
    daemon.fake("connect", pid)
    daemon.fake("fault", pid)
    before = daemon.server()
    daemon.watch.look(0.0)
    restart_server(daemon.watch)
    assert daemon.watch.look(1.5).state is ServerState.NO_SERVER
    daemon.fake("connect", pid)
    assert daemon.server() != before


def test_a_healthy_server_with_clients_is_left_alone(daemon, process):
    daemon.fake("connect", process())
    daemon.watch.look(0.0)
    before = daemon.server()
    restart_server(daemon.watch)
    assert daemon.server() == before


def test_a_daemon_that_is_gone_is_started_again(daemon, monkeypatch):
    monkeypatch.setattr("agents.mps.unit.is_installed", lambda: False)
    daemon.fake("crash")
    assert daemon.watch.look(0.0).state is ServerState.NO_DAEMON
    restart_server(daemon.watch)
    assert daemon.watch.look(1.5).state is ServerState.NO_SERVER


def test_a_server_that_goes_between_two_questions_is_asked_for_again(daemon, process, monkeypatch):
    daemon.fake("connect", process())
    ask, refused = daemon.control.ask, []

    def once(question, deadline_s=None):
        if question.text.startswith("get_server_status") and not refused:
            refused.append(question)
            raise Refused("Server not found")
        return ask(question, deadline_s)

    monkeypatch.setattr(daemon.control, "ask", once)
    assert daemon.watch.look(0.0).state is ServerState.ACTIVE
