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

from totalqboost.kernels.bounds import Quadratic, split
from totalqboost.kernels.jit import kernel
from totalqboost.kernels.newton import correlate, loss_terms, margins
from totalqboost.kernels.relaxation import envelope, relax

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
def relaxed_cost(nu, ranges, toll, w):
    """Return nu and prices of weights w, a price per unit of weight up to the upper limit."""
    total = 0.0
    for j in range(w.shape[0]):
        total += nu[j] * w[j]
        if not ranges.is_in[j]:
            slope, _ = envelope(0.0, ranges.lo[j], ranges.hi[j], toll[j])
            total += slope * w[j]
    return total


@kernel
def farthest(A, columns, c, code, nu, ranges, toll, cutoff, center, e):
    """Return an upper bound of e'v over all v of the node with an objective below the cutoff."""
    k, m = columns.shape[0], A.shape[1]
    z, u, q, s = np.empty(m), np.empty(m), np.empty(m), np.empty(k)
    g, inside, terms = np.empty(k), np.empty(k), np.empty(k)
    none, flat, tilted = np.zeros(k), np.zeros((k, k)), np.empty(k)
    w, H = center.x.copy(), center.H.copy()
    at, spread = 0.0, 0.0
    for a in range(k):
        at += e[a] * w[a]
        for b in range(k):
            spread += e[a] * center.V[a, b] * e[b]
    mu = math.sqrt(2.0 * center.spare / max(spread, 1e-12))  # right if the risk were quadratic
    best = np.inf
    for _ in range(N_TILTS):
        for j in range(k):
            tilted[j] = nu[j] - mu * e[j]
        relax(
            A,
            columns,
            c,
            code,
            tilted,
            none,
            ranges.lo,
            ranges.hi,
            toll,
            ranges.is_in,
            w,
            center.value - mu * at + center.spare,
            CLOSENESS,
            N_STEPS,
            H,
            True,
        )
        margins(A, columns, w, z)
        risk = loss_terms(code, z, c, u, q)
        correlate(A, columns, u, s)
        weight, here = mu, 0.0
        for i in range(m):
            weight += abs(u[i])
        for j in range(k):
            s[j] += mu * e[j]
            here += e[j] * w[j]
        low = split(Quadratic(risk, weight, nu, s, flat, w, m), ranges, w, none, g, inside, terms)
        best = min(best, here + (cutoff - low) / mu)
        used = risk + relaxed_cost(nu, ranges, toll, w) - center.value
        ratio = math.sqrt(center.spare / max(used, 1e-3 * center.spare))
        if 1.0 / RIGHT < ratio < RIGHT:
            break
        mu *= min(max(ratio, 0.3), 3.0)
    return best


@kernel
def reaches(A, columns, c, code, nu, ranges, toll, cutoff, center, directions, tops):
    """Write the bounds of `farthest` for all rows of ``directions``."""
    for t in range(directions.shape[0]):
        e = directions[t]
        tops[t] = farthest(A, columns, c, code, nu, ranges, toll, cutoff, center, e)
