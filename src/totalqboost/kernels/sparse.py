"""Cuts of sparse features: passes over the entries that are not in the bin of zero.

The entries of feature f are starts[f]..starts[f + 1] of ``rows`` and ``codes``; all other rows
have the code zero[f], and what they add up to is the total less the entries.
"""

from __future__ import annotations

import numpy as np

from totalqboost.kernels.histogram import write_best_cuts
from totalqboost.kernels.jit import kernel

ABSENT = -1


@kernel
def fill_sparse_histogram(rows, codes, zero, g, h, total_g, total_h, hist):
    """Add g and h of every entry to its bin, and those of all other rows to the bin of zero."""
    for e in range(rows.shape[0]):
        i, b = rows[e], codes[e]
        hist[b, 0] += g[i]
        hist[b, 1] += h[i]
        total_g -= g[i]
        total_h -= h[i]
    hist[zero, 0] += total_g
    hist[zero, 1] += total_h


@kernel
def best_sparse_cuts(
    starts,
    rows,
    codes,
    zero,
    n_codes,
    polarity,
    g,
    h,
    rule,
    nu,
    blocked_start,
    blocked,
    tie,
    first,
    last,
    prices,
    keys,
    edges,
):
    """Write the best cuts of features first..last-1; see :func:`histogram.best_cuts`."""
    hist = np.empty((n_codes.max(), 2))
    total_g, total_h = g.sum(), h.sum()
    for f in range(first, last):
        bins = n_codes[f]
        hist[:bins] = 0.0
        own = slice(starts[f], starts[f + 1])
        fill_sparse_histogram(rows[own], codes[own], zero[f], g, h, total_g, total_h, hist)
        write_best_cuts(
            hist,
            bins,
            polarity[f],
            rule,
            nu,
            blocked[blocked_start[f] : blocked_start[f + 1]],
            tie,
            prices[f],
            keys[f],
            edges[f],
        )


@kernel
def sparse_cut_sums(
    starts, rows, codes, zero, n_codes, features, cuts, offsets, at, Q, total, first, last, sums
):
    """Write sum_i h_s(x_i) Q[at[i]] for the cuts s of some features, the first..last-1 of them.

    h_s = +1 for codes above the cut, and ``cuts`` lists, feature by feature from ``offsets`` on,
    those that count. at[i] is the row of Q, ABSENT if it has none; ``total`` is the sum of Q.
    Sums are those of the side without the bin of zero, so that nothing cancels.
    """
    width = Q.shape[1]
    running = np.empty(width, np.float32)
    bin_of = np.empty(n_codes.max(), np.int64)
    for k in range(first, last):
        f, start, n_cuts = features[k], offsets[k], offsets[k + 1] - offsets[k]
        own, bins = cuts[start : start + n_cuts], sums[start : start + n_cuts]
        b = 0
        for code in range(n_codes[f]):  # the number of cuts below a code
            while b < n_cuts and own[b] < code:
                b += 1
            bin_of[code] = b
        middle = bin_of[zero[f]]
        bins[:] = 0.0
        for e in range(starts[f], starts[f + 1]):
            r, b = at[rows[e]], bin_of[codes[e]]
            if r == ABSENT or b == middle:
                continue
            place = b if b < middle else b - 1  # the cut that has the bin on its outer side
            for t in range(width):
                bins[place, t] += Q[r, t]
        running[:] = total
        for cut in range(middle):
            for t in range(width):
                running[t] -= np.float32(2.0) * bins[cut, t]
                bins[cut, t] = running[t]
        running[:] = -total
        for cut in range(n_cuts - 1, middle - 1, -1):
            for t in range(width):
                running[t] += np.float32(2.0) * bins[cut, t]
                bins[cut, t] = running[t]
