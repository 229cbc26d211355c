"""Parts of the exact solver: certificates without a tree, diagonals, skewness, ranges, nodes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from exact_problems import SLACK, every_loss, root_of, tiny_problems
from scipy.optimize import minimize
from solver_contract import (
    Squareplus,
    best_of_all_supports,
    random_problem,
)

from totalqboost.kernels.exact.curvature import exponential_ratio
from totalqboost.kernels.exact.definite import certify_diagonal, choose_diagonal
from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solvers import BranchAndBound, LocalSearch, certify
from totalqboost.solvers.exact.bounding import Bounder
from totalqboost.solvers.exact.model import Model
from totalqboost.solvers.exact.moments import largest_skewness
from totalqboost.solvers.exact.reach import weight_limits


def test_certify_is_valid_and_at_least_the_dual_bound():
    for problem, best in tiny_problems()[:80]:
        l1 = refit(problem, np.arange(problem.n_columns), tol=1e-9)
        dual = problem.dual_bound(problem.dual_weights(l1))
        for w in (LocalSearch().solve(problem).w, np.zeros(problem.n_columns), None):
            bound = certify(problem, w)
            assert bound <= best + SLACK
            assert bound >= dual - 1e-5 * abs(dual)


def test_certify_sees_the_price_of_columns():
    problem = random_problem(2, n=10, m=100, lam=0.02)
    solution = BranchAndBound().solve(problem)
    l1 = problem.dual_bound(problem.dual_weights(refit(problem, np.arange(10), tol=1e-9)))
    bound = certify(problem, solution.w)
    assert bound - l1 > 0.5 * (solution.objective - l1)


def test_certify_of_a_custom_loss_is_the_dual_bound():
    problem = random_problem(2, n=4, m=30, lam=0.02, loss=Squareplus())
    assert certify(problem) <= best_of_all_supports(problem)


def test_certify_without_columns():
    problem = MasterProblem(np.empty((0, 3)), lam=0.1)
    assert certify(problem, np.empty(0)) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_a_certified_diagonal_is_below_the_matrix(seed):
    rng = np.random.default_rng(seed)
    B = rng.choice([-1.0, 1.0], size=(6, 40))
    B[5] = -B[4]  # singular
    Q = (B * rng.random(40)) @ B.T
    nothing, is_proven = certify_diagonal(Q, np.full(6, 50.0), 40)
    assert not is_proven  # columns 4 and 5 allow nothing
    assert (nothing == 0).all()
    for d in (np.array([50.0, 0, 0, 1, 0, 0]), np.zeros(6)):
        proven, is_proven = certify_diagonal(Q, d, 40)
        assert is_proven
        assert np.linalg.eigvalsh(Q - np.diag(proven))[0] >= -1e-13 * np.trace(Q)
        assert (proven <= d).all()


def test_the_chosen_diagonal_is_inside_and_better_than_its_start():
    rng = np.random.default_rng(0)
    B = rng.choice([-1.0, 1.0], size=(6, 60))
    Q = (B * rng.random(60)) @ B.T
    start = np.full(6, 0.5 * np.linalg.eigvalsh(Q)[0])
    weight = rng.random(6)
    d = choose_diagonal(Q, weight, start, 30)
    assert np.linalg.eigvalsh(Q - np.diag(d))[0] > 0
    assert weight @ np.log(d) > weight @ np.log(start) + 0.1


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_skewness_is_bounded_from_above_and_not_by_far(k):
    rng = np.random.default_rng(k)
    B = np.where(rng.random((k, 80)) < 0.6, 1.0, -1.0)
    u = rng.random(80)
    u /= u.sum()
    W = np.linalg.solve(np.linalg.cholesky((B * u) @ B.T), B)
    bound = largest_skewness(W, u)
    largest = 0.0
    for start in rng.normal(size=(20, k)):
        found = minimize(lambda x: -(u @ (x @ W) ** 3) / np.linalg.norm(x) ** 3, start)
        largest = max(largest, -found.fun)
    assert largest <= bound <= 2.0 * largest + 1e-5


@pytest.mark.parametrize("seed", range(5))
def test_the_exponential_grows_as_the_skewness_says(seed):
    """The lemma behind the curvature: sum_i u_i psi(X_i) >= r^2 q(kappa r)."""
    rng = np.random.default_rng(seed)
    B = np.where(rng.random((5, 60)) < 0.6, 1.0, -1.0)
    u = rng.random(60)
    u /= u.sum()
    L = np.linalg.cholesky((B * u) @ B.T)
    kappa = largest_skewness(np.linalg.solve(L, B), u)
    for d in rng.normal(size=(200, 5)) * rng.exponential(1.0, (200, 1)):
        X, r = d @ B, np.linalg.norm(L.T @ d)
        assert u @ (np.exp(-X) - 1 + X) >= r * r * exponential_ratio(kappa * r) - 1e-12


def test_a_relaxation_without_a_step_leaves_no_hessian_behind():
    """Else the next one would start from whatever was in memory."""
    problem = random_problem(4, n=4, m=40, lam=0.01)
    model = Model.of(problem)
    node = root_of(model, cutoff=1.0)
    Bounder(model)._relax(node, cutoff=-1e9)  # whatever the point is, it is good enough
    assert node.hessian is None
    node.w = np.full_like(node.w, 0.5)
    Bounder(model)._relax(node, cutoff=problem.objective(np.zeros(4)))
    assert node.hessian is not None


@pytest.mark.parametrize("nu", [0.0, 1e-6, 1e-2])
@every_loss
def test_no_better_solution_is_beyond_the_weight_limits(loss, nu):
    problem = random_problem(4, n=4, m=40, lam=0.01, nu=nu, loss=loss)
    model = Model.of(problem)
    cutoff = problem.objective(LocalSearch().solve(problem).w) + 0.02
    hi = weight_limits(model, cutoff, 0.0)
    rng = np.random.default_rng(0)
    for w in rng.exponential(1.0, (4000, 4)) * (rng.random((4000, 4)) < 0.7):
        if problem.objective(w) < cutoff:
            assert (w <= hi).all()


@pytest.mark.parametrize("nu", [0.0, 1e-6, 1e-2])
@every_loss
def test_an_intercept_has_finite_limits_that_hold(loss, nu):
    """Its two signs are free; a solution that uses both is not asked about."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(60) < 0.7, 1, -1)
    A = np.vstack([y, -y, np.where(rng.random((3, 60)) < 0.65, 1, -1)])
    cost = np.array([0.0, 0.0, 1.0, 1.0, 1.0])
    problem = MasterProblem(A, nu=nu, lam=0.01, cost=cost, loss=loss)
    model = Model.of(problem)
    cutoff = problem.objective(LocalSearch().solve(problem).w) + 0.03
    hi = weight_limits(model, cutoff, 0.0)
    assert (hi[:2] < 10.0).all()
    n_better = 0
    for w in rng.exponential(0.5, (6000, 5)) * (rng.random((6000, 5)) < 0.7):
        w[rng.integers(0, 2)] = 0.0
        if problem.objective(w) < cutoff:
            n_better += 1
            assert (w <= hi).all()
    assert n_better > 5


