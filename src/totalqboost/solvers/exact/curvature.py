"""Curvature of the risk that is certain on all of a node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from totalqboost.kernels.bounds import Ranges, minimise_relaxation, next_diagonal
from totalqboost.kernels.definite import EPS, certify_diagonal, exact_gram
from totalqboost.kernels.loss_codes import EXPONENTIAL
from totalqboost.kernels.relaxation import exponential_ratio
from totalqboost.kernels.shells import BETAS, ONE, Anchor, scaled, shells
from totalqboost.kernels.skewness import whiten
from totalqboost.solvers.exact.expansion import Expansion
from totalqboost.solvers.exact.node import Node
from totalqboost.solvers.exact.skewness import MAX_COLUMNS, largest_skewness

__all__ = [
    "MANY_ROWS",
    "Curvature",
    "Shells",
    "Skewness",
    "anchored",
    "bound_by_shells",
    "curvature_within",
    "known_radius",
]

ENOUGH = 0.8  # of the curvature at the point: not worth improving
CREDIT = 6  # attempts at the skewness that may fail in a row
REWARD = 2  # further ones for each that was worth it: one in three has to be
RETRY, MAX_RETRY = 60, 480  # then so many nodes go without, twice as many after each failure
MANY_ROWS = 2000  # from which on third moments take longer than tables of bounds
TINY = 1e-200  # a risk that is zero
WELL = 1e-6  # least eigenvalue of a covariance that can be whitened
RADII = np.concatenate(
    [
        np.linspace(0.0, 1.1, 12),
        [1.25, 1.4, 1.6, 1.8, 2, 2.3, 2.7, 3.2, 3.8, 4.5, 5.5, 7, 9, 12, 16, 22, 35],
    ]
)


class Skewness(NamedTuple):
    """Moments of the columns under u / risk, and how skew and how far from 0 any direction is."""

    G: np.ndarray  # second moments
    inverse: np.ndarray  # of the Cholesky factor of the covariance
    kappa: float
    tilt: float  # largest ratio of mean to standard deviation


class Shells(NamedTuple):
    """A bound, and what goes with it."""

    bound: float
    reach: float  # largest E[X^3] / E[X^2] of what is below the cutoff
    d: np.ndarray  # the diagonal that suits the relaxation best
    without: np.ndarray  # bounds without and with each column
    within: np.ndarray


class Curvature:
    """Finds curvature that is certain, and learns where looking at the skewness pays.

    Nodes are bounded side by side. So that their order does not matter, what changes here
    changes between such batches: `permit` before, `learn` after.
    """

    def __init__(self) -> None:
        self.credit = CREDIT
        self.retry, self.n_skipped = RETRY, 0

    def of_rows(self, expansion: Expansion) -> np.ndarray:
        """Return a Q with risk(w) >= tangent(w) + (w - x)' Q (w - x) / 2 on all of the node.

        It follows from the ranges of the margins.
        """
        node, k = expansion.node, len(expansion.x)
        Q = np.empty((k, k))
        exact_gram(node.rows.A, node.columns, 2.0 * expansion.floor(), Q)
        return Q

    def skewness(self, expansion: Expansion, Q: np.ndarray) -> Skewness | None:
        """Return the skewness of the margins if it is worth the time, given the Q of rows."""
        k, risk = len(expansion.x), expansion.risk
        is_enough = np.trace(Q) > ENOUGH * risk * k
        is_exponential = expansion.model.problem.loss.code == EXPONENTIAL
        if is_enough or not is_exponential or k > MAX_COLUMNS or risk < TINY:
            return None
        if not expansion.node.may_try:
            return None
        expansion.node.was_tried = True
        return _skewness(expansion)

    def permit(self, node: Node) -> None:
        """Decide whether a node may look at its skewness."""
        node.was_tried = node.was_worth = False
        if self.credit <= 0:
            self.n_skipped += 1
        node.may_try = self.credit > 0 or self.n_skipped > self.retry
        if node.may_try:
            self.n_skipped = 0

    def learn(self, node: Node) -> None:
        """Learn from a node that was bounded."""
        if node.was_worth:
            self.credit, self.retry = min(self.credit + REWARD, CREDIT), RETRY
        elif node.was_tried:
            if self.credit <= 0:
                self.retry = min(2 * self.retry, MAX_RETRY)
            self.credit = max(self.credit - 1, 0)


def _skewness(expansion: Expansion) -> Skewness | None:
    rows, columns = expansion.node.rows, expansion.node.columns
    weight, mean = expansion.u / expansion.risk, expansion.s / expansion.risk
    place, sign = expansion.model.basis(columns)
    basis, place = np.unique(place, return_inverse=True)
    k, mean = len(basis), mean[basis]
    G, inverse, W = np.empty((k, k)), np.empty((k, k)), np.empty((k, len(weight)))
    if not whiten(rows.A, columns[basis], weight, mean, WELL, G, inverse, W):
        return None
    G = np.outer(sign, sign) * G[np.ix_(place, place)]
    kappa = largest_skewness(W, weight) * (1.0 + 1e-4)
    tilt = float(np.linalg.norm(inverse @ mean)) * (1.0 + 1e-6) + 1e-9
    return None if np.isinf(kappa) else Skewness(G, inverse, kappa, tilt)


def anchored(expansion: Expansion, skewness: Skewness) -> Anchor:
    """Return what is known of the risk everywhere from its moments at the expansion's point."""
    return Anchor(
        risk=expansion.risk,
        weight=expansion.weight,
        nu=expansion.nu,
        s=expansion.s,
        Q=expansion.risk * skewness.G,
        x=expansion.x,
        n_rows=len(expansion.z),
        kappa=skewness.kappa,
        tilt=skewness.tilt,
        drop=0.0,
        lift=0.0,
        bend=np.zeros(len(expansion.x)),
        slack=0.0,
    )


