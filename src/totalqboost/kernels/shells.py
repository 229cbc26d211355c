"""Bounds of a node by the growth of the exponential loss around a point, shell by shell.

Let f and u be risk and weights at a point x, X = a'(w - x) the change of a margin, E the sum
over examples with weights u / f, and r^2 = E[X^2]. A cubic p(X) = alpha - beta X + gamma X^2 -
delta X^3 that touches exp(-X) at two points is nowhere above it, so

    risk(w) = f E[exp(-X)] >= f alpha - beta s'(w - x) + f (gamma r^2 - delta kappa r^3)

with s'(w - x) = f E[X] and kappa the largest skewness E[X^3] / r^3 of any direction. For any eta
let V(beta, eta) be a bound of f - beta s'(w - x) + eta f r^2 with all prices. Then

    F(w) >= V(beta, eta) + f (alpha - 1 + (gamma - eta) r^2 - delta kappa r^3)

where the last terms are concave in r^2: on a shell of radii the lower of the values at its ends.
Each shell takes the cubic and the eta that suit it best. The inequality is about all w, so what
is known at one point (an `Anchor`) serves all nodes below.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from totalqboost.kernels.bounds import Quadratic, minimise_relaxation, reduced, split
from totalqboost.kernels.definite import is_number
from totalqboost.kernels.jit import kernel
from totalqboost.kernels.relaxation import exponential_ratio

BETAS = np.array([1.0, 1.15, 1.3, 1.5, 1.8])
ETAS = np.array(
    [0, 0.01, 0.02, 0.035, 0.05, 0.07, 0.1, 0.13, 0.17, 0.21, 0.26, 0.32, 0.4, 0.5, 0.7]
)
TOUCHES = np.array([-0.15, -0.3, -0.5, -0.7, -1.0])  # where a cubic touches first
STRETCHES = np.array([1.0, 1.5, 2.0])  # and then, in units of kappa r
LAST_TOUCH = 20.0
SKEW = 4.5  # skewness beyond which other cubics than those that touch at 0 gain little
MANY_ROWS = 1000  # from which on third moments take longer than the whole table of V
SAFE = 1e-9  # taken off alpha and gamma: more than their rounding


class Anchor(NamedTuple):
    """Risk, slopes, curvature and skewness at a point, and what columns that are out add.

    With v = -x for those, ``drop`` is s'v, ``lift`` v'Qv and ``bend`` Qv for the others.
    """

    risk: float
    weight: float  # sum of u and more: the size of s and bend before cancellation
    nu: float
    s: np.ndarray
    Q: np.ndarray  # risk E[aa']
    x: np.ndarray
    n_rows: int
    kappa: float
    drop: float
    lift: float
    bend: np.ndarray
    slack: float  # rounding of drop and lift


@kernel
def scaled(anchor, beta, eta):
    """Return f - beta s'(w - x) + eta f r^2 as a quadratic of the columns that are left."""
    return Quadratic(
        anchor.risk - beta * anchor.drop + eta * anchor.lift - (beta + 2.0 * eta) * anchor.slack,
        (beta + 2.0 * eta) * anchor.weight,
        anchor.nu,
        beta * anchor.s - 2.0 * eta * anchor.bend,
        2.0 * eta * anchor.Q,
        anchor.x,
        anchor.n_rows,
    )


@kernel
def cubic(first, second):
    """Return alpha, beta, gamma and delta of the cubic that touches exp(-x) at two points."""
    h = second - first
    e = math.exp(-first)
    square = e * (math.expm1(-h) + h) / (h * h)
    cube = e * ((-math.expm1(-h) / h - math.exp(-h)) / h) / h - square / h
    alpha = e + e * first + square * first**2 - cube * first**2 * second
    beta = e + 2.0 * square * first - cube * (first**2 + 2.0 * first * second)
    gamma = square - cube * (2.0 * first + second)
    return alpha - SAFE, beta, gamma - SAFE, -cube


@kernel
def growth(kappa, r, eta):
    """Return r^2 q(kappa r) - eta r^2, rounded down: the best cubic that touches at 0."""
    return r * r * (exponential_ratio(kappa * r) * (1.0 - 1e-6) - eta * (1.0 + 1e-9))


@kernel
def rise_at_zero(kappa, low, high, eta):
    """Return the least growth on a shell by cubics that touch at 0: beta is 1."""
    if not is_number(high):  # growth rises with r, less a parabola it does not
        return growth(kappa, low, eta) if eta == 0.0 else -np.inf
    return min(growth(kappa, low, eta), growth(kappa, high, eta))


