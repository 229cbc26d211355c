"""Kernels of the skewness bound, against sums from their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from totalqboost.kernels.skewness import BLOCK, pair_form, skewest, third_moments, whiten


def symmetric_tensor(rng, k):
    W, u = rng.normal(size=(k, 12)), rng.random(12)
    return np.einsum("ai,bi,ci,i->abc", W, W, W, u)


def pairs(k):
    first, second = np.triu_indices(k)
    place = np.empty((k, k), dtype=np.int64)
    place[first, second] = place[second, first] = np.arange(len(first))
    return first, second, place


@pytest.mark.parametrize(("k", "m"), [(1, 3), (4, BLOCK), (6, BLOCK + 1), (5, 3 * BLOCK - 7)])
def test_third_moments_are_sums_in_single_precision(k, m):
    rng = np.random.default_rng(k)
    W, u = rng.normal(size=(k, m)) + 0.3, rng.random(m) / m
    T = np.empty((k, k, k))
    error = third_moments(W, u, T)
    expected = np.einsum("ai,bi,ci,i->abc", W, W, W, u)
    size = np.einsum("ai,bi,ci,i->abc", *(np.abs(W),) * 3, u)
    assert (np.abs(T - expected) <= (BLOCK + 8) * 2.0**-24 * size).all()
    cubes = u @ np.linalg.norm(W, axis=0) ** 3
    assert error == pytest.approx((BLOCK + 8) * 2.0**-24 * cubes, rel=0.02)


@pytest.mark.parametrize(("k", "m"), [(1, 9), (4, BLOCK), (6, BLOCK + 5)])
def test_whitened_columns_have_mean_zero_and_covariance_one(k, m):
    rng = np.random.default_rng(k)
    A = np.where(rng.random((k + 2, m)) < 0.6, 1, -1).astype(np.int8)
    columns, u = rng.permutation(k + 2)[:k], rng.random(m)
    u /= u.sum()
    B = A[columns].astype(float)
    G, inverse, W = np.empty((k, k)), np.empty((k, k)), np.empty((k, m))
    assert whiten(A, columns, u, B @ u, 1e-6, G, inverse, W)
    np.testing.assert_allclose(G, (B * u) @ B.T, atol=1e-12)
    np.testing.assert_allclose(W, inverse @ (B - (B @ u)[:, None]), atol=1e-9)
    np.testing.assert_allclose(W @ u, 0.0, atol=1e-9)
    np.testing.assert_allclose((W * u) @ W.T, np.eye(k), atol=1e-9)
    np.testing.assert_array_equal(inverse, np.tril(inverse))
    assert not whiten(A, columns, u, B @ u, 1.5, G, inverse, W)  # no column has that variance


@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_climb_ends_in_a_direction_of_the_value_it_returns(k):
    rng = np.random.default_rng(k)
    T = symmetric_tensor(rng, k)
    x = rng.normal(size=k)
    x /= np.linalg.norm(x)
    start = abs(np.einsum("abc,a,b,c->", T, x, x, x))
    value = skewest(T, x, 60)
    assert np.linalg.norm(x) == pytest.approx(1.0)
    assert value == pytest.approx(abs(np.einsum("abc,a,b,c->", T, x, x, x)), rel=1e-2)
    assert value >= start - 1e-12


def test_no_skewness_is_zero():
    assert skewest(np.zeros((3, 3, 3)), np.array([1.0, 0.0, 0.0]), 5) == 0.0


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("shift", [0.0, 0.7])
def test_the_form_over_pairs_is_the_quartic_form(k, shift):
    rng = np.random.default_rng(k)
    T = symmetric_tensor(rng, k)
    first, second, place = pairs(k)
    V = T[:, first, second]
    M = np.empty((len(first), len(first)))
    pair_form(V.T @ V, place, shift, M)
    np.testing.assert_array_equal(M, M.T)
    for _ in range(5):
        x = rng.normal(size=k)
        y = x[first] * x[second] * np.where(first == second, 1.0, np.sqrt(2.0))
        quartic = sum((x @ Ta @ x) ** 2 for Ta in T)
        assert y @ M @ y == pytest.approx(quartic - shift * (x @ x) ** 2, rel=1e-9)
