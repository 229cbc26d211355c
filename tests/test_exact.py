"""The exact solver: against brute force, its bounds against every known solution, its manners."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from solver_contract import (
    BuiltInLossContract,
    Squareplus,
    best_of_all_supports,
    check,
    correlated_problem,
    random_problem,
)

from totalqboost import TotalQBoostClassifier, losses, solvers
from totalqboost.datasets import make_twonorm
from totalqboost.dictionaries import Stumps
from totalqboost.kernels.definite import certify_diagonal, choose_diagonal
from totalqboost.kernels.reach import farthest
from totalqboost.kernels.relaxation import exponential_ratio
from totalqboost.master import MasterProblem, Solution
from totalqboost.refit import refit
from totalqboost.solvers import BranchAndBound, LocalSearch, TabuSearch, certify
from totalqboost.solvers.exact import bounding, curvature, reach
from totalqboost.solvers.exact import search as search_module
from totalqboost.solvers.exact.bounding import Bounder
from totalqboost.solvers.exact.grid import grid_step
from totalqboost.solvers.exact.model import Model
from totalqboost.solvers.exact.node import Node
from totalqboost.solvers.exact.ranges import weight_limits
from totalqboost.solvers.exact.search import EXACT, Search
from totalqboost.solvers.exact.skewness import largest_skewness
from totalqboost.threads import Workers

LOSSES = losses.names()
every_loss = pytest.mark.parametrize("loss", LOSSES)
SLACK = 1e-9  # rounding of the refits that the bounds are compared with


class TestContract(BuiltInLossContract):
    """The contract of all solvers; a loss of the user's own is refused, in a test below."""

    @pytest.fixture
    def solver(self):
        return BranchAndBound()


