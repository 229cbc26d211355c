"""Scores of add, drop and swap moves: against dense linear algebra and against the truth."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from totalqboost.kernels.groups import count_readers
from totalqboost.kernels.moves import invert_spd, rank_moves
from totalqboost.kernels.newton import gram
from totalqboost.master import MasterProblem

RIDGE = 1e-6  # relative to the diagonal, as in rank_moves


# -- invert_spd --------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 1, 2, 5, 9])
def test_invert_spd_is_the_inverse(k):
    B = np.random.default_rng(k).normal(size=(k, k + 3))
    M = B @ B.T + 0.1 * np.eye(k)
    V = np.full((k, k), np.nan)
    before = M.copy()
    invert_spd(M, V)
    np.testing.assert_allclose(M @ V, np.eye(k), atol=1e-10)
    np.testing.assert_array_equal(V, V.T)
    np.testing.assert_array_equal(M, before)


# -- rank_moves --------------------------------------------------------------------------


class Instance:
    """A problem with its weights at the optimum of the kept columns (squared loss)."""

    def __init__(self, seed, kept, n=7, m=60, lam=0.01, nu=1e-3, is_free=()):
        rng = np.random.default_rng(seed)
        accuracy = rng.uniform(0.6, 0.75, size=(n, 1))
        self.A = np.where(rng.random((n, m)) < accuracy, 1, -1).astype(np.int8)
        self.c = rng.random(m) + 0.2
        self.c /= self.c.sum()
        self.kept, self.n, self.nu = np.array(kept, dtype=np.int64), n, np.full(n, nu)
        self.nu[list(is_free)] = 0.0
        cost = np.ones(n)
        cost[2] = 0.5
        self.price = lam * cost
        self.price[list(is_free)] = -1.0
        self.q = 2.0 * self.c  # l'' of the squared loss
        self.w = np.zeros(n)
        self.w[self.kept] = self.optimum(self.kept)
        z = self.w @ self.A
        self.s = self.A @ (2.0 * self.c * (1.0 - z))
        self.total = self.q.sum()
        self.G = np.empty((len(self.kept), n))
        gram(self.A, self.kept, np.arange(n), self.q, self.G)
        self.read({})

    def read(self, features):
        """Let columns read features: {column: features}, at a price of 0.01, 0.02, ..."""
        reads = np.zeros((self.n, 4), dtype=bool)
        for j, which in features.items():
            reads[j, which] = True
        self.problem = MasterProblem(self.A, reads=reads, feature_price=0.01 * np.arange(1, 5))
        self.spare = 1 << 40
        return self

    def features(self, support):
        """Return what the features of a support cost."""
        return self.problem.price(np.isin(np.arange(self.n), support).astype(float))

    def optimum(self, support):
        """Return the weights that minimise sum c (1 - z)^2 + nu sum w, of either sign."""
        B = self.A[support].astype(float)
        return np.linalg.solve(2.0 * (B * self.c) @ B.T, 2.0 * B @ self.c - self.nu[support])

    def value(self, support):
        support = np.asarray(support, dtype=int)
        x = self.optimum(support)
        z = x @ self.A[support]
        price = self.price[support].clip(0).sum() + self.features(support)
        return self.c @ (1.0 - z) ** 2 + self.nu[support] @ x + price

    def moves(self, n_best, may_add=True):
        ranked = rank_moves(
            self.G,
            self.kept,
            self.w,
            self.s,
            self.total,
            self.nu,
            self.price,
            may_add,
            *self.groups(),
            n_best,
        )
        return [
            (float(score), int(drop), int(add))
            for score, drop, add in zip(*ranked, strict=True)
            if np.isfinite(score)
        ]

    def groups(self):
        counts = np.zeros(len(self.problem.groups.price), dtype=np.int64)
        count_readers(self.problem.groups, np.isin(np.arange(self.n), self.kept), counts)
        return self.problem.groups, counts, self.spare

    def all_moves(self):
        """Return (drop, add) of every move; -1 is none."""
        movable = set(np.flatnonzero(self.price >= 0).tolist())
        kept = set(self.kept.tolist())
        return [
            (drop, add)
            for drop, add in product([-1, *sorted(kept & movable)], [-1, *sorted(movable - kept)])
            if (drop, add) != (-1, -1)
        ]

    def score(self, drop, add):
        """Return what the second-order model expects, by dense algebra; None if no gain."""
        G = (self.A * self.q) @ self.A.T.astype(float)
        S = self.kept
        V = np.linalg.inv(G[np.ix_(S, S)] + RIDGE * self.total * np.eye(len(S)))
        gain = divisor = 0.0
        moved = [j for j in S if j != drop] + ([add] if add >= 0 else [])
        value = self.features(moved) - self.features(S)
        if add >= 0:
            B = V @ G[S, add]
            divisor = self.total - G[add, S] @ B
            gain = self.s[add] - self.nu[add]
            value += self.price[add]
        if drop >= 0:
            j = list(S).index(drop)
            value += self.w[drop] ** 2 / (2 * V[j, j]) - self.price[drop]
            if add >= 0:
                gain += B[j] * self.w[drop] / V[j, j]
                divisor += B[j] ** 2 / V[j, j]
        if add >= 0:
            if gain <= 0:
                return None  # its weight would be negative
            value -= gain**2 / (2 * divisor)
        return value


CASES = {
    "none kept": Instance(0, []),
    "one kept": Instance(1, [3]),
    "three kept": Instance(2, [5, 0, 2]),
    "free columns": Instance(3, [4, 0, 1], is_free=[0, 6]),
    "all kept": Instance(4, [0, 1, 2], n=3),
    "features": Instance(2, [5, 0, 2]).read({0: [0], 2: [0, 1], 5: [1], 1: [2], 3: [0], 4: [2, 3]}),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@every_case
def test_scores_are_the_formulas_in_dense_algebra(case):
    found = {(drop, add): score for score, drop, add in case.moves(n_best=200)}
    scores = {move: case.score(*move) for move in case.all_moves()}
    expected = {move: score for move, score in scores.items() if score is not None}
    assert found.keys() == expected.keys()
    for move, score in expected.items():
        assert found[move] == pytest.approx(score, abs=2e-6), move  # G is in single precision


@every_case
def test_scores_of_the_squared_loss_are_the_true_change(case):
    """Second order is exact here: the score is the change after refitting all weights."""
    now = case.value(case.kept)
    moves = case.moves(n_best=200)
    assert moves
    for score, drop, add in moves:
        support = [j for j in case.kept if j != drop] + ([add] if add >= 0 else [])
        assert score == pytest.approx(case.value(support) - now, abs=1e-5), (drop, add)


@every_case
@pytest.mark.parametrize("n_best", [1, 4])
def test_the_best_moves_come_first(case, n_best):
    every = case.moves(n_best=200)
    assert case.moves(n_best) == every[:n_best]
    scores = [score for score, _, _ in every]
    assert scores == sorted(scores)


@every_case
def test_a_full_ensemble_may_only_drop_and_swap(case):
    moves = case.moves(n_best=200, may_add=False)
    assert all(drop >= 0 for _, drop, _ in moves)
    assert [m for m in case.moves(n_best=200) if m[1] >= 0] == moves


def test_columns_that_may_not_move_are_in_no_move():
    case = CASES["free columns"]
    for _, drop, add in case.moves(n_best=200):
        assert drop not in (0, 6)
        assert add not in (0, 6)


def test_a_column_in_the_wrong_direction_is_not_added():
    case = Instance(5, [0])
    case.s[4] = -1.0
    assert (-1, 4) not in [(drop, add) for _, drop, add in case.moves(n_best=200)]


def test_unused_places_are_infinite():
    case = CASES["none kept"]
    scores, drops, adds = rank_moves(
        case.G, case.kept, case.w, case.s, case.total, case.nu, case.price, True, *case.groups(), 50
    )
    assert (drops == -1).all()
    assert np.isinf(scores[7:]).all()
    assert (adds[7:] == -1).all()


def test_a_duplicate_of_a_kept_column_promises_nothing():
    case = Instance(6, [0, 3])
    case.A[5] = case.A[3]
    duplicate = Instance.__new__(Instance)
    duplicate.__dict__.update(case.__dict__)
    gram(case.A, case.kept, np.arange(case.n), case.q, duplicate.G)
    duplicate.s = case.s.copy()
    duplicate.s[5] = case.nu[5]  # at the optimum a kept column's edge is nu, so is its copy's
    scores = {(drop, add): score for score, drop, add in duplicate.moves(n_best=200)}
    assert scores.get((-1, 5), np.inf) >= case.price[5] - 1e-9
    assert scores[3, 5] == pytest.approx(0.0, abs=1e-5)  # a swap of one for the other


@pytest.mark.parametrize("spare", [-1, 0, 1, 2])
def test_moves_read_no_more_features_than_allowed(spare):
    case = Instance(2, [5, 0, 2]).read({0: [0], 2: [0, 1], 5: [1], 1: [2], 3: [0], 4: [2, 3]})
    every = {(drop, add) for _, drop, add in case.moves(n_best=200)}
    case.spare = spare

    def n_read(support):
        return case.problem.reads[support].any(axis=0).sum()

    def after(drop, add):
        return [j for j in case.kept if j != drop] + ([add] if add >= 0 else [])

    allowed = {move for move in every if n_read(after(*move)) <= n_read(case.kept) + max(spare, 0)}
    assert {(drop, add) for _, drop, add in case.moves(n_best=200)} == allowed
    assert (allowed < every) == (spare < 2)
