"""Integers times one scale: as good as all of them tried, never worse than rounding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from solver_contract import Squareplus

from totalqboost import (
    MasterProblem,
    Status,
    TotalQBoostClassifier,
    TotalQBoostClassifierCV,
    frontier,
    losses,
)
from totalqboost.datasets import make_twonorm
from totalqboost.fixed_point import top_integers
from totalqboost.integers import TwoClasses, integer_weights, least_scale, search_integers
from totalqboost.multiclass.integers import ManyClasses, integers_per_class
from totalqboost.multiclass.weights import Counts, fit_per_class
from totalqboost.refit import refit
from totalqboost.solvers import BranchAndBound, certify_integers

SETTINGS = {"max_learners": 5, "max_rounds": 10}


def make_problem(seed, n_columns=3, n_rows=60, loss="logistic", **others):
    """An intercept and columns that are right more often than not, rows of any weight."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1, 1], n_rows, p=[0.4, 0.6])
    A = np.where(rng.random((n_columns, n_rows)) < 0.35, -1, 1)
    settings = {"nu": 0.01, "lam": 0.002, "sample_weight": rng.random(n_rows)} | others
    cost = np.r_[0.0, 0.0, np.ones(n_columns)]
    return MasterProblem(np.vstack([y, -y, A]), cost=cost, loss=loss, **settings)


def real_weights(problem):
    return refit(problem, np.arange(problem.n_columns), tol=1e-9)


def least_of_all(objective, points):
    """The least objective of integers, each with its best scale."""
    values = [objective.values(np.zeros((1, len(points[0]))))[0]]
    for q in points:
        q = np.array(q, dtype=float)
        if q.any():
            scale = least_scale(objective.along(q), 0.1)
            values.append(objective.values(scale * q[None])[0])
    return min(values)


def rounded(problem, w, n_bits):
    """Weights rounded so that the largest has the largest integer, as after training."""
    objective = TwoClasses(problem, n_bits)
    x = objective.joined(w)
    scale = np.abs(x[~objective.is_signed]).max() / (2 ** (n_bits - 1) - 1)
    return objective.spread(np.rint(x / scale)) * scale


# -- the search --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n_bits", [2, 3])
def test_the_search_finds_the_best_of_all_integers(seed, n_bits):
    problem = make_problem(seed, loss=losses.names()[seed % 4])
    objective = TwoClasses(problem, n_bits)
    top = 2 ** (n_bits - 1) - 1
    found = search_integers(objective, objective.joined(real_weights(problem)))
    assert abs(found.q[0]) <= 3 * top  # so that these are all that matter
    points = itertools.product(range(-3 * top, 3 * top + 1), *[range(top + 1)] * 3)
    assert found.value <= least_of_all(objective, list(points)) * (1 + 1e-9)


@pytest.mark.parametrize("n_bits", [2, 4, 6, 8, 12])
@pytest.mark.parametrize("loss", [*losses.names(), Squareplus()], ids=str)
def test_integers_are_within_their_bits_and_never_worse_than_rounding(loss, n_bits):
    problem = make_problem(n_bits, 12, 200, loss)
    w = real_weights(problem)
    integers, scale = integer_weights(problem, w, n_bits)
    levels = np.rint(integers / scale)
    np.testing.assert_array_equal(integers, scale * levels)
    assert levels[2:].max() <= 2 ** (n_bits - 1) - 1
    assert levels[:2].min() == 0
    assert problem.is_feasible(integers)
    assert problem.objective(integers) <= problem.objective(rounded(problem, w, n_bits))
    least = refit(problem, np.flatnonzero(w), tol=1e-10)
    assert problem.unpriced().objective(integers) >= problem.unpriced().objective(least) - 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_a_quick_search_is_between_rounding_and_a_long_one(seed):
    problem = make_problem(seed, 12, 200, lam=0.0)
    w = real_weights(problem)
    quick, long = (integer_weights(problem, w, 4, is_quick)[0] for is_quick in (True, False))
    after_training = problem.objective(rounded(problem, w, 4))
    assert problem.objective(long) <= problem.objective(quick) <= after_training


def test_more_bits_come_nearer_to_real_weights():
    problem = make_problem(0, 10, 300, lam=0.0)
    w = real_weights(problem)
    gaps = [
        problem.objective(integer_weights(problem, w, n_bits)[0]) - problem.objective(w)
        for n_bits in (2, 4, 6, 8)
    ]
    assert gaps == sorted(gaps, reverse=True)
    assert 0 <= gaps[-1] < 1e-4


