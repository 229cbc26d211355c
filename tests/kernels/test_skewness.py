"""Kernels of the skewness bound, against sums from their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from totalqboost.kernels.skewness import BLOCK, pair_form, pair_moments, skewest


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
    first, second, _ = pairs(k)
    out = np.empty((len(first), k))
    pair_moments(W.astype(np.float32), u.astype(np.float32), out)
    expected = np.einsum("pi,ci,i->pc", W[first] * W[second], W, u)
    size = np.einsum("pi,ci,i->pc", np.abs(W[first] * W[second]), np.abs(W), u)
    assert (np.abs(out - expected) <= (BLOCK + 8) * 2.0**-24 * size).all()


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
