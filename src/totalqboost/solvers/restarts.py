"""Where the next tabu search starts: two schemes of Palubeckis, for any loss.

Iterated tabu search (Informatica 17 (2006), 279-296) perturbs the best point by a random number
of moves, each drawn from the few best. MST2 (Annals of Operations Research 131 (2004), 259-282)
goes on from the point where the last search ended: a constructive step over a share of the
variables, then steepest ascent; see :mod:`totalqboost.kernels.mst2`.
"""

from __future__ import annotations

import numpy as np

from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.kernels.mst2 import draw, flip_gains, look, most_decided, shift
from totalqboost.kernels.neighbourhood import LEAST_CURVATURE, N_BEST
from totalqboost.solvers.walk import Walk

__all__ = ["construct", "perturb"]

SHARE = 0.4  # of the variables that a restart may change (alpha of MST2)
LEAST = 10  # variables of a restart, if there are as many


def perturb(walk: Walk, levels: np.ndarray, rng: np.random.Generator, limit: int) -> int:
    """Move ``levels`` by moves drawn from the best few, at most ``limit``; return their number."""
    most = max(2, int(SHARE * walk.n_variables))
    n_moves = min(limit, int(rng.integers(min(LEAST, most), most, endpoint=True)))
    never_back = np.full(n_moves, n_moves + 1)
    walk.run(levels, -np.inf, never_back, rng.integers(0, N_BEST, size=n_moves))
    return n_moves


def construct(walk: Walk, levels: np.ndarray, rng: np.random.Generator, limit: int) -> int:
    """Make the next start of MST2 of ``levels``, in place; return the evaluations, below ``limit``.

    Both steps evaluate a point per variable, and ascent one more.
    """
    share = max(LEAST, int(SHARE * walk.n_variables))
    n_flips = min(share, walk.n_variables, (limit - 1) // 2)
    if n_flips < 1:
        return 0
    chances = rng.random(n_flips)
    upper, is_open = _select(walk, levels, chances)
    n_open = int(np.count_nonzero(is_open))
    _ascend(walk, levels, upper, is_open)
    return min(n_open + 1, n_flips) + n_open + 1


def _select(walk: Walk, levels: np.ndarray, chances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a point with variables flipped in turn, drawn by their gains, and which they are."""
    point = _Point(walk, levels)
    is_taken = np.zeros(walk.n_variables, dtype=bool)
    for chance in chances:
        k = draw(point.gains(), is_taken, chance)
        if k < 0:  # limits leave no variable
            break
        is_taken[k] = True
        point.flip(k)
    return point.levels, is_taken


def _ascend(walk: Walk, levels: np.ndarray, upper: np.ndarray, is_open: np.ndarray) -> None:
    """Decide which of the open variables of ``levels`` become those of ``upper``, in place."""
    low, high = _Point(walk, levels), _Point(walk, upper)
    is_open = is_open.copy()
    for _ in range(np.count_nonzero(is_open)):
        k, flips = most_decided(low.gains(), high.gains(), is_open)
        is_open[k] = False
        (low if flips else high).flip(k)
    levels[:] = low.levels


class _Point:
    """Levels with what the flip of each variable gains, which is computed when it is asked for."""

    def __init__(self, walk: Walk, levels: np.ndarray):
        problem, shape = walk.problem, (len(levels), walk.per_column)
        self.walk, self.levels = walk, levels.copy()
        self.z = problem.margins(walk.step * levels)
        self.u, self.q = np.empty(problem.n_rows), np.empty(problem.n_rows)
        self.s = np.empty(problem.n_columns)
        self.counts = np.empty(len(problem.groups.price), dtype=np.int64)
        self.gain, self.to = np.empty(shape), np.empty(shape, dtype=np.int64)
        self.is_known = False

    def gains(self) -> np.ndarray:
        """Return what each flip gains, -inf where a limit forbids it."""
        if not self.is_known:
            self._look()
            self.is_known = True
        return self.gain.ravel()

    def flip(self, k: int) -> None:
        """Flip one variable."""
        walk = self.walk
        j, to = k // walk.per_column, self.to.ravel()[k]
        shift(walk.problem.A, self.z, self.levels, walk.step, j, to)
        self.is_known = False

    def _look(self) -> None:
        walk, problem = self.walk, self.walk.problem
        c, loss = problem.sample_weight, problem.loss
        if loss.code == CUSTOM:
            f = float(c @ loss.value(self.z))
            self.s = problem.edges(c * loss.weight(self.z))
            total = max(float((c * loss.curvature(self.z)).sum()), LEAST_CURVATURE)
        else:
            f, total = look(loss.code, problem.A, c, self.z, self.u, self.q, self.s)
        prices = problem.nus, walk.price, problem.groups, walk.limit
        grid = walk.step, walk.n_bits, walk.by_bits, self.counts, self.gain, self.to
        flip_gains(loss.code, self.levels, f, self.s, total, *prices, *grid)
