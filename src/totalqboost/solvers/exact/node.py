"""A part of the search space."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from totalqboost.kernels.bounds import Quadratic, Ranges, fold, principal
from totalqboost.kernels.definite import EPS, RIDGE
from totalqboost.kernels.shells import Anchor
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
    bend, slope, curve = fold(model.Q, model.s, model.x, stay, go)
    size, moved = _moved(model, go)
    risk = model.risk - slope + 0.5 * curve
    risk -= _unit(model, stays) * (abs(model.risk) + size * moved)
    return model._replace(
        risk=risk,
        weight=size,
        nu=model.nu[stay],
        s=model.s[stay] - bend,
        Q=principal(model.Q, stay),
        x=model.x[stay],
    )


def without_columns(anchor: Anchor, stays: np.ndarray) -> Anchor:
    """Return an anchor where some weights are zero, as one of the others."""
    stay, go = np.flatnonzero(stays), np.flatnonzero(~stays)
    bend, slope, curve = fold(anchor.Q, anchor.s, anchor.x, stay, go)
    size, moved = _moved(anchor, go)
    return anchor._replace(
        weight=size,
        nu=anchor.nu[stay],
        s=anchor.s[stay],
        Q=principal(anchor.Q, stay),
        x=anchor.x[stay],
        drop=anchor.drop + slope,
        lift=anchor.lift - 2.0 * float(anchor.bend[go] @ anchor.x[go]) + curve,
        bend=anchor.bend[stay] + bend,
        slack=anchor.slack + _unit(anchor, stays) * size * moved,
    )


def _moved(model: Quadratic | Anchor, go: np.ndarray) -> tuple[float, float]:
    """Return the size of slopes once some columns went, and how much weight goes with them."""
    moved = float(model.x[go].sum())
    return model.weight + float(model.Q.diagonal().max(initial=0.0)) * moved, moved


def _unit(model: Quadratic | Anchor, stays: np.ndarray) -> float:
    return 8.0 * (model.n_rows + 2 * len(stays) + 16) * EPS


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
    anchor: Anchor | None = None  # what moments at some point say of the risk everywhere
    is_known: bool = False  # bounded by what its parent knew
    is_fresh: bool = False  # the data were looked at
    may_try: bool = True  # the skewness, should that look worth the time
    was_tried: bool = False
    was_worth: bool = False  # the time
    multiplier: float = 0.0
    bound: float = -np.inf
    is_closed: bool = False

    def ranges(self, model: Model) -> Ranges:
        """Return what is decided, for kernels, which may change it in place."""
        price, step = model.price[self.columns], model.step[self.columns]
        room = len(model.price)
        if model.is_limited:
            n_in = np.count_nonzero(model.problem.cost[self.columns[self.is_in]] > 0)
            room = int(model.limit - n_in)
        return Ranges(price, self.is_in, self.lo, self.hi, step, room)

    def keep(self, stays: np.ndarray) -> None:
        """Forget the columns that are out."""
        for name in ("columns", "is_in", "lo", "hi", "w", "d"):
            setattr(self, name, getattr(self, name)[stays])
        if self.hessian is not None:
            self.hessian = principal(self.hessian, np.flatnonzero(stays))
        if self.model is not None:
            self.model = restricted(self.model, stays)
        if self.anchor is not None:
            self.anchor = without_columns(self.anchor, stays)
        if self.shape is not None and self.center is not None:
            stay, go = np.flatnonzero(stays), np.flatnonzero(~stays)
            gone = self.center[go]  # their weights are zero now
            ridge = RIDGE * float(np.trace(self.shape))
            left = schur(self.shape, stay, go, ridge)
            self.shape = left / (1.0 + ridge * float(gone @ gone))
            self.center = self.center[stay]

    def copy(self) -> Node:
        """Return a node that may be changed: arrays that change in place are copies.

        The others (ranges of margins, models) are shared: replace them, never write to them.
        """
        names = ("columns", "is_in", "lo", "hi", "w", "d")
        copies = {name: getattr(self, name).copy() for name in names}
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
