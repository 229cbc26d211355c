"""The restricted master problem: objective, dual bound, Theorem 2, and smaller forms."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import FrozenInstanceError
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from totalqboost import losses
from totalqboost.master import FREE_NU, MasterProblem
from totalqboost.refit import refit
from totalqboost.solving import Solution, Status

A23 = np.array([[1, 1, -1], [1, -1, 1]])

every_loss = pytest.mark.parametrize("loss", losses.names())


def random_problem(seed, loss="exponential", n=5, m=40, nu=1e-3, accuracy=0.62, **settings):
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((n, m)) < accuracy, 1, -1)
    settings.setdefault("sample_weight", 0.1 + rng.random(m))
    return MasterProblem(A, nu=nu, loss=loss, **settings)


def with_intercept(seed, loss, nu, m=24, n=3):
    """A problem whose first two columns are a free intercept; returns it."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(m) < rng.uniform(0.3, 0.7), 1, -1)
    y[:2] = 1, -1
    A = np.vstack([y, -y, np.where(rng.random((n, m)) < rng.uniform(0.4, 0.9), 1, -1)])
    cost = [0.0, 0.0, *[1.0] * n]
    return MasterProblem(A, nu=nu, cost=cost, loss=loss, sample_weight=0.1 + rng.random(m))


def l1_optimum(problem):
    return refit(problem, np.arange(problem.n_columns), tol=1e-10)


def l1_value(problem, w):
    return problem.risk(w) + problem.nus @ w


# -- primal ------------------------------------------------------------------------------


def test_objective_by_hand():
    problem = MasterProblem(A23, nu=0.1, lam=0.01, sample_weight=[2, 1, 1])
    w = np.array([0.5, 0.25])
    # margins 0.75, 0.25, -0.25 with weights 1/2, 1/4, 1/4
    risk = np.exp(-0.75) / 2 + np.exp(-0.25) / 4 + np.exp(0.25) / 4
    np.testing.assert_allclose(problem.margins(w), [0.75, 0.25, -0.25])
    assert problem.risk(w) == pytest.approx(risk, rel=1e-15)
    assert problem.penalty(w) == pytest.approx(0.1 * 0.75 + 0.01 * 2, rel=1e-15)
    assert problem.objective(w) == pytest.approx(risk + 0.095, rel=1e-15)


def test_objective_of_the_docstring():
    problem = MasterProblem(A23, nu=1e-3, lam=0.01)
    expected = (2 * np.exp(-0.3) + np.exp(0.3)) / 3 + 1e-3 * 0.3 + 0.01
    assert problem.objective(np.array([0.3, 0.0])) == pytest.approx(expected, rel=1e-15)


@every_loss
def test_risk_and_dual_weights_follow_from_the_margins(loss):
    problem = random_problem(0, loss)
    w = np.array([0.3, 0.0, 1.2, 0.0, 0.1])
    z = problem.A.astype(float).T @ w
    c = problem.sample_weight
    np.testing.assert_allclose(problem.margins(w), z, atol=1e-14)
    assert problem.risk(w) == pytest.approx(c @ problem.loss.value(z), rel=1e-13)
    u = problem.dual_weights(w)
    np.testing.assert_allclose(u, c * problem.loss.weight(z), rtol=1e-12)
    np.testing.assert_allclose(problem.edges(u), problem.A @ u, atol=1e-14)


def test_cardinality_counts_columns_that_cost_something():
    problem = random_problem(0, lam=0.5, cost=[1.0, 0.0, 2.0, 0.0, 1.0])
    w = np.array([0.1, 0.2, 0.3, 0.0, 0.0])
    assert problem.cardinality(w) == 2
    assert problem.penalty(w) == pytest.approx(1e-3 * 0.4 + FREE_NU * 0.2 + 0.5 * 3.0, rel=1e-14)
    np.testing.assert_array_equal(problem.free, [1, 3])
    assert problem.cardinality(np.zeros(5)) == 0
    assert problem.penalty(np.zeros(5)) == 0.0


def test_weights_are_normalised_and_the_argument_is_left_alone():
    given_weights = np.array([1.0, 2.0, 5.0])
    problem = MasterProblem(A23, sample_weight=given_weights)
    np.testing.assert_allclose(problem.sample_weight, [0.125, 0.25, 0.625], rtol=1e-15)
    np.testing.assert_array_equal(given_weights, [1.0, 2.0, 5.0])
    np.testing.assert_allclose(MasterProblem(A23).sample_weight, 1 / 3, rtol=1e-15)


