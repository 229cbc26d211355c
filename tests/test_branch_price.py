"""Certified ensembles over a whole dictionary, against all subsets of all stumps."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from totalqboost import MasterProblem, datasets, losses
from totalqboost.branch_price import BranchAndPrice, tree
from totalqboost.branch_price.cuts import Cuts
from totalqboost.branch_price.leaves import Leaves, support_bound
from totalqboost.dictionaries import Stumps
from totalqboost.dictionaries.stumps import StumpOracle
from totalqboost.ensemble import Ensemble
from totalqboost.learners import Constant, Stump
from totalqboost.refit import refit
from totalqboost.solving import Interrupted, Status


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
        cost = np.ones(len(A) + 2 * intercept)
        if intercept:
            A += [y, -y]
            cost[-2:] = 0.0
        problem = MasterProblem(np.array(A, np.int8), nu, 0.0, cost, loss, sample_weight)
        w = refit(problem, np.arange(len(A)), tol=1e-10)
        best = min(best, problem.objective(w))
    return best


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_optimum_of_brute_force(k, intercept):
    X, y = small_data(k)
    found = BranchAndPrice(fit_intercept=intercept).solve(X, y, k)
    best = brute_force(X, y, k, intercept=intercept)
    assert found.status is Status.OPTIMAL
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
    found = BranchAndPrice(l1_penalty=0.0).solve(X, y, 3)
    z = y * found.ensemble.decision_function(X)
    assert np.exp(-z).mean() == pytest.approx(found.objective, abs=1e-9)


@pytest.fixture
def poor_start(monkeypatch):
    """Begin with the empty ensemble, so that a bound near the first objective is a false one."""
    monkeypatch.setattr(BranchAndPrice, "_first", lambda *arguments: Ensemble((), ()))


def test_a_bad_start_changes_nothing(request):
    X, y = small_data(11)
    good = BranchAndPrice().solve(X, y, 3)
    request.getfixturevalue("poor_start")
    bad = BranchAndPrice().solve(X, y, 3)
    assert bad.n_refits > good.n_refits
    assert bad.objective == pytest.approx(good.objective, abs=1e-8)
    assert bad.status is Status.OPTIMAL


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
    assert found.status is (Status.NODE_LIMIT if "max_branches" in budget else Status.TIME_LIMIT)
    best = brute_force(X, y, 4, intercept=intercept)
    assert found.bound <= best + 1e-9
    assert found.objective >= best - 1e-9


def test_a_time_limit_holds_for_pairs_too(monkeypatch):
    monkeypatch.setattr(tree, "SWEEP", 1)  # a look at the clock after every cut
    X, y = small_data(17, noise=8.0)
    found = BranchAndPrice(time_limit=0.0).solve(X, y, 2)
    assert found.status is Status.TIME_LIMIT
    assert found.bound <= brute_force(X, y, 2) + 1e-9
    assert BranchAndPrice(time_limit=60.0).solve(X, y, 2).status is Status.OPTIMAL


@pytest.mark.parametrize("intercept", [True, False])
def test_ctrl_c_keeps_the_best_so_far_with_a_valid_bound(intercept):
    calls = []

    def stop(progress):
        calls.append(str(progress))
        if len(calls) == 3:
            raise KeyboardInterrupt

    X, y = small_data(19, noise=8.0)
    with pytest.raises(Interrupted) as stopped:
        BranchAndPrice(fit_intercept=intercept, on_progress=stop).solve(X, y, 4)
    found = stopped.value.result
    assert found.status is Status.INTERRUPTED
    assert found.bound <= brute_force(X, y, 4, intercept=intercept) + 1e-9
    assert "first cuts" in calls[0]


def test_the_bound_of_a_stopped_search_is_that_of_a_relaxation_at_least():
    X, y = datasets.load("flare solar")
    found = BranchAndPrice(max_branches=1).solve(X, y, 8)
    assert found.status is Status.NODE_LIMIT
    assert found.gap < 0.02  # the cells of all cuts alone leave 48 %


def test_ctrl_c_in_the_relaxation_keeps_the_bound_of_the_search(monkeypatch):
    monkeypatch.setattr(tree, "certify", interrupt)
    X, y = small_data(17, noise=8.0)
    with pytest.raises(Interrupted) as stopped:
        BranchAndPrice(max_branches=2).solve(X, y, 4)
    found = stopped.value.result
    assert found.status is Status.INTERRUPTED
    assert 0.0 < found.bound <= found.objective


def interrupt(*arguments):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("owner", "place"), [(Leaves, "visit"), (Leaves, "_refit"), (Cuts, "bound"), (Cuts, "split")]
)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_ctrl_c_anywhere_leaves_a_valid_bound(k, owner, place, poor_start, monkeypatch):
    X, y = small_data(19, noise=3.0)
    best = brute_force(X, y, k)
    original = getattr(owner, place)
    monkeypatch.setattr(tree, "certify", lambda problem, w: -np.inf)
    for last in (1, 2, 3, 5, 9, 20, 40):
        calls = []

        def interrupted(self, *arguments, calls=calls, last=last):
            calls.append(place)
            if len(calls) == last:
                raise KeyboardInterrupt
            return original(self, *arguments)

        monkeypatch.setattr(owner, place, interrupted)
        try:
            found = BranchAndPrice().solve(X, y, k)
            assert len(calls) < last
        except Interrupted as stop:
            found = stop.result
            assert found.status is Status.INTERRUPTED
        assert found.bound <= best + 1e-9
        assert found.objective >= best - 1e-9
        assert found.ensemble.n_learners <= k


@pytest.mark.parametrize("intercept", [True, False])
def test_whenever_it_is_stopped_the_bound_is_valid(intercept, poor_start, monkeypatch):
    """In the paper's form, sets with a constant come first: those without it are open till then."""
    monkeypatch.setattr(tree, "certify", lambda problem, w: -np.inf)
    X, y = small_data(9, m=25, n_values=3)
    best = brute_force(X, y, 4, intercept=intercept)
    bounds = []
    for last in range(1, 9):
        calls = []

        def stop(progress, calls=calls, last=last):
            calls.append(progress)
            if len(calls) == last:
                raise KeyboardInterrupt

        search = BranchAndPrice(fit_intercept=intercept, on_progress=stop)
        try:
            search.solve(X, y, 4)
        except Interrupted as stopped:
            bounds.append(stopped.result.bound)
    assert len(bounds) >= 2
    assert max(bounds) <= best + 1e-9


