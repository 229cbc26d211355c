"""Multistart tabu search over fixed-point weights: the solver of the paper's experiments.

The weights are w_j = step_j * (an integer of n_bits), as quantum hardware would hold them
("Discrete Weight Variables" in section 3). The multistart scheme is MST2 of Palubeckis
(2004): a tabu search from a starting point, then a new starting point made from the best
one by a random number of moves, each drawn from the few best, and so on until the budget
is spent. One product A u scores all neighbours of a point: one evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from totalqboost.fixed_point import MAX_BITS, check_depth, grid_step, nearest_levels, top_level
from totalqboost.interruption import unwrapped_interruption
from totalqboost.kernels.loss_codes import EXPONENTIAL
from totalqboost.kernels.neighbourhood import N_BEST, tabu_walk
from totalqboost.master import MasterProblem
from totalqboost.parameters import check_integer
from totalqboost.refit import refit
from totalqboost.solving import Interrupted, MasterSolver, Solution, Status, better_of

__all__ = ["TabuSearch"]


@dataclass(frozen=True)
class TabuSearch(MasterSolver):
    """Multistart tabu search (MST2) over fixed-point weights, then a continuous refit.

    Parameters
    ----------
    n_bits : int or "auto"
        Depth of the weights. "auto" deepens until the discrete optimum without the
        cardinality penalty reaches the continuous one within ``tol``.
    moves : {"levels", "bits"}
        A move sets one weight to its best level or to zero ("levels"), or flips one bit,
        as in the paper ("bits").
    max_evaluations : int
        Budget in moves; each scores the whole neighbourhood by one product.
    moves_per_start : int, optional
        Length of one tabu search; by default 10 times the number of columns, at least 100.
    tenure : int, optional
        How long a variable that entered or left stays tabu: min(20, a quarter of the
        variables) by default.
    tol : float
        Used by ``n_bits="auto"``.
    """

    n_bits: int | str = 6
    moves: str = "levels"
    max_evaluations: int = 5_000
    moves_per_start: int | None = None
    tenure: int | None = None
    tol: float = 5e-4

    def __post_init__(self) -> None:
        if self.moves not in ("levels", "bits"):
            raise ValueError(f"moves must be 'levels' or 'bits', got {self.moves!r}")
        check_depth(self.n_bits)
        check_integer("max_evaluations", self.max_evaluations, 1)
        for name in ("tenure", "moves_per_start"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 1, " or None")

    def solve(
        self,
        problem: MasterProblem,
        start: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> Solution:
        """Return the best weights found; never worse than ``start`` or the empty ensemble."""
        rng = np.random.default_rng(0) if rng is None else rng
        start = problem.checked_start(start)
        best = Solution(np.zeros(problem.n_columns), np.inf, status=Status.BUDGET_SPENT)
        for w in [best.w] if start is None else [best.w, start]:
            best = better_of(problem, best, w)
        if problem.n_columns == 0:
            return replace(best, status=Status.LOCAL_OPTIMUM, note="no columns")
        used = 0
        try:
            with unwrapped_interruption():
                merged = problem.merged()
                continuous = refit(merged, np.arange(problem.n_columns), start, tol=1e-6)
                n_bits, used = self._depth(merged, continuous)
                seen = np.maximum(continuous, best.w)
                is_first = True
                while used < self.max_evaluations:
                    walk = _Walk(merged, seen, n_bits, self.moves == "bits")
                    levels = walk.round(best.w)
                    if not is_first:
                        used += walk.diversify(levels, rng, self.max_evaluations - used)
                    is_first = False
                    n_moves = min(self._length(merged), self.max_evaluations - used)
                    if n_moves < 1:
                        break
                    tenure = self._tenure(len(levels) * walk.per_column)
                    found = walk.search(levels, best.objective, n_moves, tenure, rng)
                    used += n_moves
                    support = np.union1d(np.flatnonzero(found > 0), problem.free)
                    w = refit(merged, support, walk.step * found, tol=1e-8)
                    seen = np.maximum(0.5 * seen, w)  # ranges follow the continuous solutions
                    best = better_of(problem, best, w)
        except KeyboardInterrupt:
            best = replace(best, n_evaluations=used, status=Status.INTERRUPTED)
            raise Interrupted(best) from None
        return replace(best, n_evaluations=used)

    def _length(self, problem: MasterProblem) -> int:
        """Return the moves of one walk."""
        return self.moves_per_start or max(100, 10 * problem.n_columns)

    def _tenure(self, n_variables: int) -> int:
        return self.tenure if self.tenure is not None else max(1, min(20, n_variables // 4))

    def _depth(self, problem: MasterProblem, continuous: np.ndarray) -> tuple[int, int]:
        """Return the number of bits to use, and the moves spent on finding it."""
        if self.n_bits != "auto":
            return int(self.n_bits), 0
        n = problem.n_columns
        risk_only = problem.unpriced()
        goal = risk_only.objective(continuous) + self.tol
        used = 0
        for n_bits in range(2, MAX_BITS + 1):
            if used + 2 * n > self.max_evaluations // 2:  # leave moves for the search itself
                return n_bits, used
            walk = _Walk(risk_only, continuous, n_bits, False)
            levels = walk.round(continuous)
            found = walk.search(levels, -np.inf, 2 * n, 1, np.random.default_rng(0))
            used += 2 * n
            if risk_only.objective(walk.step * found) <= goal:
                return n_bits, used
        return MAX_BITS, used


class _Walk:
    """Tabu walks on one grid of fixed-point weights."""

    def __init__(self, problem: MasterProblem, seen: np.ndarray, n_bits: int, by_bits: bool):
        self.problem = problem
        self.step = grid_step(seen, problem.cost == 0, n_bits)  # the grid holds weights seen
        self.n_bits = n_bits
        self.by_bits = by_bits
        self.per_column = n_bits if by_bits else 1
        self.price = np.where(problem.cost > 0, problem.prices, -1.0)
        limit = problem.max_learners
        self.limit = problem.n_columns if limit is None else limit

    def round(self, w: np.ndarray) -> np.ndarray:
        """Return the nearest levels; a kept column keeps at least one step."""
        return nearest_levels(w, self.step, self.n_bits, lowest=w > 0)

    def diversify(self, levels: np.ndarray, rng: np.random.Generator, limit: int) -> int:
        """Make a new starting point in place: moves drawn from the best few (MST2)."""
        n_variables = len(levels) * self.per_column
        most = max(2, int(0.4 * n_variables))
        n_moves = min(limit, int(rng.integers(min(10, most), most, endpoint=True)))
        never_back = np.full(n_moves, n_moves + 1)
        self._run(levels, -np.inf, never_back, rng.integers(0, N_BEST, size=n_moves))
        return n_moves

    def search(
        self,
        levels: np.ndarray,
        target: float,
        n_moves: int,
        tenure: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Return the best levels on a tabu search from ``levels`` (which it moves)."""
        tenures = tenure + rng.integers(0, max(1, tenure // 2) + 1, size=n_moves)
        return self._run(levels, target, tenures, np.zeros(n_moves, dtype=np.int64))

    def _run(
        self, levels: np.ndarray, target: float, tenures: np.ndarray, ranks: np.ndarray
    ) -> np.ndarray:
        problem = self.problem
        best = levels.copy()
        if problem.loss.code == EXPONENTIAL:
            given = problem.A, problem.sample_weight, problem.nus, self.price, problem.groups
            grid = self.step, self.n_bits, self.by_bits, self.limit
            tabu_walk(*given, *grid, levels, target, tenures, ranks, best)
        else:
            self._run_any_loss(levels, target, tenures, ranks, best)
        return best

    def _run_any_loss(
        self,
        levels: np.ndarray,
        target: float,
        tenures: np.ndarray,
        ranks: np.ndarray,
        best: np.ndarray,
    ) -> None:
        """Do what ``tabu_walk`` does, for any loss: second-order scores, then exact ones."""
        problem = self.problem
        c, loss = problem.sample_weight, problem.loss
        tabu_until = np.zeros(len(levels) * self.per_column, dtype=np.int64)
        z = problem.margins(self.step * levels)
        best_value = problem.objective(self.step * levels) if self._is_within(levels) else np.inf
        for t, (tenure, rank) in enumerate(zip(tenures, ranks, strict=True)):
            s = problem.edges(c * loss.weight(z))
            total = max(float((c * loss.curvature(z)).sum()), 1e-12)
            columns, variables, to = self._neighbours(levels, s, total)
            fixed = problem.penalty(self.step * levels)
            d = (to - levels[columns]) * self.step[columns]
            entered = (to > 0).astype(int) - (levels[columns] > 0)
            penalty = problem.nus[columns] * d + entered * np.maximum(self.price[columns], 0.0)
            if problem.has_groups:
                penalty += np.where(entered != 0, self._features(levels)[0][columns], 0.0)
            scores = penalty - s[columns] * d + 0.5 * total * d * d
            order = np.argsort(scores, kind="stable")
            exact: list[tuple[float, int]] = []
            for e in order:
                if len(exact) >= N_BEST:
                    break
                value = float(c @ loss.value(z + d[e] * problem.A[columns[e]])) + fixed + penalty[e]
                if tabu_until[variables[e]] <= t or value < min(best_value, target) - 1e-9:
                    exact.append((value, int(e)))
            if not exact:
                continue
            value, e = sorted(exact)[min(int(rank), len(exact) - 1)]
            j = columns[e]
            z = z + d[e] * problem.A[j]
            levels[j] = to[e]
            stay = tenure if self.by_bits or entered[e] else 1
            tabu_until[variables[e]] = t + 1 + stay
            if value < best_value - 1e-9 and self._is_within(levels):
                best_value = value
                best[:] = levels

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

    def _is_within(self, levels: np.ndarray) -> bool:
        """Tell whether no limit is exceeded; a walk may start beyond one."""
        return self.problem.is_feasible(self.step * levels)
