"""The roster against a whole API: what happens in the cluster, and what goes wrong on the way."""

from __future__ import annotations

import json

import pytest

from agents.kubernetes import watch as watch_module
from agents.kubernetes.objects import Nonsense
from agents.kubernetes.watch import CACHED, NEWEST, Question, TooOld, listed
from agents.stub.kubernetes_api import pod, status
from tests.agents.kubernetes.conftest import LABEL, NODE, names, until

CHAT = {LABEL: "chat"}


def lists(cluster):
    return [query for _, query in cluster.requests if "watch" not in query]


def watches(cluster):
    return [query for _, query in cluster.requests if "watch" in query]


def test_what_runs_is_listed_and_what_changes_is_followed(cluster, watching):
    cluster.put(pod("chat-0", "u-1", namespace="prod", labels=CHAT))
    watch = watching()
    until(lambda: names(watch) == {"prod/chat-0 of service chat"})
    cluster.put(pod("chat-1", "u-2", namespace="prod", labels=CHAT))
    until(lambda: len(names(watch)) == 2)
    cluster.put(pod("chat-1", "u-2", namespace="prod"))
    until(lambda: names(watch) == {"prod/chat-0 of service chat", "prod/chat-1"})
    cluster.delete("prod", "chat-0")
    until(lambda: names(watch) == {"prod/chat-1"})
    assert len(lists(cluster)) == 1
    assert cluster.writes == []


def test_pods_of_other_nodes_are_not_asked_for(cluster, watching):
    cluster.put(pod("here", "u-1"))
    cluster.put(pod("there", "u-2", node="node-02"))
    watch = watching()
    until(lambda: names(watch) == {"default/here"})
    cluster.put(pod("there-too", "u-3", node="node-02"))
    cluster.put(pod("here-too", "u-4"))
    until(lambda: names(watch) == {"default/here", "default/here-too"})
    assert {query["fieldSelector"] for _, query in cluster.requests} == {f"spec.nodeName={NODE}"}


def test_a_server_that_ignores_the_selector_changes_nothing(cluster, watching, monkeypatch):
    monkeypatch.setattr("agents.stub.kubernetes_api.matches", lambda one, query: True)
    cluster.put(pod("here", "u-1"))
    cluster.put(pod("there", "u-2", node="node-02"))
    watch = watching()
    until(lambda: names(watch) == {"default/here"})
    cluster.put(pod("there-too", "u-3", node="node-02"))
    cluster.put(pod("here-too", "u-4"))
    until(lambda: names(watch) == {"default/here", "default/here-too"})


def test_only_pods_with_the_label_are_online_and_one_that_loses_it_goes(cluster, watching):
    cluster.put(pod("chat-0", "u-1", labels={"tier": "online"}))
    cluster.put(pod("batch", "u-2", labels={"tier": "batch"}))
    watch = watching("tier in (online, gold)")
    until(lambda: names(watch) == {"default/chat-0"})
    cluster.put(pod("batch", "u-2", labels={"tier": "gold"}))
    until(lambda: names(watch) == {"default/chat-0", "default/batch"})
    cluster.put(pod("chat-0", "u-1", labels={}))
    until(lambda: names(watch) == {"default/batch"})


def test_a_long_list_comes_in_pages_of_one_moment(cluster, api, monkeypatch):
    monkeypatch.setattr(watch_module, "PAGE_PODS", 2)
    for number in range(5):
        cluster.put(pod(f"p-{number}", f"u-{number}"))
    found, version = listed(api, Question(NODE), NEWEST)
    assert len(found.pods) == 5
    assert version == "1005"
    assert [bool(query.get("continue")) for query in lists(cluster)] == [False, True, True]


def test_a_page_that_is_too_old_begins_the_list_anew(cluster, api, monkeypatch):
    monkeypatch.setattr(watch_module, "PAGE_PODS", 2)
    for number in range(3):
        cluster.put(pod(f"p-{number}", f"u-{number}"))
    got = watch_module._got

    def slowly(api, query):
        data = got(api, query)
        cluster.compact()
        return data

    monkeypatch.setattr(watch_module, "_got", slowly)
    with pytest.raises(TooOld, match=r"410 .*too old"):
        listed(api, Question(NODE), NEWEST)


def test_a_list_without_end_ends(cluster, api, monkeypatch):
    monkeypatch.setattr(watch_module, "MOST_PODS", 4)
    monkeypatch.setattr(watch_module, "PAGE_PODS", 2)
    for number in range(9):
        cluster.put(pod(f"p-{number}", f"u-{number}"))
    for version in (CACHED, NEWEST):
        with pytest.raises(Nonsense, match="more than 4 pods"):
            listed(api, Question(NODE), version)