@pytest.mark.parametrize("largest", [1e306, 8e307, np.finfo(float).max])
def test_weights_whose_sum_overflows_keep_their_proportions(largest):
    weights = largest * np.array([1.0, 0.5, 0.25, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = MasterProblem(np.ones((1, 4)), sample_weight=weights)
    np.testing.assert_allclose(problem.sample_weight, [4 / 11, 2 / 11, 1 / 11, 4 / 11], rtol=1e-12)


def test_an_enormous_price_raises_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = random_problem(0, lam=1e300, cost=[1.0, 2.0, 0.0, 1.0, 1.0])
        assert problem.objective(np.zeros(5)) == pytest.approx(1.0)
        assert problem.objective(np.array([0.0, 1.0, 0.0, 0.0, 0.0])) == pytest.approx(2e300)
        assert np.isfinite(problem.dual_bound(problem.sample_weight))


def test_a_row_of_weight_two_counts_like_two_rows():
    problem = random_problem(3, m=20, sample_weight=np.arange(20) % 3)
    repeated = MasterProblem(np.repeat(problem.A, np.arange(20) % 3, axis=1), nu=1e-3)
    w = np.array([0.2, 0.0, 0.4, 0.1, 0.0])
    assert problem.objective(w) == pytest.approx(repeated.objective(w), rel=1e-13)


def test_feasible_means_finite_nonnegative_and_within_the_limit():
    problem = random_problem(0, cost=[1, 1, 1, 0, 0], max_learners=2)
    assert problem.is_feasible(np.zeros(5))
    assert problem.is_feasible([1, 1, 0, 1, 1])  # free columns do not count
    assert not problem.is_feasible([1, 1, 1, 0, 0])
    assert not problem.is_feasible([-1e-9, 0, 0, 0, 0])
    assert not problem.is_feasible([np.nan, 0, 0, 0, 0])
    assert not problem.is_feasible([np.inf, 0, 0, 0, 0])


@pytest.mark.parametrize("w", [np.zeros(4), np.zeros(6), np.zeros((5, 1)), np.zeros(0), 0.0])
def test_weights_of_the_wrong_shape_are_not_feasible(w):
    assert not random_problem(0).is_feasible(w)
    assert not random_problem(0, max_learners=2).is_feasible(w)


def test_free_columns_pay_no_nu():
    problem = random_problem(0, nu=0.3, cost=[1, 0, 1, 0, 1])
    np.testing.assert_array_equal(problem.nus, [0.3, FREE_NU, 0.3, FREE_NU, 0.3])
    w = np.array([0.0, 2.0, 0.0, 1.0, 0.0])
    assert problem.objective(w) == pytest.approx(problem.risk(w), abs=4 * FREE_NU)
    # a nu that is smaller still is what everybody pays
    np.testing.assert_array_equal(random_problem(0, nu=0.0, cost=[1, 0, 1, 0, 1]).nus, 0.0)


@pytest.mark.parametrize("nu", [1e-6, 0.3])
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_a_free_intercept_is_the_log_odds_whatever_nu(loss, nu):
    y = np.where(np.arange(40) < 31, 1, -1)
    problem = MasterProblem(np.array([y, -y]), nu=nu, cost=[0, 0], loss=loss)
    w = refit(problem, problem.free, tol=1e-10)
    log_odds = np.log(31 / 9) * (0.5 if loss == "exponential" else 1.0)
    assert w[0] - w[1] == pytest.approx(log_odds, abs=1e-6)


def test_a_problem_without_columns_has_the_risk_of_the_empty_ensemble():
    problem = MasterProblem(np.empty((0, 4)), loss="logistic")
    none = np.empty(0)
    assert problem.objective(none) == pytest.approx(np.log(2))
    assert problem.dual_bound(problem.dual_weights(none)) == pytest.approx(np.log(2), abs=1e-9)


# -- validation --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"A": np.ones(3)}, r"A must have two dimensions .*\(3,\)"),
        ({"A": np.ones((2, 2, 2))}, "A must have two dimensions"),
        ({"A": np.zeros((2, 3))}, r"A must contain only -1 and \+1"),
        ({"A": np.array([[1.0, np.nan]])}, r"A must contain only -1 and \+1"),
        ({"A": np.array([[1, 255]])}, r"A must contain only -1 and \+1"),
        ({"A": np.array([[1, 0]], dtype=np.int8)}, r"A must contain only -1 and \+1"),
        ({"A": np.array([[1, -2]], dtype=np.int8)}, r"A must contain only -1 and \+1"),
        ({"A": np.ones((2, 0))}, "A must have at least one row"),
        ({"nu": -1e-3}, "nu must be a finite number >= 0, got -0.001"),
        ({"nu": np.nan}, "nu must be a finite number"),
        ({"nu": np.inf}, "nu must be a finite number"),
        ({"lam": -1.0}, r"lam must be a finite number >= 0, got -1\.0"),
        ({"lam": np.inf}, "lam must be a finite number"),
        ({"cost": [1.0]}, r"cost must have shape \(2,\), got \(1,\)"),
        ({"cost": [1.0, -1.0]}, "cost must be finite and >= 0"),
        ({"cost": [1.0, np.nan]}, "cost must be finite and >= 0"),
        ({"sample_weight": np.ones(4)}, r"sample_weight must have shape \(3,\), got \(4,\)"),
        ({"sample_weight": np.ones((3, 1))}, "sample_weight must have shape"),
        ({"sample_weight": [1, 1, -1]}, "sample_weight must be finite and >= 0"),
        ({"sample_weight": [1, 1, np.inf]}, "sample_weight must be finite and >= 0"),
        ({"sample_weight": [0, 0, 0]}, "sample_weight must not be zero for every row"),
        ({"max_learners": -1}, "max_learners must be an integer >= 0, got -1"),
        ({"max_learners": 1.5}, r"max_learners must be an integer >= 0, got 1\.5"),
        ({"loss": "hinge"}, "loss must be one of"),
    ],
)
def test_a_wrong_argument_is_named_in_the_error(settings, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        MasterProblem(**{"A": A23, **settings})


def test_something_else_than_a_loss_is_a_type_error():
    with pytest.raises(TypeError, match=r"^loss must be"):
        MasterProblem(A23, loss=np.exp)


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("method", ["margins", "risk", "objective", "dual_weights"])
def test_weights_of_the_wrong_length_are_an_error(method, length):
    """A compiled loop would read outside of A."""
    problem = MasterProblem(A23)
    with pytest.raises(ValueError, match=r"^w must have shape \(2,\)"):
        getattr(problem, method)(np.ones(length))


@pytest.mark.parametrize("length", [2, 4])
@pytest.mark.parametrize("method", ["edges", "dual_bound"])
def test_dual_weights_of_the_wrong_length_are_an_error(method, length):
    problem = MasterProblem(A23)
    with pytest.raises(ValueError, match=r"^u must have shape \(3,\)"):
        getattr(problem, method)(np.ones(length))


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_matrix_of_signs_becomes_contiguous_int8(dtype, order):
    problem = MasterProblem(np.asarray(A23, dtype=dtype, order=order))
    assert problem.A.dtype == np.int8
    assert problem.A.flags.c_contiguous
    np.testing.assert_array_equal(problem.A, A23)


def test_a_problem_is_frozen():
    problem = MasterProblem(A23)
    with pytest.raises(FrozenInstanceError):
        problem.nu = 1.0
    with pytest.raises(FrozenInstanceError):
        problem.A = -A23


def test_pickle_keeps_a_problem():
    problem = random_problem(2, "logistic", lam=0.1, cost=[1, 0, 1, 1, 1], max_learners=3)
    copy = pickle.loads(pickle.dumps(problem))
    w = np.array([0.1, 0.2, 0.0, 0.4, 0.0])
    assert copy.objective(w) == problem.objective(w)
    assert (copy.loss, copy.max_learners) == (problem.loss, 3)


# -- trusted parts -----------------------------------------------------------------------

EVERY_PART = {"nu": 0.02, "lam": 0.1, "cost": [1.0, 0.0, 2.0, 1.0, 0.0], "max_learners": 2}


@every_loss
def test_a_problem_of_trusted_parts_equals_the_checked_one(loss):
    checked = random_problem(1, loss, **EVERY_PART)
    trusted = MasterProblem.trusted(
        checked.A, 0.02, 0.1, checked.cost, checked.loss, checked.sample_weight, 2
    )
    assert type(trusted) is MasterProblem
    assert trusted.__dict__.keys() == random_problem(1, loss, **EVERY_PART).__dict__.keys()
    w = np.array([0.1, 0.3, 0.0, 0.2, 0.0])
    assert trusted.objective(w) == checked.objective(w)
    assert trusted.is_feasible(w) == checked.is_feasible(w)
    np.testing.assert_array_equal(trusted.nus, checked.nus)
    np.testing.assert_array_equal(trusted.free, checked.free)
    u = trusted.dual_weights(w)
    assert trusted.dual_bound(u) == checked.dual_bound(u)
    copy = pickle.loads(pickle.dumps(trusted))
    assert copy.objective(w) == checked.objective(w)
    with pytest.raises(FrozenInstanceError):
        trusted.nu = 1.0


def test_a_changed_problem_shares_what_was_not_changed():
    problem = random_problem(1, **EVERY_PART)
    assert problem.nus[1] == FREE_NU  # cached before the change
    other = problem.changed(nu=0.5, max_learners=None)
    assert (other.nu, other.lam, other.max_learners) == (0.5, 0.1, None)
    assert other.A is problem.A
    assert other.sample_weight is problem.sample_weight
    np.testing.assert_array_equal(other.nus, [0.5, FREE_NU, 0.5, 0.5, FREE_NU])
    assert problem.nu == 0.02


# -- dual bound --------------------------------------------------------------------------


@every_loss
@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    nu=st.sampled_from([0.0, 1e-6, 1e-3, 0.05, 0.4]),
    scale=st.sampled_from([1e-4, 0.1, 1.0, 30.0]),
)
def test_dual_bound_from_any_weights_is_below_the_l1_optimum(loss, seed, nu, scale):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 7), rng.integers(1, 30)
    problem = random_problem(seed, loss, n, m, nu=nu, accuracy=rng.uniform(0.4, 0.9))
    u = scale * rng.exponential(size=m) * problem.sample_weight * (rng.random(m) < 0.8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bound = problem.dual_bound(u)
    assert bound <= l1_value(problem, l1_optimum(problem)) + 1e-12
    assert bound >= -1e-12  # u = 0 is in the dual of every built-in loss, and gives 0


@every_loss
@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), nu=st.sampled_from([0.0, 1e-6, 1e-2]))
def test_dual_bound_from_the_weights_of_any_ensemble_is_below_the_l1_optimum(loss, seed, nu):
    rng = np.random.default_rng(seed)
    problem = random_problem(seed, loss, nu=nu, accuracy=rng.uniform(0.5, 0.9))
    w = rng.exponential(size=5) * (rng.random(5) < 0.6)
    bound = problem.dual_bound(problem.dual_weights(w))
    assert bound <= l1_value(problem, l1_optimum(problem)) + 1e-12


