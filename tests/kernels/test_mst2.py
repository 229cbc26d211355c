"""New starts of MST2: the gains of flips, and both procedures against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from solver_contract import Squareplus, with_features

from totalqboost.fixed_point import Grid
from totalqboost.kernels.mst2 import PREFERENCE, draw, most_decided
from totalqboost.master import MasterProblem
from totalqboost.solvers import restarts
from totalqboost.solvers.walk import Walk

both_kinds = pytest.mark.parametrize("by_bits", [False, True], ids=["levels", "bits"])


def make_walk(seed, by_bits=True, n=5, m=40, n_bits=3, lam=0.02, loss="exponential", **settings):
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((n, m)) < rng.uniform(0.5, 0.75, size=(n, 1)), 1, -1)
    features = settings.pop("features", None)
    problem = MasterProblem(A, 1e-3, lam, loss=loss, sample_weight=rng.random(m) + 0.1, **settings)
    if features is not None:
        problem = with_features(problem, seed, **features)
    return Walk(problem, Grid(n_bits, rng.uniform(0.03, 0.12, size=n)), by_bits)


def flipped(walk, levels, k):
    """Return the levels after the flip of one bit."""
    after = levels.copy()
    after[k // walk.per_column] ^= 1 << (k % walk.per_column)
    return after


def gain(walk, levels, k):
    """Return by how much the objective falls when a bit is flipped, -inf beyond a limit."""
    after = flipped(walk, levels, k)
    grows = np.count_nonzero(after) > np.count_nonzero(levels)
    if grows and not walk.is_within(after):
        return -np.inf
    return walk.value(levels) - walk.value(after)


# -- gains -----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["exponential", "squared"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"max_learners": 2}, {"features": {"max_features": 1}}, {"features": {}}],
    ids=["plain", "limit", "feature-limit", "feature-prices"],
)
def test_gains_are_differences_of_the_objective(loss, settings):
    for seed in range(4):
        walk = make_walk(seed, loss=loss, **settings)
        levels = np.array([0, 3, 0, 0, 6])
        if not walk.is_within(levels):
            levels[1] = 0
        gains = restarts._Point(walk, levels).gains()
        expected = [gain(walk, levels, k) for k in range(walk.n_variables)]
        np.testing.assert_allclose(gains, expected, atol=1e-9)


def test_by_levels_a_column_leaves_or_enters_at_its_best_level():
    walk = make_walk(1, by_bits=False, lam=0.0)
    levels = np.array([0, 3, 0, 0, 6])
    point = restarts._Point(walk, levels)
    gains = point.gains()
    for j in range(5):
        options = [0] if levels[j] > 0 else range(1, 8)
        values = [walk.value(np.where(np.arange(5) == j, k, levels)) for k in options]
        assert point.to[j, 0] == options[int(np.argmin(values))]
        assert gains[j] == pytest.approx(walk.value(levels) - min(values), abs=1e-9)


@both_kinds
@pytest.mark.parametrize("loss", ["logistic", Squareplus()], ids=["compiled", "custom"])
def test_gains_of_other_losses_are_those_of_the_second_order(loss, by_bits):
    walk = make_walk(2, by_bits, loss=loss)
    levels = np.array([0, 3, 0, 0, 6])
    point = restarts._Point(walk, levels)
    gains = point.gains().reshape(5, -1)
    u, q = walk.problem.weights_and_curvature(walk.step * levels)
    for (j, bit), found in np.ndenumerate(gains):
        d = walk.step[j] * (point.to[j, bit] - levels[j])
        entered = int(point.to[j, bit] > 0) - int(levels[j] > 0)
        model = d * (walk.problem.A[j] @ u) - 0.5 * d * d * q.sum()
        assert found == pytest.approx(model - 1e-3 * d - 0.02 * entered, abs=1e-9)


# -- the draw --------------------------------------------------------------------------------


def wheel(gains):
    """Return the chances of SELECT_VARIABLES, as the paper writes them."""
    d = np.array([g for g in gains if g > -np.inf])
    if d.min() == d.max():
        e = np.ones(len(d))
    else:
        e = np.array([1 + PREFERENCE * x / d.max() if x > 0 else x - d.min() for x in d])
        e[d <= 0] /= abs(min(d.min(), -1e-300))
    return e / e.sum()


@pytest.mark.parametrize(
    "gains",
    [[-1.0, -0.25, 0.0], [-2.0, 1e-4, 3e-4], [0.0, 1.0, 2.0], [1.0, 1.0, 1.0], [-4.0, -4.0, -4.0]],
    ids=str,
)
def test_a_variable_is_drawn_by_its_gain(gains):
    taken = np.zeros(5, dtype=bool)
    taken[1] = True
    all_gains = np.array([gains[0], 9.0, gains[1], -np.inf, gains[2]])
    edges = np.concatenate([[0.0], np.cumsum(wheel(gains))])
    for place, k in enumerate([0, 2, 4]):
        if edges[place + 1] - edges[place] > 1e-9:
            middle = 0.5 * (edges[place] + edges[place + 1])
            assert draw(all_gains, taken, middle) == k


def test_nothing_is_drawn_where_nothing_is_left():
    assert draw(np.array([1.0, -np.inf]), np.array([True, False]), 0.5) == -1


# -- decisions -------------------------------------------------------------------------------


def test_the_clearest_answer_is_given_first():
    low, back = np.array([0.1, -0.5, 0.3]), np.array([-0.2, 0.4, 0.1])
    every = np.ones(3, dtype=bool)
    assert most_decided(low, back, every) == (1, False)  # -0.5 and -0.4 are against it
    assert most_decided(low, back, np.array([True, False, True])) == (0, True)
    assert most_decided(low, back, np.array([False, False, True])) == (2, True)


def test_what_limits_force_is_decided_last():
    low, back = np.array([-np.inf, -9.0, 0.1]), np.array([-0.2, -np.inf, 0.1])
    assert most_decided(low, back, np.array([True, True, True])) == (2, True)
    assert most_decided(low, back, np.array([True, True, False])) == (0, False)
    assert most_decided(low, back, np.array([False, True, False])) == (1, True)


# -- a whole start ---------------------------------------------------------------------------


def coefficients(walk, x):
    """Return C with F(x) - F(x + flips y) = y C y: the substitution of the paper, by its values."""
    n = walk.n_variables
    C = np.zeros((n, n))
    single = [flipped(walk, x, i) for i in range(n)]
    for i in range(n):
        C[i, i] = walk.value(x) - walk.value(single[i])
        for k in range(i):
            both = walk.value(x) - walk.value(flipped(walk, single[i], k))
            C[i, k] = C[k, i] = 0.5 * (both - C[i, i] - C[k, k])
    return C


def slow_start(walk, x, chances):
    """Return the start by SELECT_VARIABLES and STEEPEST_ASCENT, with a matrix as in the paper."""
    C = coefficients(walk, x)
    chosen = []
    for chance in chances:
        rest = [i for i in range(len(C)) if i not in chosen]
        gains = [C[i, i] + 2 * C[i, chosen].sum() for i in rest]
        chosen.append(rest[int(np.searchsorted(np.cumsum(wheel(gains)), chance))])
    h1 = {i: C[i, i] for i in chosen}
    h2 = {i: 2 * sum(C[i, k] for k in chosen if k != i) for i in chosen}
    while h1:
        j = max(h1, key=lambda i: abs(2 * h1[i] + h2[i]))
        flips = 2 * h1[j] + h2[j] > 0
        x = flipped(walk, x, j) if flips else x
        del h1[j], h2[j]
        for i in h1:
            h2[i] -= 2 * C[i, j]
            h1[i] += 2 * C[i, j] * flips
    return x


@pytest.mark.parametrize("seed", range(8))
def test_a_start_of_a_quadratic_function_is_that_of_the_paper(seed):
    """The squared loss without prices is a quadratic function of bits."""
    walk = make_walk(seed, n=4, lam=0.0, loss="squared")
    levels = np.random.default_rng(seed).integers(0, 8, size=4)
    chances = np.random.default_rng(100 + seed).random(10)  # the least number of variables
    expected = slow_start(walk, levels.copy(), chances)
    n_used = restarts.construct(walk, levels, np.random.default_rng(100 + seed), limit=50)
    assert levels.tolist() == expected.tolist()
    assert n_used == 2 * 10 + 1


def naive_start(walk, x, chances):
    """Return the start of any objective: the same, by values of the objective alone."""
    y, chosen = x, []
    for chance in chances:
        rest = [i for i in range(walk.n_variables) if i not in chosen]
        gains = [gain(walk, y, i) for i in rest]
        chosen.append(rest[int(np.searchsorted(np.cumsum(wheel(gains)), chance))])
        y = flipped(walk, y, chosen[-1])
    while chosen:
        scores = [gain(walk, x, i) - gain(walk, y, i) for i in chosen]
        best = int(np.argmax(np.abs(scores)))
        i = chosen.pop(best)
        if scores[best] > 0:
            x = flipped(walk, x, i)
        else:
            y = flipped(walk, y, i)
    assert x.tolist() == y.tolist()
    return x


@pytest.mark.parametrize("seed", range(8))
def test_a_start_of_the_exponential_loss_needs_values_only(seed):
    walk = make_walk(seed, n=4)
    levels = np.random.default_rng(seed).integers(0, 8, size=4)
    chances = np.random.default_rng(seed).random(10)
    expected = naive_start(walk, levels.copy(), chances)
    restarts.construct(walk, levels, np.random.default_rng(seed), limit=100)
    assert levels.tolist() == expected.tolist()


@both_kinds
@pytest.mark.parametrize("loss", ["exponential", "logistic", Squareplus()], ids=str)
def test_a_start_keeps_the_limits_and_its_budget(by_bits, loss):
    for seed in range(6):
        features = {"max_features": 2} if seed % 2 else None
        walk = make_walk(seed, by_bits, n=8, loss=loss, max_learners=2, features=features)
        levels = np.zeros(8, dtype=np.int64)
        changed = False
        for limit in (1, 2, 3, 10, 60):
            before = levels.copy()
            n_used = restarts.construct(walk, levels, np.random.default_rng(seed), limit)
            assert n_used <= limit
            assert walk.is_within(levels)
            assert ((levels >= 0) & (levels < 8)).all()
            changed |= levels.tolist() != before.tolist()
        assert changed


def test_no_budget_leaves_the_point_alone():
    walk = make_walk(0)
    levels = np.array([0, 3, 0, 0, 6])
    assert restarts.construct(walk, levels, np.random.default_rng(0), limit=2) == 0
    assert levels.tolist() == [0, 3, 0, 0, 6]


def test_a_share_of_the_variables_is_chosen():
    for n, expected in [(2, 6), (5, 10), (20, 24)]:
        walk = make_walk(0, n=n)
        _, is_open = restarts._select(walk, np.zeros(n, dtype=np.int64), np.full(expected, 0.3))
        assert np.count_nonzero(is_open) == expected
        levels = np.zeros(n, dtype=np.int64)
        n_used = restarts.construct(walk, levels, np.random.default_rng(0), limit=10_000)
        assert n_used == 2 * expected + 1
