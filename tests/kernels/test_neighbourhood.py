"""One-weight moves against NumPy: the product A u, the best level, the tabu walk."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from totalqboost.kernels.loss_codes import EXPONENTIAL
from totalqboost.kernels.neighbourhood import best_level, tabu_walk, weigh
from totalqboost.kernels.newton import correlate
from totalqboost.master import MasterProblem


def random_signs(n, m, seed=0):
    return np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), size=(n, m))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", range(10))
def test_correlate_is_the_product_for_any_number_of_columns(n, dtype):
    A = random_signs(n, 53, seed=n)
    u = np.random.default_rng(100 + n).normal(size=53).astype(dtype)
    out = np.full(n, np.nan)
    correlate(A, np.arange(len(A)), u, out)
    rounding = 53 * np.finfo(dtype).eps * np.abs(u).sum()
    np.testing.assert_allclose(out, A.astype(float) @ u.astype(float), rtol=0, atol=rounding)


@pytest.mark.parametrize("m", [1, 2, 7, 8, 60])
def test_correlate_is_exact_where_sums_are_exact(m):
    A = random_signs(6, m, seed=m)
    u = np.random.default_rng(m).integers(-8, 9, size=m).astype(float)
    out = np.empty(6)
    correlate(A, np.arange(len(A)), u, out)
    np.testing.assert_array_equal(out, A.astype(float) @ u)


def test_correlate_writes_into_a_float32_result():
    A = random_signs(5, 40)
    u = np.random.default_rng(1).random(40).astype(np.float32)
    out = np.empty(5, np.float32)
    correlate(A, np.arange(len(A)), u, out)
    np.testing.assert_allclose(out, A.astype(float) @ u, atol=1e-4)


def test_correlate_takes_some_columns_of_a_longer_matrix():
    A = random_signs(9, 30)
    u = np.random.default_rng(2).random(30)
    out = np.empty(4)
    correlate(A, np.arange(3, 7), u, out)
    np.testing.assert_allclose(out, A[3:7].astype(float) @ u, rtol=1e-13)


def test_correlate_leaves_its_inputs_alone():
    A, u = random_signs(5, 20), np.arange(20.0)
    A_before, u_before = A.copy(), u.copy()
    correlate(A, np.arange(5), u, np.empty(5))
    np.testing.assert_array_equal(A, A_before)
    np.testing.assert_array_equal(u, u_before)


def test_one_product_prices_every_move_of_one_weight():
    """e^-d P_j + e^d N_j is the exponential risk after w_j moves by d, as the module says."""
    rng = np.random.default_rng(3)
    A, w = random_signs(5, 60, seed=3), rng.random(5)
    u = np.exp(-(w @ A)) / 60
    s, f = np.empty(5), u.sum()
    correlate(A, np.arange(5), u, s)
    for j in range(5):
        for d in (-0.3, 0.2, 1.0):
            moved = w.copy()
            moved[j] += d
            predicted = np.exp(-d) * (f + s[j]) / 2 + np.exp(d) * (f - s[j]) / 2
            assert predicted == pytest.approx(np.exp(-(moved @ A)).mean(), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weigh_gives_the_exponential_weights_and_their_sum(dtype):
    rng = np.random.default_rng(0)
    A, c = random_signs(6, 50), rng.random(50)
    w = np.array([0.5, 0.0, 1.2, 0.0, 0.1, 2.0])
    z, u = np.full(50, np.nan), np.full(50, np.nan, dtype)
    total = weigh(A, w, c, z, u)
    np.testing.assert_allclose(z, w @ A.astype(float), atol=1e-14)
    np.testing.assert_allclose(u, c * np.exp(-z), rtol=10 * np.finfo(dtype).eps)
    assert total == pytest.approx((c * np.exp(-z)).sum(), rel=1e-13)


def test_weigh_stays_within_single_precision():
    A, u = np.array([[-1, 1]], np.int8), np.empty(2, np.float32)
    total = weigh(A, np.array([500.0]), np.full(2, 0.5), np.empty(2), u)
    assert np.isfinite(u).all()
    assert np.isfinite(total)


# -- the best level of one weight --------------------------------------------------------


@pytest.mark.parametrize("seed", range(15))
def test_best_level_is_the_best_of_all_levels(seed):
    rng = np.random.default_rng(seed)
    A, c = random_signs(1, 40, seed), rng.random(40)
    A[0] *= rng.choice([-1, 1])
    c /= c.sum() * 10.0 ** rng.integers(0, 3)
    step, top, level, nu = rng.uniform(0.02, 0.5), 15, rng.integers(0, 16), rng.uniform(0, 0.05)
    u = c * np.exp(-step * level * A[0])
    values = [
        (c * np.exp(-step * other * A[0])).sum() + nu * step * other for other in range(top + 1)
    ]
    found = best_level(level, step, top, u.sum(), A[0] @ u, nu, False)
    assert values[found] == pytest.approx(min(values), rel=1e-12)
    assert best_level(level, step, top, u.sum(), A[0] @ u, nu, True) == 0


@pytest.mark.parametrize(("s", "expected"), [(1.0, 7), (-1.0, 0)])
def test_best_level_of_a_column_without_errors_or_hits_is_an_end(s, expected):
    assert best_level(3, 0.1, 7, 1.0, s, 1e-6, False) == expected


# -- the walk ----------------------------------------------------------------------------

N_BITS = 2


class Walk:
    """A small problem on a fixed-point grid, with everything by enumeration beside it."""

    def __init__(self, seed, n=4, m=30, limit=4, nu=1e-3):
        rng = np.random.default_rng(seed)
        self.A = np.where(rng.random((n, m)) < 0.65, 1, -1).astype(np.int8)
        self.c = rng.random(m)
        self.c /= self.c.sum()
        self.nu, self.limit = np.full(n, nu), limit
        self.nu[0] = 0.0  # the free column pays none
        self.price = np.full(n, 0.01)
        self.price[0] = -1.0  # a free column
        self.step = rng.uniform(0.1, 0.3, size=n)

    def value(self, levels):
        w = self.step * levels
        risk = self.c @ np.exp(-(w @ self.A))
        return risk + self.nu @ w + self.price[(levels > 0) & (self.price >= 0)].sum()

    def is_within_limit(self, levels):
        return np.count_nonzero((levels > 0) & (self.price >= 0)) <= self.limit

    def run(self, levels, by_bits, n_moves, tenure=2, rank=0, target=-np.inf):
        levels = np.array(levels)
        best_levels = np.full(len(levels), -1)
        best = tabu_walk(
            EXPONENTIAL,
            self.A,
            self.c,
            self.nu,
            self.price,
            MasterProblem(self.A).groups,  # none
            self.step,
            N_BITS,
            by_bits,
            self.limit,
            False,
            levels,
            target,
            np.full(n_moves, tenure),
            np.full(n_moves, rank),
            best_levels,
        )
        return best, best_levels, levels

    def grid(self):
        levels = (np.array(each) for each in product(range(2**N_BITS), repeat=len(self.step)))
        return [each for each in levels if self.is_within_limit(each)]

    def neighbours(self, levels, by_bits):
        """Return the levels one move away, best first."""
        found = {}
        for j in range(len(levels)):
            line = [np.where(np.arange(len(levels)) == j, k, levels) for k in range(2**N_BITS)]
            if by_bits:
                line = [line[levels[j] ^ (1 << bit)] for bit in range(N_BITS)]
            else:
                line = [min(line, key=lambda each: self.risk_and_nu(each)), line[0]]
            for each in line:
                if (each != levels).any() and self.is_within_limit(each):
                    found[tuple(each)] = self.value(each)
        return sorted(found, key=found.get)

    def risk_and_nu(self, levels):
        return self.value(levels) - self.price[(levels > 0) & (self.price >= 0)].sum()


both_neighbourhoods = pytest.mark.parametrize("by_bits", [True, False])


@both_neighbourhoods
@pytest.mark.parametrize("limit", [1, 4])
def test_a_move_goes_to_the_best_neighbour(by_bits, limit):
    for seed in range(5):
        walk = Walk(seed, limit=limit)
        start = np.array([1, 0, 2, 0])
        _, _, end = walk.run(start, by_bits, n_moves=1)
        assert tuple(end) == walk.neighbours(start, by_bits)[0]


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_a_move_goes_to_the_neighbour_of_the_given_rank(rank):
    for seed in range(5):
        walk = Walk(seed)
        start = np.array([1, 0, 2, 0])
        _, _, end = walk.run(start, by_bits=True, n_moves=1, rank=rank)
        assert tuple(end) == walk.neighbours(start, by_bits=True)[rank]


def test_a_rank_beyond_the_last_neighbour_takes_the_last():
    walk = Walk(0, n=2, limit=0)  # only the free column may move, by one bit or the other
    start = np.array([1, 0])
    _, _, end = walk.run(start, by_bits=True, n_moves=1, rank=4)
    assert tuple(end) == walk.neighbours(start, by_bits=True)[-1]


@both_neighbourhoods
@pytest.mark.parametrize("seed", range(5))
def test_the_walk_returns_the_best_levels_met_and_their_value(by_bits, seed):
    walk = Walk(seed)
    start = np.array([1, 0, 2, 0])
    for n_moves in (0, 1, 10, 40):
        best, best_levels, _ = walk.run(start, by_bits, n_moves)
        assert best == pytest.approx(walk.value(best_levels), rel=1e-5)
        assert walk.value(best_levels) <= walk.value(start) + 1e-6
        assert (best_levels >= 0).all()
        assert (best_levels < 2**N_BITS).all()


@both_neighbourhoods
@pytest.mark.parametrize("limit", [1, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_the_walk_finds_the_best_point_of_a_small_grid(by_bits, limit, seed):
    walk = Walk(seed, limit=limit)
    _, best_levels, _ = walk.run(np.zeros(4, int), by_bits, n_moves=150)
    assert walk.is_within_limit(best_levels)
    optimum = min(walk.value(levels) for levels in walk.grid())
    assert walk.value(best_levels) == pytest.approx(optimum, abs=1e-5)


@both_neighbourhoods
def test_the_walk_does_not_turn_back_while_its_move_is_tabu(by_bits):
    """From the best point every move is uphill; the second may not undo the first."""
    walk = Walk(1)
    best = min(walk.grid(), key=walk.value)
    _, _, after_one = walk.run(best, by_bits, n_moves=1, tenure=5)
    _, _, after_two = walk.run(best, by_bits, n_moves=2, tenure=5)
    assert (after_one != best).any()
    assert (after_two != best).any()
    assert (after_two != after_one).any()
