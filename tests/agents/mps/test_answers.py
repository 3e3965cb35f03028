from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.mps import answers
from agents.mps.answers import BadAnswer, Client, Refused, Status

PS = """\
PID ID SERVER DEVICE NAMESPACE COMMAND
9741 0 6472 GPU-cb1213a3-d6a4-be7f 4026531836 ./nbody -benchmark -n 10
9743 0 6472 GPU-cb1213a3-d6a4-be7f 4026531836 python
"""
READERS = [
    answers.pids,
    answers.status,
    answers.clients,
    answers.percentage,
    answers.size_bytes,
    answers.priority,
    answers.done,
]
NOISE = ["\x00\x01\xff garbage", "segmentation violation", "<html>502</html>", "x" * 100_000]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("\n", ()),
        ("6472\n", (6472,)),
        ("6472\n6473\n6472\n", (6472, 6473)),
        ("Server list:\n 6472 \n", (6472,)),
        ("6472\n-1\n0\n99999999\n1e3\n", (6472,)),
        ("٤٢\n6472\n", (6472,)),
    ],
)
def test_pids_are_taken_from_whatever_stands_around_them(text, found):
    assert answers.pids(text) == found


@pytest.mark.parametrize("status", Status)
def test_a_status_is_one_word_anywhere(status):
    assert answers.status(f"Server 6472 is {status}.\n") is status


@pytest.mark.parametrize("text", ["", "INACTIVE", "ACTIVE FAULT", "active", "REACTIVE"])
def test_two_statuses_or_none_are_no_answer(text):
    with pytest.raises(BadAnswer):
        answers.status(text)


def test_clients_keep_their_whole_command():
    first, second = answers.clients(PS)
    assert first == Client(9741, 6472, "GPU-cb1213a3-d6a4-be7f", "./nbody -benchmark -n 10")
    assert second.command == "python"


def test_a_row_that_makes_no_sense_takes_no_other_with_it():
    assert [one.pid for one in answers.clients(PS + "oops\n-5 0 1 x y z\n9744 0 6472\n")] == [
        9741,
        9743,
        9744,
    ]


def test_columns_are_read_by_their_names():
    (client,) = answers.clients("SERVER PID COMMAND\n6472 9741 ./nbody\n")
    assert (client.pid, client.server_pid, client.command) == (9741, 6472, "./nbody")


def test_a_header_alone_is_nobody():
    assert answers.clients("PID ID SERVER DEVICE NAMESPACE COMMAND\n") == ()


@pytest.mark.parametrize(
    ("text", "percent"), [("100.0\n", 100.0), ("50", 50.0), ("Percentage: 33.5 %", 33.5)]
)
def test_a_percentage(text, percent):
    assert answers.percentage(text) == percent


@pytest.mark.parametrize("text", ["", "0", "101", "nan", "-5 inf"])
def test_no_percentage(text):
    if text == "-5 inf":  # the sign is no part of the number that is found
        assert answers.percentage(text) == 5.0
        return
    with pytest.raises(BadAnswer):
        answers.percentage(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", None),
        ("no limit", None),
        ("1G", 1 << 30),
        ("512MB", 512 << 20),
        ("limit for device 0 set to 0x140000000 bytes", 0x140000000),
        ("4194304", 4 << 20),
    ],
)
def test_a_memory_limit(text, size):
    assert answers.size_bytes(text) == size


@pytest.mark.parametrize("text", ["0", "502", "99999999999999999G", "much"])
def test_no_memory_limit(text):
    with pytest.raises(BadAnswer):
        answers.size_bytes(text)


@pytest.mark.parametrize("text", ["", "100.0\n", "CUDA_SUCCESS\n", "0\n"])
def test_what_is_done(text):
    answers.done(text)


@pytest.mark.parametrize(
    "text",
    ["Failed to terminate", "Invalid arguments", "Server not found", "permission denied", "ERROR"],
)
def test_what_is_refused(text):
    with pytest.raises(Refused, match="refused"):
        answers.done(text)


@pytest.mark.parametrize("read", [one for one in READERS if one is not answers.done])
@pytest.mark.parametrize("text", NOISE)
def test_noise_is_no_answer(read, text):
    with pytest.raises(BadAnswer) as refusal:
        read(text)
    assert len(str(refusal.value)) < 300
    assert str(refusal.value).isprintable()


@pytest.mark.parametrize("read", READERS)
@given(text=st.text())
def test_any_text_is_an_answer_or_none(read, text):
    with contextlib.suppress(BadAnswer):
        read(text)
