"""Solvers of the master problem: the contract for all, quality, budgets, arguments."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from solver_contract import (
    SolverContract,
    best_of_all_supports,
    check,
    correlated_problem,
    random_problem,
)

from totalqboost import solvers
from totalqboost.datasets import make_ringnorm, make_twonorm, make_waveform
from totalqboost.dictionaries import Stumps
from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solvers import BranchAndBound, LocalSearch, TabuSearch
from totalqboost.solvers.tabu import MAX_BITS

# Smaller budgets than the defaults: the contract is kept by any.
SOLVERS = {
    "local": LocalSearch(n_perturbations=10),
    "tabu-levels": TabuSearch(max_evaluations=600),
    "tabu-bits": TabuSearch(moves="bits", max_evaluations=900),
    "tabu-auto": TabuSearch(n_bits="auto", max_evaluations=800),
}
every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)


@every_solver
class TestEverySolver(SolverContract):
    """The contract, for each solver in turn."""


# -- quality -----------------------------------------------------------------------------


def stump_problem(seed):
    """Return up to ten stumps of a benchmark problem, two of three chosen greedily."""
    rng = np.random.default_rng(seed)
    make = [make_ringnorm, make_twonorm, make_waveform][seed % 3]
    X, y = make(int(rng.integers(60, 300)), seed=seed)
    oracle = Stumps().prepare(X, y)
    u = np.full(len(y), 1 / len(y))
    taken, columns = set(), []
    for _ in range(int(rng.integers(5, 10))):
        offered = oracle.best(u, taken, n=1 if rng.random() < 0.65 else 30)[-1]
        taken.add(offered.learner)
        columns.append(offered.column)
        edge = np.clip(offered.edge, -0.99, 0.99)
        u = u * np.exp(-np.arctanh(edge) * offered.column)
        u /= u.sum()
    is_free = rng.random() < 0.5
    A = np.vstack([y, -y, columns] if is_free else columns)
    cost = np.append([0.0, 0.0], np.ones(len(columns))) if is_free else None
    return MasterProblem(
        A, nu=10.0 ** rng.uniform(-6, -3), lam=10.0 ** rng.uniform(-3.5, -1), cost=cost
    )


def small_instances():
    """Return 40 problems of at most ten columns with their optimal objectives."""
    rng = np.random.default_rng(2024)
    problems = [stump_problem(seed) for seed in range(20)]
    for seed in range(10):
        nu, lam = 10.0 ** rng.uniform(-6, -2), 10.0 ** rng.uniform(-3, -1)
        n = int(rng.integers(4, 9))
        problems.append(random_problem(seed, n=n, m=int(rng.integers(30, 150)), nu=nu, lam=lam))
        problems.append(correlated_problem(seed, n=n, nu=nu, lam=lam))
    return [(problem, best_of_all_supports(problem)) for problem in problems]


@pytest.fixture(scope="module")
def instances():
    return small_instances()


@pytest.mark.parametrize(
    ("solver", "share"),
    [(LocalSearch(), 0.95), (TabuSearch(n_bits="auto"), 0.9)],
    ids=["local", "tabu-auto"],
)
def test_the_optimum_is_found_on_nearly_all_small_problems(instances, solver, share):
    gaps = np.array([solver.solve(problem).objective - best for problem, best in instances])
    assert gaps.min() >= -1e-8  # no answer is better than the best of all supports
    assert (gaps <= 1e-6).mean() >= share


def test_a_limit_is_used_as_well_as_a_penalty():
    misses = 0
    for seed in range(12):
        problem = replace(stump_problem(seed), lam=0.0, max_learners=1 + seed % 4)
        best = best_of_all_supports(problem)
        solution = LocalSearch().solve(problem)
        check(problem, solution)
        assert solution.objective >= best - 1e-8
        misses += solution.objective > best + 1e-6
    assert misses <= 1


def test_local_search_is_never_worse_than_the_first_k_columns():
    X, y = make_ringnorm(400, seed=3)
    oracle = Stumps().prepare(X, y)
    columns = [c.column for c in oracle.best(np.full(400, 1 / 400), n=25)]
    for limit in (1, 3, 6):
        problem = MasterProblem(np.array(columns), max_learners=limit)
        early = problem.objective(refit(problem, np.arange(limit), tol=1e-9))
        assert LocalSearch().solve(problem).objective <= early + 1e-12


@pytest.mark.parametrize("seed", [20, 41, 78, 156])
def test_columns_that_pay_only_together_are_found(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((12, 30)) < 0.62, 1, -1)
    problem = MasterProblem(A, nu=1e-4, lam=0.05)
    search = LocalSearch(n_perturbations=3)
    found = search.solve(problem).objective
    assert found == pytest.approx(BranchAndBound().solve(problem).objective, rel=1e-7)
    monkeypatch.setattr("totalqboost.solvers.local._Descent.oscillate", lambda self, w: w)
    assert search.solve(problem).objective > 1.01 * found  # single moves do not get there


def test_a_warm_start_takes_fewer_evaluations():
    problem = random_problem(0, n=20, m=150, lam=0.005)
    cold = LocalSearch().solve(problem)
    warm = LocalSearch().solve(problem, start=cold.w)
    assert warm.n_evaluations < 0.5 * cold.n_evaluations
    assert warm.objective <= cold.objective


def test_more_perturbations_are_never_worse():
    for seed in range(5):
        problem = correlated_problem(seed, n=12, m=80)
        few, many = (LocalSearch(n_perturbations=n).solve(problem) for n in (0, 20))
        assert many.objective <= few.objective + 1e-12


# -- fixed-point weights -----------------------------------------------------------------


def depth_of(problem, tol):
    continuous = refit(problem, np.arange(problem.n_columns), tol=1e-8)
    return TabuSearch(n_bits="auto", tol=tol)._depth(problem, continuous)[0]


def test_a_smaller_tolerance_asks_for_more_bits():
    problem = random_problem(2, n=8, m=200, nu=1e-4)
    depths = [depth_of(problem, tol) for tol in (1e-1, 1e-3, 1e-5)]
    assert depths == sorted(depths)
    assert 2 <= depths[0] < depths[2] <= MAX_BITS


def test_the_depth_chosen_represents_the_optimum_without_the_penalty():
    problem = random_problem(3, n=6, m=120, nu=1e-4, lam=0.0)
    optimum = problem.objective(refit(problem, np.arange(6), tol=1e-10))
    for tol in (1e-2, 1e-4):
        bits = depth_of(problem, tol)
        # the grid of that depth over the range of the weights holds a point within tol
        largest = 1.6 * refit(problem, np.arange(6), tol=1e-10).max()
        step = largest / (2**bits - 1)
        w = step * np.rint(refit(problem, np.arange(6), tol=1e-10) / step)
        assert problem.objective(w) <= optimum + 2 * tol


@pytest.mark.parametrize("moves", ["levels", "bits"])
@pytest.mark.parametrize("n_bits", [1, 3, MAX_BITS])
def test_every_depth_gives_a_valid_answer(moves, n_bits):
    problem = random_problem(4, n=5, m=40)
    solution = TabuSearch(n_bits=n_bits, moves=moves, max_evaluations=300).solve(problem)
    w = check(problem, solution)
    assert problem.cardinality(w) > 0
    assert solution.objective >= best_of_all_supports(problem) - 1e-9


@pytest.mark.parametrize("tenure", [1, 3, 50])
def test_every_tenure_gives_a_valid_answer(tenure):
    problem = random_problem(4, n=5, m=40)
    w = check(problem, TabuSearch(tenure=tenure, max_evaluations=300).solve(problem))
    assert problem.cardinality(w) > 0


# -- budgets -----------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 5, 30, 250])
@pytest.mark.parametrize(
    "solver",
    [
        LocalSearch(),
        TabuSearch(),
        TabuSearch(moves="bits"),
        TabuSearch(moves="bits", moves_per_start=20),
        TabuSearch(n_bits="auto"),
    ],
    ids=["local", "levels", "bits", "bits-short-starts", "auto"],
)
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_the_budget_of_evaluations_is_not_exceeded(solver, budget, loss):
    problem = random_problem(5, n=12, m=80, lam=0.002, loss=loss)
    solution = replace(solver, max_evaluations=budget).solve(problem)
    check(problem, solution)
    assert solution.n_evaluations <= budget


def test_the_choice_of_a_depth_leaves_moves_for_the_search():
    problem = random_problem(6, n=40, m=100, lam=0.002)
    solver = TabuSearch(n_bits="auto", tol=1e-9, max_evaluations=800)
    w = check(problem, solver.solve(problem))
    assert problem.cardinality(w) > 0


def test_a_spent_budget_is_reported():
    problem = random_problem(5, n=12, m=80, lam=0.002)
    assert LocalSearch(max_evaluations=3).solve(problem).status == "evaluation budget spent"
    assert LocalSearch().solve(problem).status == "local optimum"
    assert TabuSearch().solve(problem).status == "evaluation budget spent"


@every_solver
def test_a_larger_budget_is_never_worse(solver):
    for seed in range(3):
        problem = correlated_problem(seed, n=10)
        values = [
            replace(solver, max_evaluations=budget).solve(problem).objective
            for budget in (40, 1200)
        ]
        assert values[1] <= values[0] + 1e-12


# -- arguments ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"moves": "jumps"}, r"moves must be 'levels' or 'bits', got 'jumps'"),
        ({"n_bits": 0}, r"n_bits must be 'auto' or an integer from 1 to 12, got 0"),
        ({"n_bits": 13}, r"n_bits must be 'auto' or an integer from 1 to 12, got 13"),
        ({"n_bits": 2.5}, r"n_bits must be .* got 2\.5"),
        ({"n_bits": "many"}, r"n_bits must be .* got 'many'"),
        ({"max_evaluations": 0}, r"max_evaluations must be >= 1, got 0"),
    ],
)
def test_bad_settings_of_tabu_search_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        TabuSearch(**settings)


@pytest.mark.parametrize("kind", [LocalSearch, TabuSearch])
def test_settings_cannot_be_changed_afterwards(kind):
    with pytest.raises(FrozenInstanceError):
        kind().max_evaluations = 5


def test_names_lead_to_solvers():
    assert solvers.names() == ["exact", "local", "tabu"]
    assert solvers.get("local") == LocalSearch()
    assert solvers.get("tabu", n_bits=4) == TabuSearch(n_bits=4)
    own = LocalSearch(n_perturbations=3)
    assert solvers.get(own) is own


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"one of \['exact', 'local', 'tabu'\].* got 'annealing'"):
        solvers.get("annealing")


@pytest.mark.parametrize("thing", [3, None, LocalSearch, object()])
def test_what_cannot_solve_is_refused(thing):
    with pytest.raises(TypeError, match=r"solver must be one of \['exact', 'local', 'tabu'\]"):
        solvers.get(thing)
