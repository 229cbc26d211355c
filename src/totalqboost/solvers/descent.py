"""Descent from one point to a local optimum of the kept set: add, drop and swap columns.

``descend`` ranks all moves by second-order scores, verifies the best few by a refit on the true
objective and takes the first that improves; where features have a price, giving one up is a move
too. An evaluation is one refit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from totalqboost.kernels.groups import count_readers
from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.kernels.moves import rank_moves
from totalqboost.kernels.newton import first_improvement, gram
from totalqboost.master import MasterProblem
from totalqboost.refit import refit_value
from totalqboost.solvers.feature_moves import FeatureMoves

if TYPE_CHECKING:
    from totalqboost.solvers.local import LocalSearch

__all__ = ["IMPROVEMENT", "Descent"]

MIN_RISE = 4  # columns added in an excursion, at least
IMPROVEMENT = 1e-9  # smaller gains are rounding


class Descent:
    """Descent from one point to a local optimum, counting refits."""

    def __init__(self, problem: MasterProblem, settings: LocalSearch):
        self.problem = problem
        self.settings = settings
        self.n_evaluations = 0
        self.columns = np.arange(problem.n_columns)
        # Free columns are in every refit and never in a move.
        self.price = np.where(problem.cost > 0, problem.prices, -1.0)
        self.priced = np.flatnonzero(problem.cost > 0)
        limit = problem.max_learners
        self.limit = len(self.priced) if limit is None else min(limit, len(self.priced))
        self.features = FeatureMoves(self) if problem.has_groups else None

    @property
    def remaining(self) -> int:
        """How many refits the budget still allows."""
        return self.settings.max_evaluations - self.n_evaluations

    def full(self) -> np.ndarray:
        """Return the l1 solution over all columns."""
        return self.refit(self.columns, np.zeros(self.problem.n_columns))[0]

    def best_prefix(self) -> np.ndarray:
        """Return the best of the first k columns, k = 0, 1, ...: early stopping's choice.

        In column generation the first columns are the greedy choice; starting there, the
        result is never worse than early stopping at the same size.
        """
        w = best = np.zeros(self.problem.n_columns)
        best_value = np.inf
        for k in range(self.limit + 1):
            support = np.concatenate([self.priced[:k], self.problem.free])
            w, value = self.refit(support, w)
            if value < best_value and self.problem.is_feasible(w):
                best, best_value = w, value
            if self.remaining <= 1:
                break
        return best

    def best_elimination(self, columns: np.ndarray | None = None) -> np.ndarray:
        """Return the best set on the way from all columns to none, dropping the least useful.

        Between few and many columns the objective may be flat for long stretches, which
        single moves do not cross: this start comes from wherever it is lowest.
        """
        w = best = np.zeros(self.problem.n_columns)
        best_value = np.inf
        support = self.columns if columns is None else columns
        while self.remaining > 1:
            w, value = self.refit(support, w)
            if value < best_value and self.problem.is_feasible(w):
                best, best_value = w, value
            n_kept = int(np.count_nonzero(w[self.priced]))
            if n_kept == 0:
                break
            w = self._eliminate(w, max(1, n_kept // 15))
            support = self.support(w)
        return best

    def oscillate(self, w: np.ndarray) -> np.ndarray:
        """Return the best other set on the way up to half as many columns again, and back.

        Columns that pay only together are out of reach of single moves.
        """
        first = set(self.support(w))
        best, best_value = w, np.inf
        size = int(np.count_nonzero(w[self.priced]))
        top = min(size + max(MIN_RISE, size // 2), self.limit)
        bottom = max(size - MIN_RISE, 1)
        kept, is_rising = size, True
        while self.remaining > 1 and (is_rising or kept > bottom):
            there = self._extend(w) if is_rising and kept < top else None
            is_rising = there is not None
            if there is None:
                if kept == 0:
                    break
                there = self._eliminate(w, 1)
            w, value = self.refit(self.support(there), there)
            kept = int(np.count_nonzero(w[self.priced]))
            is_other = set(self.support(w)) != first and self.problem.is_feasible(w)
            if value < best_value and is_other:
                best, best_value = w, value
        return best

    def descend(self, w: np.ndarray) -> tuple[np.ndarray, float]:
        """Return a local optimum near w, and its objective."""
        w = self.cut(w)
        if self.remaining <= 0:
            return w, self.problem.objective(w)
        w, value = self.refit(self.support(w), w)
        while self.remaining > 0:
            better = self._improve(w, value)
            if better is None and self.features:
                better = self.features.improve(w, value, IMPROVEMENT)
            if better is None:
                break
            w, value = better
        return w, value

    def perturb(self, w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Drop one to three kept columns and add as many others, at random."""
        w = w.copy()
        kept = self.priced[w[self.priced] > 0]
        others = self.priced[w[self.priced] == 0]
        size = int(rng.integers(1, 4))
        if self.features and rng.random() < 0.5:  # a feature, with all of its columns
            g = rng.choice(np.append(self.features.read(w), -1))
            w = w if g < 0 else self.features.without(w, g)
        w[rng.permutation(kept)[:size]] = 0.0
        room = self.limit - np.count_nonzero(w[self.priced])
        w[rng.permutation(others)[: min(size, room)]] = 0.05
        return w

    def polish(self, w: np.ndarray) -> np.ndarray:
        """Refit to the precision of float64."""
        return refit_value(self.problem, self.support(w), w, tol=1e-11)[0]

    def _improve(self, w: np.ndarray, value: float) -> tuple[np.ndarray, float] | None:
        """Return the first verified improvement among the best-scored moves, if any."""
        problem, limit = self.problem, min(self.settings.n_verified, self.remaining)
        rows = self.support(w)  # kept columns, then free ones
        G, edges, total = self._second_order(w, rows)
        is_model = self._in_model(w, rows, G[:, rows], total)
        may_add = problem.cardinality(w) < self.limit
        counts, spare = self._readers(w)
        scores, drops, adds = rank_moves(
            G[is_model],
            rows[is_model],
            w,
            edges,
            total,
            problem.nus,
            self.price,
            may_add,
            problem.groups,
            counts,
            spare,
            limit,
        )
        # Scores are estimates: look a little beyond those that promise a gain.
        hopeless = max(0.5 * problem.lam, 0.02 * abs(value))
        if problem.loss.code == CUSTOM:
            return self._first_improvement(w, value, rows, scores, drops, adds, hopeless)
        better = np.empty_like(w)
        new_value, n_refits = first_improvement(
            problem.A,
            problem.sample_weight,
            problem.nus,
            problem.loss.code,
            problem.prices,
            problem.groups,
            w,
            value,
            rows,
            G,
            scores,
            drops,
            adds,
            hopeless,
            IMPROVEMENT,
            better,
        )
        self.n_evaluations += n_refits
        return (better, new_value) if np.isfinite(new_value) else None

    def _first_improvement(
        self,
        w: np.ndarray,
        value: float,
        rows: np.ndarray,
        scores: np.ndarray,
        drops: np.ndarray,
        adds: np.ndarray,
        hopeless: float,
    ) -> tuple[np.ndarray, float] | None:
        """Do what the kernel of that name does, for a loss that is not compiled."""
        for rank, (score, drop, add) in enumerate(zip(scores, drops, adds, strict=True)):
            if not np.isfinite(score) or (score > hopeless and rank >= 3):
                break
            support = rows[rows != drop]
            support = support if add < 0 else np.append(support, add)
            trial, trial_value = self.refit(support, w)
            if trial_value < value - IMPROVEMENT:
                return trial, trial_value
        return None

    def refit(self, support: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the weights of a support and their objective."""
        self.n_evaluations += 1
        w, value = refit_value(self.problem, support, start, tol=1e-6)
        return w, value + self.problem.price(w)

    def _readers(self, w: np.ndarray) -> tuple[np.ndarray, int]:
        """Return how many kept columns read each feature, and how many more may be read."""
        groups = self.problem.groups
        counts = np.zeros(len(groups.price), dtype=np.int64)
        if not self.features:
            return counts, 0
        return counts, groups.limit - count_readers(groups, w > 0, counts)

    def support(self, w: np.ndarray) -> np.ndarray:
        """Return the kept columns, then the free ones."""
        return np.concatenate([self.priced[w[self.priced] > 0], self.problem.free])

    def _second_order(
        self, w: np.ndarray, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the Gram matrix of rows with all columns, the edges, and the sum of q."""
        u, q = self.problem.weights_and_curvature(w)
        G = np.empty((len(rows), self.problem.n_columns))
        gram(self.problem.A, rows, self.columns, q, G, False)
        return G, self.problem.edges(u), float(q.sum())

    def _in_model(self, w: np.ndarray, rows: np.ndarray, G: np.ndarray, total: float) -> np.ndarray:
        """Tell which rows, whose Gram matrix is G, may move in the second-order model of a move.

        All kept columns, and every free column that is not the opposite of one already
        there: a pair of constants is one intercept of either sign, also while it is zero.
        """
        is_model = w[rows] > 0
        for a in np.flatnonzero(~is_model):
            opposite = G[a, is_model] < -(1 - 1e-6) * total
            is_model[a] = not opposite.any()
        return is_model

    def cut(self, w: np.ndarray) -> np.ndarray:
        """Drop the columns (and features) whose loss costs least until the limits are kept.

        Backward elimination in the second-order model: dropping j costs w_j^2 / 2 V_jj and
        moves the others by -V_.j w_j / V_jj. The model is renewed as it is used up.
        """
        w = self.features.cut(w) if self.features else w
        kept = self.priced[w[self.priced] > 0]
        while len(kept) > self.limit:
            if self.remaining > 1:
                w, _ = self.refit(self.support(w), w)
            kept = self.priced[w[self.priced] > 0]
            n_drop = min(len(kept) - self.limit, max(1, len(kept) // 5))
            w = self._eliminate(w, n_drop)
            kept = self.priced[w[self.priced] > 0]
        return w

    def _extend(self, w: np.ndarray) -> np.ndarray | None:
        """Add the column that promises the largest fall of the risk, if there is one."""
        problem = self.problem
        rows = self.support(w)
        G, edges, total = self._second_order(w, rows)
        rows, G = rows[keep := self._in_model(w, rows, G[:, rows], total)], G[keep]
        own = np.full(problem.n_columns, total)
        if len(rows):
            block = G[:, rows] + (1e-6 * total + 1e-12) * np.eye(len(rows))
            own -= np.einsum("ij,ij->j", G, np.linalg.solve(block, G))
        may_add = (problem.cost > 0) & (w == 0) & (edges > problem.nus)
        if not may_add.any():
            return None
        gain = np.maximum(edges - problem.nus, 0.0) ** 2 / np.maximum(own, 1e-3 * total)
        j = int(np.argmax(np.where(may_add, gain, -np.inf)))
        w = w.copy()
        w[j] = (edges[j] - problem.nus[j]) / max(own[j], 1e-3 * total)
        return w

    def _eliminate(self, w: np.ndarray, n_drop: int) -> np.ndarray:
        rows, V = self.inverse(w)
        x = w[rows]
        may_drop = self.problem.cost[rows] > 0
        for _ in range(n_drop):
            loss = np.where(may_drop, x * x / np.maximum(np.diag(V), 1e-300), np.inf)
            j = int(np.argmin(loss))
            if not np.isfinite(loss[j]):
                break
            x = x - V[:, j] * (x[j] / V[j, j])
            V = V - np.outer(V[:, j], V[j]) / V[j, j]
            may_drop[j] = False
            w = w.copy()
            w[rows[j]] = 0.0
        return w

    def inverse(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of the second-order model at w, and the inverse of their Hessian."""
        rows = self.support(w)
        _, q = self.problem.weights_and_curvature(w)
        G, total = np.empty((len(rows), len(rows))), float(q.sum())
        gram(self.problem.A, rows, rows, q, G, True)
        keep = self._in_model(w, rows, G, total)
        rows, G = rows[keep], G[np.ix_(keep, keep)]
        return rows, np.linalg.inv(G + (1e-6 * total + 1e-12) * np.eye(len(rows)))
