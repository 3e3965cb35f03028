from __future__ import annotations

from datetime import timedelta

from console.overview import charts, history
from console.overview.history import Baseline, Mark
from console.overview.windows import WINDOWS, chosen
from tests.console.inventory.cast import NOW
from tests.console.overview.cast import a_sample

QUARTER = WINDOWS[0]
ON = Mark(NOW - timedelta(seconds=300), True, "ortega")


def points(*values):
    return history.fleet(
        a_sample(10 * i - 900, sm_activity_percent=value) for i, value in enumerate(values)
    )


def test_the_charts_share_their_times_and_marks():
    drawn = charts.charts(points(30, 31, 32), [ON], QUARTER, NOW)
    assert drawn["sm"]["x"] == drawn["gained"]["x"] == drawn["p99"]["x"]
    assert [mark["at"] for mark in drawn["sm"]["marks"]] == [ON.at.timestamp()]
    assert drawn["p99"]["marks"] == [{"at": ON.at.timestamp(), "label": "Sharing on"}]


def test_the_first_mark_says_when_and_who():
    drawn = charts.charts(points(30, 31), [ON], QUARTER, NOW)
    assert drawn["sm"]["marks"][0]["label"] == "Sharing on, 11:55, ortega"


def test_the_ground_before_sharing_is_shaded():
    drawn = charts.charts(points(30, 31), [ON], QUARTER, NOW)
    assert drawn["sm"]["shaded"] == [{"from": None, "to": ON.at.timestamp(), "label": "before"}]


def test_a_mark_outside_the_window_is_left_out():
    old = Mark(NOW - timedelta(days=2), True, "ortega")
    drawn = charts.charts(points(30, 31), [old], QUARTER, NOW)
    assert (drawn["sm"]["marks"], drawn["sm"]["shaded"]) == ([], [])


def test_missing_samples_stay_missing():
    drawn = charts.charts(points(30, None, 32), [], QUARTER, NOW)
    assert drawn["sm"]["series"][0]["values"] == [30, None, 32]


def test_the_words_say_before_and_gain():
    words = charts.words(points(30, 52.4), Baseline(sm_activity_percent=33.9))
    assert words["sm_was"] == "was 33.9\u00a0% before sharing,"
    assert words["sm_gain"] == "+18.5\u00a0points"
    assert words["p99_was"] == ""


def test_the_words_of_no_sample_are_missing():
    words = charts.words([], Baseline())
    assert (words["gained"], words["sm_gain"]) == (None, "")


def test_the_table_ends_with_the_newest_sample():
    line = points(*range(100))
    rows = charts.table(line)
    assert len(rows) == 12
    assert rows[0] == line[-1]


def test_without_a_choice_the_window_holds_the_whole_history():
    assert chosen("", NOW - timedelta(minutes=5), NOW).key == "15m"
    assert chosen("", NOW - timedelta(hours=30), NOW).key == "14d"
    assert chosen("", None, NOW).key == "15m"


def test_the_address_chooses_the_window():
    assert chosen("24h", None, NOW).key == "24h"
    assert chosen("nonsense", None, NOW).key == "15m"
