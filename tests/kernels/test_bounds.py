"""Kernels of the exact solver's bounds, against NumPy and against what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import solve_triangular
from scipy.optimize import minimize_scalar

from totalqboost.kernels.exact.bounds import (
    Underestimator,
    best_terms,
    column_terms,
    eliminate,
    improve,
    minimise_relaxation,
    next_diagonal,
    split,
)
from totalqboost.kernels.exact.definite import (
    certify_diagonal,
    choose_diagonal,
    exact_gram,
    factor,
    invert_factor,
    is_number,
    least_eigenvalue,
    rounding,
)
from totalqboost.kernels.exact.relaxation import Data, Ranges
from totalqboost.kernels.exact.shrinking import (
    confine,
    confine_margins,
    fix,
)
from totalqboost.solvers.exact.restriction import restricted

SEEDS = pytest.mark.parametrize("seed", range(6))


def signs(rng, k, m):
    return np.where(rng.random((k, m)) < 0.6, 1, -1).astype(np.int8)


def definite(rng, k, m=40):
    A = signs(rng, k, m).astype(float)
    return (A * rng.random(m)) @ A.T / m + 0.05 * np.eye(k)


def make(seed, k=5, room=None):
    """Return a quadratic and ranges, some columns in, some undecided."""
    rng = np.random.default_rng(seed)
    x = rng.exponential(0.5, k) * (rng.random(k) < 0.8)
    nu = rng.choice([1e-3, 1e-9], k)
    model = Underestimator(0.6, 0.6, nu, rng.normal(0.0, 0.1, k), definite(rng, k), x, 40)
    is_in = rng.random(k) < 0.3
    lo = np.full(k, 0.1)
    n_open = int(np.count_nonzero(~is_in))
    return model, Ranges(
        price=rng.uniform(0.005, 0.05, k),
        is_in=is_in,
        lo=lo,
        hi=lo + rng.exponential(2.0, k),
        step=np.zeros(k),
        room=n_open if room is None else room,
    )


def quadratic(model, w):
    h = w - model.x
    return model.risk - model.s @ h + 0.5 * h @ model.Q @ h + model.nu @ w


def value_at(model, ranges, w):
    """Return the quadratic plus all prices at weights w."""
    return quadratic(model, w) + ranges.price[(w > 0) | ranges.is_in].sum()


def members(model, ranges, rng, n=400):
    """Yield weights of the node, with at most as many columns as there is room for."""
    k = len(model.x)
    for _ in range(n):
        w = rng.uniform(ranges.lo, ranges.hi)
        keeps = ranges.is_in | (rng.random(k) < rng.random())
        chosen = np.flatnonzero(keeps & ~ranges.is_in)
        keeps[rng.permutation(chosen)[ranges.room :]] = False
        yield np.where(keeps, w, 0.0)


def scratch(k):
    return np.empty(k), np.empty(k), np.empty(k)


def test_infinities_and_nan_are_no_numbers():
    assert [is_number(x) for x in (0.0, -1e300, np.inf, -np.inf, np.nan)] == [True, True] + 3 * [
        False
    ]


@SEEDS
def test_columns_that_go_leave_their_part_of_a_quadratic(seed):
    model, rng = make(seed, k=6)[0], np.random.default_rng(seed)
    stays = np.array([True, False, True, False, False, True])
    below = restricted(model, stays)
    w = np.where(stays, rng.exponential(1.0, 6), 0.0)
    np.testing.assert_allclose(quadratic(below, w[stays]), quadratic(model, w), rtol=1e-12)
    assert quadratic(below, w[stays]) < quadratic(model, w)  # rounding is taken off
    assert below.weight >= model.weight
    assert below.Q.flags.c_contiguous  # kernels are compiled for it


# -- definite matrices -------------------------------------------------------------------


@SEEDS
def test_factor_and_inverse_are_those_of_numpy(seed):
    rng = np.random.default_rng(seed)
    k = 1 + seed
    Q, d = definite(rng, k), np.full(k, 0.02)
    L, R = np.zeros((k, k)), np.empty((k, k))
    assert factor(Q, d, L)
    S = Q - np.diag(d)
    np.testing.assert_allclose(np.tril(L), np.linalg.cholesky(S), atol=1e-13)
    invert_factor(L, R)
    np.testing.assert_allclose(R, solve_triangular(np.tril(L), np.eye(k), lower=True).T, atol=1e-10)
    np.testing.assert_allclose(R @ R.T, np.linalg.inv(S), rtol=1e-9)


def test_what_is_not_definite_has_no_factor():
    Q = np.array([[1.0, 1.0], [1.0, 1.0]])
    assert not factor(Q, np.array([0.1, 0.0]), np.empty((2, 2)))
    assert not factor(np.array([[np.nan]]), np.zeros(1), np.empty((1, 1)))


@SEEDS
def test_the_gram_matrix_is_that_of_float64(seed):
    rng = np.random.default_rng(seed)
    A, q = signs(rng, 9, 700), rng.random(700) * 10.0 ** rng.uniform(-12, 0, 700)
    columns = np.array([0, 3, 8, 4])
    Q = np.empty((4, 4))
    exact_gram(A, columns, q, Q)
    B = A[columns].astype(float)
    np.testing.assert_allclose(Q, (B * q) @ B.T, atol=1e-13 * q.sum())


@SEEDS
def test_a_certified_diagonal_stays_below_and_a_chosen_one_gains(seed):
    rng = np.random.default_rng(seed)
    Q = definite(rng, 6)
    proven, is_proven = certify_diagonal(Q, np.full(6, 0.3), 40)
    assert is_proven
    assert np.linalg.eigvalsh(Q - np.diag(proven))[0] >= 0
    weight, start = rng.random(6), np.full(6, 0.4 * np.linalg.eigvalsh(Q)[0])
    chosen = choose_diagonal(Q, weight, start, 30)
    assert np.linalg.eigvalsh(Q - np.diag(chosen))[0] > 0
    assert weight @ np.log(chosen) > weight @ np.log(start)
    assert rounding(Q, 40) < 1e-11


@SEEDS
def test_the_least_eigenvalue_is_found_from_below(seed):
    Q = definite(np.random.default_rng(seed), 5)
    least = np.linalg.eigvalsh(Q)[0]
    found = least_eigenvalue(Q, np.trace(Q))
    assert 0.9 * least - 1e-3 <= found <= least
    assert least_eigenvalue(-Q, np.trace(Q)) == 0.0


# -- the bound at a point ----------------------------------------------------------------


@SEEDS
@pytest.mark.parametrize("on_grid", [False, True])
def test_column_terms_are_the_least_values(seed, on_grid):
    rng = np.random.default_rng(seed)
    n = 40
    g, d = rng.normal(size=n), rng.normal(size=n)
    step = np.full(n, 0.125 if on_grid else 0.0)
    lo = 0.125 * rng.integers(0, 4, n)
    hi = lo + 0.125 * rng.integers(0, 9, n)
    out = np.empty(n)
    column_terms(g, d, lo, hi, step, out)
    for j in range(n):
        x = np.arange(lo[j], hi[j] + 1e-9, 0.125) if on_grid else np.linspace(lo[j], hi[j], 4001)
        least = (g[j] * x + 0.5 * d[j] * x * x).min()
        assert out[j] == pytest.approx(least, abs=1e-12 if on_grid else 1e-5)
        assert out[j] <= least + 1e-12


def test_column_terms_know_infinite_ranges():
    out = np.empty(3)
    g, d = np.array([0.5, -0.5, -1.0]), np.array([0.0, 0.0, 2.0])
    column_terms(g, d, np.zeros(3), np.full(3, np.inf), np.zeros(3), out)
    np.testing.assert_allclose(out, [0.0, -np.inf, -0.25])


def numpy_split(model, ranges, y, d):
    """Return the bound and its terms without any care for rounding."""
    s = model.s - model.Q @ (y - model.x)
    g = model.nu - s - d * y
    inside = np.array(
        [
            minimize_scalar(
                lambda w, j=j: g[j] * w + 0.5 * d[j] * w * w,
                bounds=(ranges.lo[j], ranges.hi[j]),
                options={"xatol": 1e-12},
                method="bounded",
            ).fun
            for j in range(len(y))
        ]
    )
    inside = np.minimum(inside, g * ranges.lo + 0.5 * d * ranges.lo**2)
    inside = np.minimum(inside, g * ranges.hi + 0.5 * d * ranges.hi**2)
    terms = np.where(ranges.is_in, inside, np.minimum(inside + ranges.price, 0.0))
    h = y - model.x
    constant = model.risk - model.s @ h + 0.5 * h @ model.Q @ h + s @ y + 0.5 * d @ y**2
    constant += ranges.price[ranges.is_in].sum() + terms[ranges.is_in].sum()
    return constant + np.sort(terms[~ranges.is_in])[: ranges.room].sum(), terms


@SEEDS
@pytest.mark.parametrize("room", [None, 1])
def test_split_is_the_lemma_and_below_every_member(seed, room):
    model, ranges = make(seed, room=room)
    rng = np.random.default_rng(seed)
    d = certify_diagonal(model.Q, rng.random(5), 40)[0]
    y = rng.exponential(0.5, 5)
    g, inside, terms = scratch(5)
    value = split(model, ranges, y, d, g, inside, terms)
    expected, expected_terms = numpy_split(model, ranges, y, d)
    assert value <= expected + 1e-9
    assert value == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(terms, expected_terms, atol=1e-6)
    for w in members(model, ranges, rng):
        assert value <= value_at(model, ranges, w) + 1e-9


def test_no_room_left_is_infinite_and_room_counts_the_most_useful():
    model, ranges = make(0)
    assert split(model, ranges._replace(room=-1), model.x, np.zeros(5), *scratch(5)) == np.inf
    terms, is_in = np.array([-3.0, -1.0, -2.0, 0.0]), np.array([False, False, False, True])
    assert [best_terms(terms, is_in, room) for room in (0, 1, 2, 3)] == [0, -3, -5, -6]


@SEEDS
def test_the_relaxation_is_minimised(seed):
    model, ranges = make(seed)
    d = 0.9 * certify_diagonal(model.Q, np.full(5, 0.3), 40)[0]
    y = minimise_relaxation(model, ranges, d, ranges.price, model.x, 1e-12)

    def relaxed(w):
        h = w - model.x
        total = model.risk - model.s @ h + 0.5 * h @ model.Q @ h + model.nu @ w
        for j in np.flatnonzero(~ranges.is_in):
            knot = np.clip(np.sqrt(2 * ranges.price[j] / d[j]), ranges.lo[j], ranges.hi[j])
            slope = 0.5 * d[j] * knot + ranges.price[j] / knot
            line = slope * w[j] - 0.5 * d[j] * w[j] ** 2
            total += line if w[j] <= knot else ranges.price[j]
        return total

    rng = np.random.default_rng(seed)
    low = np.where(ranges.is_in, ranges.lo, 0.0)
    assert ((y >= low - 1e-12) & (y <= ranges.hi + 1e-12)).all()
    for size in (1e-3, 0.1, 1.0):
        for _ in range(100):
            other = np.clip(y + size * rng.normal(size=5), low, ranges.hi)
            assert relaxed(other) >= relaxed(y) - 1e-7


@SEEDS
def test_columns_that_are_eliminated_take_their_best_values(seed):
    Q = definite(np.random.default_rng(seed), 5)
    order = np.array([3, 1, 0, 2, 4])
    stay, go = order[2:], order[:2]
    cross = Q[np.ix_(go, stay)]
    schur = Q[np.ix_(stay, stay)] - cross.T @ np.linalg.solve(Q[np.ix_(go, go)], cross)
    np.testing.assert_allclose(eliminate(Q, order, 2, 0.0), schur, atol=1e-12)
    assert (eliminate(-Q, order, 2, 0.0) == 0).all()


@SEEDS
def test_the_next_diagonal_leaves_columns_that_are_in_alone(seed):
    model, ranges = make(seed)
    d = next_diagonal(model, ranges, np.zeros(5), model.x, ranges.price)
    assert (d[ranges.is_in] == 0).all()
    assert (d[~ranges.is_in] > 0).all()
    assert np.linalg.eigvalsh(model.Q - np.diag(d))[0] > -1e-6


@SEEDS
@pytest.mark.parametrize("room", [None, 1])
def test_improve_raises_the_bound_and_never_above_a_member(seed, room):
    model, ranges = make(seed, room=room)
    flat = split(model, ranges, model.x, np.zeros(5), *scratch(5))
    is_priced = np.ones(5, dtype=bool)
    value, y, d, _ = improve(model, ranges, np.zeros(5), is_priced, 0.0, room is not None, 9.0, 3)
    assert value >= flat
    assert value == pytest.approx(split(model, ranges, y, d, *scratch(5)), abs=1e-12)
    for w in members(model, ranges, np.random.default_rng(seed)):
        assert value <= value_at(model, ranges, w) + 1e-9


# -- shrinking a node --------------------------------------------------------------------


def copied(ranges):
    return ranges._replace(is_in=ranges.is_in.copy(), lo=ranges.lo.copy(), hi=ranges.hi.copy())


@SEEDS
@pytest.mark.parametrize("room", [None, 2])
def test_fix_and_confine_keep_every_member_below_the_cutoff(seed, room):
    model, ranges = make(seed, room=room)
    rng = np.random.default_rng(seed)
    value, y, d, _ = improve(
        model, ranges, np.zeros(5), np.ones(5, dtype=bool), 0.0, room is not None, 9.0, 3
    )
    cutoff = value + 0.05
    smaller, stays = copied(ranges), np.ones(5, dtype=bool)
    assert fix(model, smaller, y, d, cutoff, stays)
    R = np.empty((5, 5))
    _, excess = confine(model, smaller, y, 0.8 * d, cutoff, R)
    E = np.linalg.inv(R @ R.T)
    assert excess > 0
    n_better = 0
    for w in members(model, ranges, rng, 3000):
        if value_at(model, ranges, w) >= cutoff:
            continue
        n_better += 1
        assert stays[w > 0].all()
        assert (w[smaller.is_in] > 0).all()
        assert (w <= smaller.hi + 1e-9).all()
        assert (w[smaller.is_in] >= smaller.lo[smaller.is_in] - 1e-9).all()
        assert (w - y) @ E @ (w - y) <= excess * (1 + 1e-6) + 1e-9
    assert (smaller.hi <= ranges.hi).all()
    if seed == 0 and room is None:
        assert n_better > 0


def test_a_bound_that_is_no_number_decides_nothing():
    model, ranges = make(1)
    stays = np.ones(5, dtype=bool)
    assert fix(model._replace(risk=np.nan), ranges, model.x, np.zeros(5), 1.0, stays)
    assert stays.all()
    R = np.empty((5, 5))
    _, excess = confine(model._replace(risk=np.nan), ranges, model.x, np.zeros(5), 1.0, R)
    assert np.isinf(excess)


@SEEDS
@pytest.mark.parametrize("ridge", [0.0, 1e-8])
def test_margins_are_confined_to_the_ellipsoid(seed, ridge):
    rng = np.random.default_rng(seed)
    k, m, excess = 4, 600, 0.3
    A, columns, x, y = signs(rng, 7, m), np.array([6, 1, 2, 4]), rng.random(k), rng.random(k)
    B = A[columns].astype(float)
    E = definite(rng, k)
    if ridge > 0.0:  # hardly anything is known of the difference of two columns
        E[1], E[:, 1] = E[0], E[:, 0]
        E[1, 1] = E[0, 0] + ridge
    L, R = np.zeros((k, k)), np.empty((k, k))
    assert factor(E, np.zeros(k), L)
    invert_factor(L, R)
    low, high = np.full(m, -np.inf), np.full(m, np.inf)
    data = Data(A, columns, np.ones(m), 0)
    confine_margins(data, R, excess, x @ B, x, y, True, low, high)
    reach = np.sqrt(excess * np.einsum("ai,ab,bi->i", B, np.linalg.inv(E), B))
    np.testing.assert_allclose(high, y @ B + reach, atol=2e-4 * reach.max())
    np.testing.assert_allclose(low, y @ B - reach, atol=2e-4 * reach.max())
    assert (high >= y @ B + reach).all()
    assert (low <= y @ B - reach).all()
