"""Solvers within an experiment: where they start, what they prove, and Ctrl-C; subsets."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from solver_contract import random_problem

from totalqboost.experiments import strategies
from totalqboost.experiments.baselines.subsets import backward_elimination, random_subsets
from totalqboost.experiments.bench import Bench
from totalqboost.experiments.settings import Settings
from totalqboost.experiments.strategies import (
    _searched_again,
    first_solutions,
    hot_started,
    rows_of,
    subset_solutions,
)
from totalqboost.refit import refit_value
from totalqboost.solvers import BranchAndBound, LocalSearch
from totalqboost.solvers.compose import StartPool
from totalqboost.solving import Interrupted, MasterSolver, Solution


class Cut(MasterSolver):
    """A solver that Ctrl-C cuts short at a certain call."""

    def __init__(self, when):
        self.when = when

    def solve(self, problem, start=None, rng=None):
        self.when -= 1
        solution = LocalSearch().solve(problem, start, rng)
        if self.when == 0:
            raise Interrupted(solution)
        return solution


@pytest.mark.parametrize("when", [1, 2])
def test_an_interrupted_answer_is_no_result(when):
    problem = random_problem(0)
    pool = [np.zeros(problem.n_columns)]
    whole = StartPool(Cut(3), pool).solve(problem)
    with pytest.raises(Interrupted) as caught:
        StartPool(Cut(when), pool).solve(problem)
    # but it is kept, as good as what was found until then
    found = caught.value.result
    assert problem.is_feasible(found.w)
    assert found.objective >= whole.objective - 1e-12


class Coarse(MasterSolver):
    """A solver whose answer has the columns of its start, with weights of a grid."""

    def solve(self, problem, start=None, rng=None):
        w = np.where(start > 0, 0.25 * np.ceil(start / 0.25), 0.0)
        return Solution(w, problem.objective(w), is_discrete=True)


class Empty(MasterSolver):
    """A solver that finds nothing."""

    def solve(self, problem, start=None, rng=None):
        w = np.zeros(problem.n_columns)
        return Solution(w, problem.objective(w), is_discrete=True)


@pytest.mark.parametrize("solver", [Coarse(), Empty()])
def test_an_answer_on_a_grid_does_not_hide_a_better_one(solver):
    problem = random_problem(0)
    best = LocalSearch().solve(problem)
    worse = best.w * 0.9  # than the best, and better than the grid
    own = Solution(worse, problem.objective(worse))
    assert own.objective < Coarse().solve(problem, best.w).objective
    bench = SimpleNamespace(solver=lambda: solver)
    found = _searched_again(bench, problem, own, best.w, np.random.default_rng(0))
    assert found.objective == pytest.approx(best.objective, abs=1e-9)
    assert found.objective == problem.objective(found.w)


def test_both_proofs_of_a_pool_count():
    class Prover(MasterSolver):
        def solve(self, problem, start=None, rng=None):
            solution = LocalSearch().solve(problem, start, rng)
            bound = 0.1 if start is None else 0.2
            return Solution(solution.w, solution.objective, bound)

    problem = random_problem(0)
    start = BranchAndBound().solve(problem).w
    assert StartPool(Prover(), [start]).solve(problem).bound == 0.2
    assert StartPool(Prover(), []).solve(problem).bound == 0.1


# -- subsets that no solver chose, and D without a seed -----------------------------------------


@pytest.fixture(scope="module")
def bench():
    return Bench("heart", 0, Settings(max_rounds=8, n_penalties=4))


def risk_without(problem, w, column):
    support = np.setdiff1d(np.flatnonzero(w > 0), [column])
    return refit_value(problem, support, tol=1e-10)[1]


def test_elimination_drops_about_the_cheapest_column_and_refits(bench):
    problem = bench.plain_problem
    steps = list(backward_elimination(problem, tol=1e-10))
    assert [n for n, _, _ in steps] == list(range(problem.n_columns, -1, -1))
    for (_, w, _), (_, after, value) in pairwise(steps):
        assert set(np.flatnonzero(after > 0)) <= set(np.flatnonzero(w > 0))
        rivals = [risk_without(problem, w, column) for column in np.flatnonzero(w > 0)]
        # chosen by curvature; refitting without each of them agrees
        assert value == pytest.approx(min(rivals), rel=2e-3)
        assert value < max(rivals) or len(rivals) <= 1


def test_random_subsets_have_the_size_they_say_and_refitted_weights(bench):
    problem = bench.plain_problem
    generators = [np.random.default_rng(n) for n in range(problem.n_columns)]
    found = list(random_subsets(problem, generators))
    assert [n for n, _ in found] == list(range(1, problem.n_columns + 1))
    for n, w in found:
        support = np.flatnonzero(w > 0)
        assert len(support) <= n
        assert problem.objective(w) <= refit_value(problem, support, tol=1e-10)[1] + 1e-9
    # all columns: no choice is left
    every = refit_value(problem, np.arange(problem.n_columns), tol=1e-10)[1]
    assert problem.objective(found[-1][1]) == pytest.approx(every, abs=1e-9)


def test_rows_of_subsets_differ_by_their_number_and_lie_above_the_optimum(bench):
    optimum = {}
    for n in range(1, bench.plain_problem.n_columns + 1):
        limited = bench.plain_problem.changed(max_learners=n)
        optimum[n] = bench.plain_problem.risk(BranchAndBound().solve(limited).w)
    for strategy in ("elimination", "random"):
        rows = list(rows_of(bench, strategy, keep_ensembles=False))
        assert len({row["round"] for row in rows}) == len(rows) == bench.plain_problem.n_columns
        for row in rows:
            assert row["risk"] >= optimum[row["n_learners"]] - 1e-4


def test_d_without_a_seed_never_asks_for_the_answers_of_e(bench):
    subset_solutions.cache_clear()
    found = list(hot_started(bench, is_seeded=False))
    assert subset_solutions.cache_info().misses == 0
    seeded = list(hot_started(bench))
    assert subset_solutions.cache_info().misses == 1
    assert [outcome.penalty for outcome in found] == [outcome.penalty for outcome in seeded]


def test_hot_starts_are_never_worse_than_where_they_start(bench):
    for is_seeded, starts in (
        (True, subset_solutions(bench)),
        (False, first_solutions(bench, "D0")),
    ):
        for outcome, start in zip(hot_started(bench, is_seeded), starts, strict=True):
            assert outcome.objective <= start.objective + 1e-9


def test_hot_starts_begin_with_the_columns_of_plain_column_generation(bench):
    learners = bench.plain.learners[: bench.plain_problem.n_columns]
    start = first_solutions(bench, "D0")[-1].w
    result = bench.boost(bench.generator("D", 0), lam=float(bench.lambdas[-1]), start=start)
    assert result.learners[: len(learners)] == learners
    assert len(result.learners) == bench.settings.max_rounds


def test_compilation_is_no_part_of_the_time_of_a_row(monkeypatch):
    @contextmanager
    def slow(found):
        yield
        found(1000.0)

    monkeypatch.setattr(strategies, "compilation_time", slow)
    rows = rows_of(Bench("thyroid", 0, Settings(max_rounds=3)), "B", keep_ensembles=False)
    assert {row["seconds"] for row in rows} == {0.0}
