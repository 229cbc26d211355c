"""Bounds by the growth of the exponential loss, shell by shell."""

from __future__ import annotations

import numpy as np
import pytest

from totalqboost.kernels.bounds import Quadratic, Ranges, split
from totalqboost.kernels.definite import certify_diagonal
from totalqboost.kernels.shells import (
    ETAS,
    STRETCHES,
    TOUCHES,
    Anchor,
    cubic,
    growth,
    rise_of_cubic,
    scaled,
    shells,
)
from totalqboost.solvers.exact.node import without_columns
from totalqboost.solvers.exact.skewness import largest_skewness

SEEDS = pytest.mark.parametrize("seed", range(8))
RADII = np.array([0.0, 0.2, 0.5, 0.8, 1.2, 2.0, 4.0, np.inf])


def make(seed, k=5, m=60, room=None):
    """Return the risk of a problem with the exponential loss, an anchor and ranges."""
    rng = np.random.default_rng(seed)
    B = np.where(rng.random((k, m)) < 0.6, 1.0, -1.0)
    c = rng.random(m)
    c /= c.sum()
    x = rng.uniform(0.0, 0.4, k)
    u = c * np.exp(-x @ B)
    f = u.sum()
    Q = (B * u) @ B.T
    kappa = largest_skewness(np.linalg.solve(np.linalg.cholesky(Q / f), B), u / f)
    anchor = Anchor(f, f, 1e-3, B @ u, Q, x, m, kappa, 0.0, 0.0, np.zeros(k), 0.0)
    is_in = np.arange(k) == 1
    room = k - 1 if room is None else room
    ranges = Ranges(np.full(k, 0.02), is_in, np.full(k, 0.05), np.full(k, 2.0), np.zeros(k), room)
    return (lambda w: c @ np.exp(-w @ B)), anchor, ranges


def members(ranges, rng, n=2000):
    """Yield weights of the node, with at most as many columns as there is room for."""
    k = len(ranges.lo)
    for _ in range(n):
        keeps = ranges.is_in | (rng.random(k) < rng.random())
        chosen = np.flatnonzero(keeps & ~ranges.is_in)
        keeps[rng.permutation(chosen)[ranges.room :]] = False
        scale = rng.random()
        w = ranges.lo + scale * rng.random(k) * (ranges.hi - ranges.lo)
        yield np.where(keeps, w, 0.0)


def bound(anchor, ranges, cutoff):
    """Return the bound, radius, eta and bounds without and with columns."""
    k = len(anchor.x)
    Q = scaled(anchor, 1.0, 0.5).Q
    d, _ = certify_diagonal(Q, np.full(k, 0.6 * np.linalg.eigvalsh(Q)[0]), anchor.n_rows)
    without, within = np.empty(k), np.empty(k)
    found = shells(anchor, ranges, d, ranges.price, RADII, cutoff, without, within)
    return *found, without, within


@pytest.mark.parametrize("first", TOUCHES)
@pytest.mark.parametrize("second", [0.3, 1.0, 2.5, 8.0, 19.9])
def test_a_cubic_is_below_the_exponential_and_touches_it(first, second):
    alpha, beta, gamma, delta = cubic(first, second)
    p = np.polynomial.Polynomial([alpha, -beta, gamma, -delta])
    x = np.concatenate([np.linspace(-6, 25, 4001), [first, second, -40.0, 300.0]])
    assert (p(x) <= np.exp(-x)).all()
    for touch in (first, second):
        assert p(touch) == pytest.approx(np.exp(-touch), abs=1e-6)
        assert p.deriv()(touch) == pytest.approx(-np.exp(-touch), abs=1e-6)
    assert delta > 0


