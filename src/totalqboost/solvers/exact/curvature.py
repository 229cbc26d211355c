"""Curvature of the risk that is certain on all of a node."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from totalqboost.kernels.loss_codes import EXPONENTIAL
from totalqboost.solvers.exact.diagonal import cholesky
from totalqboost.solvers.exact.expansion import Expansion
from totalqboost.solvers.exact.skewness import (
    MAX_COLUMNS,
    largest_radius,
    largest_skewness,
    ratio,
)

__all__ = ["certain_curvature"]

ENOUGH = 0.8  # of the curvature at the point: not worth improving
TINY = 1e-200  # a risk that is zero


def certain_curvature(expansion: Expansion, B: np.ndarray, cutoff: float) -> np.ndarray:
    """Return a Q with risk(w) >= tangent(w) + (w - x)' Q (w - x) / 2 on all of the node.

    From the ranges of the margins, or for the exponential loss from their skewness,
    whichever has the larger trace.
    """
    half = B * np.sqrt(2.0 * expansion.floor())
    Q = half @ half.T
    is_enough = np.trace(Q) > ENOUGH * expansion.risk * len(B)
    if (
        expansion.model.problem.loss.code != EXPONENTIAL
        or len(B) > MAX_COLUMNS
        or is_enough
        or expansion.risk < TINY
    ):
        return Q
    weight = expansion.u / expansion.risk
    half = B * np.sqrt(weight)
    G = half @ half.T
    # Dependent columns: whiten with a ridge, and claim nothing about directions in which
    # the ridge is more than a 1e-4th of the variance.
    is_singular = cholesky(G - 1e-6 * np.eye(len(G))) is None
    ridge, unclaimed = (1e-12, 1e-8) if is_singular else (0.0, 0.0)
    L = cholesky(G + ridge * np.eye(len(G)))
    if L is None:
        return Q
    inverse = np.tril(lapack.dtrtri(L, lower=1)[0])
    kappa = largest_skewness(inverse @ B, weight) * (1.0 + 1e-4)
    radius = _radius(expansion, inverse, kappa, cutoff)
    share = 2.0 * expansion.risk * ratio(kappa * radius) * (1.0 - 1e-6)
    if share * len(G) <= np.trace(Q):
        return Q
    return share * (G - unclaimed * np.eye(len(G)))


def _radius(expansion: Expansion, inverse: np.ndarray, kappa: float, cutoff: float) -> float:
    """Return how far from the point a better solution can be, in the norm of the margins.

    First without extracted curvature; then the diagonal that is certain within that
    distance raises the bound, which lowers the distance, and so on.
    """
    d = np.maximum(expansion.node.d, 0.0)
    risk = expansion.risk
    flat = expansion.bound(expansion.x, np.zeros(len(d)))
    radius = largest_radius(kappa, max(cutoff - flat.value, 0.0) / risk, 0.0, np.inf)
    radius = min(radius, _known_radius(expansion, inverse))
    largest = float(np.linalg.norm(inverse * np.sqrt(d), 2)) ** 2 / risk
    if largest == 0.0 or np.isinf(radius):
        return radius
    for _ in range(8):
        before = radius
        share = min(1.0, 0.999 * 2.0 * ratio(kappa * radius) / largest)
        for theta in (0.3 * share, 0.6 * share, 0.8 * share):
            part = expansion.bound(expansion.x, theta * d)
            limit = max(cutoff - part.value, 0.0) / risk
            radius = largest_radius(kappa, limit, theta * largest, radius)
        if radius > 0.98 * before:
            break
    return radius


def _known_radius(expansion: Expansion, inverse: np.ndarray) -> float:
    """Return how far from the point the ellipsoid reaches that was found before."""
    node = expansion.node
    if node.shape is None or node.center is None:
        return np.inf
    least = float(np.linalg.eigvalsh(inverse @ node.shape @ inverse.T)[0])
    if least <= 1e-12:
        return np.inf
    shift = np.linalg.solve(inverse.T, node.center - expansion.x)  # in the norm of the margins
    return (1.0 + 1e-6) * (1.0 / np.sqrt(least) + float(np.linalg.norm(shift)))
