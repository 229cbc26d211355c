"""The restricted master problem (RMP): its objective, its dual and the gap, stated once.

    F(w) = sum_i c_i l(z_i) + nu sum_j w_j + lam sum_j cost_j [w_j > 0],   z = A' w,   w >= 0

This is eq. (3) of the paper with normalised sample weights c, over the columns generated
so far; A[j, i] = y_i h_j(x_i). A column of cost 0 is free: that is how an intercept enters.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Protocol

import numpy as np
from scipy.optimize import minimize_scalar

from totalqboost import losses
from totalqboost.kernels.loss_codes import CUSTOM, EXPONENTIAL
from totalqboost.kernels.neighbourhood import correlate
from totalqboost.kernels.newton import margins
from totalqboost.losses import Loss

CHUNK = 65_536  # rows

__all__ = ["MasterProblem", "MasterSolver", "Solution", "SolverError", "solve"]


def absolute_sum(u: np.ndarray) -> float:
    """Return the sum of absolute values without a temporary array of the same size."""
    return float(sum(np.abs(u[i : i + CHUNK]).sum() for i in range(0, len(u), CHUNK)))


@dataclass(frozen=True, eq=False)
class MasterProblem:
    """Choose and weigh columns: a convex risk, an l1 term and a price per column kept.

    Parameters
    ----------
    A : array of int8, shape (n_columns, n_rows)
        A[j, i] = y_i h_j(x_i), +1 where column j classifies example i correctly, else -1.
    nu : float
        Weight of the l1 term. Small and positive: it keeps separable problems bounded.
    lam : float
        Price of one column of cost 1.
    cost : array of shape (n_columns,), default all ones
        Multiplies ``lam``; 0 makes a column free.
    loss : str or Loss
        Loss of the margin.
    sample_weight : array of shape (n_rows,), default uniform
        Normalised to sum to one.
    max_learners : int, optional
        Hard limit on the number of kept columns of positive cost.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> problem = MasterProblem(np.array([[1, 1, -1], [1, -1, 1]]), nu=1e-3, lam=0.01)
    >>> round(problem.objective(np.array([0.3, 0.0])), 4)
    0.9541
    """

    A: np.ndarray
    nu: float = 1e-6
    lam: float = 0.0
    cost: np.ndarray = None  # type: ignore[assignment]  # filled in __post_init__
    loss: Loss = field(default_factory=losses.Exponential)
    sample_weight: np.ndarray = None  # type: ignore[assignment]
    max_learners: int | None = None

    def __post_init__(self) -> None:
        A = np.asarray(self.A)
        if A.ndim != 2:
            raise ValueError(f"A must have two dimensions (columns, rows), got shape {A.shape}")
        if A.dtype != np.int8:
            if not np.isin(A, (-1, 1)).all():
                raise ValueError("A must contain only -1 and +1")
            A = A.astype(np.int8)
        elif A.size and not (A.min() >= -1 and A.max() <= 1 and np.count_nonzero(A) == A.size):
            raise ValueError("A must contain only -1 and +1")  # no copies: A may be large
        n, m = A.shape
        if m == 0:
            raise ValueError("A must have at least one row of examples, got shape " + str(A.shape))
        for name in ("nu", "lam"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be finite and >= 0, got {value!r}")
        cost = np.ones(n) if self.cost is None else np.asarray(self.cost, dtype=float)
        weight = np.ones(m) if self.sample_weight is None else np.asarray(self.sample_weight, float)
        for name, array, size in (("cost", cost, n), ("sample_weight", weight, m)):
            if array.shape != (size,):
                raise ValueError(f"{name} must have shape ({size},), got {array.shape}")
            if not (np.isfinite(array).all() and (array >= 0).all()):
                raise ValueError(f"{name} must be finite and >= 0")
        if weight.sum() <= 0:
            raise ValueError("sample_weight must not be zero for every row")
        limit = self.max_learners
        if limit is not None and not (isinstance(limit, Integral) and limit >= 0):
            raise ValueError(f"max_learners must be a whole number >= 0 or None, got {limit!r}")
        set_field = object.__setattr__  # frozen: fields are set here and never again
        set_field(self, "A", np.ascontiguousarray(A))
        set_field(self, "nu", float(self.nu))
        set_field(self, "lam", float(self.lam))
        set_field(self, "cost", cost)
        set_field(self, "loss", losses.get(self.loss))
        total = weight.sum()
        is_normal = abs(total - 1.0) < 1e-12  # dividing again would only cost a copy
        set_field(self, "sample_weight", weight if is_normal else weight / total)

    @property
    def n_columns(self) -> int:
        return self.A.shape[0]

    @property
    def n_rows(self) -> int:
        return self.A.shape[1]

    @cached_property
    def free(self) -> np.ndarray:
        """Indices of the columns that cost nothing."""
        return np.flatnonzero(self.cost == 0)

    @staticmethod
    def _checked(array: np.ndarray, name: str, size: int) -> np.ndarray:
        """Return the array as floats; a kernel would read beyond one that is too short."""
        array = np.asarray(array, dtype=float)
        if array.shape != (size,):
            raise ValueError(f"{name} must have shape ({size},), got {array.shape}")
        return array

    # -- primal ------------------------------------------------------------------------

    def margins(self, w: np.ndarray) -> np.ndarray:
        """Return z_i = y_i H_i w."""
        w = self._checked(w, "w", self.n_columns)
        z = np.empty(self.n_rows)
        rows = np.flatnonzero(w)
        margins(self.A, rows, w[rows], z)
        return z

    def risk(self, w: np.ndarray) -> float:
        """Return the empirical risk sum_i c_i l(z_i)."""
        return float(self.sample_weight @ self.loss.value(self.margins(w)))

    def cardinality(self, w: np.ndarray) -> int:
        """Return how many columns of positive cost are kept."""
        return int(np.count_nonzero((np.asarray(w) > 0) & (self.cost > 0)))

    def penalty(self, w: np.ndarray) -> float:
        """Return nu sum_j w_j + lam sum_j cost_j [w_j > 0]."""
        w = np.asarray(w, dtype=float)
        return float(self.nu * w.sum() + self.lam * self.cost[w > 0].sum())

    def objective(self, w: np.ndarray) -> float:
        """Return F(w). Every solver's answer is re-scored with this function."""
        return self.risk(w) + self.penalty(w)

    def checked_start(self, start: np.ndarray | None) -> np.ndarray | None:
        """Return a starting point of a solver as floats; None stays None."""
        if start is None:
            return None
        start = np.asarray(start, dtype=float)
        if start.shape != (self.n_columns,):
            raise ValueError(
                f"start must hold {self.n_columns} weights, one per column, got shape {start.shape}"
            )
        return start

    def is_feasible(self, w: np.ndarray) -> bool:
        """Tell whether w is finite, non-negative and within ``max_learners``."""
        w = np.asarray(w, dtype=float)
        within = self.max_learners is None or self.cardinality(w) <= self.max_learners
        return bool(np.isfinite(w).all() and (w >= 0).all() and within)

    # -- dual --------------------------------------------------------------------------

    def dual_weights(self, w: np.ndarray) -> np.ndarray:
        """Return u_i = -c_i l'(z_i), the boosting weights of eq. (6)."""
        return self._weighted(self.loss.weight(self.margins(w)))

    def weights_and_curvature(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return u = -c l'(z) and c l''(z) at w: slope and curvature of the risk per row."""
        z = self.margins(w)
        u = self._weighted(self.loss.weight(z))
        if self.loss.code == EXPONENTIAL:
            return u, u  # l'' = -l'
        return u, self._weighted(self.loss.curvature(z))

    def _weighted(self, values: np.ndarray) -> np.ndarray:
        """Return c times the values: in place, for rows may be many, if they are ours."""
        is_ours = self.loss.code != CUSTOM
        return np.multiply(values, self.sample_weight, out=values if is_ours else None)

    def edges(self, u: np.ndarray) -> np.ndarray:
        """Return sum_i u_i y_i h_j(x_i) per column, the left side of eq. (5)."""
        s = np.empty(self.n_columns)
        correlate(self.A, self._checked(u, "u", self.n_rows), s)
        return s

    def dual_bound(self, u: np.ndarray) -> float:
        """Return a lower bound of the l1 problem (lam = 0) from any u >= 0 of the dual.

        By Theorem 1 the dual is the same with and without lam:
        maximise -sum_i c_i l*(-u_i / c_i) subject to A u <= nu. The point is scaled to
        satisfy the constraints of all columns, then by the best factor below that.
        """
        c = self.sample_weight
        u = self._checked(u, "u", self.n_rows)
        if not c.all():
            u = np.where(c > 0, u, 0.0)  # no weight, no variable
        # Rounding of a float64 sum of m terms; the constraint must hold in exact arithmetic.
        slack = 4.0 * self.n_rows * np.finfo(float).eps * absolute_sum(u)
        worst = (self.edges(u) + slack).max(initial=0.0)
        largest = 1.0 if worst <= self.nu else self.nu / worst

        def negative_dual(factor: float) -> float:
            total = 0.0
            for i in range(0, self.n_rows, CHUNK):  # keeps temporary arrays small
                part, weight = u[i : i + CHUNK], c[i : i + CHUNK]
                ratio = np.divide(part, weight, out=np.zeros_like(part), where=weight > 0)
                total += float(weight @ self.loss.conjugate(factor * ratio))
            return total

        if np.isinf(negative_dual(largest)):  # the largest factor inside the domain
            low, high = 0.0, largest
            for _ in range(60):
                middle = (low + high) / 2
                low, high = (low, middle) if np.isinf(negative_dual(middle)) else (middle, high)
            largest = low
        value = negative_dual(largest)
        if not negative_dual(0.99 * largest) > value:  # concave: then a smaller factor is better
            best = minimize_scalar(negative_dual, bounds=(0.0, largest), method="bounded")
            value = min(value, float(best.fun))
        return -value - 1e-12 * abs(value)

    # -- a smaller form ----------------------------------------------------------------

    def merged(self) -> MasterProblem:
        """Return the same problem with identical rows of examples merged, weights added.

        Rows are grouped by refining a partition column by column. Where fewer than three
        rows in four would go, the copy is not worth its memory and self is returned.
        """
        group = np.zeros(self.n_rows, dtype=np.int32)
        size = 1
        for column in self.A:
            group *= 2  # in place: rows may be many
            group += column > 0
            present = np.zeros(2 * size, dtype=bool)
            present[group] = True
            label = np.cumsum(present, dtype=np.int32) - 1
            size = int(label[-1]) + 1
            if 4 * size > self.n_rows:
                return self
            group = label[group]
        first = np.empty(size, dtype=np.intp)
        first[group[::-1]] = np.arange(self.n_rows - 1, -1, -1)
        weight = np.bincount(group, weights=self.sample_weight, minlength=size)
        return replace(self, A=self.A[:, first], sample_weight=weight)


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights with their objective and, where known, a lower bound of the optimum.

    Attributes
    ----------
    w : array
        Weight per column, zero for those not kept.
    objective : float
        ``problem.objective(w)``.
    bound : float
        Lower bound of the optimal objective, -inf if none is known.
    n_evaluations : int
        Work done, in the solver's own unit (refits, scored neighbourhoods, nodes).
    status : str
        Why the solver stopped.
    """

    w: np.ndarray
    objective: float
    bound: float = -np.inf
    n_evaluations: int = 0
    status: str = "done"

    @property
    def gap(self) -> float:
        """Relative distance to the bound, (objective - bound) / |objective|."""
        if self.objective == self.bound:
            return 0.0
        return (self.objective - self.bound) / max(abs(self.objective), np.finfo(float).tiny)


class SolverError(RuntimeError):
    """A solver could not answer, e.g. a remote service failed.

    Boosting stops, puts what was done until then into ``result``, and lets the error pass.
    """

    result: Any = None


class MasterSolver(Protocol):
    """Line 10 of Algorithm 1: anything that turns a MasterProblem into a Solution."""

    def solve(
        self,
        problem: MasterProblem,
        start: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> Solution:
        """Return weights at least as good as ``start`` (the empty ensemble if None)."""


def solve(
    solver: MasterSolver,
    problem: MasterProblem,
    start: np.ndarray | None,
    rng: np.random.Generator,
) -> Solution:
    """Return the solver's answer, re-scored; weights that cannot be used are an error."""
    solution = solver.solve(problem, start=start, rng=rng)
    w = np.asarray(solution.w, dtype=float)
    if w.shape != (problem.n_columns,) or not problem.is_feasible(w):
        raise ValueError(
            f"{type(solver).__name__}.solve must return {problem.n_columns} finite weights >= 0"
            + (
                ""
                if problem.max_learners is None
                else f", at most {problem.max_learners} of them > 0"
            )
        )
    return replace(solution, w=w, objective=problem.objective(w))
