"""The restricted master problem (RMP): its objective, its dual and the gap, stated once.

    F(w) = sum_i c_i l(z_i) + sum_j nu_j w_j + sum_j (lam cost_j + fee_j) [w_j > 0]
           + sum_g feature_price_g [some w_j > 0 whose column reads g],   z = A' w,   w >= 0

This is eq. (3) of the paper with normalised sample weights c, over the columns generated
so far; A[j, i] = y_i h_j(x_i). A column of cost 0 is free: that is how an intercept enters. It
pays no nu either, but for a trace (:data:`FREE_NU`) that keeps its weight finite. A feature is
paid once, however many kept columns read it. Fees and feature prices do not shrink with lam.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from totalqboost import losses
from totalqboost.kernels.groups import NO_LIMIT, Groups
from totalqboost.kernels.loss_codes import CUSTOM, EXPONENTIAL
from totalqboost.kernels.newton import correlate, margins
from totalqboost.losses import Loss
from totalqboost.parameters import as_floats, check_integer, check_number

CHUNK = 65_536  # rows
FREE_NU = 1e-9  # most that a free column pays per unit of weight
NEARLY = 1e-6  # of the sum of u: edges that are over nu by less are so by rounding
PUSHES = 5  # points that are tried
SCALED = 1e-4  # of nu: to scale u by less costs a bound next to nothing
PER_COLUMN = ("A", "cost", "fee", "reads")
FIELDS = (
    *("A", "nu", "lam", "cost", "loss", "sample_weight", "max_learners"),
    *("fee", "reads", "feature_price", "max_features"),
)

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
    array = as_floats(name, values)
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


def _are_opposite(one: np.ndarray, other: np.ndarray) -> bool:
    if (one[:64] == other[:64]).any():  # a look before the long one: examples may be many
        return False
    return not (one + other).any()


def _checked_reads(values: Any, n_columns: int, is_free: np.ndarray) -> np.ndarray:
    reads = np.asarray(values)
    is_shaped = reads.ndim == 2 and len(reads) == n_columns
    if not is_shaped or not (reads.dtype == bool or np.isin(reads, (0, 1)).all()):
        raise ValueError(
            f"reads must be an array of shape ({n_columns}, n_features) of True and False, "
            f"got {reads.dtype} of shape {reads.shape}"
        )
    reads = np.ascontiguousarray(reads, dtype=bool)
    if (misfits := np.flatnonzero(reads.any(axis=1) & is_free)).size:
        raise ValueError(f"reads must be False for columns of cost 0, column {misfits[0]} reads")
    return reads


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
    fee : array of shape (n_columns,), default all zeros
        What a kept column pays beside ``lam`` times its cost, in units of the objective.
    reads : array of bool, shape (n_columns, n_features), optional
        Which features a column looks at; free columns look at none.
    feature_price : array of shape (n_features,), optional
        What a feature costs once some kept column reads it, in units of the objective.
    max_features : int, optional
        Hard limit on the number of features that kept columns read.

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
    fee: np.ndarray = None  # type: ignore[assignment]
    reads: np.ndarray | None = None
    feature_price: np.ndarray | None = None
    max_features: int | None = None

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
        self._check_features(cost == 0)
        self.__dict__.update(  # frozen: fields are set here and never again
            A=A,
            nu=nu,
            lam=lam,
            cost=cost,
            loss=losses.get(self.loss),
            sample_weight=normalised(self.sample_weight, m),
        )

    def _check_features(self, is_free: np.ndarray) -> None:
        """Check and fill fees, who reads which feature, and what features cost."""
        fee, reads, price = self.fee, self.reads, self.feature_price
        fee = np.zeros(len(is_free)) if fee is None else _checked_numbers(fee, "fee", len(is_free))
        if (misfits := np.flatnonzero((fee > 0) & is_free)).size:
            raise ValueError(f"fee must be 0 for columns of cost 0, column {misfits[0]} has one")
        if reads is None and not (price is None and self.max_features is None):
            raise ValueError("reads must be given with feature_price or max_features, got None")
        if reads is not None:
            reads = _checked_reads(reads, len(is_free), is_free)
            n = reads.shape[1]
            price = np.zeros(n) if price is None else _checked_numbers(price, "feature_price", n)
        with np.errstate(over="ignore"):
            if not np.isfinite(fee.sum() + (0.0 if price is None else price.sum())):
                raise ValueError("fee and feature_price must have finite sums")
        if self.max_features is not None:
            check_integer("max_features", self.max_features, 0)
        self.__dict__.update(fee=fee, reads=reads, feature_price=price)

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
        fee: np.ndarray | None = None,
        reads: np.ndarray | None = None,
        feature_price: np.ndarray | None = None,
        max_features: int | None = None,
    ) -> MasterProblem:
        """Return a problem of parts that are known to be right, without looking at them.

        A is int8 and contiguous, cost is float, sample_weight sums to one; so are fees and
        feature prices floats, and reads is bool.
        """
        if reads is not None and feature_price is None:
            feature_price = np.zeros(reads.shape[1])
        problem = object.__new__(cls)
        problem.__dict__.update(
            A=A,
            nu=nu,
            lam=lam,
            cost=cost,
            loss=loss,
            sample_weight=sample_weight,
            max_learners=max_learners,
            fee=np.zeros(len(cost)) if fee is None else fee,
            reads=reads,
            feature_price=feature_price,
            max_features=max_features,
        )
        return problem

    def changed(self, **fields: Any) -> MasterProblem:
        """Return the problem with other fields, which are trusted; see :meth:`trusted`."""
        return MasterProblem.trusted(**{name: self.__dict__[name] for name in FIELDS} | fields)

    def columns(self, index: Any) -> MasterProblem:
        """Return the problem over some of the columns: a slice, indices or a mask."""
        parts = {name: self.__dict__[name] for name in PER_COLUMN}
        return self.changed(
            **{k: None if part is None else part[index] for k, part in parts.items()}
        )

    def unpriced(self) -> MasterProblem:
        """Return the l1 problem: no column or feature has a price, and none are limited."""
        none = {"max_learners": None, "reads": None, "feature_price": None, "max_features": None}
        return self.changed(lam=0.0, fee=None, **none)

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
    def intercepts(self) -> np.ndarray:
        """Pairs of free columns that are each other's opposite, shape (n_intercepts, 2)."""
        pairs, rest = [], self.free.tolist()
        while rest:
            one = rest.pop(0)
            for other in rest:
                if _are_opposite(self.A[one], self.A[other]):
                    pairs.append((one, other))
                    rest.remove(other)
                    break
        return np.array(pairs, dtype=np.intp).reshape(-1, 2)

    @cached_property
    def prices(self) -> np.ndarray:
        """What each kept column pays, lam cost_j + fee_j; features that it reads come on top."""
        return self.lam * self.cost + self.fee

    @cached_property
    def groups(self) -> Groups:
        """Who reads which feature, for kernels; only features with a price or a limit are in it."""
        n = self.n_columns
        if self.reads is None or self.feature_price is None:
            return Groups(np.zeros(n + 1, np.int64), np.empty(0, np.int64), np.empty(0), NO_LIMIT)
        is_read = self.reads.any(axis=0)
        limit = NO_LIMIT if self.max_features is None else int(self.max_features)
        if limit >= np.count_nonzero(is_read):
            is_read &= self.feature_price > 0
            limit = NO_LIMIT
        columns, which = np.nonzero(self.reads[:, is_read])
        first = np.searchsorted(columns, np.arange(n + 1))
        return Groups(first, which.astype(np.int64), self.feature_price[is_read], limit)

    @property
    def has_groups(self) -> bool:
        """Whether features have a price, or a limit that may bind."""
        return self.reads is not None and len(self.groups.which) > 0

    @cached_property
    def group_reads(self) -> np.ndarray:
        """``reads`` of the features in :attr:`groups`, shape (n_columns, n_groups)."""
        first, which, price, _ = self.groups
        reads = np.zeros((self.n_columns, len(price)), dtype=bool)
        reads[np.repeat(np.arange(self.n_columns), np.diff(first)), which] = True
        return reads

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

    def n_features_read(self, w: np.ndarray) -> int:
        """Return how many features kept columns read; 0 where nobody said which they read."""
        if self.reads is None:
            return 0
        return int(np.count_nonzero(self.reads[np.asarray(w) > 0].any(axis=0)))

    def price(self, w: np.ndarray) -> float:
        """Return what the kept columns and the features that they read cost."""
        kept = w > 0
        price = float(self.lam * self.cost[kept].sum())
        if self._has_fees:
            price += float(self.fee[kept].sum())
        if self.reads is not None and self.feature_price is not None:
            price += float(self.feature_price[self.reads[kept].any(axis=0)].sum())
        return price

    @cached_property
    def _has_fees(self) -> bool:
        return bool(self.fee.any())

    def penalty(self, w: np.ndarray) -> float:
        """Return sum_j nu_j w_j and :meth:`price`; nu_j is nu unless j is free."""
        w = _of_size(w, "w", self.n_columns)
        return float(self.nus @ w) + self.price(w)

    def objective(self, w: np.ndarray) -> float:
        """Return F(w). Every solver's answer is re-scored with this function."""
        return self.risk(w) + self.penalty(w)

    def checked_start(self, start: np.ndarray | None) -> np.ndarray | None:
        """Return a starting point of a solver as floats; None stays None."""
        return None if start is None else _of_size(start, "start", self.n_columns)

    def is_feasible(self, w: np.ndarray) -> bool:
        """Tell whether w has a weight per column, finite, >= 0 and within the limits."""
        w = np.asarray(w, dtype=float)
        if w.shape != (self.n_columns,) or not (np.isfinite(w).all() and (w >= 0).all()):
            return False
        if self.max_features is not None and self.n_features_read(w) > self.max_features:
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
        """Return a lower bound of the l1 problem (no prices) from any u >= 0 of the dual.

        By Theorem 1 the dual is the same with and without lam, and other prices only raise F:
        maximise -sum_i c_i l*(-u_i / c_i) subject to A u <= nu. Free columns ask for
        A u <= about 0 (an intercept, with its two signs, for equality): the point is moved
        there first. Then it is scaled to satisfy the constraints of all columns, and by the
        best factor below that.
        """
        c = self.sample_weight
        u = _of_size(u, "u", self.n_rows)
        if not c.all():
            u = np.where(c > 0, u, 0.0)  # no weight, no variable
        value = self._least_conjugate(*self._inside(u))
        return -value - 1e-12 * abs(value)

    def _inside(self, u: np.ndarray) -> tuple[np.ndarray, float]:
        """Return u >= 0 near u, and the largest factor of at most 1 that keeps all constraints.

        Free columns get edges of zero but for rounding. Where the others are over nu by so little
        that u is next to the optimum, and by so much of nu that scaling would show, they are moved
        inside too: rounding leaves edges some 5e-9 above nu, half a percent of a nu of 1e-6. What
        moves some columns inside may move others out, so the best of a few tries counts.
        """
        is_free = self.cost == 0
        u = self._pushed(u, self.free, np.zeros(len(self.free)))
        tries: list[tuple[float, np.ndarray]] = []
        for _ in range(PUSHES):
            slack, edges = self._rounding(u), self.edges(u)
            total = edges + slack  # constraints must hold in exact arithmetic
            is_over = total > self.nus
            tries.append((float((self.nus[is_over] / total[is_over]).min(initial=1.0)), u))
            over = float((total - self.nus)[~is_free].max(initial=0.0))
            if not SCALED * self.nu < over < NEARLY * absolute_sum(u):
                break
            goals = np.where(is_free, 0.0, self.nus - 2 * slack)
            columns = np.flatnonzero(is_free | (edges > goals))
            u = self._pushed(u, columns, goals[columns])
        largest, u = max(tries, key=lambda pair: pair[0])
        return u, largest

    def _pushed(self, u: np.ndarray, columns: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Return u >= 0 near u at which these columns have at most these edges.

        Newton steps u (1 - t A) in the metric of u: for an intercept they rescale the two
        classes to equal weight.
        """
        for _ in range(4 if len(columns) else 0):
            edges = np.empty(len(columns))
            correlate(self.A, columns, u, edges)
            is_over = edges > goals
            if not is_over.any() or (edges + self._rounding(u) <= self.nus[columns]).all():
                break
            chosen, H = columns[is_over], 0.0
            parts = [slice(i, i + CHUNK) for i in range(0, self.n_rows, CHUNK)]
            for rows in parts:
                A = self.A[chosen, rows].astype(float)
                H = H + (A * u[rows]) @ A.T
            t, *_ = np.linalg.lstsq(H, (edges - goals)[is_over], rcond=1e-12)
            factors = [1.0 - t @ self.A[chosen, rows].astype(float) for rows in parts]
            u = u * np.maximum(np.concatenate(factors), 0.0)
        return u

    def _rounding(self, u: np.ndarray) -> float:
        """Return what a float64 sum of m terms may be off."""
        return 4.0 * self.n_rows * float(np.finfo(float).eps) * absolute_sum(u)

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

        value = conjugate(largest)
        if np.isinf(value):  # the largest factor inside the domain
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
