"""Batch scores of stumps against the sum written out."""

from __future__ import annotations

import numpy as np
import pytest

from totalqboost.kernels.scoring import score_stumps


def slow_scores(X, features, thresholds, values, intercept):
    signs = np.where(X[:, features].astype(float) > thresholds, 1.0, -1.0)
    return intercept + signs @ values


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_score_stumps_is_the_weighted_vote(dtype, order):
    rng = np.random.default_rng(0)
    X = np.asarray(rng.normal(size=(30, 4)), dtype=dtype, order=order)
    features, thresholds = rng.integers(0, 4, size=7), rng.normal(size=7)
    values = rng.normal(size=7)
    out = np.full(30, np.nan)
    score_stumps(X, features, thresholds, values, 0.25, out)
    np.testing.assert_allclose(
        out, slow_scores(X, features, thresholds, values, 0.25), atol=1e-14
    )  # fmt: skip


def test_no_stumps_leave_the_intercept():
    out = np.empty(3)
    none = np.empty(0)
    score_stumps(np.zeros((3, 2)), none.astype(np.int64), none, none, -1.5, out)
    np.testing.assert_array_equal(out, -1.5)


def test_no_rows_are_no_error():
    out = np.empty(0)
    score_stumps(np.empty((0, 2)), np.array([1]), np.array([0.0]), np.array([1.0]), 0.0, out)
    assert out.shape == (0,)


def test_a_value_at_the_threshold_is_not_above_it():
    X = np.array([[np.nextafter(0.5, 0)], [0.5], [np.nextafter(0.5, 1)]])
    out = np.empty(3)
    score_stumps(X, np.array([0]), np.array([0.5]), np.array([1.0]), 0.0, out)
    np.testing.assert_array_equal(out, [-1.0, -1.0, 1.0])


def test_single_precision_is_compared_with_the_threshold_in_double():
    low = np.float32(1.0)
    high = np.nextafter(low, np.float32(2.0))
    X = np.array([[low], [high]], dtype=np.float32)
    middle = (float(low) + float(high)) / 2
    out = np.empty(2)
    score_stumps(X, np.array([0]), np.array([middle]), np.array([1.0]), 0.0, out)
    np.testing.assert_array_equal(out, [-1.0, 1.0])


def test_rows_of_a_slice_are_scored_in_place():
    X = np.arange(24.0).reshape(6, 4)[::2, 1:]
    out = np.empty(3)
    score_stumps(X, np.array([2]), np.array([10.0]), np.array([1.0]), 0.0, out)
    np.testing.assert_array_equal(out, [-1.0, 1.0, 1.0])
