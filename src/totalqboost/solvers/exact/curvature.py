"""Curvature of the risk that is certain on all of a node."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from totalqboost.kernels.bounds import exact_gram
from totalqboost.kernels.loss_codes import EXPONENTIAL
from totalqboost.solvers.exact.expansion import Expansion
from totalqboost.solvers.exact.skewness import (
    MAX_COLUMNS,
    cholesky,
    largest_radius,
    largest_skewness,
    ratio,
)

__all__ = ["Curvature"]

ENOUGH = 0.8  # of the curvature at the point: not worth improving
WORTH = 0.2  # of the curvature at the point: a gain that is worth the time
CREDIT, RETRY = 6, 60  # after so many failures the skewness is looked at in every so many nodes
TINY = 1e-200  # a risk that is zero


class Curvature:
    """Finds curvature that is certain, and learns where looking at the skewness pays."""

    def __init__(self) -> None:
        self.credit = CREDIT  # attempts that may fail in a row
        self.n_skipped = 0

    def certain(self, expansion: Expansion, cutoff: float) -> np.ndarray:
        """Return a Q with risk(w) >= tangent(w) + (w - x)' Q (w - x) / 2 on all of the node.

        From the ranges of the margins, or for the exponential loss from their skewness,
        whichever has the larger trace.
        """
        node, k = expansion.node, len(expansion.x)
        Q = np.empty((k, k))
        exact_gram(node.rows.A, node.columns, 2.0 * expansion.floor(), Q)
        is_enough = np.trace(Q) > ENOUGH * expansion.risk * k
        is_exponential = expansion.model.problem.loss.code == EXPONENTIAL
        if is_enough or not is_exponential or k > MAX_COLUMNS or expansion.risk < TINY:
            return Q
        if self.credit <= 0 and self.n_skipped < RETRY:
            self.n_skipped += 1
            return Q
        other = _from_skewness(expansion, cutoff, float(np.trace(Q)))
        pays = other is not None and np.trace(other - Q) > WORTH * expansion.risk * k
        self.credit, self.n_skipped = CREDIT if pays else self.credit - 1, 0
        return Q if other is None else other


def _from_skewness(expansion: Expansion, cutoff: float, least: float) -> np.ndarray | None:
    """Return the Q that the skewness proves if its trace is above ``least``."""
    node, k = expansion.node, len(expansion.x)
    B = node.rows.A[node.columns].astype(float)
    weight = expansion.u / expansion.risk
    half = B * np.sqrt(weight)
    G = half @ half.T
    # Dependent columns: whiten with a ridge, and claim nothing about directions in which
    # the ridge is more than a 1e-4th of the variance.
    is_singular = cholesky(G - 1e-6 * np.eye(k)) is None
    ridge, unclaimed = (1e-12, 1e-8) if is_singular else (0.0, 0.0)
    L = cholesky(G + ridge * np.eye(k))
    if L is None:
        return None
    inverse = np.tril(lapack.dtrtri(L, lower=1)[0])
    if not np.isfinite(inverse).all():
        return None
    kappa = largest_skewness(inverse @ B, weight) * (1.0 + 1e-4)
    if np.isinf(kappa):
        return None
    radius = _radius(expansion, inverse, kappa, cutoff)
    share = 2.0 * expansion.risk * ratio(kappa * radius) * (1.0 - 1e-6)
    if share * k <= least:
        return None
    return share * (G - unclaimed * np.eye(k))


def _radius(expansion: Expansion, inverse: np.ndarray, kappa: float, cutoff: float) -> float:
    """Return how far from the point a better solution can be, in the norm of the margins.

    First without extracted curvature; then the diagonal that is certain within that
    distance raises the bound, which lowers the distance, and so on.
    """
    d = np.maximum(expansion.node.d, 0.0)
    risk = expansion.risk
    flat = expansion.bound(expansion.x, np.zeros(len(d)))
    radius = largest_radius(kappa, max(cutoff - flat, 0.0) / risk, 0.0, np.inf)
    radius = min(radius, _known_radius(expansion, inverse))
    largest = float(np.linalg.norm(inverse * np.sqrt(d), 2)) ** 2 / risk
    if largest == 0.0 or np.isinf(radius):
        return radius
    for _ in range(8):
        before = radius
        share = min(1.0, 0.999 * 2.0 * ratio(kappa * radius) / largest)
        for theta in (0.3 * share, 0.6 * share, 0.8 * share):
            part = expansion.bound(expansion.x, theta * d)
            limit = max(cutoff - part, 0.0) / risk
            radius = largest_radius(kappa, limit, theta * largest, radius)
        if radius > 0.98 * before:
            break
    return radius


def _known_radius(expansion: Expansion, inverse: np.ndarray) -> float:
    """Return how far from the point the ellipsoid reaches that was found before."""
    node = expansion.node
    if node.shape is None or node.center is None:
        return np.inf
    form = inverse @ node.shape @ inverse.T
    if not np.isfinite(form).all():
        return np.inf
    least = float(np.linalg.eigvalsh(form)[0])
    if least <= 1e-12:
        return np.inf
    shift = np.linalg.solve(inverse.T, node.center - expansion.x)  # in the norm of the margins
    return (1.0 + 1e-6) * (1.0 / np.sqrt(least) + float(np.linalg.norm(shift)))
