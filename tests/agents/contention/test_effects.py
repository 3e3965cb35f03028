from __future__ import annotations

import numpy as np
import pytest

from agents.contention.effects import family, pair_effect


def test_a_family_is_the_name_without_its_number():
    assert family("resnet-31") == "resnet"
    assert family("wide-deep-07") == "wide-deep"
    assert family("bert") == "bert"


def test_all_jobs_of_a_family_have_the_same_effect_on_a_service():
    assert pair_effect(7, "search-rank", "bert-01") == pair_effect(7, "search-rank", "bert-99")


@pytest.mark.parametrize(
    "other",
    [(8, "search-rank", "bert-01"), (7, "ads-ctr", "bert-01"), (7, "search-rank", "vit-01")],
)
def test_another_seed_service_or_family_has_another(other):
    assert pair_effect(*other) != pair_effect(7, "search-rank", "bert-01")


def test_a_job_alone_has_none():
    assert pair_effect(7, "", "bert-01") == (1.0, 1.0)


def test_effects_are_bounded_and_centred():
    drawn = np.array([pair_effect(1, f"service-{n}", "bert") for n in range(400)])
    assert drawn.min() >= 0.5
    assert drawn.max() <= 2.0
    assert np.median(drawn) == pytest.approx(1.0, abs=0.08)