def tiny_problem(seed):
    """Return one of many kinds of small problems; the seed decides everything."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 8)), int(rng.integers(3, 50))
    make = random_problem if n < 4 or rng.random() < 0.5 else correlated_problem
    return make(
        seed,
        n=n,
        m=m,
        nu=float(rng.choice([1e-6, 1e-4, 1e-2])),
        lam=0.0 if rng.random() < 0.2 else float(10 ** rng.uniform(-4, -1)),
        loss=LOSSES[seed % 4],
        cost=rng.choice([0.0, 0.5, 1.0, 2.0], size=n) if rng.random() < 0.3 else None,
        max_learners=int(rng.integers(0, n + 1)) if rng.random() < 0.4 else None,
    )


@cache
def tiny_problems():
    """Return 160 small problems with their optima."""
    problems = [tiny_problem(seed) for seed in range(160)]
    return [(problem, best_of_all_supports(problem)) for problem in problems]


# -- the optimum -------------------------------------------------------------------------


def test_the_optimum_over_all_supports_is_found_and_proven():
    for problem, best in tiny_problems():
        solution = BranchAndBound().solve(problem)
        check(problem, solution)
        assert solution.bound <= best + SLACK
        assert solution.objective == pytest.approx(best, rel=2 * EXACT, abs=SLACK)
        assert solution.gap < 1e-4
        if problem.loss.name != "smoothed_hinge":  # flat pieces can end at the rounding limit
            assert solution.status == "optimal"
            assert solution.gap < 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_twelve_columns_against_brute_force(seed):
    limit = 4 if seed % 2 else None
    problem = correlated_problem(seed, n=12, m=80, lam=0.01, nu=1e-6, max_learners=limit)
    best = best_of_all_supports(problem)
    solution = BranchAndBound().solve(problem)
    assert solution.status == "optimal"
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
    assert solution.status == "optimal"
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


@pytest.fixture
def anchored(monkeypatch):
    """Let nodes know the moments of their parents however few rows there are; count them."""
    monkeypatch.setattr(bounding, "MANY_ROWS", 0)
    monkeypatch.setattr(curvature, "MANY_ROWS", 0)
    monkeypatch.setattr(curvature, "ENOUGH", np.inf)
    inherit, waiting = Bounder.inherit, []

    def counted(self, node, cutoff):
        inherit(self, node, cutoff)
        if not node.is_closed and node.anchor is not None:
            waiting.append(node)

    monkeypatch.setattr(Bounder, "inherit", counted)
    return waiting


def test_nodes_that_wait_for_their_turn_do_not_spoil_the_proof(anchored):
    for problem, best in tiny_problems():
        if problem.loss.name == "exponential":
            search = Search(BranchAndBound(), problem)  # its incumbent is the empty ensemble
            search.open_root()
            while search.is_running():
                search.branch()
            solution = search.solution()
            assert solution.bound <= best + SLACK
            assert solution.objective == pytest.approx(best, rel=2 * EXACT, abs=SLACK)
    assert len(anchored) > 10


@pytest.mark.parametrize(("lam", "limit"), [(0.03, None), (0.0, 4)])
def test_many_rows_against_brute_force(lam, limit):
    """Enough rows for all tables, and for children to know the moments of their parents."""
    rng = np.random.default_rng(1)
    A = np.where(rng.random((11, 4000)) < rng.uniform(0.53, 0.62, (11, 1)), 1, -1)
    problem = MasterProblem(A, nu=1e-4, lam=lam, max_learners=limit)
    assert Model.of(problem).problem.n_rows >= curvature.MANY_ROWS
    best = best_of_all_supports(problem.merged())
    for nodes in (1, 3, 10, 100_000):
        solution = BranchAndBound(max_nodes=nodes).solve(problem)
        assert solution.bound <= best + SLACK
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best, rel=2 * EXACT, abs=SLACK)


@pytest.mark.parametrize("max_open", [0, 1, 5])
def test_few_open_nodes_change_nothing_but_the_order(max_open, monkeypatch):
    monkeypatch.setattr(search_module, "MAX_OPEN", max_open)
    seen = []
    problem = hard_problem()
    best = BranchAndBound(max_nodes=40, on_progress=seen.append).solve(problem)
    assert best.bound <= best.objective
    assert max(progress.n_open for progress in seen) <= max_open + problem.n_columns + 1
    for problem, optimum in tiny_problems()[:60]:
        search = Search(BranchAndBound(), problem)
        search.open_root()
        while search.is_running():
            assert search.bound() <= optimum + SLACK
            search.branch()
        assert search.solution().objective == pytest.approx(optimum, rel=2 * EXACT, abs=SLACK)


def test_the_same_tree_again_whatever_the_memory_holds_and_however_many_threads(monkeypatch):
    monkeypatch.setattr(search_module, "PARALLEL_FROM", 0)
    problem, runs = hard_problem(), []
    for n_jobs in (None, 1, 2, 3, -1):
        noise = [np.full(2**size, np.nan) for size in range(4, 16)]  # what np.empty will find
        del noise
        seen = []
        solver = BranchAndBound(max_nodes=60, n_jobs=n_jobs, on_progress=seen.append)
        solution = solver.solve(problem)
        steps = [(step.n_nodes, step.n_open, step.bound) for step in seen]
        runs.append((solution.n_evaluations, solution.bound, solution.w.tolist(), steps))
    assert runs[0][0] > 40
    for run in runs[1:]:
        assert run == runs[0]


def test_errors_and_ctrl_c_in_a_thread_reach_the_caller(monkeypatch):
    monkeypatch.setattr(search_module, "PARALLEL_FROM", 0)
    problem, calls = hard_problem(), []
    look = Bounder.look

    def failing(self, node, cutoff, n_rounds):
        calls.append(1)
        if len(calls) > 5:
            raise error
        look(self, node, cutoff, n_rounds)

    monkeypatch.setattr(Bounder, "look", failing)
    error: BaseException = ZeroDivisionError("in a thread")
    with pytest.raises(ZeroDivisionError, match="in a thread"):
        BranchAndBound(n_jobs=2).solve(problem)
    calls.clear()
    error = KeyboardInterrupt()
    solution = BranchAndBound(n_jobs=2).solve(problem)
    assert solution.status == "interrupted"
    assert -np.inf < solution.bound <= solution.objective


@pytest.fixture
def restarted(monkeypatch):
    """Start every tree again at its first branch; list the new roots, and if they are tighter."""
    monkeypatch.setattr(search_module, "RESTART", np.inf)
    confine, roots = search_module.confine_by_tangents, []

    def counted(bounder, node, cutoff, is_late, workers):
        wide = node.high.copy()
        is_done = confine(bounder, node, cutoff, is_late, workers)
        roots.append((node.copy(), len(wide) != len(node.high) or (node.high < wide - 0.1).any()))
        return is_done

    monkeypatch.setattr(search_module, "confine_by_tangents", counted)
    return roots


@pytest.mark.parametrize("is_given", [True, False])
def test_a_second_tree_with_tighter_ranges_finds_and_proves_the_optimum(is_given, restarted):
    for problem, best in tiny_problems():
        search = Search(BranchAndBound(), problem)
        if is_given:
            search.find_incumbent(None, None)
        search.open_root()
        while search.is_running():
            search.branch()
            assert search.bound() <= best + SLACK
        assert search.objective == pytest.approx(best, rel=2 * EXACT, abs=SLACK)
    assert sum(is_tighter for _, is_tighter in restarted) > 5


@pytest.mark.parametrize("seed", range(6))
def test_a_second_tree_over_fixed_point_weights(seed, restarted):
    problem = correlated_problem(seed, n=4, m=40, lam=0.01, nu=1e-4, loss=LOSSES[seed % 4])
    solution = BranchAndBound(n_bits=2, step=0.3).solve(problem)
    levels = product(range(4), repeat=4)
    best = min(problem.objective(0.3 * np.array(level)) for level in levels)
    assert solution.objective == pytest.approx(best, rel=2 * EXACT)
    assert solution.bound <= best + SLACK


def test_no_better_solution_is_outside_what_tangents_leave(restarted, monkeypatch):
    monkeypatch.setattr(Search, "_round", lambda self, node: self.w)  # no better incumbent
    problem = Model.of(correlated_problem(11, n=10, m=90, lam=0.004, nu=1e-5)).problem
    n = problem.n_columns
    search = Search(BranchAndBound(), problem)
    search.open_root()  # with the empty ensemble: room for many better ones
    search.branch()
    ((root, is_tighter),) = restarted
    assert is_tighter
    rng = np.random.default_rng(0)
    solutions = [refit(problem, np.flatnonzero(rng.random(n) < 0.6)) for _ in range(200)]
    better = [w for w in solutions if problem.objective(w) < search.cutoff]
    better = [w for w in better if set(np.flatnonzero(w)) <= set(root.columns)]
    assert len(better) > 5
    for w in better:
        assert (w[root.columns] <= root.hi + 1e-9).all()
        assert (w[root.columns] @ root.rows.A[root.columns] <= root.high + 1e-9).all()


def half_a_tree():
    """Return a search in the middle of its first tree, which is due to start again."""
    search = Search(BranchAndBound(), hard_problem())
    search.find_incumbent(None, None)
    search.n_first = 10**9
    search.open_root()
    while search.n_nodes < 20:
        search.branch()
    search.n_first = 0
    return search


def test_a_second_tree_that_takes_too_long_leaves_the_first(monkeypatch):
    def confine(bounder, node, cutoff, is_late, workers):
        node.high = np.full_like(node.high, -1e9)  # half done: must not be used
        node.hi[:] = 0.0
        return False

    monkeypatch.setattr(search_module, "confine_by_tangents", confine)
    search, other = half_a_tree(), half_a_tree()
    before, n_open = search.bound(), len(search.heap)
    search.branch()
    assert search.root is None
    assert (search.bound(), len(search.heap)) == (before, n_open)
    other.n_first = 10**9
    for each in (search, other):
        while each.n_nodes < 60:
            each.branch()
    assert search.bound() == other.bound()


@pytest.mark.parametrize("where", ["confine_by_tangents", "_keep"])
def test_ctrl_c_while_the_tree_starts_again_keeps_the_bound(where, monkeypatch):
    search = half_a_tree()
    before = search.bound()

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(search_module if where.startswith("c") else search, where, interrupt)
    with pytest.raises(KeyboardInterrupt):
        search.branch()
    assert search.bound() == before


def test_with_very_many_rows_the_root_limits_weights(monkeypatch):
    monkeypatch.setattr(search_module, "MAX_ROWS", 0)
    confine, n_calls = search_module.confine_weights, []

    def counted(*arguments):
        n_calls.append(1)
        return confine(*arguments)

    monkeypatch.setattr(search_module, "confine_weights", counted)
    for problem, best in tiny_problems():
        solution = BranchAndBound().solve(problem)
        assert solution.bound <= best + SLACK
        assert solution.objective == pytest.approx(best, rel=2 * EXACT, abs=SLACK)
    assert len(n_calls) > 20


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_margins_are_limited_on_both_sides_where_that_counts(loss, monkeypatch):
    """The limits of a node, chunk by chunk, against the kernel, row by row."""
    monkeypatch.setattr(Search, "_round", lambda self, node: self.w)  # nothing but empty is known
    rng = np.random.default_rng(4)
    A = np.where(rng.random((8, 300)) < 0.6, 1, -1)
    problem = MasterProblem(A, nu=1e-3, lam=0.01, loss=losses.get(loss))
    search = Search(BranchAndBound(), problem)
    search.open_root()
    node, bounder, cutoff = search.root.copy(), search.bounder, search.cutoff
    node.low, node.high = np.full_like(node.low, -np.inf), np.full_like(node.high, np.inf)
    center = reach._center(bounder, node, cutoff)
    assert len(node.rows.c) > reach.CHUNK
    low, high = node.low.copy(), node.high.copy()
    assert reach._confine_margins(bounder, node, cutoff, center, lambda: False, Workers())
    settings = (bounder.code, problem.nu, node.ranges(bounder.model), bounder.prices(node), cutoff)
    for i in range(len(node.rows.c)):
        e = node.rows.A[node.columns, i].astype(float)
        top, bottom = (
            farthest(node.rows.A, node.columns, node.rows.c, *settings, center, sign * e)
            for sign in (1.0, -1.0)
        )
        assert node.high[i] == pytest.approx(min(high[i], top), rel=1e-8, abs=1e-8)
        limit = max(low[i], -bottom) if loss == "logistic" else low[i]
        assert node.low[i] == pytest.approx(limit, rel=1e-8, abs=1e-8)


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
    assert solution.status == "optimal"
    assert np.count_nonzero(solution.w) == 1


# -- fixed-point weights -----------------------------------------------------------------


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
    assert solution.status == "optimal"
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
    step = grid_step(problem, 3)
    exact = BranchAndBound(n_bits=3).solve(problem)
    np.testing.assert_allclose(exact.w / step, np.rint(exact.w / step), atol=1e-9)
    assert exact.status == "optimal"
    best = BranchAndBound().solve(problem)
    assert best.bound <= exact.objective  # continuous weights can only be better
    tabu = TabuSearch(n_bits=3, max_evaluations=500).solve(problem)
    assert best.bound <= tabu.objective + SLACK


# -- certify -----------------------------------------------------------------------------


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


# -- parts -------------------------------------------------------------------------------


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
    assert largest <= bound <= 1.4 * largest + 1e-5


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


def root_of(model, cutoff):
    n, m = model.problem.A.shape
    return Node(
        columns=np.arange(n),
        is_in=model.decided.copy(),
        lo=np.zeros(n),
        hi=weight_limits(model, cutoff, 0.0),
        w=np.zeros(n),
        d=np.zeros(n),
        rows=model.rows,
        low=np.full(m, -np.inf),
        high=np.full(m, np.inf),
        bound=0.0,
    )


def test_rows_merge_again_when_columns_are_out():
    problem = random_problem(1, n=8, m=60)
    rows = Model.of(problem).rows
    columns = np.array([0, 3])
    low, high = np.arange(60) / 100 - 1, np.arange(60) / 100
    merged, new_low, new_high = rows.merged(columns, low, high)
    assert len(merged.c) == 4
    assert merged.c.sum() == pytest.approx(1.0)
    w = np.array([0.4, 0.9])
    assert merged.c @ np.exp(-(w @ merged.A[columns])) == pytest.approx(
        rows.c @ np.exp(-(w @ rows.A[columns]))
    )
    for i, pattern in enumerate(merged.A[columns].T):
        same = (pattern == rows.A[columns].T).all(axis=1)
        assert new_low[i] == low[same].max()
        assert new_high[i] == high[same].min()


# -- manners -----------------------------------------------------------------------------


def hard_problem():
    """Return a problem that takes about a hundred nodes."""
    return correlated_problem(3, n=24, m=300, nu=1e-6, lam=0.004)


def test_budget_in_nodes_gives_a_valid_bound_and_says_so():
    problem = hard_problem()
    solution = BranchAndBound(max_nodes=5).solve(problem)
    assert solution.status == "node limit"
    assert solution.n_evaluations <= 7
    assert 0 < solution.bound < solution.objective


def test_a_gap_stops_early():
    problem = hard_problem()
    solution = BranchAndBound(gap=0.2).solve(problem)
    assert solution.status == "gap reached"
    assert solution.gap <= 0.2 + 1e-12


def test_time_limit_is_kept():
    solution = BranchAndBound(time_limit=1e-6).solve(hard_problem())
    assert solution.status == "time limit"
    assert solution.bound < solution.objective


@pytest.mark.parametrize("n_reports", [1, 3])
def test_ctrl_c_returns_the_incumbent_with_its_bound(n_reports):
    problem, seen = hard_problem(), []

    def interrupt(progress):
        seen.append(progress)
        if len(seen) == n_reports:
            raise KeyboardInterrupt

    solution = BranchAndBound(on_progress=interrupt).solve(problem)
    assert solution.status == "interrupted"
    assert solution.objective == pytest.approx(seen[-1].objective)
    assert solution.bound == seen[-1].bound
    assert solution.gap == pytest.approx(seen[-1].gap)


def test_ctrl_c_inside_a_node_keeps_the_bound_valid(monkeypatch):
    problem = hard_problem()
    calls = []
    strengthen = Bounder.strengthen

    def interrupted(self, node, cutoff, n_rounds):
        calls.append(node.bound)
        if len(calls) == 6:
            raise KeyboardInterrupt
        strengthen(self, node, cutoff, n_rounds)

    monkeypatch.setattr(Bounder, "strengthen", interrupted)
    solution = BranchAndBound().solve(problem)
    assert solution.status == "interrupted"
    assert solution.bound <= calls[-1]  # the node that was being worked on is not closed


def test_ctrl_c_in_the_root_leaves_the_bound_of_the_l1_problem(monkeypatch):
    def interrupted(self, node, cutoff, w):
        raise KeyboardInterrupt

    monkeypatch.setattr(Bounder, "bound_at", interrupted)
    problem = hard_problem()
    solution = BranchAndBound().solve(problem)
    assert solution.status == "interrupted"
    l1 = refit(problem, np.arange(problem.n_columns), tol=1e-11)
    assert solution.bound == pytest.approx(problem.dual_bound(problem.dual_weights(l1)))
    assert solution.bound > 0.0


def test_progress_is_reported_and_printed(capsys):
    seen = []
    solver = BranchAndBound(max_nodes=60, on_progress=seen.append, verbose=1)
    solver.solve(hard_problem())
    assert [p.n_nodes for p in seen] == sorted(p.n_nodes for p in seen)
    assert [p.bound for p in seen] == sorted(p.bound for p in seen)
    assert len(seen) >= 3
    assert "gap" in capsys.readouterr().err


def test_a_custom_loss_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match="loss must be 'exponential', 'logistic', 'squared'"):
        BranchAndBound().solve(random_problem(0, loss=Squareplus()))


@pytest.mark.parametrize(
    "settings",
    [
        {"gap": -0.1},
        {"gap": 1.0},
        {"gap": "small"},
        {"max_nodes": 0},
        {"max_nodes": 10.5},
        {"time_limit": 0.0},
        {"time_limit": float("nan")},
        {"n_bits": 13},
        {"n_bits": "auto"},
        {"n_bits": True},
    ],
)
def test_bad_arguments_are_named(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name} must be .*, got {settings[name]!r}"):
        BranchAndBound(**settings)


def test_bad_step_is_named():
    with pytest.raises(ValueError, match="step must be finite and > 0"):
        BranchAndBound(n_bits=3, step=0.0).solve(random_problem(0))
    with pytest.raises(ValueError, match=r"step must be a number or \d+ of them.* shape \(2,\)"):
        BranchAndBound(n_bits=3, step=(0.1, 0.2)).solve(random_problem(0))
    with pytest.raises(ValueError, match=r"step .* got 0.1 without n_bits; give both"):
        BranchAndBound(step=0.1)


def test_settings_are_frozen_and_equal_whatever_watches():
    assert BranchAndBound() == BranchAndBound(on_progress=print)
    with pytest.raises(FrozenInstanceError):
        BranchAndBound().gap = 0.1


def test_the_name_exact_gives_this_solver():
    assert solvers.get("exact") == BranchAndBound()
    assert "exact" in solvers.names()


def test_a_solution_of_local_search_is_a_start():
    problem = hard_problem()
    start = LocalSearch().solve(problem).w
    solution = BranchAndBound(max_nodes=1).solve(problem, start=start)
    assert isinstance(solution, Solution)
    assert solution.objective <= problem.objective(start)


def test_a_fit_on_a_grid_claims_no_bound_of_the_grid():
    """Boosting refits continuous weights, for which the optimum on the grid is no bound."""
    X, y = make_twonorm(300, seed=1)
    fit = TotalQBoostClassifier(
        solver=BranchAndBound(n_bits=1, max_nodes=500),
        cardinality_penalty=0.02,
        max_rounds=6,
        n_exchanges=0,
    ).fit(X, y)
    A = np.array([y * learner.predict(X) for learner in fit.result_.learners])
    problem = MasterProblem(A, nu=fit.l1_penalty, lam=0.02, cost=fit.result_.cost)
    best = BranchAndBound().solve(problem)
    assert problem.objective(fit.solution_.w) == pytest.approx(fit.solution_.objective)
    assert fit.solution_.bound <= best.objective + SLACK
    assert "fixed-point weights" in fit.solution_.status