@pytest.mark.parametrize("call", [1, 2, 3])
def test_ctrl_c_in_the_first_phase_keeps_what_it_has(call, monkeypatch):
    calls, original = [], StumpOracle.best

    def interrupted(self, *arguments, **settings):
        calls.append(self)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(self, *arguments, **settings)

    monkeypatch.setattr(StumpOracle, "best", interrupted)
    X, y = small_data(19, noise=3.0)
    with pytest.raises(Interrupted) as stopped:
        BranchAndPrice().solve(X, y, 2)
    found = stopped.value.result
    best = brute_force(X, y, 2)
    assert found.status is Status.INTERRUPTED
    assert found.n_branches == 0
    assert 0.0 < found.bound <= best + 1e-9
    assert best - 1e-9 <= found.objective < 1.0
    assert found.ensemble.n_learners <= 2


def test_ctrl_c_before_the_first_phase_gives_the_empty_ensemble(monkeypatch):
    X, y = small_data(19)
    monkeypatch.setattr(Cuts, "__init__", interrupt)
    with pytest.raises(Interrupted) as stopped:
        BranchAndPrice().solve(X, y, 2)
    found = stopped.value.result
    assert (found.ensemble.n_learners, found.objective, found.bound) == (0, 1.0, 0.0)
    assert found.ensemble.predict(X).tolist() == [-1] * len(y)


@pytest.mark.parametrize("noise", [0.01, 1.5])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_without_an_l1_penalty_no_cut_is_kept_with_both_polarities(k, intercept, noise):
    for seed in range(2):
        X, y = small_data(seed, noise=noise)
        found = BranchAndPrice(l1_penalty=0.0, fit_intercept=intercept).solve(X, y, k)
        learners = found.ensemble.learners
        kinds = {(h.feature, h.threshold) if isinstance(h, Stump) else None for h in learners}
        assert len(kinds) == len(learners) <= k
        best = brute_force(X, y, k, intercept=intercept, nu=0.0)
        assert found.objective == pytest.approx(best, abs=1e-7)
        assert found.bound <= best + 1e-9


