"""Bounds nodes and shrinks them.

Order of calls: ``strengthen`` repeats rounds of "apply limits, minimise the relaxation, expand
the risk there, try diagonals, fix columns, confine the rest". `expansion` has the lemma.
"""

from __future__ import annotations

import numpy as np

from totalqboost.kernels.exact.bounds import improve
from totalqboost.kernels.exact.moments import Anchor
from totalqboost.kernels.exact.relaxation import Ranges, relax
from totalqboost.kernels.exact.shrinking import confine, confine_margins, decide, fix
from totalqboost.kernels.loss_codes import EXPONENTIAL, LOGISTIC, SMOOTHED_HINGE, SQUARED
from totalqboost.kernels.newton import margins
from totalqboost.solvers.exact.expansion import Expansion
from totalqboost.solvers.exact.model import Model
from totalqboost.solvers.exact.moments import (
    Growth,
    anchor_at,
    bound_by_moments,
    curvature_within,
)
from totalqboost.solvers.exact.node import Node
from totalqboost.solvers.exact.techniques import Techniques

__all__ = ["USELESS", "Bounder"]

USELESS = 50.0  # upper limits of weights that are no help
STRIDE = 0.5  # of the way to the relaxation's minimum, from round to round
PATIENCE = 3  # rounds before one without progress is the last
N_DIAGONALS = 3  # diagonals tried on one expansion of the risk
SHARE = 0.8  # of D that stays in the bound while the rest confines the node
MAX_STEPS = 25  # of Newton, per relaxation: bounds hold at any point
CLOSENESS = 0.2  # duality gap of a relaxation at which it stops, as a share of what is open
MANY_ROWS = 2000  # from which on moments pay: with few, some direction is always skew
MAX_COLUMNS = 64  # moments take the cube of this per example
ENOUGH = 0.8  # of the curvature at the point is certain: not worth improving
NO_RISK = 1e-200


