"""Bounds nodes and shrinks them.

Order of calls: ``strengthen`` repeats rounds of "apply limits, minimise the relaxation, expand
the risk there, try diagonals, fix columns, confine the rest". `expansion` has the lemma.
"""

from __future__ import annotations

import numpy as np

from totalqboost.kernels.bounds import Ranges, improve
from totalqboost.kernels.loss_codes import LOGISTIC, SMOOTHED_HINGE, SQUARED
from totalqboost.kernels.newton import margins
from totalqboost.kernels.relaxation import relax
from totalqboost.kernels.shrinking import confine, confine_margins, decide, fix, limit_weights
from totalqboost.solvers.exact.curvature import (
    MANY_ROWS,
    Curvature,
    Shells,
    anchored,
    bound_by_shells,
    curvature_within,
    known_radius,
)
from totalqboost.solvers.exact.expansion import Expansion
from totalqboost.solvers.exact.model import Model
from totalqboost.solvers.exact.node import Node

__all__ = ["Bounder"]

SHARE = 0.8  # of D that stays in the bound while the rest confines the node
STRIDE = 0.5  # of the way to the relaxation's minimum, from round to round
PATIENCE = 3  # rounds before one without progress is the last
N_DIAGONALS = 3  # diagonals tried on one expansion of the risk
MAX_STEPS = 25  # of Newton, per relaxation: bounds hold at any point
CLOSENESS = 0.2  # duality gap of a relaxation at which it stops, as a share of what is open
LARGE = 50.0  # weights beyond which limits are no help