def test_a_column_that_is_not_worth_its_price_goes():
    problem = make_problem(1, 6, 100, lam=0.05)
    w = refit(problem, np.arange(8), tol=1e-9)  # knows no price
    integers, _ = integer_weights(problem, w, 4)
    assert problem.cardinality(integers) < problem.cardinality(w)
    assert problem.objective(integers) < problem.objective(w)


def test_nothing_kept_is_no_weight():
    problem = make_problem(2, fit := 3)
    integers, scale = integer_weights(problem, np.zeros(fit + 2), 8)
    assert scale > 0
    assert not integers[2:].any()


def test_without_an_intercept_all_integers_are_weights():
    given = make_problem(3, 5)
    problem = given.columns(slice(2, None))
    w = real_weights(problem)
    integers, scale = integer_weights(problem, w, 3)
    assert problem.objective(integers) <= problem.objective(np.zeros(5))
    np.testing.assert_allclose(integers / scale, np.rint(integers / scale))


def test_intercepts_have_sixteen_bits_and_weights_their_own():
    np.testing.assert_array_equal(top_integers(8, np.array([True, False])), [32767, 127])
    np.testing.assert_array_equal(top_integers(2, np.array([True, False])), [32767, 1])


@pytest.mark.parametrize("loss", losses.names())
def test_slopes_are_those_of_the_objective(loss):
    objective = TwoClasses(make_problem(4, 4, 80, loss, lam=0.0), 8)
    # Where the curvature jumps, as that of the smoothed hinge, it is one of the two.
    check_slopes(objective, np.array([0.3, 0.2, 0.4, 0.1, 0.5]), loss != "smoothed_hinge")


def check_slopes(objective, w, has_exact_hessian=True):
    """Compare gradient, Hessian and slopes along a line with differences."""
    step, n = 1e-5, len(w)
    g, H = objective.slopes(w)
    unit = step * np.eye(n)
    numeric = (objective.values(w + unit) - objective.values(w - unit)) / (2 * step)
    np.testing.assert_allclose(g, numeric, atol=1e-7)
    if has_exact_hessian:
        ahead = np.array([objective.slopes(w + d)[0] for d in unit])
        back = np.array([objective.slopes(w - d)[0] for d in unit])
        np.testing.assert_allclose(H, (ahead - back) / (2 * step), atol=2e-3)
    slope, curvature = objective.along(w)(1.1)
    assert slope == pytest.approx(objective.slopes(1.1 * w)[0] @ w, abs=1e-8)
    if has_exact_hessian:
        assert curvature == pytest.approx(w @ objective.slopes(1.1 * w)[1] @ w, rel=1e-6)


def test_a_scale_is_found_where_newton_steps_fail():
    # Curvature that vanishes on one side, as that of the smoothed hinge.
    assert least_scale(lambda t: (-1.0, 0.0) if t < 5 else (t - 6, 1.0), 0.1) == pytest.approx(6)
    assert least_scale(lambda t: (np.arctan(t - 3), 1 / (1 + (t - 3) ** 2)), 50) == pytest.approx(3)


def test_a_scale_is_found_from_where_losses_overflow():
    problem = make_problem(8, 3, 60, "exponential")
    objective = TwoClasses(problem, 4)
    along = objective.along(np.array([0.0, 1.0, 2.0, 1.0]))
    assert least_scale(along, 1e4) == pytest.approx(least_scale(along, 0.1), rel=1e-6)


# -- proofs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", losses.names())
def test_the_exact_solver_proves_that_no_other_integers_are_better(loss):
    problem = make_problem(5, 4, 60, loss, lam=0.0)
    integers, scale = integer_weights(problem, real_weights(problem), 3)
    proof = certify_integers(problem, integers, scale, 3)
    levels = itertools.product(range(-12, 13), *[range(4)] * 4)
    objective = TwoClasses(problem, 3)
    least = objective.values(scale * np.array(list(levels), dtype=float)).min()
    assert proof.status is Status.OPTIMAL
    assert proof.objective == pytest.approx(least, rel=1e-9)
    assert proof.bound <= least
    assert proof.objective <= problem.objective(integers)


