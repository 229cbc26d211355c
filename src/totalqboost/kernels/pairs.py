"""Conjunctions of two conditions: histograms of the rows where the first one holds."""

from __future__ import annotations

import numpy as np

from totalqboost.kernels.histogram import write_best_cuts
from totalqboost.kernels.jit import kernel


@kernel
def best_conjunctions(
    codes, n_codes, rows, g, h, total_g, total_h, rule, nu, tie, prices, keys, edges
):
    """Write for each feature the best second condition, of both directions.

    The first condition holds for ``rows``. Direction 0 is "code above the cut": all other rows
    are below every cut. Direction 1 is "not above", and all other rows are above. Prices, keys
    and edges, of shape (n_features, 2, 1), are those of such a cut as a stump.
    """
    hist = np.empty((n_codes.max(), 2))
    none = np.empty(0, np.int64)
    inside_g, inside_h = 0.0, 0.0
    for r in range(rows.shape[0]):
        inside_g += g[rows[r]]
        inside_h += h[rows[r]]
    outside_g, outside_h = total_g - inside_g, total_h - inside_h
    for f in range(codes.shape[0]):
        bins = n_codes[f]
        hist[:bins] = 0.0
        own = codes[f]
        for r in range(rows.shape[0]):
            i = rows[r]
            hist[own[i], 0] += g[i]
            hist[own[i], 1] += h[i]
        for direction in range(2):
            b = 0 if direction == 0 else bins - 1
            before_g, before_h = hist[b, 0], hist[b, 1]
            hist[b, 0] += outside_g
            hist[b, 1] += outside_h
            at = f, direction
            write_best_cuts(hist, bins, 0, rule, nu, none, tie, prices[at], keys[at], edges[at])
            hist[b, 0], hist[b, 1] = before_g, before_h
