"""Prices that have names."""

from __future__ import annotations

import numpy as np
import pytest

from totalqboost import TotalQBoostClassifier, datasets
from totalqboost.dictionaries import Stumps
from totalqboost.examples import check_examples
from totalqboost.penalties import cardinality_price, l1_price


def test_named_prices_in_numbers():
    n, M = 200.0, 1000
    assert l1_price("auto", n) == 4 / n
    assert cardinality_price("auto", n, M) == 0.5 / n
    assert cardinality_price("aic", n, M) == 1 / n
    assert cardinality_price("bic", n, M) == pytest.approx(np.log(n) / (2 * n))
    assert cardinality_price("ric", n, M) == pytest.approx(np.log(M) / n)
    assert l1_price(0.3, n) == cardinality_price(0.3, n, M) == 0.3


def test_few_rows_do_not_make_weight_too_dear_to_learn():
    assert l1_price("auto", 3) == l1_price("auto", 40) == 0.1
    clf = TotalQBoostClassifier().fit([[0.0], [1.0]], ["a", "b"])
    assert clf.predict([[0.2], [0.9]]).tolist() == ["a", "b"]


@pytest.mark.parametrize(("name", "n_times"), [("auto", 0.5), ("aic", 1.0)])
def test_the_fit_tells_the_prices_it_used(name, n_times):
    X, y = datasets.make_twonorm(100, seed=0)
    clf = TotalQBoostClassifier(name).fit(X, y)
    assert clf.cardinality_penalty_ == pytest.approx(n_times / 100)
    assert clf.l1_penalty_ == pytest.approx(4 / 100)
    same = TotalQBoostClassifier(n_times / 100, l1_penalty=4 / 100).fit(X, y)
    assert same.ensemble_ == clf.ensemble_


def test_the_risk_inflation_criterion_counts_the_cuts_of_the_dictionary():
    X, y = datasets.make_twonorm(100, seed=0, n_features=3)
    clf = TotalQBoostClassifier("ric").fit(X, y)
    assert clf.cardinality_penalty_ == pytest.approx(np.log(3 * 99) / 100)
    clf = TotalQBoostClassifier("ric", dictionary=Stumps(8)).fit(X, y)
    assert clf.cardinality_penalty_ == pytest.approx(np.log(3 * 7) / 100)


@pytest.mark.parametrize("name", ["cardinality_penalty", "l1_penalty"])
@pytest.mark.parametrize("value", ["Auto", "", -1, np.nan, None, True])
def test_other_prices_are_refused(name, value):
    X, y = datasets.make_twonorm(50, seed=0)
    with pytest.raises(ValueError, match=f"{name} must be"):
        TotalQBoostClassifier(**{name: value}).fit(X, y)


# -- the number of rows that counts ----------------------------------------------------------


def effective(weight=None, class_weight=None, n=10):
    X = np.arange(2.0 * n).reshape(n, 2)
    y = np.where(np.arange(n) < n // 5, 1, 0)
    return check_examples(X, y, weight, class_weight=class_weight).n_effective


def test_rows_that_count():
    assert effective() == pytest.approx(10)
    weight = np.random.default_rng(0).random(10)
    assert effective(weight) == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert effective(7.5 * weight) == pytest.approx(effective(weight))
    assert effective(np.full(10, 0.25)) == pytest.approx(10)


def test_whole_numbers_count_rows():
    counts = np.array([1, 2, 3, 0, 1, 1, 5, 1, 1, 1])
    assert effective(counts) == pytest.approx(counts.sum())
    assert effective(counts.astype(float)) == pytest.approx(counts.sum())


def test_class_weights_leave_fewer_rows():
    # two rows of weight 4 and eight of weight 1
    expected = (2 * 4 + 8) ** 2 / (2 * 16 + 8)
    assert effective(class_weight="balanced") == pytest.approx(expected)
    assert effective(class_weight={1: 4}) == pytest.approx(expected)
    assert effective(np.full(10, 2), class_weight={1: 4}) == pytest.approx(2 * expected)


def test_class_weight_is_a_factor_of_sample_weight():
    X, y = datasets.make_ringnorm(200, seed=0, n_features=4)
    weight = np.random.default_rng(0).random(200)
    named = np.where(y > 0, "b", "a")
    prices = {"cardinality_penalty": 0.002, "l1_penalty": 0.02}
    first = TotalQBoostClassifier(**prices, class_weight={"b": 3.0}).fit(X, named, weight)
    second = TotalQBoostClassifier(**prices).fit(X, named, weight * np.where(y > 0, 3.0, 1.0))
    np.testing.assert_allclose(first.decision_function(X), second.decision_function(X), rtol=1e-6)


def test_balanced_classes_are_predicted_as_often():
    X, y = datasets.make_ringnorm(600, seed=1, n_features=4)
    kept = np.concatenate([np.flatnonzero(y < 0), np.flatnonzero(y > 0)[:40]])
    X, y = X[kept], y[kept]
    plain = TotalQBoostClassifier().fit(X, y)
    balanced = TotalQBoostClassifier(class_weight="balanced").fit(X, y)
    recall = [np.mean(clf.predict(X)[y > 0] > 0) for clf in (plain, balanced)]
    assert recall[1] > recall[0]


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [("even", "class_weight must be 'balanced'"), ({7: 1.0}, "class_weight must name labels of y")],
)
def test_bad_class_weights_are_named(class_weight, message):
    with pytest.raises(ValueError, match=message):
        effective(class_weight=class_weight)