def test_the_exact_solver_improves_integers_that_are_not_the_best():
    problem = make_problem(6, 4, 60, lam=0.0)
    integers, scale = integer_weights(problem, real_weights(problem), 3)
    worse = integers.copy()
    worse[2] = scale * (3 if integers[2] < 2 * scale else 1)
    proof = certify_integers(problem, worse, scale, 3)
    assert proof.objective <= problem.objective(integers) + 1e-12 < problem.objective(worse)


@pytest.mark.parametrize("seed", range(8))
def test_levels_of_opposite_columns_are_proven_too(seed):
    # The difference of two levels of one step is a level; of two steps it may be none.
    rng = np.random.default_rng(seed)
    given = make_problem(seed, 2, 30, losses.names()[seed % 4], lam=0.01 * (seed % 3))
    A = np.vstack([given.A, -given.A[2]])
    problem = given.changed(A=A, cost=np.append(given.cost, 1.0), fee=None)
    depth = np.r_[3, 3, rng.integers(1, 3, 3)]
    step = np.r_[np.full(4, 0.3), 0.3 if seed % 2 else 0.17]
    levels = itertools.product(*[range(2**bits) for bits in depth])
    weights = step * np.array(list(levels), dtype=float)
    values = problem.loss.value(weights @ A) @ problem.sample_weight + weights @ problem.nus
    least = (values + (weights > 0) @ problem.prices).min()
    solver = BranchAndBound(n_bits=tuple(depth.tolist()), step=tuple(step.tolist()))
    solution = solver.solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(least, rel=1e-8)
    assert solution.bound <= least * (1 + 1e-9)


def test_depths_are_one_for_all_columns_or_one_each():
    problem = make_problem(7, 3)
    with pytest.raises(ValueError, match="n_bits must be one number or 5, one per column"):
        BranchAndBound(n_bits=(2, 2), step=0.1).solve(problem)
    with pytest.raises(ValueError, match="n_bits must be an integer from 1 to 16, got 17"):
        BranchAndBound(n_bits=(2, 17), step=0.1)


# -- many classes ------------------------------------------------------------------------------


def make_counts(seed, n_stumps=2, n_classes=3, n_rows=90, has_intercept=True):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    answers = np.where(rng.random((n_rows, n_stumps)) < 0.2 + 0.3 * labels[:, None], 1, -1)
    return Counts.of(answers, labels, np.full(n_rows, 1 / n_rows), n_classes, has_intercept)


@pytest.mark.parametrize("has_intercept", [True, False])
def test_the_best_of_all_integers_of_three_classes(has_intercept):
    counts, shape = make_counts(0, 1, 3, has_intercept=has_intercept), (1, 3)
    W, b = fit_per_class(counts, 0.02, np.zeros(shape), np.zeros(3))
    W, b, scale = integers_per_class(counts, 0.02, 2, W, b, is_shared=False)
    objective = ManyClasses(counts, 0.02, 2, shape)
    found = objective.values(scale * objective.packed(W, b)[None])[0]
    intercepts = [range(-2, 3), range(-2, 3), [0]] if has_intercept else []  # shifts are free
    points = itertools.product(*[range(-1, 2)] * 3, *intercepts)
    assert found <= least_of_all(objective, list(points)) * (1 + 1e-9)
    assert np.abs(W).max() <= 1
    assert has_intercept or not b.any()


@pytest.mark.parametrize("is_shared", [True, False])
def test_slopes_of_many_classes_are_those_of_their_objective(is_shared):
    counts = make_counts(1, 3, 4)
    votes = np.where(np.arange(12).reshape(3, 4) % 3, 1, -1) if is_shared else None
    objective = ManyClasses(counts, 0.0, 8, (3, 4), votes)
    rng = np.random.default_rng(0)
    check_slopes(objective, 0.1 + rng.random(3 + 4 if is_shared else 12 + 4))
    priced = ManyClasses(counts, 0.1, 8, (3, 4), votes)
    check_slopes(priced, 0.1 + rng.random(len(priced.top)), has_exact_hessian=False)


def test_many_weights_are_searched_too():
    counts, shape = make_counts(2, 12, 8, 400), (12, 8)  # more than all pairs are tried for
    W, b = fit_per_class(counts, 0.005, np.zeros(shape), np.zeros(8))
    objective = ManyClasses(counts, 0.005, 4, shape)
    x = objective.packed(W, b)
    scale = np.abs(W).max() / 7
    after_training = objective.values(scale * np.rint(x / scale)[None])[0]
    W, b, scale = integers_per_class(counts, 0.005, 4, W, b, is_shared=False)
    assert objective.values(scale * objective.packed(W, b)[None])[0] <= after_training
    assert np.abs(W).max() <= 7


