"""Kernels of the refit, each against a slow NumPy twin."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize, nnls

from totalqboost import losses
from totalqboost.kernels.loss_codes import EXPONENTIAL, LOGISTIC, SMOOTHED_HINGE, SQUARED
from totalqboost.kernels.newton import (
    BLOCK,
    correlate,
    gram,
    loss_terms,
    margins,
    merge_rows,
    minimise_model,
    newton_refit,
    own_gram,
    solve_spd,
)

CODES = {
    "exponential": EXPONENTIAL,
    "logistic": LOGISTIC,
    "squared": SQUARED,
    "smoothed_hinge": SMOOTHED_HINGE,
}
every_loss = pytest.mark.parametrize("name", sorted(CODES))


def random_signs(rng, n, m, accuracy=0.6):
    return np.where(rng.random((n, m)) < accuracy, 1, -1).astype(np.int8)


def random_definite(rng, k):
    B = rng.normal(size=(k, k + 2))
    return B @ B.T / k


# -- products ----------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 1, 4, 7])
def test_margins_are_the_weighted_sum_of_the_chosen_columns(k):
    rng = np.random.default_rng(k)
    A, columns, x = random_signs(rng, 9, 41), rng.permutation(9)[:k], rng.normal(size=k)
    x[: k // 2] = 0.0
    z = np.full(41, np.nan)
    margins(A, columns, x, z)
    np.testing.assert_allclose(z, x @ A[columns].astype(float), atol=1e-14)


@pytest.mark.parametrize("k", [0, 1, 4, 7])
def test_correlate_gives_the_edges_of_the_chosen_columns(k):
    rng = np.random.default_rng(k)
    A, columns, u = random_signs(rng, 9, 41), rng.permutation(9)[:k], rng.normal(size=41)
    out = np.full(k, np.nan)
    correlate(A, columns, u, out)
    np.testing.assert_allclose(out, A[columns].astype(float) @ u, atol=1e-13)


def test_correlate_in_single_precision_stays_in_it():
    rng = np.random.default_rng(0)
    A, columns = random_signs(rng, 9, 41), np.arange(9)
    u = rng.normal(size=41).astype(np.float32)
    out = np.full(9, np.nan, np.float32)
    correlate(A, columns, u, out)
    np.testing.assert_allclose(out, A @ u.astype(float), atol=1e-4)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("n", range(10))
def test_gram_is_the_weighted_inner_product_for_any_number_of_columns(k, n):
    rng = np.random.default_rng(10 * k + n)
    A, q = random_signs(rng, 9, 50), rng.random(50)
    columns, others = rng.permutation(9)[:k], rng.permutation(9)[:n]
    out = np.full((k, n), np.nan)
    gram(A, columns, others, q, out)
    expected = (A[columns] * q) @ A[others].astype(float).T
    np.testing.assert_allclose(out, expected, rtol=0, atol=2e-6 * q.sum())


@pytest.mark.parametrize("k", range(12))
def test_own_gram_is_the_gram_matrix_of_the_columns_with_themselves(k):
    rng = np.random.default_rng(k)
    A, q = random_signs(rng, 12, 50), rng.random(50)
    columns = rng.permutation(12)[:k]
    out = np.full((k, k), np.nan)
    own_gram(A, columns, q, out)
    expected = (A[columns] * q) @ A[columns].astype(float).T
    np.testing.assert_allclose(out, expected, rtol=0, atol=2e-6 * q.sum())


@pytest.mark.parametrize("m", [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 37])
def test_gram_adds_its_blocks_of_examples(m):
    rng = np.random.default_rng(m)
    A, q = random_signs(rng, 5, m), rng.random(m)
    columns = np.arange(5)
    out = np.empty((2, 5))
    gram(A, columns[:2], columns, q, out)
    expected = (A[:2] * q) @ A.astype(float).T
    np.testing.assert_allclose(out, expected, rtol=0, atol=2e-6 * q.sum())


# -- losses ------------------------------------------------------------------------------


@every_loss
def test_loss_terms_agree_with_the_losses(name):
    rng = np.random.default_rng(0)
    loss = losses.get(name)
    assert loss.code == CODES[name]
    z = np.concatenate([rng.normal(scale=2.0, size=50), [-30.0, 0.0, 1.0, 30.0]])
    c = rng.random(len(z))
    u, q = np.empty_like(z), np.empty_like(z)
    risk = loss_terms(CODES[name], z, c, u, q)
    assert risk == pytest.approx(c @ loss.value(z), rel=1e-13)
    np.testing.assert_allclose(u, c * loss.weight(z), rtol=1e-13)
    # The curvature only steers: off the corners of the hinge it must be right where it is
    # positive, and it may be positive where the true one is zero.
    inside = loss.curvature(z) > 1e-12
    np.testing.assert_allclose(q[inside], (c * loss.curvature(z))[inside], rtol=1e-12)
    assert (q >= 0).all()
    assert (q <= (1 + 1e-12) * c * np.maximum(loss.curvature(z), 1.0)).all()


@every_loss
def test_loss_terms_are_finite_at_extreme_margins(name):
    loss = losses.get(name)
    z, c = np.array([-1000.0, -750.0, 750.0, 1000.0]), np.full(4, 0.25)
    u, q = np.empty(4), np.empty(4)
    risk = loss_terms(CODES[name], z, c, u, q)
    assert risk == pytest.approx(c @ loss.value(z), rel=1e-13)
    np.testing.assert_allclose(u, c * loss.weight(z), rtol=1e-13, atol=1e-300)
    assert np.isfinite(q).all()


# -- linear algebra ----------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_solve_spd_solves_on_the_chosen_rows(k):
    rng = np.random.default_rng(k)
    H, rhs = random_definite(rng, 9), rng.normal(size=9)
    free = np.full(9, -1)
    free[:k] = rng.permutation(9)[:k]
    x, L = np.empty(9), np.empty((9, 9))
    assert solve_spd(H, free, k, rhs, x, L)
    expected = np.linalg.solve(H[np.ix_(free[:k], free[:k])], rhs[:k])
    np.testing.assert_allclose(x[:k], expected, rtol=1e-8)


@pytest.mark.parametrize(
    "H",
    [
        [[0.0, 0.0], [0.0, 1.0]],
        [[1.0, 1.0], [1.0, 1.0]],
        [[1.0, 2.0], [2.0, 1.0]],
        [[1.0, 0.0], [0.0, -1.0]],
    ],
    ids=["zero", "singular", "indefinite", "negative"],
)
def test_solve_spd_refuses_a_matrix_that_is_not_definite(H):
    x, L = np.empty(2), np.empty((2, 2))
    assert not solve_spd(np.array(H), np.arange(2), 2, np.ones(2), x, L)


# -- the second-order model --------------------------------------------------------------


def model(H, g, x, y):
    return g @ (y - x) + (y - x) @ H @ (y - x) / 2


def best_by_enumeration(H, g, x):
    """Minimise the model over y >= 0 by trying every set of positive coordinates."""
    k = len(x)
    linear = g - H @ x
    best = np.zeros(k)
    for size in range(1, k + 1):
        for chosen in combinations(range(k), size):
            y = np.zeros(k)
            y[list(chosen)] = np.linalg.solve(H[np.ix_(chosen, chosen)], -linear[list(chosen)])
            if (y >= 0).all() and model(H, g, x, y) < model(H, g, x, best):
                best = y
    return best


def random_start(rng, k):
    return rng.exponential(size=k) * (rng.random(k) < 0.6)


@pytest.mark.parametrize("seed", range(20))
def test_minimise_model_finds_the_best_of_all_active_sets(seed):
    rng = np.random.default_rng(seed)
    k = 1 + seed % 6
    H, g, x = random_definite(rng, k), rng.normal(size=k), random_start(rng, k)
    y = np.empty(k)
    minimise_model(H, g, x, np.zeros(len(x)), y, np.empty((k, k)))
    assert (y >= 0).all()
    np.testing.assert_allclose(y, best_by_enumeration(H, g, x), atol=1e-8)


@pytest.mark.parametrize("seed", range(10))
def test_minimise_model_agrees_with_nonnegative_least_squares(seed):
    rng = np.random.default_rng(seed)
    k = 9
    H, g, x = random_definite(rng, k), 3 * rng.normal(size=k), random_start(rng, k)
    y = np.empty(k)
    minimise_model(H, g, x, np.zeros(len(x)), y, np.empty((k, k)))
    R = np.linalg.cholesky(H).T
    expected, _ = nnls(R, np.linalg.solve(R.T, H @ x - g))
    assert model(H, g, x, y) == pytest.approx(model(H, g, x, expected), abs=1e-9)
    np.testing.assert_allclose(y, expected, atol=1e-7)


@pytest.mark.parametrize("seed", range(10))
def test_minimise_model_never_climbs_even_where_it_must_stop_early(seed):
    rng = np.random.default_rng(seed)
    k = 6
    H = random_definite(rng, k) - np.eye(k)  # indefinite: some factorisation fails
    g, x = rng.normal(size=k), random_start(rng, k)
    y = np.empty(k)
    minimise_model(H, g, x, np.zeros(len(x)), y, np.empty((k, k)))
    assert (y >= 0).all()
    assert model(H, g, x, y) <= 1e-12


def test_minimise_model_stays_at_its_optimum():
    rng = np.random.default_rng(0)
    H = random_definite(rng, 4)
    x = np.array([0.5, 0.0, 2.0, 0.0])
    g = np.array([0.0, 0.3, 0.0, 0.0])
    y = np.empty(4)
    minimise_model(H, g, x, np.zeros(len(x)), y, np.empty((4, 4)))
    np.testing.assert_array_equal(y, x)


# -- the whole refit ---------------------------------------------------------------------


def l1_risk(A, columns, x, c, nu, loss):
    return c @ loss.value(x @ A[columns].astype(float)) + nu @ x


def largest_violation(A, columns, x, c, nu, loss):
    B = A[columns].astype(float)
    gradient = nu - B @ (c * loss.weight(x @ B))
    return np.where(x > 0, np.abs(gradient), np.maximum(-gradient, 0.0)).max()


def minimum_by_lbfgsb(A, columns, c, nu, loss):
    B = A[columns].astype(float)

    def value_and_gradient(x):
        z = x @ B
        return c @ loss.value(z) + nu @ x, nu - B @ (c * loss.weight(z))

    x = np.full(len(columns), 0.1)
    for _ in range(5):  # restarts: it may stop early on the corners of the hinge
        options = {"gtol": 1e-10, "ftol": 1e-16}
        found = minimize(
            value_and_gradient,
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * len(columns),
            options=options,
        )
        x = found.x
    return found.fun


def run_newton(A, columns, x, c, nu, code, tol=1e-8, max_iter=200, hessian=None, target=np.inf):
    k = len(columns)
    H = np.empty((k, k)) if hessian is None else hessian
    has_hessian = hessian is not None
    least = np.zeros(len(x))
    return newton_refit(A, columns, x, least, c, nu, code, tol, max_iter, H, has_hessian, target)


def random_problem(seed, n=7, m=60, accuracy=0.6):
    rng = np.random.default_rng(seed)
    A, c = random_signs(rng, n, m, accuracy), 0.2 + rng.random(m)
    columns = np.arange(n)[rng.random(n) < 0.8]
    nu = 10.0 ** -(1 + seed % 4) * (0.5 + rng.random(len(columns)))  # each column pays its own
    nu[0] = 1e-9  # a free one
    return A, columns, c / c.sum(), nu


@every_loss
@pytest.mark.parametrize("seed", range(4))
def test_newton_refit_reaches_the_optimum_of_lbfgsb(name, seed):
    A, columns, c, nu = random_problem(seed)
    loss = losses.get(name)
    x = np.full(len(columns), 0.1)
    objective, violation, _ = run_newton(A, columns, x, c, nu, CODES[name])
    assert (x >= 0).all()
    assert objective == pytest.approx(minimum_by_lbfgsb(A, columns, c, nu, loss), abs=1e-9)
    assert objective == pytest.approx(l1_risk(A, columns, x, c, nu, loss), rel=1e-12)
    assert violation <= 1e-7
    assert violation == pytest.approx(largest_violation(A, columns, x, c, nu, loss), abs=1e-12)


@every_loss
def test_newton_refit_does_not_move_from_an_optimum(name):
    A, columns, c, nu = random_problem(1)
    x = np.full(len(columns), 0.1)
    run_newton(A, columns, x, c, nu, CODES[name])
    at_optimum = x.copy()
    _, violation, n_steps = run_newton(A, columns, x, c, nu, CODES[name], tol=1e-6)
    assert n_steps == 0
    assert violation <= 1e-6
    np.testing.assert_array_equal(x, at_optimum)


@every_loss
def test_newton_refit_improves_with_every_step(name):
    A, columns, c, nu = random_problem(2)
    loss = losses.get(name)
    values = []
    for max_iter in range(1, 6):
        x = np.full(len(columns), 0.1)
        run_newton(A, columns, x, c, nu, CODES[name], max_iter=max_iter)
        values.append(l1_risk(A, columns, x, c, nu, loss))
    assert values[0] < l1_risk(A, columns, np.full(len(columns), 0.1), c, nu, loss)
    assert (np.diff(values) <= 1e-15).all()


def test_newton_refit_starts_from_a_given_hessian():
    A, _, c, _ = random_problem(3)
    columns, nu = np.arange(7), np.linspace(1e-4, 2e-3, 7)
    loss = losses.get("exponential")
    x = np.zeros(7)
    H = (A * c) @ A.astype(float).T + 1e-9 * np.eye(7)
    objective, violation, _ = run_newton(A, columns, x, c, nu, EXPONENTIAL, hessian=H)
    assert violation <= 1e-7
    assert objective == pytest.approx(minimum_by_lbfgsb(A, columns, c, nu, loss), abs=1e-9)


def test_newton_refit_recovers_from_a_useless_hessian():
    A, columns, c, nu = random_problem(3)
    loss = losses.get("exponential")
    k = len(columns)
    for H in (np.zeros((k, k)), -np.eye(k), 1e-9 * np.eye(k), np.full((k, k), np.nan)):
        x = np.zeros(k)
        objective, violation, _ = run_newton(A, columns, x, c, nu, EXPONENTIAL, hessian=H)
        assert violation <= 1e-7
        assert objective == pytest.approx(minimum_by_lbfgsb(A, columns, c, nu, loss), abs=1e-9)


def problem_with_a_good_start(name):
    """A problem, and weights better than none (worse ones are thrown away)."""
    A, columns, c, nu = random_problem(2, accuracy=0.75)
    x = np.full(len(columns), 0.1)
    loss = losses.get(name)
    assert l1_risk(A, columns, x, c, nu, loss) < l1_risk(A, columns, 0 * x, c, nu, loss)
    return A, columns, c, nu, x


@every_loss
def test_newton_refit_gives_up_at_once_on_a_hopeless_target(name):
    A, columns, c, nu, x = problem_with_a_good_start(name)
    # As far below zero as the model can never promise, whatever the curvature.
    objective, _, n_steps = run_newton(A, columns, x, c, nu, CODES[name], target=-1e30)
    assert n_steps == 0
    np.testing.assert_array_equal(x, 0.1)
    assert objective == pytest.approx(l1_risk(A, columns, x, c, nu, losses.get(name)))


def test_newton_refit_of_no_columns_is_the_empty_ensemble():
    A, _, c, _ = random_problem(0)
    none, empty = np.empty(0, np.intp), np.empty(0)
    objective, violation, n_steps = run_newton(A, none, empty, c, empty, EXPONENTIAL)
    assert objective == pytest.approx(1.0)
    assert violation == 0.0
    assert n_steps == 0


@every_loss
def test_newton_refit_reports_the_objective_of_its_weights_after_long_backtracking(name):
    """A Hessian far too small makes a first step of 1e8 or so, which is cut many times."""
    A, columns, c, nu, x = problem_with_a_good_start(name)
    loss = losses.get(name)
    H = 1e-9 * np.eye(len(columns))
    objective, violation, _ = run_newton(A, columns, x, c, nu, CODES[name], hessian=H)
    assert objective == pytest.approx(l1_risk(A, columns, x, c, nu, loss), rel=1e-12)
    assert violation == pytest.approx(largest_violation(A, columns, x, c, nu, loss), abs=1e-12)


@every_loss
def test_newton_refit_reports_the_objective_of_its_weights_from_a_bad_start(name):
    """Every margin is -200: exp(200) has no float32, the other losses no curvature."""
    rng = np.random.default_rng(25)
    A = random_signs(rng, 4, 40, accuracy=0.7)
    A[0] = -1
    c = rng.random(40)
    c /= c.sum()
    x = np.array([200.0, 0.0, 0.0, 0.0])
    columns, nu = np.arange(4), np.full(4, 1e-3)
    loss = losses.get(name)
    with np.errstate(over="ignore", invalid="ignore"):
        objective, _, _ = run_newton(A, columns, x, c, nu, CODES[name], tol=5e-4)
    assert (x >= 0).all()
    assert objective <= loss.value(np.zeros(1))[0] + 1e-12
    assert objective == pytest.approx(l1_risk(A, columns, x, c, nu, loss), rel=1e-11)


@pytest.mark.parametrize("n_columns", [1, 3, 6])
def test_merged_rows_are_the_patterns_with_their_weights(n_columns):
    rng = np.random.default_rng(n_columns)
    A = rng.choice(np.array([-1, 1], np.int8), (8, 5000))
    support, c = rng.permutation(8)[:n_columns], rng.uniform(size=5000)
    keys, weights = np.empty(64, np.uint64), np.empty(64)
    n = merge_rows(A, support, c, keys, weights, np.full(128, -1, np.int32))
    expected = {}
    for column, weight in zip(A[support].T.tolist(), c, strict=True):
        key = sum(1 << t for t, sign in enumerate(column) if sign > 0)
        expected[key] = expected.get(key, 0.0) + weight
    found = dict(zip(keys[:n].tolist(), weights[:n].tolist(), strict=True))
    assert found == pytest.approx(expected)
    assert list(found) == list(expected)  # in the order in which they occur


def test_merging_gives_up_where_patterns_are_too_many():
    A = np.random.default_rng(0).choice(np.array([-1, 1], np.int8), (6, 400))
    keys, weights = np.empty(5, np.uint64), np.empty(5)
    slots = np.full(16, -1, np.int32)
    assert merge_rows(A, np.arange(6), np.ones(400), keys, weights, slots) == -1