@pytest.mark.parametrize("kappa", [0.5, 1.5])
def test_a_cubic_is_below_what_moments_allow(kappa):
    """Of all distributions with a second and third moment, E[exp(-X)] + beta E[X] is above."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        X, p = rng.normal(0.3, 1.0, 4) ** 3, rng.dirichlet(np.ones(4))
        r = np.sqrt(p @ X**2)
        if not 0.05 < r < 3.0 or p @ X**3 > kappa * r**3:
            continue
        for first in TOUCHES:
            for stretch in STRETCHES:
                second = stretch * kappa * r
                if second - first < 0.25:
                    continue
                alpha, beta, gamma, delta = cubic(first, second)
                rise = rise_of_cubic(alpha, gamma, delta, kappa, r, r, 0.0)
                assert p @ np.exp(-X) + beta * (p @ X) >= 1.0 + rise


def test_growth_is_that_of_the_exponential():
    """With one column of equal signs the loss is exp, and its skewness is one."""
    for r in (0.0, 0.01, 0.5, 3.0):
        assert growth(1.0, r, 0.0) == pytest.approx(np.exp(-r) - 1 + r, rel=1e-5, abs=1e-9)
        assert growth(1.0, r, 0.2) == pytest.approx(np.exp(-r) - 1 + r - 0.2 * r * r, abs=1e-5)


@SEEDS
@pytest.mark.parametrize("room", [4, 1])
@pytest.mark.parametrize("m", [60, 1200])
def test_shells_bound_the_exponential_loss(seed, room, m):
    risk, anchor, ranges = make(seed, m=m, room=room)
    rng = np.random.default_rng(seed)
    values = [
        (w, risk(w) + anchor.nu * w.sum() + ranges.price[(w > 0) | ranges.is_in].sum())
        for w in members(ranges, rng)
    ]
    best = min(value for _, value in values)
    cutoff = best + 0.1
    low, radius, eta, without, within = bound(anchor, ranges, cutoff)
    k = len(anchor.x)
    flat = Quadratic(anchor.risk, anchor.weight, anchor.nu, anchor.s, np.zeros((k, k)), anchor.x, m)
    scratch = np.empty(k), np.empty(k), np.empty(k)
    assert split(flat, ranges, anchor.x, np.zeros(k), *scratch) <= low <= best
    assert eta in ETAS
    G = anchor.Q / anchor.risk
    for w, value in values:
        for j in np.flatnonzero(~ranges.is_in):
            assert value >= (within[j] if w[j] > 0 else without[j]) - 1e-9
        h = w - anchor.x
        assert value >= cutoff or h @ G @ h <= radius**2


def test_where_slopes_are_zero_other_cubics_gain_over_those_that_touch_at_zero():
    for kappa, r in ((0.5, 1.0), (1.5, 1.2), (1.5, 3.0)):
        rises = [
            rise_of_cubic(alpha, gamma, delta, kappa, r, r, 0.0)
            for alpha, _, gamma, delta in (
                cubic(first, stretch * kappa * r) for first in TOUCHES for stretch in STRETCHES
            )
        ]
        assert max(rises) > 1.02 * growth(kappa, r, 0.0)


@SEEDS
def test_an_anchor_knows_what_columns_that_are_out_leave(seed):
    _, anchor, _ = make(seed, k=6, m=1200)
    rng = np.random.default_rng(seed)
    stays = np.array([True, True, False, True, False, True])
    once = without_columns(anchor, stays)
    twice = without_columns(without_columns(anchor, np.arange(6) != 2), np.arange(5) != 3)
    for beta, eta in ((1.0, 0.0), (1.3, 0.2), (1.0, 0.7)):
        whole, part, same = (scaled(a, beta, eta) for a in (anchor, once, twice))
        for w in rng.exponential(0.5, (5, 4)):
            full = np.zeros(6)
            full[stays] = w
            h, g = full - whole.x, w - part.x
            value = whole.risk - whole.s @ h + 0.5 * h @ whole.Q @ h
            for model in (part, same):
                assert model.risk - model.s @ g + 0.5 * g @ model.Q @ g == pytest.approx(value)
                assert model.risk - model.s @ g + 0.5 * g @ model.Q @ g <= value + 1e-12


@SEEDS
def test_shells_of_an_anchor_above_bound_a_node_below(seed):
    risk, anchor, ranges = make(seed, k=6, m=1200)
    rng = np.random.default_rng(seed)
    stays = np.array([True, True, False, True, True, True])
    below = Ranges(*(field[stays] for field in ranges[:-1]), room=4)
    best = np.inf
    for w in members(below, rng):
        full = np.zeros(6)
        full[stays] = w
        paid = below.price[(w > 0) | below.is_in].sum()
        best = min(best, risk(full) + anchor.nu * w.sum() + paid)
    low = bound(without_columns(anchor, stays), below, best)[0]
    assert 0.5 * best < low <= best
