"""Passes over blocks of coded rows, for oracles whose rows are on many workers."""

from __future__ import annotations

from totalqboost.kernels.jit import kernel
from totalqboost.kernels.newton import loss_at

ROWS = 2048  # whose values stay in the cache while features pass


@kernel
def add_histograms(codes, offsets, values, out):
    """Add the values of every row to the bin of its code, for every feature.

    ``codes`` has a row per feature, ``values`` a row per example; the bins of feature f begin at
    offsets[f] of ``out``, which has a column for each column of ``values``.
    """
    n_features, m = codes.shape
    width = values.shape[1]
    for start in range(0, m, ROWS):
        end = min(start + ROWS, m)
        for f in range(n_features):
            first = offsets[f]
            for i in range(start, end):
                b = first + codes[f, i]
                for t in range(width):
                    out[b, t] += values[i, t]


@kernel
def add_scores(codes, table, scores):
    """Add to every row of scores that of its code; a table has a row per code."""
    width = scores.shape[1]
    for i in range(codes.shape[0]):
        for t in range(width):
            scores[i, t] += table[codes[i], t]


@kernel
def loss_values(code, z, out):
    """Write the loss of every margin."""
    for i in range(z.shape[0]):
        for t in range(z.shape[1]):
            out[i, t] = loss_at(code, z[i, t])[0]


@kernel
def add_turned(code, codes, answers, is_near, weights, signs, z, values, c, out):
    """Add to every near bin how the risk changes if the answers to its rows are turned.

    A learner's answer a to a row of sign s brings the margin s a w for every score; ``values`` are
    the losses of the margins z. Bins that are not near are left as they are: most rows cost a
    look at their code.
    """
    for i in range(codes.shape[0]):
        b = codes[i]
        if not is_near[b]:
            continue
        for t in range(z.shape[1]):
            moved = 2.0 * signs[i, t] * answers[b] * weights[t]
            out[b, t] += c[i, t] * (loss_at(code, z[i, t] - moved)[0] - values[i, t])


@kernel
def write_column(codes, answers, out):
    """Write for every row the answer to its code."""
    for i in range(codes.shape[0]):
        out[i] = answers[codes[i]]
