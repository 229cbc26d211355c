"""The engine: columns of H, and what each verb does to them."""

from __future__ import annotations

import numpy as np
import pytest
from boosting_runs import FAST, Counting, EmptyHanded, Refuses, engine_for, ring
from refit_conditions import violation

from totalqboost import losses
from totalqboost.boosting import GeneratedColumns, Rounds, Terms, boost, next_column
from totalqboost.dictionaries import Stumps
from totalqboost.learners import Constant, Stump
from totalqboost.solvers import BranchAndBound
from totalqboost.solvers.compose import StartPool
from totalqboost.solving import MasterSolver, Solution, SolverSession, Status


def terms(n_rows, **settings):
    return Terms(losses.get("exponential"), np.full(n_rows, 1 / n_rows), **settings)


# -- the columns H -----------------------------------------------------------------------


def test_generated_columns_grow_beyond_their_first_capacity():
    X, y = ring(50, 3)
    H = GeneratedColumns(terms(50), 3)
    offered = Stumps().prepare(X, y).best(np.full(50, 0.02), n=40)
    for candidate in offered:
        H.add(candidate.learner, candidate.column)
    assert len(H) == 40
    np.testing.assert_array_equal(H.problem().A, [c.column for c in offered])
    np.testing.assert_array_equal(H.problem().cost, 1.0)
    assert H.blacklist == {c.learner for c in offered}


def test_columns_are_known_by_their_values():
    X, y = ring(50, 3)
    first, second = Stumps().prepare(X, y).best(np.full(50, 0.02), n=2)
    H = GeneratedColumns(terms(50), 3)
    H.add(first.learner, first.column)
    assert not H.is_new(first.column)
    assert not H.is_new(first.column.copy())
    assert H.is_new(second.column)
    assert H.is_new(-first.column)


def test_the_problem_of_h_has_the_terms():
    _, y = ring(50, 3)
    H = GeneratedColumns(terms(50, nu=0.1, lam=0.2, max_learners=3), 3)
    for sign in (1, -1):
        H.add(Constant(sign), sign * y, cost=0.0)
    problem = H.problem()
    assert (problem.nu, problem.lam, problem.max_learners) == (0.1, 0.2, 3)
    np.testing.assert_array_equal(problem.free, [0, 1])


@pytest.mark.parametrize(
    ("settings", "is_penalised"),
    [({}, False), ({"lam": 0.1}, True), ({"max_learners": 3}, True), ({"nu": 0.5}, False)],
)
def test_a_price_or_a_limit_is_something_to_decide(settings, is_penalised):
    assert terms(10, **settings).is_penalised == is_penalised


# -- line 7 ------------------------------------------------------------------------------


def test_next_column_is_the_best_that_is_new():
    X, y = ring(100, 3)
    oracle = Stumps().prepare(X, y)
    H, u = GeneratedColumns(terms(100), 3), np.full(100, 0.01)
    best, second = oracle.best(u, n=2)
    assert next_column(oracle, H, u).learner == best.learner
    H.add(best.learner, best.column)
    assert next_column(oracle, H, u).learner == second.learner


def test_generate_respects_the_tolerance_of_its_constraint():
    X, y = ring(100, 3)
    best = Stumps().prepare(X, y).best(np.full(100, 0.01))[0]
    for slack, is_found in ((-1e-9, True), (1e-9, False)):
        tol = best.edge - 0.01 + slack
        engine = engine_for(X, y, nu=0.01, tol=tol, dictionary=Stumps())
        found = engine.generate()
        assert (found is not None) == is_found
        assert len(engine.H) == len(engine.w) == engine.problem.n_columns == int(is_found)


# -- verbs -------------------------------------------------------------------------------


def generated(n_columns, **settings):
    X, y = ring()
    engine = engine_for(X, y, **settings)
    for _ in range(n_columns):
        engine.generate()
        engine.refit()
    return engine


def test_refit_gives_all_columns_their_weights():
    engine = generated(6, nu=1e-3, tol=1e-6)
    assert violation(engine.problem, np.arange(6), engine.w) <= 1e-6
    assert engine.n_evaluations == 6


def test_solve_starts_from_nothing_after_a_refit_and_from_w_after_a_solve():
    solver = Counting()
    engine = generated(4, lam=0.02, solver=solver)
    assert engine.is_pending
    engine.solve()
    assert not engine.is_pending
    w = engine.w
    engine.solve()
    assert [start is None for _, start in solver.calls] == [True, False]
    np.testing.assert_array_equal(solver.calls[1][1], w)


def test_solve_keeps_the_solvers_weights_where_the_refit_is_worse():
    engine = generated(4, lam=0.02)
    engine.solve()
    assert engine.last is not None
    assert engine.problem.objective(engine.w) <= engine.last.objective