def near_misses(X, y, k, margin):
    """Return the stumps of all sets of k cuts that are above the best one by less than margin."""
    cuts = [Stump(f, t + 0.5) for f in range(X.shape[1]) for t in np.unique(X[:, f])[:-1]]
    found = []
    for chosen in combinations(cuts, k):
        A = np.array([s * y * h.predict(X) for h in [*chosen, Constant(1)] for s in (1, -1)])
        problem = MasterProblem(A, 1e-6, 0.0, np.repeat([1.0, 0.0], [2 * k, 2]))
        w = refit(problem, np.arange(len(A)), tol=1e-11)
        found.append((problem.objective(w), chosen))
    best = min(value for value, _ in found)
    return best, [chosen for value, chosen in found if 1e-6 < value - best < margin]


@pytest.mark.parametrize("n_features", [1, 2])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_start_that_is_nearly_the_best_is_still_beaten(k, n_features, monkeypatch):
    """Cutting off what is better than the incumbent by a little (0.03, say) is an error."""
    for seed in range(4):
        X, y = small_data(seed, m=25, n_features=n_features, n_values=8 // n_features)
        best, starts = near_misses(X, y, k, 0.03)
        for start in starts[:5]:
            first = Ensemble(start, (1.0,) * k)
            monkeypatch.setattr(BranchAndPrice, "_first", lambda *args, first=first: first)
            found = BranchAndPrice().solve(X, y, k)
            assert found.objective == pytest.approx(best, abs=1e-8)
            assert found.bound <= best + 1e-12


def test_labels_and_names_are_those_of_the_data():
    X, y = small_data(3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    found = BranchAndPrice().solve(frame, np.where(y > 0, "yes", "no"), 2)
    assert found.ensemble.classes == ("no", "yes")
    assert found.ensemble.feature_names == ("a", "b", "c")
    assert found.objective == BranchAndPrice().solve(X, y, 2).objective
    for columns in ([2, 1, 0], ["a", "a", "b"]):
        named = BranchAndPrice().solve(pd.DataFrame(X, columns=columns), y, 2)
        assert named.ensemble.feature_names == tuple(map(str, columns))


@pytest.mark.parametrize("loss", losses.names())
def test_a_free_intercept_pays_no_l1_penalty(loss):
    X, y = small_data(5)
    y[:24] = 1
    found = BranchAndPrice(loss=loss, l1_penalty=0.05).solve(X, y, 2)
    z = y * found.ensemble.decision_function(X)
    paid = 0.05 * sum(found.ensemble.weights)
    objective = losses.get(loss).value(z).mean() + paid
    assert found.objective == pytest.approx(objective, abs=1e-8)
    assert found.objective == pytest.approx(brute_force(X, y, 2, loss, nu=0.05), abs=1e-8)
    assert found.gap < 1e-6
    stopped = BranchAndPrice(loss=loss, l1_penalty=0.05, max_branches=1).solve(X, y, 4)
    assert stopped.bound <= brute_force(X, y, 4, loss, nu=0.05) + 1e-9


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"y": [0, 1, 2] * 10}, "Only binary classification"),
        ({"y": [1] * 30}, "y must have at least two classes"),
        ({"X": np.full((30, 2), np.nan)}, "numbers only .* column 'x0' has NaN"),
        ({"X": [["a", 1.0]] * 30}, "numbers only .* column 'x0' has categories"),
        ({"max_learners": 2.5}, "max_learners must be an integer >= 1, got 2.5"),
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
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(brute_force(X, y, 2), abs=1e-8)


def test_a_shipped_data_set_is_certified():
    X, y = datasets.load("flare solar")
    found = BranchAndPrice().solve(X, y, 3)
    assert (found.status, found.ensemble.n_learners) == (Status.OPTIMAL, 3)
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
        ({}, 0, "max_learners must be an integer >= 1, got 0"),
        ({"l1_penalty": -1.0}, 2, "l1_penalty must be a finite number >= 0, got -1.0"),
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
    assert found.status is Status.OPTIMAL
