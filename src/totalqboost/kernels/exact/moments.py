"""Bounds of a node by the growth of the exponential loss around a point, shell by shell.

Let f and u be risk and weights at a point x, X = a'(w - x) the change of a margin, E the mean
under the weights u / f, M = E[X] and v^2 the variance of X. If no direction has a skewness above
kappa, the least E[exp(M - X)] that mean, variance and skewness allow is that of two atoms:

    risk(w) = f E[exp(-X)] >= f exp(-M) T(v),   T(v) = p exp(a v) + (1 - p) exp(-b v)

with b - a = kappa, a b = 1 and p = b / (a + b) (Chebyshev, Markov, Krein: exp has a cubic below it
that touches it at the atoms, and a cubic has the same mean for all with these moments).

For any beta and eta let V(beta, eta) be a bound of f - beta s'(w - x) + eta f r^2 with all prices,
r^2 = E[X^2] = v^2 + M^2. As s'(w - x) = f M,

    F(w) >= V(beta, eta) + f (exp(-M) T(v) - 1 + beta M - eta (v^2 + M^2)).

The space of (v, M) is cut into patches: shells of v, slabs of M. Each patch takes the beta and the
eta that suit it best. The inequality is about all w, so what is known at one point (an `Anchor`)
serves all nodes below.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from totalqboost.kernels.exact.bounds import (
    Underestimator,
    minimise_relaxation,
    reduced,
    split,
)
from totalqboost.kernels.exact.definite import (
    ROWS_AT_ONCE,
    exact_gram,
    factor,
    invert_factor,
    is_number,
)
from totalqboost.kernels.jit import kernel

BETAS = np.array([0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5, 1.8, 2.3])
ETAS = np.array([0, 0.015, 0.035, 0.06, 0.1, 0.15, 0.21, 0.28, 0.36, 0.46, 0.6, 0.8])
NEAR = np.linspace(0.0, 1.1, 12)
FAR = [1.25, 1.4, 1.6, 1.8, 2, 2.3, 2.7, 3.2, 3.8, 4.5, 5.5, 7, 9, 12, 16, 22, 35, np.inf]
RADII = np.concatenate((NEAR, FAR))  # of v, where shells begin and end
N_SLABS = 8
TOLERANCE = 1e-7  # of the points of the table: bounds hold at any
SAFE = 1e-9  # relative rounding of T and of a patch's rise
NO_WEIGHT = 1e-30  # of an example, far below the slack of any sum


class Anchor(NamedTuple):
    """Risk, slopes, curvature and skewness at a point, and what columns that are out add.

    With v = -x for those, ``drop`` is s'v, ``lift`` v'Qv and ``bend`` Qv for the others.
    """

    risk: float
    weight: float  # sum of u and more: the size of s and bend before cancellation
    nu: np.ndarray  # per column
    s: np.ndarray
    Q: np.ndarray  # risk E[aa']
    x: np.ndarray
    n_rows: int
    kappa: float  # no direction has a larger skewness
    tilt: float  # nor a larger ratio of mean to standard deviation
    drop: float
    lift: float
    bend: np.ndarray
    slack: float  # rounding of drop and lift


@kernel
def whiten(A, columns, u, mean, least, G, inverse, W):
    """Write second moments G under weights u, the inverse of the Cholesky factor of the
    covariance, and the columns whitened by it; False if an eigenvalue is below ``least``.
    """
    k = W.shape[0]
    exact_gram(A, columns, u, G)
    covariance, L, none = G - np.outer(mean, mean), np.empty((k, k)), np.zeros(k)
    if not factor(covariance, none + least, L) or not factor(covariance, none, L):
        return False
    invert_factor(L, inverse)
    inverse[:] = inverse.T.copy()
    np.dot(inverse, A[columns] - mean.reshape(k, 1), W)
    return True


@kernel
def third_moments(W, u, T):
    """Write T_abc = sum_i u_i W_ai W_bi W_ci; return how far T x x x may be off for unit x.

    Blocks are summed in single precision, and their sums in double: an entry is off by at
    most (ROWS_AT_ONCE + 8) 2^-24 sum_i |u_i W_ai W_bi W_ci|, and |W_i|^3 is the largest value of
    (sum_a |W_ai x_a|)^3 over unit x.
    """
    k, m = W.shape
    T[:] = 0.0
    cubes = 0.0
    for first in range(0, m, ROWS_AT_ONCE):
        block = np.ascontiguousarray(W[:, first : first + ROWS_AT_ONCE])
        weight = u[first : first + ROWS_AT_ONCE]
        squares = (block * block).sum(axis=0)
        cubes += (weight * squares * np.sqrt(squares)).sum()
        # Weights below float32's normal range would cost many times the time.
        weight = np.where(weight > NO_WEIGHT, weight, 0.0).astype(np.float32)
        single = block.astype(np.float32)
        weighted = single * weight
        products, row = np.empty((k * (k + 1) // 2, len(weight)), np.float32), 0
        for a in range(k):
            for b in range(a, k):
                products[row] = single[a] * single[b]
                row += 1
        part, row = np.dot(products, weighted.T), 0
        for a in range(k):
            for b in range(a, k):
                T[a, b] += part[row]
                row += 1
    for a in range(k):
        for b in range(a):
            T[a, b] = T[b, a]
    return (ROWS_AT_ONCE + 8) * 2.0**-24 * 1.01 * cubes


@kernel
def scaled(anchor, beta, eta):
    """Return f - beta s'(w - x) + eta f r^2 as a quadratic of the columns that are left."""
    return Underestimator(
        anchor.risk - beta * anchor.drop + eta * anchor.lift - (beta + 2.0 * eta) * anchor.slack,
        (beta + 2.0 * eta) * anchor.weight,
        anchor.nu,
        beta * anchor.s - 2.0 * eta * anchor.bend,
        2.0 * eta * anchor.Q,
        anchor.x,
        anchor.n_rows,
    )


