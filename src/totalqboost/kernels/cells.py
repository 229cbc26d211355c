"""Bounds over all stumps at once: what any function of a partition's cells can reach.

A set of stumps cuts the examples into cells, and its score is constant on each. Whatever the
weights, the risk is at least the sum over cells of

    phi(p, n) = min over a score s of  p l(s) + n l(-s)

with p and n the weights of the two classes in the cell: 2 sqrt(p n) for the exponential loss
(Schapire and Singer's Z), p n-entropy for the logistic, 4 p n / (p + n) for the squared loss.
Moving one threshold along a feature changes one cell per example, so one sweep prices every
stump of the feature as a further cut of the present cells.
"""

from __future__ import annotations

import math

import numpy as np

from totalqboost.kernels.jit import kernel
from totalqboost.kernels.loss_codes import EXPONENTIAL, LOGISTIC, SQUARED

NOTHING = 1e-9  # share of a cell's weight that counts as none


@kernel
def cell_risk(code, p, n):
    """Return phi(p, n), the least risk of examples that all get one score."""
    if p <= 0.0 or n <= 0.0:
        return 0.0
    if code == EXPONENTIAL:
        return 2.0 * math.sqrt(p * n)
    if code == LOGISTIC:
        return p * math.log1p(n / p) + n * math.log1p(p / n)
    if code == SQUARED:
        return 4.0 * p * n / (p + n)
    low, high = min(p, n), max(p, n)  # the smoothed hinge, s = 1 - low / high
    return low * (1.5 - 0.5 * low / high)


@kernel
def price_cuts(code, order, rank, plus, minus, cell, n_cells, first, offsets, bounds):
    """Write the cell bound after one further cut, for the cuts from index ``first`` on.

    ``order[f]`` sorts the examples by feature f and ``rank[f]`` holds their values' ranks;
    cut t of feature f, index offsets[f] + t, has the ranks 0..t on its left.
    Returns the least bound.
    """
    n_features, m = order.shape
    p_all, n_all = np.zeros(n_cells), np.zeros(n_cells)
    for i in range(m):
        p_all[cell[i]] += plus[i]
        n_all[cell[i]] += minus[i]
    whole = 0.0
    risk = np.empty(n_cells)
    for c in range(n_cells):
        risk[c] = cell_risk(code, p_all[c], n_all[c])
        whole += risk[c]
    p_left, n_left, now = np.empty(n_cells), np.empty(n_cells), np.empty(n_cells)
    least = np.inf
    for f in range(n_features):
        if offsets[f + 1] <= first:
            continue
        for c in range(n_cells):
            p_left[c] = 0.0
            n_left[c] = 0.0
            now[c] = risk[c]
        total = whole
        for a in range(m):
            i = order[f, a]
            c = cell[i]
            p_left[c] += plus[i]
            n_left[c] += minus[i]
            if p_all[c] > 0.0 and n_all[c] > 0.0:  # a pure cell stays without risk
                p, n = p_all[c] - p_left[c], n_all[c] - n_left[c]
                # A root would turn what rounding leaves of zero into 1e-8: call it zero, which
                # can only lower the bound.
                p = p if p > NOTHING * p_all[c] else 0.0
                n = n if n > NOTHING * n_all[c] else 0.0
                after = cell_risk(code, p_left[c], n_left[c]) + cell_risk(code, p, n)
                total += after - now[c]
                now[c] = after
            if a + 1 < m and rank[f, order[f, a + 1]] != rank[f, i]:
                index = offsets[f] + rank[f, i]
                if index >= first:
                    bounds[index] = total
                    least = min(least, total)
    return least


@kernel
def price_pairs(
    code, order, rank, plus, minus, cell, n_cells, start, stop, offsets, cutoff, found, found_bounds
):
    """List the pairs of cuts (j, l), start <= j < stop, j < l, whose bound is below ``cutoff``.

    Returns the number of pairs found and the first j that was not finished: for want of room
    in ``found``, or ``stop``.
    """
    n_features, m = order.shape
    n_cuts = offsets[n_features]
    bounds = np.empty(n_cuts)
    finer = np.empty(m, np.int64)
    size = 0
    f = 0
    for j in range(start, min(stop, n_cuts - 1)):
        while offsets[f + 1] <= j:
            f += 1
        cut = j - offsets[f]
        for i in range(m):
            finer[i] = 2 * cell[i] + (rank[f, i] > cut)
        args = (plus, minus, finer, 2 * n_cells, j + 1, offsets, bounds)
        least = price_cuts(code, order, rank, *args)
        if least >= cutoff:
            continue
        held = size
        for k in range(j + 1, n_cuts):
            if bounds[k] < cutoff:
                if size == found.shape[0]:
                    return held, j
                found[size, 0] = j
                found[size, 1] = k
                found_bounds[size] = bounds[k]
                size += 1
    return size, stop
