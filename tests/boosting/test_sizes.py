"""Ensembles of every size: values that are true, starts that are kept, signs that fit."""

from __future__ import annotations

import numpy as np
import pytest
from boosting_runs import engine_for, ring
from solver_contract import Squareplus

from totalqboost import losses
from totalqboost.boosting.sizes import SizeSearch, milestone, signed, unsigned
from totalqboost.dictionaries import Columns, Stumps
from totalqboost.learners import Constant
from totalqboost.refit import refit_value

LOSSES = {**{name: name for name in losses.names()}, "custom": Squareplus()}
TOP = milestone(0)


@pytest.fixture(scope="module", params=[False, True], ids=["paper", "intercept"])
def free_intercept(request):
    return request.param


def searched(loss="exponential", n_milestones=1, max_learners=TOP, **settings):
    X, y = ring(100, 3)
    engine = engine_for(X, y, loss=loss, dictionary=Stumps(max_bins=16), **settings)
    search = SizeSearch(engine)
    for _ in range(n_milestones):
        search.extend(max_learners)
    return engine, search


@pytest.mark.parametrize("nu", [1e-4, 0.05])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_the_value_of_a_size_is_the_objective_of_its_ensemble(loss, nu, free_intercept):
    engine, search = searched(loss, nu=nu, free_intercept=free_intercept)
    found = list(search.sizes(TOP))
    assert len(found) > 3
    for snapshot in found:
        engine.adopt(*unsigned(engine, snapshot))
        problem = engine.problem
        # what the search believes is true: else it would prefer what is worse
        assert snapshot.value == pytest.approx(problem.objective(engine.w), rel=1e-8)
        _, precise = refit_value(problem, engine.support(engine.w), engine.w, tol=1e-10)
        assert snapshot.value == pytest.approx(precise, rel=1e-5)


def test_sizes_are_distinct_and_each_is_better_than_the_last(free_intercept):
    _, search = searched(free_intercept=free_intercept)
    found = list(search.sizes(8))
    sizes, values = [len(s.learners) for s in found], [s.value for s in found]
    assert sizes == sorted(set(sizes))
    assert sizes[0] == 0
    assert sizes[-1] <= 8
    assert values == sorted(set(values), reverse=True)
    assert all(len(set(s.learners)) == len(s.learners) for s in found)


def test_the_cheapest_pays_its_price(free_intercept):
    _, search = searched(free_intercept=free_intercept)
    for lam in (0.0, 0.01, 10.0):
        chosen = search.cheapest(lam, 8)
        prices = [s.value + lam * len(s.learners) for s in search.sizes(8)]
        assert chosen.value + lam * len(chosen.learners) == min(prices)
    assert len(search.cheapest(10.0, 8).learners) == 0


def test_nothing_that_was_found_is_lost_when_the_search_goes_on(free_intercept):
    _, search = searched(free_intercept=free_intercept, max_learners=30)
    before = {len(s.learners): s.value for s in search.sizes(TOP)}
    assert search.top == TOP
    search.extend(30)
    assert search.top == milestone(1)
    for size, value in before.items():
        assert min(s.value for s in search.sizes(size)) <= value * (1 + 1e-12)


def test_there_is_an_answer_before_the_search_begins(free_intercept):
    X, y = ring(100, 3)
    search = SizeSearch(engine_for(X, y, free_intercept=free_intercept))
    (nothing,) = search.sizes(5)
    assert nothing.learners == ()
    assert nothing.value <= 1.0 + 1e-12
    assert search.cheapest(0.0, 5) is nothing


def test_signs_are_turned_and_turned_back(free_intercept):
    X, y = ring(100, 3)
    engine = engine_for(X, y, free_intercept=free_intercept, nu=1e-3)
    for _ in range(5):
        engine.generate()
        engine.refit()
    w, value = engine.w, engine.problem.objective(engine.w)
    snapshot = signed(engine, w, value)
    assert all(h.polarity > 0 for h in snapshot.learners)
    learners, weights = unsigned(engine, snapshot)
    assert (weights >= 0).all()
    engine.adopt(learners, weights)
    assert engine.problem.objective(engine.w) == pytest.approx(value, abs=1e-8)


def test_unsigned_dictionaries_keep_their_learners(free_intercept):
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], size=(80, 9))
    y = np.where(X[:, 0] - X[:, 1] + X[:, 2] + rng.normal(size=80) > 0, 1, -1)
    engine = engine_for(X, y, dictionary=Columns(), free_intercept=free_intercept)
    search = SizeSearch(engine)
    search.extend(6)
    for snapshot in search.sizes(6):
        learners, weights = unsigned(engine, snapshot)
        assert (weights >= 0).all()
        own = [h for h in learners if not isinstance(h, Constant)]
        assert set(own) <= set(engine.oracle.learners)