class Bounder:
    """Bounds nodes and shrinks them: relaxation, tangent, curvature, fixing, ranges."""

    def __init__(self, model: Model):
        self.model = model
        self.curvature = Curvature()
        self.code = model.problem.loss.code
        self.needs_low = self.code in (LOGISTIC, SMOOTHED_HINGE)

    def is_leaf(self, node: Node) -> bool:
        """Tell whether nothing is left to decide: which columns, and on a grid which levels."""
        if not node.is_in.all():
            return False
        return not self.model.top or bool(
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
            if not self.admit(node, cutoff):
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
        if self.admit(node, cutoff):
            node.w = np.clip(w[node.columns], 0.0, node.hi)
            self._bound(node, cutoff)

    def bound_leaf(self, node: Node, cutoff: float, w: np.ndarray) -> None:
        """Bound a node in which all is decided from the tangent at weights w of all columns."""
        x = w[node.columns]  # any point will do, also one outside the ranges
        expansion = Expansion(self.model, node, x)
        value = expansion.bound(x, np.zeros(len(x)))
        node.bound = max(node.bound, value, expansion.dual_bound())
        node.is_closed = node.is_closed or node.bound >= cutoff

    def drop_opposite(self, node: Node, column: int) -> None:
        """Put the opposite of a column that came in out, unless it is in."""
        is_opposite = node.columns == self.model.opposite[column]
        if (is_opposite & ~node.is_in).any():
            node.keep(~is_opposite)

    def admit(self, node: Node, cutoff: float) -> bool:
        """Apply the least useful weights and the ranges of margins; False closes the node."""
        if not self._limit(node, cutoff):
            return False
        if len(node.columns) < 0.8 * node.rows.n_columns and len(node.columns) > 0:
            node.rows, node.low, node.high = node.rows.merged(node.columns, node.low, node.high)
        self._ranges_from_weights(node)
        return True

    def _limit(self, node: Node, cutoff: float) -> bool:
        """Apply the least useful weights; False closes the node."""
        stays = np.empty(len(node.columns), dtype=bool)
        nu, ranges = self.model.problem.nus[node.columns], node.ranges(self.model)
        if not limit_weights(ranges, cutoff, nu, self.model.steepest, stays):
            node.bound, node.is_closed = np.inf, True
            return False
        if not stays.all():
            node.keep(stays)
        return True

    def _ranges_from_weights(self, node: Node) -> None:
        if self.code == SQUARED:
            return
        lo = np.where(node.is_in, node.lo, 0.0)
        if not np.isfinite(node.hi).all():
            return
        middle = np.empty(len(node.rows.c))
        margins(node.rows.A, node.columns, 0.5 * (lo + node.hi), middle)
        radius = 0.5 * float((node.hi - lo).sum())
        radius += 1e-12 * (1.0 + radius + float(node.hi.sum()))
        node.high = np.minimum(node.high, middle + radius)
        if self.needs_low:
            node.low = np.maximum(node.low, middle - radius)

    def _relax(self, node: Node, cutoff: float) -> None:
        """Move the node's point to about the minimum of its relaxation."""
        model, k = self.model, len(node.columns)
        is_known = node.hessian is not None
        if node.hessian is None:
            node.hessian = np.empty((k, k))
        price = self.prices(node)
        n_steps = relax(
            node.rows.A,
            node.columns,
            node.rows.c,
            self.code,
            model.problem.nus[node.columns],
            np.maximum(node.d, 0.0),
            node.lo,
            node.hi,
            price,
            node.is_in,
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
        flat = expansion.bound(node.w, np.zeros(len(node.w)))
        paid = float(expansion.price[node.is_in].sum())
        node.bound = max(node.bound, flat, paid)
        # What the dual below reaches at most: it is never above the l1 objective of any point.
        at_most = expansion.risk + float(expansion.nu @ node.w) + paid
        if node.bound < at_most and node.hi.max(initial=0.0) > LARGE:
            node.bound = max(node.bound, expansion.dual_bound())
        node.is_closed = node.is_closed or node.bound >= cutoff
        if node.is_closed or self.is_leaf(node) or not np.isfinite(flat):
            return
        expansion.Q = self.curvature.of_rows(expansion)
        skewness = self.curvature.skewness(expansion, expansion.Q)
        stays = np.ones(len(node.columns), dtype=bool)
        steer, by_shells, node.anchor = None, np.inf, None
        if skewness is not None:
            anchor = anchored(expansion, skewness)
            if anchor.n_rows >= MANY_ROWS:
                node.anchor = anchor
            toll, known = self.prices(node), known_radius(expansion, skewness.inverse)
            shells = bound_by_shells(node, anchor, expansion.ranges, toll, cutoff, known)
            if shells.bound > node.bound:
                node.was_worth = anchor.n_rows >= MANY_ROWS  # else more is asked for, below
                steer, by_shells = shells.d, shells.bound
            stays = self._take_shells(node, expansion.ranges, shells, cutoff)
            if node.is_closed:
                node.was_worth = True
                return
            if np.isfinite(shells.reach):
                Q = curvature_within(expansion, skewness, shells.reach)
                expansion.Q = Q if np.trace(Q) > np.trace(expansion.Q) else expansion.Q
        node.model = expansion.quadratic()
        y, d = self._improve(node, cutoff, N_DIAGONALS)
        node.was_worth = node.was_worth or node.bound == by_shells  # ranges prove no more
        if not node.is_closed:
            node.d = np.maximum(d if steer is None else steer, 0.0)
            self._shrink(node, expansion, y, d, cutoff, stays)

    def _take_shells(self, node: Node, ranges: Ranges, shells: Shells, cutoff: float) -> np.ndarray:
        """Take the bound by shells and the columns it decides; return those that stay."""
        stays = np.ones(len(node.columns), dtype=bool)
        node.bound = max(node.bound, shells.bound)
        node.is_closed = node.is_closed or node.bound >= cutoff
        if not node.is_closed and not decide(ranges, shells.without, shells.within, cutoff, stays):
            node.bound, node.is_closed = max(node.bound, cutoff), True
        return stays

    def inherit(self, node: Node, cutoff: float) -> None:
        """Raise the bound of a child by what was known above: no pass over the data."""
        if node.model is not None and self._limit(node, cutoff) and len(node.columns):
            self._improve(node, cutoff, 1)
        if node.anchor is None or node.is_closed or not len(node.columns):
            return
        ranges = node.ranges(self.model)
        shells = bound_by_shells(node, node.anchor, ranges, self.prices(node), cutoff)
        if shells.bound > node.bound:
            node.was_worth = True
        stays = self._take_shells(node, ranges, shells, cutoff)
        if not node.is_closed and not stays.all():
            node.keep(stays)

    def is_due(self, node: Node) -> bool:
        """Tell whether the data must be looked at before anything else is known of the node."""
        return node.anchor is None or self.is_leaf(node)

    def _improve(
        self, node: Node, cutoff: float, n_diagonals: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Raise the bound by the node's quadratic; return the best point and diagonal."""
        value, y, d, node.multiplier = improve(
            node.model,
            node.ranges(self.model),
            np.maximum(node.d, 0.0),
            self.model.problem.cost[node.columns] > 0,
            node.multiplier,
            self.model.is_limited,
            cutoff,
            n_diagonals,
        )
        if not np.isnan(value):
            node.bound = max(node.bound, value)
        node.is_closed = node.is_closed or node.bound >= cutoff
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
        model, ranges = expansion.quadratic(), expansion.ranges
        if not fix(model, ranges, y, d, cutoff, stays):
            node.is_closed, node.bound = True, max(node.bound, cutoff)
            return
        E, R = np.empty_like(model.Q), np.empty_like(model.Q)
        value, excess = confine(model, ranges, y, SHARE * d, cutoff, E, R)
        if value >= cutoff:
            node.bound, node.is_closed = max(node.bound, value), True
            return
        node.center = node.shape = None
        if np.isfinite(excess):
            if self.curvature.credit > 0:  # only the skewness asks for it
                node.center, node.shape = y.copy(), E / excess * (1.0 - 1e-6)
            if self.code != SQUARED:
                self._confine_margins(node, expansion, y, R, excess)
        if not stays.all():
            node.keep(stays)

    def _confine_margins(
        self, node: Node, expansion: Expansion, y: np.ndarray, R: np.ndarray, excess: float
    ) -> None:
        """Shrink the ranges of the margins to the ellipsoid; siblings share the old arrays."""
        node.low, node.high = node.low.copy(), node.high.copy()
        confine_margins(
            node.rows.A,
            node.columns,
            R,
            excess,
            expansion.z,
            expansion.x,
            y,
            self.needs_low,
            node.low,
            node.high,
        )

    def prices(self, node: Node) -> np.ndarray:
        """Return the prices that steer the relaxation: under a limit, with its multiplier."""
        is_priced = self.model.problem.cost[node.columns] > 0
        return self.model.price[node.columns] + np.where(is_priced, node.multiplier, 0.0)

    def room(self, node: Node, cutoff: float) -> float:
        """Return the value of the relaxation, with those prices, at which the node is closed."""
        model, columns = self.model, node.columns[node.is_in]
        room = cutoff - float(model.price[columns].sum())
        if node.multiplier > 0:
            n_in = np.count_nonzero(model.problem.cost[columns] > 0)
            room += node.multiplier * (model.limit - n_in)
        return room
