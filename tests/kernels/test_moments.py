"""Moments, and the bounds by the growth of the exponential loss that follow from them."""

from __future__ import annotations

import numpy as np
import pytest

from totalqboost.kernels.exact.bounds import Underestimator, split
from totalqboost.kernels.exact.definite import ROWS_AT_ONCE, certify_diagonal
from totalqboost.kernels.exact.moments import (
    ETAS,
    Anchor,
    below_atoms,
    least_sum,
    rise_beyond,
    rise_in_patch,
    scaled,
    shells,
    third_moments,
    third_over_second,
    two_atoms,
    whiten,
)
from totalqboost.kernels.exact.relaxation import Ranges
from totalqboost.solvers.exact.moments import largest_skewness
from totalqboost.solvers.exact.restriction import without_columns

SEEDS = pytest.mark.parametrize("seed", range(8))


class Risk:
    """Mean exponential loss of weights."""

    def __init__(self, B, c):
        self.B, self.c = B, c

    def __call__(self, w):
        return self.c @ np.exp(-w @ self.B)


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
    mean = B @ u / f
    L = np.linalg.cholesky(Q / f - np.outer(mean, mean))
    kappa = largest_skewness(np.linalg.solve(L, B - mean[:, None]), u / f)
    tilt = np.linalg.norm(np.linalg.solve(L, mean)) + 1e-9
    nu = rng.choice([1e-3, 1e-9], k)
    anchor = Anchor(f, f, nu, B @ u, Q, x, m, kappa, tilt, 0.0, 0.0, np.zeros(k), 0.0)
    is_in = np.arange(k) == 1
    room = k - 1 if room is None else room
    ranges = Ranges(np.full(k, 0.02), is_in, np.full(k, 0.05), np.full(k, 2.0), np.zeros(k), room)
    return Risk(B, c), anchor, ranges


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
    """Return the bound, reach and eta, and bounds without and with columns."""
    k = len(anchor.x)
    Q = scaled(anchor, 1.0, 0.5).Q
    d, _ = certify_diagonal(Q, np.full(k, 0.6 * np.linalg.eigvalsh(Q)[0]), anchor.n_rows)
    without, within = np.empty(k), np.empty(k)
    found = shells(anchor, ranges, d, ranges.price, cutoff, without, within)
    return *found, without, within


def random_distribution(rng):
    """Return values with probabilities: of any mean, variance and skewness."""
    X, p = rng.normal(0.3, 0.8, 4) ** 3, rng.dirichlet(np.ones(4))
    M = p @ X
    v = np.sqrt(p @ (X - M) ** 2)
    return X, p, M, v, p @ (X - M) ** 3 / v**3


def test_two_atoms_are_the_least_that_moments_allow():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        X, p, M, v, skewness = random_distribution(rng)
        if v < 6.0:
            assert p @ np.exp(-X) >= np.exp(-M) * two_atoms(max(skewness, 0.0), v)
    for kappa in (0.0, 0.7, 3.0):  # and those of the formula reach it
        b = 0.5 * (kappa + np.sqrt(kappa**2 + 4.0))
        Y, p = np.array([-1.0 / b, b]), np.array([b, 1.0 / b]) / (b + 1.0 / b)
        np.testing.assert_allclose([p @ Y, p @ Y**2, p @ Y**3], [0.0, 1.0, kappa], atol=1e-12)
        for v in (0.0, 0.3, 2.0):
            assert two_atoms(kappa, v) == pytest.approx(p @ np.exp(-v * Y), rel=1e-8)


@pytest.mark.parametrize("kappa", [0.0, 0.5, 2.0, 8.0])
@pytest.mark.parametrize("shell", [(0.0, 0.15), (0.8, 1.0), (2.7, 3.3), (15.0, 22.0)])
def test_a_line_is_below_the_two_atoms(kappa, shell):
    first, second = below_atoms(kappa, *shell)
    for v in np.linspace(*shell, 50):
        t = (v**2 - shell[0] ** 2) / (shell[1] ** 2 - shell[0] ** 2)
        assert (1 - t) * first + t * second <= two_atoms(kappa, v) + 1e-12
    if shell[1] < 5.0:
        assert first == pytest.approx(two_atoms(kappa, shell[0]), rel=0.05)
        assert second == pytest.approx(two_atoms(kappa, shell[1]), rel=0.05)


@pytest.mark.parametrize("p", [-0.5, 0.0, 0.3, 1.0, 5.0])
def test_the_least_sum_is_found(p):
    M = np.linspace(-1.0, 2.0, 3001)
    for c in (0.2, 1.0, 9.0):
        least = (c * np.exp(-M) + p * M).min()
        assert least_sum(c, p, -1.0, 2.0) == pytest.approx(least, abs=1e-5)
        assert least_sum(c, p, -1.0, 2.0) <= least + 1e-12


