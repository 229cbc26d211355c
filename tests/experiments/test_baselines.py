"""AdaBoost, LPBoost and ERLPBoost against other people's solvers on small problems."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, brentq, linprog, minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier

from totalqboost.datasets import make_ringnorm, make_twonorm
from totalqboost.dictionaries import Columns, Stumps
from totalqboost.dictionaries.stumps import cut_points
from totalqboost.experiments.baselines import BASELINES, baseline_stages
from totalqboost.experiments.baselines.entropy import EntropyMaster, maximise_model
from totalqboost.experiments.baselines.linear import LinearMaster, soft_margin
from totalqboost.learners import Constant, Stump

TOTALLY_CORRECTIVE = BASELINES[1:]


def run_baseline(*arguments, **settings):
    """Return the ensemble after each round."""
    return [stage.ensemble for stage in baseline_stages(*arguments, **settings)]


def noisy(n_rows=60, n_features=2, seed=0):
    """Return a few overlapping examples, with uneven weights so that no two columns tie."""
    X, y = make_twonorm(n_rows, seed=seed, n_features=n_features)
    return X, y, np.random.default_rng(seed).uniform(0.5, 1.5, n_rows)


def every_stump(X):
    stumps = [
        Stump(f, float(t), polarity)
        for f in range(X.shape[1])
        for t in cut_points(X[:, f], 65536)
        for polarity in (1, -1)
    ]
    return [*stumps, Constant(1), Constant(-1)]


def every_column(X, y):
    return np.array([y * h.predict(X) for h in every_stump(X)], dtype=float)


def random_columns(n_columns, n_rows, seed, share=0.6):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n_columns, n_rows)) < share, 1.0, -1.0)


def best_soft_margin(A, c, nu):
    """Solve the primal linear program: maximise rho - sum_i c_i xi_i / nu over w, rho, xi."""
    t, m = A.shape
    answer = linprog(
        np.concatenate([np.zeros(t), [-1.0], c / nu]),
        A_ub=np.hstack([-A.T, np.ones((m, 1)), -np.eye(m)]),
        b_ub=np.zeros(m),
        A_eq=np.concatenate([np.ones(t), np.zeros(m + 1)])[np.newaxis],
        b_eq=[1.0],
        bounds=[(0, None)] * t + [(None, None)] + [(0, None)] * m,
    )
    assert answer.status == 0
    return -answer.fun


def best_regularised_margin(A, c, nu, eta):
    """Solve ERLPBoost's problem over (d, gamma) with SLSQP."""
    t, m = A.shape

    def value(x):
        return x[m] + x[:m] @ np.log(x[:m] / c) / eta

    def slope(x):
        return np.append((np.log(x[:m] / c) + 1.0) / eta, 1.0)

    answer = minimize(
        value,
        np.append(c, (A @ c).max()),
        jac=slope,
        bounds=[(1e-14, cap) for cap in c / nu] + [(-2, 2)],
        constraints=[
            {
                "type": "ineq",
                "fun": lambda x: x[m] - A @ x[:m],
                "jac": lambda x: np.hstack([-A, np.ones((t, 1))]),
            },
            {
                "type": "eq",
                "fun": lambda x: x[:m].sum() - 1.0,
                "jac": lambda x: np.append(np.ones(m), 0.0),
            },
        ],
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    assert answer.success, answer.message
    return answer.fun


# -- what all share ------------------------------------------------------------------------


@pytest.mark.parametrize("name", BASELINES)
def test_every_round_gives_an_ensemble_of_positive_weights(name):
    X, y = make_ringnorm(150, seed=0, n_features=4)
    stages = list(baseline_stages(name, Stumps().prepare(X, y), y, max_rounds=12))
    assert len(stages) == 12
    for stage in stages:
        ensemble = stage.ensemble
        assert 1 <= ensemble.n_learners == len(set(ensemble.learners))
        assert min(ensemble.weights) > 0
        assert stage.bound <= stage.objective + 1e-9
    objectives = [stage.objective for stage in stages]
    assert (np.diff(objectives) <= 1e-7).all()
    train_error = np.mean(stages[-1].ensemble.predict(X) != y)
    assert train_error < np.mean(stages[0].ensemble.predict(X) != y)


@pytest.mark.parametrize("name", BASELINES)
def test_two_runs_are_equal(name):
    X, y = make_ringnorm(120, seed=1, n_features=3)
    oracle = Stumps().prepare(X, y)
    assert run_baseline(name, oracle, y, max_rounds=10) == run_baseline(
        name, Stumps().prepare(X, y), y, max_rounds=10
    )


@pytest.mark.parametrize("name", BASELINES)
def test_a_perfect_column_is_the_whole_ensemble(name):
    X, y = np.array([[1.0], [2.0], [3.0]]), np.array([-1, 1, 1])
    ensembles = run_baseline(name, Stumps().prepare(X, y), y)
    assert len(ensembles) == 1
    assert ensembles[0].learners == (Stump(0, 1.5, 1),)
    assert ensembles[0].weights == (1.0,)


@pytest.mark.parametrize("name", BASELINES)
def test_an_example_of_weight_zero_is_no_example(name):
    signs, y = random_columns(30, 50, seed=2).T, np.ones(50, dtype=int)
    weight = np.repeat([1.0, 0.0], [40, 10])
    some = run_baseline(name, Columns().prepare(signs, y), y, max_rounds=8, sample_weight=weight)
    few = run_baseline(name, Columns().prepare(signs[:40], y[:40]), y[:40], max_rounds=8)
    assert [e.learners for e in some] == [e.learners for e in few]
    assert np.allclose(some[-1].weights, few[-1].weights, atol=1e-9)


@pytest.mark.parametrize("name", BASELINES)
def test_weights_may_be_so_large_that_their_sum_overflows(name):
    signs, y = random_columns(30, 50, seed=2).T, np.ones(50, dtype=int)
    oracle = Columns().prepare(signs, y)
    large = run_baseline(name, oracle, y, max_rounds=5, sample_weight=np.full(50, 1e308))
    assert large == run_baseline(name, oracle, y, max_rounds=5)


@pytest.mark.parametrize("name", BASELINES)
def test_an_integer_weight_is_as_many_examples(name):
    signs, y = random_columns(30, 40, seed=3).T, np.ones(40, dtype=int)
    times = np.random.default_rng(3).integers(1, 4, 40)
    rows = np.repeat(np.arange(40), times)
    weighted = baseline_stages(
        name, Columns().prepare(signs, y), y, sample_weight=times, tol=1e-4, nu=0.4
    )
    repeated = baseline_stages(
        name, Columns().prepare(signs[rows], y[rows]), y[rows], tol=1e-4, nu=0.4
    )
    assert list(weighted)[-1].objective == pytest.approx(list(repeated)[-1].objective, abs=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "logitboost"}, r"name must be one of \['adaboost', 'lpboost', 'erlpboost'\], g"),
        ({"nu": 0.0}, "nu must be above 0 and at most 1, got 0.0"),
        ({"nu": 1.5}, "nu must be above 0 and at most 1, got 1.5"),
        ({"tol": 0.0}, "tol must be > 0, got 0.0"),
        ({"max_rounds": 0}, "max_rounds must be >= 1, got 0"),
        ({"sample_weight": np.ones(3)}, r"sample_weight must have shape \(2,\), got \(3,\)"),
        ({"sample_weight": np.zeros(2)}, "sample_weight must not be zero for every row"),
        ({"sample_weight": -np.ones(2)}, "sample_weight must be finite and >= 0"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    X, y = np.array([[1.0], [2.0]]), np.array([-1, 1])
    arguments = {"name": "lpboost", "oracle": Stumps().prepare(X, y), "y": y, **settings}
    with pytest.raises(ValueError, match=message):
        baseline_stages(**arguments)


# -- AdaBoost ------------------------------------------------------------------------------


class BestStump(ClassifierMixin, BaseEstimator):
    """The stump of the smallest weighted error, found by trying all of them."""

    def fit(self, X, y, sample_weight):
        self.classes_ = np.array([-1, 1])
        stumps = every_stump(X)
        self.stump_ = stumps[np.argmax(every_column(X, y) @ sample_weight)]
        return self

    def predict(self, X):
        return self.stump_.predict(X)


def test_adaboost_is_that_of_scikit_learn():
    X, y, weight = noisy()
    n_rounds = 15
    theirs = AdaBoostClassifier(BestStump(), n_estimators=n_rounds).fit(X, y, weight)
    ours = run_baseline(
        "adaboost", Stumps().prepare(X, y), y, max_rounds=n_rounds, sample_weight=weight
    )
    assert len(ours) == len(theirs.estimators_) == n_rounds
    assert 2.0 * ours[0].weights[0] == pytest.approx(theirs.estimator_weights_[0])
    for ensemble, theirs_now in zip(ours, theirs.staged_decision_function(X), strict=True):
        ours_now = ensemble.decision_function(X)  # scikit-learn divides by the sum of weights
        assert np.allclose(
            ours_now / np.abs(ours_now).max(), theirs_now / np.abs(theirs_now).max(), atol=1e-9
        )


def test_adaboost_begins_no_worse_than_a_tree_of_depth_one():
    X, y = make_ringnorm(200, seed=4, n_features=5)
    tree = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=1).fit(X, y)
    (ours,) = run_baseline("adaboost", Stumps().prepare(X, y), y, max_rounds=1)
    assert np.mean(ours.predict(X) != y) <= np.mean(tree.predict(X) != y)


