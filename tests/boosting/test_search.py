"""The search over the whole dictionary: what it is never worse than, by construction."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from boosting_runs import Refuses, engine_for, problem_of, ring, run
from solver_contract import Squareplus

from totalqboost import TotalQBoostClassifier, frontier, losses
from totalqboost.boosting import Searched, every_size, search, sizes
from totalqboost.boosting.sizes import milestone
from totalqboost.datasets import load
from totalqboost.dictionaries import Columns, FittedClassifiers, Stumps
from totalqboost.solvers import LocalSearch
from totalqboost.solving import Interrupted, SolverSession, Status

SHORT = milestone(0)  # learners: a search up to the first milestone
LONG = SHORT + 2  # and one that goes beyond it
SIZE = 5
PRICES = (0.004, 0.05)
TOLERANCE = 1e-9


def data(name):
    if name == "random":
        rng = np.random.default_rng(0)
        return rng.normal(size=(80, 3)), rng.choice([-1, 1], 80)
    X, y = load(name)
    rows = np.random.default_rng(0).permutation(len(y))[:100]
    return X[rows], np.where(y[rows] > 0, 1, -1)


def cases():
    """Every loss in both forms on one set; on the others the forms and two losses."""
    for name in ("thyroid", "random", "heart", "breast cancer", "flare solar"):
        everything = [*losses.names(), "custom"] if name == "thyroid" else ["exponential"]
        for loss in everything:
            for fit_intercept in (False, True):
                yield name, loss, fit_intercept, 1e-6
        yield name, "logistic", name in ("random", "heart"), 4 / 100


@pytest.fixture(scope="module", autouse=True)
def one_start_per_size():
    """On small data walks have several starts, which are no part of what is tested here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizes, "MAX_WIDTH", 1)
        yield


@pytest.fixture(scope="module", params=cases(), ids=lambda case: "-".join(map(str, case)))
def case(request):
    """Return a data set, what is asked of it, and the frontiers of a short and a long search."""
    name, loss, fit_intercept, nu = request.param
    X, y = data(name)
    loss = Squareplus() if loss == "custom" else loss
    settings = {"loss": loss, "fit_intercept": fit_intercept, "l1_penalty": nu}
    return X, y, settings, *(frontier(X, y, max_learners=k, **settings) for k in (SHORT, LONG))


def best_within(front, size):
    return min(point.objective for point in front if point.n_learners <= size)


def test_no_size_is_worse_than_plain_column_generation(case):
    X, y, settings, short, long = case
    plain_settings = {
        "loss": settings["loss"],
        "nu": settings["l1_penalty"],
        "free_intercept": settings["fit_intercept"],
        "dictionary": Stumps(),
    }
    for size in (1, 2, SIZE, SHORT, LONG):
        plain = run(X, y, max_rounds=size, **plain_settings)  # stopped at so many columns
        assert best_within(long, size) <= plain.solution.objective + TOLERANCE
        if size <= SHORT:
            assert best_within(short, size) <= plain.solution.objective + TOLERANCE


def test_a_fit_of_a_size_is_the_frontier_at_that_size(case):
    X, y, settings, short, long = case
    clf = TotalQBoostClassifier(0.0, max_learners=SIZE, **settings).fit(X, y)
    front = frontier(X, y, max_learners=SIZE, **settings)
    assert clf.solution_.objective <= best_within(front, SIZE) + TOLERANCE
    # and a longer frontier has all that a shorter search found
    assert best_within(short, SIZE) <= clf.solution_.objective + TOLERANCE
    for size in range(1, SHORT + 1):
        assert best_within(long, size) <= best_within(short, size) + TOLERANCE


@pytest.mark.parametrize("lam", PRICES)
def test_a_fit_at_a_price_is_no_worse_than_any_point_of_the_frontier(case, lam):
    X, y, settings, front, _ = case
    clf = TotalQBoostClassifier(lam, **settings).fit(X, y)
    n_covered = next(
        m for m in map(milestone, range(9)) if m > clf.n_learners_
    )  # so far the search has gone
    if n_covered > SHORT:
        front = frontier(X, y, max_learners=n_covered, **settings)
    for point in front:
        price = point.objective + lam * point.n_learners
        assert clf.solution_.objective <= price + TOLERANCE