@kernel
def rise_of_cubic(alpha, gamma, delta, kappa, low, high, eta):
    """Return alpha - 1 + (gamma - eta) r^2 - delta kappa r^3, the lower of both ends."""
    at_low = (gamma - eta) * low**2 - delta * kappa * low**3
    at_high = (gamma - eta) * high**2 - delta * kappa * high**3
    return alpha - 1.0 + min(at_low, at_high)


@kernel
def best_cubic(anchor, values, low, high):
    """Return the best bound of a shell by cubics, its place in the table and what it adds.

    V is concave in beta, as a minimum of linear functions: between two betas of the table it
    is not below the line. ``share`` is how far from one to the next.
    """
    n_betas, n_etas = values.shape
    best, rise, b_best, e_best, share = -np.inf, 0.0, 0, 0, 0.0
    for first in TOUCHES:
        for stretch in STRETCHES:
            second = stretch * anchor.kappa * 0.5 * (low + high)
            if second > LAST_TOUCH or second - first < 0.25:
                continue
            alpha, beta, gamma, delta = cubic(first, second)
            b = 0
            while b < n_betas - 2 and BETAS[b + 1] < beta:
                b += 1
            if beta < BETAS[b] or beta > BETAS[b + 1]:
                continue
            t = (beta - BETAS[b]) / (BETAS[b + 1] - BETAS[b])
            for e in range(n_etas):
                more = rise_of_cubic(alpha, gamma, delta, anchor.kappa, low, high, ETAS[e])
                value = (1.0 - t) * values[b, e] + t * values[b + 1, e] + anchor.risk * more
                if is_number(value) and value > best:
                    best, rise, b_best, e_best, share = value, anchor.risk * more, b, e, t
    return best, rise, b_best, e_best, share


@kernel
def tabulate(anchor, ranges, d, toll, values, outs, ins):
    """Write V(beta, eta), and the bounds without and with each column."""
    k = d.shape[0]
    g, inside, terms = np.empty(k), np.empty(k), np.empty(k)
    for b in range(values.shape[0]):
        point = anchor.x.copy()
        for e in range(values.shape[1]):
            model = scaled(anchor, BETAS[b], ETAS[e])
            part = (2.0 * ETAS[e] * (1.0 - 1e-9)) * d
            if ETAS[e] > 0.0:
                point = minimise_relaxation(model, ranges, part, toll, point)
            values[b, e] = split(model, ranges, point, part, g, inside, terms)
            reduced(values[b, e], inside, terms, ranges, outs[b, e], ins[b, e])


@kernel
def shells(anchor, ranges, d, toll, radii, cutoff, without, within):
    """Bound the node shell by shell, with a diagonal D <= Q.

    Writes the bounds without and with each column. Returns the bound, the radius beyond which
    nothing is below ``cutoff``, and the eta of the worst shell.
    """
    k, n_etas = d.shape[0], ETAS.shape[0]
    n_betas = BETAS.shape[0] if anchor.kappa <= SKEW and anchor.n_rows >= MANY_ROWS else 1
    values = np.empty((n_betas, n_etas))
    outs, ins = np.empty((n_betas, n_etas, k)), np.empty((n_betas, n_etas, k))
    tabulate(anchor, ranges, d, toll, values, outs, ins)
    bound, radius, worst = np.inf, 0.0, 0.0
    out, within_one = np.empty(k), np.empty(k)
    without[:], within[:] = np.inf, np.inf
    for a in range(radii.shape[0] - 1):
        low, high = radii[a], radii[a + 1]
        best, best_e = -np.inf, 0
        out[:], within_one[:] = -np.inf, -np.inf
        for e in range(n_etas):
            rise = anchor.risk * rise_at_zero(anchor.kappa, low, high, ETAS[e])
            if not is_number(values[0, e] + rise):
                continue
            if values[0, e] + rise > best:
                best, best_e = values[0, e] + rise, e
            for j in range(k):
                out[j] = max(out[j], outs[0, e, j] + rise)
                within_one[j] = max(within_one[j], ins[0, e, j] + rise)
        if n_betas > 1 and is_number(high):
            value, rise, b, e, t = best_cubic(anchor, values, low, high)
            if value > best:
                best, best_e = value, e
                for j in range(k):
                    if not ranges.is_in[j]:
                        other = (1.0 - t) * outs[b, e, j] + t * outs[b + 1, e, j]
                        out[j] = max(out[j], other + rise)
                    beside = (1.0 - t) * ins[b, e, j] + t * ins[b + 1, e, j]
                    within_one[j] = max(within_one[j], beside + rise)
        if best < cutoff:
            radius = high
        if best < bound:
            bound, worst = best, ETAS[best_e]
        for j in range(k):
            without[j] = min(without[j], out[j])
            within[j] = min(within[j], within_one[j])
    return bound, radius, worst