@SEEDS
def test_what_a_cell_adds_is_never_too_much(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        kappa, beta, eta = rng.exponential(1.0), rng.uniform(0.3, 2.0), rng.uniform(0.0, 1.0)
        low, m_low = rng.exponential(1.0), rng.normal()
        high, m_high = low + rng.exponential(0.3), m_low + rng.exponential(0.3)
        first, second = below_atoms(kappa, low, high)
        rise = rise_in_patch(first, second, low, high, m_low, m_high, beta, eta)
        v, M = rng.uniform(low, high, 200), rng.uniform(m_low, m_high, 200)
        T = np.array([two_atoms(kappa, each) for each in v])
        assert (rise <= np.exp(-M) * T - 1.0 + beta * M - eta * (v**2 + M**2) + 1e-9).all()
        far, anywhere = high + rng.exponential(1.0, 200), rng.normal(0.0, 3.0, 200)
        T = np.array([two_atoms(kappa, each) for each in far])
        least = rise_beyond(kappa, high, beta)
        assert (least <= np.exp(-anywhere) * T - 1.0 + beta * anywhere + 1e-9).all()


def test_third_over_second_is_that_of_the_worst_distribution_in_a_cell():
    rng = np.random.default_rng(1)
    for _ in range(2000):
        X, p, M, v, skewness = random_distribution(rng)
        patch = v * rng.random(), v * (1 + rng.random()), M - rng.random(), M + rng.random()
        reach = third_over_second(max(skewness, 0.0), *patch)
        assert p @ X**3 <= reach * (p @ X**2) * (1 + 1e-12) + 1e-12
        point = third_over_second(max(skewness, 0.0), v, v, M, M)
        assert point <= reach
        if skewness > 0 and p @ X**3 > 0:
            assert point == pytest.approx(p @ X**3 / (p @ X**2))


@SEEDS
@pytest.mark.parametrize("room", [4, 1])
def test_shells_bound_the_exponential_loss(seed, room):
    m = 60
    risk, anchor, ranges = make(seed, m=m, room=room)
    rng = np.random.default_rng(seed)
    values = [
        (w, risk(w) + anchor.nu @ w + ranges.price[(w > 0) | ranges.is_in].sum())
        for w in members(ranges, rng)
    ]
    best = min(value for _, value in values)
    cutoff = best + 0.1
    B, u = risk.B, risk.c * np.exp(-anchor.x @ risk.B)
    low, reach, eta, without, within = bound(anchor, ranges, cutoff)
    k = len(anchor.x)
    flat = Underestimator(
        anchor.risk, anchor.weight, anchor.nu, anchor.s, np.zeros((k, k)), anchor.x, m
    )
    scratch = np.empty(k), np.empty(k), np.empty(k)
    assert split(flat, ranges, anchor.x, np.zeros(k), *scratch) <= low <= best
    assert eta in ETAS
    for w, value in values:
        if value >= cutoff:
            continue
        for j in np.flatnonzero(~ranges.is_in):
            assert value >= (within[j] if w[j] > 0 else without[j]) - 1e-9
        X = (w - anchor.x) @ B
        assert u @ X**3 <= reach * (u @ X**2) * (1 + 1e-9)


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
    below = Ranges(*(field[stays] for field in ranges[:5]), room=4)
    best = np.inf
    for w in members(below, rng):
        full = np.zeros(6)
        full[stays] = w
        paid = below.price[(w > 0) | below.is_in].sum()
        best = min(best, risk(full) + anchor.nu @ full + paid)
    low = bound(without_columns(anchor, stays), below, best)[0]
    assert 0.5 * best < low <= best


def test_where_nothing_is_known_nothing_is_decided():
    _, anchor, ranges = make(0)
    ranges.hi[2] = np.inf
    k = len(anchor.x)
    without, within = np.empty(k), np.empty(k)
    low, *_ = shells(
        anchor._replace(s=anchor.s + 10.0),  # every weight wants to grow
        ranges, np.zeros(k), ranges.price, 1.0, without, within,
    )  # fmt: skip
    assert low == -np.inf
    assert (without == -np.inf).all()
    assert (within == -np.inf).all()


@pytest.mark.parametrize(
    ("k", "m"), [(1, 3), (4, ROWS_AT_ONCE), (6, ROWS_AT_ONCE + 1), (5, 3 * ROWS_AT_ONCE - 7)]
)
def test_third_moments_are_sums_in_single_precision(k, m):
    rng = np.random.default_rng(k)
    W, u = rng.normal(size=(k, m)) + 0.3, rng.random(m) / m
    T = np.empty((k, k, k))
    error = third_moments(W, u, T)
    expected = np.einsum("ai,bi,ci,i->abc", W, W, W, u)
    size = np.einsum("ai,bi,ci,i->abc", *(np.abs(W),) * 3, u)
    assert (np.abs(T - expected) <= (ROWS_AT_ONCE + 8) * 2.0**-24 * size).all()
    cubes = u @ np.linalg.norm(W, axis=0) ** 3
    assert error == pytest.approx((ROWS_AT_ONCE + 8) * 2.0**-24 * cubes, rel=0.02)


@pytest.mark.parametrize(("k", "m"), [(1, 9), (4, ROWS_AT_ONCE), (6, ROWS_AT_ONCE + 5)])
def test_whitened_columns_have_mean_zero_and_covariance_one(k, m):
    rng = np.random.default_rng(k)
    A = np.where(rng.random((k + 2, m)) < 0.6, 1, -1).astype(np.int8)
    columns, u = rng.permutation(k + 2)[:k], rng.random(m)
    u /= u.sum()
    B = A[columns].astype(float)
    G, inverse, W = np.empty((k, k)), np.empty((k, k)), np.empty((k, m))
    assert whiten(A, columns, u, B @ u, 1e-6, G, inverse, W)
    np.testing.assert_allclose(G, (B * u) @ B.T, atol=1e-12)
    np.testing.assert_allclose(W, inverse @ (B - (B @ u)[:, None]), atol=1e-9)
    np.testing.assert_allclose(W @ u, 0.0, atol=1e-9)
    np.testing.assert_allclose((W * u) @ W.T, np.eye(k), atol=1e-9)
    np.testing.assert_array_equal(inverse, np.tril(inverse))
    assert not whiten(A, columns, u, B @ u, 1.5, G, inverse, W)  # no column has that variance
