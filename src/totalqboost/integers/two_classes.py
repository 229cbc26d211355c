"""The objective of the master problem as a function of signed intercepts and of weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from totalqboost.fixed_point import top_integers
from totalqboost.integers.search import search_integers
from totalqboost.master import MasterProblem

__all__ = ["TwoClasses", "integer_weights"]

BLOCK = 1 << 22  # margins that are computed at a time


def integer_weights(
    problem: MasterProblem, w: np.ndarray, n_bits: int, is_quick: bool = False
) -> tuple[np.ndarray, float]:
    """Return integers times a scale, and the scale, for the columns that real weights w keep.

    ``w`` is the optimum over real numbers; the answer minimises the same objective over integers
    and scales, as far as the search finds. A column may lose its weight, none gets a new one.
    """
    support = np.union1d(np.flatnonzero(w > 0), problem.free)
    objective = TwoClasses(problem.columns(support), n_bits)
    found = search_integers(objective, objective.joined(w[support]), is_quick)
    integers = np.zeros(problem.n_columns)
    integers[support] = found.scale * objective.spread(found.q)
    return integers, found.scale


class TwoClasses:
    """F of :class:`MasterProblem` with one signed weight for the two columns of an intercept.

    Parameters
    ----------
    problem : MasterProblem
        Over the columns that may be kept.
    n_bits : int
        Of the signed integers; see :func:`totalqboost.fixed_point.top_integers`.
    """

    def __init__(self, problem: MasterProblem, n_bits: int):
        self.problem = problem.merged()
        self.opposite = problem.intercepts[:, 1]
        self.columns = np.setdiff1d(np.arange(problem.n_columns), self.opposite)
        self.is_signed = np.isin(self.columns, problem.intercepts[:, 0])
        self.top = top_integers(n_bits, self.is_signed)
        self.nus = problem.nus[self.columns]

    def joined(self, w: np.ndarray) -> np.ndarray:
        """Return signed weights of the weights of all columns."""
        x: np.ndarray = w[self.columns].astype(float)
        x[self.is_signed] -= w[self.opposite]
        return x

    def spread(self, x: np.ndarray) -> np.ndarray:
        """Return weights >= 0 of all columns."""
        w = np.zeros(self.problem.n_columns, dtype=x.dtype)
        w[self.columns] = np.maximum(x, 0)
        w[self.opposite] = np.maximum(-x[self.is_signed], 0)
        return w

    def values(self, W: np.ndarray) -> np.ndarray:
        """Return the objective of each row of signed weights."""
        problem = self.problem
        c, loss, A = problem.sample_weight, problem.loss, problem.A[self.columns]
        total = np.abs(W) @ self.nus + np.array([self._price(w) for w in W])
        n = max(1, BLOCK // max(len(W), 1))
        with np.errstate(over="ignore"):
            for i in range(0, problem.n_rows, n):
                Z = W @ A[:, i : i + n]
                total += loss.value(Z) @ c[i : i + n]
        return total

    def _price(self, x: np.ndarray) -> float:
        w = self.spread(x)
        return self.problem.price(w) if self.problem.is_feasible(w) else np.inf

    def slopes(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and Hessian of risk and l1 term."""
        u, q = self.problem.weights_and_curvature(self.spread(w))
        A = self.problem.A[self.columns].astype(float)
        return self.nus * np.sign(w) - A @ u, (A * q) @ A.T

    def along(self, w: np.ndarray) -> Callable[[float], tuple[float, float]]:
        """Return slope and curvature of the objective at t w."""
        problem = self.problem
        c, loss = problem.sample_weight, problem.loss
        z, nu = problem.margins(self.spread(w)), float(self.nus @ np.abs(w))

        def slopes(t: float) -> tuple[float, float]:
            with np.errstate(over="ignore", invalid="ignore"):
                first = nu - float(c @ (loss.weight(t * z) * z))
                return first, float(c @ (loss.curvature(t * z) * z * z))

        return slopes