@every_loss
def test_dual_bound_holds_whatever_the_dual_weight_of_rows_without_weight(loss):
    """Such a row must not loosen a constraint: its dual variable can only be zero."""
    problem = MasterProblem(np.array([[1, -1]]), nu=1e-3, loss=loss, sample_weight=[1.0, 0.0])
    optimum = l1_value(problem, l1_optimum(problem))
    assert problem.dual_bound(np.array([0.5, 0.5])) <= optimum + 1e-12
    assert problem.dual_bound(np.array([0.5, 50.0])) <= optimum + 1e-12


@every_loss
@pytest.mark.parametrize("nu", [1e-6, 1e-3, 0.05])
@pytest.mark.parametrize("seed", range(5))
def test_dual_bound_is_tight_at_the_optimum(loss, nu, seed):
    problem = random_problem(seed, loss, nu=nu)
    w = l1_optimum(problem)
    gap = l1_value(problem, w) - problem.dual_bound(problem.dual_weights(w))
    # The refit of the hinge leaves 1e-10 or so, and its bound falls with the factor of scaling.
    tight = 1e-4 if loss == "smoothed_hinge" and nu < 1e-4 else 1e-6
    assert -1e-12 <= gap < tight


@every_loss
@pytest.mark.parametrize("build", [random_problem, with_intercept])
@pytest.mark.parametrize("off", [1e-8, 1e-7])
def test_weights_that_rounding_left_beside_the_optimum_give_a_tight_bound(loss, build, off):
    """With scaling alone a violation of a tenth of nu costs a hundredth of the risk."""
    problem = build(0, loss, nu=1e-6)
    w = l1_optimum(problem)
    w = np.where(w > 0, w * (1 - off), 0.0)  # edges rise
    u = problem.dual_weights(w)
    assert (problem.edges(u) - problem.nus).max() > off / 1000
    assert -1e-12 <= l1_value(problem, w) - problem.dual_bound(u) < 1e-7


