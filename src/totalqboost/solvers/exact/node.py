"""A part of the search space."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from totalqboost.kernels.exact.bounds import Underestimator
from totalqboost.kernels.exact.moments import Anchor
from totalqboost.kernels.exact.relaxation import Data, Ranges
from totalqboost.solvers.exact.model import Model, equal_shares
from totalqboost.solvers.exact.restriction import restricted, without_columns

__all__ = ["Node"]

PER_COLUMN = ("columns", "is_in", "lo", "hi", "w", "d")


@dataclass
class Node:
    """A part of the search space: who is in, who is undecided, and ranges of all weights.

    Arrays run over ``columns``, the columns that are not out. An undecided column has weight
    0 or one in [lo, hi]; one that is in, always a weight in [lo, hi].
    """

    columns: np.ndarray
    is_in: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    w: np.ndarray
    d: np.ndarray
    low: np.ndarray  # ranges of the margins
    high: np.ndarray
    paid: np.ndarray  # features that are known to be read; replaced, never written to
    multiplier: float = 0.0
    bound: float = 0.0  # losses are >= 0
    hessian: np.ndarray | None = None  # of the risk somewhere near; a start for Newton steps
    below: Underestimator | None = None  # a quadratic below the risk on all of the node
    anchor: Anchor | None = None  # what moments at some point say of the risk everywhere
    is_known: bool = False  # bounded by what its parent knew
    is_fresh: bool = False  # the data were looked at
    is_closed: bool = False

    @classmethod
    def root(cls, model: Model, hi: np.ndarray, w: np.ndarray, multiplier: float = 0.0) -> Node:
        """Return the whole search space, given limits of all weights and a first point."""
        n, m = model.problem.A.shape
        return cls(
            columns=np.arange(n),
            is_in=model.decided.copy(),
            lo=np.zeros(n),
            hi=hi,
            w=np.minimum(w, hi),
            d=np.zeros(n),
            low=np.full(m, -np.inf),
            high=np.full(m, np.inf),
            paid=np.zeros(len(model.feature_price), dtype=bool),
            multiplier=multiplier,
        )

    def data(self, model: Model) -> Data:
        """Return the examples, for kernels."""
        problem = model.problem
        return Data(problem.A, self.columns, problem.sample_weight, problem.loss.code)

    def ranges(self, model: Model) -> Ranges:
        """Return what is decided, for kernels, which may change it in place."""
        price, fixed = self.prices(model)
        step, room = model.step[self.columns], len(model.price)
        if model.is_limited:
            n_in = np.count_nonzero(model.problem.cost[self.columns[self.is_in]] > 0)
            room = int(model.limit - n_in)
        return Ranges(price, self.is_in, self.lo, self.hi, step, room, fixed)

    def prices(self, model: Model) -> tuple[np.ndarray, float]:
        """Return what each column pays, and what features that are known to be read cost.

        A feature that is read costs at least the shares of its kept columns, if those of all
        columns sum to one. Shares that follow the weights were no better than equal ones.
        """
        price = model.price[self.columns]
        if not len(self.paid):
            return price, 0.0
        reads = model.reads[self.columns]
        paid = self.paid | reads[self.is_in].any(axis=0)
        price = price + equal_shares(reads, np.where(paid, 0.0, model.feature_price))
        return price, float(model.feature_price[paid].sum())

    def close(self, bound: float) -> None:
        """Take a bound at which nothing in the node is better than what is known."""
        self.bound, self.is_closed = max(self.bound, bound), True

    def drop_empty(self, model: Model) -> bool:
        """Drop undecided columns that have no weight left; False closes the node: one is in.

        On a grid, the least weight of a column is one step.
        """
        if len(self.paid) and not self.settle_features(model):
            return False
        lo, hi, is_in = self.lo, self.hi, self.is_in
        np.maximum(lo, model.step[self.columns], out=lo, where=~is_in)
        if (is_in & (lo > hi + 1e-9 * (1.0 + hi))).any():
            self.close(np.inf)
            return False
        np.minimum(lo, hi, out=lo, where=is_in)  # rounding
        stays = is_in | (hi >= np.maximum(lo, 1e-12))
        if not stays.all():
            self.keep(stays)
        return True

    def settle_features(self, model: Model) -> bool:
        """Pay for what is read; drop columns that may not be read; False closes the node."""
        reads = model.reads[self.columns]
        self.paid = paid = self.paid | reads[self.is_in].any(axis=0)
        n_paid, limit = np.count_nonzero(paid), model.problem.groups.limit
        # What is paid and has no reader, or too much that is paid: others have those solutions.
        if n_paid > limit or not reads.any(axis=0)[paid].all():
            self.close(np.inf)
            return False
        if not model.is_limited:  # nothing is left to decide about a column that adds no price
            is_new = (model.price[self.columns] == 0) & ~reads[:, ~paid].any(axis=1) & ~self.is_in
            self.is_in[is_new], self.lo[is_new], self.d[is_new] = True, 0.0, 0.0
        if n_paid == limit and (is_out := reads[:, ~paid].any(axis=1)).any():
            self.keep(~is_out)
            return self.settle_features(model)  # a feature may have lost its readers
        return True

    def keep(self, stays: np.ndarray) -> None:
        """Forget the columns that are out."""
        for name in PER_COLUMN:
            setattr(self, name, getattr(self, name)[stays])
        if self.hessian is not None:
            self.hessian = self.hessian[np.ix_(stays, stays)]
        if self.below is not None:
            self.below = restricted(self.below, stays)
        if self.anchor is not None:
            self.anchor = without_columns(self.anchor, stays)

    def copy(self) -> Node:
        """Return a node that may be changed: arrays that change in place are copies.

        The others (ranges of margins, models) are shared: replace them, never write to them.
        """
        copies = {name: getattr(self, name).copy() for name in PER_COLUMN}
        hessian = None if self.hessian is None else self.hessian.copy()
        return replace(self, **copies, hessian=hessian)

    def child(self, j: int, becomes_in: bool) -> Node:
        """Return a copy in which undecided column j (a position) is in or out."""
        node = self.copy()
        node.is_known = node.is_fresh = False
        if becomes_in:
            node.is_in[j] = True
            node.d[j] = 0.0
        else:
            node.keep(np.arange(len(self.columns)) != j)
        return node

    def feature_child(self, model: Model, g: int, is_read: bool) -> Node:
        """Return a copy in which feature g is paid, or all columns that read it are out."""
        node = self.copy()
        node.is_known = node.is_fresh = False
        if is_read:
            node.paid = self.paid | (np.arange(len(self.paid)) == g)
        else:
            node.keep(~model.reads[self.columns, g])
        return node
