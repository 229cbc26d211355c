"""Tabu walks over fixed-point weights: compiled for the built-in losses, NumPy for others."""

from __future__ import annotations

import numpy as np

from totalqboost.fixed_point import Grid, top_level
from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.kernels.neighbourhood import LEAST_CURVATURE, N_BEST, tabu_walk
from totalqboost.master import MasterProblem

__all__ = ["Walk"]


class Walk:
    """Tabu walks on one grid of fixed-point weights.

    Parameters
    ----------
    problem : MasterProblem
        What is minimised.
    grid : Grid
        Depth and range of the weights.
    by_bits : bool
        Whether a move flips one bit, or sets one weight to its best level or to zero.
    """

    def __init__(self, problem: MasterProblem, grid: Grid, by_bits: bool):
        self.problem, self.grid, self.by_bits = problem, grid, by_bits
        self.step, self.n_bits = grid.step, grid.n_bits
        self.per_column = grid.n_bits if by_bits else 1
        self.n_variables = problem.n_columns * self.per_column
        self.price = np.where(problem.cost > 0, problem.prices, -1.0)
        limit = problem.max_learners
        self.limit = problem.n_columns if limit is None else min(limit, problem.n_columns)

    def run(
        self,
        levels: np.ndarray,
        target: float,
        tenures: np.ndarray,
        ranks: np.ndarray | None = None,
        descends: bool = False,
    ) -> np.ndarray:
        """Return the best levels of a walk from ``levels``, which it moves; see ``tabu_walk``."""
        problem = self.problem
        best = levels.copy()
        if ranks is None:
            ranks = np.zeros(len(tenures), dtype=np.int64)
        if problem.loss.code == CUSTOM:
            self._run_custom(levels, target, tenures, ranks, descends, best)
        else:
            given = problem.A, problem.sample_weight, problem.nus, self.price, problem.groups
            rules = self.step, self.n_bits, self.by_bits, self.limit, descends
            tabu_walk(problem.loss.code, *given, *rules, levels, target, tenures, ranks, best)
        return best

    def _run_custom(
        self,
        levels: np.ndarray,
        target: float,
        tenures: np.ndarray,
        ranks: np.ndarray,
        descends: bool,
        best: np.ndarray,
    ) -> None:
        """Do what ``tabu_walk`` does, for a loss that only Python knows."""
        problem = self.problem
        c, loss = problem.sample_weight, problem.loss
        tabu_until = np.zeros(self.n_variables, dtype=np.int64)
        z = problem.margins(self.step * levels)
        best_value, is_descending = np.inf, False
        for t in range(len(tenures) + 1):
            fixed = problem.penalty(self.step * levels)
            here = float(c @ loss.value(z)) + fixed
            if here < best_value - 1e-9 and self.is_within(levels):
                best_value, best[:] = here, levels
                if here < target:
                    target, is_descending = here, descends
            if t == len(tenures):
                return
            aspired = min(best_value, target) - 1e-9
            if descends:
                aspired = here - 1e-9 if is_descending else -np.inf
            columns, variables, to, d, penalty, scores = self._scored(levels, z)
            may_move = (tabu_until[variables] <= t) | (here + scores < aspired)
            exact: list[tuple[float, int]] = []
            for e in np.flatnonzero(may_move)[np.argsort(scores[may_move], kind="stable")][:N_BEST]:
                value = float(c @ loss.value(z + d[e] * problem.A[columns[e]])) + fixed + penalty[e]
                if tabu_until[variables[e]] <= t or value < aspired:
                    exact.append((value, int(e)))
            if not exact:
                is_descending = False
                continue
            exact.sort()
            is_descending = is_descending and exact[0][0] < aspired
            _, e = exact[min(int(ranks[t]), len(exact) - 1)]
            j = columns[e]
            if not is_descending:
                is_adjusted = not self.by_bits and (to[e] > 0) == (levels[j] > 0)
                tabu_until[variables[e]] = t + 1 + (1 if is_adjusted else tenures[t])
            z = z + d[e] * problem.A[j]
            levels[j] = to[e]

    def _scored(self, levels: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return column, variable, level, shift, penalty and second-order score of neighbours."""
        problem = self.problem
        c, loss = problem.sample_weight, problem.loss
        s = problem.edges(c * loss.weight(z))
        total = max(float((c * loss.curvature(z)).sum()), LEAST_CURVATURE)
        columns, variables, to = self._neighbours(levels, s, total)
        d = (to - levels[columns]) * self.step[columns]
        entered = (to > 0).astype(int) - (levels[columns] > 0)
        penalty = problem.nus[columns] * d + entered * np.maximum(self.price[columns], 0.0)
        if problem.has_groups:
            penalty += np.where(entered != 0, self._features(levels)[0][columns], 0.0)
        return columns, variables, to, d, penalty, penalty - s[columns] * d + 0.5 * total * d * d

    def _neighbours(
        self, levels: np.ndarray, s: np.ndarray, total: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return column, variable (a bit or the column) and new level of every neighbour."""
        n, top = len(levels), top_level(self.n_bits)
        if self.by_bits:
            to = levels[:, None] ^ (1 << np.arange(self.n_bits))
        else:
            shift = (s - self.problem.nus) / total  # minimises the second-order model
            best = np.clip(levels + np.rint(shift / self.step), 0, top).astype(np.int64)
            to = np.column_stack([best, np.zeros(n, dtype=np.int64)])
        columns = np.arange(to.size) // to.shape[1]
        variables = np.arange(to.size) if self.by_bits else columns
        to = to.ravel()
        priced = self.price >= 0
        kept = np.count_nonzero(levels[priced])
        grows = priced[columns] & (levels[columns] == 0) & (to > 0)
        allowed = (to != levels[columns]) & ~(grows & (kept >= self.limit))
        if self.problem.has_groups:
            _, n_new, spare = self._features(levels)
            allowed &= ~(grows & (n_new[columns] > max(spare, 0)))
        return columns[allowed], variables[allowed], to[allowed]

    def _features(self, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        """Return what features add to price and number per column that changes sides, and room."""
        reads, price = self.problem.group_reads, self.problem.groups.price
        kept = levels > 0
        counts = reads[kept].sum(axis=0)
        enters, leaves = (counts == 0).astype(float), (counts == 1).astype(float)
        change = np.where(kept, -(reads @ (leaves * price)), reads @ (enters * price))
        number = np.where(kept, -(reads @ leaves), reads @ enters)
        return change, number, self.problem.groups.limit - int(np.count_nonzero(counts))

    def is_within(self, levels: np.ndarray) -> bool:
        """Tell whether no limit is exceeded; a walk may start beyond one."""
        return self.problem.is_feasible(self.step * levels)

    def value(self, levels: np.ndarray) -> float:
        """Return the objective of the levels as they are."""
        return self.problem.objective(self.step * levels)
