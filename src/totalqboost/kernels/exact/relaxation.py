"""The relaxation of a node and its minimum, by a proximal Newton method.

A node asks for weights x_j in {0} or [lo_j, hi_j] at a price per column, under a convex risk
from which a diagonal D was taken: the smooth part is

    sum_i c_i l(z_i) + linear' x - x' D x / 2,   z = sum_j x_j A[columns_j]

and each undecided column pays the convex envelope of x_j^2 d_j / 2 + price_j [x_j > 0]: a line
from the origin to the knot, the parabola beyond it (the perspective of the parabola).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from totalqboost.kernels.jit import kernel
from totalqboost.kernels.newton import correlate, loss_terms, margins, own_gram, solve_spd


class Data(NamedTuple):
    """The examples of a node: rows with weights c, under a loss."""

    A: np.ndarray
    columns: np.ndarray
    c: np.ndarray
    code: int


class Ranges(NamedTuple):
    """What is decided: weights are in [lo, hi], those of undecided columns zero or there."""

    price: np.ndarray
    is_in: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    step: np.ndarray  # of fixed-point weights, 0 for continuous ones
    room: int  # undecided columns that may come in
    fixed: float = 0.0  # what is paid whatever the columns: features that are known to be read


class Penalties(NamedTuple):
    """What the relaxation asks of each column: nothing if it is in, else the envelope."""

    is_in: np.ndarray
    d: np.ndarray  # 0 for columns that are in
    least: np.ndarray  # weights are in [least, hi]
    hi: np.ndarray
    price: np.ndarray
    slope: np.ndarray
    knot: np.ndarray


@kernel
def envelope(d, lo, hi, price):
    """Return slope and knot of the convex envelope of d x^2 / 2 + price on {0} and [lo, hi]."""
    knot = hi
    if d > 0.0:
        knot = min(max(math.sqrt(2.0 * price / d), lo), hi)
    if knot <= 0.0:
        return 0.0, 0.0
    if math.isinf(knot):
        return 0.0, knot
    return 0.5 * max(d, 0.0) * knot + price / knot, knot


@kernel
def penalties(ranges, d, toll):
    """Return the penalties of a node whose undecided columns pay ``toll``."""
    k = d.shape[0]
    slope, knot = np.zeros(k), np.zeros(k)
    curve, least = np.zeros(k), np.zeros(k)
    for j in range(k):
        if ranges.is_in[j]:
            least[j] = ranges.lo[j]
        else:
            curve[j] = max(d[j], 0.0)
            slope[j], knot[j] = envelope(curve[j], ranges.lo[j], ranges.hi[j], toll[j])
    return Penalties(ranges.is_in, curve, least, ranges.hi, toll, slope, knot)


@kernel
def best_coordinate(b, h, p, j):
    """Return the y that minimises b y + h y^2 / 2 plus the penalty of column j."""
    if p.is_in[j]:
        return min(max(-b / h, p.least[j]), p.hi[j])
    y = -(b + p.slope[j]) / h
    if y <= 0.0:
        return 0.0
    if y <= p.knot[j]:
        return y
    if p.knot[j] >= p.hi[j]:
        return p.hi[j]
    return min(max(-b / (h + p.d[j]), p.knot[j]), p.hi[j])


@kernel
def penalty_at(x, p, j):
    """Return the penalty of column j at x."""
    if p.is_in[j]:
        return 0.0
    return p.slope[j] * x if x <= p.knot[j] else 0.5 * p.d[j] * x * x + p.price[j]


@kernel
def newton_on_pieces(H, r, p, y):
    """Move y, in place, to the minimum over the columns inside their pieces, as far as they go.

    r is the gradient of the smooth model at y and is kept up to date. Coordinate descent is
    slow where columns are correlated; this is not.
    """
    k = y.shape[0]
    inside, size = np.empty(k, np.int64), 0
    rhs, step, low, high = np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    for j in range(k):
        low[j], high[j] = p.least[j], p.hi[j]
        extra = 0.0
        if not p.is_in[j]:
            on_line = y[j] < p.knot[j]
            low[j], high[j] = (0.0, p.knot[j]) if on_line else (p.knot[j], p.hi[j])
            extra = p.slope[j] if on_line else p.d[j] * y[j]
        if low[j] < y[j] < high[j]:
            inside[size] = j
            rhs[size] = -(r[j] + extra)
            size += 1
    if size == 0:
        return
    K, L = np.empty((size, size)), np.empty((size, size))
    for a in range(size):
        for b in range(size):
            K[a, b] = H[inside[a], inside[b]]
        j = inside[a]
        K[a, a] += 1e-9 * abs(K[a, a]) + 1e-12
        if not p.is_in[j] and y[j] > p.knot[j]:
            K[a, a] += p.d[j]
    if not solve_spd(K, np.arange(size), size, rhs, step, L):
        return
    alpha = 1.0
    for a in range(size):
        j = inside[a]
        if y[j] + alpha * step[a] > high[j]:
            alpha = (high[j] - y[j]) / step[a]
        elif y[j] + alpha * step[a] < low[j]:
            alpha = (low[j] - y[j]) / step[a]
    for a in range(size):
        j = inside[a]
        to = min(max(y[j] + alpha * step[a], low[j]), high[j])
        for b in range(k):
            r[b] += H[j, b] * (to - y[j])
        y[j] = to


@kernel
def minimise_penalised(H, g, x, p, tol, y):
    """Write the y that minimises g'(y - x) + (y - x)' H (y - x) / 2 plus the penalties."""
    k = x.shape[0]
    r = g.copy()  # gradient of the smooth model at y
    y[:] = x
    for sweep in range(100):
        largest = 0.0
        for j in range(k):
            h = max(H[j, j], 1e-10)
            to = best_coordinate(r[j] - h * y[j], h, p, j)
            move = to - y[j]
            if move != 0.0:
                for b in range(k):
                    r[b] += H[j, b] * move
                y[j] = to
                largest = max(largest, h * move * move)
        if largest < tol:
            break
        if sweep % 4 == 3:
            newton_on_pieces(H, r, p, y)


@kernel
def relaxed_value(w, linear, p):
    """Return everything of the relaxation but the risk at w."""
    total = 0.0
    for j in range(w.shape[0]):
        total += linear[j] * w[j] + penalty_at(w[j], p, j) - 0.5 * p.d[j] * w[j] * w[j]
    return total


@kernel
def duality_gap(x, s, linear, p, g):
    """Write the gradient g of the smooth part at x; return how far x is from the tangent bound."""
    gap = 0.0
    for j in range(x.shape[0]):
        g[j] = linear[j] - s[j] - p.d[j] * x[j]
        top = min(p.hi[j], 2.0 * x[j] + 100.0)  # an infinite range still gives a measure
        if p.is_in[j]:
            least = g[j] * (p.least[j] if g[j] > 0.0 else top)
        elif g[j] + p.slope[j] >= 0.0:
            least = 0.0
        elif p.knot[j] >= top:
            least = (g[j] + p.slope[j]) * top
        else:
            to = min(max(-g[j] / p.d[j], p.knot[j]), top)
            least = g[j] * to + 0.5 * p.d[j] * to * to + p.price[j]
        gap += g[j] * x[j] + penalty_at(x[j], p, j) - least
    return gap


@kernel
def line_search(data, linear, p, value, x, y, z, u, q):
    """Move x towards y, in place, until the relaxation is no higher than ``value``.

    Returns the value there, infinite if x did not move; z, u and q are those of the last trial.
    """
    alpha = 1.0
    for _ in range(20):
        trial = x + alpha * (y - x)
        margins(data.A, data.columns, trial, z)
        new = loss_terms(data.code, z, data.c, u, q) + relaxed_value(trial, linear, p)
        if new < value or abs(new - value) <= 1e-15 * abs(value):
            x[:] = trial
            return new
        alpha *= 0.5
    return np.inf


@kernel
def relax(data, linear, d, ranges, toll, x, cutoff, share, max_iter, H, has_hessian):
    """Minimise the relaxation of a node over x, in place; warm start at x.

    Stops when the duality gap of the relaxation is at most ``share`` of the distance from
    its bound to ``cutoff``, or when the bound is above ``cutoff``. H is scratch space that
    holds a nearby Hessian of the risk if has_hessian. The result need not be exact: bounds
    are computed from whatever point this leaves. Returns the number of steps.
    """
    A, columns = data.A, data.columns
    k, m = columns.shape[0], A.shape[1]
    z, u, q = np.empty(m), np.empty(m), np.empty(m)
    g, y, s, model = np.empty(k), np.empty(k), np.empty(k), np.empty((k, k))
    p = penalties(ranges, d, toll)
    for j in range(k):
        x[j] = min(max(x[j], p.least[j]), p.hi[j])
    margins(A, columns, x, z)
    value = loss_terms(data.code, z, data.c, u, q) + relaxed_value(x, linear, p)
    before = np.inf
    is_flat = False  # was the last step too small to show in the value?
    for iteration in range(max_iter):
        correlate(A, columns, u, s)
        gap = duality_gap(x, s, linear, p, g)
        bound = value - gap
        if bound >= cutoff or gap <= 1e-11 * (1.0 + abs(value)):
            return iteration
        if gap <= share * (cutoff - bound) or (is_flat and gap > 0.9 * before):
            return iteration
        is_fresh = not has_hessian or gap > 0.1 * before
        if is_fresh:
            own_gram(A, columns, q, H)
            has_hessian = True
        before = gap
        for a in range(k):
            for b in range(k):
                model[a, b] = H[a, b]
            model[a, a] += 1e-7 * H[a, a] - p.d[a]
        minimise_penalised(model, g, x, p, 1e-6 * min(gap, 1e-3), y)
        new = line_search(data, linear, p, value, x, y, z, u, q)
        if new < np.inf:
            is_flat = abs(new - value) <= 1e-15 * abs(value)
            value = new
        elif is_fresh:
            return iteration
        else:
            has_hessian = False
            margins(A, columns, x, z)
            loss_terms(data.code, z, data.c, u, q)
    return max_iter
