from __future__ import annotations

import pytest

from tests.report import Outcome, forbid_skips, judge

REPORT = """<testsuites><testsuite>
  <testcase name="a"/>
  <testcase name="b"><failure message="no"/></testcase>
  <testcase name="c"><failure message="no"/><error message="nor its teardown"/></testcase>
  <testcase name="d"><skipped type="pytest.skip" message="data: no folder"/></testcase>
  <testcase name="e"><skipped type="pytest.xfail" message="known"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "report.xml"
    path.write_text(REPORT)
    return path


def test_each_test_counts_once(report):
    assert judge(1, report) == Outcome(passed=2, failed=2, skipped=("data: no folder",))


def test_a_crash_without_a_failed_test_counts_as_a_failure(tmp_path):
    assert judge(-9, tmp_path / "never-written.xml") == Outcome(failed=1)


@pytest.mark.parametrize(("returncode", "outcome"), [(0, Outcome(1, 0)), (2, Outcome(0, 1))])
def test_a_stage_without_a_report_counts_by_its_exit_status(returncode, outcome):
    assert judge(returncode, None) == outcome


def test_only_absent_data_may_be_skipped():
    outcome = Outcome(passed=1, skipped=("data: no folder", "redis: no server"))
    assert forbid_skips(outcome, has_data=False) == Outcome(1, 1, ("data: no folder",))


def test_present_data_may_not_be_skipped():
    assert forbid_skips(Outcome(skipped=("data: no folder",)), has_data=True) == Outcome(failed=1)


def test_the_closing_line_names_skips_only_when_there_are_some():
    assert str(Outcome(2, 0)) == "2 passed, 0 failed"
    assert str(Outcome(2, 1, ("data: none",))) == "2 passed, 1 failed, 1 skipped"
