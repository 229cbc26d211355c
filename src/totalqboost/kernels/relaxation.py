"""Node relaxations of the exact solver: curvature that is certain, penalties, prox-Newton.

A node of the tree asks for weights x_j in {0} or [lo_j, hi_j] at a price per column, under
a convex risk from which a diagonal D was taken: the smooth part is

    sum_i c_i l(z_i) + linear' x - x' D x / 2,   z = sum_j x_j A[rows_j]

and each undecided column pays the convex envelope of x_j^2 d_j / 2 + price_j [x_j > 0]:
a line from the origin to the knot, the parabola beyond it (the perspective of the
parabola). `totalqboost.solvers.exact` has the mathematics.
"""

from __future__ import annotations

import math

import numpy as np

from totalqboost.kernels.jit import kernel
from totalqboost.kernels.loss_codes import (
    EXPONENTIAL,
    LOGISTIC,
    MAX_EXPONENT,
    SMOOTHED_HINGE,
    SQUARED,
)
from totalqboost.kernels.newton import correlate, gram, loss_terms, margins, solve_spd


@kernel
def loss_at(code, z):
    """Return l(z), -l'(z) and a lower limit of l'' at z (zero where l'' jumps)."""
    if code == EXPONENTIAL:
        e = math.exp(min(-z, MAX_EXPONENT))
        return e, e, e
    if code == LOGISTIC:
        e = math.exp(-abs(z))
        p = e / (1.0 + e) if z >= 0.0 else 1.0 / (1.0 + e)
        return max(-z, 0.0) + math.log1p(e), p, p * (1.0 - p)
    if code == SMOOTHED_HINGE:
        r = min(max(1.0 - z, 0.0), 1.0)
        return 0.5 * r * r + max(-z, 0.0), r, 1.0 if 0.0 < z < 1.0 else 0.0
    return (1.0 - z) ** 2, 2.0 * (1.0 - z), 2.0


@kernel
def exponential_ratio(x):
    """Return (exp(-x) - 1 + x) / x^2 for x >= 0, rounded down: 1/2 at 0, falling."""
    if x < 0.02:  # an alternating series, cut after a negative term
        return 0.5 - x / 6.0 + x * x / 24.0 - x * x * x / 120.0
    if x > 1e150:
        return 0.0
    return (math.expm1(-x) + x) / (x * x) * (1.0 - 1e-11)


@kernel
def tangent_ratio(code, z, t):
    """Return a lower bound of R(t) = (l(t) - l(z) - l'(z) (t - z)) / (t - z)^2.

    The quotient with its rounding error taken off, or half the least curvature between z
    and t (at one of the ends, for l'' is unimodal), whichever is larger.
    """
    value, weight, curvature = loss_at(code, z)
    there, _, other = loss_at(code, t)
    least = 0.5 * min(curvature, other)
    h = t - z
    if abs(h) < 1e-8:
        return least
    gap = there - value + weight * h
    rounding = 1e-15 * (abs(there) + abs(value) + abs(weight * h))
    return max((gap - rounding) / (h * h), least)


@kernel
def curvature_floor(code, z, low, high, c, out):
    """Write c_i R_i with l(t) >= l(z_i) + l'(z_i)(t - z_i) + R_i (t - z_i)^2 on [low_i, high_i].

    R(t) = int_0^1 (1 - s) l''(z + s (t - z)) ds is unimodal in t on either side of z, so its
    least value over the range is at an end of it or at z, where it is l''(z) / 2.
    """
    for i in range(z.shape[0]):
        if code == SQUARED:
            ratio = 1.0
        elif code == EXPONENTIAL:
            beyond = max(high[i] - z[i], 0.0)
            ratio = math.exp(min(-z[i], MAX_EXPONENT)) * exponential_ratio(beyond)
        elif math.isinf(low[i]) or math.isinf(high[i]):
            ratio = 0.0
        else:
            _, _, curvature = loss_at(code, z[i])
            left, right = tangent_ratio(code, z[i], low[i]), tangent_ratio(code, z[i], high[i])
            ratio = min(0.5 * curvature, min(left, right))
        out[i] = c[i] * ratio


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
def column_terms(g, d, lo, hi, step, out):
    """Write min over x in [lo_j, hi_j] of g_j x + d_j x^2 / 2, on multiples of step_j if > 0.

    With d_j < 0 the function is concave and an end is best. An end at infinity that pays
    gives -inf.
    """
    for j in range(g.shape[0]):
        if d[j] <= 0.0:
            best = lo[j]
            if math.isinf(hi[j]):
                if g[j] < 0.0 or d[j] < 0.0:
                    out[j] = -np.inf
                    continue
            elif g[j] * (hi[j] - lo[j]) + 0.5 * d[j] * (hi[j] ** 2 - lo[j] ** 2) < 0.0:
                best = hi[j]
        else:
            best = min(max(-g[j] / d[j], lo[j]), hi[j])
            if step[j] > 0.0:
                below = max(math.floor(best / step[j]) * step[j], lo[j])
                above = min(below + step[j], hi[j])
                rise = g[j] * (above - below) + 0.5 * d[j] * (above**2 - below**2)
                best = above if rise < 0.0 else below
        out[j] = g[j] * best + 0.5 * d[j] * best * best