# -- classifiers -------------------------------------------------------------------------------


def labelled(n_classes=2, n_rows=150):
    X, y = make_twonorm(n_rows, seed=0)
    if n_classes == 2:
        return X, y
    return X, np.digitize(X[:, 0] + X[:, 1], np.quantile(X[:, 0] + X[:, 1], [0.3, 0.7]))


@pytest.mark.parametrize(
    ("n_classes", "mode"), [(2, "joint"), (3, "joint"), (3, "per_class"), (3, "shared")]
)
def test_a_classifier_has_integers_of_so_many_bits(n_classes, mode):
    X, y = labelled(n_classes)
    clf = TotalQBoostClassifier(n_bits=4, multiclass=mode, **SETTINGS).fit(X, y)
    weights, _, scale = clf.ensemble_.points
    assert 1 <= np.abs(weights).max() <= 7
    assert clf.ensemble_.is_shared or mode != "shared"
    np.testing.assert_allclose(clf.ensemble_.weights, scale * np.array(weights))
    votes = clf.decision_function(X) / scale
    np.testing.assert_allclose(votes, np.rint(votes), atol=1e-9)
    again = TotalQBoostClassifier(n_bits=4, multiclass=mode, **SETTINGS).fit(X, y)
    assert again.ensemble_ == clf.ensemble_
    real = TotalQBoostClassifier(multiclass=mode, **SETTINGS).fit(X, y)
    assert clf.score(X, y) > real.score(X, y) - 0.05


def test_the_solution_is_that_of_the_integers():
    X, y = labelled()
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 4, len(y))
    clf = TotalQBoostClassifier(0.01, n_bits=5, **SETTINGS).fit(X, y, weight)
    real = TotalQBoostClassifier(0.01, **SETTINGS).fit(X, y, weight)
    scores = clf.decision_function(X)
    risk = np.average(np.logaddexp(0, -np.where(y > 0, 1, -1) * scores), weights=weight)
    price = clf.l1_penalty_ * sum(clf.ensemble_.weights) + 0.01 * clf.n_learners_
    assert clf.solution_.objective == pytest.approx(risk + price, rel=1e-6)
    assert real.solution_.objective <= clf.solution_.objective
    assert clf.solution_.bound <= clf.solution_.objective


def test_none_is_real_numbers():
    X, y = labelled()
    clf = TotalQBoostClassifier(n_bits=None, **SETTINGS).fit(X, y)
    assert clf.ensemble_ == TotalQBoostClassifier(**SETTINGS).fit(X, y).ensemble_
    assert clf.ensemble_.scale is None
    assert clf.integers_ is None


@pytest.mark.parametrize("how", [{"certify": True}, {"solver": "exact"}], ids=str)
def test_a_classifier_tells_whether_its_integers_are_the_best(how):
    X, y = labelled()
    clf = TotalQBoostClassifier(n_bits=4, **how, **SETTINGS).fit(X, y)
    assert clf.integers_.status is Status.OPTIMAL
    assert clf.integers_.objective == pytest.approx(clf.solution_.objective, rel=1e-9)
    assert clf.ensemble_.points is not None


def test_all_sizes_of_a_frontier_are_in_integers():
    X, y = labelled()
    front = frontier(X, y, max_learners=4, n_bits=3)
    assert all(max(p.ensemble.points.weights, default=0) <= 3 for p in front)
    objectives = [point.objective for point in front]
    assert objectives == sorted(objectives, reverse=True)


def test_cross_validation_trains_integers_in_its_folds():
    X, y = labelled()
    clf = TotalQBoostClassifierCV(3, cv=3, n_bits=2).fit(X, y)
    assert set(clf.ensemble_.points.weights) <= {1}
    scores = clf.frontier_.held_out.scores[1]
    assert len(np.unique(np.abs(scores).round(9))) <= 2 * 3  # one stump and an intercept per fold
    assert clf.frontier_[2].calibration > 0


@pytest.mark.parametrize("bad", [0, 1, 13, 8.0, True, "8", "auto"])
@pytest.mark.parametrize("make", [TotalQBoostClassifier, TotalQBoostClassifierCV])
def test_what_is_no_number_of_bits_is_named(make, bad):
    X, y = labelled(n_rows=20)
    with pytest.raises(ValueError, match="n_bits must be None or an integer from 2 to 12, got"):
        make(n_bits=bad).fit(X, y)
