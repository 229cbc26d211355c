"""The one validation of X, y and weights."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from totalqboost import BranchAndPrice, TotalQBoostClassifier, frontier
from totalqboost.dictionaries import Stumps
from totalqboost.examples import (
    check_examples,
    check_features,
    check_prediction_rows,
    check_validation,
)

X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
Y = ["no", "yes", "no"]


def test_labels_of_any_type_become_signs():
    for labels, classes in [
        (Y, ["no", "yes"]),
        ([0, 1, 0], [0, 1]),
        ([False, True, False], [0, 1]),
    ]:
        examples = check_examples(X, labels)
        assert examples.y.dtype == np.int8
        assert examples.y.tolist() == [-1, 1, -1]
        assert examples.classes.tolist() == classes
    assert examples.names == ("x0", "x1")
    assert examples.weight.tolist() == [1 / 3] * 3
    assert len(examples) == 3


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_floats_are_taken_as_they_are(dtype, order):
    table = np.asarray(X, dtype=dtype, order=order)
    assert check_examples(table, Y).X is table
    assert check_examples(X.astype(int), Y).X.dtype == np.float64


@pytest.mark.parametrize("size", [1e308, 1.7e308, 1.0, 1e-300, 5e-324])
def test_weights_are_normalised_whatever_their_size(size):
    weight = check_examples(X, Y, np.full(3, size)).weight
    assert weight == pytest.approx(np.full(3, 1 / 3), rel=1e-12)
    assert weight.sum() == pytest.approx(1.0, abs=1e-12)


def test_rows_of_weight_zero_are_left_out():
    # The last weight vanishes beside the others when they are normalised.
    table, labels = np.vstack([X, X[:2]]), [*Y, "yes", "yes"]
    examples = check_examples(table, labels, [0, 1e308, 1.5e308, 0, 1e-20])
    assert examples.X.tolist() == X[1:].tolist()
    assert examples.y.tolist() == [1, -1]
    assert examples.weight == pytest.approx([0.4, 0.6])


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (["a", "b"], ("a", "b")),
        ([7, 3], ("7", "3")),
        (["a", "a"], ("a", "a")),
        (["a", 1], ("a", "1")),
    ],
)
def test_names_of_a_data_frame_are_kept_as_strings(columns, names):
    frame = pd.DataFrame(X, columns=columns)
    examples = check_examples(frame, Y)
    assert examples.names == names
    assert examples.X.tolist() == X.tolist()
    assert check_features(frame, examples).tolist() == X.tolist()


def test_an_estimator_learns_names_and_number_of_features():
    estimator = BaseEstimator()
    check_examples(pd.DataFrame(X, columns=["a", "b"]), Y, estimator=estimator)
    assert estimator.n_features_in_ == 2
    assert estimator.feature_names_in_.tolist() == ["a", "b"]
    for columns in [["a", "b"], [0, 1], ["a", "a"]]:
        frame = pd.DataFrame(X, columns=columns)
        examples = check_examples(frame, Y, estimator=estimator)
        assert examples.names == tuple(map(str, columns))
        rows = check_prediction_rows(frame, estimator, examples.features)
        assert rows.tolist() == X.tolist()


def test_columns_of_named_frames_are_found_by_name():
    examples = check_examples(pd.DataFrame(X, columns=["a", "b"]), Y)
    other = pd.DataFrame({"b": [1.0], "c": [9.0], "a": [0.0]})
    assert check_features(other, examples).tolist() == [[0.0, 1.0]]
    with pytest.raises(ValueError, match=r"X_new must have the columns .* missing \['b'\]"):
        check_features(other[["a", "c"]], examples, "X_new")


def test_other_columns_are_found_by_position():
    named = check_examples(pd.DataFrame(X, columns=["a", "b"]), Y)
    plain = check_examples(X, Y)
    numbered = check_examples(pd.DataFrame(X, columns=[1, 0]), Y)
    row = [[5.0, 6.0]]
    assert check_features(row, named).tolist() == row
    assert check_features(pd.DataFrame(row, columns=["b", "a"]), plain).tolist() == row
    assert check_features(pd.DataFrame(row, columns=[0, 1]), numbered).tolist() == row
    assert check_features(pd.DataFrame(row, columns=["b", "b"]), named).tolist() == row
    with pytest.raises(ValueError, match="X must have 2 columns like the training data, got 3"):
        check_features([[1, 2, 3]], plain)


def test_validation_rows_have_the_classes_of_the_examples():
    examples = check_examples(X, Y)
    valid = check_validation(X[:2], ["yes", "yes"], examples)
    assert valid.y.tolist() == [1, 1]
    assert valid.classes is examples.classes
    with pytest.raises(ValueError, match=r"y_valid must hold labels of y, \['no', 'yes'\]"):
        check_validation(X[:2], ["yes", "maybe"], examples)
    with pytest.raises(ValueError, match=r"y_valid must have one label per row \(2\), got 1"):
        check_validation(X[:2], ["yes"], examples)
    with pytest.raises(ValueError, match="column 0 of X_valid must not contain infinity, got inf"):
        check_validation([[np.inf, 1]], ["yes"], examples)
    with pytest.raises(ValueError, match="y_valid must have a label in every row.*first in row 1"):
        check_validation(X[:2], ["yes", None], examples)


@pytest.mark.parametrize(
    ("table", "labels", "weight", "message"),
    [
        ([[1.0], [-np.inf]], [0, 1], None, "column 0 of X must not contain infinity, got -inf"),
        ([1.0, 2.0], [0, 1], None, "2D array"),
        (X, [0, 1], None, "inconsistent numbers of samples"),
        (X[:1], [0], None, "minimum of 2 is required"),
        (X, [0, 0, 0], None, "one class only: .*can't train when only one class"),
        (X, ["a", None, "b"], None, "y must have a label in every row.* None, 1 of 3, .* row 1"),
        (X, [0.0, np.nan, 1.0], None, "Input y contains NaN"),
        (X, [0.5, 1.5, 0.5], None, "continuous"),
        (X, Y, [1, -1, 1], "sample_weight must be finite and >= 0"),
        (X, Y, [1, 1], r"sample_weight must have shape \(3,\), got \(2,\)"),
        (X, Y, [1, np.nan, 1], "sample_weight must be finite"),
        (X, Y, [0, 0, 0], "sample_weight must not be zero for every row"),
        (X, Y, [[1], [1], [1]], "sample_weight must have shape"),
        (X, Y, [1, 0, 1], r"two classes among the rows of positive .* no row of \['yes'\]"),
        (X, [0, 1, 2], [1, 1, 0], r"all 3 classes among .* got no row of \[2\]"),
    ],
)
def test_bad_examples_are_refused(table, labels, weight, message):
    with pytest.raises(ValueError, match=message):
        check_examples(table, labels, weight)


# -- every door uses it --------------------------------------------------------------------


def rows(m=60):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(m, 3)).round(2)
    return table, np.where(table[:, 0] + table[:, 2] + rng.normal(size=m) > 0, "yes", "no")


def by_fit(table, labels, weight=None):
    return TotalQBoostClassifier(0.0, max_learners=3).fit(table, labels, weight).ensemble_


def by_frontier(table, labels, weight=None):
    front = frontier(table, labels, table, labels, sample_weight=weight, max_learners=3)
    return front.points[-1].ensemble


def by_branch_and_price(table, labels, weight=None):
    search = BranchAndPrice(Stumps(max_bins=6))
    return search.solve(table, labels, 2, sample_weight=weight).ensemble


DOORS = [by_fit, by_frontier, by_branch_and_price]


@pytest.mark.parametrize("door", DOORS)
def test_weights_whose_sum_overflows_train_like_smaller_ones(door):
    table, labels = rows()
    weight = np.random.default_rng(1).uniform(0.5, 1.5, len(labels))
    large, small = door(table, labels, 1e308 * weight), door(table, labels, weight)
    assert large.learners == small.learners
    assert large.n_learners > 0
    assert large.weights == pytest.approx(small.weights, rel=1e-6)


@pytest.mark.parametrize("columns", [[2, 0, 1], ["a", "a", "b"], ["a", "b", "c"]])
@pytest.mark.parametrize("door", DOORS)
def test_frames_with_any_names_train_like_arrays(door, columns):
    table, labels = rows()
    frame = pd.DataFrame(table, columns=columns)
    named, plain = door(frame, labels), door(table, labels)
    assert (named.learners, named.weights) == (plain.learners, plain.weights)
    assert named.feature_names == tuple(map(str, columns))
    assert named.classes == ("no", "yes")
    assert named.predict(frame).tolist() == plain.predict(table).tolist()


@pytest.mark.parametrize("door", DOORS)
def test_bad_examples_are_refused_in_the_same_words(door):
    table, labels = rows()
    with pytest.raises(ValueError, match="y must have two classes, got one class only"):
        door(table, ["yes"] * len(labels))
    with pytest.raises(ValueError, match="sample_weight must not be zero for every row"):
        door(table, labels, np.zeros(len(labels)))


def test_a_predicting_estimator_takes_the_frames_it_was_fitted_on():
    table, labels = rows()
    for columns in [[2, 0, 1], ["a", "a", "b"]]:
        frame = pd.DataFrame(table, columns=columns)
        classifier = TotalQBoostClassifier(max_learners=2).fit(frame, labels)
        assert classifier.predict(frame).tolist() == classifier.predict(table).tolist()
