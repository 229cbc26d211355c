"""The one validation of X, y and weights."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator

from totalqboost import BranchAndPrice, TotalQBoostClassifier, frontier
from totalqboost.dictionaries import Stumps
from totalqboost.examples import (
    check_examples,
    check_features,
    check_prediction_rows,
    check_validation,
)
from totalqboost.learners import Feature

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
    with pytest.raises(ValueError, match=r"y_valid must have a label in every row.*first in row 1"):
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


# -- classes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "classes", "codes"),
    [
        (["b", "c", "a"], ["a", "b", "c"], [1, 2, 0]),
        ([30, 10, 20], [10, 20, 30], [2, 0, 1]),
        (pd.Series(["b", "c", "a"], dtype="category"), ["a", "b", "c"], [1, 2, 0]),
        (pd.Series([3, 1, 2], dtype="Int64"), [1, 2, 3], [2, 0, 1]),
        (np.array([3, 1, 2], dtype=object), [1, 2, 3], [2, 0, 1]),
    ],
)
def test_more_than_two_classes_are_numbered(labels, classes, codes):
    examples = check_examples(X, labels)
    assert examples.y.tolist() == codes
    assert examples.y.dtype == np.int64
    assert examples.classes.tolist() == classes
    assert examples.n_classes == 3
    valid = check_validation(X[:2], list(labels)[:2], examples)
    assert valid.y.tolist() == codes[:2]
    with pytest.raises(ValueError, match=r"Only binary .* 3 classes"):
        check_examples(X, labels, max_classes=2)


@pytest.mark.parametrize("dtype", ["boolean", "bool", object])
def test_truth_values_are_classes(dtype):
    examples = check_examples(X, pd.Series([True, False, True], dtype=dtype))
    assert examples.y.tolist() == [1, -1, 1]
    assert examples.classes.tolist() == [False, True]


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["a", None, "b"], dtype="category"),
        pd.Series(["a", None, "b"], dtype="string"),
        pd.Series([1, None, 2], dtype="Int64"),
        pd.Series([1, None, 2]),
        np.ma.masked_array([1, 2, 3], [0, 1, 0]),
        np.ma.masked_array(["a", "b", "c"], [0, 1, 0]),
    ],
)
def test_a_missing_label_is_named(labels):
    with pytest.raises(ValueError, match=r"y must have a label in every row: .*first in row 1"):
        check_examples(X, labels)


def test_labels_of_two_types_are_refused():
    with pytest.raises(TypeError, match="y must hold labels of one type, got int and str"):
        check_examples(X, np.array(["a", 1, "b"], dtype=object))


def test_class_weights_of_several_classes():
    table, labels = np.arange(12.0).reshape(6, 2), ["a", "a", "a", "b", "b", "c"]
    balanced = check_examples(table, labels, class_weight="balanced")
    of_class = np.bincount(balanced.y, balanced.weight)
    assert of_class == pytest.approx([1 / 3] * 3)
    own = check_examples(table, labels, class_weight={"c": 5.0})
    assert own.weight == pytest.approx(np.array([1, 1, 1, 1, 1, 5]) / 10)
    with pytest.raises(ValueError, match=r"labels of y, \['a', 'b', 'c'\], got \['d'\]"):
        check_examples(table, labels, class_weight={"d": 2})


def test_two_classes_are_balanced_as_before():
    weight = check_examples(X, Y, [1, 2, 3], class_weight="balanced").weight
    assert weight == pytest.approx([1 / 8, 1 / 2, 3 / 8])


# -- kinds of columns ----------------------------------------------------------------------


def people():
    return pd.DataFrame({"age": [30, None, 50, 60], "town": ["x", "y", None, "z"]})


def test_gaps_and_text_are_taken():
    examples = check_examples(people(), [0, 1, 0, 1])
    assert examples.features == (
        Feature("age", None, True),
        Feature("town", ("x", "y", "z", None), True),
    )
    assert np.array_equal(examples.X, [[30, 0], [np.nan, 1], [50, 3], [60, 2]], equal_nan=True)
    further = people()[["town", "age"]].assign(town=["x", "new", "y", None])
    coded = check_features(further, examples)
    assert coded[:, 1].tolist() == [0, -1, 1, 3]
    assert check_validation(further, [0, 1, 0, 1], examples).X.tolist()[0] == [30, 0]
    named = check_examples(people(), [0, 1, 0, 1], categorical_features=["age", "town"])
    assert named.features[0].categories == (30, 50, 60, None)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_an_estimator_predicts_for_columns_in_the_order_of_training():
    estimator = BaseEstimator()
    examples = check_examples(people(), [0, 1, 0, 1], estimator=estimator)
    assert estimator.feature_names_in_.tolist() == ["age", "town"]
    rows = check_prediction_rows(people(), estimator, examples.features)
    assert np.array_equal(rows, examples.X, equal_nan=True)
    with pytest.raises(ValueError, match="feature names should match"):
        check_prediction_rows(people()[["town", "age"]], estimator, examples.features)
    with pytest.raises(ValueError, match="X has 1 features, but BaseEstimator is expecting 2"):
        check_prediction_rows([[1]], estimator, examples.features)
    with pytest.raises(ValueError, match="Reshape your data"):
        check_prediction_rows([1, 2], estimator, examples.features)
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        check_prediction_rows(people()[:0], estimator, examples.features)


def test_what_only_rows_of_weight_zero_have_is_not_seen():
    examples = check_examples(people(), [0, 1, 0, 1], [1, 0, 0, 1])
    alone = check_examples(people().iloc[[0, 3]], [0, 1])
    assert examples.features == alone.features
    assert examples.X.tolist() == alone.X.tolist()


def test_sparse_examples_are_kept_sparse_if_asked_for():
    matrix = sparse.csr_matrix(X)
    with pytest.raises(TypeError, match=r"use X.toarray\(\)"):
        check_examples(matrix, Y)
    examples = check_examples(matrix, Y, [1, 2, 0.5], accept_sparse=True)
    assert examples.X.format == "csc"
    assert examples.X.toarray().tolist() == X.tolist()
    assert examples.at(np.array([0, 1])).X.toarray().tolist() == X[:2].tolist()


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
    with pytest.raises(ValueError, match="y must have at least two classes, got one class only"):
        door(table, ["yes"] * len(labels))
    with pytest.raises(ValueError, match="sample_weight must not be zero for every row"):
        door(table, labels, np.zeros(len(labels)))


def test_a_predicting_estimator_takes_the_frames_it_was_fitted_on():
    table, labels = rows()
    for columns in [[2, 0, 1], ["a", "a", "b"]]:
        frame = pd.DataFrame(table, columns=columns)
        classifier = TotalQBoostClassifier(max_learners=2).fit(frame, labels)
        assert classifier.predict(frame).tolist() == classifier.predict(table).tolist()
