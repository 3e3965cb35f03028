from __future__ import annotations

from agents.complaints import MOST, Complaints


def test_a_complaint_is_due_once_a_minute():
    moments = iter([0.0, 1.0, 59.0, 61.0])
    complaints = Complaints(lambda: next(moments))
    assert [complaints.due("disk full") for _ in range(4)] == [True, False, False, True]


def test_complaints_do_not_hide_each_other():
    complaints = Complaints(lambda: 0.0)
    assert complaints.due("disk full")
    assert complaints.due("disk slow")


def test_ever_new_complaints_are_not_remembered_without_end():
    complaints = Complaints(lambda: 0.0)
    assert all(complaints.due(f"number {number}") for number in range(2 * MOST))
    assert len(complaints._said_at) <= MOST
