"""Certified ensembles over a whole dictionary, against all subsets of all stumps."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from totalqboost import MasterProblem, branch_price, datasets, losses
from totalqboost.branch_price import BranchAndPrice, support_bound
from totalqboost.dictionaries import Stumps
from totalqboost.solving import Solution
from totalqboost.refit import refit


def small_data(seed, m=30, n_features=3, n_values=4, noise=1.5):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, n_values, (m, n_features)).astype(float)
    y = np.where(X[:, 0] + X[:, -1] + rng.normal(0, noise, m) > n_values - 1, 1, -1)
    return X, y


def brute_force(X, y, k, loss="exponential", intercept=True, sample_weight=None, nu=1e-6):
    """Return the least objective of k stumps of all cuts, either polarity."""
    cuts = [(f, t) for f in range(X.shape[1]) for t in np.unique(X[:, f])[:-1]]
    columns = [y * np.where(X[:, f] > t, 1, -1) for f, t in cuts]
    if not intercept:
        columns.append(y)  # counts like any learner
    best = np.inf
    for chosen in combinations(range(len(columns)), min(k, len(columns))):
        A = [s * columns[j] for j in chosen for s in (1, -1)]
        A += [y, -y] if intercept else []
        problem = MasterProblem(
            np.array(A, np.int8), nu, 0.0, loss=loss, sample_weight=sample_weight
        )
        w = refit(problem, np.arange(len(A)), tol=1e-10)
        best = min(best, problem.objective(w))
    return best


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_optimum_of_brute_force(k, intercept):
    X, y = small_data(k)
    found = BranchAndPrice(fit_intercept=intercept).solve(X, y, k)
    best = brute_force(X, y, k, intercept=intercept)
    assert found.status == "optimal"
    assert found.objective == pytest.approx(best, abs=1e-8)
    assert found.bound <= best + 1e-12
    assert found.gap < 1e-7
    assert found.ensemble.n_learners <= k


@pytest.mark.parametrize("loss", losses.names())
def test_all_losses_and_sample_weights(loss):
    X, y = small_data(7)
    c = np.random.default_rng(3).random(len(y))
    found = BranchAndPrice(loss=loss).solve(X, y, 2, sample_weight=c)
    assert found.objective == pytest.approx(brute_force(X, y, 2, loss, True, c), abs=1e-7)
    assert found.bound <= found.objective


def test_objective_is_that_of_the_ensemble():
    X, y = small_data(5)
    found = BranchAndPrice(nu=0.0).solve(X, y, 3)
    z = y * found.ensemble.decision_function(X)
    assert np.exp(-z).mean() == pytest.approx(found.objective, abs=1e-9)


def test_a_bad_start_changes_nothing():
    class Empty:
        def solve(self, problem, start=None, rng=None):
            from totalqboost.solving import Solution

            w = np.zeros(problem.n_columns)
            return Solution(w, problem.objective(w))

    X, y = small_data(11)
    good, bad = BranchAndPrice().solve(X, y, 3), BranchAndPrice(solver=Empty()).solve(X, y, 3)
    assert bad.objective == pytest.approx(good.objective, abs=1e-8)
    assert bad.status == "optimal"


def test_order_of_rows_and_features_changes_nothing():
    X, y = small_data(13)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(len(y)), rng.permutation(X.shape[1])
    one = BranchAndPrice().solve(X, y, 3)
    two = BranchAndPrice().solve(X[rows][:, columns], y[rows], 3)
    assert one.objective == pytest.approx(two.objective, abs=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("budget", [{"max_branches": 2}, {"time_limit": 0.0}])
def test_a_spent_budget_leaves_a_valid_bound(budget, intercept):
    X, y = small_data(17, noise=8.0)
    found = BranchAndPrice(fit_intercept=intercept, **budget).solve(X, y, 4)
    assert found.status in ("node limit", "time limit")
    assert found.bound <= brute_force(X, y, 4, intercept=intercept) + 1e-9
    assert found.objective >= brute_force(X, y, 4, intercept=intercept) - 1e-9


def test_a_time_limit_holds_for_pairs_too(monkeypatch):
    monkeypatch.setattr(branch_price, "SWEEP", 1)  # a look at the clock after every cut
    X, y = small_data(17, noise=8.0)
    found = BranchAndPrice(time_limit=0.0).solve(X, y, 2)
    assert found.status == "time limit"
    assert found.bound <= brute_force(X, y, 2) + 1e-9
    assert BranchAndPrice(time_limit=60.0).solve(X, y, 2).status == "optimal"


@pytest.mark.parametrize("intercept", [True, False])
def test_ctrl_c_keeps_the_best_so_far_with_a_valid_bound(intercept):
    calls = []

    def stop(progress):
        calls.append(str(progress))
        if len(calls) == 3:
            raise KeyboardInterrupt

    X, y = small_data(19, noise=8.0)
    found = BranchAndPrice(fit_intercept=intercept, on_progress=stop).solve(X, y, 4)
    assert found.status == "interrupted"
    assert found.bound <= brute_force(X, y, 4, intercept=intercept) + 1e-9
    assert "first cuts" in calls[0]


def test_the_bound_of_a_stopped_search_is_that_of_a_relaxation_at_least():
    X, y = datasets.load("flare solar")
    found = BranchAndPrice(max_branches=1).solve(X, y, 8)
    assert found.status == "node limit"
    assert found.gap < 0.02  # the cells of all cuts alone leave 48 %


def test_ctrl_c_in_the_relaxation_keeps_the_bound_of_the_search(monkeypatch):
    def interrupted(problem, w):
        raise KeyboardInterrupt

    monkeypatch.setattr(branch_price, "certify", interrupted)
    X, y = small_data(17, noise=8.0)
    found = BranchAndPrice(max_branches=2).solve(X, y, 4)
    assert found.status == "node limit"
    assert 0.0 < found.bound <= found.objective


class _Nothing:
    def solve(self, problem, start=None, rng=None):
        w = np.zeros(problem.n_columns)
        return Solution(w, problem.objective(w))


@pytest.mark.parametrize("place", ["_visit", "_cells_bound", "_refit"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_ctrl_c_anywhere_leaves_a_valid_bound(k, place, monkeypatch):
    """From a poor start, so that a bound just below the objective would be a false one."""
    X, y = small_data(19, noise=3.0)
    best = brute_force(X, y, k)
    original, calls = getattr(branch_price._Search, place), []

    def interrupted(self, *arguments):
        calls.append(place)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(branch_price._Search, place, interrupted)
    monkeypatch.setattr(branch_price, "certify", lambda problem, w: -np.inf)
    found = BranchAndPrice(solver=_Nothing()).solve(X, y, k)
    assert found.bound <= best + 1e-9
    if len(calls) >= 2:
        assert found.status == "interrupted"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"y": [0, 1] * 15}, "y must have the labels -1 and 1"),
        ({"y": [1] * 30}, "y must have the labels -1 and 1"),
        ({"X": np.full((30, 2), np.nan)}, "NaN"),
        ({"max_learners": 2.5}, "max_learners must be a whole number >= 1, got 2.5"),
        ({"sample_weight": np.zeros(30)}, "(?i)sample.weight"),
        ({"sample_weight": np.ones(7)}, "sample_weight"),
        ({"sample_weight": -np.ones(30)}, "sample_weight"),
    ],
)
def test_bad_data_is_named(change, complaint):
    X, y = small_data(3)
    with pytest.raises(ValueError, match=complaint):
        BranchAndPrice().solve(**({"X": X, "y": y, "max_learners": 2} | change))


def test_more_learners_than_cuts():
    X, y = small_data(23, n_features=1, n_values=3)
    found = BranchAndPrice().solve(X, y, 10)
    assert found.status == "optimal"
    assert found.objective == pytest.approx(brute_force(X, y, 2), abs=1e-8)


def test_a_shipped_data_set_is_certified():
    X, y = datasets.load("flare solar")
    found = BranchAndPrice().solve(X, y, 3)
    assert (found.status, found.ensemble.n_learners) == ("optimal", 3)
    assert found.gap < 1e-7


def test_support_bound_is_tight_at_the_optimum_and_valid_anywhere():
    rng = np.random.default_rng(0)
    A = np.where(rng.random((6, 60)) < 0.6, 1, -1).astype(np.int8)
    problem = MasterProblem(A, nu=1e-6, lam=0.0)
    best = problem.objective(refit(problem, np.arange(6), tol=1e-12))
    assert support_bound(problem, refit(problem, np.arange(6), tol=1e-9)) > best - 1e-9
    for scale in (0.1, 1.0, 3.0):
        assert support_bound(problem, scale * rng.random(6)) <= best


@pytest.mark.parametrize(
    ("settings", "k", "complaint"),
    [
        ({}, 0, "max_learners must be a whole number >= 1, got 0"),
        ({"loss": "hinge"}, 2, "loss must be one of"),
        ({"dictionary": "stumps"}, 2, "dictionary must be Stumps, got 'stumps'"),
    ],
)
def test_bad_settings_are_named(settings, k, complaint):
    X, y = small_data(0)
    with pytest.raises((ValueError, TypeError), match=complaint):
        BranchAndPrice(**settings).solve(X, y, k)


def test_fewer_bins_make_fewer_cuts():
    X, y = datasets.load("thyroid")
    found = BranchAndPrice(Stumps(max_bins=4)).solve(X, y, 2)
    assert found.n_cuts <= 15
    assert found.status == "optimal"
