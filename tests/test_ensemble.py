"""The ensemble: scores, labels, the printed table, and files that cannot be trusted."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from totalqboost import (
    Constant,
    Ensemble,
    Stump,
    TotalQBoostClassifier,
    losses,
)
from totalqboost.datasets import make_twonorm
from totalqboost.learners import Fitted

MODEL = Ensemble(
    (Stump(0, 1.5), Constant(-1), Stump(2, -0.25, -1)),
    (0.7, 0.3, 1 / 3),
    0.1,
    ("no", "yes"),
    ("age", "height", "weight"),
    "logistic",
)


def random_ensemble(seed, n_features=4, n_learners=9):
    rng = np.random.default_rng(seed)
    learners = [
        Stump(int(rng.integers(n_features)), float(rng.normal()), int(rng.choice([-1, 1])))
        if rng.random() < 0.8
        else Constant(int(rng.choice([-1, 1])))
        for _ in range(n_learners)
    ]
    return Ensemble(tuple(learners), tuple(rng.random(n_learners) + 0.01), float(rng.normal()))


# -- scores ------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_the_weighted_votes(dtype, order, seed):
    ensemble = random_ensemble(seed + 10)
    X = np.asarray(np.random.default_rng(seed).normal(size=(50, 4)), dtype=dtype, order=order)
    slow = ensemble.intercept + sum(
        w * h.predict(X) for h, w in zip(ensemble.learners, ensemble.weights, strict=True)
    )
    np.testing.assert_allclose(ensemble.decision_function(X), slow, atol=1e-12)


@pytest.mark.parametrize("X", [[[1, 2], [3, 0]], np.array([[1, 2], [3, 0]], dtype=np.int8)])
def test_integers_and_lists_are_scored(X):
    ensemble = Ensemble((Stump(0, 1.5), Stump(1, 1.5)), (1.0, 0.25))
    np.testing.assert_array_equal(ensemble.decision_function(X), [-0.75, 0.75])


def test_a_slice_of_a_matrix_is_scored():
    X = np.random.default_rng(0).normal(size=(20, 8))
    ensemble = random_ensemble(1)
    np.testing.assert_array_equal(
        ensemble.decision_function(X[::2, 1:5]), ensemble.decision_function(X[::2, 1:5].copy())
    )


def test_no_rows_give_no_scores():
    assert MODEL.decision_function(np.empty((0, 3))).shape == (0,)
    assert MODEL.predict(np.empty((0, 3))).shape == (0,)


def test_the_empty_ensemble_scores_its_intercept():
    np.testing.assert_array_equal(Ensemble((), (), -2.0).decision_function(np.ones((3, 5))), -2.0)


def test_fitted_classifiers_vote_too():
    X = np.random.default_rng(0).normal(size=(60, 2))
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
    ensemble = Ensemble((Fitted(0, tree, True), Stump(1, 0.0)), (0.5, 0.2), 0.1)
    votes = np.where(tree.predict(X), 0.5, -0.5) + np.where(X[:, 1] > 0, 0.2, -0.2) + 0.1
    np.testing.assert_allclose(ensemble.decision_function(X), votes, atol=1e-14)


def test_a_stump_compares_single_precision_as_the_scores_do():
    low = np.nextafter(np.float32(1.0), np.float32(2.0))
    high = np.nextafter(low, np.float32(2.0))
    stump = Stump(0, (float(low) + float(high)) / 2)
    X = np.array([[low], [high]], dtype=np.float32)
    np.testing.assert_array_equal(stump.predict(X), [-1, 1])
    np.testing.assert_array_equal(Ensemble((stump,), (1.0,)).decision_function(X), [-1, 1])


@pytest.mark.parametrize("shape", [(4,), (4, 2), (4, 4), (2, 3, 4)])
def test_another_number_of_features_is_refused(shape):
    with pytest.raises(ValueError, match=r"X must have 3 columns .*'age'.* got shape"):
        MODEL.decision_function(np.zeros(shape))


def test_a_feature_outside_the_data_is_refused():
    """Compiled code must never read beyond the rows it was given."""
    ensemble = Ensemble((Stump(5, 0.0),), (1.0,))
    with pytest.raises((ValueError, IndexError)):
        ensemble.decision_function(np.zeros((3, 2)))


@pytest.mark.parametrize("classes", [("no", "yes"), (0, 1), (False, True), (-0.5, 2.5), (3, 7)])
def test_labels_follow_the_sign_of_the_score(classes):
    ensemble = Ensemble((Stump(0, 0.0),), (1.0,), 0.0, classes)
    labels = ensemble.predict(np.array([[-1.0], [1.0]]))
    assert labels.tolist() == list(classes)


def test_a_score_of_zero_is_the_first_class():
    assert Ensemble((), (), 0.0, ("a", "b")).predict(np.zeros((1, 1))).tolist() == ["a"]


# -- probabilities -----------------------------------------------------------------------


@pytest.mark.parametrize("loss", losses.names())
def test_probabilities_follow_from_the_link_of_the_named_loss(loss):
    X = np.random.default_rng(3).normal(size=(40, 4))
    ensemble = replace(random_ensemble(2), loss=loss)
    probabilities = ensemble.predict_proba(X)
    expected = losses.get(loss).link(ensemble.decision_function(X))
    np.testing.assert_array_equal(probabilities[:, 1], expected)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-15)
    assert len(np.unique(probabilities)) > 3


@pytest.mark.parametrize(
    ("loss", "odds"), [("logistic", np.exp(0.6)), ("exponential", np.exp(1.2))]
)
def test_scores_of_two_losses_are_log_odds(loss, odds):
    ensemble = Ensemble((Stump(0, 0.0),), (0.5,), 0.1, loss=loss)
    negative, positive = ensemble.predict_proba([[1.0]])[0]
    assert positive / negative == pytest.approx(odds, rel=1e-12)


def test_the_classifier_and_its_ensemble_agree_on_probabilities():
    X, y = make_twonorm(120, seed=0, n_features=4)
    for loss in ("logistic", "squared"):
        model = TotalQBoostClassifier(0.01, loss=loss, max_learners=4).fit(X, y)
        np.testing.assert_array_equal(model.predict_proba(X), model.ensemble_.predict_proba(X))


def test_probabilities_survive_the_file(tmp_path):
    MODEL.save(tmp_path / "model.json")
    X = np.random.default_rng(0).normal(size=(5, 3))
    loaded = Ensemble.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict_proba(X), MODEL.predict_proba(X))


def test_a_loss_of_ones_own_has_no_probabilities():
    ensemble = replace(MODEL, loss="squareplus")
    with pytest.raises(
        ValueError, match=r"one of \['exponential', .*got 'squareplus'; apply the l"
    ):
        ensemble.predict_proba(np.zeros((1, 3)))
    assert ensemble.predict(np.zeros((1, 3))).tolist() == ["no"]


# -- construction ------------------------------------------------------------------------


def test_columns_of_zero_weight_are_dropped_and_free_constants_become_the_intercept():
    learners = [Constant(1), Constant(-1), Stump(0, 1.0), Stump(1, 2.0), Stump(0, 3.0, -1)]
    w = np.array([0.5, 0.2, 0.3, 0.0, 0.9])
    is_free = np.array([True, True, False, False, False])
    ensemble = Ensemble.from_columns(learners, w, is_free)
    assert ensemble.learners == (Stump(0, 3.0, -1), Stump(0, 1.0))  # heaviest first
    assert ensemble.weights == (0.9, 0.3)
    assert ensemble.intercept == pytest.approx(0.3)
    assert ensemble.n_learners == 2


def test_a_constant_that_costs_something_is_a_learner():
    ensemble = Ensemble.from_columns([Constant(-1)], np.array([0.4]), np.array([False]))
    assert ensemble.n_learners == 1
    assert ensemble.intercept == 0.0


def test_names_are_given_afterwards():
    ensemble = Ensemble((Stump(0, 1.0),), (1.0,)).with_names(
        np.array(["a", "b"]), ["x"], "logistic"
    )
    assert ensemble.classes == ("a", "b")
    assert all(type(c) is str for c in ensemble.classes)
    assert (ensemble.feature_names, ensemble.loss) == (("x",), "logistic")


@pytest.mark.parametrize("weights", [(), (1.0, 2.0)])
def test_every_learner_has_one_weight(weights):
    with pytest.raises(ValueError, match=r"one value per learner \(1\)"):
        Ensemble((Stump(0, 0.0),), weights)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_and_intercept_must_be_finite(bad):
    with pytest.raises(ValueError, match="finite"):
        Ensemble((Stump(0, 0.0),), (bad,))
    with pytest.raises(ValueError, match="finite"):
        Ensemble((), (), bad)


def test_an_ensemble_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        MODEL.intercept = 3.0
    with pytest.raises(FrozenInstanceError):
        MODEL.learners[0].threshold = 3.0
    assert isinstance(MODEL.learners, tuple)
    assert isinstance(MODEL.weights, tuple)
    assert hash(MODEL) == hash(replace(MODEL))


def test_scoring_does_not_change_what_compares_equal():
    other = replace(MODEL)
    MODEL.decision_function(np.zeros((1, 3)))
    assert other == MODEL


# -- for people --------------------------------------------------------------------------


def test_it_prints_as_a_table():
    assert str(MODEL).splitlines() == [
        "3 weak classifiers, intercept +0.1",
        "  weight  feature     'yes' if",
        "     0.7  age         > 1.5",
        "     0.3  (constant)  never",
        "  0.3333  weight      <= -0.25",
    ]


def test_without_names_features_are_numbered():
    assert str(Ensemble((Stump(12, 0.5),), (1.0,))).splitlines()[-1] == "       1  x12      > 0.5"


def test_the_empty_ensemble_prints_its_intercept():
    assert str(Ensemble((), (), -0.5)) == "0 weak classifiers, intercept -0.5"


def test_its_repr_is_one_line():
    assert repr(MODEL) == (
        "<Ensemble: 3 weak classifiers on 2 features, 'no' or 'yes', logistic loss>"
    )
    one = "<Ensemble: 1 weak classifier on 1 feature, -1 or 1, exponential loss>"
    assert repr(Ensemble((Stump(4, 0.0),), (1.0,))) == one


def test_it_is_a_table_in_a_notebook():
    ensemble = replace(MODEL, features=("<script>alert(1)</script>", "h", "a & b"))
    page = ensemble._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "a &amp; b" in page
    assert page.count("<tr>") == 4
    assert "0 weak classifiers" in Ensemble((), ())._repr_html_()


# -- tables ------------------------------------------------------------------------------


def test_a_data_frame_is_read_by_the_names_of_its_columns():
    frame = pd.DataFrame({"age": [0.0, 9.0], "height": [5.0, 5.0], "weight": [1.0, 2.0]})
    model = Ensemble((Stump(0, 4.0),), (1.0,), features=("age", "height", "weight"))
    np.testing.assert_array_equal(model.decision_function(frame), [-1.0, 1.0])
    np.testing.assert_array_equal(model.decision_function(frame.iloc[:, ::-1]), [-1.0, 1.0])
    with pytest.raises(ValueError, match=r"missing \['age'\]"):
        model.decision_function(frame.drop(columns="age"))
    np.testing.assert_array_equal(model.decision_function(frame[["age"]]), [-1.0, 1.0])


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_is_refused_where_it_is_looked_at(bad):
    model = Ensemble((Stump(1, 4.0),), (1.0,))
    with pytest.raises(ValueError, match=r"X must not contain infinity .column 1"):
        model.decision_function(np.array([[0.0, bad]]))
    np.testing.assert_array_equal(model.decision_function(np.array([[bad, 5.0]])), [1.0])
