"""What the tree works on: the master problem without repeated columns and rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from totalqboost.master import MasterProblem

__all__ = ["Model", "equal_shares"]


@dataclass(frozen=True, eq=False)
class Model:
    """The problem behind the tree.

    Attributes
    ----------
    problem : MasterProblem
        Rows merged, without columns that a cheaper equal one makes useless.
    kept : array of int
        Their indices in the original problem.
    n_original : int
        Number of columns of the original problem.
    step : array
        Step of each fixed-point weight, 0 for continuous ones.
    top : array of int
        Largest number of steps of each fixed-point weight, 0 for continuous ones.
    """

    problem: MasterProblem
    kept: np.ndarray
    n_original: int
    step: np.ndarray
    top: np.ndarray

    @classmethod
    def of(
        cls,
        problem: MasterProblem,
        step: np.ndarray | None = None,
        top: np.ndarray | int = 0,
    ) -> Model:
        """Return the model of a problem."""
        n = problem.n_columns
        if step is None:  # two equal columns reach more levels than one: only here
            kept, step = _distinct(problem), np.zeros(n)
        else:
            kept = np.arange(n)
        smaller = problem.columns(kept).merged()
        return cls(smaller, kept, n, step[kept], np.broadcast_to(top, n)[kept])

    @property
    def is_grid(self) -> bool:
        """Whether weights are fixed-point numbers."""
        return bool(self.top.any())

    @cached_property
    def price(self) -> np.ndarray:
        """What each column pays, without the features that it reads."""
        return self.problem.prices

    @property
    def shared_price(self) -> np.ndarray:
        """What each column pays at least: of a feature, an equal share of all that read it."""
        return self.price + equal_shares(self.reads, self.feature_price)

    @cached_property
    def reads(self) -> np.ndarray:
        """Which column reads which of the features that have a price or are limited."""
        return self.problem.group_reads

    @property
    def feature_price(self) -> np.ndarray:
        return self.problem.groups.price

    @cached_property
    def limit(self) -> int:
        """Largest number of columns of positive cost."""
        n_priced = int(np.count_nonzero(self.problem.cost > 0))
        limit = self.problem.max_learners
        return n_priced if limit is None else min(limit, n_priced)

    @cached_property
    def is_limited(self) -> bool:
        """Tell whether the limit may bind."""
        return self.limit < int(np.count_nonzero(self.problem.cost > 0))

    @cached_property
    def decided(self) -> np.ndarray:
        """Columns about which there is nothing to decide: no price, and no limit that binds."""
        is_cheap = (self.price == 0) & (not self.is_limited)
        return (self.problem.cost == 0) | (is_cheap & ~self.reads.any(axis=1))

    @cached_property
    def opposite(self) -> np.ndarray:
        """The column with all signs turned, or -1.

        There is an optimal solution that never uses both: taking the smaller of the two
        weights off both leaves all margins as they are and costs nothing.
        """
        place = {column.tobytes(): j for j, column in enumerate(self.problem.A)}
        other = np.array([place.get((-column).tobytes(), -1) for column in self.problem.A], int)
        # The difference of two levels is a level of both if they have the same step.
        return np.where((other >= 0) & (self.step[other] == self.step), other, -1)

    @cached_property
    def units(self) -> np.ndarray:
        """Directions whose reach limits each weight: w_j, less that of its opposite."""
        units = np.eye(self.problem.n_columns)
        has_opposite = np.flatnonzero(self.opposite >= 0)
        units[has_opposite, self.opposite[has_opposite]] = -1.0
        return units

    def basis(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the place of the first equal of each column, up to a sign, and the sign.

        Columns are in order.
        """
        other = self.opposite[columns]
        is_second = (other < columns) & np.isin(other, columns)
        first = np.where(is_second, other, columns)
        return np.searchsorted(columns, first), np.where(is_second, -1.0, 1.0)

    def expand(self, w: np.ndarray) -> np.ndarray:
        """Return the weights of the original columns."""
        full = np.zeros(self.n_original)
        full[self.kept] = w
        return full

    def snap(self, hi: np.ndarray) -> np.ndarray:
        """Return upper limits of all weights, on a grid lowered to a multiple of the step."""
        return np.floor(hi / self.step + 1e-6) * self.step if self.is_grid else hi


def equal_shares(reads: np.ndarray, price: np.ndarray) -> np.ndarray:
    """Return what each column pays if those that read a feature share its price, rounded down."""
    return np.asarray(reads @ (price * (1.0 - 1e-12) / np.maximum(reads.sum(axis=0), 1)))


def _distinct(problem: MasterProblem) -> np.ndarray:
    """Return the cheapest of each set of equal columns, and those that ask for other features."""
    by_price = np.argsort(problem.cost, kind="stable")
    if problem.fee.any():  # one that is free pays less nu, too
        by_price = np.lexsort((problem.prices, problem.cost > 0))
    if not problem.has_groups:
        _, first = np.unique(problem.A[by_price], axis=0, return_index=True)
        return np.sort(by_price[first])
    reads, kept = problem.group_reads, dict[bytes, list[int]]()
    for j in by_price:
        equal = kept.setdefault(problem.A[j].tobytes(), [])
        if not any((reads[i] <= reads[j]).all() for i in equal):
            equal.append(int(j))
    return np.sort([j for equal in kept.values() for j in equal]).astype(np.intp)