@pytest.mark.parametrize("seed", range(6))
def test_more_tries_to_get_inside_the_dual_never_lower_the_bound(monkeypatch, seed):
    problem = random_problem(seed, "squared", n=30, m=200, nu=1e-7)
    u = problem.dual_weights(refit(problem, np.arange(30), tol=1e-6))
    bounds = []
    for n_tries in (1, 2, 5):
        monkeypatch.setattr("totalqboost.master.PUSHES", n_tries)
        bounds.append(problem.dual_bound(u))
    assert bounds[0] <= bounds[1] + 1e-12 * abs(bounds[1]) <= bounds[2] + 2e-12 * abs(bounds[2])


@every_loss
def test_dual_bound_without_nu_is_the_infimum_of_the_loss(loss):
    """With nu = 0 and a column of positive edge, the dual point is scaled down to zero."""
    problem = random_problem(0, loss, nu=0.0)
    bound = problem.dual_bound(problem.sample_weight)
    assert problem.edges(problem.sample_weight).max() > 0
    assert bound == pytest.approx(0.0, abs=1e-12)


@every_loss
def test_dual_bound_of_useless_columns_is_the_empty_ensemble(loss):
    """No column has an edge at w = 0, so w = 0 is optimal and the bound says so."""
    problem = MasterProblem(np.array([[1, -1, 1, -1], [-1, -1, 1, 1]]), nu=1e-3, loss=loss)
    empty = np.zeros(2)
    bound = problem.dual_bound(problem.dual_weights(empty))
    assert bound == pytest.approx(problem.objective(empty), abs=1e-9)


