"""The bound of a node: valid from any point, whatever the relaxation has converged to.

Lemma. Let R_i >= 0 be such that l(t) >= l(z_i) + l'(z_i)(t - z_i) + R_i (t - z_i)^2 on the
range of margin i over the node, and let D = diag(d) <= Q = 2 A diag(c R) A'. Then every w of
the node satisfies, with u_i = -c_i l'(z_i), s = A u and g = nu - s - d * x at any point x
with margins z,

    F(w) >= sum_i (c_i l(z_i) + u_i z_i) + sum_j d_j x_j^2 / 2
            + sum_j ( g_j w_j + d_j w_j^2 / 2 + price_j [w_j > 0] )

and the last sum falls apart: each column takes its best weight, or none. Under a limit on
the number of columns the most useful ones are taken, as many as the limit allows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from totalqboost.kernels.newton import loss_terms, margins, slopes
from totalqboost.kernels.relaxation import (
    column_terms,
    curvature_floor,
    envelope,
    minimise_penalised,
)
from totalqboost.solvers.exact.diagonal import EPS
from totalqboost.solvers.exact.model import Model
from totalqboost.solvers.exact.node import Node

__all__ = ["Expansion", "Split"]


class Expansion:
    """The risk at a point of a node, and the bounds that follow from it.

    On the node, risk(w) >= m(w) = risk(x) - s'(w - x) + (w - x)' Q (w - x) / 2 once ``Q`` is
    set; the lemma holds for the quadratic m at any point, with s - Q (y - x) for s.
    """

    def __init__(self, model: Model, node: Node, x: np.ndarray):
        rows, columns = node.rows, node.columns
        self.model, self.node, self.x = model, node, x.copy()
        self.z, self.u = np.empty(len(rows.c)), np.empty(len(rows.c))
        self.s = np.empty(len(columns))
        margins(rows.A, columns, self.x, self.z)
        code = model.problem.loss.code
        self.risk = float(loss_terms(code, self.z, rows.c, self.u, np.empty(len(rows.c))))
        slopes(rows.A, columns, self.u, self.s)
        self.weight = float(np.abs(self.u).sum())
        self.unit = 4.0 * (len(self.z) + 2 * len(x) + 16) * EPS
        self.Q = np.zeros((len(x), len(x)))
        self.price = model.price[columns]
        self.step = model.step[columns]
        n_in = np.count_nonzero(model.problem.cost[columns[node.is_in]] > 0)
        self.room = model.limit - int(n_in)

    def floor(self) -> np.ndarray:
        """Return c_i R_i on the ranges of the margins."""
        node = self.node
        out = np.empty(len(self.z))
        curvature_floor(self.model.problem.loss.code, self.z, node.low, node.high, node.rows.c, out)
        return out

    def bound(self, y: np.ndarray, d: np.ndarray) -> Split:
        """Return the bound of the lemma at y, rounded down, and what each column adds to it.

        Every sum of n float64 terms is off by at most n eps times the sum of their absolute
        values; a gradient that may be off is taken at its low end, since weights are >= 0.
        """
        node, unit = self.node, self.unit
        move = y - self.x
        bend = self.Q @ move
        s = self.s - bend
        reach = float(y.sum() + self.x.sum())
        nu = self.model.problem.nu
        largest = float(self.Q.diagonal().max(initial=0.0))
        error = unit * (self.weight + nu + np.abs(d) * y + largest * reach)
        g = nu - s - d * y - error
        inside = np.empty(len(y))
        column_terms(g, d, node.lo, node.hi, self.step, inside)
        parts = (self.risk, float(s @ y), -float(self.s @ move), 0.5 * float(move @ bend))
        lift, fixed = 0.5 * float(d @ (y * y)), float(self.price[node.is_in].sum())
        terms = np.where(node.is_in, inside, np.minimum(inside + self.price, 0.0))
        size = sum(abs(part) for part in parts) + abs(lift) + fixed
        size += (self.weight + largest * reach) * reach
        size += float(np.abs(terms[np.isfinite(terms)]).sum())
        return Split(self, g, d, inside, terms, sum(parts) + lift + fixed - unit * size)

    def scaled_dual(self) -> float:
        """Return the bound of the l1 problem from u, scaled so that no column prices out.

        -sum_i c_i l*(-t u_i / c_i) with t A u <= nu, plus the prices of the columns that are
        in. It needs no limit of any weight, which counts where those are large.
        """
        problem, c = self.model.problem, self.node.rows.c
        worst = float((self.s + self.unit * self.weight).max(initial=0.0))
        t = 1.0 if worst <= problem.nu else problem.nu / worst * (1.0 - 1e-12)
        used = c > 0
        terms = c[used] * problem.loss.conjugate(t * self.u[used] / c[used])
        value = float(terms.sum()) + self.unit * float(np.abs(terms).sum())
        return float(self.price[self.node.is_in].sum()) - value

    def minimise(self, y: np.ndarray, d: np.ndarray, price: np.ndarray) -> np.ndarray:
        """Return the minimum of the relaxation of m, from y."""
        node = self.node
        k = len(y)
        slope, knot = np.zeros(k), np.zeros(k)
        curve = np.where(node.is_in, 0.0, np.maximum(d, 0.0))
        for j in range(k):
            if not node.is_in[j]:
                slope[j], knot[j] = envelope(curve[j], node.lo[j], node.hi[j], price[j])
        y = np.clip(y, np.where(node.is_in, node.lo, 0.0), node.hi)
        g = self.model.problem.nu - self.s + self.Q @ (y - self.x) - curve * y
        H = self.Q - np.diag(curve)
        out = np.empty(k)
        minimise_penalised(H, g, y, node.is_in, curve, node.lo, node.hi, slope, knot, 1e-12, out)
        return out


@dataclass
class Split:
    """A bound that is a constant plus one term per column."""

    expansion: Expansion
    g: np.ndarray
    d: np.ndarray
    inside: np.ndarray
    terms: np.ndarray
    constant: float

    def __post_init__(self) -> None:
        is_in = self.expansion.node.is_in
        undecided = np.flatnonzero(~is_in)
        order = undecided[np.argsort(self.terms[undecided], kind="stable")]
        room = max(self.expansion.room, 0)
        self.taken, self.others = order[:room], order[room:]
        self.value = self.constant + self.terms[is_in].sum() + self.terms[self.taken].sum()
        if self.expansion.room < 0:
            self.value = np.inf  # more columns are in than the limit allows

    def without(self) -> np.ndarray:
        """Return the bound without the term of each column, the others at their best.

        For an undecided column this is the bound if it is out; with its own term and price
        added, the bound if it is in.
        """
        value = np.full(len(self.terms), self.value)
        value[self.expansion.node.is_in] -= self.terms[self.expansion.node.is_in]
        # One that is out frees a place, one that comes in takes the last one.
        next_best = self.terms[self.others[0]] if len(self.others) else 0.0
        value[self.taken] += next_best - self.terms[self.taken]
        return value

    def with_column(self) -> np.ndarray:
        """Return the bound without the term of each column, one place being taken by it."""
        value = np.full(len(self.terms), self.value)
        value[self.expansion.node.is_in] -= self.terms[self.expansion.node.is_in]
        value[self.taken] -= self.terms[self.taken]
        value[self.others] -= self.terms[self.taken[-1]] if len(self.taken) else -np.inf
        return value
