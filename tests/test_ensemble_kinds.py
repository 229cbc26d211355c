"""Ensembles of missing values, categories and many classes: scores of the tables people have."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from ensembles import CITIES, FEATURES, internal, mixed_ensemble, mixed_frame
from scipy import sparse
from scipy.special import softmax

from totalqboost import Constant, Ensemble, Stump
from totalqboost.ensemble import shape_of
from totalqboost.learners import CategorySet, Feature, Fitted, Missing


def slow_scores(model, X):
    """The sum over learners, each asked by itself."""
    total = np.tile(np.array(model.intercept, dtype=float), (len(X), 1))
    for learner, weight in zip(model.learners, model.weights, strict=True):
        total += np.outer(learner.predict(X), weight)
    return total if model.is_multiclass else total[:, 0]


# -- scores ------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("seed", range(4))
def test_scores_of_a_raw_table_are_the_weighted_votes(seed, n_classes):
    model, frame = mixed_ensemble(seed, n_classes), mixed_frame(seed)
    slow = slow_scores(model, internal(frame))
    found = model.decision_function(frame)
    assert found.shape == ((60,) if n_classes == 2 else (60, n_classes))
    np.testing.assert_allclose(found, slow, atol=1e-12)
    np.testing.assert_array_equal(model.scores(model.checked_rows(frame)), found)
    np.testing.assert_array_equal(model.decision_function(frame.iloc[:, ::-1]), found)
    np.testing.assert_array_equal(model.decision_function(frame.drop(columns="unused")), found)
    np.testing.assert_array_equal(model.decision_function(frame.to_numpy(dtype=object)), found)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(frame), found)
    assert len(np.unique(found)) > 10


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_numbers_with_gaps_are_scored_in_place(dtype, order, n_classes):
    model = mixed_ensemble(1, n_classes)
    learners = tuple(h for h in model.learners if not isinstance(h, CategorySet))
    weights = model.weights[: len(learners)]
    model = replace(model, learners=learners, weights=weights, features=())
    X = np.asarray(internal(mixed_frame(2)), dtype=dtype, order=order)
    assert np.isnan(X[:, 0]).any()
    assert model.checked_rows(X) is X
    np.testing.assert_allclose(model.decision_function(X), slow_scores(model, X), atol=1e-12)


def test_a_missing_value_goes_where_the_stump_sends_it():
    X = np.array([[np.nan], [5.0], [-5.0]])
    for polarity in (1, -1):
        below = Ensemble((Stump(0, 0.0, polarity),), (1.0,))
        above = Ensemble((Stump(0, 0.0, polarity, missing_above=True),), (1.0,))
        gap = Ensemble((Missing(0, polarity),), (1.0,))
        np.testing.assert_array_equal(below.decision_function(X), np.array([-1, 1, -1]) * polarity)
        np.testing.assert_array_equal(above.decision_function(X), np.array([1, 1, -1]) * polarity)
        np.testing.assert_array_equal(gap.decision_function(X), np.array([1, -1, -1]) * polarity)


def test_what_training_has_not_seen_is_in_no_set():
    model = Ensemble((CategorySet(0, (0, 4)),), (1.0,), features=(Feature("city", CITIES),))
    X = pd.DataFrame({"city": ["Basel", "Bern", None, "Chur", np.nan]})
    np.testing.assert_array_equal(model.decision_function(X), [1, -1, 1, -1, 1])
    without_gap = replace(model, features=(Feature("city", CITIES[:4]),))
    np.testing.assert_array_equal(without_gap.decision_function(X), [1, -1, -1, -1, -1])


def test_masked_values_are_missing():
    model = Ensemble((Stump(0, 0.0, missing_above=True),), (1.0,))
    X = np.ma.array([[-1.0], [-1.0]], mask=[[False], [True]])
    np.testing.assert_array_equal(model.decision_function(X), [-1, 1])


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_is_an_error_that_names_the_column(bad):
    model, frame = mixed_ensemble(1), mixed_frame(1)
    frame.loc[3, "dose"] = bad
    with pytest.raises(ValueError, match=r"'dose'.*infinity"):
        model.decision_function(frame)
    numbers = Ensemble((Stump(1, 0.0),), (1.0,), features=("age", "dose"))
    for X in (np.array([[0.0, bad]]), sparse.csr_matrix([[0.0, bad]])):
        with pytest.raises(ValueError, match=r"infinity .column 'dose'"):
            numbers.decision_function(X)


def test_text_where_training_had_numbers_is_an_error_that_names_the_column():
    frame = mixed_frame(1).assign(dose="much")
    with pytest.raises(ValueError, match=r"'dose'.*'much'"):
        mixed_ensemble(1).decision_function(frame)


def test_fitted_classifiers_vote_for_many_classes_too():
    class Product:
        def predict(self, X):
            return np.where(X[:, 0] * X[:, 1] > 0, 1, -1)

    weights = ((1.0, -0.5, 0.25), (0.2, 0.1, 0.0))
    model = Ensemble((Fitted(0, Product()), Stump(1, 0.0)), weights, classes=("a", "b", "c"))
    X = np.array([[1.0, 2.0], [1.0, -2.0]])
    np.testing.assert_allclose(
        model.decision_function(X), [[1.2, -0.4, 0.25], [-1.2, 0.4, -0.25]], atol=1e-15
    )
    np.testing.assert_array_equal(
        model.decision_function(sparse.csr_matrix(X)), model.decision_function(X)
    )


# -- sparse rows -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix", "coo_matrix", "csr_array"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_sparse_rows_are_scored_as_dense_ones(kind, n_classes):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((40, 30)) < 0.2, rng.normal(size=(40, 30)), 0.0)
    X[3, 7] = np.nan
    learners = (Stump(7, -0.1, 1, True), Stump(20, 0.1, -1), Missing(7), Constant(1))
    weights = rng.random((4, n_classes)).tolist()
    weights = [row[0] for row in weights] if n_classes == 2 else weights
    model = Ensemble(learners, weights, classes=tuple(range(n_classes)))
    S = getattr(sparse, kind)(X)
    np.testing.assert_array_equal(model.decision_function(S), model.decision_function(X))
    np.testing.assert_array_equal(model.predict(S), model.predict(X))
    assert len(np.unique(model.decision_function(X))) > 2


def test_a_sparse_table_that_would_not_fit_in_memory_is_scored():
    n, p = 20_000, 100_000
    rng = np.random.default_rng(0)
    at = rng.integers(0, p, 200_000)
    X = sparse.csr_matrix((rng.normal(size=200_000), (rng.integers(0, n, 200_000), at)), (n, p))
    j = int(at[0])
    model = Ensemble((Stump(j, 0.0), Stump(p - 1, 0.5, -1)), (1.0, 0.25))
    dense = X[:, [j, p - 1]].toarray()
    expected = np.where(dense[:, 0] > 0, 1.0, -1.0) - np.where(dense[:, 1] > 0.5, 0.25, -0.25)
    np.testing.assert_array_equal(model.decision_function(X), expected)
    found = model.explain(X[:3], X)
    assert found.X.shape == (3, p)
    assert found.base_value == pytest.approx(expected.mean())


def test_a_sparse_table_of_another_width_is_refused():
    model = Ensemble((Stump(1, 0.0),), (1.0,), features=("a", "b"))
    with pytest.raises(ValueError, match=r"X must have 2 columns \('a', 'b'\), got shape \(1, 3\)"):
        model.decision_function(sparse.csr_matrix([[1.0, 2.0, 3.0]]))
    with pytest.raises(ValueError, match="X must have more than 1 columns, got 1"):
        replace(model, features=()).decision_function(sparse.csr_matrix([[1.0]]))


# -- labels and probabilities ------------------------------------------------------------


def test_the_highest_score_decides_and_of_equal_ones_the_first():
    model = Ensemble((Stump(0, 0.0),), ((1.0, 0.5, 1.0),), classes=("a", "b", "c"))
    assert model.predict([[1.0], [-1.0]]).tolist() == ["a", "b"]
    assert Ensemble((), (), classes=(3, 1, 2)).predict([[0.0]]).tolist() == [3]


def test_probabilities_of_many_classes_are_the_softmax_of_scores():
    model, frame = mixed_ensemble(3, 4), mixed_frame(3)
    found = model.predict_proba(frame)
    np.testing.assert_allclose(found, softmax(slow_scores(model, internal(frame)), axis=1))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert (np.array(model.classes)[found.argmax(axis=1)] == model.predict(frame)).all()


def test_large_scores_have_probabilities_too():
    model = Ensemble(
        (Stump(0, 0.0),), ((1e4, -1e4, 0.0),), classes=("a", "b", "c"), loss="multinomial"
    )
    np.testing.assert_array_equal(model.predict_proba([[1.0]]), [[1.0, 0.0, 0.0]])


def test_many_classes_of_another_loss_have_no_probabilities():
    model = replace(mixed_ensemble(3, 4), loss="logistic")
    with pytest.raises(ValueError, match=r"\['multinomial'\] for probabilities, got 'logistic'"):
        model.predict_proba(mixed_frame(3))


def test_scaling_keeps_labels_and_multiplies_scores():
    model, frame = mixed_ensemble(3, 4), mixed_frame(3)
    scaled = model.scaled(0.5)
    np.testing.assert_allclose(
        scaled.decision_function(frame), 0.5 * model.decision_function(frame), atol=1e-14
    )
    assert (scaled.predict(frame) == model.predict(frame)).all()


# -- construction ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "intercept", "message"),
    [
        (((1.0, 2.0),), 0.0, r"weights must have one value per class \(3\), got \(1.0, 2.0\)"),
        ((1.0,), 0.0, r"weights must have one value per class \(3\), got 1.0"),
        (((1.0, np.nan, 1.0),), 0.0, "weights must be finite"),
        (((0.0, 0.0, 0.0),), 0.0, "weights of a learner must not all be 0"),
        (((1.0, 2.0, 3.0),), (0.0, 1.0), r"intercept must have one value per class \(3\)"),
        (((1.0, 2.0, 3.0),), 0.5, r"intercept must have one value per class \(3\), got 0.5"),
        (((1.0, 2.0, 3.0),), (0.0, 1.0, np.inf), "intercept must be finite"),
        ((), (0.0, 1.0, 2.0), r"one value per learner \(1\), got 0"),
    ],
)
def test_every_class_has_its_weight_and_intercept(weights, intercept, message):
    with pytest.raises(ValueError, match=message):
        Ensemble((Stump(0, 0.0),), weights, intercept, ("a", "b", "c"))


def test_one_class_is_none():
    with pytest.raises(ValueError, match="classes must be two labels or more"):
        Ensemble((), (), classes=("a",))


def test_two_classes_have_one_weight_per_learner():
    with pytest.raises(ValueError, match="weights must be finite and > 0"):
        Ensemble((Stump(0, 0.0),), ((1.0, -1.0),))


def test_lists_and_arrays_become_tuples():
    model = Ensemble([Stump(0, 0.0)], np.array([[1, 2, -3]]), np.zeros(3), ["a", "b", "c"])
    assert model.weights == ((1.0, 2.0, -3.0),)
    assert model.intercept == (0.0, 0.0, 0.0)
    assert isinstance(hash(model), int)


def test_it_says_what_it_is():
    two, many = mixed_ensemble(0), mixed_ensemble(0, 3)
    assert (two.n_classes, two.is_multiclass, two.is_shared) == (2, False, True)
    assert (many.n_classes, many.is_multiclass, many.is_shared) == (3, True, False)
    votes = replace(many, weights=tuple((w, -w, w) for w in np.arange(1.0, 15.0)))
    assert votes.is_shared
    assert two.used_features == many.used_features == (0, 1, 2, 4)
    np.testing.assert_array_equal(two.strengths, two.weights)
    np.testing.assert_array_equal(votes.strengths, np.arange(1.0, 15.0))
    np.testing.assert_array_equal(two.class_weights[:, 0], -two.class_weights[:, 1])


def test_a_narrowed_ensemble_scores_a_table_of_its_columns():
    model, frame = mixed_ensemble(2, 3), mixed_frame(2)
    narrow = model.narrowed()
    assert narrow.feature_names == ("age", "city", "dose", "is_new")
    rows = frame.drop(columns="unused").to_numpy(dtype=object)
    np.testing.assert_array_equal(narrow.decision_function(rows), model.decision_function(frame))
    with pytest.raises(TypeError, match="stumps or sets of categories"):
        Ensemble((Fitted(0, None),), (1.0,)).narrowed()


# -- for people --------------------------------------------------------------------------

SMALL = Ensemble(
    (Stump(0, 1.5, 1, True), Missing(0, -1), CategorySet(1, (0, 4)), CategorySet(1, (2,), -1)),
    (0.7, 0.3, 0.2, 0.1),
    0.1,
    ("no", "yes"),
    FEATURES,
    "logistic",
)


def test_gaps_and_categories_are_printed_by_name():
    assert [line.split(maxsplit=2) for line in str(SMALL).splitlines()[1:]] == [
        ["weight", "feature", "'yes' if"],
        ["0.7", "age", "> 1.5 or missing"],
        ["0.3", "age", "not missing"],
        ["0.2", "city", "in {Basel, missing}"],
        ["0.1", "city", "is not Genf"],
    ]
    assert "or missing" not in str(replace(SMALL, features=("age", "city")))


def test_long_lists_of_categories_are_cut_and_counted():
    feature = Feature("id", tuple(f"id{k}" for k in range(100)))
    model = Ensemble((CategorySet(0, tuple(range(50))),), (1.0,), features=(feature,))
    assert str(model).endswith("in {id0, id1, id2, id3, id4, id5, id6, ... 43 more}")


def test_weights_of_classes_stand_in_columns():
    weights = ((0.5, -0.25, 0.0), (1.0, 2.0, 3.0), (0.1, 0.1, 0.2), (1e-3, 0.0, 0.0))
    model = replace(SMALL, weights=weights, intercept=(0.1, 0.2, -0.3), classes=("a", "b", "c"))
    lines = str(model).splitlines()
    assert lines[0].startswith("4 weak classifiers for 3 classes: weights are added if the cond")
    assert lines[1].split() == ["feature", "condition", "'a'", "'b'", "'c'"]
    assert lines[2].split() == ["(intercept)", "+0.1", "+0.2", "-0.3"]
    assert lines[3].split() == ["age", ">", "1.5", "or", "missing", "+0.5", "-0.25", "+0"]
    assert len(lines) == 7
    page = model._repr_html_()
    assert page.count("<tr>") == 6
    assert repr(model) == (
        "<Ensemble: 4 weak classifiers on 2 features, 'a', 'b' or 'c', logistic loss>"
    )


def test_votes_are_printed_as_votes():
    weights = ((0.5, -0.5, -0.5), (2.0, 2.0, -2.0), (1.0, 1.0, 1.0), (-3.0, -3.0, -3.0))
    model = replace(SMALL, weights=weights, intercept=(0.1, 0.2, -0.3), classes=("a", "b", "c"))
    lines = str(model).splitlines()
    assert lines[0] == (
        "4 weak classifiers for 3 classes, intercepts 'a' +0.1, 'b' +0.2 and 'c' -0.3"
    )
    assert lines[2].split(maxsplit=1) == ["0.5", "age      > 1.5 or missing     'a'"]
    assert [line.split("  ")[-1].strip() for line in lines[2:]] == [
        "'a'",
        "'a' and 'b'",
        "all",
        "none",
    ]


def test_of_many_classes_the_largest_weights_are_printed():
    weights = tuple(map(tuple, np.random.default_rng(0).normal(size=(4, 26)).tolist()))
    intercept = (0.0,) * 24 + (0.25, -0.5)
    model = replace(SMALL, weights=weights, intercept=intercept, classes=tuple(range(26)))
    text = str(model)
    assert text.splitlines()[2].split() == ["(intercept)", "24", "+0.25", "25", "-0.5"]
    assert "most for" in text
    assert max(map(len, text.splitlines())) < 160
    best = int(np.argmax(weights[0]))
    assert f"{best} {max(weights[0]):+.4g}" in text.splitlines()[3]
    assert "0, 1, 2, 3, 4 or 21 others" in repr(model)


def test_an_ensemble_of_many_classes_without_learners_prints_its_intercepts():
    text = str(Ensemble((), (), (0.5, 0.0, -0.5), ("a", "b", "c")))
    assert "(intercept)" in text
    assert "+0.5" in text


# -- shapes ------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 4])
def test_shapes_add_up_to_the_scores(n_classes):
    model, frame = mixed_ensemble(5, n_classes), mixed_frame(5)
    rows = model.checked_rows(frame)
    constants = [h.polarity if isinstance(h, Constant) else 0 for h in model.learners]
    total = np.atleast_1d(model.intercept) + np.array(constants) @ np.reshape(
        model.weights, (14, -1)
    )
    total = total + sum(shape_of(model, j)(rows[:, j]) for j in range(5))
    found = model.decision_function(frame).reshape(60, -1)
    np.testing.assert_allclose(total, found, atol=1e-12)


def test_a_centred_shape_has_mean_zero():
    model = mixed_ensemble(5, 3)
    rows = model.checked_rows(mixed_frame(5))
    for j in range(5):
        centred = shape_of(model, j).centred(rows[:, j])
        np.testing.assert_allclose(centred(rows[:, j]).mean(axis=0), 0.0, atol=1e-12)


def test_of_many_categories_the_different_ones_have_bars():
    feature = Feature("id", (*(f"id{k}" for k in range(99)), None))
    learners = (CategorySet(0, (3, 99)), CategorySet(0, (5,), -1))
    shape = shape_of(Ensemble(learners, (1.0, 0.5), features=(feature,)), 0)
    codes, names, levels = shape.bars()
    assert codes.tolist() == [3, 5, 99, -1]
    assert names == ["id3", "id5", "missing", "median of 97 others"]
    np.testing.assert_allclose(levels[:, 0], [1.5, -1.5, 1.5, -0.5])
    codes, names, _ = shape.bars(most=3)
    assert names == ["id3", "missing", "median of 98 others"]
    assert len(shape.bars(most=100)[1]) == 100