@every_loss
def test_dual_bound_does_not_depend_on_the_price_of_columns(loss):
    """Theorem 1: the dual is the same with and without the cardinality term."""
    free, dear = (random_problem(0, loss, lam=lam) for lam in (0.0, 5.0))
    u = free.dual_weights(np.full(5, 0.1))
    assert free.dual_bound(u) == dear.dual_bound(u)


def test_negative_dual_weights_are_outside_the_dual_of_the_exponential():
    assert random_problem(0).dual_bound(np.full(40, -1.0)) <= 0.0


@every_loss
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    nu=st.sampled_from([0.0, 1e-6, 1e-3, 0.05, 0.4]),
    scale=st.sampled_from([1e-4, 0.1, 1.0, 30.0]),
)
def test_dual_bound_with_a_free_intercept_is_below_the_l1_optimum(loss, seed, nu, scale):
    rng = np.random.default_rng(seed)
    problem = with_intercept(seed, loss, nu)
    u = scale * rng.exponential(size=problem.n_rows) * problem.sample_weight
    bound = problem.dual_bound(u)
    assert bound <= l1_value(problem, l1_optimum(problem)) + 1e-12
    assert bound >= -1e-12


@every_loss
@pytest.mark.parametrize("nu", [1e-3, 0.05, 0.4])
@pytest.mark.parametrize("seed", range(5))
def test_dual_bound_with_a_free_intercept_is_tight_at_the_optimum(loss, nu, seed):
    problem = with_intercept(seed, loss, nu)
    w = l1_optimum(problem)
    gap = l1_value(problem, w) - problem.dual_bound(problem.dual_weights(w))
    assert -1e-12 <= gap < 1e-5


