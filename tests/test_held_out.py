"""Measures on rows that ensembles were not trained on, against scikit-learn and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss, roc_auc_score

from totalqboost import losses
from totalqboost.held_out import HeldOut, joined


def made(n_rows=60, n_sizes=3, seed=0, **changes):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n_rows) < 0.4, 1, -1)
    scores = np.round(rng.normal(size=(n_sizes, n_rows)) + 0.5 * y, 1)  # with ties
    parts = {
        "scores": scores,
        "y": y,
        "weight": np.full(n_rows, 1.0 / n_rows),
        "fold": np.zeros(n_rows, dtype=int),
        "cluster": np.arange(n_rows),
        "loss": losses.get("logistic"),
    }
    return HeldOut(**(parts | changes))


def test_the_measures_are_those_of_scikit_learn():
    rows = made()
    for k, scores in enumerate(rows.scores):
        assert rows.error.mean[k] == pytest.approx(np.mean((scores > 0) != (rows.y > 0)))
        probability = 1.0 / (1.0 + np.exp(-scores))
        assert rows.log_loss.mean[k] == pytest.approx(log_loss(rows.y, probability))
        assert rows.auc.mean[k] == pytest.approx(roc_auc_score(rows.y, scores))


def test_the_standard_error_of_equal_rows_is_the_usual_one():
    rows = made(n_rows=400)
    expected = rows.log_losses.std(axis=1) / np.sqrt(400)
    np.testing.assert_allclose(rows.log_loss.se, expected, rtol=1e-9)


def test_rows_of_one_cluster_are_one_witness():
    """Every row twice, in one cluster: nothing is known better than before."""
    once = made()
    twice = HeldOut(
        np.tile(once.scores, 2),
        np.tile(once.y, 2),
        np.tile(once.weight, 2) / 2,
        np.tile(once.fold, 2),
        np.tile(once.cluster, 2),
        once.loss,
    )
    np.testing.assert_allclose(twice.error.mean, once.error.mean)
    np.testing.assert_allclose(twice.error.se, once.error.se)
    apart = made(**{**vars_of(twice), "cluster": np.arange(len(twice.y))})
    assert (apart.error.se < once.error.se).all()


def vars_of(rows):
    names = ("scores", "y", "weight", "fold", "cluster", "loss")
    return {name: getattr(rows, name) for name in names}


def test_the_error_of_the_area_agrees_with_repeated_samples():
    areas, errors = [], []
    for seed in range(200):
        auc = made(n_rows=80, n_sizes=1, seed=seed).auc
        areas.append(auc.mean[0])
        errors.append(auc.se[0])
    assert np.std(areas) == pytest.approx(np.mean(errors), rel=0.15)


def test_a_fold_of_one_class_has_no_area():
    rows = made(fold=np.repeat([0, 1], 30))
    y = rows.y.copy()
    y[:30] = 1
    rows = made(fold=rows.fold, y=y, scores=rows.scores)
    expected = [roc_auc_score(y[30:], scores[30:]) for scores in rows.scores]
    np.testing.assert_allclose(rows.auc.mean, expected)
    assert np.isnan(made(y=np.ones(60, dtype=int)).auc.mean).all()


def test_excess_is_compared_row_by_row():
    rows = made()
    excess = rows.excess(rows.wrong, 1)
    assert excess.mean[1] == excess.se[1] == 0.0
    difference = rows.wrong[0] - rows.wrong[1]
    assert excess.mean[0] == pytest.approx(difference.mean())
    assert excess.se[0] == pytest.approx(difference.std() / np.sqrt(60))


def test_weights_count():
    weight = np.random.default_rng(1).random(60)
    weight /= weight.sum()
    rows = made(weight=weight)
    np.testing.assert_allclose(rows.error.mean, rows.wrong @ weight)


def test_folds_are_joined():
    first, second = made(seed=1), made(seed=2, fold=np.ones(60, dtype=int))
    both = joined([first, second])
    np.testing.assert_allclose(both.error.mean, (first.error.mean + second.error.mean) / 2)
    np.testing.assert_allclose(both.auc.mean, (first.auc.mean + second.auc.mean) / 2)
    assert both.weight.sum() == pytest.approx(1.0)


def test_hopeless_scores_have_a_finite_log_loss():
    rows = made(scores=np.full((1, 60), -1e6))
    assert np.isfinite(rows.log_loss.mean).all()


@pytest.mark.parametrize(("name", "per_unit"), [("logistic", 1.0), ("exponential", 2.0)])
def test_the_factor_has_the_least_log_loss(name, per_unit):
    from scipy.optimize import minimize_scalar

    rows = made(n_rows=200, loss=losses.get(name))
    rows = made(n_rows=200, scores=rows.scores * [[0.5], [1.0], [2.0]], loss=rows.loss)
    calibrated, factors = rows.calibrated()
    for scores, factor in zip(rows.scores, factors, strict=True):
        margins = per_unit * scores * rows.y
        best = minimize_scalar(
            lambda s, z=margins: np.logaddexp(0.0, -s * z).mean(),
            bounds=(0.25, 4),
            method="bounded",
        )
        assert factor == pytest.approx(best.x, rel=1e-3)
    np.testing.assert_allclose(factors[0] / factors[2], 4.0, rtol=0.8)
    np.testing.assert_array_equal(calibrated.wrong, rows.wrong)


def test_a_fold_is_calibrated_by_the_others():
    """Noise in one fold must not make that fold look better."""
    rows = made(fold=np.repeat([0, 1], 30))
    other = rows.y.copy()
    other[:30] *= -1
    changed = made(fold=rows.fold, y=other, scores=rows.scores)
    first, second = rows.calibrated()[0], changed.calibrated()[0]
    np.testing.assert_allclose(first.scores[:, :30], second.scores[:, :30])


def test_other_links_are_left_alone():
    rows = made(loss=losses.get("squared"))
    same, factors = rows.calibrated()
    assert same is rows
    assert (factors == 1.0).all()


# -- more than two classes ---------------------------------------------------------------


def made_of_three(n_rows=90, seed=0, **changes):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n_rows)
    scores = rng.normal(size=(2, n_rows, 3)) + 1.2 * np.eye(3)[y]
    return made(n_rows, scores=scores, y=y, **changes)


def test_the_measures_of_three_classes_are_those_of_scikit_learn():
    rows = made_of_three()
    for k, scores in enumerate(rows.scores):
        p = softmax(scores, axis=1)
        assert rows.error.mean[k] == pytest.approx(np.mean(p.argmax(axis=1) != rows.y))
        assert rows.log_loss.mean[k] == pytest.approx(log_loss(rows.y, p))
        expected = roc_auc_score(rows.y, p, multi_class="ovr")
        assert rows.auc.mean[k] == pytest.approx(expected)


def test_the_error_of_the_mean_area_is_that_of_repeated_samples():
    areas = [made_of_three(seed=seed).auc for seed in range(200)]
    spread = np.std([area.mean[0] for area in areas])
    assert np.mean([area.se[0] for area in areas]) == pytest.approx(spread, rel=0.2)


def test_a_class_that_a_fold_does_not_have_counts_not_in_its_area():
    rows = made_of_three()
    rows = made(90, scores=rows.scores, y=np.where(rows.y == 2, 0, rows.y))
    assert np.isfinite(rows.auc.mean).all()


def test_the_factor_of_three_classes_has_the_least_log_loss():
    fold = np.arange(90) % 3
    rows = made_of_three(fold=fold)
    calibrated, factors = rows.calibrated()
    for k, scores in enumerate(rows.scores):

        def loss(factor, scores=scores):
            return log_loss(rows.y, softmax(factor * scores, axis=1))

        assert loss(factors[k]) <= min(loss(0.99 * factors[k]), loss(1.01 * factors[k]))
    assert np.array_equal(calibrated.wrong, rows.wrong)
    ratio = calibrated.scores / rows.scores
    for number in range(3):  # a fold has one factor, that of the others
        np.testing.assert_allclose(ratio[0, fold == number], ratio[0, number, 0])
