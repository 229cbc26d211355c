"""Line 10 with discrete weights: the search answers with them, lines 12-14 refit what it keeps."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
import pytest
from boosting_runs import FAST, engine_for, ring, run
from solver_contract import random_problem

from totalqboost import TotalQBoostClassifier, frontier
from totalqboost.experiments.bench import Bench
from totalqboost.experiments.settings import Settings
from totalqboost.fixed_point import MAX_BITS, ROOM, Grid
from totalqboost.refit import refit
from totalqboost.solvers import LocalSearch, StartPool, TabuSearch
from totalqboost.solvers.walk import Walk
from totalqboost.solving import MasterSolver, Solution, Status

PAPER = TabuSearch(n_bits=6, moves="bits", restart="mst2", discrete=True, max_evaluations=600)


@dataclass
class Noted(MasterSolver):
    """Tabu search with discrete answers, which are kept."""

    asked: list = field(default_factory=list)

    def solve(self, problem, start=None, rng=None):
        solution = PAPER.solve(problem, start, rng)
        self.asked.append((problem, start, solution))
        return solution


def test_every_round_refits_the_columns_of_the_discrete_weights():
    X, y = ring()
    solver = Noted()
    result = run(X, y, lam=0.01, solver=solver, max_rounds=8)
    assert len(solver.asked) == 8
    for record, (problem, start, solution) in zip(result.trace, solver.asked, strict=True):
        levels = solution.w / solution.grid.step
        np.testing.assert_allclose(levels, np.rint(levels), atol=1e-9)  # line 10
        kept = np.flatnonzero(solution.w > 0)  # line 12
        w = refit(problem, kept, solution.w, tol=5e-4)  # line 13
        expected = sorted(w[w > 0])
        np.testing.assert_allclose(sorted(record.ensemble.weights), expected, rtol=1e-12)
        assert record.number == 1 or start is not None
        assert record.objective < solution.objective


def test_the_search_itself_refits_nothing(monkeypatch):
    calls = []

    def counted(*arguments, **settings):
        calls.append(arguments)
        return refit(*arguments, **settings)

    monkeypatch.setattr("totalqboost.solvers.tabu.refit", counted)
    problem = random_problem(2, n=8, m=40)
    PAPER.solve(problem)
    assert len(calls) == 1  # all columns, without the penalty: for the range
    TabuSearch(max_evaluations=600).solve(problem)
    assert len(calls) > 3


def test_starts_compete_by_their_discrete_values(monkeypatch):
    """The first keeps the better columns, the second is the better point of its grid."""
    problem = random_problem(2, n=3, m=60, lam=1e-4)
    answers = [np.full(3, 60), np.array([0, 0, 20]), np.zeros(3, dtype=np.int64)]
    values = []

    def answer(walk, levels, *arguments, **settings):
        found = answers[min(len(values), 2)]
        values.append(walk.value(found))
        return found

    monkeypatch.setattr(Walk, "run", answer)
    solution = TabuSearch(restart="mst2", discrete=True, max_evaluations=250).solve(problem)
    refits = [problem.objective(refit(problem, np.flatnonzero(w), tol=1e-9)) for w in answers]
    assert refits[0] < refits[1] < refits[2]
    assert values[1] < values[0]
    assert solution.objective == pytest.approx(min(values))
    assert np.flatnonzero(solution.w).tolist() == [2]


@dataclass
class SaysDiscrete(MasterSolver):
    """A solver that keeps one column only, as a point of a grid."""

    def solve(self, problem, start=None, rng=None):
        w = np.zeros(problem.n_columns)
        w[-1] = 0.25
        grid = Grid(3, np.full(problem.n_columns, 0.25))
        return Solution(w, problem.objective(w), grid=grid, is_discrete=True)


def test_the_engine_takes_the_refit_of_a_discrete_answer_whatever_was_before():
    X, y = ring()
    result = run(X, y, lam=0.01, solver=SaysDiscrete(), max_rounds=4)
    for record in result.trace:
        assert record.ensemble.learners == (record.learner,)
        edge = record.edge if record.number == 1 else None
        if edge is not None:  # AdaBoost's weight of a single column
            expected = 0.5 * np.log((1 + edge) / (1 - edge))
            assert record.ensemble.weights[0] == pytest.approx(expected, abs=0.01)
    assert result.trace[-1].objective > min(r.objective for r in result.trace)


def test_a_search_over_the_dictionary_is_not_spoiled_by_a_discrete_answer():
    X, y = ring()
    plain = TotalQBoostClassifier(0.01, solver=LocalSearch(), max_rounds=6).fit(X, y)
    spoiled = TotalQBoostClassifier(0.01, solver=SaysDiscrete(), max_rounds=6).fit(X, y)
    assert spoiled.n_learners_ > 1
    assert spoiled.solution_.objective <= plain.solution_.objective + 1e-6
    front = frontier(X, y, max_learners=4, solver=SaysDiscrete())
    assert [point.n_learners for point in front.points] == [0, 1, 2, 3, 4]


# -- the trace -----------------------------------------------------------------------------


@pytest.mark.parametrize("discrete", [False, True])
def test_the_trace_has_depth_and_range_of_every_round(discrete):
    X, y = ring()
    solver = TabuSearch(5, "bits", discrete=discrete, max_evaluations=500)
    result = run(X, y, lam=0.01, solver=solver, max_rounds=8, plain_rounds=3)
    depths = [record.n_bits for record in result.trace]
    assert depths == [None, None, 5, 5, 5, 5, 5, 5]
    ranges = [record.weight_range for record in result.trace[2:]]
    assert result.trace[0].weight_range is None
    assert len(set(ranges)) > 1  # they follow the weights
    if not discrete:
        return
    for record, width in zip(result.trace[2:], ranges, strict=True):
        assert 0.2 * width < max(record.ensemble.weights) < 1.5 * width


def test_a_continuous_solver_has_neither_depth_nor_range():
    X, y = ring()
    record = run(X, y, lam=0.01, solver=FAST, max_rounds=2).trace[-1]
    assert (record.n_bits, record.weight_range) == (None, None)


def test_the_range_of_a_round_starts_from_the_weights_of_the_last():
    problem = random_problem(3, n=4, m=60)
    start = 0.5 * refit(problem, np.array([0, 2]), tol=1e-9)
    assert start.max() < 0.8 * refit(problem, np.arange(4), tol=1e-9).max()
    solution = TabuSearch(discrete=True, max_evaluations=1).solve(problem, start)
    assert solution.grid.range_of(np.ones(4, dtype=bool)) == pytest.approx(ROOM * start.max())
    np.testing.assert_allclose(solution.grid.step, ROOM * start.max() / 63)


def test_an_intercept_has_a_range_of_its_own():
    X, y = ring()
    engine = engine_for(X, np.where(np.arange(len(y)) % 7, 1, y), 0.01, solver=PAPER)
    engine.generate()
    engine.solve()
    grid = engine.last.grid
    is_priced = engine.problem.cost > 0
    assert grid.range_of(is_priced) == pytest.approx(grid.step[is_priced].max() * 63)


# -- the depth ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "bits"), [({"tol": 1e-12}, 12), ({"max_evaluations": 40, "tol": 1e-9}, 2)]
)
def test_a_depth_that_gives_up_says_so(settings, bits):
    problem = random_problem(2, n=8, m=200, nu=1e-4)
    remedy = "raise tol" if bits == MAX_BITS else "raise tol or max_evaluations"
    message = rf"n_bits='auto' gives up at {bits} bits: .*; {remedy}$"
    with pytest.warns(RuntimeWarning, match=message):
        solution = TabuSearch(n_bits="auto", **settings).solve(problem)
    assert solution.grid.n_bits == bits


def test_a_depth_that_suffices_is_found_in_silence():
    problem = random_problem(2, n=8, m=200, nu=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = TabuSearch(n_bits="auto", tol=1e-3).solve(problem)
    assert 2 <= solution.grid.n_bits <= 8


# -- around it -----------------------------------------------------------------------------


def test_a_pool_of_continuous_starts_does_not_replace_a_discrete_answer():
    problem = random_problem(2, n=5, m=60)
    good = LocalSearch().solve(problem).w
    solution = StartPool(PAPER, [good]).solve(problem)
    assert solution.is_discrete
    levels = solution.w / solution.grid.step
    np.testing.assert_allclose(levels, np.rint(levels), atol=1e-9)
    assert np.array_equal(solution.w > 0, good > 0)


def test_the_experiments_have_tabu_search_in_the_form_of_the_paper():
    bench = Bench("thyroid", 0, Settings(solver="tabu", max_rounds=5))
    expected = TabuSearch(n_bits=6, moves="bits", restart="mst2", discrete=True)
    assert bench.solver() == expected
    assert Bench("thyroid", 0, Settings()).solver() == LocalSearch()


def test_an_interrupted_discrete_search_is_refitted_in_the_end(monkeypatch):
    X, y = ring()
    n_walks = []
    run_walk = Walk.run

    def press(self, *arguments, **settings):
        n_walks.append(1)
        if len(n_walks) == 12:
            raise KeyboardInterrupt
        return run_walk(self, *arguments, **settings)

    monkeypatch.setattr(Walk, "run", press)
    with pytest.raises(KeyboardInterrupt) as caught:
        run(X, y, lam=0.01, solver=PAPER, max_rounds=30)
    result = caught.value.result
    assert result.status is Status.INTERRUPTED
    problem, w = result.problem, result.solution.w
    precise = refit(problem, np.flatnonzero(w), tol=1e-10)
    assert result.solution.objective == pytest.approx(problem.objective(precise), abs=1e-9)
