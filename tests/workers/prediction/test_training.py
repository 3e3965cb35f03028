from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.workers.prediction.made import CARD, observations, profiles
from workers import train as command
from workers.prediction import artifact, learner, linear, training
from workers.prediction.analytic import Analytic
from workers.prediction.learner import Recipe, TorchMissing
from workers.prediction.observations import write_csv

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch: run `make ml`"
)
QUICK = Recipe(
    members=2,
    folds=3,
    width=16,
    layers=2,
    most_epochs=120,
    least_epochs=2,
    student_steps=200,
    alike=60,
)


@pytest.fixture(scope="module")
def learnt() -> training.Learnt:
    return training.train(observations(12, 10), seed=1, origin="measured", recipe=QUICK)


@needs_torch
@pytest.mark.timeout(120)
def test_what_is_learnt_beats_all_that_is_not(learnt):
    overall = learnt.report.overall
    rivals = [overall[name].mae for name in ("analytic", "mean", "additive")]
    assert overall["network"].mae < 0.7 * min(rivals)
    assert learnt.report.online["network"].mae < learnt.report.online["analytic"].mae


@needs_torch
def test_the_report_is_plain_json(learnt):
    told = json.loads(json.dumps(learnt.report.to_json(), allow_nan=False))
    assert told == artifact.header(learnt.data)["report"]
    assert told["counts"]["pairs"] == 120
    assert 0.0 < sum(told["blend"].values()) <= 1.0
    assert 0.6 < told["coverage_90"] <= 1.0


@needs_torch
def test_the_quick_network_says_what_the_ensemble_says(learnt):
    assert learnt.report.student_gap < learnt.report.overall["network"].mae


@needs_torch
def test_the_file_predicts_what_the_report_says(learnt):
    seen = observations(12, 10)
    rest = seen.take(np.flatnonzero(training.held_out(seen)))
    told = artifact.load(learnt.data, 1).judge(rest.online, rest.jobs, rest.share, rest.gpu_model)
    missed = float(np.abs(told.throughput - rest.throughput).mean())
    assert missed == pytest.approx(learnt.report.overall["network"].mae, rel=1e-6)


@needs_torch
def test_what_learnt_from_a_simulated_card_serves_no_real_one():
    seen = observations(6, 6)
    cards = tuple(f"simulated:{CARD}" if at % 2 else CARD for at in range(len(seen)))
    tiny = replace(QUICK, most_epochs=2, student_steps=2)
    made = training.train(replace(seen, gpu_model=cards), seed=1, origin="a fleet", recipe=tiny)
    predictor = artifact.load(made.data)
    assert predictor.view.gpu_models == (f"simulated:{CARD}",)
    told = predictor.judge(profiles(1), profiles(1, 1), np.array([0.5]), (CARD,))
    assert told.source == ("analytic estimate",)


@needs_torch
def test_a_side_that_was_never_measured_stays_with_the_estimate():
    seen = observations(6, 6)
    blind = replace(seen, slowdown=np.full(len(seen), np.nan))
    tiny = replace(QUICK, most_epochs=2, student_steps=2)
    made = artifact.load(training.train(blind, seed=1, origin="a", recipe=tiny).data)
    assert made.model.trust[1] == made.model.near[1] == made.model.lift[1] == 0.0
    assert np.isposinf(made.model.calibration.quantile[1])
    one = made.judge(profiles(1), profiles(1, 1), np.array([0.5]), (CARD,))
    assert (
        one.slowdown
        == Analytic().judge(profiles(1), profiles(1, 1), np.array([0.5]), (CARD,)).slowdown
    )


def test_the_same_pairs_are_held_out_at_every_training():
    seen = observations(12, 10)
    before = set(np.array(training.pairs_of(seen))[training.held_out(seen)])
    more = observations(14, 10)
    after = set(np.array(training.pairs_of(more))[training.held_out(more)])
    assert before <= after
    assert 0.1 < len(before) / 120 < 0.3


def test_every_fold_hides_all_that_shares_its_labels():
    labels = [("a", "b"), ("b", "c"), ("d", "d"), ("c", "a")]
    for hidden in learner.folds_of(labels, 4, seed=1):
        away = {label for pair, out in zip(labels, hidden, strict=True) if out for label in pair}
        seen = {
            label for pair, out in zip(labels, hidden, strict=True) if not out for label in pair
        }
        assert away - seen
        assert hidden.any()


def test_too_few_pairs_are_refused():
    with pytest.raises(ValueError, match="too few pairs"):
        training.train(observations(1, 1), seed=1, origin="measured", recipe=QUICK)


def test_an_output_that_is_never_known_is_not_learnt():
    x = np.random.default_rng(1).standard_normal((20, 2))
    target = np.column_stack([x[:, 0], np.full(20, np.nan)])
    fitted = linear.fit(x, target, np.ones(20), penalty=1e-6)
    np.testing.assert_allclose(fitted.slope, [[1.0, 0.0], [0.0, 0.0]], atol=1e-4)


def test_without_torch_it_says_the_way_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    write_csv(observations(6, 6), tmp_path / "pairs.csv")
    out = str(tmp_path / "w.npz")
    monkeypatch.setattr(sys, "argv", ["train", str(tmp_path / "pairs.csv"), "--out", out])
    assert command.main() == command.NO_TORCH
    assert "make ml" in capsys.readouterr().err
    with pytest.raises(TorchMissing):
        learner._torch()


def test_a_table_that_cannot_be_read_ends_the_command_with_the_reason(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "pairs.csv").write_text("a,b\n1,2\n")
    out = str(tmp_path / "w.npz")
    monkeypatch.setattr(sys, "argv", ["train", str(tmp_path / "pairs.csv"), "--out", out])
    assert command.main() == command.UNUSABLE
    assert "columns" in capsys.readouterr().err