def test_opposite_columns_are_one_direction():
    A = np.where(np.random.default_rng(0).random((6, 40)) < 0.5, 1, -1)
    A[3], A[5] = -A[1], -A[0]
    model = Model.of(MasterProblem(A))
    assert model.opposite.tolist() == [5, 3, -1, 1, -1, 0]
    place, sign = model.basis(np.arange(6))
    np.testing.assert_array_equal(A, sign[:, None] * A[place])
    assert place.tolist() == [0, 1, 2, 1, 4, 0]
    assert model.basis(np.array([2, 3, 5]))[0].tolist() == [0, 1, 2]  # without their firsts
    np.testing.assert_array_equal(model.units @ A, 2 * A - np.where(model.opposite < 0, A.T, 0).T)


@every_loss
def test_what_a_node_excludes_is_no_better_than_the_cutoff(loss):
    """Every better solution must survive the fixing and the ranges of a strengthened root."""
    for seed in range(6):
        problem = random_problem(seed, n=5, m=40, lam=0.02, loss=loss)
        model, best = Model.of(problem), best_of_all_supports(problem)
        cutoff = best + 0.02
        node = root_of(model, cutoff)
        Bounder(model).strengthen(node, cutoff, 5)
        assert not node.is_closed
        for support in product([False, True], repeat=5):
            w = refit(problem, np.flatnonzero(support), tol=1e-11)
            is_stationary = (w[list(support)] > 0).all()
            if problem.objective(w) >= cutoff or not is_stationary:
                continue
            drops = [problem.objective(np.where(np.arange(5) == j, 0, w)) for j in range(5)]
            if min(drops) < problem.objective(w):
                continue  # not worth its price: may be excluded
            assert node.bound <= problem.objective(w) + SLACK
            assert set(np.flatnonzero(w)) <= set(node.columns)
            assert (w[node.columns] <= node.hi + 1e-9).all()
            assert (w[node.columns[node.is_in]] >= node.lo[node.is_in] - 1e-9).all()


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_ranges_of_margins_hold_all_weights_of_a_node_and_no_more(loss):
    """The corners of the box of weights reach both ends of every range."""
    problem = random_problem(5, n=4, m=40, loss=loss)
    bounder = Bounder(Model.of(problem))
    node = root_of(bounder.model, 1.0)
    node.hi = np.array([0.5, 1.0, 2.0, 3.0])
    node.is_in[1], node.lo[:] = True, 0.25
    bounder._ranges_from_weights(node)
    lowest = np.where(node.is_in, node.lo, 0.0)
    corners = np.array([np.where(high, node.hi, lowest) for high in product([0, 1], repeat=4)])
    margins = corners @ bounder.model.problem.A[node.columns]
    np.testing.assert_allclose(node.high, margins.max(axis=0), atol=1e-9)
    assert (node.high >= margins.max(axis=0)).all()
    if loss == "logistic":  # the exponential loss needs no lower end
        np.testing.assert_allclose(node.low, margins.min(axis=0), atol=1e-9)
        assert (node.low <= margins.min(axis=0)).all()


def test_columns_without_weights_are_dropped_and_close_nodes():
    problem = random_problem(0, n=4, m=30)
    model = Model.of(problem)
    node = root_of(model, 1.0)
    node.is_in[:] = [False, False, False, True]
    node.lo[:], node.hi[:] = [0.0, 0.0, 0.5, 2.0 + 1e-12], [0.0, 1.0, 0.5, 2.0]
    node.w[:] = 0.0
    assert node.drop_empty(model)
    assert node.columns.tolist() == [1, 2, 3]
    assert node.lo.tolist() == [0.0, 0.5, 2.0]  # rounding
    on_grid = Model.of(problem, np.full(4, 0.3), 7)
    node.hi[1] = 0.2  # less than a step
    assert node.drop_empty(on_grid)
    assert node.columns.tolist() == [1, 3]
    assert node.lo[0] == 0.3
    node.hi[1] = 0.01  # one that is in has no weight left
    assert not node.drop_empty(on_grid)
    assert node.is_closed