def bound_by_shells(
    node: Node,
    anchor: Anchor,
    ranges: Ranges,
    toll: np.ndarray,
    cutoff: float,
    known: float = np.inf,
) -> Shells:
    """Bound a node by an anchor. Nothing in it is farther from the anchor than ``known``."""
    radii = np.append(RADII[known > RADII], known)
    model = scaled(anchor, 1.0, 0.5)  # its Q is that of the anchor
    d = next_diagonal(model, ranges, np.maximum(node.d, 0.0), node.w, toll)
    best, beta, eta = _shells(anchor, ranges, d, toll, cutoff, radii)
    if anchor.n_rows >= MANY_ROWS and eta > 0.0 and best.bound < cutoff:
        # once more, with a diagonal that suits the worst cell
        model = scaled(anchor, beta, eta)
        y = minimise_relaxation(model, ranges, best.d, toll, anchor.x.copy(), 1e-9)
        d = next_diagonal(model, ranges, best.d, y, toll) / (2.0 * eta)
        other, _, _ = _shells(anchor, ranges, d, toll, cutoff, radii)
        best = other if other.bound > best.bound else best
    return best


def _shells(
    anchor: Anchor,
    ranges: Ranges,
    d: np.ndarray,
    toll: np.ndarray,
    cutoff: float,
    radii: np.ndarray,
) -> tuple[Shells, float, float]:
    """Return the bound with a diagonal, and beta and eta of its worst cell."""
    d, _ = certify_diagonal(anchor.Q, d, anchor.n_rows)
    betas = BETAS if anchor.n_rows >= MANY_ROWS else ONE
    without, within = np.empty(len(d)), np.empty(len(d))
    found = shells(anchor, ranges, d, toll, betas, radii, cutoff, without, within)
    bound, reach, beta, eta = found
    return Shells(bound, reach, 2.0 * eta * d, without, within), beta, eta


def curvature_within(expansion: Expansion, skewness: Skewness, reach: float) -> np.ndarray:
    """Return the Q that is certain where E[X^3] / E[X^2] is at most ``reach``.

    By Jensen's inequality, sum_i u_i (exp(-X_i) - 1 + X_i) >= f E[X^2] q(E[X^3] / E[X^2]).
    """
    return (
        2.0 * expansion.risk * exponential_ratio(reach * (1.0 + 1e-6)) * (1.0 - 1e-6) * skewness.G
    )


def known_radius(expansion: Expansion, inverse: np.ndarray) -> float:
    """Return how far from the point the ellipsoid reaches that was found before."""
    node = expansion.node
    if node.shape is None or node.center is None or len(node.shape) != len(inverse):
        return np.inf
    form = inverse @ node.shape @ inverse.T
    if not np.isfinite(form).all():
        return np.inf
    size = float((inverse**2).sum()) * float(np.linalg.norm(node.shape))
    least = float(np.linalg.eigvalsh(form)[0]) - 8.0 * len(form) * EPS * size  # rounding
    if least <= 1e-12:
        return np.inf
    shift = np.linalg.solve(inverse.T, node.center - expansion.x)  # in the norm of the margins
    radius = (1.0 + 1e-6) * (1.0 / np.sqrt(least) + float(np.linalg.norm(shift)))
    return radius if radius > 0.0 else np.inf  # no number is no limit