class Bounder:
    """Bounds nodes and shrinks them: relaxation, tangent, curvature, fixing, ranges."""

    def __init__(self, model: Model, techniques: Techniques | None = None):
        self.model = model
        self.techniques = techniques or Techniques()
        self.code = model.problem.loss.code
        self.needs_low = self.code in (LOGISTIC, SMOOTHED_HINGE)
        has_many_rows = model.problem.n_rows >= MANY_ROWS
        self.has_moments = self.techniques.moments and self.code == EXPONENTIAL and has_many_rows

    def is_leaf(self, node: Node) -> bool:
        """Tell whether nothing is left to decide: which columns, and on a grid which levels."""
        if not node.is_in.all():
            return False
        return not self.model.is_grid or bool(
            (node.hi - node.lo < 0.5 * self.model.step[node.columns]).all()
        )

    def look(self, node: Node, cutoff: float, n_rounds: int) -> None:
        """Strengthen a node; once more if that left nothing to decide: a convex problem then."""
        was_leaf = self.is_leaf(node)
        self.strengthen(node, cutoff, n_rounds)
        if not was_leaf and not node.is_closed and self.is_leaf(node):
            self.strengthen(node, cutoff, 1)

    def strengthen(self, node: Node, cutoff: float, n_rounds: int) -> None:
        """Raise the bound of a node and shrink it, for solutions below ``cutoff`` only."""
        node.is_fresh = True
        for i in range(n_rounds):
            before, size = node.bound, len(node.columns)
            if not self.admit(node):
                return
            x = node.w.copy()
            self._relax(node, cutoff)
            if i > 0:
                node.w = x + STRIDE * (node.w - x)
            self._bound(node, cutoff)
            if node.is_closed or self.is_leaf(node):
                break
            is_stuck = node.bound - before < 0.01 * (cutoff - node.bound)
            if i >= PATIENCE and len(node.columns) == size and is_stuck:
                break

    def bound_at(self, node: Node, cutoff: float, w: np.ndarray) -> None:
        """Raise the bound from given weights of all columns, without a relaxation."""
        if self.admit(node):
            node.w = np.clip(w[node.columns], 0.0, node.hi)
            self._bound(node, cutoff)

    def bound_leaf(self, node: Node, cutoff: float, w: np.ndarray) -> None:
        """Bound a node in which all is decided from the tangent at weights w of all columns."""
        if len(node.paid) and not node.settle_features(self.model):
            return
        # Any point will do, also one outside the ranges.
        expansion = Expansion(self.model, node, w[node.columns])
        self._raise(node, max(expansion.tangent_bound(), expansion.dual_bound()), cutoff)

    def inherit(self, node: Node, cutoff: float) -> None:
        """Raise the bound of a child by what was known above: no pass over the data."""
        if not self.techniques.inherit:
            return
        if node.below is not None and node.drop_empty(self.model) and len(node.columns):
            self._improve(node, cutoff, 1)
        if node.anchor is None or node.is_closed or not len(node.columns):
            return
        ranges = node.ranges(self.model)
        growth = bound_by_moments(node, node.anchor, ranges, self.prices(node), cutoff)
        stays = self._decide(node, ranges, growth, cutoff)
        if not node.is_closed and not stays.all():
            node.keep(stays)

    def is_due(self, node: Node) -> bool:
        """Tell whether the data must be looked at before anything else is known of the node."""
        return node.anchor is None or self.is_leaf(node)

    # -- ranges ------------------------------------------------------------------------

    def admit(self, node: Node) -> bool:
        """Drop columns without weights and limit margins; False closes the node."""
        if not node.drop_empty(self.model):
            return False
        self._ranges_from_weights(node)
        return True

    def _ranges_from_weights(self, node: Node) -> None:
        if self.code == SQUARED or not np.isfinite(node.hi).all():
            return
        lo = np.where(node.is_in, node.lo, 0.0)
        middle = np.empty(len(node.high))
        margins(self.model.problem.A, node.columns, 0.5 * (lo + node.hi), middle)
        radius = 0.5 * float((node.hi - lo).sum())
        radius += 1e-12 * (1.0 + radius + float(node.hi.sum()))
        node.high = np.minimum(node.high, middle + radius)
        if self.needs_low:
            node.low = np.maximum(node.low, middle - radius)

    # -- bounds ------------------------------------------------------------------------

    def _raise(self, node: Node, bound: float, cutoff: float) -> None:
        if not np.isnan(bound):
            node.bound = max(node.bound, bound)
        node.is_closed = node.is_closed or node.bound >= cutoff

    def _relax(self, node: Node, cutoff: float) -> None:
        """Move the node's point to about the minimum of its relaxation."""
        k, is_known = len(node.columns), node.hessian is not None
        if node.hessian is None:
            node.hessian = np.empty((k, k))
        n_steps = relax(
            node.data(self.model),
            self.model.problem.nus[node.columns],
            node.d,
            node.ranges(self.model),
            self.prices(node),
            node.w,
            self.room(node, cutoff),
            0.0 if self.is_leaf(node) else CLOSENESS,
            MAX_STEPS,
            node.hessian,
            is_known,
        )
        if n_steps == 0 and not is_known:
            node.hessian = None  # nothing was written to it

    def _bound(self, node: Node, cutoff: float) -> None:
        """Expand the risk at the node's point, raise the bound from it, shrink the node."""
        expansion = Expansion(self.model, node, node.w)
        flat = expansion.tangent_bound()
        node.bound = max(node.bound, flat, expansion.paid)
        # What the dual below reaches at most: it is never above the l1 objective of any point.
        at_most = expansion.risk + float(expansion.nu @ node.w) + expansion.paid
        if node.bound < at_most and node.hi.max(initial=0.0) > USELESS:
            node.bound = max(node.bound, expansion.dual_bound())
        self._raise(node, node.bound, cutoff)
        if node.is_closed or self.is_leaf(node) or not np.isfinite(flat):
            return
        expansion.Q = expansion.certain_curvature()
        stays, steer = np.ones(len(node.columns), dtype=bool), None
        node.anchor = None
        anchor = anchor_at(expansion) if self._wants_moments(expansion) else None
        if anchor is not None:
            stays, steer = self._use_moments(node, expansion, anchor, cutoff)
        if node.is_closed:
            return
        node.below = expansion.underestimator()
        y, d = self._improve(node, cutoff, N_DIAGONALS)
        if not node.is_closed:
            node.d = np.maximum(d if steer is None else steer, 0.0)
            self._shrink(node, expansion, y, d, cutoff, stays)

    def _wants_moments(self, expansion: Expansion) -> bool:
        """Tell whether moments are worth the time."""
        k, risk = len(expansion.x), expansion.risk
        if not self.has_moments or k > MAX_COLUMNS or risk < NO_RISK:
            return False
        return not np.trace(expansion.Q) > ENOUGH * risk * k

    def _use_moments(
        self, node: Node, expansion: Expansion, anchor: Anchor, cutoff: float
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Raise the bound by moments; return the columns that stay, and a diagonal to steer by."""
        growth = bound_by_moments(node, anchor, expansion.ranges, self.prices(node), cutoff)
        is_better = growth.bound > node.bound and self.techniques.perspective
        steer = growth.d if is_better else None
        stays = self._decide(node, expansion.ranges, growth, cutoff)
        if self.techniques.jensen and np.isfinite(growth.reach):
            Q = curvature_within(anchor, growth.reach)
            expansion.Q = Q if np.trace(Q) > np.trace(expansion.Q) else expansion.Q
        if self.techniques.inherit:
            node.anchor = anchor
        return stays, steer

    def _decide(self, node: Node, ranges: Ranges, growth: Growth, cutoff: float) -> np.ndarray:
        """Take the bound by moments and the columns it decides; return those that stay."""
        stays = np.ones(len(node.columns), dtype=bool)
        self._raise(node, growth.bound, cutoff)
        is_open = self.techniques.fixing and not node.is_closed
        if is_open and not decide(ranges, growth.without, growth.within, cutoff, stays):
            node.close(cutoff)
        return stays

    def _improve(
        self, node: Node, cutoff: float, n_diagonals: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Raise the bound by the node's quadratic; return the best point and diagonal."""
        value, y, d, node.multiplier = improve(
            node.below,
            node.ranges(self.model),
            np.maximum(node.d, 0.0),
            self.model.problem.cost[node.columns] > 0,
            node.multiplier,
            self.model.is_limited,
            cutoff,
            n_diagonals if self.techniques.perspective else 0,
        )
        self._raise(node, value, cutoff)
        return y, d

    def _shrink(
        self,
        node: Node,
        expansion: Expansion,
        y: np.ndarray,
        d: np.ndarray,
        cutoff: float,
        stays: np.ndarray,
    ) -> None:
        """Decide columns, and confine the others to an ellipsoid around y."""
        below, ranges = expansion.underestimator(), expansion.ranges
        if self.techniques.fixing and not fix(below, ranges, y, d, cutoff, stays):
            node.close(cutoff)
            return
        if self.techniques.ellipsoid:
            R = np.empty_like(below.Q)
            value, excess = confine(below, ranges, y, SHARE * d, cutoff, R)
            if value >= cutoff:
                node.close(value)
                return
            if np.isfinite(excess) and self.code != SQUARED:
                z, x = expansion.z, expansion.x
                node.low, node.high = node.low.copy(), node.high.copy()  # siblings share them
                confine_margins(
                    expansion.data, R, excess, z, x, y, self.needs_low, node.low, node.high
                )
        if not stays.all():
            node.keep(stays)

    def prices(self, node: Node) -> np.ndarray:
        """Return the prices that steer the relaxation: under a limit, with its multiplier."""
        is_priced = self.model.problem.cost[node.columns] > 0
        return node.prices(self.model)[0] + np.where(is_priced, node.multiplier, 0.0)

    def room(self, node: Node, cutoff: float) -> float:
        """Return the value of the relaxation, with those prices, at which the node is closed."""
        model, columns = self.model, node.columns[node.is_in]
        price, fixed = node.prices(model)
        room = cutoff - fixed - float(price[node.is_in].sum())
        if node.multiplier > 0:
            n_in = np.count_nonzero(model.problem.cost[columns] > 0)
            room += node.multiplier * (model.limit - n_in)
        return room
