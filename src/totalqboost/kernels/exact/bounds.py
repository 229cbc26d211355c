"""The bound of a node, once a quadratic below its risk is known: the lemma.

On a node, risk(w) >= risk(x) - s'(w - x) + (w - x)' Q (w - x) / 2. With a diagonal D <= Q the
right side falls apart into columns (the lemma in `totalqboost.solvers.exact.expansion`).
Kernels here choose D and evaluate the bound at any point with all rounding taken off.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from totalqboost.kernels.exact.definite import (
    EPS,
    RIDGE,
    certify_diagonal,
    choose_diagonal,
    factor,
    is_number,
    least_eigenvalue,
)
from totalqboost.kernels.exact.relaxation import envelope, minimise_penalised, penalties
from totalqboost.kernels.jit import kernel, short_kernel


class Underestimator(NamedTuple):
    """risk(w) >= risk - s'(w - x) + (w - x)' Q (w - x) / 2 on the node; sums over n_rows."""

    risk: float
    weight: float  # sum of |u|: the size of s before cancellation
    nu: np.ndarray  # per column
    s: np.ndarray
    Q: np.ndarray
    x: np.ndarray
    n_rows: int


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


@short_kernel
def split(model, ranges, y, d, g, inside, terms):
    """Return the bound of the lemma at y with the diagonal d, rounded down.

    Writes the gradient g, the least value of each column inside its range, and its term in
    the bound. Every sum of n float64 terms is off by at most n eps times the sum of their
    absolute values; a gradient that may be off is taken at its low end, since weights are
    >= 0. At most ``room`` undecided columns are taken, the most useful ones.
    """
    x, Q, is_in = model.x, model.Q, ranges.is_in
    k = x.shape[0]
    unit = 4.0 * (model.n_rows + 2 * k + 16) * EPS
    reach, largest = 0.0, 0.0
    for j in range(k):
        reach += y[j] + x[j]
        largest = max(largest, Q[j, j])
    tangent, back, curve, lift, fixed = 0.0, 0.0, 0.0, 0.0, ranges.fixed
    for j in range(k):
        bend = 0.0
        for b in range(k):
            bend += Q[j, b] * (y[b] - x[b])
        slope = model.s[j] - bend
        error = unit * (model.weight + model.nu[j] + abs(d[j]) * y[j] + largest * reach)
        g[j] = model.nu[j] - slope - d[j] * y[j] - error
        tangent += slope * y[j]
        back -= model.s[j] * (y[j] - x[j])
        curve += 0.5 * (y[j] - x[j]) * bend
        lift += 0.5 * d[j] * y[j] * y[j]
        if is_in[j]:
            fixed += ranges.price[j]
    column_terms(g, d, ranges.lo, ranges.hi, ranges.step, inside)
    size = abs(model.risk) + abs(tangent) + abs(back) + abs(curve) + abs(lift) + fixed
    size += (model.weight + largest * reach) * reach
    paid = 0.0
    for j in range(k):
        if is_in[j]:
            terms[j] = inside[j]
            paid += terms[j]
        else:
            terms[j] = min(inside[j] + ranges.price[j], 0.0)
        if is_number(terms[j]):
            size += abs(terms[j])
    if ranges.room < 0:
        return np.inf  # more columns are in than the limit allows
    paid += best_terms(terms, is_in, ranges.room)
    return model.risk + tangent + back + curve + lift + fixed - unit * size + paid


@kernel
def best_terms(terms, is_in, room):
    """Return the sum of the terms of the undecided columns that there is room for."""
    total, n_useful = 0.0, 0
    for j in range(terms.shape[0]):
        if not is_in[j] and terms[j] < 0.0:
            total += terms[j]
            n_useful += 1
    if n_useful <= room:
        return total
    useful = np.sort(terms[~is_in])
    return useful[:room].sum()


@kernel
def minimise_relaxation(model, ranges, d, toll, y, tol):
    """Return the minimum of the relaxation of the quadratic, from y."""
    p = penalties(ranges, d, toll)
    start, out = np.minimum(np.maximum(y, p.least), p.hi), np.empty_like(y)
    g = model.nu - model.s + np.dot(model.Q, start - model.x) - p.d * start
    minimise_penalised(model.Q - np.diag(p.d), g, start, p, tol, out)
    return out


@kernel
def eliminate(Q, order, n_first, ridge):
    """Return the quadratic form of the last columns of an order, the first at their best."""
    k = Q.shape[0]
    M = Q[order][:, order] + ridge * np.eye(k)
    for t in range(n_first):
        if not M[t, t] > 0.0:
            return np.zeros((k - n_first, k - n_first))
        for a in range(t + 1, k):
            share = M[a, t] / M[t, t]
            for b in range(t + 1, k):
                M[a, b] -= share * M[t, b]
    return M[n_first:, n_first:].copy()


@kernel
def next_diagonal(model, ranges, d, y, toll):
    """Return a better diagonal for the relaxation whose minimum is at y.

    The bound grows with d_j at the rate w_j^2 (1 / share_j - 1) / 2, where share_j is how
    much of its price the column pays. Columns that are in leave by a Schur complement: their
    curvature is of no use to the price. On a grid, levels have a price too.
    """
    Q = model.Q
    leaves = ranges.is_in & (ranges.step.max() <= 0.0)
    order, n_in = np.argsort(~leaves, kind="mergesort"), int(leaves.sum())
    n_open = Q.shape[0] - n_in
    better = np.zeros(Q.shape[0])
    if n_open == 0:
        return better
    ridge = RIDGE * np.trace(Q) + 1e-14
    S = eliminate(Q, order, n_in, ridge)
    start, L, n_steps = np.empty(n_open), np.empty((n_open, n_open)), 3
    for a in range(n_open):
        start[a] = 0.95 * d[order[n_in + a]]
    if not start.min() > 0.0 or not factor(S, start, L):
        start[:] = 0.5 * max(least_eigenvalue(S, np.trace(S)), 0.5 * ridge)
        n_steps = 25
    weight = np.empty(n_open)
    for a in range(n_open):
        j = order[n_in + a]
        _, knot = envelope(start[a], ranges.lo[j], ranges.hi[j], toll[j])
        share = min(y[j] / knot, 1.0) if knot > 0.0 else 1.0
        gain = 0.5 * y[j] ** 2 * (1.0 / share - 1.0) if share > 1e-12 else 0.0
        weight[a] = gain * start[a] + 0.01 * toll[j] + 1e-12
    chosen = choose_diagonal(S, weight, start, n_steps)
    for a in range(n_open):
        better[order[n_in + a]] = chosen[a]
    return better


@kernel
def next_multiplier(multiplier, terms, is_in, room):
    """Return the price at which about as many columns pay as the limit leaves room for."""
    useful = np.sort(terms[~is_in])
    last = useful[room - 1] if 0 < room <= useful.shape[0] else 0.0
    following = useful[room] if 0 <= room < useful.shape[0] else 0.0
    between = max(-0.5 * (last + following), 0.0)
    return 0.5 * (multiplier + between) if is_number(between) else multiplier


@kernel
def improve(model, ranges, d, is_priced, multiplier, is_limited, cutoff, n_diagonals):
    """Try diagonals and their minima; return the best bound, its point, diagonal, multiplier."""
    k = d.shape[0]
    g, inside, terms = np.empty(k), np.empty(k), np.empty(k)
    y, best_d = model.x.copy(), np.zeros(k)
    best = split(model, ranges, y, best_d, g, inside, terms)
    for i in range(n_diagonals):
        toll = ranges.price + np.where(is_priced, multiplier, 0.0)
        if i > 0:
            d = next_diagonal(model, ranges, d, y, toll)
        d = certify_diagonal(model.Q, d, model.n_rows)[0]
        if i > 0 or d.max() > 0.0:
            there = minimise_relaxation(model, ranges, d, toll, y, 1e-12)
            value = split(model, ranges, there, d, g, inside, terms)
            if not is_number(value):
                break
            if is_limited or multiplier > 0.0:
                multiplier = next_multiplier(multiplier, terms, ranges.is_in, ranges.room)
            if value >= best:
                is_stuck = value - best < 0.01 * (cutoff - value)
                best, y, best_d = value, there, d
                if i > 1 and is_stuck:
                    break
        if best >= cutoff:
            break
    return best, y, best_d, multiplier


@kernel
def reduced(value, inside, terms, ranges, without, within):
    """Write the bound if a column is out, and if it is in, of a bound with these terms.

    Without a column the bound loses its term; under a limit, one that is out frees a place
    for the next best, and one that comes in takes the last place.
    """
    is_in, room = ranges.is_in, ranges.room
    last, following, n_taken = 0.0, 0.0, 0
    useful = np.sort(terms[~is_in])
    if room < useful.shape[0]:
        following = useful[room]
        last = useful[room - 1] if room > 0 else -np.inf
    for j in range(terms.shape[0]):
        if is_in[j]:
            without[j], within[j] = np.inf, value
            continue
        without[j], beside = value, value - last
        if terms[j] <= last and n_taken < room:
            n_taken += 1
            without[j], beside = value + following - terms[j], value - terms[j]
        within[j] = beside + ranges.price[j] + inside[j]