@pytest.mark.parametrize("free_intercept", [False, True])
def test_an_adopted_ensemble_is_in_h_with_its_weights(free_intercept):
    engine = generated(3, lam=0.02, free_intercept=free_intercept)
    known = engine.H.learners[-1]
    new = Stump(0, float(engine.oracle.thresholds[0][3]), -1)
    extra = [Constant(-1)] if free_intercept else []
    engine.adopt([known, new, *extra], np.array([0.4, 0.7, *[0.2] * len(extra)]))
    assert not engine.is_pending
    assert engine.H.learners.count(known) == engine.H.learners.count(new) == 1
    ensemble = engine.ensemble()
    assert dict(zip(ensemble.learners, ensemble.weights, strict=True)) == {known: 0.4, new: 0.7}
    assert ensemble.intercept == (-0.2 if free_intercept else 0.0)
    np.testing.assert_array_equal(engine.problem.A[-1], engine.oracle.column(new))


def test_finish_is_precise_and_within_the_limit():
    engine = generated(6, max_learners=3, nu=1e-3)  # no solver has seen these columns
    result = engine.finish(Status.INTERRUPTED)
    assert result.ensemble.n_learners <= 3
    kept = np.flatnonzero(result.solution.w)
    assert violation(result.problem, kept, result.solution.w) <= 1e-8
    assert result.solution.bound <= result.solution.objective


# -- sessions ----------------------------------------------------------------------------


class Recording(MasterSolver):
    """A solver whose sessions note what they are asked, and have a last word."""

    def __init__(self, last_word=True):
        self.log, self.last_word = [], last_word

    def solve(self, problem, start=None, rng=None):
        return FAST.solve(problem, start, rng)

    def session(self, problem):
        self.log.append(("session", problem.n_columns))
        return RecordingSession(self)


class RecordingSession(SolverSession):
    def solve(self, problem, start, rng):
        self.solver.log.append(("solve", problem.n_columns))
        return super().solve(problem, start, rng)

    def finish(self, problem, w, rng):
        self.solver.log.append(("finish", problem.n_columns))
        if not self.solver.last_word:
            return None
        return Solution(w, 0.0, bound=problem.objective(w), status=Status.OPTIMAL, note="proved")


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: StartPool(s, [])], ids=["bare", "pool"])
@pytest.mark.parametrize("last_word", [False, True])
def test_a_fit_is_one_session_with_one_last_word(wrap, last_word):
    X, y = ring(120)
    solver = Recording(last_word)
    engine = engine_for(X, y, lam=0.02, solver=wrap(solver))
    result = boost(engine, Rounds(max_rounds=4))
    solves = [("solve", n) for n in range(1, 5)]
    assert solver.log == [("session", 0), *solves, ("finish", 4)]
    if last_word:
        assert result.solution.status is Status.OPTIMAL
        assert result.solution.note == "proved"
        assert result.solution.gap == pytest.approx(0.0, abs=1e-6)
        assert result.status is Status.MAX_ROUNDS
    else:
        assert result.solution.status is result.status is Status.MAX_ROUNDS
        assert result.solution.note == ""


def test_without_a_penalty_there_is_no_last_word():
    X, y = ring(120)
    solver = Recording()
    boost(engine_for(X, y, solver=solver), Rounds(max_rounds=4))
    assert solver.log == [("session", 0)]


def test_a_wrapped_exact_solver_proves_as_much_as_the_bare_one():
    """What a wrapper must not lose: the last solve of a fit, to the end."""
    X, y = ring(120)
    gaps = []
    for solver in (BranchAndBound(), StartPool(BranchAndBound(), [])):
        result = boost(engine_for(X, y, lam=0.02, solver=solver), Rounds(max_rounds=6))
        gaps.append(result.solution.gap)
        assert result.solution.status in (Status.OPTIMAL, Status.GAP_REACHED)
    assert gaps == pytest.approx([0.0, 0.0], abs=1e-6)


def test_a_worse_last_word_does_not_replace_the_weights():
    class Forgets(RecordingSession):
        def finish(self, problem, w, rng):
            return EmptyHanded().solve(problem)

    class Solver(Recording):
        def session(self, problem):
            return Forgets(self)

    X, y = ring(120)
    result = boost(engine_for(X, y, lam=0.02, solver=Solver()), Rounds(max_rounds=4))
    assert result.ensemble.n_learners >= 1
    assert result.solution.objective <= result.trace[-1].objective + 1e-12


def test_no_columns_need_no_solver():
    X, y = ring(60)
    result = boost(engine_for(X, y, lam=0.1, solver=Refuses()), Rounds(max_rounds=0))
    assert result.ensemble.n_learners == 0
