"""Scores of add, drop and swap moves: against dense linear algebra and against the truth."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from totalqboost.master import MasterProblem
from totalqboost.solvers.moves import MoveModel

RIDGE = 1e-6  # relative to the diagonal, as in MoveModel


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
        cost[list(is_free)] = 0.0
        self.price = np.where(cost > 0, lam * cost, -1.0)
        self.q = 2.0 * self.c  # l'' of the squared loss
        self.w = np.zeros(n)
        self.w[self.kept] = self.optimum(self.kept)
        z = self.w @ self.A
        self.s = self.A @ (2.0 * self.c * (1.0 - z))
        self.total = self.q.sum()
        self.problem = MasterProblem(self.A, nu, lam, cost, "squared", self.c)

    @property
    def model(self):
        return MoveModel(self.problem, self.w, self.kept)

    def optimum(self, support):
        """Return the weights that minimise sum c (1 - z)^2 + nu sum w, of either sign."""
        B = self.A[support].astype(float)
        return np.linalg.solve(2.0 * (B * self.c) @ B.T, 2.0 * B @ self.c - self.nu[support])

    def value(self, support):
        support = np.asarray(support, dtype=int)
        x = self.optimum(support)
        z = x @ self.A[support]
        return self.c @ (1.0 - z) ** 2 + self.nu[support] @ x + self.price[support].clip(0).sum()

    def moves(self, n_best, may_add=True):
        return self.model.rank(may_add, n_best)

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
        value = gain = divisor = 0.0
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
    model = Instance(5, [0]).model
    assert (-1, 4) in [(drop, add) for _, drop, add in model.rank(True, 200)]
    model.slope[4] = -1.0
    assert (-1, 4) not in [(drop, add) for _, drop, add in model.rank(True, 200)]


def test_a_duplicate_of_a_kept_column_promises_nothing():
    case = Instance(6, [0, 3])
    case.problem.A[5] = case.A[3]
    scores = {(drop, add): score for score, drop, add in case.moves(n_best=200)}
    assert scores.get((-1, 5), np.inf) >= case.price[5] - 1e-9
    assert scores[3, 5] == pytest.approx(0.0, abs=1e-5)  # a swap of one for the other


def test_one_of_two_opposite_free_columns_is_in_the_model():
    case = Instance(7, [3, 0, 1], is_free=[0, 1])
    case.problem.A[1] = -case.A[0]
    case.w[1] = 0.0
    assert case.model.rows.tolist() == [3, 0]


@every_case
def test_the_best_addition_is_that_of_the_scores_without_prices(case):
    free = case.problem.changed(lam=0.0)
    moves = MoveModel(free, case.w, case.kept).rank(True, 200)
    adds = [add for _, drop, add in moves if drop < 0]
    found = case.model.best_addition()
    assert (found is None) == (not adds)
    if found is not None:
        assert found[0] == adds[0]
        assert found[1] == pytest.approx(case.optimum([*case.kept, found[0]])[-1], abs=1e-4)


def test_the_columns_that_cost_least_are_eliminated():
    case = Instance(8, [0, 1, 2, 3, 4])
    first, second = case.model.eliminated(2)
    after = {
        j: case.value([k for k in case.kept if k != j])
        - case.price[case.kept].sum()
        + case.price[j]
        for j in case.kept
    }
    assert first == min(after, key=after.get)
    rest = [k for k in case.kept if k != first]
    after = {j: case.value([k for k in rest if k != j]) + case.price[j] for j in rest}
    assert second == min(after, key=after.get)
    assert set(case.model.eliminated(9)) == set(case.kept)
