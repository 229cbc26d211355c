"""The histogram oracle's kernels, each against a slow NumPy twin."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from totalqboost.kernels.histogram import (
    BY_EDGE,
    BY_EXPONENTIAL_DECREASE,
    BY_NEWTON_DECREASE,
    best_cuts,
    fill_histogram,
    is_beaten,
    leaf_value,
    price_of_cut,
    prices_of_cuts,
)

RULES = {"edge": BY_EDGE, "Z": BY_EXPONENTIAL_DECREASE, "Newton": BY_NEWTON_DECREASE}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


# -- fill_histogram ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_fill_histogram_adds_up_each_bin(dtype):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 9, size=50).astype(dtype)
    g, h = rng.normal(size=50), rng.random(50)
    hist = np.zeros((9, 2))
    fill_histogram(codes, g, h, hist)
    np.testing.assert_allclose(hist[:, 0], np.bincount(codes, g, minlength=9), atol=1e-14)
    np.testing.assert_allclose(hist[:, 1], np.bincount(codes, h, minlength=9), atol=1e-14)


def test_fill_histogram_reaches_the_last_code():
    hist = np.zeros((65536, 2))
    fill_histogram(np.array([65535, 0], np.uint16), np.array([2.0, 3.0]), np.ones(2), hist)
    assert hist[65535, 0] == 2.0
    assert hist[0, 0] == 3.0
    assert hist.sum() == 7.0


# -- leaf_value --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_exponential_value_of_a_leaf_is_what_its_best_constant_gains(seed):
    rng = np.random.default_rng(seed)
    positive, negative = rng.random(2) + 0.05
    found = leaf_value(positive - negative, positive + negative, 1e-12)
    best = minimize_scalar(lambda d: np.exp(-d) * positive + np.exp(d) * negative, tol=1e-12)
    assert found == pytest.approx(positive + negative - best.fun, abs=1e-9)


def test_an_empty_leaf_is_worth_nothing():
    assert leaf_value(0.0, 0.0, 1e-12) == 0.0


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_pure_leaf_gains_all_its_risk(sign):
    assert leaf_value(sign * 0.3, 0.3, 1e-12) == 0.3
    # rounding in the sums does not count as a second class
    assert leaf_value(sign * 0.3 * (1 - 1e-15), 0.3, 1e-12) == 0.3


# -- price_of_cut ------------------------------------------------------------------------


def random_sides(seed):
    """Return g and h left of a cut and in all; the curvature is no smaller than the slope."""
    rng = np.random.default_rng(seed)
    h = 0.05 + rng.random(2)
    g = h * rng.uniform(-0.9, 0.9, size=2)
    return g[0], h[0], g.sum(), h.sum()


def newton_decrease(left_g, left_h, total_g, total_h, nu):
    """Return the best decrease of the second-order model over intercept and weight, signed.

    Both h = +1 right of the cut with weight x and -h with weight -x: |x| pays nu.
    """
    g, h = np.array([left_g, total_g - left_g]), np.array([left_h, total_h - left_h])

    def model(move):
        shift = np.array([move[0] - move[1], move[0] + move[1]])
        return -g @ shift + 0.5 * h @ shift**2 + nu * abs(move[1])

    values = []
    for sign in (-1.0, 0.0, 1.0):  # of the weight: the model is smooth on either side
        B = np.array([[1.0, -1.0], [1.0, 1.0]]) if sign else np.array([[1.0], [1.0]])
        linear = B.T @ g - ([0.0, sign * nu] if sign else [0.0])
        move = np.linalg.solve(B.T @ np.diag(h) @ B, linear)
        move = np.append(move, [0.0] * (2 - len(move)))
        if sign * move[1] >= 0:
            values.append((model(move), move[1]))
    best, weight = min(values)
    return -best, weight


@pytest.mark.parametrize("nu", [0.0, 0.05, 0.4])
@pytest.mark.parametrize("seed", range(8))
def test_the_newton_price_of_a_cut_is_what_weight_and_intercept_gain_after_nu(seed, nu):
    sides = random_sides(seed)
    price, is_positive = price_of_cut(BY_NEWTON_DECREASE, *sides, nu, 1e-12)
    expected, weight = newton_decrease(*sides, nu)
    assert price == pytest.approx(expected, abs=1e-10)
    if weight != 0.0:
        assert is_positive == (weight > 0)


@pytest.mark.parametrize("seed", range(5))
def test_the_exponential_price_of_a_cut_is_that_of_its_two_leaves(seed):
    left_g, left_h, total_g, total_h = sides = random_sides(seed)
    price, _ = price_of_cut(BY_EXPONENTIAL_DECREASE, *sides, 0.3, 1e-12)
    right = leaf_value(total_g - left_g, total_h - left_h, 1e-12)
    assert price == pytest.approx(leaf_value(left_g, left_h, 1e-12) + right, abs=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_the_edge_of_a_cut_has_the_sign_of_its_weight(seed):
    left_g, _, total_g, _ = sides = random_sides(seed)
    price, is_positive = price_of_cut(BY_EDGE, *sides, 0.0, 1e-12)
    assert (price if is_positive else -price) == pytest.approx(total_g - 2 * left_g)


def test_a_cut_without_curvature_on_one_side_gains_what_the_intercept_does():
    price, _ = price_of_cut(BY_NEWTON_DECREASE, 0.0, 0.0, 0.3, 0.5, 0.0, 1e-12)
    assert price == pytest.approx(0.5 * 0.3**2 / 0.5)
    assert price_of_cut(BY_NEWTON_DECREASE, 0.0, 0.0, 0.0, 0.0, 0.0, 1e-12)[0] == 0.0


# -- prices_of_cuts ----------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.0, 0.2])
@pytest.mark.parametrize("rule", [BY_EXPONENTIAL_DECREASE, BY_NEWTON_DECREASE], ids=["Z", "Newton"])
def test_prices_of_many_cuts_are_those_of_each(rule, nu):
    """All columns share the sums over all examples; the twin asks for one cut at a time."""
    rng = np.random.default_rng(0)
    h, g = 2.0, 0.3
    left_h = rng.uniform(0.2, 1.8, size=60)
    left_g = left_h * rng.uniform(-0.9, 0.9, size=60)
    left_g = np.clip(left_g, g - 0.9 * (h - left_h), g + 0.9 * (h - left_h))
    prices, signs = np.full(60, np.nan), np.zeros(60, np.int8)
    prices_of_cuts(rule, left_g, left_h, g, h, nu, 1e-12, prices, signs)
    prices[signs < 0] = 0.0
    expected = np.zeros(60)
    for j in range(60):
        sums = [(left_g[j], left_h[j]), (g - left_g[j], h - left_h[j])]
        if sums[1][0] / sums[1][1] >= sums[0][0] / sums[0][1]:  # more wants up right of the cut
            expected[j] = (
                sum(leaf_value(*leaf, 1e-12) for leaf in sums)
                if rule == BY_EXPONENTIAL_DECREASE
                else newton_decrease(*sums[0], g, h, nu)[0]
            )
    np.testing.assert_allclose(prices, expected, atol=1e-10)
    assert 0 < np.count_nonzero(prices) < 60


@pytest.mark.parametrize("n_columns", [0, 2])
def test_prices_are_written_for_the_columns_there_are(n_columns):
    """Without columns nothing is written; behind the last one nothing either."""
    sums = np.full(n_columns, 0.5)
    prices, signs = np.full(3, 7.0), np.full(3, 5, np.int8)
    prices_of_cuts(BY_NEWTON_DECREASE, sums, 2 * sums, 0.3, 2.0, 0.0, 1e-12, prices, signs)
    assert ((prices != 7.0) == (np.arange(3) < n_columns)).all()
    assert ((signs != 5) == (np.arange(3) < n_columns)).all()


# -- is_beaten ---------------------------------------------------------------------------


@every_rule
def test_a_beaten_cut_never_has_more_than_the_price(rule):
    """The cheap test may let a cut pass that is beaten, but never the other way round."""
    rng = np.random.default_rng(0)
    n_beaten = 0
    for seed in range(300):
        sides, nu = random_sides(seed), 0.1 * rng.random()
        price, _ = price_of_cut(rule, *sides, nu, 1e-12)
        for limit in price * rng.uniform(0.2, 3.0, size=5):
            beaten = is_beaten(rule, *sides, nu, limit)
            n_beaten += beaten
            assert not (beaten and price > limit + 1e-12)
    assert n_beaten > 300  # and it is of use


# -- best_cuts ---------------------------------------------------------------------------


def all_cuts(codes, n_codes, g, h, rule, blocked, nu=0.0, polarity=0):
    """Return (price, key, edge) of every allowed cut of one feature, best first."""
    found = []
    for cut in range(n_codes - 1):
        right = codes > cut
        sums = [(g[side].sum(), h[side].sum()) for side in (~right, right)]
        edge = sums[1][0] - sums[0][0]
        decrease = 0.0
        if rule == BY_EXPONENTIAL_DECREASE:
            decrease = sum(leaf_value(*leaf, 1e-12) for leaf in sums)
        elif rule == BY_NEWTON_DECREASE and right.any() and not right.all():
            decrease = newton_decrease(*sums[0], g.sum(), h.sum(), nu)[0]
        elif rule == BY_NEWTON_DECREASE:
            decrease = 0.5 * g.sum() ** 2 / h.sum()
        upwards = sums[1][0] * sums[0][1] >= sums[0][0] * sums[1][1]
        for side, sign in ((0, 1.0), (1, -1.0)):
            if 2 * cut + side in blocked or (rule != BY_EDGE and upwards != (side == 0)):
                continue
            if polarity == -sign:
                continue
            price = sign * edge if rule == BY_EDGE else decrease
            found.append((price, 2 * cut + side, sign * edge))
    return sorted(found, key=lambda c: (-round(c[0], 9), c[1]))


def run_best_cuts(
    codes, n_codes, g, h, rule, blocked, n_best, first=0, last=None, nu=0.0, polarity=(0, 0, 0, 0)
):
    n_features = len(codes)
    start = np.cumsum([0, *(len(b) for b in blocked)])
    flat = np.array([key for row in blocked for key in sorted(row)], dtype=np.int64)
    prices = np.full((n_features, n_best), -np.inf)
    keys = np.full((n_features, n_best), -1, dtype=np.int64)
    edges = np.zeros((n_features, n_best))
    last = n_features if last is None else last
    signs = np.array(polarity[:n_features])
    best_cuts(
        codes, n_codes, signs, g, h, rule, nu, start, flat, 1e-12, first, last, prices, keys, edges
    )  # fmt: skip
    return prices, keys, edges


def random_features(seed, m=40, dtype=np.uint8, with_negative=False):
    rng = np.random.default_rng(seed)
    n_codes = np.array([6, 2, 9, 1])
    codes = np.array([rng.integers(0, n, size=m) for n in n_codes]).astype(dtype)
    u = rng.random(m)
    if with_negative:  # the squared loss beyond margin 1
        u -= 0.3
    g = u * rng.choice([-1.0, 1.0], size=m)
    return codes, n_codes, g, u


@every_rule
@pytest.mark.parametrize("nu", [0.0, 0.5])
@pytest.mark.parametrize("n_best", [1, 3, 20])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_best_cuts_are_the_best_of_all_cuts(rule, n_best, dtype, nu):
    for seed in range(4):
        codes, n_codes, g, u = random_features(seed, dtype=dtype)
        h = np.random.default_rng(seed).random(len(u)) if rule == BY_NEWTON_DECREASE else u
        prices, keys, edges = run_best_cuts(codes, n_codes, g, h, rule, [[]] * 4, n_best, nu=nu)
        for f in range(4):
            expected = all_cuts(codes[f], n_codes[f], g, h, rule, set(), nu)[:n_best]
            count = len(expected)
            np.testing.assert_array_equal(keys[f, :count], [key for _, key, _ in expected])
            np.testing.assert_allclose(prices[f, :count], [c[0] for c in expected], atol=1e-12)
            np.testing.assert_allclose(edges[f, :count], [c[2] for c in expected], atol=1e-12)
            assert (keys[f, count:] == -1).all()


@every_rule
def test_monotone_features_offer_one_sign(rule):
    polarity = (1, -1, -1, 0)
    for seed in range(4):
        codes, n_codes, g, u = random_features(seed)
        _, keys, _ = run_best_cuts(
            codes, n_codes, g, u, rule, [[]] * 4, 20, polarity=polarity
        )  # fmt: skip
        for f in range(4):
            expected = all_cuts(codes[f], n_codes[f], g, u, rule, set(), polarity=polarity[f])
            count = len(expected)
            np.testing.assert_array_equal(keys[f, :count], [key for _, key, _ in expected])
            assert (keys[f, count:] == -1).all()


@every_rule
def test_blocked_cuts_are_passed_over(rule):
    for seed in range(4):
        codes, n_codes, g, u = random_features(seed)
        ranking = [all_cuts(codes[f], n_codes[f], g, u, rule, set()) for f in range(4)]
        blocked = [[key for _, key, _ in row[:2]] for row in ranking]
        blocked[2] = [*blocked[2], 10_000]  # a key beyond the last cut blocks nothing
        _, keys, _ = run_best_cuts(codes, n_codes, g, u, rule, blocked, 3)
        for f in range(4):
            expected = all_cuts(codes[f], n_codes[f], g, u, rule, set(blocked[f]))[:3]
            found = keys[f][keys[f] >= 0]
            np.testing.assert_array_equal(found, [key for _, key, _ in expected])


def test_a_feature_with_every_cut_blocked_offers_nothing():
    codes, n_codes, g, u = random_features(0)
    _, keys, _ = run_best_cuts(codes, n_codes, g, u, BY_EDGE, [[], [0, 1], [], []], 1)
    assert keys[1, 0] == -1
    assert keys[0, 0] >= 0


@every_rule
def test_a_feature_of_one_value_offers_nothing(rule):
    codes, n_codes, g, u = random_features(1)
    _, keys, _ = run_best_cuts(codes, n_codes, g, u, rule, [[]] * 4, 2)
    assert (keys[3] == -1).all()


def test_features_outside_the_range_are_left_alone():
    codes, n_codes, g, u = random_features(2)
    prices, keys, _ = run_best_cuts(codes, n_codes, g, u, BY_EDGE, [[]] * 4, 1, first=1, last=3)
    assert keys[0, 0] == keys[3, 0] == -1
    assert prices[0, 0] == -np.inf
    assert (keys[1:3] >= 0).all()


def test_of_equal_cuts_the_first_is_offered():
    # bins 0..3 with sums +1, 0, 0, -1: cuts after bin 0, 1 and 2 all have edge -2
    codes = np.array([[0, 1, 2, 3]], dtype=np.uint8)
    g = np.array([1.0, 0.0, 0.0, -1.0])
    prices, keys, _ = run_best_cuts(codes, np.array([4]), g, np.ones(4), BY_EDGE, [[]], 5)
    np.testing.assert_array_equal(keys[0], [1, 3, 5, 0, 2])
    np.testing.assert_array_equal(prices[0], [2, 2, 2, -2, -2])


def test_negative_weights_are_priced_by_their_edge():
    codes, n_codes, g, u = random_features(3, with_negative=True)
    prices, keys, _ = run_best_cuts(codes, n_codes, g, u, BY_EDGE, [[]] * 4, 4)
    for f in range(3):
        expected = all_cuts(codes[f], n_codes[f], g, u, BY_EDGE, set())[:4]
        np.testing.assert_array_equal(keys[f][: len(expected)], [key for _, key, _ in expected])
        np.testing.assert_allclose(prices[f][: len(expected)], [c[0] for c in expected])
