"""The stump oracle's inner loop: histograms of boosting weights, then a scan of the cuts.

For each feature, examples fall into bins by their rank code; the histogram holds the sums
of g = u y and of h (the curvature) per bin. A cut after bin b sends larger codes right.
"""

from __future__ import annotations

import math

import numpy as np

from totalqboost.kernels.jit import kernel

BY_EDGE = 0  # sum_i u_i y_i h(x_i): the most violated dual constraint, line 7
BY_EXPONENTIAL_DECREASE = 1  # f - Z: exact decrease together with a free intercept
BY_NEWTON_DECREASE = 2  # second-order decrease together with a free intercept


@kernel
def leaf_value(rule, g, h, tie):
    """Return what a leaf with sums g and h contributes to the decrease of the risk.

    Exponential loss: the leaf's weights of the two classes are (h + g)/2 and (h - g)/2,
    and its best constant leaves 2 sqrt(W+ W-) of the risk h. A class of no more weight than
    rounding (``tie``) is absent: the root would magnify it. Otherwise: the Newton
    decrease g^2 / 2h.
    """
    if rule == BY_EXPONENTIAL_DECREASE:
        minority = 0.5 * (h - abs(g))
        return h - 2.0 * math.sqrt(minority * (h - minority)) if minority > tie else h
    return 0.5 * g * g / h if h > 0.0 else 0.0


@kernel
def fill_histogram(codes, g, h, hist):
    """Add g and h of every example to its bin."""
    for i in range(codes.shape[0]):
        b = codes[i]
        hist[b, 0] += g[i]
        hist[b, 1] += h[i]


@kernel
def best_cuts(
    codes, n_codes, g, h, rule, blocked_start, blocked, tie, first, last, prices, keys, edges
):
    """Write the best cuts of features first..last-1, best first, at most prices.shape[1] each.

    A key is 2 cut + (0 for polarity +1, 1 for -1). ``blocked`` lists the keys that may not
    be offered, sorted, feature f's from blocked_start[f] on. A later cut replaces an
    earlier one only if its price is larger by more than ``tie``. Free places keep key -1.
    """
    n_best = prices.shape[1]
    hist = np.empty((n_codes.max(), 2))
    for f in range(first, last):
        bins = n_codes[f]
        hist[:bins] = 0.0
        fill_histogram(codes[f], g, h, hist)
        total_g, total_h = 0.0, 0.0
        for b in range(bins):
            total_g += hist[b, 0]
            total_h += hist[b, 1]
        left_g, left_h = 0.0, 0.0
        block = blocked_start[f]
        for cut in range(bins - 1):
            left_g += hist[cut, 0]
            left_h += hist[cut, 1]
            edge = total_g - 2.0 * left_g  # of polarity +1
            decrease = 0.0
            if rule != BY_EDGE:
                right_g, right_h = total_g - left_g, total_h - left_h
                decrease = leaf_value(rule, left_g, left_h, tie)
                decrease += leaf_value(rule, right_g, right_h, tie)
                positive = right_g * left_h >= left_g * right_h
            reach = decrease if rule != BY_EDGE else abs(edge)
            if keys[f, n_best - 1] >= 0 and reach <= prices[f, n_best - 1] + tie:
                continue
            for side in range(2):
                key = 2 * cut + side
                while block < blocked_start[f + 1] and blocked[block] < key:
                    block += 1
                if block < blocked_start[f + 1] and blocked[block] == key:
                    continue
                if rule == BY_EDGE:
                    price = edge if side == 0 else -edge
                else:
                    if positive != (side == 0):
                        continue  # a weight below zero would be needed
                    price = decrease
                place = n_best
                while place > 0 and (keys[f, place - 1] < 0 or price > prices[f, place - 1] + tie):
                    place -= 1
                if place == n_best:
                    continue
                for q in range(n_best - 1, place, -1):
                    prices[f, q] = prices[f, q - 1]
                    keys[f, q] = keys[f, q - 1]
                    edges[f, q] = edges[f, q - 1]
                prices[f, place] = price
                keys[f, place] = key
                edges[f, place] = edge if side == 0 else -edge
