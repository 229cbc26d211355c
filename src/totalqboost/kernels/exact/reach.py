"""How far the solutions of a node reach in a direction: limits of weights and of margins.

The tangent of the risk at any point w bounds F(v) - mu e'(v - w) from below over all v of the
node (the lemma of `totalqboost.solvers.exact.expansion` without curvature). So, whatever w and
mu > 0,

    e'v <= e'w + (cutoff - low) / mu    for all v of the node with F(v) < cutoff.

The best w minimises the relaxation of F(v) - mu e'v, the best mu is the one at which F there
is the cutoff. Unlike ellipsoids this needs no curvature to begin with, and it sees that weights
are not negative and have a price.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from totalqboost.kernels.exact.bounds import Underestimator, split
from totalqboost.kernels.exact.relaxation import penalties, relax, relaxed_value
from totalqboost.kernels.jit import kernel
from totalqboost.kernels.newton import correlate, loss_terms, margins

N_TILTS = 4  # values of mu that are tried
N_STEPS = 8  # Newton steps for each
CLOSENESS = 0.05  # duality gap at which they stop, as a share of what is spare
RIGHT = 1.25  # ratio of what is used to what is spare that is close enough to 1


class Center(NamedTuple):
    """The minimum of the relaxation of a node without curvature, and how much room is left."""

    x: np.ndarray
    H: np.ndarray  # the Hessian of the risk there
    V: np.ndarray  # its inverse
    value: float  # of the relaxation, without the prices of columns that are in
    spare: float  # from there to the cutoff


@kernel
def farthest(data, nu, ranges, toll, cutoff, center, e):
    """Return an upper bound of e'v over all v of the node with an objective below the cutoff."""
    k, m = e.shape[0], data.c.shape[0]
    z, u, q, s = np.empty(m), np.empty(m), np.empty(m), np.empty(k)
    g, inside, terms = np.empty(k), np.empty(k), np.empty(k)
    none, flat = np.zeros(k), np.zeros((k, k))
    lines = penalties(ranges, none, toll)
    w, H = center.x.copy(), center.H.copy()
    at, spread = np.dot(e, w), np.dot(e, np.dot(center.V, e))
    mu = math.sqrt(2.0 * center.spare / max(spread, 1e-12))  # right if the risk were quadratic
    best = np.inf
    for _ in range(N_TILTS):
        room = center.value - mu * at + center.spare
        relax(data, nu - mu * e, none, ranges, toll, w, room, CLOSENESS, N_STEPS, H, True)
        margins(data.A, data.columns, w, z)
        risk = loss_terms(data.code, z, data.c, u, q)
        correlate(data.A, data.columns, u, s)
        tilted = Underestimator(risk, mu + np.abs(u).sum(), nu, s + mu * e, flat, w, m)
        low = split(tilted, ranges, w, none, g, inside, terms)
        best = min(best, np.dot(e, w) + (cutoff - low) / mu)
        used = risk + relaxed_value(w, nu, lines) - center.value
        ratio = math.sqrt(center.spare / max(used, 1e-3 * center.spare))
        if 1.0 / RIGHT < ratio < RIGHT:
            break
        mu *= min(max(ratio, 0.3), 3.0)
    return best


@kernel
def reaches(data, nu, ranges, toll, cutoff, center, directions, tops):
    """Write the bounds of `farthest` for all rows of ``directions``."""
    for t in range(directions.shape[0]):
        tops[t] = farthest(data, nu, ranges, toll, cutoff, center, directions[t])