@pytest.mark.parametrize("as_event", [True, False], ids=["as an event", "as a status"])
def test_a_version_that_is_too_old_is_listed_anew(cluster, watching, as_event):
    cluster.too_old_as_event = as_event
    cluster.put(pod("old", "u-1"))
    watch = watching()
    until(lambda: cluster.watching == 1)
    cluster.fail(500, times=1, watches_only=True)
    cluster.cut()
    cluster.delete("default", "old")
    cluster.put(pod("new", "u-2"))
    cluster.compact()
    until(lambda: names(watch) == {"default/new"})
    until(lambda: watch.trouble == "")
    assert [query.get("resourceVersion") for query in lists(cluster)] == [CACHED, None]


def test_a_bookmark_moves_the_version_on(cluster, watching):
    watch = watching()
    until(lambda: cluster.watching == 1)
    cluster.pass_time(500)
    cluster.bookmark()
    until(lambda: watch._version == "1500")
    cluster.cut()
    until(lambda: len(watches(cluster)) == 2)
    assert [query["resourceVersion"] for query in watches(cluster)] == ["1000", "1500"]
    assert len(lists(cluster)) == 1


def test_a_watch_that_the_server_ends_goes_on_where_it_was(cluster, watching, monkeypatch):
    monkeypatch.setattr(watch_module, "LASTED_S", 0.01)
    monkeypatch.setattr("agents.kubernetes.watch.random.randint", lambda low, high: 0.05)
    cluster.put(pod("chat-0", "u-1"))
    watch = watching()
    until(lambda: len(watches(cluster)) >= 3)
    cluster.put(pod("chat-1", "u-2"))
    until(lambda: len(names(watch)) == 2)
    assert len(lists(cluster)) == 1
    assert {chosen.wait_s for chosen in watch.waits} == {0.0}


def test_a_server_that_ends_each_watch_at_once_is_not_hurried(cluster, watching, monkeypatch):
    monkeypatch.setattr("agents.kubernetes.watch.random.randint", lambda low, high: 0.0)
    watch = watching()
    until(lambda: len(watch.waits) >= 4)
    waits = [chosen.wait_s for chosen in watch.waits[:4]]
    assert waits[0] >= 0.5
    assert waits[3] >= 4.0


def test_a_server_that_tells_something_and_hangs_up_is_not_hurried_either(
    cluster, watching, monkeypatch
):
    monkeypatch.setattr("agents.kubernetes.watch.random.randint", lambda low, high: 0.02)
    watch = watching()
    for number in range(8):
        cluster.put(pod("chat-0", f"u-{number}"))
        until(lambda told=number: len(watch.waits) > told)
    assert min(chosen.wait_s for chosen in watch.waits) >= 0.5


def test_what_an_error_says_is_shown_without_what_a_terminal_obeys(cluster, watching):
    watch = watching()
    until(lambda: cluster.watching == 1)
    told = status(500, "InternalError", "boom\x1b[31m\n")
    cluster.say(json.dumps({"type": "ERROR", "object": told}).encode() + b"\n")
    until(lambda: "boom" in watch.trouble)
    assert watch.trouble.isprintable()


def test_a_full_roster_takes_changes_and_no_more_pods(cluster, watching, monkeypatch):
    monkeypatch.setattr(watch_module, "MOST_PODS", 1)
    cluster.put(pod("chat-0", "u-1"))
    watch = watching()
    until(lambda: cluster.watching == 1)
    cluster.put(pod("chat-0", "u-1", labels=CHAT))
    until(lambda: names(watch) == {"default/chat-0 of service chat"})
    cluster.put(pod("chat-1", "u-2"))
    until(lambda: "more than 1 pods" in watch.trouble)


def test_a_watch_that_breaks_within_an_event_loses_nothing(cluster, watching):
    watch = watching()
    until(lambda: cluster.watching == 1)
    cluster.cut()
    cluster.put(pod("chat-0", "u-1"))
    until(lambda: names(watch) == {"default/chat-0"})
    assert len(lists(cluster)) == 1


def test_a_token_that_is_renewed_is_read_anew(cluster, watching, token):
    cluster.tokens = {"token-2"}
    watch = watching()
    until(lambda: "401" in watch.trouble and "kubernetes_token" in watch.trouble)
    token.write_text("token-2")
    cluster.put(pod("chat-0", "u-1"))
    until(lambda: names(watch) == {"default/chat-0"} and watch.trouble == "")