@kernel
def atoms(kappa):
    """Return a and b: the atoms are at -a v, with mass b / (a + b), and at b v."""
    root = math.sqrt(kappa * kappa + 4.0)
    return 0.5 * (root - kappa), 0.5 * (root + kappa)


@kernel
def two_atoms(kappa, v):
    """Return T(v), rounded down: the least E[exp(-Y)] of a Y with mean 0 and variance v^2."""
    a, b = atoms(kappa)
    value = (b * math.exp(min(a * v, 500.0)) + a * math.exp(-b * v)) / (a + b)
    return max(value * (1.0 - SAFE), 1.0)


@kernel
def below_atoms(kappa, low, high):
    """Return the values at both ends of a line in v^2 that is below T on [low, high].

    T is p (exp(a v) - a v) + (1 - p) (exp(-b v) + b v), as p a = (1 - p) b. In v^2 the first is
    convex, above its tangent in the middle, and the second concave, above its chord.
    """
    start = two_atoms(kappa, low)
    a, b = atoms(kappa)
    square = 0.5 * (low * low + high * high)
    middle = math.sqrt(square)
    if not is_number(high) or a * middle > 30.0:
        return start, start  # T rises
    wave = math.exp(a * middle)
    tangent = wave - a * middle
    slope = 0.5 * a * (wave - 1.0) / middle
    first = tangent + slope * (low * low - square)
    second = tangent + slope * (high * high - square)
    first = (b * first + a * (math.exp(-b * low) + b * low)) / (a + b)
    second = (b * second + a * (math.exp(-b * high) + b * high)) / (a + b)
    if first < 0.9 * start:  # a wide shell
        return start, start
    slip = SAFE * (1.0 + wave)
    return first - slip, second - slip


@kernel
def least_sum(c, p, low, high):
    """Return the minimum of c exp(-M) + p M over low <= M <= high, c > 0."""
    if p <= 0.0:
        return c * math.exp(-high) + p * high
    at = min(max(math.log(c / p), low), high)
    return c * math.exp(-at) + p * at


@kernel
def rise_in_patch(first, second, v_low, v_high, m_low, m_high, beta, eta):
    """Return a lower bound of exp(-M) T(v) - 1 + beta M - eta (v^2 + M^2) in a patch.

    T is above the line from ``first`` to ``second``, and -M^2 above its chord; what is left is
    linear in v^2, so least at an end, and there c exp(-M) + p M.
    """
    p = beta - eta * (m_low + m_high)
    at_low = least_sum(first, p, m_low, m_high) - eta * v_low * v_low
    at_high = least_sum(second, p, m_low, m_high) - eta * v_high * v_high
    size = 1.0 + first + second + abs(p) + eta * (v_high * v_high + m_low * m_low)
    return min(at_low, at_high) + eta * m_low * m_high - 1.0 - SAFE * size


@kernel
def rise_beyond(kappa, v, beta):
    """Return a lower bound of exp(-M) T - 1 + beta M for all M, with eta 0, beyond v."""
    return beta * (1.0 + math.log(two_atoms(kappa, v) / beta)) - 1.0 - SAFE


@kernel
def third_over_second(kappa, v_low, v_high, m_low, m_high):
    """Return an upper bound of E[X^3] / E[X^2] in a patch, not below 0.

    With t = v^2 / (v^2 + M^2) it is at most kappa v t + M (1 + 2 t).
    """
    nearest = max(m_low, -m_high, 0.0)
    most = v_high * v_high / (v_high * v_high + nearest * nearest)
    if m_high >= 0.0:
        return kappa * v_high * most + m_high * (1.0 + 2.0 * most)
    least = v_low * v_low / (v_low * v_low + m_low * m_low)
    return max(kappa * v_high * most + m_high * (1.0 + 2.0 * least), 0.0)


@kernel
def range_of_mean(anchor, ranges):
    """Return the range of M over the node."""
    at_least = anchor.s * (np.where(ranges.is_in, ranges.lo, 0.0) - anchor.x)
    at_most = anchor.s * (ranges.hi - anchor.x)
    low = anchor.drop + np.minimum(at_least, at_most).sum()
    high = anchor.drop + np.maximum(at_least, at_most).sum()
    size = 1e-9 * (abs(low) + abs(high) + anchor.weight) + anchor.slack
    return (low - size) / anchor.risk, (high + size) / anchor.risk