@kernel
def best_coordinate(b, h, is_in, d, lo, hi, slope, knot):
    """Return the y that minimises b y + h y^2 / 2 plus the penalty of its column."""
    if is_in:
        return min(max(-b / h, lo), hi)
    y = -(b + slope) / h
    if y <= 0.0:
        return 0.0
    if y <= knot:
        return y
    if knot >= hi:
        return hi
    return min(max(-b / (h + d), knot), hi)


@kernel
def penalty_at(x, is_in, d, price, slope, knot):
    """Return the penalty of one column at x: nothing if it is in, else the envelope."""
    if is_in:
        return 0.0
    return slope * x if x <= knot else 0.5 * d * x * x + price


@kernel
def newton_on_pieces(H, r, is_in, d, lo, hi, slope, knot, y):
    """Move y, in place, to the minimum over the columns inside their pieces, as far as they go.

    r is the gradient of the smooth model at y and is kept up to date. Coordinate descent is
    slow where columns are correlated; this is not.
    """
    k = y.shape[0]
    inside, size = np.empty(k, np.int64), 0
    rhs, step = np.empty(k), np.empty(k)
    low, high = np.empty(k), np.empty(k)
    for j in range(k):
        low[j], high[j] = lo[j], hi[j]
        extra = 0.0
        if not is_in[j]:
            on_line = y[j] < knot[j]
            low[j], high[j] = (0.0, knot[j]) if on_line else (knot[j], hi[j])
            extra = slope[j] if on_line else d[j] * y[j]
        if low[j] < y[j] < high[j]:
            inside[size] = j
            rhs[size] = -(r[j] + extra)
            size += 1
    if size == 0:
        return
    K, place = np.empty((size, size)), np.arange(size)
    L = np.empty((size, size))
    for a in range(size):
        for b in range(size):
            K[a, b] = H[inside[a], inside[b]]
        j = inside[a]
        K[a, a] += 1e-9 * abs(K[a, a]) + 1e-12
        if not is_in[j] and y[j] > knot[j]:
            K[a, a] += d[j]
    if not solve_spd(K, place, size, rhs, step, L):
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
def minimise_penalised(H, g, x, is_in, d, lo, hi, slope, knot, tol, y):
    """Write the y that minimises g'(y - x) + (y - x)' H (y - x) / 2 plus the penalties."""
    k = x.shape[0]
    r = g.copy()  # gradient of the smooth model at y
    y[:] = x
    for sweep in range(100):
        largest = 0.0
        for j in range(k):
            h = max(H[j, j], 1e-10)
            to = best_coordinate(
                r[j] - h * y[j], h, is_in[j], d[j], lo[j], hi[j], slope[j], knot[j]
            )
            move = to - y[j]
            if move != 0.0:
                for b in range(k):
                    r[b] += H[j, b] * move
                y[j] = to
                largest = max(largest, h * move * move)
        if largest < tol:
            break
        if sweep % 4 == 3:
            newton_on_pieces(H, r, is_in, d, lo, hi, slope, knot, y)