def test_adaboost_chooses_stumps_again_and_keeps_one_of_each():
    X, y = make_ringnorm(40, seed=0, n_features=1)
    stages = list(baseline_stages("adaboost", Stumps().prepare(X, y), y, max_rounds=80))
    last = stages[-1]
    stumps = {(h.feature, h.threshold) for h in last.ensemble.learners if isinstance(h, Stump)}
    assert last.ensemble.n_learners < len(stages)
    assert len(stumps) >= last.ensemble.n_learners - 1  # and perhaps a constant
    for stage in stages:
        risk = np.mean(np.exp(-y * stage.ensemble.decision_function(X)))
        assert stage.objective == pytest.approx(risk)


def test_adaboost_stops_where_no_column_beats_chance():
    signs, y = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]), np.array([1, -1, -1, 1])
    assert run_baseline("adaboost", Columns().prepare(signs, y), y) == []


# -- LPBoost -------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.floats(0.01, 1.0))
def test_soft_margin_is_its_definition(seed, nu):
    rng = np.random.default_rng(seed)
    z, c = rng.integers(-3, 4, 12).astype(float), rng.dirichlet(np.ones(12))
    # A concave function, linear between the margins: its maximum is at one of them.
    values = [rho - c @ np.maximum(rho - z, 0.0) / nu for rho in z]
    assert soft_margin(z, c, nu) == pytest.approx(max(values), abs=1e-9)


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_lpboost_reaches_the_optimum_over_all_stumps(nu, seed):
    X, y, weight = noisy(40, 2, seed)
    stages = list(
        baseline_stages(
            "lpboost",
            Stumps().prepare(X, y),
            y,
            sample_weight=weight,
            nu=nu,
            tol=1e-6,
            max_rounds=200,
        )
    )
    c = weight / weight.sum()
    optimum = best_soft_margin(every_column(X, y), c, nu)
    last = stages[-1]
    assert -last.objective == pytest.approx(optimum, abs=2e-6)
    assert -last.bound == pytest.approx(optimum, abs=2e-6)
    assert all(stage.bound <= -optimum + 1e-6 for stage in stages)
    margins = y * last.ensemble.decision_function(X)
    assert soft_margin(margins, c, nu) == pytest.approx(-last.objective, abs=1e-9)
    assert sum(last.ensemble.weights) == pytest.approx(1.0)


