"""The statements of docs/theory.md: Appendix A, Appendix B, section 3.4, and the rule for T'."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from solver_contract import random_problem

from totalqboost import losses
from totalqboost.boosting import Engine, Rounds, Terms, boost
from totalqboost.dictionaries import Stumps
from totalqboost.experiments.settings import Settings
from totalqboost.master import MasterProblem, normalised
from totalqboost.refit import refit
from totalqboost.solvers import LocalSearch

every_loss = pytest.mark.parametrize("loss", losses.names())


def l1_optimum(problem, support=None):
    support = np.arange(problem.n_columns) if support is None else np.asarray(support)
    return refit(problem, support, tol=1e-12)


# -- Appendix A: the dual does not see the number of columns -------------------------------


def lagrangian(problem, w, u, p, lam):
    """Return the Lagrangian at w and the margins that are best for u."""
    c = problem.sample_weight
    r = problem.nu - problem.A @ u - p
    return -(c * problem.loss.conjugate(u / c)).sum() + r @ w + lam * np.count_nonzero(w)


@every_loss
def test_the_best_margins_are_what_the_conjugate_says(loss):
    """The infimum over margins, on a grid: what ``lagrangian`` takes for granted."""
    problem = random_problem(0, loss=loss)
    u = problem.dual_weights(l1_optimum(problem))
    c, z = problem.sample_weight, np.linspace(-20, 20, 20_001)
    least = sum((c[i] * problem.loss.value(z) + u[i] * z).min() for i in range(len(u)))
    zero = np.zeros(problem.n_columns)
    p = problem.nu - problem.A @ u  # r = 0
    assert lagrangian(problem, zero, u, p, 0.0) == pytest.approx(least, abs=1e-5)


@every_loss
@pytest.mark.parametrize("lam", [1e-4, 0.1, 10.0])
def test_both_dual_functions_are_finite_in_the_same_places_and_equal_there(loss, lam):
    problem = random_problem(1, loss=loss)
    n, rng = problem.n_columns, np.random.default_rng(0)
    u = problem.dual_weights(0.5 * l1_optimum(problem))
    p = problem.nu - problem.A @ u  # r = 0
    with_zeros = rng.normal(scale=10.0, size=(500, n)) * (rng.random((500, n)) < 0.4)
    W = [np.zeros(n), *with_zeros]
    plain = [lagrangian(problem, w, u, p, 0.0) for w in W]
    charged = [lagrangian(problem, w, u, p, lam) for w in W]
    assert np.argmin(charged) == 0
    assert min(charged) == pytest.approx(min(plain), abs=1e-12)
    r = rng.normal(size=n)  # not zero: both fall without end along -r
    ray = [lagrangian(problem, -t * r, u, p - r, lam) for t in (1e3, 1e6, 1e9)]
    assert ray[2] < ray[1] < ray[0]
    assert ray[2] < -1e8


@every_loss
def test_the_dual_bound_does_not_rise_with_the_price(loss):
    problem = random_problem(2, loss=loss)
    u = problem.dual_weights(l1_optimum(problem))
    bounds = {problem.changed(lam=lam).dual_bound(u) for lam in (0.0, 1e-3, 1.0)}
    assert len(bounds) == 1


@every_loss
def test_limits_of_weights_let_the_dual_see_the_price(loss):
    """With w <= M the price is at least lam / M per unit of weight; as M grows that is nothing."""
    lam = 0.02
    problem = random_problem(3, loss=loss, nu=0.01)
    n = problem.n_columns
    supports = [s for k in range(n + 1) for s in combinations(range(n), k)]
    answers = [l1_optimum(problem, np.array(s, dtype=int)) for s in supports]
    penalised = problem.changed(lam=lam)
    values = [penalised.objective(w) for w in answers]
    bounds = []
    for M in (1.0, 10.0, 1e6):
        charged = problem.changed(nu=problem.nu + lam / M)
        bounds.append(charged.dual_bound(charged.dual_weights(l1_optimum(charged))))
        within = [value for value, w in zip(values, answers, strict=True) if w.max() <= M]
        assert bounds[-1] <= min(within) + 1e-9
    blind = problem.dual_bound(problem.dual_weights(l1_optimum(problem)))
    assert bounds[0] > bounds[1] > blind
    assert bounds[2] == pytest.approx(blind, abs=1e-6)


# -- Appendix B: a limit of smooth functions -----------------------------------------------

W = np.array([0.0, 1e-3, 0.5, 2.0])


def omega(w, q, k):
    return ((np.abs(w) + 1 / q) ** q**-k).sum()


def slope(w, q, k):
    return q**-k * (np.abs(w) + 1 / q) ** (q**-k - 1)


@pytest.mark.parametrize("q", [3.0, 30.0])
@pytest.mark.parametrize("k", [1.0, 1.5, 3.0])
def test_the_slope_is_the_derivative_from_the_right(q, k):
    h = 1e-7
    for x, expected in zip(W, slope(W, q, k), strict=True):
        found = (omega(np.array([x + h]), q, k) - omega(np.array([x]), q, k)) / h
        assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("k", [1.1, 1.5, 3.0])
def test_slopes_vanish_and_the_limit_is_the_number_of_coordinates(k):
    """At zero too: card as a generalised function, which is a constant almost everywhere."""
    q = 1e40
    assert slope(W, q, k).max() < 1e-3
    assert slope(W, q, 1.0).max() == pytest.approx(1.0)  # k = 1 is the border
    assert omega(W, q, k) == pytest.approx(len(W))
    assert np.count_nonzero(W) < len(W)


def test_a_family_with_the_limit_card_has_slopes_without_a_limit():
    found = []
    for q in (1e10, 1e100, 1e300):
        power = np.log(q) ** -0.5
        values = (W + 1 / q) ** power
        found.append((abs(values.sum() - np.count_nonzero(W)), power * q ** (1 - power)))
    errors, slopes = zip(*found, strict=True)
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < 0.3
    assert slopes[0] < slopes[1] < slopes[2]
    assert slopes[2] > 1e200


# -- Section 3.4: early stopping is a local minimum for every price ------------------------


def moves(problem, w, within, rng, n=300):
    """Return steps that keep all kept weights positive and give others ``within`` in sum."""
    kept = w > 0
    steps = np.zeros((n, len(w)))
    shrink = rng.random((n, 1)) ** 6  # many of them tiny
    steps[:, kept] = w[kept] * rng.uniform(-0.99, 0.99, (n, kept.sum())) * shrink
    steps[:, ~kept] = rng.dirichlet(np.full((~kept).sum(), 0.1), n) * within * rng.random((n, 1))
    steps[: n // 2, kept] = 0.0
    return steps


def assert_local_minimum(problem, w, lam, rng):
    """Raise unless no step inside the region of docs/theory.md lowers the objective."""
    penalised = problem.changed(lam=lam)
    violation = (problem.edges(problem.dual_weights(w)) - problem.nu)[w == 0].max()
    within = lam / violation if violation > 0 else 10.0
    before = penalised.objective(w)
    for step in moves(problem, w, within, rng):
        assert penalised.objective(w + step) >= before - 1e-12
    return violation


@every_loss
@pytest.mark.parametrize("lam", [1e-8, 1e-4, 0.1])
def test_every_refitted_set_is_a_local_minimum(loss, lam):
    problem = random_problem(4, loss=loss)
    rng = np.random.default_rng(0)
    n_seen = 0
    for support in ([0], [1, 3], [0, 2, 4]):
        w = l1_optimum(problem, support)
        n_seen += w.any() and assert_local_minimum(problem, w, lam, rng) > 0
    assert n_seen  # among them some that plain column generation would leave


def plain_columns(n_rounds):
    """Return all distinct stumps of a small table as a problem, and how many were generated."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (120, 4)).astype(float)
    y = np.where(X[:, 0] + X[:, 1] + rng.normal(0, 2, 120) > 5, 1, -1).astype(np.int8)
    oracle = Stumps().prepare(X, y)
    terms = Terms(losses.Exponential(), normalised(None, len(y)), nu=1e-3)
    result = boost(Engine(oracle, terms, LocalSearch(), 1e-9), Rounds(max_rounds=n_rounds))
    chosen = [y * learner.predict(X) for learner in result.learners]
    others = [s * y * np.where(x > t, 1, -1) for x in X.T for t in range(5) for s in (-1, 1)]
    new = [a for a in others if not any((a == b).all() for b in chosen)]
    return MasterProblem(np.array([*chosen, *new]), nu=1e-3), len(chosen)


