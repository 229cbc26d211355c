"""The exact solver through a whole fit: no problem twice, one bound at the end, never worse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from exact_problems import hard_problem
from solver_contract import random_problem

from totalqboost import TotalQBoostClassifier, datasets
from totalqboost.master import MasterProblem
from totalqboost.solvers import BranchAndBound, LocalSearch
from totalqboost.solvers.compose import StartPool
from totalqboost.solvers.exact.search import Search
from totalqboost.solving import Status, finish

SOLVERS = pytest.mark.parametrize(
    "solver", [BranchAndBound(), StartPool(BranchAndBound(), [])], ids=["plain", "wrapped"]
)


@pytest.fixture
def solves(monkeypatch):
    """Count what the solver is asked."""
    solve, asked = BranchAndBound.solve, []

    def counted(self, problem, start=None, rng=None):
        asked.append(problem)
        return solve(self, problem, start, rng)

    monkeypatch.setattr(BranchAndBound, "solve", counted)
    return asked


@SOLVERS
def test_a_fit_of_eight_rounds_solves_eight_problems_and_ends_with_a_proof(solver, solves):
    X, y = datasets.load("flare solar")
    fit = TotalQBoostClassifier(
        solver=solver,
        cardinality_penalty=0.01,
        max_rounds=8,
        exchange=False,
        loss="exponential",
        l1_penalty=1e-6,
    ).fit(X, y)
    assert len(solves) == 8
    assert fit.solution_.status is Status.OPTIMAL
    assert fit.solution_.gap < 1e-6


@SOLVERS
def test_the_last_problem_is_not_solved_again(solver, solves):
    problem, rng = hard_problem(), np.random.default_rng(0)
    session = solver.session(problem)
    solution = session.solve(problem, None, rng)
    last = session.finish(replace(problem), solution.w, rng)  # another object, the same problem
    assert len(solves) == 1
    assert last.bound == solution.bound
    assert last.gap < 1e-6


@pytest.mark.parametrize(
    "change",
    [
        {"lam": 0.05},
        {"nu": 0.01},
        {"max_learners": 2},
        {"loss": "logistic"},
        {"cost": np.array([1.0, 2.0, 1.0, 0.0])},
        {"sample_weight": np.arange(1.0, 31.0)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_last_problem_that_differs_is_solved(change, solves):
    problem, rng = random_problem(3, n=4, m=30), np.random.default_rng(0)
    session = BranchAndBound().session(problem)
    session.solve(problem, None, rng)
    other = replace(problem, **change)
    last = session.finish(other, np.zeros(4), rng)
    assert len(solves) == 2
    assert last.objective == pytest.approx(other.objective(last.w))


def test_a_proven_answer_serves_a_second_start(solves):
    problem, rng = hard_problem(), np.random.default_rng(0)
    best = BranchAndBound().solve(problem)
    solves.clear()
    pool = StartPool(BranchAndBound(), [best.w])
    solution = pool.session(problem).solve(problem, None, rng)
    assert len(solves) == 1
    assert solution.objective <= best.objective


def test_a_fit_on_a_grid_claims_no_bound_of_the_grid():
    """A fit refits continuous weights, for which the optimum on the grid is no bound."""
    problem, rng = random_problem(1, n=5, m=60, lam=0.02), np.random.default_rng(0)
    session = BranchAndBound(n_bits=1).session(problem)
    session.solve(problem, None, rng)
    best = BranchAndBound().solve(problem)
    last = finish(session, problem, best.w, rng)
    assert last.objective == pytest.approx(best.objective)  # not the grid's
    assert last.bound == -np.inf
    assert last.note == "fixed-point weights"


def test_never_worse_than_the_start(monkeypatch):
    """Not even by rounding, and not where all that the search finds itself is worse."""
    monkeypatch.setattr(Search, "offer", lambda self, w: None)
    problem = hard_problem()
    start = LocalSearch().solve(problem).w
    for solver in (BranchAndBound(max_nodes=1), BranchAndBound(time_limit=1e-9)):
        solution = solver.solve(problem, start=start)
        assert solution.objective == problem.objective(start)
        assert solution.bound <= solution.objective


def test_a_start_that_the_limit_forbids_is_not_the_answer():
    problem = random_problem(0, n=5, m=40, lam=0.001, max_learners=1)
    solution = BranchAndBound().solve(problem, start=np.full(5, 0.1))
    assert problem.is_feasible(solution.w)


def test_a_free_intercept_has_useful_limits_and_is_proven():
    X, y = datasets.load("heart")
    rng = np.random.default_rng(0)
    stumps = np.where(np.median(X, axis=0) < X, 1, -1).T
    A = np.vstack([y, -y, stumps * y])
    cost = np.r_[0.0, 0.0, np.ones(len(stumps))]
    for loss, nu in (("exponential", 1e-6), ("logistic", 4 / len(y))):
        problem = MasterProblem(A, nu=nu, lam=0.01, cost=cost, loss=loss)
        search = Search(BranchAndBound(), problem)
        search.find_incumbent(None, rng)
        search.open_root()
        node = search.root
        is_free = search.model.problem.cost[node.columns] == 0
        assert (node.hi[is_free] < 20.0).all()
        solution = BranchAndBound().solve(problem)
        assert solution.status is Status.OPTIMAL
