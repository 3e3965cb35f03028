"""When samples of a running pair become one observation, and when they do not."""

from __future__ import annotations

import pytest

from console.predictor import windows
from console.predictor.windows import Reading, Sample

WINDOW_S = 30.0


def a_sample(at: float, *, share: float = 60.0, held_at: float = 0.0, **values) -> Sample:
    facts = {
        "throughput": 0.5,
        "duty_percent": 60.0,
        "sm_percent": 20.0,
        "util_percent": 50.0,
        "occupancy_percent": None,
        "bandwidth_percent": 15.0,
        "memory_percent": 25.0,
    }
    return Sample("p", at, share, held_at, Reading(**facts | values))


def full_of(samples) -> list[windows.Window]:
    """The windows that fill while `samples` come one by one; None: it is not there this time."""
    open_, full = {}, []
    for sample in samples:
        open_, now_full = windows.advance(open_, [sample] if sample else [], WINDOW_S)
        full += now_full.values()
    return full


def every(step_s: float, until: float, **values) -> list[Sample]:
    return [a_sample(at * step_s, **values) for at in range(int(until / step_s) + 1)]


def test_a_steady_job_gives_one_observation_a_window():
    first, second = full_of(every(5, 65))
    assert (first.began_at, first.last_at) == (0.0, 30.0)
    assert (second.began_at, second.last_at) == (35.0, 65.0)


def test_an_observation_is_the_mean_of_what_was_read():
    samples = [a_sample(0, throughput=0.4, p99_ratio=1.2)]
    samples += [a_sample(15, throughput=0.5), a_sample(30, throughput=0.6)]
    mean = windows.average(full_of(samples)[0])
    assert mean.throughput == pytest.approx(0.5)
    assert mean.p99_ratio == pytest.approx(1.2)
    assert mean.occupancy_percent is None


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(a_sample(15, held_at=12.0), id="held and let go between two samples"),
        pytest.param(a_sample(15, share=50.0, duty_percent=50.0), id="another SM share"),
        pytest.param(a_sample(15, duty_percent=20.0), id="held back by its duty"),
        pytest.param(None, id="frozen, or without live samples"),
    ],
)
def test_what_disturbs_a_window_drops_it_whole(broken):
    undisturbed = every(5, 40)
    samples = [broken if one.at == 15 else one for one in undisturbed]
    held_at = broken.held_at if broken else 0.0
    samples = [a_sample(s.at, held_at=held_at) if s and s.at > 15 else s for s in samples]
    assert full_of(undisturbed)
    assert full_of(samples) == []


def test_a_gap_in_the_samples_drops_the_window():
    assert full_of([a_sample(0), a_sample(5), a_sample(10), a_sample(41), a_sample(45)]) == []


def test_a_report_that_is_told_twice_counts_once():
    (window,) = full_of([a_sample(0), a_sample(15), a_sample(15), a_sample(30)])
    assert len(window.readings) == 3


@pytest.mark.parametrize(
    ("job", "family"),
    [
        ("resnet-31", "resnet"),
        ("gpt_4", "gpt"),
        ("llama3", "llama"),
        ("2024", "2024"),
        ("t5-x", "t5-x"),
    ],
)
def test_the_family_of_a_job_is_its_name_without_the_number(job, family):
    assert windows.family_of(job) == family