@pytest.mark.parametrize("with_free", [False, True])
def test_the_dual_point_keeps_every_constraint_in_exact_arithmetic(monkeypatch, with_free):
    """The bound is valid for rational numbers, not only for rounded ones."""
    points = []
    least = MasterProblem._least_conjugate

    def spied(self, u, largest):
        points.append((u, largest))
        return least(self, u, largest)

    monkeypatch.setattr(MasterProblem, "_least_conjugate", spied)
    n_tight = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        nu = float(rng.choice([0.0, 1e-12, 0.1]))
        if with_free:
            problem = with_intercept(seed, "exponential", nu, m=9)
        else:
            problem = random_problem(seed, n=4, m=9, nu=nu)
        u = rng.exponential(size=9) * 10.0 ** rng.integers(-17, 1, size=9)
        if seed % 2:  # the first column has no edge but for rounding
            u[-1] = max(-(problem.A[-1] * u)[:-1].sum() * problem.A[-1, -1], 0.0)
        problem.dual_bound(u)
        u, largest = points.pop()
        exact = [Fraction(float(x)) for x in u]
        for column, limit in zip(problem.A.tolist(), problem.nus, strict=True):
            edge = sum(a * x for a, x in zip(column, exact, strict=True))
            assert Fraction(largest) * edge <= Fraction(float(limit))
            n_tight += edge > 0
    assert n_tight > 100


def test_dual_bound_counts_what_rounding_loses():
    """Many examples, each too light to show in a sum of heavy ones."""
    n_heavy, n_light, w = 64, 1_000_000, 30.0
    A = np.repeat([1, 1, -1], [n_heavy, n_light, n_heavy])[None, :]
    heavy, light = 1.0, 1e-16
    u = np.repeat([heavy, light, heavy], [n_heavy, n_light, n_heavy]) * np.exp(-w)
    c = np.repeat(
        [heavy, light, heavy * np.exp(-2 * w)], [n_heavy, n_light, n_heavy]
    )  # u = c exp(-margin) at the weight w
    problem = MasterProblem(A, nu=0.0, sample_weight=c)
    u /= c.sum()
    # the least of (a exp(-w) + b exp(w))
    a = (n_heavy * heavy + n_light * light) / c.sum()
    b = n_heavy * heavy * np.exp(-2 * w) / c.sum()
    assert problem.dual_bound(u) <= 2.0 * np.sqrt(a * b)


# -- Theorem 2 ---------------------------------------------------------------------------


def dual_optimum(problem):
    """Return the optimal value of the dual: that of the l1 problem, by strong duality."""
    w = l1_optimum(problem)
    value = l1_value(problem, w)
    assert problem.dual_bound(problem.dual_weights(w)) == pytest.approx(value, abs=1e-6)
    return value


def best_of_each_support(problem):
    """Return (l1-regularised risk, cardinality, weights) for every set of columns."""
    answers = []
    for size in range(problem.n_columns + 1):
        for support in combinations(range(problem.n_columns), size):
            w = refit(problem, np.array(support, dtype=int), tol=1e-10)
            answers.append((l1_value(problem, w), problem.cardinality(w), w))
    return answers


def cardinality_optimum(problem, answers):
    """Return the weights of the smallest objective, and that objective."""
    w = min(answers, key=lambda answer: answer[0] + problem.lam * answer[1])[2]
    return w, problem.objective(w)


@every_loss
@pytest.mark.parametrize("seed", range(3))
def test_duality_gap_is_at_least_the_price_of_the_kept_columns(loss, seed):
    plain = random_problem(seed, loss, accuracy=0.65)
    answers = best_of_each_support(plain)
    dual = dual_optimum(plain)
    for lam in (1e-4, 1e-3, 1e-2, 0.1, 1.0):
        problem = random_problem(seed, loss, accuracy=0.65, lam=lam)
        w, objective = cardinality_optimum(problem, answers)
        gap = objective - dual
        assert gap >= lam * problem.cardinality(w) - 1e-10
    assert problem.cardinality(w) == 0  # at lam = 1 nothing pays for itself


