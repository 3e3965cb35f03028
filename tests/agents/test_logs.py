from __future__ import annotations

import json
import logging
import sys

import pytest

from agents import logs
from agents.logs import PLAIN, JsonFormatter, PlainFormatter, Repeats


def record(text, *args, level=logging.WARNING, exc_info=None):
    return logging.LogRecord("agents.link", level, __file__, 1, text, args, exc_info)


@pytest.fixture
def hidden(monkeypatch):
    monkeypatch.setattr(logs, "_hidden", set())
    logs.hide(["t0ken-of-the-node", ""])


def test_one_json_object_a_line():
    line = JsonFormatter().format(record("no connection:\n%s", 'a "reset"'))
    assert "\n" not in line
    told = json.loads(line)
    assert told["message"] == 'no connection:\na "reset"'
    assert (told["level"], told["logger"]) == ("WARNING", "agents.link")
    assert told["at"].endswith("+00:00")


def test_an_exception_is_in_the_object_too():
    try:
        raise ValueError("password=hunter2")
    except ValueError:
        line = JsonFormatter().format(record("failed", exc_info=sys.exc_info()))
    assert "ValueError" in json.loads(line)["exception"]
    assert "hunter2" not in line


@pytest.mark.parametrize("formatter", [JsonFormatter(), PlainFormatter(PLAIN)])
@pytest.mark.parametrize(
    "text",
    [
        "sent t0ken-of-the-node",
        "Authorization: Bearer abc.SECRET-1",
        "wss://me:SECRET-1@console/ws",
        "token=SECRET-1&x=1",
        '{"key_hex": "SECRET-1"}',
        "api-key: SECRET-1",
    ],
)
def test_no_secret_is_in_a_line(hidden, formatter, text):
    line = formatter.format(record(text))
    assert "SECRET-1" not in line
    assert "t0ken-of-the-node" not in line
    assert "***" in line


@pytest.mark.parametrize(
    "text",
    [
        "the console does not know this token: enrol the node again",
        "a one-time token was used up: make another",
        "node-01: connected to ws://127.0.0.1:8000/ws/agent/",
    ],
)
def test_what_is_said_of_secrets_is_no_secret(hidden, text):
    assert PlainFormatter("%(message)s").format(record(text)) == text


def test_a_line_that_cannot_be_made_costs_nothing_but_itself():
    assert Repeats(lambda: 0.0).filter(record("%d GPUs", "many"))


def test_the_same_thing_is_said_once_a_minute_with_how_often_it_was_not():
    now = 0.0
    repeats = Repeats(lambda: now)
    passed = []
    for now in range(130):
        one = record("a step for GPU %d failed", 3)
        if repeats.filter(one):
            passed.append((now, one.repeated))
    assert passed == [(0, 0), (60, 59), (120, 59)]


def test_another_text_or_level_is_another_thing():
    repeats = Repeats(lambda: 0.0)
    several = [record("a"), record("b"), record("a", level=logging.ERROR), record("a")]
    assert [repeats.filter(one) for one in several] == [True, True, True, False]


def test_what_is_only_told_is_told_each_time():
    repeats = Repeats(lambda: 0.0)
    assert all(repeats.filter(record("connected", level=logging.INFO)) for _ in range(3))


def test_what_is_remembered_is_bounded():
    repeats = Repeats(lambda: 0.0)
    for number in range(3 * logs.MOST):
        repeats.filter(record("%d", number))
    assert len(repeats._said) <= logs.MOST
