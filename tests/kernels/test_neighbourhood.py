"""The product s = A u against NumPy, for every remainder of the unrolled loop."""

from __future__ import annotations

import numpy as np
import pytest

from totalqboost.kernels.neighbourhood import correlate


def random_signs(n, m, seed=0):
    return np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), size=(n, m))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", range(10))
def test_correlate_is_the_product_for_any_number_of_columns(n, dtype):
    A = random_signs(n, 53, seed=n)
    u = np.random.default_rng(100 + n).normal(size=53).astype(dtype)
    out = np.full(n, np.nan)
    correlate(A, u, out)
    rounding = 53 * np.finfo(dtype).eps * np.abs(u).sum()
    np.testing.assert_allclose(out, A.astype(float) @ u.astype(float), rtol=0, atol=rounding)


@pytest.mark.parametrize("m", [1, 2, 7, 8, 60])
def test_correlate_is_exact_where_sums_are_exact(m):
    A = random_signs(6, m, seed=m)
    u = np.random.default_rng(m).integers(-8, 9, size=m).astype(float)
    out = np.empty(6)
    correlate(A, u, out)
    np.testing.assert_array_equal(out, A.astype(float) @ u)


def test_correlate_writes_into_a_float32_result():
    A = random_signs(5, 40)
    u = np.random.default_rng(1).random(40).astype(np.float32)
    out = np.empty(5, np.float32)
    correlate(A, u, out)
    np.testing.assert_allclose(out, A.astype(float) @ u, atol=1e-4)


def test_correlate_takes_a_row_wise_slice_of_a_longer_matrix():
    A = random_signs(9, 30)
    u = np.random.default_rng(2).random(30)
    out = np.empty(4)
    correlate(A[3:7], u, out)
    np.testing.assert_allclose(out, A[3:7].astype(float) @ u, rtol=1e-13)


def test_correlate_leaves_its_inputs_alone():
    A, u = random_signs(5, 20), np.arange(20.0)
    A_before, u_before = A.copy(), u.copy()
    correlate(A, u, np.empty(5))
    np.testing.assert_array_equal(A, A_before)
    np.testing.assert_array_equal(u, u_before)


def test_one_product_prices_every_move_of_one_weight():
    """e^-d P_j + e^d N_j is the exponential risk after w_j moves by d, as the module says."""
    rng = np.random.default_rng(3)
    A, w = random_signs(5, 60, seed=3), rng.random(5)
    u = np.exp(-(w @ A)) / 60
    s, f = np.empty(5), u.sum()
    correlate(A, u, s)
    for j in range(5):
        for d in (-0.3, 0.2, 1.0):
            moved = w.copy()
            moved[j] += d
            predicted = np.exp(-d) * (f + s[j]) / 2 + np.exp(d) * (f - s[j]) / 2
            assert predicted == pytest.approx(np.exp(-(moved @ A)).mean(), rel=1e-12)
