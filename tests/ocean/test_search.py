"""Parts of the search: trust in the model, the order of reads, and what is polished."""

from __future__ import annotations

from types import SimpleNamespace

import dimod
import numpy as np
import pytest
from nonlinear_sampler import CoordinateSampler
from solver_contract import check, random_problem

from totalqboost.solvers import BQMSolver, NonlinearSolver, build_bqm
from totalqboost.solvers.ocean import search
from totalqboost.solvers.ocean.search import MAX_KAPPA, _best_first, _trust

AT = np.array([0.5, 0.0])
GOOD = np.array([0.0, 1.0])


def model_of(promised):
    """Return a model of two weights that expects GOOD to gain so much over AT."""
    return SimpleNamespace(
        second_order=SimpleNamespace(
            at=AT,
            value=lambda w: 1.0 - promised * float(np.array_equal(w, GOOD)),
            problem=SimpleNamespace(objective=lambda w: 2.0),  # at AT
        )
    )


def trust(promised, gained, kappa=4.0):
    scores = np.array([2.0, 2.0 - gained])
    return _trust(model_of(promised), np.array([AT, GOOD]), scores, kappa)


@pytest.mark.parametrize(
    ("gained", "expected"),
    [(0.8, 2.0), (0.75, 2.0), (0.7, 4.0), (0.25, 4.0), (0.2, 16.0), (-3.0, 16.0)],
)
def test_a_model_is_trusted_by_how_much_of_its_promise_came_true(gained, expected):
    assert trust(promised=1.0, gained=gained) == expected


def test_the_trust_factor_stays_within_its_limits():
    assert trust(1.0, 1.0, kappa=1.0) == 1.0
    assert trust(1.0, 0.0, kappa=MAX_KAPPA) == MAX_KAPPA
    assert trust(1.0, 0.0, kappa=MAX_KAPPA / 2) == MAX_KAPPA


def test_a_model_that_promises_nothing_is_trusted_more():
    assert trust(promised=-1.0, gained=-5.0) == 2.0  # AT is the read that it likes best


def test_the_read_that_counts_is_the_one_the_model_likes_best():
    scores = np.array([-9.0, 2.0])  # AT turned out splendid, which GOOD was to be
    assert _trust(model_of(1.0), np.array([AT, GOOD]), scores, 4.0) == 16.0


def test_an_exact_model_keeps_its_word_and_a_nonlinear_one_needs_no_trust():
    problem = random_problem(1, n=4, loss="squared")
    model = build_bqm(problem, np.full(4, 0.1))
    reads = model.decode(dimod.ExactSolver().sample(model.bqm))
    scores = np.array([problem.objective(w) for w in reads])
    assert _trust(model, reads, scores, 1.0) == 1.0
    assert _trust(model, reads, scores, 8.0) == 4.0
    nonlinear = NonlinearSolver(CoordinateSampler()).build(problem, np.full(4, 0.1))
    assert _trust(nonlinear, reads, scores, 8.0) == 8.0


def test_a_search_passes_the_trust_factor_on_to_the_next_model(monkeypatch):
    kappas = []

    class Noting(BQMSolver):
        def build(self, problem, at, kappa=1.0):
            kappas.append(kappa)
            return super().build(problem, at, kappa)

    monkeypatch.setattr(search, "_trust", lambda model, reads, scores, kappa: kappa + 6.0)
    Noting(dimod.ExactSolver(), n_calls=3, patience=3).solve(random_problem(0))
    assert kappas == [1.0, 7.0, 13.0]


def test_reads_beyond_the_limit_come_after_all_others():
    problem = random_problem(3, n=4, lam=0.0, max_learners=1)
    reads = np.array([[0.3] * 4, [0.0] * 4, [0.2, 0.2, 0, 0], [0, 0, 0.1, 0]])
    scores = np.array([0.1, 0.9, 0.2, 0.8])
    ordered = _best_first(problem, reads, scores)
    np.testing.assert_array_equal(ordered, reads[[3, 1, 0, 2]])


def test_of_many_reads_those_within_the_limit_are_polished():
    polished = []

    class Noting(BQMSolver):
        def _polish(self, descent, w):
            polished.append(w)
            return super()._polish(descent, w)

    problem = random_problem(3, n=4, lam=0.0, max_learners=1)
    solution = Noting(dimod.ExactSolver(), n_calls=1, n_polished=3, polish="refit").solve(problem)
    check(problem, solution)
    assert len(polished) == 1 + 3  # the start, and the best reads
    assert all(problem.cardinality(w) <= 1 for w in polished[1:])