@kernel
def relaxed_value(w, linear, d, price, is_in, slope, knot):
    """Return everything of the relaxation but the risk at w."""
    total = 0.0
    for j in range(w.shape[0]):
        total += linear[j] * w[j] + penalty_at(w[j], is_in[j], d[j], price[j], slope[j], knot[j])
        if not is_in[j]:
            total -= 0.5 * d[j] * w[j] * w[j]
    return total


@kernel
def duality_gap(x, s, linear, d, lo, hi, price, is_in, slope, knot, g):
    """Write the gradient g of the smooth part at x; return how far x is from the tangent bound."""
    gap = 0.0
    for j in range(x.shape[0]):
        g[j] = linear[j] - s[j] - (0.0 if is_in[j] else d[j] * x[j])
        top = min(hi[j], 2.0 * x[j] + 100.0)  # an infinite range still gives a measure
        if is_in[j]:
            least = g[j] * (lo[j] if g[j] > 0.0 else top)
        elif g[j] + slope[j] >= 0.0:
            least = 0.0
        elif knot[j] >= top:
            least = (g[j] + slope[j]) * top
        else:
            to = min(max(-g[j] / d[j], knot[j]), top)
            least = g[j] * to + 0.5 * d[j] * to * to + price[j]
        gap += g[j] * x[j] + penalty_at(x[j], is_in[j], d[j], price[j], slope[j], knot[j]) - least
    return gap


@kernel
def relax(
    A, rows, c, code, linear, d, lo, hi, price, is_in, x, cutoff, share, max_iter, H, has_hessian
):
    """Minimise the relaxation of a node over x, in place; warm start at x.

    Stops when the duality gap of the relaxation is at most ``share`` of the distance from
    its bound to ``cutoff``, or when the bound is above ``cutoff``. H is scratch space that
    holds a nearby Hessian of the risk if has_hessian. The result need not be exact: bounds
    are computed from whatever point this leaves. Returns the number of steps.
    """
    k, m = rows.shape[0], A.shape[1]
    z, u, q = np.empty(m), np.empty(m), np.empty(m)
    g, y, s, trial = np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    slope, knot, model = np.zeros(k), np.zeros(k), np.empty((k, k))
    for j in range(k):
        if is_in[j]:
            x[j] = min(max(x[j], lo[j]), hi[j])
        else:
            slope[j], knot[j] = envelope(d[j], lo[j], hi[j], price[j])
            x[j] = min(max(x[j], 0.0), hi[j])
    margins(A, rows, x, z)
    value = loss_terms(code, z, c, u, q)
    value += relaxed_value(x, linear, d, price, is_in, slope, knot)
    before = np.inf
    is_flat = False  # was the last step too small to show in the value?
    for iteration in range(max_iter):
        correlate(A, rows, u, s)
        gap = duality_gap(x, s, linear, d, lo, hi, price, is_in, slope, knot, g)
        bound = value - gap
        if bound >= cutoff or gap <= 1e-11 * (1.0 + abs(value)):
            return iteration
        if gap <= share * (cutoff - bound) or (is_flat and gap > 0.9 * before):
            return iteration
        is_fresh = not has_hessian or gap > 0.1 * before
        if is_fresh:
            gram(A, rows, rows, q, H)
            has_hessian = True
        before = gap
        for a in range(k):
            for b in range(k):
                model[a, b] = H[a, b]
            model[a, a] += 1e-7 * H[a, a] - (0.0 if is_in[a] else d[a])
        tol = 1e-6 * min(gap, 1e-3)
        minimise_penalised(model, g, x, is_in, d, lo, hi, slope, knot, tol, y)
        alpha, moved = 1.0, False
        for _ in range(20):
            for j in range(k):
                trial[j] = x[j] + alpha * (y[j] - x[j])
            margins(A, rows, trial, z)
            new = loss_terms(code, z, c, u, q)
            new += relaxed_value(trial, linear, d, price, is_in, slope, knot)
            is_flat = abs(new - value) <= 1e-15 * abs(value)
            if new < value or is_flat:
                moved = True
                break
            alpha *= 0.5
        if moved:
            value = new
            for j in range(k):
                x[j] = trial[j]
        elif is_fresh:
            return iteration
        else:
            has_hessian = False
            margins(A, rows, x, z)
            loss_terms(code, z, c, u, q)
    return max_iter
