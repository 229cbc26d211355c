"""Losses: derivatives, conjugates and links, each against an independent computation."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refit_conditions import violation
from scipy.optimize import minimize_scalar

from totalqboost import losses
from totalqboost.kernels.loss_codes import CUSTOM, FLAT
from totalqboost.losses import MarginLoss
from totalqboost.master import MasterProblem
from totalqboost.refit import refit


class Squareplus(MarginLoss):
    """The example of the module docstring, with its conjugate.

    -l'(z) = u gives z / sqrt(z^2 + 4) = 1 - 2u =: t, so -u z - l(z) = (z t - sqrt(z^2 + 4)) / 2
    = -sqrt(1 - t^2), and l*(-u) = -2 sqrt(u (1 - u)) on 0 <= u <= 1.
    """

    name = "squareplus"

    def value(self, z):
        return (np.sqrt(z * z + 4.0) - z) / 2.0

    def weight(self, z):
        return (1.0 - z / np.sqrt(z * z + 4.0)) / 2.0

    def curvature(self, z):
        return 2.0 / (z * z + 4.0) ** 1.5

    def conjugate(self, u):
        inside = np.clip(u, 0.0, 1.0)
        return np.where(inside == u, -2.0 * np.sqrt(inside * (1.0 - inside)), np.inf)


BUILT_IN = [losses.get(name) for name in losses.names()]
EVERY = [*BUILT_IN, Squareplus()]

# Where the conjugate is finite, without the ends; and points where it is not.
INSIDE = {
    "exponential": np.geomspace(1e-3, 20.0, 15),
    "logistic": np.linspace(0.01, 0.99, 15),
    "smoothed_hinge": np.linspace(0.01, 0.99, 15),
    "squared": np.linspace(-3.0, 5.0, 17),
    "squareplus": np.linspace(0.02, 0.98, 15),
}
OUTSIDE = {
    "exponential": [-2.0, -0.01],
    "logistic": [-0.5, -0.01, 1.01, 3.0],
    "smoothed_hinge": [-0.5, -0.01, 1.01, 3.0],
    "squared": [],
    "squareplus": [-0.5, -0.01, 1.01, 3.0],
}
# Off the corners of the smoothed hinge at 0 and 1, where there is no second derivative.
MARGINS = np.linspace(-3.03, 3.07, 47)

every_loss = pytest.mark.parametrize("loss", EVERY, ids=lambda loss: loss.name)
built_in = pytest.mark.parametrize("loss", BUILT_IN, ids=lambda loss: loss.name)


def test_names_are_sorted_and_each_gives_a_loss_of_that_name():
    assert losses.names() == ["exponential", "logistic", "smoothed_hinge", "squared"]
    assert [losses.get(name).name for name in losses.names()] == losses.names()


def test_codes_of_built_in_losses_differ_and_are_not_the_custom_code():
    codes = [loss.code for loss in BUILT_IN]
    assert len(set(codes)) == len(codes)
    assert CUSTOM not in codes
    assert Squareplus().code == CUSTOM


# -- derivatives -------------------------------------------------------------------------


@every_loss
def test_weight_is_minus_the_slope_of_the_value(loss):
    h = 1e-6
    slope = (loss.value(MARGINS + h) - loss.value(MARGINS - h)) / (2 * h)
    np.testing.assert_allclose(loss.weight(MARGINS), -slope, rtol=1e-7, atol=1e-8)


@every_loss
def test_curvature_is_minus_the_slope_of_the_weight(loss):
    h = 1e-6
    slope = (loss.weight(MARGINS + h) - loss.weight(MARGINS - h)) / (2 * h)
    expected = -slope
    if loss.name == "smoothed_hinge":  # a little where there is none
        expected = np.where(expected > 0.5, expected, FLAT)
    np.testing.assert_allclose(loss.curvature(MARGINS), expected, rtol=1e-7, atol=1e-8)


@every_loss
def test_value_is_continuous_and_convex(loss):
    z = np.linspace(-3.0, 3.0, 6001)  # a grid through the corners 0 and 1
    value = loss.value(z)
    assert np.abs(np.diff(value)).max() < 0.025
    assert np.diff(value, 2).min() > -1e-12


@pytest.mark.parametrize(
    ("name", "at_zero", "at_two"),
    [
        ("exponential", 1.0, np.exp(-2.0)),
        ("logistic", np.log(2.0), np.log1p(np.exp(-2.0))),
        ("squared", 1.0, 1.0),
        ("smoothed_hinge", 0.5, 0.0),
    ],
)
def test_value_at_known_margins(name, at_zero, at_two):
    value = losses.get(name).value(np.array([0.0, 2.0]))
    np.testing.assert_allclose(value, [at_zero, at_two], rtol=1e-15)


# -- conjugate ---------------------------------------------------------------------------


@every_loss
def test_conjugate_is_the_supremum_over_margins(loss):
    for u in INSIDE[loss.name]:
        found = minimize_scalar(
            lambda z, u=u: float(u * z + loss.value(np.array(z))),
            bounds=(-20.0, 20.0),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert abs(found.x) < 19.0  # the supremum is attained inside the interval searched
        assert loss.conjugate(np.array(u)) == pytest.approx(-found.fun, abs=1e-9)


@every_loss
def test_conjugate_is_infinite_exactly_where_the_supremum_is(loss):
    far = np.array([-1e4, 1e4])
    finite_weight = loss.name != "exponential"  # beyond -700 the exponential is cut
    for u in OUTSIDE[loss.name]:
        assert loss.conjugate(np.array(u)) == np.inf
        directions = far if finite_weight else far[1:]
        assert (-u * directions - loss.value(directions)).max() > 50.0
    assert np.isfinite(loss.conjugate(INSIDE[loss.name])).all()


@pytest.mark.parametrize(
    ("name", "at_zero", "at_one"),
    [
        ("exponential", 0.0, -1.0),
        ("logistic", 0.0, 0.0),
        ("smoothed_hinge", 0.0, -0.5),
        ("squared", 0.0, -0.75),
    ],
)
def test_conjugate_at_the_ends_of_its_domain(name, at_zero, at_one):
    with np.errstate(all="raise"):
        ends = losses.get(name).conjugate(np.array([0.0, 1.0]))
    np.testing.assert_array_equal(ends, [at_zero, at_one])


@every_loss
@settings(max_examples=200, deadline=None, derandomize=True)
@given(z=st.floats(-30.0, 30.0), u=st.floats(-2.0, 5.0))
def test_fenchel_young_inequality(loss, z, u):
    z, u = np.array(z), np.array(u)
    left = loss.value(z) + loss.conjugate(u)
    assert left >= -u * z - 1e-12 * (1.0 + abs(u * z) + loss.value(z))


@every_loss
def test_fenchel_young_holds_with_equality_at_the_weight(loss):
    u = loss.weight(MARGINS)
    left = loss.value(MARGINS) + loss.conjugate(u)
    np.testing.assert_allclose(left, -u * MARGINS, rtol=1e-10, atol=1e-10)


# -- extremes and shapes -----------------------------------------------------------------


@built_in
@pytest.mark.parametrize("method", ["value", "weight", "curvature", "link"])
def test_extreme_margins_are_finite_and_silent(loss, method):
    # Underflow to zero is the right answer of exp(-1000), and NumPy ignores it by default.
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        result = getattr(loss, method)(np.array([-1000.0, 0.0, 1000.0]))
    assert np.isfinite(result).all()


@built_in
def test_decreasing_losses_vanish_at_large_margins(loss):
    value = loss.value(np.array([1000.0]))[0]
    assert value == (999.0**2 if loss.name == "squared" else 0.0)


@built_in
@pytest.mark.parametrize("method", ["value", "weight", "curvature", "conjugate", "link"])
def test_methods_keep_shapes_and_take_lists_of_integers(loss, method):
    function = getattr(loss, method)
    grid = np.array([[0, 1, 0], [1, 1, 0]])
    assert function(grid).shape == (2, 3)
    assert function(grid).dtype == float
    np.testing.assert_array_equal(function([0, 1, 0]), function(np.array([0.0, 1.0, 0.0])))
    assert np.ndim(function(0.25)) == 0
    assert function(np.empty(0)).shape == (0,)


# -- link --------------------------------------------------------------------------------


@every_loss
def test_link_is_a_probability_that_grows_with_the_score(loss):
    f = np.linspace(-50.0, 50.0, 2001)
    p = loss.link(f)
    assert p.min() >= 0.0
    assert p.max() <= 1.0
    assert (np.diff(p) >= -1e-15).all()
    assert loss.link(np.array(0.0)) == 0.5
    np.testing.assert_allclose(p + loss.link(-f), 1.0, atol=1e-14)


@every_loss
def test_link_agrees_with_the_generic_link_at_moderate_scores(loss):
    f = np.linspace(-5.0, 5.0, 101)
    np.testing.assert_allclose(loss.link(f), MarginLoss.link(loss, f), rtol=1e-12)


@every_loss
@pytest.mark.parametrize("p", [0.1, 0.35, 0.5, 0.8])
def test_link_inverts_the_best_score_at_a_probability(loss, p):
    found = minimize_scalar(
        lambda f: float(p * loss.value(np.array(f)) + (1 - p) * loss.value(np.array(-f))),
        bounds=(-8.0, 8.0),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert loss.link(np.array(found.x)) == pytest.approx(p, abs=1e-6)


def test_generic_link_is_one_half_where_both_weights_vanish():
    class Flat(Squareplus):
        def weight(self, z):
            return np.zeros_like(z)

    with np.errstate(all="raise"):
        np.testing.assert_array_equal(Flat().link(np.array([-1.0, 0.0, 3.0])), 0.5)


# -- names, objects, equality ------------------------------------------------------------


def test_unknown_name_is_answered_with_the_known_names():
    with pytest.raises(ValueError, match="loss must be one of") as error:
        losses.get("hinge")
    assert "'hinge'" in str(error.value)
    for name in losses.names():
        assert repr(name) in str(error.value)


@pytest.mark.parametrize("wrong", [None, 3, np.exp, object(), ["exponential"]])
def test_something_else_than_a_loss_is_a_type_error(wrong):
    with pytest.raises(TypeError, match="loss must be one of"):
        losses.get(wrong)


def test_a_class_in_place_of_an_instance_is_a_type_error():
    with pytest.raises(TypeError, match="loss must be"):
        losses.get(losses.Logistic)


@pytest.mark.parametrize("method", ["value", "weight", "curvature", "conjugate"])
def test_a_method_left_out_is_named_in_the_error(method):
    class Unfinished(MarginLoss):
        pass

    with pytest.raises(TypeError, match=rf"abstract class Unfinished .*{method}"):
        Unfinished()


def test_losses_are_equal_by_type_and_parameters():
    class Scaled(Squareplus):
        def __init__(self, scale):
            self.scale = scale

    assert losses.get("logistic") == losses.Logistic()
    assert hash(losses.get("logistic")) == hash(losses.Logistic())
    assert losses.Logistic() != losses.Exponential()
    assert losses.Logistic() != "logistic"
    assert Scaled(1.0) == Scaled(1.0)
    assert hash(Scaled(1.0)) == hash(Scaled(1.0))
    assert Scaled(1.0) != Scaled(2.0)
    assert len({*BUILT_IN, *(losses.get(name) for name in losses.names())}) == len(BUILT_IN)


@every_loss
def test_pickle_keeps_a_loss(loss):
    copy = pickle.loads(pickle.dumps(loss))
    assert copy == loss
    assert copy.code == loss.code
    np.testing.assert_array_equal(copy.value(MARGINS), loss.value(MARGINS))


# -- a loss of one's own -----------------------------------------------------------------


def test_a_loss_of_ones_own_is_passed_through():
    mine = Squareplus()
    assert isinstance(mine, losses.Loss)
    assert losses.get(mine) is mine


def test_a_loss_of_ones_own_solves_a_master_problem():
    rng = np.random.default_rng(4)
    A = np.where(rng.random((5, 80)) < 0.65, 1, -1)
    problem = MasterProblem(A, nu=1e-3, lam=0.01, loss=Squareplus())
    assert problem.risk(np.zeros(5)) == pytest.approx(1.0)
    w = refit(problem, np.arange(5), tol=1e-8)
    assert violation(problem, np.arange(5), w) <= 1e-6
    value = problem.objective(w) - problem.lam * problem.cardinality(w)
    assert value < problem.risk(np.zeros(5)) - 0.01
    bound = problem.dual_bound(problem.dual_weights(w))
    assert 0.0 <= value - bound < 1e-6


def test_a_loss_derived_from_a_built_in_one_is_a_loss_of_its_own():
    class Softer(losses.Exponential):
        def value(self, z):
            return np.exp(-0.5 * np.asarray(z, dtype=float))

    assert Softer().code == CUSTOM
    assert Softer().name == "softer"


@pytest.mark.parametrize("u", [1e-6, 1e-8, 1e-10])
def test_the_logistic_conjugate_keeps_its_digits_next_to_zero(u):
    """-l*(-u) is u (1 - log u) + O(u^2): what a bound next to zero consists of."""
    exact = u * math.log(u) - u + u * u / 2
    assert losses.get("logistic").conjugate(np.array([u]))[0] == pytest.approx(exact, rel=1e-13)
