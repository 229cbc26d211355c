"""A part of the search space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from totalqboost.solvers.exact.model import Rows

__all__ = ["RIDGE", "Node", "schur"]

RIDGE = 1e-9  # of the trace: keeps the inverse accurate to about 1e-6


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
    multiplier: float = 0.0
    bound: float = -np.inf
    is_closed: bool = False
    depth: int = 0

    def keep(self, stays: np.ndarray) -> None:
        """Forget the columns that are out."""
        for name in ("columns", "is_in", "lo", "hi", "w", "d"):
            setattr(self, name, getattr(self, name)[stays])
        if self.hessian is not None:
            self.hessian = np.ascontiguousarray(self.hessian[np.ix_(stays, stays)])
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