@every_loss
@pytest.mark.parametrize("seed", range(3))
def test_duality_gap_is_that_price_as_long_as_the_l1_optimum_is_kept(loss, seed):
    plain = random_problem(seed, loss, accuracy=0.65)
    answers = best_of_each_support(plain)
    best_risk, n_kept, _ = min(answers, key=lambda answer: (round(answer[0], 9), answer[1]))
    # The price at which giving up columns of the l1 optimum begins to pay.
    threshold = min((r - best_risk) / (n_kept - k) for r, k, _ in answers if k < n_kept)
    assert threshold > 1e-6
    dual = dual_optimum(plain)
    for factor, is_equal in ((0.5, True), (0.9, True), (1.5, False)):
        lam = factor * threshold
        problem = random_problem(seed, loss, accuracy=0.65, lam=lam)
        w, objective = cardinality_optimum(problem, answers)
        excess = objective - dual - lam * problem.cardinality(w)
        if is_equal:
            assert problem.cardinality(w) == n_kept
            assert excess == pytest.approx(0.0, abs=1e-8)
        else:
            assert problem.cardinality(w) < n_kept
            assert excess > 0.5 * threshold


# -- merging rows ------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("seed", range(5))
def test_merging_identical_rows_keeps_the_objective(loss, seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(seed, loss, n=4, m=300, lam=0.02, cost=[1, 0, 2, 1], max_learners=2)
    merged = problem.merged()
    distinct = np.unique(problem.A, axis=1)
    assert merged.n_rows == distinct.shape[1] <= 16
    np.testing.assert_array_equal(np.unique(merged.A, axis=1), distinct)
    assert merged.max_learners == 2
    for _ in range(10):
        w = rng.exponential(size=4) * (rng.random(4) < 0.7)
        assert merged.objective(w) == pytest.approx(problem.objective(w), rel=1e-12, abs=1e-12)


def test_merging_adds_the_weights_of_identical_rows():
    A = np.tile(np.array([[1, -1], [1, 1]]), 4)  # two distinct rows, four times each
    weight = np.array([1, 2, 3, 0, 0, 5, 1, 4], dtype=float)
    merged = MasterProblem(A, sample_weight=weight).merged()
    of_row = dict(zip(map(tuple, merged.A.T.tolist()), merged.sample_weight, strict=True))
    assert of_row == pytest.approx({(1, 1): 5 / 16, (-1, 1): 11 / 16})


def test_merging_keeps_the_dual_bound():
    problem = random_problem(4, n=3, m=200)
    merged = problem.merged()
    w = l1_optimum(problem)
    bound, bound_merged = (p.dual_bound(p.dual_weights(w)) for p in (problem, merged))
    assert bound_merged == pytest.approx(bound, abs=1e-9)


def test_nothing_to_merge_returns_the_problem_itself():
    rows = np.array(np.meshgrid(*[[-1, 1]] * 5)).reshape(5, -1)  # all 32, each once
    problem = MasterProblem(rows)
    assert problem.merged() is problem


@pytest.mark.parametrize(("n_rows", "is_merged"), [(8, True), (7, False)])
def test_merging_happens_where_three_rows_in_four_go(n_rows, is_merged):
    column = np.where(np.arange(n_rows) % 2, 1, -1)[None, :]
    problem = MasterProblem(column)
    assert (problem.merged() is not problem) == is_merged


def test_merging_without_columns_leaves_one_row():
    merged = MasterProblem(np.empty((0, 50))).merged()
    assert merged.n_rows == 1
    assert merged.objective(np.empty(0)) == pytest.approx(1.0)


# -- solutions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "bound", "gap"),
    [
        (2.0, 1.5, 0.25),
        (2.0, 2.0, 0.0),
        (-2.0, -3.0, 0.5),
        (0.0, 0.0, 0.0),
        (0.5, -np.inf, np.inf),
        (0.5, 0.0, 1.0),
    ],
)
def test_gap_is_relative_to_the_objective(objective, bound, gap):
    assert Solution(np.zeros(2), objective, bound).gap == gap


def test_gap_of_a_zero_objective_above_its_bound_is_positive_and_silent():
    with np.errstate(all="raise", over="ignore"):
        assert Solution(np.zeros(2), 0.0, -1e-3).gap > 1.0


def test_a_solution_without_a_bound_says_so():
    solution = Solution(np.zeros(2), 1.0)
    assert solution.bound == -np.inf
    assert solution.gap == np.inf
    assert solution.n_evaluations == 0
    assert solution.status is Status.LOCAL_OPTIMUM
    assert solution.note == ""


def test_a_solution_is_frozen():
    solution = Solution(np.zeros(2), 1.0)
    with pytest.raises(FrozenInstanceError):
        solution.objective = 0.0
