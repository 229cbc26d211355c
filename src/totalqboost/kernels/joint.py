"""Exchange of stumps that have a weight for every class: second-order gains of every swap.

Slots are the constant and k stumps, their answers h_ia in {-1, +1}, with weights W_al. At the
softmax probabilities p, class l has slopes g_il = c_i ([y_i = l] - p_il) and curvatures
q_il = c_i p_il (1 - p_il); classes are taken one by one, as in LogitBoost (Friedman, Hastie and
Tibshirani, 2000). With M_l the inverse of the Gram matrix of the slots, a newcomer s has

    e_l = sum_i h_s g_il,  x_l = sum_i h_s q_il h_i,  R_l = x_l M_l,  V_l = sum_i q_il - x_l R_l
    add s        sum_l e_l^2 / (2 V_l)
    swap a -> s  sum_l t_l^2 / (2 v_l) - W_al^2 / (2 M_l,aa),
                 t_l = e_l + R_la W_al / M_l,aa,  v_l = V_l + R_la^2 / M_l,aa

The price mu of the norm of its weights t_l / v_l shrinks all of them by one factor f: what is left
of a gain is f^2 times it, f = 1 - mu |t / v| / (2 gain) or 0.
"""

from __future__ import annotations

import math

import numpy as np

from totalqboost.kernels.jit import kernel

NONE = -1


@kernel
def add_to_bins(codes, rows, answers, g, q, bins):
    """Add g and q h_a of every row and class to the bin of the row; the last bin gets none."""
    n_cuts, n_classes, width = bins.shape
    for r in range(rows.shape[0]):
        i = rows[r]
        code = codes[i]
        if code < n_cuts:
            for label in range(n_classes):
                weight = q[r, label]
                bins[code, label, 0] += g[r, label]
                for a in range(width - 1):
                    bins[code, label, 1 + a] += weight * np.float32(answers[r, a])


@kernel
def score_newcomer(sums, M, push, inverse, least, mu, gains, norms):
    """Write the gains of one newcomer in the place of each slot; gains[0] is that of an addition.

    ``sums`` holds e_l and x_l, ``push`` = W_al / M_l,aa and ``inverse`` = 1 / M_l,aa.
    """
    n_classes, p = push.shape
    R = np.empty(p, np.float32)
    gains[:] = 0.0
    norms[:] = 0.0
    for label in range(n_classes):
        edge, own = sums[label, 0], np.float32(0.0)
        for a in range(p):
            total = np.float32(0.0)
            for b in range(p):
                total += M[label, a, b] * sums[label, 1 + b]
            R[a] = total
        own = least[label, 0]
        for a in range(p):
            own -= R[a] * sums[label, 1 + a]
        own = max(own, np.float32(0.0))
        for a in range(p):  # the constant stays: its place is that of an addition
            top, below = edge, own
            if a > 0:
                top += R[a] * push[label, a]
                below += R[a] * R[a] * inverse[label, a]
            if below > least[label, 1]:
                gains[a] += 0.5 * top * top / below
                norms[a] += (top / below) * (top / below)
    for a in range(p):
        if gains[a] > 0.0:
            kept = max(1.0 - 0.5 * mu * math.sqrt(norms[a]) / gains[a], 0.0)
            gains[a] *= kept * kept


@kernel
def score_joint_swaps(
    codes, rows, offsets, first, last, answers, g, q, M, push, inverse, least, mu, best, newcomers
):
    """Find the best newcomer for each slot, and at place 0 the best addition.

    ``least`` holds per class the sum of q and the share of it that the slots must leave of a
    newcomer. Writes gains, to which what leaving slots cost comes on top, and places of cuts.
    """
    n_classes, p = push.shape
    total = np.zeros((n_classes, p + 1), np.float32)
    for r in range(rows.shape[0]):
        for label in range(n_classes):
            total[label, 0] += g[r, label]
            for a in range(p):
                total[label, 1 + a] += q[r, label] * np.float32(answers[r, a])
    sums = np.empty((n_classes, p + 1), np.float32)
    gains, norms = np.empty(p), np.empty(p)
    for f in range(first, last):
        start, n_cuts = offsets[f], offsets[f + 1] - offsets[f]
        bins = np.zeros((n_cuts, n_classes, p + 1), np.float32)
        add_to_bins(codes[f], rows, answers, g, q, bins)
        sums[:] = total
        for cut in range(n_cuts):
            for label in range(n_classes):
                for a in range(p + 1):
                    sums[label, a] -= np.float32(2.0) * bins[cut, label, a]
            score_newcomer(sums, M, push, inverse, least, mu, gains, norms)
            for a in range(p):
                if gains[a] > best[a]:
                    best[a] = gains[a]
                    newcomers[a] = start + cut


@kernel
def score_joint_sets(sums, fees, M, push, inverse, least, mu, best, newcomers, start):
    """Do the same for newcomers whose sums are known, each with a fee; the first is ``start``."""
    p = push.shape[1]
    gains, norms = np.empty(p), np.empty(p)
    for s in range(sums.shape[0]):
        score_newcomer(sums[s], M, push, inverse, least, mu, gains, norms)
        for a in range(p):
            if gains[a] - fees[s] > best[a]:
                best[a] = gains[a] - fees[s]
                newcomers[a] = start + s
