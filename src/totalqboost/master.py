"""The restricted master problem (RMP): its objective, its dual and the gap, stated once.

    F(w) = sum_i c_i l(z_i) + sum_j nu_j w_j + lam sum_j cost_j [w_j > 0],   z = A' w,   w >= 0

This is eq. (3) of the paper with normalised sample weights c, over the columns generated
so far; A[j, i] = y_i h_j(x_i). A column of cost 0 is free: that is how an intercept enters. It
pays no nu either, but for a trace (:data:`FREE_NU`) that keeps its weight finite.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from totalqboost import losses
from totalqboost.kernels.loss_codes import CUSTOM, EXPONENTIAL
from totalqboost.kernels.newton import correlate, margins
from totalqboost.losses import Loss
from totalqboost.parameters import check_integer, check_number

CHUNK = 65_536  # rows
FREE_NU = 1e-9  # most that a free column pays per unit of weight

__all__ = ["FREE_NU", "MasterProblem", "absolute_sum", "normalised"]


def absolute_sum(u: np.ndarray) -> float:
    """Return the sum of absolute values without a temporary array of the same size."""
    return float(sum(np.abs(u[i : i + CHUNK]).sum() for i in range(0, len(u), CHUNK)))


def normalised(weight: Any, n_rows: int, name: str = "sample_weight") -> np.ndarray:
    """Return sample weights c_i >= 0 that sum to one; None stands for equal ones."""
    if weight is None:
        return np.full(n_rows, 1.0 / n_rows)
    c = _checked_numbers(weight, name, n_rows)
    with np.errstate(over="ignore"):
        total = c.sum()
    if abs(total - 1.0) < 1e-12:
        return c  # dividing again would only cost a copy
    if not total > 0:
        raise ValueError(f"{name} must not be zero for every row")
    if np.isinf(total):  # numbers so large that their sum is none
        c = c / c.max()
        total = c.sum()
    return c / total


def _of_size(values: Any, name: str, size: int) -> np.ndarray:
    """Return the values as floats; a kernel would read beyond an array that is too short."""
    array = np.asarray(values, dtype=float)
    if array.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {array.shape}")
    return array


def _checked_numbers(values: Any, name: str, size: int) -> np.ndarray:
    array = _of_size(values, name, size)
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise ValueError(f"{name} must be finite and >= 0")
    return array


def _checked_signs(values: Any) -> np.ndarray:
    """Return A as int8; without copies where it is so already, for A may be large."""
    A = np.asarray(values)
    if A.ndim != 2:
        raise ValueError(f"A must have two dimensions (columns, rows), got shape {A.shape}")
    if A.shape[1] == 0:
        raise ValueError(f"A must have at least one row of examples, got shape {A.shape}")
    if A.dtype != np.int8:
        is_signs = bool(np.isin(A, (-1, 1)).all())
    else:
        is_signs = not A.size or (A.min() >= -1 and A.max() <= 1 and np.count_nonzero(A) == A.size)
    if not is_signs:
        raise ValueError("A must contain only -1 and +1")
    return np.ascontiguousarray(A, dtype=np.int8)


@dataclass(frozen=True, eq=False)
class MasterProblem:
    """Choose and weigh columns: a convex risk, an l1 term and a price per column kept.

    Parameters
    ----------
    A : array of int8, shape (n_columns, n_rows)
        A[j, i] = y_i h_j(x_i), +1 where column j classifies example i correctly, else -1.
    nu : float
        Weight of the l1 term. Positive, it keeps separable problems bounded. Free columns do
        not pay it.
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
        A = _checked_signs(self.A)
        n, m = A.shape
        nu, lam = check_number("nu", self.nu), check_number("lam", self.lam)
        cost = np.ones(n) if self.cost is None else _checked_numbers(self.cost, "cost", n)
        with np.errstate(over="ignore"):
            if not np.isfinite(lam * cost.sum()):
                raise ValueError(f"lam times the sum of costs must be finite, got lam={lam!r}")
        if self.max_learners is not None:
            check_integer("max_learners", self.max_learners, 0)
        self.__dict__.update(  # frozen: fields are set here and never again
            A=A,
            nu=nu,
            lam=lam,
            cost=cost,
            loss=losses.get(self.loss),
            sample_weight=normalised(self.sample_weight, m),
        )

    @classmethod
    def trusted(
        cls,
        A: np.ndarray,
        nu: float,
        lam: float,
        cost: np.ndarray,
        loss: Loss,
        sample_weight: np.ndarray,
        max_learners: int | None = None,
    ) -> MasterProblem:
        """Return a problem of parts that are known to be right, without looking at them.

        A is int8 and contiguous, cost is float, sample_weight sums to one.
        """
        problem = object.__new__(cls)
        problem.__dict__.update(
            A=A,
            nu=nu,
            lam=lam,
            cost=cost,
            loss=loss,
            sample_weight=sample_weight,
            max_learners=max_learners,
        )
        return problem

    def changed(self, **fields: Any) -> MasterProblem:
        """Return the problem with other fields, which are trusted; see :meth:`trusted`."""
        names = ("A", "nu", "lam", "cost", "loss", "sample_weight", "max_learners")
        return MasterProblem.trusted(**{name: self.__dict__[name] for name in names} | fields)

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

    @cached_property
    def intercept(self) -> np.ndarray | None:
        """The two free columns that are each other's opposite, if that is what is free."""
        free = self.free
        if len(free) == 2 and not (self.A[free[0]] + self.A[free[1]]).any():
            return free
        return None

    @cached_property
    def nus(self) -> np.ndarray:
        """What each column pays per unit of weight: nu, and next to nothing if it is free."""
        return np.where(self.cost > 0, self.nu, min(self.nu, FREE_NU))

    # -- primal ------------------------------------------------------------------------

    def margins(self, w: np.ndarray) -> np.ndarray:
        """Return z_i = y_i H_i w."""
        w = _of_size(w, "w", self.n_columns)
        z = np.empty(self.n_rows)
        kept = np.flatnonzero(w)
        margins(self.A, kept, w[kept], z)
        return z

    def risk(self, w: np.ndarray) -> float:
        """Return the empirical risk sum_i c_i l(z_i)."""
        return float(self.sample_weight @ self.loss.value(self.margins(w)))

    def cardinality(self, w: np.ndarray) -> int:
        """Return how many columns of positive cost are kept."""
        return int(np.count_nonzero((np.asarray(w) > 0) & (self.cost > 0)))

    def penalty(self, w: np.ndarray) -> float:
        """Return sum_j nu_j w_j + lam sum_j cost_j [w_j > 0]; nu_j is nu unless j is free."""
        w = _of_size(w, "w", self.n_columns)
        return float(self.nus @ w + self.lam * self.cost[w > 0].sum())

    def objective(self, w: np.ndarray) -> float:
        """Return F(w). Every solver's answer is re-scored with this function."""
        return self.risk(w) + self.penalty(w)

    def checked_start(self, start: np.ndarray | None) -> np.ndarray | None:
        """Return a starting point of a solver as floats; None stays None."""
        return None if start is None else _of_size(start, "start", self.n_columns)

    def is_feasible(self, w: np.ndarray) -> bool:
        """Tell whether w has a weight per column, finite, >= 0 and within ``max_learners``."""
        w = np.asarray(w, dtype=float)
        if w.shape != (self.n_columns,) or not (np.isfinite(w).all() and (w >= 0).all()):
            return False
        return self.max_learners is None or self.cardinality(w) <= self.max_learners

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
        correlate(self.A, np.arange(self.n_columns), _of_size(u, "u", self.n_rows), s)
        return s

    def dual_bound(self, u: np.ndarray) -> float:
        """Return a lower bound of the l1 problem (lam = 0) from any u >= 0 of the dual.

        By Theorem 1 the dual is the same with and without lam:
        maximise -sum_i c_i l*(-u_i / c_i) subject to A u <= nu. Free columns ask for
        A u <= about 0 (an intercept, with its two signs, for equality): the point is moved
        there first. Then it is scaled to satisfy the constraints of all columns, and by the
        best factor below that.
        """
        c = self.sample_weight
        u = _of_size(u, "u", self.n_rows)
        if not c.all():
            u = np.where(c > 0, u, 0.0)  # no weight, no variable
        u = self._free_of_edges(u)
        # Rounding of a float64 sum of m terms; the constraint must hold in exact arithmetic.
        slack = 4.0 * self.n_rows * np.finfo(float).eps * absolute_sum(u)
        edges = self.edges(u) + slack
        is_over = edges > self.nus
        largest = float((self.nus[is_over] / edges[is_over]).min(initial=1.0))
        value = self._least_conjugate(u, largest)
        return -value - 1e-12 * abs(value)

    def _free_of_edges(self, u: np.ndarray) -> np.ndarray:
        """Return u >= 0 near u at which no free column has an edge, as far as rounding goes.

        Newton steps u (1 - t A) in the metric of u: for an intercept they rescale the two
        classes to equal weight. Whatever comes out is a point of the dual.
        """
        for _ in range(4):
            A = self.A[self.free]
            excess = A @ u
            is_over = excess > 0
            if not is_over.any():
                break
            A = A[is_over].astype(float)
            t, *_ = np.linalg.lstsq((A * u) @ A.T, excess[is_over], rcond=1e-12)
            u = u * np.maximum(1.0 - t @ A, 0.0)
        return u

    def _least_conjugate(self, u: np.ndarray, largest: float) -> float:
        """Return the least of sum_i c_i l*(-t u_i / c_i) over factors 0 <= t <= largest."""
        c = self.sample_weight

        def conjugate(factor: float) -> float:
            total = 0.0
            for i in range(0, self.n_rows, CHUNK):  # keeps temporary arrays small
                part, weight = u[i : i + CHUNK], c[i : i + CHUNK]
                ratio = np.divide(part, weight, out=np.zeros_like(part), where=weight > 0)
                total += float(weight @ self.loss.conjugate(factor * ratio))
            return total

        if np.isinf(conjugate(largest)):  # the largest factor inside the domain
            low, high = 0.0, largest
            for _ in range(60):
                middle = (low + high) / 2
                low, high = (low, middle) if np.isinf(conjugate(middle)) else (middle, high)
            largest = low
        value = conjugate(largest)
        if not conjugate(0.99 * largest) > value:  # concave: then a smaller factor is better
            best = minimize_scalar(conjugate, bounds=(0.0, largest), method="bounded")
            value = min(value, float(best.fun))
        return value

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
        return self.changed(A=np.ascontiguousarray(self.A[:, first]), sample_weight=weight)
