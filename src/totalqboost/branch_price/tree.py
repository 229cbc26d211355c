"""The tree: sets of cuts, depth first, with a sweep over all pairs at its leaves."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from totalqboost.branch_price.cuts import Cuts
from totalqboost.branch_price.leaves import SLACK, Leaves
from totalqboost.kernels.cells import cell_risk, price_cuts, price_pairs
from totalqboost.solvers import certify
from totalqboost.solving import Status

__all__ = ["PriceProgress", "Stopped", "Tree"]

MAX_RELAXED = 200  # columns of a relaxation that takes seconds
PAIRS = 4096  # found in one call of the kernel, at first
SWEEP = 200_000_000  # cuts x rows x features of one call: some tenths of a second


class Stopped(Exception):  # noqa: N818
    """The budget is spent; ``status`` says which."""

    def __init__(self, status: Status):
        super().__init__(status.value)
        self.status = status


@dataclass(frozen=True)
class PriceProgress:
    """How far the search is: first cuts done and in all, branches, refits, best objective.

    Attributes
    ----------
    n_done, n_cuts : int
        First cuts that are done, and in all.
    n_branches, n_refits : int
        Work so far.
    objective : float
        The least so far.

    Examples
    --------
    >>> from totalqboost import BranchAndPrice, datasets
    >>> X, y = datasets.load("flare solar")
    >>> seen = []
    >>> _ = BranchAndPrice(on_progress=seen.append).solve(X, y, max_learners=3)
    >>> all(step.n_done <= step.n_cuts for step in seen)
    True
    """

    n_done: int
    n_cuts: int
    n_branches: int
    n_refits: int
    objective: float

    def __str__(self) -> str:
        return (
            f"{self.n_done} of {self.n_cuts} first cuts, {self.n_branches} branches, "
            f"{self.n_refits} refits, objective {self.objective:.6f}"
        )


class Tree:
    """Closes every set of cuts. What is not closed yet is never below ``open_bound``.

    It raises :class:`Stopped` after ``max_branches`` or at the ``deadline`` of the clock.
    Whenever it is stopped, by Ctrl-C too, its bound is valid.
    """

    def __init__(
        self,
        leaves: Leaves,
        max_branches: int | None,
        deadline: float,
        on_progress: Callable[[PriceProgress], None] | None,
    ):
        self.leaves, self.cuts = leaves, leaves.cuts
        self.code = leaves.problem.loss.code
        self.max_branches, self.deadline, self.on_progress = max_branches, deadline, on_progress
        self.finest_bound = self._bound(self.cuts.one_cell(), 0) - SLACK
        self.open_bound = self.finest_bound
        self.relaxed_bound = -math.inf
        self.n_branches = 0

    @property
    def bound(self) -> float:
        """Lower bound of the best objective over the whole dictionary."""
        # Sets that were cut off are not below the cutoff, but for rounding.
        proved = min(self.open_bound, self.leaves.bound, self.leaves.cutoff - SLACK)
        return max(proved, min(self.relaxed_bound, self.leaves.cutoff))

    def close(self, max_learners: int) -> None:
        """Close every set of at most max_learners cuts; constants count unless they are free."""
        k = min(max_learners, len(self.cuts))
        if self.leaves.fit_intercept:
            self._close(k, has_constant=True)
        else:  # sets with a constant and one cut less, and sets without a constant
            self._close(min(k, max_learners - 1), has_constant=True, waiting=self.finest_bound)
            self._close(k, has_constant=False)
        self.open_bound = math.inf

    def _close(self, k: int, has_constant: bool, waiting: float = math.inf) -> None:
        """Close all sets of k cuts; ``waiting`` is a bound of those whose turn comes later."""
        cell = self.cuts.one_cell()
        if k <= 1:
            self._close_single(k, has_constant)
        elif k == 2:
            self._close_pairs([], cell, has_constant)
        else:
            for j, bound in self._branches([], cell, k - 2):
                self.open_bound = min(bound - SLACK, waiting)
                self._tell(j)
                self._descend([j], self.cuts.split(cell, j), k - 3, has_constant)

    def _branches(
        self, prefix: list[int], cell: np.ndarray, depth: int
    ) -> Iterator[tuple[int, float]]:
        """Yield the cuts that go on from a prefix, with a bound of all sets from there on."""
        first = prefix[-1] + 1 if prefix else 0
        for j in range(first, len(self.cuts) - depth - 1):
            bound = self._bound(cell, j)  # grows with j
            if bound >= self.leaves.cutoff:
                return
            if self.max_branches is not None and self.n_branches >= self.max_branches:
                raise Stopped(Status.NODE_LIMIT)
            self._check_time()
            yield j, bound

    def _descend(self, prefix: list[int], cell: np.ndarray, depth: int, has_constant: bool) -> None:
        """Close all sets that continue the prefix with ``depth`` cuts and two more."""
        if depth == 0:
            self._close_pairs(prefix, cell, has_constant)
            return
        for j, _ in self._branches(prefix, cell, depth):
            self._descend([*prefix, j], self.cuts.split(cell, j), depth - 1, has_constant)

    def _bound(self, cell: np.ndarray, j: int) -> float:
        """Return the least that the cells can reach with any of the cuts from j on."""
        return self.cuts.bound(self.code, cell, self.cuts.later[j])

    def _close_pairs(self, prefix: list[int], cell: np.ndarray, has_constant: bool) -> None:
        self.n_branches += 1
        for pairs, bounds in self._priced(prefix, cell):
            for pair, bound in zip(pairs.tolist(), bounds.tolist(), strict=True):
                self.leaves.visit([*prefix, *pair], bound, has_constant)

    def _priced(
        self, prefix: list[int], cell: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the pairs of cuts behind the prefix that may beat the incumbent."""
        start = prefix[-1] + 1 if prefix else 0
        room = PAIRS
        stride = max(SWEEP // self.cuts.order.size, 1)
        while start < len(self.cuts) - 1:
            self._check_time()
            found, bounds = np.empty((room, 2), dtype=np.int64), np.empty(room)
            before = start
            size, start = price_pairs(
                self.code, *_arrays(self.cuts), cell, int(cell.max()) + 1, start, start + stride,
                self.cuts.offsets, self.leaves.cutoff, found, bounds,
            )  # fmt: skip
            if size == 0 and start == before:  # one cut alone has more pairs than room
                room *= 2
            yield found[:size], bounds[:size]

    def _close_single(self, k: int, has_constant: bool) -> None:
        plus, minus = self.cuts.plus.sum(), self.cuts.minus.sum()
        self.leaves.visit([], cell_risk(self.code, plus, minus), has_constant)
        if k == 0:
            return
        bounds = np.full(len(self.cuts), np.inf)
        price_cuts(
            self.code, *_arrays(self.cuts), self.cuts.one_cell(), 1, 0, self.cuts.offsets, bounds
        )
        for j, bound in enumerate(bounds.tolist()):
            self.leaves.visit([j], bound, has_constant)

    def _check_time(self) -> None:
        if time.perf_counter() > self.deadline:
            raise Stopped(Status.TIME_LIMIT)

    def _tell(self, j: int) -> None:
        if self.on_progress is not None:
            n_refits, best = self.leaves.n_refits, self.leaves.best.objective
            self.on_progress(PriceProgress(j, len(self.cuts), self.n_branches, n_refits, best))

    def relax(self, max_learners: int) -> None:
        """Raise the bound of a search that was stopped by that of a relaxation, if affordable.

        All cuts are the columns of one master problem with a limit; its root has a bound.
        """
        problem, w = self.leaves.relaxation(max_learners)
        if problem.n_columns <= MAX_RELAXED:
            self.relaxed_bound = certify(problem, w)


def _arrays(cuts: Cuts) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return cuts.order, cuts.rank, cuts.plus, cuts.minus
