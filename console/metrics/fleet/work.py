"""The series of what is done for the fleet as a whole: jobs, rounds, queues, leases. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from console.metrics.exposition import Family
from console.metrics.fleet.facts import FleetFacts
from console.metrics.fleet.families import counter, gauge

OPEN_JOBS: Final = ("PENDING", "PROFILING", "QUEUED", "PLACED")
ENDED_JOBS: Final = ("SUCCEEDED", "FAILED", "CANCELLED")


def families(facts: FleetFacts) -> Iterator[Family]:
    words = "When this page was made, in Unix time: its age is time() less this."
    yield gauge("fleet_rendered_timestamp_seconds", words, [({}, round(facts.now, 3))])
    yield from _jobs(facts)
    yield from _rounds(facts)
    words = "Messages that wait for a worker."
    yield gauge("queue_messages", words, [({"queue": name}, n) for name, n in facts.waiting])
    yield from _leases(facts)


def _jobs(facts: FleetFacts) -> Iterator[Family]:
    words = "Offline jobs that have not ended, by state."
    yield gauge("jobs", words, [({"state": s}, facts.jobs.get(s, 0)) for s in OPEN_JOBS])
    words = "Offline jobs that have ended, by how."
    ended = [({"state": state}, facts.jobs.get(state, 0)) for state in ENDED_JOBS]
    yield counter("jobs_ended_total", words, ended)


def _rounds(facts: FleetFacts) -> Iterator[Family]:
    told = [({"kind": one.kind, "state": one.state}, one) for one in facts.rounds]
    words = "Matching rounds, by how they went."
    yield counter("rounds_total", words, [(pairs, one.times) for pairs, one in told])
    words = "When the last round of this kind and outcome ended, in Unix time."
    yield gauge("round_last_timestamp_seconds", words, [(p, one.last_at) for p, one in told])


def _leases(facts: FleetFacts) -> Iterator[Family]:
    told = [({"lease": lease.name}, lease) for lease in facts.leases]
    words = "1 while a process holds the lease, which lets one alone do that work."
    yield gauge("lease_held", words, [(pairs, lease.held) for pairs, lease in told])
    words = "Times that the lease was taken."
    yield counter("lease_taken_total", words, [(pairs, lease.taken) for pairs, lease in told])
    words = "Until when it was last taken, in Unix time; long past: nobody does that work."
    until = [(pairs, round(lease.until, 3)) for pairs, lease in told]
    yield gauge("lease_until_timestamp_seconds", words, until)
