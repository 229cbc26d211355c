"""The bound of a node: valid from any point, whatever the relaxation has converged to.

Lemma. Let R_i >= 0 be such that l(t) >= l(z_i) + l'(z_i)(t - z_i) + R_i (t - z_i)^2 on the
range of margin i over the node, and let D = diag(d) <= Q = 2 A diag(c R) A'. Then every w of
the node satisfies, with u_i = -c_i l'(z_i), s = A u and g = nu - s - d * x at any point x
with margins z,

    F(w) >= sum_i (c_i l(z_i) + u_i z_i) + sum_j d_j x_j^2 / 2
            + sum_j ( g_j w_j + d_j w_j^2 / 2 + price_j [w_j > 0] )

and the last sum falls apart: each column takes its best weight, or none. Under a limit on
the number of columns the most useful ones are taken, as many as the limit allows. Of a feature
that some column may read, price_j has a share (`Node.prices`).
"""

from __future__ import annotations

import numpy as np

from totalqboost.kernels.exact.bounds import Underestimator, split
from totalqboost.kernels.exact.curvature import curvature_floor
from totalqboost.kernels.exact.definite import exact_gram
from totalqboost.kernels.newton import correlate, loss_terms, margins
from totalqboost.solvers.exact.model import Model
from totalqboost.solvers.exact.node import Node

__all__ = ["Expansion"]


class Expansion:
    """The risk at a point of a node, and the bounds that follow from it.

    On the node, risk(w) >= m(w) = risk(x) - s'(w - x) + (w - x)' Q (w - x) / 2 once ``Q`` is
    set; the lemma holds for the quadratic m at any point, with s - Q (y - x) for s.
    """

    def __init__(self, model: Model, node: Node, x: np.ndarray):
        self.model, self.node, self.x = model, node, x.copy()
        self.data = A, columns, c, code = node.data(model)
        self.z, self.u, self.s = np.empty(len(c)), np.empty(len(c)), np.empty(len(x))
        margins(A, columns, self.x, self.z)
        self.risk = float(loss_terms(code, self.z, c, self.u, np.empty(len(c))))
        correlate(A, columns, self.u, self.s)
        self.weight = float(np.abs(self.u).sum())
        self.Q = np.zeros((len(x), len(x)))
        self.nu, self.ranges = model.problem.nus[columns], node.ranges(model)
        self.paid = self.ranges.fixed + float(self.ranges.price[node.is_in].sum())

    def certain_curvature(self) -> np.ndarray:
        """Return the Q of the lemma that follows from the ranges of the margins."""
        A, columns, c, code = self.data
        floor, Q = np.empty(len(c)), np.empty_like(self.Q)
        curvature_floor(code, self.z, self.node.low, self.node.high, c, floor)
        exact_gram(A, columns, 2.0 * floor, Q)
        return Q

    def tangent_bound(self) -> float:
        """Return the bound of the lemma without curvature, rounded down."""
        k = len(self.x)
        scratch = np.empty(k), np.empty(k), np.empty(k)
        return float(split(self.underestimator(), self.ranges, self.x, np.zeros(k), *scratch))

    def underestimator(self) -> Underestimator:
        """Return m, for kernels."""
        return Underestimator(self.risk, self.weight, self.nu, self.s, self.Q, self.x, len(self.z))

    def dual_bound(self) -> float:
        """Return the dual bound of the l1 problem of the node, and the prices of columns in.

        It needs no limit of any weight, which counts where those are large.
        """
        columns, problem = self.node.columns, self.model.problem
        problem = problem.columns(columns)
        return self.paid + problem.dual_bound(self.u)
