"""What a stage of `make test` came to, read from its JUnit report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree


@dataclass(frozen=True)
class Outcome:
    passed: int = 0
    failed: int = 0
    skipped: tuple[str, ...] = ()  # the reasons

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        counts = f"{self.passed} passed, {self.failed} failed"
        return f"{counts}, {len(self.skipped)} skipped" if self.skipped else counts


def judge(returncode: int, report: Path | None) -> Outcome:
    """Return the outcome of a stage that ended with `returncode` and wrote `report`, if it does.

    A stage that fails without a failed test (a crash, a deadline, a usage error) counts as one.
    """
    if report is None:
        return Outcome(passed=int(returncode == 0), failed=int(returncode != 0))
    outcome = read_report(report) if report.exists() else Outcome()
    if returncode != 0 and not outcome.failed:
        return outcome + Outcome(failed=1)
    return outcome


def read_report(report: Path) -> Outcome:
    """Count the test cases of a JUnit file. An expected failure counts as passed."""
    outcome = Outcome()
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - written by our own stage
        outcome += judge_case(case)
    return outcome


def judge_case(case: ElementTree.Element) -> Outcome:
    if case.find("failure") is not None or case.find("error") is not None:
        return Outcome(failed=1)
    skipped = case.find("skipped")
    if skipped is None or skipped.get("type") == "pytest.xfail":
        return Outcome(passed=1)
    return Outcome(skipped=(skipped.get("message") or "no reason given",))


def forbid_skips(outcome: Outcome, *, has_data: bool) -> Outcome:
    """Return `outcome` with every skip turned into a failure that has no right to be one.

    Only "data: …" may be skipped, and only where MUXFLOW_DATA names no folder: whatever else a test
    needs, the run brings.
    """
    allowed = tuple(
        reason for reason in outcome.skipped if reason.startswith("data:") and not has_data
    )
    return Outcome(
        outcome.passed, outcome.failed + len(outcome.skipped) - len(allowed), skipped=allowed
    )
