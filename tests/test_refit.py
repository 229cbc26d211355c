"""The continuous refit: optimal, monotone, and calm on degenerate problems."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from refit_conditions import violation

from totalqboost import losses
from totalqboost.master import MasterProblem
from totalqboost.refit import GrowingRefit, refit, refit_lbfgsb, refit_value

every_loss = pytest.mark.parametrize("loss", losses.names())


def random_problem(seed, loss, n=8, m=90, nu=None, **settings):
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((n, m)) < rng.uniform(0.5, 0.8), 1, -1)
    nu = 10.0 ** rng.uniform(-5, -1) if nu is None else nu
    settings.setdefault("sample_weight", 0.05 + rng.random(m))
    return MasterProblem(A, nu=nu, loss=loss, **settings)


def everything(problem):
    return np.arange(problem.n_columns)


def reference(problem, support):
    """L-BFGS-B, restarted: on the smoothed hinge one run may stop early."""
    w = None
    for _ in range(6):
        w, _ = refit_lbfgsb(problem, support, w, tol=1e-11)
    return problem.objective(w)


# -- optimality --------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("seed", range(12))
def test_refit_agrees_with_lbfgsb(loss, seed):
    problem = random_problem(seed, loss)
    support = np.flatnonzero(np.random.default_rng(seed).random(8) < 0.7)
    w = refit(problem, support, tol=1e-10)
    assert problem.is_feasible(w)
    assert not np.delete(w, support).any()
    assert problem.objective(w) == pytest.approx(reference(problem, support), abs=1e-8)


@every_loss
@pytest.mark.parametrize("tol", [5e-4, 1e-6])
@pytest.mark.parametrize("seed", range(12))
def test_refit_leaves_no_violation_above_its_tolerance(loss, tol, seed):
    problem = random_problem(seed, loss)
    w = refit(problem, everything(problem), tol=tol)
    # Recomputed with NumPy from the definition, not by the function under test.
    gradient = problem.nu - problem.A @ problem.dual_weights(w)
    worst = np.where(w > 0, np.abs(gradient), np.maximum(-gradient, 0.0)).max()
    assert worst <= tol * (1 + 1e-9)


@pytest.mark.parametrize("seed", [427, 788])
def test_refit_of_the_smoothed_hinge_converges_through_its_flat_parts(seed):
    problem = random_problem(seed, "smoothed_hinge", n=10, m=25)
    w = refit(problem, everything(problem))
    assert violation(problem, everything(problem), w) <= 5e-4


def test_refit_ignores_the_price_of_columns():
    dear, cheap = (random_problem(0, "exponential", lam=lam) for lam in (10.0, 0.0))
    np.testing.assert_array_equal(refit(dear, everything(dear)), refit(cheap, everything(cheap)))


def test_refit_of_one_column_is_the_weight_of_adaboost():
    """Without nu the exponential loss has the optimum log((1 - err) / err) / 2."""
    column = np.where(np.arange(50) < 13, -1, 1)[None, :]
    w = refit(MasterProblem(column, nu=0.0), np.array([0]), tol=1e-12)
    assert w[0] == pytest.approx(np.log(37 / 13) / 2, abs=1e-8)


# -- starts ------------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("seed", range(6))
def test_a_warm_start_does_not_change_the_answer(loss, seed):
    problem = random_problem(seed, loss)
    support = everything(problem)
    cold = problem.objective(refit(problem, support, tol=1e-9))
    start = np.random.default_rng(seed).exponential(scale=0.3, size=8)
    untouched = start.copy()
    warm = problem.objective(refit(problem, support, start, tol=1e-9))
    assert warm == pytest.approx(cold, abs=1e-8)
    np.testing.assert_array_equal(start, untouched)


@every_loss
def test_a_start_at_the_optimum_stays_there(loss):
    problem = random_problem(3, loss)
    support = everything(problem)
    w = refit(problem, support, tol=1e-6)
    np.testing.assert_array_equal(refit(problem, support, w, tol=1e-5), w)


def test_a_start_outside_the_support_is_dropped():
    problem = random_problem(3, "logistic")
    support = np.array([1, 4])
    start = np.full(8, 0.5)
    inside = np.where(np.isin(np.arange(8), support), start, 0.0)
    expected = refit(problem, support, inside, tol=1e-9)
    np.testing.assert_array_equal(refit(problem, support, start, tol=1e-9), expected)


@every_loss
@pytest.mark.parametrize("scale", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("max_iter", [1, 2, 200])
def test_refit_never_increases_the_objective(loss, scale, max_iter):
    for seed in range(5):
        problem = random_problem(seed, loss)
        start = np.random.default_rng(seed).exponential(scale=scale, size=8)
        before = problem.objective(start)
        w = refit(problem, everything(problem), start, max_iter=max_iter)
        assert problem.objective(w) <= before * (1 + 1e-14)


@every_loss
def test_a_start_with_hopeless_margins_is_left_behind(loss):
    """Margins of -100 and less: exp(100) does not fit into single precision."""
    problem = random_problem(0, loss, nu=1e-3)
    start = np.zeros(8)
    start[np.argmin(problem.A.sum(axis=1))] = 120.0
    w = refit(problem, everything(problem), start)
    assert problem.objective(w) <= problem.objective(np.zeros(8))
    assert violation(problem, everything(problem), w) <= 5e-4


# -- degenerate problems -----------------------------------------------------------------


@every_loss
def test_an_empty_support_gives_zero_weights(loss):
    problem = random_problem(0, loss)
    none = np.array([], dtype=int)
    np.testing.assert_array_equal(refit(problem, none), np.zeros(8))
    np.testing.assert_array_equal(refit_lbfgsb(problem, none)[0], np.zeros(8))
    np.testing.assert_array_equal(refit(problem, none, np.ones(8)), np.zeros(8))
    np.testing.assert_array_equal(refit(problem, []), np.zeros(8))
    w, value = refit_value(problem, none)
    np.testing.assert_array_equal(w, np.zeros(8))
    assert value == pytest.approx(problem.risk(np.zeros(8)), rel=1e-14)


@every_loss
def test_duplicate_columns_do_no_harm(loss):
    single = random_problem(1, loss, n=4)
    double = MasterProblem(
        np.vstack([single.A, single.A, single.A[:1]]),
        nu=single.nu,
        loss=loss,
        sample_weight=single.sample_weight,
    )
    w = refit(double, everything(double), tol=1e-9)
    alone = refit(single, everything(single), tol=1e-9)
    assert np.isfinite(w).all()
    assert double.objective(w) == pytest.approx(single.objective(alone), abs=1e-8)


@every_loss
@pytest.mark.parametrize("nu", [0.0, 1e-3])
def test_opposite_columns_do_no_harm(loss, nu):
    single = random_problem(1, loss, n=4, nu=nu)
    both = MasterProblem(
        np.vstack([single.A, -single.A]), nu=nu, loss=loss, sample_weight=single.sample_weight
    )
    start = np.full(8, 0.4)
    w = refit(both, everything(both), start, tol=1e-9)
    assert both.is_feasible(w)
    assert both.objective(w) == pytest.approx(reference(both, everything(both)), abs=1e-8)
    if nu > 0:  # nobody pays twice for a pair that cancels
        assert (np.minimum(w[:4], w[4:]) <= 1e-4).all()


@every_loss
@pytest.mark.parametrize("nu", [0.0, 1e-9, 1e-6])
@pytest.mark.parametrize("tol", [5e-4, 1e-9])
def test_separable_data_stay_finite(loss, nu, tol):
    rng = np.random.default_rng(0)
    A = np.where(rng.random((5, 40)) < 0.9, 1, -1)
    A[2] = 1  # one column is right on every example
    problem = MasterProblem(A, nu=nu, loss=loss)
    w = refit(problem, everything(problem), tol=tol)
    assert problem.is_feasible(w)
    assert w.max() < 1e6
    assert problem.objective(w) < 0.01


@every_loss
def test_a_column_that_is_always_wrong_gets_no_weight(loss):
    problem = MasterProblem(-np.ones((1, 6)), nu=1e-3, loss=loss)
    np.testing.assert_array_equal(refit(problem, [0]), [0.0])
    assert refit(problem, [0], np.array([2.0]))[0] == 0.0


@every_loss
def test_rows_without_weight_do_not_matter(loss):
    full = random_problem(2, loss)
    weight = full.sample_weight.copy()
    weight[::3] = 0.0
    kept = weight > 0
    with_zeros = MasterProblem(full.A, nu=full.nu, loss=loss, sample_weight=weight)
    without = MasterProblem(full.A[:, kept], nu=full.nu, loss=loss, sample_weight=weight[kept])
    w = refit(with_zeros, everything(full), tol=1e-9)
    expected = without.objective(refit(without, everything(full), tol=1e-9))
    assert without.objective(w) == pytest.approx(expected, abs=1e-8)


def test_a_huge_nu_empties_the_ensemble():
    problem = random_problem(0, "exponential", nu=1.5)
    np.testing.assert_array_equal(refit(problem, everything(problem), np.ones(8)), np.zeros(8))


# -- the form for inner loops ------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("seed", range(6))
def test_refit_value_returns_the_objective_of_its_weights(loss, seed):
    problem = random_problem(seed, loss)
    rng = np.random.default_rng(seed)
    for start in (None, rng.exponential(size=8), rng.exponential(scale=30.0, size=8)):
        w, value = refit_value(problem, everything(problem), start)
        assert value == pytest.approx(problem.objective(w), rel=1e-11)


@every_loss
def test_a_nearby_hessian_does_not_change_the_answer(loss):
    problem = random_problem(5, loss)
    support = np.array([0, 2, 3, 6])
    expected = problem.objective(refit(problem, support, tol=1e-9))
    c = problem.sample_weight
    for scale in (0.3, 1.0, 3.0):
        A = problem.A[support].astype(float)
        hessian = scale * (A * c) @ A.T + 1e-9 * np.eye(4)
        w, value = refit_value(problem, support, tol=1e-9, hessian=hessian)
        assert value == pytest.approx(expected, abs=1e-8)
        assert problem.objective(w) == pytest.approx(expected, abs=1e-8)


# -- growing problems --------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("n_first", [1, 3])
def test_a_growing_refit_finds_the_optimum_after_every_column(loss, n_first):
    full = random_problem(7, loss, nu=1e-3)
    grow = GrowingRefit(tol=1e-7)
    w = np.zeros(0)
    for n in range(n_first, 9):
        problem = MasterProblem(full.A[:n], nu=full.nu, loss=loss, sample_weight=full.sample_weight)
        w, value = grow(problem, np.append(w, np.zeros(n - len(w))))
        assert problem.is_feasible(w)
        assert value == pytest.approx(problem.objective(w), abs=1e-12)
        assert problem.objective(w) == pytest.approx(
            reference(problem, everything(problem)), abs=1e-8
        )


@every_loss
def test_a_growing_refit_is_silent_where_its_first_step_was_not_needed(loss):
    """The first refit stops before it computes a Hessian; the second must not read one."""
    useless = np.where(np.arange(40) % 2, 1, -1)
    useful = np.where(np.arange(40) % 5, 1, -1)
    problem = MasterProblem(np.stack([useless, useful]), nu=1e-3, loss=loss)
    grow = GrowingRefit(tol=1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(
            grow(MasterProblem(useless[None, :], nu=1e-3, loss=loss), np.zeros(1))[0], [0.0]
        )
        w, _ = grow(problem, np.zeros(2))
    assert problem.objective(w) == pytest.approx(reference(problem, everything(problem)), abs=1e-8)


@every_loss
def test_merged_rows_give_the_weights_of_all_rows(loss, monkeypatch):
    problem = random_problem(0, loss, n=5, m=3000, nu=1e-3)
    expected, value = refit_value(problem, everything(problem), tol=1e-10)
    monkeypatch.setattr("totalqboost.refit.MERGE_FROM", 1)
    found, merged_value = refit_value(problem, everything(problem), tol=1e-10)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert merged_value == pytest.approx(value, abs=1e-12)
