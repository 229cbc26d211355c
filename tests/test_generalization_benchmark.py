"""The statistics and the rules behind docs/generalization.md."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import generalization
import ranks
import tuned_boosters
from rivals import Boosted, Term


def boosted_run():
    """Four rounds of two distinct stumps: a, a, b, a."""
    a, b = (0, 0.5), (1, 0.5)
    terms = [Term(*cut, below=-1.0, above=1.0) for cut in (a, a, b, a)]
    return tuned_boosters.Run(Boosted(0.25, terms), constant=0.1)


def test_repeated_stumps_are_free_when_distinct_ones_are_charged():
    run = boosted_run()
    assert [run.rounds(k, "stumps") for k in (0, 1, 2, 3)] == [0, 2, 4, 4]
    assert [run.rounds(k, "rounds") for k in (0, 1, 2, 9)] == [0, 1, 2, 4]


@pytest.mark.parametrize("charge", tuned_boosters.CHARGES)
def test_staged_scores_are_those_of_the_models(charge):
    run = boosted_run()
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    staged = run.staged(X)
    for k in range(4):
        np.testing.assert_allclose(staged[run.rounds(k, charge)], run.model(k, charge).scores(X))


def test_rules_choose_smaller_models_than_the_least_loss():
    rng = np.random.default_rng(0)
    noise = rng.random(400)  # the same rows are hard for every size
    means = np.array([1.0, 0.5, 0.402, 0.4])
    losses = means[:, None] + noise + 0.01 * rng.standard_normal((4, 400))
    assert tuned_boosters.least(losses) == 3
    assert tuned_boosters.one_standard_error(losses) == 2
    assert tuned_boosters.paired(losses) == 3  # pairing sees that 0.402 is really worse
    assert tuned_boosters.paired(losses[:2]) == 1


def test_splits_are_stratified_disjoint_and_repeatable():
    y = np.where(np.arange(1000) < 300, 1, -1)
    train, test = generalization.split_rows("heart", y, 3, 500)
    assert len(train) == 500
    assert len(test) == 500
    assert not set(train) & set(test)
    assert np.sum(y[train] > 0) == 150
    again, _ = generalization.split_rows("heart", y, 3, 500)
    np.testing.assert_array_equal(train, again)
    other, _ = generalization.split_rows("heart", y, 4, 500)
    assert not np.array_equal(train, other)


def test_measures_of_perfect_and_of_constant_scores():
    y = np.array([1, -1, 1, -1])
    perfect = generalization.measures(30.0 * y, y)
    assert perfect["error"] == 0.0
    assert perfect["auc"] == 1.0
    assert perfect["log_loss"] == pytest.approx(generalization.CLIP, rel=1e-3)
    constant = generalization.measures(np.zeros(4), y)
    assert constant["log_loss"] == pytest.approx(np.log(2.0))
    assert constant["calibration"] == 0.0


def test_calibration_error_is_the_mean_gap_of_the_bins():
    p = np.array([0.1, 0.1, 0.9, 0.9])
    is_plus = np.array([False, False, True, False])
    assert generalization.calibration_error(p, is_plus) == pytest.approx((0.2 + 0.8) / 4)


def test_ranks_of_equal_values_are_shared_and_demsars_example_has_its_difference():
    assert ranks.mean_ranks({"a": [1.0, 2.0], "b": [2.0, 2.0]}) == {"a": 1.25, "b": 1.75}
    assert ranks.critical_difference(4, 14) == pytest.approx(1.25, abs=0.01)
    assert ranks.groups([1.0, 1.5, 3.0, 3.2], 1.0) == [(0, 1), (2, 3)]


def test_one_against_others_counts_wins_and_corrects_after_holm():
    rng = np.random.default_rng(1)
    mine = rng.random(30)
    better, equal = ranks.against(mine, {"worse": mine + 0.1 + rng.random(30), "same": mine})
    assert (better.wins, better.ties, better.losses) == (30, 0, 0)
    assert better.mean < 0
    assert better.p_adjusted == pytest.approx(2 * better.p_value)
    assert (equal.ties, equal.p_value) == (30, 1.0)


def test_lines_cut_off_while_written_are_left_out(tmp_path):
    generalization.keep(tmp_path, {"data": "heart"})
    with open(tmp_path / "results.jsonl", "a", encoding="utf-8") as file:
        file.write('{"data": "ger')
    assert generalization.read_lines(tmp_path) == [{"data": "heart"}]
    generalization.keep(tmp_path, {"data": "german"})
    assert [line["data"] for line in generalization.read_lines(tmp_path)] == ["heart", "german"]
