"""What a profile is made of, without a database."""

from __future__ import annotations

import random

import pytest

from console.workloads import quantise
from console.workloads.profiles import Profile, conservative, key_of, measured

GIB = 1 << 30
CARD = 24 * GIB
TOLD = {
    "window_s": 60.0,
    "samples": 58,
    "gpu_util_percent": 88.4,
    "sm_percent": 51.7,
    "occupancy_percent": 32.3,
    "memory_bandwidth_percent": 29.2,
    "memory_bytes": 9 * GIB - 5,
    "step_s": 0.25,
    "launches_per_s": 4_000,
}


def test_what_was_measured_is_the_profile():
    assert measured(TOLD, CARD) == Profile(50, 90, 9 * GIB, 30, 30, 0.25)


def test_noise_of_measuring_makes_no_new_class():
    rng = random.Random(1)
    noisy = {
        measured(
            {
                **TOLD,
                "sm_percent": 50 + rng.uniform(-2, 2),
                "gpu_util_percent": 90 + rng.uniform(-2, 2),
                "memory_bytes": 9 * GIB - rng.randrange(300 << 20),
                "step_s": 0.25 * rng.uniform(0.97, 1.03),
            },
            CARD,
        )
        for _ in range(200)
    }
    assert len(noisy) == 1


@pytest.mark.parametrize("gib", [1, 2, 3, 7, 8, 14, 20, 32])
def test_round_figures_of_memory_stay_what_they_are(gib):
    assert quantise.memory(gib * GIB) == gib * GIB


def test_memory_is_never_rounded_down_and_by_little_up():
    rng = random.Random(2)
    for _ in range(500):
        wanted = int(2 ** rng.uniform(26, 41))
        assert wanted <= quantise.memory(wanted) <= wanted * 1.07 + 1


def test_what_is_rounded_stays_so():
    for value in range(0, 101):
        assert quantise.percent(quantise.percent(value)) == quantise.percent(value)
    for step_s in (0.001, 0.3, 7.0, 900.0):
        assert quantise.time(quantise.time(step_s)) == quantise.time(step_s)


def test_little_is_not_nothing():
    assert quantise.percent(0.4) == 5.0
    assert quantise.percent(0.0) == 0.0


def test_what_no_source_reads_is_taken_at_its_upper_bound():
    blind = {**TOLD, "sm_percent": None, "memory_bandwidth_percent": None, "step_s": None}
    assert measured(blind, CARD) == Profile(90, 90, 9 * GIB, 90, 30, None)


@pytest.mark.parametrize(
    "nonsense",
    [
        {"sm_percent": -1},
        {"sm_percent": 100.1},
        {"sm_percent": float("nan")},
        {"sm_percent": "52"},
        {"sm_percent": True},
        {"sm_percent": 95.0, "gpu_util_percent": 10.0},
        {"gpu_util_percent": 0},
        {"gpu_util_percent": None},
        {"memory_bytes": 0},
        {"memory_bytes": None},
        {"memory_bytes": CARD + 1},
        {"memory_bytes": float("inf")},
        {"samples": 2},
        {"samples": None},
        {"window_s": 0},
        {"window_s": 1e9},
        {"step_s": -0.1},
        {"memory_bandwidth_percent": 1e6},
    ],
)
def test_a_measurement_that_cannot_be_is_refused(nonsense):
    with pytest.raises(ValueError, match=r"."):
        measured({**TOLD, **nonsense}, CARD)


def test_of_what_nobody_knows_the_worst_is_assumed():
    assert conservative(None) == Profile(100, 100, 12 * GIB, 100)
    assert conservative(3 * GIB).memory_bytes == 3 * GIB


def test_one_program_of_one_owner_is_one_template():
    template = (1, "train:2", ("python", "a.py"), ("A10", "T4"), 1)
    assert key_of(*template) == key_of(1, "train:2", ["python", "a.py"], ["T4", "A10"], 1)
    for other in (
        (2, *template[1:]),
        (1, "train:3", *template[2:]),
        (1, "train:2", ("python", "b.py"), *template[3:]),
        (*template[:3], (), 1),
        (*template[:4], 2),
    ):
        assert key_of(*other) != key_of(*template)


def test_a_job_that_names_no_program_is_like_no_other():
    assert key_of(1, "", (), (), 1) == ""
