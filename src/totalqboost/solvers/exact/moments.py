"""Bounds from the moments of the margins: the exponential loss grows at least so fast, anywhere.

Let X = a'd be the change of a margin under the weights u / f of the examples. With kappa the
largest skewness of X over all directions d, `totalqboost.kernels.exact.moments` has the growth of
the risk that follows. What is known at one point (an `Anchor`) holds for every w, so it serves
all nodes below.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from totalqboost.kernels.exact.bounds import next_diagonal
from totalqboost.kernels.exact.curvature import exponential_ratio
from totalqboost.kernels.exact.definite import certify_diagonal
from totalqboost.kernels.exact.moments import Anchor, scaled, shells, third_moments, whiten
from totalqboost.kernels.exact.relaxation import Ranges

if TYPE_CHECKING:
    from totalqboost.solvers.exact.expansion import Expansion
    from totalqboost.solvers.exact.node import Node

__all__ = ["Growth", "anchor_at", "bound_by_moments", "curvature_within"]

LEAST_VARIANCE = 1e-6  # eigenvalue of a covariance that can be whitened


class Growth(NamedTuple):
    """A bound by moments, and what goes with it."""

    bound: float
    reach: float  # largest E[X^3] / E[X^2] of what is below the cutoff
    d: np.ndarray  # the diagonal that suits the relaxation best
    without: np.ndarray  # bounds without and with each column
    within: np.ndarray


def anchor_at(expansion: Expansion) -> Anchor | None:
    """Return the moments at a point, or None where columns are too alike to be whitened.

    A column that is another with all signs turned adds no direction.
    """
    A, columns, *_ = expansion.data
    weight, mean = expansion.u / expansion.risk, expansion.s / expansion.risk
    place, sign = expansion.model.basis(columns)
    basis, place = np.unique(place, return_inverse=True)
    k, mean = len(basis), mean[basis]
    G, inverse, W = np.empty((k, k)), np.empty((k, k)), np.empty((k, len(weight)))
    if not whiten(A, columns[basis], weight, mean, LEAST_VARIANCE, G, inverse, W):
        return None
    kappa = largest_skewness(W, weight) * (1.0 + 1e-4)
    if math.isinf(kappa):
        return None
    return Anchor(
        risk=expansion.risk,
        weight=expansion.weight,
        nu=expansion.nu,
        s=expansion.s,
        Q=expansion.risk * np.outer(sign, sign) * G[np.ix_(place, place)],
        x=expansion.x,
        n_rows=len(expansion.z),
        kappa=kappa,
        tilt=float(np.linalg.norm(inverse @ mean)) * (1.0 + 1e-6) + 1e-9,
        drop=0.0,
        lift=0.0,
        bend=np.zeros(len(columns)),
        slack=0.0,
    )


def largest_skewness(W: np.ndarray, u: np.ndarray) -> float:
    """Return an upper bound of kappa for whitened columns W (sum_i u_i W_i W_i' = 1, sum u = 1).

    kappa is the largest T x x x over unit x, T the third moments; the norm of T as a matrix of
    k by k^2 is not below it.
    """
    T = np.empty((len(W), len(W), len(W)))
    error = third_moments(W, u, T)
    flat = T.reshape(len(W), -1)
    if not np.isfinite(flat).all():
        return math.inf
    norm = math.sqrt(max(float(np.linalg.eigvalsh(flat @ flat.T)[-1]), 0.0))
    return norm * (1.0 + 1e-6) + 1e-6 + error


def bound_by_moments(
    node: Node, anchor: Anchor, ranges: Ranges, toll: np.ndarray, cutoff: float
) -> Growth:
    """Bound a node by an anchor."""
    model = scaled(anchor, 1.0, 0.5)  # its Q is that of the anchor
    d = next_diagonal(model, ranges, np.maximum(node.d, 0.0), node.w, toll)
    d, _ = certify_diagonal(anchor.Q, d, anchor.n_rows)
    without, within = np.empty(len(d)), np.empty(len(d))
    bound, reach, eta = shells(anchor, ranges, d, toll, cutoff, without, within)
    return Growth(bound, reach, 2.0 * eta * d, without, within)


def curvature_within(anchor: Anchor, reach: float) -> np.ndarray:
    """Return the Q that is certain where E[X^3] / E[X^2] is at most ``reach``.

    With q(x) = (exp(-x) - 1 + x) / x^2, which is convex and falls, by Jensen's inequality under
    the weights u X^2, sum_i u_i (exp(-X_i) - 1 + X_i) >= f E[X^2] q(E[X^3] / E[X^2]).
    """
    return 2.0 * exponential_ratio(reach * (1.0 + 1e-6)) * (1.0 - 1e-6) * anchor.Q
