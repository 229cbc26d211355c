"""A part of the search space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from totalqboost.kernels.bounds import Quadratic, Ranges
from totalqboost.kernels.definite import EPS, RIDGE
from totalqboost.solvers.exact.model import Model, Rows

__all__ = ["Node", "schur"]


def schur(Q: np.ndarray, stay: np.ndarray, go: np.ndarray, ridge: float) -> np.ndarray:
    """Return the quadratic form of some variables, the others at their best.

    With a ridge on the others: for any values v of theirs, the form Q is at least this one
    less ridge v'v.
    """
    S = Q[np.ix_(stay, stay)]
    if len(go) == 0:
        return S
    cross = Q[np.ix_(go, stay)]
    block = Q[np.ix_(go, go)] + ridge * np.eye(len(go))
    return S - cross.T @ np.linalg.solve(block, cross)


def restricted(model: Quadratic, stays: np.ndarray) -> Quadratic:
    """Return a quadratic where some weights are zero, as one of the others.

    With v = -x for those that go, s'v and v'Qv / 2 join the constant, Qv the gradient. The
    rounding of both is taken off the constant and added to the size of s.
    """
    stay, go = np.flatnonzero(stays), np.flatnonzero(~stays)
    v = -model.x[go]
    bend = model.Q[np.ix_(stay, go)] @ v
    risk = model.risk - float(model.s[go] @ v) + 0.5 * float(v @ model.Q[np.ix_(go, go)] @ v)
    largest, moved = float(model.Q.diagonal().max(initial=0.0)), float(model.x[go].sum())
    unit = 8.0 * (model.n_rows + 2 * len(stays) + 16) * EPS
    risk -= unit * (abs(model.risk) + (model.weight + largest * moved) * moved)
    return model._replace(
        risk=risk,
        weight=model.weight + largest * moved,
        s=model.s[stay] - bend,
        Q=np.ascontiguousarray(model.Q[np.ix_(stay, stay)]),
        x=model.x[stay],
    )


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
    rows: Rows
    low: np.ndarray  # ranges of the margins
    high: np.ndarray
    center: np.ndarray | None = None  # (w - center)' shape (w - center) <= 1
    shape: np.ndarray | None = None
    hessian: np.ndarray | None = None  # of the risk somewhere near; a start for Newton steps
    model: Quadratic | None = None  # a quadratic that is below the risk on all of the node
    multiplier: float = 0.0
    bound: float = -np.inf
    is_closed: bool = False
    depth: int = 0

    def ranges(self, model: Model) -> Ranges:
        """Return what is decided, for kernels, which may change it in place."""
        n_in = np.count_nonzero(model.problem.cost[self.columns[self.is_in]] > 0)
        price, step = model.price[self.columns], model.step[self.columns]
        return Ranges(price, self.is_in, self.lo, self.hi, step, int(model.limit - n_in))

    def keep(self, stays: np.ndarray) -> None:
        """Forget the columns that are out."""
        for name in ("columns", "is_in", "lo", "hi", "w", "d"):
            setattr(self, name, getattr(self, name)[stays])
        if self.hessian is not None:
            self.hessian = np.ascontiguousarray(self.hessian[np.ix_(stays, stays)])
        if self.model is not None:
            self.model = restricted(self.model, stays)
        if self.shape is not None and self.center is not None:
            stay, go = np.flatnonzero(stays), np.flatnonzero(~stays)
            gone = self.center[go]  # their weights are zero now
            ridge = RIDGE * float(np.trace(self.shape))
            left = schur(self.shape, stay, go, ridge)
            self.shape = left / (1.0 + ridge * float(gone @ gone))
            self.center = self.center[stay]

    def child(self, j: int, becomes_in: bool) -> Node:
        """Return a copy in which undecided column j (a position) is in or out."""
        names = ("columns", "is_in", "lo", "hi", "w", "d")
        copies = {name: getattr(self, name).copy() for name in names}
        node = Node(
            **copies,
            rows=self.rows,
            low=self.low,
            high=self.high,
            center=self.center,
            shape=self.shape,
            hessian=None if self.hessian is None else self.hessian.copy(),
            model=self.model,
            multiplier=self.multiplier,
            bound=self.bound,
            depth=self.depth + 1,
        )
        if becomes_in:
            node.is_in[j] = True
            node.d[j] = 0.0
        else:
            node.keep(np.arange(len(self.columns)) != j)
        return node