@pytest.mark.parametrize("n_rounds", [1, 4, 8])
@pytest.mark.parametrize("lam", [1e-8, 1e-3, 0.1])
def test_early_stopping_is_a_local_minimum_over_the_whole_dictionary(n_rounds, lam):
    problem, n_generated = plain_columns(n_rounds)
    assert n_generated == n_rounds
    w = l1_optimum(problem, np.arange(n_rounds))
    assert assert_local_minimum(problem, w, lam, np.random.default_rng(1)) > 0


def test_it_is_not_the_best_minimum_and_beyond_its_region_others_are_lower():
    problem, n = plain_columns(3)
    w = l1_optimum(problem, np.arange(n))
    cheap = problem.changed(lam=1e-6)
    worst = int(np.argmax(problem.edges(problem.dual_weights(w))))
    assert worst >= n
    beyond = w.copy()
    beyond[worst] = 0.05
    assert cheap.objective(beyond) < cheap.objective(w)
    best = LocalSearch().solve(problem.changed(max_learners=n))
    assert best.objective < problem.objective(w) - 1e-6


# -- Appendix C is missing: our rule --------------------------------------------------------


def test_three_quarters_of_the_rounds_are_hot():
    assert (Settings().n_hot, Settings(max_rounds=30).n_hot) == (75, 23)
