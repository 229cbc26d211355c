"""Fees, feature prices and limits on features: what they add to the master problem."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from feature_problems import every_support, some_problem
from solver_contract import LOSSES, check, multiclass_problem, random_problem, with_features

from totalqboost.kernels.groups import (
    NO_LIMIT,
    count_readers,
    group_change,
    group_price,
)
from totalqboost.master import FREE_NU, MasterProblem
from totalqboost.refit import refit, refit_lbfgsb
from totalqboost.solvers import BranchAndBound, LocalSearch, TabuSearch
from totalqboost.solving import Status

A = np.array([[1, 1, -1], [1, -1, 1], [-1, 1, 1], [1, 1, 1]])
READS = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]], dtype=bool)
PROBLEM = MasterProblem(
    A,
    nu=0.1,
    lam=0.01,
    cost=[0, 1, 2, 1],
    fee=[0, 0.5, 0, 0.25],
    reads=READS,
    feature_price=[3, 5, 7],
    max_features=2,
)


# -- the objective -------------------------------------------------------------------------


def test_a_feature_is_paid_once_however_many_columns_read_it():
    w = np.array([0.3, 0.2, 0.1, 0.0])
    l1 = FREE_NU * 0.3 + 0.1 * 0.3
    assert PROBLEM.penalty(w) == pytest.approx(l1 + 0.01 * 3 + 0.5 + 3 + 5, rel=1e-14)
    assert PROBLEM.objective(w) == pytest.approx(PROBLEM.risk(w) + PROBLEM.penalty(w), rel=1e-14)
    w[2] = 0.0  # feature 1 is refunded, feature 0 still read
    assert PROBLEM.price(w) == pytest.approx(0.01 + 0.5 + 3, rel=1e-14)
    np.testing.assert_allclose(PROBLEM.prices, [0, 0.51, 0.02, 0.26])


def test_features_that_are_read_are_counted_and_limited():
    w = np.array([0.3, 0.2, 0.1, 0.0])
    assert PROBLEM.n_features_read(w) == 2
    assert PROBLEM.is_feasible(w)
    assert PROBLEM.n_features_read(np.ones(4)) == 3
    assert not PROBLEM.is_feasible(np.ones(4))
    assert PROBLEM.changed(max_features=None).is_feasible(np.ones(4))
    assert MasterProblem(A).n_features_read(np.ones(4)) == 0


def test_without_fees_and_features_nothing_changes():
    plain = random_problem(0)
    zeros = replace(
        plain, fee=np.zeros(6), reads=np.ones((6, 2)), feature_price=np.zeros(2), max_features=2
    )
    for w in np.random.default_rng(0).random((5, 6)):
        assert plain.objective(w) == zeros.objective(w)
    assert not zeros.has_groups
    np.testing.assert_array_equal(plain.prices, plain.lam * plain.cost)


@pytest.mark.parametrize("make", [MasterProblem, MasterProblem.trusted])
def test_what_is_not_given_is_nothing(make):
    cost, weight = np.ones(4), np.full(3, 1 / 3)
    plain = random_problem(0)
    problem = make(A.astype(np.int8), 0.1, 0.01, cost, plain.loss, weight, reads=READS)
    np.testing.assert_array_equal(problem.fee, np.zeros(4))
    np.testing.assert_array_equal(problem.feature_price, np.zeros(3))


def test_columns_keep_all_that_belongs_to_them():
    some = PROBLEM.columns([0, 2])
    np.testing.assert_array_equal(some.A, A[[0, 2]])
    np.testing.assert_array_equal(some.cost, [0, 2])
    np.testing.assert_array_equal(some.fee, [0, 0])
    np.testing.assert_array_equal(some.reads, READS[[0, 2]])
    assert some.max_features == 2
    w = np.array([0.3, 0.1])
    whole = np.array([0.3, 0.0, 0.1, 0.0])
    assert some.objective(w) == pytest.approx(PROBLEM.objective(whole), rel=1e-14)
    assert random_problem(0).columns(slice(3)).reads is None
    merged = replace(PROBLEM, A=np.repeat(PROBLEM.A, 9, axis=1), sample_weight=None).merged()
    assert merged.n_rows == 3
    assert merged.objective(whole) == pytest.approx(PROBLEM.objective(whole), rel=1e-14)


def test_the_unpriced_problem_is_the_l1_problem():
    w = np.array([0.3, 0.2, 0.1, 0.4])
    l1 = PROBLEM.unpriced()
    assert l1.is_feasible(w)
    assert l1.objective(w) == pytest.approx(PROBLEM.risk(w) + PROBLEM.nus @ w, rel=1e-14)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fee": [0, 1, 1]}, "fee must have shape (4,), got (3,)"),
        ({"fee": [0, 1, 1, -1]}, "fee must be finite and >= 0"),
        ({"fee": [1, 0, 0, 0]}, "fee must be 0 for columns of cost 0, column 0 has one"),
        ({"fee": [0, 1e308, 1e308, 0]}, "fee and feature_price must have finite sums"),
        ({"reads": READS[:3]}, "reads must be an array of shape (4, n_features)"),
        ({"reads": READS * 2}, "reads must be an array of shape (4, n_features)"),
        ({"reads": READS[:, 0]}, "reads must be an array of shape (4, n_features)"),
        ({"reads": ~READS}, "reads must be False for columns of cost 0, column 0 reads"),
        ({"reads": None}, "reads must be given with feature_price or max_features, got None"),
        ({"feature_price": [1, 2]}, "feature_price must have shape (3,), got (2,)"),
        ({"feature_price": [1, 2, np.nan]}, "feature_price must be finite and >= 0"),
        ({"max_features": -1}, "max_features must be an integer >= 0, got -1"),
    ],
)
def test_errors_name_the_argument(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        replace(PROBLEM, **changes)


# -- the groups of kernels -------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_changes_of_group_prices_are_differences_of_the_objective(seed):
    rng = np.random.default_rng(seed)
    limit = int(rng.integers(0, 3)) if seed % 2 else None
    problem = with_features(random_problem(seed), seed, n_features=4, fee=None, max_features=limit)
    groups = problem.groups
    kept = rng.random(6) < 0.5
    counts = np.empty(len(groups.price), dtype=np.int64)

    def read(kept):
        """Return what features cost, and how many count."""
        is_read = problem.reads[kept].any(axis=0)
        number = is_read if limit is not None else is_read & (problem.feature_price > 0)
        return problem.feature_price[is_read].sum(), int(number.sum())

    assert count_readers(groups, kept, counts) == read(kept)[1]
    assert group_price(groups, counts) == pytest.approx(read(kept)[0])
    before = counts.copy()
    for drop in [-1, *np.flatnonzero(kept)]:
        for add in [-1, *np.flatnonzero(~kept)]:
            moved = kept.copy()
            moved[[j for j in (drop, add) if j >= 0]] ^= True
            price, number = group_change(groups, counts, drop, add)
            assert price == pytest.approx(read(moved)[0] - read(kept)[0], abs=1e-15)
            assert number == read(moved)[1] - read(kept)[1]
            np.testing.assert_array_equal(counts, before)


def test_a_limit_that_cannot_bind_is_none():
    groups = PROBLEM.changed(max_features=3, feature_price=np.array([0.0, 1.0, 0.0])).groups
    assert groups.limit == NO_LIMIT
    np.testing.assert_array_equal(groups.price, [1.0])
    assert PROBLEM.groups.limit == 2
    assert random_problem(0).groups.limit == NO_LIMIT


# -- several intercepts ----------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [3, 4, 7])
def test_every_pair_of_opposite_free_columns_is_an_intercept(n_classes):
    problem = multiclass_problem(0, n_classes=n_classes)
    expected = np.arange(2 * n_classes).reshape(-1, 2)
    np.testing.assert_array_equal(problem.intercepts, expected)
    order = np.random.default_rng(0).permutation(problem.n_columns)
    pairs = problem.columns(order).intercepts
    found = {frozenset(order[pair].tolist()) for pair in pairs}
    assert found == {frozenset(pair) for pair in expected.tolist()}
    assert random_problem(0).intercepts.shape == (0, 2)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: getattr(loss, "name", loss))
@pytest.mark.parametrize("n_classes", [3, 5])
def test_refit_and_dual_bound_with_several_intercepts(loss, n_classes):
    problem = multiclass_problem(1, m=30, n_classes=n_classes, loss=loss)
    every = np.arange(problem.n_columns)
    w = refit(problem, every, tol=1e-10)
    value = problem.unpriced().objective(w)
    assert value <= refit_lbfgsb(problem, every, tol=1e-9)[1] + 1e-9
    bound = problem.dual_bound(problem.dual_weights(w))
    assert value - 1e-6 <= bound <= value
    if isinstance(loss, str):  # by Newton steps, one sign of each intercept
        assert not (w[problem.intercepts] > 0).all(axis=1).any()
    some = np.array([0, 1, 2, 4, 5, *every[2 * n_classes :]])  # whole pairs and a half
    w = refit(problem, some, tol=1e-10)
    assert problem.unpriced().objective(w) <= refit_lbfgsb(problem, some, tol=1e-9)[1] + 1e-9


# -- solvers against all supports ------------------------------------------------------------

N_PROBLEMS = 300
BATCHES = [range(first, first + 50) for first in range(0, N_PROBLEMS, 50)]
every_batch = pytest.mark.parametrize("seeds", BATCHES, ids=lambda seeds: f"from-{seeds[0]}")


@every_batch
def test_the_exact_solver_finds_and_proves_the_optimum(seeds):
    for seed in seeds:
        problem, best = every_support(seed)
        solution = BranchAndBound().solve(problem)
        check(problem, solution)
        assert solution.bound <= best + 1e-9, seed
        assert solution.objective == pytest.approx(best, rel=1e-7, abs=1e-9), seed
        assert solution.status in (Status.OPTIMAL, Status.ROUNDING_LIMIT)
        assert solution.gap < 1e-5


@every_batch
def test_local_search_finds_the_optimum_of_nearly_all(seeds):
    n_missed = 0
    for seed in seeds:
        problem, best = every_support(seed)
        solution = LocalSearch().solve(problem)
        check(problem, solution)
        assert solution.objective >= best - 1e-8, seed
        n_missed += solution.objective > best + 1e-6
    assert n_missed <= 1


@every_batch
def test_tabu_search_finds_the_optimum_of_most(seeds):
    n_missed = 0
    for seed in seeds:
        problem, best = every_support(seed)
        solution = TabuSearch(max_evaluations=400).solve(problem)
        check(problem, solution)
        assert solution.objective >= best - 1e-8, seed
        n_missed += solution.objective > best + 1e-4
    assert n_missed <= 3


@pytest.mark.parametrize("seed", range(0, 60, 7))
def test_bounds_of_a_tree_that_is_cut_short_are_valid(seed):
    problem, best = every_support(seed)
    for max_nodes in (1, 3, 9):
        solution = BranchAndBound(max_nodes=max_nodes).solve(problem)
        check(problem, solution)
        assert solution.bound <= best + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_fixed_point_weights_with_features(seed):
    problem = some_problem(3 * seed).columns(slice(4))
    solver = BranchAndBound(n_bits=2, step=0.3)
    levels = np.stack(np.meshgrid(*[range(4)] * 4), axis=-1).reshape(-1, 4)
    feasible = [0.3 * each for each in levels if problem.is_feasible(0.3 * each)]
    best = min(map(problem.objective, feasible))
    solution = solver.solve(problem)
    check(problem, solution)
    assert solution.bound <= best + 1e-9
    assert solution.objective == pytest.approx(best, rel=1e-7)