def test_a_token_that_ends_while_a_watch_runs_costs_one_watch(cluster, watching, token):
    cluster.put(pod("chat-0", "u-1"))
    watch = watching()
    until(lambda: cluster.watching == 1)
    cluster.tokens = {"token-2"}
    cluster.cut()
    until(lambda: "401" in watch.trouble)
    assert names(watch) == {"default/chat-0"}
    token.write_text("token-2")
    until(lambda: watch.trouble == "")
    assert len(lists(cluster)) == 1


def test_an_account_that_may_not_list_is_told_what_it_needs(cluster, watching):
    cluster.may_list = False
    watch = watching()
    until(lambda: "403" in watch.trouble)
    assert "pods is forbidden" in watch.trouble
    assert "docs/kubernetes.md" in watch.trouble


@pytest.mark.parametrize("code", [429, 503])
def test_a_server_that_asks_for_time_gets_it(cluster, watching, code):
    busy = status(code, "TooManyRequests", "the server has received too many requests")
    cluster.fail(code, busy, headers={"Retry-After": "7"})
    watch = watching()
    until(lambda: watch.settled.is_set() and watch.trouble == "")
    assert 7.0 <= watch.waits[0].wait_s <= 9.0


@pytest.mark.parametrize("header", ["-5", "soon", "9" * 400, "Wed, 21 Oct 2026 07:28:00 GMT", "²"])
def test_a_time_that_is_none_is_not_waited_for(cluster, watching, header):
    header = header.encode().decode("latin-1")
    cluster.fail(503, headers={"Retry-After": header})
    watch = watching()
    until(lambda: watch.waits)
    assert 0.5 <= watch.waits[0].wait_s <= 1.0


HOSTILE = {
    "nothing": b"",
    "no JSON": b"<html>Bad gateway</html>",
    "no object": b"[]",
    "null": b"null",
    "another kind": b'{"kind": "Status", "metadata": {}}',
    "items of another type": b'{"kind": "PodList", "metadata": {}, "items": {"a": 1}}',
    "without a version": b'{"kind": "PodList", "metadata": {}}',
    "a version that is a number": b'{"kind": "PodList", "metadata": {"resourceVersion": 7}}',
    "without end": b'{"kind": "PodList", "items": ' + b"[" * 200_000,
    "text that is none": b'{"kind": "PodList", "metadata": {"resourceVersion": "\xff"}}',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_list_that_is_none_is_told_and_asked_for_again(cluster, watching, body):
    cluster.fail(200, body)
    cluster.put(pod("chat-0", "u-1"))
    watch = watching()
    until(lambda: names(watch) == {"default/chat-0"})
    assert watch.waits[0].anew
    assert watch.waits[0].wait_s >= 0.5


LINES = {
    "no JSON": b"}{\n",
    "no event": b'{"kind": "Pod"}\n',
    "no object": b'{"type": "ADDED", "object": 5}\n',
    "a bookmark of nothing": b'{"type": "BOOKMARK", "object": null}\n',
    "an error without a code": b'{"type": "ERROR", "object": {}}\n',
    "an error that is none": b'{"type": "ERROR", "object": "x"}\n',
    "a line without end": b'{"type": "' + b"x" * (5 << 20) + b'"}\n',
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_an_event_that_is_none_costs_the_watch_and_nothing_else(cluster, watching, line):
    cluster.put(pod("chat-0", "u-1"))
    watch = watching()
    until(lambda: cluster.watching == 1)
    cluster.say(line)
    until(lambda: watch.waits)
    cluster.put(pod("chat-1", "u-2"))
    until(lambda: len(names(watch)) == 2 and watch.trouble == "")


def test_a_kind_of_event_that_nobody_knows_yet_is_passed_over(cluster, watching):
    watch = watching()
    until(lambda: cluster.watching == 1)
    later = {"type": "RENAMED", "object": {"metadata": {"resourceVersion": "2000"}}}
    cluster.say(json.dumps(later).encode() + b"\n")
    until(lambda: watch._version == "2000")
    assert watch.waits == []


def test_one_pod_of_nonsense_hides_no_other(cluster, watching):
    bad = pod("chat-9", "u-9")
    bad["metadata"]["labels"] = {LABEL: 7}
    cluster.put(bad)
    cluster.put(pod("chat-0", "u-1"))
    watch = watching()
    until(lambda: names(watch) == {"default/chat-0"})
    cluster.put(pod("chat-9", "u-9\x1b[31m"))
    cluster.put(pod("chat-1", "u-2"))
    until(lambda: names(watch) == {"default/chat-0", "default/chat-1"})


def test_a_watch_that_is_closed_lets_its_thread_end(cluster, watching):
    watch = watching()
    until(lambda: cluster.watching == 1)
    watch.close()
    assert not watch._thread.is_alive()
