"""Bounds nodes and shrinks them.

Order of calls: ``strengthen`` repeats rounds of "apply limits, minimise the relaxation, expand
the risk there, try diagonals, fix columns, confine the rest". `expansion` has the lemma.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from totalqboost.kernels.loss_codes import LOGISTIC, SMOOTHED_HINGE, SQUARED
from totalqboost.kernels.newton import margins
from totalqboost.kernels.relaxation import envelope, relax
from totalqboost.solvers.exact.curvature import certain_curvature
from totalqboost.solvers.exact.diagonal import (
    certify_diagonal,
    cholesky,
    choose_diagonal,
    rounding,
)
from totalqboost.solvers.exact.expansion import Expansion, Split
from totalqboost.solvers.exact.model import Model
from totalqboost.solvers.exact.node import RIDGE, Node, schur

__all__ = ["Bounder"]

SPLITS = (0.9, 0.5)  # shares of D that stay in the bound while the rest confines the node
STRIDE = 0.5  # of the way to the relaxation's minimum, from round to round
PATIENCE = 3  # rounds before one without progress is the last
N_DIAGONALS = 3  # diagonals tried on one expansion of the risk
WELL = 1e-4  # least ratio in the diagonal of a Cholesky factor that needs no ridge
LARGE = 50.0  # weights beyond which limits are no help


class Bounder:
    """Bounds nodes and shrinks them: relaxation, tangent, curvature, fixing, ranges."""

    def __init__(self, model: Model):
        self.model = model
        self.code = model.problem.loss.code
        self.needs_low = self.code in (LOGISTIC, SMOOTHED_HINGE)

    def is_leaf(self, node: Node) -> bool:
        """Tell whether nothing is left to decide: which columns, and on a grid which levels."""
        if not node.is_in.all():
            return False
        return not self.model.top or bool(
            (node.hi - node.lo < 0.5 * self.model.step[node.columns]).all()
        )

    def strengthen(self, node: Node, cutoff: float, n_rounds: int) -> None:
        """Raise the bound of a node and shrink it, for solutions below ``cutoff`` only."""
        hessian = None
        for i in range(n_rounds):
            before, size = node.bound, len(node.columns)
            if not self._admit(node, cutoff):
                return
            if hessian is None or len(hessian) != len(node.columns):
                hessian = np.empty((len(node.columns), len(node.columns)))
            x = node.w.copy()
            self._relax(node, cutoff, hessian)
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
        if self._admit(node, cutoff):
            node.w = np.clip(w[node.columns], 0.0, node.hi)
            self._bound(node, cutoff)

    def bound_leaf(self, node: Node, cutoff: float, w: np.ndarray) -> None:
        """Bound a node in which all is decided from the tangent at weights w of all columns."""
        x = w[node.columns]  # any point will do, also one outside the ranges
        expansion = Expansion(self.model, node, x)
        split = expansion.bound(x, np.zeros(len(x)))
        node.bound = max(node.bound, split.value, expansion.scaled_dual())
        node.is_closed = node.is_closed or node.bound >= cutoff

    def drop_opposite(self, node: Node, column: int) -> None:
        """Put the opposite of a column that came in out, unless it is in."""
        is_opposite = node.columns == self.model.opposite[column]
        if (is_opposite & ~node.is_in).any():
            node.keep(~is_opposite)

    def _admit(self, node: Node, cutoff: float) -> bool:
        """Apply the least useful weights and the ranges of margins; False closes the node."""
        model = self.model
        prices = float(model.price[node.columns[node.is_in]].sum())
        undecided = ~node.is_in
        least = model.least_weight(node.columns, cutoff - prices)
        node.lo[undecided] = np.maximum(node.lo, least)[undecided]
        stays = node.is_in | (node.hi >= np.maximum(node.lo, 1e-12))
        priced = node.is_in & (model.price[node.columns] > 0)
        own = model.least_weight(node.columns, cutoff - prices + model.price[node.columns])
        node.lo[priced] = np.maximum(node.lo, own)[priced]
        if (node.lo > node.hi + 1e-9 * (1.0 + node.hi))[node.is_in].any():
            node.bound, node.is_closed = np.inf, True
            return False
        node.lo = np.minimum(node.lo, np.where(node.is_in, node.hi, np.inf))  # rounding
        if not stays.all():
            node.keep(stays)
        if len(node.columns) < 0.8 * node.rows.n_columns and len(node.columns) > 0:
            node.rows, node.low, node.high = node.rows.merged(node.columns, node.low, node.high)
        self._ranges_from_weights(node)
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

    def _relax(self, node: Node, cutoff: float, hessian: np.ndarray) -> None:
        model, is_in = self.model, node.is_in
        price = self._prices(node)
        fixed = float(model.price[node.columns[is_in]].sum())
        room = cutoff - fixed
        if node.multiplier > 0:
            n_in = np.count_nonzero(model.problem.cost[node.columns[is_in]] > 0)
            room += node.multiplier * (model.limit - n_in)
        relax(
            node.rows.A,
            node.columns,
            node.rows.c,
            self.code,
            np.full(len(price), model.problem.nu),
            np.maximum(node.d, 0.0),
            node.lo,
            node.hi,
            price,
            is_in,
            node.w,
            room,
            0.0 if self.is_leaf(node) else 0.01,
            40,
            hessian,
            False,
        )

    def _bound(self, node: Node, cutoff: float) -> None:
        """Expand the risk at the node's point, raise the bound from it, shrink the node."""
        expansion = Expansion(self.model, node, node.w)
        split, y = expansion.bound(node.w, np.zeros(len(node.w))), node.w
        node.bound = max(node.bound, split.value, float(expansion.price[node.is_in].sum()))
        if node.hi.max(initial=0.0) > LARGE:
            node.bound = max(node.bound, expansion.scaled_dual())
        if node.bound >= cutoff:
            node.is_closed = True
        if node.is_closed or self.is_leaf(node) or not np.isfinite(split.value):
            return
        B = node.rows.A[node.columns].astype(float)
        expansion.Q = certain_curvature(expansion, B, cutoff)
        d = self._certified(expansion, node.d)
        for i in range(N_DIAGONALS):
            if i > 0:
                d = self._certified(expansion, self._next_diagonal(node, expansion.Q, d, y))
            if i > 0 or d.max() > 0:
                x = expansion.minimise(y, d, self._prices(node))
                trial = expansion.bound(x, d)
                if not np.isfinite(trial.value):
                    break
                if trial.value >= split.value:
                    is_stuck = trial.value - split.value < 0.01 * (cutoff - trial.value)
                    split, y = trial, x
                    if i > 1 and is_stuck:
                        break
                if node.multiplier > 0 or self.model.limit < len(self.model.price):
                    node.multiplier = self._multiplier(node, trial)
            node.bound = max(node.bound, split.value)
            if node.bound >= cutoff:
                node.is_closed = True
                return
        node.d = np.maximum(split.d, 0.0)
        stays = self._fix(node, split, cutoff)
        if not node.is_closed:
            self._confine(node, expansion, B, y, split.d, cutoff)
        if not stays.all():
            node.keep(stays)

    def _certified(self, expansion: Expansion, d: np.ndarray) -> np.ndarray:
        """Return d, reduced until it is below Q, or zeros."""
        proven = certify_diagonal(expansion.Q, d, len(expansion.z))
        return np.zeros(len(d)) if proven is None else proven

    def _prices(self, node: Node) -> np.ndarray:
        """Return the prices that steer the relaxation: under a limit, with its multiplier."""
        is_priced = self.model.problem.cost[node.columns] > 0
        return self.model.price[node.columns] + np.where(is_priced, node.multiplier, 0.0)

    def _fix(self, node: Node, split: Split, cutoff: float) -> np.ndarray:
        """Decide columns by their reduced costs and cut ranges; return who is not out."""
        undecided = ~node.is_in
        price = split.expansion.price
        budget = cutoff - split.with_column() - np.where(undecided, price, 0.0)
        stays = node.is_in | (split.inside < budget)
        comes_in = undecided & (split.without() >= cutoff)
        if (comes_in & ~stays).any():
            node.is_closed, node.bound = True, max(node.bound, cutoff)
            return stays
        node.is_in |= comes_in
        self._cut_ranges(node, split.g, split.d, budget)
        return stays

    def _cut_ranges(self, node: Node, g: np.ndarray, d: np.ndarray, budget: np.ndarray) -> None:
        """Keep weights with g x + d x^2 / 2 <= budget."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            root = np.sqrt(g * g + 2.0 * d * budget)
            above, below = (root - g) / d, (-g - root) / d
            linear = np.where(g > 0, budget / g, np.inf)
        curved = (d > 1e-9) & np.isfinite(root)
        hi = np.where(curved, above, np.where(d >= 0, linear, np.inf))
        self._set_ranges(node, np.where(curved, below, -np.inf), hi)

    def _set_ranges(self, node: Node, lo: np.ndarray, hi: np.ndarray) -> None:
        """Shrink the ranges of weights, with a margin for rounding, to multiples of the step."""
        hi = np.where(np.isfinite(hi), hi, np.inf)
        hi = hi + 1e-7 * np.abs(hi) + 1e-9
        lo = lo - 1e-7 * np.abs(lo) - 1e-9
        step = self.model.step[node.columns]
        if self.model.top:
            hi = np.where(np.isfinite(hi), np.floor(hi / step) * step, hi)
            lo = np.where(np.isfinite(lo), np.ceil(lo / step) * step, lo)
        node.hi = np.minimum(node.hi, hi)
        node.lo = np.where(node.is_in, np.maximum(node.lo, lo), node.lo)

    def _confine(
        self,
        node: Node,
        expansion: Expansion,
        B: np.ndarray,
        x: np.ndarray,
        d: np.ndarray,
        cutoff: float,
    ) -> None:
        """Shrink the ranges of weights and margins to an ellipsoid around the point.

        With the share theta of D in the bound, the rest of the curvature is left:
        (w - x)' E (w - x) <= cutoff - bound, E = (Q - theta D) / 2, less its rounding. Where E
        is nearly singular, a ridge adds at most its size times the squared width of the node.
        """
        lo = np.where(node.is_in, node.lo, 0.0)
        width = np.maximum(node.hi - x, x - lo)
        squares = float(width @ width)
        Q = expansion.Q
        for theta in SPLITS if (d > 0).any() else (0.0,):
            part = expansion.bound(x, theta * d)
            excess = cutoff - part.value
            if not np.isfinite(excess):
                return
            if excess <= 0.0:
                node.bound, node.is_closed = max(node.bound, part.value), True
                return
            E = 0.5 * (Q - np.diag(theta * d)) - rounding(Q, len(expansion.z)) * np.eye(len(d))
            L = cholesky(E)
            if L is None or L.diagonal().min() < WELL * L.diagonal().max():
                if not np.isfinite(squares):
                    return
                ridge = RIDGE * float(np.trace(Q)) + 1e-3 * excess / max(squares, 1e-12)
                E[np.diag_indices_from(E)] += ridge
                excess += ridge * squares
                L = cholesky(E)
            if L is None:
                continue
            inverse, _ = lapack.dtrtri(L, lower=1)
            inverse = np.tril(inverse)
            radius = np.sqrt(excess * np.einsum("ij,ij->j", inverse, inverse)) * (1.0 + 1e-4)
            self._set_ranges_around(node, x, radius)
            node.center, node.shape = x.copy(), E / excess * (1.0 - 1e-6)
        if L is not None and self.code != SQUARED:
            half = inverse @ B
            z = expansion.z + (x - expansion.x) @ B
            reach = np.sqrt(excess * np.einsum("ij,ij->j", half, half)) * (1.0 + 1e-4) + 1e-9
            node.high = np.minimum(node.high, z + reach)
            if self.needs_low:
                node.low = np.maximum(node.low, z - reach)

    def _set_ranges_around(self, node: Node, x: np.ndarray, radius: np.ndarray) -> None:
        """Shrink ranges to x +- radius; an undecided column that cannot be zero is in."""
        node.is_in |= x - radius > 1e-6
        self._set_ranges(node, x - radius, x + radius)

    def _multiplier(self, node: Node, split: Split) -> float:
        """Return the price at which about as many columns pay as the limit leaves room for."""
        last = split.terms[split.taken[-1]] if len(split.taken) else 0.0
        following = split.terms[split.others[0]] if len(split.others) else 0.0
        between = max(-0.5 * float(last + following), 0.0)
        return 0.5 * (node.multiplier + between) if np.isfinite(between) else node.multiplier

    def _next_diagonal(self, node: Node, Q: np.ndarray, d: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return a better diagonal for the relaxation whose minimum is at y.

        The bound grows with d_j at the rate w_j^2 (1 / share_j - 1) / 2, where share_j is
        how much of its price the column pays. Columns that are in leave by a Schur
        complement: their curvature is of no use to the price.
        """
        is_open = ~node.is_in | (self.model.top > 0)  # on a grid, levels have a price too
        chosen, inner = np.flatnonzero(is_open), np.flatnonzero(~is_open)
        ridge = RIDGE * float(np.trace(Q)) + 1e-14
        S = schur(Q, chosen, inner, ridge) + ridge * np.eye(len(chosen))
        start, n_steps = 0.95 * d[chosen], 3
        if start.min() <= 0.0 or cholesky(S - np.diag(start)) is None:
            start = np.full(len(chosen), 0.5 * max(np.linalg.eigvalsh(S)[0], 0.5 * ridge))
            n_steps = 25
        price = self.model.price[node.columns[chosen]] + node.multiplier
        x, hi, lo = y[chosen], node.hi[chosen], node.lo[chosen]
        weight = np.empty(len(chosen))
        for a in range(len(chosen)):
            _, knot = envelope(start[a], lo[a], hi[a], price[a])
            share = min(x[a] / knot, 1.0) if knot > 0 else 1.0
            gain = 0.5 * x[a] ** 2 * (1.0 / share - 1.0) if share > 1e-12 else 0.0
            weight[a] = gain * start[a] + 0.01 * price[a] + 1e-12
        better = np.zeros(len(d))
        better[chosen] = choose_diagonal(S, weight, start, n_steps)
        return better
