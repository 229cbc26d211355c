"""Shrinks nodes of the exact solver: decides columns, cuts ranges of weights and margins."""

from __future__ import annotations

import math

import numpy as np

from totalqboost.kernels.exact.bounds import reduced, split
from totalqboost.kernels.exact.definite import (
    RIDGE,
    ROWS_AT_ONCE,
    factor,
    invert_factor,
    is_number,
    is_well_factored,
    rounding,
)
from totalqboost.kernels.jit import kernel, short_kernel


@kernel
def cut_ranges(g, d, budget, below, above):
    """Write the range of weights with g x + d x^2 / 2 <= budget, as far as one is known."""
    for j in range(g.shape[0]):
        below[j], above[j] = -np.inf, np.inf
        square = g[j] * g[j] + 2.0 * d[j] * budget[j]
        if d[j] > 1e-9 and square >= 0.0 and is_number(square):
            root = math.sqrt(square)
            below[j], above[j] = (-g[j] - root) / d[j], (root - g[j]) / d[j]
        elif d[j] >= 0.0 and g[j] > 0.0:
            above[j] = budget[j] / g[j]


@short_kernel
def shrink(ranges, below, above):
    """Shrink ranges, with a margin for rounding, to multiples of the step where there is one."""
    is_in, lo, hi, step = ranges.is_in, ranges.lo, ranges.hi, ranges.step
    for j in range(lo.shape[0]):
        if is_number(above[j]):
            top = above[j] + 1e-7 * abs(above[j]) + 1e-9
            if step[j] > 0.0:
                top = math.floor(top / step[j]) * step[j]
            hi[j] = min(hi[j], top)
        if is_in[j] and is_number(below[j]):
            bottom = below[j] - 1e-7 * abs(below[j]) - 1e-9
            if step[j] > 0.0:
                bottom = math.ceil(bottom / step[j]) * step[j]
            lo[j] = max(lo[j], bottom)


@short_kernel
def fix(model, ranges, y, d, cutoff, stays):
    """Decide columns by their reduced costs and cut ranges; False if the node is closed.

    ``stays`` is False for columns that are out already, and becomes so for others.
    """
    k = d.shape[0]
    g, inside, terms = np.empty(k), np.empty(k), np.empty(k)
    without, within = np.empty(k), np.empty(k)
    value = split(model, ranges, y, d, g, inside, terms)
    if not is_number(value):
        return True
    reduced(value, inside, terms, ranges, without, within)
    budget = cutoff - within + inside  # of what a column may add inside its range
    if not decide(ranges, without, within, cutoff, stays):
        return False
    below, above = np.empty(k), np.empty(k)
    cut_ranges(g, d, budget, below, above)
    shrink(ranges, below, above)
    return True


@short_kernel
def decide(ranges, without, within, cutoff, stays):
    """Decide columns by the bounds without and with them; False if neither is possible."""
    for j in range(stays.shape[0]):
        if ranges.is_in[j]:
            continue
        stays[j] = stays[j] and within[j] < cutoff
        if without[j] >= cutoff:
            ranges.is_in[j] = True
            if not stays[j]:
                return False
    return True


@kernel
def confine(model, ranges, y, d, cutoff, R):
    """Shrink ranges to the ellipsoid that the curvature left by d proves.

    (w - y)' E (w - y) <= excess = cutoff - bound, E = (Q - D) / 2 less its rounding. Where E
    is nearly singular, a ridge adds at most its size times the squared width of the node.
    Writes the transposed inverse R of its factor; returns the bound and the excess, an
    infinite one where nothing is proven.
    """
    Q, is_in, lo, hi, k = model.Q, ranges.is_in, ranges.lo, ranges.hi, d.shape[0]
    g, inside, terms = np.empty(k), np.empty(k), np.empty(k)
    value = split(model, ranges, y, d, g, inside, terms)
    excess = cutoff - value
    if not is_number(excess) or excess <= 0.0:
        return value, np.inf
    slack = rounding(Q, model.n_rows)
    E = 0.5 * Q - np.diag(0.5 * d + slack)
    width = np.maximum(hi - y, y - np.where(is_in, lo, 0.0))
    squares = (width * width).sum()
    L, none = np.empty((k, k)), np.zeros(k)
    if not is_well_factored(E, L):
        if not is_number(squares):
            return value, np.inf
        ridge = RIDGE * np.trace(Q) + 1e-3 * excess / max(squares, 1e-12)
        E += ridge * np.eye(k)
        excess += ridge * squares
        if not factor(E, none, L):
            return value, np.inf
    invert_factor(L, R)
    radius = np.sqrt(excess * (R * R).sum(axis=1)) * (1.0 + 1e-4)
    is_in[:] = is_in | (y - radius > 1e-6)  # one that cannot be zero is in
    shrink(ranges, y - radius, y + radius)
    return value, excess


@kernel
def confine_margins(data, R, excess, z, x, y, needs_low, low, high):
    """Shrink the ranges of the margins to the ellipsoid of `confine`."""
    T = np.ascontiguousarray(R.T)
    for first in range(0, z.shape[0], ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        B = data.A[:, part][data.columns].astype(np.float64)
        half, at = np.dot(T, B), z[part] + np.dot(y - x, B)
        reach = np.sqrt(excess * (half * half).sum(axis=0)) * (1.0 + 1e-4) + 1e-9
        high[part] = np.minimum(high[part], at + reach)
        if needs_low:
            low[part] = np.maximum(low[part], at - reach)
