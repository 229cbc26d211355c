"""The exact solver against brute force, and its bounds against every known solution."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from exact_problems import LOSSES, SLACK, every_loss, tiny_problems
from solver_contract import (
    BuiltInLossContract,
    best_of_all_supports,
    check,
    correlated_problem,
    random_problem,
)

from totalqboost.datasets import make_twonorm
from totalqboost.dictionaries import Stumps
from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solvers import BranchAndBound, TabuSearch
from totalqboost.solvers.exact.grid import model_of
from totalqboost.solvers.exact.search import EXACT, Search
from totalqboost.solving import Status


class TestContract(BuiltInLossContract):
    """The contract of all solvers; a loss of the user's own is refused, in a test below."""

    @pytest.fixture
    def solver(self):
        return BranchAndBound()


def test_the_optimum_over_all_supports_is_found_and_proven():
    for problem, best in tiny_problems():
        solution = BranchAndBound().solve(problem)
        check(problem, solution)
        assert solution.bound <= best + SLACK
        assert solution.objective == pytest.approx(best, rel=2 * EXACT, abs=SLACK)
        assert solution.gap < 1e-4
        if problem.loss.name != "smoothed_hinge":  # flat pieces can end at the rounding limit
            assert solution.status is Status.OPTIMAL
            assert solution.gap < 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_twelve_columns_against_brute_force(seed):
    limit = 4 if seed % 2 else None
    problem = correlated_problem(seed, n=12, m=80, lam=0.01, nu=1e-6, max_learners=limit)
    best = best_of_all_supports(problem)
    solution = BranchAndBound().solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(best, rel=2 * EXACT, abs=SLACK)
    assert solution.bound <= best + SLACK


def stump_problem(n, lam, **settings):
    X, y = make_twonorm(400, seed=3)
    oracle = Stumps().prepare(X, y)
    u, taken, columns = np.full(len(y), 1 / len(y)), set(), []
    for _ in range(n):
        offered = oracle.best(u, taken, n=1)[0]
        taken.add(offered.learner)
        columns.append(offered.column)
        u = u * np.exp(-np.arctanh(np.clip(offered.edge, -0.99, 0.99)) * offered.column)
        u /= u.sum()
    return MasterProblem(np.array(columns), nu=1e-6, lam=lam, **settings)


@pytest.mark.parametrize(("lam", "limit"), [(0.03, None), (0.1, None), (0.0, 3)])
def test_stumps_of_column_generation(lam, limit):
    problem = stump_problem(10, lam, max_learners=limit)
    best = best_of_all_supports(problem)
    solution = BranchAndBound().solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(best, rel=2 * EXACT, abs=SLACK)


def test_a_bad_incumbent_does_not_spoil_the_proof():
    for problem, best in tiny_problems()[:60]:
        search = Search(BranchAndBound(), problem)  # its incumbent is the empty ensemble
        search.open_root()
        assert search.bound() <= best + SLACK
        while search.is_running():
            search.branch()
        solution = search.solution()
        assert solution.bound <= best + SLACK
        assert solution.objective == pytest.approx(best, rel=2 * EXACT, abs=SLACK)


def test_a_bound_is_never_above_any_known_solution():
    """Early stops at every size of the tree, for several prices, against all solutions met."""
    base = correlated_problem(5, n=14, m=120, nu=1e-6)
    prices = (0.002, 0.005, 0.01, 0.02)
    runs = [
        (lam, BranchAndBound(max_nodes=nodes).solve(replace(base, lam=lam)))
        for lam in prices
        for nodes in (1, 3, 9, 10_000)
    ]
    for lam, run in runs:
        problem = replace(base, lam=lam)
        for _, other in runs:
            assert run.bound <= problem.objective(other.w) + SLACK
    for lam in prices:
        bounds = [run.bound for price, run in runs if price == lam]
        assert bounds == sorted(bounds)  # more nodes, never a lower bound


@every_loss
def test_order_of_columns_and_rows_and_repeated_rows_do_not_matter(loss):
    problem = random_problem(3, n=8, m=40, lam=0.01, loss=loss, sample_weight=np.ones(40))
    rng = np.random.default_rng(0)
    columns, rows = rng.permutation(8), np.repeat(rng.permutation(40), 2)
    other = replace(problem, A=problem.A[columns][:, rows], sample_weight=np.ones(80))
    first, second = BranchAndBound().solve(problem), BranchAndBound().solve(other)
    assert first.objective == pytest.approx(second.objective, rel=3 * EXACT)
    assert second.bound <= first.objective + SLACK
    assert first.bound <= second.objective + SLACK


@pytest.mark.parametrize("nu", [0.0, 1e-6])
def test_equal_and_opposite_columns(nu):
    for seed in range(4):
        problem = correlated_problem(seed, n=5, m=30, nu=nu, lam=0.01)
        A = np.vstack([problem.A, problem.A[:2], -problem.A[2:4]])
        cost = np.array([1, 1, 1, 1, 1, 0.5, 2, 1, 0.5])
        doubled = MasterProblem(A, nu=nu, lam=0.01, cost=cost)
        best = best_of_all_supports(doubled)
        solution = BranchAndBound().solve(doubled)
        assert solution.bound <= best + SLACK
        assert solution.objective == pytest.approx(best, abs=1e-7)