def test_objectives_are_those_of_the_ensembles(case):
    X, y, settings, _, front = case
    for point in front:
        problem, w = problem_of(
            X, y, point.ensemble, nu=settings["l1_penalty"], loss=settings["loss"]
        )
        assert point.objective == pytest.approx(problem.objective(w), abs=1e-8)


@pytest.mark.parametrize("seed", [3, 7])
def test_a_longer_search_begins_with_all_of_a_shorter_one(seed):
    X, y = ring(150, 6, seed=seed)
    fronts = [frontier(X, y, max_learners=k) for k in (SIZE, SHORT, LONG)]
    for short, long in pairwise(fronts):
        for point in short:
            assert best_within(long, point.n_learners) <= point.objective + TOLERANCE


def test_on_many_rows_a_low_price_is_met_near_the_size_that_it_wants(monkeypatch):
    X, y = ring(150, 6)
    settings = {"loss": "logistic", "nu": 0.02, "free_intercept": True}
    front = every_size(engine_for(X, y, **settings), 30)
    lam = 1e-6
    monkeypatch.setattr(sizes, "MANY_ROWS", 100)
    monkeypatch.setattr(sizes, "SECOND", 8)
    extended = []
    monkeypatch.setattr(sizes.SizeSearch, "extend", lambda *_: extended.append(1))
    for large_work in (sizes.LARGE_WORK, 0):
        monkeypatch.setattr(sizes, "LARGE_WORK", large_work)
        found = search(engine_for(X, y, lam, max_learners=30, **settings), 30)
        assert not extended  # one walk was enough
        objective = found.solution.objective
        assert 8 < found.ensemble.n_learners <= 30
        for size in range(1, 31):  # never worse than plain column generation
            plain = run(X, y, max_rounds=size, **settings).solution.objective
            assert objective <= plain + lam * size + TOLERANCE
        best = min(point.objective + lam * point.n_learners for point in front)
        assert objective <= 1.01 * best


def test_on_many_rows_a_high_price_is_met_by_the_whole_search(monkeypatch):
    X, y = ring(150, 6)
    first = search(engine_for(X, y, 0.02, max_learners=30), 30)
    monkeypatch.setattr(sizes, "MANY_ROWS", 100)
    second = search(engine_for(X, y, 0.02, max_learners=30), 30)
    assert second.learners == first.learners
    np.testing.assert_array_equal(second.solution.w, first.solution.w)


# -- dictionaries that are given ---------------------------------------------------------


@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize("kind", ["columns", "classifiers"])
def test_given_dictionaries_are_searched_without_negative_weights(kind, free_intercept):
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(0)
    if kind == "columns":
        X = rng.choice([-1.0, 1.0], size=(120, 15))
        y = np.where(X[:, 0] - X[:, 1] + X[:, 2] + rng.normal(size=120) > 0, 1, -1)
        dictionary = Columns()
    else:
        X, y = ring(120, 3)
        trees = [
            DecisionTreeClassifier(max_depth=2, splitter="random", random_state=s).fit(X, y)
            for s in range(15)
        ]
        dictionary = FittedClassifiers(trees)
    settings = {"dictionary": dictionary, "nu": 1e-3, "free_intercept": free_intercept}
    plain = run(X, y, max_rounds=5, **settings)
    engine = engine_for(X, y, max_learners=5, **settings)
    points = every_size(engine, 5)
    assert points[-1].objective <= plain.solution.objective + TOLERANCE
    for point in points:
        assert all(weight > 0 for weight in point.ensemble.weights)
        assert set(point.ensemble.learners) <= set(engine.oracle.learners)


# -- what a search returns ---------------------------------------------------------------


