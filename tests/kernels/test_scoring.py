"""Batch scores of stumps against the sum written out."""

from __future__ import annotations

import numpy as np
import pytest

from totalqboost.kernels.scoring import (
    add_category_sets,
    infinite_column,
    score_stumps,
    score_stumps_of_classes,
)


def slow_scores(X, features, thresholds, values, intercept, n_below=None):
    seen = X[:, features].astype(float)
    is_gap_above = np.arange(len(features)) >= (len(features) if n_below is None else n_below)
    above = np.where(np.isnan(seen), is_gap_above, seen > thresholds)
    return intercept + np.where(above, 1.0, -1.0) @ values


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_score_stumps_is_the_weighted_vote(dtype, order):
    rng = np.random.default_rng(0)
    X = np.asarray(rng.normal(size=(30, 4)), dtype=dtype, order=order)
    features, thresholds = rng.integers(0, 4, size=7), rng.normal(size=7)
    values = rng.normal(size=7)
    out = np.full(30, np.nan)
    score_stumps(X, features, thresholds, values, len(values), 0.25, out)
    np.testing.assert_allclose(
        out, slow_scores(X, features, thresholds, values, 0.25), atol=1e-14
    )  # fmt: skip


def test_no_stumps_leave_the_intercept():
    out = np.empty(3)
    none = np.empty(0)
    score_stumps(np.zeros((3, 2)), none.astype(np.int64), none, none, len(none), -1.5, out)
    np.testing.assert_array_equal(out, -1.5)


def test_no_rows_are_no_error():
    out = np.empty(0)
    score_stumps(
        np.empty((0, 2)),
        np.array([1]),
        np.array([0.0]),
        np.array([1.0]),
        1,
        0.0,
        out,
    )
    assert out.shape == (0,)


def test_a_value_at_the_threshold_is_not_above_it():
    X = np.array([[np.nextafter(0.5, 0)], [0.5], [np.nextafter(0.5, 1)]])
    out = np.empty(3)
    score_stumps(X, np.array([0]), np.array([0.5]), np.array([1.0]), 1, 0.0, out)
    np.testing.assert_array_equal(out, [-1.0, -1.0, 1.0])


def test_single_precision_is_compared_with_the_threshold_in_double():
    low = np.float32(1.0)
    high = np.nextafter(low, np.float32(2.0))
    X = np.array([[low], [high]], dtype=np.float32)
    middle = (float(low) + float(high)) / 2
    out = np.empty(2)
    score_stumps(X, np.array([0]), np.array([middle]), np.array([1.0]), 1, 0.0, out)
    np.testing.assert_array_equal(out, [-1.0, 1.0])


def test_rows_of_a_slice_are_scored_in_place():
    X = np.arange(24.0).reshape(6, 4)[::2, 1:]
    out = np.empty(3)
    score_stumps(X, np.array([2]), np.array([10.0]), np.array([1.0]), 1, 0.0, out)
    np.testing.assert_array_equal(out, [-1.0, 1.0, 1.0])


def with_gaps(rng, dtype, order):
    X = rng.normal(size=(40, 4))
    X[rng.random(X.shape) < 0.3] = np.nan
    X[0] = np.nan
    return np.asarray(X, dtype=dtype, order=order)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_below", [0, 3, 7])
def test_missing_values_count_as_below_in_the_first_block_and_as_above_in_the_other(
    dtype, order, n_below
):
    rng = np.random.default_rng(1)
    X = with_gaps(rng, dtype, order)
    features, thresholds = rng.integers(0, 4, size=7), rng.normal(size=7)
    thresholds[-1] = np.inf  # nothing but a gap lies above
    out = np.full(40, np.nan)
    values = rng.normal(size=7)
    score_stumps(X, features, thresholds, values, n_below, 0.25, out)
    slow = slow_scores(X, features, thresholds, values, 0.25, n_below)
    np.testing.assert_allclose(out, slow, atol=1e-14)
    of_classes, intercept = rng.normal(size=(7, 3)), rng.normal(size=3)
    outs = np.full((40, 3), np.nan)
    score_stumps_of_classes(X, features, thresholds, of_classes, n_below, intercept, outs)
    slow = slow_scores(X, features, thresholds, of_classes, intercept, n_below)
    np.testing.assert_allclose(outs, slow, atol=1e-14)


@pytest.mark.parametrize("n_classes", [1, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_category_sets_are_looked_up(dtype, n_classes):
    rng = np.random.default_rng(2)
    X = rng.integers(-1, 6, size=(50, 2)).astype(dtype)
    X[3, 0] = np.nan  # no category at all
    sets = [(0, {0, 2}), (1, {5}), (0, {1}), (1, set())]
    flags = [[c in codes for c in range(max(codes, default=-1) + 1)] for _, codes in sets]
    starts = np.cumsum([0, *map(len, flags)])
    is_inside = np.array([flag for own in flags for flag in own], dtype=bool)
    features = np.array([feature for feature, _ in sets])
    values, out = rng.normal(size=(4, n_classes)), rng.normal(size=(50, n_classes))
    signs = np.array([[1.0 if x[f] in codes else -1.0 for f, codes in sets] for x in X])
    slow = out + signs @ values
    add_category_sets(X, features, starts, is_inside, values, out)
    np.testing.assert_allclose(out, slow, atol=1e-14)
    assert len(np.unique(signs, axis=0)) > 4


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_an_infinity_is_found_where_it_is_looked_for(bad, order):
    X = np.asarray(np.random.default_rng(0).normal(size=(9, 5)), order=order)
    X[2, 1] = np.nan
    X[3, 0] = np.finfo(float).max
    columns = np.array([0, 1, 4])
    assert infinite_column(X, columns) == -1
    X[1, 2] = bad  # which nobody looks at
    assert infinite_column(X, columns) == -1
    X[8, 4] = bad
    assert infinite_column(X, columns) == 4
    assert infinite_column(X[:8], columns) == -1
    assert infinite_column(X, columns[:0]) == -1