def test_near_separable_data():
    rng = np.random.default_rng(1)
    A = np.where(rng.random((6, 30)) < 0.9, 1, -1)
    A[0] = 1
    A[0, 0] = -1  # one row away from a column that is always right
    for lam in (0.001, 0.01, 0.1):
        problem = MasterProblem(A, nu=1e-6, lam=lam)
        best = best_of_all_supports(problem)
        solution = BranchAndBound(max_nodes=3000).solve(problem)
        assert solution.bound <= best + SLACK
        assert solution.objective == pytest.approx(best, rel=1e-6)


def test_without_nu_and_with_separable_columns_the_bound_is_still_valid():
    A = np.array([[1] * 8, [1, 1, 1, 1, 1, -1, 1, -1], [-1, 1, -1, 1, 1, 1, 1, 1]])
    problem = MasterProblem(A, nu=0.0, lam=0.01)
    solution = BranchAndBound().solve(problem)
    assert 0.0 <= solution.bound <= 0.01 + SLACK  # the infimum: one column, weight to infinity
    assert solution.objective >= solution.bound


@every_loss
@pytest.mark.parametrize("lam", [0.0, 10.0])
def test_no_price_and_a_huge_price(loss, lam):
    problem = random_problem(2, n=6, m=40, lam=lam, loss=loss)
    kept = np.arange(6) if lam == 0.0 else np.empty(0, dtype=int)
    best = problem.objective(refit(problem, kept, tol=1e-11))
    solution = BranchAndBound().solve(problem)
    assert solution.n_evaluations == 1
    assert solution.objective == pytest.approx(best, rel=2 * EXACT)
    assert solution.gap < 1e-6


def test_columns_without_rows_that_differ():
    problem = MasterProblem(np.ones((3, 4), dtype=np.int8), nu=0.01, lam=0.001)
    solution = BranchAndBound().solve(problem)
    assert solution.status is Status.OPTIMAL
    assert np.count_nonzero(solution.w) == 1


def best_level(problem, step, n_bits):
    """Return the least objective over all fixed-point weights."""
    grid = product(range(2**n_bits), repeat=problem.n_columns)
    weights = (np.array(levels) * step for levels in grid)
    return min(problem.objective(w) for w in weights if problem.is_feasible(w))


@pytest.mark.parametrize("seed", range(40))
def test_the_optimum_over_fixed_point_weights(seed):
    rng = np.random.default_rng(seed)
    n, n_bits = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    n = min(n, 3) if n_bits == 3 else n
    problem = random_problem(
        seed,
        n=n,
        m=int(rng.integers(3, 30)),
        nu=float(rng.choice([0.0, 1e-6, 1e-3])),
        lam=float(10 ** rng.uniform(-4, -1)),
        loss=LOSSES[seed % 4],
        cost=rng.choice([0.0, 0.5, 1.0], size=n) if seed % 3 == 0 else None,
        max_learners=int(rng.integers(0, n + 1)) if seed % 5 == 0 else None,
    )
    step = rng.uniform(0.05, 0.5, n)
    best = best_level(problem, step, n_bits)
    solution = BranchAndBound(n_bits=n_bits, step=tuple(step)).solve(problem)
    check(problem, solution)
    np.testing.assert_allclose(solution.w / step, np.rint(solution.w / step), atol=1e-9)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(best, rel=2 * EXACT, abs=1e-12)
    assert solution.bound <= best


def test_an_intercept_on_a_grid_of_two_steps():
    """The levels of two opposite columns: differences that neither has alone."""
    rng = np.random.default_rng(0)
    for seed in range(12):
        column = np.where(np.random.default_rng(seed).random(20) < 0.7, 1, -1)
        step = rng.uniform(0.2, 0.5, 3)
        problem = MasterProblem(
            np.array([-column, column, np.roll(column, 1)]),
            nu=1e-6,
            lam=0.006,
            cost=np.array([0.0, 0.0, 1.0]),
            max_learners=seed % 2,
        )
        best = best_level(problem, step, 3)
        solution = BranchAndBound(n_bits=3, step=tuple(step)).solve(problem)
        assert solution.objective == pytest.approx(best, rel=2 * EXACT)
        assert solution.bound <= best


def test_the_default_grid_is_that_of_tabu_search():
    problem = random_problem(1, n=5, m=60, lam=0.02, cost=np.array([0, 1, 1, 1, 1.0]))
    step = model_of(problem, 3, None).step
    exact = BranchAndBound(n_bits=3).solve(problem)
    np.testing.assert_allclose(exact.w / step, np.rint(exact.w / step), atol=1e-9)
    assert exact.status is Status.OPTIMAL
    best = BranchAndBound().solve(problem)
    assert best.bound <= exact.objective  # continuous weights can only be better
    tabu = TabuSearch(n_bits=3, max_evaluations=500).solve(problem)
    assert best.bound <= tabu.objective + SLACK