@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize("limit", [0, 1, 4])
@pytest.mark.parametrize("lam", [0.0, 0.01])
def test_the_limit_on_learners_is_never_exceeded(limit, lam, free_intercept):
    X, y = ring()
    engine = engine_for(X, y, lam=lam, max_learners=limit, free_intercept=free_intercept)
    result = search(engine, limit)
    assert result.ensemble.n_learners <= limit
    assert all(record.cardinality <= limit for record in result.trace)
    if lam == 0.0:
        assert result.ensemble.n_learners == limit


def test_the_trace_holds_the_best_ensemble_of_each_size():
    X, y = ring()
    result = search(engine_for(X, y, lam=0.01, max_learners=6), 6)
    assert result.status is Status.CONVERGED
    assert [record.cardinality for record in result.trace] == [r.number for r in result.trace]
    assert min(record.objective for record in result.trace) == pytest.approx(
        result.solution.objective, abs=1e-7
    )
    assert result.problem.is_feasible(result.solution.w)
    assert result.solution.objective == result.problem.objective(result.solution.w)
    assert result.solution.bound <= result.solution.objective


def test_local_search_is_not_asked_for_moves_that_were_made():
    class Session(SolverSession):
        adds_to_search = False

    class Same(Refuses):
        def session(self, problem):
            return Session(self)

    X, y = ring(100, 3)
    assert search(engine_for(X, y, lam=0.01, solver=Same()), 4).ensemble.n_learners >= 1
    assert not LocalSearch().session(None).adds_to_search
    with pytest.raises(AssertionError, match="nothing to solve"):
        search(engine_for(X, y, lam=0.01, solver=Refuses()), 4)


def test_events_tell_how_far_the_search_is():
    X, y = ring(100, 3)
    seen = []
    search(engine_for(X, y, max_learners=4), 4, seen.append)
    assert all(isinstance(event, Searched) for event in seen)
    assert all(event.n_learners <= event.max_learners for event in seen)
    assert {1, 2, 3, 4} <= {event.n_learners for event in seen}


@pytest.mark.parametrize("moment", [1, 3, 12, 30])
@pytest.mark.parametrize("free_intercept", [False, True])
def test_an_interrupted_search_keeps_the_best_so_far(moment, free_intercept):
    X, y = ring()
    seen = []

    def interrupt(event):
        seen.append(event)
        if len(seen) == moment:
            raise KeyboardInterrupt

    engine = engine_for(X, y, lam=0.005, free_intercept=free_intercept, max_learners=5)
    with pytest.raises(Interrupted) as caught:
        search(engine, 5, interrupt)
    result = caught.value.result
    assert result.status is result.solution.status is Status.INTERRUPTED
    assert len(result.solution.w) == len(result.learners) == result.problem.n_columns
    within = [e.objective + 0.005 * e.n_learners for e in seen if e.n_learners <= 5]
    assert result.solution.objective <= min(within, default=1.0) + 1e-7
    z = y * result.ensemble.decision_function(X)
    risk = np.exp(-z).mean()
    assert risk == pytest.approx(result.problem.risk(result.solution.w), rel=1e-9)


# -- repeatability -----------------------------------------------------------------------


@pytest.mark.parametrize("free_intercept", [False, True])
def test_threads_do_not_change_the_search(monkeypatch, free_intercept):
    from totalqboost.dictionaries import stumps

    monkeypatch.setattr(stumps, "PARALLEL_FROM", 0)
    X, y = ring(150, 4)
    first, second = (
        search(engine_for(X, y, max_learners=4, n_jobs=n, free_intercept=free_intercept), 4)
        for n in (1, 2)
    )
    assert first.learners == second.learners
    np.testing.assert_array_equal(first.solution.w, second.solution.w)


def test_same_seed_same_search():
    X, y = ring(150, 4)
    first, second = (
        search(engine_for(X, y, lam=0.01, rng=np.random.default_rng(7)), 6) for _ in range(2)
    )
    assert first.learners == second.learners
    np.testing.assert_array_equal(first.solution.w, second.solution.w)