@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_the_linear_master_is_exact_though_it_fixes_most_examples(nu):
    A = random_columns(24, 700, seed=5)
    c = np.full(700, 1 / 700)
    master = LinearMaster(c, nu)
    for t in range(1, 25, 2):
        point = master.solve(A[:t])
        assert point.value == pytest.approx(best_soft_margin(A[:t], c, nu), abs=1e-6)
        assert abs(point.gap) < 1e-6
        assert point.d.sum() == pytest.approx(1.0)
        assert (point.d <= c / nu + 1e-12).all()


# -- ERLPBoost -----------------------------------------------------------------------------


@pytest.mark.parametrize("eta", [0.5, 10.0, 300.0])
@pytest.mark.parametrize("nu", [0.2, 0.55, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_entropy_master_agrees_with_slsqp(seed, nu, eta):
    A = random_columns(5, 14, seed)
    c = np.random.default_rng(seed).dirichlet(np.full(14, 5.0))
    point = EntropyMaster(c, nu, eta).solve(A)
    assert point.value == pytest.approx(best_regularised_margin(A, c, nu, eta), abs=1e-6)
    assert -1e-12 < point.gap <= 1e-7


@pytest.mark.parametrize("tol", [0.01, 5e-4])
@pytest.mark.parametrize("nu", [0.05, 0.3, 0.8])
def test_the_duality_gap_is_closed_in_every_round(nu, tol):
    A = random_columns(25, 400, seed=6)
    c = np.full(400, 1 / 400)
    master = EntropyMaster(c, nu, 2.0 * np.log(1.0 / nu) / tol)
    for t in range(1, 26):
        point = master.solve(A[:t])
        assert point.gap <= 1e-7
        assert (point.w >= 0).all()
        assert point.w.sum() == pytest.approx(1.0)
    assert soft_margin(point.w @ A, c, nu) > best_soft_margin(A, c, nu) - tol / 2 - 1e-7


@given(st.integers(0, 10_000), st.floats(0.02, 1.0), st.sampled_from([0.5, 20.0, 5000.0]))
def test_the_inner_distribution_is_that_of_bisection(seed, nu, eta):
    rng = np.random.default_rng(seed)
    z, c = rng.choice([-0.5, 0.0, 0.1, 0.7], 20), rng.dirichlet(np.ones(20))
    d, _ = EntropyMaster(c, nu, eta).distribution(z)

    def excess(threshold):
        return c @ np.exp(np.minimum(eta * (threshold - z), -np.log(nu))) - 1.0

    assert d.sum() == pytest.approx(1.0)
    assert (d <= c / nu * (1 + 1e-12)).all()
    if nu < 0.99:
        threshold = brentq(excess, -1.0, 1.0 - np.log(nu) / eta, xtol=1e-15, rtol=1e-15)
        expected = c * np.exp(np.minimum(eta * (threshold - z), -np.log(nu)))
        assert np.allclose(d, expected, atol=1e-7)


def test_value_and_divergence_are_their_definitions():
    A = random_columns(4, 60, seed=9)
    c = np.random.default_rng(9).dirichlet(np.full(60, 5.0))
    point = EntropyMaster(c, 0.4, 50.0).solve(A)
    assert point.divergence == pytest.approx(point.d @ np.log(point.d / c) / 50.0)
    assert point.value == pytest.approx(point.w @ A @ point.d + point.divergence)


def test_edges_and_curvature_are_the_derivatives_of_the_dual():
    A = random_columns(4, 60, seed=7)
    c = np.random.default_rng(7).dirichlet(np.full(60, 5.0))
    master = EntropyMaster(c, 0.6, 8.0)
    w = np.array([0.4, 0.3, 0.2, 0.1])
    point = master._point(A, w)
    assert np.allclose(
        approx_fprime(w, lambda x: master._point(A, x).value, 1e-7), point.edges, atol=1e-5
    )
    hessian = [
        (master._point(A, w + 1e-6 * e).edges - master._point(A, w - 1e-6 * e).edges) / 2e-6
        for e in np.eye(4)
    ]
    assert np.allclose(-np.array(hessian), master._curvature(A, point.d), atol=1e-5)


@given(st.integers(0, 10_000))
def test_the_model_is_maximised_over_the_simplex(seed):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(6, 4))
    Q, g = B @ B.T, rng.normal(size=6)
    w = rng.dirichlet(np.ones(6)) * rng.integers(0, 2, 6)
    w = w / w.sum() if w.any() else np.eye(6)[0]
    x = maximise_model(Q, 0.01, g, w)
    gradient = g - Q @ (x - w) - 0.01 * (x - w)
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1.0)
    assert gradient.max() - gradient @ x < 1e-9  # Frank and Wolfe's certificate


@pytest.mark.parametrize("nu", [0.2, 0.5])
def test_erlpboost_is_within_its_tolerance_of_the_best_soft_margin(nu):
    X, y, weight = noisy(60, 2)
    tol = 0.02
    stages = list(
        baseline_stages(
            "erlpboost",
            Stumps().prepare(X, y),
            y,
            sample_weight=weight,
            nu=nu,
            tol=tol,
            max_rounds=300,
        )
    )
    c = weight / weight.sum()
    optimum = best_soft_margin(every_column(X, y), c, nu)
    last = stages[-1]
    assert len(stages) < 300
    assert last.objective - last.bound <= tol / 2
    margins = y * last.ensemble.decision_function(X)
    assert optimum - tol <= soft_margin(margins, c, nu) <= optimum + 1e-9


@pytest.mark.parametrize("name", TOTALLY_CORRECTIVE)
def test_a_dictionary_may_run_out_of_columns(name):
    signs, y = random_columns(3, 20, seed=8).T, np.ones(20, dtype=int)
    signs = np.hstack([signs, signs])  # the second three are the first three again
    assert len(run_baseline(name, Columns().prepare(signs, y), y, tol=1e-9)) <= 3