@kernel
def tabulate(anchor, ranges, d, toll, values, outs, ins):
    """Write V(beta, eta), and the bounds without and with each column."""
    k = d.shape[0]
    g, inside, terms = np.empty(k), np.empty(k), np.empty(k)
    for b in range(BETAS.shape[0]):
        point = anchor.x.copy()
        for e in range(ETAS.shape[0]):
            model = scaled(anchor, BETAS[b], ETAS[e])
            part = (2.0 * ETAS[e] * (1.0 - 1e-9)) * d
            if ETAS[e] > 0.0:
                point = minimise_relaxation(model, ranges, part, toll, point, TOLERANCE)
            values[b, e] = split(model, ranges, point, part, g, inside, terms)
            reduced(values[b, e], inside, terms, ranges, outs[b, e], ins[b, e])


@kernel
def best_in_patch(risk, values, first, second, v_low, v_high, m_low, m_high, b, e):
    """Return the best bound of a patch, its place in the table and what is added there.

    b and e are a guess of that place. Others are skipped where the middle of the patch shows
    that they are no better.
    """
    middle = 0.5 * (m_low + m_high)
    wave = math.exp(-middle)
    rise = risk * rise_in_patch(first, second, v_low, v_high, m_low, m_high, BETAS[b], ETAS[e])
    best, b_best, e_best = values[b, e] + rise, b, e
    if not is_number(best):
        best = -np.inf
    for b in range(BETAS.shape[0]):
        for e in range(ETAS.shape[0]):
            p = BETAS[b] - ETAS[e] * (m_low + m_high)
            there = min(first * wave - ETAS[e] * v_low**2, second * wave - ETAS[e] * v_high**2)
            most = there + p * middle + ETAS[e] * m_low * m_high - 1.0
            if not values[b, e] + risk * most > best:
                continue
            more = rise_in_patch(first, second, v_low, v_high, m_low, m_high, BETAS[b], ETAS[e])
            if values[b, e] + risk * more > best:
                rise = risk * more
                best, b_best, e_best = values[b, e] + rise, b, e
    return best, rise, b_best, e_best


@kernel
def best_beyond(anchor, values, v):
    """Return the best bound beyond the last shell, its place in the table and what is added."""
    best, rise, b_best = -np.inf, 0.0, 0
    for b in range(BETAS.shape[0]):
        more = anchor.risk * rise_beyond(anchor.kappa, v, BETAS[b])
        if values[b, 0] + more > best:
            best, rise, b_best = values[b, 0] + more, more, b
    return best, rise, b_best, 0


@kernel
def shells(anchor, ranges, d, toll, cutoff, without, within):
    """Bound the node patch by patch, with a diagonal D <= Q.

    Writes the bounds without and with each column, as far as they are below ``cutoff``. Returns
    the bound, the largest E[X^3] / E[X^2] of what is below ``cutoff``, and eta of the worst patch.
    """
    k, n_betas, n_etas = d.shape[0], BETAS.shape[0], ETAS.shape[0]
    values = np.empty((n_betas, n_etas))
    outs, ins = np.empty((n_betas, n_etas, k)), np.empty((n_betas, n_etas, k))
    tabulate(anchor, ranges, d, toll, values, outs, ins)
    bottom, top = range_of_mean(anchor, ranges)
    bound, reach, worst = np.inf, 0.0, 0
    b, e = n_betas // 2, n_etas // 2
    without[:], within[:] = np.inf, np.inf
    for a in range(RADII.shape[0] - 1):
        low, high = RADII[a], RADII[a + 1]
        is_last = not is_number(high)
        first, second = below_atoms(anchor.kappa, low, high)
        n_slabs = 1 if is_last else N_SLABS
        half = 0.0 if is_last else anchor.tilt * high
        for t in range(n_slabs):
            m_low, m_high = half * (2.0 * t / n_slabs - 1.0), half * (2.0 * (t + 1) / n_slabs - 1.0)
            if is_last:
                best, rise, b, e = best_beyond(anchor, values, low)
            elif m_high < bottom or m_low > top:
                continue  # empty
            else:
                best, rise, b, e = best_in_patch(
                    anchor.risk, values, first, second, low, high, m_low, m_high, b, e
                )
            if not is_number(best):  # nothing is known of this patch, so nothing is decided
                without[:], within[:] = -np.inf, -np.inf
                return -np.inf, np.inf, ETAS[0]
            if best < bound:
                bound, worst = best, e
            if best >= cutoff:
                continue
            more = np.inf
            if not is_last:
                more = third_over_second(anchor.kappa, low, high, m_low, m_high)
            reach = max(reach, more)
            for j in range(k):
                without[j] = min(without[j], outs[b, e, j] + rise)
                within[j] = min(within[j], ins[b, e, j] + rise)
    return bound, reach, ETAS[worst]
