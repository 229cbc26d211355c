"""Kernels over the non-zeros, against NumPy over all rows."""

from __future__ import annotations

import numpy as np
import pytest

from totalqboost.kernels.histogram import BY_EDGE, BY_NEWTON_DECREASE, best_cuts
from totalqboost.kernels.sparse import (
    ABSENT,
    best_sparse_cuts,
    fill_sparse_histogram,
    sparse_cut_sums,
)


def coded(seed, m=60, n_features=7):
    """Return dense codes, the same without those of zero, and the numbers of codes."""
    rng = np.random.default_rng(seed)
    n_codes = rng.integers(1, 9, n_features)
    codes = np.array([rng.integers(0, k, m) for k in n_codes], dtype=np.uint16)
    zero = np.array([rng.integers(0, k) for k in n_codes], dtype=np.uint16)
    codes[rng.random(codes.shape) < 0.6] = 0
    codes = np.where(codes == 0, zero[:, None], codes).astype(np.uint16)
    features, rows = np.nonzero(codes != zero[:, None])
    starts = np.searchsorted(features, np.arange(n_features + 1))
    entries = starts, rows.astype(np.int32), codes[features, rows], zero, n_codes
    return codes, entries, rng


@pytest.mark.parametrize("seed", range(5))
def test_a_histogram_of_non_zeros_is_that_of_all_rows(seed):
    codes, (starts, rows, own, zero, n_codes), rng = coded(seed)
    g, h = rng.normal(size=60), rng.random(60)
    for f, k in enumerate(n_codes):
        hist = np.zeros((k, 2))
        part = slice(starts[f], starts[f + 1])
        fill_sparse_histogram(rows[part], own[part], zero[f], g, h, g.sum(), h.sum(), hist)
        expected = [np.bincount(codes[f], weights, k) for weights in (g, h)]
        np.testing.assert_allclose(hist, np.transpose(expected), atol=1e-12)


@pytest.mark.parametrize("rule", [BY_EDGE, BY_NEWTON_DECREASE])
@pytest.mark.parametrize("seed", range(5))
def test_the_best_cuts_are_those_of_the_dense_kernel(seed, rule):
    codes, entries, rng = coded(seed)
    n_codes, n = entries[-1], len(codes)
    g, h = rng.normal(size=60), rng.random(60)
    polarity = rng.integers(-1, 2, n)
    blocked_start, blocked = np.minimum(np.arange(n + 1), 1), np.array([0])
    results = []
    for kernel, given in ((best_cuts, (codes, n_codes)), (best_sparse_cuts, entries)):
        prices, keys, edges = np.full((n, 3), -np.inf), np.full((n, 3), -1), np.zeros((n, 3))
        rest = g, h, rule, 0.01, blocked_start, blocked, 1e-9
        kernel(*given, polarity, *rest, 0, n, prices, keys, edges)
        results.append((prices, keys, edges))
    np.testing.assert_array_equal(results[0][1], results[1][1])
    for dense, own in zip(results[0], results[1], strict=True):
        np.testing.assert_allclose(own, dense, atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_sums_of_some_cuts_of_some_features_over_some_rows(seed):
    codes, entries, rng = coded(seed)
    features = np.array([1, 2, 5])
    cuts = [np.flatnonzero(rng.random(entries[-1][f] - 1) < 0.7) for f in features]
    offsets = np.concatenate([[0], np.cumsum([len(c) for c in cuts])])
    rows = np.sort(rng.permutation(60)[:41])
    at = np.full(60, ABSENT, np.int32)
    at[rows] = np.arange(41)
    Q = rng.normal(size=(41, 8)).astype(np.float32)
    sums = np.full((offsets[-1], 8), np.nan, np.float32)
    what = features, np.concatenate(cuts), offsets, at, Q, Q.sum(axis=0)
    sparse_cut_sums(*entries, *what, 0, 3, sums)
    expected = [
        np.where(codes[f, rows] > cut, 1.0, -1.0) @ Q
        for f, own in zip(features, cuts, strict=True)
        for cut in own
    ]
    np.testing.assert_allclose(sums, np.reshape(expected, (-1, 8)), atol=1e-4)
