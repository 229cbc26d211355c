"""Iterated local search over the kept set, with continuous weights: the default solver.

Order of calls: ``solve`` descends from its starting points, then repeats "perturb the best,
descend, keep if better". ``descend`` ranks all add, drop and swap moves by second-order
scores, verifies the best few by a refit on the true objective and takes the first that
improves. An evaluation is one such refit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from totalqboost.kernels.moves import rank_moves
from totalqboost.kernels.newton import gram
from totalqboost.master import MasterProblem, Solution
from totalqboost.refit import refit_value

__all__ = ["LocalSearch"]

IMPROVEMENT = 1e-9  # smaller gains are rounding


@dataclass(frozen=True)
class LocalSearch:
    """Iterated local search: add, drop and swap columns, refit, perturb, repeat.

    Parameters
    ----------
    n_perturbations : int
        How often the best solution is perturbed and searched again.
    n_verified : int
        How many of the best-scored moves are verified before a point counts as a local
        optimum.
    max_evaluations : int
        Budget in refits.
    """

    n_perturbations: int = 20
    n_verified: int = 10
    max_evaluations: int = 20_000

    def solve(
        self,
        problem: MasterProblem,
        start: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> Solution:
        """Return the best weights found; never worse than ``start`` or the empty ensemble."""
        rng = np.random.default_rng(0) if rng is None else rng
        search = _Descent(problem.merged(), self)
        if start is None:
            starts = [np.zeros(problem.n_columns), search.full()]
        else:
            starts = [np.asarray(start, dtype=float)]
        points = [search.descend(w) for w in starts]
        best, value = min(points, key=lambda point: point[1])
        for _ in range(self.n_perturbations):
            if search.n_evaluations >= self.max_evaluations:
                break
            trial, trial_value = search.descend(search.perturb(best, rng))
            if trial_value < value - IMPROVEMENT:
                best, value = trial, trial_value
        best = search.polish(best)
        objective = problem.objective(best)
        status = "local optimum"
        if search.n_evaluations >= self.max_evaluations:
            status = "evaluation budget spent"
        for w in [*starts, np.zeros(problem.n_columns)]:  # never worse than a start
            if problem.is_feasible(w) and problem.objective(w) < objective:
                best, objective = w, problem.objective(w)
        return Solution(best, objective, n_evaluations=search.n_evaluations, status=status)


class _Descent:
    """Descent from one point to a local optimum, counting refits."""

    def __init__(self, problem: MasterProblem, settings: LocalSearch):
        self.problem = problem
        self.settings = settings
        self.n_evaluations = 0
        self.columns = np.arange(problem.n_columns)
        # Free columns are in every refit and never in a move.
        self.price = np.where(problem.cost > 0, problem.lam * problem.cost, -1.0)
        self.priced = np.flatnonzero(problem.cost > 0)
        limit = problem.max_learners
        self.limit = len(self.priced) if limit is None else min(limit, len(self.priced))

    def full(self) -> np.ndarray:
        """Return the l1 solution over all columns, cut to the largest weights if limited."""
        w, _ = refit_value(self.problem, self.columns, tol=1e-6)
        return self._cut(w)

    def descend(self, w: np.ndarray) -> tuple[np.ndarray, float]:
        """Return a local optimum near w, and its objective."""
        w, value = self._refit(self._support(self._cut(w)), w)
        while self.n_evaluations < self.settings.max_evaluations:
            better = self._improve(w, value)
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
        w[rng.permutation(kept)[:size]] = 0.0
        room = self.limit - np.count_nonzero(w[self.priced])
        w[rng.permutation(others)[: min(size, room)]] = 0.05
        return w

    def polish(self, w: np.ndarray) -> np.ndarray:
        """Refit to the precision of float64."""
        return refit_value(self.problem, self._support(w), w, tol=1e-11)[0]

    def _improve(self, w: np.ndarray, value: float) -> tuple[np.ndarray, float] | None:
        """Return the first verified improvement among the best-scored moves, if any."""
        problem, limit = self.problem, self.settings.n_verified
        z = problem.margins(w)
        u = problem.sample_weight * problem.loss.weight(z)
        q = problem.sample_weight * problem.loss.curvature(z)
        total = float(q.sum())
        rows = self._support(w)  # kept columns, then free ones
        G = np.empty((len(rows), problem.n_columns))
        gram(problem.A, rows, self.columns, q, G)
        is_model = w[rows] > 0
        may_add = problem.cardinality(w) < self.limit
        scores, drops, adds = rank_moves(
            G[is_model],
            rows[is_model],
            w,
            problem.edges(u),
            total,
            problem.nu,
            self.price,
            may_add,
            limit,
        )
        # Scores are estimates: look a little beyond those that promise a gain.
        hopeless = max(0.5 * problem.lam, 0.02 * abs(value))
        for rank, (score, drop, add) in enumerate(zip(scores, drops, adds, strict=True)):
            if not np.isfinite(score) or (score > hopeless and rank >= 3):
                break
            trial, trial_value = self._move(w, value, rows, G, total, int(drop), int(add))
            if trial_value < value - IMPROVEMENT:
                return trial, trial_value
        return None

    def _move(
        self,
        w: np.ndarray,
        value: float,
        rows: np.ndarray,
        G: np.ndarray,
        total: float,
        drop: int,
        add: int,
    ) -> tuple[np.ndarray, float]:
        """Refit after a move, with the Hessian put together from G."""
        stay = np.flatnonzero(rows != drop)
        support = rows[stay]
        if add >= 0:
            support = np.append(support, add)
        H = np.empty((len(support), len(support)))
        k = len(stay)
        H[:k] = G[np.ix_(stay, support)]
        if add >= 0:
            H[k, :k] = H[:k, k]
            H[k, k] = total
        H[np.diag_indices(len(support))] += 1e-7 * total + 1e-12
        return self._refit(support, w, H, value)

    def _refit(
        self,
        support: np.ndarray,
        start: np.ndarray,
        hessian: np.ndarray | None = None,
        incumbent: float = np.inf,
    ) -> tuple[np.ndarray, float]:
        self.n_evaluations += 1
        fixed = self.problem.lam * self.problem.cost[support].sum()
        w, value = refit_value(
            self.problem, support, start, tol=1e-6, hessian=hessian, target=incumbent - fixed
        )
        return w, value + self.problem.lam * float(self.problem.cost[w > 0].sum())

    def _support(self, w: np.ndarray) -> np.ndarray:
        return np.concatenate([self.priced[w[self.priced] > 0], self.problem.free])

    def _cut(self, w: np.ndarray) -> np.ndarray:
        """Keep at most ``limit`` priced columns, those of largest weight."""
        kept = self.priced[w[self.priced] > 0]
        if len(kept) <= self.limit:
            return w
        w = w.copy()
        w[kept[np.argsort(-w[kept], kind="stable")[self.limit :]]] = 0.0
        return w
